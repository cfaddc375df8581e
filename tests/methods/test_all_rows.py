"""All samples as centres: float32 with refinement solves as a dense factor of float64 does."""

from dataclasses import replace

import numpy as np
import oracles
import pytest

from gpukfl.core._memory import memory_budget
from gpukfl.core._results import Status
from gpukfl.kernels import Gaussian, Matern32
from gpukfl.methods import (
    NystromSystem,
    _all_rows,
    centers_preconditioner,
    solve_by_early_stopping,
    solve_by_factor,
    solve_by_products,
)
from gpukfl.methods._all_rows import multiply_symmetric
from gpukfl.operators import KernelOperator
from gpukfl.partitioned._rows import Rows
from gpukfl.solvers import ConjugateGradient

pytestmark = pytest.mark.entered
weighted = pytest.mark.parametrize("weighted", [False, True])
N, Q, HELD = 150, 30, 30


class Data:
    """Host data, and copies on a place in float64."""

    def __init__(self, on, *, weighted=False, kernel=None, unit=1.0):
        rng = np.random.default_rng(0)
        self.kernel = Gaussian() if kernel is None else kernel
        self.X = on.rounded(rng.uniform(-2, 2, (N, 2)))
        self.Y = unit * on.rounded(np.sin(2 * self.X) + 0.1 * rng.standard_normal((N, 2)))
        self.D = rng.uniform(0.2, 3.0, (N, 1)) if weighted else np.ones((N, 1))
        self.on, self.weights = on, on.put(self.D, "float64") if weighted else None

    def given(self):
        X, Y = (self.on.put(one, "float64") for one in (self.X, self.Y))
        return self.kernel, X, Y, self.weights

    def expected(self, shift):
        s = np.sqrt(self.D)
        K = oracles.gaussian(self.X, self.X, 1.0)
        return s * np.linalg.solve(s * K * s.T + shift * np.eye(N), s * self.Y)

    def centers(self, shift, q=Q):
        kernel, X, Y, weights = self.given()
        operator = KernelOperator(kernel, Rows(X, X[:0, 0]), X[:q, :], keep=True)
        system = NystromSystem.from_rows(operator, Y, weights)
        return operator, system.factors(shift / system.weight)

    def preconditioner(self, shift):
        operator, factors = self.centers(shift)
        return centers_preconditioner(operator, *factors, self.weights, shift=shift)

    def by_early_stopping(self, shift, q=Q, **more):
        operator, factors = self.centers(shift, q)
        given = self.given(), dict(shift=shift, centers=operator, factors=factors, n_held=HELD)
        return solve_by_early_stopping(*given[0], **given[1], **more)

    def error_without(self, shift, q=None):
        """Squared error on the last rows of a solve with the others: by all, or q centres."""
        m, D = N - HELD, self.D
        K, s = oracles.gaussian(self.X, self.X, 1.0), np.sqrt(self.D[: N - HELD])
        if q is None:
            A = s * K[:m, :m] * s.T + shift * np.eye(m)
            fitted = K[m:, :m] @ (s * np.linalg.solve(A, s * self.Y[:m]))
        else:
            S = K[:m, :q].T @ (D[:m] * K[:m, :q]) + shift * (K[:q, :q] + 1e-10 * np.eye(q))
            fitted = K[m:, :q] @ np.linalg.solve(S, K[:m, :q].T @ (D[:m] * self.Y[:m]))
        size = np.linalg.norm(np.sqrt(D) * self.Y, axis=0)  # targets count alike
        left, target = (np.sqrt(D[m:]) * V / size for V in (self.Y[m:] - fitted, self.Y[m:]))
        return np.sum(left**2) / np.sum(target**2)

    def by_products(self, shift, **more):
        inverse = self.preconditioner(shift)
        return solve_by_products(*self.given(), shift=shift, precondition=inverse, **more)

    def check(self, found, shift, *, near=1e-8):
        assert found.status is Status.CONVERGED
        expected, alpha = self.expected(shift), self.on.host(found.alpha)
        assert alpha.dtype == np.float64
        np.testing.assert_allclose(alpha, expected, atol=near * np.abs(expected).max())


@weighted
@pytest.mark.parametrize("shift", [0.5, 1e-3])
def test_both_ways_are_the_dense_solve_of_float64(on, weighted, shift):
    data = Data(on, weighted=weighted)
    by_factor = solve_by_factor(*data.given(), shift=shift)
    data.check(by_factor, shift)
    assert by_factor.residual <= 1e-9
    assert by_factor.n_iter <= 10
    by_products = data.by_products(shift, rtol=1e-11)
    data.check(by_products, shift)
    assert by_products.residual <= 1e-11


def test_a_shift_below_the_rounding_of_float32_takes_more_products(on_double):
    data, shift = Data(on_double), 1e-6
    found = solve_by_factor(
        *data.given(), shift=shift, solver=ConjugateGradient(1e-9, check_every=1)
    )
    data.check(found, shift, near=1e-4)
    assert found.jitter > 2 * shift
    K = oracles.gaussian(data.X, data.X, 1.0) + shift * np.eye(N)
    left = data.Y - K @ data.on.host(found.alpha)
    assert np.linalg.norm(left) <= 1e-8 * np.linalg.norm(data.Y)


def test_units_of_the_targets_do_not_matter(on_double):
    for unit in (1e-60, 1e60):
        data = Data(on_double, unit=unit)
        data.check(solve_by_factor(*data.given(), shift=0.1), 0.1)
        data.check(data.by_products(0.1, rtol=1e-11), 0.1)


def test_a_target_of_zeros_has_coefficients_of_zero(on_double):
    data = Data(on_double)
    data.Y[:, 1] = 0.0
    for found in (solve_by_factor(*data.given(), shift=0.1), data.by_products(0.1)):
        data.check(found, 0.1)
        assert not on_double.host(found.alpha)[:, 1].any()


def test_every_solve_says_how_it_ended(on_double):
    data = Data(on_double)
    few = ConjugateGradient(1e-12, max_iter=1, check_every=1)
    assert data.by_products(1e-3, solver=few).status is Status.MAX_ITER
    found = solve_by_factor(*data.given(), shift=1e-3, solver=few)
    assert found.status is Status.MAX_ITER
    assert 0 < found.residual < 1
    near = data.by_products(0.5, share=0.1)
    left = 0.5 * np.linalg.norm(on_double.host(near.alpha), axis=0) / np.linalg.norm(data.Y, axis=0)
    assert near.status is Status.CONVERGED
    assert 1e-9 < near.residual <= 0.1 * left.max()
    # Float32 cannot tell this shift from rounding
    assert data.by_products(1e-13).status is not Status.CONVERGED


@pytest.fixture
def to_the_end(monkeypatch):
    """Let held-out errors not end a solve before it has converged."""
    for name in ("_FEW_VAIN", "_MANY_VAIN"):
        monkeypatch.setattr(_all_rows, name, 25)


@weighted
@pytest.mark.parametrize("shift", [0.5, 1e-2])
@pytest.mark.usefixtures("to_the_end")
def test_held_out_errors_are_those_of_solves_without_the_rows(on_double, weighted, shift):
    data = Data(on_double, weighted=weighted)
    found = data.by_early_stopping(shift, q=10)
    assert found.errors[0] == pytest.approx(1.0)  # of no product
    assert found.centers_error == pytest.approx(data.error_without(shift, 10), rel=1e-4)
    assert found.errors[-1] == pytest.approx(data.error_without(shift), rel=1e-3)
    assert found.beats_centers == (min(found.errors) < found.centers_error)


@weighted
def test_early_stopping_predicts_as_the_exact_solve(on, weighted):
    shift, data = 0.5, Data(on, weighted=weighted)
    found = data.by_early_stopping(shift, q=10)
    exact, alpha = data.expected(shift), on.host(found.alpha)
    assert found.status is Status.EARLY_STOPPED
    assert alpha[N - HELD :].all()  # every row is a centre
    K, s = oracles.gaussian(data.X, data.X, 1.0), np.sqrt(data.D)
    changed, left = K @ alpha - K @ exact, data.Y - K @ exact
    assert np.linalg.norm(s * changed) <= 0.3 * np.linalg.norm(s * left)
    missing = s * (data.Y - K @ alpha) - shift * alpha / s
    relative = np.linalg.norm(missing, axis=0) / np.linalg.norm(s * data.Y, axis=0)
    assert found.residual == pytest.approx(relative.max(), rel=1e-6)


@weighted
def test_a_run_to_the_end_is_the_exact_solve(on_double, weighted, monkeypatch):
    monkeypatch.setattr(_all_rows, "_share", lambda *_: np.nan)  # nothing ends it before
    data = Data(on_double, weighted=weighted)
    found = data.by_early_stopping(0.1)
    assert found.status is Status.STALLED
    assert found.residual < 1e-5
    data.check(replace(found, status=Status.CONVERGED), 0.1, near=1e-3)


@pytest.mark.parametrize("q", [5, 20])
def test_the_error_where_it_stops_is_near_that_of_a_long_run(on_double, request, q):
    data, shifts = Data(on_double), (0.5, 1e-2, 1e-3)
    stopped = [data.by_early_stopping(shift, q=q) for shift in shifts]
    request.getfixturevalue("to_the_end")
    for shift, found in zip(shifts, stopped, strict=True):
        long = data.by_early_stopping(shift, q=q)
        assert found.status is Status.EARLY_STOPPED
        assert len(found.errors) < len(long.errors)
        assert min(found.errors) <= 1.02 * min(long.errors)


def test_early_stopping_knows_no_units_and_keeps_zeros(on_double):
    for unit in (1e-60, 1.0, 1e60):
        data = Data(on_double, unit=unit)
        data.Y[:, 1] = 0.0
        found = data.by_early_stopping(0.1)
        alpha = on_double.host(found.alpha)
        assert np.isfinite(alpha).all()
        assert not alpha[:, 1].any()
        np.testing.assert_allclose(
            oracles.gaussian(data.X, data.X, 1.0) @ alpha / unit,
            oracles.gaussian(data.X, data.X, 1.0) @ data.expected(0.1) / unit,
            atol=0.1,
        )


def test_rows_of_weight_zero_that_are_held_out_say_nothing(on_double):
    data = Data(on_double, weighted=True)
    data.D[N - HELD :] = 0.0
    data.weights = on_double.put(data.D, "float64")
    found = data.by_early_stopping(0.1, solver=ConjugateGradient(max_iter=30, check_every=1))
    assert np.isnan(found.errors).all()
    data.check(replace(found, status=Status.CONVERGED), 0.1, near=1e-3)


def test_without_time_and_on_interruption_the_best_iterate_is_kept(on_double, monkeypatch):
    data = Data(on_double)
    late = data.by_early_stopping(0.1, max_time=1e-9)
    assert late.status is Status.TIME_LIMIT
    assert late.n_iter == 0
    ends = [interrupted(monkeypatch, data, at) for at in (1, 4, 10**9)]
    (first, _), (some, _), (whole, count) = ends
    assert [one.status for one, _ in ends] == [Status.INTERRUPTED] * 2 + [Status.EARLY_STOPPED]
    assert (first.n_iter, not on_double.host(first.alpha).any()) == (0, True)
    assert some.errors == whole.errors[:4]
    for at in range(len(whole.errors) + 1, count + 1):  # with all rows
        later, _ = interrupted(monkeypatch, data, at)
        assert later.status is Status.INTERRUPTED
        assert later.errors == whole.errors
        assert later.residual < some.residual


def interrupted(monkeypatch, data, at):
    """Solve until Ctrl-C comes in a product; also return how many there were."""
    products = []

    class Watched(KernelOperator):
        def __matmul__(self, V):
            products.append(V)
            if len(products) == at:
                raise KeyboardInterrupt
            return super().__matmul__(V)

    with monkeypatch.context() as patched:
        patched.setattr(_all_rows, "KernelOperator", Watched)
        return data.by_early_stopping(0.1, q=5), len(products)


def test_a_matrix_that_is_not_definite_is_an_error(on_double):
    data = Data(on_double)
    data.X[0] = np.nan
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        solve_by_factor(*data.given(), shift=1e-3)


def test_products_by_blocks_are_those_of_the_matrix(on):
    data = Data(on, kernel=Matern32())
    kernel, X, Y, _ = data.given()
    K = on.host(KernelOperator(kernel, Rows(X, X[:0, 0]), X).dense())
    with memory_budget(2**16):
        found = multiply_symmetric(kernel, X, Y)
    np.testing.assert_allclose(on.host(found), K @ data.Y, atol=1e-11)


@weighted
@pytest.mark.parametrize("width", [40, N])
def test_a_factor_of_block_columns_is_that_of_the_whole_matrix(on, weighted, width, monkeypatch):
    data = Data(on, weighted=weighted)
    kernel, X, Y, D = data.given()
    system = _all_rows._System.from_targets(kernel, X, Y, D, 0.1)
    monkeypatch.setattr(_all_rows, "is_host", lambda _: False)
    monkeypatch.setattr(_all_rows, "_WIDTH", width)
    factor, _ = _all_rows._factor_in_half(system)
    s = np.sqrt(data.D)
    A = s * oracles.gaussian(data.X, data.X, 1.0) * s.T + 0.1 * np.eye(N)
    L = np.linalg.cholesky(A)
    for start, column in zip(range(0, N, width), factor.columns, strict=True):
        assert column.shape == (N - start, min(width, N - start))
        np.testing.assert_allclose(
            on.host(column), L[start:, start : start + width], atol=2e-4 * abs(L).max()
        )
    with memory_budget(2**16):
        data.check(solve_by_factor(*data.given(), shift=0.1), 0.1)
