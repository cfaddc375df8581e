"""What a fitted weighting is: attributes, and what their values must be."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpukfl.estimators._declared import (
    DOUBLE,
    FLOAT,
    SCORE,
    Declared,
    Entries,
    Items,
    Number,
    Numbers,
    Record,
    Rule,
    Text,
    Whole,
)
from gpukfl.instantiations import Instantiation, RandomKitchenSinks, Stumps

TRIED: dict[str, Declared] = {
    "instantiation": Text(),
    "n_parameters": Whole(),
    "n_samples": Whole(),
    "ridge": Number(any_value=True),
}

ATTRIBUTES: dict[str, Declared] = {
    "parameters_": Numbers(FLOAT, ("n_parameters", "n_entries")),
    "_gradients": Numbers(FLOAT, ("n_gradients", "n_features")),
    "coef_": Numbers(DOUBLE, ("n_parameters", "n_targets")),
    "intercept_": Numbers(DOUBLE, ("n_targets",)),
    "n_parameters_": Whole("n_parameters"),
    "log_scale_": Number(),
    "instantiation_": Record(Instantiation),
    "log_rkhs_norm_": Numbers(DOUBLE, ("n_targets",)),
    "rkhs_norm_": Numbers(DOUBLE, ("n_targets",)),
    "ridge_": Number(),
    "jitter_": Number(any_value=True),
    "gap_": Number(any_value=True),
    "expectation_error_": Number(any_value=True),
    "pruning_": Items(
        Entries({"n_parameters": Whole(), "degradation": SCORE, "penalty": SCORE}),
        optional=True,
    ),
}

OF_CLASSES: dict[str, Declared] = {
    "validation_": Entries(
        {
            "risk": SCORE,
            "error": SCORE,
            "training_risk": SCORE,
            "n_samples": Whole(),
            "unit": Number(),
        },
        optional=True,
    ),
}


def _parameters(e: Any) -> bool:
    instantiation, n_columns = e.instantiation_, e.n_features_in_ + e.bias
    drawn = instantiation.draw(1, n_columns, np.random.RandomState(0))
    if drawn.shape[1] != e.parameters_.shape[1]:
        return False
    while isinstance(instantiation, RandomKitchenSinks):
        instantiation = instantiation.of
    column = e.parameters_[:, 0]
    inside = (column >= 0) & (column < n_columns) & (column == np.floor(column))
    return not isinstance(instantiation, Stumps) or bool(inside.all())


RULES: dict[str, Rule] = {"parameters of its instantiation": _parameters}
