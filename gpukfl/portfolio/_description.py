"""What a portfolio says of itself: whose the prediction is."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from gpukfl.estimators._described import ended_text
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
from gpukfl.portfolio._contest import SETTLED, UNTRIED
from gpukfl.portfolio._importances import together
from gpukfl.tables._facts import data_facts
from gpukfl.tables._schema import columns_text

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
    known, joined = e.encodings_, together(e.feature_groups_, names.features)
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
            panels.append(_directions(e, names.features, directions, one.sees, of))
            break
    scored = sorted((t for t in e.tuning_ if t["score"] is not None), key=lambda t: -t["score"])
    scores, errors, weights = (
        np.array([t[key] for t in scored]) for key in ("score", "standard_error", "weight")
    )
    members = tuple(trial["member"] for trial in scored)
    panels.append(Leaderboard(members, scores, errors, weights, _SCORES[is_classifier(e)]))
    panels += _of_classes(e) if is_classifier(e) else _of_numbers(e, names.outputs)
    return Description(
        **e._about(names),
        text=f"blend of {shares}",
        n_samples=e._n_samples,
        place=e.place_,
        ended=ended_text(e.status_),
        columns="" if known is None else columns_text(known.table),
        facts=_facts(e, names, leading),
        note=_NOTE,
        comparison=_comparison(e),
        data=_data(e, names),
        warnings=tuple(_warnings(e)),
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


def _facts(e: Any, names: Names, leading: list[Any]) -> dict[str, Any]:
    """Say shares of members, features that are shuffled together, and how many models there are."""
    facts: dict[str, Any] = {f"share of {one.name}": f"{one.weight:.3f}" for one in leading}
    joined = together(e.feature_groups_, names.features).partition(": ")[2]
    if joined:
        facts["correlated features, shuffled together"] = joined
    return facts | {"models": sum(len(one.models) for one in e.members_)}


def _comparison(e: Any) -> Comparison:
    """Say what simple models, the best member and the blend score on rows that were held out."""
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
    return Comparison(tuple(rows), _SCORES[is_classifier(e)], (_TOO_GOOD,))


def _data(e: Any, names: Names) -> DataFacts:
    """Say what the columns and the targets are, by the rows that were held out."""
    kept = e.out_of_fold_
    some = (
        f"numbers are of {len(kept.truth):,} rows that were held out" if kept.n_folds == 1 else ""
    )
    return data_facts(
        None if e.encodings_ is None else e.encodings_.table,
        names.features,
        kept.rows,
        target=kept.truth,
        classes=tuple(map(str, e.classes_.tolist())) if is_classifier(e) else (),
        targets=names.outputs,
        rows_are=some,
    )


def _warnings(e: Any) -> list[str]:
    """Say which members could not do what they should."""
    left = [t for t in e.tuning_ if t["note"] and not t["note"].endswith(_NO_FAULTS)]
    left = [t for t in left if not any(t["note"] in one for one in e.warnings_)]  # told by them
    found = [f"The member {trial['member']}: {trial['note']}." for trial in left]
    n = len(e.out_of_fold_.truth)
    if not is_classifier(e) and not e.uncertainty_.can_cover(_COVERAGE):
        found.append(f"{n} rows were held out: too few for intervals of {_COVERAGE:.0%}.")
    return found


def _directions(
    e: Any, features: tuple[str, ...], loadings: np.ndarray, sees: str, of: str
) -> Directions:
    """Directions of the first fold's models, in features as these see them."""
    if e.encodings_ is None:
        return Directions(features, loadings, e.feature_importances_, of)
    outputs, sources = zip(*e.encodings_.outputs(sees), strict=True)
    # What a column of the table matters is shared by those that it became, or these hide all others
    of_source, size = np.asarray(sources), np.abs(loadings).max(axis=0, initial=0.0)
    total = np.bincount(of_source, size, minlength=len(e.feature_importances_))
    share = size / np.where(total > 0, total, 1.0)[of_source]
    return Directions(outputs, loadings, e.feature_importances_[of_source] * share, of)


def _of_numbers(e: Any, outputs: tuple[str, ...]) -> list[Panel]:
    """Predictions of rows that were held out, with intervals if there are enough, and residuals."""
    kept, known = e.out_of_fold_, e.uncertainty_
    ends = (
        known.held_out(kept.predicted, coverage=_COVERAGE) if known.can_cover(_COVERAGE) else None
    )
    return [
        Predictions(kept.truth, kept.predicted, outputs, ends, _COVERAGE),
        ResidualPlot(kept.truth, kept.predicted, outputs),
    ]


def _of_classes(e: Any) -> list[Panel]:
    """How often a class is true where its probability is said to be so."""
    kept = e.out_of_fold_
    codes = np.argmax(kept.truth, axis=1)
    return [Reliability(kept.predicted, codes, tuple(map(str, e.classes_.tolist())))]
