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
from numbers import Integral
from typing import Protocol

import numpy as np
from scipy.special import gammaln

from gpukfl.core._checks import check_number
from gpukfl.core._lazy import OldName

_TAIL = 1e-3  # of the law's mass that a cut of the degree may leave out
_NOTHING = 1e-9  # of it that no table has room for
LARGEST_DEGREE = 400  # degrees that are looked at
_SINGLE_DEGREES = 4  # up to which tuples of one variable are drawn by themselves


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

    def __post_init__(self) -> None:
        if (self.decay is None) == (self.largest is None):
            msg = f"expected a decay or a largest degree, got {self.decay} and {self.largest}"
            raise ValueError(msg)
        check_number("decay", self.decay, low=0, also=(None,))
        if self.decay is not None and self.decay >= 1.0:
            msg = f"expected a decay of at least 0 and below 1, got {self.decay}"
            raise ValueError(msg)
        for name, degree in (("largest", self.largest), ("cut", self.cut)):
            high = LARGEST_DEGREE
            check_number(name, degree, kind=Integral, low=1, high=high, also=(None,))

    def log_c(self, degrees: np.ndarray, /) -> np.ndarray:
        """Logarithms of c at some degrees."""
        if self.largest is not None:
            return np.where(degrees <= self.largest, 0.0, -np.inf)
        assert self.decay is not None
        if self.decay == 0.0:  # only degree 1 is left
            return np.where(degrees <= 1, 0.0, -np.inf)
        return degrees * math.log(self.decay)

    @property
    def text(self) -> str:
        """The law in words."""
        return (
            f"degree decay {self.decay:g}"
            if self.largest is None
            else f"degree up to {self.largest}"
        )

    @property
    def longest(self) -> int:
        """The number of degrees to consider."""
        if self.largest is not None:
            return self.largest
        return LARGEST_DEGREE if self.cut is None else self.cut

    described = OldName("text")


@dataclass(frozen=True)
class DerivativePenalty:
    r"""The denominators :math:`\lambda + \mu\, \alpha^\top \eta^{-1}`."""

    ridge: float  # λ
    strength: float  # μ

    def log_values(self, weighted_degrees: np.ndarray, /) -> np.ndarray:
        r"""Logarithms, given :math:`\alpha^\top \eta^{-1}`."""
        with np.errstate(over="ignore"):
            return np.log(self.ridge + self.strength * weighted_degrees)


@dataclass(frozen=True, eq=False)
class MultiIndices:
    """Distinct tuples and their weights."""

    tuples: np.ndarray  # (m', d), int64
    scales: np.ndarray  # (m',)
    counts: np.ndarray  # how often each was drawn (m',)

    @property
    def degrees(self) -> np.ndarray:
        """Total degrees (m',)."""
        return self.tuples.sum(axis=1)


def equal_eta(d: int, exponent: float, /) -> np.ndarray:
    r"""Return the η whose entries are equal, with :math:`\sum_a \eta_a^{r/(2-r)} = 1`."""
    return np.full(d, float(d) ** (-(2.0 - exponent) / exponent))


def draw_tuples(
    count: int,
    eta: np.ndarray,
    law: DegreeLaw,
    penalty: DerivativePenalty,
    exponent: float,
    rng: np.random.RandomState,
    /,
) -> MultiIndices:
    """Draw tuples from the law of the kernel, or one close to it, with importance weights.

    With equal η the law is exact; otherwise η is replaced by the nearer value of two groups
    (group sampling, Section 3.3), and for c = 1 up to a degree tuples are uniform, or all there
    are if that is no more than m. Where m is below the number of tuples of degrees 1 and 2, half of
    them have one variable only; the weights are those of the mixture.

    Parameters
    ----------
    count : int
        Tuples, m.
    eta : host array (d,)
        η, positive.
    law : DegreeLaw
        c.
    penalty : DerivativePenalty
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
    d = len(eta)
    if law.largest is not None and math.comb(law.largest + d, d) - 1 <= count:
        return _all_tuples(eta, law, penalty)
    laws: list[_Law] = [_main_law(eta, law, penalty, exponent)]
    if 1 < count < math.comb(d + 2, 2) - 1:
        laws.append(_SingleVariables(eta, exponent, laws[0].reach))
    sizes = [count - count // 2, count // 2] if len(laws) == 2 else [count]
    tuples = np.concatenate([one.draw(m, rng) for one, m in zip(laws, sizes, strict=True)])
    log_density = np.logaddexp.reduce(
        [one.log_density(tuples) + math.log(m / count) for one, m in zip(laws, sizes, strict=True)]
    )
    log_term = law.log_c(tuples.sum(axis=1)) - penalty.log_values(tuples @ (1.0 / eta))
    _, first, counts = np.unique(hash_tuples(tuples)[0], return_index=True, return_counts=True)
    # Those with the most factors first, in which order features are computed
    order = np.argsort(-(tuples[first] > 0).sum(axis=1), kind="stable")
    first, counts = first[order], counts[order]
    log_squares = (log_term - log_density - math.log(count))[first]
    return MultiIndices(tuples[first], np.sqrt(counts) * np.exp(0.5 * log_squares), counts)


def hash_tuples(tuples: np.ndarray, /) -> tuple[np.ndarray, np.ndarray]:
    """Random 64-bit hashes (m,) that are linear in the tuples (m, d), and those of a step (d,)."""
    d = tuples.shape[1]
    words = np.asarray(np.random.RandomState(0).randint(0, 2**63, size=d), dtype=np.uint64)
    return np.asarray(tuples.astype(np.uint64) @ words), words


def _main_law(eta: np.ndarray, law: DegreeLaw, penalty: DerivativePenalty, exponent: float) -> _Law:
    if law.largest is not None:
        return _UniformLaw(len(eta), law.largest)
    return _GroupLaw(eta, _upper_group(eta, exponent), law, penalty)


def _upper_group(eta: np.ndarray, exponent: float) -> np.ndarray:
    """Return which entries are above the largest gap of their shares; all if η is equal."""
    shares = eta ** (exponent / (2.0 - exponent))
    ordered = np.sort(shares)
    gaps = np.diff(ordered)
    if not len(gaps) or gaps.max() <= 1e-9 * ordered[-1]:
        return np.ones(len(eta), dtype=bool)
    return shares >= ordered[np.argmax(gaps) + 1]


def _log_total(logs: np.ndarray) -> float:
    """Return the logarithm of a sum given by logarithms, one of them finite."""
    top = logs.max()  # SciPy's function, which allows for more, takes longer than all else here
    return float(top + np.log(np.sum(np.exp(logs - top))))


def _log_count(degree: np.ndarray, d: int) -> np.ndarray:
    """Logarithm of the number of tuples of `d` entries with a total degree."""
    if d == 0:
        return np.where(degree == 0, 0.0, -np.inf)
    return gammaln(degree + d) - gammaln(degree + 1) - gammaln(d)


def _all_tuples(eta: np.ndarray, law: DegreeLaw, penalty: DerivativePenalty) -> MultiIndices:
    """Return all tuples up to the largest degree: the exact kernel."""
    d = len(eta)
    assert law.largest is not None
    rows = [
        np.bincount(places, minlength=d)
        for degree in range(1, law.largest + 1)
        for places in combinations_with_replacement(range(d), degree)
    ]
    tuples = np.asarray(rows, dtype=np.int64)
    logs = law.log_c(tuples.sum(axis=1)) - penalty.log_values(tuples @ (1.0 / eta))
    return MultiIndices(tuples, np.exp(0.5 * logs), np.ones(len(tuples), dtype=np.int64))


class _Law(Protocol):
    """A law of tuples on the degrees 1 to `reach`."""

    reach: int

    def draw(self, count: int, rng: np.random.RandomState) -> np.ndarray:
        """Independent tuples (count, d)."""
        ...

    def log_density(self, tuples: np.ndarray) -> np.ndarray:
        """Logarithms of the probabilities of tuples within reach."""
        ...


class _UniformLaw:
    """Uniform among the tuples of degree 1 to `reach`."""

    def __init__(self, d: int, reach: int) -> None:
        self.d, self.reach = d, reach
        self._degrees = np.arange(1, reach + 1)
        logs = _log_count(self._degrees, d)
        self._total = _log_total(logs)
        self._p = np.exp(logs - self._total)

    def draw(self, count: int, rng: np.random.RandomState) -> np.ndarray:
        return _draw_uniform_tuples(rng.choice(self._degrees, size=count, p=self._p), self.d, rng)

    def log_density(self, tuples: np.ndarray) -> np.ndarray:
        return np.full(len(tuples), -self._total)


class _GroupLaw:
    """The degrees of two groups jointly, then each group's tuples uniformly."""

    def __init__(
        self, eta: np.ndarray, first: np.ndarray, law: DegreeLaw, penalty: DerivativePenalty
    ) -> None:
        self.first, self.sizes = first, (int(first.sum()), int((~first).sum()))
        d1, d2 = self.sizes
        near1 = eta[first].min()
        near2 = eta[~first].max() if d2 else 1.0
        k = np.arange((_largest_degree(law, len(eta)) if law.cut is None else law.cut) + 1)
        self._k1, self._k2 = np.meshgrid(k, k if d2 else k[:1], indexing="ij")
        degrees = self._k1 + self._k2
        logs = _log_count(k, d1)[:, None] + _log_count(self._k2[0], d2) + law.log_c(degrees)
        logs -= penalty.log_values(self._k1 / near1 + self._k2 / near2)
        logs[0, 0] = -np.inf
        logs[degrees > k[-1]] = -np.inf
        logs = _trim_tail(logs, degrees) if law.cut is None else logs
        self._logs = logs - _log_total(logs)
        self.reach = int(degrees[np.isfinite(logs)].max())

    def draw(self, count: int, rng: np.random.RandomState) -> np.ndarray:
        drawn = rng.choice(self._logs.size, size=count, p=np.exp(self._logs).ravel())
        tuples = np.zeros((count, sum(self.sizes)), dtype=np.int64)
        tuples[:, self.first] = _draw_uniform_tuples(self._k1.ravel()[drawn], self.sizes[0], rng)
        if self.sizes[1]:
            tuples[:, ~self.first] = _draw_uniform_tuples(
                self._k2.ravel()[drawn], self.sizes[1], rng
            )
        return tuples

    def log_density(self, tuples: np.ndarray) -> np.ndarray:
        one = tuples[:, self.first].sum(axis=1)
        two = tuples[:, ~self.first].sum(axis=1)
        d1, d2 = self.sizes
        return self._logs[one, two] - _log_count(one, d1) - _log_count(two, d2)


class _SingleVariables:
    """A law of low-degree tuples of one variable, chosen by importance.

    Where there are many variables the kernel's law draws next to none of these beyond degree 1,
    and additive functions would not be seen.
    """

    def __init__(self, eta: np.ndarray, exponent: float, reach: int) -> None:
        shares = eta ** (exponent / (2.0 - exponent))
        self.reach = min(_SINGLE_DEGREES, reach)
        self._p = shares / shares.sum()

    def draw(self, count: int, rng: np.random.RandomState) -> np.ndarray:
        tuples = np.zeros((count, len(self._p)), dtype=np.int64)
        variables = rng.choice(len(self._p), size=count, p=self._p)
        tuples[np.arange(count), variables] = rng.randint(1, self.reach + 1, size=count)
        return tuples

    def log_density(self, tuples: np.ndarray) -> np.ndarray:
        degrees, largest = tuples.sum(axis=1), tuples.max(axis=1)
        mine = (degrees == largest) & (degrees <= self.reach)
        logs = np.log(self._p[np.argmax(tuples, axis=1)] / self.reach)
        return np.where(mine, logs, -np.inf)


def _largest_degree(law: DegreeLaw, d: int) -> int:
    """Return the degree above which the mass is negligible.

    Of the law without its denominators; with them less is left, as they grow with the tuple.
    """
    k = np.arange(law.longest + 1)
    logs = _log_count(k, d) + law.log_c(k)
    logs[0] = -np.inf
    return int(np.flatnonzero(np.isfinite(_trim_tail(logs, k, _NOTHING))).max())


def _trim_tail(logs: np.ndarray, degrees: np.ndarray, tail: float = _TAIL) -> np.ndarray:
    """Drop the highest degrees that hold little of the mass."""
    masses = np.bincount(degrees.ravel(), weights=np.exp(logs - _log_total(logs)).ravel())
    beyond = np.cumsum(masses[::-1])[::-1]  # mass of this degree and all above
    last = int(np.flatnonzero(beyond > tail).max())
    return np.where(degrees <= last, logs, -np.inf)


def _draw_uniform_tuples(degrees: np.ndarray, d: int, rng: np.random.RandomState) -> np.ndarray:
    """Draw a uniform tuple of `d` entries for each total degree: (m, d).

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
