"""The encoding of a table as a transformer of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gpukfl.core._array import is_array, to_host
from gpukfl.core._warnings import collect_warnings
from gpukfl.tables._encoding import Encoding
from gpukfl.tables._table import Table
from gpukfl.tables._target import read_target

_MANY = 500_000  # with more rows, the default dtype is float32


class TableEncoder(TransformerMixin, BaseEstimator):
    """A transformer that encodes tables with mixed columns as finite numbers.

    The name and values of a column decide its kind: see `Table`. A category of few levels becomes
    one column for each level. Together, these columns weigh as much as a number of unit variance. A
    category of many levels becomes its frequency and the mean of the targets. Dates become days,
    and sines and cosines of their parts. Text becomes its length and directions among its words.
    Missing numbers are replaced, and a second column marks them.

    Parameters
    ----------
    columns : mapping of str to str, optional
        Kinds of columns by name: "numeric", "code" (a number and a category), "ordered",
        "category", "boolean", "date", "duration", "text", or "identifier". The encoder drops
        identifiers, and guesses the kinds of other columns.
    impute : {"median", "model"}, default="median"
        Replacement of missing numbers: the median of the column, or the prediction of kernel ridge
        regression from the other columns.
    random_state : int, default=0
        Seed of the folds of the cross-fit.
    dtype : {numpy.float64, numpy.float32}, optional
        Type of the result of `transform`. The default is float64, and float32 for tables fitted on
        more than 500 000 rows. float32 takes half the memory.

    Attributes
    ----------
    table_ : Table
        Kinds of the columns.
    encoding_ : Encoding
        Encoding of the columns' codes.
    dtype_ : dtype
        Type of the result of `transform`.
    n_features_in_ : int
        Number of columns of the table.
    feature_names_in_ : array of str
        Names of these columns, if they have names.

    Notes
    -----
    The encoder reads one column at a time. Beside the frame and the result, memory holds the
    temporary arrays of one column. Those of text are the largest.

    `fit_transform` cross-fits: the target means of a row come from other rows. `fit` and then
    `transform` of the same rows includes each row's own target in its mean. A model would overrate
    such means.

    References
    ----------
    .. [1] Micci-Barreca, "A preprocessing scheme for high-cardinality categorical attributes in
       classification and prediction problems", SIGKDD Explorations 3(1), 2001.

    Examples
    --------
    >>> import pandas as pd
    >>> from gpukfl.tables import TableEncoder
    >>> frame = pd.DataFrame({"size": [1.5, None, 2.5], "colour": ["red", "blue", "red"]})
    >>> encoder = TableEncoder().fit(frame)
    >>> list(encoder.get_feature_names_out())
    ['size', 'size missing', 'colour=red', 'colour=blue']
    >>> encoder.transform(frame)[:, :2].tolist()
    [[1.5, 0.0], [2.0, 1.0], [2.5, 0.0]]
    """

    def __init__(
        self,
        columns: Mapping[str, str] | None = None,
        *,
        impute: str = "median",
        random_state: int = 0,
        dtype: Any = None,
    ) -> None:
        self.columns = columns
        self.impute = impute
        self.random_state = random_state
        self.dtype = dtype

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the encoding from a table.

        Parameters
        ----------
        X : frame, array or list of rows, shape (n, d)
            Frame of pandas, polars or pyarrow, or rows without column names.
        y : array of shape (n,) or (n, t), optional
            Targets: numbers, or labels of classes. Only categories of many levels use them.

        Returns
        -------
        TableEncoder
            The encoder itself.

        Raises
        ------
        TypeError, ValueError
            If the table cannot be read, or has no useful column.
        """
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Learn the encoding from a table, and encode its rows with cross-fitted target means.

        Parameters
        ----------
        X : frame, array or list of rows, shape (n, d)
            The table.
        y : array of shape (n,) or (n, t), optional
            Targets.

        Returns
        -------
        array, shape (n, n_out)
            Finite numbers of type `dtype_`.

        Raises
        ------
        TypeError, ValueError
            As for `fit`.

        Warns
        -----
        UserWarning
            If float32 hardly distinguishes the numbers of a column.
        """
        _check_dtype(self.dtype)
        table = Table.learn(X, columns=self.columns)
        if not table.coded:
            msg = f"expected a column to learn from, got none: {'; '.join(table.lines()[1:])}"
            raise ValueError(msg)
        y, n_classes = _coded_targets(y)
        n, columns = table.code_columns(X, seen=True)
        by_rows = np.float32 if n > _MANY else np.float64
        encoding, encoded = Encoding.learn_columns(
            columns,
            table.coded,
            y,
            n=n,
            n_classes=n_classes,
            impute=self.impute,
            random_state=self.random_state,
            dtype=by_rows if self.dtype is None else self.dtype,
        )
        self.table_, self.encoding_, self.dtype_ = table, encoding, encoded.dtype
        self.n_features_in_ = len(table.columns)
        if table.named:
            self.feature_names_in_ = np.array([c.name for c in table.columns], dtype=object)
        return encoded

    def transform(self, X: Any) -> np.ndarray:
        """Encode a table.

        Parameters
        ----------
        X : frame, array or list of rows, shape (n, d)
            Rows. Columns with names may be in any order.

        Returns
        -------
        array, shape (n, n_out)
            Finite numbers of type `dtype_`.

        Raises
        ------
        ValueError
            If columns are missing. The message names them.
        """
        check_is_fitted(self)
        n, columns = self.table_.code_columns(X)
        return self.encoding_.transform_columns(columns, n, self.dtype_)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns that `transform` makes.

        Parameters
        ----------
        input_features : ignored
            Names come from the table.

        Returns
        -------
        array of str
            Names such as "age", "age missing", "sex=female", "street mean" and "born month sine".
        """
        del input_features
        check_is_fitted(self)
        return np.array(self.encoding_.names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _check_dtype(dtype: Any) -> None:
    if dtype is not None and np.dtype(dtype) not in (np.float64, np.float32):
        msg = f"expected dtype float64 or float32, got {dtype!r}"
        raise ValueError(msg)


def _coded_targets(y: Any) -> tuple[np.ndarray | None, int]:
    """Return targets as numbers, or as class codes with the number of classes."""
    if y is None:
        return None, 0
    with collect_warnings():  # ambiguous targets are numbers, whose means serve as well
        target = read_target(y)
    if target.task == "regression":
        return _to_host(target.y), 0
    classes, codes = np.unique(_to_host(target.y), return_inverse=True)
    return codes, max(len(classes), 2)


def _to_host(y: Any) -> Any:
    return to_host(y) if is_array(y) else y
