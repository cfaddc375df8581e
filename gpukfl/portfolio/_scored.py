"""Scores of the models of a blend by several metrics, with standard errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from gpukfl.core._array import as_columns, is_array, to_host
from gpukfl.core._frames import as_frame, check_in_memory, check_label_kinds, is_frame
from gpukfl.estimators._reweighting import read_loss
from gpukfl.estimators._validation import plain_labels
from gpukfl.inspection._tuning import BLEND
from gpukfl.portfolio._attributes import MetricScore
from gpukfl.portfolio._metrics import Metric, find_metric, loss_metrics, usual_metrics
from gpukfl.portfolio._names import model_name
from gpukfl.portfolio._standings import Standings
from gpukfl.tables._target import host_target
from gpukfl.tables._training import Dataset, read_test_data, weights_on_host

if TYPE_CHECKING:
    import pandas as pd

# ----------------------------------------------------------------------------- of the fit


def held_out_scores(
    metric: Metric, standings: Standings, blend: np.ndarray, groups: np.ndarray | None, /
) -> list[MetricScore]:
    """Return the metric of every member, and of predictions (m, t) of the blend."""
    truth, weights = standings.judge.truth, standings.judge.weights

    def row(name: str, predicted: np.ndarray | None) -> MetricScore:
        if predicted is None:
            return MetricScore(member=name, value=None, error=np.nan)
        value, error = metric.evaluate(truth, predicted, weights, groups)
        return MetricScore(member=name, value=value, error=error)

    found = [
        row(one.member.name, one.outputs if one.predicted and not one.note else None)
        for one in standings.entries
    ]
    return [*found, row(BLEND, blend)]


def sort_by_metric(
    frame: pd.DataFrame, metric: Metric, scores: Sequence[MetricScore], /
) -> pd.DataFrame:
    """Return a leaderboard with the metric as first column, best first."""
    frame = frame.drop(columns=[metric.name], errors="ignore")
    values = [np.nan if one["value"] is None else one["value"] for one in scores]
    frame.insert(1, metric.name, np.asarray(values, dtype=np.float64))
    frame["standard_error"] = [one["error"] for one in scores]
    frame.insert(2, "standard_error", frame.pop("standard_error"))
    return _sort_by(frame, metric)


def _sort_by(frame: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    ascending = not metric.greater_is_better
    return frame.sort_values(metric.name, ascending=ascending, kind="stable", ignore_index=True)


# ------------------------------------------------------------------------------- new rows


class NamedPrediction(NamedTuple):
    """The predictions of a model for rows with targets."""

    name: str
    weight: float
    predicted: np.ndarray  # (n, t), or probabilities (n, k)


def read_scored_rows(X: Any, y: Any, sample_weight: Any, target: str, /) -> Dataset:
    """Read rows with targets for a leaderboard; raise if a part is missing or not in memory."""
    if X is None or y is None:
        missing = "X" if X is None else "y"
        msg = f"expected rows X with their targets y, got no {missing}"
        raise ValueError(msg)
    check_in_memory(X)
    data = read_test_data(X, y, sample_weight, target=target, named=False)
    return replace(data, y=host_target(data.y))


def own_names(e: Any, /) -> Mapping[str, str]:
    """Return the models of members whose names the user chose, by these names."""
    found: Mapping[str, str] = vars(e).get("model_names_", {})
    return found


def score_models(e: Any, X: Any, y: Any, sample_weight: Any, /, *, name: str = "") -> pd.DataFrame:
    """Return scores of a fitted estimator, and of the models of a blend, on rows with targets.

    Parameters
    ----------
    e : estimator
        A blend, or a single method.
    X, y : arrays or frames
        Rows and targets.
    sample_weight : array, shape (n,), or None
        Weights.
    name : str
        Name of the single method; empty for a blend.
    """
    asked = find_metric(getattr(e, "metric", "auto"), classes=is_classifier(e))
    scored = _predict_all(e, X, name)
    truth = _read_truth(y, e, scored[-1].predicted.shape)
    weights = _read_weights(sample_weight, len(truth))
    usual = usual_metrics(classes=is_classifier(e))
    loss = None if is_classifier(e) else read_loss(e)
    first = [] if asked is None else [asked]
    if loss is not None:  # R² and RMSE are for predictions of means
        first += loss_metrics(loss)
        usual = usual if "mean" in loss.predicts else []
    metrics = [*first, *(one for one in usual if one is not asked)]
    if asked is not None:
        asked.check(truth, weights)
    return _score_frame(scored, metrics, truth, weights, own_names(e))


def _score_frame(
    scored: Sequence[NamedPrediction],
    metrics: Sequence[Metric],
    truth: np.ndarray,
    weights: np.ndarray,
    own: Mapping[str, str],
) -> pd.DataFrame:
    """Return a row for each model, best first by the first metric."""
    import pandas as pd

    rows = []
    for one in scored:
        words = model_name(one.name, own)
        row: dict[str, Any] = {"member": one.name, "model": words, "weight": one.weight}
        for metric in metrics:
            value, error = metric.evaluate(truth, one.predicted, weights)
            row |= {metric.name: value, f"{metric.name}_error": error}
        rows.append(row)
    return _sort_by(pd.DataFrame(rows), metrics[0])


def _predict_all(e: Any, X: Any, name: str) -> list[NamedPrediction]:
    """Return the predictions of the models of a blend, then of the blend; or of one method."""
    members = [] if name else _predict_members(e, X)
    found = to_host(e.predict_proba(X) if is_classifier(e) else e.predict(X))
    own = np.asarray(as_columns(found.astype(np.float64)))
    return [*members, NamedPrediction(name or BLEND, 1.0, own)]


def _predict_members(e: Any, X: Any) -> list[NamedPrediction]:
    rows, blend = e._new_rows(X, "leaderboard"), e._blend
    blending, found = replace(blend.blending, temperature=1.0), []  # members are not calibrated
    for one in blend.members:
        own = replace(blend, members=(replace(one, weight=1.0),), blending=blending, seen=None)
        predicted = to_host(own.evaluate_in_double(rows))
        found.append(NamedPrediction(one.name, one.weight, predicted))
    return found


def _read_truth(y: Any, e: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return targets (n, t), or indicators of classes (n, k)."""
    host = to_host(y) if is_array(y) else np.asarray(as_frame(y) if is_frame(y) else y)
    n = shape[0]
    if len(host) != n:
        msg = f"expected as many targets as rows, got {len(host)} and {n}"
        raise ValueError(msg)
    if not is_classifier(e):
        truth = np.asarray(as_columns(host.astype(np.float64)))
        if truth.shape != shape or not np.isfinite(truth).all():
            got = "NaN or infinity" if truth.shape == shape else f"shape {truth.shape}"
            msg = f"expected finite targets of shape {shape}, got {got}"
            raise ValueError(msg)
        return truth
    labels, classes = plain_labels(host.reshape(n)), to_host(e.classes_)
    check_label_kinds(labels, np.asarray(classes))
    truth = (labels[:, None] == classes[None, :]).astype(np.float64)
    unknown = np.flatnonzero(~truth.any(axis=1))
    if len(unknown):
        known = ", ".join(map(str, classes[:10].tolist()))
        msg = f"expected classes of the fit ({known}), got {str(labels[unknown[0]])!r}"
        raise ValueError(msg)
    return truth


def _read_weights(sample_weight: Any, n: int) -> np.ndarray:
    if sample_weight is None:
        return np.ones(n)
    found = weights_on_host(sample_weight)
    if found is None or found.shape != (n,) or not (np.isfinite(found) & (found >= 0)).all():
        msg = f"expected sample_weight of {n} numbers of at least 0, got {sample_weight!r:.60}"
        raise ValueError(msg)
    if not found.any():
        msg = "expected sample_weight with a positive value, got none"
        raise ValueError(msg)
    return found
