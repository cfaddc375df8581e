"""What scikit-learn's tools ask of an estimator, of a model that holds one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted


class AsEstimator:
    """A model whose parameters are those of its estimator, and the time of its next fit."""

    estimator: Any
    max_time: float | None

    @property
    def _limit(self) -> dict[str, float | None]:
        """The time of the next fit, where the estimator keeps to one."""
        return {"max_time": self.max_time} if hasattr(self.estimator, "max_time") else {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Give the parameters that `fit` fits again with: the estimator's."""
        return {**self.estimator.get_params(deep=deep), **self._limit}

    def set_params(self, **params: Any) -> Self:
        """Set parameters for the next `fit`.

        Raises
        ------
        ValueError
            If the estimator has no such parameter.
        """
        if self._limit:
            self.max_time = params.pop("max_time", self.max_time)
        self.estimator.set_params(**params)
        return self

    def __sklearn_clone__(self) -> Self:
        model: Any = self
        blank = {"n_samples": 0, "tuning": [], "seconds": 0.0, "reader": None, "warnings_": []}
        copy: Self = replace(model, estimator=clone(self.estimator), **blank)
        return copy

    def __sklearn_is_fitted__(self) -> bool:
        try:
            check_is_fitted(self.estimator)
        except NotFittedError:
            return False
        return True

    def __sklearn_tags__(self) -> Any:
        return self.estimator.__sklearn_tags__()
