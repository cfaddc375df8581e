"""How columns of data are scaled before a method sees them: one class a way."""

from gpukfl.estimators.scaling._base import ColumnScaling
from gpukfl.estimators.scaling._chosen import SCALINGS, WORDS, has_heavy_tails, learned_scaling
from gpukfl.estimators.scaling._quantile import QuantileScaling
from gpukfl.estimators.scaling._robust import RobustScaling
from gpukfl.estimators.scaling._standard import StandardScaling

__all__ = [
    "SCALINGS",
    "WORDS",
    "ColumnScaling",
    "QuantileScaling",
    "RobustScaling",
    "StandardScaling",
    "has_heavy_tails",
    "learned_scaling",
]
