r"""Random tuples of Hermite degrees, and the weights of their features.

The kernel (3.6) of Follain and Bach, "Nonparametric Linear Feature Learning in Regression Through
Regularisation" (arXiv:2307.12754),

.. math:: k(x, x') = \sum_{\alpha \ne 0} \frac{c_{|\alpha|}}{\lambda + \mu\, \alpha^\top \eta^{-1}}
          H_\alpha(R^\top x)\, H_\alpha(R^\top x')

is estimated without bias from m tuples α. They are drawn on the host, with all laws in logarithms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from scipy.special import gammaln, logsumexp

_TAIL = 1e-3  # of the law's mass that a cut of the degree may leave out
_NOTHING = 1e-9  # of it that no table has room for
_LONGEST = 400  # degrees that are looked at


@dataclass(frozen=True)
class DegreeLaw:
    r"""The sequence :math:`c_k`: :math:`\rho^k`, or 1 up to a largest degree M.

    Parameters
    ----------
    decay : float, optional
        ρ, at least 0 and below 1.
    largest : int, optional
        M.
    cut : int, optional
        Degree at which sums over :math:`\rho^k` end; by default where a thousandth of the law's
        mass is left.
    """

    decay: float | None = None
    largest: int | None = None
    cut: int | None = None

    def log_c(self, degrees: np.ndarray, /) -> np.ndarray:
        """Logarithms of c at some degrees."""
        if self.largest is not None:
            return np.where(degrees <= self.largest, 0.0, -np.inf)
        assert self.decay is not None
        if self.decay == 0.0:  # only degree 1 is left
            return np.where(degrees <= 1, 0.0, -np.inf)
        return degrees * math.log(self.decay)

    @property
    def longest(self) -> int:
        """Degrees to look at."""
        if self.largest is not None:
            return self.largest
        return _LONGEST if self.cut is None else self.cut


@dataclass(frozen=True)
class Penalty:
    r"""The denominators :math:`\lambda + \mu\, \alpha^\top \eta^{-1}`."""

    ridge: float  # λ
    strength: float  # μ

    def log_of(self, weighted_degrees: np.ndarray, /) -> np.ndarray:
        r"""Logarithms, given :math:`\alpha^\top \eta^{-1}`."""
        with np.errstate(over="ignore"):
            return np.log(self.ridge + self.strength * weighted_degrees)


@dataclass(frozen=True, eq=False)
class MultiIndices:
    """Distinct tuples, and what their features are multiplied with."""

    tuples: np.ndarray  # (m', d), int64
    scales: np.ndarray  # (m',)
    counts: np.ndarray  # how often each was drawn (m',)

    @property
    def degrees(self) -> np.ndarray:
        """Total degrees (m',)."""
        return self.tuples.sum(axis=1)


def equal_eta(d: int, exponent: float, /) -> np.ndarray:
    r"""Give the η whose entries are equal, with :math:`\sum_a \eta_a^{r/(2-r)} = 1`."""
    return np.full(d, float(d) ** (-(2.0 - exponent) / exponent))


def draw_tuples(
    count: int,
    eta: np.ndarray,
    law: DegreeLaw,
    penalty: Penalty,
    exponent: float,
    rng: np.random.RandomState,
    /,
) -> MultiIndices:
    """Draw tuples from the law of the kernel, or one close to it, with importance weights.

    With equal η the law is exact; otherwise η is replaced by the nearer value of two groups
    (group sampling, Section 3.3), and for c = 1 up to a degree tuples are uniform, or all there
    are if that is no more than m.

    Parameters
    ----------
    count : int
        Tuples, m.
    eta : host array (d,)
        η, positive.
    law : DegreeLaw
        c.
    penalty : Penalty
        λ and μ.
    exponent : float
        r.
    rng : RandomState
        Draws.

    Returns
    -------
    MultiIndices
        The distinct tuples. The sum over them of squared scales times products of features is
        the kernel, in expectation.

    Notes
    -----
    O(m d), and O(K²) for the table of two degrees up to K.
    """
    first = _upper_group(eta, exponent)
    if law.largest is not None:
        if math.comb(law.largest + len(eta), len(eta)) - 1 <= count:
            return _all_of_them(eta, law, penalty)
        tuples, log_density = _uniform(count, len(eta), law.largest, rng)
    else:
        tuples, log_density = _grouped(count, eta, first, law, penalty, rng)
    log_term = law.log_c(tuples.sum(axis=1)) - penalty.log_of(tuples @ (1.0 / eta))
    distinct, inverse, counts = np.unique(tuples, axis=0, return_inverse=True, return_counts=True)
    log_squares = np.empty(len(distinct))
    log_squares[inverse.ravel()] = log_term - log_density - math.log(count)
    return MultiIndices(distinct, np.sqrt(counts) * np.exp(0.5 * log_squares), counts)


def _upper_group(eta: np.ndarray, exponent: float) -> np.ndarray:
    """Entries above the largest gap of their shares; all of them where η is equal."""
    shares = eta ** (exponent / (2.0 - exponent))
    ordered = np.sort(shares)
    gaps = np.diff(ordered)
    if not len(gaps) or gaps.max() <= 1e-9 * ordered[-1]:
        return np.ones(len(eta), dtype=bool)
    return shares >= ordered[np.argmax(gaps) + 1]


def _log_count(degree: np.ndarray, d: int) -> np.ndarray:
    """Logarithm of the number of tuples of `d` entries with a total degree."""
    if d == 0:
        return np.where(degree == 0, 0.0, -np.inf)
    return gammaln(degree + d) - gammaln(degree + 1) - gammaln(d)


def _all_of_them(eta: np.ndarray, law: DegreeLaw, penalty: Penalty) -> MultiIndices:
    """Every tuple up to the largest degree: the kernel itself."""
    d = len(eta)
    assert law.largest is not None
    rows = [
        np.bincount(places, minlength=d)
        for degree in range(1, law.largest + 1)
        for places in combinations_with_replacement(range(d), degree)
    ]
    tuples = np.asarray(rows, dtype=np.int64)
    logs = law.log_c(tuples.sum(axis=1)) - penalty.log_of(tuples @ (1.0 / eta))
    return MultiIndices(tuples, np.exp(0.5 * logs), np.ones(len(tuples), dtype=np.int64))


def _uniform(
    count: int, d: int, largest: int, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Draw uniformly among the tuples of degree 1 to `largest`."""
    degrees = np.arange(1, largest + 1)
    logs = _log_count(degrees, d)
    total = logsumexp(logs)
    drawn = rng.choice(degrees, size=count, p=np.exp(logs - total))
    return _spread(drawn, d, rng), np.full(count, -total)


def _grouped(
    count: int,
    eta: np.ndarray,
    first: np.ndarray,
    law: DegreeLaw,
    penalty: Penalty,
    rng: np.random.RandomState,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the degrees of two groups jointly, then each group's tuples uniformly."""
    d1, d2 = int(first.sum()), int((~first).sum())
    near1 = eta[first].min()
    near2 = eta[~first].max() if d2 else 1.0
    k = np.arange((_reach(law, len(eta)) if law.cut is None else law.cut) + 1)
    k1, k2 = np.meshgrid(k, k if d2 else k[:1], indexing="ij")
    weighted = k1 / near1 + k2 / near2
    logs = _log_count(k, d1)[:, None] + _log_count(k2[0], d2) + law.log_c(k1 + k2)
    logs -= penalty.log_of(weighted)
    logs[0, 0] = -np.inf
    logs[k1 + k2 > k[-1]] = -np.inf
    logs = _cut(logs, k1 + k2) if law.cut is None else logs
    total = logsumexp(logs)
    drawn = rng.choice(logs.size, size=count, p=np.exp(logs - total).ravel())
    one, two = k1.ravel()[drawn], k2.ravel()[drawn]
    tuples = np.zeros((count, len(eta)), dtype=np.int64)
    tuples[:, first] = _spread(one, d1, rng)
    if d2:
        tuples[:, ~first] = _spread(two, d2, rng)
    log_density = logs.ravel()[drawn] - total - _log_count(one, d1) - _log_count(two, d2)
    return tuples, log_density


def _reach(law: DegreeLaw, d: int) -> int:
    """Degree above which next to nothing is left, so that tables need not be larger.

    Of the law without its denominators; with them less is left, as they grow with the tuple.
    """
    k = np.arange(law.longest + 1)
    logs = _log_count(k, d) + law.log_c(k)
    logs[0] = -np.inf
    return int(np.flatnonzero(np.isfinite(_cut(logs, k, _NOTHING))).max())


def _cut(logs: np.ndarray, degrees: np.ndarray, tail: float = _TAIL) -> np.ndarray:
    """Leave out the highest degrees, as long as they hold little of the mass."""
    masses = np.bincount(degrees.ravel(), weights=np.exp(logs - logsumexp(logs)).ravel())
    beyond = np.cumsum(masses[::-1])[::-1]  # mass of this degree and all above
    last = int(np.flatnonzero(beyond > tail).max())
    return np.where(degrees <= last, logs, -np.inf)


def _spread(degrees: np.ndarray, d: int, rng: np.random.RandomState) -> np.ndarray:
    """Draw a tuple of `d` entries uniformly among those of each total degree: (m, d).

    A tuple is the numbers of stars between d - 1 bars among k + d - 1 places; the bars are the
    places of the smallest random keys.
    """
    m = len(degrees)
    if d == 1:
        return degrees[:, None].astype(np.int64)
    tuples = np.empty((m, d), dtype=np.int64)
    for k in np.unique(degrees):
        rows = np.flatnonzero(degrees == k)
        places = int(k) + d - 1
        bars = np.sort(np.argsort(rng.random_sample((len(rows), places)), axis=1)[:, : d - 1])
        edges = np.concatenate(
            [np.full((len(rows), 1), -1), bars, np.full((len(rows), 1), places)], axis=1
        )
        tuples[rows] = np.diff(edges, axis=1) - 1
    return tuples
