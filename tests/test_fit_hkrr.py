"""`gpukfl.fit` with HKRR, and its models."""

import warnings

import brief
import numpy as np
import pandas as pd
import pytest
from fit_cases import FRAME, LABELS, Clock, D, N, X, Y
from pictures import panels
from sklearn.exceptions import ConvergenceWarning

import gpukfl
from gpukfl.kernels import Gaussian, Linear
from gpukfl.methods import HyperKernelObjective

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge is at the edge:UserWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge of the last fit:UserWarning"),
]


# ---------------------------------------------------------------------- HKRR


def hkrr(X, y, **options):
    defaults = {"n_components": 1, "n_starts": 1, "max_iter": 8, "ridge": 1e-4}
    return gpukfl.fit(X, y, method="hkrr", **brief.hkrr(**{**defaults, **options}))


@pytest.fixture(scope="module")
def hkrr_models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        three = np.searchsorted([-0.4, 0.4], X[:, 0])
        two = np.stack([Y, X[:, 1]], axis=1)
        kernel = Gaussian() + 0.1 * Linear()
        return {
            "regression": hkrr(FRAME, pd.Series(Y, name="price"), n_components=2, ridge="tune"),
            "multiclass": hkrr(X, three),
            "two classes": hkrr(FRAME, LABELS),
            "two targets": hkrr(X, two, n_components="auto", ridge="auto", max_iter=3),
            "one feature": hkrr(X[:, :1], Y),
            "no steps": hkrr(X, Y, max_iter=0),
            "constant": hkrr(X, np.full(N, 4.5)),
            "sum of kernels": hkrr(X, Y, kernel=kernel),
        }


def test_hkrr_of_a_frame(hkrr_models):
    model = hkrr_models["regression"]
    assert (model.method, model.task, model.n_samples) == ("hkrr", "regression", N)
    assert (model.feature_names, model.target_name) == (["width", "height", "age"], "price")
    assert repr(model) == "Model(hkrr, regression, 80 rows, 3 columns)"
    assert model.score(FRAME, Y) > 0.9
    assert {name for name, _ in model.most_important(2)} == {"width", "height"}
    e = model.estimator
    assert e.scaling_.mean.shape == (D,)  # standardised
    assert (e.max_time, e.ridge, e.random_state) == (None, "auto", 0)


def test_hkrr_of_classes(hkrr_models):
    model = hkrr_models["two classes"]
    assert (model.task, set(model.predict(FRAME))) == ("classification", {"yes", "no"})
    np.testing.assert_allclose(model.predict_proba(FRAME).sum(axis=1), 1.0, atol=1e-14)
    assert model.score(FRAME, LABELS) > 0.9
    assert hkrr_models["multiclass"].predict_proba(X).shape == (N, 3)
    assert hkrr_models["two targets"].predict(X).shape == (N, 2)


@pytest.mark.parametrize("ridge", ["auto", "tune"])
def test_hkrr_chooses_its_ridge(hkrr_models, ridge):
    model = hkrr(FRAME, pd.Series(Y, name="price"), n_components=2, ridge=ridge)
    for trial, expected in zip(model.tuning, hkrr_models["regression"].tuning, strict=True):
        assert {**trial, "seconds": None} == {**expected, "seconds": None}
    assert sum(trial["chosen"] for trial in model.tuning) == 1
    assert {trial["n_components"] for trial in model.tuning} == {2}
    assert len({trial["ridge"] for trial in model.tuning}) >= 2


def test_hkrr_takes_a_ridge():
    model = hkrr(X, Y, ridge=0.0123, refit_centers=None)
    assert model.estimator.ridge_ == 0.0123
    assert model.tuning == []


def test_hkrr_in_no_time_is_still_a_model():
    with pytest.warns(ConvergenceWarning, match="max_time was reached first"):
        model = hkrr(X, Y, n_components="auto", ridge="tune", max_time=1e-6)
    assert model.estimator.status_ == "TIME_LIMIT"
    assert len(model.tuning) == 1
    assert "shortened by max_time" in model.summary()
    assert np.all(np.isfinite(model.predict(X)))


def test_hkrr_keeps_to_its_time(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("time.perf_counter", Clock(0.02))
        options = {"ridge": "tune", "n_components": "auto", "max_iter": 30}
        unlimited = hkrr(X, Y, **options)
        limited = hkrr(X, Y, max_time=1.0, **options)
    assert unlimited.seconds > 2.0
    assert limited.seconds < 2.0
    assert len(limited.tuning) < len(unlimited.tuning)


@pytest.mark.parametrize("after", [3, 40])
def test_an_interruption_of_hkrr_gives_a_model_and_a_warning(monkeypatch, after):
    reduced, calls = HyperKernelObjective.reduce, [0]

    def interrupted(self, B):
        calls[0] += 1
        if calls[0] == after + 1:
            raise KeyboardInterrupt
        return reduced(self, B)

    monkeypatch.setattr(HyperKernelObjective, "reduce", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted: the best iterate"):
        model = hkrr(X, Y, ridge="tune")
    assert "interrupted" in model.summary()
    assert model.score(X, Y) > 0


def test_the_summary_of_hkrr_says_what_was_done(hkrr_models):
    model = hkrr_models["regression"]
    text, e = model.summary(), model.estimator
    best = next(trial for trial in model.tuning if trial["chosen"])
    for expected in [
        "HKRRRegressor for price",
        "80 rows, 3 columns",
        "Gaussian kernel of 2 components",
        f"80 centres, ridge {e.ridge_:.3g}",
        "numpy cpu, by blocks",
        f"{e.n_iter_} steps, {e.status_.lower().replace('_', ' ')}",
        f"R² {best['score']:.3f}"[:-1],
        f" of {len(model.tuning)} settings",
        "effective direction",
        *("width", "height", "age"),
    ]:
        assert expected in text


@pytest.mark.few
@pytest.mark.parametrize("kind", ["regression", "two classes", "no steps", "constant"])
def test_every_model_of_hkrr_is_drawn(hkrr_models, kind):
    pytest.importorskip("matplotlib")
    model = hkrr_models[kind]
    steps = ["objective"] if model.estimator.n_iter_ > 1 else []
    learned = ["directions", "curves"] if kind != "constant" else []
    assert panels(model.plot()) == ["importances", *learned, *steps]


@pytest.mark.few
@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("kind", ["regression", "two classes", "no steps", "constant"])
def test_a_report_of_hkrr_holds_the_numbers(hkrr_models, kind, tmp_path):
    model = hkrr_models[kind]
    model.report(tmp_path / "report.html", scores={"accuracy <held out>": 0.987654})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    e = model.estimator
    for name, fact in [
        ("kernel", type(e.kernel_).__name__),
        ("components", len(e.B_)),
        ("centres", len(e.centers_)),
        ("ridge", f"{e.ridge_:.4g}"),
        ("lengthscale", f"{e.lengthscale_:.4g}"),
    ]:
        assert f"<td>{name}</td><td>{fact}</td>" in page
    assert "accuracy &lt;held out&gt;" in page
    assert "profile is the prediction along one learned direction" in page
    assert ("<h2>Tuning</h2>" in page) == bool(model.tuning)
    assert page.count('<tr class="chosen">') == min(1, len(model.tuning))
    assert f"for {model.target_name}" in model.summary()
