"""One small model fitted to the predictions of a blend, and how much it loses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from gpukfl._array import Array, array_namespace, device_of, take, to_host
from gpukfl._reader import Reader
from gpukfl.estimators._run import Run
from gpukfl.portfolio._candidates import CANDIDATES, NAMES, Task
from gpukfl.portfolio._evaluators import evaluator_of, of_all_classes
from gpukfl.portfolio._judges import Judge, LogLoss, SquaredError
from gpukfl.portfolio._members import Member
from gpukfl.prediction import mixed

_SHARE = 5  # a fifth of the rows judges, where there is one fold


@dataclass(frozen=True, eq=False)
class Distilled:
    """A model that imitates a blend.

    Attributes
    ----------
    model : estimator
        Fitted to the predictions of the blend, for the rows that judged its members.
    score : float
        Of an equal model, fitted without some rows, on these: R², or the share of the log loss
        that is saved.
    score_of_blend : float
        Of the blend on the same rows, by models that have not seen them.
    reader : Reader or None
        What makes rows for the model of a table's columns; it knows nothing of the targets.
    """

    model: Any
    score: float
    score_of_blend: float
    reader: Reader | None = field(default=None, repr=False)

    @property
    def loss(self) -> float:
        """How much the score is lower than that of the blend."""
        return self.score_of_blend - self.score

    def predict(self, X: Any) -> Array:
        """Predict by the model, for rows as the blend takes them."""
        return self.model.predict(X if self.reader is None else self.reader(X))


def distil(blend: Any, name: str, /) -> Distilled:
    """Fit a candidate to the predictions of a blend."""
    kept, run = blend.out_of_fold_, Run.of(blend)
    n = len(kept.fold)
    several = kept.n_folds > 1 and blend._has_folds
    # of models that were fitted to all rows nothing is asked of rows that they have seen
    predicted = to_host(blend._outputs(kept.rows, 0)) if several else kept.predicted
    judging = kept.fold == 0 if several else np.arange(n) < n // _SHARE
    inside, outside = np.flatnonzero(~judging), np.flatnonzero(judging)
    classes, t = is_classifier(blend), kept.truth.shape[1]
    seed, rarest = int(run.rng.randint(2**31 - 1)), 0 if classes else n  # what will be predicted
    task = Task(classes, n, kept.rows.shape[1], t, rarest, blend.backend, seed)
    member = Member(name, CANDIDATES[NAMES.index(name)].make(task))
    student = _taught(blend, member, take(kept.rows, inside), predicted[inside])
    rows = take(kept.rows, outside)
    judge = _judge(kept.truth[outside], kept.weights[outside], classes)
    own = evaluator_of(student)(blend._finite(rows))
    found = to_host(of_all_classes(own, student, blend._n_classes))
    if classes:
        found = to_host(mixed(found, blend.floor_))
    score, score_of_blend = (judge.score(judge.losses(one)) for one in (found, predicted[outside]))
    known = blend.encodings_
    reader = None if known is None else Reader(known.table, known.blind)
    model = _taught(blend, member, kept.rows, to_host(blend._outputs(kept.rows)))
    return Distilled(model, score, score_of_blend, reader)


def _taught(blend: Any, member: Member, rows: Array, predicted: np.ndarray) -> Any:
    """Fit a clone to what a blend predicts of rows."""
    if is_classifier(blend):
        y = predicted.argmax(axis=1)
    else:
        y = predicted[:, 0] if predicted.shape[1] == 1 else predicted
    X = blend._finite(rows)
    given = X, array_namespace(X).asarray(y, device=device_of(X))
    host = not member.takes_any_library
    return clone(member.estimator).fit(*(map(to_host, given) if host else given))


def _judge(truth: np.ndarray, weights: np.ndarray, classes: bool) -> Judge:
    if classes:
        return LogLoss(truth, weights)
    scale = truth.std(axis=0)
    return SquaredError(truth, weights, np.where(scale > 0, scale, 1.0))
