"""ONNX files say what models say, run by another program."""

import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from served_models import NEW, SINGLE, TARGETS, X, Y, kernel_blend, model
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Lasso, LogisticRegression, RidgeCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from toy_method import RidgeRegressor

import gpukfl
from gpukfl import HKRRRegressor, KernelRidgeRegressor, RKHSWeightingRegressor
from gpukfl.instantiations import RandomKitchenSinks, Stumps
from gpukfl.kernels import KERNELS, ColumnBlock, Gaussian, Linear
from gpukfl.predictor import member_predictor

onnxruntime = pytest.importorskip("onnxruntime")
ndonnx = pytest.importorskip("ndonnx")

QUICK = [  # of others, graphs have hundreds of nodes too, of which each takes some milliseconds
    *("bkernn, three classes", "hkrr, one target", "selection, one target", "regfeal, one target"),
    *("rkhs_weighting, three classes", "bkernn, binned", "hkrr, l1", "regfeal, Hermite"),
    *("hkrr, evidence", "rkhs_weighting, constant"),
]
METHODS = [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in SINGLE]
IN_FLOAT32 = [
    *("bkernn, two targets", "hkrr, one target"),
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("selection, three classes", "regfeal, Hermite", "rkhs_weighting, one target")
    ),
]
QUICK_KERNELS = ("gaussian", "laplace", "manhattan_laplace", "sum")


def run(path, rows):
    session = onnxruntime.InferenceSession(str(path))
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": rows}), strict=True))


def check(found, path):
    """Compare with predictions, in units of the targets' spread."""
    close = {"rtol": 0, "atol": 1e-10}
    got, predicted = run(path, NEW), found.predict(NEW)
    if found.task == "regression":
        spread = np.std(Y)
        np.testing.assert_allclose(got["prediction"] / spread, predicted / spread, **close)
        assert got["prediction"].shape == predicted.shape
    else:
        assert got["label"].tolist() == predicted.tolist()
        np.testing.assert_allclose(got["probabilities"], found.predict_proba(NEW), **close)
    one = run(path, NEW[:1])
    assert all(len(values) == 1 for values in one.values())


@pytest.mark.few
@pytest.mark.parametrize("name", METHODS)
def test_every_method_agrees(name, tmp_path):
    model(name).to_onnx(tmp_path / "model.onnx")
    check(model(name), tmp_path / "model.onnx")


def exactly(found, rows):
    """What the arrays of a model in float32 say in float64."""
    exact = found.estimator.predictor_.map_arrays(lambda array: array.astype(np.float64))
    values = exact.values(rows.astype(np.float64))
    return exact.decode(values) if exact.labels is None else exact.probabilities(values)


@pytest.mark.few
@pytest.mark.parametrize("name", IN_FLOAT32)
def test_float32_agrees_as_far_as_it_reaches(name, tmp_path):
    found, rows = model(name, "float32"), NEW.astype(np.float32)
    found.to_onnx(tmp_path / "model.onnx")
    got = list(run(tmp_path / "model.onnx", rows).values())[-1]
    told = found.predict(rows) if found.task == "regression" else found.predict_proba(rows)
    exact = exactly(found, rows)
    assert got.dtype == np.float32
    # Large coefficients cancel: what is lost of them is lost in predictions too
    lost = np.abs(told - exact).max()
    np.testing.assert_allclose(got, exact, rtol=0, atol=max(1e-5 * np.std(Y), 4.0 * lost))


def test_float32_agrees_where_nothing_cancels(tmp_path):
    rows = NEW.astype(np.float32)
    found = KernelRidgeRegressor("gaussian", ridge=0.1, random_state=0)
    found.fit(X.astype(np.float32), Y).to_onnx(tmp_path / "model.onnx")
    got = run(tmp_path / "model.onnx", rows)["prediction"]
    np.testing.assert_allclose(got, found.predict(rows), rtol=0, atol=1e-5 * np.std(Y))


@pytest.mark.few
@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(one, marks=() if one in QUICK_KERNELS else pytest.mark.slow)
        for one in [*sorted(KERNELS), "sum"]
    ],
)
def test_every_kernel_agrees(kernel, tmp_path):
    total = 0.5 * Gaussian() * Linear() + ColumnBlock(Gaussian(2.0), 1, 3)
    kernel = total if kernel == "sum" else kernel
    found = KernelRidgeRegressor(kernel, ridge=1e-2, random_state=0).fit(X, Y)
    found.to_onnx(tmp_path / "model.onnx")
    got = run(tmp_path / "model.onnx", NEW)["prediction"]
    np.testing.assert_allclose(got, found.predict(NEW), rtol=0, atol=1e-10 * np.std(Y))


def test_kitchen_sinks_agree(tmp_path):
    kind = RandomKitchenSinks(Stumps())
    found = RKHSWeightingRegressor(40, instantiation=kind, ridge=1e-2, random_state=0).fit(X, Y)
    found.to_onnx(tmp_path / "model.onnx")
    got = run(tmp_path / "model.onnx", NEW)["prediction"]
    np.testing.assert_allclose(got, found.predict(NEW), rtol=0, atol=1e-10 * np.std(Y))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_portfolios_agree(target, tmp_path):
    found = model(f"auto, {target}")
    found.to_onnx(tmp_path / "model.onnx")
    check(found, tmp_path / "model.onnx")


def test_medians_stand_for_gaps_that_a_blend_has_not_seen(tmp_path):
    found = gpukfl.fit(X, Y, members=["linear"], n_folds=2, progress=False)
    found.to_onnx(tmp_path / "model.onnx")
    rows = NEW[:4].copy()
    rows[0, 0], rows[1, 2], rows[2, :] = np.nan, np.inf, -np.inf
    with (
        pytest.warns(UserWarning, match="infinite values are treated as missing"),
        pytest.warns(UserWarning, match="are replaced by its medians"),
    ):
        predicted = found.predict(rows)
    got = run(tmp_path / "model.onnx", rows)["prediction"]
    np.testing.assert_allclose(got, predicted, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_a_blend_of_kernel_methods_agrees(tmp_path):
    found = kernel_blend("three classes")
    found.to_onnx(tmp_path / "model.onnx")
    check(found, tmp_path / "model.onnx")


TREES = {"max_iter": 8, "max_leaf_nodes": 6, "min_samples_leaf": 3, "random_state": 0}
FOREIGN = {
    "trees": (HistGradientBoostingRegressor(**TREES), Y),
    "trees of two classes": (HistGradientBoostingClassifier(**TREES), TARGETS["two classes"][0]),
    "trees of three": (HistGradientBoostingClassifier(**TREES), TARGETS["three classes"][0]),
    "trees of targets": (
        MultiOutputRegressor(HistGradientBoostingRegressor(**TREES)),
        TARGETS["two targets"][0],
    ),
    "linear": (make_pipeline(StandardScaler(), RidgeCV()), Y),
    "linear of targets": (make_pipeline(StandardScaler(), RidgeCV()), TARGETS["two targets"][0]),
    "logistic": (make_pipeline(StandardScaler(), LogisticRegression()), TARGETS["two classes"][0]),
    "logistic of three": (
        make_pipeline(StandardScaler(), LogisticRegression()),
        TARGETS["three classes"][0],
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_members_of_scikit_learn_are_the_same_functions(name):
    estimator, y = FOREIGN[name]
    fitted = estimator.fit(X, y)
    told = getattr(fitted, "predict_proba", fitted.predict)(NEW)
    found = member_predictor(fitted).values(NEW)
    np.testing.assert_allclose(found, told.reshape(found.shape), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in FOREIGN if name.startswith("trees")])
def test_trees_know_where_gaps_go(name):
    estimator, y = FOREIGN[name]
    gaps = np.random.default_rng(0).uniform(size=X.shape) < 0.2
    fitted = clone(estimator).fit(np.where(gaps, np.nan, X), y)
    rows = np.where(gaps[: len(NEW)], np.nan, NEW)
    told = getattr(fitted, "predict_proba", fitted.predict)(rows)
    found = member_predictor(fitted).values(rows)
    np.testing.assert_allclose(found, told.reshape(found.shape), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["logistic", "trees of two classes"])
def test_members_of_scikit_learn_are_the_same_in_graphs(name):
    estimator, y = FOREIGN[name]
    fitted = estimator.fit(X, y)
    rows = ndonnx.argument(shape=("n", X.shape[1]), dtype=ndonnx.float64)
    model = member_predictor(fitted).map_arrays(ndonnx.asarray)
    graph = ndonnx.build({"X": rows}, {"found": model.values(rows)}).SerializeToString()
    (found,) = onnxruntime.InferenceSession(graph).run(None, {"X": NEW})
    np.testing.assert_allclose(found, fitted.predict_proba(NEW), rtol=0, atol=1e-12)


def test_constants_of_folds_of_one_class():
    for fitted in (DummyClassifier().fit(X, np.ones(len(X))), DummyRegressor().fit(X, Y)):
        told = getattr(fitted, "predict_proba", fitted.predict)(NEW)
        found = member_predictor(fitted).values(NEW)
        np.testing.assert_allclose(found, told.reshape(found.shape), rtol=0, atol=1e-12)


def test_the_file_says_what_it_is_of(tmp_path):
    frame = pd.DataFrame(X, columns=["größe", "b", "c d", "e"])
    found = gpukfl.fit(frame, Y, method="hkrr", n_components=1, ridge=1e-2)
    found.to_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    said = session.get_modelmeta().custom_metadata_map
    assert said["gpukfl.features"].split("\n") == list(frame.columns)
    assert said["gpukfl.method"] == "HKRRRegressor"
    assert session.get_inputs()[0].shape == ["n", 4]


def test_a_new_method_is_written_by_its_function(tmp_path):
    found = RidgeRegressor(0.1).fit(X, Y)
    found.to_onnx(tmp_path / "model.onnx")
    got = run(tmp_path / "model.onnx", NEW)["prediction"]
    np.testing.assert_allclose(got, found.predict(NEW), rtol=0, atol=1e-12)


# ---------------------------------------------------------------------- bad input


@dataclass(frozen=True)
class Own(Gaussian):
    """A kernel of the user's."""


def test_a_kernel_of_the_users_is_refused(tmp_path):
    found = KernelRidgeRegressor(Own() + Linear(), ridge=1e-2).fit(X, Y)
    with pytest.raises(TypeError, match="expected a kernel of gpukfl in an ONNX file, got Own"):
        found.to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


@dataclass(frozen=True)
class OwnStumps(Stumps):
    """An instantiation of the user's."""


def test_an_instantiation_of_the_users_is_refused(tmp_path):
    kind = RandomKitchenSinks(OwnStumps())
    found = RKHSWeightingRegressor(20, instantiation=kind, ridge=1e-2, random_state=0).fit(X, Y)
    with pytest.raises(TypeError, match="expected an instantiation of gpukfl"):
        found.to_onnx(tmp_path / "model.onnx")


def test_an_estimator_that_is_not_fitted_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        HKRRRegressor().to_onnx(tmp_path / "model.onnx")


def test_a_regressor_of_another_library_is_refused(tmp_path):
    found = gpukfl.RegFeaLRegressor(30, retrain=Lasso(), random_state=0).fit(X, Y)
    with pytest.raises(TypeError, match="got those of Lasso"):
        found.to_onnx(tmp_path / "model.onnx")
    with pytest.raises(TypeError, match="got Lasso: fit with members='kernels'"):
        member_predictor(Lasso().fit(X, Y)).to_traceable()


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="existing folder"):
        model("hkrr, one target").to_onnx(tmp_path / "none" / "model.onnx")


def test_a_file_that_is_read_only_stays(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")
    path.chmod(0o444)
    try:
        model("hkrr, one target").to_onnx(path)
    except PermissionError:
        assert path.read_bytes() == b"old"
    else:  # of root, who may write everything
        assert path.read_bytes() != b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["model.onnx"]


def test_a_missing_library_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ndonnx", None)
    with pytest.raises(ImportError, match=r"pip install 'gpukfl\[onnx\]'"):
        model("hkrr, one target").to_onnx(tmp_path / "model.onnx")


def test_constants_have_no_sessions_of_their_own(tmp_path, monkeypatch):
    from spox import _value_prop

    def refused(*_):
        raise AssertionError

    before = _value_prop._VALUE_PROP_BACKEND
    monkeypatch.setattr(_value_prop, "_run_onnxruntime", refused)
    model("hkrr, one target").to_onnx(tmp_path / "model.onnx")
    assert _value_prop._VALUE_PROP_BACKEND is before
