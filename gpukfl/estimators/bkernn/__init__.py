"""BKerNN: settings, choice of ridge and penalty, and the estimators."""

from gpukfl.estimators.bkernn._settings import Knots

__all__ = ["Knots"]
