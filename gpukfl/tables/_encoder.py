"""A table's encoding as a transformer of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from gpukfl.tables._encoding import Encoding
from gpukfl.tables._table import Table


class TableEncoder(TransformerMixin, BaseEstimator):
    """Turn tables of mixed columns into finite numbers.

    Parameters
    ----------
    columns : mapping of str to str, optional
        Kinds of columns, by name, where they are not to be guessed.
    impute : {"median", "model"}, default="median"
        What stands for missing numbers.
    random_state : int, default=0
        Draws the folds of the cross-fit.

    Attributes
    ----------
    table_ : Table
        What the columns are taken for.
    encoding_ : Encoding
        What their codes become.
    """

    def __init__(
        self,
        columns: Mapping[str, str] | None = None,
        *,
        impute: str = "median",
        random_state: int = 0,
    ) -> None:
        self.columns = columns
        self.impute = impute
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from a frame."""
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Learn from a frame, and encode its rows by statistics of other rows."""
        self.table_ = Table.of(X, columns=self.columns)
        codes = self.table_.codes(X)
        n_classes = 0
        if y is not None and type_of_target(y) in ("binary", "multiclass"):
            classes, y = np.unique(np.asarray(y), return_inverse=True)
            n_classes = len(classes)
        self.encoding_, encoded = Encoding.learn(
            codes,
            self.table_.coded,
            y,
            n_classes=n_classes,
            impute=self.impute,
            random_state=self.random_state,
        )
        self.n_features_in_ = len(self.table_.columns)
        return encoded

    def transform(self, X: Any) -> np.ndarray:
        """Encode a frame."""
        check_is_fitted(self)
        return self.encoding_.transform(self.table_.codes(X))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of numbers."""
        del input_features
        check_is_fitted(self)
        return np.array(self.encoding_.names, dtype=object)
