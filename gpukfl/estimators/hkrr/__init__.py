"""HKRR: what is fitted, how dimension and ridge are chosen, and the estimators."""

from gpukfl.estimators.hkrr._settings import Centers, HoldOut

__all__ = ["Centers", "HoldOut"]
