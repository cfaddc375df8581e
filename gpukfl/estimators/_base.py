"""What the estimators share: where fitted arrays live, and how they are pickled."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score

from gpukfl._array import is_array, is_host, to_host


def on_host(value: Any, /) -> Any:
    """Copy every array inside lists, dicts and dataclasses to NumPy."""
    if is_array(value) and not is_host(value):
        return to_host(value)
    if isinstance(value, dict):
        return {key: on_host(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(on_host(item) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: on_host(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return type(value)(**fields)
    return value


def unchanged_on_error(fit: Any, /) -> Any:
    """Decorate a `fit` method so that an exception leaves the estimator as it was."""

    @functools.wraps(fit)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(self))
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return wrapped


class ArrayRegressor(RegressorMixin):
    """A regressor that is scored on the host, whatever library its arrays are of."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Give the R² of the predictions, averaged over targets."""
        truth = to_host(y) if is_array(y) else y
        return float(r2_score(truth, to_host(self.predict(X)), sample_weight=sample_weight))


class HostPickled(BaseEstimator):
    """An estimator whose pickle holds NumPy arrays only, and loads without a GPU library."""

    _library: str

    def __getstate__(self) -> dict[str, Any]:
        state = {key: on_host(value) for key, value in super().__getstate__().items()}
        if "_library" in state:
            state["_library"] = "numpy"
        return state

    def to_host(self) -> Any:
        """Give a copy that works on NumPy arrays, wherever this model was fitted."""
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__getstate__())
        return copy
