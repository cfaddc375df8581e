"""A fitted estimator fitted to other rows: the same members and settings, without a search."""

from __future__ import annotations

import time
from typing import Any

from sklearn.base import clone

from gpukfl.estimators._base import ordered_classes
from gpukfl.estimators._run import count_time_from
from gpukfl.portfolio._base import AutoBase
from gpukfl.portfolio._fold_fits import usual_jobs
from gpukfl.portfolio._precedent import Precedent
from gpukfl.tables._reader import EncodedRows, Reader, encode_again, pass_monotone_columns
from gpukfl.tables._training import Dataset


def refit_estimator(
    old: Any,
    reader: Reader | None,
    data: Dataset,
    /,
    *,
    target: str,
    impute: str,
    max_time: float | None,
) -> tuple[Any, EncodedRows]:
    """Fit a copy of a fitted estimator to other rows, and return it with the rows that it saw.

    Raises
    ------
    TypeError, ValueError
        If the rows have not the columns of the fit, or as many targets.
    """
    begun = time.perf_counter()
    _check_targets(old, data, target)
    rows = encode_again(old, reader, data, impute, target)
    new = clone(old)
    beside: dict[str, Any] = dict(usual_jobs(new, len(data)))
    if max_time is not None and hasattr(new, "max_time"):
        beside |= {"max_time": max_time}
    new.set_params(**beside)
    if rows.reader is not None:
        pass_monotone_columns(new, rows.reader)
    with count_time_from(begun), ordered_classes(new, data.class_order):
        if isinstance(old, AutoBase):
            _refit_blend(new, Precedent.from_blend(old), rows.X, data)
        else:
            alike = reader is None or _have_equal_columns(reader, rows.reader)
            start = old.to_warm_start() if alike else None
            new.fit_like(rows.X, data.y, data.sample_weight, start, relations=data.relations)
    new._keep_beside(data.beside)
    return new.set_params(**{name: getattr(old, name) for name in beside}), rows


def _refit_blend(new: AutoBase, known: Precedent, X: Any, data: Dataset) -> None:
    if known.is_constant:
        new._fit_rows(X, data.y, data.sample_weight, data.relations)
    else:
        new.refit_rows(known, X, data.y, data.sample_weight, data.relations)


def _have_equal_columns(old: Reader, new: Reader | None) -> bool:
    return new is not None and old.encoding.names == new.encoding.names


def _check_targets(old: Any, data: Dataset, target: str) -> None:
    """Raise ValueError unless there are as many targets as the model has."""
    shape: tuple[int, ...] = tuple(getattr(data.y, "shape", ())) or (len(data.y),)
    given = 1 if len(shape) == 1 else int(shape[1])
    count = 1 if hasattr(old, "classes_") else int(old.intercept_.shape[0])
    if given != count:
        named = f" ({target})" if target else ""
        msg = f"expected {count} target{'s' * (count > 1)}{named}, got {given}"
        raise ValueError(msg)
