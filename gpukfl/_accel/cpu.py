"""Numba twins for NumPy arrays; threads share the particles (or the rows), never an output."""

from __future__ import annotations

import functools

import numpy as np

from gpukfl._accel.compiled import contiguous, njit, read_only_arguments
from gpukfl._accel.threads import run_in_chunks

_NEAR = 1024  # points of a column that are looked up one after the other, while its table is near


@read_only_arguments
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

    run_in_chunks(A.shape[0], A.size, body)
    return values, order


@njit(nogil=True, cache=True)
def _index_bits(n):
    bits = 14  # leaves 50 for the place, which a float64 counts exactly
    while (1 << bits) < n:
        bits += 1
    return bits


@njit(nogil=True, cache=True)
def _pack(a, packed):
    """Pack position and index into integers; return False if values have no position."""
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
    """Sort equal positions by insertion; return False if that takes too many moves."""
    mask = (np.uint64(1) << np.uint64(_index_bits(a.shape[0]))) - np.uint64(1)
    for k in range(a.shape[0]):  # a loop of its own: the random accesses then overlap
        i = packed[k] & mask
        values[k], order[k] = a[i], np.int32(i)
    spare = 4 * a.shape[0]
    for k in range(1, a.shape[0]):
        here = values[k]
        if values[k - 1] <= here:
            continue
        i, to = order[k], k
        while to > 0 and values[to - 1] > here:
            values[to], order[to] = values[to - 1], order[to - 1]
            to -= 1
        values[to], order[to] = here, i
        spare -= k - to
        if spare < 0:
            return False
    return True


@read_only_arguments
def ridge_sums(values: np.ndarray, order: np.ndarray, V: np.ndarray, /) -> np.ndarray:
    """Twin of `gpukfl.linalg.ridge_sums`."""
    total = np.empty(V.shape, dtype=np.float64)
    for c in range(V.shape[1]):  # one column a pass: wider rows were measured to be no faster
        total[:, c] = _column_ridge_sums(values, order, V[:, c])
    return total


def _column_ridge_sums(values: np.ndarray, order: np.ndarray, v: np.ndarray, /) -> np.ndarray:
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

    chunks = run_in_chunks(m, m * n, body)
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


@read_only_arguments
def ridge_curves(values: np.ndarray, order: np.ndarray, V: np.ndarray, /) -> np.ndarray:
    """Twin of `gpukfl.linalg.ridge_curves`."""
    m, n = order.shape
    out = np.empty((m, n, V.shape[1]))
    run_in_chunks(m, m * n, lambda _, a, b: _ridge_curves(values, order, V, out, a, b))
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


@read_only_arguments
def sign_products(values: np.ndarray, order: np.ndarray, Z: np.ndarray, /) -> np.ndarray:
    """Twin of `gpukfl.linalg.sign_products`."""
    m, n = order.shape
    out = np.empty((m, n), dtype=Z.dtype)  # in huge pages, which zeros would not be
    for c in range(Z.shape[1]):
        z = Z[:, c].astype(np.float64)

        def body(_: int, start: int, stop: int, z: np.ndarray = z, first: bool = c == 0) -> None:
            buffer = np.empty((n, 2))  # here, because compiled code would not ask for huge pages
            buffer[:, 0] = z  # a weight beside its product, as in the ridge sums
            _add_sign_products(values, order, buffer, z.sum(), first, out, start, stop)

        run_in_chunks(m, m * n, body)
    return out


@njit(nogil=True, cache=True)
def _add_sign_products(values, order, buffer, total, first, out, start, stop):
    n = buffer.shape[0]
    for j in range(start, stop):
        if values[j, 0] == values[j, n - 1]:  # all tied: exactly nothing
            if first:
                out[j, :] = 0.0
            continue
        below = 0.0
        k = 0
        while k < n:
            i = order[j, k]
            ties = buffer[i, 0]
            end = k + 1  # also where the value is NaN, which equals nothing
            if end == n or values[j, end] != values[j, k]:
                buffer[i, 1] = ties * (2.0 * below + ties - total)
                below += ties
                k = end
                continue
            while end < n and values[j, end] == values[j, k]:
                ties += buffer[order[j, end], 0]
                end += 1
            for tie in range(k, end):
                i = order[j, tie]
                buffer[i, 1] = buffer[i, 0] * (2.0 * below + ties - total)
            below += ties
            k = end
        for i in range(n):
            out[j, i] = buffer[i, 1] + (0.0 if first else out[j, i])


@read_only_arguments
def absolute_differences(A: np.ndarray, /) -> np.ndarray:
    """Twin of `gpukfl.linalg.absolute_differences`."""
    n = A.shape[1]
    out = np.zeros((n, n))
    run_in_chunks((n + 1) // 2, A.size * n // 4, lambda _, a, b: _upper_differences(A, out, a, b))
    _mirror(out)
    return out


@njit(nogil=True, cache=True)
def _upper_differences(A, out, start, stop):
    """Fill rows above the diagonal in pairs, a long one and a short one, from both ends."""
    n = A.shape[1]
    for first in range(start, stop):
        _row_differences(A, first, out[first, first + 1 :])
        last = n - 1 - first
        if last != first:
            _row_differences(A, last, out[last, last + 1 :])


@njit(nogil=True, cache=True)
def _row_differences(A, i, out):
    for j in range(A.shape[0]):
        a, others = A[j, i], A[j, i + 1 :]  # slices of one length: the loop is then vectorised
        for k in range(out.shape[0]):
            out[k] += abs(others[k] - a)


@njit(nogil=True, cache=True)
def _mirror(out):
    """Copy the upper triangle to the lower one, in tiles that stay in cache."""
    n, tile = out.shape[0], 16
    for top in range(0, n, tile):
        for left in range(top, n, tile):
            for i in range(top, min(top + tile, n)):
                for k in range(max(left, i + 1), min(left + tile, n)):
                    out[k, i] = out[i, k]


@read_only_arguments
def interpolate_knots(A: np.ndarray, knots: np.ndarray, values: np.ndarray, /) -> np.ndarray:
    """Twin of `gpukfl.linalg.interpolate_knots`."""
    out = np.zeros((A.shape[1], values.shape[2]))
    run_in_chunks(
        A.shape[1], A.size, lambda _, a, b: _interpolate_knots(A, knots, values, out, a, b)
    )
    return out


@njit(nogil=True, cache=True)
def _interpolate_knots(A, knots, values, out, start, stop):
    for j in range(A.shape[0]):
        for i in range(start, stop):
            low, up, share = _find_interval(A[j, i], knots[j])
            for c in range(values.shape[2]):
                left = values[j, low, c]
                out[i, c] += left + share * (values[j, up, c] - left)


@read_only_arguments
def interpolate_columns(X: np.ndarray, knots: np.ndarray, values: np.ndarray, /) -> np.ndarray:
    """Twin of `gpukfl.linalg.interpolate_columns`."""
    out = np.empty(X.shape)
    args = (*map(contiguous, (X, knots, values)), out)  # compiled once for all layouts
    body = functools.partial(_interpolate_columns, *args)
    run_in_chunks(X.shape[0], X.size, body)
    return out


@njit(nogil=True, cache=True)
def _interpolate_columns(X, knots, values, out, _, start, stop):
    for top in range(start, stop, _NEAR):
        for j in range(X.shape[1]):
            for i in range(top, min(top + _NEAR, stop)):
                low, up, share = _find_interval(X[i, j], knots[j])
                out[i, j] = values[j, low] + share * (values[j, up] - values[j, low])


@njit(nogil=True, cache=True, inline="always")
def _find_interval(a, knots):
    """Find the two knots around a point, and its relative position between them."""
    low, high = 0, knots.shape[0]  # the last knot at or left of a is low
    while high - low > 1:
        middle = (low + high) // 2
        if knots[middle] <= a:
            low = middle
        else:
            high = middle
    share = 0.0
    if low < knots.shape[0] - 1 and a > knots[low]:
        share = (a - knots[low]) / (knots[low + 1] - knots[low])
    return low, min(low + 1, knots.shape[0] - 1), share


@read_only_arguments
def keep_knots(knots: np.ndarray, values: np.ndarray, tolerance: float, /) -> np.ndarray:
    """Twin of `gpukfl.methods._bkernn.keep_knots`."""
    m, n = knots.shape
    kept = np.ones((m, n), dtype=np.bool_)
    body = functools.partial(_keep_knots, knots, values, tolerance, kept)
    run_in_chunks(m, m * n, body)
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
