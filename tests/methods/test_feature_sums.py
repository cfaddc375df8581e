"""Sums over the folds of the rows, and what least squares and the Lasso make of them."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interruption import interrupt
from sklearn import linear_model
from sklearn.exceptions import ConvergenceWarning

import gpukfl
from gpukfl.core._results import Status
from gpukfl.instantiations import GaussianSign, Stumps
from gpukfl.methods import (
    FoldSums,
    LassoFits,
    Sums,
    cross_validate,
    cross_validate_locally,
    fold_sums,
    least_squares,
)
from gpukfl.operators import FeatureOperator, common_scale
from gpukfl.partitioned._rows import Rows
from gpukfl.solvers import Lasso

weighted = pytest.mark.parametrize("weighted", [False, True])
budgets = pytest.mark.parametrize("budget", [None, 300, 3000])
N, T, D = 67, 6, 3


class Case:
    """Host float64 data, the dense features as the place has them, and the operator there."""

    def __init__(self, on, rng, *, n=N, count=T, weighted=False, t=2, narrow=1.0, folds=4):
        self.on = on
        self.X = on.rounded(rng.standard_normal((n, D)))
        self.Y = on.rounded(np.sin(2 * self.X[:, :1]) + 0.3 * rng.standard_normal((n, t)) + 0.5)
        self.D = on.rounded(rng.uniform(0.2, 3.0, (n, 1)) if weighted else np.ones((n, 1)))
        self.folds = rng.integers(0, folds, n)
        self.folds[:folds] = np.arange(folds)
        self.instantiation = Stumps(1.0, 0.8)
        W = self.instantiation.draw(count, D, np.random.RandomState(1))
        W[:, 1] *= narrow
        self.W = on.rounded(W)
        scale = common_scale(self.instantiation, self.W, D)
        rows = Rows(on.put(self.X), on.reference)
        self.operator = FeatureOperator(self.instantiation, rows, on.put(self.W), scale)
        self.Phi = on.host(self.operator.dense()).astype(np.float64)
        self.G = self.instantiation.kernel(self.W, self.W)
        self.placed = on.put(self.Y)
        self.weights = on.put(self.D) if weighted else None

    def sums(self, **options):
        return fold_sums(self.operator, self.placed, self.weights, self.folds, **options)

    def assert_equal(self, sums, index, *, ulps=1e3):
        """As dense sums over some rows."""
        Phi, Y, w = self.Phi[index], self.Y[index], self.D[index]
        eps64 = np.finfo(np.float64).eps
        # Values of blocks of another size may differ in the last digits of the place's precision
        ulps = ulps * self.on.eps / eps64
        close = self.on.assert_close
        size = 10.0 * len(self.X)
        close(sums.gram, Phi.T @ (w * Phi), ulps=ulps, scale=size, dtype="float64")
        close(sums.moment, Phi.T @ (w * Y), ulps=ulps, scale=size, dtype="float64")
        close(sums.squares, np.sum(w * Y**2, axis=0), ulps=1e3, scale=size, dtype="float64")
        close(sums.total, np.sum(w * Y, axis=0), ulps=1e3, scale=size, dtype="float64")
        assert sums.weight == pytest.approx(float(w.sum()), rel=1e-12)
        assert sums.count == len(Phi)


def formula(Phi, Y, w, G, ridge):
    """Solve (54)."""
    N = np.sum(w)
    return np.linalg.solve(Phi.T @ (w * Phi) + N * ridge * G, Phi.T @ (w * Y))


# ---------------------------------------------------------------------- sums


@pytest.mark.pairs
@budgets
@weighted
def test_sums_of_the_folds_are_the_dense_ones(on, rng, budget, weighted):
    case = Case(on, rng, weighted=weighted)
    with gpukfl.memory_budget(budget):
        done = case.sums()
    assert (done.status, done.n_seen, len(done.folds)) == (Status.CONVERGED, N, 4)
    for k, fold in enumerate(done.folds):
        case.assert_equal(fold, np.flatnonzero(case.folds == k))
    case.assert_equal(done.whole, np.arange(N))


@given(
    n=st.integers(1, 50),
    count=st.integers(1, 20),
    folds=st.integers(1, 7),
    budget=st.sampled_from([None, 1, 700, 5000]),
    seed=st.integers(0, 2**32 - 1),
    weighted=st.booleans(),
)
@settings(derandomize=True, max_examples=60)
def test_folds_of_any_size_add_up(n, count, folds, budget, seed, weighted):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((n, D)), rng.standard_normal((n, 2))
    w = rng.uniform(0.0, 2.0, (n, 1)) if weighted else None
    instantiation = GaussianSign(1.0, 2.0)
    W = instantiation.draw(count, D, np.random.RandomState(0))
    operator = FeatureOperator(instantiation, Rows(X, X[:0, 0]), W)
    which = rng.integers(0, folds, n)
    with gpukfl.memory_budget(budget):
        done = fold_sums(operator, Y, w, which)
    D_ = np.ones((n, 1)) if w is None else w
    Phi = operator.dense()
    for k, fold in enumerate(done.folds):
        own = which == k
        np.testing.assert_allclose(fold.gram, (D_ * Phi)[own].T @ Phi[own], atol=1e-12)
        np.testing.assert_allclose(fold.moment, (D_ * Phi)[own].T @ Y[own], atol=1e-12)
        assert fold.count == own.sum()
    rest = done.whole - done.folds[0]
    np.testing.assert_allclose(
        rest.gram, (D_ * Phi)[which > 0].T @ Phi[which > 0], atol=1e-11, rtol=0
    )
    assert rest.count == np.sum(which > 0)


def test_weights_are_repeated_rows(on, rng):
    case = Case(on, rng)
    counts = rng.integers(0, 4, N)
    case.D, case.weights = counts[:, None].astype(float), on.put(counts[:, None])
    weighted = case.sums().whole
    repeated = np.repeat(np.arange(N), counts)
    rows = Rows(on.put(case.X[repeated]), on.reference)
    operator = FeatureOperator(case.instantiation, rows, case.operator.W, case.operator.log_scale)
    folds = np.zeros(len(repeated), dtype=int)
    again = fold_sums(operator, on.put(case.Y[repeated]), None, folds).whole
    ulps = 100 * on.eps / np.finfo(float).eps
    for name in ("gram", "moment", "squares", "total"):
        expected = on.host(getattr(again, name))
        on.assert_close(getattr(weighted, name), expected, ulps=ulps, dtype="float64")
    assert weighted.weight == again.weight == counts.sum()


@weighted
def test_squared_errors_and_spread_are_those_of_the_rows(on_double, rng, weighted):
    case = Case(on_double, rng, weighted=weighted)
    whole = case.sums().whole
    A = rng.standard_normal((T, 2))
    expected = np.sum(case.D * (case.Y - case.Phi @ A) ** 2, axis=0)
    errors = whole.squared_error(on_double.put(A))
    on_double.assert_close(errors, expected, ulps=1e4)
    mean = np.average(case.Y, axis=0, weights=case.D[:, 0])
    assert whole.spread == pytest.approx(np.sum(case.D * (case.Y - mean) ** 2), rel=1e-12)


def test_squared_errors_are_never_negative():
    one = Sums(np.ones((1, 1)), np.ones((1, 1)), np.ones(1) - 1e-12, np.ones(1), 1.0, 1)
    assert one.squared_error(np.ones((1, 1))).tolist() == [0.0]


def test_a_memory_map_is_its_array(on, rng, tmp_path):
    case = Case(on, rng)
    expected = case.sums()
    file = np.memmap(tmp_path / "X", dtype=on.dtype_name, mode="w+", shape=case.X.shape)
    file[:] = case.X
    file.flush()
    stored = np.memmap(tmp_path / "X", dtype=on.dtype_name, mode="r", shape=case.X.shape)
    rows = Rows(stored, on.reference)
    case.operator = FeatureOperator(
        case.instantiation, rows, case.operator.W, case.operator.log_scale
    )
    ulps = 100 * on.eps / np.finfo(float).eps
    for fold, twin in zip(case.sums().folds, expected.folds, strict=True):
        on.assert_close(fold.gram, on.host(twin.gram), ulps=ulps, dtype="float64")
        assert fold.count == twin.count


# ---------------------------------------------------------------------- a pass that ends early


def test_a_pass_ends_where_watch_says(on, rng):
    case, seen = Case(on, rng), []

    def watch(stop):
        seen.append(stop)
        return len(seen) == 3

    with gpukfl.memory_budget(8 * 3 * D * 10):  # ten rows at a time
        done = case.sums(watch=watch)
    assert seen == [10, 20, 30]
    assert (done.status, done.n_seen) == (Status.TIME_LIMIT, 30)
    case.assert_equal(done.whole, np.arange(30))


def test_time_that_is_up_after_the_last_row_is_no_matter(on, rng):
    done = Case(on, rng).sums(watch=lambda _: True)
    assert (done.status, done.n_seen) == (Status.CONVERGED, N)


@pytest.mark.parametrize("after", [0, 2])
def test_an_interruption_in_watch_keeps_the_rows_seen(on, rng, after):
    case, calls = Case(on, rng), []

    def watch(stop):
        calls.append(stop)
        if len(calls) > after:
            raise KeyboardInterrupt
        return False

    with gpukfl.memory_budget(8 * 3 * D * 10):
        done = case.sums(watch=watch)
    seen = 10 * (after + 1)
    assert (done.status, done.n_seen) == (Status.INTERRUPTED, seen)
    case.assert_equal(done.whole, np.arange(seen))


@pytest.mark.parametrize("after", [1, 9, 17, 22])
def test_an_interruption_inside_a_block_keeps_the_blocks_before(on_double, monkeypatch, rng, after):
    case = Case(on_double, rng)
    interrupt(monkeypatch, FeatureOperator, "evaluate", after)
    with gpukfl.memory_budget(8 * 3 * D * 10):  # ten rows at a time, of which folds come singly
        if after == 1:
            with pytest.raises(KeyboardInterrupt):
                case.sums()
            return
        done = case.sums()
    assert done.status is Status.INTERRUPTED
    assert done.n_seen in range(10, N, 10)
    case.assert_equal(done.whole, np.arange(done.n_seen))


def test_an_interruption_before_any_row_is_raised(on, rng, monkeypatch):
    case = Case(on, rng)
    interrupt(monkeypatch, Rows, "block", 0)
    with pytest.raises(KeyboardInterrupt):
        case.sums()


# ---------------------------------------------------------------------- least squares


@pytest.mark.pairs
@weighted
@pytest.mark.parametrize("t", [1, 3])
def test_least_squares_solve_the_normal_equations(on, rng, weighted, t):
    case = Case(on, rng, weighted=weighted, t=t)
    sums, ridges = case.sums(), [1e-1, 1e-3]
    solved, factor = least_squares(sums, sums.whole, ridges)
    assert not factor.raised
    for A, ridge in zip(solved, ridges, strict=True):
        on.assert_lives_here(A, "float64")
        expected = formula(case.Phi, case.Y, case.D, case.G, ridge)
        gap = case.Phi @ (on.host(A) - expected)
        assert np.max(np.abs(gap)) < {"float32": 1e-4, "float64": 1e-10}[on.dtype_name]


@weighted
def test_least_squares_without_a_fold_are_those_of_the_other_rows(on_double, rng, weighted):
    case = Case(on_double, rng, weighted=weighted)
    sums = case.sums()
    for k, fold in enumerate(sums.folds):
        (A,), _ = least_squares(sums, sums.whole - fold, [1e-2])
        rest = case.folds != k
        expected = formula(case.Phi[rest], case.Y[rest], case.D[rest], case.G, 1e-2)
        np.testing.assert_allclose(on_double.host(A), expected, atol=1e-9)


@pytest.mark.parametrize("narrow", [1e-3, 0.0])
def test_nearly_singular_kernel_matrices_give_finite_fits_and_say_so(on, rng, narrow):
    case = Case(on, rng, narrow=narrow, count=20)
    assert np.linalg.matrix_rank(case.G, tol=1e-4) == D
    sums = case.sums()
    solved, factor = least_squares(sums, sums.whole, [1e-2, 1e-6])
    assert factor.jitter > 0
    for A in solved:
        assert np.all(np.isfinite(on.host(A)))
        fitted = case.Phi @ on.host(A)
        assert np.sum((fitted - case.Y) ** 2) <= np.sum(case.Y**2)


# ---------------------------------------------------------------------- Lasso


@pytest.mark.pairs
@weighted
@pytest.mark.parametrize("t", [1, 2])
def test_lasso_is_that_of_scikit_learn(on, rng, weighted, t):
    case = Case(on, rng, weighted=weighted, t=t, count=15)
    whole = case.sums().whole
    w = case.D[:, 0]
    top = np.max(np.abs(case.Phi.T @ (case.D * case.Y))) / np.sum(w)
    fits, shares = LassoFits(Lasso(1e-10)), [0.5, 1e-1, 3e-2]
    solved = fits(whole, [share * top for share in shares])
    assert (len(fits.fits), len(fits.fits[0])) == (t, 3)
    for A, share in zip(solved, shares, strict=True):
        on.assert_lives_here(A, "float64")
        twin = linear_model.Lasso(share * top, fit_intercept=False, tol=1e-12, max_iter=100_000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            twin.fit(case.Phi, case.Y, sample_weight=w if weighted else None)
        expected = twin.coef_.reshape(t, -1).T
        gap = case.Phi @ (on.host(A) - expected)
        assert np.max(np.abs(gap)) < 1e-3
        objectives = [
            np.sum(case.D * (case.Y - case.Phi @ B) ** 2) / 2 / np.sum(w)
            + share * top * np.sum(np.abs(B))
            for B in (on.host(A), expected)
        ]
        assert objectives[0] <= objectives[1] * (1 + 1e-5)


def test_lasso_leaves_everything_out_where_the_penalty_is_largest(on, rng):
    case = Case(on, rng, t=1)
    whole = case.sums().whole
    top = float(np.max(np.abs(on.host(whole.moment)))) / N
    nothing, something = LassoFits(Lasso())(whole, [1.0001 * top, 0.5 * top])
    assert not on.host(nothing).any()
    assert 0 < np.count_nonzero(on.host(something)) < T


# ---------------------------------------------------------------------- cross-validation


def refitted(case, solve):
    """Held-out R² by fits to the rows without each fold."""
    error = 0.0
    for k in np.unique(case.folds):
        rest, own = case.folds != k, case.folds == k
        A = solve(case.Phi[rest], case.Y[rest], case.D[rest])
        error += np.sum(case.D[own] * (case.Y[own] - case.Phi[own] @ A) ** 2)
    mean = np.average(case.Y, axis=0, weights=case.D[:, 0])
    return 1.0 - error / np.sum(case.D * (case.Y - mean) ** 2)


@weighted
def test_cross_validation_is_refitting_on_the_rows(on, rng, weighted):
    case = Case(on, rng, weighted=weighted)
    sums, ridges = case.sums(), [1e-3, 1e-1, 10.0]

    def solve(some, ridges):
        return least_squares(sums, some, ridges)[0]

    found = cross_validate(sums, solve, ridges)
    assert found.ridges == ridges
    assert [len(one) for one in found.coefs] == [4, 4, 4]
    for k, ridge in enumerate(ridges):
        expected = refitted(case, lambda *rows, r=ridge: formula(*rows, case.G, r))
        assert found.scores[k] == pytest.approx(expected, abs=1e4 * on.eps)
    assert found.best == int(np.argmax(found.scores))


def test_ridges_near_one_are_tried_until_the_best_has_neighbours(on_double, rng):
    sums = Case(on_double, rng).sums()
    ridges, asked = np.geomspace(1e-9, 1e3, 13).tolist(), []

    def solve(some, ridges):
        asked.extend(ridges)
        return least_squares(sums, some, ridges)[0]

    whole = cross_validate(sums, solve, ridges)
    for at in (0, 1, 6, 11, 12):
        asked.clear()
        found = cross_validate_locally(sums, solve, ridges, at)
        first = ridges.index(found.ridges[0])
        assert found.ridges == ridges[first : first + len(found.ridges)]
        assert first <= at < first + len(found.ridges)
        same = whole.scores[first : first + len(found.ridges)]
        np.testing.assert_allclose(found.scores, same, atol=1e-9)
        assert [len(one) for one in found.coefs] == [4] * len(found.ridges)
        assert sorted(asked) == sorted(found.ridges * 4)  # in each fold once
        best = found.ridges[found.best]
        assert best not in {found.ridges[0], found.ridges[-1]} - {ridges[0], ridges[-1]}
    assert found.ridges[found.best] == whole.ridges[whole.best]


def test_cross_validation_of_the_lasso(on_double, rng):
    case = Case(on_double, rng, t=1, count=10)
    sums = case.sums()
    found = cross_validate(sums, LassoFits(Lasso(1e-12)), [0.1, 0.02])

    def solve(penalty):
        twin = linear_model.Lasso(penalty, fit_intercept=False, tol=1e-10, max_iter=100_000)
        return lambda Phi, Y, _: twin.fit(Phi, Y).coef_[:, None]

    for score, penalty in zip(found.scores, [0.1, 0.02], strict=True):
        assert score == pytest.approx(refitted(case, solve(penalty)), abs=1e-6)


def test_of_equal_scores_the_largest_ridge_is_best(on_double, rng):
    case = Case(on_double, rng)
    sums = case.sums()
    zero = on_double.put(np.zeros((T, 2)))
    found = cross_validate(sums, lambda _, ridges: [zero for _ in ridges], [1.0, 3.0, 2.0])
    assert len(set(found.scores)) == 1
    assert found.best == 1


def test_targets_without_spread_are_scored_by_their_error(on_double, rng):
    case = Case(on_double, rng)
    case.placed = on_double.put(np.zeros((N, 2)))
    sums = case.sums()
    zero = on_double.put(np.zeros((T, 2)))
    found = cross_validate(sums, lambda *_: [zero, zero + 1.0], [1.0, 2.0])
    assert found.scores[0] == 0.0
    assert found.scores[1] < 0.0
    assert found.best == 0


def test_redundant_features_do_not_keep_least_squares_from_its_minimum(rng):
    """A thousand stumps on four columns: the kernel matrix has hardly ten directions a column."""
    X = rng.standard_normal((2_000, 3))
    y = np.where(np.sin(3 * X[:, 0]) + X[:, 1] ** 2 > 1, 1.0, -1.0)[:, None]
    stumps = Stumps(1.0, 1.0)
    rows = Rows(X, np.empty(0), leading_ones=True)
    W = stumps.draw(400, 4, np.random.RandomState(0))
    operator = FeatureOperator(stumps, rows, W, common_scale(stumps, W, 4))
    whole = fold_sums(operator, y, None, np.zeros(len(y), dtype=int)).whole
    sums = FoldSums(operator, [whole])
    for ridge in (1e-7, 1e-4, 1e-1):
        (A,), factor = least_squares(sums, whole, [ridge])
        assert factor.jitter <= 1e-10
        A0 = whole.gram + whole.weight * ridge * operator.core
        best = np.linalg.lstsq(A0, whole.moment, rcond=1e-14)[0]

        def objective(a, ridge=ridge):
            return float(
                whole.squared_error(a)[0] / whole.weight + ridge * (a.T @ operator.core @ a)[0, 0]
            )

        assert objective(A) <= objective(best) * (1.0 + 1e-3)
