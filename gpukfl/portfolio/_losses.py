"""Blends for other losses than the squared error: losses of members, and how they are fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline

from gpukfl.estimators import KernelRidgeRegressor
from gpukfl.estimators._learner import Learner
from gpukfl.estimators._reweighting import least_means
from gpukfl.kernels import Linear
from gpukfl.losses import Absolute, Gamma, Huber, Loss, Poisson, Quantile, Tweedie
from gpukfl.portfolio._folds import HeldOutLoss, RegressionLoss, RowChoice
from gpukfl.portfolio._members import BOOSTED, Member

_CENTERS = 300  # of kernel ridge regression with a linear kernel, at most
_LINEAR = Linear(offset=100.0)  # its constant is hardly penalised


@dataclass(frozen=True, eq=False)
class MeanLoss(RegressionLoss):
    """The loss of a regression, relative to that of each target's best constant."""

    loss: Loss
    scale: np.ndarray  # (t,), sizes of the targets
    unit: np.ndarray  # (t,), mean losses of the best constants; positive

    def row_losses(self, part: np.ndarray, rows: RowChoice = slice(None), /) -> np.ndarray:
        """Weighted loss of each row, averaged over targets."""
        found = np.asarray(self.loss.losses(self.truth[rows], part, self.scale))
        return self.weights[rows] * np.mean(found / self.unit, axis=1)

    def constant(self) -> np.ndarray:
        """Return the best constant predictions (t,)."""
        return self.loss.constant(self.truth, self.weights, self.scale)


def make_mean_loss(
    loss: Loss, judge: HeldOutLoss, Y: np.ndarray, weights: np.ndarray | None, /
) -> MeanLoss:
    """Return a loss on the held-out rows of `judge`.

    Its units come from all targets Y (n, t) with weights (n,).
    """
    weights = np.ones(len(Y)) if weights is None else weights
    scale = loss.scale(Y, weights)
    constant = np.broadcast_to(loss.constant(Y, weights, scale), Y.shape)
    unit = np.average(np.asarray(loss.losses(Y, constant, scale)), axis=0, weights=weights)
    unit = np.where(unit > 0, unit, 1.0)
    return MeanLoss(judge.truth, judge.weights, loss, scale, unit, groups=judge.groups)


def restrict_reach(
    reach: np.ndarray, loss: Loss | None, Y: np.ndarray, weights: np.ndarray | None, /
) -> np.ndarray:
    """Return limits of predictions (2, t), which are positive for losses with a log link."""
    if loss is None or loss.link != "log":
        return reach
    w = np.ones(len(Y)) if weights is None else weights
    return np.stack([np.maximum(reach[0], least_means(Y, w)), reach[1]])


def set_member_losses(loss: Loss | None, members: Sequence[Member], d: int, /) -> list[Member]:
    """Return members of d columns that are fitted to a loss, as far as they can be.

    Estimators of the user do not change: the loss only chooses their weights in the blend.
    """
    if loss is None:
        return list(members)

    def takes_loss(one: Member) -> bool:
        is_own = isinstance(one.estimator, Learner) or one.name in ("linear", *BOOSTED)
        return is_own or not one.reference

    return [
        replace(one, estimator=_set_loss(one.estimator, loss, d)) if takes_loss(one) else one
        for one in members
    ]


def _set_loss(estimator: Any, loss: Loss, d: int) -> Any:
    """Return the estimator with a loss, or with the closest that it has."""
    if isinstance(estimator, Learner):
        return clone(estimator).set_params(loss=loss)
    if isinstance(estimator, MultiOutputRegressor):
        return MultiOutputRegressor(_set_loss(estimator.estimator, loss, d))
    if isinstance(estimator, HistGradientBoostingRegressor):
        return clone(estimator).set_params(**_tree_loss(loss))
    if isinstance(estimator, Pipeline) and isinstance(estimator.steps[-1][1], RidgeCV):
        count = min(max(2 * d, 1), _CENTERS)
        linear = KernelRidgeRegressor(_LINEAR, n_centers=count, random_state=0)
        return linear.set_params(loss=loss)
    return estimator


def _tree_loss(loss: Loss) -> dict[str, Any]:
    """Return the loss of scikit-learn's boosted trees that predicts the same quantity."""
    if isinstance(loss, Quantile):
        return {"loss": "quantile", "quantile": loss.level}
    if isinstance(loss, (Absolute, Huber)):
        return {"loss": "absolute_error"}
    if isinstance(loss, (Poisson, Tweedie)):
        return {"loss": "poisson"}
    return {"loss": "gamma" if isinstance(loss, Gamma) else "squared_error"}
