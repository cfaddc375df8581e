"""The parameters of BKerNN, as frozen values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

from gpukfl.core._array import Array
from gpukfl.core._checks import check_number
from gpukfl.linalg import MAX_KNOTS
from gpukfl.penalties import Penalty
from gpukfl.solvers import ProximalGradient


@dataclass(frozen=True)
class Knots:
    """How BKerNN bins projections, and stores its shape functions.

    Parameters
    ----------
    number : int, "auto" or None
        None computes exactly. An integer q bins projections on q knots a particle, which needs no
        sort and takes rows from a memory map by blocks. "auto" is exact while memory holds it and
        up to 200 million projections, else 4096.
    tolerance : float or "auto"
        Largest error of the stored shape functions, in standard deviations of y. "auto" stores
        them exactly up to two million knots in all, else to 1e-4.
    """

    number: int | str | None = "auto"
    tolerance: float | str = "auto"

    def __post_init__(self) -> None:
        also = ("auto", None)
        check_number("knots", self.number, kind=Integral, low=2, high=MAX_KNOTS, also=also)
        check_number("tolerance", self.tolerance, low=0, also=("auto",))


@dataclass(frozen=True)
class BKerNNSetting:
    """A penalty, and a ridge: a number, or the paper's times a power of three."""

    penalty: Penalty
    ridge: float | None = None
    power: int = 0


@dataclass(frozen=True)
class BKerNNSettings:
    """The parameters of the estimators."""

    n_particles: int | None  # None depends on the number of features
    penalties: Sequence[Penalty]  # to choose among
    ridge: float | None  # λ; None is the paper's, from which a search starts
    climbs: bool  # whether there is a search of the ridge
    penalty_strength: float
    optimizer: ProximalGradient
    held_out_share: float  # of the samples, for early stopping; 0 for none
    knots: Knots
    start: Array | None  # starting particles
    scaling: str | None
