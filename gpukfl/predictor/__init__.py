"""Fitted models as frozen dataclasses of arrays: `Predictor` and its parts.

Estimators evaluate a predictor by blocks of rows, on any array library. The runtime uses NumPy and,
if installed, compiled code. ONNX export passes arrays that record operations. A blend evaluates
models of one kind together, as a stack.
"""

from gpukfl.predictor._blend import Blend, BlendedModels
from gpukfl.predictor._blending import (
    Blending,
    apply_temperature,
    clip_predictions,
    floor_probabilities,
    pool_probabilities,
)
from gpukfl.predictor._classes import Calibrated, Classes, proba
from gpukfl.predictor._foreign import (
    ArrayModel,
    ConstantValues,
    LinearValues,
    array_model,
    few_threads,
    member_predictor,
    unknown_member,
)
from gpukfl.predictor._forest import Forest
from gpukfl.predictor._function import Constant, Function, LogLink, Scaling
from gpukfl.predictor._gaps import weighted_medians
from gpukfl.predictor._monotone import MOST_COLUMNS, AtKnots, Monotone
from gpukfl.predictor._predictor import (
    Foreign,
    Predictor,
    ValueFunction,
    check_finite_prediction,
)
from gpukfl.predictor._seen_rows import SeenRows
from gpukfl.predictor._sums import FeatureSum, HermiteSum, KernelSum, ShapeSum, inside
from gpukfl.predictor._transforms import (
    LogTransform,
    RankTransform,
    TargetTransform,
    skewness,
)
from gpukfl.predictor._views import Encoder

__all__ = [
    "MOST_COLUMNS",
    "ArrayModel",
    "AtKnots",
    "Blend",
    "BlendedModels",
    "Blending",
    "Calibrated",
    "Classes",
    "Constant",
    "ConstantValues",
    "Encoder",
    "FeatureSum",
    "Foreign",
    "Forest",
    "Function",
    "HermiteSum",
    "KernelSum",
    "LinearValues",
    "LogLink",
    "LogTransform",
    "Monotone",
    "Predictor",
    "RankTransform",
    "Scaling",
    "SeenRows",
    "ShapeSum",
    "TargetTransform",
    "ValueFunction",
    "apply_temperature",
    "array_model",
    "check_finite_prediction",
    "clip_predictions",
    "few_threads",
    "floor_probabilities",
    "inside",
    "member_predictor",
    "pool_probabilities",
    "proba",
    "skewness",
    "unknown_member",
    "weighted_medians",
]
