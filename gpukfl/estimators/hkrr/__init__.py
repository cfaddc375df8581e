"""HKRR: what is fitted, how dimension and ridge are chosen, and the estimators."""

from gpukfl.estimators.hkrr._problem import Centers

__all__ = ["Centers"]
