"""Published algorithms, one per file: functions on arrays, with the papers' equation numbers."""

from gpukfl.methods._bkernn import BKerNNFit, fit_bkernn
from gpukfl.methods._centers import SELECTIONS, choose_centers, leverage_scores, rows_at
from gpukfl.methods._hkrr import (
    HKRRFit,
    HyperKernelObjective,
    fit_hkrr,
    gradient_directions,
    resized_map,
)
from gpukfl.methods._kernel_ridge import (
    DenseSystem,
    nystrom_preconditioner,
    solve_by_conjugate_gradients,
)
from gpukfl.methods._nystrom import NystromFactor, NystromSystem, RidgePath, falkon, jitter_for
from gpukfl.methods._ridge import RidgeSystem, paper_ridge
from gpukfl.methods._selection import (
    FeatureSelection,
    Round,
    Selection,
    largest_sparsity,
    permutation_threshold,
)
from gpukfl.methods._selection_objective import (
    DenseSelection,
    FactoredSelection,
    Point,
    SelectionObjective,
)
from gpukfl.methods._shapes import ShapeFunctions

__all__ = [
    "SELECTIONS",
    "BKerNNFit",
    "DenseSelection",
    "DenseSystem",
    "FactoredSelection",
    "FeatureSelection",
    "HKRRFit",
    "HyperKernelObjective",
    "NystromFactor",
    "NystromSystem",
    "Point",
    "RidgePath",
    "RidgeSystem",
    "Round",
    "Selection",
    "SelectionObjective",
    "ShapeFunctions",
    "choose_centers",
    "falkon",
    "fit_bkernn",
    "fit_hkrr",
    "gradient_directions",
    "jitter_for",
    "largest_sparsity",
    "leverage_scores",
    "nystrom_preconditioner",
    "paper_ridge",
    "permutation_threshold",
    "resized_map",
    "rows_at",
    "solve_by_conjugate_gradients",
]
