"""Errors that a report shows by itself: of importances on held-out rows, and bands of curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpukfl._array import to_host
from gpukfl._warnings import collected
from gpukfl.estimators._samples import Samples
from gpukfl.inference._asked import Asked, asked_of
from gpukfl.inference._bands import bands
from gpukfl.inference._kernel_bands import FEWEST
from gpukfl.inference._subject import Subject
from gpukfl.inspection import Description, HeldOutImportances, Panel
from gpukfl.inspection._markup import sentence
from gpukfl.portfolio._importances import permutation_importances, together

_ROWS = 500  # held out, that are enough
_REPEATS, _PASSES = 5, 300  # shuffles of each feature, and of all together
_HALVED = 1_000  # rows of a fit up to which it is fitted to halves again: quick then
_NO_KERNEL = (
    "Curves have no bands here: this model has learned no kernel of its own, so that they take "
    "other fits; model.inference gives them."
)
_BY_HALVES = "the halves of the fit's rows, each smoothed with the kernel of a fit to the other"
_BY_HELD_OUT = "the held-out rows, smoothed with the kernel that was learned without them"


@dataclass(frozen=True, eq=False)
class Pairs:
    """Rows and their targets, as the model takes them.

    Attributes
    ----------
    held_out, fitted_to : tuple (X, y) or None
        Rows that the model has not seen, and those of its fit.
    """

    held_out: tuple[Any, Any] | None
    fitted_to: tuple[Any, Any] | None


def with_errors(model: Any, d: Description, pairs: Pairs, /, *, with_bands: bool) -> Description:
    """Add pictures with errors to what a single method says of itself.

    Parameters
    ----------
    model : Model
        Fitted; a blend has errors of its own.
    d : Description
        Of it.
    pairs : Pairs
        What rows there are.
    with_bands : bool
        Whether curves have bands.

    Returns
    -------
    Description
        With importances on held-out rows, and bands of partial dependence, as far as the rows are
        enough.

    Notes
    -----
    Shuffling predicts at most 300 times 500 rows. Bands cost two fits to half of the rows where
    the fit had at most 1000, and beyond O(n³) for at most 500 held-out rows.
    """
    if model.method == "auto":
        return d
    panels: list[Panel] = []
    said = ""
    if pairs.held_out is not None:
        panels += _importances(asked_of(model, *pairs.held_out))
    if with_bands:
        found, said = _bands(model, pairs)
        panels += found
    return replace(d, panels=(*d.panels, *panels), note=f"{d.note} {said}".strip())


def _importances(asked: Asked) -> list[Panel]:
    """Shuffle features of held-out rows, several times where there are few of them."""
    count = len(asked.names)
    if count > _PASSES:
        return []
    rng = np.random.RandomState(0)
    asked = asked.sampled(_ROWS, rng)
    rows = Samples(asked.rows, asked.judge.truth, None, labels=False)
    repeats = max(1, min(_REPEATS, _PASSES // count))
    values, errors, groups = permutation_importances(
        [rows],
        asked.sources,
        count,
        lambda _, X: asked.parts[0].predict(to_host(X)),
        asked.judge,
        rng,
        lambda: math.inf,
        repeats=repeats,
    )
    said = f"± one standard error of {len(asked)} held-out rows"
    joined = together(groups, asked.names)
    remark = "; ".join(filter(None, [said, joined]))
    unit = "loss that shuffling adds to held-out rows"
    return [HeldOutImportances(asked.names, values, unit, errors=errors, remark=remark)]


def _bands(model: Any, pairs: Pairs) -> tuple[list[Panel], str]:
    """Give bands of partial dependence where they are quick, and what is to be said of them."""
    fitted, new = pairs.fitted_to, pairs.held_out
    few = fitted is not None and FEWEST <= _size(fitted) <= _HALVED
    rows = fitted if few else new
    if rows is None or _size(rows) < FEWEST:
        return [], ""
    if Subject.of(model, *rows).kernel is None:
        return [], _NO_KERNEL
    limit = _HALVED if few else _ROWS
    with collected():  # of fits that say how sure one is that has warned already
        found = bands(model, *rows, held_out=not few, max_rows=limit)
    if not found:
        return [], ""
    how = _BY_HALVES if few else _BY_HELD_OUT
    return [found.panel()], (
        f"Bands of {found.coverage:.0%} hold a whole curve of the mean of the target; they are "
        f"made of {how}. {' '.join(map(sentence, found.remarks))}"
    ).strip()


def _size(pair: Sequence[Any]) -> int:
    return len(pair[1])
