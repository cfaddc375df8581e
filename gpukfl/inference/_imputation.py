"""What the other columns say of some: a prediction and residuals, or probabilities of levels."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpukfl._checks import check_number
from gpukfl._warnings import collected
from gpukfl.estimators import KernelRidgeClassifier, KernelRidgeRegressor

_FOLDS = 3
_RARE = 1e-3  # probability below which a kernel's are alike
_STEPS = 1_000
_EACH = 4  # rows for a level, on average, so that its probability can be learned


@dataclass(frozen=True)
class Imputer:
    """What predicts columns from all others, where `conditional_importance` redraws them.

    Parameters
    ----------
    regressor : scikit-learn regressor, optional
        Of columns of numbers, cloned for each; by default `KernelRidgeRegressor`, whose ridge and
        lengthscale leave-one-out chooses: it is linear where that is best.
    classifier : scikit-learn classifier with `predict_proba`, optional
        Of columns of few levels; by default logistic regression on the other columns and on what
        `KernelRidgeClassifier` says of rows that it has not seen.
    max_levels : int, default=10
        Up to how many different values, or combinations of these in a group, are levels.

    Raises
    ------
    TypeError, ValueError
        If `max_levels` is no integer of at least 1, or an estimator cannot be asked.
    """

    regressor: Any = None
    classifier: Any = None
    max_levels: int = 10

    def __post_init__(self) -> None:
        check_number("max_levels", self.max_levels, kind=numbers.Integral, low=1)
        wanted = {"regressor": "predict", "classifier": "predict_proba"}
        for name, method in wanted.items():
            given = getattr(self, name)
            if given is not None and not hasattr(given, method):
                msg = f"expected {name} to have {method}, got {given!r}"
                raise TypeError(msg)

    def levels(self, values: np.ndarray, /) -> np.ndarray | None:
        """Give the level (n,) that each row of values (n, g) is, or None where these are many."""
        codes = [np.unique(column, return_inverse=True)[1].ravel() for column in values.T]
        _, level = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
        level = level.ravel()
        return level if level.max() < min(self.max_levels, max(len(values) // _EACH, 1)) else None

    def means(self, others: np.ndarray, values: np.ndarray, seed: int, /) -> np.ndarray:
        """Predict columns (n, g), some values of which may be missing, from others (n, q)."""
        default = KernelRidgeRegressor(random_state=seed)
        model = default if self.regressor is None else self.regressor
        return np.stack([_mean(model, others, column) for column in values.T], axis=1)

    def probabilities(self, others: np.ndarray, levels: np.ndarray, seed: int, /) -> np.ndarray:
        """Estimate the probabilities (n, v) of levels 0, ..., v - 1 from others (n, q)."""
        counts = np.bincount(levels)
        if others.shape[1] == 0 or len(counts) == 1:
            return np.tile(counts / len(levels), (len(levels), 1))
        if self.classifier is None:
            return _calibrated(others, levels, seed)
        model = clone(self.classifier)
        with collected():
            return np.asarray(model.fit(others, levels).predict_proba(others), dtype=np.float64)


def _calibrated(others: np.ndarray, levels: np.ndarray, seed: int) -> np.ndarray:
    """Estimate probabilities (n, v) by a logistic regression on the others and a kernel's scores.

    Where levels are drawn by probabilities, errors of these that go along with a column would be
    taken for effects; of maximum likelihood there are none on the rows that it is fitted to. Scores
    are those of rows that were held out, so that they say no more of these rows than of new ones.
    """
    if np.bincount(levels).min() >= _FOLDS:
        folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed)
        kernel = KernelRidgeClassifier(random_state=seed)
        with collected():
            shares = cross_val_predict(kernel, others, levels, cv=folds, method="predict_proba")
        others = np.concatenate([others, np.log(np.maximum(shares[:, 1:], _RARE))], axis=1)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=_STEPS))
    return np.asarray(model.fit(others, levels).predict_proba(others), dtype=np.float64)


def _mean(model: Any, others: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Predict one column (n,); by its mean where others say nothing of it."""
    there = np.flatnonzero(~np.isnan(column))
    known = column[there]
    if others.shape[1] == 0 or len(there) < 2 or np.ptp(known) == 0:
        return np.full(len(column), known.mean() if len(there) else 0.0)
    with collected():
        fitted = clone(model).fit(others[there], known)
        return np.asarray(fitted.predict(others), dtype=np.float64).reshape(len(column))
