"""The parameters of the kernel feature selectors, as frozen values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral

from gpukfl.core._checks import check_choice, check_number
from gpukfl.core._lazy import OldName
from gpukfl.kernels import Manhattan, Radial
from gpukfl.knockoffs import GaussianKnockoffs, KnockoffSampler, RankKnockoffs
from gpukfl.solvers import ProjectedGradient

SAMPLERS: dict[str, KnockoffSampler] = {"ranks": RankKnockoffs(), "gaussian": GaussianKnockoffs()}

DEFAULT_RIDGE = 0.01  # the paper's
_MOST_COPIES = 10  # of every column, for copies="auto"


@dataclass(frozen=True)
class Permutations:
    """Thresholds γ from permutations of the samples, drawn in every round.

    Parameters
    ----------
    number : int
        Orders: the chance of any false variable in a round is about 1 / (1 + number). Five times
        as many, for the same chance, where they cost next to nothing.
    """

    number: int = 19

    def __post_init__(self) -> None:
        check_number("number", self.number, kind=Integral, low=1)


@dataclass(frozen=True)
class Path:
    """A path over γ, from the smallest γ that selects nothing to a thousandth of it.

    The sparsest model whose hold-out loss is within a standard error of the best is taken.

    Parameters
    ----------
    number : int
        Values of γ.
    """

    number: int = 10

    def __post_init__(self) -> None:
        check_number("number", self.number, kind=Integral, low=2)


@dataclass(frozen=True)
class Stability:
    """Stability selection: keep variables that are selected on enough halves of the samples.

    Parameters
    ----------
    n_subsamples : int
        Halves, in complementary pairs, for which the bound is: one more than an odd number.
    max_false : float
        Bound on the expected number of false variables.
    """

    n_subsamples: int
    max_false: float = 1.0

    def __post_init__(self) -> None:
        check_number("n_subsamples", self.n_subsamples, kind=Integral, low=1)
        check_number("max_false", self.max_false, low=0, low_allowed=False)

    @property
    def n_halves(self) -> int:
        """The number of halves in complete pairs."""
        return int(self.n_subsamples) + int(self.n_subsamples) % 2


@dataclass(frozen=True)
class Knockoffs:
    r"""Selection with a bounded false discovery rate by knockoff copies.

    Parameters
    ----------
    level : float
        α, in (0, 1]: the share of false variables among those selected, at most, on average.
    draws : int
        Fits, each to the variables and to new copies of them. Several make what is found depend
        less on chance.
    copies : int or "auto"
        κ copies of every variable, which compete with it in one fit: :math:`1 / (κ \alpha)`
        variables at least must be found at a level α, or none is. "auto" is so many that one
        variable may be found alone, and at most 10.
    sampler : {"ranks", "gaussian"} or KnockoffSampler
        How copies are drawn: of columns that are increasing functions of Gaussian ones, or of
        columns that are Gaussian, see `gpukfl.knockoffs`.
    """

    level: float = 0.1
    draws: int = 2
    copies: int | str = "auto"
    sampler: str | KnockoffSampler = "ranks"

    def __post_init__(self) -> None:
        check_number("level", self.level, low=0, high=1, low_allowed=False)
        check_number("draws", self.draws, kind=Integral, low=1)
        check_number("copies", self.copies, kind=Integral, low=1, also=("auto",))
        if not isinstance(self.sampler, KnockoffSampler):
            check_choice("sampler", self.sampler, tuple(SAMPLERS))

    @property
    def n_copies(self) -> int:
        """The number κ."""
        if isinstance(self.copies, str):
            return min(math.ceil((1.0 - 1e-9) / self.level), _MOST_COPIES)
        return int(self.copies)

    @property
    def sampler_object(self) -> KnockoffSampler:
        """The sampler itself."""
        return SAMPLERS[self.sampler] if isinstance(self.sampler, str) else self.sampler

    drawn_by = OldName("sampler_object")


@dataclass(frozen=True)
class Weights:
    """The size of the variables' weights.

    Parameters
    ----------
    anchor : float or "auto"
        τ, the weight of variables that earlier rounds found. "auto" is the reciprocal of the mean
        difference of two samples (or of its square).
    radius : float
        M: bound on the sum of the weights that are free.
    """

    anchor: float | str = "auto"
    radius: float = 10.0

    def __post_init__(self) -> None:
        check_number("anchor", self.anchor, low=0, low_allowed=False, also=("auto",))
        check_number("radius", self.radius, low=0, low_allowed=False)


@dataclass(frozen=True)
class SelectionSettings:
    """The parameters of the estimators."""

    kernel: Radial | Manhattan
    ridge: float | None  # λ of the selection; None: to be chosen
    sparsity: float | Permutations | Path  # γ, or how it is chosen
    hierarchical: bool
    weights: Weights
    n_centers: int | str  # rank of the kernel matrix's factor, "all" for the matrix, or "auto"
    error_control: Stability | Knockoffs | None
    optimizer: ProjectedGradient
    scaling: str | None

    @property
    def n_permutations(self) -> int:
        """The number of random orders for a threshold."""
        known = isinstance(self.sparsity, Permutations)
        return (self.sparsity if known else Permutations()).number  # type: ignore[union-attr]
