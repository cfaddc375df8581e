"""Kernel feature learning: exact, near-linear, on NumPy, CuPy and torch.

Names are imported when first used, so that ``import gpukfl`` stays quick and starts no GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpukfl._version import __version__
from gpukfl.core._lazy import lazy_getattr
from gpukfl.core._memory import memory_budget

if TYPE_CHECKING:
    from gpukfl._fit import fit
    from gpukfl._model import Model
    from gpukfl._multilabel import MultiLabelModel, load
    from gpukfl.core._places import Backend
    from gpukfl.estimators import (
        BKerNNClassifier,
        BKerNNRegressor,
        BrownianKernelRidge,
        HKRRClassifier,
        HKRRRegressor,
        KernelFeatureSelector,
        KernelFeatureSelectorClassifier,
        KernelRidgeClassifier,
        KernelRidgeRegressor,
        RegFeaLClassifier,
        RegFeaLRegressor,
        RKHSWeightingClassifier,
        RKHSWeightingRegressor,
    )
    from gpukfl.inspection import feature_score
    from gpukfl.portfolio import AutoClassifier, AutoRegressor

_HOMES = {
    "AutoClassifier": "portfolio",
    "AutoRegressor": "portfolio",
    "Backend": "core._places",
    "Model": "_model",
    "MultiLabelModel": "_multilabel",
    "fit": "_fit",
    "load": "_multilabel",
    "BKerNNClassifier": "estimators",
    "BKerNNRegressor": "estimators",
    "BrownianKernelRidge": "estimators",
    "HKRRClassifier": "estimators",
    "HKRRRegressor": "estimators",
    "KernelFeatureSelector": "estimators",
    "KernelFeatureSelectorClassifier": "estimators",
    "KernelRidgeClassifier": "estimators",
    "KernelRidgeRegressor": "estimators",
    "RKHSWeightingClassifier": "estimators",
    "RKHSWeightingRegressor": "estimators",
    "RegFeaLClassifier": "estimators",
    "RegFeaLRegressor": "estimators",
    "feature_score": "inspection",
}

_MODULES = (
    "datasets",
    "estimators",
    "inference",
    "inspection",
    "instantiations",
    "kernels",
    "knockoffs",
    "losses",
    "methods",
    "operators",
    "partitioned",
    "penalties",
    "portfolio",
    "runtime",
    "solvers",
    "tables",
)

__all__ = [
    "AutoClassifier",
    "AutoRegressor",
    "BKerNNClassifier",
    "BKerNNRegressor",
    "Backend",
    "BrownianKernelRidge",
    "HKRRClassifier",
    "HKRRRegressor",
    "KernelFeatureSelector",
    "KernelFeatureSelectorClassifier",
    "KernelRidgeClassifier",
    "KernelRidgeRegressor",
    "Model",
    "MultiLabelModel",
    "RKHSWeightingClassifier",
    "RKHSWeightingRegressor",
    "RegFeaLClassifier",
    "RegFeaLRegressor",
    "__version__",
    "feature_score",
    "fit",
    "load",
    "memory_budget",
]


__getattr__ = lazy_getattr(__name__, _HOMES, modules=_MODULES)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
