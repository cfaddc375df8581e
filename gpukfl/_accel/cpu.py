"""Numba twins for NumPy arrays; threads share the particles (or the rows), never an output.

Every loop releases the GIL and runs in Python threads: no OpenMP or TBB runtime that would
break in forked workers, and the split is fixed by the number of threads, so results repeat.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit

_SERIAL_BELOW = 200_000  # elements; starting threads costs about what this many elements cost


def n_threads() -> int:
    """Threads to use: ``GPUKFL_NUM_THREADS``, or every core this process may run on."""
    wanted = os.environ.get("GPUKFL_NUM_THREADS")
    if wanted:
        return max(1, int(wanted))
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_chunks(n_items: int, elements: int, body: Callable[[int, int, int], None], /) -> int:
    """Call ``body(chunk, start, stop)`` over a fixed split of the items; return the chunks."""
    chunks = 1 if elements < _SERIAL_BELOW else min(n_threads(), n_items)
    if chunks <= 1:
        body(0, 0, n_items)
        return 1
    edges = np.linspace(0, n_items, chunks + 1).astype(int).tolist()
    list(_pool(chunks, os.getpid()).map(body, range(chunks), edges[:-1], edges[1:]))
    return chunks


@functools.lru_cache(maxsize=2)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:  # noqa: ARG001
    """Threads kept for the next call; a forked process, which inherits none, starts its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="gpukfl")


def sort_rows(A: np.ndarray, /) -> tuple[np.ndarray, np.ndarray]:
    """Sort each row of `A` (m, n): values and int32 order.

    Sorting integers is several times faster than sorting indices, so a value's place between the
    ends and its index are sorted as one integer, and what the place rounded is put right after.
    """
    values = np.empty_like(A, order="C")
    order = np.empty(A.shape, dtype=np.int32)

    def body(_: int, start: int, stop: int) -> None:
        packed = np.empty(A.shape[1], dtype=np.uint64)
        for j in range(start, stop):
            if _pack(A[j], packed):
                packed.sort()
                if _unpack(A[j], packed, values[j], order[j]):
                    continue
            permutation = np.argsort(A[j])
            order[j] = permutation
            np.take(A[j], permutation, out=values[j], mode="clip")

    in_chunks(A.shape[0], A.size, body)
    return values, order


@njit(nogil=True, cache=True)
def _index_bits(n):
    bits = 14  # leaves 50 for the place, which a float64 counts exactly
    while (1 << bits) < n:
        bits += 1
    return bits


@njit(nogil=True, cache=True)
def _pack(a, packed):
    """Put place and index into integers; False where the place says nothing."""
    bits = _index_bits(a.shape[0])
    first = last = np.float64(a[0])
    for i in range(a.shape[0]):
        here = np.float64(a[i])
        if np.isnan(here):
            return False
        first, last = min(first, here), max(last, here)
    scale = (2.0 ** (64 - bits) - 1.0) / (last - first) if last > first else 0.0
    if not (np.isfinite(last - first) and np.isfinite(scale)):
        return False
    for i in range(a.shape[0]):
        place = np.uint64(np.int64((np.float64(a[i]) - first) * scale))
        packed[i] = (place << np.uint64(bits)) | np.uint64(i)
    return True


@njit(nogil=True, cache=True)
def _unpack(a, packed, values, order):
    """Sort by insertion what has the same place; False where that takes too many moves."""
    mask = (np.uint64(1) << np.uint64(_index_bits(a.shape[0]))) - np.uint64(1)
    spare = 4 * a.shape[0]
    for k in range(a.shape[0]):
        i = packed[k] & mask
        here = a[i]
        to = k
        while to > 0 and values[to - 1] > here:
            values[to], order[to] = values[to - 1], order[to - 1]
            to -= 1
        values[to], order[to] = here, np.int32(i)
        spare -= k - to
        if spare < 0:
            return False
    return True


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
        buffer = np.empty((n, 2))
        buffer[:, 0] = v
        buffer[:, 1] = 0.0
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
    out = np.empty((m, n), dtype=Z.dtype)  # in huge pages, which zeros would not be
    for c in range(Z.shape[1]):
        z = Z[:, c].astype(np.float64)
        body = functools.partial(_add_sign_products, values, order, z, c == 0, out)
        in_chunks(m, m * n, body)
    return out


@njit(nogil=True, cache=True)
def _add_sign_products(values, order, z, first, out, _, start, stop):
    n = z.shape[0]
    total = z.sum()
    buffer = np.empty((n, 2))  # a weight beside its product, as in the ridge sums
    buffer[:, 0] = z
    for j in range(start, stop):
        if first:
            out[j, :] = 0.0
        if values[j, 0] == values[j, n - 1]:  # all tied: exactly nothing
            continue
        below = 0.0
        k = 0
        while k < n:
            ties = buffer[order[j, k], 0]
            end = k + 1  # also where the value is NaN, which equals nothing
            while end < n and values[j, end] == values[j, k]:
                ties += buffer[order[j, end], 0]
                end += 1
            for tie in range(k, end):
                i = order[j, tie]
                buffer[i, 1] = buffer[i, 0] * (2.0 * below + ties - total)
            below += ties
            k = end
        for i in range(n):
            out[j, i] += buffer[i, 1]


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
    A: np.ndarray, low: np.ndarray, gap: np.ndarray, n_knots: int, shift: int, /
) -> np.ndarray:
    """Twin of the generic form behind `gpukfl.linalg.Positions.of`."""
    out = np.empty(A.shape, dtype=np.int32)
    body = functools.partial(_encode, A, low, gap, n_knots - 1, shift, out)
    in_chunks(A.shape[0], A.size, body)
    return out


@njit(nogil=True, cache=True)
def _encode(A, low, gap, last, shift, out, _, start, stop):
    cells = np.float64(1 << shift)
    for j in range(start, stop):
        first, step = low[j], gap[j]
        for i in range(A.shape[1]):
            p = (np.float64(A[j, i]) - first) / step
            if not p >= 0.0:  # also NaN, which must not become an index
                p = 0.0
            p = min(p, np.float64(last))
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
    strip = 16384  # samples whose sums stay in cache while the particles pass
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


def pair_sums(
    codes: np.ndarray, shift: int, n_knots: int, weights: np.ndarray | None, /
) -> np.ndarray:
    """Twin of `gpukfl.linalg.pair_sums`."""
    m, n = codes.shape
    out = np.zeros((m, n_knots, m, n_knots))
    first, second = np.triu_indices(m)
    if weights is None and n < 1 << max(0, 32 - 2 * shift):
        w = np.empty(0)
    else:
        w = np.ones(n) if weights is None else weights[:, 0].astype(np.float64)
    body = functools.partial(
        _pair_sums, codes.view(np.uint32), np.uint32(shift), w, first, second, out
    )
    in_chunks(len(first), n * len(first), body)
    return out.reshape(m * n_knots, m * n_knots)


@njit(nogil=True, cache=True)
def _pair_sums(codes, shift, w, first, second, out, _, start, stop):
    q = out.shape[1]
    # For a pair of cells, sums of 1, of either share and of their product, side by side
    moments = np.empty((q, q, 4))
    counts = np.empty((q, q, 2), dtype=np.uint64)
    for pair in range(start, stop):
        j, k = first[pair], second[pair]
        if w.shape[0] == 0:
            _count_moments(codes[j], codes[k], shift, counts, moments)
        else:
            _weigh_moments(codes[j], codes[k], shift, w, moments)
        _spread_moments(moments, out[j, :, k, :])
        out[k, :, j, :] = out[j, :, k, :].T


@njit(nogil=True, cache=True)
def _count_moments(a, b, shift, counts, moments):
    """Sum in integers of two halves each, because storing twice costs less than four times."""
    mask = np.uint32((1 << shift) - 1)
    half = np.uint64(32)
    counts[:] = 0
    for i in range(a.shape[0]):
        one = np.uint64(1) | (np.uint64(a[i] & mask) << half)
        cell = counts[np.uint64(a[i] >> shift), np.uint64(b[i] >> shift)]
        cell[0] += one
        cell[1] += one * np.uint64(b[i] & mask)
    scale = 1.0 / (1 << shift)
    low = np.uint64(2**32 - 1)
    moments[:, :, 0] = (counts[:, :, 0] & low).astype(np.float64)
    moments[:, :, 1] = (counts[:, :, 0] >> half).astype(np.float64) * scale
    moments[:, :, 2] = (counts[:, :, 1] & low).astype(np.float64) * scale
    moments[:, :, 3] = (counts[:, :, 1] >> half).astype(np.float64) * scale**2


@njit(nogil=True, cache=True)
def _weigh_moments(a, b, shift, w, moments):
    mask = np.uint32((1 << shift) - 1)
    scale = 1.0 / (1 << shift)
    moments[:] = 0.0
    for i in range(a.shape[0]):
        left = w[i] * scale * np.float64(np.int32(a[i] & mask))
        right = scale * np.float64(np.int32(b[i] & mask))
        cell = moments[np.uint64(a[i] >> shift), np.uint64(b[i] >> shift)]
        cell[0] += w[i]
        cell[1] += left
        cell[2] += w[i] * right
        cell[3] += left * right


@njit(nogil=True, cache=True)
def _spread_moments(moments, out):
    q = out.shape[0]
    for a in range(q):
        for b in range(q):
            whole, left, right, both = moments[a, b]
            out[a, b] += whole - left - right + both
            if a + 1 < q:
                out[a + 1, b] += left - both
            if b + 1 < q:
                out[a, b + 1] += right - both
            if a + 1 < q and b + 1 < q:
                out[a + 1, b + 1] += both


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
