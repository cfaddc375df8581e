"""Predictions as pure functions of arrays: made of a fit's arrays, and of nothing else.

Estimators evaluate them by blocks of rows, wherever arrays live; the runtime on NumPy alone; and
the export on arrays that only record what is done with them.
"""

from gpukfl.prediction._blend import Blending, bounded, mixed, tempered
from gpukfl.prediction._classes import Classes, proba
from gpukfl.prediction._finite import check_finite_prediction
from gpukfl.prediction._foreign import (
    ArrayModel,
    ConstantValues,
    LinearValues,
    array_model,
    served_foreign,
    unknown_member,
)
from gpukfl.prediction._forest import Forest
from gpukfl.prediction._function import Constant, Function
from gpukfl.prediction._gaps import medians_of
from gpukfl.prediction._methods import FAR, farthest, function_of
from gpukfl.prediction._served import BLENDS, Blend, Served, served
from gpukfl.prediction._sums import FeatureSum, HermiteSum, KernelSum, ShapeSum, inside
from gpukfl.prediction._transforms import (
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
    "Blending",
    "Classes",
    "Constant",
    "ConstantValues",
    "FeatureSum",
    "Forest",
    "Function",
    "HermiteSum",
    "KernelSum",
    "LinearValues",
    "LogTransform",
    "RankTransform",
    "Served",
    "ShapeSum",
    "TargetTransform",
    "array_model",
    "bounded",
    "check_finite_prediction",
    "farthest",
    "function_of",
    "inside",
    "medians_of",
    "mixed",
    "proba",
    "served",
    "served_foreign",
    "skewness",
    "tempered",
    "unknown_member",
]
