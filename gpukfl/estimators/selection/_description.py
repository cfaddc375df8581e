"""What a kernel feature selection says of itself."""

from __future__ import annotations

from typing import Any

from sklearn.base import is_classifier

from gpukfl.estimators._described import SCORES
from gpukfl.estimators._features import profile_curves
from gpukfl.estimators.selection._problem import selection_kernel
from gpukfl.inspection import Description, Importances, Names, Objective, Panel, Path, Rounds
from gpukfl.knockoffs import fewest_found


def describe(e: Any, names: Names, /) -> Description:
    """Describe a fitted estimator whose arrays are NumPy's."""
    last = "the mean" if e.dual_coef_ is None else type(e.kernel_).__name__
    found = [one for one in e.rounds_ if one["entered"]]
    selected = f"{e.n_effective_features_} of {e.n_features_in_} variables"
    tuned = ("ridge", ()) if e.path_ is None else ("sparsity", ("ridge",))
    about = e._about_fit(names, along=tuned[0], beside=tuned[1])
    return Description(
        **about | {"dimension": (e.n_effective_features_, "selected variable")},
        text=(
            f"{selected}{_in_rounds(e, len(found))}, then "
            f"{last if e.dual_coef_ is None else f'{last} kernel'}"
        ),
        products="by blocks",
        facts={
            "selection by": type(selection_kernel(e.kernel)).__name__,
            "selected": selected,
            "variables by round": ", ".join(str(len(r["entered"])) for r in found) or "none",
            "thresholds γ": ", ".join(f"{r['sparsity']:.3g}" for r in e.rounds_) or "none",
            "ridge λ": f"{e.ridge_:.3g}",
            "prediction by": last,
        }
        | _discoveries(e),
        note=(
            "A variable enters in the first round in which its score stays above the threshold γ "
            "until it has weight; scores are those at the start of a round. A "
            "profile is the prediction along one selected variable, averaged over the others of "
            "some centres."
        ),
        panels=_panels(e, names),
    )


def _in_rounds(e: Any, count: int) -> str:
    """Say in how many rounds, unless it was not these that selected."""
    if e.error_control is not None:
        return ""
    return f" in {count} round{'' if count == 1 else 's'}"


def _discoveries(e: Any) -> dict[str, str]:
    """Say what knockoffs promise; nothing without them."""
    if e.knockoffs_ is None:
        return {}
    level, draws, copies = (e.knockoffs_[key] for key in ("level", "draws", "copies"))
    times, fewest = f"{draws} draw{'' if draws == 1 else 's'}", fewest_found(level, copies)
    return {
        "false discoveries": f"at most {level:.3g} of those selected, on average",
        "knockoffs": f"{times} of {copies} copies, {e.knockoffs_['n_samples']} rows",
        "fewest that can be found": str(fewest),
        "correlations shrunk by": f"{e.knockoffs_['shrinkage']:.1%}",
    }


def _panels(e: Any, names: Names) -> tuple[Panel, ...]:
    features = names.features
    thresholds = tuple((one["level"], one["sparsity"]) for one in e.rounds_)
    panels: list[Panel] = [
        Importances(features, e.feature_importances_, "error that permuting adds", e.levels_),
        Rounds(features, e.scores_, e.levels_, thresholds),
        profile_curves(e, names, "Prediction along the selected variables"),
    ]
    if e.path_ is not None:
        gammas, beta, scores = (e.path_[key] for key in ("sparsity", "beta", "score"))
        score = SCORES[is_classifier(e)]
        panels.append(Path(features, gammas, beta, scores, e.sparsity_, score))
    return (*panels, Objective(tuple(e.history_.objective)))
