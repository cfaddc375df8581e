"""HKRR: what is fitted, how dimension and ridge are chosen, and the estimators."""
