"""Old public names work, and warn."""

import importlib

import pytest

OLD = {
    "gpukfl.inspection": {"described": "get_description"},
    "gpukfl.knockoffs": {
        "joined": "combine_weights",
        "found_at": "select_by_e_values",
        "level_of": "selection_level",
        "fewest_found": "min_discoveries",
    },
    "gpukfl.methods": {
        "jitter_for": "choose_jitter",
        "mixtures_of": "mix_targets",
        "weight_of": "total_weight",
        "cross_validated": "cross_validate",
        "cross_validated_near": "cross_validate_locally",
        "lengthscale_left_out": "leave_one_out_lengthscale",
        "left_out_path": "leave_one_out_path",
    },
    "gpukfl.operators": {
        "mapped": "apply_map",
        "mapped_back": "map_row_gradient",
        "unmapped": "map_gradient",
    },
    "gpukfl.partitioned": {
        "partition_named": "name_partition_in_errors",
        "in_parts": "read_partitions",
        "computed": "compute_values",
    },
    "gpukfl.runtime": {"Predictor": "RuntimeModel"},
}


@pytest.mark.parametrize("package", OLD)
def test_old_names_work_and_name_the_new_ones(package):
    module = importlib.import_module(package)
    for old, new in OLD[package].items():
        with pytest.warns(DeprecationWarning, match=f"{old} is now called {new}"):
            assert getattr(module, old) is getattr(module, new)


@pytest.mark.parametrize("package", OLD)
def test_unknown_names_are_refused(package):
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        importlib.import_module(package).nothing  # noqa: B018


MEMBERS = [
    ("gpukfl.estimators.hkrr._settings", "Centers", "wanted", "n_while_learning"),
    ("gpukfl.estimators.selection._settings", "Knockoffs", "drawn_by", "sampler_object"),
    ("gpukfl._model", "Model", "of", "from_estimator"),
    ("gpukfl.core._places", "Backend", "of", "parse"),
    ("gpukfl.linalg._bins", "Positions", "of", "from_projections"),
    ("gpukfl.linalg._bins", "Positions", "joined", "concat"),
    ("gpukfl.linalg._difference_sums", "SortedColumns", "of", "sort"),
    ("gpukfl.linalg._difference_sums", "SortedColumns", "at", "take"),
    ("gpukfl.linalg._factor", "CholeskyFactor", "of", "factor"),
    ("gpukfl.methods._agop", "MappedProblem", "at", "fit"),
    ("gpukfl.methods._bkernn", "ShapeFunctions", "thinned", "simplify"),
    ("gpukfl.methods._conformal", "Jackknife", "of", "from_kernel"),
    ("gpukfl.methods._evidence_bound", "BoundPosterior", "of", "from_system"),
    ("gpukfl.methods._evidence_bound", "BoundCriterion", "evaluated", "evaluate"),
    ("gpukfl.methods._hkrr", "HyperKernelObjective", "reduced", "reduce"),
    ("gpukfl.methods._kernel_ridge", "DenseSystem", "of", "from_kernel"),
    ("gpukfl.methods._kernel_ridge", "DenseSystem", "coefficients_and", "solve_and_measure"),
    ("gpukfl.methods._multi_indices", "DegreeLaw", "described", "text"),
    ("gpukfl.methods._nystrom", "NystromFactor", "of", "from_kernel"),
    ("gpukfl.methods._nystrom", "NystromSystem", "of", "from_rows"),
    ("gpukfl.methods._nystrom", "NystromSystem", "whitened", "whiten"),
    ("gpukfl.methods._regfeal", "RegFeaLFit", "of_features", "to_feature_coordinates"),
    ("gpukfl.methods._ridge_path", "RidgePath", "at_edge", "is_at_edge"),
    ("gpukfl.methods._selection_objective", "SelectionObjective", "of", "with_data"),
    ("gpukfl.methods._selection_objective", "SelectionObjective", "scaled", "stretch"),
    ("gpukfl.methods._selection_objective", "SelectionObjective", "at", "evaluate"),
    ("gpukfl.methods._weighting", "Sums", "of", "from_arrays"),
    ("gpukfl.methods._weighting", "FoldSums", "scored", "scoring_rows"),
    ("gpukfl.methods._weighting", "LassoFits", "interrupted", "is_interrupted"),
    ("gpukfl.operators._binned", "BinnedBrownianKernel", "of", "build"),
    ("gpukfl.operators._brownian", "BrownianKernel", "of", "build"),
    ("gpukfl.operators._coarse", "CoarseGrid", "of", "build"),
    ("gpukfl.operators._coarse", "CoarseGrid", "among", "coarsen"),
    ("gpukfl.operators._features", "FeatureOperator", "at", "evaluate"),
    ("gpukfl.operators._hermite", "HermiteOperator", "at", "evaluate"),
    ("gpukfl.operators._kernel", "KernelOperator", "at_rows", "evaluate_rows"),
    ("gpukfl.operators._kernel", "KernelOperator", "on", "with_rows"),
    ("gpukfl.operators._kernel", "KernelMatrix", "between", "cross_operator"),
    ("gpukfl.partitioned._array", "PartitionedArray", "of_parts", "derive"),
    ("gpukfl.partitioned._collections", "Collections", "of", "from_inputs"),
    ("gpukfl.portfolio._sets", "ClassScores", "of", "from_probabilities"),
    ("gpukfl.portfolio._uncertainty", "Residuals", "of", "standardize"),
    ("gpukfl.portfolio._uncertainty", "Spread", "of", "fit"),
    ("gpukfl.portfolio._uncertainty", "Uncertainty", "of", "fit"),
    ("gpukfl.solvers._nystrom", "NystromPreconditioner", "of", "from_operator"),
    ("gpukfl.tables._column", "Column", "used", "is_used"),
    ("gpukfl.tables._table", "Table", "of", "learn"),
    ("gpukfl.tables._table", "Table", "described", "describe"),
]


@pytest.mark.parametrize(("module", "name", "old", "new"), MEMBERS)
def test_old_members_work_and_name_the_new_ones(module, name, old, new):
    kind = getattr(importlib.import_module(module), name)
    with pytest.warns(DeprecationWarning, match=f"{name}.{old} is now called {new}"):
        assert getattr(kind, old) == getattr(kind, new)
