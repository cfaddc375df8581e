"""Missing numbers told from the other columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpukfl import estimators
from gpukfl.core._array import Array, array_namespace
from gpukfl.core._warnings import collect_warnings
from gpukfl.prediction import function_of
from gpukfl.tables._column import Listed
from gpukfl.tables._lookups import columns_of

_FEWEST, _MOST = 10, 2000  # rows that a model is fitted to


@dataclass(frozen=True, eq=False)
class Imputation(Listed):
    """A model of one column of numbers.

    Attributes
    ----------
    column : int
        The column of codes.
    inputs : tuple of int
        Columns of numbers that it is told from, missing ones by their medians.
    model : KernelRidgeRegressor
        Fitted.
    """

    column: int
    inputs: tuple[int, ...]
    model: estimators.KernelRidgeRegressor

    def __call__(self, X: np.ndarray, /) -> np.ndarray:
        """Return what stands for the missing numbers (n,) of encoded rows (n, d)."""
        return np.asarray(self.model.predict(X[:, self.inputs]))

    def recorded(self, X: Array, /) -> Array:
        """Return the same (n, 1) for all rows (n, d) of arrays that only record what is done."""
        values = function_of(type(self.model).__name__, self.model.to_host())
        return values.placed(array_namespace(X).asarray)(columns_of(X, list(self.inputs)))


def learn_imputation(
    column: int,
    truth: np.ndarray,
    X: np.ndarray,
    inputs: Sequence[int],
    weights: np.ndarray | None,
    rng: np.random.Generator,
    /,
) -> Imputation | None:
    """Learn to tell the truth (n,), NaN where there is none, from encoded rows (n, d).

    Returns None where rows are too few or nothing varies. Of many rows 2000 are drawn.
    """
    rows = np.flatnonzero(~np.isnan(truth))
    if len(rows) > _MOST:
        rows = np.sort(rng.choice(rows, _MOST, replace=False))
    if len(rows) < _FEWEST or not np.ptp(truth[rows]) or not np.ptp(X[rows], axis=0)[inputs].any():
        return None
    model = estimators.KernelRidgeRegressor(random_state=int(rng.integers(2**31)))
    with collect_warnings():  # of a fit that is a part of another one
        w = None if weights is None else weights[rows]
        model.fit(X[rows][:, inputs], truth[rows], sample_weight=w)
    return Imputation(column, tuple(inputs), model)
