"""RKHS weightings: what is fitted, how the instantiation is chosen, and the estimators."""

from gpukfl.estimators.weighting._settings import Descent, Pruning

__all__ = ["Descent", "Pruning"]
