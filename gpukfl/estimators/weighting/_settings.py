"""The parameters of RKHS weightings, as frozen values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

from gpukfl.core._checks import check_bool, check_choice, check_number
from gpukfl.instantiations import Instantiation
from gpukfl.methods import PRUNING_RULES, Loss

ON_SUMS = ("least_squares", "lasso")  # learners with one pass over the rows


@dataclass(frozen=True)
class Descent:
    """The learner by stochastic functional gradient descent in the RKHS of the weights.

    Parameters
    ----------
    optimal_step : bool
        Take the step that is best for its batch (Algorithm 2); else 1/λt, with projection and
        averaging (Algorithm 1).
    radius : float
        B, the largest RKHS norm in Algorithm 1.
    batch_size : int
        Rows of a step.
    """

    optimal_step: bool = True
    radius: float = 1000.0
    batch_size: int = 50

    def __post_init__(self) -> None:
        check_bool("optimal_step", self.optimal_step)
        check_number("radius", self.radius, low=0, low_allowed=False)
        check_number("batch_size", self.batch_size, kind=Integral, low=1)


@dataclass(frozen=True)
class Pruning:
    """Pruning by Algorithm 5: drop parameters while the model is hardly worse.

    Parameters
    ----------
    rule : {"norm", "bound", "risk", "error"}
        What says how much worse: the bound (63) on the change of the risk, that of Theorem 8 (64),
        the change of the training risk (65), or of the share of wrong labels (66).
    tolerance : float
        ε, which that is to be below. Risks are of a loss that is at least the 0-1 loss, or squared
        errors in units of the targets' variance.
    """

    rule: str
    tolerance: float = 0.01

    def __post_init__(self) -> None:
        check_choice("rule", self.rule, PRUNING_RULES)
        check_number("tolerance", self.tolerance, low=0, low_allowed=False)


LEARNERS: dict[str, str | Descent] = {
    **{name: name for name in ON_SUMS},
    "optimal_step": Descent(),
    "sfgd": Descent(optimal_step=False),
}


@dataclass(frozen=True)
class WeightingSettings:
    """The parameters of the estimators."""

    n_parameters: int
    learner: str | Descent  # one of `ON_SUMS`, or a descent
    candidates: Sequence[Instantiation]  # to choose from
    loss: Loss
    ridge: float | None  # λ; None: to be chosen
    prune: Pruning | None
    bias: bool
    scaling: str | None
