"""Fits of a fitted estimator to other rows, with its members and settings, without a search."""

from __future__ import annotations

import time
from typing import Any

from sklearn.base import clone

from gpukfl.estimators._base import ordered_classes
from gpukfl.estimators._run import count_time_from
from gpukfl.portfolio._base import AutoBase
from gpukfl.portfolio._fold_fits import default_jobs
from gpukfl.portfolio._previous_blend import PreviousBlend
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
    """Fit a copy of a fitted estimator to other rows; return it with the encoded rows.

    Raises
    ------
    TypeError, ValueError
        If columns of the fit are missing, or the number of targets differs.
    """
    begun = time.perf_counter()
    _check_targets(old, data, target)
    rows = encode_again(old, reader, data, impute, target)
    new = clone(old)
    own: dict[str, Any] = dict(default_jobs(new, len(data)))
    if max_time is not None and hasattr(new, "max_time"):
        own |= {"max_time": max_time}
    new.set_params(**own)
    if rows.reader is not None:
        pass_monotone_columns(new, rows.reader)
    with count_time_from(begun), ordered_classes(new, data.class_order):
        if isinstance(old, AutoBase):
            _refit_blend(new, PreviousBlend.from_blend(old), rows.X, data)
        else:
            same = reader is None or (
                rows.reader is not None and reader.encoding.names == rows.reader.encoding.names
            )
            start = old.to_warm_start() if same else None
            new.fit_like(rows.X, data.y, data.sample_weight, start, relations=data.relations)
    new._keep_beside(data.beside)
    return new.set_params(**{name: getattr(old, name) for name in own}), rows


def _refit_blend(new: AutoBase, previous: PreviousBlend, X: Any, data: Dataset) -> None:
    if previous.is_constant:
        new._fit_rows(X, data.y, data.sample_weight, data.relations)
    else:
        new.refit_rows(previous, X, data.y, data.sample_weight, data.relations)


def _check_targets(old: Any, data: Dataset, target: str) -> None:
    """Raise ValueError unless the number of targets is that of the model."""
    shape: tuple[int, ...] = tuple(getattr(data.y, "shape", ())) or (len(data.y),)
    given = 1 if len(shape) == 1 else int(shape[1])
    count = 1 if hasattr(old, "classes_") else int(old.intercept_.shape[0])
    if given != count:
        named = f" ({target})" if target else ""
        msg = f"expected {count} target{'s' * (count > 1)}{named}, got {given}"
        raise ValueError(msg)
