r"""Samplers of knockoffs: copies of the columns that know the other columns, and not the target.

Several copies of a column are drawn together, so that a column and its copies could change places:
of second order, that is in means and covariances.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from gpukfl._array import Array, array_namespace, beside, clipped, double_like, to_host
from gpukfl._checks import check_choice, check_kind
from gpukfl.knockoffs._copies import GaussianCopies
from gpukfl.knockoffs._correlation import Correlation
from gpukfl.knockoffs._spread import equicorrelated, least_reconstructable
from gpukfl.linalg import erf

_SPREADS = {"mvr": least_reconstructable, "equicorrelated": equicorrelated}


class Copies(Protocol):
    """What draws copies of some rows."""

    @property
    def correlation(self) -> Correlation:
        """Of the columns, or of what is copied for them."""

    def draw(self, rng: np.random.RandomState, /) -> Array:
        """Draw κ copies of all columns, one after the other: (n, κ p)."""


class KnockoffSampler(ABC):
    """A way to draw copies of columns."""

    @abstractmethod
    def of(self, X: Array, copies: int, /) -> Copies:
        """Estimate from rows what copies of them need.

        Parameters
        ----------
        X : array (n, p)
            Rows, at least two, of finite numbers.
        copies : int
            κ, at least 1: copies of each column, drawn together.

        Returns
        -------
        Copies
            Draws as often as is asked, arrays of the library, device and dtype of X; of integers
            copies are float64.

        Raises
        ------
        ValueError
            If a number is not finite.

        Notes
        -----
        O(n p² + p³) once, and O(n p² + κ n p) a draw. Random numbers are drawn on the host.
        """


@dataclass(frozen=True)
class GaussianKnockoffs(KnockoffSampler):
    r"""Copies of Gaussian columns; of others, copies that match in means and covariances.

    With s from `spread`, and :math:`D = \mathrm{diag}(s)`,

    .. math:: \tilde X^{(k)} = X - (X - \mu) \Sigma^{-1} D + G + (\xi_k - \bar\xi) D^{1/2},
              \qquad G \sim N\big(0, \tfrac{κ + 1}{κ} D - D \Sigma^{-1} D\big) ,

    with :math:`\Sigma` shrunk as by Ledoit and Wolf, where that may be noise.

    Parameters
    ----------
    spread : {"mvr", "equicorrelated"}
        How s is chosen: by `least_reconstructable`, which tells more columns apart, or one for all.

    References
    ----------
    .. [1] Candès, Fan, Janson and Lv, "Panning for gold: model-X knockoffs for high dimensional
       controlled variable selection", JRSS B, 2018, Section 3.4.1.
    .. [2] Gimenez and Zou, "Improving the stability of the knockoff procedure: multiple
       simultaneous knockoffs and entropy maximization", AISTATS, 2019, for several copies.
    """

    spread: str = "mvr"

    def __post_init__(self) -> None:
        check_choice("spread", self.spread, tuple(_SPREADS))

    def of(self, X: Array, copies: int, /) -> Drawn:
        """Estimate means and covariances; see the base class."""
        host = _finite(X)
        correlation = Correlation.of(host, _rounding(X))
        core = self._core(X, correlation.units(host), correlation, copies)
        mean, deviation = _rows_beside(core.kept, correlation.mean, correlation.deviation)
        return Drawn(correlation, core, lambda Z: mean + deviation * Z, X)

    def _core(
        self, X: Array, Z: np.ndarray, correlation: Correlation, copies: int
    ) -> GaussianCopies:
        """Factor, where X lives, what columns Z of variance 1 need."""
        xp = array_namespace(X)
        Sigma = xp.asarray(correlation.matrix, **double_like(X))
        spread = _SPREADS[self.spread](Sigma, copies)
        return GaussianCopies.of(xp.asarray(Z, **double_like(X)), Sigma, spread, copies)


@dataclass(frozen=True)
class RankKnockoffs(KnockoffSampler):
    """Copies of columns of any law, by the normal scores of their ranks.

    The scores of all columns together are taken for Gaussian, and copied; a copy then takes the
    values that the column has at such scores. Right for columns that are increasing functions of
    Gaussian ones. Of a column of few values copies take these values too, about as often.

    Parameters
    ----------
    gaussian : GaussianKnockoffs
        Copies the scores.
    """

    gaussian: GaussianKnockoffs = field(default_factory=GaussianKnockoffs)

    def __post_init__(self) -> None:
        check_kind("gaussian", self.gaussian, (GaussianKnockoffs,))

    def of(self, X: Array, copies: int, /) -> Drawn:
        """Rank the columns, and estimate covariances of the scores; see the base class."""
        from scipy.special import ndtri
        from scipy.stats import rankdata

        host = _finite(X)
        scores = ndtri((rankdata(host, axis=0) - 0.5) / len(host))
        correlation = Correlation.of(scores)
        core = self.gaussian._core(X, correlation.units(scores), correlation, copies)
        ordered = np.sort(host, axis=0)
        # Scores of equal values deviate less; spread as little, copies would miss the rare values
        tied = np.any(ordered[1:] == ordered[:-1], axis=0)
        untied = ndtri((np.arange(len(host)) + 0.5) / len(host)).std()
        (deviation,) = _rows_beside(core.kept, np.where(tied, untied, correlation.deviation))
        values = beside(ordered, core.kept)
        return Drawn(correlation, core, lambda Z: _at_scores(values, deviation * Z), X)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Copies of the rows X."""

    correlation: Correlation
    core: GaussianCopies
    back: Callable[[Array], Array]  # from columns of variance 1
    X: Array

    def draw(self, rng: np.random.RandomState, /) -> Array:
        """Draw κ copies of all columns, one after the other: (n, κ p)."""
        xp, dtype = array_namespace(self.X), self.X.dtype
        dtype = dtype if xp.isdtype(dtype, "real floating") else xp.float64
        drawn = [xp.astype(self.back(Z), dtype, copy=False) for Z in self.core.draw(rng)]
        return xp.concat(drawn, axis=1)


def _finite(X: Array, /) -> np.ndarray:
    """Copy to a float64 array of the host; ValueError says where a number is not finite."""
    host = to_host(X).astype(np.float64)
    odd = np.argwhere(~np.isfinite(host))
    if len(odd):
        row, column = odd[0]
        msg = f"expected finite numbers, got {host[row, column]} in row {row}, column {column}"
        raise ValueError(msg)
    return host


def _rounding(X: Array, /) -> float:
    """Share of the largest number of a constant column by which others may differ from it."""
    return 1e-6 if X.dtype == array_namespace(X).float32 else 1e-13


def _rows_beside(there: Array, /, *rows: np.ndarray) -> tuple[Array, ...]:
    return tuple(beside(row[None, :], there) for row in rows)


def _at_scores(values: Array, scores: Array, /) -> Array:
    """Give values (n, q), sorted in each column, at normal scores (m, q): between two of them."""
    xp, n = array_namespace(values), values.shape[0]
    shares = 0.5 * (1.0 + erf(scores * 0.5**0.5))
    at = clipped(n * shares - 0.5, low=0.0, high=n - 1.0)
    below = xp.floor(at)
    lower = xp.astype(below, xp.int64)
    upper = clipped(lower + 1, high=n - 1)
    low, high = (xp.take_along_axis(values, index, axis=0) for index in (lower, upper))
    return low + (at - below) * (high - low)
