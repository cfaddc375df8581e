"""Linear maps of rows: matrices (k, d), factors of the features (d,), or several such (s, 1, d).

Factors are a diagonal map: as a matrix it would be the largest array of all where features are
many. What several give is put side by side, (n, s d); rows (n, s d) have columns for each of them.
"""

from __future__ import annotations

from gpukfl.core._array import Array, array_namespace, like


def apply_map(X: Array, B: Array, /) -> Array:
    """Apply a map to rows (n, d): (n, k)."""
    if B.ndim == 3:
        if X.shape[1] == B.shape[0] * B.shape[2]:
            return X * array_namespace(X).reshape(B, (1, -1))
        return array_namespace(X).concat([X * B[t, :, :] for t in range(B.shape[0])], axis=1)
    return X * B[None, :] if B.ndim == 1 else X @ B.T


def map_row_gradient(dU: Array, B: Array, /) -> Array:
    """Differentiate in the rows (n, d), by the derivative in the mapped rows (n, k)."""
    if B.ndim == 3:
        return array_namespace(dU).sum(_split_columns(dU, B) * B[:, 0, :][None, ...], axis=1)
    return dU * B[None, :] if B.ndim == 1 else dU @ B


def map_gradient(dU: Array, X: Array, B: Array, /) -> Array:
    """Differentiate in the map, by the derivative in the mapped rows (n, k)."""
    xp = array_namespace(X)
    if B.ndim == 3:
        if X.shape[1] == B.shape[0] * B.shape[2]:
            return xp.reshape(xp.sum(dU * X, axis=0), B.shape)
        return xp.sum(_split_columns(dU, B) * X[:, None, :], axis=0)[:, None, :]
    return xp.sum(dU * X, axis=0) if B.ndim == 1 else dU.T @ X


def _split_columns(dU: Array, B: Array) -> Array:
    """Return the columns of each of several diagonal maps: (n, s, d)."""
    return array_namespace(dU).reshape(dU, (dU.shape[0], B.shape[0], B.shape[2]))


def diagonal_map(B: Array, /) -> Array:
    """Return a map as a matrix (k, d)."""
    if B.ndim == 2:
        return B
    xp = array_namespace(B)
    one = xp.eye(B.shape[-1], **like(B))
    if B.ndim == 1:
        return B[:, None] * one
    return xp.concat([B[t, 0, :][:, None] * one for t in range(B.shape[0])], axis=0)


def leading_rows(B: Array, k: int, /) -> Array:
    """Return the k longest rows (k, d) of a diagonal map (d,), at most d, the longest first."""
    xp = array_namespace(B)
    order = xp.argsort(-xp.abs(B))[: min(k, B.shape[0])]
    chosen = order[:, None] == xp.arange(B.shape[0], **like(order))[None, :]
    return xp.take(B, order, axis=0)[:, None] * xp.astype(chosen, B.dtype)
