"""How columns of data are scaled before a method sees them: one class a way."""

from gpukfl.estimators.scaling._base import ColumnScaling
from gpukfl.estimators.scaling._standard import StandardScaling

SCALINGS: dict[str, type[ColumnScaling]] = {"standard": StandardScaling}

__all__ = ["SCALINGS", "ColumnScaling", "StandardScaling"]
