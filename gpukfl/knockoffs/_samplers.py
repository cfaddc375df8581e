"""Samplers of knockoffs: copies of columns given the other columns, independent of y."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    clip,
    double_like,
    like,
    to_host,
)
from gpukfl.core._checks import check_choice, check_kind
from gpukfl.core._results import Status
from gpukfl.linalg import CholeskyFactor, eigh, eigvalsh, erf
from gpukfl.solvers import ProjectedGradient

# ---------------------------------------------------------------------------------- copies

# Copies of Gaussian columns of mean 0 and variance 1, given their correlation.


_ROOM = 1e-9  # added to variances, so that rounding leaves them positive


@dataclass(frozen=True, eq=False)
class GaussianCopies:
    """The factors that all draws share."""

    copies: int  # κ, drawn together
    spread: np.ndarray  # s (p,): a column and its copy have the correlation 1 - s
    kept: Array  # (n, p), means of the copies, given the rows
    root: Array  # (p, p), of the covariance of what all copies share beside them

    @classmethod
    def factor(cls, Z: Array, Sigma: Array, spread: np.ndarray, copies: int, /) -> GaussianCopies:
        """Factor, for rows Z (n, p) with the positive definite correlation Σ (p, p).

        s is in (0, (κ + 1)/κ times what the correlation allows]. O(p³ + n p²).
        """
        s = asarray_like(spread, Sigma)
        inverse = CholeskyFactor.factor(Sigma).inverse()
        shared = -s[:, None] * inverse * s[None, :]
        diagonal = asarray_like(np.diag(spread * (copies + 1) / copies + _ROOM), Sigma)
        root = CholeskyFactor.factor(shared + diagonal).L.T
        return cls(copies, spread, Z - (Z @ inverse) * s[None, :], root)

    def draw(self, rng: np.random.RandomState, /) -> Iterator[Array]:
        """Draw κ joint copies (n, p)."""
        n, p = self.kept.shape
        together = self.kept + asarray_like(rng.standard_normal((n, p)), self.kept) @ self.root
        own = rng.standard_normal((self.copies, n, p))
        own = (own - own.mean(axis=0)) * np.sqrt(self.spread)
        return (together + asarray_like(one, self.kept) for one in own)


# ----------------------------------------------------------------------------- correlation

# Correlations that a sampler can invert, however few rows there are.


_SMALLEST = 1e-3  # eigenvalue of a correlation matrix that leaves room for copies
_ROUNDING = 1e-6  # a sum of squared correlations below is none
# Categories exclude each other: their mean correlation, given to all pairs, would leave the sum of
# all columns hardly any variance, and so no room. Of the variance 1 it may take so much
_EIGENVALUE_ROOM = 0.2
_EQUAL = 1.0 - 1e-6  # correlation from which two columns are the same
_NOISE = 3.0  # standard errors that a correlation may be off by


@dataclass(frozen=True, eq=False)
class Correlation:
    """Means, standard deviations and shrunk correlation of columns.

    `equal` has the pairs of columns that are the same up to their units, each with its first like.
    The later say nothing beyond these, and have no correlations in `matrix`: no copy of either
    could be told from the other, and copies of all others are right without them.
    """

    mean: np.ndarray  # (p,)
    deviation: np.ndarray  # (p,), 0 of a constant column
    matrix: np.ndarray  # (p, p), positive definite with ones on its diagonal
    shrinkage: float  # share of their distance from one for all pairs, as far as it may be noise
    equal: list[tuple[int, int]]

    @classmethod
    def estimate(cls, X: np.ndarray, rounding: float = 1e-13, /) -> Correlation:
        """Estimate from rows (n, p), shrunk to one correlation for all pairs: O(n p² + p³).

        Columns that share a factor have one correlation, nearly; shrunk to none they would keep
        eigenvalues that are far too small, which leave no room for copies. Correlations that are
        far from it stay: a copy that lacks one is beaten by a column that matters by it alone. A
        column is constant if its values differ by less than `rounding` of the largest.

        References
        ----------
        .. [1] Ledoit and Wolf, "Honey, I shrunk the sample covariance matrix", J. Portfolio
           Management, 2004.
        """
        mean, deviation = X.mean(axis=0), X.std(axis=0)
        # By the range: of many equal values the mean is rounded, and so the deviation is not 0
        deviation = np.where(np.ptp(X, axis=0) > rounding * np.abs(X).max(axis=0), deviation, 0.0)
        Z = _standardise(X, mean, deviation)
        raw = Z.T @ Z / len(Z)
        np.fill_diagonal(raw, 1.0)
        target, share = _common_correlation(Z[:, deviation > 0])
        varying = (deviation > 0).astype(np.float64)
        matrix = raw + share * _noise_shift(raw, target * np.outer(varying, varying), len(Z))
        equal = _equal_pairs(raw)
        for _, later in equal:
            matrix[later] = matrix[:, later] = np.arange(len(matrix)) == later
        return cls(mean, deviation, _raise_eigenvalues(matrix), share, equal)

    def units(self, X: np.ndarray, /) -> np.ndarray:
        """Return columns (n, p) of mean 0 and variance 1; constant ones are 0."""
        return _standardise(X, self.mean, self.deviation)


def _standardise(X: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    return (X - mean) * (deviation > 0) / np.where(deviation > 0, deviation, 1.0)


def _common_correlation(Z: np.ndarray) -> tuple[float, float]:
    """Return the mean correlation of columns (n, p) of variance 1, and the share to take of it.

    The share is the estimated variance of the correlations' differences from their mean, among
    all that is seen of these differences.
    """
    n, p = Z.shape
    pairs = p * (p - 1)
    if pairs == 0:
        return 0.0, 1.0
    squares = Z * Z
    sizes = squares.sum(axis=1)
    of_rows = (Z.sum(axis=1) ** 2 - sizes) / pairs  # mean product of two columns
    mean = float(of_rows.mean())
    error = float(of_rows.var()) / n
    mean *= max(1.0 - error / mean**2, 0.0) if mean else 0.0  # one that may be chance takes room
    mean = max(mean, -_EIGENVALUE_ROOM / (p - 1))
    S = Z.T @ Z / n
    seen = float(np.sum(S * S)) - p - pairs * float(of_rows.mean()) ** 2
    if seen <= _ROUNDING:
        return mean, 1.0
    products = sizes**2 - np.sum(squares * squares, axis=1) - pairs * of_rows**2
    noise = float(products.mean()) - seen
    return mean, min(max(noise / (n * seen), 0.0), 1.0)


def _noise_shift(raw: np.ndarray, target: np.ndarray, n: int) -> np.ndarray:
    """Return how far correlations of n rows may deviate from a target by noise."""
    bound = _NOISE * (1.0 - raw**2) / n**0.5
    return np.clip(target - raw, -bound, bound)


def _raise_eigenvalues(matrix: np.ndarray) -> np.ndarray:
    """Return the correlation matrix whose smallest eigenvalues are raised."""
    values, vectors = map(to_host, eigh(matrix))
    if values[0] >= _SMALLEST:
        return matrix
    raised = (vectors * np.maximum(values, _SMALLEST)) @ vectors.T
    sizes = np.sqrt(np.diag(raised))
    raised /= np.outer(sizes, sizes)
    np.fill_diagonal(raised, 1.0)
    return raised


def _equal_pairs(raw: np.ndarray) -> list[tuple[int, int]]:
    same = np.triu(np.abs(raw) >= _EQUAL, 1)
    later = np.flatnonzero(same.any(axis=0))
    return [(int(np.argmax(same[:, j])), int(j)) for j in later]


# ---------------------------------------------------------------------------------- spread

# How far copies may be from what they copy: the diagonal s of what their covariance lacks.
#
# A column and its κ copies have the covariances :math:`\Sigma` of the columns, but for their own:
# :math:`\mathrm{cov}(X_j, \tilde X_j) = \Sigma_{jj} - s_j`. The larger s, the easier the two are
# told apart; all copies exist where :math:`(κ + 1) \Sigma - κ\, \mathrm{diag}(s)` has no negative
# eigenvalue.


_INSIDE = 0.999  # of the largest s: beyond, rounding makes a covariance that is none
_STEPS = ProjectedGradient(max_iter=60, tol=1e-4)


def equicorrelated(correlation: Array, copies: int, /) -> np.ndarray:
    r"""Return the largest s for all columns: :math:`\min(\frac{κ + 1}{κ} λ_{\min}, 1)`.

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
    r"""Return the s that makes columns hardest to reconstruct from all others.

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
    left = 1.0 / to_host(xp.linalg.diagonal(CholeskyFactor.factor(correlation).inverse()))
    roots = asarray_like(np.sqrt(left), correlation)
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
    """The function L and its derivative, with the last inverse cached."""

    def __init__(self, correlation: Array, copies: int) -> None:
        self.scaled, self.copies = (copies + 1.0) * correlation, float(copies)
        self._at: tuple[np.ndarray, Array] | None = None

    def _inverse(self, s: np.ndarray) -> Array:
        if self._at is None or not np.array_equal(self._at[0], s):
            xp = array_namespace(self.scaled)
            eye = xp.eye(len(s), **like(self.scaled))
            lacking = self.copies * asarray_like(s, self.scaled)[:, None] * eye
            self._at = s.copy(), CholeskyFactor.factor(self.scaled - lacking).inverse()
        return self._at[1]

    def value(self, s: np.ndarray, /) -> float:
        """Return L, infinite where no such copies exist."""
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


# -------------------------------------------------------------------------------- samplers

# Samplers of knockoffs: copies of the columns that know the other columns, and not the target.
#
# Several copies of a column are drawn together, so that a column and its copies could change
# places: of second order, that is in means and covariances.


_SPREADS = {"mvr": least_reconstructable, "equicorrelated": equicorrelated}


class Copies(Protocol):
    """A fitted sampler of copies of some rows."""

    @property
    def correlation(self) -> Correlation:
        """The correlation of the columns, or of their scores."""

    def draw(self, rng: np.random.RandomState, /) -> Array:
        """Draw κ copies of all columns, side by side: (n, κ p)."""


class KnockoffSampler(ABC):
    """A method to draw copies of columns."""

    @abstractmethod
    def of(self, X: Array, copies: int, /) -> Copies:
        """Fit the sampler to rows.

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

    def of(self, X: Array, copies: int, /) -> DrawnCopies:
        """Estimate means and covariances; see the base class."""
        host = _check_finite(X)
        correlation = Correlation.estimate(host, _rounding_tolerance(X))
        core = self._core(X, correlation.units(host), correlation, copies)
        mean, deviation = _place_rows(core.kept, correlation.mean, correlation.deviation)
        return DrawnCopies(correlation, core, lambda Z: mean + deviation * Z, X)

    def _core(
        self, X: Array, Z: np.ndarray, correlation: Correlation, copies: int
    ) -> GaussianCopies:
        """Factor the covariances of standardised columns Z on the place of X."""
        xp = array_namespace(X)
        Sigma = xp.asarray(correlation.matrix, **double_like(X))
        spread = _SPREADS[self.spread](Sigma, copies)
        return GaussianCopies.factor(xp.asarray(Z, **double_like(X)), Sigma, spread, copies)


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

    def of(self, X: Array, copies: int, /) -> DrawnCopies:
        """Rank the columns, and estimate covariances of the scores; see the base class."""
        from scipy.special import ndtri
        from scipy.stats import rankdata

        host = _check_finite(X)
        scores = ndtri((rankdata(host, axis=0) - 0.5) / len(host))
        correlation = Correlation.estimate(scores)
        core = self.gaussian._core(X, correlation.units(scores), correlation, copies)
        ordered = np.sort(host, axis=0)
        # Scores of equal values deviate less; spread as little, copies would miss the rare values
        tied = np.any(ordered[1:] == ordered[:-1], axis=0)
        untied = ndtri((np.arange(len(host)) + 0.5) / len(host)).std()
        (deviation,) = _place_rows(core.kept, np.where(tied, untied, correlation.deviation))
        values = asarray_like(ordered, core.kept)
        return DrawnCopies(
            correlation, core, lambda Z: _interpolate_at_scores(values, deviation * Z), X
        )


@dataclass(frozen=True, eq=False)
class DrawnCopies:
    """A fitted sampler of copies of the rows X."""

    correlation: Correlation
    core: GaussianCopies
    back: Callable[[Array], Array]  # from columns of variance 1
    X: Array

    def draw(self, rng: np.random.RandomState, /) -> Array:
        """Draw κ copies of all columns, side by side: (n, κ p)."""
        xp, dtype = array_namespace(self.X), self.X.dtype
        dtype = dtype if xp.isdtype(dtype, "real floating") else xp.float64
        drawn = [xp.astype(self.back(Z), dtype, copy=False) for Z in self.core.draw(rng)]
        return xp.concat(drawn, axis=1)


def _check_finite(X: Array, /) -> np.ndarray:
    """Copy to a float64 host array; raise ValueError if a number is not finite."""
    host = to_host(X).astype(np.float64)
    odd = np.argwhere(~np.isfinite(host))
    if len(odd):
        row, column = odd[0]
        msg = f"expected finite numbers, got {host[row, column]} in row {row}, column {column}"
        raise ValueError(msg)
    return host


def _rounding_tolerance(X: Array, /) -> float:
    """Return the relative tolerance by which a column counts as constant."""
    return 1e-6 if X.dtype == array_namespace(X).float32 else 1e-13


def _place_rows(there: Array, /, *rows: np.ndarray) -> tuple[Array, ...]:
    return tuple(asarray_like(row[None, :], there) for row in rows)


def _interpolate_at_scores(values: Array, scores: Array, /) -> Array:
    """Return values (n, q), sorted in each column, at normal scores (m, q): between two of them."""
    xp, n = array_namespace(values), values.shape[0]
    shares = 0.5 * (1.0 + erf(scores * 0.5**0.5))
    at = clip(n * shares - 0.5, low=0.0, high=n - 1.0)
    below = xp.floor(at)
    lower = xp.astype(below, xp.int64)
    upper = clip(lower + 1, high=n - 1)
    low, high = (xp.take_along_axis(values, index, axis=0) for index in (lower, upper))
    return low + (at - below) * (high - low)
