"""A small model fitted to the predictions of a blend."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.utils.validation import has_fit_parameter

from gpukfl.core._array import Array, array_namespace, get_device, take_rows, to_host
from gpukfl.estimators._run import Run
from gpukfl.portfolio._attributes import OutOfFold
from gpukfl.portfolio._folds import held_out_loss
from gpukfl.portfolio._members import CANDIDATES, NAMES, Member, Task
from gpukfl.predictor import floor_probabilities, member_predictor
from gpukfl.tables._reader import Reader, order_numbers
from gpukfl.tables._relations import deal_groups

_N_PARTS = 5  # of the held-out rows of one fold; the first part scores the model
_MIN_ROWS = 4  # held-out rows


@dataclass(frozen=True, eq=False)
class Distilled:
    """A model that imitates a blend.

    Attributes
    ----------
    model : estimator
        Model that was fitted to the predictions of the blend for held-out rows.
    score : float
        Score of an equal model on rows that it was not fitted to: R², or explained log loss.
    score_of_blend : float
        Score of the blend on the same rows, by models that have not seen them.
    reader : Reader or None
        Converts the columns of a table to rows of the model, without targets.
    feature_names : tuple of str or None
        Columns of the frame of numbers that the blend was fitted to, in order.
    """

    model: Any
    score: float
    score_of_blend: float
    reader: Reader | None = field(default=None, repr=False)
    feature_names: tuple[str, ...] | None = field(default=None, repr=False)

    @property
    def loss(self) -> float:
        """The score's decrease from that of the blend."""
        return self.score_of_blend - self.score

    def predict(self, X: Any) -> Array:
        """Predict for rows in the form that the blend takes."""
        if self.reader is not None:
            X = self.reader(X)
        elif self.feature_names is not None:
            X = order_numbers(X, self.feature_names)
        return self.model.predict(X)


def distil(blend: Any, name: str, /) -> Distilled:
    """Fit a candidate to the predictions of a blend.

    Raises ValueError if too few rows were held out.
    """
    kept, run = blend._held_out, Run.from_settings(blend)
    n = len(kept.fold)
    if n < _MIN_ROWS:
        msg = f"expected at least {_MIN_ROWS} held-out rows, got {n}"
        raise ValueError(msg)
    classes, t = is_classifier(blend), kept.truth.shape[1]
    seed, rarest = int(run.rng.randint(2**31 - 1)), 0 if classes else n  # unknown for classes
    several = kept.n_folds > 1 and blend._has_fold_models
    is_test = kept.fold == 0 if several else _draw_test_rows(kept, run.rng)
    # Models that were fitted to all rows give no predictions for rows that they have seen
    predicted = to_host(blend._outputs(kept.rows, 0)) if several else kept.predicted
    inside, outside = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    task = Task(classes, n, kept.rows.shape[1], t, rarest, blend.backend, seed)
    member = Member(name, CANDIDATES[NAMES.index(name)].make(task))
    labels = np.arange(t)
    groups = kept.groups
    known, own = take_rows(kept.rows, inside), None if groups is None else groups[inside]
    student = _fit_to_blend(blend, member, known, predicted[inside], labels, own)
    rows = take_rows(kept.rows, outside)
    judge = held_out_loss(kept.truth[outside], kept.weights[outside], classes=classes)
    outputs = member_predictor(student).outputs_by_blocks
    found = to_host(outputs(blend._finite(rows), blend._n_classes))
    if classes:
        labels, found = to_host(blend.classes_), to_host(floor_probabilities(found, blend.floor_))
    score, score_of_blend = (judge.score(judge.losses(one)) for one in (found, predicted[outside]))
    encodings = blend.encodings_
    reader = None if encodings is None else Reader(encodings.table, encodings.blind)
    everything = to_host(blend._outputs(kept.rows))
    model = _fit_to_blend(blend, member, kept.rows, everything, labels, groups)
    names = getattr(blend, "feature_names_in_", None)
    named = None if names is None else tuple(map(str, names))
    return Distilled(model, score, score_of_blend, reader, named)


def _draw_test_rows(kept: OutOfFold, rng: np.random.RandomState) -> np.ndarray:
    """Draw the test rows (n,) at random: whole groups if there are several."""
    n, groups = len(kept.fold), kept.groups
    if groups is not None and np.ptp(groups) > 0:
        return deal_groups(groups, min(_N_PARTS, len(np.unique(groups))), rng) == 0
    found = np.zeros(n, dtype=bool)
    found[rng.permutation(n)[: max(n // _N_PARTS, 1)]] = True
    return found


def _fit_to_blend(
    blend: Any,
    member: Member,
    rows: Array,
    predicted: np.ndarray,
    labels: np.ndarray,
    groups: np.ndarray | None,
) -> Any:
    """Fit a clone to the predictions or labels of a blend; it is tuned on whole groups."""
    estimator, X = clone(member.estimator), blend._finite(rows)
    several = groups is not None and np.ptp(groups) > 0
    related = {"groups": groups} if several and has_fit_parameter(estimator, "groups") else {}
    X = X if member.takes_any_library else to_host(X)
    if is_classifier(blend):
        y = labels[predicted.argmax(axis=1)]
        alone = len(np.unique(y)) == 1
        return DummyClassifier().fit(to_host(X), y) if alone else estimator.fit(X, y, **related)
    y = predicted[:, 0] if predicted.shape[1] == 1 else predicted
    return estimator.fit(X, array_namespace(X).asarray(y, device=get_device(X)), **related)
