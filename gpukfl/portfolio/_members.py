"""A member of a portfolio: an estimator, and what a fit of it takes and gives."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.pipeline import Pipeline

from gpukfl._array import to_host
from gpukfl.estimators._learner import Learner, Precedent
from gpukfl.estimators._samples import Samples
from gpukfl.portfolio._evaluators import few_threads
from gpukfl.tables._seen import CODES, NUMBERS

_BEYOND = 0.1  # of the targets' range
_MOST_COPIES = 1_000  # of the row that has the fewest, beside which others are whole numbers
_FEWEST_KNOWN = 5  # values of a column that trees may split: they leave so many rows on each side


@dataclass(frozen=True)
class Member:
    """A scikit-learn estimator under a name.

    Attributes
    ----------
    name : str
        By which leaderboards show it.
    estimator : estimator
        Of which each fold fits a clone.
    power : float
        With which power of the rows a fit takes longer.
    blended : bool
        Whether it may enter the blend; it is shown in any case.
    reference : bool
        Whether it is fitted to the end though it is clearly behind.
    sees : str
        How it sees the rows of a table: as numbers, as codes with gaps, or with levels.
    like : str
        The name of a member without which it is of no use either; none where it is empty.
    at_once_from : float
        Rows from which its fits to several folds are quicker at once, in threads.
    weighted : bool
        Whether weights were given. Without them, a row's weight is the number of its copies, and
        what takes no weights has the copies.
    """

    name: str
    estimator: Any
    power: float = 2.0
    blended: bool = True
    reference: bool = False
    sees: str = NUMBERS
    like: str = ""
    at_once_from: float = math.inf
    weighted: bool = False

    @property
    def takes_any_library(self) -> bool:
        """Whether it takes the arrays of every library."""
        return isinstance(self.estimator, Learner)

    @property
    def keeps_time(self) -> bool:
        """Whether it ends when it is told to."""
        return self.takes_any_library and hasattr(self.estimator, "max_time")

    def fitted(
        self, samples: Samples, precedent: Precedent[Any] | None, max_time: float | None, /
    ) -> tuple[Any, Precedent[Any] | None]:
        """Fit a clone, with the setting of another fit if there is one; return its own.

        Raises
        ------
        ValueError
            If weights were given, whatever they are, and the estimator takes none.
        """
        if self.weighted and not self._takes_weights:
            name = type(_last_step(self.estimator)).__name__
            msg = (
                f"expected a member whose fit takes sample_weight, as weights are given, got {name}"
            )
            raise ValueError(msg)
        model = clone(self.estimator)
        y = samples.Y[:, 0] if samples.Y.shape[1] == 1 else samples.Y
        if samples.classes is not None:
            y = samples.classes
            if len(np.unique(y)) == 1:  # all that some folds have
                model = DummyClassifier()
        elif len(samples) == 1:
            model = DummyRegressor()
        if isinstance(model, Learner):
            if self.keeps_time:
                model.set_params(max_time=max_time)
            weights = samples.weights
            found = model.fitted_as(samples.X, y, weights, precedent, deviations=False)
            if self.keeps_time:
                model.set_params(max_time=None)
            return model, found
        # Scikit-learn would standardise in float32, and a model elsewhere does it in float64
        X, y = np.asarray(to_host(samples.X), dtype=np.float64), to_host(y)
        if self.sees == CODES:
            X = _with_values(X, samples.weights)
        # Weights are passed by the names of steps, whatever requests a user routes elsewhere
        with few_threads(len(X)), config_context(enable_metadata_routing=False):
            _fit(model, X, y, samples.weights, may_repeat=not self.weighted)
        return model, precedent

    @property
    def _takes_weights(self) -> bool:
        return self.takes_any_library or any(_takes_weights(_last_step(self.estimator)))


def _with_values(X: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Put 0 into columns (n, d) of hardly any known values, which trees cannot split.

    Scikit-learn's fail where all are missing, perhaps in the rows that early stopping leaves.
    """
    known = np.isfinite(X) if weights is None else np.isfinite(X[weights > 0])
    scarce = np.count_nonzero(known, axis=0) < min(_FEWEST_KNOWN, len(known))
    return np.where(scarce, 0.0, X) if scarce.any() else X


def _fit(
    model: Any, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None, *, may_repeat: bool
) -> None:
    """Fit a model of others: a pipeline's last step has the weights, where that takes any.

    Where rows `may_repeat`, others have each as often as its weight says.
    """
    named, passed_on = _takes_weights(_last_step(model))
    if weights is None:
        model.fit(X, y)
    elif named or (passed_on and not may_repeat):
        model.fit(X, y, **{_path_of(model) + "sample_weight": weights})
    else:
        times = _copies(weights)
        model.fit(np.repeat(X, times, axis=0), np.repeat(y, times, axis=0))


def _last_step(model: Any) -> Any:
    return _last_step(model.steps[-1][1]) if isinstance(model, Pipeline) else model


def _path_of(model: Any) -> str:
    """Names of the steps, one inside the other, before an argument of the last one's."""
    if not isinstance(model, Pipeline):
        return ""
    name, last = model.steps[-1]
    return f"{name}__{_path_of(last)}"


def _takes_weights(model: Any) -> tuple[bool, bool]:
    """Whether `fit` does, and whether it passes any on to what may not."""
    parameters = inspect.signature(model.fit).parameters
    passed_on = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    return "sample_weight" in parameters, passed_on


def _copies(weights: np.ndarray) -> np.ndarray:
    """Numbers of copies (n,) of which weights (n,) are multiples, without a common factor."""
    shares = weights / weights[weights > 0].min()
    for fewest in range(1, _MOST_COPIES):
        counts = np.rint(shares * fewest)
        if np.allclose(counts, shares * fewest, rtol=1e-6, atol=0.0):
            break
    return counts.astype(np.int64)


def reach_of(targets: np.ndarray, /) -> np.ndarray:
    """Lowest and highest prediction (2, t) that is believed: a tenth beyond targets (n, t).

    A linear member, or one of the user's, may say anything far from the data.
    """
    low, high = targets.min(axis=0), targets.max(axis=0)
    return np.stack([low, high]) + _BEYOND * (high - low) * np.array([[-1.0], [1.0]])
