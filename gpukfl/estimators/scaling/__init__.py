"""How columns of data are scaled before a method sees them: one class a way."""

from gpukfl.estimators.scaling._base import ColumnScaling
from gpukfl.estimators.scaling._quantile import QuantileScaling
from gpukfl.estimators.scaling._robust import RobustScaling
from gpukfl.estimators.scaling._standard import StandardScaling

SCALINGS: dict[str, type[ColumnScaling]] = {
    "standard": StandardScaling,
    "robust": RobustScaling,
    "quantile": QuantileScaling,
}

__all__ = ["SCALINGS", "ColumnScaling", "QuantileScaling", "RobustScaling", "StandardScaling"]
