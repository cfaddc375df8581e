"""Numba twins of `gpukfl.linalg._difference_sums` for NumPy arrays."""

from __future__ import annotations

import numpy as np

from gpukfl._accel.compiled import contiguous, njit, read_only_arguments
from gpukfl._accel.cpu import run_in_chunks

_ROWS = 8  # rows of A in a tile
_TILE = 256  # columns of A in a tile: together they stay in the first-level cache


@read_only_arguments
def difference_sums(A: np.ndarray, X: np.ndarray, /) -> np.ndarray:
    """Twin of `gpukfl.linalg.difference_sums` for power 1; threads share the rows of A."""
    n, p = X.shape
    strips = -(-n // _ROWS)
    pairs = -(-strips // 2)
    sums: dict[int, np.ndarray] = {}
    columns = np.array(X.T, dtype=np.float64, order="C")

    def body(chunk: int, start: int, stop: int) -> None:
        sums[chunk] = np.zeros(p)
        _difference_sums(A, columns, strips, start, stop, sums[chunk])

    chunks = run_in_chunks(pairs, n * n * p // 2, body)
    return np.sum([sums[chunk] for chunk in range(chunks)], axis=0)


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def _difference_sums(A, columns, strips, start, stop, out):
    p, n = columns.shape
    weights = np.empty((_ROWS, _TILE))
    for pair in range(start, stop):
        for side in range(2):  # a long and a short strip of the triangle: threads do equal work
            strip = pair if side == 0 else strips - 1 - pair
            if side == 1 and strip == pair:
                continue
            top = strip * _ROWS
            rows = min(_ROWS, n - top)
            for left in range(top, n, _TILE):
                width = min(_TILE, n - left)
                for r in range(rows):
                    for k in range(width):
                        above = left + k > top + r
                        weights[r, k] = A[top + r, left + k] if above else 0.0
                for feature in range(p):
                    x = columns[feature, top : top + rows]
                    z = columns[feature, left : left + width]
                    total = 0.0
                    for r in range(rows):
                        here = x[r]
                        w = weights[r]
                        part = 0.0
                        for k in range(width):
                            part += w[k] * abs(here - z[k])
                        total += part
                    out[feature] += 2.0 * total


def sort_columns(X: np.ndarray, /) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers (p, n) and gaps (p, n - 1) of the sorted columns; threads share them."""
    n, p = X.shape
    order = np.empty((p, n), dtype=np.int32)
    gaps = np.empty((p, max(n - 1, 0)), dtype=X.dtype)

    def body(_: int, start: int, stop: int) -> None:
        for feature in range(start, stop):
            column = np.ascontiguousarray(X[:, feature])
            order[feature] = np.argsort(column)
            gaps[feature] = np.diff(column[order[feature]])

    run_in_chunks(p, n * p * 20, body)
    return order, gaps


@read_only_arguments
def factored_difference_sums(V: np.ndarray, order: np.ndarray, gaps: np.ndarray, /) -> np.ndarray:
    """Twin of `gpukfl.linalg.factored_difference_sums`; threads share the columns of the data."""
    p, _ = order.shape
    out = np.zeros(p)
    V = contiguous(V)
    total = V.sum(axis=0, dtype=np.float64)

    def body(_: int, start: int, stop: int) -> None:
        _add_factored_sums(V, total, order, gaps, out, start, stop)

    run_in_chunks(p, order.size * V.shape[1], body)
    return out


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def _add_factored_sums(V, total, order, gaps, out, start, stop):
    n, m = V.shape
    below = np.empty(m)
    sums = np.empty(m)
    for feature in range(start, stop):
        below[:] = 0.0
        sums[:] = 0.0
        for s in range(n - 1):
            row = V[order[feature, s]]
            gap = gaps[feature, s]
            for k in range(m):
                b = below[k] + row[k]
                below[k] = b
                sums[k] += gap * b * (total[k] - b)
        out[feature] = 2.0 * sums.sum()
