"""Settings of HKRR, and the grid of its search."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import Self

from gpukfl.core._array import Array
from gpukfl.core._checks import check_bool, check_choice, check_number
from gpukfl.core._lazy import OldName
from gpukfl.core._results import History, Status
from gpukfl.kernels import Kernel, KernelTerms
from gpukfl.methods import SELECTIONS, AverageGradientOuterProduct, MetricFit, RidgePath
from gpukfl.solvers import LBFGS, AlternatingGradient, VariableProjection

Optimizer = LBFGS | VariableProjection | AlternatingGradient | AverageGradientOuterProduct

_CENTERS = 500
_START_COMPONENTS = 20  # the paper's choice for larger data
_MOST_COMPONENTS = 64
_ALIKE = 1.5  # a tuned ridge is used for up to so many times its samples
LOGISTIC = "logistic"  # criterion for classes: the evidence of their log odds


@dataclass(frozen=True)
class Centers:
    """The Nyström centres of HKRR: their number and choice.

    Parameters
    ----------
    fit : int or "auto"
        Centres while the map is learned; "auto" is 500. By evidence a number asks for Titsias'
        bound on up to 20,000 samples, where "auto" takes all pairs of at most 2500 of them.
    refit : int, "auto", "all" or None
        Centres of the last fit, at the learned map; ridge and lengthscale are tuned anew, in closed
        form. "auto" is all of at most 6000 samples, else 2000, or what memory allows; it goes on
        from these to all of at most 20,000 samples, or 200,000 on a GPU. "all" takes all of any
        number: of more than 20,000, or 100,000 on a GPU, until the error on 2000 that are held out
        stops falling. None keeps the model of the optimisation.
    selection : {"uniform", "leverage", "pivoted"}
        Uniform draws, approximate ridge leverage scores, or randomly pivoted Cholesky.
    """

    fit: int | str = "auto"
    refit: int | str | None = "auto"
    selection: str = "uniform"

    def __post_init__(self) -> None:
        check_number("n_centers", self.fit, kind=Integral, low=1, also=("auto",))
        check_number("refit", self.refit, kind=Integral, low=1, also=("auto", "all", None))
        check_choice("selection", self.selection, SELECTIONS)

    @property
    def n_while_learning(self) -> int:
        """The number of centres while the map is learned."""
        return int(self.fit) if self.are_given else _CENTERS

    @property
    def are_given(self) -> bool:
        """Whether the user chose the number of centres."""
        return not isinstance(self.fit, str)

    wanted = OldName("n_while_learning")


@dataclass(frozen=True)
class HoldOut:
    """The hold-out criterion of HKRR's paper, and its starting maps.

    Parameters
    ----------
    n_starts : int
        Random maps among those to start from, beside principal axes, average gradients of a first
        fit, and the map of the highest evidence; the best on held-out rows is taken.
    warm_start : bool
        Start from the last fit's map only.
    """

    n_starts: int = 10
    warm_start: bool = False

    def __post_init__(self) -> None:
        check_number("n_starts", self.n_starts, kind=Integral, low=0)
        check_bool("warm_start", self.warm_start)


@dataclass(frozen=True)
class HKRRSettings:
    """The parameters of the estimators."""

    n_components: int | None  # None: to be chosen
    kernel: Kernel
    ridge: float | None  # None: to be chosen
    lengthscale: float | None  # None: learned, from the median distance
    centers: Centers
    optimizer: Optimizer
    n_starts: int  # random starting maps
    start: Array | None  # the only starting map, if it has the right number of features
    start_lengthscale: float | None  # of `start`
    scaling: str | tuple[str, ...] | None  # several: one for each term of the kernel
    criterion: str = "hold_out"  # or "evidence", "loo", "logistic"
    structure: str = "full"  # of the map; or "low_rank", "diagonal", "diagonals"

    @property
    def is_logistic(self) -> bool:
        """Whether log odds of classes are fitted instead of indicators."""
        return self.criterion == LOGISTIC

    @property
    def is_given(self) -> bool:
        """Whether components and ridge are given, so that only a start is chosen."""
        return self.n_components is not None and self.ridge is not None


@dataclass(frozen=True, eq=False)
class TunedRefit:
    """The lengthscale and ridges of a final fit, and how they were tuned."""

    stretch: float  # factor of the learned lengthscale
    path: RidgePath
    n_samples: int

    def serves(self, n: int, /) -> bool:
        """Whether a fit to n samples can use these settings."""
        return n <= _ALIKE * self.n_samples


@dataclass(frozen=True)
class HyperKernelSetting:
    """A point of the grid; a start has no steps."""

    components: int
    ridge: float
    steps: int = 0
    start: int = 0  # index of the starting map
    tuned: TunedRefit | None = field(default=None, compare=False)  # of a fit to similar rows
    map: Array | None = field(default=None, compare=False)  # an earlier fit's, to start from
    lengthscale: float = field(default=1.0, compare=False)  # of `map`


def largest_n_components(d: int, /) -> int:
    return min(d, _MOST_COMPONENTS)


def start_n_components(d: int, /) -> int:
    """Return the number of rows of starting maps."""
    return min(d, _START_COMPONENTS)


def n_components_grid(d: int) -> list[int]:
    """Return the numbers of components to choose from: powers of two, the paper's 20, and d."""
    sizes = {2**k for k in range(7)} | {min(d, _START_COMPONENTS), largest_n_components(d)}
    return sorted(size for size in sizes if size <= min(d, _MOST_COMPONENTS))


@dataclass(frozen=True)
class GradientSetting:
    """A lengthscale, in median distances of the mapped rows, and results of a similar fit."""

    stretch: float
    ridges: tuple[float, ...] | None = None  # of successive fits up to the best map
    map: Array | None = None
    tuned: TunedRefit | None = field(default=None, compare=False)


@dataclass(frozen=True, eq=False)
class KnownMetric:
    """A learned metric in the form of files, without the record of its fit."""

    C: Array
    ratio: float
    terms: KernelTerms | None = None

    @classmethod
    def from_fit(cls, fit: MetricFit, /) -> Self:
        """Return the metric of a fit."""
        return cls(fit.C, float(fit.ratio), fit.terms)

    def to_fit(self) -> MetricFit:
        """Return the metric as a fit from which another one starts."""
        return MetricFit(self.C, self.ratio, 0.0, Status.CONVERGED, History(), self.terms)
