"""`gpukfl.fit` with RKHS weightings, its models, and their files."""

import contextlib
import warnings

import numpy as np
import pandas as pd
import pytest
from brief import without_seconds
from interruption import interrupt
from sklearn.exceptions import ConvergenceWarning

import gpukfl
from gpukfl.estimators import _progress
from gpukfl.estimators.weighting._fit import instantiation_text
from gpukfl.instantiations import GaussianSign, Instantiation, RandomKitchenSinks, Stumps
from gpukfl.operators import FeatureOperator

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:y is constant:UserWarning"),
]

N, P = 80, 4
RNG = np.random.default_rng(8)
X = RNG.standard_normal((N, P)) * [1.0, 50.0, 0.01, 1.0]
NAMES = ["width", "height", "age", "größe"]
FRAME = pd.DataFrame(X, columns=NAMES)
Y = np.sin(X[:, 0]) + 0.02 * X[:, 1] + 0.05 * RNG.standard_normal(N)
LABELS = np.where(np.abs(X[:, 3]) > 0.7, "far", "near")


def fit(X, y, **options):
    few = {"n_parameters": 40, "instantiation": Stumps(), **options}
    return gpukfl.fit(X, y, method="rkhs_weighting", **few)


CASES = {
    "regression": (FRAME, pd.Series(Y, name="price"), {"instantiation": "auto"}),
    "two classes": (FRAME, LABELS, {"instantiation": "stumps"}),
    "multiclass": (X, np.searchsorted([-0.5, 0.5], X[:, 0]), {"ridge": 1e-3}),
    "two targets": (X, np.stack([Y, X[:, 3]], axis=1), {"ridge": 1e-3}),
    "one variable": (X[:, :1], Y, {"instantiation": "gaussian_sign"}),
    "lasso": (X, Y, {"learner": "lasso"}),
    "nothing": (X, Y, {"learner": "lasso", "ridge": 1e9}),
    "steps": (X, LABELS, {"learner": "optimal_step", "loss": "logistic", "n_parameters": 10}),
    "gradients": (X, LABELS, {"learner": "sfgd", "loss": "hinge", "n_parameters": 10}),
    "constant": (X, np.full(N, 4.5), {}),
    "pruned": (X, LABELS, {"prune": "error"}),
    "float32": (X.astype("float32"), Y, {"scaling": None}),
    "stumps": (X, Y, {"instantiation": Stumps(0.5, gamma=0.3)}),
    "signs": (X, Y, {"instantiation": GaussianSign(2.0, constant=0.2, constant_of="feature")}),
    "sinks": (X, LABELS, {"instantiation": RandomKitchenSinks(GaussianSign()), "prune": "risk"}),
    "no bias": (X, Y, {"bias": False}),
    "numpy numbers": (X, Y, {"ridge": np.float64(1e-3), "n_parameters": np.int64(20)}),
}


@pytest.fixture(scope="module")
def models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {kind: fit(data, y, **options) for kind, (data, y, options) in CASES.items()}


# ---------------------------------------------------------------------- what is fitted


def test_a_frame_is_fitted(models):
    model = models["regression"]
    assert (model.method, model.task, model.n_samples) == ("rkhs_weighting", "regression", N)
    assert (model.feature_names, model.target_name) == (NAMES, "price")
    assert repr(model) == "Model(rkhs_weighting, regression, 80 rows, 4 columns)"
    assert model.score(FRAME, Y) > 0.9
    assert {name for name, _ in model.most_important(2)} == {"width", "height"}
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    e = model.estimator
    assert e.scaling_.mean.shape == (P,)  # standardised
    assert (e.max_time, e.ridge, e.random_state) == (None, "auto", 0)


def test_classes_and_targets_are_told_apart(models):
    model = models["two classes"]
    assert (model.task, set(model.predict(FRAME))) == ("classification", {"far", "near"})
    np.testing.assert_allclose(model.predict_proba(FRAME).sum(axis=1), 1.0, atol=1e-14)
    assert model.score(FRAME, LABELS) > 0.9
    assert models["multiclass"].predict_proba(X).shape == (N, 3)
    assert models["two targets"].predict(X).shape == (N, 2)


@pytest.mark.parametrize("kind", CASES)
def test_exactly_one_setting_is_chosen(models, kind):
    model = models[kind]
    assert model.tuning == model.estimator.tuning_
    assert sum(trial["chosen"] for trial in model.tuning) == min(1, len(model.tuning))
    given = "ridge" in CASES[kind][2] and CASES[kind][2]["ridge"] != "tune"
    if not given and kind != "constant":
        assert len({trial["ridge"] for trial in model.tuning}) > 1


@pytest.mark.parametrize("ridge", ["auto", "tune"])
def test_the_ridge_is_chosen(models, ridge):
    model = fit(FRAME, Y, instantiation="auto", ridge=ridge)
    assert without_seconds(model.tuning) == without_seconds(models["regression"].tuning)
    (chosen,) = (trial for trial in model.tuning if trial["chosen"])
    assert chosen["ridge"] == pytest.approx(model.estimator.ridge_, rel=1e-12)
    assert chosen["instantiation"] == instantiation_text(model.estimator.instantiation_)


def test_a_ridge_is_taken():
    model = fit(X, Y, ridge=0.0123)
    assert model.estimator.ridge_ == pytest.approx(0.0123, rel=1e-12)
    assert model.tuning == []


# ---------------------------------------------------------------------- time and interruption


@pytest.mark.parametrize("y", [Y, LABELS], ids=["regression", "classes"])
def test_no_time_is_still_a_model(y):
    model = fit(X, y, instantiation="auto", max_time=1e-6)
    assert len({trial["instantiation"] for trial in model.tuning}) == 1
    assert model.score(X, y) > 0
    assert model.estimator.max_time is None


def test_rows_that_were_not_seen_are_told_of():
    with (
        gpukfl.memory_budget(8 * 3 * (P + 1) * 30),
        pytest.warns(ConvergenceWarning, match="max_time was reached.*fitted on .* of 80 rows"),
    ):
        model = fit(X, Y, ridge=1e-2, max_time=1e-6)
    assert model.n_samples < N
    assert "shortened by max_time" in model.summary()


def test_an_interruption_gives_a_model_and_a_warning(monkeypatch):
    interrupt(monkeypatch, FeatureOperator, "evaluate", 40)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = fit(X, Y, instantiation="auto")
    assert "interrupted" in model.summary()
    assert model.score(X, Y) > 0
    assert sum(trial["chosen"] for trial in model.tuning) == 1


def test_progress(monkeypatch, capfd):
    stages = []

    def reporting(_):
        return contextlib.nullcontext(lambda name, k, h: stages.append((name, k, h.objective[-1])))

    with monkeypatch.context() as patched:
        patched.setattr(_progress, "report_progress", reporting)
        fit(X, Y, instantiation="stumps", n_parameters=310)  # more than the search has
        fit(X, Y, learner="sfgd", n_parameters=5)
    names = [stage for stage, _, _ in stages]
    assert sum(name.startswith("tune Stumps") for name in names) == 4
    assert "sums, share of rows" in names
    assert "descent" in names
    assert all(np.isfinite(objective) for _, _, objective in stages)
    fit(X, Y, ridge=1e-3)
    assert capfd.readouterr() == ("", "")  # not a terminal
    fit(X, Y, ridge=1e-3, progress=True)
    out, err = capfd.readouterr()
    assert (out, err != "") == ("", True)


# ---------------------------------------------------------------------- summaries


@pytest.mark.parametrize("kind", CASES)
def test_the_summary_says_what_was_done(models, kind):
    model = models[kind]
    text, e = " ".join(model.summary().split()), model.estimator
    for expected in [
        type(e).__name__,
        "80 rows",
        f"{e.n_parameters_} of {e.n_parameters} parameters",
        type(e.instantiation_).__name__,
        e.learner.replace("_", " "),
        "numpy cpu, by blocks",
    ]:
        assert expected in text
    if model.tuning:
        best = next(trial for trial in model.tuning if trial["chosen"])
        assert f"{best['score']:.3f}"[:-1] in text


# ---------------------------------------------------------------------- files


@pytest.mark.parametrize("kind", ["regression", "two classes", "stumps", "nothing"])
def test_a_loaded_model_is_bounded(models, kind, tmp_path):
    model, (data, y, _) = models[kind], CASES[kind]
    model.save(tmp_path / "model.gpukfl")
    loaded = gpukfl.load(tmp_path / "model.gpukfl").estimator
    assert loaded.bound(data, y) == model.estimator.bound(data, y)


class Steps(Instantiation):
    """A user's own, which no file can name."""

    kappa = 1.0

    def draw(self, count, n_features, rng):
        return rng.standard_normal((count, n_features))

    def kernel(self, U, W):
        return np.exp(-0.5 * np.sum((U[:, None, :] - W[None, :, :]) ** 2, axis=2))

    def base(self, W, X):
        return np.sign(X @ W.T)


def test_a_users_instantiation_is_not_written(tmp_path):
    model = fit(X[:30], Y[:30], instantiation=Steps(), n_parameters=5)
    match = "expected arrays, numbers and text in a model, got Steps at parameters/instantiation"
    with pytest.raises(TypeError, match=match):
        model.save(tmp_path / "model.gpukfl")
    assert not (tmp_path / "model.gpukfl").exists()
