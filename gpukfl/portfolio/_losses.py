"""Blends by other losses than the squared one: what judges members, and how each is fitted."""

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

from gpukfl.core._array import to_host
from gpukfl.estimators import KernelRidgeRegressor
from gpukfl.estimators._learner import Learner
from gpukfl.estimators._reweighting import least_means
from gpukfl.estimators._samples import Samples
from gpukfl.kernels import Linear
from gpukfl.losses import Absolute, Gamma, Huber, Loss, Poisson, Quantile, Tweedie
from gpukfl.portfolio._folds import Chosen, HeldOutLoss
from gpukfl.portfolio._members import Member

_SETTLED = 1e-10  # share of the loss of the best constant, of which there is no use in less
_CENTERS = 300  # of a linear function, which has as many directions as columns
_LINEAR = Linear(offset=100.0)  # its constant is hardly penalised


@dataclass(frozen=True, eq=False)
class MeanLoss(HeldOutLoss):
    """A loss of a regression, in units of that of each target's best constant."""

    loss: Loss
    scale: np.ndarray  # (t,), sizes of the targets
    unit: np.ndarray  # (t,), mean losses of the best constants; positive

    def mix(self, weights: np.ndarray, predicted: Sequence[np.ndarray], /) -> np.ndarray:
        """Return the mean of predictions."""
        return sum(w * one for w, one in zip(weights, predicted, strict=True))

    def part(self, predicted: np.ndarray, rows: Chosen = slice(None), /) -> np.ndarray:  # noqa: ARG002
        """Return the predictions."""
        return predicted

    def row_losses(self, part: np.ndarray, rows: Chosen = slice(None), /) -> np.ndarray:
        """Weighted loss of each row, averaged over targets."""
        found = np.asarray(self.loss.losses(self.truth[rows], part, self.scale))
        return self.weights[rows] * np.mean(found / self.unit, axis=1)

    def is_settled(self, predicted: np.ndarray, /) -> bool:
        """Whether the loss is as small as rounding."""
        return self._leaves(predicted, _SETTLED)

    def constant(self) -> np.ndarray:
        """Return the best constant predictions (t,)."""
        return self.loss.constant(self.truth, self.weights, self.scale)


def judge_by(loss: Loss, judge: HeldOutLoss, Y: np.ndarray, weights: np.ndarray, /) -> MeanLoss:
    """Return what judges the held-out rows of `judge` by a loss.

    Sizes are those of all targets Y (n, t) with weights (n,).
    """
    scale = loss.scale(Y, weights)
    constant = np.broadcast_to(loss.constant(Y, weights, scale), Y.shape)
    unit = np.average(np.asarray(loss.losses(Y, constant, scale)), axis=0, weights=weights)
    unit = np.where(unit > 0, unit, 1.0)
    return MeanLoss(judge.truth, judge.weights, loss, scale, unit, groups=judge.groups)


def judge_samples_by(loss: Loss, judge: HeldOutLoss, samples: Samples, /) -> MeanLoss:
    """Return what judges the held-out rows of some samples by a loss."""
    Y, w = to_host(samples.Y).astype(np.float64), samples.weights
    return judge_by(loss, judge, Y, np.ones(len(Y)) if w is None else w)


def limit_to_range(
    reach: np.ndarray, loss: Loss | None, Y: np.ndarray, weights: np.ndarray | None, /
) -> np.ndarray:
    """Return limits of predictions (2, t) that are positive where the loss is of means that are."""
    if loss is None or loss.link != "log":
        return reach
    w = np.ones(len(Y)) if weights is None else weights
    return np.stack([np.maximum(reach[0], least_means(Y, w)), reach[1]])


def fit_members_by(loss: Loss | None, members: Sequence[Member], d: int, /) -> list[Member]:
    """Return members of d columns that are fitted by a loss, where they can be.

    Estimators of the user stay as they are: the blend's weights are chosen by the loss.
    """
    if loss is None:
        return list(members)
    return [
        one
        if one.reference and not isinstance(one.estimator, Learner) and one.name not in _OWN
        else replace(one, estimator=_with_loss(one.estimator, loss, d))
        for one in members
    ]


_OWN = ("linear", "trees", "shallow_trees", "deep_trees")


def _with_loss(estimator: Any, loss: Loss, d: int) -> Any:
    """Return an estimator that makes a loss small, or the closest that it has."""
    if isinstance(estimator, Learner):
        return clone(estimator).set_params(loss=loss)
    if isinstance(estimator, MultiOutputRegressor):
        return MultiOutputRegressor(_with_loss(estimator.estimator, loss, d))
    if isinstance(estimator, HistGradientBoostingRegressor):
        return clone(estimator).set_params(**_tree_loss(loss))
    if isinstance(estimator, Pipeline) and isinstance(estimator.steps[-1][1], RidgeCV):
        count = min(max(2 * d, 1), _CENTERS)
        linear = KernelRidgeRegressor(_LINEAR, n_centers=count, random_state=0)
        return linear.set_params(loss=loss)
    return estimator


def _tree_loss(loss: Loss) -> dict[str, Any]:
    """Return the loss of boosted trees: of scikit-learn's, the one that asks for the same."""
    if isinstance(loss, Quantile):
        return {"loss": "quantile", "quantile": loss.level}
    if isinstance(loss, (Absolute, Huber)):
        return {"loss": "absolute_error"}
    if isinstance(loss, (Poisson, Tweedie)):
        return {"loss": "poisson"}
    return {"loss": "gamma" if isinstance(loss, Gamma) else "squared_error"}
