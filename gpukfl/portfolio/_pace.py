"""How long a fit takes, by smaller ones that are timed first: fewer rows, columns and steps.

Times of another machine say nothing of this one. A fit that nothing stops, of boosted trees, of a
logistic regression or of the user's estimator, is begun when smaller ones have said what it takes.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from gpukfl.estimators._learner import Learner

_LEAST_ROWS, _LEAST_COLUMNS = 50, 2  # of a fit that says what each takes in any case
_ROWS, _COLUMNS, _STEPS = 200, 50, 4  # of the first fit that says more
_GROWTH, _LEAST_GROWTH = 8.0, 2.0  # of the work from one such fit to the next
_TRIAL, _SURE = 0.1, 0.1  # of the time: for one such fit; and what all may take, to look no further
_MOMENT = 0.01  # of the time, which a fit may take to be timed again
_MARGIN = 0.75  # of the time, for what is begun by an estimate
_ENOUGH_STEPS = 20  # of boosting, before more rows are of use
_FASTEST = 0.3  # learning rate of few steps
_LEAST = 1e-9  # seconds
_BOOSTED = HistGradientBoostingClassifier, HistGradientBoostingRegressor


@dataclass(frozen=True)
class Size:
    """Rows, columns and steps of a fit."""

    rows: int
    columns: int
    steps: int = 1


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


@dataclass(frozen=True)
class Pace:
    """Seconds of fits, by the largest ones that were timed.

    Attributes
    ----------
    full : Size
        Of the whole fit.
    work : callable
        What the time goes with.
    size : Size
        Of the largest fit that was timed.
    took : float
        Its seconds.
    rate : float
        Seconds for each unit of work beyond it.
    """

    full: Size
    work: Callable[[Size], float]
    size: Size
    took: float
    rate: float

    @classmethod
    def measured(
        cls,
        full: Size,
        work: Callable[[Size], float],
        timed: Callable[[Size], float],
        left: Callable[[], float],
        /,
    ) -> Self:
        """Time fits of growing sizes, each in a small share of the time that is left.

        The first one says what a fit takes in any case. It ends where the whole fit takes a small
        share, or one more fit would not.
        """
        found = cls._begun(full, work, timed, left)
        while found.size != full and found.seconds(full) > _SURE * left():
            size = found._next(_TRIAL * left())
            if size == found.size:
                break
            found = found._with(size, _timed(timed, size, left()))
        return found

    @classmethod
    def _begun(
        cls,
        full: Size,
        work: Callable[[Size], float],
        timed: Callable[[Size], float],
        left: Callable[[], float],
    ) -> Self:
        least = Size(min(full.rows, _LEAST_ROWS), min(full.columns, _LEAST_COLUMNS))
        took = _timed(timed, least, left())
        found = cls(full, work, least, took, took / work(least))
        first = Size(min(full.rows, _ROWS), min(full.columns, _COLUMNS), min(full.steps, _STEPS))
        return found if first == least else found._with(first, _timed(timed, first, left()))

    def seconds(self, size: Size, /) -> float:
        """Say how long a fit takes."""
        more = self.work(size) - self.work(self.size)
        return self.took + self.rate * more if more > 0 else self.took

    def affordable(self, seconds: float, /) -> Size | None:
        """Give rows and steps of a fit that takes so long at most; None where there is none.

        All rows, or half, a quarter, ... where only so many have steps enough.
        """
        budget, full = _MARGIN * seconds, self.full
        enough = min(full.steps, _ENOUGH_STEPS)
        halves = range(max(full.rows // self.size.rows, 1).bit_length())
        sizes = [replace(full, rows=full.rows >> k) for k in halves]
        sizes = [replace(one, steps=self._steps(one, budget)) for one in sizes]
        best = next((one for one in sizes if one.steps >= enough), sizes[-1])
        return best if best.steps else None

    def _steps(self, size: Size, budget: float) -> int:
        """Return the steps that there is time for; 0 where there is none for one."""
        fits = range(1, size.steps + 1)
        return bisect.bisect_right(fits, budget, key=lambda k: self.seconds(replace(size, steps=k)))

    def _with(self, size: Size, took: float) -> Self:
        """Give what is known with one more fit, which is larger."""
        mean = took / self.work(size)
        rate = (took - self.took) / (self.work(size) - self.work(self.size))
        return replace(self, size=size, took=took, rate=max(rate, mean / _GROWTH))

    def _next(self, seconds: float) -> Size:
        """Give the next size to be timed, in so many seconds: columns first, then rows."""
        size, most = self.size, _GROWTH * self.work(self.size)
        for name in ("columns", "rows", "steps"):
            among = range(getattr(size, name), getattr(self.full, name) + 1)

            def fits(value: int, name: str = name, size: Size = size) -> bool:
                one = replace(size, **{name: value})
                return self.work(one) > most or self.seconds(one) > seconds

            count = bisect.bisect_left(among, True, key=fits)
            size = replace(size, **{name: among[max(count, 1) - 1]})
        enough = size == self.full or self.work(size) >= _LEAST_GROWTH * self.work(self.size)
        return size if enough else self.size


def _timed(timed: Callable[[Size], float], size: Size, left: float) -> float:
    """Time a fit; twice where that takes no time, as others may have held the processor."""
    took = timed(size)
    return max(took if took > _MOMENT * left else min(took, timed(size)), _LEAST)
