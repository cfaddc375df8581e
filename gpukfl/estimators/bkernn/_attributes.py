"""What a fitted BKerNN is: attributes, and what their values must be."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpukfl.estimators._declared import (
    FLOAT,
    Declared,
    Number,
    Numbers,
    Record,
    Rule,
    Text,
    Whole,
)
from gpukfl.methods import ShapeFunctions
from gpukfl.penalties import PENALTIES

TRIED: dict[str, Declared] = {
    "penalty": Text(),
    "ridge": Number(),
    "multiple": Number(),
}

ATTRIBUTES: dict[str, Declared] = {
    "penalty_": Text(tuple(PENALTIES)),
    "W_": Numbers(FLOAT, ("n_features", "n_particles")),
    "dual_coef_": Numbers(FLOAT, ("n_samples", "n_targets"), optional=True),
    "shape_functions_": Record(
        ShapeFunctions,
        {
            "knots": Numbers(FLOAT, ("n_particles", "n_knots")),
            "values": Numbers(FLOAT, ("n_particles", "n_knots", "n_targets")),
        },
    ),
    "ridge_": Number(),
    "n_knots_": Whole(optional=True),
    "knots_error_": Number(any_value=True),
    "solve_residual_": Number(any_value=True),
}


def _shapes(e: Any) -> bool:
    shapes = e.shape_functions_
    return bool(shapes.knots.size) and bool(
        np.isfinite(shapes.values).all() and (np.diff(shapes.knots, axis=1) >= 0).all()
    )


RULES: dict[str, Rule] = {"shape functions with ascending knots": _shapes}
