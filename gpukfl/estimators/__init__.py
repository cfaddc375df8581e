"""scikit-learn estimators: they validate, place, call a method, and keep what was learned."""

from gpukfl.estimators.bkernn._estimators import BKerNNClassifier, BKerNNRegressor
from gpukfl.estimators.hkrr._estimators import HKRRClassifier, HKRRRegressor
from gpukfl.estimators.kernel_ridge._brownian import BrownianKernelRidge
from gpukfl.estimators.kernel_ridge._estimators import KernelRidgeClassifier, KernelRidgeRegressor
from gpukfl.estimators.regfeal._estimators import RegFeaLClassifier, RegFeaLRegressor
from gpukfl.estimators.selection._estimators import (
    KernelFeatureSelector,
    KernelFeatureSelectorClassifier,
)
from gpukfl.estimators.weighting._estimators import RKHSWeightingClassifier, RKHSWeightingRegressor

__all__ = [
    "BKerNNClassifier",
    "BKerNNRegressor",
    "BrownianKernelRidge",
    "HKRRClassifier",
    "HKRRRegressor",
    "KernelFeatureSelector",
    "KernelFeatureSelectorClassifier",
    "KernelRidgeClassifier",
    "KernelRidgeRegressor",
    "RKHSWeightingClassifier",
    "RKHSWeightingRegressor",
    "RegFeaLClassifier",
    "RegFeaLRegressor",
]
