r"""How far copies may be from what they copy: the diagonal s of what their covariance lacks.

A column and its κ copies have the covariances :math:`\Sigma` of the columns, but for their own:
:math:`\mathrm{cov}(X_j, \tilde X_j) = \Sigma_{jj} - s_j`. The larger s, the easier the two are told
apart; all copies exist where :math:`(κ + 1) \Sigma - κ\, \mathrm{diag}(s)` has no negative
eigenvalue.
"""

from __future__ import annotations

import numpy as np

from gpukfl._array import Array, array_namespace, beside, like, to_host
from gpukfl._results import Status
from gpukfl.linalg import CholeskyFactor, eigvalsh
from gpukfl.solvers import ProjectedGradient

_INSIDE = 0.999  # of the largest s: beyond, rounding makes a covariance that is none
_STEPS = ProjectedGradient(max_iter=60, tol=1e-4)


def equicorrelated(correlation: Array, copies: int, /) -> np.ndarray:
    r"""Give one s for all columns: the largest there is, :math:`\min(\frac{κ + 1}{κ} λ_{\min}, 1)`.

    Parameters
    ----------
    correlation : array (p, p)
        Σ, positive definite with ones on its diagonal.
    copies : int
        κ, at least 1.

    Returns
    -------
    host array (p,)
        s, in (0, 1].

    References
    ----------
    .. [1] Candès, Fan, Janson and Lv, "Panning for gold: model-X knockoffs for high dimensional
       controlled variable selection", JRSS B, 2018, eq. (3.15).
    .. [2] Gimenez and Zou, "Improving the stability of the knockoff procedure: multiple
       simultaneous knockoffs and entropy maximization", AISTATS, 2019, for several copies.
    """
    lowest = float(eigvalsh(correlation)[0])
    return np.full(correlation.shape[0], min(_INSIDE * (copies + 1) / copies * lowest, 1.0))


def least_reconstructable(correlation: Array, copies: int, /) -> np.ndarray:
    r"""Give the s that leaves a column as hard to reconstruct from all others as can be.

    Minimises the trace of the inverse covariance of all columns and copies,

    .. math:: L(s) = \mathrm{tr} \big((κ + 1) \Sigma - κ\, \mathrm{diag}(s)\big)^{-1}
              + κ \sum_j 1 / s_j ,

    which is convex. One s for all, where columns are alike, gives copies whose sums with the
    columns determine each other; this one does not.

    Parameters
    ----------
    correlation : array (p, p)
        Σ, positive definite with ones on its diagonal.
    copies : int
        κ, at least 1.

    Returns
    -------
    host array (p,)
        s, positive.

    Notes
    -----
    O(p³) an evaluation, where Σ lives, and some twenty of them.

    References
    ----------
    .. [1] Spector and Janson, "Powerful knockoffs via minimizing reconstructability", Annals of
       Statistics, 2022, eq. (3.2); here for κ copies.
    """
    xp, inverse = array_namespace(correlation), _Inverse(correlation, copies)
    left = 1.0 / to_host(xp.linalg.diagonal(CholeskyFactor.of(correlation).inverse()))
    roots = beside(np.sqrt(left), correlation)
    scaled = correlation / roots[:, None] / roots[None, :]
    # Of a column of which the others leave little, s is as small, and the curvature of L, which
    # goes with s^-3, large. In such units it is alike in all columns, and one step suits them
    units = left**1.5
    start = 0.9 * equicorrelated(scaled, copies) / np.sqrt(left)
    found = _STEPS.minimize(
        lambda u: inverse.value(units * u),
        lambda u: units * inverse.gradient(units * u),
        lambda u: np.maximum(u, 1e-3 * start),
        start,
    )
    if found.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return units * found.x


class _Inverse:
    """The function L and its derivative; the last inverse is kept."""

    def __init__(self, correlation: Array, copies: int) -> None:
        self.scaled, self.copies = (copies + 1.0) * correlation, float(copies)
        self._at: tuple[np.ndarray, Array] | None = None

    def _inverse(self, s: np.ndarray) -> Array:
        if self._at is None or not np.array_equal(self._at[0], s):
            xp = array_namespace(self.scaled)
            eye = xp.eye(len(s), **like(self.scaled))
            lacking = self.copies * beside(s, self.scaled)[:, None] * eye
            self._at = s.copy(), CholeskyFactor.of(self.scaled - lacking).inverse()
        return self._at[1]

    def value(self, s: np.ndarray, /) -> float:
        """L, infinite where there are no such copies."""
        try:
            inverse = self._inverse(s)
        except np.linalg.LinAlgError:
            return float("inf")
        xp = array_namespace(inverse)
        return float(xp.sum(xp.linalg.diagonal(inverse))) + self.copies * float(np.sum(1.0 / s))

    def gradient(self, s: np.ndarray, /) -> np.ndarray:
        """Differentiate."""
        inverse = self._inverse(s)
        squares = to_host(array_namespace(inverse).sum(inverse * inverse, axis=0))
        return self.copies * (squares - 1.0 / s**2)
