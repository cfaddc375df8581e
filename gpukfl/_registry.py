"""The methods of `gpukfl.fit`, and the data that each function takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from gpukfl.core._checks import suggest
from gpukfl.estimators import (
    BKerNNClassifier,
    BKerNNRegressor,
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
from gpukfl.portfolio import AutoClassifier, AutoRegressor

# --------------------------------------------------------------------------------- methods


@dataclass(frozen=True)
class MethodInfo:
    """The estimators and properties of a method of `gpukfl.fit`.

    Attributes
    ----------
    regression, classification : type
        Estimators.
    size : str or None
        Option of the command line that sets the size of the model, its parameter n_...
    penalised : bool
        Whether it has penalties, and a formula for the ridge.
    single : bool
        Whether it is a single method, with a ridge and a scaling of features.
    """

    regression: type
    classification: type
    size: str | None = None
    penalised: bool = False
    single: bool = True

    def estimator_class(self, task: str, /) -> type:
        """Return the estimator class of a task.

        Raises
        ------
        KeyError
            If the task is neither "regression" nor "classification".
        """
        return {"regression": self.regression, "classification": self.classification}[task]


TASKS = ("regression", "classification")
BESIDE = (
    "sample_weight",
    "groups",
    "time",
    "gap",
    "cv",
)  # arguments of every method
METHODS = {
    "auto": MethodInfo(AutoRegressor, AutoClassifier, single=False),
    "bkernn": MethodInfo(BKerNNRegressor, BKerNNClassifier, size="particles", penalised=True),
    "hkrr": MethodInfo(HKRRRegressor, HKRRClassifier, size="components"),
    "selection": MethodInfo(KernelFeatureSelector, KernelFeatureSelectorClassifier),
    "rkhs_weighting": MethodInfo(
        RKHSWeightingRegressor, RKHSWeightingClassifier, size="parameters"
    ),
    "regfeal": MethodInfo(RegFeaLRegressor, RegFeaLClassifier),
}
_MEMBERS = {"kernel_ridge": MethodInfo(KernelRidgeRegressor, KernelRidgeClassifier)}


def known_methods() -> dict[str, MethodInfo]:
    """Return all methods by name, with kernel ridge regression, a member of blends."""
    return METHODS | _MEMBERS


def check_options(method: str, task: str, names: Iterable[str], /) -> None:
    """Raise TypeError for an unknown option, with the closest one and a list of all.

    Old names pass: the estimators raise errors with the new names.
    """
    kind: Any = METHODS[method].estimator_class(task)
    known = kind._get_param_names()
    for name in names:
        if name in known or kind.has_old_name(name):
            continue
        problem = f"method {method!r} has no option {name!r} for a {task}"
        every = sorted({*known, *BESIDE})
        hint = _owner_text(method, name) or suggest(name, every) or "."
        msg = f"{problem}{hint} Its options are {', '.join(every)}"
        raise TypeError(msg)


def _owner_text(method: str, name: str) -> str:
    """Return in words which task or method has an option; an empty string if none."""
    found: dict[str, list[str]] = {
        other: [one for one in TASKS if name in row.estimator_class(one)._get_param_names()]  # type: ignore
        for other, row in METHODS.items()
    }
    if found[method]:
        return f": it is an option for a {found[method][0]}."
    owners = [repr(other) for other, tasks in found.items() if tasks]
    return f": it is an option of method {' or '.join(owners)}." if owners else ""


# --------------------------------------------------------------------------------- support

# The libraries of data that functions take: a table of the documentation, checked by tests.


class DataHandling(Enum):
    """How data of a library are handled."""

    STAYS = "✓"  # the result has the library and device of the data
    HOST = "NumPy"  # the result is a NumPy array
    REFUSED = "–"  # TypeError or ValueError


STAYS, HOST, REFUSED = DataHandling


@dataclass(frozen=True)
class Support:
    """A public function or class, and the data that it takes.

    Attributes
    ----------
    name : str
        Import path.
    methods : str
        Its methods in question.
    numpy, cupy, torch, dask : DataHandling
        Handling of data of each library.
    """

    name: str
    methods: str = "fit, predict"
    numpy: DataHandling = STAYS
    cupy: DataHandling = STAYS
    torch: DataHandling = STAYS
    dask: DataHandling = STAYS

    def handling(self, library: str, /) -> DataHandling:
        """Return how data of a library are handled."""
        found: DataHandling = getattr(self, library)
        return found


LIBRARIES = tuple(field.name for field in fields(Support) if field.name not in ("name", "methods"))


def _host_only(name: str, methods: str, /) -> Support:
    """Return the row of a function that reads data here and returns NumPy arrays."""
    return Support(name, methods, HOST, HOST, HOST, REFUSED)


SUPPORT = (
    Support("gpukfl.fit"),
    Support("gpukfl.AutoRegressor", "fit, predict, predict_interval, predict_quantiles"),
    Support("gpukfl.AutoClassifier", "fit, predict, predict_proba, predict_set"),
    Support("gpukfl.BKerNNRegressor", "fit, predict, transform"),
    Support("gpukfl.BKerNNClassifier", "fit, predict, predict_proba"),
    Support("gpukfl.HKRRRegressor", "fit, predict, transform"),
    Support("gpukfl.HKRRRegressor", "predict(return_std=True)"),
    Support("gpukfl.HKRRClassifier", "fit, predict, predict_proba"),
    Support("gpukfl.KernelFeatureSelector", "fit, predict, transform"),
    Support("gpukfl.KernelFeatureSelectorClassifier", "fit, predict, predict_proba"),
    Support("gpukfl.KernelFeatureSelector", 'error_control="fdr"', dask=REFUSED),
    Support("gpukfl.RKHSWeightingRegressor", "fit, predict, transform"),
    Support("gpukfl.RKHSWeightingClassifier", "fit, predict, predict_proba"),
    Support("gpukfl.RegFeaLRegressor", "fit, predict, transform"),
    Support("gpukfl.RegFeaLClassifier", "fit, predict, predict_proba"),
    Support("gpukfl.KernelRidgeRegressor"),
    Support("gpukfl.KernelRidgeClassifier", "fit, predict, predict_proba"),
    Support("gpukfl.BrownianKernelRidge"),
    Support("gpukfl.Model", "save and load"),
    _host_only("gpukfl.Model", "score"),
    _host_only("gpukfl.inference.bands", "of a fitted model"),
    _host_only("gpukfl.inference.conditional_importance", "of a fitted model"),
    _host_only("gpukfl.inference.interactions", "of a fitted model"),
    _host_only("gpukfl.inference.subspace", "of a fitted model"),
    _host_only("gpukfl.tables.TableEncoder", "fit, transform"),
)
