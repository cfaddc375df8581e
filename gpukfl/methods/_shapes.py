"""Learned shape functions: piecewise-linear, thinned to a stated error."""

from __future__ import annotations

from dataclasses import dataclass

from gpukfl._array import Array, array_namespace, clipped, double_like, hosts, index_like, is_host
from gpukfl._memory import block_size, for_blocks
from gpukfl.linalg import interpolate_knots

_BYTES = 160  # that thinning takes at once for each knot


@dataclass(frozen=True, eq=False)
class ShapeFunctions:
    r"""The functions :math:`g_j` of :math:`f(x) = c + \frac1m \sum_j g_j(w_j^\top x)`.

    Each is linear between its knots and constant beyond the first and the last, as the minimiser
    of the ridge problem is. Functions with fewer knots repeat their last one.
    """

    knots: Array  # (m, q), ascending
    values: Array  # (m, q, t)

    def __len__(self) -> int:
        return self.knots.shape[0]

    def mean(self, A: Array, /) -> Array:
        """Average the functions at the projections `A` (m, n): (n, t), in the dtype of `A`."""
        xp = array_namespace(A)
        total = interpolate_knots(A, self.knots, self.values)
        return xp.astype(total / len(self), A.dtype)

    @classmethod
    def thinned(cls, knots: Array, values: Array, tolerance: float, /) -> ShapeFunctions:
        """Keep enough of the knots (m, n) for an error of at most `tolerance` everywhere.

        Values are (m, n, t). O(m n log n), some functions at a time.
        """
        (m, n), t = knots.shape, values.shape[2]
        parts: list[ShapeFunctions] = []

        def body(start: int, stop: int) -> None:
            block = knots[start:stop, :], values[start:stop, ...]
            kept = keep_knots(*block, tolerance)
            parts.append(cls(*_only(*block, kept)))

        each = {"bytes_each": _BYTES * n, "elements_each": n * t}
        for_blocks(m, block_size(knots, **each, at_most=m), body)
        q = max(part.knots.shape[1] for part in parts)
        xp = array_namespace(knots)
        return cls(
            xp.concat([_repeating_last(part.knots, q) for part in parts], axis=0),
            xp.concat([_repeating_last(part.values, q) for part in parts], axis=0),
        )


def _only(knots: Array, values: Array, kept: Array, /) -> tuple[Array, Array]:
    """Knots and values that are kept, the last one repeated where others have more."""
    xp = array_namespace(knots)
    counts = xp.sum(xp.astype(kept, index_like(knots)["dtype"]), axis=1)
    q, n = int(xp.max(counts)), knots.shape[1]
    dropped_last = xp.argsort(xp.astype(~kept, xp.int8), axis=1, stable=True)[:, :q]
    slots = xp.arange(q, **index_like(knots))
    index = xp.where(
        slots[None, :] < counts[:, None], dropped_last, xp.full_like(dropped_last, n - 1)
    )
    by_target = [xp.take_along_axis(values[..., c], index, axis=1) for c in range(values.shape[2])]
    return xp.take_along_axis(knots, index, axis=1), xp.stack(by_target, axis=2)


def _repeating_last(x: Array, q: int, /) -> Array:
    """Lengthen the second axis to q by its last entry."""
    xp = array_namespace(x)
    there = x.shape[1]
    if there == q:
        return x
    slots = xp.arange(q, **index_like(x))
    last = xp.full_like(slots, there - 1)
    return xp.take(x, xp.where(slots < there, slots, last), axis=1)


def keep_knots(knots: Array, values: Array, tolerance: float, /) -> Array:
    """Mark the knots (m, n) that stay.

    A knot goes when it lies inside a dyadic block of knots on which every function stays within
    `tolerance` of the chord; the two ends always stay.
    """
    if is_host(knots):
        from gpukfl._accel import cpu

        return cpu.keep_knots(*hosts(knots, values), tolerance)
    return _keep_knots(knots, values, tolerance)


def _keep_knots(knots: Array, values: Array, tolerance: float, /) -> Array:
    xp = array_namespace(knots)
    m, n = knots.shape
    number = xp.arange(n, **index_like(knots))
    dropped = xp.zeros((m, n), dtype=xp.bool, device=index_like(knots)["device"])
    width = 2
    while width // 2 < n - 1:
        inside = (number % width != 0) & (number != n - 1)
        straight = _is_straight(knots, values, number, width, tolerance)
        dropped = dropped | (inside[None, :] & straight)
        width *= 2
    return ~dropped


def _is_straight(knots: Array, values: Array, number: Array, width: int, tolerance: float) -> Array:
    """Whether each knot's dyadic block of `width` is within `tolerance` of its chord: (m, n)."""
    xp = array_namespace(knots)
    m, n = knots.shape
    first = (number // width) * width
    last = clipped(first + width, high=n - 1)
    a0, a1 = xp.take(knots, first, axis=1), xp.take(knots, last, axis=1)
    gap = xp.astype(a1 - a0, xp.float64)
    share = xp.astype(knots - a0, xp.float64) / xp.where(gap > 0, gap, xp.ones_like(gap))
    worst = xp.zeros((m, n), **double_like(knots))
    for c in range(values.shape[2]):
        v0, v1 = xp.take(values[..., c], first, axis=1), xp.take(values[..., c], last, axis=1)
        worst = xp.maximum(worst, xp.abs(values[..., c] - v0 - share * (v1 - v0)))
    blocks = -(-n // width)
    padding = xp.zeros((m, blocks * width - n), **double_like(knots))
    padded = xp.reshape(xp.concat([worst, padding], axis=1), (m, blocks, width))
    return xp.take(xp.max(padded, axis=2) <= tolerance, number // width, axis=1)
