"""Centring and sample weights around a kernel."""

from __future__ import annotations

from dataclasses import dataclass

from gpukfl._array import Array, array_namespace, sample_dot, sample_sums
from gpukfl.linalg import subtract_means
from gpukfl.operators._base import LinearOperator


@dataclass(frozen=True, eq=False)
class CenteredKernel(LinearOperator):
    r"""Apply :math:`\Pi_s D_s K D_s \Pi_s`, with s the roots of the sample weights.

    :math:`\Pi_s` projects on the complement of s; without weights s = 1, and this is the centred
    kernel :math:`\tilde K = \Pi K \Pi`. A kernel that is positive semidefinite on centred vectors
    becomes so everywhere, because :math:`D_s \Pi_s v` sums to zero.
    """

    kernel: LinearOperator
    root_weights: Array | None = None  # (n, 1), positive

    @property
    def n_samples(self) -> int:
        """Number of rows and columns."""
        return self.kernel.n_samples

    @property
    def is_formed_quickly(self) -> bool:
        """Whether the kernel inside is."""
        return self.kernel.is_formed_quickly

    def _matmat(self, V: Array, /) -> Array:
        xp = array_namespace(V)
        s = self.root_weights
        V0 = center(V, s)
        product = self.kernel._matmat(V0 if s is None else s * V0)
        if s is not None:
            product = s * product
        return xp.astype(center(product, s), V.dtype, copy=False)

    def dense(self, reference: Array, /) -> Array:
        """Form the matrix beside `reference`; O(n²) memory."""
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
        return subtract_means(V, sample_sums(V))
    xp = array_namespace(V)
    share = sample_dot(root_weights, V) / sample_dot(root_weights, root_weights)
    return V - root_weights * xp.astype(share, V.dtype)[None, :]
