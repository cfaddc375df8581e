"""Estimators say, draw, report and save what they have learned, as models of `gpukfl.fit` do."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from brief import bkernn, hkrr, regfeal
from model_files import assert_as_before
from pictures import figure_of
from rich.cells import cell_len
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import gpukfl
from gpukfl import runtime
from gpukfl._registry import METHODS
from gpukfl.estimators.scaling import SCALINGS
from gpukfl.estimators.selection import Permutations
from gpukfl.inspection import Description, plot_curves, plot_directions, plot_importances

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge, .* is at the edge:UserWarning"),
]

N = 80
RNG = np.random.default_rng(5)
X = RNG.uniform(-1.0, 1.0, (N, 3))
FRAME = pd.DataFrame(X, columns=["width", "height", "age"])
Y = np.sin(3.0 * X[:, 0]) + X[:, 1]
THREE = np.array(["low", "mid", "high"])[np.searchsorted([-0.4, 0.4], X[:, 0])]
SMALL = {
    "bkernn": bkernn(n_particles=8, max_iter=4, ridge=0.01),
    "hkrr": hkrr(n_components=2, n_starts=1, max_iter=3, ridge=1e-3),
    "selection": {"sparsity": Permutations(3), "ridge": 1e-2},
    "rkhs_weighting": {"n_parameters": 30, "instantiation": "gaussian_sign"},
    "regfeal": regfeal(**{"n_random_features": 40, "n_iter": 2, "max_degree": 3, "strength": 0.1}),
}
CASES = [(method, task) for method in SMALL for task in ("regression", "classification")]


@pytest.fixture(scope="module")
def fitted():
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method, task in CASES:
            estimator = METHODS[method].estimator_class(task)(random_state=0, **SMALL[method])
            found[method, task] = estimator.fit(FRAME, Y if task == "regression" else THREE)
    return found


@pytest.mark.few
@pytest.mark.parametrize("case", CASES)
def test_an_estimator_does_what_a_model_does(fitted, case):
    pytest.importorskip("matplotlib")
    estimator = fitted[case]
    model = gpukfl.Model.from_estimator(estimator)
    assert isinstance(estimator.describe(), Description)
    lines = estimator.summary().splitlines()
    assert lines[0] == f"{type(estimator).__name__} for y"
    assert lines[1] == "  data        80 rows, 3 columns"
    assert "width" in estimator.summary()
    assert lines == model.summary().splitlines()
    model.feature_names = ["a long name " * 20, "長い名前" * 20, "age"]
    assert max(map(cell_len, model.summary().splitlines())) <= 80
    ax = estimator.plot("importances")
    assert ax.get_title() == "Feature importances"
    assert model.plot("importances", ax=ax) is ax
    assert plot_importances(estimator, ax=ax) is ax
    with pytest.raises(ValueError, match=r"a panel of \w+, one of importances, .*, got 'nonsense'"):
        model.plot("nonsense")


# Each method once, and either task: what tasks draw is tested with the panels
@pytest.mark.few
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(CASES[2 * k + k % 2], marks=() if k < 2 else pytest.mark.slow)
        for k in range(len(SMALL))
    ],
)
def test_an_estimator_is_drawn_and_reported_whole(fitted, case, tmp_path):
    pytest.importorskip("matplotlib")
    estimator = fitted[case]
    assert figure_of(estimator.plot(figsize=(9.0, 9.0))).get_figwidth() == 9.0
    estimator.report(tmp_path / "report.html")
    assert "<svg" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES)
def test_a_saved_estimator_is_loaded_as_a_model(fitted, case, tmp_path):
    estimator = fitted[case]
    estimator.save(tmp_path / "model")
    model = gpukfl.load(tmp_path / "model")
    assert (model.method, model.task) == case
    assert model.feature_names == ["width", "height", "age"]
    assert model.n_samples == N
    assert model.summary() == estimator.summary()
    assert_as_before(model.predict(FRAME), estimator.predict(FRAME))


@pytest.mark.parametrize("case", CASES)
def test_what_is_not_fitted_says_so(case, tmp_path, fitted):
    estimator = clone(fitted[case])
    for use in (estimator.describe, estimator.summary, estimator.plot):
        with pytest.raises(NotFittedError):
            use()
    with pytest.raises(NotFittedError):
        estimator.save(tmp_path / "model")


def test_features_without_names_are_numbered(tmp_path):
    estimator = gpukfl.BKerNNRegressor(8, **bkernn(max_iter=3, random_state=0)).fit(X, Y)
    assert "x1" in estimator.summary()
    estimator.save(tmp_path / "model")
    assert gpukfl.load(tmp_path / "model").feature_names == ["x0", "x1", "x2"]


# ---------------------------------------------------------------------- kernel ridge regression


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_kernel_ridge_says_what_it_has(task, tmp_path):
    pytest.importorskip("matplotlib")
    kind = gpukfl.KernelRidgeRegressor if task == "regression" else gpukfl.KernelRidgeClassifier
    estimator = kind(random_state=0).fit(FRAME, Y if task == "regression" else THREE)
    text = estimator.summary()
    assert f"Gaussian kernel, {N} centres, solver direct, ridge {estimator.ridge_:.3g}" in text
    assert "importance" not in text
    ax = estimator.plot("ridges")
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), estimator.ridge_path_.ridges)
    estimator.report(tmp_path / "report.html")
    assert "Most important" not in (tmp_path / "report.html").read_text(encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"importances to draw, got .*which has none; it has ridges"
    ):
        plot_importances(estimator)


@pytest.mark.parametrize("y", [Y, np.stack([Y, -Y], axis=1), Y > 0, THREE])
def test_kernel_ridge_is_saved_loaded_and_served(y, tmp_path):
    kind = gpukfl.KernelRidgeRegressor if y.dtype == float else gpukfl.KernelRidgeClassifier
    estimator = kind(random_state=0).fit(FRAME, y)
    estimator.save(tmp_path / "model")
    model, light = gpukfl.load(tmp_path / "model"), runtime.load(tmp_path / "model")
    assert model.method == light.method == "kernel_ridge"
    assert model.summary() == estimator.summary()
    assert model.describe().call == estimator.describe().call
    np.testing.assert_array_equal(model.predict(FRAME), estimator.predict(FRAME))
    if kind is gpukfl.KernelRidgeRegressor:
        np.testing.assert_allclose(light.predict(X), estimator.predict(FRAME), atol=1e-10)
    else:
        expected = estimator.predict_proba(FRAME)
        np.testing.assert_allclose(light.predict_proba(X), expected, atol=1e-10)
    again = clone(model).fit(FRAME, y)
    np.testing.assert_array_equal(again.predict(FRAME), model.predict(FRAME))
    with pytest.raises(ValueError, match="Invalid parameter 'max_time'"):
        model.set_params(max_time=1.0)


def test_what_learns_no_features_and_tries_no_ridges_has_no_pictures(tmp_path):
    estimator = gpukfl.BrownianKernelRidge(random_state=0).fit(FRAME, Y)
    assert f"Brownian kernel, {N} rows" in estimator.summary()
    with pytest.raises(TypeError, match=r"an estimator of gpukfl \(Auto.*: use pickle"):
        estimator.save(tmp_path / "model")
    with pytest.raises(ValueError, match="BrownianKernelRidge, which has no pictures"):
        estimator.plot()
    estimator.report(tmp_path / "report.html")
    given = gpukfl.KernelRidgeRegressor(ridge=0.1).fit(FRAME, Y)
    with pytest.raises(ValueError, match="KernelRidgeRegressor, which has no pictures"):
        given.plot()


# ---------------------------------------------------------------------- functions along directions


@pytest.mark.parametrize("case", [c for c in CASES if c[1] == "classification"])
def test_every_class_is_drawn(fitted, case):
    pytest.importorskip("matplotlib")
    axes = plot_curves(fitted[case])
    assert [ax.get_title() for ax in axes] == ["class high", "class low", "class mid"]


def test_every_target_is_drawn():
    pytest.importorskip("matplotlib")
    both = np.stack([Y, X[:, 2]], axis=1)
    model = gpukfl.fit(X, both, method="bkernn", **bkernn(n_particles=8, max_iter=4, ridge=0.01))
    assert [ax.get_title() for ax in plot_curves(model)] == ["y 0", "y 1"]


def test_targets_of_a_frame_keep_their_names_and_units():
    pytest.importorskip("matplotlib")
    both = pd.DataFrame({"far, high": 1000.0 * Y, "near": np.cos(3.0 * X[:, 2])})
    quick = bkernn(n_particles=8, max_iter=4, ridge=0.01)
    model = gpukfl.fit(X, both.rename(columns={"far, high": "far"}), method="bkernn", **quick)
    assert model.summary().startswith("BKerNNRegressor for far, near")
    far, near = plot_curves(model)
    assert (far.get_title(), near.get_title()) == ("far", "near")
    assert np.ptp(far.get_ylim()) > 100 * np.ptp(near.get_ylim())  # each on its own scale
    found = pd.DataFrame(X, columns=list("abcdefgh"[: X.shape[1]]))
    table = found.assign(far=both["far, high"], near=both["near"])
    model = gpukfl.fit(table, ["far", "near"], method="bkernn", **quick)
    expected = model.score(table, ["far", "near"])
    assert model.score(table, ["near", "far"]) == expected
    with pytest.raises(ValueError, match="expected the targets far, near, got a, near"):
        model.score(table.drop(columns="far"), table[["a", "near"]])
    model = gpukfl.fit(X, both, method="bkernn", **quick)  # three names for two targets
    assert [ax.get_title() for ax in plot_curves(model)] == [
        "far, high, near 0",
        "far, high, near 1",
    ]


def test_a_direction_is_one_curve_of_all_its_particles():
    """Where every particle is along one direction, the curves are all of the prediction."""
    pytest.importorskip("matplotlib")
    estimator = gpukfl.BKerNNRegressor(12, **bkernn(max_iter=30, random_state=0)).fit(
        X, np.abs(X[:, 0])
    )
    w = np.zeros((3, 12))
    w[0] = np.linspace(-1.0, 2.0, 12)
    w[1, 3:5] = w[0, 3:5] * 0.5  # nearer to the first direction than to the second
    shapes = estimator.shape_functions_
    estimator.W_ = w
    estimator.components_ = np.eye(3)[:2]
    ax = plot_curves(estimator)
    names = [line.get_label() for line in ax.lines]
    assert names == ["x0"]
    assert "no particle leads along direction 2" in [
        t.get_text() for t in ax.figure.findobj() if hasattr(t, "get_text")
    ]
    t, drawn = ax.lines[0].get_data()
    at = t[:, None] * w[0]
    total = np.mean(
        [np.interp(at[:, j], shapes.knots[j], shapes.values[j, :, 0]) for j in range(12)], axis=0
    )
    np.testing.assert_allclose(drawn, total - total.mean(), atol=1e-12)


@pytest.mark.parametrize("scaling", [*SCALINGS, None])
def test_units_are_said_where_features_are_scaled(scaling, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    estimator = gpukfl.BKerNNRegressor(8, **bkernn(max_iter=3, scaling=scaling, random_state=0))
    with monkeypatch.context() as patched:  # words alone
        patched.setitem(sys.modules, "matplotlib", None)
        estimator.fit(X, Y).report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    said = [word for word, kind in SCALINGS.items() if kind.note in page]
    assert said == ([] if scaling is None else [scaling])
    label = plot_curves(estimator).get_xlabel()
    assert label == "coordinate along it" + (f", in {SCALINGS[scaling].unit}" if scaling else "")


def test_curves_add_up_to_the_prediction_along_a_direction():
    pytest.importorskip("matplotlib")
    estimator = gpukfl.BKerNNRegressor(12, **bkernn(max_iter=30, ridge=0.05, random_state=0))
    estimator.fit(X, np.abs(X[:, 0]))
    assert len(estimator.components_) == 1
    t, drawn = plot_curves(estimator).lines[0].get_data()
    points = (
        t[:, None] * estimator.components_[0] * estimator.scaling_.scale + estimator.scaling_.mean
    )
    predicted = estimator.predict(points)
    np.testing.assert_allclose(drawn, predicted - predicted.mean(), atol=1e-9)


def test_directions_are_those_of_the_estimator(fitted):
    pytest.importorskip("matplotlib")
    estimator = fitted["bkernn", "regression"]
    image = plot_directions(estimator).images[0].get_array()
    order = np.argsort(-estimator.feature_importances_)
    np.testing.assert_array_equal(image, estimator.components_[:5, order].T)


# ---------------------------------------------------------------------- tuning and noise


@pytest.mark.parametrize("cut", [True, False])
def test_tuning_that_was_cut_short_is_said_to_be(fitted, cut):
    estimator = fitted["hkrr", "regression"].to_host()
    estimator.tuning_cut_short_ = cut
    assert ("cut short by max_time" in estimator.summary()) == cut
    assert ("cut short by max_time" in gpukfl.Model.from_estimator(estimator).summary()) == cut


def test_noise_is_said_to_be_nothing(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    noise = np.random.default_rng(0).standard_normal(N)
    model = gpukfl.fit(X, noise, method="bkernn", **bkernn(n_particles=10, max_iter=10))
    assert model.describe().tuning.chosen["score"] <= 0.0
    before = model.predict(X)
    assert "nothing was found that predicts" in model.summary()
    with monkeypatch.context() as patched:  # words alone
        patched.setitem(sys.modules, "matplotlib", None)
        model.report(tmp_path / "report.html")
    assert "Nothing was found that predicts" in (tmp_path / "report.html").read_text("utf-8")
    words = " ".join(text.get_text() for text in model.plot("importances").texts)
    assert "nothing was found" in words
    np.testing.assert_array_equal(model.predict(X), before)
