"""The Lasso's minimisers satisfy its optimality conditions, however singular the matrix is."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interruption import interrupt
from scipy.special import erf
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso as CoordinateDescent

from gpukfl._accel.cpu_lasso import WorkingSet
from gpukfl.core._results import Status
from gpukfl.solvers import Lasso, largest_penalty

EPS = float(np.finfo(np.float64).eps)
FINE = Lasso(tol=1e-12)


def sums(Phi, y):
    """Give H, c and s of a Lasso on data."""
    m = len(y)
    return Phi.T @ Phi / m, Phi.T @ y / m, float(y @ y / m)


def objective(problem, penalty, b):
    H, c, s = problem
    return 0.5 * b @ H @ b - c @ b + 0.5 * s + penalty * np.sum(np.abs(b))


def rounding(problem, b):
    """What F cannot tell at `b`."""
    H, _, s = problem
    return 10 * EPS * (np.abs(b) @ np.sqrt(H.diagonal()) + np.sqrt(s)) ** 2


def sign_features(m, n, T, seed=0):
    """Averages of signs over the weights of neurons, nearly dependent, and labels."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.standard_normal((m, n - 1)), np.ones(m)])
    y = np.sign(X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.3 * rng.standard_normal(m))
    U = rng.standard_normal((T, n))
    g2 = 2 / (0.5 ** (-4 / n) - 1)
    size = np.exp(-np.sum(U**2, axis=1) / (2 + 2 * g2)) * (1 + 1 / g2) ** (-n / 2)
    norm = np.linalg.norm(X, axis=1, keepdims=True)
    return size * erf(X @ U.T / (np.sqrt(2 * g2 * (1 + g2)) * norm)), y


def gaussian_sums(T, d, lengthscale, seed=0):
    """Sums of a weighting that is to be pruned, and its coefficients."""
    rng = np.random.default_rng(seed)
    X, a = rng.standard_normal((T, d)), rng.standard_normal(T)
    squares = np.sum((X[:, None, :] - X[None, :, :]) ** 2, axis=2)
    G = np.exp(-squares / (2 * lengthscale**2))
    return (G / T, G @ a / T, float(a @ G @ a / T)), a


def best_of_all_signs(problem, penalty):
    """Lowest F over the minimisers of every sign pattern: an oracle for a few coordinates."""
    H, c, s = problem
    lowest = 0.5 * s
    for signs in itertools.product([-1.0, 0.0, 1.0], repeat=len(c)):
        sign = np.asarray(signs)
        on = np.flatnonzero(sign)
        b = np.zeros(len(c))
        b[on] = np.linalg.lstsq(H[np.ix_(on, on)], c[on] - penalty * sign[on], rcond=1e-10)[0]
        lowest = min(lowest, objective(problem, penalty, b))
    return lowest


def assert_optimal(problem, fit, slack):
    """Slopes are λ times the sign on the support, and no larger elsewhere."""
    H, c, _ = problem
    g = c - H @ fit.coef
    on = fit.coef != 0
    np.testing.assert_allclose(g[on], fit.penalty * np.sign(fit.coef[on]), rtol=0, atol=slack)
    assert np.max(np.abs(g), initial=0.0) <= fit.penalty + slack
    assert fit.objective == pytest.approx(
        objective(problem, fit.penalty, fit.coef), rel=0, abs=rounding(problem, fit.coef)
    )
    assert np.all(fit.coef[H.diagonal() == 0] == 0)


@st.composite
def problems(draw):
    """Draw data with dependent, equal, scaled and zero columns, and a penalty."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    m, T = draw(st.integers(1, 30)), draw(st.integers(1, 40))
    Phi = rng.standard_normal((m, T))
    kind = draw(st.sampled_from(["random", "equal", "low rank", "scaled", "zero", "shifted"]))
    if kind == "equal":
        Phi = Phi[:, rng.integers(0, max(1, T // 3), T)] * rng.choice([-1.0, 1.0], T)
    elif kind == "low rank":
        rank = draw(st.integers(1, 5))
        Phi = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, T))
    elif kind == "scaled":
        Phi = Phi * 10.0 ** rng.integers(-3, 3, T)
    elif kind == "zero":
        Phi = Phi * (rng.random(T) < 0.5)
    elif kind == "shifted":
        Phi = Phi + 10.0
    problem = sums(Phi, rng.standard_normal(m))
    share = draw(st.sampled_from([1e-6, 1e-4, 1e-2, 0.1, 0.5, 1.0]))
    return problem, share * largest_penalty(problem[1])


@given(problems())
@settings(derandomize=True, max_examples=300)
def test_minimisers_satisfy_the_optimality_conditions(case):
    problem, penalty = case
    fit = FINE.solve(*problem, penalty)
    assert fit.status in (Status.CONVERGED, Status.STALLED)
    assert 0 <= fit.gap < 1e-10
    scale = np.sqrt(np.max(problem[0].diagonal()) * problem[2])
    assert_optimal(problem, fit, 1e-8 * penalty + 1e-13 * scale)


@given(problems(), st.integers(0, 1000))
@settings(derandomize=True, max_examples=100)
def test_starts_do_not_matter(case, seed):
    problem, penalty = case
    rng = np.random.default_rng(seed)
    start = rng.standard_normal(len(problem[1])) * 10.0 ** rng.integers(-3, 1)
    plain, fit = FINE.solve(*problem, penalty), FINE.solve(*problem, penalty, start)
    assert abs(fit.objective - plain.objective) <= 1e-9 * problem[2]
    assert fit.objective <= objective(problem, penalty, start) * (1 + 1e-12)


@pytest.mark.parametrize("T", [1, 2, 4])
@pytest.mark.parametrize("share", [1e-3, 0.1, 0.6])
def test_few_coordinates_end_at_the_best_pattern_of_signs(rng, T, share):
    for m in (1, 2, 10):
        problem = sums(rng.standard_normal((m, T)), rng.standard_normal(m))
        penalty = share * largest_penalty(problem[1])
        fit = FINE.solve(*problem, penalty)
        lowest = best_of_all_signs(problem, penalty)
        assert fit.objective == pytest.approx(lowest, rel=0, abs=1e-11 * problem[2])


@pytest.mark.parametrize("penalty", [0.0, 1e-10, 0.3, 5.0])
def test_independent_columns_are_thresholded(rng, penalty):
    c, scale = rng.standard_normal(50), rng.uniform(0.1, 10.0, 50)
    s = float(np.sum(c**2 / scale))
    fit = FINE.solve(np.diag(scale), c, s, penalty)
    expected = np.sign(c) * np.maximum(np.abs(c) - penalty, 0.0) / scale
    np.testing.assert_allclose(fit.coef, expected, rtol=0, atol=1e-13 * np.max(np.abs(c / scale)))
    assert np.array_equal(fit.coef == 0, expected == 0)


def test_large_penalties_leave_nothing(rng):
    problem = sums(rng.standard_normal((20, 30)), rng.standard_normal(20))
    largest = largest_penalty(problem[1])
    for penalty in (largest, 2 * largest, 1e300):
        fit = Lasso().solve(*problem, penalty)
        assert np.all(fit.coef == 0)
        assert fit.status is Status.CONVERGED
        assert fit.n_iter == 0
    assert np.count_nonzero(FINE.solve(*problem, 0.999 * largest).coef) == 1


def test_no_coordinates():
    fit = Lasso().solve(np.zeros((0, 0)), np.zeros(0), 1.0, 0.1)
    assert fit.status is Status.CONVERGED
    assert fit.coef.shape == (0,)
    assert fit.objective == 0.5
    assert largest_penalty(np.zeros(0)) == 0.0


def test_nothing_to_explain():
    fit = Lasso().solve(np.eye(3), np.zeros(3), 0.0, 0.1, np.ones(3))
    assert fit.status is Status.CONVERGED
    assert fit.objective == fit.gap == 0.0


@pytest.mark.each
@pytest.mark.parametrize("n", [4, 10, 30])
@pytest.mark.parametrize("penalty", [1e-3, 1e-5, 1e-7])
def test_nearly_dependent_features_go_below_coordinate_descent(n, penalty):
    Phi, y = sign_features(2000, n, 300)
    problem = sums(Phi, y)
    fit = Lasso(tol=1e-7).solve(*problem, penalty)
    assert fit.status is Status.CONVERGED
    assert fit.n_iter <= 20
    direct = 0.5 * np.mean((y - Phi @ fit.coef) ** 2) + penalty * np.sum(np.abs(fit.coef))
    assert fit.objective == pytest.approx(direct, rel=0, abs=rounding(problem, fit.coef))
    other = CoordinateDescent(alpha=penalty, fit_intercept=False, tol=1e-10, max_iter=2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        b = other.fit(Phi, y).coef_
    theirs = 0.5 * np.mean((y - Phi @ b) ** 2) + penalty * np.sum(np.abs(b))
    assert direct <= theirs + 1e-7
    assert direct >= theirs - other.dual_gap_ - 1e-9
    if other.dual_gap_ <= 1e-9:
        np.testing.assert_allclose(Phi @ fit.coef, Phi @ b, rtol=0, atol=1e-3)


@pytest.mark.parametrize("begin", ["all", "nothing"])
@pytest.mark.parametrize("penalty", [1e-10, 1e-7, 1e-5, 1e-3, 1e-1])
def test_weightings_are_pruned(penalty, begin):
    problem, a = gaussian_sums(300, 3, 1.5)
    fit = FINE.solve(*problem, penalty, a if begin == "all" else None)
    assert fit.status is Status.CONVERGED
    assert fit.objective <= min(penalty * np.sum(np.abs(a)), 0.5 * problem[2])
    assert_optimal(problem, fit, 1e-3 * penalty + 1e-13)
    assert np.count_nonzero(fit.coef) <= {1e-1: 2, 1e-3: 60, 1e-5: 200}.get(penalty, 300)


def test_equal_columns_share_one_coefficient(rng):
    Phi, y = rng.standard_normal((50, 6)), rng.standard_normal(50)
    single, double = sums(Phi, y), sums(np.column_stack([Phi, Phi]), y)
    one, two = FINE.solve(*single, 0.01), FINE.solve(*double, 0.01)
    np.testing.assert_allclose(two.coef[:6] + two.coef[6:], one.coef, rtol=0, atol=1e-10)
    # Rounding may leave a share of one to its equal
    assert np.count_nonzero(np.abs(two.coef) > 1e-9) <= 6


def test_minimisers_depend_on_no_unit_of_the_values():
    H, c, s = sums(*sign_features(500, 5, 60))
    plain = Lasso().solve(H, c, s, 1e-5)
    for power in (-60, 40):
        unit = 2.0**power
        fit = Lasso().solve(H, unit * c, unit**2 * s, unit * 1e-5)
        np.testing.assert_allclose(fit.coef, unit * plain.coef, rtol=1e-12)
        fit = Lasso().solve(unit**2 * H, unit * c, s, unit * 1e-5)
        np.testing.assert_allclose(fit.coef, plain.coef / unit, rtol=1e-12)
        assert fit.n_iter == plain.n_iter


def test_without_a_penalty_least_squares_are_found(rng):
    Phi, y = rng.standard_normal((100, 20)), rng.standard_normal(100)
    fit = Lasso().solve(*sums(Phi, y), 0.0)
    np.testing.assert_allclose(fit.coef, np.linalg.lstsq(Phi, y, rcond=None)[0], atol=1e-12)
    assert fit.status is Status.STALLED  # no gap tells how near they are
    fit = Lasso().solve(*sums(Phi, Phi @ np.ones(20)), 0.0)
    np.testing.assert_allclose(fit.coef, 1.0, rtol=0, atol=1e-10)
    assert fit.status is Status.CONVERGED


@pytest.mark.parametrize("n", [4, 30])
@pytest.mark.parametrize("penalty", [0.0, 1e-13, 1e-10])
def test_penalties_below_this_precision_say_so(n, penalty):
    Phi, y = sign_features(2000, n, 300)
    problem = sums(Phi, y)
    fit = Lasso(tol=1e-11).solve(*problem, penalty)
    assert fit.status is Status.STALLED
    assert fit.gap > 1e-11
    assert fit.objective < FINE.solve(*problem, 1e-6).objective
    # The sums hide no more than the gap admits
    direct = 0.5 * np.mean((y - Phi @ fit.coef) ** 2) + penalty * np.sum(np.abs(fit.coef))
    assert abs(direct - fit.objective) <= rounding(problem, fit.coef)


@pytest.mark.parametrize("rounds", [0, 1, 2, 4, 8])
def test_gaps_bound_what_is_missing_and_values_fall(rounds):
    problem = sums(*sign_features(2000, 10, 300))
    lowest = FINE.solve(*problem, 1e-7).objective
    fit = Lasso(max_iter=rounds).solve(*problem, 1e-7)
    missing = fit.objective - lowest
    assert missing <= fit.gap * problem[2]
    if rounds < 4:
        assert fit.status is Status.MAX_ITER
        assert fit.n_iter == rounds
        assert missing > 1e-6
    before = Lasso(max_iter=max(rounds - 1, 0)).solve(*problem, 1e-7)
    assert fit.objective <= before.objective


@given(problems(), st.booleans())
@settings(derandomize=True, max_examples=100)
def test_every_step_goes_down_by_what_it_says(case, began):
    problem, penalty = case
    H, c, s = problem
    rng = np.random.default_rng(0)
    b = 0.1 * rng.standard_normal(len(c)) * (np.diag(H) > 0) if began else np.zeros(len(c))
    working, g, value = WorkingSet(H, b), c - H @ b, objective(problem, penalty, b)
    for steps in [1] * 10 + [5] * 20:
        gain = working.descend(b, g, penalty, steps)
        new = objective(problem, penalty, b)
        slack = rounding(problem, b) + 1e-12 * value
        assert new <= value + slack
        assert value - new == pytest.approx(gain, rel=0, abs=2 * slack)
        np.testing.assert_allclose(g, c - H @ b, rtol=0, atol=1e-10 * np.sqrt(s * np.max(H) + s))
        value = new


def test_factors_stay_those_of_the_working_set(rng):
    root = rng.standard_normal((60, 40))
    H = root.T @ root / 60
    b = rng.standard_normal(40)
    working, g = WorkingSet(H, b), H @ rng.standard_normal(40) * 0.1 - H @ b
    sizes = [working.size]
    for _ in range(30):
        working.descend(b, g, 0.05, 5)
        n = working.size
        members, L = working.members[:n], np.tril(working.factor[:n, :n])
        np.testing.assert_allclose(L @ L.T, H[np.ix_(members, members)], rtol=0, atol=1e-13)
        assert np.array_equal(np.sort(members), np.flatnonzero(working.sign))
        assert np.array_equal(working.sign[members], np.sign(b[members]))
        sizes.append(n)
    assert sizes[0] == 40
    assert min(sizes) < 30
    assert working.descend(b, g, 0.05, 100) < EPS


def test_dependent_columns_stay_out_of_the_first_working_set(rng):
    Phi = rng.standard_normal((30, 5))
    H = sums(np.column_stack([Phi, Phi, np.zeros(30)]), np.ones(30))[0]
    assert WorkingSet(H, np.ones(11)).size == 5


def test_minimisers_are_their_own_start():
    problem = sums(*sign_features(2000, 10, 300))
    fit = FINE.solve(*problem, 1e-6)
    again = FINE.solve(*problem, 1e-6, fit.coef)
    assert again.n_iter == 0
    assert np.array_equal(again.coef, fit.coef)
    near = FINE.solve(*problem, 0.99e-6, fit.coef)
    assert near.n_iter < FINE.solve(*problem, 0.99e-6).n_iter


def test_starts_on_columns_of_zeros_are_dropped():
    H, c = np.diag([1.0, 0.0]), np.array([3.0, 0.0])
    for rounds in (0, 10):
        fit = Lasso(max_iter=rounds).solve(H, c, 10.0, 0.1, np.array([2.5, 0.5]))
        assert fit.coef.tolist() == [2.9 if rounds else 2.5, 0.0]


def test_starts_worse_than_zero_are_left_alone(rng):
    problem = sums(rng.standard_normal((30, 5)), rng.standard_normal(30))
    fit = Lasso(max_iter=0).solve(*problem, 0.1, 100 * np.ones(5))
    assert np.all(fit.coef == 0)


def test_paths_keep_their_order_and_equal_separate_fits():
    problem = sums(*sign_features(2000, 10, 300))
    penalties = [1e-5, 1e-3, 1e-6, 1.0, 1e-5, 3e-4]
    solver = Lasso(tol=1e-8)
    fits = solver.path(*problem, iter(penalties))
    assert [fit.penalty for fit in fits] == penalties
    for penalty, fit in zip(penalties, fits, strict=True):
        alone = solver.solve(*problem, penalty)
        assert fit.status is Status.CONVERGED
        assert fit.objective == pytest.approx(alone.objective, rel=2e-8)
        assert np.count_nonzero(fit.coef) == pytest.approx(np.count_nonzero(alone.coef), abs=3)
    assert Lasso().path(*problem, []) == []


def test_paths_begin_where_they_are_told():
    problem = sums(*sign_features(2000, 10, 300))
    known = FINE.solve(*problem, 1e-5)
    (fit,) = FINE.path(*problem, [1e-5], known.coef)
    assert fit.n_iter == 0


@pytest.mark.parametrize("after", [0, 1, 3])
def test_interruptions_keep_the_last_round(monkeypatch, after):
    problem = sums(*sign_features(2000, 10, 300))
    interrupt(monkeypatch, WorkingSet, "descend", after)
    fit = FINE.solve(*problem, 1e-7)
    assert fit.status is Status.INTERRUPTED
    assert fit.n_iter == after
    monkeypatch.undo()
    same = Lasso(tol=1e-12, max_iter=after).solve(*problem, 1e-7)
    assert np.array_equal(fit.coef, same.coef)
    assert fit.gap == same.gap


def test_interruptions_end_paths(monkeypatch):
    problem = sums(*sign_features(500, 5, 60))
    alone = FINE.solve(*problem, 1e-3)
    interrupt(monkeypatch, WorkingSet, "descend", alone.n_iter)
    fits = FINE.path(*problem, [1e-6, 1e-3, 1e-5])
    ended = [fit.status for fit in fits]
    assert ended == [Status.INTERRUPTED, Status.CONVERGED, Status.INTERRUPTED]
    for fit in fits:
        assert np.array_equal(fit.coef, alone.coef)
        expected = objective(problem, fit.penalty, alone.coef)
        assert fit.objective == pytest.approx(expected, rel=1e-12)


def test_arguments_are_left_alone():
    H, c, s = sums(*sign_features(500, 5, 60))
    start = np.full(60, 1e-3)
    before = [a.copy() for a in (H, c, start)]
    for a in (H, c, start):
        a.flags.writeable = False
    fit = Lasso().solve(H, c, s, 1e-5, start)
    for a, was in zip((H, c, start), before, strict=True):
        assert np.array_equal(a, was)
    turned = Lasso().solve(np.asfortranarray(H), c, s, 1e-5, start)
    np.testing.assert_allclose(turned.coef, fit.coef, rtol=1e-9)
    assert fit.coef.dtype == np.float64


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"H": np.eye(2)}, r"expected H \(T, T\) and c \(T,\), got \(2, 2\) and \(3,\)"),
        ({"H": np.ones((3, 2))}, r"got \(3, 2\) and \(3,\)"),
        ({"c": np.ones((3, 1))}, r"got \(3, 3\) and \(3, 1\)"),
        ({"H": np.diag([1.0, np.nan, 1.0])}, "expected finite H and c"),
        ({"c": np.array([0.0, np.inf, 1.0])}, "expected finite H and c"),
        ({"square": -1.0}, "expected a mean square of at least 0, got -1.0"),
        ({"square": np.nan}, "got nan"),
        ({"penalty": -0.5}, "expected a penalty of at least 0, got -0.5"),
        ({"penalty": np.nan}, "got nan"),
        ({"penalty": np.inf}, "got inf"),
        ({"start": np.ones(2)}, r"expected a finite start \(3,\), got \(2,\)"),
        ({"start": np.array([0.0, np.nan, 1.0])}, "expected a finite start"),
    ],
)
def test_bad_problems_are_errors(changes, message):
    given = {"H": np.eye(3), "c": np.ones(3), "square": 3.0, "penalty": 0.1, "start": None}
    H, c, square, penalty, start = (given | changes).values()
    with pytest.raises(ValueError, match=message):
        Lasso().solve(H, c, square, penalty, start)
    with pytest.raises(ValueError, match=message):
        Lasso().path(H, c, square, [0.2, penalty], start)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"tol": -1.0}, "expected tol of at least 0"),
        ({"tol": np.nan}, "expected tol of at least 0"),
        ({"max_iter": -1}, "expected max_iter of at least 0"),
    ],
)
def test_bad_settings_are_errors(setting, message):
    with pytest.raises(ValueError, match=message):
        Lasso(**setting)
