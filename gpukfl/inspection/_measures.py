"""Scores of predictions on rows that a model has not seen, with their standard errors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from gpukfl.inspection._metrics import (
    accuracy,
    d2,
    influence_error,
    log_loss,
    mae,
    mean_loss,
    r2,
    ratio_influence,
    rmse,
    roc_auc,
)
from gpukfl.inspection._style import measured_text, share_text
from gpukfl.losses import Loss

TEST = "test"  # of rows that are given beside those of the fit
R2, D2, RMSE, MAE = "R²", "D²", "RMSE", "MAE"
ACCURACY, AUC, LOG_LOSS, BRIER = "accuracy", "ROC AUC", "log loss", "explained Brier score"
_COMPARED = (R2, ACCURACY, BRIER)  # say whether two sets of rows agree, after any D²
_SHOWN = (R2, RMSE, ACCURACY, AUC, LOG_LOSS)
APART = 2.0  # errors of a difference from which it is more than chance


@dataclass(frozen=True)
class Score:
    """A score on some rows.

    Attributes
    ----------
    name : str
        What it is: "R²", "RMSE", "accuracy", or the like.
    value : float
        The score.
    error : float, optional
        Its standard error, as the rows or their groups are a sample.
    has_unit : bool
        Whether it is of the target's size: RMSE, MAE and mean losses.
    """

    name: str
    value: float
    error: float | None = None
    has_unit: bool = False


@dataclass(frozen=True)
class Scored:
    """Scores of a model on rows that it has not seen.

    Attributes
    ----------
    of : str
        An adjective for these scores: "cross-validated", "held-out", or "test".
    rows : str
        Which rows, in words: "88 held-out rows".
    scores : tuple of Score
        Those that users know first.
    n_groups : int, optional
        Groups of rows that the errors are of.
    """

    of: str
    rows: str
    scores: tuple[Score, ...]
    n_groups: int | None = None

    @property
    def shown(self) -> tuple[Score, ...]:
        """The scores for the top of a page, or all if none of these is known."""
        if any(one.name.startswith(D2) for one in self.scores):
            return self.scores
        return tuple(one for one in self.scores if one.name in _SHOWN) or self.scores

    @property
    def text(self) -> str:
        """The scores and the rows in words: "R² 0.863 ± 0.032 on 80 held-out rows, RMSE 2.45"."""
        first, *others = (f"{one.name} {score_text(one)}" for one in self.shown)
        return ", ".join([f"{first} on {self.rows}", *others]).replace("\u00a0", "")

    def find(self, name: str, /) -> Score | None:
        """Return the score with a name, or None."""
        return next((one for one in self.scores if one.name == name), None)


def agreement_text(first: Scored, second: Scored, /) -> str:
    """Return a sentence: whether two scores differ by more than their errors; "" if none is shared.

    The error of their difference is the root of the sum of the squared errors.
    """
    names = (*(one.name for one in first.scores if one.name.startswith(D2)), *_COMPARED)
    pairs = ((first.find(name), second.find(name)) for name in names)
    both = next(((a, b) for a, b in pairs if a is not None and b is not None), None)
    if both is None or both[0].error is None or both[1].error is None:
        return ""
    one, other = both
    gap, error = other.value - one.value, math.hypot(one.error or 0.0, other.error or 0.0)
    known = f"{share_text(other.value)}, the {first.of} one {share_text(one.value)}"
    what = f"The {second.of} {one.name} is {known}."
    if gap == 0:
        return what
    if not math.isfinite(error):
        return f"{what} There are too few rows to tell whether they differ."
    size = f"Their difference is {share_text(abs(gap), error)}"
    if abs(gap) <= APART * error:
        return f"{what} {size}, at most two standard errors: it may be chance."
    harder = "harder" if gap < 0 else "easier"
    return (
        f"{what} {size}, more than two standard errors: the test rows are {harder} to predict, or "
        "unlike those of the fit."
    )


def measure_regression(
    truth: np.ndarray,
    predicted: np.ndarray,
    weights: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    /,
    *,
    loss: Loss | None = None,
) -> tuple[Score, ...]:
    """Return R², and of one target RMSE and MAE, of predictions (n, t) of targets (n, t).

    With another loss these are its D², the share of the best constant's loss that is saved, and
    its mean. R² and D² are means over targets, as those of scikit-learn.
    """
    w = np.ones(len(truth)) if weights is None else weights
    found = []
    if np.ptp(truth[w > 0], axis=0).all():
        name = R2 if loss is None else d2_name(loss)
        known = r2(truth, predicted, w) if loss is None else d2(truth, predicted, w, loss)
        found.append(_score(name, *known, groups))
    if truth.shape[1] == 1:
        of = {RMSE: rmse, MAE: mae}
        if loss is not None:
            of = {f"mean {loss.words}": lambda y, f, u: mean_loss(y, f, u, loss)}
        for name, measure in of.items():
            one = _score(name, *measure(truth, predicted, w), groups)
            found.append(replace(one, has_unit=True))
    return tuple(found)


def d2_name(loss: Loss, /) -> str:
    """Return what the share of a loss is called that a model saves beside the best constant."""
    return f"{D2} of the {loss.words}"


def measure_classes(
    truth: np.ndarray,
    probabilities: np.ndarray,
    weights: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    /,
) -> tuple[Score, ...]:
    """Return accuracy, ROC AUC, log loss and explained Brier score of probabilities (n, k).

    `truth` (n, k) has indicators. The area is the mean over classes, each against the others.
    """
    w = np.ones(len(truth)) if weights is None else weights
    found = [_score(ACCURACY, *accuracy(truth, probabilities, w), groups)]
    if (w @ truth > 0).all() and (w @ (1.0 - truth) > 0).all():
        found.append(_score(AUC, *roc_auc(truth, probabilities, w), groups))
    found.append(_score(LOG_LOSS, *log_loss(truth, probabilities, w), groups))
    squares = w * np.sum((truth - probabilities) ** 2, axis=1)
    spreads = w * np.sum((truth - np.average(truth, axis=0, weights=w)) ** 2, axis=1)
    if spreads.any():
        ratio, influence = ratio_influence(squares, spreads)
        found.append(_score(BRIER, 1.0 - ratio, influence, groups))
    return tuple(found)


def measure_labels(truth: np.ndarray, labels: np.ndarray, /) -> tuple[Score, ...]:
    """Return the accuracy of predicted labels (n,)."""
    w = np.ones(len(truth))
    return (_score(ACCURACY, *ratio_influence((truth == labels) * w, w), None),)


def _score(name: str, value: float, influence: np.ndarray, groups: np.ndarray | None) -> Score:
    error = influence_error(influence, groups) if influence.any() else math.nan
    if name == ACCURACY and not influence.any():  # Agresti and Coull's, which is not 0 for all
        count = len(influence) if groups is None else len(np.unique(groups))
        around = (count * value + 2.0) / (count + 4.0)
        error = math.sqrt(around * (1.0 - around) / (count + 4.0))
    return Score(name, value, error)


def score_text(one: Score, /) -> str:
    """Return a score with its error: "0.552 ± 0.030", or in the target's units "54.1 ± 2.3"."""
    return (measured_text if one.has_unit else share_text)(one.value, one.error)
