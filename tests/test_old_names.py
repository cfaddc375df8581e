"""Old public names work, and warn."""

import importlib

import pytest

OLD = {
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
