"""Kernel feature selection: what is fitted, how γ and λ are chosen, and the estimators."""

from gpukfl.estimators.selection._settings import Path, Permutations, Stability, Weights

__all__ = ["Path", "Permutations", "Stability", "Weights"]
