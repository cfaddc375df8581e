"""HKRR: settings, choice of dimension and ridge, and the estimators."""

from gpukfl.estimators.hkrr._settings import Centers, HoldOut

__all__ = ["Centers", "HoldOut"]
