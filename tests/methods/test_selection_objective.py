"""J of kernel feature selection is kernel ridge regression's, and its gradient is J's."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import oracles
import pytest
from sklearn.kernel_ridge import KernelRidge

from gpukfl.kernels import (
    Gaussian,
    GaussianMixture,
    InverseManhattan,
    ManhattanLaplace,
    ManhattanMixture,
    RationalQuadratic,
)
from gpukfl.methods import DenseSelection, FactoredSelection, largest_sparsity

RIDGE = 0.1
BETA = np.asarray([0.7, 0.0, 1.9, 0.2])
BETAS = {"inside": BETA + 0.1, "on an edge": BETA, "zero": np.zeros(4)}


@dataclass(frozen=True)
class Case:
    """A kernel, and the h of its ``k = h(sum_l beta_l |x_l - z_l|^q)``."""

    kernel: Any
    q: int
    h: Callable[[np.ndarray], np.ndarray]

    def __str__(self):
        return str(self.kernel)

    def sums(self, X, beta):
        """What h is taken of (n, n)."""
        return np.sum(beta * np.abs(X[:, None, :] - X[None, :, :]) ** self.q, axis=2)

    def slope(self, u):
        return (self.h(u + 1e-5) - self.h(u - 1e-5)) / 2e-5


CASES = [
    Case(ManhattanLaplace(1.3), 1, lambda u: np.exp(-u / 1.3)),
    Case(InverseManhattan(exponent=2.0), 1, lambda u: 1 / (1 + u) ** 2),
    Case(ManhattanMixture(), 1, lambda u: 0.5 * (np.exp(-0.5 * u) + np.exp(-2 * u))),
    Case(Gaussian(0.9), 2, lambda u: np.exp(-u / (2 * 0.9**2))),
    Case(GaussianMixture(), 2, lambda u: 0.5 * (np.exp(-0.25 * u) + np.exp(-u))),
    Case(RationalQuadratic(), 2, lambda u: 1 / (1 + u / 2)),
]
LAPLACE, GAUSSIAN = CASES[0], CASES[3]
cases = pytest.mark.parametrize("case", CASES, ids=str)
both = pytest.mark.parametrize("case", [LAPLACE, GAUSSIAN], ids=str)
weighted = pytest.mark.parametrize("weighted", [False, True])
targets = pytest.mark.parametrize("t", [1, 3])
forms = pytest.mark.parametrize("form", [DenseSelection, FactoredSelection])


class Problem:
    """Host float64 data with J by scikit-learn, and the same on a place."""

    def __init__(self, on, rng, case, *, weighted=False, t=1, n=18, p=4, ridge=RIDGE):
        self.on, self.case, self.ridge = on, case, ridge
        self.X = on.rounded(rng.standard_normal((n, p)))
        self.D = on.rounded(rng.uniform(0.5, 2.0, (n, 1))) if weighted else None
        Y = np.sin(self.X[:, :1] + self.X[:, 2:3]) + rng.standard_normal((n, t))
        self.Y = on.rounded(Y - np.average(Y, axis=0, weights=self.shares()[:, 0]))

    def shares(self):
        D = np.ones((len(self.X), 1)) if self.D is None else self.D
        return D / np.sum(D)

    def objective(self, form=DenseSelection, *, n_centers=None, seed=0):
        on = self.on
        D = None if self.D is None else on.put(self.D)
        extra = {}
        if form is FactoredSelection:
            rng = np.random.RandomState(seed)
            extra = {"n_centers": n_centers or len(self.X), "rng": rng}
        return form(self.case.kernel, on.put(self.X), on.put(self.Y), self.ridge, D, **extra)

    def alpha(self, K):
        n = len(K) if self.D is None else np.sum(self.D)
        model = KernelRidge(alpha=n * self.ridge, kernel="precomputed")
        D = None if self.D is None else self.D[:, 0]
        return model.fit(K, self.Y, sample_weight=D).dual_coef_

    def value(self, beta):
        K = self.case.h(self.case.sums(self.X, beta))
        alpha = self.alpha(K)
        misfit = np.sum(self.shares() * (self.Y - K @ alpha) ** 2)
        return 0.5 * misfit + 0.5 * self.ridge * np.sum(alpha * (K @ alpha))

    def pull(self, beta):
        """Weights of the differences: the summands of Proposition 4 (n, n)."""
        u = self.case.sums(self.X, beta)
        alpha = self.alpha(self.case.h(u))
        return -0.5 * self.ridge * self.case.slope(u) * (alpha @ alpha.T)

    def gradient(self, beta, order=None):
        A = self.pull(beta)
        A = A if order is None else A[np.ix_(order, order)]
        powers = np.abs(self.X[:, None, :] - self.X[None, :, :]) ** self.case.q
        return np.sum(A[:, :, None] * powers, axis=(0, 1))

    def one_sided_slopes(self, beta, step=2e-4):
        """Differences of J of third order, from the right."""
        out = np.zeros(len(beta))
        for at in range(len(beta)):
            e = step * np.eye(len(beta))[at]
            values = [self.value(beta + k * e) for k in range(4)]
            out[at] = np.dot([-11, 18, -9, 2], values) / (6 * step)
        return out


def slack(on):
    """Relative error of J and its gradient; of the factored form, which drops eigenvalues, too."""
    return 2e-3 if on.dtype_name == "float32" else 1e-8


def assert_gradient(actual, expected, rel):
    assert isinstance(actual, np.ndarray)
    assert actual.dtype == np.float64
    np.testing.assert_allclose(actual, expected, rtol=0, atol=rel * np.max(np.abs(expected)))


@pytest.mark.pairs
@cases
@forms
@weighted
@targets
def test_value_and_gradient_are_those_of_the_formula(on, rng, case, form, weighted, t):
    problem = Problem(on, rng, case, weighted=weighted, t=t)
    objective = problem.objective(form)
    assert objective.n_variables == 4
    for beta in BETAS.values():
        point = objective.evaluate(beta)
        assert isinstance(point.value, float)
        assert point.value == pytest.approx(problem.value(beta), rel=slack(on))
        on.assert_lives_here(point.alpha, "float64")
        assert point.alpha.shape == (18, t)
        assert point.beta is beta
        assert_gradient(objective.gradient(point), problem.gradient(beta), slack(on))


@pytest.mark.pairs
@cases
@forms
@weighted
def test_coefficients_are_those_of_kernel_ridge_regression(on, rng, case, form, weighted):
    problem = Problem(on, rng, case, weighted=weighted, t=2)
    alpha = problem.alpha(case.h(case.sums(problem.X, BETA)))
    found = problem.objective(form).evaluate(BETA).alpha
    on.assert_close(found, alpha, dtype="float64", ulps=slack(on) / np.finfo(np.float64).eps)


@pytest.mark.pairs
@cases
@weighted
def test_gradient_is_that_of_differences(on_double, rng, case, weighted):
    problem = Problem(on_double, rng, case, weighted=weighted, t=2)
    objective, beta = problem.objective(), BETAS["inside"]
    slopes = oracles.slopes(problem.value, beta, 1e-5)
    assert_gradient(objective.gradient(objective.evaluate(beta)), slopes, 1e-6)
    for beta in (BETA, np.zeros(4)):
        slopes = problem.one_sided_slopes(beta)
        assert_gradient(objective.gradient(objective.evaluate(beta)), slopes, 1e-6)


@pytest.mark.pairs
@cases
@forms
def test_gradient_by_some_columns_is_part_of_it(on, rng, case, form):
    problem = Problem(on, rng, case, weighted=True)
    objective = problem.objective(form)
    point = objective.evaluate(BETA)
    whole = objective.gradient(point)
    for columns in ([2], [0, 3], [3, 1], [0, 1, 2, 3], []):
        part = objective.gradient(point, np.asarray(columns, dtype=np.int64))
        assert part.shape == (len(columns),)
        np.testing.assert_allclose(part, whole[columns], rtol=0, atol=10 * on.eps * np.ptp(whole))


@forms
def test_the_last_point_is_kept(on, rng, form):
    objective = Problem(on, rng, LAPLACE).objective(form, n_centers=10)
    point = objective.evaluate(BETA)
    assert objective.evaluate(BETA.copy()) is point
    assert objective.evaluate(2.0 * BETA) is not point
    assert objective.evaluate(BETA) is not point
    point = objective.evaluate(BETA)
    objective.focus(BETA)
    assert (objective.evaluate(BETA) is point) == (form is DenseSelection)  # other centres


@pytest.mark.pairs
@cases
@forms
@weighted
def test_permutations_reorder_the_weights_of_the_differences(on, rng, case, form, weighted):
    problem = Problem(on, rng, case, weighted=weighted, t=2)
    objective = problem.objective(form)
    order, columns = rng.permutation(18), np.asarray([3, 1])
    for beta in (BETA, np.zeros(4)):
        point = objective.evaluate(beta)
        expected = problem.gradient(beta, order)
        scale = np.max(np.abs(expected)) / np.max(np.abs(expected[columns]))
        assert_gradient(objective.gradient(point, None, order), expected, slack(on))
        found = objective.gradient(point, columns, permutation=order)
        assert_gradient(found, expected[columns], slack(on) * scale)
    same = objective.gradient(point, permutation=np.arange(18))
    assert_gradient(same, objective.gradient(point), slack(on))


@pytest.mark.pairs
@both
@forms
@pytest.mark.parametrize("beta", BETAS.values(), ids=BETAS)
def test_several_permutations_are_those_one_by_one(on, rng, case, form, beta):
    problem = Problem(on, rng, case)
    objective = problem.objective(form)
    point, columns = objective.evaluate(beta), np.asarray([3, 1])
    orders = [rng.permutation(18) for _ in range(3)]
    found = objective.gradients(point, columns, iter(orders))
    assert isinstance(found, np.ndarray)
    each = [objective.gradient(point, columns, order) for order in orders]
    np.testing.assert_allclose(found, each, atol=1e-13)  # products of more columns round otherwise


@pytest.mark.pairs
@both
@forms
def test_derivatives_that_are_read_with_the_value_are_those_of_a_gradient(on, rng, case, form):
    problem = Problem(on, rng, case)
    columns = np.asarray([3, 1])
    apart, together = problem.objective(form), problem.objective(form)
    expected = apart.evaluate(BETA), apart.gradient(apart.evaluate(BETA), columns)
    point = together.evaluate(BETA, columns)
    assert point.value == expected[0].value
    for _ in range(2):
        found = together.gradient(point, columns)
        np.testing.assert_array_equal(found, expected[1])
        found += 1.0  # nobody else's
    np.testing.assert_array_equal(together.gradient(point), apart.gradient(expected[0]))


@pytest.mark.pairs
@both
@forms
def test_permutations_are_those_of_variables_without_weight(on_double, rng, case, form):
    """Samples of the other variables in another order, J anew, and its differences."""
    problem = Problem(on_double, rng, case)
    order, beta = rng.permutation(18), np.asarray([1.1, 0.0, 0.0, 0.0])
    objective = problem.objective(form)
    found = objective.gradient(objective.evaluate(beta), np.arange(1, 4), order)
    problem.X[:, 1:] = problem.X[np.argsort(order), 1:]
    assert_gradient(found, problem.one_sided_slopes(beta)[1:], 1e-6)


@pytest.mark.pairs
@cases
@weighted
@targets
def test_the_factored_form_is_exact_at_zero(on, rng, case, weighted, t):
    """There the kernel is constant, and one centre is enough."""
    problem = Problem(on, rng, case, weighted=weighted, t=t)
    dense = problem.objective()
    beta = np.zeros(4)
    exact = dense.evaluate(beta)
    # The mean of the targets is all that a constant fits
    value = 0.5 * np.sum(problem.shares() * problem.Y**2)
    assert exact.value == pytest.approx(value, rel=1e3 * on.eps)
    for n_centers in (1, 3, 18, 100):
        factored = problem.objective(FactoredSelection, n_centers=n_centers)
        point = factored.evaluate(beta)
        assert point.value == pytest.approx(exact.value, rel=1e3 * on.eps)
        assert_gradient(factored.gradient(point), dense.gradient(exact), 1e3 * on.eps)


@pytest.mark.few
@cases
def test_the_factored_form_nears_the_dense_one(on_double, rng, case):
    problem = Problem(on_double, rng, case, weighted=True, n=80, p=3)
    dense, beta = problem.objective(), np.asarray([0.3, 0.0, 0.5])
    exact = dense.evaluate(beta)
    slopes = dense.gradient(exact)
    errors = []
    for n_centers in (2, 8, 32, 80):
        found = []
        for seed in range(2):
            objective = problem.objective(FactoredSelection, n_centers=n_centers, seed=seed)
            for focused in (False, True):
                if focused:
                    objective.focus(beta)
                point = objective.evaluate(beta)
                # Less is fitted by fewer functions
                assert point.value >= exact.value * (1 - 1e-9)
                error = np.max(np.abs(objective.gradient(point) - slopes)) / np.ptp(slopes)
                found.append([point.value / exact.value - 1, error])
        errors.append(np.mean(found, axis=0))
    assert np.all(np.diff(errors, axis=0) < 0)
    assert np.all(errors[2] < 0.15)
    assert np.all(errors[-1] < 1e-7)


@both
def test_focus_chooses_centers_where_they_are_needed(on, rng, case):
    problem = Problem(on, rng, case, n=120, p=3)
    objective = problem.objective(FactoredSelection, n_centers=10)
    dense, beta = problem.objective(), np.asarray([0.3, 0.0, 0.5])
    before = objective.evaluate(beta)
    slopes = objective.gradient(before)
    objective.focus(beta)
    assert len(np.unique(objective.centers)) == len(objective.centers) <= 10
    assert np.all((objective.centers >= 0) & (objective.centers < 120))
    # A point keeps the centres that it was evaluated with
    np.testing.assert_array_equal(objective.gradient(before), slopes)
    exact = dense.evaluate(beta).value
    plain, focused = [], []
    for seed in range(10):
        objective = problem.objective(FactoredSelection, n_centers=10, seed=seed)
        plain.append(objective.evaluate(beta).value - exact)
        objective.focus(beta)
        focused.append(objective.evaluate(beta).value - exact)
    assert np.mean(focused) < np.mean(plain)


def test_focus_leaves_the_dense_form_as_it_is(on, rng):
    problem = Problem(on, rng, LAPLACE)
    objective = problem.objective()
    value = objective.evaluate(BETA).value
    objective.focus(np.ones(4))
    assert objective.evaluate(BETA).value == value


def test_centers_are_drawn_alike_everywhere(on_double, rng):
    problem = Problem(on_double, rng, LAPLACE, n=60)
    objective = problem.objective(FactoredSelection, n_centers=9, seed=3)
    expected = np.sort(np.random.RandomState(3).choice(60, 9, replace=False))
    assert np.array_equal(objective.centers, expected)


@cases
def test_integer_weights_are_repeated_samples(on, rng, case):
    problem = Problem(on, rng, case, t=2)
    counts = rng.integers(1, 4, 18)
    problem.D = counts[:, None].astype(np.float64)
    few = problem.objective()
    problem.X, problem.Y = (np.repeat(a, counts, axis=0) for a in (problem.X, problem.Y))
    problem.D = None
    many = problem.objective()
    for beta in BETAS.values():
        one, other = few.evaluate(beta), many.evaluate(beta)
        assert one.value == pytest.approx(other.value, rel=slack(on))
        assert_gradient(few.gradient(one), many.gradient(other), slack(on))


@pytest.mark.pairs
@both
@forms
def test_weights_count_relative_to_their_sum(on, rng, case, form):
    problem = Problem(on, rng, case, weighted=True)
    before = problem.objective(form)
    problem.D = 8.0 * problem.D
    after = problem.objective(form)
    one, other = before.evaluate(BETA), after.evaluate(BETA)
    assert one.value == pytest.approx(other.value, rel=1e3 * on.eps)
    assert_gradient(before.gradient(one), after.gradient(other), 1e3 * on.eps)


@pytest.mark.pairs
@both
@forms
def test_targets_add_up(on, rng, case, form):
    problem = Problem(on, rng, case, t=3)
    objective = problem.objective(form)
    whole = objective.evaluate(BETA)
    value, gradient, Y = 0.0, 0.0, problem.Y
    for c in range(3):
        problem.Y = Y[:, c : c + 1]
        part = problem.objective(form)
        value += part.evaluate(BETA).value
        gradient += part.gradient(part.evaluate(BETA))
    assert whole.value == pytest.approx(value, rel=1e3 * on.eps)
    assert_gradient(objective.gradient(whole), gradient, 1e3 * on.eps)


@pytest.mark.pairs
@cases
@forms
def test_constant_columns_change_nothing(on, rng, case, form):
    problem = Problem(on, rng, case, p=5)
    problem.X[:, 4] = on.rounded(0.1)
    objective = problem.objective(form)
    one, other = objective.evaluate(np.append(BETA, 0.0)), objective.evaluate(np.append(BETA, 2.0))
    assert one.value == pytest.approx(other.value, rel=slack(on))
    slopes = objective.gradient(one)
    assert abs(slopes[4]) <= 1e-12 * np.ptp(slopes)


class TestLandscape:
    """Proposition 3: what gradient descent from 0 sees of a signal, by the l1 and l2 kernels."""

    @staticmethod
    def even(on, rng, case):
        """Samples that come in pairs x and -x, and a signal without linear part."""
        problem = Problem(on, rng, case, n=40, p=3)
        half = problem.X[:20]
        problem.X = np.concatenate([half, -half])
        squares = problem.X[:, :1] ** 2
        problem.Y = on.rounded(squares - np.mean(squares))
        return problem

    @forms
    def test_even_signals_are_hidden_from_squares_at_zero(self, on, rng, form):
        problem = self.even(on, rng, GAUSSIAN)
        objective = problem.objective(form)
        slopes = objective.gradient(objective.evaluate(np.zeros(3)))
        spread = np.sum(np.abs(problem.pull(np.zeros(3)))) * np.max(np.abs(problem.X)) ** 2
        assert np.max(np.abs(slopes)) <= 10 * on.eps * spread
        # It is no minimum: a long step gains
        assert (
            objective.evaluate(np.asarray([0.5, 0.0, 0.0])).value
            < 0.9 * objective.evaluate(np.zeros(3)).value
        )

    @forms
    def test_even_signals_are_seen_by_absolute_differences_at_zero(self, on, rng, form):
        problem = self.even(on, rng, LAPLACE)
        objective = problem.objective(form)
        slopes = objective.gradient(objective.evaluate(np.zeros(3)))
        assert np.argmin(slopes) == 0
        assert slopes[0] < -0.1 * objective.evaluate(np.zeros(3)).value
        assert np.all(slopes < 0)  # as of any sample that is not quite independent
        assert largest_sparsity(objective) == -slopes[0]

    def test_signals_beside_others_are_hidden_from_squares(self, on_double, rng):
        """The second variable stays out for a signal with neither linear nor quadratic part."""
        axis = np.linspace(-2, 2, 7)
        X = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        squares = axis**2 - np.mean(axis**2)
        quartic = axis**4 - np.mean(axis**4)
        signal = quartic - squares * (quartic @ squares) / (squares @ squares)
        for case, hidden in [(GAUSSIAN, True), (LAPLACE, False)]:
            problem = Problem(on_double, rng, case)
            problem.X, problem.Y = X, 0.3 * X[:, :1] + np.repeat(signal, 7)[:, None]
            objective = problem.objective()
            assert abs(objective.gradient(objective.evaluate(np.zeros(2)))[1]) < 1e-12 or not hidden
            slopes = objective.gradient(objective.evaluate(np.asarray([0.6, 0.0])))
            assert (slopes[1] > 0) == hidden


@pytest.mark.parametrize("ridge", [1e-1, 1e-2])
def test_the_error_of_a_gradient_through_centres_is_estimated(rng, on_double, ridge):
    X, beta = rng.standard_normal((300, 4)), np.asarray([0.5, 0.5, 0.0, 0.0])
    y = X[:, :1] + X[:, 1:2] ** 2 + 0.3 * rng.standard_normal((300, 1))
    given = ManhattanLaplace(), on_double.put(X), on_double.put(y - y.mean()), ridge
    draws = np.random.RandomState(0)
    few = FactoredSelection(*given, n_centers=32, rng=draws)
    few.focus(beta)
    exact, columns = DenseSelection(*given), np.arange(2)
    there = exact.gradient(exact.evaluate(beta), columns)
    error = np.linalg.norm(few.gradient(few.evaluate(beta), columns) - there) / np.linalg.norm(
        there
    )
    assert 0.3 * error <= few.gradient_error(beta) <= 1.5 * error
    assert few.gradient_error(np.zeros(4)) == 0.0  # where it is exact
    assert FactoredSelection(*given, n_centers=300, rng=draws).gradient_error(beta) == 0.0
