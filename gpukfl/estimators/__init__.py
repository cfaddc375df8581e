"""scikit-learn estimators, which validate data, call a method, and keep the result.

Names are imported when first used, as predictions without scikit-learn use parts of this folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpukfl.core._lazy import lazy_getattr

if TYPE_CHECKING:
    from gpukfl.estimators.bkernn._estimator import BKerNNClassifier, BKerNNRegressor
    from gpukfl.estimators.hkrr._estimator import HKRRClassifier, HKRRRegressor
    from gpukfl.estimators.kernel_ridge._estimator import (
        BrownianKernelRidge,
        KernelRidgeClassifier,
        KernelRidgeRegressor,
    )
    from gpukfl.estimators.regfeal._estimator import RegFeaLClassifier, RegFeaLRegressor
    from gpukfl.estimators.selection._estimator import (
        KernelFeatureSelector,
        KernelFeatureSelectorClassifier,
    )
    from gpukfl.estimators.weighting._estimator import (
        RKHSWeightingClassifier,
        RKHSWeightingRegressor,
    )

_HOMES = {
    "BKerNNClassifier": "bkernn._estimator",
    "BKerNNRegressor": "bkernn._estimator",
    "BrownianKernelRidge": "kernel_ridge._estimator",
    "HKRRClassifier": "hkrr._estimator",
    "HKRRRegressor": "hkrr._estimator",
    "KernelFeatureSelector": "selection._estimator",
    "KernelFeatureSelectorClassifier": "selection._estimator",
    "KernelRidgeClassifier": "kernel_ridge._estimator",
    "KernelRidgeRegressor": "kernel_ridge._estimator",
    "RKHSWeightingClassifier": "weighting._estimator",
    "RKHSWeightingRegressor": "weighting._estimator",
    "RegFeaLClassifier": "regfeal._estimator",
    "RegFeaLRegressor": "regfeal._estimator",
}

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


__getattr__ = lazy_getattr(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
