"""What a fitted RegFeaL is: attributes, and what their values must be."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpukfl.estimators._declared import (
    DOUBLE,
    FLOAT,
    Declared,
    Nothing,
    Number,
    Numbers,
    Record,
    Rule,
    Text,
    Whole,
    together,
)
from gpukfl.kernels import Kernel
from gpukfl.methods import LARGEST_DEGREE

TRIED: dict[str, Declared] = {
    "degree_decay": Number(optional=True),
    "max_degree": Whole(optional=True),
    "strength": Number(),
    "prediction": Text(),
}

ATTRIBUTES: dict[str, Declared] = {
    "R_": Numbers(FLOAT, ("n_features", "n_features")),
    "_rotation": Numbers(DOUBLE, ("n_features", "n_features")),
    "eta_": Numbers(DOUBLE, ("n_features",)),
    "importances_": Numbers(DOUBLE, ("n_features",)),
    "eta_path_": Numbers(DOUBLE, ("n_updates", "n_features")),
    "multi_indices_": Numbers("i", ("n_tuples", "n_features")),
    "feature_matrix_": Numbers(FLOAT, ("n_features", "n_features")),
    "coef_": Numbers(FLOAT, ("n_tuples", "n_targets")),
    "degree_decay_": Number(optional=True),
    "max_degree_": Whole(optional=True),
    "strength_": Number(),
    "ridge_": Number(),
}

OF_RETRAINING: dict[str, Declared] = {
    "retrain_components_": Numbers(FLOAT, ("n_directions", "n_features"), optional=True),
    "kernel_": Record(Kernel, optional=True),
    "centers_": Numbers(FLOAT, ("n_centers", "n_directions"), optional=True),
    "dual_coef_": Numbers(DOUBLE, ("n_centers", "n_targets"), optional=True),
    "_offset": Numbers(FLOAT, ("n_targets",), optional=True),
    # Of a regressor of another library, which a file cannot hold
    "retrained_": Nothing(),
    "_y_scale": Nothing(),
    "_y_mean": Nothing(),
}


def _degrees(e: Any) -> bool:
    tuples = e.multi_indices_
    return (e.degree_decay_ is None) != (e.max_degree_ is None) and bool(
        np.all((tuples >= 0) & (tuples <= LARGEST_DEGREE))
    )


RULES: dict[str, Rule] = {"degrees of a law": _degrees}
RULES_OF_RETRAINING: dict[str, Rule] = {
    "all of a retrained model": together(
        "kernel_", "centers_", "dual_coef_", "retrain_components_", "_offset"
    )
}
