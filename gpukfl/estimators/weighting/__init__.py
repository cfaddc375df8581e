"""RKHS weightings: settings, choice of the instantiation, and the estimators."""

from gpukfl.estimators.weighting._settings import Descent, Pruning

__all__ = ["Descent", "Pruning"]
