"""BKerNN: what is fitted, how its ridge and penalty are chosen, and the estimators."""
