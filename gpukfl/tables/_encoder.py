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
    """A transformer of tables with mixed columns to finite numbers.

    Each column is taken for what it is, by its name and values: see `Table`. Categories of few
    levels become a column for each, which together weigh like a number of unit variance. Those of
    many become their frequency and the mean of the targets. Dates become days, and sines and
    cosines of their parts. Text becomes its length and directions among its words. Missing numbers
    are filled in, and marked in a column beside.

    Parameters
    ----------
    columns : mapping of str to str, optional
        Kinds of columns, by name, where they are not to be guessed: "numeric", "code" (a number
        and a category), "ordered", "category", "boolean", "date", "duration", "text", or
        "identifier", which is left out.
    impute : {"median", "model"}, default="median"
        What stands for missing numbers: the median of the column, or what kernel ridge regression
        tells from the other columns.
    random_state : int, default=0
        Draws the folds of the cross-fit.
    dtype : {numpy.float64, numpy.float32}, optional
        Of what `transform` gives. By default float64, and float32, which takes half the memory, of
        tables that are fitted on more than 500 000 rows.

    Attributes
    ----------
    table_ : Table
        What the columns are taken for.
    encoding_ : Encoding
        What their codes become.
    dtype_ : dtype
        Of what `transform` gives.
    n_features_in_ : int
        Columns of the table.
    feature_names_in_ : array of str
        Their names, where they have any.

    Notes
    -----
    Columns are read one at a time: beside the frame and the result there are the temporaries of one
    column, of which those of text are the largest.

    `fit_transform` cross-fits: means of targets are those of other rows. `fit` and then
    `transform` of the same rows gives each row what it said itself, which a model would overrate.

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
        """Learn from a table.

        Parameters
        ----------
        X : frame, array or list of rows, shape (n, d)
            Of pandas, polars or pyarrow, or without names.
        y : array of shape (n,) or (n, t), optional
            Targets: numbers, or labels of classes. Only categories of many levels use them.

        Returns
        -------
        TableEncoder
            Itself.

        Raises
        ------
        TypeError, ValueError
            If the table cannot be read, or no column says anything.
        """
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Learn from a table, and encode its rows with cross-fitted means of the targets.

        Parameters
        ----------
        X : frame, array or list of rows, shape (n, d)
            The table.
        y : array of shape (n,) or (n, t), optional
            Targets.

        Returns
        -------
        array, shape (n, n_out)
            Finite, of `dtype_`.

        Raises
        ------
        TypeError, ValueError
            As of `fit`.

        Warns
        -----
        UserWarning
            Of columns of numbers that float32 hardly tells apart.
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
            Columns in any order where they have names.

        Returns
        -------
        array, shape (n, n_out)
            Finite, of `dtype_`.

        Raises
        ------
        ValueError
            If columns are missing; names them.
        """
        check_is_fitted(self)
        n, columns = self.table_.code_columns(X)
        return self.encoding_.transform_columns(columns, n, self.dtype_)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns that `transform` makes.

        Parameters
        ----------
        input_features : ignored
            Names are those of the table.

        Returns
        -------
        array of str
            Such as "age", "age missing", "sex=female", "street mean" and "born month sine".
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
