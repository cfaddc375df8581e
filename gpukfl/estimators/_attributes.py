"""What every fitted attribute is: one table, by the class that sets it.

Model files are checked against it, before arrays are read. A fit that sets another attribute
cannot be saved, which a test notices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpukfl._results import History, Status
from gpukfl.estimators._base import ArrayRegressor, HostPickled
from gpukfl.estimators._classifier import OneHotClassifier
from gpukfl.estimators._declared import (
    Declared,
    Either,
    Entries,
    Items,
    Labels,
    MisfitError,
    Names,
    Nothing,
    Number,
    Numbers,
    Record,
    Sizes,
    Switch,
    Text,
    Whole,
)
from gpukfl.estimators._features import DirectionProfiles, LinearFeatures
from gpukfl.estimators.bkernn._base import BKerNNBase
from gpukfl.estimators.hkrr._base import HKRRBase
from gpukfl.estimators.regfeal._base import RegFeaLBase
from gpukfl.estimators.regfeal._retraining import Retraining
from gpukfl.estimators.selection._base import SelectionBase
from gpukfl.estimators.weighting._base import WeightingBase
from gpukfl.estimators.weighting._estimators import RKHSWeightingClassifier
from gpukfl.instantiations import Instantiation, RandomKitchenSinks, Stumps
from gpukfl.kernels import Kernel
from gpukfl.methods import LARGEST_DEGREE, ShapeFunctions
from gpukfl.penalties import PENALTIES

FLOAT, DOUBLE = "precision", "f"
SCORE = Number(any_value=True)
_STEPS = Items(Number(any_value=True), "n_steps")
_VALIDATED = Items(Number(any_value=True))  # empty without early stopping

# What is tried while tuning
TRIALS: dict[type, dict[str, Declared]] = {
    BKerNNBase: {
        "penalty": Text(),
        "ridge": Number(),
        "multiple": Number(),
        "score": Number(any_value=True, optional=True),
        "chosen": Switch(),
    },
    HKRRBase: {
        "n_components": Whole(),
        "ridge": Number(),
        "learned": Switch(),
        "score": SCORE,
        "chosen": Switch(),
    },
    SelectionBase: {
        "ridge": Number(),
        "sparsity": Either(Number(), Text(("auto",))),
        "n_selected": Number(),
        "score": SCORE,
        "chosen": Switch(),
    },
    WeightingBase: {
        "instantiation": Text(),
        "n_parameters": Whole(),
        "n_samples": Whole(),
        "ridge": Number(any_value=True),
        "score": SCORE,
        "chosen": Switch(),
    },
    RegFeaLBase: {
        "degree_decay": Number(optional=True),
        "max_degree": Whole(optional=True),
        "strength": Number(),
        "score": SCORE,
        "chosen": Switch(),
    },
}

ATTRIBUTES: dict[type, dict[str, Declared]] = {
    HostPickled: {
        "n_features_in_": Whole("n_features"),
        "_library": Text(("numpy",)),
        "place_": Text(),
        "status_": Text(tuple(status.name for status in Status)),
        "n_iter_": Whole("n_steps"),
        "history_": Record(
            History,
            {
                "objective": _STEPS,
                "step": _STEPS,
                "residual": _STEPS,
                "seconds": _STEPS,
                "validation_score": _VALIDATED,
            },
        ),
    },
    ArrayRegressor: {"_one_target": Switch()},
    OneHotClassifier: {"classes_": Labels()},
    LinearFeatures: {
        "feature_matrix_": Numbers(FLOAT, ("n_features", "n_features")),
        "feature_importances_": Numbers(FLOAT, ("n_features",)),
        "components_": Numbers(FLOAT, ("n_effective_features", "n_features")),
        "n_effective_features_": Whole("n_effective_features"),
        "mean_": Numbers(DOUBLE, ("n_features",), optional=True),
        "scale_": Numbers(DOUBLE, ("n_features",), optional=True),
        "limits_": Numbers(DOUBLE, (4, "n_features"), optional=True),
        "intercept_": Numbers(FLOAT, ("n_targets",)),
    },
    DirectionProfiles: {
        "_middle": Items(Number(), "n_features"),
        "_range": Items(Items(Number(), 2), "n_effective_features"),
    },
    BKerNNBase: {
        "tuning_": Items(Entries(TRIALS[BKerNNBase])),
        "penalty_": Text(tuple(PENALTIES)),
        "W_": Numbers(FLOAT, ("n_features", "n_particles")),
        "dual_coef_": Numbers(FLOAT, ("n_samples", "n_targets")),
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
    },
    HKRRBase: {
        "B_": Numbers(FLOAT, ("n_components", "n_features")),
        "centers_": Numbers(FLOAT, ("n_centers", "n_features")),
        "dual_coef_": Numbers(FLOAT, ("n_centers", "n_targets")),
        "bound_": Numbers(FLOAT, ("n_targets",)),
        "kernel_": Record(Kernel),
        "lengthscale_": Number(),
        "ridge_": Number(),
        "jitter_": Number(any_value=True),
        "smallest_eigenvalue_": Number(any_value=True),
        "learned_": Switch(),
        "tuning_": Items(Entries(TRIALS[HKRRBase])),
        "_n_samples": Whole("n_samples"),
    },
    SelectionBase: {
        "scores_": Numbers(DOUBLE, ("n_features",)),
        "levels_": Numbers("i", ("n_features",)),
        "beta_": Numbers(DOUBLE, ("n_features",)),
        "feature_importances_": Numbers(DOUBLE, ("n_features",)),
        "components_": Numbers(FLOAT, ("n_used", "n_features")),
        "n_effective_features_": Whole(),
        "mean_": Numbers(DOUBLE, ("n_features",), optional=True),
        "scale_": Numbers(DOUBLE, ("n_features",), optional=True),
        "limits_": Numbers(DOUBLE, (4, "n_features"), optional=True),
        "intercept_": Numbers(FLOAT, ("n_targets",)),
        "kernel_": Record(Kernel),
        "centers_": Numbers(FLOAT, ("n_centers", "n_used"), optional=True),
        "dual_coef_": Numbers(FLOAT, ("n_centers", "n_targets"), optional=True),
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
        "tuning_": Items(Entries(TRIALS[SelectionBase])),
        "_n_samples": Whole("n_samples"),
    },
    WeightingBase: {
        "parameters_": Numbers(FLOAT, ("n_parameters", "n_entries")),
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
        "tuning_": Items(Entries(TRIALS[WeightingBase])),
        "_n_samples": Whole("n_samples"),
    },
    RKHSWeightingClassifier: {
        "inverse_temperature_": Number(),
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
    },
    RegFeaLBase: {
        "R_": Numbers(FLOAT, ("n_features", "n_features")),
        "_rotation": Numbers(DOUBLE, ("n_features", "n_features")),
        "eta_": Numbers(DOUBLE, ("n_features",)),
        "importances_": Numbers(DOUBLE, ("n_features",)),
        "eta_path_": Numbers(DOUBLE, ("n_updates", "n_features")),
        "multi_indices_": Numbers("i", ("n_tuples", "n_features")),
        "coef_": Numbers(FLOAT, ("n_tuples", "n_targets")),
        "degree_decay_": Number(optional=True),
        "max_degree_": Whole(optional=True),
        "strength_": Number(),
        "ridge_": Number(),
        "tuning_": Items(Entries(TRIALS[RegFeaLBase])),
        "_n_samples": Whole("n_samples"),
    },
    Retraining: {
        "retrain_components_": Numbers(FLOAT, ("n_directions", "n_features"), optional=True),
        "kernel_": Record(Kernel, optional=True),
        "centers_": Numbers(FLOAT, ("n_centers", "n_directions"), optional=True),
        "dual_coef_": Numbers(FLOAT, ("n_centers", "n_targets"), optional=True),
        "_offset": Numbers(FLOAT, ("n_targets",), optional=True),
        # Of a regressor of another library, which a file cannot hold
        "retrained_": Nothing(),
        "_y_scale": Nothing(),
        "_y_mean": Nothing(),
    },
}

# Of some fits only
SOMETIMES: dict[str, Declared] = {
    "feature_names_in_": Names(),
    "_sklearn_output_config": Entries({"transform": Text(("default", "pandas", "polars"))}),
}


def declared(kind: type, /) -> dict[str, Declared]:
    """Give the attributes that a fit of this estimator class sets, each time."""
    found: dict[str, Declared] = {}
    for base in reversed(kind.__mro__):
        found |= ATTRIBUTES.get(base, {})
    return found


def trials(kind: type, /) -> Declared:
    """Give what the list of settings that were tried is."""
    return next(Items(Entries(TRIALS[base])) for base in kind.__mro__ if base in TRIALS)


def check_attributes(kind: type, attributes: dict[str, Any], /) -> Sizes:
    """Raise MisfitError unless these are the attributes of a fitted estimator.

    Looks at dtypes and shapes of arrays, not at their values: what only knows these will do.

    Returns
    -------
    dict
        What the symbols of the shapes stand for.
    """
    known = declared(kind)
    missing = [name for name in known if name not in attributes]
    if missing:
        msg = f"which has no {', '.join(missing)} of a fitted {kind.__name__}"
        raise MisfitError(msg)
    unknown = [name for name in attributes if name not in known | SOMETIMES]
    if unknown:
        msg = f"which has {', '.join(map(str, unknown))}, unknown to {kind.__name__}"
        raise MisfitError(msg)
    sizes: Sizes = {}
    for name, what in (known | SOMETIMES).items():
        if name in attributes:
            what.check(name, attributes[name], sizes)
    return sizes


# ---------------------------------------------------------------------- values


def check_values(estimator: Any, /) -> None:
    """Raise MisfitError unless the values of the attributes fit together."""
    for base in type(estimator).__mro__:
        for what, holds in _RULES.get(base, {}).items():
            if not holds(estimator):
                msg = f"whose {type(estimator).__name__} does not have {what}"
                raise MisfitError(msg)


_PREDICTING = (  # arrays from which predictions are made
    *("W_", "B_", "centers_", "parameters_", "coef_", "dual_coef_", "intercept_", "bound_"),
    *("mean_", "scale_", "limits_", "retrain_components_", "_rotation", "_offset", "_stretch"),
)


def _is_finite(e: Any) -> bool:
    arrays = [getattr(e, name, None) for name in _PREDICTING]
    return all(bool(np.isfinite(array).all()) for array in arrays if array is not None)


def _scales(e: Any) -> bool:
    if e.scale_ is None:
        return e.mean_ is None and e.limits_ is None
    return e.mean_ is not None and (e.scale_ > 0).all() and e.limits_ is not None


def _classes(e: Any) -> bool:
    try:
        n_classes = len(set(e.classes_.tolist()))
    except ValueError:  # bytes that are no text
        return False
    columns = 1 if n_classes <= 2 else n_classes
    return n_classes == len(e.classes_) > 0 and e.intercept_.shape[0] == columns


def _together(*names: str) -> Callable[[Any], bool]:
    return lambda e: len({getattr(e, name) is None for name in names}) == 1


def _shapes(e: Any) -> bool:
    shapes = e.shape_functions_
    return bool(shapes.knots.size) and bool(
        np.isfinite(shapes.values).all() and (np.diff(shapes.knots, axis=1) >= 0).all()
    )


def _selected(e: Any) -> bool:
    used = e._used
    inside = bool(np.all((used >= 0) & (used < e.n_features_in_)) and np.all(e.levels_ >= 0))
    return inside and len(np.unique(used)) == len(used) and bool(np.all(e._stretch > 0))


def _entered(e: Any) -> bool:
    return all(k < e.n_features_in_ for one in e.rounds_ for k in one["entered"]) and (
        int(e._support.sum()) == e.n_effective_features_
    )


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


def _degrees(e: Any) -> bool:
    tuples = e.multi_indices_
    return (e.degree_decay_ is None) != (e.max_degree_ is None) and bool(
        np.all((tuples >= 0) & (tuples <= LARGEST_DEGREE))
    )


_RULES: dict[type, dict[str, Callable[[Any], bool]]] = {
    HostPickled: {
        "finite coefficients": _is_finite,
        "means and positive scales of features": _scales,
    },
    ArrayRegressor: {"one target": lambda e: not e._one_target or e.intercept_.shape[0] == 1},
    OneHotClassifier: {"different classes, and a column for each": _classes},
    BKerNNBase: {"shape functions with ascending knots": _shapes},
    SelectionBase: {
        "centres with their coefficients": _together("centers_", "dual_coef_"),
        "indices of variables": _selected,
        "rounds of the selected variables": _entered,
    },
    WeightingBase: {"parameters of its instantiation": _parameters},
    RegFeaLBase: {"degrees of a law": _degrees},
    Retraining: {
        "all of a retrained model": _together(
            "kernel_", "centers_", "dual_coef_", "retrain_components_", "_offset"
        )
    },
}
