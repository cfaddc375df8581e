"""What regularised feature learning says of itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpukfl.estimators._features import profile_curves
from gpukfl.inspection import (
    Degrees,
    Description,
    Directions,
    Eta,
    Importances,
    Names,
    Objective,
)
from gpukfl.methods import DegreeLaw


def describe(e: Any, names: Names, /) -> Description:
    """Describe a fitted estimator whose arrays are NumPy's."""
    features, importances = names.features, e.feature_importances_
    law, last = DegreeLaw(e.degree_decay_, e.max_degree_).described, e._last_text()
    count = e.multi_indices_.shape[0]
    return Description(
        **e._about_fit(
            names, along="strength", beside=("degree_decay", "max_degree", "prediction")
        ),
        text=f"{count} Hermite features, {law}, strength {e.strength_:g}, prediction by {last}",
        products="by blocks",
        facts={
            "selection of": e.selection,
            "Hermite features": count,
            "law of the tuples": law,
            "strength μ": f"{e.strength_:g} of d^-(2-r)/r",
            "prediction by": last,
            "largest degree": int(e.multi_indices_.sum(axis=1).max(initial=0)),
        },
        note=(
            "A direction's loadings say how much each feature weighs in it. A profile is the "
            "prediction along one learned direction, through the middle of the data."
        ),
        panels=(
            Importances(features, importances, "root mean squares of the derivatives"),
            Directions(features, e.components_, importances),
            profile_curves(e, names),
            _eta(e, names),
            _degrees(e),
            Objective(tuple(e.history_.objective)),
        ),
    )


def _eta(e: Any, names: Names) -> Eta:
    r = e._reweighting.exponent
    shares = e.eta_path_ ** (r / (2.0 - r))
    shares = shares / shares.sum(axis=1, keepdims=True)
    return Eta(shares, names.features if e.selection == "variables" else None)


def _degrees(e: Any) -> Degrees:
    degrees = e.multi_indices_.sum(axis=1)
    squares = np.bincount(degrees, weights=(e.coef_**2).sum(axis=1).astype(np.float64))
    counts, total = np.bincount(degrees), squares.sum()
    return Degrees(counts / counts.sum(), squares / total if total > 0 else squares)
