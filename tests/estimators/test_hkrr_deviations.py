"""Standard deviations of HKRR by evidence: what they are, of how little noise, and in files."""

import pickle

import numpy as np
import pytest
from brief import hkrr
from hkrr_cases import NEW, D, N, X, Y

import gpukfl
from gpukfl import HKRRRegressor
from gpukfl.estimators.hkrr import Centers
from gpukfl.estimators.hkrr import _fit as _by_evidence

criteria = pytest.mark.parametrize("criterion", ["evidence", "loo"])
NOISY = Y + 0.1 * np.random.default_rng(5).standard_normal(N)
WEIGHTS = np.random.default_rng(6).uniform(0.5, 2.0, N)


def regressor(criterion="evidence", **options):
    return HKRRRegressor(**hkrr(criterion=criterion, **{"random_state": 0, **options}))


@criteria
def test_deviations_cover_new_targets(criterion):
    rng = np.random.default_rng(1)
    new = rng.uniform(-1, 1, (2000, D))
    truth = np.sin(3 * new @ [0.8, -0.6, 0, 0, 0]) + 0.1 * rng.standard_normal(2000)
    mean, std = regressor(criterion).fit(X, NOISY).predict(new, return_std=True)
    within = np.mean(np.abs(truth - mean) < 1.645 * std)
    assert 0.8 < within < 0.97


def test_deviations_grow_away_from_the_samples():
    model = regressor().fit(X, NOISY)
    _, std = model.predict(np.stack([X.mean(axis=0), np.full(D, 30.0)]), return_std=True)
    far = np.sqrt(model.noise_[0] ** 2 + model.amplitude_[0] ** 2)
    assert std[0] < 0.5 * far
    assert model.noise_[0] <= std.min()
    assert std.max() <= far * (1 + 1e-9)


@pytest.mark.parametrize("n_centers", ["auto", 20])
def test_what_cutting_off_loses_is_in_the_deviations(n_centers, rng):
    rows = rng.uniform(-1, 1, (100, 1))
    y = np.stack([3.0 * rows[:, 0], rows[:, 0] ** 2], axis=1) + 0.01 * rng.standard_normal((100, 2))
    model = regressor(kernel="gaussian", n_centers=n_centers).fit(rows, y)
    inside, beyond = np.array([[0.5]]), np.array([[1.2], [1.5]])
    mean, std = model.predict(beyond, return_std=True)
    truth = 3.0 * beyond[:, 0]
    np.testing.assert_allclose(mean[:, 0], model.intercept_[0] + model.bound_[0])
    assert (np.abs(mean[:, 0] - truth) < 3.0 * std[:, 0]).all()
    assert (model.predict(inside, return_std=True)[1][0] < 2.0 * model.noise_).all()


def solved_widely(A, b):
    """Eliminate in the widest floats of NumPy, in which no pivot of a positive matrix is lost."""
    A, b = A.astype(np.longdouble), b.astype(np.longdouble)
    for k in range(len(A)):
        factors = A[k + 1 :, k : k + 1] / A[k, k]
        A[k + 1 :], b[k + 1 :] = A[k + 1 :] - factors * A[k], b[k + 1 :] - factors * b[k]
    for k in reversed(range(len(A))):
        b[k] = (b[k] - A[k, k + 1 :] @ b[k + 1 :]) / A[k, k]
    return b


@criteria
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_targets_without_noise_have_the_mean_and_the_deviations_of_the_formula(criterion, dtype):
    rows, new = X[:60].astype(dtype), NEW[:20].astype(dtype)
    y = (np.sin(rows[:, 0]) + rows[:, 1] / 2).astype(dtype)
    model = regressor(criterion, kernel="gaussian", ridge=1e-8 / 60, scaling=None).fit(rows, y)
    U, V = (Z.astype(float) * model.map_.astype(float) for Z in (rows, new))
    K, there = model.kernel_(U, U) + 1e-8 * np.eye(60), model.kernel_(U, V)
    inner = solved_widely(K, np.concatenate([there, y[:, None] - model.intercept_], axis=1))
    latent = 1.0 - np.sum(there * inner[:, :-1], axis=0)
    amplitude, noise = model.amplitude_[0], model.noise_[0]
    mean, std = model.predict(new, return_std=True)
    expected = model.intercept_ + np.clip(there.T @ inner[:, -1], -model.bound_, model.bound_)
    np.testing.assert_allclose(mean, expected.astype(float), rtol=0, atol=noise / 10)
    lost = (expected - model.intercept_ - there.T @ inner[:, -1]).astype(float)  # by cutting off
    spread = np.sqrt(amplitude**2 * latent + noise**2 + lost**2)
    np.testing.assert_allclose(std, spread.astype(float), rtol=1e-3)


def test_a_pickled_model_has_its_deviations():
    model = regressor(kernel="matern32").fit(X, NOISY)
    again = pickle.loads(pickle.dumps(model))
    for one, other in zip(
        again.predict(NEW, return_std=True), model.predict(NEW, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("all_pairs", [True, False])
def test_a_model_in_a_file_has_its_deviations_to_the_last_bit(monkeypatch, tmp_path, all_pairs):
    if not all_pairs:
        monkeypatch.setattr(_by_evidence, "EXACT_ROWS", 60)
    options = {"criterion": "evidence", "n_centers": Centers(60, refit=90), "progress": False}
    model = gpukfl.fit(X, NOISY, method="hkrr", sample_weight=WEIGHTS, **options)
    model.save(tmp_path / "m")
    again = gpukfl.load(tmp_path / "m").estimator
    assert (again.inner_factor_ is None) == all_pairs
    expected = model.estimator.predict(NEW, return_std=True)[1]
    np.testing.assert_array_equal(again.predict(NEW, return_std=True)[1], expected)


def test_a_constant_is_sure():
    with pytest.warns(UserWarning, match="y is constant"):
        model = HKRRRegressor(**hkrr(criterion="evidence")).fit(X, np.full(N, 1e9))
    np.testing.assert_array_equal(model.predict(NEW, return_std=True)[1], 0.0)


def test_held_out_rows_give_no_deviations():
    model = HKRRRegressor(1, ridge=1e-3, random_state=0).fit(X, Y)
    with pytest.raises(
        ValueError, match="expected a fit with criterion='evidence' or 'loo' for standard dev"
    ):
        model.predict(NEW, return_std=True)
