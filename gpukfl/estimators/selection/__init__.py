"""Kernel feature selection: what is fitted, how γ and λ are chosen, and the estimators."""
