"""HKRR by evidence of sums of kernels, each term with its own scaling of the features."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel, Matern, WhiteKernel

import gpukfl
from gpukfl import HKRRClassifier, HKRRRegressor, KernelRidgeRegressor
from gpukfl.estimators.scaling import QuantileScaling, ScalingPerTerm, StandardScaling
from gpukfl.inference import bands, subspace
from gpukfl.kernels import Matern32, Matern52, sum_terms

SUM = Matern52() + 0.2 * Matern32(0.3)
BOTH = ("standard", "quantile")
N, D = 110, 3
RNG = np.random.default_rng(31)
X, NEW = RNG.lognormal(size=(N, D)), RNG.lognormal(size=(30, D))


def truth(rows):
    return np.sin(2.0 * np.log(rows[:, 0])) + 0.3 * rows[:, 1]


Y = truth(X) + 0.1 * RNG.standard_normal(N)
LABELS = np.array(["low", "mid", "high"])[np.searchsorted([-0.3, 0.9], truth(X))]


def regressor(**options):
    options = {"kernel": SUM, "scaling": BOTH, "random_state": 0, **options}
    return HKRRRegressor(criterion="evidence", **options)


@pytest.fixture(scope="module")
def model():
    return regressor().fit(X, Y)


class OfColumns(Kernel):
    """A kernel of scikit-learn of some columns."""

    def __init__(self, kernel, start, stop):
        self.kernel, self.start, self.stop = kernel, start, stop

    def __call__(self, X, Y=None, eval_gradient=False):
        assert not eval_gradient
        some = slice(self.start, self.stop)
        return self.kernel(X[:, some], None if Y is None else Y[:, some])

    def diag(self, X):
        return self.kernel.diag(X[:, self.start : self.stop])

    def is_stationary(self):
        return False


# ---------------------------------------------------------------------- what is learned


@pytest.mark.parametrize("n_targets", [1, 2])
def test_a_fit_is_scikit_learns_process_of_the_scaled_columns(n_targets):
    targets = np.stack([Y, np.cos(Y)], axis=1)[:, :n_targets]
    model = regressor().fit(X, targets)
    standard, quantile = model.scaling_.parts
    assert isinstance(standard, StandardScaling)
    assert isinstance(quantile, QuantileScaling)
    wide, new = (np.hstack([standard(rows), quantile(rows)]) for rows in (X, NEW))
    np.testing.assert_array_equal(model.scaling_(X), wide)
    found, std = model.predict(NEW, return_std=True)
    for c in range(n_targets):
        kernel = WhiteKernel(model.noise_[c] ** 2)
        for k, one in enumerate(sum_terms(model.kernel_)):
            inner, some = one.kernel.kernel, slice(k * D, (k + 1) * D)
            own = Matern(inner.lengthscale / model.map_[some], nu=(2.5, 1.5)[k])
            scaled = ConstantKernel(model.amplitude_[c] ** 2 * one.factor) * own
            kernel = kernel + OfColumns(scaled, some.start, some.stop)
        gp = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None)
        gp.fit(wide, targets[:, c] - model.intercept_[c])
        mean, deviation = gp.predict(new, return_std=True)
        inside = np.abs(mean) < model.bound_[c]
        assert inside.sum() > 20
        expected = (model.intercept_[c] + mean)[inside]
        np.testing.assert_allclose(found.reshape(30, -1)[inside, c], expected, atol=1e-6)
        np.testing.assert_allclose(std.reshape(30, -1)[inside, c], deviation[inside], rtol=1e-5)


def test_one_scaling_given_for_each_term_is_that_of_all():
    once = regressor(scaling="quantile", structure="diagonals").fit(X, Y)
    twice = regressor(scaling=("quantile", "quantile")).fit(X, Y)
    np.testing.assert_allclose(twice.predict(NEW), once.predict(NEW), atol=1e-5)
    assert twice.evidence_ == pytest.approx(once.evidence_, rel=1e-6)
    lengths = [model.B_ / model.lengthscale_ for model in (once, twice)]
    np.testing.assert_allclose(lengths[1], lengths[0], rtol=1e-3, atol=1e-6)
    for name in ("feature_importances_", "components_"):
        np.testing.assert_allclose(getattr(twice, name), getattr(once, name), atol=1e-4)
    np.testing.assert_allclose(twice.transform(NEW), once.transform(NEW), atol=1e-3)
    for one, other in zip(once.profiles(), twice.profiles(), strict=True):
        np.testing.assert_allclose(other, one, atol=1e-3)


def test_what_is_learned_is_of_the_features(model):
    assert model.score(NEW, truth(NEW)) > 0.8
    assert model.map_.shape == (2 * D,)
    assert model.centers_.shape == (N, 2 * D)
    assert model.B_.shape == (2 * D, D)
    assert model.feature_matrix_.shape == (D, D)
    np.testing.assert_allclose(model.feature_matrix_, model.B_.T @ model.B_)
    assert model.components_.shape[1] == len(model.feature_importances_) == D
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert model.feature_importances_[2] < 0.1
    assert model.transform(NEW).shape == (30, model.n_effective_features_)
    steps, values = model.profiles(points=7)
    assert steps.shape == values.shape[:2] == (model.n_effective_features_, 7)


def test_importances_are_those_of_difference_quotients(model):
    """All scalings of a feature move alike."""
    function, at, step = model.predictor_.values, model.scaling_(X), 1e-5

    def value(rows):
        return function.evaluate(rows)[:, 0] - function.intercept

    slopes = []
    for j in range(D):
        move = np.zeros(2 * D)
        move[[j, D + j]] = step
        slopes.append((value(at + move) - value(at - move)) / (2 * step))
    cut = np.abs(value(at)) < model.bound_ - 1e-6
    sizes = np.sqrt(np.mean(np.square(slopes)[:, cut], axis=1))
    np.testing.assert_allclose(model.feature_importances_, sizes / sizes.sum(), atol=0.02)


# ---------------------------------------------------------------------- where it works


@pytest.mark.parametrize("criterion", ["loo", "logistic"])
def test_other_criteria(criterion):
    options = {"kernel": SUM, "scaling": ("robust", "quantile"), "random_state": 0}
    found = HKRRClassifier(criterion=criterion, structure="diagonals", **options)
    found.fit(X[:60], LABELS[:60])
    assert found.score(X, LABELS) > 0.7
    np.testing.assert_allclose(found.predict_proba(NEW).sum(axis=1), 1.0)
    assert found.feature_importances_.shape == (D,)


@pytest.mark.parametrize("n_centers", ["auto", 30])
def test_weights_are_copies(n_centers):
    weights = np.where(np.arange(N) < 40, 2.0, 1.0)
    weighted = regressor(n_centers=n_centers).fit(X, Y, sample_weight=weights)
    assert np.isfinite(weighted.predict(NEW, return_std=True)).all()
    if n_centers == "auto":
        copied = regressor().fit(np.vstack([X, X[:40]]), np.append(Y, Y[:40]))
        assert copied.evidence_ == pytest.approx(weighted.evidence_, rel=1e-5)


def test_small_data(rng):
    for n in (2, 3, 6):
        rows, y = rng.standard_normal((n, 4)), rng.standard_normal(n)
        small = regressor().fit(rows, y)
        assert np.isfinite(small.predict(3.0 * rows)).all()
    with pytest.warns(UserWarning, match="y is constant"):
        constant = regressor().fit(X, np.ones(N))
    np.testing.assert_allclose(constant.predict(NEW), 1.0)
    assert not constant.feature_importances_.any()


def test_every_place_agrees(on, model):
    if on.dtype_name == "float64" and on.package == "numpy":
        pytest.skip("the place that others are compared with")
    there = regressor(backend="auto").fit(on.put(X), on.put(Y))
    on.assert_lives_here(there.predict(on.put(NEW)))
    on.assert_lives_here(there.transform(on.put(NEW)))
    exact = on.dtype_name == "float64"
    found = on.host(there.predict(on.put(NEW)))
    np.testing.assert_allclose(found, model.predict(NEW), atol=1e-4 if exact else 0.05)
    importances = on.host(there.feature_importances_)
    np.testing.assert_allclose(importances, model.feature_importances_, atol=0.01)


def test_a_fit_to_similar_rows_goes_on_from_what_is_known():
    first, second = regressor(), regressor()
    precedent = first.fit_like(X[:90], Y[:90], None, None)
    second.fit_like(X[20:], Y[20:], None, precedent)
    alone = regressor().fit(X[20:], Y[20:])
    assert second.evidence_ == pytest.approx(alone.evidence_, abs=5.0)


def test_files_graphs_and_pickles_predict_alike(tmp_path):
    found = gpukfl.fit(X, Y, method="hkrr", criterion="evidence", kernel=SUM, scaling=BOTH)
    expected = found.predict(NEW)
    found.save(tmp_path / "model.gpukfl")
    read = gpukfl.load(tmp_path / "model.gpukfl")
    np.testing.assert_array_equal(read.predict(NEW), expected)
    assert isinstance(read.estimator.scaling_, ScalingPerTerm)
    np.testing.assert_allclose(
        gpukfl.runtime.load(tmp_path / "model.gpukfl").predict(NEW), expected, rtol=1e-9
    )
    again = clone(read.estimator).fit(X, Y)  # whose scaling is a list
    np.testing.assert_allclose(again.predict(NEW), expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).predict(NEW), expected)
    text = found.estimator.describe()
    assert "diagonal for each term" in text.facts["map"]
    assert "mean of the scalings" in text.units
    smaller = found.compress(0.05, X, Y)
    assert len(smaller.estimator.centers_) < N
    assert smaller.score(X, Y) > found.score(X, Y) - 0.2


def test_a_graph_predicts_alike(model, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    model.to_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"))
    (given,) = session.get_inputs()
    found = session.run(None, {given.name: NEW})[0]
    np.testing.assert_allclose(np.ravel(found), model.predict(NEW), atol=1e-9)


def test_members_of_a_blend():
    given = {"criterion": "evidence", "kernel": SUM, "structure": "diagonals", "random_state": 0}
    one, several = HKRRRegressor(**given), HKRRRegressor(**given, scaling=list(BOTH))
    options = {"n_folds": 2, "progress": False, "random_state": 0}
    found = gpukfl.fit(X, Y, members=[("one", one), ("several", several)], **options)
    assert {row["member"] for row in found.tuning} >= {"one", "several"}
    assert found.score(NEW, truth(NEW)) > 0.8


def test_inference_is_of_the_features(model):
    found = bands(model, X, Y, features=[0], kind="partial_dependence", random_state=0)
    assert len(found) == 1
    directions = subspace(model, X, Y, n_folds=2, max_directions=1, random_state=0)
    assert directions.directions.shape[1] == D


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"scaling": ("standard",)}, "expected 2 scalings, one for each term"),
        ({"scaling": ("standard",) * 3}, "expected 2 scalings, one for each term"),
        ({"scaling": ()}, "expected a scaling, or one for each term"),
        ({"scaling": ("standard", "ranks")}, "expected scaling to be"),
        ({"scaling": ("standard", None)}, "expected scaling to be"),
        ({"structure": "diagonal"}, "expected one scaling, got"),
        ({"n_components": 2}, "expected one scaling, got"),
        ({"criterion": "hold_out"}, "expected one scaling, got"),
        ({"kernel": "matern52"}, "expected kernel to be a sum"),
    ],
)
def test_bad_scalings(options, told):
    with pytest.raises(ValueError, match=told):
        regressor().set_params(**options).fit(X, Y)


def test_other_methods_have_one_scaling():
    with pytest.raises(ValueError, match="expected scaling to be"):
        KernelRidgeRegressor(scaling=BOTH).fit(X, Y)


def test_parameters_are_kept(model):
    assert clone(model).get_params()["scaling"] == BOTH
    assert "'quantile'" in repr(regressor())
    assert "HKRRRegressor" in regressor()._repr_html_()
