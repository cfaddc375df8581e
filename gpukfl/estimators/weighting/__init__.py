"""RKHS weightings: what is fitted, how the instantiation is chosen, and the estimators."""
