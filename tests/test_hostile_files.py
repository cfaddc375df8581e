"""Files that are made to take memory, time or the process: one error, soon, from both readers."""

import io
import json
import pickle
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest
from model_files import CASES, HOSTILE, fitted, parts_of
from scipy.sparse import coo_matrix, csr_matrix
from sklearn.base import clone, is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from skops.io import dumps

import gpukfl
import gpukfl.runtime
from gpukfl.core._archive import RefusedError, write_archive
from gpukfl.predictor._skops import _check_indices, dump_estimator, load_estimator

SPARE = 100 * 2**20  # bytes that any file may take beside four times its size
X, Y = CASES["auto, own"][1], CASES["hkrr, one target"][2]


def refused(load, path):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="expected a gpukfl model file, got"):
            load(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("load", [gpukfl.load, gpukfl.runtime.load])
@pytest.mark.parametrize("name", HOSTILE)
def test_no_file_takes_more_memory_than_its_size_allows(name, load, tmp_path):
    path = tmp_path / "model"
    data = HOSTILE[name]()
    path.write_bytes(data)
    assert refused(load, path) <= 4 * len(data) + SPARE


# ---------------------------------------------------------------------- other libraries' members


def rebuilt(data, change, method=zipfile.ZIP_STORED):
    """An archive of skops with other members."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members = change(members)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return np.frombuffer(buffer.getvalue(), np.uint8)


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def named_often(members):
    """An array of many bytes that the description names a thousand times."""
    schema = json.loads(members["schema.json"])
    array = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode"}
    array |= {"type": "numpy", "file": "zeros.npy"}
    schema["content"]["content"] |= {f"a{k}": array for k in range(1_000)}
    return members | {
        "schema.json": json.dumps(schema).encode(),
        "zeros.npy": npy(np.zeros(2**17)),
    }


def endless(members):
    """An array that tells of more numbers than there are."""
    name = next(one for one in members if one.endswith(".npy"))
    return members | {name: members[name].replace(b"'shape': (", b"'shape': (99999999999, ", 1)}


def inner_archive(members):
    """A sparse matrix of which a few bytes become many."""
    schema = json.loads(members["schema.json"])
    matrix = {"__class__": "csr_matrix", "__module__": "scipy.sparse", "type": "scipy"}
    matrix |= {"__loader__": "SparseMatrixNode", "file": "zeros.npz"}
    schema["content"]["content"]["coef_"] = matrix
    return members | {
        "schema.json": json.dumps(schema).encode(),
        "zeros.npz": npz(data=np.zeros(2**24)),
    }


def no_members(members):
    return {}


def wide_schema(members):
    return members | {"schema.json": b"[" + b"{}," * 1_000_000 + b"1]"}


@pytest.mark.few
@pytest.mark.parametrize("change", [named_often, endless, inner_archive, wide_schema, no_members])
def test_members_are_no_larger_than_their_bytes(change):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = rebuilt(dump_estimator(SVR().fit(X, Y)), change)
    tracemalloc.start()
    try:
        with pytest.raises(RefusedError):
            load_estimator(data)
        assert tracemalloc.get_traced_memory()[1] <= 4 * len(data) + SPARE
    finally:
        tracemalloc.stop()


def test_compressed_members_of_a_member_are_refused():
    data = rebuilt(dump_estimator(SVR().fit(X, Y)), lambda members: members, zipfile.ZIP_DEFLATED)
    with pytest.raises(RefusedError, match="compressed entries"):
        load_estimator(data)


def machine(**changes):
    """Bytes of a support vector machine some of whose arrays are others."""
    found = SVR().fit(X, Y)
    for name, change in changes.items():
        setattr(found, name, change(getattr(found, name)))
    return np.frombuffer(dumps(found), np.uint8)


def test_a_support_vector_machine_comes_back():
    rows = np.linspace(-1.0, 1.0, 30).reshape(10, 3)
    expected = SVR().fit(X, Y).predict(rows)
    np.testing.assert_array_equal(load_estimator(machine()).predict(rows), expected)


@pytest.mark.parametrize(
    "changes",
    [
        {"_n_support": lambda x: x + 1_000_000},
        {"support_vectors_": lambda x: x[:2]},
        {"support_vectors_": lambda x: x[:, :1]},
        {"_dual_coef_": lambda x: x[:, :1]},
        {"support_": lambda x: x[:1]},
        {"_intercept_": lambda x: x[:0]},
        {"shape_fit_": lambda x: (*x[:1], 4)},
    ],
)
def test_support_vector_machines_that_would_be_read_beyond_their_ends_are_refused(changes):
    with pytest.raises(RefusedError, match="cannot be read"):
        load_estimator(machine(**changes))


def test_sparse_matrices_that_point_elsewhere_are_refused():
    """Versions of skops differ in whether they trust them."""
    found = SVR().fit(X, Y)
    found.extra_ = [{"a": csr_matrix(np.eye(3)), "b": coo_matrix(np.eye(3))}]
    _check_indices(found)
    for name, place in (("a", "indices"), ("b", "row")):
        matrix = found.extra_[0][name]
        getattr(matrix, place)[1] = 10**6
        with pytest.raises(ValueError, match=r"ind(ices|ex)"):
            _check_indices(found)
        getattr(matrix, place)[1] = 1


def test_trees_of_others_are_for_pickle(tmp_path):
    """scikit-learn follows their indices unchecked."""
    trees = RandomForestRegressor(3, random_state=0).fit(X, Y)
    with pytest.raises(TypeError, match=r"types that skops trusts, .* use pickle for others"):
        dump_estimator(trees)
    with pytest.raises(RefusedError, match="cannot be read"):
        load_estimator(np.frombuffer(dumps(trees), np.uint8))


# ---------------------------------------------------------------------- trees


BOOSTED = {"max_iter": 3, "min_samples_leaf": 3}
TARGETS = {"values": Y, "two": X[:, 0] > 0, "three": np.searchsorted([-0.4, 0.4], X[:, 0])}


def piped(last, y):
    return make_pipeline(StandardScaler(), last).fit(X, y)


@pytest.mark.parametrize("y", TARGETS)
def test_trees_inside_a_pipeline_are_tables(y):
    kind = HistGradientBoostingRegressor if y == "values" else HistGradientBoostingClassifier
    expected = piped(kind(**BOOSTED), TARGETS[y])
    data = dump_estimator(expected)
    assert b"TreePredictor" not in data
    assert b"TreePredictor" in dumps(expected)
    found = load_estimator(np.frombuffer(data, np.uint8))
    for again in (found, pickle.loads(pickle.dumps(found))):
        for name in ("predict", "predict_proba", "decision_function", "score"):
            assert hasattr(again, name) == hasattr(expected, name)
            if hasattr(again, name):
                of = (X, TARGETS[y]) if name == "score" else (X,)
                one, other = getattr(again, name)(*of), getattr(expected, name)(*of)
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    assert clone(found)[-1].fit(X, Y) is found[-1]
    again = load_estimator(np.frombuffer(dump_estimator(found), np.uint8))
    np.testing.assert_array_equal(again.predict(X), found.predict(X))
    assert is_classifier(found) == is_classifier(expected)
    with pytest.raises(ValueError, match="2 features"):
        found[-1].predict(X[:, :2])


@pytest.mark.parametrize(
    "member",
    [
        make_pipeline(StandardScaler(), HistGradientBoostingRegressor(**BOOSTED)),
        TransformedTargetRegressor(HistGradientBoostingRegressor(**BOOSTED)),
        BaggingRegressor(HistGradientBoostingRegressor(**BOOSTED), n_estimators=2),
    ],
)
def test_a_blend_whose_members_hold_trees_comes_back(member, tmp_path):
    model = gpukfl.fit(X, Y, members=[("own", member)], n_folds=2, progress=False)
    expected = model.predict(X)
    for _ in range(2):
        model.save(tmp_path / "model")
        model = gpukfl.load(tmp_path / "model")
        np.testing.assert_allclose(model.predict(X), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="expected members that are kernel methods"):
        gpukfl.runtime.load(tmp_path / "model")


def test_trees_of_scikit_learn_inside_a_file_are_refused():
    data = dumps(piped(HistGradientBoostingRegressor(**BOOSTED), Y))
    with pytest.raises(RefusedError, match="cannot be read"):
        load_estimator(np.frombuffer(data, np.uint8))


def replaced(**arrays):
    """Change arrays of a table in an archive of skops."""

    def change(members):
        schema = json.loads(members["schema.json"])
        table = next(one for one in dicts_in(schema) if {*arrays} <= {*one})
        for name, new in arrays.items():
            file = table[name]["file"]
            old = np.load(io.BytesIO(members[file]))
            members[file] = npy(new(old.copy()))
        return members

    return change


def dicts_in(node):
    if isinstance(node, dict):
        yield node
        node = list(node.values())
    if isinstance(node, list):
        for one in node:
            yield from dicts_in(one)


def with_first(column, value):
    def change(nodes):
        nodes[0, column] = value
        return nodes

    return change


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes": with_first(1, 10**9)},
        {"nodes": with_first(1, 0)},
        {"nodes": with_first(0, -5)},
        {"nodes": with_first(0, 100)},
        {"nodes": lambda x: x[:0]},
        {"nodes": lambda x: x.astype(np.int64)},
        {"numbers": lambda x: x[:3]},
        {"trees": lambda x: x + 10**6},
        {"baseline": lambda x: x * np.nan},
        {"starts": lambda x: x[:2]},
        {"starts": lambda x: x[0]},
    ],
)
def test_tables_inside_a_pipeline_are_checked(changes):
    data = dump_estimator(piped(HistGradientBoostingRegressor(**BOOSTED), Y))
    assert load_estimator(rebuilt(data, replaced(nodes=lambda x: x))).predict(X).shape == Y.shape
    with pytest.raises(RefusedError, match="cannot be read"):
        load_estimator(rebuilt(data, replaced(**changes)))


def endless_child(nodes):
    nodes[0, 1] = 10**9


def cycle(nodes):
    nodes[0, 1] = 0


def far_feature(nodes):
    nodes[0, 0] = 10**9


def feature_before_the_first(nodes):
    nodes[0, 0] = -5


def another_feature(nodes):
    nodes[0, 0] = 100


@pytest.mark.parametrize("load", [gpukfl.load, gpukfl.runtime.load])
@pytest.mark.parametrize(
    "change", [endless_child, cycle, far_feature, feature_before_the_first, another_feature]
)
def test_trees_that_lead_nowhere_are_refused(change, load, tmp_path):
    header, arrays = parts_of(fitted("auto, both"))
    name = next(one for one in arrays if one.endswith("values/nodes"))
    arrays[name] = arrays[name].copy()
    change(arrays[name])
    with (tmp_path / "model").open("w+b") as file:
        write_archive(file, header, arrays)
    with pytest.raises(ValueError, match=r"expected a gpukfl model file.* trees with "):
        load(tmp_path / "model")


@pytest.mark.parametrize("load", [gpukfl.load, gpukfl.runtime.load])
def test_an_intercept_of_another_shape_is_refused(load, tmp_path):
    header, arrays = parts_of(fitted("auto, table"))
    name = next((one for one in arrays if one.endswith("values/intercept")), None)
    name = name or next(one for one in arrays if one.endswith("values/baseline"))
    arrays[name] = np.concatenate([arrays[name], arrays[name]])
    with (tmp_path / "model").open("w+b") as file:
        write_archive(file, header, arrays)
    with pytest.raises(ValueError, match="expected a gpukfl model file"):
        load(tmp_path / "model")
