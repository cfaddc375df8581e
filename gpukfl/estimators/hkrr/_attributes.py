"""What a fitted HKRR is."""

from __future__ import annotations

from gpukfl.estimators._declared import (
    DOUBLE,
    FLOAT,
    Declared,
    Number,
    Numbers,
    Record,
    Switch,
    Whole,
)
from gpukfl.kernels import Kernel

TRIED: dict[str, Declared] = {
    "n_components": Whole(),
    "ridge": Number(),
    "learned": Switch(),
}

ATTRIBUTES: dict[str, Declared] = {
    "map_": Numbers(FLOAT, ("n_components", "n_features"), or_shape=("n_features",)),
    "centers_": Numbers(FLOAT, ("n_centers", "n_features")),
    "dual_coef_": Numbers(DOUBLE, ("n_centers", "n_targets")),
    "bound_": Numbers(FLOAT, ("n_targets",)),
    "kernel_": Record(Kernel),
    "lengthscale_": Number(),
    "ridge_": Number(),
    "jitter_": Number(any_value=True),
    "learned_": Switch(),
    "evidence_": Number(optional=True),
    "amplitude_": Numbers(FLOAT, ("n_targets",), optional=True),
    "noise_": Numbers(FLOAT, ("n_targets",), optional=True),
    "factor_": Numbers(DOUBLE, ("n_centers", "n_centers"), optional=True),
    "inner_factor_": Numbers(DOUBLE, ("n_centers", "n_centers"), optional=True),
}
