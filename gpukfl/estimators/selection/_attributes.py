"""What a fitted selection is: attributes, and what their values must be."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpukfl.estimators._declared import (
    DOUBLE,
    FLOAT,
    Declared,
    Either,
    Entries,
    Items,
    Number,
    Numbers,
    Record,
    Rule,
    Text,
    Whole,
    together,
)
from gpukfl.kernels import Kernel

TRIED: dict[str, Declared] = {
    "ridge": Number(),
    "sparsity": Either(Number(), Text(("auto",))),
    "n_selected": Number(),
}

ATTRIBUTES: dict[str, Declared] = {
    "scores_": Numbers(DOUBLE, ("n_features",)),
    "levels_": Numbers("i", ("n_features",)),
    "beta_": Numbers(DOUBLE, ("n_features",)),
    "feature_importances_": Numbers(DOUBLE, ("n_features",)),
    "components_": Numbers(FLOAT, ("n_used", "n_features")),
    "n_effective_features_": Whole(),
    "intercept_": Numbers(FLOAT, ("n_targets",)),
    "kernel_": Record(Kernel),
    "centers_": Numbers(FLOAT, ("n_centers", "n_used"), optional=True),
    "dual_coef_": Numbers(DOUBLE, ("n_centers", "n_targets"), optional=True),
    "_support": Numbers("b", ("n_features",)),
    "_used": Numbers("i", ("n_used",)),
    "_stretch": Numbers(DOUBLE, ("n_used",)),
    "ridge_": Number(),
    "sparsity_": Number(),
    "anchor_": Number(),
    "rounds_": Items(
        Entries(
            {
                "level": Whole(),
                "sparsity": Number(),
                "entered": Items(Whole()),
                "scores": Items(Number()),
                "highest_left": Number(),
            }
        )
    ),
    "path_": Entries(
        {
            "sparsity": Numbers(DOUBLE, ("n_path",)),
            "beta": Numbers(DOUBLE, ("n_path", "n_features")),
            "score": Numbers(DOUBLE, ("n_path",)),
        },
        optional=True,
    ),
    "selection_frequencies_": Numbers(DOUBLE, ("n_features",), optional=True),
    "stability_threshold_": Number(optional=True),
    "e_values_": Numbers(DOUBLE, ("n_features",), optional=True),
    "fdr_": Number(optional=True),
    "knockoffs_": Entries(
        {
            "level": Number(),
            "draws": Whole(),
            "copies": Whole(),
            "shrinkage": Number(),
            "n_samples": Whole(),
        },
        optional=True,
    ),
}


def _selected(e: Any) -> bool:
    used = e._used
    inside = bool(np.all((used >= 0) & (used < e.n_features_in_)) and np.all(e.levels_ >= 0))
    return inside and len(np.unique(used)) == len(used) and bool(np.all(e._stretch > 0))


def _entered(e: Any) -> bool:
    return all(k < e.n_features_in_ for one in e.rounds_ for k in one["entered"]) and (
        int(e._support.sum()) == e.n_effective_features_
    )


def _enough(e: Any) -> bool:
    return e.e_values_ is None or bool(np.all(e.e_values_ >= 0))


RULES: dict[str, Rule] = {
    "centres with their coefficients": together("centers_", "dual_coef_"),
    "indices of variables": _selected,
    "e-values with their share of false ones": together("e_values_", "fdr_", "knockoffs_"),
    "e-values": _enough,
    "rounds of the selected variables": _entered,
}
