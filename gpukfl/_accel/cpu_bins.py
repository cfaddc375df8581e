"""Numba twins of the sums over equally spaced knots."""

from __future__ import annotations

import functools

import numpy as np

from gpukfl._accel.compiled import contiguous, njit, read_only_arguments
from gpukfl._accel.threads import run_in_chunks


@read_only_arguments
def encode(
    A: np.ndarray, low: np.ndarray, gap: np.ndarray, n_knots: int, shift: int, /
) -> np.ndarray:
    """Twin of the generic form behind `gpukfl.linalg.Positions.from_projections`."""
    out: np.ndarray = np.empty(A.shape, dtype=_dtype(n_knots, shift))
    body = functools.partial(_encode, A, low, gap, n_knots - 1, shift, out)
    run_in_chunks(A.shape[0], A.size, body)
    return out


def _dtype(n_knots: int, shift: int) -> type:
    narrow = (n_knots - 1) << shift < 2**15  # half the memory, and half to read
    return np.int16 if narrow else np.int32


@read_only_arguments
def rescale(codes: np.ndarray, factor: float, n_knots: int, shift: int, /) -> np.ndarray:
    """Twin of `gpukfl.linalg.Positions.rescale`."""
    out: np.ndarray = np.empty(codes.shape, dtype=_dtype(n_knots, shift))
    run_in_chunks(codes.shape[0], codes.size, functools.partial(_rescale, codes, factor, out))
    return out


@njit(nogil=True, cache=True)
def _rescale(codes, factor, out, _, start, stop):
    for j in range(start, stop):
        for i in range(codes.shape[1]):
            out[j, i] = np.int32(codes[j, i] * factor)


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


def _view_unsigned(codes: np.ndarray, /) -> np.ndarray:
    return codes.view(np.uint16 if codes.dtype == np.int16 else np.uint32)


@read_only_arguments
def bin_sums(codes: np.ndarray, shift: int, n_knots: int, V: np.ndarray, /) -> np.ndarray:
    """Twin of `gpukfl.linalg.bin_sums`."""
    m, n = codes.shape
    out = np.zeros((V.shape[1], m, n_knots + 1))  # one knot more, for what never moves on
    for c in range(V.shape[1]):
        v = contiguous(V[:, c], np.float64)
        body = functools.partial(_bin_sums, _view_unsigned(codes), np.uint32(shift), v, out[c])
        run_in_chunks(m, m * n, body)
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


@read_only_arguments
def interpolate_bins(codes: np.ndarray, shift: int, U: np.ndarray, /) -> np.ndarray:
    """Twin of `gpukfl.linalg.interpolate_bins`."""
    m, n = codes.shape
    out = np.zeros((U.shape[2], n))
    padded = np.concatenate([U, U[:, -1:, :]], axis=1)
    for c in range(U.shape[2]):
        u = contiguous(padded[:, :, c])
        body = functools.partial(
            _interpolate_bins, _view_unsigned(codes), np.uint32(shift), u, out[c]
        )
        run_in_chunks(n, m * n, body)
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


@read_only_arguments
def bin_products(codes: np.ndarray, shift: int, S: np.ndarray, Z: np.ndarray, /) -> np.ndarray:
    """Twin of `gpukfl.linalg.bin_products`."""
    m, n = codes.shape
    out = np.zeros((m, n), dtype=Z.dtype)
    padded = np.concatenate([S, S[:, -1:, :]], axis=1)
    for c in range(Z.shape[1]):
        z = contiguous(Z[:, c], np.float64)
        signed = contiguous(padded[:, :, c])
        body = functools.partial(
            _bin_products, _view_unsigned(codes), np.uint32(shift), signed, z, out
        )
        run_in_chunks(m, m * n, body)
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


@read_only_arguments
def pair_sums(
    codes: np.ndarray, shift: int, n_knots: int, weights: np.ndarray | None, rows: int, /
) -> np.ndarray:
    """Twin of `gpukfl.linalg.pair_sums`."""
    m, n = codes.shape
    out = np.zeros((rows, n_knots, m, n_knots))
    first, second = np.triu_indices(rows, m=m)
    if weights is None and n < 1 << max(0, 32 - 2 * shift):
        w = np.empty(0)
    else:
        w = np.ones(n) if weights is None else weights[:, 0].astype(np.float64)
    body = functools.partial(
        _pair_sums, _view_unsigned(codes), np.uint32(shift), w, first, second, out
    )
    run_in_chunks(len(first), n * len(first), body)
    return out.reshape(rows * n_knots, m * n_knots)


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
        if k < out.shape[0]:
            for a in range(q):
                for b in range(q):
                    out[k, a, j, b] = out[j, b, k, a]


@njit(nogil=True, cache=True)
def _count_moments(a, b, shift, counts, moments):
    """Sum pairs of moments packed into one integer, which halves the number of stores."""
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
    for u in range(counts.shape[0]):
        for v in range(counts.shape[1]):
            moments[u, v, 0] = np.float64(counts[u, v, 0] & low)
            moments[u, v, 1] = np.float64(counts[u, v, 0] >> half) * scale
            moments[u, v, 2] = np.float64(counts[u, v, 1] & low) * scale
            moments[u, v, 3] = np.float64(counts[u, v, 1] >> half) * scale**2


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
