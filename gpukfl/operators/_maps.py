"""Linear maps of rows: matrices (k, d), or factors of the features (d,) where they are diagonal.

A diagonal map as a matrix would be the largest array of all where features are many.
"""

from __future__ import annotations

from gpukfl.core._array import Array, array_namespace, like


def apply_map(X: Array, B: Array, /) -> Array:
    """Apply a map to rows (n, d): (n, k)."""
    return X * B[None, :] if B.ndim == 1 else X @ B.T


def map_row_gradient(dU: Array, B: Array, /) -> Array:
    """Differentiate in the rows (n, d), by the derivative in the mapped rows (n, k)."""
    return dU * B[None, :] if B.ndim == 1 else dU @ B


def map_gradient(dU: Array, X: Array, B: Array, /) -> Array:
    """Differentiate in the map, by the derivative in the mapped rows (n, k)."""
    return array_namespace(X).sum(dU * X, axis=0) if B.ndim == 1 else dU.T @ X


def diagonal_map(B: Array, /) -> Array:
    """Return a map as a matrix (k, d)."""
    return B if B.ndim > 1 else B[:, None] * array_namespace(B).eye(B.shape[0], **like(B))


def leading_rows(B: Array, k: int, /) -> Array:
    """Return the k longest rows (k, d) of a diagonal map (d,), at most d, the longest first."""
    xp = array_namespace(B)
    order = xp.argsort(-xp.abs(B))[: min(k, B.shape[0])]
    chosen = order[:, None] == xp.arange(B.shape[0], **like(order))[None, :]
    return xp.take(B, order, axis=0)[:, None] * xp.astype(chosen, B.dtype)
