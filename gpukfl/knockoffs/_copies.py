"""Copies of Gaussian columns of mean 0 and variance 1, given their correlation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpukfl._array import Array, beside
from gpukfl.linalg import CholeskyFactor

_ROOM = 1e-9  # added to variances, so that rounding leaves them positive


@dataclass(frozen=True, eq=False)
class GaussianCopies:
    """What does not change from draw to draw.

    Attributes
    ----------
    copies : int
        κ, drawn together.
    spread : host array (p,)
        s: a column and its copy have the correlation 1 - s.
    kept : array (n, p)
        Means of the copies, given the rows.
    root : array (p, p)
        Of the covariance of what all copies share beside them.
    """

    copies: int
    spread: np.ndarray
    kept: Array
    root: Array

    @classmethod
    def of(cls, Z: Array, Sigma: Array, spread: np.ndarray, copies: int, /) -> GaussianCopies:
        """Factor: O(p³ + n p²).

        Parameters
        ----------
        Z : array (n, p)
            Rows.
        Sigma : array (p, p)
            Their correlation, positive definite.
        spread : host array (p,)
            s, in (0, (κ + 1)/κ times what the correlation allows].
        copies : int
            κ.
        """
        s = beside(spread, Sigma)
        inverse = CholeskyFactor.of(Sigma).inverse()
        shared = -s[:, None] * inverse * s[None, :]
        diagonal = beside(np.diag(spread * (copies + 1) / copies + _ROOM), Sigma)
        root = CholeskyFactor.of(shared + diagonal).L.T
        return cls(copies, spread, Z - (Z @ inverse) * s[None, :], root)

    def draw(self, rng: np.random.RandomState, /) -> Iterator[Array]:
        """Draw κ copies (n, p), which belong together."""
        n, p = self.kept.shape
        together = self.kept + beside(rng.standard_normal((n, p)), self.kept) @ self.root
        own = rng.standard_normal((self.copies, n, p))
        own = (own - own.mean(axis=0)) * np.sqrt(self.spread)
        return (together + beside(one, self.kept) for one in own)
