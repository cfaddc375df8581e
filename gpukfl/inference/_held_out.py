"""Scores of a model and of simpler ones on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from gpukfl._accel.limits import one_blas_thread
from gpukfl.core._array import as_columns, to_host
from gpukfl.core._frames import is_frame
from gpukfl.core._warnings import collect_warnings
from gpukfl.estimators._reweighting import read_loss
from gpukfl.estimators._samples import Samples
from gpukfl.inference._bands import FEWEST, bands
from gpukfl.inference._dependence import dependence_panels
from gpukfl.inference._evaluation import EvaluationData, InferenceData, make_evaluation_data
from gpukfl.inference._explain import explained_panels
from gpukfl.inference._row_groups import named_groups, read_named_groups
from gpukfl.inspection import (
    Compared,
    Comparison,
    Confusion,
    Description,
    HeldOutImportances,
    Panel,
    Predictions,
    Reliability,
    ResidualPlot,
    RocCurves,
)
from gpukfl.inspection._held_out import HELD_OUT
from gpukfl.inspection._importances import Shuffled
from gpukfl.inspection._measures import (
    APART,
    MAE,
    RMSE,
    TEST,
    Scored,
    d2_name,
    measure_classes,
    measure_regression,
)
from gpukfl.inspection._metrics import mean_loss
from gpukfl.inspection._style import share_text, to_sentence, whole_text
from gpukfl.portfolio._folds import HeldOutLoss, LogLoss, SquaredError, target_scale
from gpukfl.portfolio._importances import joint_groups_text, permutation_importances
from gpukfl.portfolio._losses import MeanLoss, make_mean_loss, set_member_losses
from gpukfl.portfolio._members import CANDIDATES, TREES, Member, Task
from gpukfl.portfolio._metrics import METRICS
from gpukfl.predictor import member_predictor
from gpukfl.tables import TableEncoder
from gpukfl.tables._schema import data_facts
from gpukfl.tables._target import read_target, target_names
from gpukfl.tables._training import read_test_data, take_rows

# ---------------------------------------------------------------------------- shown errors

# Errors that a report shows by itself: of importances on held-out rows, and bands of curves.


_ROWS = 500  # held out, of which bands are made
_REPEATS, _PASSES = 5, 300  # shuffles of each feature, and of all together
_HALVED = 1_000  # rows of a fit up to which it is fitted to halves again: quick then
_NO_KERNEL = (
    "Curves have no bands here, as this model has no kernel: model.inference fits further models "
    "for them."
)
_GROUPED = (
    "Curves have no bands here, as rows have groups: model.inference fits further models for them."
)
_BY_HALVES = "two halves of the training rows, each smoothed with the kernel of the other half"
_BY_HELD_OUT = "the held-out rows, smoothed with a kernel that was learned without them"


Pair = tuple[Any, Any] | None  # rows and their targets, as the model takes them


def add_error_panels(
    model: Any,
    d: Description,
    held_out: Pair,
    fitted_to: Pair,
    /,
    *,
    with_bands: bool,
) -> Description:
    """Add pictures with errors to what a single method says of itself, as far as rows suffice.

    Importances are of rows that were held out, as many as three seconds suffice for. Bands cost two
    fits to half of the rows where the fit had at most 1000, and beyond O(n³) for at most 500
    held-out rows. A blend has errors of its own.
    """
    if model.method == "auto":
        return d
    panels: list[Panel] = []
    said = ""
    if held_out is not None:
        groups = named_groups(model, held_out[0])
        panels += _importance_panels(make_evaluation_data(model, *held_out, None, groups))
    if with_bands:
        found, said = _band_panels(model, held_out, fitted_to)
        panels += found
    return replace(d, panels=(*d.panels, *panels), note=f"{d.note} {said}".strip())


def _importance_panels(asked: EvaluationData) -> list[Panel]:
    """Return permutation importances on held-out rows, with repeats if the rows are few."""
    count = len(asked.names)
    if count > _PASSES:
        return []
    repeats = max(1, min(_REPEATS, _PASSES // count))
    found = permutation_importances(
        [asked.rows],
        asked.sources,
        count,
        lambda _, X: asked.parts[0].predict(to_host(X)),
        asked.judge,
        np.random.RandomState(0),
        lambda: math.inf,
        repeats=repeats,
    )
    names = [tuple(asked.names[k] for k in one) for one in found.groups]
    shuffled = Shuffled(
        *(asked.score_name, found.total),
        *(found.n_rows, found.n_held_out),
        groups=tuple(one for one in names if len(one) > 1),
        by_groups=asked.judge.groups is not None,
    )
    joined = joint_groups_text(found.groups, asked.names)
    remark = "; ".join(filter(None, [shuffled.remark, joined]))
    unit = "loss that shuffling adds to held-out rows"
    panel = HeldOutImportances(
        *(asked.names, found.shares, unit),
        errors=found.errors,
        remark=remark,
        shuffled=shuffled,
    )
    return [panel]


def _band_panels(model: Any, new: Pair, fitted: Pair) -> tuple[list[Panel], str]:
    """Return bands of partial dependence where they are quick, and remarks on them."""
    few = fitted is not None and FEWEST <= len(fitted[1]) <= _HALVED
    rows = fitted if few else new
    if rows is None or len(rows[1]) < FEWEST:
        return [], ""
    if named_groups(model, rows[0]) is not None:
        return [], _GROUPED
    if InferenceData.from_model(model, *rows).kernel is None:
        return [], _NO_KERNEL
    limit = _HALVED if few else _ROWS
    with collect_warnings():  # of fits that say how sure one is that has warned already
        found = bands(model, *rows, held_out=not few, max_rows=limit)
    if not found:
        return [], ""
    how = _BY_HALVES if few else _BY_HELD_OUT
    return [found], (
        f"Bands cover the whole curve of the target's mean with {found.coverage:.0%} probability. "
        f"They use {how}. {' '.join(map(to_sentence, found.remarks))}"
    ).strip()


# ---------------------------------------------------------------------------------- judged

# What a model does on rows that it has not seen, beside a linear model and boosted trees.


_SIMPLE = {"linear": "linear model", TREES: "boosted trees"}
_MOST = 20_000  # rows that simple models are fitted to
_WIDE = 1_000  # columns above which boosted trees would take much longer than the rest
_FLOOR = 1e-7  # of probabilities, whose logarithm is taken
_COVERAGE = 0.9


@dataclass(frozen=True, eq=False)
class ReportRows:
    """Rows and targets as the user gives them to a report."""

    X: Any  # a frame or an array (n, d)
    Y: np.ndarray  # targets (n, t), or indicators of the classes of the model
    n_unknown: int = 0  # rows of classes that the model does not know, which are left out

    def __len__(self) -> int:
        return len(self.Y)

    def pair(self, model: Any, /) -> tuple[Any, Any]:
        """Return rows, and targets or labels in the form that the model is fitted to."""
        if is_classifier(model.estimator):
            return self.X, to_host(model.classes_)[np.argmax(self.Y, axis=1)]
        return self.X, self.Y[:, 0] if self.Y.shape[1] == 1 else self.Y

    @classmethod
    def from_pair(cls, name: str, pair: Any, model: Any, /) -> ReportRows:
        """Read ``(X, y)``; drop rows without a target or of unknown classes."""
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            msg = f"expected {name} to be a pair (X, y), got {type(pair).__name__}"
            raise TypeError(msg)
        data = read_test_data(*pair, target=model.target_name)
        X, y = data.X, to_host(read_target(data.y, model.task).y)
        if len(y) != len(X) or not len(y):
            msg = f"expected {name} with as many targets as rows, got {len(y)} and {len(X)}"
            raise ValueError(msg)
        if not is_classifier(model.estimator):
            return cls(X, np.asarray(as_columns(y.astype(np.float64))))
        found = y[:, None] == to_host(model.classes_)[None, :]
        known = found.any(axis=1)
        if not known.any():
            classes = ", ".join(map(str, to_host(model.classes_)[:10]))
            msg = f"expected {name} of the classes {classes} of the fit, got {y[0]!r}"
            raise ValueError(msg)
        if not known.all():
            X = take_rows(X, np.flatnonzero(known))
        return cls(X, found[known].astype(np.float64), int(np.sum(~known)))


def evaluate_held_out(
    model: Any, d: Description, held_out: Any, fitted_to: Any, /, *, with_bands: bool
) -> Description:
    """Add what rows and targets say of a model to what it says of itself.

    Rows that were held out give pictures, scores, and errors of importances and curves. Those of
    the fit give ranges of the columns, and simple models that are fitted to them.
    """
    known = None if fitted_to is None else ReportRows.from_pair("fitted_to", fitted_to, model)
    if known is not None:
        d = replace(d, data=_describe_data(model, known))
    new = None if held_out is None else ReportRows.from_pair("held_out", held_out, model)
    if new is not None:
        predicted = _predict(model, new)
        rest = tuple(panel for panel in d.panels if not isinstance(panel, HELD_OUT))
        panels = rest + tuple(_held_out_panels(model, d, new, predicted))
        compared = _compare_models(model, d, new, predicted, known)
        scored = (*d.scored, _score_rows(model, new, predicted))
        d = replace(d, panels=panels, comparison=compared, scored=scored)
    pairs = (None if rows is None else rows.pair(model) for rows in (new, known))
    d = add_error_panels(model, d, *pairs, with_bands=with_bands)
    rows = [None if one is None else one.X for one in (new, known)]
    beside = (*explained_panels(model, *rows), *dependence_panels(model, *rows))
    return replace(d, panels=(*beside, *d.panels))


def score_held_out(model: Any, X: Any, y: Any, /) -> Scored:
    """Return a model's scores on held-out rows, with their errors."""
    rows = ReportRows.from_pair("held_out", (X, y), model)
    return _score_rows(model, rows, _predict(model, rows))


def _score_rows(model: Any, rows: ReportRows, predicted: np.ndarray) -> Scored:
    groups = read_named_groups(model, rows.X)
    if is_classifier(model.estimator):
        scores = measure_classes(rows.Y, predicted, None, groups)
    else:
        loss = read_loss(model.estimator)
        scores = measure_regression(rows.Y, predicted, None, groups, loss=loss)
    count = None if groups is None else len(np.unique(groups))
    return Scored(TEST, f"{whole_text(len(rows))} held-out rows", scores, count)


def _predict(model: Any, new: ReportRows) -> np.ndarray:
    """Return predictions or probabilities (n, t), with one column per target."""
    estimator = model.estimator
    ask = estimator.predict_proba if is_classifier(estimator) else estimator.predict
    found = np.asarray(as_columns(to_host(ask(model._rows(new.X))).astype(np.float64)))
    if found.shape != new.Y.shape:
        msg = f"expected held_out with {found.shape[1]} targets, got {new.Y.shape[1]}"
        raise ValueError(msg)
    return found


def _held_out_panels(
    model: Any, d: Description, new: ReportRows, predicted: np.ndarray
) -> list[Panel]:
    if is_classifier(model.estimator):
        names = tuple(map(str, to_host(model.classes_).tolist()))
        of = predicted, np.argmax(new.Y, axis=1), names
        return [Reliability(*of), RocCurves(*of), Confusion(*of)]
    names = target_names(d.target, new.Y.shape[1])
    residuals = ResidualPlot(new.Y, predicted, names)
    known = getattr(model.estimator, "uncertainty_", None)
    if known is None or not known.can_cover(_COVERAGE):
        return [Predictions(new.Y, predicted, names), residuals]
    rows = model._rows(new.X)
    ends = to_host(model.estimator.predict_interval(rows, _COVERAGE)).astype(np.float64)
    ends = ends.reshape(len(new), -1, 2)
    return [Predictions(new.Y, predicted, names, ends, _COVERAGE), residuals]


# ---------------------------------------------------------------------- simple models


def _compare_models(
    model: Any, d: Description, new: ReportRows, predicted: np.ndarray, known: ReportRows | None
) -> Comparison:
    """Return the scores of the model and of simple baselines on the same rows."""
    classes = is_classifier(model.estimator)
    loss = None if classes else read_loss(model.estimator)
    weights, scale = np.ones(len(new)), target_scale(new.Y, None)
    groups = read_named_groups(model, new.X)
    judge: HeldOutLoss = LogLoss(new.Y, weights, groups=groups)
    if not classes:
        judge = SquaredError(new.Y, weights, scale, groups=groups)
    if loss is not None:
        judge = make_mean_loss(loss, judge, new.Y, weights)
    mean = f"the {'mean' if loss is None else loss.predicts}"
    constant = np.broadcast_to(judge.constant(), new.Y.shape)
    others = {"the shares of the classes" if classes else mean: constant}
    remarks = [f"On {whole_text(len(new))} rows that no model has seen."]
    if new.n_unknown:
        remarks.append(
            f"{whole_text(new.n_unknown)} rows are dropped: the fit has not seen their classes."
        )
    if known is None:
        remarks.append("No linear model and no trees: they need the training rows (fitted_to).")
    else:
        others |= _baseline_predictions(model, known, new)
        remarks.append("Simple models are fitted to the training rows, and to the target as it is.")
        if _is_wide(model):
            remarks.append(f"No boosted trees: there are more than {whole_text(_WIDE)} columns.")
        if len(known) > _MOST:
            some = f"{whole_text(_MOST)} of the {whole_text(len(known))} rows"
            remarks.append(f"Simple models were fitted to {some}.")
    score = "explained log loss" if classes else "R²" if loss is None else d2_name(loss)
    rows = [_comparison_row(judge, name, of) for name, of in others.items()]
    best = max(rows, key=lambda row: row.score).name
    own = _comparison_row(judge, d.title, predicted, own=True)
    remarks.append(_gap_text(judge, score, predicted, others[best], best))
    return Comparison((*rows, own), score, tuple(remarks), len(new))


def _gap_text(
    judge: HeldOutLoss, score: str, predicted: np.ndarray, other: np.ndarray, name: str
) -> str:
    """Return a sentence: how far the model's score is from another's, and whether by chance.

    The error is that of the mean difference between the losses of the same rows.
    """
    own, theirs = (_floored_losses(judge, one) for one in (predicted, other))
    gap, error = judge.score(own) - judge.score(theirs), judge.standard_error(own - theirs)
    where = "below" if gap < 0 else "above"
    size = f"The model's {score} is {share_text(abs(gap), error)} {where} that of {name}"
    if not math.isfinite(error):
        return f"{size}: there are too few rows to tell whether they differ."
    if abs(gap) <= APART * error:
        return f"{size}, at most two standard errors: it may be chance."
    return f"{size}, more than two standard errors."


def _floored_losses(judge: HeldOutLoss, predicted: np.ndarray) -> np.ndarray:
    """Return the losses (n,) of predictions, of which probabilities are at least a little."""
    if isinstance(judge, LogLoss):
        predicted = np.clip(predicted, _FLOOR, None)
    return judge.losses(predicted)


def _comparison_row(
    judge: HeldOutLoss,
    name: str,
    predicted: np.ndarray,
    *,
    own: bool = False,
) -> Compared:
    more: dict[str, float] = {}
    if isinstance(judge, LogLoss):
        hits = np.argmax(predicted, axis=1) == np.argmax(judge.truth, axis=1)
        brier = METRICS["brier"].value(judge.truth, predicted, judge.weights)
        more = {"accuracy": float(hits.mean()), "Brier score": brier}
    elif isinstance(judge, MeanLoss):
        if predicted.shape[1] == 1:
            value, _ = mean_loss(judge.truth, predicted, judge.weights, judge.loss)
            more = {f"mean {judge.loss.words}": value}
    elif predicted.shape[1] == 1:
        left = judge.truth - predicted
        more = {
            RMSE: float(np.sqrt(np.mean(left**2))),
            MAE: float(np.mean(np.abs(left))),
        }
    losses = _floored_losses(judge, predicted)
    error = judge.standard_error(losses) or None  # that of the constant is 0
    return Compared(name, judge.score(losses), error, more, own)


def _baseline_predictions(model: Any, known: ReportRows, new: ReportRows) -> dict[str, np.ndarray]:
    """Return predictions (n, t) of simple models that are fitted to the known rows."""
    rows = np.arange(len(known))
    if len(rows) > _MOST:
        rows = np.sort(np.random.RandomState(0).choice(len(rows), _MOST, replace=False))
    classes, Y = is_classifier(model.estimator), known.Y[rows]
    loss = None if classes else read_loss(model.estimator)
    y = np.argmax(Y, axis=1) if classes else Y if Y.shape[1] > 1 else Y[:, 0]
    inside, outside = _finite_numbers(model, [known.X, new.X], rows, y)
    samples = Samples(inside, Y[:, 1:] if classes and Y.shape[1] == 2 else Y, None, classes)
    found = {}
    with one_blas_thread():
        for row in CANDIDATES:
            if row.name in _SIMPLE and not (row.name == TREES and _is_wide(model)):
                member = Member(
                    row.name, row.make(Task.from_samples(samples, inside.shape[1], "numpy", 0))
                )
                (member,) = set_member_losses(loss, [member], inside.shape[1])
                fitted, _ = member.fit_clone(samples, None, None)
                count = Y.shape[1] if classes else 0
                told = member_predictor(fitted).outputs_by_blocks(outside, count)
                found[_SIMPLE[row.name]] = to_host(told)
    return found


def _is_wide(model: Any) -> bool:
    return len(model.feature_names) > _WIDE


def _finite_numbers(
    model: Any, both: Sequence[Any], rows: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return a sample of the training rows and the new rows as finite numbers."""
    if model.table is None:
        inside, outside = (
            np.asarray(to_host(_numeric_columns(model, X)), dtype=np.float64) for X in both
        )
        return inside[rows], outside
    kinds = {one.name: one.kind for one in model.table.columns if one.is_used}
    encoder = TableEncoder(columns=kinds if is_frame(both[0]) else None, random_state=0)
    encoder.set_output(transform="default")  # whatever is set for all
    return encoder.fit_transform(take_rows(both[0], rows), y), encoder.transform(both[1])


def _numeric_columns(model: Any, X: Any) -> Any:
    """Return the numeric columns in the order of the fit."""
    found = model._rows(X)
    return found.to_numpy() if hasattr(found, "to_numpy") else found


def _describe_data(model: Any, known: ReportRows) -> Any:
    table = model.table
    rows = _numeric_columns(model, known.X) if table is None else table.codes(known.X)
    names = [str(one) for one in to_host(model.classes_)] if is_classifier(model.estimator) else ()
    return data_facts(
        table,
        model.feature_names,
        to_host(rows),
        target=known.Y,
        classes=names,
        targets=target_names(model.target_name, known.Y.shape[1]),
    )
