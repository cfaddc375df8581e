"""Model files that earlier versions wrote, by both readers."""

import json
import pathlib

import numpy as np
import pytest
from model_files import TABLE, X, opened

import gpukfl
import gpukfl.runtime
from gpukfl.core._archive import write_archive

FOLDER = pathlib.Path(__file__).parent / "older_files"
EXPECTED = np.load(FOLDER / "expected.npz")
NAMES = sorted(path.stem for path in FOLDER.glob("*.gpukfl"))
LOADS = [gpukfl.load, gpukfl.runtime.load]


def data_of(name):
    return TABLE if name.startswith("auto") or name.endswith("table") else X


def assert_predicts(model, name):
    expected = EXPECTED[name]
    if expected.dtype.kind == "f":
        scale = expected.std(axis=0).max() or 1.0
        tolerance = 1e-5 if expected.dtype == np.float32 else 1e-9
        found = model.predict(data_of(name))
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)
    else:
        np.testing.assert_array_equal(model.predict(data_of(name)), expected)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_version_12_predicts_as_it_did(name, load):
    assert_predicts(load(FOLDER / f"{name}.gpukfl"), name)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_written_anew(name, tmp_path):
    model = gpukfl.load(FOLDER / f"{name}.gpukfl")
    assert model.summary()
    model.save(tmp_path / "model")
    header, _ = opened(tmp_path / "model")
    assert header["version"] == 13
    assert_predicts(gpukfl.load(tmp_path / "model"), name)


def changed(path, change, tmp_path):
    header, arrays = opened(path)
    change(header, arrays)
    with (tmp_path / "model").open("w+b") as file:
        write_archive(file, json.dumps(header).encode(), arrays)
    return tmp_path / "model"


@pytest.mark.parametrize("version", [10, 11])
def test_versions_before_it_are_read(version, tmp_path):
    path = FOLDER / "hkrr__one_target.gpukfl"
    again = changed(path, lambda header, _: header.update(version=version), tmp_path)
    assert_predicts(gpukfl.load(again), "hkrr__one_target")


def test_what_is_now_computed_is_left(tmp_path):
    def add(header, arrays):
        header["fitted"]["smallest_eigenvalue_"] = 0.5

    estimator = gpukfl.load(changed(FOLDER / "hkrr__one_target.gpukfl", add, tmp_path)).estimator
    assert "smallest_eigenvalue_" not in vars(estimator)
    assert estimator.smallest_eigenvalue_ != 0.5


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_lacks_a_part_is_refused(name, load, tmp_path):
    for part in ("intercept_", "dual_coef_", "n_features_in_", "members_", "W_", "kernel_"):
        path = FOLDER / f"{name}.gpukfl"
        if part in opened(path)[0]["fitted"]:
            again = changed(path, lambda header, _, part=part: header["fitted"].pop(part), tmp_path)
            if load is gpukfl.runtime.load and (name, part) in NOT_NEEDED:
                load(again)
                continue
            with pytest.raises(ValueError, match="expected a gpukfl model file"):
                load(again)


NOT_NEEDED = {  # to predict alone
    (name, part)
    for name in NAMES
    for part in ("intercept_", "dual_coef_")
    if (name.startswith("bkernn") and part == "dual_coef_")
    or (name.startswith("auto") and part == "intercept_")
}


@pytest.mark.parametrize("name", NAMES)
def test_arrays_that_change_places_are_refused(name, tmp_path):
    def move(header, arrays):
        arrays["moved"] = arrays.pop(next(iter(arrays)))

    with pytest.raises(ValueError, match="expected a gpukfl model file"):
        gpukfl.load(changed(FOLDER / f"{name}.gpukfl", move, tmp_path))
