"""Curves are the functionals that they are called, and kernels those of the fits."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.inspection import partial_dependence as oracle

from gpukfl import BKerNNRegressor, HKRRRegressor, KernelFeatureSelector
from gpukfl.estimators import KernelRidgeRegressor, RegFeaLRegressor, RKHSWeightingRegressor
from gpukfl.inference import _bands as _curves
from gpukfl.inference._bands import accumulated_effects, direction_profile, partial_dependence
from gpukfl.inference._kernels import default_kernel, learned_kernel

RNG = np.random.default_rng(1)
X = RNG.uniform(-1.0, 1.0, (120, 3))
Y = np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.standard_normal(120)
FITS = {
    "bkernn": BKerNNRegressor(8, random_state=0),
    "hkrr": HKRRRegressor(criterion="evidence", random_state=0),
    "low rank": HKRRRegressor(2, criterion="evidence", random_state=0),
    "selection": KernelFeatureSelector(sparsity=0.01, random_state=0),
    "kernel ridge": KernelRidgeRegressor(),
    "regfeal": RegFeaLRegressor(200, random_state=0),
}


@pytest.fixture(scope="module", params=FITS)
def fit(request):
    return FITS[request.param].fit(X, Y)


# ---------------------------------------------------------------------- kernels


def test_predictions_are_sums_of_the_kernel(fit):
    """They are linear in it: what is left of any kernel regression on few rows is nothing."""
    kernel = learned_kernel(fit)
    K = kernel(X, X)
    assert np.allclose(K, K.T)
    centered = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    assert np.linalg.eigvalsh(centered).min() > -1e-8 * np.abs(centered).max()
    functions = kernel.functions(kernel.scale(X))[:, 0]
    assert np.allclose(functions, fit.predict(X))
    H = np.column_stack([K, np.ones(len(X))])
    left = functions - H @ np.linalg.lstsq(H, functions, rcond=1e-13)[0]
    assert np.abs(left).max() < 1e-4


def test_the_kernel_says_what_was_turned(fit):
    found = learned_kernel(fit).directions
    if isinstance(fit, (KernelFeatureSelector, KernelRidgeRegressor)):
        assert found.shape == (0, 3)
    assert np.allclose(found @ found.T, np.eye(len(found)), atol=1e-8)


def test_slopes_are_derivatives_along_directions():
    kernel = learned_kernel(FITS["low rank"].fit(X, Y))
    Z = kernel.scale(X)
    found = kernel.slopes(Z)
    h = 0.05
    for k, u in enumerate(kernel.directions):
        finer = (kernel.functions(Z + h * u) - kernel.functions(Z - h * u)) / (2 * h)
        gaps = np.abs(found[:, k] - finer)  # wide where a prediction is at its bound, which is bent
        assert np.quantile(gaps, 0.98) < 0.1 * np.abs(finer).max()


def test_what_has_no_kernel_says_so():
    assert learned_kernel(RKHSWeightingRegressor(n_parameters=20, random_state=0).fit(X, Y)) is None
    nothing = KernelFeatureSelector(sparsity=100.0, random_state=0)
    with pytest.warns(UserWarning, match="no variable"):
        nothing.fit(X, Y)
    assert learned_kernel(nothing) is None


# ---------------------------------------------------------------------- curves


def test_partial_dependence_is_scikit_learns():
    model = FITS["kernel ridge"].fit(X, Y)
    curve = partial_dependence(X, 0, "x0", points=9, background=X[:30])
    found = curve.weights @ model.predict(curve.points)
    grid = {0: curve.steps}
    expected = oracle(model, X[:30], [0], custom_values=grid, method="brute")["average"][0]
    assert np.allclose(found, expected - expected.mean())


def test_a_rare_category_has_a_curve_between_its_values():
    rare = np.column_stack([np.arange(200) < 2, np.arange(200.0)]).astype(float)
    curve = partial_dependence(rare, 0, "rare", points=9, background=rare[:30])
    np.testing.assert_array_equal(curve.steps, [0.0, 1.0])


def test_partial_dependence_of_a_sum_is_its_term():
    curve = partial_dependence(X, 1, "x1", points=9, background=X[:30])
    found = curve.weights @ (np.exp(curve.points[:, 0]) + curve.points[:, 1] ** 3)
    assert np.allclose(found, curve.steps**3 - np.mean(curve.steps**3))


def test_accumulated_effects_are_those_of_sums():
    curve = accumulated_effects(X, 1, "x1", points=9, background=X)
    found = curve.weights @ (np.exp(curve.points[:, 0]) + curve.points[:, 1] ** 3)
    assert np.allclose(np.diff(found), np.diff(curve.steps**3))


def test_accumulated_effects_ask_for_no_strange_rows():
    """Of two copies of a feature, partial dependence asks for rows where they differ."""
    twins = np.column_stack([X[:, 0], X[:, 0]])
    curve = accumulated_effects(twins, 0, "x0", points=9, background=twins)
    gaps = np.abs(curve.points[:, 0] - curve.points[:, 1])
    assert gaps.max() <= np.diff(curve.steps).max() + 1e-12
    found = curve.weights @ (curve.points[:, 0] * curve.points[:, 1])
    assert np.allclose(np.diff(found), 0.5 * np.diff(curve.steps**2), atol=0.02)


def test_intervals_without_rows_are_joined():
    column = np.repeat([0.0, 1.0, 5.0], [40, 40, 40])
    rows = np.column_stack([column, X[:, 1]])
    curve = accumulated_effects(rows, 0, "x0", points=20, background=rows[:41])
    found = curve.weights @ (2.0 * curve.points[:, 0])
    assert np.allclose(np.diff(found), 2.0 * np.diff(curve.steps))
    assert (curve.steps[0], curve.steps[-1]) == (0.0, 5.0)


def test_a_constant_drops_out_of_centered_curves():
    for make in (partial_dependence, accumulated_effects):
        curve = make(X, 0, "x0", points=9, background=X[:40])
        assert np.abs(curve.weights.sum(axis=1)).max() < 1e-12


def product(A):
    return A[:, 0] * A[:, 1]


def test_a_curve_asks_some_points_at_a_time(monkeypatch):
    curve = partial_dependence(X, 0, "x0", points=9, background=X[:30])
    whole = curve.evaluate(lambda A: np.stack([A, A**2]))
    assert whole.shape == (2, 9, 3)
    monkeypatch.setattr(_curves, "_AT_ONCE", 7)
    np.testing.assert_allclose(curve.evaluate(lambda A: np.stack([A, A**2])), whole, atol=1e-12)


def test_partial_dependence_varies_as_the_mean_of_its_rows():
    """Of a product it is a line, whose slope is the mean of the other feature."""
    curve = partial_dependence(X, 0, "x0", points=9, background=X[:30])
    found = curve.covariance(product(curve.points))
    away = curve.steps - curve.steps.mean()
    expected = np.outer(away, away) * np.var(X[:30, 1], ddof=1) / 30
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_accumulated_effects_vary_as_the_means_of_their_intervals():
    curve = accumulated_effects(X, 0, "x0", points=5, background=X)
    found = curve.covariance(product(curve.points))
    steps = np.diff(np.eye(5), axis=0)
    lower, upper = curve.steps[:-1, None], curve.steps[1:, None]
    inside = (X[:, 0] > lower) & (X[:, 0] <= upper)
    inside[0] |= X[:, 0] == curve.steps[0]
    errors = [np.var(X[rows, 1], ddof=1) / rows.sum() for rows in inside]
    expected = np.diag(np.diff(curve.steps) ** 2 * errors)
    np.testing.assert_allclose(steps @ found @ steps.T, expected, atol=1e-12)


def test_curves_vary_as_the_groups_of_their_rows_do():
    """Copies of rows that are one group each say no more than one of each."""
    plain = partial_dependence(X, 0, "x0", points=9, background=X[:30])
    copied = partial_dependence(X, 0, "x0", points=9, background=np.repeat(X[:30], 4, axis=0))
    grouped = replace(copied, groups=np.repeat(np.arange(30), 4))
    expected = plain.covariance(product(plain.points))
    np.testing.assert_allclose(grouped.covariance(product(copied.points)), expected, atol=1e-12)
    assert copied.covariance(product(copied.points)).max() < 0.5 * expected.max()


def test_groups_of_rows_between_the_ends_go_with_accumulated_effects():
    curve = accumulated_effects(X, 0, "x0", points=5, background=X)
    grouped = replace(curve, groups=np.arange(120)[curve.kept])
    assert len(grouped.groups) == len(curve.strata) < 120
    found, plain = (one.covariance(product(curve.points)) for one in (grouped, curve))
    np.testing.assert_allclose(found, plain, rtol=0.2, atol=0.2 * plain.max())


def test_accumulated_effects_are_centered_by_the_rows_between_their_ends():
    curve = accumulated_effects(X, 0, "x0", points=5, background=X[:30])
    found = curve.weights @ product(curve.points)
    column = X[(X[:, 0] >= curve.steps[0]) & (X[:, 0] <= curve.steps[-1]), 0]
    interval = np.maximum(np.searchsorted(curve.steps, column) - 1, 0)
    assert abs(np.mean(found[interval] + found[interval + 1])) < 1e-12


def test_what_is_beyond_the_ends_does_not_move_accumulated_effects():
    """Of a square the mean over all rows would be far from that over those inside."""
    x = np.random.default_rng(0).standard_normal(4000)
    x[:40] = 9.0
    curve = accumulated_effects(x[:, None], 0, "x", points=60, background=x[:, None])
    found = curve.weights @ curve.points[:, 0] ** 2
    inside = x[(x >= curve.steps[0]) & (x <= curve.steps[-1])]
    np.testing.assert_allclose(found, curve.steps**2 - np.mean(inside**2), atol=0.01)
    assert abs(np.mean(inside**2) - np.mean(x**2)) > 0.5


def test_each_step_of_partial_dependence_counts_alike():
    column = np.repeat([0.0, 1.0, 4.0], [60, 30, 10])
    curve = partial_dependence(column[:, None], 0, "x", points=9, background=column[:5, None])
    np.testing.assert_array_equal(curve.steps, [0.0, 1.0, 4.0])
    np.testing.assert_allclose(curve.weights @ curve.points[:, 0], curve.steps - 5.0 / 3.0)


@pytest.mark.parametrize("make", [partial_dependence, accumulated_effects])
def test_curves_of_sums_do_not_vary_with_their_rows(make):
    curve = make(X, 0, "x0", points=9, background=X)
    sums = np.exp(curve.points[:, 0]) + curve.points[:, 1] ** 3
    np.testing.assert_allclose(curve.covariance(sums), 0.0, atol=1e-20)


def test_a_profile_is_straight_in_scaled_features():
    model = HKRRRegressor(2, criterion="evidence", scaling="robust", random_state=0).fit(X, Y)
    kernel = learned_kernel(model)
    scaled = kernel.scale(X)
    curve = direction_profile(X, scaled, kernel.directions, 0, ("a", "b", "c"), points=11)
    away = kernel.scale(curve.points) - scaled.mean(axis=0)
    expected = curve.steps[:, None] * kernel.directions[0]
    assert np.abs(away - expected).max() < 0.02
    assert (curve.points >= X.min(axis=0)).all()
    assert (curve.points <= X.max(axis=0)).all()


@pytest.mark.parametrize("make", [partial_dependence, accumulated_effects])
def test_additive_curves_need_only_the_columns_that_change(rng, make):
    rows = rng.standard_normal((60, 4))
    kernel = default_kernel(rows, 1)
    curve = make(rows, 2, "x2", points=7, background=rows[:30])
    expected = curve.evaluate(lambda points: kernel.additive(points, rows))
    np.testing.assert_allclose(curve.evaluate_additive(kernel, rows), expected, atol=1e-12)
