"""Frames in: what of them is a table, and what makes numbers of its columns for one estimator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state

from gpukfl._array import to_host
from gpukfl._columns import (
    check_no_series,
    check_size,
    framed,
    is_frame,
    is_numeric,
    numeric_frame,
    parts_of_name,
    with_text_names,
)
from gpukfl._target import Target
from gpukfl._warnings import warn
from gpukfl.estimators._declared import Declared, Record
from gpukfl.estimators._validation import validate_weights
from gpukfl.inspection import Description, Importances
from gpukfl.tables import Coded, Column, Encoding, Table
from gpukfl.tables._imputation import Imputation
from gpukfl.tables._lookups import Lookup
from gpukfl.tables._sound import fits

TABLE_VALUES = (Table, Column, Coded, Encoding, Lookup, Imputation)  # records of model files
_FEWEST = 2  # rows of a fit
_NAMED = 10  # columns that are left out and said


def table_of(
    X: Any, columns: Mapping[str, str] | None = None, /, *, whole: bool = True
) -> Table | None:
    """Say what the columns of a frame are; None of arrays, and of complete columns of numbers.

    Of some rows, not the `whole`, it may be a table that is of no use. Arrays of NumPy are tables
    where `columns` names some of theirs, x0, x1, ...

    Raises
    ------
    TypeError, ValueError
        As `Table.of`, if `columns` says something of an array of another library, or no column is
        of use; and where a whole frame has no column, or less than two rows.
    """
    if not is_frame(X):
        return _of_rows(X, columns, whole) if columns else None
    if whole:
        check_size(X.shape, _FEWEST)
    if not columns and is_numeric(X):
        return None
    table = Table.of(X, columns=columns, whole=whole)
    return of_use(table) if whole else table


def _of_rows(X: Any, columns: Mapping[str, str], whole: bool) -> Table:
    """Say what the columns x0, x1, ... of an array or a list of rows are."""
    if not whole or not isinstance(X, (np.ndarray, list, tuple)):
        kind = type(X).__name__ if whole else "one in parts"
        msg = f"expected a frame, or an array of NumPy, where columns are named, got {kind}"
        raise TypeError(msg)
    table = replace(Table.of(X, columns=columns), named=True)
    check_size((len(X), len(table.columns)), _FEWEST)
    return of_use(table)


def of_use(table: Table, /) -> Table:
    """Give a table; raise ValueError if nothing can be predicted by it."""
    if not table.coded:
        msg = f"expected a column to predict by, got none: {columns_text(table)}"
        raise ValueError(msg)
    return table


def columns_text(table: Table, /) -> str:
    """Say what columns were taken for: how many of each kind, and why some are left out."""
    used = {one.source for one in table.coded}
    kinds = Counter(column.kind for k, column in enumerate(table.columns) if k in used)
    said = [f"{count} {kind}" for kind, count in kinds.most_common()]
    left = [f"{one.name} ({one.reason})" for k, one in enumerate(table.columns) if k not in used]
    if left:
        more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
        said.append(f"left out {', '.join(left[:_NAMED])}{more}")
    return ", ".join(said)


@dataclass(frozen=True, eq=False)
class Reader:
    """What makes rows for an estimator of the columns of a frame.

    Attributes
    ----------
    table : Table
        What the columns are.
    encoding : Encoding
        Learned on the rows of the fit.
    """

    table: Table
    encoding: Encoding
    fields: ClassVar[Mapping[str, Declared]] = {
        "table": Record(Table),
        "encoding": Record(Encoding),
    }

    @classmethod
    def learned(
        cls,
        table: Table,
        X: Any,
        y: np.ndarray,
        weights: np.ndarray | None,
        /,
        *,
        classes: bool,
        impute: str,
        seed: int,
    ) -> tuple[Self, np.ndarray]:
        """Learn from the rows of a fit, with targets or labels; give these rows too."""
        n_classes = 0
        if classes:
            labels, y = np.unique(y, return_inverse=True)
            n_classes = len(labels)
        n, columns = table.code_columns(X)
        encoding, rows = Encoding.learn_columns(
            columns,
            table.coded,
            y,
            n=n,
            n_classes=n_classes,
            impute=impute,
            weights=weights,
            random_state=seed,
        )
        return cls(table, encoding), rows

    def __call__(self, X: Any, /) -> np.ndarray:
        """Give the rows (m, d) of a frame, or of an array with the same columns."""
        return self.encoding.transform(self.table.codes(X))

    def by_column(self, importances: np.ndarray, /) -> np.ndarray:
        """Sum up the importances (d,) of all that was made of each column: (c,)."""
        sources = np.asarray(self.encoding.sources, dtype=np.int64)
        return np.bincount(sources, weights=importances, minlength=len(self.names))

    def told(self, description: Description, /) -> Description:
        """Give what an estimator says of itself in terms of the columns of the frame."""
        panels = tuple(
            self._joined(panel) if isinstance(panel, Importances) else panel
            for panel in description.panels
        )
        return replace(
            description,
            columns=columns_text(self.table),
            n_features=len(self.names),
            panels=panels,
        )

    def _joined(self, panel: Importances) -> Importances:
        """Give importances of columns, of which each says what its parts have."""
        parts: list[dict[str, float]] = [{} for _ in self.names]
        made = zip(self.encoding.sources, panel.features, panel.values.tolist(), strict=True)
        for source, name, value in made:
            parts[source][name] = value
        values = self.by_column(panel.values)
        return Importances(tuple(self.names), values, panel.unit, parts=tuple(parts))

    def is_sound(self, n_features: int, /) -> bool:
        """Whether it is such as `learned` makes it, for an estimator of so many features."""
        return fits(self.table, self.encoding) and self.encoding.n_features == n_features

    @property
    def names(self) -> list[str]:
        """Names of the columns of the frame."""
        return [column.name for column in self.table.columns]


@dataclass(frozen=True, eq=False)
class Read:
    """Rows as an estimator takes them.

    Attributes
    ----------
    X : array or frame
        What to fit to.
    names : list of str or None
        Names of the columns of a frame.
    reader : Reader or None
        What made rows of it; None where the estimator takes it as it is.
    """

    X: Any
    names: list[str] | None = None
    reader: Reader | None = None


def rows_for(
    estimator: Any,
    X: Any,
    target: Target,
    sample_weight: Any,
    columns: Mapping[str, str] | None,
    impute: str,
    /,
    *,
    tables: Callable[[Any, Any], Table | None] = table_of,
) -> Read:
    """Make rows for a fit of an estimator, unless it reads tables itself.

    ``tables(X, columns)`` says what the columns are.

    Raises
    ------
    TypeError, ValueError
        As `Table.of`.
    """
    parameters = estimator.get_params(deep=False)
    if "columns" in parameters and (columns or (is_frame(X) and not is_numeric(X))):
        return Read(X)
    table = tables(X, columns)
    if table is None:
        X = numeric_frame(X)
        return Read(X, [str(c) for c in X.columns] if hasattr(X, "columns") else None)
    rng = check_random_state(parameters["random_state"])
    reader, rows = Reader.learned(
        table,
        X,
        to_host(target.y),
        validate_weights(sample_weight, X),
        classes=target.task == "classification",
        impute=impute,
        seed=int(rng.randint(2**31 - 1)),
    )
    return Read(rows, reader.names, reader)


def rows_of(estimator: Any, reader: Reader | None, X: Any, target: str, /) -> Any:
    """Make rows for predictions of a fitted estimator; the target may be among the columns.

    Raises
    ------
    ValueError
        If columns are missing, or hold what those of the fit did not.
    """
    check_no_series(X)
    X = framed(X)
    if not is_frame(X):
        return X if reader is None else reader(X)
    known = getattr(estimator, "feature_names_in_", None) if reader is None else reader.names
    X = with_text_names(X)
    X = X if known is None else _without(X, target, list(known))
    if reader is not None:
        return reader(X)
    if getattr(estimator, "encodings_", None) is not None:
        return X
    return numeric_frame(_in_order(X, known), gaps=takes_gaps(estimator))


def takes_gaps(estimator: Any, /) -> bool:
    """Whether new rows may have gaps: blends have an encoding, or medians, for them."""
    return hasattr(estimator, "encodings_")


def _without(X: Any, target: str, known: list[str]) -> Any:
    """Leave the target, or the columns of several, out of a frame."""
    unknown = parts_of_name(target).difference(known)
    held = [name for name in getattr(X, "column_names", X.columns) if name in unknown]
    if not held:
        return X
    import narwhals as nw

    return nw.from_native(X, eager_only=True).drop(held).to_native()


def _in_order(X: Any, names: Sequence[str] | None) -> Any:
    """Columns of a frame in the order of a fit."""
    given = list(getattr(X, "column_names", X.columns))
    if names is None or given == list(names):
        return X
    lacking = [name for name in names if name not in given]
    if lacking:
        msg = f"expected columns {', '.join(lacking[:_NAMED])}, which are missing"
        raise ValueError(msg)
    new = [name for name in given if name not in names]
    if new:
        warn(f"columns that the fit did not have are ignored: {', '.join(new[:_NAMED])}")
    import narwhals as nw

    return nw.from_native(X, eager_only=True).select(*names).to_native()
