"""The description of a portfolio: leaderboard and permutation importances."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.base import is_classifier

from gpukfl.core._array import Array, array_namespace, get_device, to_host
from gpukfl.core._warnings import warn
from gpukfl.estimators._base import status_text
from gpukfl.estimators._samples import Samples
from gpukfl.inspection import (
    Compared,
    Comparison,
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
    Tuning,
)
from gpukfl.inspection._tuning import BLEND
from gpukfl.portfolio._folds import HeldOutLoss, LogLoss
from gpukfl.portfolio._train import SETTLED, UNTRIED, Standings
from gpukfl.predictor import SeenRows
from gpukfl.tables._schema import columns_text, data_facts

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


# ----------------------------------------------------------------------------- leaderboard

# What every member came to, as plain values and as a frame.


def leaderboard_rows(
    standings: Standings, seen: SeenRows | None, /
) -> tuple[list[dict[str, Any]], float]:
    """Return the rows of the leaderboard, and the total seconds.

    Scores are of new rows; what holds where rows come again is noted of the blend.
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
                "note": entry.note or entry.remark,
                "seconds": entry.seconds,
                "chosen": False,
            }
        )
    seconds = sum(row["seconds"] for row in rows)
    blend = {
        "member": BLEND,
        "weight": 1.0,
        **_prediction_scores(standings.judge, standings.final_blend),
        "note": "" if seen is None else f"of new rows; {repeats_text(seen)}",
    }
    return [*rows, blend | {"seconds": seconds, "chosen": True}], seconds


def repeats_text(seen: SeenRows, /) -> str:
    """Return in words how well rows are predicted that come again."""
    return f"{seen.score:.3f} where a row comes again, by {seen.n_copies} copies"


def _prediction_scores(judge: HeldOutLoss, predicted: np.ndarray | None) -> dict[str, Any]:
    """Return the scores of held-out predictions."""
    found: dict[str, Any] = {"log_loss": None, "brier": None}
    if predicted is None:
        return {"score": None, "standard_error": math.inf, **found}
    losses = judge.losses(predicted)
    if isinstance(judge, LogLoss):
        log_loss = float(losses.sum() / judge.weights.sum())
        found = {"log_loss": log_loss, "brier": judge.brier(predicted)}
    scores = {"score": judge.score(losses), "standard_error": judge.standard_error(losses)}
    return scores | found


def leaderboard_frame(rows: list[dict[str, Any]], /, *, classes: bool) -> pd.DataFrame:
    """Return the leaderboard as a frame, best first."""
    import pandas as pd

    more = ["log_loss", "brier"] if classes else []
    columns = ["member", "score", "standard_error", *more, "weight", "seconds", "note"]
    frame = pd.DataFrame(rows)[columns].astype({"score": float})
    frame["standard_error"] = frame["standard_error"].where(frame["score"].notna())
    return frame.sort_values("score", ascending=False, kind="stable", ignore_index=True)


# ----------------------------------------------------------------------------- importances

# How much the blend loses where columns are shuffled, by models that have not seen the rows.


_ALIKE = 0.9  # correlation from which columns are shuffled together
_ROWS = 500  # of all folds, that are enough
_MOMENT = 0.3  # seconds that importances may take when the time is over
_TINY = 1e-9
_PASSES = 100  # predictions of a fold's rows
_NAMED = 10  # groups
_ELEMENTS = 2**22  # of rows that are predicted at once, and of correlations
_WORK = 10**8  # of rows that are predicted in a fold, with its columns shuffled one by one
_CONSTANT = 1e-13  # deviation, as a share of the largest value, that is rounding


def group_columns(
    X: np.ndarray,
    sources: Sequence[int] | None = None,
    /,
    *,
    alike: float = _ALIKE,
    is_over: Callable[[], bool] = lambda: False,
) -> list[list[int]]:
    """Return groups of columns (n, d) linked by correlations of at least `alike`.

    Those of one source in any case; missing values count as what is usual. O(n d²) time; of
    thousands of columns the last ones are joined with none where it `is_over` before.
    """
    d = X.shape[1]
    pairs = [np.zeros((2, 0), dtype=np.int64)]
    step = max(1, _ELEMENTS // d)
    U = np.zeros((0, d)) if step < d and is_over() else _standardise(X)
    for start in range(0, d, step):  # never all d² of them
        if step < d and is_over():
            break
        close = np.abs(U[:, start : start + step].T @ U) >= alike
        here, there = np.nonzero(close)
        pairs.append(np.stack([here + start, there])[:, there > here + start])
    if sources is not None:
        first = np.unique(sources, return_index=True, return_inverse=True)
        pairs.append(np.stack([np.arange(d), first[1][first[2]]]))
    here, there = np.concatenate(pairs, axis=1)
    graph = coo_array((np.ones(len(here), dtype=bool), (here, there)), shape=(d, d))
    labels = connected_components(graph, directed=False)[1]
    found: dict[int, list[int]] = {}
    for column, label in enumerate(labels.tolist()):
        found.setdefault(label, []).append(column)
    return sorted(found.values())


def _standardise(X: np.ndarray) -> np.ndarray:
    """Return columns of mean 0 and length 1, or 0 for constants; missing values are means."""
    X = X.astype(np.float64)
    X = np.where(np.isnan(X), np.nan_to_num(_known_means(X)), X)
    largest = np.max(np.abs(X), axis=0)
    X = X / np.where(largest > 0, largest, 1.0)
    X -= X.mean(axis=0)
    lengths = np.linalg.norm(X, axis=0)
    varies = lengths > _CONSTANT * len(X) ** 0.5
    return np.where(varies, X / np.where(varies, lengths, 1.0), 0.0)


def permutation_importances(
    held_out: Sequence[Samples],
    sources: Sequence[int],
    n_features: int,
    predict: Callable[[int, Array], np.ndarray],
    judge: HeldOutLoss,
    rng: np.random.RandomState,
    left: Callable[[], float],
    /,
    *,
    repeats: int = 1,
) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
    """Return permutation importances of columns, and the groups that are shuffled together.

    Parameters
    ----------
    held_out : sequence of Samples
        Of each fold.
    sources : sequence of int
        Which feature each of their columns is made of.
    n_features : int
        How many there are.
    predict : callable
        Predictions for rows by the models of a fold, on the host.
    judge : HeldOutLoss
        Of all rows that are held out, in the order of the folds.
    rng : RandomState
        Draws rows, and shuffles.
    left : callable
        Seconds that are left, infinite without a limit. Where one prediction says that not all
        columns can be shuffled, those most correlated with predictions are.
    repeats : int
        Shuffles of which the mean is taken.

    Returns
    -------
    array (n_features,), array (n_features,), list of lists
        Importances of sum 1, or 0 where nothing matters; their standard errors, as the rows are a
        sample, given the sum; and features that are shuffled together, which have equal shares of
        their importance. Of thousands of columns those that are hardly correlated with predictions
        are not shuffled: their importance is 0.
    """
    rows = [_draw_some(len(part), -(-_ROWS // len(held_out)), rng) for part in held_out]
    some = [part.take(index) for part, index in zip(held_out, rows, strict=True)]
    seen = np.concatenate([to_host(part.X) for part in some])
    joined = group_columns(seen, sources, is_over=lambda: left() <= _MOMENT)
    predicted = predict(0, some[0].X)
    groups = _leading_groups(joined, to_host(some[0].X), predicted)
    n_folds = max(1, min(len(some), _PASSES // len(groups)))
    begins = np.concatenate([[0], np.cumsum([len(part) for part in held_out])])
    gains: list[list[np.ndarray]] = [[] for _ in groups]  # of each row, by fold
    for k in range(n_folds):
        begun = time.perf_counter()
        X, judged = some[k].X, begins[k] + rows[k]
        alike = _shuffle_columns(X, groups[0], np.arange(len(rows[k])))  # as long as any shuffle
        least = judge.losses(predict(k, alike), judged)
        took = repeats * max(time.perf_counter() - begun, _TINY)
        there_is = left() if k > 0 else max(left(), _MOMENT)
        if len(groups) * took > there_is:
            if k > 0:
                break
            groups = _leading_groups(groups, to_host(X), predicted, int(there_is / took))
            gains = gains[: len(groups)]
            if not groups:
                warn("no time is left for importances of features: they are 0")
                break
            warn(f"time is left for importances of {len(groups)} features: those of others are 0")
        orders = [[rng.permutation(len(some[k])) for _ in range(repeats)] for _ in groups]
        shuffles = [(g, order) for g, of_group in enumerate(orders) for order in of_group]
        predictions = _predict_shuffled(X, groups, shuffles, partial(predict, k))
        losses = [judge.losses(found, judged) for found in predictions]
        by_group = np.reshape(losses, (len(groups), repeats, -1)).mean(axis=1)
        for g, found in enumerate(by_group):
            gains[g].append(found - least)
    importances, errors = np.zeros(n_features), np.zeros(n_features)
    for by_fold, columns in zip(gains, groups, strict=True):
        own = sorted({sources[column] for column in columns})
        gain = np.concatenate([*by_fold, np.zeros(0)])
        importances[own] = max(float(gain.sum()), 0.0) / len(own)
        errors[own] = math.sqrt(len(gain)) * (gain.std() if len(gain) else 0.0) / len(own)
    total = importances.sum()
    features = [sorted({sources[column] for column in columns}) for columns in joined]
    return importances / (total or 1.0), errors / (total or 1.0), features


def _draw_some(n: int, count: int, rng: np.random.RandomState) -> np.ndarray:
    """Draw a random sample of n rows."""
    return np.arange(n) if n <= count else np.sort(rng.permutation(n)[:count])


def _leading_groups(
    groups: list[list[int]], X: np.ndarray, predicted: np.ndarray, most: int | None = None
) -> list[list[int]]:
    """Return the groups to shuffle: at most a number, those most correlated with predictions.

    To shuffle a column takes a prediction of rows of all columns.
    """
    count = max(1, _WORK // X.size) if most is None else most
    if len(groups) <= count:
        return groups
    strengths = np.max(np.abs(_standardise(X).T @ _standardise(predicted)), axis=1)
    strongest = [-max(strengths[column] for column in columns) for columns in groups]
    return [groups[g] for g in sorted(np.argsort(strongest, kind="stable")[:count])]


def _predict_shuffled(
    X: Array,
    groups: Sequence[Sequence[int]],
    shuffles: Sequence[tuple[int, np.ndarray]],
    predict: Callable[[Array], np.ndarray],
) -> Iterator[np.ndarray]:
    """Yield predictions with one group of columns shuffled, for each shuffle."""
    xp, count = array_namespace(X), max(1, _ELEMENTS // (X.shape[0] * X.shape[1]))
    for start in range(0, len(shuffles), count):
        some = shuffles[start : start + count]
        rows = xp.concat([_shuffle_columns(X, groups[g], order) for g, order in some], axis=0)
        yield from np.split(predict(rows), len(some))


def joint_groups_text(groups: Sequence[Sequence[int]], names: Sequence[str], /) -> str:
    """Return in words which features are shuffled together; empty where each is alone."""
    joined = [group for group in groups if len(group) > 1]
    named = ("{" + ", ".join(names[k] for k in group) + "}" for group in joined[:_NAMED])
    left = len(joined) - _NAMED
    more = f"; and {left} groups more" if left > 0 else ""
    return f"shuffled together: {'; '.join(named)}{more}" if joined else ""


def _known_means(X: np.ndarray) -> np.ndarray:
    """Return the means (d,) of the known values of columns, NaN if there are none."""
    there = ~np.isnan(X)
    with np.errstate(invalid="ignore"):
        return np.sum(X, axis=0, where=there) / np.sum(there, axis=0)


def _shuffle_columns(X: Array, columns: Sequence[int], order: np.ndarray) -> Array:
    """Return rows with some columns shuffled."""
    xp = array_namespace(X)
    device = get_device(X)
    others = xp.take(X, xp.asarray(order, dtype=xp.int64, device=device), axis=0)
    chosen = xp.asarray(np.isin(np.arange(X.shape[1]), columns), dtype=xp.bool, device=device)
    return xp.where(chosen[None, :], others, X)


# ----------------------------------------------------------------------------- description

# What a portfolio says of itself: whose the prediction is.


_COVERAGE = 0.9  # of the intervals that are drawn
_NOTE = (
    "Importances are of rows that the models have not seen; their errors are those of these rows "
    "as a sample."
)
_NO_FAULTS = ("clearly behind", SETTLED)  # ends of what is noted of members that would not help
_SIMPLE = {"linear": "linear model", "trees": "boosted trees"}  # members that others know
_TOO_GOOD = (
    "Each member was judged by rows that its fits had not seen. The weights of the blend were "
    "chosen by the same rows: its score is a little too good."
)
_SCORES = {True: "explained log loss", False: "R²"}


def describe(e: Any, names: Names, /) -> Description:
    """Describe a fitted portfolio whose arrays are NumPy's."""
    leading = sorted(e.members_, key=lambda member: -member.weight)
    shares = ", ".join(f"{one.name} {one.weight:.0%}".replace("%", " %") for one in leading)
    known, joined = e.encodings_, joint_groups_text(e.feature_groups_, names.features)
    importances = Importances(
        names.features,
        e.feature_importances_,
        "loss that shuffling adds",
        errors=vars(e).get("feature_importances_error_"),
        remark="; ".join(filter(None, ["± one standard error", joined])),
    )
    panels: list[Panel] = [importances]
    for one in leading:
        directions = getattr(one.models[0], "components_", None)
        if directions is not None:
            of = f" of {one.name}, {one.weight:.0%} of the blend".replace("%", " %")
            panels.append(_make_directions(e, names.features, directions, one.sees, of))
            break
    scored = sorted((t for t in e.tuning_ if t["score"] is not None), key=lambda t: -t["score"])
    scores, errors, weights = (
        np.array([t[key] for t in scored]) for key in ("score", "standard_error", "weight")
    )
    members = tuple(trial["member"] for trial in scored)
    panels.append(Leaderboard(members, scores, errors, weights, _SCORES[is_classifier(e)]))
    if e.out_of_fold_.is_complete:
        panels += _class_panels(e) if is_classifier(e) else _regression_panels(e, names.outputs)
    return Description(
        **e._common_fields(names),
        text=f"blend of {shares}",
        n_samples=e._n_samples,
        place=e.place_,
        ended=status_text(e.status_),
        columns="" if known is None else columns_text(known.table),
        facts=_blend_facts(e, names, leading),
        note=_NOTE,
        comparison=_make_comparison(e),
        data=_describe_data(e, names),
        warnings=tuple(_member_warnings(e)),
        panels=tuple(panels),
        tuning=Tuning(
            # The blend's seconds are those of its members
            tuple(t | {"seconds": None} if t["chosen"] else t for t in e.tuning_),
            _SCORES[is_classifier(e)],
            along="member",
            cut_short=e.tuning_cut_short_,
            untried=tuple(t["member"] for t in e.tuning_ if t["note"] in UNTRIED),
            of="member",
        ),
    )


def _blend_facts(e: Any, names: Names, leading: list[Any]) -> dict[str, Any]:
    """Return facts on the shares of members, joint features, and the number of models."""
    facts: dict[str, Any] = {f"share of {one.name}": f"{one.weight:.3f}" for one in leading}
    joined = joint_groups_text(e.feature_groups_, names.features).partition(": ")[2]
    if joined:
        facts["correlated features, shuffled together"] = joined
    if e.seen_rows_ is not None:
        repeats = ", ".join(f"{share:.0%}" for share in np.unique(e.seen_rows_.repeatability))
        facts["residuals that repeat with their row"] = repeats.replace("%", " %")
        facts["score of rows that come again"] = repeats_text(e.seen_rows_)
    return facts | {"models": sum(len(one.models) for one in e.members_)}


def _make_comparison(e: Any) -> Comparison:
    """Return the scores of simple models, the best member and the blend on held-out rows."""
    scored = [trial for trial in e.tuning_ if trial["score"] is not None]
    members = [trial for trial in scored if not trial["chosen"]]
    best = max(members, key=lambda trial: trial["score"])["member"]
    rows = [Compared("the shares of the classes" if is_classifier(e) else "the mean", 0.0)]
    for trial in sorted(scored, key=lambda trial: trial["score"]):
        name, own = trial["member"], trial["chosen"]
        if not own and name not in _SIMPLE and name != best:
            continue
        shown = _SIMPLE.get(name, name) + (" (the best member)" if name == best else "")
        error = trial["standard_error"]
        more = {"log loss": trial["log_loss"], "Brier score": trial["brier"]}
        known = {key: value for key, value in more.items() if value is not None}
        rows.append(Compared(shown, trial["score"], error, known, own=own))
    notes = [_TOO_GOOD]
    if e.seen_rows_ is not None:
        notes.append(f"Scores are of new rows: {repeats_text(e.seen_rows_)}.")
    return Comparison(tuple(rows), _SCORES[is_classifier(e)], tuple(notes))


def _describe_data(e: Any, names: Names) -> DataFacts:
    """Return facts on the columns and the targets, by the rows that were held out."""
    kept = e.out_of_fold_
    some = (
        f"numbers are of {len(kept.truth):,} rows that were held out" if kept.n_folds == 1 else ""
    )
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


def _member_warnings(e: Any) -> list[str]:
    """Return warnings of members that could not do what they should."""
    members = [trial for trial in e.tuning_ if not trial["chosen"]]
    left = [t for t in members if t["note"] and not t["note"].endswith(_NO_FAULTS)]
    left = [t for t in left if not any(t["note"] in one for one in e.warnings_)]  # told by them
    found = [f"The member {trial['member']}: {trial['note']}." for trial in left]
    if not is_classifier(e) and not e.uncertainty_.can_cover(_COVERAGE):
        n = len(e.uncertainty_.residuals.weights)
        found.append(f"{n} rows were held out: too few for intervals of {_COVERAGE:.0%}.")
    return found


def _make_directions(
    e: Any, features: tuple[str, ...], loadings: np.ndarray, sees: str, of: str
) -> Directions:
    """Return the directions of the first fold's models."""
    if e.encodings_ is None:
        return Directions(features, loadings, e.feature_importances_, of)
    outputs, sources = zip(*e.encodings_.outputs(sees), strict=True)
    # What a column of the table matters is shared by those that it became, or these hide all others
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
    """Return the panel of reliability on held-out rows."""
    kept = e.out_of_fold_
    codes = np.argmax(kept.truth, axis=1)
    return [Reliability(kept.predicted, codes, tuple(map(str, e.classes_.tolist())))]
