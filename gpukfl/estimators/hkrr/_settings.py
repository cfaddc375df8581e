"""Settings of HKRR: how its parameters are grouped, and the grid that a search goes over."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral

from gpukfl.core._array import Array
from gpukfl.core._checks import check_bool, check_choice, check_number
from gpukfl.kernels import Kernel
from gpukfl.methods import SELECTIONS, AverageGradientOuterProduct, RidgePath
from gpukfl.solvers import LBFGS, AlternatingGradient, VariableProjection

Optimizer = LBFGS | VariableProjection | AlternatingGradient | AverageGradientOuterProduct

_CENTERS = 500
_START_COMPONENTS = 20  # the paper's choice for larger data
_MOST_COMPONENTS = 64
_ALIKE = 1.5  # times the samples that a ridge was chosen on, up to which it serves


@dataclass(frozen=True)
class Centers:
    """Nyström centres of HKRR: how many, and which.

    Parameters
    ----------
    fit : int or "auto"
        Centres while the map is learned; "auto" is 500. By evidence a number asks for Titsias'
        bound on up to 20,000 samples, where "auto" takes all pairs of at most 2500 of them.
    refit : int, "auto", "all" or None
        Centres of the last fit, at the learned map; ridge and lengthscale are tuned anew, in closed
        form. "auto" is all of at most 6000 samples, else 2000, or what memory allows. None keeps
        the model of the optimisation.
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
    def wanted(self) -> int:
        """Centres while the map is learned, where rows and time allow them."""
        return int(self.fit) if self.are_given else _CENTERS

    @property
    def are_given(self) -> bool:
        """Whether somebody said how many."""
        return not isinstance(self.fit, str)


@dataclass(frozen=True)
class HoldOut:
    """The criterion of held-out rows, by which HKRR is published: where to start.

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
    """The parameters of the estimators.

    Attributes
    ----------
    n_components : int or None
        Rows of the map; None is chosen.
    ridge : float or None
        λ while the map is learned; None is chosen.
    lengthscale : float or None
        Kept as it is; None starts at the median distance, and is learned.
    n_starts : int
        Random maps among those to start from.
    start, start_lengthscale : array and float, or None
        The only map to start from, if it is of as many features, and its lengthscale.
    criterion : {"hold_out", "evidence", "loo"}
        By which the map is learned.
    structure : {"full", "low_rank", "diagonal"}
        Of the map.
    """

    n_components: int | None
    kernel: Kernel
    ridge: float | None
    lengthscale: float | None
    centers: Centers
    optimizer: Optimizer
    n_starts: int
    start: Array | None
    start_lengthscale: float | None
    scaling: str | None
    criterion: str = "hold_out"
    structure: str = "full"

    @property
    def is_given(self) -> bool:
        """Whether there is nothing to choose but a start."""
        return self.n_components is not None and self.ridge is not None


@dataclass(frozen=True, eq=False)
class TunedRefit:
    """What the lengthscale and the ridge of a last fit were chosen by."""

    stretch: float  # of the learned lengthscale
    path: RidgePath
    n_samples: int

    def serves(self, n: int, /) -> bool:
        """Whether another fit, to n samples, need not choose again."""
        return n <= _ALIKE * self.n_samples


@dataclass(frozen=True)
class HyperKernelSetting:
    """A point of the grid; without steps the map is that of the start."""

    components: int
    ridge: float
    steps: int = 0
    start: int = 0  # which of the starts it goes on from
    tuned: TunedRefit | None = field(default=None, compare=False)  # of a fit to about the same rows


def largest_n_components(d: int, /) -> int:
    return min(d, _MOST_COMPONENTS)


def start_n_components(d: int, /) -> int:
    """Rows of the maps to start from, where their number is chosen."""
    return min(d, _START_COMPONENTS)


def n_components_grid(d: int) -> list[int]:
    """Numbers of components to choose among: powers of two, the paper's 20, and d."""
    sizes = {2**k for k in range(7)} | {min(d, _START_COMPONENTS), largest_n_components(d)}
    return sorted(size for size in sizes if size <= min(d, _MOST_COMPONENTS))
