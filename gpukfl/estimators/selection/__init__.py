"""Kernel feature selection: settings, choice of γ and λ, and the estimators."""

from gpukfl.estimators.selection._settings import (
    Knockoffs,
    Path,
    Permutations,
    Stability,
    Weights,
)

__all__ = ["Knockoffs", "Path", "Permutations", "Stability", "Weights"]
