"""Randomised Nyström preconditioning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpukfl.core._array import Array, array_namespace, as_columns, asarray_like, clip, epsilon
from gpukfl.core._lazy import OldName
from gpukfl.linalg import CholeskyFactor, eigh, orthonormal_range


@dataclass(frozen=True, eq=False)
class NystromPreconditioner:
    r"""Approximate inverse of :math:`A + \mu I` from a randomised Nyström approximation of A.

    .. math:: P^{-1} = (\hat\lambda_r + \mu)\, U (\hat\Lambda + \mu)^{-1} U^\top + I - U U^\top

    Notes
    -----
    Building costs one product with `rank` right-hand sides and O(n rank²); applying it
    O(n rank). The condition number falls to about :math:`1 + \hat\lambda_r / \mu`.

    References
    ----------
    .. [1] Frangella, Tropp and Udell, "Randomized Nyström Preconditioning", SIAM J. Matrix Anal.
       Appl. 44(2), 2023, Algorithm 2.1 and eq. (1.3).
    """

    U: Array  # (n, rank), orthonormal columns
    eigenvalues: Array  # (rank,), descending
    shift: float

    @classmethod
    def from_operator(
        cls,
        A: Callable[[Array], Array],
        like_this: Array,
        /,
        *,
        shift: float,
        rank: int,
        rng: np.random.RandomState,
    ) -> NystromPreconditioner:
        """Sketch A, a positive semidefinite operator on arrays like `like_this` (n, t).

        The test matrix is drawn on the host, so that every place works with the same one.

        Raises
        ------
        numpy.linalg.LinAlgError
            If A is not positive semidefinite up to rounding.
        """
        xp = array_namespace(like_this)
        n = like_this.shape[0]
        test = asarray_like(rng.standard_normal((n, min(rank, n))), like_this)
        test = orthonormal_range(test)
        sketch = A(test)
        # A small multiple of the identity keeps the core positive definite; taken off again below.
        jitter = epsilon(like_this) * float(xp.linalg.vector_norm(sketch))
        if jitter == 0.0:
            return cls(test, xp.zeros_like(test[0, :]), shift)
        sketch = sketch + jitter * test
        core = test.T @ sketch
        B = CholeskyFactor.factor((core + core.T) / 2).solve_lower(sketch.T)  # (rank, n)
        squares, V = eigh(B @ B.T)
        squares, V = xp.flip(squares), xp.flip(V, axis=1)
        roots = xp.sqrt(clip(squares, low=jitter))
        U = B.T @ (V / roots[None, :])
        return cls(U, clip(squares - jitter, low=0.0), shift)

    def __call__(self, r: Array, /) -> Array:
        """Apply to `r` (n,) or (n, t)."""
        smallest = self.eigenvalues[-1]
        gains = (smallest + self.shift) / (self.eigenvalues + self.shift) - 1.0
        inside = self.U @ (gains[:, None] * (self.U.T @ as_columns(r)))
        return r + array_namespace(r).reshape(inside, r.shape)

    of = OldName("from_operator")
