"""BKerNN: what is fitted, how its ridge and penalty are chosen, and the estimators."""

from gpukfl.estimators.bkernn._settings import Knots

__all__ = ["Knots"]
