"""What takes data of which library: the table of the documentation, which tests hold true."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum


class Taken(Enum):
    """What becomes of data of a library."""

    STAYS = "✓"  # computed where the data are, and the result is of their library
    HOST = "NumPy"  # taken, and the result lies on the host
    REFUSED = "–"  # a TypeError or ValueError that says so


STAYS, HOST, REFUSED = Taken


@dataclass(frozen=True)
class Support:
    """A public function or class, and the data that it takes.

    Attributes
    ----------
    name : str
        Where it is imported from.
    doing : str
        What of it.
    numpy, cupy, torch, dask : Taken
        What becomes of data of each library.
    """

    name: str
    doing: str = "fit, predict"
    numpy: Taken = STAYS
    cupy: Taken = STAYS
    torch: Taken = STAYS
    dask: Taken = STAYS

    def of(self, library: str, /) -> Taken:
        """Give what becomes of data of a library."""
        found: Taken = getattr(self, library)
        return found


LIBRARIES = tuple(field.name for field in fields(Support) if field.name not in ("name", "doing"))


def _in_memory(name: str, doing: str, /) -> Support:
    """Give a row of what reads data here, and gives numbers of the host."""
    return Support(name, doing, HOST, HOST, HOST, REFUSED)


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
    _in_memory("gpukfl.Model", "score"),
    _in_memory("gpukfl.inference.bands", "of a fitted model"),
    _in_memory("gpukfl.inference.conditional_importance", "of a fitted model"),
    _in_memory("gpukfl.inference.interactions", "of a fitted model"),
    _in_memory("gpukfl.inference.subspace", "of a fitted model"),
    _in_memory("gpukfl.tables.TableEncoder", "fit, transform"),
)
