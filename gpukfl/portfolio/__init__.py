"""Several methods at once: members, shared folds, out-of-fold predictions, and their blend."""

from gpukfl.portfolio._blend import greedy_weights
from gpukfl.portfolio._estimators import AutoClassifier, AutoRegressor
from gpukfl.portfolio._members import Member

__all__ = ["AutoClassifier", "AutoRegressor", "Member", "greedy_weights"]
