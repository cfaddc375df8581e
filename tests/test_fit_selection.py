"""`gpukfl.fit` with kernel feature selection, its models, and their files."""

import warnings

import numpy as np
import pandas as pd
import pytest
from brief import selection, without_seconds
from fit_cases import Clock
from interruption import interrupt
from pictures import panels
from sklearn.exceptions import ConvergenceWarning

import gpukfl
from gpukfl.kernels import GaussianMixture, ManhattanMixture, RationalQuadratic
from gpukfl.methods import DenseSelection

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:no variable was selected:UserWarning"),
]

N, P = 80, 4
RNG = np.random.default_rng(8)
X = RNG.standard_normal((N, P)) * [1.0, 50.0, 0.01, 1.0]
NAMES = ["width", "height", "age", "größe"]
FRAME = pd.DataFrame(X, columns=NAMES)
Y = X[:, 0] + 0.02 * X[:, 0] * X[:, 1] + 0.05 * RNG.standard_normal(N)
LABELS = np.where(np.abs(X[:, 3]) > 0.7, "far", "near")


def fit(X, y, **options):
    few = selection(**{"ridge": 0.01, "n_permutations": 5, **options})
    return gpukfl.fit(X, y, method="selection", **few)


CASES = {
    "regression": (FRAME, pd.Series(Y, name="price"), {"ridge": "tune"}),
    "path": (X, Y, {"sparsity": "tune", "n_sparsities": 4}),
    "two classes": (FRAME, LABELS, {"n_permutations": 9}),
    "multiclass": (X, np.searchsorted([-0.5, 0.5], X[:, 0]), {"sparsity": 2.0}),
    "two targets": (X, np.stack([Y, X[:, 3]], axis=1), {"hierarchical": False}),
    "one variable": (X[:, :1], Y, {"n_centers": 30}),
    "nothing": (FRAME, Y, {"sparsity": 1e9}),
    "no class": (X, LABELS, {"sparsity": 1e9}),
    "constant": (X, np.full(N, 4.5), {"ridge": "tune"}),
    "stable": (X, Y, {"n_subsamples": 4, "sparsity": 0.3}),
    "float32": (X.astype("float32"), Y, {"scaling": None, "kernel": "inverse"}),
    "gaussian": (X, Y, {"kernel": "gaussian", "sparsity": 1.0}),
    "mixture": (X, Y, {"kernel": ManhattanMixture(rates=(0.3, 3.0))}),
    "squared mixture": (X, Y, {"kernel": GaussianMixture(), "sparsity": 0.5}),
    "kernel value": (X, Y, {"kernel": RationalQuadratic(mixture=2.0), "anchor": 0.7}),
    "numpy numbers": (X, Y, {"sparsity": np.float64(0.3), "n_centers": np.int64(40)}),
}


@pytest.fixture(scope="module")
def models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {kind: fit(data, y, **options) for kind, (data, y, options) in CASES.items()}


# ---------------------------------------------------------------------- what is fitted


def test_a_frame_is_selected_from(models):
    model = models["regression"]
    assert (model.method, model.task, model.n_samples) == ("selection", "regression", N)
    assert (model.feature_names, model.target_name) == (NAMES, "price")
    assert repr(model) == "Model(selection, regression, 80 rows, 4 columns)"
    assert list(model.estimator.get_feature_names_out()) == ["width", "height"]
    np.testing.assert_array_equal(model.transform(FRAME), X[:, :2])
    assert model.score(FRAME, Y) > 0.95
    assert {name for name, _ in model.most_important(2)} == {"width", "height"}
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    e = model.estimator
    assert e.scaling_.mean.shape == (P,)  # standardised
    assert (e.max_time, e.ridge, e.random_state) == (None, "auto", 0)


def test_classes_and_targets_are_told_apart(models):
    model = models["two classes"]
    assert (model.task, set(model.predict(FRAME))) == ("classification", {"far", "near"})
    np.testing.assert_allclose(model.predict_proba(FRAME).sum(axis=1), 1.0, atol=1e-14)
    assert model.score(FRAME, LABELS) > 0.95
    assert model.estimator.get_support(indices=True).tolist() == [3]
    assert models["multiclass"].predict_proba(X).shape == (N, 3)
    assert models["two targets"].predict(X).shape == (N, 2)


@pytest.mark.parametrize("ridge", ["auto", "tune"])
def test_the_ridge_is_chosen(models, ridge):
    model = fit(FRAME, Y, ridge=ridge)
    assert model.tuning == model.estimator.tuning_
    assert without_seconds(model.tuning) == without_seconds(models["regression"].tuning)
    assert sum(trial["chosen"] for trial in model.tuning) == 1
    assert len({trial["ridge"] for trial in model.tuning}) >= 2
    assert {trial["sparsity"] for trial in model.tuning} == {"auto"}


def test_a_ridge_is_taken():
    model = fit(X, Y, ridge=0.0123)
    assert (model.estimator.ridge_, model.tuning) == (0.0123, [])


# ---------------------------------------------------------------------- time and interruption


def test_no_time_is_still_a_model():
    with pytest.warns(ConvergenceWarning, match="max_time was reached first"):
        model = fit(X, Y, ridge="tune", sparsity="tune", max_time=1e-6)
    assert model.estimator.status_ == "TIME_LIMIT"
    assert len(model.tuning) == 2
    assert "shortened by max_time" in model.summary()
    assert np.all(np.isfinite(model.predict(X)))


def test_it_keeps_to_its_time(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("time.perf_counter", Clock(0.01))
        options = {"ridge": "tune", "sparsity": "tune", "n_sparsities": 6}
        unlimited, limited = (fit(X, Y, max_time=k, **options) for k in (None, 2.0))
    assert unlimited.seconds > 6.0
    assert limited.seconds < 4.0
    assert 1 < len(limited.tuning) < len(unlimited.tuning)


@pytest.mark.parametrize("options", [{}, {"ridge": "tune"}], ids=str)
def test_an_interruption_gives_a_model_and_a_warning(monkeypatch, options):
    after = 160 if options else 5
    interrupt(monkeypatch, DenseSelection, "gradient", after)
    with pytest.warns(ConvergenceWarning, match="interrupted: the best iterate"):
        model = fit(X, Y, sparsity=0.3, **options)
    assert "interrupted" in model.summary()
    assert model.score(X, Y) > 0
    assert model.estimator.max_time is None


# ---------------------------------------------------------------------- summaries and pictures


def test_the_summary_says_what_was_done(models):
    model = models["regression"]
    text, e = model.summary(), model.estimator
    best = next(trial for trial in model.tuning if trial["chosen"])
    for expected in [
        "KernelFeatureSelector for price",
        "80 rows, 4 columns",
        f"2 of 4 variables in 2 rounds, then {type(e.kernel_).__name__} kernel",
        "numpy cpu, by blocks",
        f"{e.n_iter_} steps, converged",
        f"R² {best['score']:.3f}"[:-1],
        f" of {len(model.tuning)} settings",
        "2 selected variables",
        *("width", "height"),
    ]:
        assert expected in text
    assert "1 of 4 variables in 1 round, then" in models["two classes"].summary()
    assert "1 selected variable\n" in models["one variable"].summary()
    assert "0 of 4 variables in 0 rounds, then the mean" in models["nothing"].summary()


@pytest.mark.few
@pytest.mark.parametrize("kind", ["regression", "path", "one variable", "nothing", "constant"])
def test_every_model_is_drawn(models, kind):
    pytest.importorskip("matplotlib")
    model = models[kind]
    e = model.estimator
    there = {
        "importances": True,
        "curves": e.get_support().any(),
        "objective": e.n_iter_ > 1,
        "rounds": kind != "constant",
        "path": kind == "path",
    }
    assert panels(model.plot()) == [name for name, drawn in there.items() if drawn]


@pytest.mark.few
@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("kind", ["regression", "path", "two classes", "nothing", "constant"])
def test_a_report_holds_the_numbers(models, kind, tmp_path):
    model = models[kind]
    model.report(tmp_path / "report.html", scores={"accuracy <held out>": 0.987654})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    e = model.estimator
    selected = int(e.get_support().sum())
    found = [len(one["entered"]) for one in e.rounds_ if one["entered"]]
    for name, fact in [
        ("selection by", "ManhattanLaplace"),
        ("selected", f"{selected} of {P} variables"),
        ("variables by round", ", ".join(map(str, found)) or "none"),
        ("thresholds γ", ", ".join(f"{one['sparsity']:.3g}" for one in e.rounds_) or "none"),
        ("ridge λ", f"{e.ridge_:.3g}"),
        ("prediction by", type(e.kernel_).__name__ if selected else "the mean"),
        ("steps", f"{e.n_iter_} (converged)"),
    ]:
        assert f"<td>{name}</td><td>{fact}</td>" in page
    assert "accuracy &lt;held out&gt;" in page
    assert f"<b>{selected}</b><small>selected variable{'s' if selected != 1 else ''}<" in page
    assert "enters in the first round in which its score stays above the threshold" in page
    for name, value in model.most_important():
        assert f'<bdi dir="auto">{name}</bdi></td><td>{value:.3f}</td>' in page
    assert ("<h2>Tuning</h2>" in page) == bool(model.tuning)
    assert page.count('<tr class="chosen">') == min(1, len(model.tuning))
    for trial in model.tuning:
        assert f"<td>{trial['n_selected']:.3g}</td><td>{trial['score']:.4f}"[:-2] in page
