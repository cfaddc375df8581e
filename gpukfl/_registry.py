"""The methods of `gpukfl.fit`: a row is all that others know of one."""

from __future__ import annotations

from dataclasses import dataclass

from gpukfl.estimators import (
    BKerNNClassifier,
    BKerNNRegressor,
    HKRRClassifier,
    HKRRRegressor,
    KernelFeatureSelector,
    KernelFeatureSelectorClassifier,
    RegFeaLClassifier,
    RegFeaLRegressor,
    RKHSWeightingClassifier,
    RKHSWeightingRegressor,
)


@dataclass(frozen=True)
class Method:
    """What a method is to those who do not know it.

    Attributes
    ----------
    regression, classification : type
        Estimators.
    size : str or None
        What its parameter n_... counts that the command line sets: the option's name.
    penalised : bool
        Whether it has penalties, and a formula for the ridge beside a choice of it.
    """

    regression: type
    classification: type
    size: str | None = None
    penalised: bool = False

    def of(self, task: str, /) -> type:
        """Give the estimator of a task.

        Raises
        ------
        KeyError
            If it is neither "regression" nor "classification".
        """
        return {"regression": self.regression, "classification": self.classification}[task]


TASKS = ("regression", "classification")
METHODS = {
    "bkernn": Method(BKerNNRegressor, BKerNNClassifier, size="particles", penalised=True),
    "hkrr": Method(HKRRRegressor, HKRRClassifier, size="components"),
    "selection": Method(KernelFeatureSelector, KernelFeatureSelectorClassifier),
    "rkhs_weighting": Method(RKHSWeightingRegressor, RKHSWeightingClassifier, size="parameters"),
    "regfeal": Method(RegFeaLRegressor, RegFeaLClassifier),
}
