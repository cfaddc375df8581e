"""What an RKHS weighting says of itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from gpukfl.estimators._described import in_unit
from gpukfl.estimators._features import profile_curves
from gpukfl.estimators.weighting._search import described
from gpukfl.estimators.weighting._settings import Descent, Pruning
from gpukfl.inspection import (
    Bound,
    Curves,
    Description,
    Directions,
    Importances,
    Names,
    Objective,
    Panel,
    Sparsity,
    StumpCurves,
    Tuning,
)
from gpukfl.instantiations import Stumps

_FEATURES = 6  # whose stumps can be told apart
_REACH = 3.0  # standard deviations of a feature that are drawn
_DELTA = 0.05


def describe(e: Any, names: Names, /) -> Description:
    """Describe a fitted estimator whose arrays are NumPy's."""
    instantiation, learner = described(e.instantiation_), _learner(e.learner)
    facts = {
        "instantiation": instantiation,
        "learner": learner,
        "parameters": f"{e.n_parameters_} of {e.n_parameters}",
        "ridge λ": f"{e.ridge_:.3g}",
        "RKHS norm": ", ".join(f"{norm:.4g}" for norm in e.rkhs_norm_[:5]),
        "θ": f"{e.theta_:.3g}" if _has_theta(e) else "none",
    }
    if e.expectation_error_:
        facts["error of expectations"] = f"{e.expectation_error_:.1e}"
    beside = ("instantiation", "n_parameters", "n_samples")
    about = e._about_fit(names, along="ridge", beside=beside)
    return Description(
        **about,
        text=(
            f"{instantiation}, {e.n_parameters_} of {e.n_parameters} "
            f"parameters, {learner}, λ = {e.ridge_:.3g}"
        ),
        products="by blocks",
        facts=facts,
        note=f"A direction's loadings say how much each feature weighs in it. {_note(e)}",
        panels=_panels(e, names, about["tuning"]),
    )


def _note(e: Any) -> str:
    if isinstance(e.instantiation_, Stumps):
        return "Stumps of a feature add up to a curve: what they do to the prediction along it."
    return (
        "A profile is the prediction along one direction in which the model varies, through the "
        "middle of the data."
    )


def _panels(e: Any, names: Names, tuning: Tuning) -> tuple[Panel, ...]:
    features, importances = names.features, e.feature_importances_
    by_stumps = isinstance(e.instantiation_, Stumps)
    panels: list[Panel] = [
        Importances(features, importances, "root mean squares of the derivatives"),
        Directions(features, e.components_, importances),
        _stumps(e, names) if by_stumps else profile_curves(e, names),
        _sparsity(e),
        tuning,
    ]
    if is_classifier(e) and e.validation_ is not None and e.coef_.shape[1] == 1 and _has_theta(e):
        panels.append(_bound(e))
    return (*panels, Objective(tuple(e.history_.objective)))


def _learner(learner: str | Descent) -> str:
    """Name of a learner, in words."""
    if isinstance(learner, Descent):
        learner = "optimal_step" if learner.optimal_step else "sfgd"
    return learner.replace("_", " ")


def _sparsity(e: Any) -> Sparsity:
    prune = Pruning(e.prune) if isinstance(e.prune, str) else e.prune
    steps = () if e.pruning_ is None else e.pruning_
    pruned = tuple((step["n_parameters"], step["degradation"]) for step in steps)
    rule, tolerance = ("None", 0.0) if prune is None else (prune.rule, prune.tolerance)
    return Sparsity(np.abs(e.coef_).sum(axis=1), e.n_parameters, pruned, tolerance, rule)


def _stumps(e: Any, names: Names) -> Curves:
    """Sum of the stumps of each leading feature, along it."""
    first = int(e.bias)
    n_columns = e.n_features_in_ + first
    steps = np.linspace(-_REACH, _REACH, 301)
    labels, values, thresholds = [], [], []
    for feature in np.argsort(-e.feature_importances_, kind="stable")[:_FEATURES]:
        own = e.parameters_[:, 0] == feature + first
        if not own.any():
            continue
        X = np.zeros((len(steps), n_columns), dtype=e.coef_.dtype)
        X[:, feature + first] = steps
        features = e.instantiation_.features(e.parameters_[own], n_columns)
        factors = np.exp(features.log_constants - e.log_scale_)
        values.append(features.shapes(X) @ (factors[:, None] * e.coef_[own]))
        labels.append(names.features[feature])
        thresholds.append(e.parameters_[own, 1])
    return StumpCurves(
        tuple(labels),
        (steps,) * len(labels),
        tuple(values),
        names.outputs,
        one_unit=names.one_unit,
        title="Decision stumps, summed (ticks: thresholds)",
        xlabel="feature" + in_unit(e),
        thresholds=tuple(thresholds),
    )


def _bound(e: Any) -> Bound:
    known = e.validation_
    bounds = {}
    for radius, name in (("norm", "bound, B = norm"), ("doubling", "bound, any B")):
        gap = e._gap(known["n_samples"], _DELTA, radius, 1.0)
        bounds[f"{name}, δ = {_DELTA}"] = known["training_risk"] + known["unit"] * gap
    return Bound(
        {"share of wrong labels, held out": known["error"], "risk, held out": known["risk"]},
        {"risk, training": known["training_risk"]},
        bounds,
    )


def _has_theta(e: Any) -> bool:
    try:
        e.instantiation_.log_theta(e.n_features_in_ + e.bias)
    except ValueError:
        return False
    return True
