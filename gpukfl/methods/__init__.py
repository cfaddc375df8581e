"""Published algorithms, one per file: functions on arrays, with the papers' equation numbers."""

from gpukfl.methods._agop import (
    STRUCTURES,
    AverageGradientOuterProduct,
    GradientFit,
    MappedProblem,
    MappedRidge,
    fit_gradient_maps,
)
from gpukfl.methods._average_gradients import (
    average_gradient_outer_product,
    principal_gradients,
    right_singular_vectors,
)
from gpukfl.methods._bkernn import BKerNNFit, fit_bkernn
from gpukfl.methods._centers import SELECTIONS, choose_centers, leverage_scores
from gpukfl.methods._conformal import (
    can_cover,
    check_share,
    conformal_weight,
    unit_weights,
    weighted_quantile,
)
from gpukfl.methods._evidence import CRITERIA, ExactCriterion, Posterior, variances
from gpukfl.methods._evidence_bound import BoundCriterion, BoundPosterior
from gpukfl.methods._evidence_fit import MetricFit, MetricPrior, fit_metric
from gpukfl.methods._feature_sums import (
    FoldSums,
    LassoFits,
    Sums,
    Validated,
    cross_validated,
    cross_validated_near,
    fold_sums,
    least_squares,
    scored_rows,
)
from gpukfl.methods._functional_gradient import DescentFit, FunctionalDescent
from gpukfl.methods._guarantees import (
    gaussian_complexity,
    guaranteed_ridge,
    guaranteed_strength,
    sufficient_centers,
)
from gpukfl.methods._hkrr import (
    HKRRFit,
    HyperKernelObjective,
    fit_hkrr,
    resized_map,
)
from gpukfl.methods._jackknife import Jackknife
from gpukfl.methods._joint_contest import competing_fits
from gpukfl.methods._kernel_ridge import (
    DenseSystem,
    nystrom_preconditioner,
    solve_by_conjugate_gradients,
)
from gpukfl.methods._kernel_ridge_fit import RIDGES, SOLVERS, KernelRidge, KernelRidgeFit
from gpukfl.methods._left_out import FOLDS_BELOW, N_FOLDS, folds, left_out_path
from gpukfl.methods._lengthscale import STRETCHES, lengthscale_left_out, lowest_nearby
from gpukfl.methods._linear_contest import linear_weights
from gpukfl.methods._losses import LOSSES, Hinge, Logistic, Loss, Squared
from gpukfl.methods._mixtures import mixtures_of
from gpukfl.methods._multi_indices import (
    LARGEST_DEGREE,
    DegreeLaw,
    DerivativePenalty,
    MultiIndices,
    draw_tuples,
    equal_eta,
)
from gpukfl.methods._nystrom import (
    NystromFactor,
    NystromSystem,
    falkon,
    jitter_for,
    weight_of,
)
from gpukfl.methods._nystrom_intercept import solve_with_intercept
from gpukfl.methods._partial_dependence import ProductExpansion, ProductTerm, product_terms
from gpukfl.methods._pruning import RULES as PRUNING_RULES
from gpukfl.methods._pruning import Candidate, last_accepted
from gpukfl.methods._pruning import candidates as pruning_candidates
from gpukfl.methods._regfeal import (
    FirstTurn,
    RegFeaL,
    RegFeaLFit,
    derivative_products,
    derivative_weights,
    optimal_eta,
)
from gpukfl.methods._regfeal import shares as eta_shares
from gpukfl.methods._reweighting import Reweighting
from gpukfl.methods._ridge import RidgeSystem, paper_ridge
from gpukfl.methods._ridge_path import Fold, RidgePath, best_path
from gpukfl.methods._selection import (
    FeatureSelection,
    Round,
    Selection,
    largest_sparsity,
    permutation_threshold,
)
from gpukfl.methods._selection_contest import competing_weights
from gpukfl.methods._selection_forms import DenseSelection, FactoredSelection
from gpukfl.methods._selection_objective import (
    Point,
    SelectionObjective,
)
from gpukfl.methods._shapes import ShapeFunctions
from gpukfl.methods._signal_sizes import (
    additive_effect_sizes,
    detectable_size,
    hierarchical_effect_sizes,
    main_effect_size,
)
from gpukfl.methods._weighting_bounds import (
    convergence_gap,
    convergence_ridge,
    degradation,
    degradation_on_sample,
    doubling,
    generalization_gap,
    pruning_penalty,
)

__all__ = [
    "CRITERIA",
    "FOLDS_BELOW",
    "LARGEST_DEGREE",
    "LOSSES",
    "N_FOLDS",
    "PRUNING_RULES",
    "RIDGES",
    "SELECTIONS",
    "SOLVERS",
    "STRETCHES",
    "STRUCTURES",
    "AverageGradientOuterProduct",
    "BKerNNFit",
    "BoundCriterion",
    "BoundPosterior",
    "Candidate",
    "DegreeLaw",
    "DenseSelection",
    "DenseSystem",
    "DerivativePenalty",
    "DescentFit",
    "ExactCriterion",
    "FactoredSelection",
    "FeatureSelection",
    "FirstTurn",
    "Fold",
    "FoldSums",
    "FunctionalDescent",
    "GradientFit",
    "HKRRFit",
    "Hinge",
    "HyperKernelObjective",
    "Jackknife",
    "KernelRidge",
    "KernelRidgeFit",
    "LassoFits",
    "Logistic",
    "Loss",
    "MappedProblem",
    "MappedRidge",
    "MetricFit",
    "MetricPrior",
    "MultiIndices",
    "NystromFactor",
    "NystromSystem",
    "Point",
    "Posterior",
    "ProductExpansion",
    "ProductTerm",
    "RegFeaL",
    "RegFeaLFit",
    "Reweighting",
    "RidgePath",
    "RidgeSystem",
    "Round",
    "Selection",
    "SelectionObjective",
    "ShapeFunctions",
    "Squared",
    "Sums",
    "Validated",
    "additive_effect_sizes",
    "average_gradient_outer_product",
    "best_path",
    "can_cover",
    "check_share",
    "choose_centers",
    "competing_fits",
    "competing_weights",
    "conformal_weight",
    "convergence_gap",
    "convergence_ridge",
    "cross_validated",
    "cross_validated_near",
    "degradation",
    "degradation_on_sample",
    "derivative_products",
    "derivative_weights",
    "detectable_size",
    "doubling",
    "draw_tuples",
    "equal_eta",
    "eta_shares",
    "falkon",
    "fit_bkernn",
    "fit_gradient_maps",
    "fit_hkrr",
    "fit_metric",
    "fold_sums",
    "folds",
    "gaussian_complexity",
    "generalization_gap",
    "guaranteed_ridge",
    "guaranteed_strength",
    "hierarchical_effect_sizes",
    "jitter_for",
    "largest_sparsity",
    "last_accepted",
    "least_squares",
    "left_out_path",
    "lengthscale_left_out",
    "leverage_scores",
    "linear_weights",
    "lowest_nearby",
    "main_effect_size",
    "mixtures_of",
    "nystrom_preconditioner",
    "optimal_eta",
    "paper_ridge",
    "permutation_threshold",
    "principal_gradients",
    "product_terms",
    "pruning_candidates",
    "pruning_penalty",
    "resized_map",
    "right_singular_vectors",
    "scored_rows",
    "solve_by_conjugate_gradients",
    "solve_with_intercept",
    "sufficient_centers",
    "unit_weights",
    "variances",
    "weight_of",
    "weighted_quantile",
]
