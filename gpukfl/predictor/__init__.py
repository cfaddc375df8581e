"""A fitted model as one frozen value of arrays, `Predictor`, and what evaluates it.

Estimators evaluate it by blocks of rows, wherever arrays live; the runtime on NumPy, with compiled
code where there is any; and the export on arrays that only record what is done with them. Models of
a blend that are of one sort are evaluated together, as stacks.
"""

from gpukfl.predictor._blend import BLENDS, Blend, BlendedModels, make_predictor
from gpukfl.predictor._blending import (
    Blending,
    apply_temperature,
    clip_predictions,
    floor_probabilities,
)
from gpukfl.predictor._classes import Classes, proba
from gpukfl.predictor._finite import check_finite_prediction
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
from gpukfl.predictor._function import Constant, Function
from gpukfl.predictor._gaps import weighted_medians
from gpukfl.predictor._methods import FAR, farthest, make_function
from gpukfl.predictor._predictor import Foreign, Predictor
from gpukfl.predictor._seen_rows import SeenRows
from gpukfl.predictor._sums import FeatureSum, HermiteSum, KernelSum, ShapeSum, inside
from gpukfl.predictor._transforms import (
    LogTransform,
    RankTransform,
    TargetTransform,
    skewness,
)

__all__ = [
    "BLENDS",
    "FAR",
    "ArrayModel",
    "Blend",
    "BlendedModels",
    "Blending",
    "Classes",
    "Constant",
    "ConstantValues",
    "FeatureSum",
    "Foreign",
    "Forest",
    "Function",
    "HermiteSum",
    "KernelSum",
    "LinearValues",
    "LogTransform",
    "Predictor",
    "RankTransform",
    "SeenRows",
    "ShapeSum",
    "TargetTransform",
    "apply_temperature",
    "array_model",
    "check_finite_prediction",
    "clip_predictions",
    "farthest",
    "few_threads",
    "floor_probabilities",
    "inside",
    "make_function",
    "make_predictor",
    "member_predictor",
    "proba",
    "skewness",
    "unknown_member",
    "weighted_medians",
]
