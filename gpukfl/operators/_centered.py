"""Centring and sample weights around a kernel."""

from __future__ import annotations

from dataclasses import dataclass

from gpukfl.core._array import Array, array_namespace, lies_in_parts, sample_dot
from gpukfl.linalg import add_to_diagonal, center_columns, column_dots_in_one_pass
from gpukfl.operators._base import LinearOperator


@dataclass(frozen=True, eq=False)
class CenteredKernel(LinearOperator):
    r"""The operator :math:`\Pi_s D_s K D_s \Pi_s + shift\,I`, with s the roots of the weights.

    :math:`\Pi_s` projects on the complement of s; without weights s = 1, and this is the centred
    kernel :math:`\tilde K = \Pi K \Pi`. A kernel that is positive semidefinite on centred vectors
    becomes so everywhere, because :math:`D_s \Pi_s v` sums to zero.
    """

    kernel: LinearOperator
    root_weights: Array | None = None  # (n, 1), positive
    shift: float = 0.0

    @property
    def n_samples(self) -> int:
        """Number of rows and columns."""
        return self.kernel.n_samples

    def _matmat(self, V: Array, /) -> Array:
        s = self.root_weights
        if s is None:
            product = self.kernel._matmat(center_columns(V, V))
            return center_columns(product, V, shift=self.shift)
        product = s * self.kernel._matmat(s * center(V, s))
        centered = array_namespace(V).astype(center(product, s), V.dtype, copy=False)
        return centered + self.shift * V if self.shift else centered

    def dense(self, reference: Array, /) -> Array:
        """Form the matrix beside `reference`; O(n²) memory."""
        K = self._dense(reference)
        return add_to_diagonal(K, self.shift) if self.shift else K

    def _dense(self, reference: Array) -> Array:
        s = self.root_weights
        K = self.kernel.dense(reference)  # a new array: in place, as each copy costs a pass
        if s is None:
            rows, columns = _means(K, axis=1), _means(K, axis=0)
            K -= rows - _means(rows, axis=0)
            K -= columns
            return K
        K *= s
        K *= s.T
        return center(center(K, s).T, s)


def _means(K: Array, /, *, axis: int) -> Array:
    """Mean along an axis, which stays; in the dtype of `K`, summed in float64."""
    xp = array_namespace(K)
    total = xp.sum(K, axis=axis, dtype=xp.float64, keepdims=True)
    return xp.astype(total / K.shape[axis], K.dtype)


def center(V: Array, root_weights: Array | None = None, /) -> Array:
    """Project the columns of `V` (n, t) on the complement of the root weights, or of ones."""
    if root_weights is None:
        return center_columns(V, V)
    xp = array_namespace(V)
    if lies_in_parts(V):
        on, of = column_dots_in_one_pass(
            (root_weights, V, None), (root_weights, root_weights, None)
        )
    else:
        on, of = sample_dot(root_weights, V), sample_dot(root_weights, root_weights)
    share = on / of
    return V - root_weights * xp.astype(share, V.dtype)[None, :]
