"""Numba twins for NumPy arrays; threads share the particles (or the rows), never an output."""

from __future__ import annotations

import functools

import numpy as np
from numba import njit

from gpukfl._accel.threads import in_chunks


def sort_rows(A: np.ndarray, /) -> tuple[np.ndarray, np.ndarray]:
    """Sort each row of `A` (m, n): values and int32 order."""
    values = np.empty_like(A, order="C")
    order = np.empty(A.shape, dtype=np.int32)

    def body(_: int, start: int, stop: int) -> None:
        for j in range(start, stop):
            permutation = np.argsort(A[j])
            order[j] = permutation
            np.take(A[j], permutation, out=values[j], mode="clip")

    in_chunks(A.shape[0], A.size, body)
    return values, order


def ridge_sums(values: np.ndarray, order: np.ndarray, V: np.ndarray, /) -> np.ndarray:
    """Twin of `gpukfl.linalg.ridge_sums`."""
    total = np.empty(V.shape, dtype=np.float64)
    for c in range(V.shape[1]):  # one column a pass: wider rows were measured to be no faster
        total[:, c] = _ridge_sums_of_column(values, order, V[:, c])
    return total


def _ridge_sums_of_column(values: np.ndarray, order: np.ndarray, v: np.ndarray, /) -> np.ndarray:
    m, n = order.shape
    sums: dict[int, np.ndarray] = {}

    def body(chunk: int, start: int, stop: int) -> None:
        # A sample's value and its sum lie side by side, so that the random access of the
        # gather also brings in the line that the scatter writes.
        buffer = np.zeros((n, 2))
        buffer[:, 0] = v
        _ridge_sums(values, order, buffer, start, stop)
        sums[chunk] = buffer[:, 1]

    chunks = in_chunks(m, m * n, body)
    return functools.reduce(np.add, [sums[chunk] for chunk in range(chunks)])


@njit(nogil=True, cache=True)
def _ridge_sums(values, order, buffer, start, stop):
    for j in range(start, stop):
        mass = 0.0
        level = 0.0
        last = np.float64(values[j, 0])
        for k in range(order.shape[1]):
            i = order[j, k]
            here = np.float64(values[j, k])
            level -= mass * (here - last)
            buffer[i, 1] += level
            mass += buffer[i, 0]
            last = here


def ridge_curves(values: np.ndarray, order: np.ndarray, V: np.ndarray, /) -> np.ndarray:
    """Twin of `gpukfl.linalg.ridge_curves`."""
    m, n = order.shape
    out = np.empty((m, n, V.shape[1]))
    in_chunks(m, m * n, lambda _, a, b: _ridge_curves(values, order, V, out, a, b))
    return out


@njit(nogil=True, cache=True)
def _ridge_curves(values, order, V, out, start, stop):
    t = V.shape[1]
    mass = np.empty(t)
    for j in range(start, stop):
        mass[:] = 0.0
        out[j, 0, :] = 0.0
        for k in range(1, order.shape[1]):
            gap = np.float64(values[j, k]) - np.float64(values[j, k - 1])
            for c in range(t):
                mass[c] += V[order[j, k - 1], c]
                out[j, k, c] = out[j, k - 1, c] - mass[c] * gap


def sign_products(values: np.ndarray, order: np.ndarray, Z: np.ndarray, /) -> np.ndarray:
    """Twin of `gpukfl.linalg.sign_products`."""
    m, n = order.shape
    out = np.zeros((m, n), dtype=Z.dtype)
    for c in range(Z.shape[1]):
        z = Z[:, c].astype(np.float64)
        in_chunks(m, m * n, functools.partial(_add_sign_products, values, order, z, out))
    return out


@njit(nogil=True, cache=True)
def _add_sign_products(values, order, z, out, _, start, stop):
    n = z.shape[0]
    total = z.sum()
    for j in range(start, stop):
        if values[j, 0] == values[j, n - 1]:  # all tied: exactly nothing
            continue
        below = 0.0
        k = 0
        while k < n:
            ties = z[order[j, k]]
            end = k + 1  # also where the value is NaN, which equals nothing
            while end < n and values[j, end] == values[j, k]:
                ties += z[order[j, end]]
                end += 1
            for tie in range(k, end):
                i = order[j, tie]
                out[j, i] += z[i] * (2.0 * below + ties - total)
            below += ties
            k = end


def absolute_differences(A: np.ndarray, /) -> np.ndarray:
    """Twin of `gpukfl.linalg.absolute_differences`."""
    n = A.shape[1]
    out = np.zeros((n, n))
    in_chunks(n, A.size * n // 2, lambda _, a, b: _absolute_differences(A, out, a, b))
    return out


@njit(nogil=True, cache=True)
def _absolute_differences(A, out, start, stop):
    for i in range(start, stop):
        for j in range(A.shape[0]):
            a = A[j, i]
            for k in range(A.shape[1]):
                out[i, k] += abs(A[j, k] - a)


def encode(
    A: np.ndarray, low: np.ndarray, gap: np.ndarray, n_knots: int, shift: int, rounded: bool, /
) -> np.ndarray:
    """Twin of the generic form behind `gpukfl.linalg.Positions.of`."""
    out = np.empty(A.shape, dtype=np.int32)
    body = functools.partial(_encode, A, low, gap, n_knots - 1, shift, rounded, out)
    in_chunks(A.shape[0], A.size, body)
    return out


@njit(nogil=True, cache=True)
def _encode(A, low, gap, last, shift, rounded, out, _, start, stop):
    cells = np.float64(1 << shift)
    for j in range(start, stop):
        first, step = low[j], gap[j]
        for i in range(A.shape[1]):
            p = (np.float64(A[j, i]) - first) / step
            if not p >= 0.0:  # also NaN, which must not become an index
                p = 0.0
            p = min(p, np.float64(last))
            if rounded:
                p = np.float64(np.int32(p))
            out[j, i] = np.int32(p * cells)


def bin_sums(codes: np.ndarray, shift: int, n_knots: int, V: np.ndarray, /) -> np.ndarray:
    """Twin of `gpukfl.linalg.bin_sums`."""
    m, n = codes.shape
    out = np.zeros((V.shape[1], m, n_knots + 1))  # one knot more, for what never moves on
    for c in range(V.shape[1]):
        v = np.ascontiguousarray(V[:, c], dtype=np.float64)
        body = functools.partial(_bin_sums, codes.view(np.uint32), np.uint32(shift), v, out[c])
        in_chunks(m, m * n, body)
    return np.moveaxis(out[:, :, :n_knots], 0, 2)


@njit(nogil=True, cache=True)
def _bin_sums(codes, shift, v, out, _, start, stop):
    mask = np.uint32((1 << shift) - 1)
    scale = 1.0 / (1 << shift)
    for j in range(start, stop):
        bins = out[j]
        for i in range(codes.shape[1]):
            code = codes[j, i]
            cell = np.uint64(code >> shift)  # unsigned: no test for negative indices
            moved = np.float64(np.int32(code & mask)) * scale * v[i]
            bins[cell] += v[i] - moved
            bins[cell + np.uint64(1)] += moved


def interpolate_bins(codes: np.ndarray, shift: int, U: np.ndarray, /) -> np.ndarray:
    """Twin of `gpukfl.linalg.interpolate_bins`."""
    m, n = codes.shape
    out = np.zeros((U.shape[2], n))
    padded = np.concatenate([U, U[:, -1:, :]], axis=1)
    for c in range(U.shape[2]):
        u = np.ascontiguousarray(padded[:, :, c])
        body = functools.partial(
            _interpolate_bins, codes.view(np.uint32), np.uint32(shift), u, out[c]
        )
        in_chunks(n, m * n, body)
    return out.T


@njit(nogil=True, cache=True)
def _interpolate_bins(codes, shift, u, out, _, start, stop):
    mask = np.uint32((1 << shift) - 1)
    scale = 1.0 / (1 << shift)
    strip = 4096  # samples whose sums stay in cache while the particles pass
    for first in range(start, stop, strip):
        for j in range(codes.shape[0]):
            knots = u[j]
            for i in range(first, min(first + strip, stop)):
                code = codes[j, i]
                cell = np.uint64(code >> shift)
                left = knots[cell]
                share = np.float64(np.int32(code & mask)) * scale
                out[i] += left + share * (knots[cell + np.uint64(1)] - left)


def bin_products(codes: np.ndarray, shift: int, S: np.ndarray, Z: np.ndarray, /) -> np.ndarray:
    """Twin of `gpukfl.linalg.bin_products`."""
    m, n = codes.shape
    out = np.zeros((m, n), dtype=Z.dtype)
    padded = np.concatenate([S, S[:, -1:, :]], axis=1)
    for c in range(Z.shape[1]):
        z = np.ascontiguousarray(Z[:, c], dtype=np.float64)
        signed = np.ascontiguousarray(padded[:, :, c])
        body = functools.partial(
            _bin_products, codes.view(np.uint32), np.uint32(shift), signed, z, out
        )
        in_chunks(m, m * n, body)
    return out


@njit(nogil=True, cache=True)
def _bin_products(codes, shift, s, z, out, _, start, stop):
    mask = np.uint32((1 << shift) - 1)
    scale = 1.0 / (1 << shift)
    for j in range(start, stop):
        knots = s[j]
        for i in range(codes.shape[1]):
            code = codes[j, i]
            cell = np.uint64(code >> shift)
            left = knots[cell]
            share = np.float64(np.int32(code & mask)) * scale
            out[j, i] += z[i] * (left + share * (knots[cell + np.uint64(1)] - left))


def pair_counts(
    codes: np.ndarray, shift: int, n_knots: int, weights: np.ndarray | None, /
) -> np.ndarray:
    """Twin of `gpukfl.linalg.pair_counts`."""
    m, n = codes.shape
    cells = (codes >> shift).astype(np.uint8 if n_knots <= 256 else np.uint32)
    out = np.zeros((m, n_knots, m, n_knots))
    first, second = np.triu_indices(m)
    w = None if weights is None else np.ascontiguousarray(weights[:, 0], dtype=np.float64)
    body = functools.partial(_pair_counts, cells, w, first, second, out)
    in_chunks(len(first), n * len(first), body)
    return out.reshape(m * n_knots, m * n_knots)


@njit(nogil=True, cache=True)
def _pair_counts(cells, w, first, second, out, _, start, stop):
    q = out.shape[1]
    table = np.empty((q, q))
    for pair in range(start, stop):
        j, k = first[pair], second[pair]
        table[:] = 0.0
        a, b = cells[j], cells[k]
        if w is None:
            for i in range(cells.shape[1]):
                table[np.uint64(a[i]), np.uint64(b[i])] += 1.0
        else:
            for i in range(cells.shape[1]):
                table[np.uint64(a[i]), np.uint64(b[i])] += w[i]
        out[j, :, k, :] = table
        out[k, :, j, :] = table.T


def interpolate_knots(A: np.ndarray, knots: np.ndarray, values: np.ndarray, /) -> np.ndarray:
    """Twin of `gpukfl.linalg.interpolate_knots`."""
    out = np.zeros((A.shape[1], values.shape[2]))
    in_chunks(A.shape[1], A.size, lambda _, a, b: _interpolate_knots(A, knots, values, out, a, b))
    return out


@njit(nogil=True, cache=True)
def _interpolate_knots(A, knots, values, out, start, stop):
    q = knots.shape[1]
    for j in range(A.shape[0]):
        for i in range(start, stop):
            a = A[j, i]
            low, high = 0, q  # the last knot at or left of a is low
            while high - low > 1:
                middle = (low + high) // 2
                if knots[j, middle] <= a:
                    low = middle
                else:
                    high = middle
            right = 0.0
            if low < q - 1 and a > knots[j, low]:
                right = (a - knots[j, low]) / (knots[j, low + 1] - knots[j, low])
            up = min(low + 1, q - 1)
            for c in range(values.shape[2]):
                left = values[j, low, c]
                out[i, c] += left + right * (values[j, up, c] - left)


def keep_knots(knots: np.ndarray, values: np.ndarray, tolerance: float, /) -> np.ndarray:
    """Twin of `gpukfl.methods._shapes.keep_knots`."""
    m, n = knots.shape
    kept = np.ones((m, n), dtype=np.bool_)
    body = functools.partial(_keep_knots, knots, values, tolerance, kept)
    in_chunks(m, m * n, body)
    return kept


@njit(nogil=True, cache=True)
def _keep_knots(knots, values, tolerance, kept, _, start, stop):
    n = knots.shape[1]
    widest = 1
    while widest < n - 1:
        widest *= 2
    for j in range(start, stop):
        first = 0
        width = widest
        while first < n - 1:
            # Largest aligned block that starts here and is straight
            last = min(first + width, n - 1)
            if width == 1 or _is_straight(knots[j], values[j], first, last, tolerance):
                kept[j, first + 1 : last] = False
                first = first + width
                while first % (2 * width) == 0 and width < widest:
                    width *= 2
            else:
                width //= 2


@njit(nogil=True, cache=True)
def _is_straight(a, v, first, last, tolerance):
    gap = np.float64(a[last] - a[first])
    for k in range(first + 1, last):
        share = np.float64(a[k] - a[first]) / (gap if gap > 0 else 1.0)
        for c in range(v.shape[1]):
            chord = v[first, c] + share * (v[last, c] - v[first, c])
            if not abs(v[k, c] - chord) <= tolerance:
                return False
    return True
