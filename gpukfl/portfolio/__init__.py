"""Several methods at once: what they predict together, and how sure that is."""

from gpukfl.portfolio._intervals import Residuals, Uncertainty
from gpukfl.portfolio._sets import ClassScores
from gpukfl.portfolio._spread import Spread

__all__ = ["ClassScores", "Residuals", "Spread", "Uncertainty"]
