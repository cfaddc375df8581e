"""scikit-learn estimators: they validate, place, call a method, and keep what was learned.

Names are imported when first used: what predicts without scikit-learn needs parts of this folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpukfl._lazy import imported_when_used

if TYPE_CHECKING:
    from gpukfl.estimators.bkernn._estimators import BKerNNClassifier, BKerNNRegressor
    from gpukfl.estimators.hkrr._estimators import HKRRClassifier, HKRRRegressor
    from gpukfl.estimators.kernel_ridge._brownian import BrownianKernelRidge
    from gpukfl.estimators.kernel_ridge._estimators import (
        KernelRidgeClassifier,
        KernelRidgeRegressor,
    )
    from gpukfl.estimators.regfeal._estimators import RegFeaLClassifier, RegFeaLRegressor
    from gpukfl.estimators.selection._estimators import (
        KernelFeatureSelector,
        KernelFeatureSelectorClassifier,
    )
    from gpukfl.estimators.weighting._estimators import (
        RKHSWeightingClassifier,
        RKHSWeightingRegressor,
    )

_HOMES = {
    "BKerNNClassifier": "bkernn._estimators",
    "BKerNNRegressor": "bkernn._estimators",
    "BrownianKernelRidge": "kernel_ridge._brownian",
    "HKRRClassifier": "hkrr._estimators",
    "HKRRRegressor": "hkrr._estimators",
    "KernelFeatureSelector": "selection._estimators",
    "KernelFeatureSelectorClassifier": "selection._estimators",
    "KernelRidgeClassifier": "kernel_ridge._estimators",
    "KernelRidgeRegressor": "kernel_ridge._estimators",
    "RKHSWeightingClassifier": "weighting._estimators",
    "RKHSWeightingRegressor": "weighting._estimators",
    "RegFeaLClassifier": "regfeal._estimators",
    "RegFeaLRegressor": "regfeal._estimators",
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


__getattr__ = imported_when_used(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
