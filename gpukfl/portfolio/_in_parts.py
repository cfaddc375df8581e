"""Members of a blend, fitted to all rows where these lie in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from gpukfl._array import Array
from gpukfl._passes import map_rows
from gpukfl._places import Backend
from gpukfl._warnings import collected, warn
from gpukfl.estimators._classifier import label_counts
from gpukfl.estimators._dask import client_of
from gpukfl.estimators._run import Run
from gpukfl.partitioned import Collections, Parts, in_parts
from gpukfl.portfolio._attributes import Blended
from gpukfl.tables import Encoding, Table

_NAMED = 10  # classes that a warning names


def fitted_to_all(
    auto: Any, chosen: Sequence[tuple[float, Any]], given: Collections, run: Run, /
) -> tuple[list[Blended], bool]:
    """Fit members that work where rows lie to all rows, each with the setting that it had.

    Gives members, and whether any of them was fitted so.

    Parameters
    ----------
    auto : AutoRegressor or AutoClassifier
        That has chosen on some of the rows.
    chosen : sequence of (float, Entry)
        Weights, and members of the blend. Those of other libraries stay as they are, and so do all
        that there is no time left for.
    given : Collections
        All rows.
    """
    backend, labels = Backend.of(auto.backend).name, is_classifier(auto)
    encodings = auto.encodings_
    read = None
    if encodings is not None:
        read = partial(_encoded, encodings.table, encodings.by_fold[0])
    with in_parts(given, client_of(auto), backend, labels=labels, read=read) as parts:
        if not (labels and _warned_of_new(auto.classes_, parts)):
            return _fitted_to(auto, chosen, parts, run)
    known = given.only(partial(np.isin, test_elements=auto.classes_))
    return fitted_to_all(auto, chosen, known, run)


def _warned_of_new(classes: np.ndarray, parts: Parts) -> bool:
    """Warn of classes that no row has by which members were chosen; say whether there are any."""
    found, counts = label_counts(parts.y)
    new = ~np.isin(found, classes)
    if new.any():
        names = ", ".join(map(str, found[new][:_NAMED]))
        warn(
            "classes without a row among those by which the portfolio was chosen are left out: "
            f"{names}, {counts[new].sum()} of {counts.sum()} rows; single methods know all classes"
        )
    return bool(new.any())


def _fitted_to(
    auto: Any, chosen: Sequence[tuple[float, Any]], parts: Parts, run: Run
) -> tuple[list[Blended], bool]:
    y, found, any_fitted = _targets(auto, parts), list[Blended](), False
    for weight, entry in chosen:
        blended = entry.blended(weight)
        if entry.member.takes_any_library and not run.is_over():
            blended = replace(blended, models=[_fitted(entry, parts, y, run)])
            any_fitted = True
        found.append(blended)
    return found, any_fitted


def _fitted(entry: Any, parts: Parts, y: Array, run: Run) -> Any:
    model = clone(entry.member.estimator)
    if entry.member.keeps_time:
        model.set_params(max_time=run.left())
    with collected():
        model.fitted_as(parts.X, y, parts.weights, entry.precedent, deviations=False)
    if entry.member.keeps_time:
        model.set_params(max_time=None)
    return model


def _encoded(table: Table, encoding: Encoding, partition: Any) -> np.ndarray:
    return encoding.transform(table.codes(partition))


def _targets(auto: Any, parts: Parts) -> Array:
    """Numbers of the classes, or targets as the members were fitted to them."""
    y: Any = parts.y
    if is_classifier(auto):
        classes = auto.classes_
        return map_rows(
            y,
            lambda start, stop: np.searchsorted(classes, y[start:stop]),
            columns=(),
            dtype=np.int64,
        )
    transform = auto.target_transform_
    if transform is None:
        return y

    def forward(start: int, stop: int) -> Array:
        rows = y[start:stop]
        return transform.forward(rows.reshape(len(rows), -1)).reshape(rows.shape)

    return map_rows(y, forward, columns=tuple(y.shape[1:]), dtype=np.float64)
