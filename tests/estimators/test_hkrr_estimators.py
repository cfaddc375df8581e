"""HKRR estimators: what they learn, every place, weights, odd data, copies."""

import functools
import math
import pickle
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from brief import hkrr
from hkrr_cases import (
    DIRECTION,
    LABELS,
    NEW,
    OPTIMIZERS,
    TWO,
    Y2,
    Y_NEW,
    D,
    N,
    X,
    Y,
    classifier,
    formula,
    regressor,
    solved,
)
from near_copies import near_copies
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpukfl import HKRRRegressor, feature_score
from gpukfl.estimators.hkrr import Centers
from gpukfl.estimators.hkrr import _data as _hkrr_problem
from gpukfl.kernels import KERNELS, Gaussian, Linear
from gpukfl.predictor import KernelSum, Predictor

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge of the last fit:UserWarning"),
]


def test_predictions_stay_in_the_range_of_the_targets():
    steep = regressor(ridge=1e-9, refit_centers=None, max_iter=3).fit(X, Y)
    far = steep.predict(X[:1] + 0.3 * np.arange(-20, 21)[:, None])
    assert np.abs(far - Y.mean()).max() <= np.abs(Y - Y.mean()).max() * (1 + 1e-12)
    np.testing.assert_allclose(steep.bound_, np.abs(Y - Y.mean()).max())


# ---------------------------------------------------------------------- what is learned


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_it_learns_the_direction(optimizer):
    model = regressor(optimizer=optimizer, max_iter=60).fit(X, Y)
    assert feature_score(DIRECTION, model.B_.T) > 0.99
    assert model.score(NEW, Y_NEW) > 0.99
    importances = model.feature_importances_
    assert importances[:2].sum() > 0.9
    assert importances.sum() == pytest.approx(1.0)
    assert importances[0] > importances[1] > importances[2:].max()
    objective = model.history_.objective
    assert np.all(np.diff(objective) <= 0)
    lengths = {len(getattr(model.history_, n)) for n in ("objective", "step", "seconds")}
    assert lengths == {model.n_iter_}


def test_it_learns_the_direction_of_classes():
    model = classifier(ridge=1e-4).fit(X, LABELS)
    assert feature_score(DIRECTION, model.B_.T) > 0.95
    assert model.score(X, LABELS) > 0.95


def test_it_learns_one_map_for_two_targets():
    model = regressor().fit(X, Y2)
    assert feature_score(DIRECTION, model.B_.T) > 0.99
    np.testing.assert_allclose(model.predict(NEW)[:, 0], Y_NEW, atol=0.05)


@pytest.mark.parametrize("refit", [None, "all", 50])
@pytest.mark.parametrize("y", [Y, Y2], ids=["one target", "two targets"])
def test_predictions_are_the_dense_formula(y, refit):
    model = regressor(refit_centers=refit, n_centers=40, ridge=1e-3, max_iter=10).fit(X, y)
    assert model.centers_.shape == ({None: 40, "all": N, 50: 50}[refit], D)
    predicted = model.predict(NEW).reshape(40, -1)
    scale = np.abs(model.dual_coef_).max()
    np.testing.assert_allclose(predicted, formula(model, NEW), atol=1e-13 * scale + 1e-12)
    assert all(np.any(np.all(center == X, axis=1)) for center in model.centers_)
    if model.ridge_ > 1e-7:  # smaller ones are lost in the jitter
        expected = solved(model, X, y.reshape(N, -1), NEW)
        np.testing.assert_allclose(predicted, expected, atol=2e-4)


def test_the_map_is_in_the_unit_ball():
    for options in ({}, {"lengthscale": 0.7}, {"optimizer": "varpro", "lengthscale": 0.2}):
        model = regressor(n_components=3, max_iter=10, **options).fit(X, TWO)
        assert np.linalg.norm(model.B_, 2) <= 1 + 1e-12


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_fixed_lengthscale_is_kept(optimizer):
    model = regressor(max_iter=10, lengthscale=0.37, optimizer=optimizer).fit(X, Y)
    assert model.lengthscale_ == pytest.approx(0.37, rel=1e-12)
    assert model.kernel_ == Gaussian(model.lengthscale_)


def test_a_learned_lengthscale_moves():
    start, end = (regressor(max_iter=k, refit_centers=None).fit(X, Y) for k in (0, 30))
    assert abs(np.log(end.lengthscale_ / start.lengthscale_)) > 0.1


def test_a_given_ridge_is_that_of_the_map_and_without_a_refit_of_the_model():
    assert regressor(ridge=0.0123, refit_centers=None).fit(X, Y).ridge_ == 0.0123
    assert regressor(ridge=0.0123).fit(X, Y).ridge_ < 0.0123  # the last fit is tuned anew


def test_directions_are_orthonormal_and_named():
    model = regressor(n_components=3, ridge=1e-4).fit(X, TWO)
    components = model.components_
    k = model.n_effective_features_
    assert components.shape == (k, D)
    np.testing.assert_allclose(components @ components.T, np.eye(k), atol=1e-12)
    np.testing.assert_allclose(model.transform(NEW), NEW @ components.T, atol=1e-12)
    np.testing.assert_allclose(model.feature_matrix_, model.B_.T @ model.B_, atol=1e-14)
    assert list(model.get_feature_names_out()) == [f"hkrrregressor{j}" for j in range(k)]
    frame = model.set_output(transform="pandas").transform(pd.DataFrame(NEW))
    assert list(frame.columns) == list(model.get_feature_names_out())


@pytest.mark.few
@pytest.mark.parametrize("options", [{"n_components": 3}, {"criterion": "evidence"}])
@pytest.mark.parametrize("weighted", [False, True])
def test_importances_and_directions_are_those_of_finite_differences(options, weighted):
    weights = np.random.default_rng(1).integers(0, 3, N).astype(float) if weighted else None
    model = HKRRRegressor(scaling="standard", random_state=0, **options)
    model.fit(X, Y2, sample_weight=weights)
    model.bound_ = 10 * model.bound_  # of a truncated prediction the slope is 0
    gradients = []
    for k in range(D):
        shift = 1e-5 * model.scaling_.scale[k] * np.eye(D)[k]  # of a standardised feature
        gradients.append((model.predict(X + shift) - model.predict(X - shift)) / 2e-5)
    w = np.ones(N) if weights is None else weights
    spread = np.sqrt(np.average((Y2 - np.average(Y2, axis=0, weights=w)) ** 2, axis=0, weights=w))
    g = np.stack(gradients, axis=1) / spread  # of targets on one scale
    products = np.einsum("n,nkt,nlt->kl", w / w.sum(), g, g)
    roots = np.sqrt(np.diag(products))
    np.testing.assert_allclose(model.feature_importances_, roots / roots.sum(), atol=1e-5)
    values, vectors = np.linalg.eigh(products)
    values = np.sqrt(np.clip(values[::-1], 0.0, None))
    count = np.sum(values >= values.mean())
    assert model.n_effective_features_ == count
    assert feature_score(vectors[:, -count:], model.components_.T) > 1 - 1e-6


@pytest.mark.few
@pytest.mark.parametrize(
    "options", [{}, {"criterion": "evidence"}, {"criterion": "loo"}, {"optimizer": "agop"}]
)
def test_what_hardly_a_row_tells_of_is_not_important(options):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 4))
    y = np.sin(2 * rows[:, 0]) + 0.5 * rows[:, 1] + 0.3 * rng.standard_normal(300)
    flag = np.zeros(300)
    flag[[17, 170]] = 1.0
    model = HKRRRegressor(random_state=0, **options).fit(np.column_stack([rows, flag]), y)
    assert model.feature_importances_[4] < 0.1
    assert set(np.argsort(model.feature_importances_)[-2:]) == {0, 1}


def test_the_learned_directions_hold_what_is_predicted():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 8))
    y = rows[:, :4] @ [1.0, 0.7, 0.5, 0.3] + np.sin(2 * rows[:, 0])
    model = HKRRRegressor(criterion="evidence", random_state=0).fit(rows[:300], y[:300])
    again = HKRRRegressor(criterion="evidence", random_state=0)
    again.fit(model.transform(rows[:300]), y[:300])
    assert again.score(model.transform(rows[300:]), y[300:]) > 0.99


@pytest.mark.few
@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_is_fitted(name):
    model = regressor(kernel=name, max_iter=15, ridge=1e-4).fit(X, Y)
    assert type(model.kernel_) is KERNELS[name]
    assert np.all(np.isfinite(model.predict(NEW)))
    assert feature_score(DIRECTION, model.B_.T) > (0.6 if name == "linear" else 0.9)
    assert model.score(NEW, Y_NEW) > (0.0 if name == "linear" else 0.9)


def test_a_sum_of_kernels_is_fitted():
    kernel = Gaussian() + 0.1 * Linear()
    model = regressor(kernel=kernel, max_iter=15).fit(X, Y + 2 * (X @ DIRECTION)[:, 0])
    assert model.kernel_ == kernel.stretched(model.lengthscale_)
    assert feature_score(DIRECTION, model.B_.T) > 0.99


# ---------------------------------------------------------------------- every place


def few_steps(optimizer):
    return regressor(optimizer=optimizer, max_iter=4, ridge=1e-3, refit_centers=None)


@functools.cache
def fitted_in_float64(dtype, optimizer):
    """Of the data that a precision holds."""
    return few_steps(optimizer).fit(*(one.astype(dtype).astype(np.float64) for one in (X, Y2)))


@pytest.mark.each
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_place_finds_the_same_function(on, optimizer):
    model = few_steps(optimizer).fit(on.put(X), on.put(Y2))
    expected = fitted_in_float64(on.dtype_name, optimizer)
    k = model.n_effective_features_
    learned = {
        (40, 2): model.predict(on.put(NEW)),
        (40, k): model.transform(on.put(NEW)),
        (1, D): model.B_,
        (N, D): model.centers_,
        (2,): model.intercept_,
        (D,): model.feature_importances_,
        (D, D): model.feature_matrix_,
        (k, D): model.components_,
    }
    for shape, array in learned.items():
        on.assert_lives_here(array)
        assert tuple(array.shape) == shape
    assert (type(model.dual_coef_), model.dual_coef_.shape) == (type(model.B_), (N, 2))
    tolerance = {"float32": 5e-2, "float64": 1e-3}[on.dtype_name]
    gap = on.host(model.predict(on.put(NEW))) - expected.predict(on.rounded(NEW))
    assert np.sqrt(np.mean(gap**2, axis=0)).max() < tolerance
    sign = np.sign(np.sum(on.host(model.B_) * expected.B_))
    np.testing.assert_allclose(sign * on.host(model.B_), expected.B_, atol=tolerance)


def test_float32_predicts_a_row_as_among_others(on):
    """Coefficients of small ridges magnify what a kernel in float32 is rounded by."""
    rng = np.random.default_rng(8)
    rows = rng.standard_normal((100, 4))
    y = np.sin(2 * rows[:, 0]) + rows[:, 1] * rows[:, 2] + 0.1 * rng.standard_normal(100)
    model = HKRRRegressor(random_state=0).fit(on.put(rows), on.put(y))
    together = on.host(model.predict(on.put(rows)))
    alone = [on.host(model.predict(on.put(rows[k : k + 1]))) for k in range(10)]
    np.testing.assert_allclose(
        np.concatenate(alone), together[:10], rtol=0, atol=16 * on.eps + 1e-9
    )


def test_tuning_on_every_place(on):
    options = {"ridge": "auto", "n_components": 1, "n_starts": 1, "max_iter": 2}
    model = regressor(**options).fit(on.put(X), on.put(Y))
    assert sum(trial["chosen"] for trial in model.tuning_) == 1
    assert model.score(on.put(NEW), on.put(Y_NEW)) > 0.9


def test_classes_on_every_place(on):
    model = classifier(ridge=1e-4, max_iter=3).fit(on.put(X), LABELS)
    proba = model.predict_proba(on.put(NEW))
    on.assert_lives_here(proba)
    proba = on.host(proba).astype(np.float64)
    assert proba.shape == (40, 3)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=8 * on.eps)
    predicted = model.predict(on.put(NEW))
    np.testing.assert_array_equal(predicted, model.classes_[np.argmax(proba, axis=1)])
    assert model.score(on.put(X), LABELS) > 0.9


def test_inputs_are_left_unchanged(on):
    data, targets = on.put(X), on.put(Y)
    model = regressor(scaling="standard", max_iter=3).fit(data, targets)
    model.predict(data)
    model.transform(data)
    np.testing.assert_array_equal(on.host(data), on.rounded(X))
    np.testing.assert_array_equal(on.host(targets), on.rounded(Y))


@pytest.mark.parametrize(("data", "asked"), [("float64", "float32"), ("float32", "float64")])
def test_dtype_sets_the_precision_inside_and_the_data_outside(data, asked):
    model = regressor(dtype=asked).fit(X.astype(data), Y)
    assert model.B_.dtype == asked
    assert model.dual_coef_.dtype == np.float64
    assert model.predict(NEW.astype(data)).dtype == data
    assert model.score(NEW.astype(data), Y_NEW) > 0.99


@pytest.mark.usefixtures("torch")
def test_another_backend_gives_back_the_library_of_the_data():
    model = regressor(backend="torch", max_iter=5).fit(X, Y)
    assert model.place_.startswith("torch")
    assert type(model.predict(NEW)) is type(model.B_) is np.ndarray
    expected = regressor(max_iter=5).fit(X, Y).predict(NEW)
    np.testing.assert_allclose(model.predict(NEW), expected, atol=1e-4)


def test_a_memory_map_is_its_array(tmp_path):
    X.astype("float32").tofile(tmp_path / "X.dat")
    on_disk = np.memmap(tmp_path / "X.dat", dtype="float32", mode="r", shape=X.shape)
    model = regressor(scaling="standard", n_centers=50, max_iter=5).fit(on_disk, Y)
    expected = regressor(scaling="standard", n_centers=50, max_iter=5).fit(np.array(on_disk), Y)
    np.testing.assert_array_equal(model.predict(on_disk), expected.predict(np.array(on_disk)))
    np.testing.assert_array_equal(model.transform(on_disk), expected.transform(np.array(on_disk)))


# ---------------------------------------------------------------------- weights

# All samples are centres, ridge and dimension fixed, map and lengthscale given: nothing is drawn
FIXED = [
    {"max_iter": 0, "refit_centers": None},
    {"max_iter": 2, "refit_centers": None},
    {"max_iter": 0, "refit_centers": "all"},
    {"max_iter": 2, "refit_centers": "all"},
    # The jitter of a smooth kernel's matrix decides much of the α that VarPro holds while it steps
    {"max_iter": 2, "refit_centers": None, "kernel": "laplace", "optimizer": "varpro"},
    {"max_iter": 2, "refit_centers": None, "scaling": "standard"},
]


def from_a_map(make, samples, y, weights=None, **options):
    """Fit from a map and a lengthscale that are given, with every sample a centre."""
    model = make(ridge=1e-3, warm_start=True, n_components=2, lengthscale=1.0, **options)
    B = np.array([[0.9, -0.3, 0.1, 0.0, 0.2], [0.1, 0.2, -0.3, 0.2, 0.0]])
    start = KernelSum(intercept=np.zeros(1), kernel=Gaussian(), centers=None, coef=None, B=B)
    model.predictor_ = Predictor(start, 5)
    return model.fit(samples, y, sample_weight=weights)


@pytest.mark.each
@pytest.mark.parametrize("make", [regressor, classifier])
@pytest.mark.parametrize("options", FIXED, ids=str)
def test_weights_are_repeated_rows_where_nothing_is_drawn(monkeypatch, make, options):
    # At smaller ridges the jitter is seen, which is split among copies
    monkeypatch.setattr(_hkrr_problem, "FINE_RIDGES", [1e-4, 1e-3, 1e-2])
    y = LABELS if make is classifier else Y
    counts = np.random.default_rng(1).integers(0, 3, N)
    weighted = from_a_map(make, X, y, counts, **options)
    tuned = options.get("refit_centers") is not None  # by leaving out each sample
    copies = np.repeat(X, counts, axis=0) if tuned else near_copies(X, counts)
    repeated = from_a_map(make, copies, np.repeat(y, counts), **options)
    left_out = from_a_map(make, X[counts > 0], y[counts > 0], counts[counts > 0], **options)
    for attribute in ("lengthscale_", "ridge_"):
        value = getattr(weighted, attribute)
        assert value == pytest.approx(getattr(repeated, attribute), rel=1e-6)
        assert value == pytest.approx(getattr(left_out, attribute), rel=1e-12)
    method = "decision_function" if make is classifier else "predict"
    predicted = getattr(weighted, method)(NEW)
    np.testing.assert_allclose(predicted, getattr(repeated, method)(NEW), atol=1e-5)
    np.testing.assert_allclose(predicted, getattr(left_out, method)(NEW), atol=1e-10)


def test_weights_change_the_fit():
    weights = np.where(X[:, 2] > 0, 1.0, 1e-6)
    y = np.where(X[:, 2] > 0, Y, 7.0)
    model = regressor(n_components=1, ridge=1e-4).fit(X, y, sample_weight=weights)
    assert model.score(X, Y, sample_weight=weights) > 0.98


def test_units_of_the_target_change_nothing():
    plain = regressor(max_iter=5, ridge=1e-3).fit(X, Y).predict(NEW)
    scaled = regressor(max_iter=5, ridge=1e-3).fit(X, 1e3 * Y - 40.0).predict(NEW)
    np.testing.assert_allclose(scaled, 1e3 * plain - 40.0, atol=1e-1)


def test_features_far_from_zero_are_standardised(on):
    far = X * [1.0, 100.0, 1e-3, 1.0, 1.0] + [1e3, 1e4, 0.0, -1e3, 0.0]
    model = regressor(scaling="standard").fit(on.put(far), on.put(Y))
    weighted = DIRECTION / X.std(axis=0)[:, None] * X.std(axis=0)[:, None] ** 2
    assert feature_score(weighted, on.host(model.B_).T) > 0.98
    assert model.score(on.put(far), on.put(Y)) > 0.98


# ---------------------------------------------------------------------- pictures


@pytest.mark.parametrize("scaling", [None, "standard"])
def test_profiles_are_predictions(scaling):
    model = regressor(n_components=2, scaling=scaling, max_iter=10).fit(X, Y2)
    steps, values = model.profiles(points=7)
    k = min(5, model.n_effective_features_)
    assert steps.shape == (k, 7)
    assert values.shape == (k, 7, 2)
    middle = model.centers_.mean(axis=0)
    mean, scale = (0.0, 1.0) if not scaling else (model.scaling_.mean, model.scaling_.scale)
    for direction, along, expected in zip(model.components_, steps, values, strict=True):
        points = (middle + along[:, None] * direction) * scale + mean
        np.testing.assert_allclose(model.predict(points), expected, atol=1e-6)
        seen = (model.centers_ - middle) @ direction
        assert (along[0], along[-1]) == pytest.approx((seen.min(), seen.max()))
    assert len(model.profiles(count=1)[0]) == 1


# ---------------------------------------------------------------------- odd data

ODD = {
    "two samples": X[:2],
    "two samples of one feature": X[:2, :1],
    "19 samples": X[:19],
    "20 samples": X[:20],
    "30 samples": X[:30],
    "one feature": X[:, :1],
    "more features than samples": np.random.default_rng(0).uniform(-1, 1, (25, 30)),
    "duplicated columns": X[:40, [0, 0, 1, 1]],
    "duplicated samples": np.repeat(X[:10], 4, axis=0),
    "a constant column": np.column_stack([X[:40], np.full(40, 3.0)]),
    "equal rows": np.full((N, 2), 3.0),
    "zeros": np.zeros((N, 2)),
}


@pytest.mark.few
@pytest.mark.each
@pytest.mark.parametrize("optimizer", ["lbfgs", "varpro"])
@pytest.mark.parametrize("kind", ODD)
def test_odd_data_are_fitted(kind, optimizer):
    samples = ODD[kind]
    y = Y[: len(samples)]
    model = regressor(optimizer=optimizer, max_iter=5, n_starts=1).fit(samples, y)
    predicted = model.predict(1.2 * samples)
    assert np.all(np.isfinite(predicted))
    assert np.abs(predicted).max() < 50
    assert np.linalg.norm(model.B_, 2) <= 1 + 1e-12
    if len(np.unique(samples, axis=0)) == 1:
        np.testing.assert_allclose(model.predict(samples), y.mean(), atol=1e-4)
    elif len(samples) == 2:
        np.testing.assert_allclose(model.predict(samples), y, atol=0.05)


@pytest.mark.few
@pytest.mark.parametrize("kind", ODD)
def test_odd_data_are_tuned(kind):
    samples = ODD[kind]
    y = Y[: len(samples)]
    model = regressor(n_components="auto", ridge="auto", max_iter=3, n_starts=1).fit(samples, y)
    assert np.all(np.isfinite(model.predict(1.2 * samples)))
    assert all(math.isfinite(trial["score"]) for trial in model.tuning_)
    assert bool(model.tuning_) == (len(samples) >= 20)


@pytest.mark.parametrize(("n", "expected"), [(400, 400), (6000, 6000), (7000, 2000), (10**6, 2000)])
def test_last_fits_of_few_samples_have_all_for_centers(n, expected):
    problem = object.__new__(_hkrr_problem.HyperKernelProblem)  # without the samples
    problem.n, problem.reference = n, np.empty(0)
    problem.settings = SimpleNamespace(centers=Centers())
    assert problem.n_refit_centers() == expected


@pytest.mark.parametrize(("refit", "reported"), [(None, True), ("auto", False)])
def test_singular_centers_are_reported_where_the_ridge_does_not_do(refit, reported):
    samples, y = np.repeat(X[:30], 4, axis=0), np.repeat(Y[:30], 4)
    model = regressor(refit_centers=refit, max_iter=3).fit(samples, y)
    assert np.all(np.isfinite(model.predict(NEW)))
    assert model.smallest_eigenvalue_ < 1e-6
    assert (model.jitter_ > 0) == reported


SINGULAR = _hkrr_problem.Jitter(1e-5, raised=True)


def replaced(monkeypatch, name, change):
    """Change what a fit of HKRR gives."""
    given = getattr(_hkrr_problem.HyperKernelProblem, name)
    monkeypatch.setattr(
        _hkrr_problem.HyperKernelProblem, name, lambda *a, **k: change(given(*a, **k))
    )


@pytest.mark.parametrize(("refit", "name"), [("auto", "refit_centers"), (None, "n_centers")])
def test_singular_centers_of_what_predicts_are_told_of(monkeypatch, refit, name):
    replaced(monkeypatch, "learn", lambda two: (two[0], replace(two[1], jitter=SINGULAR)))
    replaced(monkeypatch, "refit", lambda model: replace(model, jitter=SINGULAR))
    text = rf"singular in this precision .* 1\.0e-05 .* use a smaller {name}"
    with pytest.warns(ConvergenceWarning, match=text):
        regressor(refit_centers=refit, max_iter=2).fit(X, Y)


def test_singular_centers_on_the_way_are_not_told_of(monkeypatch):
    replaced(monkeypatch, "learn", lambda two: (two[0], replace(two[1], jitter=SINGULAR)))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        regressor(max_iter=2).fit(X, Y)
    assert not [one for one in told if "singular" in str(one.message)]


def test_the_smallest_eigenvalue_is_that_of_the_centers():
    with pytest.raises(AttributeError):
        _ = regressor().smallest_eigenvalue_
    model = regressor(n_centers=5, refit_centers=None, max_iter=2).fit(X, Y)
    U = model.centers_ @ model.B_.T
    expected = np.linalg.eigvalsh(model.kernel_(U, U))[0]
    assert model.smallest_eigenvalue_ == pytest.approx(expected, abs=1e-12)
    assert expected > 1e-6


def test_more_centers_than_samples_are_all_of_them():
    with pytest.warns(UserWarning, match="n_centers=121 is more than the 120 rows"):
        model = regressor(n_centers=121, refit_centers=None, max_iter=2).fit(X, Y)
    assert model.centers_.shape == (N, D)
    assert regressor(refit_centers=500, max_iter=1).fit(X, Y).centers_.shape == (N, D)


@pytest.mark.parametrize("selection", ["uniform", "leverage", "pivoted"])
def test_every_selection_of_centers(selection):
    options = {"n_centers": 40, "refit_centers": 60, "center_selection": selection}
    model = regressor(n_components=2, kernel="laplace", **options).fit(X, Y)
    assert model.centers_.shape == (60, D)
    assert len(np.unique(model.centers_, axis=0)) == 60
    assert model.score(NEW, Y_NEW) > 0.9


@pytest.mark.parametrize("make", [regressor, classifier])
def test_a_constant_target_learns_nothing_and_says_so(make):
    y = np.full(N, 4.5) if make is regressor else ["only"] * N
    with pytest.warns(UserWarning, match="predicts that constant and learns no features"):
        model = make(n_components="auto", ridge="auto").fit(X, y)
    assert set(model.predict(NEW)) == {y[0]}
    assert (model.n_iter_, model.status_, model.tuning_) == (0, "CONVERGED", [])
    assert "map: not optimised" in model.describe().text
    assert not model.feature_importances_.any()
    assert model.transform(NEW).shape == (len(NEW), 0)


# ---------------------------------------------------------------------- copies


def test_a_random_state_repeats_the_fit():
    options = {"ridge": "auto", "n_centers": 40, "max_iter": 1}
    first, second = regressor(**options).fit(X, Y), regressor(**options).fit(X, Y)
    np.testing.assert_array_equal(first.B_, second.B_)
    np.testing.assert_array_equal(first.predict(NEW), second.predict(NEW))
    for one, other in zip(first.tuning_, second.tuning_, strict=True):
        assert {**one, "seconds": None} == {**other, "seconds": None}


@pytest.mark.each
@pytest.mark.parametrize("make", [regressor, classifier])
def test_a_pickle_is_a_numpy_model_with_the_same_predictions(on, make):
    model = make(max_iter=1).fit(on.put(X), LABELS if make is classifier else on.put(Y))
    method = "predict_proba" if make is classifier else "predict"
    expected = on.host(getattr(model, method)(on.put(NEW)))
    for twin in (pickle.loads(pickle.dumps(model)), model.to_host()):
        predicted = getattr(twin, method)(NEW.astype(on.dtype_name))
        assert type(predicted) is np.ndarray
        rounding = on.eps * np.abs(twin.dual_coef_).max()
        np.testing.assert_allclose(predicted, expected, rtol=0, atol=10 * rounding)


def test_a_clone_has_the_parameters_only():
    model = regressor(kernel=Gaussian() + 0.1 * Linear(), max_iter=2).fit(X, Y)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert not hasattr(twin, "B_")


def test_parameters_are_left_as_given():
    given = HKRRRegressor(**hkrr(max_iter=2, n_starts=1)).get_params()
    assert HKRRRegressor(**given).fit(X[:30], Y[:30]).get_params() == given


def test_it_can_be_searched_and_piped():
    pipe = make_pipeline(StandardScaler(), regressor(max_iter=5, refit_centers=None))
    grid = {"hkrrregressor__ridge": [1e-4, 1e2]}
    search = GridSearchCV(pipe, grid, cv=2).fit(X, Y)
    assert search.best_params_ == {"hkrrregressor__ridge": 1e-4}
    piped = make_pipeline(regressor(max_iter=5), regressor(max_iter=2)).fit(X, Y)
    assert piped.predict(NEW).shape == (40,)


def test_no_warning_where_all_is_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = regressor(ridge=1e-3, max_iter=200, kernel="laplace")
        model.fit(X, Y + 0.2 * np.random.default_rng(0).standard_normal(N))
    assert model.status_ in ("CONVERGED", "STALLED")


@pytest.mark.few
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"structure": "full"},
        {"criterion": "evidence"},
        {"criterion": "loo"},
        {"optimizer": "agop"},
    ],
)
def test_features_that_do_not_vary_play_no_part(options):
    rows = np.column_stack([np.full(N, 3.0), np.full(N, 0.1), X])
    model = HKRRRegressor(random_state=0, **options).fit(rows, Y)
    np.testing.assert_array_equal(model.feature_importances_[:2], 0.0)
    np.testing.assert_array_equal(model.components_[:, :2], 0.0)
    moved = rows + np.eye(1, D + 2) + 2.0 * np.eye(1, D + 2, 1)
    np.testing.assert_array_equal(model.predict(moved), model.predict(rows))
