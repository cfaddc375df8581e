"""scikit-learn estimators: they validate, place, call a method, and keep what was learned."""

from gpukfl.estimators._bkernn import BKerNNClassifier, BKerNNRegressor
from gpukfl.estimators._brownian_ridge import BrownianKernelRidge
from gpukfl.estimators._hkrr import HKRRClassifier, HKRRRegressor
from gpukfl.estimators._kernel_ridge import KernelRidgeClassifier, KernelRidgeRegressor
from gpukfl.estimators._regfeal import RegFeaLClassifier, RegFeaLRegressor
from gpukfl.estimators._selection import KernelFeatureSelector, KernelFeatureSelectorClassifier
from gpukfl.estimators._weighting import RKHSWeightingClassifier, RKHSWeightingRegressor

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
