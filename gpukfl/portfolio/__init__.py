"""Several methods at once: members, shared folds, their blend, and how sure it is."""

from gpukfl.portfolio._blend import greedy_weights
from gpukfl.portfolio._encodings import Encodings
from gpukfl.portfolio._estimators import AutoClassifier, AutoRegressor
from gpukfl.portfolio._intervals import Uncertainty
from gpukfl.portfolio._members import Member
from gpukfl.portfolio._residuals import Residuals
from gpukfl.portfolio._sets import ClassScores
from gpukfl.portfolio._spread import Spread

__all__ = [
    "AutoClassifier",
    "AutoRegressor",
    "ClassScores",
    "Encodings",
    "Member",
    "Residuals",
    "Spread",
    "Uncertainty",
    "greedy_weights",
]
