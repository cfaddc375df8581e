"""The multi-dimensional Brownian kernel."""

from __future__ import annotations

from dataclasses import dataclass

from gpukfl.core._array import Array, array_namespace
from gpukfl.kernels._base import LengthscaleKernel, are_coincident, to_common_precision
from gpukfl.linalg import distances


@dataclass(frozen=True)
class Brownian(LengthscaleKernel):
    r""":math:`k = (\|x\| + \|z\| - \|x - z\|) / 2\ell`."""

    bounded = False

    def _evaluate(self, X: Array, Z: Array, /) -> Array:
        norms = _norms(X)[:, None] + _norms(Z)[None, :]
        return (norms - distances(X, Z)) / (2.0 * self.lengthscale)

    def _pullback(self, X: Array, Z: Array, P: Array, K: Array | None, /) -> tuple[Array, Array]:  # noqa: ARG002
        xp = array_namespace(X, Z, P)
        P = P / (2.0 * self.lengthscale)
        r = distances(X, Z)
        Q = P * _reciprocal(xp.where(are_coincident(X, Z, r), xp.zeros_like(r), r))
        here = xp.sum(P, axis=1) * _reciprocal(_norms(X)) - xp.sum(Q, axis=1)
        there = xp.sum(P, axis=0) * _reciprocal(_norms(Z)) - xp.sum(Q, axis=0)
        return here[:, None] * X + Q @ Z, there[:, None] * Z + Q.T @ X

    def diagonal(self, X: Array, /) -> Array:
        """Values k(x, x)."""
        (X,) = to_common_precision(X)
        return _norms(X) / self.lengthscale


def _norms(X: Array, /) -> Array:
    xp = array_namespace(X)
    return xp.sqrt(xp.sum(X * X, axis=1))


def _reciprocal(r: Array, /) -> Array:
    """``1 / r``, and 0 where r is 0: the kink's derivative."""
    xp = array_namespace(r)
    zero = r <= 0
    return xp.where(zero, xp.zeros_like(r), 1.0 / xp.where(zero, xp.ones_like(r), r))
