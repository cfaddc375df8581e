"""Blends of several methods: members, shared folds, weights and uncertainty."""

from gpukfl.portfolio._blend import blend_weights, greedy_weights
from gpukfl.portfolio._encodings import Encodings
from gpukfl.portfolio._estimators import AutoClassifier, AutoRegressor
from gpukfl.portfolio._members import Member
from gpukfl.portfolio._sets import ClassScores
from gpukfl.portfolio._uncertainty import Residuals, Spread, Uncertainty

__all__ = [
    "AutoClassifier",
    "AutoRegressor",
    "ClassScores",
    "Encodings",
    "Member",
    "Residuals",
    "Spread",
    "Uncertainty",
    "blend_weights",
    "greedy_weights",
]
