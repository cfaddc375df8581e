"""Members of a blend, fitted to all rows where these lie in parts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
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
from gpukfl.partitioned import ClusterLostError, Collections, Parts, in_parts
from gpukfl.portfolio._attributes import Blended
from gpukfl.portfolio._encodings import Encodings
from gpukfl.portfolio._entry import Entry, is_interrupted

_NAMED = 10  # classes that a warning names


def fitted_to_all(
    auto: Any, chosen: Sequence[tuple[float, Entry]], given: Collections, run: Run, /
) -> tuple[list[Blended], bool, bool]:
    """Fit members that work where rows lie to all rows, each with the setting that it had.

    Gives members, whether any of them was fitted so, and whether the user stopped it.

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
    found = [entry.blended(weight) for weight, entry in chosen]
    ours = [k for k, (_, entry) in enumerate(chosen) if entry.member.takes_any_library]
    any_fitted = stopped = False
    for view in dict.fromkeys(chosen[k][1].member.sees for k in ours):
        if stopped or run.is_over():  # rows are not read for nothing
            continue
        try:
            with _read(auto, given, view) as parts:
                if is_classifier(auto) and _warned_of_new(auto.classes_, parts):
                    known = given.only(partial(np.isin, test_elements=auto.classes_))
                    break
                y = _targets(auto, parts)
                for k in ours:
                    entry = chosen[k][1]
                    if entry.member.sees == view and not stopped and _has_time(entry, given, run):
                        model, stopped = _fitted(entry, parts, y, run)
                        if model is not None:
                            found[k], any_fitted = replace(found[k], models=[model]), True
        except ClusterLostError as error:
            warn(f"members stay as they were fitted to some of the rows: {error}")
            return found, any_fitted, stopped
    else:
        return found, any_fitted, stopped
    return fitted_to_all(auto, chosen, known, run)


def _has_time(entry: Entry, given: Collections, run: Run) -> bool:
    left = run.left()
    return left is None or not (run.is_over() or entry.seconds_for(given.n_rows) > left)


def _read(auto: Any, given: Collections, view: str) -> AbstractContextManager[Parts]:
    """Read rows as some members see them."""
    encodings, read = auto.encodings_, None
    if encodings is not None:
        read = partial(_seen, encodings, view)
    backend, labels = Backend.of(auto.backend).name, is_classifier(auto)
    return in_parts(given, client_of(auto), backend, labels=labels, read=read)


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


def _fitted(entry: Entry, parts: Parts, y: Array, run: Run) -> tuple[Any | None, bool]:
    """Fit a member, and say whether the user stopped it; None where its model stays."""
    model = clone(entry.member.estimator)
    if entry.member.keeps_time:
        model.set_params(max_time=run.left())
    try:
        with collected():
            model.fitted_as(parts.X, y, parts.weights, entry.precedent, deviations=False)
    except KeyboardInterrupt:
        return None, True
    except ClusterLostError:  # nor will the others be
        raise
    except Exception as error:  # whatever a member does, it was fitted to some rows
        why = f"{type(error).__name__}: {error}"
        warn(f"the member {entry.member.name} is not fitted to all rows: {why}")
        return None, False
    if entry.member.keeps_time:
        model.set_params(max_time=None)
    stopped = is_interrupted(model)
    return None if stopped else model, stopped


def _seen(encodings: Encodings, view: str, partition: Any) -> np.ndarray:
    rows: np.ndarray = encodings.seen(encodings.table.codes(partition)).by(0, view)
    return rows


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
