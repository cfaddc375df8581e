"""Scores of predictions on rows that a model has not seen, with their standard errors.

Errors are those of the rows as a sample, with the model fixed. A score is a smooth function of
sums over rows, so that its error is that of a sum of what each row adds to it (the delta method).
What rows of one group add is summed before it is squared, as their errors may go together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpukfl.inspection._style import number_text

TEST = "test"  # of rows that are given beside those of the fit
R2, RMSE, MAE = "R²", "RMSE", "MAE"
ACCURACY, AUC, LOG_LOSS, BRIER = "accuracy", "ROC AUC", "log loss", "explained Brier score"
_COMPARED = (R2, ACCURACY, BRIER)  # scores that say whether two sets of rows agree, the first known
_SHOWN = (R2, RMSE, ACCURACY, AUC, LOG_LOSS)
_APART = 2.0  # errors of a difference from which it is more than chance
_FLOOR = 1e-7  # of probabilities, whose logarithm is taken
_FEWEST = 2  # rows or groups that tell an error


def influence_error(influence: np.ndarray, groups: np.ndarray | None = None, /) -> float:
    """Return the standard error of a score, by what each row (n,) adds to it, in sum 0.

    With groups (n,), given as codes, it is that of a sample of groups; NaN of fewer than two.
    """
    if groups is not None:
        influence = np.bincount(np.unique(groups, return_inverse=True)[1].ravel(), influence)
    count = len(influence)
    if count < _FEWEST:
        return math.nan
    return math.sqrt(count / (count - 1.0) * float(influence @ influence))


def ratio_influence(above: np.ndarray, below: np.ndarray, /) -> tuple[float, np.ndarray]:
    """Return a ratio of two sums over rows, and what each row adds to it."""
    total = float(below.sum())
    ratio = float(above.sum()) / total
    return ratio, (above - ratio * below) / total


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
    """

    name: str
    value: float
    error: float | None = None


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
        return tuple(one for one in self.scores if one.name in _SHOWN) or self.scores

    def find(self, name: str, /) -> Score | None:
        """Return the score with a name, or None."""
        return next((one for one in self.scores if one.name == name), None)


def agreement_text(first: Scored, second: Scored, /) -> str:
    """Return a sentence: whether two scores differ by more than their errors; "" if none is shared.

    The error of their difference is the root of the sum of the squared errors.
    """
    pairs = ((first.find(name), second.find(name)) for name in _COMPARED)
    both = next(((a, b) for a, b in pairs if a is not None and b is not None), None)
    if both is None or both[0].error is None or both[1].error is None:
        return ""
    one, other = both
    gap, error = other.value - one.value, math.hypot(one.error or 0.0, other.error or 0.0)
    what = f"The {second.of} {one.name} is {other.value:.3f}, the {first.of} one {one.value:.3f}."
    if not math.isfinite(error):
        return f"{what} There are too few rows to tell whether they differ."
    size = f"Their difference is {abs(gap):.3f} ± {error:.3f}"
    if abs(gap) <= _APART * error:
        return f"{what} {size}, at most two standard errors: chance explains it."
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
) -> tuple[Score, ...]:
    """Return R², and of one target RMSE and MAE, of predictions (n, t) of targets (n, t).

    R² is the mean over targets, as that of scikit-learn.
    """
    w = np.ones(len(truth)) if weights is None else weights
    middle = np.average(truth, axis=0, weights=w)
    squares, spreads = w[:, None] * (truth - predicted) ** 2, w[:, None] * (truth - middle) ** 2
    pairs = [
        ratio_influence(squares[:, k], spreads[:, k]) if spreads[:, k].any() else None
        for k in range(truth.shape[1])
    ]
    found = []
    if None not in pairs:
        known = [pair for pair in pairs if pair is not None]
        value = 1.0 - float(np.mean([ratio for ratio, _ in known]))
        found.append(_score(R2, value, np.mean([one for _, one in known], axis=0), groups))
    if truth.shape[1] == 1:
        mean, one = ratio_influence(squares[:, 0], w)
        root = math.sqrt(mean)
        found.append(_score(RMSE, root, one / (2.0 * root) if root else one, groups))
        mean, one = ratio_influence(w * np.abs(truth - predicted)[:, 0], w)
        found.append(_score(MAE, mean, one, groups))
    return tuple(found)


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
    hits = np.argmax(probabilities, axis=1) == np.argmax(truth, axis=1)
    found = [_score(ACCURACY, *ratio_influence(w * hits, w), groups)]
    areas = [_area(truth[:, k] > 0, probabilities[:, k], w) for k in range(truth.shape[1])]
    if all(one is not None for one in areas):
        both = [one for one in areas if one is not None]
        mean, influence = (np.mean(part, axis=0) for part in zip(*both, strict=True))
        found.append(_score(AUC, float(mean), influence, groups))
    likely = np.clip(np.sum(truth * probabilities, axis=1), _FLOOR, None)
    found.append(_score(LOG_LOSS, *ratio_influence(-w * np.log(likely), w), groups))
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


def _area(
    positive: np.ndarray, scores: np.ndarray, weights: np.ndarray
) -> tuple[float, np.ndarray] | None:
    """Return the weighted area under a ROC curve, and what each row adds to it; None of one class.

    A row adds the share of rows of the other class that it is ordered rightly with (DeLong and
    others, "Comparing the areas under two or more correlated ROC curves", Biometrics 1988).
    """
    w = [weights * positive, weights * ~positive]
    if not w[0].any() or not w[1].any():
        return None
    shares = np.where(positive, _share_below(scores, w[1]), 1.0 - _share_below(scores, w[0]))
    area = float(np.average(shares[positive], weights=weights[positive]))
    totals = np.where(positive, w[0].sum(), w[1].sum())
    return area, weights * (shares - area) / totals


def _share_below(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weighted share of rows below each score (n,), equal ones by half."""
    rank = np.unique(scores, return_inverse=True)[1]
    by_rank = np.bincount(rank, weights)
    below = np.cumsum(by_rank) - 0.5 * by_rank
    return np.asarray(below[rank] / weights.sum())


def score_text(one: Score, digits: int = 3, /) -> str:
    """Return a score with its error: "0.552 ± 0.030", or in the target's units "54.1 ± 2.3"."""
    known = one.error is not None and math.isfinite(one.error)
    if one.name in (RMSE, MAE):
        return number_text(one.value) + (f" ± {number_text(one.error or 0.0, 2)}" if known else "")
    return f"{one.value:.{digits}f}" + (f" ± {one.error:.{digits}f}" if known else "")
