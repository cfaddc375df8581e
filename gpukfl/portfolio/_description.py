"""The description of a blend, and its leaderboard."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier

from gpukfl.core._frames import listed
from gpukfl.core._results import Status
from gpukfl.estimators._base import status_text
from gpukfl.estimators._reweighting import read_loss
from gpukfl.estimators._run import FitTime
from gpukfl.inspection import (
    Compared,
    Comparison,
    Confusion,
    DataFacts,
    Description,
    Directions,
    Importances,
    Leaderboard,
    Names,
    Panel,
    Predictions,
    Reliability,
    ResidualPlot,
    RocCurves,
    Tuning,
)
from gpukfl.inspection._description import count_text
from gpukfl.inspection._importances import Shuffled
from gpukfl.inspection._measures import Scored, d2_name, measure_classes, measure_regression
from gpukfl.inspection._style import whole_text
from gpukfl.inspection._tuning import BLEND
from gpukfl.portfolio._attributes import MetricScore
from gpukfl.portfolio._folds import HeldOutLoss, LogLoss
from gpukfl.portfolio._importances import joint_groups_text
from gpukfl.portfolio._metrics import METRICS, TITLES, Metric, find_metric
from gpukfl.portfolio._names import member_label, member_text, model_name
from gpukfl.portfolio._scored import own_names, sort_by_metric
from gpukfl.portfolio._standings import Standings
from gpukfl.portfolio._train import SKIP_NO_TIME, SKIP_PERFECT, SKIP_SAME
from gpukfl.predictor import SeenRows
from gpukfl.tables._schema import columns_text, data_facts

if TYPE_CHECKING:
    import pandas as pd


# ----------------------------------------------------------------------------- leaderboard

COMPARISON_ONLY = "for comparison alone: not asked for"  # note of members that are not blended


def leaderboard_rows(
    standings: Standings, seen: SeenRows | None, predicted: np.ndarray, /
) -> tuple[list[dict[str, Any]], float]:
    """Return the rows of the leaderboard, and the total seconds.

    Scores are for new rows. That of the blend comes from its out-of-fold predictions (m, t), and
    its note has the score of rows with copies.
    """
    names = (one.member.name for one in standings.finished)
    weights = dict(zip(names, standings.weights.tolist(), strict=True))
    rows = []
    for entry in standings.entries:
        known = entry.outputs if entry.predicted and not entry.note else None
        rows.append(
            {
                "member": entry.member.name,
                "weight": weights.get(entry.member.name, 0.0),
                **_prediction_scores(standings.judge, known),
                "note": entry.note
                or entry.remark
                or ("" if entry.member.blended else COMPARISON_ONLY),
                "seconds": entry.seconds,
                "chosen": False,
            }
        )
    seconds = sum(row["seconds"] for row in rows)
    blend = {
        "member": BLEND,
        "weight": 1.0,
        **_prediction_scores(standings.judge, predicted),
        "note": "" if seen is None else f"for new rows; {repeats_text(seen)}",
    }
    return [*rows, blend | {"seconds": seconds, "chosen": True}], seconds


def repeats_text(seen: SeenRows, /) -> str:
    """Return in words the score of rows that have copies in the fit."""
    return f"{seen.score:.3f} for rows that are in the fit, measured on {seen.n_copies} copies"


def _prediction_scores(judge: HeldOutLoss, predicted: np.ndarray | None) -> dict[str, Any]:
    """Return the scores of held-out predictions, or None for a member without any."""
    found: dict[str, Any] = {"log_loss": None, "brier": None}
    if predicted is None:
        return {"score": None, "standard_error": math.inf, **found}
    losses = judge.losses(predicted)
    if isinstance(judge, LogLoss):
        log_loss = float(losses.sum() / judge.weights.sum())
        value = METRICS["brier"].value(judge.truth, predicted, judge.weights)
        found = {"log_loss": log_loss, "brier": value}
    scores = {"score": judge.score(losses), "standard_error": judge.standard_error(losses)}
    return scores | found


def leaderboard_frame(
    rows: list[dict[str, Any]],
    /,
    *,
    classes: bool,
    metric: Metric | None = None,
    scores: Sequence[MetricScore] = (),
    own: Mapping[str, str] = MappingProxyType({}),
) -> pd.DataFrame:
    """Return the leaderboard as a frame, best first by the score or the metric of the fit."""
    import pandas as pd

    more = ["log_loss", "brier"] if classes else []
    columns = ["member", "score", "standard_error", *more, "weight", "seconds", "note"]
    frame = pd.DataFrame(rows)[columns].astype({"score": float})
    frame["standard_error"] = frame["standard_error"].where(frame["score"].notna())
    if metric is not None:
        frame = sort_by_metric(frame, metric, scores)
    else:
        frame = frame.sort_values("score", ascending=False, kind="stable", ignore_index=True)
    frame.insert(1, "model", [model_name(name, own) for name in frame["member"]])
    return frame


def fit_times_frame(times: Sequence[FitTime], /, *, later: str) -> pd.DataFrame:
    """Return the parts of a fit with their times as a frame; `later` ones have no share."""
    import pandas as pd

    columns = ["part", "member", "fits", "seconds"]
    frame = pd.DataFrame(list(times), columns=columns).astype({"seconds": float, "fits": int})
    inside = frame["seconds"].where(frame["part"] != later)
    frame["share"] = inside / inside.sum()
    return frame


# ----------------------------------------------------------------------------- description

_COUNT_TOLERANCE = 1e-6  # of multiples of the smallest weight that are numbers of copies
_COVERAGE = 0.9  # of the intervals in pictures
# Endings of notes that need no warning
_HARMLESS_ENDINGS = ("clearly behind", "clearly worse", SKIP_PERFECT, COMPARISON_ONLY)
_WELL_KNOWN = ("linear", "trees")  # members that every user knows
_OPTIMISM_NOTE = (
    "Each member of the blend was scored on rows that its fits had not seen. The weights were "
    "chosen on the same rows: the score of the blend is a little too good."
)
_SCORE_NAMES = {True: "explained log loss", False: "R²"}


def _score_name(e: Any) -> str:
    """Return the name of the score of members."""
    loss = None if is_classifier(e) else read_loss(e)
    return _SCORE_NAMES[is_classifier(e)] if loss is None else d2_name(loss)


def describe(e: Any, names: Names, /) -> Description:
    """Describe a fitted blend whose arrays are NumPy arrays."""
    leading = sorted(e.members_, key=lambda member: -member.weight)
    own = own_names(e)
    shares = "; ".join(
        f"{one.weight:.0%} {member_text(one.name, own)}".replace("%", " %", 1) for one in leading
    )
    known = e.encodings_
    panels: list[Panel] = [_make_importances(e, names)]
    for one in leading:
        directions = getattr(one.models[0], "components_", None)
        if directions is not None:
            text = member_text(one.name, own)
            of = f" of {text}, {one.weight:.0%} of the blend".replace("%", " %")
            panels.append(_make_directions(e, names.features, directions, one.sees, of))
            break
    panels.append(_make_leaderboard(e))
    if e.out_of_fold_.is_complete:
        panels += _class_panels(e) if is_classifier(e) else _regression_panels(e, names.outputs)
    return Description(
        **e._common_fields(names),
        kind="blend of models",
        text=f"blend of {shares}",
        n_samples=e._n_samples,
        n_rows=vars(e).get("_n_rows"),
        place=e.place_,
        ended="complete" if e.status_ == Status.CONVERGED.name else status_text(e.status_),
        columns="" if known is None else columns_text(known.table),
        facts=_blend_facts(e, names, leading),
        asked=_scale_text(e, names) | _monotone_text(e, names),
        comparison=_make_comparison(e),
        times=tuple(
            one | {"member": member_label(one["member"], own)}
            for one in vars(e).get("fit_times_", ())
        ),
        data=_describe_data(e, names),
        warnings=tuple(_collect_warnings(e)),
        panels=tuple(panels),
        scored=tuple(_score_held_out(e)),
        tuning=Tuning(
            # The blend's seconds are those of its members
            tuple(_leaderboard_row(t, own) for t in e.tuning_),
            _score_name(e),
            along="member",
            cut_short=e.tuning_cut_short_,
            untried=tuple(
                member_text(t["member"], own) for t in e.tuning_ if t["note"] == SKIP_NO_TIME
            ),
            of="member",
            judged=_validation_text(e),
        ),
    )


def _leaderboard_row(trial: Mapping[str, Any], own: Mapping[str, str]) -> dict[str, Any]:
    """Return a row of the leaderboard with the model in words."""
    row = dict(trial) | {"model": model_name(trial["member"], own)}
    return row | {"seconds": None} if trial["chosen"] else row


def _make_leaderboard(e: Any) -> Leaderboard:
    """Return the panel of members, with the score or the metric of the fit."""
    metric = find_metric(e.metric, classes=is_classifier(e))
    known = vars(e).get("metric_scores_", ()) if metric is not None else ()
    trials, title = list(e.tuning_), _score_name(e)
    if metric is not None and known:
        trials = [
            trial | {"score": one["value"], "standard_error": one["error"]}
            for trial, one in zip(trials, known, strict=True)
        ]
        title = TITLES.get(metric.name, metric.name)
    sign = 1.0 if known and metric is not None and not metric.greater_is_better else -1.0
    scored = sorted((t for t in trials if t["score"] is not None), key=lambda t: sign * t["score"])
    scores, errors, weights = (
        np.array([t[key] for t in scored]) for key in ("score", "standard_error", "weight")
    )
    members = tuple(trial["member"] for trial in scored)
    labels = tuple(member_label(name, own_names(e)) for name in members)
    return Leaderboard(members, scores, errors, weights, title, _validation_text(e), labels)


def _make_importances(e: Any, names: Names) -> Importances:
    """Return the panel of importances: the loss that shuffling each column adds."""
    shares, basis = e.feature_importances_, vars(e).get("feature_importances_basis_")
    known = None
    if basis is not None:  # older files have none
        groups = [tuple(names.features[k] for k in one) for one in e.feature_groups_]
        known = Shuffled(
            *(_score_name(e), basis.total, basis.n_rows, basis.n_held_out),
            groups=tuple(one for one in groups if len(one) > 1),
            by_groups=basis.by_groups,
            kind="held-out rows" if e.out_of_fold_.n_folds == 1 else "rows, by cross-validation",
        )
    remark = "± one standard error" if known is None else known.remark
    return Importances(
        names.features,
        shares,
        "loss that shuffling adds",
        errors=vars(e).get("feature_importances_error_"),
        remark=remark,
        shuffled=known,
    )


def _blend_facts(e: Any, names: Names, leading: list[Any]) -> dict[str, Any]:
    """Return facts: shares of members, columns shuffled together, and number of models."""
    facts: dict[str, Any] = {
        f"share of {member_text(one.name, own_names(e))}": f"{one.weight:.3f}" for one in leading
    }
    joined = joint_groups_text(e.feature_groups_, names.features).partition(": ")[2]
    if joined:
        facts["correlated columns, shuffled together"] = joined
    if e.seen_rows_ is not None:
        repeats = ", ".join(f"{share:.0%}" for share in np.unique(e.seen_rows_.repeatability))
        facts["share of a row's error that its copies repeat"] = repeats.replace("%", " %")
        facts["score"] = f"for new rows; {repeats_text(e.seen_rows_)}"
    return facts | {"models": _models_text(e)}


def _models_text(e: Any) -> str:
    """Return in words the numbers of fitted models and of kinds."""
    counts, n_folds = [len(one.models) for one in e.members_], e.out_of_fold_.n_folds
    said = f"{count_text(sum(counts), 'fitted model')}: {count_text(len(counts), 'kind')}"
    where = {n_folds: f" in {n_folds} folds", n_folds + 1: f" in {n_folds} folds and on all rows"}
    return said + (where.get(counts[0], "") if n_folds > 1 and len(set(counts)) == 1 else "")


def _validation_text(e: Any) -> str:
    """Return an adjective for the scores of the fit."""
    return "cross-validated" if e.out_of_fold_.n_folds > 1 else "held-out"


def _scale_text(e: Any, names: Names) -> dict[str, str]:
    """Return in words the transform of the targets, if there is one."""
    transform = None if is_classifier(e) else e.target_transform_
    if transform is None:
        return {}
    why = "chosen by quick fits" if e.target_transform == "auto" else "as you asked"
    return {"scale": f"models fit the {transform.unit} of {listed(names.outputs)} ({why})"}


def _monotone_text(e: Any, names: Names) -> dict[str, str]:
    """Return in words the columns in which predictions are monotone, and their directions."""
    monotone = e.predictor_.monotone
    if monotone is None:
        return {}
    sources, ways = e._sources, {1: "rises", -1: "falls"}
    told = (f"{names.features[sources[one.column]]} ({ways[one.sign]})" for one in monotone.columns)
    return {"monotone": ", ".join(told)}


def _make_comparison(e: Any) -> Comparison:
    """Return the scores of simple models, the best member and the blend on held-out rows."""
    scored = [trial for trial in e.tuning_ if trial["score"] is not None]
    members = [trial for trial in scored if not trial["chosen"]]
    best = max(members, key=lambda trial: trial["score"])["member"]
    loss = None if is_classifier(e) else read_loss(e)
    constant = f"the {'mean' if loss is None else loss.predicts}"
    rows = [Compared("the shares of the classes" if is_classifier(e) else constant, 0.0)]
    for trial in sorted(scored, key=lambda trial: trial["score"]):
        name, own = trial["member"], trial["chosen"]
        if not own and name not in _WELL_KNOWN and name != best:
            continue
        shown = member_label(name, own_names(e)) + (" (the best member)" if name == best else "")
        error = trial["standard_error"]
        more = {"log loss": trial["log_loss"], "Brier score": trial["brier"]}
        known = {key: value for key, value in more.items() if value is not None}
        rows.append(Compared(shown, trial["score"], error, known, own=own))
    notes = [_OPTIMISM_NOTE]
    if e.seen_rows_ is not None:
        notes.append(f"Scores are for new rows. The score is {repeats_text(e.seen_rows_)}.")
    return Comparison(tuple(rows), _score_name(e), tuple(notes), judged=_validation_text(e))


def _score_held_out(e: Any) -> list[Scored]:
    """Return the scores of the blend on its held-out rows, with standard errors."""
    kept = e.out_of_fold_
    if not kept.is_complete:
        return []
    rows = kept.truth, kept.predicted, kept.weights, kept.groups
    if is_classifier(e):
        scores = measure_classes(*rows)
    else:
        scores = measure_regression(*rows, loss=read_loss(e))
    how = "rows of the fit" if kept.n_folds == 1 else f"rows in {kept.n_folds} folds"
    count = None if kept.groups is None else len(np.unique(kept.groups))
    return [Scored(_validation_text(e), f"{whole_text(len(kept.truth))} {how}", scores, count)]


def _describe_data(e: Any, names: Names) -> DataFacts:
    """Return facts on the columns and the targets, from the held-out rows."""
    kept = e.out_of_fold_
    some = f"numbers are of {len(kept.truth):,} held-out rows" if kept.n_folds == 1 else ""
    rows, truth = (kept.rows, kept.truth) if kept.is_complete else (None, None)
    return data_facts(
        None if e.encodings_ is None else e.encodings_.table,
        names.features,
        rows,
        target=truth,
        classes=tuple(map(str, e.classes_.tolist())) if is_classifier(e) else (),
        targets=names.outputs,
        rows_are=some,
    )


def _collect_warnings(e: Any) -> list[str]:
    """Return warnings of members that were left out, and of too few held-out rows."""
    members = [trial for trial in e.tuning_ if not trial["chosen"]]
    noted = [t for t in members if t["note"] and not t["note"].startswith(SKIP_SAME)]
    left = [t for t in noted if not t["note"].endswith(_HARMLESS_ENDINGS)]
    left = [t for t in left if not any(t["note"] in one for one in e.warnings_)]
    own = own_names(e)
    found = [f"The blend's member {member_text(t['member'], own)}: {t['note']}." for t in left]
    if not is_classifier(e) and not e.uncertainty_.can_cover(_COVERAGE):
        n, grouped = len(e.uncertainty_.residuals.weights), e.out_of_fold_.groups is not None
        what = f"groups of {n} rows" if grouped else f"{n} rows"
        found.append(f"Only {what} were held out: too few for intervals of {_COVERAGE:.0%}.")
    return found


def _make_directions(
    e: Any, features: tuple[str, ...], loadings: np.ndarray, sees: str, of: str
) -> Directions:
    """Return the directions of the first fold's models."""
    if e.encodings_ is None:
        return Directions(features, loadings, e.feature_importances_, of)
    outputs, sources = zip(*e.encodings_.outputs(sees), strict=True)
    # The encoded columns of a column share its importance, or many of them would hide all others
    of_source, size = np.asarray(sources), np.abs(loadings).max(axis=0, initial=0.0)
    total = np.bincount(of_source, size, minlength=len(e.feature_importances_))
    share = size / np.where(total > 0, total, 1.0)[of_source]
    return Directions(outputs, loadings, e.feature_importances_[of_source] * share, of)


def _regression_panels(e: Any, outputs: tuple[str, ...]) -> list[Panel]:
    """Return panels of held-out predictions with intervals, and of residuals."""
    kept, known = e.out_of_fold_, e.uncertainty_
    ends = (
        known.held_out(kept.predicted, coverage=_COVERAGE) if known.can_cover(_COVERAGE) else None
    )
    return [
        Predictions(kept.truth, kept.predicted, outputs, ends, _COVERAGE),
        ResidualPlot(kept.truth, kept.predicted, outputs),
    ]


def _class_panels(e: Any) -> list[Panel]:
    """Return panels of probabilities and of mistakes on held-out rows."""
    kept = e.out_of_fold_
    of = kept.predicted, np.argmax(kept.truth, axis=1), tuple(map(str, e.classes_.tolist()))
    counts = kept.weights / kept.weights[kept.weights > 0].min()
    whole = np.abs(counts - np.rint(counts)).max() < _COUNT_TOLERANCE  # copies
    weights = np.rint(counts) if whole else kept.weights
    return [Reliability(*of), RocCurves(*of, weights), Confusion(*of, weights)]
