"""Model files: the same predictions, nothing that executes, and clear words for bad files."""

import json
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from brief import bkernn
from model_files import assert_as_before, opened

import gpukfl
from gpukfl.core._archive import VERSION, write_archive

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge is at the edge:UserWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge of the last fit:UserWarning"),
]

RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (60, 3))
Y = np.abs(X[:, 0]) + 0.1 * X[:, 1]
FRAME = pd.DataFrame(X, columns=["größe", "b", "c d"])


def fit(data, y, **options):
    few = {"n_particles": 8, "max_iter": 3, "ridge": 0.01}
    return gpukfl.fit(data, y, method="bkernn", **bkernn(**{**few, **options}))


def test_the_name_is_kept_as_given(tmp_path):
    fit(X, Y).save(str(tmp_path / "model"))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_loaded_model_can_be_fitted_drawn_and_saved_again(tmp_path):
    model = fit(FRAME, Y)
    model.save(tmp_path / "a")
    loaded = gpukfl.load(tmp_path / "a")
    loaded.save(tmp_path / "b")
    assert_as_before(loaded.predict(FRAME), model.predict(FRAME))
    again = gpukfl.load(tmp_path / "b").predict(FRAME)
    np.testing.assert_array_equal(again, loaded.predict(FRAME))
    loaded.plot()
    pickle.loads(pickle.dumps(loaded))
    np.testing.assert_array_equal(loaded.estimator.fit(FRAME, Y).W_, loaded.estimator.W_)


def test_names_are_still_checked_after_loading(tmp_path):
    model = fit(FRAME, Y)
    model.save(tmp_path / "model")
    loaded = gpukfl.load(tmp_path / "model")
    turned = loaded.predict(FRAME[["b", "größe", "c d"]])
    np.testing.assert_array_equal(turned, loaded.predict(FRAME))
    with pytest.raises(ValueError, match="expected columns größe, which are not in X"):
        loaded.predict(FRAME[["b", "c d"]])


def test_a_model_of_another_library_loads_for_numpy(on_double, tmp_path):
    here = on_double.put(X)
    model = fit(here, on_double.put(Y))
    model.save(tmp_path / "model")
    predicted = gpukfl.load(tmp_path / "model").predict(X)
    assert type(predicted) is np.ndarray
    assert_as_before(predicted, on_double.host(model.predict(here)))


LOAD_ALONE = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("cupy", "torch", "cupyx"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocked())
import numpy as np
import gpukfl

X = np.load(sys.argv[2])
np.testing.assert_allclose(gpukfl.load(sys.argv[1]).predict(X), np.load(sys.argv[3]), atol=1e-6)
assert "torch" not in sys.modules and "cupy" not in sys.modules
print("loaded")
"""


def test_it_loads_where_there_is_no_gpu_library(tmp_path, torch):
    model = fit(torch.asarray(X), torch.asarray(Y))
    model.save(tmp_path / "model")
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "expected.npy", model.predict(torch.asarray(X)).numpy())
    files = [str(tmp_path / name) for name in ("model", "X.npy", "expected.npy")]
    done = subprocess.run(
        [sys.executable, "-c", LOAD_ALONE, *files], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "loaded"


# ---------------------------------------------------------------------- bad files


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model"
    fit(X, Y).save(path)
    return path


def rewritten(path, change):
    """Write the file again with a changed header, and its right checksum."""
    header, arrays = opened(path)
    change(header, arrays)
    with path.open("w+b") as file:
        write_archive(file, json.dumps(header).encode(), arrays)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_named(saved, share):
    data = saved.read_bytes()
    saved.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ValueError, match=r"expected a gpukfl model file, got .*model.*truncated"):
        gpukfl.load(saved)


@pytest.mark.parametrize("share", np.linspace(0.02, 0.6, 12))
def test_a_damaged_file_is_named(saved, share):
    data = bytearray(saved.read_bytes())
    start = int(share * len(data))
    data[start : start + 40] = bytes(255 - byte for byte in data[start : start + 40])
    saved.write_bytes(data)
    with pytest.raises(ValueError, match="expected a gpukfl model file"):
        gpukfl.load(saved)


def write_npz(path):
    np.savez(path.open("wb"), X=X)


def write_npy(path):
    np.save(path.open("wb"), X)


def write_pickle(path):
    path.write_bytes(pickle.dumps({"format": "gpukfl-model"}))


def write_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello.txt", "hello")


def write_other_header(path):
    np.savez(path.open("wb"), header=np.array(json.dumps({"format": "other", "version": 1})))


def write_numeric_header(path):
    np.savez(path.open("wb"), header=np.arange(3))


def write_objects(path):
    np.savez(path.open("wb"), header=np.array([{"format": "gpukfl-model"}], dtype=object))


@pytest.mark.parametrize(
    "write",
    [
        write_npz,
        write_npy,
        write_pickle,
        write_zip,
        write_other_header,
        write_numeric_header,
        write_objects,
        lambda path: path.write_text("a,b\n1,2\n"),
        lambda path: path.write_text('{"format": "gpukfl-model"}'),
    ],
    ids=["npz", "npy", "pickle", "zip", "other", "numeric", "objects", "text", "json"],
)
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_a_foreign_file_is_named(write, tmp_path):
    write(tmp_path / "model")
    with pytest.raises(ValueError, match=r"expected a gpukfl model file, got .*model"):
        gpukfl.load(tmp_path / "model")


def test_a_newer_version_is_named(saved):
    rewritten(saved, lambda header, _: header.update(version=VERSION + 1, new=1))
    later = f"version {VERSION + 1}: expected version {VERSION}; upgrade"
    with pytest.raises(ValueError, match=later):
        gpukfl.load(saved)


PARTS = ["parameters", "predictor", "reading", "record", "model"]
HEADER = ["format", "version", "gpukfl", *PARTS]


@pytest.mark.parametrize("key", [key for key in HEADER if key != "gpukfl"])
def test_a_header_with_a_missing_key_is_named(saved, key):
    rewritten(saved, lambda header, _: header.pop(key))
    with pytest.raises(ValueError, match="expected a gpukfl model file"):
        gpukfl.load(saved)


@pytest.mark.parametrize("value", [None, "text", -1, [1, 2]])
@pytest.mark.parametrize("key", HEADER)
def test_a_header_with_a_wrong_value_is_named(saved, key, value):
    if key == "gpukfl":
        pytest.skip("is shown only")
    rewritten(saved, lambda header, _: header.update({key: value}))
    with pytest.raises(ValueError, match="expected a gpukfl model file"):
        gpukfl.load(saved)


@pytest.mark.parametrize("name", ["components_", "ridge_", "history_", "n_features_in_", "place_"])
def test_a_file_without_a_fitted_attribute_is_named(saved, name):
    rewritten(saved, lambda header, _: header["record"].pop(name))
    with pytest.raises(ValueError, match="expected a gpukfl model file"):
        gpukfl.load(saved)


@pytest.mark.parametrize("name", ["W", "knots", "values", "intercept"])
def test_a_file_without_a_part_of_its_function_is_named(saved, name):
    def without(header, _):
        header["predictor"]["fields"]["values"]["fields"].pop(name)

    rewritten(saved, without)
    with pytest.raises(ValueError, match="expected a gpukfl model file"):
        gpukfl.load(saved)


def test_a_file_without_an_array_is_named(saved):
    rewritten(saved, lambda _, arrays: arrays.pop("predictor/values/W"))
    with pytest.raises(ValueError, match="expected a gpukfl model file"):
        gpukfl.load(saved)


@pytest.mark.parametrize("name", ["method", "task"])
def test_a_class_of_another_name_is_not_made(saved, name):
    rewritten(saved, lambda header, _: header["model"].update({name: "Popen"}))
    with pytest.raises(ValueError, match="expected a gpukfl model file"):
        gpukfl.load(saved)


def test_a_file_that_is_not_there_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        gpukfl.load(tmp_path / "nothing")


def test_what_cannot_be_stored_is_named_and_no_file_is_left(tmp_path):
    model = fit(X, Y)
    model.estimator.extra_ = object()
    with pytest.raises(TypeError, match="got object at record/extra_"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
