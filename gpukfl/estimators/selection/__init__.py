"""Kernel feature selection: what is fitted, how γ and λ are chosen, and the estimators."""

from gpukfl.estimators.selection._settings import (
    Knockoffs,
    Path,
    Permutations,
    Stability,
    Weights,
)

__all__ = ["Knockoffs", "Path", "Permutations", "Stability", "Weights"]
