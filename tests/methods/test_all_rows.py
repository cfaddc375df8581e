"""All samples as centres: float32 with refinement solves as a dense factor of float64 does."""

import numpy as np
import oracles
import pytest

from gpukfl.core._memory import memory_budget
from gpukfl.core._results import Status
from gpukfl.kernels import Gaussian, Matern32
from gpukfl.methods import (
    NystromSystem,
    centers_preconditioner,
    solve_by_factor,
    solve_by_products,
)
from gpukfl.methods._all_rows import multiply_symmetric
from gpukfl.operators import KernelOperator
from gpukfl.partitioned._rows import Rows
from gpukfl.solvers import ConjugateGradient

pytestmark = pytest.mark.entered
weighted = pytest.mark.parametrize("weighted", [False, True])
N, Q = 150, 30


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

    def preconditioner(self, shift):
        kernel, X, Y, weights = self.given()
        operator = KernelOperator(kernel, Rows(X, X[:0, 0]), X[:Q, :], keep=True)
        system = NystromSystem.from_rows(operator, Y, weights)
        factors = system.factors(shift / system.weight)
        return centers_preconditioner(operator, *factors, weights, shift=shift)

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
