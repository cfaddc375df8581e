"""`gpukfl.fit` with RegFeaL, its models, their files, and the command line."""

import contextlib
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from brief import regfeal
from interruption import interrupt
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge

import gpukfl
from gpukfl import _fit
from gpukfl.cli import main
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
    assert repr(model) == "Model(regfeal, regression, 80 samples, 4 features)"
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


@pytest.mark.parametrize("penalty", ["basic", "tune", "lasso"])
def test_there_is_no_penalty(penalty):
    with pytest.raises(ValueError, match=f"no penalty with method 'regfeal', got '{penalty}'"):
        fit(X, Y, penalty=penalty)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"strength": 0.0}, ValueError, "expected strength to be a number greater than 0"),
        ({"degree_decay": 1.0}, ValueError, "expected degrees of at least 0 and below 1"),
        ({"sparsity_exponent": 2.0}, ValueError, "expected an exponent between 0 and 2"),
        ({"max_degree": 41}, ValueError, "expected largest to be"),
        ({"selection": "all"}, ValueError, "expected selection to be one of"),
        ({"retrain": "mars"}, ValueError, "expected retrain"),
        ({"n_components": 2}, TypeError, "n_components"),
        ({"max_time": 0}, ValueError, "expected max_time"),
    ],
)
def test_bad_options_are_named(options, error, match):
    with pytest.raises(error, match=match):
        fit(X, Y, **options)


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


def test_progress(monkeypatch, capfd):
    stages = []

    def reporting(_):
        return contextlib.nullcontext(lambda name, k, h: stages.append((name, k, h.objective[-1])))

    with monkeypatch.context() as patched:
        patched.setattr(_fit, "progress_to", reporting)
        model = fit(X, Y, strength="auto", retrain=None)
    steps = [k for stage, k, _ in stages if stage == "fit"]
    assert steps == list(range(model.estimator.n_iter_))
    assert any(re.fullmatch(r"tune degree decay 0\.3, strength 0\.1", s) for s, _, _ in stages)
    assert all(np.isfinite(objective) for _, _, objective in stages)
    fit(X, Y, retrain=None)
    assert capfd.readouterr() == ("", "")  # not a terminal


# ---------------------------------------------------------------------- summaries and reports


def test_the_summary_says_what_was_done(models):
    model = models["regression"]
    text, e = " ".join(model.summary().split()), model.estimator
    best = next(trial for trial in model.tuning if trial["chosen"])
    for expected in [
        "RegFeaLRegressor for price",
        "80 samples, 4 features",
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


@pytest.mark.parametrize("kind", ["two classes", "degree", "many", "features"])
def test_a_report_holds_the_numbers(models, kind, tmp_path):
    pytest.importorskip("matplotlib")
    model = models[kind]
    model.report(tmp_path / "report.html", scores={"accuracy <held out>": 0.987654})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    e = model.estimator
    law = DegreeLaw(e.degree_decay_, e.max_degree_).described
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


@pytest.mark.parametrize("kind", CASES)
def test_a_loaded_model_is_the_saved_one(models, kind, tmp_path):
    model, data = models[kind], CASES[kind][0]
    model.save(tmp_path / "model.gpukfl")
    with np.load(tmp_path / "model.gpukfl", allow_pickle=False) as archive:
        arrays = [archive[name] for name in archive.files if name != "header.json"]
        assert all(array.dtype.kind in "fiubU" for array in arrays)
    for twin in (gpukfl.load(tmp_path / "model.gpukfl"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(twin.predict(data), model.predict(data))
        assert twin.predict(data).dtype == model.predict(data).dtype
        np.testing.assert_array_equal(twin.transform(data), model.transform(data))
        if model.task == "classification":
            np.testing.assert_array_equal(twin.predict_proba(data), model.predict_proba(data))
        assert twin.summary() == model.summary()
        e, f = model.estimator, twin.estimator
        for name in ("R_", "eta_", "importances_", "eta_path_", "multi_indices_", "coef_"):
            np.testing.assert_array_equal(getattr(f, name), getattr(e, name))
        assert (f.tuning_, f.history_, f.kernel_) == (e.tuning_, e.history_, e.kernel_)
        np.testing.assert_array_equal(f.profiles()[1], e.profiles()[1])
        assert f.get_params() == e.get_params()


@pytest.mark.parametrize("kind", ["regression", "multiclass", "variables"])
def test_a_loaded_model_can_be_fitted_and_drawn(models, kind, tmp_path):
    model, (data, y, _) = models[kind], CASES[kind]
    model.save(tmp_path / "model.gpukfl")
    loaded = gpukfl.load(tmp_path / "model.gpukfl")
    again = loaded.estimator.fit(data, y)
    np.testing.assert_array_equal(again.predict(data), model.predict(data))
    pytest.importorskip("matplotlib")
    loaded.plot().draw_without_rendering()


def test_a_foreign_regressor_is_pickled_but_not_written(tmp_path):
    model = fit(X, Y, retrain=Ridge())
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))
    with pytest.raises(TypeError, match=r"got Ridge at \w+/retrain"):
        model.save(tmp_path / "model.gpukfl")
    assert not (tmp_path / "model.gpukfl").exists()


# ---------------------------------------------------------------------- the command line


@pytest.fixture
def csv(tmp_path, monkeypatch):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # put back afterwards
    FRAME.assign(price=Y).to_csv(tmp_path / "houses.csv", index=False)
    return str(tmp_path / "houses.csv")


def run(capsys, *arguments):
    status = main([str(argument) for argument in arguments])
    return status, *capsys.readouterr()


def test_a_table_is_fitted_and_predicted_by_the_command_line(capsys, csv, tmp_path):
    path, report = tmp_path / "m.gpukfl", tmp_path / "r.html"
    arguments = ["fit", csv, "--method", "regfeal", "--max-time", 30, "--out", path]
    status, out, err = run(capsys, *arguments, "--report", report)
    assert status == 0
    assert err == "" or "max_time was reached first" in err
    for expected in ["RegFeaLRegressor for price", "64 samples, 4 features", "Hermite features"]:
        assert expected in out
    assert re.search(r"hold-out    R² .* best of \d+ settings", out)
    assert float(out.split("test        R² ")[1].split()[0]) > 0.5
    assert "R² on 16 held-out rows" in report.read_text(encoding="utf-8")
    status, out, _ = run(capsys, "predict", path, csv)
    assert status == 0
    expected = gpukfl.load(path).predict(FRAME)
    np.testing.assert_allclose(np.array(out.splitlines()[1:], dtype=float), expected, rtol=1e-12)


def test_mistakes_on_the_command_line_are_named(capsys, csv):
    for arguments, match in [
        (["--penalty", "basic"], "no penalty with method 'regfeal'"),
        (["--components", 2], "with --method hkrr only"),
        (["--particles", 2], "with --method bkernn only"),
        (["--ridge", -1], "expected ridge to be"),
    ]:
        status, _, err = run(capsys, "fit", csv, "--method", "regfeal", *arguments)
        assert status == 2
        assert err.startswith("gpukfl: ")
        assert match in err
