"""One small model fitted to the predictions of a blend, and how much it loses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from gpukfl._array import Array, array_namespace, take, to_host
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
        Of the blend on the same rows, by models that have not seen them; with one model a member
        these have.
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
    judging = kept.fold == 0 if several else np.arange(n) < n // _SHARE
    inside, outside = np.flatnonzero(~judging), np.flatnonzero(judging)
    classes, t = is_classifier(blend), kept.truth.shape[1]
    seed, rarest = int(run.rng.randint(2**31 - 1)), 0 if classes else n  # what will be predicted
    task = Task(classes, n, kept.rows.shape[1], t, rarest, blend.backend, seed)
    member = Member(name, CANDIDATES[NAMES.index(name)].make(task))
    fold = 0 if several else None
    student = _taught(blend, member, take(kept.rows, inside), fold)
    rows = take(kept.rows, outside)
    judge = _judge(kept.truth[outside], kept.weights[outside], classes)
    own = evaluator_of(student)(blend._finite(rows))
    found = to_host(of_all_classes(own, student, blend._n_classes))
    if classes:
        found = to_host(mixed(found, blend.floor_))
    taught = to_host(blend._outputs(rows, fold))
    scores = [judge.score(judge.losses(one)) for one in (found, taught)]
    known = blend.encodings_
    reader = None if known is None else Reader(known.table, known.blind)
    model, (score, score_of_blend) = _taught(blend, member, kept.rows, None), scores
    return Distilled(model, score, score_of_blend, reader)


def _taught(blend: Any, member: Member, rows: Array, fold: int | None) -> Any:
    """Fit a clone to what the blend, or the models of a fold, predict of rows."""
    xp, predicted = array_namespace(rows), blend._outputs(rows, fold)
    if is_classifier(blend):
        y = xp.argmax(predicted, axis=1)
    else:
        y = predicted[:, 0] if predicted.shape[1] == 1 else predicted
    given = blend._finite(rows), y
    host = not member.takes_any_library
    return clone(member.estimator).fit(*(map(to_host, given) if host else given))


def _judge(truth: np.ndarray, weights: np.ndarray, classes: bool) -> Judge:
    if classes:
        return LogLoss(truth, weights)
    scale = truth.std(axis=0)
    return SquaredError(truth, weights, np.where(scale > 0, scale, 1.0))
