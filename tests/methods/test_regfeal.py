"""RegFeaL: derivatives, η, the alternation, every place, interruptions."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from fit_cases import Clock
from hypothesis import given, settings
from hypothesis import strategies as st
from interruption import interrupt
from numpy.polynomial import hermite_e
from sklearn.linear_model import Ridge

import gpukfl
from gpukfl import feature_score
from gpukfl.core._results import Status
from gpukfl.linalg import hermite_table
from gpukfl.methods import (
    DegreeLaw,
    DerivativePenalty,
    FirstTurn,
    RegFeaL,
    derivative_products,
    draw_tuples,
    equal_eta,
    eta_shares,
    optimal_eta,
)
from gpukfl.operators import HermiteOperator
from gpukfl.partitioned._rows import Rows

R = 0.33


def distinct(rng, m, d, degree):
    return np.unique(rng.integers(0, degree + 1, (m, d)), axis=0)


def by_pairs(tuples, f_hat):
    """Sum over all pairs of tuples that meet one step below both."""
    m, d = tuples.shape
    M, eye = np.zeros((d, d)), np.eye(d, dtype=int)
    for j, k in itertools.product(range(m), repeat=2):
        for s, t in itertools.product(range(d), repeat=2):
            if np.array_equal(tuples[j] - eye[s], tuples[k] - eye[t]):
                root = math.sqrt(tuples[j, s] * tuples[k, t])
                M[s, t] += root * float(f_hat[j] @ f_hat[k])
    return M


def by_quadrature(tuples, f_hat):
    """E[∇f ∇f'] on a Gauss-Hermite grid, with the derivatives of NumPy's polynomials."""
    d, degree = tuples.shape[1], int(tuples.max())
    points, weights = hermite_e.hermegauss(degree + 2)
    grid = np.array(list(itertools.product(points, repeat=d)))
    mass = np.prod(np.array(list(itertools.product(weights, repeat=d))), axis=1)
    mass = mass / mass.sum()

    def one(k, x, slope):
        unit = np.eye(degree + 1)[k] / math.sqrt(math.factorial(k))
        return hermite_e.hermeval(x, hermite_e.hermeder(unit) if slope else unit)

    gradients = np.zeros((f_hat.shape[1], len(grid), d))
    for alpha, coefficients in zip(tuples, f_hat, strict=True):
        for s in range(d):
            slopes = [one(k, grid[:, a], a == s) for a, k in enumerate(alpha)]
            gradients[:, :, s] += coefficients[:, None] * np.prod(slopes, axis=0)
    return np.einsum("tns,n,tnu->su", gradients, mass, gradients)


# ---------------------------------------------------------------------- derivatives


@given(
    d=st.integers(1, 4),
    m=st.integers(1, 14),
    t=st.integers(1, 3),
    degree=st.integers(0, 4),
    seed=st.integers(0, 2**32 - 1),
)
@settings(derandomize=True, max_examples=40)
def test_products_of_derivatives_are_the_sum_over_pairs(d, m, t, degree, seed):
    rng = np.random.default_rng(seed)
    tuples = distinct(rng, m, d, degree)
    f_hat = rng.standard_normal((len(tuples), t))
    M = derivative_products(tuples, f_hat)
    np.testing.assert_allclose(M, by_pairs(tuples, f_hat), atol=1e-12)
    np.testing.assert_array_equal(M, M.T)
    assert np.linalg.eigvalsh(M).min() >= -1e-12 * max(np.trace(M), 1.0)
    # The diagonal is that of (3.1), for variables
    np.testing.assert_allclose(np.diag(M), tuples.T @ np.sum(f_hat**2, axis=1), atol=1e-12)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_products_of_derivatives_are_expectations(d):
    rng = np.random.default_rng(d)
    tuples = distinct(rng, 12, d, 4)
    f_hat = rng.standard_normal((len(tuples), 2))
    M = derivative_products(tuples, f_hat)
    np.testing.assert_allclose(M, by_quadrature(tuples, f_hat), atol=1e-10)


def test_products_of_derivatives_turn_with_the_directions():
    # f(z) = z1 z2 and its turn by 45 degrees, (z1² - z2²) / 2
    product = derivative_products(np.array([[1, 1]]), np.array([[1.0]]))
    np.testing.assert_allclose(product, np.eye(2))
    difference = derivative_products(np.array([[2, 0], [0, 2]]), np.array([[0.5], [-0.5]]) * 2**0.5)
    np.testing.assert_allclose(difference, np.eye(2), atol=1e-15)
    linear = derivative_products(np.eye(2, dtype=int), np.array([[3.0], [4.0]]))
    np.testing.assert_allclose(linear, [[9.0, 12.0], [12.0, 16.0]])


def test_many_tuples_in_many_dimensions_meet():
    rng = np.random.default_rng(0)
    tuples = np.unique((rng.uniform(size=(3_000, 200)) < 0.01).astype(int), axis=0)
    f_hat = rng.standard_normal((len(tuples), 1))
    M = derivative_products(tuples, f_hat)
    np.testing.assert_allclose(np.diag(M), tuples.T @ f_hat[:, 0] ** 2, rtol=1e-12)
    assert np.linalg.eigvalsh(M).min() >= -1e-10


def test_the_papers_form_divides_by_c():
    tuples = np.array([[1, 0], [0, 2], [1, 1]])
    f_hat = np.array([[1.0], [2.0], [3.0]])
    fit = gpukfl.methods.RegFeaLFit(None, np.eye(2), equal_eta(2, R))
    fit.indices = gpukfl.methods.MultiIndices(tuples, np.ones(3), np.ones(3, dtype=int))
    fit.f_hat = f_hat
    law = DegreeLaw(0.5)
    plain = RegFeaL(3, law, 0.1).derivatives(fit)
    np.testing.assert_allclose(plain, by_pairs(tuples, f_hat))
    divided = RegFeaL(3, law, 0.1, over_c=True).derivatives(fit)
    np.testing.assert_allclose(
        divided, by_pairs(tuples, f_hat * 0.5 ** (-tuples.sum(1) / 2)[:, None])
    )


@given(
    d=st.integers(1, 40),
    m=st.integers(1, 30),
    factors=st.integers(1, 3),
    turned=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(derandomize=True, max_examples=40, deadline=None)
def test_directions_diagonalise_the_derivatives(d, m, factors, turned, seed):
    """Also where few coordinates are coupled, which are then turned among themselves."""
    rng = np.random.default_rng(seed)
    tuples = np.zeros((m, d), dtype=int)
    np.add.at(tuples, (np.arange(m)[:, None], rng.integers(0, d, (m, factors))), 1)
    tuples = np.unique(tuples, axis=0)
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0] if turned else None
    fit = gpukfl.methods.RegFeaLFit(None, rotation, equal_eta(d, R))
    fit.indices = gpukfl.methods.MultiIndices(tuples, np.ones(len(tuples)), np.ones(len(tuples)))
    fit.f_hat = rng.standard_normal((len(tuples), 1))
    method = RegFeaL(3, DegreeLaw(0.5), 0.1)
    M = method.derivatives(fit)
    among_features = fit.R @ M @ fit.R.T
    np.testing.assert_allclose(fit.to_feature_coordinates(M), among_features, atol=1e-12)
    found, eta = method.directions(fit)
    np.testing.assert_allclose(found.T @ found, np.eye(d), atol=1e-12)
    squares = np.linalg.eigvalsh(M)[::-1]
    np.testing.assert_allclose(found.T @ among_features @ found, np.diag(squares), atol=1e-8)
    np.testing.assert_allclose(eta, optimal_eta(np.maximum(squares, 0.0) + 1e-8, R), rtol=0.02)


def test_many_features_are_turned_by_few_at_a_time(monkeypatch):
    sizes, whole = [], gpukfl.methods._regfeal.host_eigh
    monkeypatch.setattr(
        "gpukfl.methods._regfeal.host_eigh", lambda A: sizes.append(len(A)) or whole(A)
    )
    X = np.random.default_rng(0).standard_normal((100, 800))
    fit = run(learner(300, rho=0.005, n_iter=3), X, X[:, :1])
    assert fit.R.shape == (800, 800)
    assert 1 < max(sizes) < 200


def test_rounding_orders_no_equal_directions():
    """Those of a tuple that meets no other are equal: their order is that of the coordinates."""
    tuples = np.kron(np.eye(20, dtype=int), np.ones((1, 5), dtype=int))
    fit = gpukfl.methods.RegFeaLFit(None, None, equal_eta(100, R))
    fit.indices = gpukfl.methods.MultiIndices(tuples, np.ones(20), np.ones(20))
    method, rng = RegFeaL(3, DegreeLaw(0.5), 0.1), np.random.default_rng(0)
    sizes = rng.uniform(0.5, 2.0, (20, 3))
    found = []
    for noise in (0.0, 1e-14):
        fit.f_hat = sizes * (1.0 + noise * rng.standard_normal(sizes.shape))
        found.append(method.directions(fit)[0])
    np.testing.assert_allclose(*found, atol=1e-9)


# ---------------------------------------------------------------------- η


@given(
    d=st.integers(1, 8),
    r=st.floats(0.02, 1.98),
    seed=st.integers(0, 2**32 - 1),
    spread=st.floats(0, 8),
)
@settings(derandomize=True, max_examples=60)
def test_no_other_eta_is_better(d, r, seed, spread):
    rng = np.random.default_rng(seed)
    u = 10.0 ** (-spread * rng.uniform(size=d))
    eta = optimal_eta(u, r)
    power = r / (2 - r)
    assert np.sum(eta**power) == pytest.approx(1.0, rel=1e-9)
    best = np.sum(u / eta)
    minimum = np.sum(u ** (r / 2)) ** (2 / r)  # Lemma 3.1
    assert math.log(best) == pytest.approx(math.log(minimum), abs=1e-6)
    for _ in range(5):
        near = eta**power * np.exp(0.3 * rng.standard_normal(d))
        for other_shares in (near / near.sum(), rng.dirichlet(np.ones(d))):
            with np.errstate(divide="ignore", over="ignore"):
                other = np.sum(u / other_shares ** (1 / power))
            assert other >= best * (1 - 1e-9)
    np.testing.assert_allclose(eta_shares(eta, r), eta**power, rtol=1e-9)
    assert np.array_equal(np.argsort(u), np.argsort(eta)) or len(set(eta)) < d


@given(scale=st.floats(1e-100, 1e100), r=st.floats(0.05, 1.95))
@settings(derandomize=True, max_examples=30)
def test_the_scale_of_derivatives_changes_nothing(scale, r):
    u = np.array([3.0, 1.0, 1e-4])
    np.testing.assert_allclose(optimal_eta(scale * u, r), optimal_eta(u, r), rtol=1e-7)


@pytest.mark.parametrize("r", [0.05, R, 1.0, 1.9])
def test_equal_derivatives_have_equal_eta(r):
    np.testing.assert_allclose(optimal_eta(np.full(7, 2.5), r), equal_eta(7, r), rtol=1e-12)


def test_exponent_one_has_eta_in_proportion_to_slopes():
    np.testing.assert_allclose(optimal_eta(np.array([9.0, 1.0, 36.0]), 1.0), [0.3, 0.1, 0.6])


# ---------------------------------------------------------------------- turns

TARGETS = {
    "cubic": lambda z: z[:, 0] ** 3 / 3 - z[:, 0] * z[:, 1] + 0.5 * z[:, 1] ** 2,
    "squares": lambda z: (z[:, 0] ** 2 - 1) * (z[:, 1] ** 2 - 1) + z[:, 0],
    "quartic": lambda z: z[:, 0] ** 4 / 6 - z[:, 1] ** 2,
    "product": lambda z: z[:, 0] * z[:, 1],
    "linear": lambda z: z[:, 0] + 0.3 * (z[:, 1] ** 2 - 1),
}


def data(n, d, target="cubic", *, noise=0.0, seed=0, P=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    P = np.linalg.qr(rng.standard_normal((d, 2)))[0] if P is None else P
    y = TARGETS[target](X @ P)
    y = (y - y.mean()) / y.std() + noise * rng.standard_normal(n)
    return X, ((y - y.mean()) / y.std())[:, None], P


def learner(m=400, rho=0.4, strength=0.01, **options):
    law = options.pop("law", DegreeLaw(rho))
    return RegFeaL(m, law, strength, **{"n_iter": 4, **options})


def run(method, X, Y, *, on=None, weights=None, seed=0, **options):
    rows = Rows(X, X[:0, 0]) if on is None else Rows(on.put(X), on.reference)
    Y = Y if on is None else on.put(Y)
    return method.run(rows, Y, weights, np.random.RandomState(seed), **options)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", [0, 1])
def test_rotated_polynomials_are_found(target, seed):
    X, Y, P = data(1_000, 6, target, seed=seed)
    method = learner(2_000, n_iter=5)
    fit = run(method, X, Y)
    directions, eta = method.directions(fit)
    assert feature_score(P, directions[:, :2]) >= 0.99
    shares = eta_shares(eta, R)
    assert shares[1] > 1.5 / 6 > 1.0 / 6 > shares[2]
    np.testing.assert_allclose(fit.R.T @ fit.R, np.eye(6), atol=1e-12)
    new, truth, _ = data(1_000, 6, target, seed=seed + 50, P=P)
    predicted = fit.predict(Rows(new, X[:0, 0]))
    assert np.mean((predicted - truth) ** 2) < 0.15


def test_turned_data_turn_the_directions():
    X, Y, P = data(600, 5)
    Q = np.linalg.qr(np.random.default_rng(9).standard_normal((5, 5)))[0]
    method = learner(600)
    for rows, directions in ((X, P), (X @ Q, Q.T @ P)):
        found = method.directions(run(method, rows, Y))[0]
        assert feature_score(directions, found[:, :2]) > 0.99


def test_variables_are_selected_without_a_rotation():
    P = np.eye(6)[:, [4, 1]]
    X, Y, _ = data(600, 6, P=P)
    method = learner(500, rotate=False)
    fit = run(method, X, Y)
    np.testing.assert_array_equal(fit.R, np.eye(6))
    assert fit.placed_rotation() is None
    directions, eta = method.directions(fit)
    np.testing.assert_array_equal(directions, np.eye(6))
    shares = eta_shares(eta, R)
    assert set(np.flatnonzero(shares >= 1 / 6)) == {1, 4}


def test_a_law_up_to_a_degree_learns():
    X, Y, P = data(600, 5)
    method = learner(600, law=DegreeLaw(largest=4))
    fit = run(method, X, Y)
    assert fit.indices.degrees.max() <= 4
    assert feature_score(P, method.directions(fit)[0][:, :2]) > 0.99


@pytest.mark.parametrize("target", ["cubic", "product", "quartic"])
def test_noise_in_high_degrees_hides_features_in_the_papers_form(target):
    X, Y, P = data(300, 10, target, noise=1.0)
    scores = {}
    for over_c in (False, True):
        method = learner(600, over_c=over_c, strength=0.1)
        scores[over_c] = feature_score(P, method.directions(run(method, X, Y))[0][:, :2])
    assert scores[False] > 0.75
    assert scores[False] > scores[True] + 0.3


def test_two_targets_share_directions():
    X, Y, P = data(800, 6)
    other = X @ P[:, :1]
    method = learner(500)
    fit = run(method, X, np.column_stack([Y, other / other.std()]))
    assert fit.f_hat.shape == (len(fit.indices.tuples), 2)
    assert fit.intercept.shape == (2,)
    assert feature_score(P, method.directions(fit)[0][:, :2]) > 0.99


@pytest.mark.parametrize("r", [0.1, R, 1.0, 1.9])
def test_any_exponent_learns(r):
    X, Y, P = data(600, 5)
    method = learner(500, exponent=r)
    fit = run(method, X, Y)
    directions, eta = method.directions(fit)
    assert np.sum(eta ** (r / (2 - r))) == pytest.approx(1.0)
    assert feature_score(P, directions[:, :2]) > 0.95
    assert np.all(np.diff(eta) <= 1e-12)


@pytest.mark.parametrize(("r", "d"), [(1e-6, 5), (0.003, 5), (0.01, 50)])
def test_an_exponent_that_underflows_is_named(r, d):
    X, Y, _ = data(20, d)
    with pytest.raises(ValueError, match=f"an exponent of at least .* with {d} features"):
        run(learner(20, exponent=r), X, Y)


@pytest.mark.parametrize(("r", "d"), [(0.006, 5), (0.02, 200), (1.9999, 5), (0.001, 1)])
def test_exponents_near_the_ends_are_fitted(r, d):
    X, Y, _ = data(40, max(d, 2))
    fit = run(learner(30, rho=0.1, exponent=r), X[:, :d], Y)
    assert np.all(np.isfinite(fit.f_hat))
    assert np.all(fit.eta > 0)


@pytest.mark.parametrize(("n", "m"), [(60, 400), (400, 60)])
def test_first_and_later_regressions_are_those_of_their_tuples(n, m):
    X, Y, _ = data(n, 3, noise=0.5)
    method = learner(m, n_iter=1)
    fit = run(method, X, Y)
    unit = 3 ** (-(2 - R) / R)
    indices = draw_tuples(
        m,
        equal_eta(3, R),
        DegreeLaw(0.4),
        DerivativePenalty(1e-8 * unit, 0.01 * unit),
        R,
        np.random.RandomState(0),
    )
    np.testing.assert_array_equal(fit.indices.tuples, indices.tuples)
    table = hermite_table(X, int(indices.tuples.max()))
    columns = [table[:, a, np.arange(3)].prod(axis=1) for a in indices.tuples]
    Phi = np.stack(columns, axis=1) * indices.scales
    model = Ridge(alpha=n, solver="svd").fit(Phi, Y[:, 0])
    theta = indices.scales * model.coef_
    np.testing.assert_allclose(fit.f_hat[:, 0], theta, atol=1e-6 * np.abs(theta).max())
    predicted = fit.predict(Rows(X, X[:0, 0]))
    np.testing.assert_allclose(predicted[:, 0], model.predict(Phi), atol=1e-5)


@pytest.mark.parametrize("law", [DegreeLaw(0.4), DegreeLaw(largest=3)], ids=["ρ", "M"])
@pytest.mark.parametrize(("n", "m"), [(60, 400), (400, 60)])
def test_another_strength_takes_the_first_turn_of_a_fit(monkeypatch, n, m, law):
    X, Y, _ = data(n, 3, noise=0.5)
    first, method = FirstTurn(), replace(learner(m, n_iter=3), law=law)
    fits = [run(replace(method, strength=mu), X, Y, first=first) for mu in (0.01, 0.01, 0.5)]
    np.testing.assert_array_equal(fits[0].f_hat, run(method, X, Y).f_hat)
    np.testing.assert_allclose(fits[1].f_hat, fits[0].f_hat, atol=1e-9)
    expected = run(replace(method, strength=0.5), X, Y)
    np.testing.assert_array_equal(fits[2].indices.tuples, expected.indices.tuples)
    np.testing.assert_allclose(fits[2].f_hat, expected.f_hat, atol=1e-6)
    assert fits[2].history.objective == pytest.approx(expected.history.objective, rel=1e-6)
    with monkeypatch.context() as patched:  # no feature is formed again
        patched.setattr(HermiteOperator, "values", None)
        run(replace(method, strength=2.0, n_iter=1), X, Y, first=first)


def test_the_history_is_of_every_iteration():
    X, Y, _ = data(200, 4)
    seen = []
    fit = run(learner(100), X, Y, watch=lambda k, fit: seen.append((k, len(fit.history))))
    assert seen == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert fit.status is Status.CONVERGED
    assert len(fit.etas) == len(fit.history) == 4
    np.testing.assert_array_equal(fit.etas[0], equal_eta(4, R))
    np.testing.assert_array_equal(fit.etas[-1], fit.eta)
    assert fit.history.step[-1] == len(fit.indices.tuples)
    assert np.all(np.diff(fit.history.seconds) >= 0)
    assert all(0 < value < 1 for value in fit.history.objective)


def test_the_same_state_draws_the_same():
    X, Y, _ = data(200, 4)
    one, two, other = (run(learner(100), X, Y, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.f_hat, two.f_hat)
    np.testing.assert_array_equal(one.R, two.R)
    assert one.f_hat.shape != other.f_hat.shape or np.any(one.f_hat != other.f_hat)


def test_effort_is_replaced():
    method = learner(100).with_effort(7, 2)
    assert (method.n_random_features, method.n_iter, method.strength) == (7, 2, 0.01)


# ---------------------------------------------------------------------- every place, and memory


@pytest.mark.pairs
@pytest.mark.parametrize(("n", "m"), [(300, 60), (50, 200)])
@pytest.mark.parametrize("n_iter", [1, 3])
def test_every_place_learns_the_same(on, n, m, n_iter):
    X, Y, _ = data(n, 4, noise=0.3)
    X, Y = on.rounded(X), on.rounded(Y)
    weights = on.rounded(np.random.default_rng(3).uniform(0.5, 2.0, (n, 1)))
    method = learner(m, n_iter=n_iter, strength=0.1)
    fit = run(method, X, Y, on=on, weights=on.put(weights, "float64"))
    expected = run(method, X, Y, weights=weights)
    if n_iter == 1:
        np.testing.assert_array_equal(fit.indices.tuples, expected.indices.tuples)
    tolerance = {("float64", 1): 1e-9, ("float64", 3): 1e-5, ("float32", 1): 1e-3}
    tolerance = tolerance.get((on.dtype_name, n_iter), 0.2)
    here = fit.predict(Rows(on.put(X), on.reference))
    gap = on.host(here) - expected.predict(Rows(X, X[:0, 0]))
    assert np.sqrt(np.mean(gap**2)) < tolerance


@pytest.mark.parametrize(("n", "m"), [(300, 60), (50, 200)])
def test_blocks_of_rows_change_rounding_only(n, m):
    X, Y, _ = data(n, 4, noise=0.3)
    method = learner(m, n_iter=2)
    expected = run(method, X, Y)
    for budget in (1, 5_000, 200_000):
        with gpukfl.memory_budget(budget):
            fit = run(method, X, Y)
            predicted = fit.predict(Rows(X, X[:0, 0]))
        np.testing.assert_array_equal(fit.indices.tuples, expected.indices.tuples)
        np.testing.assert_allclose(predicted, expected.predict(Rows(X, X[:0, 0])), atol=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rho", [0.05, 0.4, 0.8, 0.99])
def test_two_hundred_features_are_fitted(dtype, rho):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 200)).astype(dtype)
    Y = X[:, :1] / X[:, :1].std()
    fit = run(learner(200, rho=rho, n_iter=2), X, Y - Y.mean())
    assert np.all(np.isfinite(fit.f_hat))
    assert np.all(np.isfinite(fit.predict(Rows(X, X[:0, 0]))))


# ---------------------------------------------------------------------- time and interruption


@pytest.mark.parametrize("after", [1, 2, 3])
@pytest.mark.parametrize("name", ["_regression", "_turn"])
def test_an_interruption_keeps_the_last_whole_iteration(monkeypatch, name, after):
    X, Y, _ = data(200, 4)
    whole = after if name == "_regression" else after + 1
    expected = run(learner(100, n_iter=whole), X, Y)
    with monkeypatch.context() as patched:
        interrupt(patched, RegFeaL, name, after)
        fit = run(learner(100, n_iter=6), X, Y)
    assert fit.status is Status.INTERRUPTED
    assert len(fit.history) == len(fit.etas) == whole
    np.testing.assert_array_equal(fit.R, expected.R)
    np.testing.assert_array_equal(fit.eta, expected.eta)
    rows = Rows(X, X[:0, 0])
    np.testing.assert_array_equal(fit.predict(rows), expected.predict(rows))


def test_an_interruption_before_anything_is_learned_is_raised(monkeypatch):
    X, Y, _ = data(50, 3)
    interrupt(monkeypatch, RegFeaL, "_regression", 0)
    with pytest.raises(KeyboardInterrupt):
        run(learner(30), X, Y)


def test_time_ends_before_an_iteration_that_would_be_late(monkeypatch):
    X, Y, _ = data(200, 4)
    monkeypatch.setattr("time.perf_counter", Clock(1.0))
    fit = run(learner(100, n_iter=9, max_time=4.5), X, Y)
    assert fit.status is Status.TIME_LIMIT
    assert len(fit.history) == 2
    enough = run(learner(100, n_iter=2, max_time=4.5), X, Y)
    assert enough.status is Status.CONVERGED  # another one would be late, but none is asked for
    np.testing.assert_array_equal(fit.f_hat, enough.f_hat)
