"""Predictions as pure functions of arrays: made of a fit's arrays, and of nothing else.

Estimators evaluate them by blocks of rows, wherever arrays live; the runtime on NumPy alone; and
the export on arrays that only record what is done with them.
"""

from gpukfl.prediction._blend import Blending, bounded, mixed, tempered
from gpukfl.prediction._classes import Classes
from gpukfl.prediction._finite import check_finite_prediction
from gpukfl.prediction._foreign import served_foreign
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
    "Blend",
    "Blending",
    "Classes",
    "Constant",
    "FeatureSum",
    "Function",
    "HermiteSum",
    "KernelSum",
    "LogTransform",
    "RankTransform",
    "Served",
    "ShapeSum",
    "TargetTransform",
    "bounded",
    "check_finite_prediction",
    "farthest",
    "function_of",
    "inside",
    "medians_of",
    "mixed",
    "served",
    "served_foreign",
    "skewness",
    "tempered",
]
