"""What holds for the models of every method of `gpukfl.fit`."""

import contextlib
import re

import numpy as np
import pytest
from brief import bkernn, hkrr, regfeal
from fit_cases import FRAME, N, X, Y
from pictures import figure_of
from sklearn.base import clone
from toy_method import RidgeClassifier, RidgeRegressor

import gpukfl
from gpukfl import _registry
from gpukfl._registry import MethodInfo
from gpukfl.estimators import _progress

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge:UserWarning"),
]

TOY = MethodInfo(RidgeRegressor, RidgeClassifier)

# Small fits, and how far those on other libraries may be from them
METHODS = {
    "bkernn": (bkernn(n_particles=8, max_iter=4, ridge=0.01), 1e-6),
    "hkrr": (hkrr(n_components=1, n_starts=1, max_iter=3, ridge=1e-3), 1e-2),
    "selection": ({"ridge": 0.01, "sparsity": 0.3}, 1e-6),
    "rkhs_weighting": ({"n_parameters": 40, "instantiation": "stumps", "ridge": 1e-3}, 1e-6),
    "regfeal": (
        regfeal(**{"n_random_features": 60, "degree_decay": 0.3, "strength": 0.1, "retrain": None}),
        1e-6,
    ),
    "toy": ({}, 1e-6),
}
methods = pytest.mark.parametrize("method", METHODS)


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    monkeypatch.setitem(_registry.METHODS, "toy", TOY)


def fit(method, X, y, **options):
    return gpukfl.fit(X, y, method=method, **{**METHODS[method][0], **options})


@methods
def test_torch_stays_torch(method, torch):
    here = torch.asarray(X)
    model, expected = fit(method, here, torch.asarray(Y)), fit(method, X, Y)
    assert isinstance(model.predict(here), torch.Tensor)
    assert isinstance(model.transform(here), torch.Tensor)
    tolerance = METHODS[method][1]
    ours = model.score(here, torch.asarray(Y))
    assert ours == pytest.approx(expected.score(X, Y), abs=tolerance)
    assert model.summary().splitlines()[1] == expected.summary().splitlines()[1]
    pytest.importorskip("matplotlib")
    figure_of(model.plot()).draw_without_rendering()


@methods
def test_a_model_of_torch_is_loaded_for_numpy(method, tmp_path, torch):
    here = torch.asarray(X)
    model = fit(method, here, torch.asarray(Y))
    model.save(tmp_path / "model.gpukfl")
    loaded = gpukfl.load(tmp_path / "model.gpukfl")
    np.testing.assert_allclose(loaded.predict(X), model.predict(here).numpy(), atol=1e-6)
    np.testing.assert_allclose(loaded.transform(X), model.transform(here).numpy(), atol=1e-12)


@pytest.mark.few
@methods
def test_samples_of_no_weight_are_left_out(method):
    weights = np.where(np.arange(N) < 60, 1.0, 0.0)
    model = fit(method, FRAME, Y, sample_weight=weights)
    assert model.n_samples == 60
    expected = fit(method, FRAME[:60], Y[:60])
    np.testing.assert_allclose(model.predict(FRAME), expected.predict(FRAME), atol=1e-6)


@pytest.mark.parametrize("penalty", ["basic", "tune", "lasso"])
@pytest.mark.parametrize("method", [name for name in _registry.METHODS if name != "bkernn"])
def test_only_particles_have_a_penalty(method, penalty):
    with pytest.raises(ValueError, match=f"penalty with method '{method}'"):
        gpukfl.fit(X, Y, method=method, penalty=penalty)


STAGES = {  # of a fit that chooses: options, the last stage, and one of those before
    "hkrr": (hkrr(ridge="tune", max_iter=8), "fit", r"tune 1 components, ridge 1e-\d\d"),
    "selection": ({"ridge": "tune", "sparsity": 0.3}, "selection", r"λ = 0\.1, 1 of 1"),
    "regfeal": ({"strength": "auto"}, "fit", r"tune degree decay 0\.3, strength 0\.1"),
}


@pytest.mark.parametrize("method", STAGES)
def test_progress_is_of_every_step(method, monkeypatch, capfd):
    options, last, before = STAGES[method]
    stages = []

    def reporting(_):
        return contextlib.nullcontext(lambda name, k, h: stages.append((name, k, h.objective[-1])))

    with monkeypatch.context() as patched:
        patched.setattr(_progress, "report_progress", reporting)
        model = fit(method, X, Y, **options)
    steps = [k for stage, k, _ in stages if stage == last]
    assert steps == list(range(model.estimator.n_iter_))
    assert any(re.fullmatch(before, stage) for stage, _, _ in stages)
    assert all(np.isfinite(objective) for _, _, objective in stages)
    fit(method, X, Y)
    assert capfd.readouterr() == ("", "")  # not a terminal
    fit(method, X, Y, progress=True)
    out, err = capfd.readouterr()
    assert (out, err != "") == ("", True)


BAD = [
    ("hkrr", {"n_particles": 8}, TypeError, "n_particles"),
    ("bkernn", {"n_parameters": 2}, TypeError, "n_parameters"),
    ("regfeal", {"strength": 0.0}, ValueError, "expected strength to be a number greater than 0"),
    ("rkhs_weighting", {"instantiation": "trees"}, ValueError, "instantiation to be one of .*'st"),
    ("selection", {"kernel": "rbf"}, ValueError, "one of laplace, gaussian, inverse, got 'rbf'"),
    *((name, {"ridge": -1.0}, ValueError, "expected ridge to be") for name in METHODS),
    *((name, {"max_time": 0}, ValueError, "expected max_time") for name in METHODS),
    *((name, {"n_layers": 2}, TypeError, "n_layers") for name in METHODS),
]


@pytest.mark.parametrize(("method", "options", "error", "match"), BAD)
def test_bad_options_are_named(method, options, error, match):
    with pytest.raises(error, match=match):
        fit(method, X, Y, **options)


@pytest.mark.few
@methods
def test_it_can_be_fitted_again_alike(method):
    model = fit(method, FRAME, Y)
    again = clone(model.estimator).fit(FRAME, Y)
    np.testing.assert_array_equal(again.predict(FRAME), model.predict(FRAME))
