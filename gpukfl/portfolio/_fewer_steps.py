"""Members of which few columns and few steps are fitted first, to say how long all take."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from gpukfl.estimators._learner import Learner
from gpukfl.estimators._pace import Size

_FASTEST = 0.3  # learning rate of few steps
_BOOSTED = HistGradientBoostingClassifier, HistGradientBoostingRegressor


def is_cut(estimator: Any, /) -> bool:
    """Whether an estimator takes any of the columns, so that a part of them may be timed."""
    if isinstance(estimator, Pipeline):
        steps = [one for _, one in estimator.steps]
        return len(steps) == 2 and isinstance(steps[0], StandardScaler) and is_cut(steps[1])
    if isinstance(estimator, MultiOutputRegressor):
        return is_cut(estimator.estimator)
    return isinstance(estimator, (Learner, LogisticRegression, RidgeCV, *_BOOSTED))


def steps_of(estimator: Any, /) -> int:
    """Return the steps of an estimator, which may be fewer; 1 of one that has none."""
    inner = _stepped(estimator)
    return 1 if inner is None else int(inner.max_iter)


def with_steps(estimator: Any, steps: int, /) -> Any:
    """Give an estimator like it with fewer steps, of boosting larger ones."""
    new = clone(estimator)
    inner = _stepped(new)
    if inner is None or steps >= inner.max_iter:
        return new
    if isinstance(inner, _BOOSTED):
        faster = min(inner.learning_rate * inner.max_iter / steps, _FASTEST)
        # Few steps need no rows that say when to stop
        inner.set_params(learning_rate=max(faster, inner.learning_rate), early_stopping=False)
    inner.set_params(max_iter=steps)
    return new


def _stepped(estimator: Any) -> Any:
    """Give the part of an estimator that goes in steps, None of one that has none."""
    if isinstance(estimator, Pipeline):
        return _stepped(estimator.steps[-1][1])
    if isinstance(estimator, MultiOutputRegressor):
        return _stepped(estimator.estimator)
    return estimator if isinstance(estimator, (LogisticRegression, *_BOOSTED)) else None


def work_of(estimator: Any, power: float, size: Size, /) -> float:
    """Say what the time of a fit goes with: rows to a power, columns, and steps.

    A ridge regression solves for the fewer of its rows and columns.
    """
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    each = min(size.rows, size.columns) if isinstance(last, RidgeCV) else 1
    return float(size.rows) ** power * size.columns * size.steps * each
