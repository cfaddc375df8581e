"""`gpukfl.fit` with RegFeaL, its models, and their files."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from brief import regfeal
from interruption import interrupt
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge

import gpukfl
from gpukfl.methods import DegreeLaw, RegFeaL

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:y is constant:UserWarning"),
]

N, P = 80, 4
RNG = np.random.default_rng(8)
X = RNG.standard_normal((N, P)) * [1.0, 50.0, 0.01, 1.0]
NAMES = ["width", "height", "age", "größe"]
FRAME = pd.DataFrame(X, columns=NAMES)
Z = X[:, 0] + 0.02 * X[:, 1]
Y = Z**2 - Z + 0.05 * RNG.standard_normal(N)
LABELS = np.where(np.abs(X[:, 3]) > 0.7, "far", "near")


def fit(X, y, **options):
    few = {"n_random_features": 60, "degree_decay": 0.3, "strength": 0.1, "n_iter": 3, **options}
    return gpukfl.fit(X, y, method="regfeal", **regfeal(**few))


CASES = {
    "regression": (FRAME, pd.Series(Y, name="price"), {"strength": "auto"}),
    "two classes": (FRAME, LABELS, {}),
    "multiclass": (X, np.searchsorted([-0.5, 0.5], X[:, 0]), {"retrain": None}),
    "two targets": (X, np.stack([Y, X[:, 3]], axis=1), {}),
    "one variable": (X[:, :1], Y, {}),
    "variables": (X, Y, {"selection": "variables"}),
    "features": (X, Y, {"retrain": None, "ridge": 1e-6}),
    "degree": (X, Y, {"max_degree": 3, "strength": "auto", "n_iter": 1}),
    "many": (X, Y, {"degree_decay": "auto", "strength": "auto", "n_random_features": 30}),
    "constant": (X, np.full(N, 4.5), {"strength": "auto"}),
    "float32": (X.astype("float32"), Y, {"clip": 3.0}),
    "not standardised": (X / X.std(axis=0), Y, {"scaling": None}),
    "numpy numbers": (X, Y, {"strength": np.float64(0.3), "n_random_features": np.int64(40)}),
}


@pytest.fixture(scope="module")
def models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {kind: fit(data, y, **options) for kind, (data, y, options) in CASES.items()}


# ---------------------------------------------------------------------- what is fitted


def test_a_frame_is_fitted(models):
    model = models["regression"]
    assert (model.method, model.task, model.n_samples) == ("regfeal", "regression", N)
    assert (model.feature_names, model.target_name) == (NAMES, "price")
    assert repr(model) == "Model(regfeal, regression, 80 rows, 4 columns)"
    assert model.score(FRAME, Y) > 0.9
    assert {name for name, _ in model.most_important(2)} == {"width", "height"}
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    e = model.estimator
    assert model.transform(FRAME).shape == (N, e.n_effective_features_)
    assert (e.scaling, e.max_time, e.ridge, e.random_state) == ("auto", None, "auto", 0)


def test_classes_and_targets_are_told_apart(models):
    model = models["two classes"]
    assert (model.task, set(model.predict(FRAME))) == ("classification", {"far", "near"})
    np.testing.assert_allclose(model.predict_proba(FRAME).sum(axis=1), 1.0, atol=1e-12)
    assert model.score(FRAME, LABELS) > 0.85
    assert model.most_important(1)[0][0] == "größe"
    assert models["multiclass"].predict_proba(X).shape == (N, 3)
    assert models["two targets"].predict(X).shape == (N, 2)


@pytest.mark.parametrize("kind", CASES)
def test_exactly_one_setting_is_chosen(models, kind):
    model = models[kind]
    options = CASES[kind][2]
    asked = options.get("strength") == "auto" or options.get("retrain", "kernel_ridge") is not None
    asked = asked and kind != "constant"
    assert model.tuning == model.estimator.tuning_
    assert sum(trial["chosen"] for trial in model.tuning) == asked
    for trial in model.tuning:
        assert set(trial) == {
            *("degree_decay", "max_degree", "strength", "prediction"),
            *("score", "standard_error", "seconds", "chosen"),
        }


def test_decay_and_strength_are_tuned_by_default():
    model = gpukfl.fit(X, Y, method="regfeal", **regfeal(n_random_features=30, n_iter=1))
    chosen = next(trial for trial in model.tuning if trial["chosen"])
    assert chosen["degree_decay"] == model.estimator.degree_decay_
    assert chosen["strength"] == model.estimator.strength_
    assert len({trial["degree_decay"] for trial in model.tuning}) >= 2
    assert len({trial["strength"] for trial in model.tuning}) >= 2


@pytest.mark.parametrize(("ridge", "used"), [("tune", 1e-8), ("auto", 1e-8), (1e-3, 1e-3)])
def test_the_ridge_is_that_of_the_penalty(ridge, used):
    assert fit(X, Y, ridge=ridge, retrain=None).estimator.ridge_ == used


# ---------------------------------------------------------------------- time and interruption


def test_no_time_is_still_a_model():
    with pytest.warns(ConvergenceWarning, match="max_time was reached first"):
        model = fit(X, Y, strength="auto", max_time=1e-6)
    assert model.estimator.status_ == "TIME_LIMIT"
    assert "shortened by max_time" in model.summary()
    assert np.all(np.isfinite(model.predict(X)))


def test_an_interruption_gives_a_model_and_a_warning(monkeypatch):
    interrupt(monkeypatch, RegFeaL, "_regression", 2)
    with pytest.warns(ConvergenceWarning, match="interrupted: the best iterate"):
        model = fit(X, Y)
    assert "interrupted" in model.summary()
    assert model.score(X, Y) > 0
    assert model.estimator.max_time is None


# ---------------------------------------------------------------------- summaries and reports


def test_the_summary_says_what_was_done(models):
    model = models["regression"]
    text, e = " ".join(model.summary().split()), model.estimator
    best = next(trial for trial in model.tuning if trial["chosen"])
    for expected in [
        "RegFeaLRegressor for price",
        "80 rows, 4 columns",
        f"{len(e.multi_indices_)} Hermite features, degree decay 0.3, strength {e.strength_:g}",
        f"prediction by {e._last_text()}",
        "numpy cpu, by blocks",
        f"{e.n_iter_} steps, converged",
        f"R² {best['score']:.3f}",
        f" of {len(model.tuning)} settings",
        "effective direction",
        *("width", "height"),
    ]:
        assert expected in text
    for other, last in [(models["features"], "Hermite"), (fit(X, Y, retrain=Ridge()), "Ridge on")]:
        assert f"prediction by {last}" in " ".join(other.summary().split())


@pytest.mark.few
@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("kind", ["two classes", "degree", "many", "features"])
def test_a_report_holds_the_numbers(models, kind, tmp_path):
    model = models[kind]
    model.report(tmp_path / "report.html", scores={"accuracy <held out>": 0.987654})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    e = model.estimator
    law = DegreeLaw(e.degree_decay_, e.max_degree_).text
    assert law == {"degree": "degree up to 3", "features": "degree decay 0.3"}.get(kind, law)
    for name, fact in [
        ("selection of", "features"),
        ("Hermite features", len(e.multi_indices_)),
        ("law of the tuples", law),
        ("largest degree", int(e.multi_indices_.sum(axis=1).max())),
        ("prediction by", e._last_text()),
    ]:
        assert f"<td>{name}</td><td>{fact}</td>" in page
    assert "accuracy &lt;held out&gt;" in page
    for name, value in model.most_important():
        assert f'<bdi dir="auto">{name}</bdi></td><td>{value:.3f}</td>' in page
    assert ("<h2>Tuning</h2>" in page) == bool(model.tuning)
    assert ("<td>–</td>" in page) == (kind == "many")  # ρ or M
    assert page.count('<tr class="chosen">') == min(1, len(model.tuning))


# ---------------------------------------------------------------------- files


def test_a_foreign_regressor_is_pickled_but_not_written(tmp_path):
    model = fit(X, Y, retrain=Ridge())
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))
    with pytest.raises(TypeError, match=r"got Ridge at \w+/retrain"):
        model.save(tmp_path / "model.gpukfl")
    assert not (tmp_path / "model.gpukfl").exists()
