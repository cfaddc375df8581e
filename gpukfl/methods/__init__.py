"""Published algorithms, one per file: functions on arrays, with the papers' equation numbers."""

from gpukfl.methods._bkernn import BKerNNFit, fit_bkernn
from gpukfl.methods._ridge import RidgeSystem, paper_ridge
from gpukfl.methods._shapes import ShapeFunctions

__all__ = ["BKerNNFit", "RidgeSystem", "ShapeFunctions", "fit_bkernn", "paper_ridge"]
