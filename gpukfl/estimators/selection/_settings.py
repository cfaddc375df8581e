"""The parameters of the kernel feature selectors, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

from gpukfl._checks import check_number
from gpukfl.kernels import Manhattan, Radial
from gpukfl.solvers import ProjectedGradient


@dataclass(frozen=True)
class Permutations:
    """Thresholds γ from random orders of the samples, anew in every round.

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
    """A path over γ, from what selects nothing to a thousandth of it.

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
    """Stability selection: variables that are selected on enough halves of the samples are kept.

    Parameters
    ----------
    n_subsamples : int
        Halves, in complementary pairs.
    max_false : float
        Bound on the expected number of false variables.
    """

    n_subsamples: int
    max_false: float = 1.0

    def __post_init__(self) -> None:
        check_number("n_subsamples", self.n_subsamples, kind=Integral, low=1)
        check_number("max_false", self.max_false, low=0, low_allowed=False)


@dataclass(frozen=True)
class Weights:
    """How large the weights of variables are.

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
class Settings:
    """The parameters of the estimators.

    Attributes
    ----------
    ridge : float or None
        λ of the selection; None is chosen.
    sparsity : float, Permutations or Path
        γ, or how it is found.
    n_centers : int or str
        Rank of the kernel matrix's factor, "all" for the matrix, or "auto".
    """

    kernel: Radial | Manhattan
    ridge: float | None
    sparsity: float | Permutations | Path
    hierarchical: bool
    weights: Weights
    n_centers: int | str
    stability: Stability | None
    optimizer: ProjectedGradient
    scaling: str | None

    @property
    def n_permutations(self) -> int:
        """Random orders behind a threshold."""
        known = isinstance(self.sparsity, Permutations)
        return (self.sparsity if known else Permutations()).number  # type: ignore[union-attr]
