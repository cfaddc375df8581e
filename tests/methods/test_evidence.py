"""The evidence is scikit-learn's, its gradients are those of its values, and the bound is below."""

import math
from dataclasses import replace

import numpy as np
import oracles
import pytest
from array_api_compat import array_namespace
from registry import KERNEL_CASES
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from gpukfl.core._results import History, Status
from gpukfl.kernels import Gaussian, Matern32, Matern52
from gpukfl.linalg import CholeskyFactor
from gpukfl.methods import (
    BoundCriterion,
    BoundPosterior,
    ExactCriterion,
    MetricPrior,
    fit_metric,
    variances,
)
from gpukfl.methods._evidence import MetricFit, _Descent
from gpukfl.operators import diagonal_map
from gpukfl.partitioned._rows import Rows
from gpukfl.solvers import LBFGS

kernels = pytest.mark.parametrize("case", KERNEL_CASES, ids=str)
criteria = pytest.mark.parametrize("name", ["evidence", "loo"])
weighted = pytest.mark.parametrize("weighted", [False, True])
shaped = pytest.mark.parametrize("diagonal", [False, True])
RATIO = 0.07
ORACLES = [(Gaussian(), RBF), (Matern32(), Matern), (Matern52(), Matern)]


class Problem:
    """Host float64 data, and the criteria of the same on a place."""

    def __init__(self, on, rng, kernel=None, formula=None, *, weighted=False, t=2, n=22):
        self.on, self.t, self.n = on, t, n
        self.kernel = kernel or Gaussian()
        self.formula = formula or (lambda U, V: oracles.gaussian(U, V, 1.0))
        self.X = on.rounded(rng.standard_normal((n, 3)))
        noise = 0.2 * rng.standard_normal((n, t))
        self.Y = on.rounded(np.sin(self.X[:, :1] + self.X[:, 1:2]) + noise)
        self.w = on.rounded(rng.uniform(0.5, 2.0, (n, 1)) if weighted else np.ones((n, 1)))
        self.weights = on.put(self.w) if weighted else None
        self.B = on.rounded(0.6 * rng.standard_normal((2, 3)))

    def exact(self, name="evidence"):
        X, Y = self.on.put(self.X), self.on.put(self.Y)
        return ExactCriterion(self.kernel, X, Y, criterion=name, weights=self.weights)

    def bound(self, Z):
        rows, Y = Rows(self.on.put(self.X), self.on.reference), self.on.put(self.Y)
        return BoundCriterion(self.kernel, rows, self.on.put(Z), Y, weights=self.weights)

    def covariance(self, B, ratio):
        U = self.X @ B.T
        return self.formula(U, U) + ratio * np.diag(1.0 / self.w[:, 0])

    def evidence(self, B, ratio):
        """Log densities of the targets at the best amplitudes."""
        S, total = self.covariance(B, ratio), 0.0
        for y in self.Y.T:
            square = y @ np.linalg.solve(S, y) / self.n
            total += multivariate_normal(np.zeros(self.n), square * S).logpdf(y)
        return total

    def left_out(self, B, ratio):
        """Errors of fits to all samples but one."""
        S, error = self.covariance(B, ratio), 0.0
        for i in range(self.n):
            others = np.arange(self.n) != i
            weights = np.linalg.solve(S[np.ix_(others, others)], self.Y[others])
            error += self.w[i, 0] * np.sum((self.Y[i] - S[i, others] @ weights) ** 2)
        return -0.5 * self.n * self.t * math.log(error / (self.n * self.t))


@criteria
@weighted
def test_values_are_those_of_the_definitions(on, rng, name, weighted):
    problem = Problem(on, rng, weighted=weighted)
    found = problem.exact(name)(on.put(problem.B), RATIO)
    expected = {"evidence": problem.evidence, "loo": problem.left_out}[name](problem.B, RATIO)
    assert found.value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["evidence", "loo", "bound"])
def test_targets_that_are_0_say_nothing(on, rng, name):
    problem = Problem(on, rng)
    B, Z = on.put(problem.B), on.put(problem.X[:8])
    Y = np.concatenate([problem.Y, np.zeros((problem.n, 2))], axis=1)

    def slopes(targets):
        given = on.put(problem.X), on.put(targets)
        if name == "bound":
            rows = Rows(given[0], Z[:0, 0])
            criterion = BoundCriterion(problem.kernel, rows, Z, given[1], count=problem.t)
        else:
            criterion = ExactCriterion(problem.kernel, *given, criterion=name, count=problem.t)
        return criterion(B, RATIO)

    found, expected = slopes(Y), slopes(problem.Y)
    assert found.value == pytest.approx(expected.value, rel=1e-12)
    assert found.log_ratio == pytest.approx(expected.log_ratio, rel=1e-9)
    np.testing.assert_allclose(found.metric, expected.metric, rtol=1e-9, atol=1e-12)


@pytest.mark.each
@criteria
@kernels
@weighted
def test_gradients_are_those_of_the_values(on_double, rng, name, case, weighted):
    on, problem = on_double, Problem(on_double, rng, case.kernel, case.formula, weighted=weighted)
    criterion = problem.exact(name)
    found = criterion(on.put(problem.B), RATIO)
    value = {"evidence": problem.evidence, "loo": problem.left_out}[name]
    slopes = oracles.slopes(lambda B: value(B, RATIO), problem.B, 1e-6)
    assert np.max(np.abs(found.metric - slopes)) <= 1e-5 * np.max(np.abs(slopes))
    step = 1e-5
    up, down = (value(problem.B, RATIO * math.exp(s)) for s in (step, -step))
    assert found.log_ratio == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-6)


@criteria
def test_a_diagonal_is_its_map(on, rng, name):
    problem = Problem(on, rng)
    criterion, c = problem.exact(name), on.put([0.5, 1.0, 2.0], "float64")
    as_diagonal, as_map = criterion(c, RATIO), criterion(diagonal_map(c), RATIO)
    assert as_diagonal.value == pytest.approx(as_map.value, rel=1e-12)
    slopes = np.diag(as_map.metric)
    np.testing.assert_allclose(as_diagonal.metric, slopes, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("kernel", "oracle"), ORACLES, ids=lambda o: type(o).__name__)
def test_value_and_gradient_are_those_of_scikit_learn(rng, kernel, oracle):
    X, ell = rng.standard_normal((40, 3)), np.array([0.7, 1.5, 4.0])
    Y = np.sin(X[:, :1]) + 0.1 * rng.standard_normal((40, 2))
    criterion = ExactCriterion(kernel, X, Y)
    found = criterion(1.0 / ell, RATIO)
    value, slopes = 0.0, np.zeros(5)
    for y, square in zip(Y.T, criterion.posterior(1.0 / ell, RATIO).squares, strict=True):
        nu = {} if oracle is RBF else {"nu": 1.5 if isinstance(kernel, Matern32) else 2.5}
        theirs = ConstantKernel(square) * oracle(ell, **nu) + WhiteKernel(RATIO * square)
        gp = GaussianProcessRegressor(theirs, alpha=0.0, optimizer=None).fit(X, y)
        one, gradient = gp.log_marginal_likelihood(theirs.theta, eval_gradient=True)
        value, slopes = value + one, slopes + gradient
    assert found.value == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(-found.metric / ell, slopes[1:4], rtol=1e-6)
    assert found.log_ratio == pytest.approx(slopes[4], rel=1e-6)
    assert slopes[0] + slopes[4] == pytest.approx(0.0, abs=1e-6)  # the amplitudes are the best


def test_the_posterior_is_that_of_scikit_learn(rng):
    X, y = rng.standard_normal((30, 2)), rng.standard_normal(30)
    new = rng.standard_normal((9, 2))
    posterior = ExactCriterion(Gaussian(), X, y[:, None]).posterior(np.ones(2), RATIO)
    (square,) = posterior.squares
    theirs = ConstantKernel(square) * RBF(1.0) + WhiteKernel(RATIO * square)
    gp = GaussianProcessRegressor(theirs, alpha=0.0, optimizer=None).fit(X, y)
    mean, std = gp.predict(new, return_std=True)
    K = oracles.gaussian(new, X, 1.0)
    np.testing.assert_allclose((K @ posterior.dual_coef)[:, 0], mean, atol=1e-9)
    latent = variances(np.ones(9), K, *posterior.factors)
    np.testing.assert_allclose(np.sqrt(square * (latent + RATIO)), std, rtol=1e-7)


@criteria
def test_the_order_of_samples_and_inputs_are_left_alone(on, rng, name):
    problem = Problem(on, rng, weighted=True)
    before = problem.exact(name)(on.put(problem.B), RATIO)
    order = rng.permutation(problem.n)
    problem.X, problem.Y, problem.w = problem.X[order], problem.Y[order], problem.w[order]
    problem.weights = on.put(problem.w)
    after = problem.exact(name)(on.put(problem.B), RATIO)
    assert after.value == pytest.approx(before.value, rel=1e-10)
    np.testing.assert_allclose(after.metric, before.metric, rtol=1e-7, atol=1e-8)


# ---------------------------------------------------------------------- through centres


@pytest.mark.few
@pytest.mark.each
@kernels
@weighted
def test_the_gradients_of_the_bound_are_those_of_its_values(on_double, rng, case, weighted):
    on, problem = on_double, Problem(on_double, rng, case.kernel, case.formula, weighted=weighted)
    criterion = problem.bound(problem.X[:3])  # no more than the rank of a linear kernel
    found = criterion(on.put(problem.B), RATIO)

    def value(B, ratio):  # without its gradients
        return criterion.evaluate(on.put(B), ratio)[1]

    slopes = oracles.slopes(lambda B: value(B, RATIO), problem.B, 1e-6)
    assert np.max(np.abs(found.metric - slopes)) <= 1e-5 * np.max(np.abs(slopes))
    up, down = (value(problem.B, RATIO * math.exp(s)) for s in (1e-5, -1e-5))
    assert found.log_ratio == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-5)
    as_diagonal = criterion(on.put([0.5, 1.0, 2.0]), RATIO)
    as_map = criterion(diagonal_map(on.put([0.5, 1.0, 2.0])), RATIO)
    np.testing.assert_allclose(as_diagonal.metric, np.diag(as_map.metric))


@weighted
def test_with_all_rows_for_centres_the_bound_is_the_evidence(on, rng, weighted):
    problem = Problem(on, rng, Matern32(), weighted=weighted)
    B = on.put(problem.B, "float64")
    exact, bound = problem.exact()(B, RATIO), problem.bound(problem.X)(B, RATIO)
    assert bound.value == pytest.approx(exact.value, rel=1e-6)
    assert bound.log_ratio == pytest.approx(exact.log_ratio, rel=1e-5, abs=1e-5)
    np.testing.assert_allclose(bound.metric, exact.metric, rtol=1e-5, atol=1e-5)
    posterior, value = problem.bound(problem.X).evaluate(B, RATIO)
    assert value == pytest.approx(bound.value, rel=1e-12)
    own = problem.exact().posterior(B, RATIO)
    U, V = (on.put(X @ problem.B.T, "float64") for X in (problem.X + 0.3, problem.X))
    K, diagonal = problem.kernel(U, V), problem.kernel.diagonal(U)
    for found in (
        lambda p: p.squares,
        lambda p: p.dual_coef,
        lambda p: variances(diagonal, K, *p.factors),
    ):
        ours, theirs = (on.host(found(p)) for p in (posterior, own))
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * np.max(np.abs(theirs)))


@pytest.mark.parametrize("q", [1, 4, 12])
def test_the_bound_is_below_and_rises_with_centres(rng, on_double, q):
    problem = Problem(on_double, rng, t=1)
    B = on_double.put(problem.B)
    values = [problem.bound(problem.X[:m])(B, RATIO).value for m in (q, q + 5)]
    assert values[0] <= values[1] <= problem.exact()(B, RATIO).value + 1e-6


@weighted
def test_variances_through_centres_are_those_of_the_formula(rng, on_double, weighted):
    problem = Problem(on_double, rng, weighted=weighted)
    Z, new = problem.X[:6], problem.X + 0.3
    posterior, _ = problem.bound(Z).evaluate(on_double.put(problem.B), RATIO)
    K, core, own = (problem.formula(X @ problem.B.T, Z @ problem.B.T) for X in (new, Z, problem.X))
    core = core + posterior.factor.jitter * np.eye(6)
    posed = core + own.T @ (problem.w * own) / RATIO
    expected = 1.0 - np.sum(K.T * (np.linalg.solve(core, K.T) - np.linalg.solve(posed, K.T)), 0)
    found = variances(on_double.put(np.ones(problem.n)), on_double.put(K), *posterior.factors)
    np.testing.assert_allclose(on_double.host(found), expected, rtol=1e-8)


def test_sums_that_rounding_has_made_indefinite_get_more_jitter(rng, on_double):
    problem = Problem(on_double, rng)
    copies = np.concatenate([problem.X[:4], problem.X[:4]])
    system = problem.bound(copies).system(on_double.put(problem.B))
    ratio, one = 1e-3, on_double.put(np.eye(8))
    exact = BoundPosterior.from_system(system, ratio, 1.0)
    rounded = BoundPosterior.from_system(
        replace(system, gram=system.gram - 1e-10 * one), ratio, 1.0
    )
    assert rounded.factor.jitter > exact.factor.jitter
    np.testing.assert_allclose(
        on_double.host(rounded.squares), on_double.host(exact.squares), rtol=0.05
    )


class RoundedCriterion(BoundCriterion):
    """A bound whose sums over rows have one eigenvalue that rounding made negative."""

    negative = 3e-8  # between a hundred and a thousand times the ratio that is asked for

    def system(self, C):
        system = super().system(C)
        xp, L = array_namespace(system.gram), system.factor(1e-14).L
        H, _ = system.whiten(system.factor(1e-14))
        values, vectors = xp.linalg.eigh(H)
        direction = L.L @ vectors[:, :1]
        changed = (values[0] + self.negative) * (direction @ direction.T)
        return replace(system, gram=system.gram - changed)


def test_noise_below_the_rounding_of_sums_is_raised_until_there_is_a_solution(rng, on_double):
    on, problem = on_double, Problem(on_double, rng, kernel=Matern32(), n=300, t=1)
    problem.Y = problem.X[:, :1] - problem.X[:, :1].mean()  # without noise
    exact = problem.bound(problem.X[:40])
    criterion = RoundedCriterion(exact.kernel, exact.rows, exact.Z, exact.Y)
    C = on.put(np.ones(3))
    with pytest.raises(np.linalg.LinAlgError):
        BoundPosterior.from_system(criterion.system(C), 1e-10, 1.0)
    posterior, value = criterion.evaluate(C, 1e-10)
    assert posterior.ratio == pytest.approx(1e-7)
    assert value == criterion.evaluate(C, posterior.ratio)[1]
    assert criterion.evaluate(C, 1e-4)[0].ratio == 1e-4
    with pytest.raises(np.linalg.LinAlgError):
        criterion.evaluate(on.put(np.full(3, np.nan)), 1e-4)


# ---------------------------------------------------------------------- fits


def descended(problem, start, **options):
    options = {"prior": MetricPrior(2.0), "optimizer": LBFGS(max_iter=40), **options}
    return fit_metric(problem.exact(), start, **options)


@shaped
def test_a_fit_raises_the_evidence_and_says_how_it_ended(on, rng, diagonal):
    problem = Problem(on, rng, n=40)
    C = on.put(np.ones(3) if diagonal else np.eye(3)[:2], "float64")
    found = descended(problem, [(C, 0.5)])
    on.assert_lives_here(found.C, "float64")
    assert tuple(found.C.shape) == tuple(C.shape)
    assert found.status is Status.CONVERGED
    assert found.history.objective[0] >= found.history.objective[-1]
    assert problem.exact()(found.C, found.ratio).value > problem.exact()(C, 0.5).value + 1.0
    none = descended(problem, [(C, 0.5)], optimizer=LBFGS(max_iter=0))
    np.testing.assert_allclose(on.host(none.C), on.host(C))
    assert none.ratio == pytest.approx(0.5)


@pytest.mark.parametrize("k", [2, 3])
def test_units_of_features_leave_the_descent_of_a_map_as_it_is(on_double, rng, k):
    problem, units = Problem(on_double, rng, n=40), np.array([2.0**-3, 1.0, 2.0**4])
    start = rng.uniform(0.5, 1.0, (k, 3))
    found = descended(problem, [(on_double.put(start), 0.5)])
    problem.X = problem.X * units
    other = descended(problem, [(on_double.put(start / units), 0.5)])
    np.testing.assert_allclose(other.history.objective, found.history.objective, rtol=1e-9)
    np.testing.assert_allclose(
        on_double.host(other.C) * units, on_double.host(found.C), rtol=1e-6, atol=1e-8
    )


def test_features_that_the_start_does_not_see_can_come_in(rng):
    X = rng.standard_normal((60, 3))
    criterion = ExactCriterion(Gaussian(), X, np.sin(X[:, 1:2]))
    for start in (np.diag([1.0, 0.0, 0.0]), np.zeros((3, 3))):
        start[0, 1] = 1e-3
        found = fit_metric(
            criterion, [(start, 0.1)], prior=MetricPrior(2.0), optimizer=LBFGS(max_iter=60)
        )
        norms = np.linalg.norm(found.C, axis=0)
        assert norms[1] > 2.0 * max(norms[0], norms[2])


def test_the_best_of_several_starts_goes_on(on_double, rng):
    problem = Problem(on_double, rng, n=40)
    bad, good = np.full(3, 1e-3), np.ones(3)
    one, other = ((on_double.put(c), 0.1) for c in (bad, good))
    alone, both = descended(problem, [other]), descended(problem, [one, other])
    assert both.value == pytest.approx(alone.value, abs=0.1)


def test_a_ratio_can_be_kept(on_double, rng):
    problem = Problem(on_double, rng)
    found = descended(problem, [(on_double.put(np.ones(3)), 0.3)], learn_ratio=False)
    assert found.ratio == pytest.approx(0.3)


def test_lengthscales_find_the_features_that_matter(rng):
    X = rng.standard_normal((150, 6))
    y = np.sin(2 * X[:, :1]) + 0.05 * rng.standard_normal((150, 1))
    criterion = ExactCriterion(Matern52(), X, y / y.std())
    found = fit_metric(
        criterion, [(np.full(6, 0.3), 0.1)], prior=MetricPrior(3.0), optimizer=LBFGS(max_iter=60)
    )
    assert found.C[0] > 5 * np.max(found.C[1:])
    assert found.ratio < 0.05


def test_the_prior_keeps_what_the_data_do_not_know(rng):
    X, y = rng.standard_normal((30, 2)), rng.standard_normal((30, 1))
    y -= y.mean()
    fits = [
        fit_metric(
            ExactCriterion(Gaussian(), X, y),
            [(np.ones(2), 0.5)],
            prior=MetricPrior(2.0, length_spread=spread, ratio_spread=spread),
            optimizer=LBFGS(max_iter=100),
        )
        for spread in (0.3, 30.0)
    ]
    tight, loose = (abs(np.log(2.0 * fit.C)).max() for fit in fits)
    assert tight < loose


def twins(rng):
    """Samples whose targets differ where a feature differs next to nothing."""
    level = np.repeat(rng.standard_normal(20), 2)
    level[1::2] += 1e-4
    X = np.stack([np.repeat(level, 6), rng.standard_normal(240)], axis=1)
    y = np.repeat(np.tile([-1.0, 1.0], 20), 6)[:, None]
    return X, y


def test_lengthscales_end_where_distances_are_rounded(rng):
    X, y = twins(rng)
    criterion, prior = ExactCriterion(Matern32(), X, y), MetricPrior(2.0, length_spread=30.0)
    start = np.array([1e9, 1.0]), 1e-6
    found = fit_metric(criterion, [start], prior=prior, optimizer=LBFGS(max_iter=200))
    assert found.status is not Status.MAX_ITER
    assert np.max(found.C) <= 500.0 * (1.0 + 1e-12)
    # So that it may go on with more samples from where it ended
    again = ExactCriterion(Matern32(), np.tile(X, (2, 1)), np.tile(y, (2, 1)))
    more = fit_metric(again, [(found.C, found.ratio)], prior=prior, optimizer=LBFGS(max_iter=2))
    assert np.isfinite(more.value)


def test_the_prior_counts_the_less_the_more_targets_there_are(rng):
    X = rng.standard_normal((60, 3))
    y = np.sin(2.0 * X[:, :1]) + 0.3 * rng.standard_normal((60, 1))
    start, found = [(np.full(3, 0.5), 0.05)], []
    for Y, wider in ((np.hstack([y, y]), 1.0), (y, 2**0.5), (y, 1.0)):
        prior = MetricPrior(2.0, length_spread=wider, ratio_spread=2.0 * wider)
        criterion = ExactCriterion(Gaussian(), X, Y)
        fit = fit_metric(criterion, start, prior=prior, optimizer=LBFGS(max_iter=200))
        found.append([*np.log(fit.C), math.log(fit.ratio)])
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    assert np.max(np.abs(np.subtract(found[0], found[2]))) > 0.01


def test_the_slope_of_what_ended_is_the_priors(rng):
    X, y = twins(rng)
    prior = MetricPrior(2.0)
    descent = _Descent(ExactCriterion(Matern32(), X, y), prior, np.array([1e4, 1.0]), 0.1, True)
    x = descent.start
    np.testing.assert_allclose(descent.unpack(x)[0], [500.0, 1.0])
    slopes = oracles.slopes(lambda v: descent.function(v)[0], x, 1e-6)
    np.testing.assert_allclose(descent.function(x)[1], slopes, rtol=1e-3)


def test_the_gradient_of_the_prior(rng):
    prior, x = MetricPrior(3.0), rng.standard_normal(4)
    for lengths in (True, False):
        value, slope = prior(x, lengths=lengths)
        slopes = oracles.slopes(lambda v, own=lengths: prior(v, lengths=own)[0], x, 1e-6)
        np.testing.assert_allclose(slope, slopes, atol=1e-7)
        assert value <= 0


def test_the_inverse_of_a_factor(on, rng):
    A = rng.standard_normal((7, 7))
    A = on.rounded(A @ A.T + 7 * np.eye(7))
    on.assert_close(CholeskyFactor.factor(on.put(A)).inverse(), np.linalg.inv(A), ulps=200)


# ---------------------------------------------------------------------- the noise to begin with


@pytest.mark.pairs
@weighted
@pytest.mark.parametrize("start", [1e-7, 1e-3, 0.05, 30.0])
def test_a_noise_ratio_nearby_is_the_best_of_its_neighbours(on_double, rng, weighted, start):
    problem = Problem(on_double, rng, weighted=weighted, n=60)
    criterion = problem.bound(problem.X[:15])
    C = on_double.put(np.full(3, 0.7))
    found = criterion.ratio_nearby(C, start)
    value = [criterion.evaluate(C, ratio)[1] for ratio in (found / 4, found, found * 4)]
    assert value[1] >= max(value)
    assert value[1] >= criterion.evaluate(C, start)[1]
    power = math.log(found / start, 4)
    assert power == pytest.approx(round(power), abs=1e-9)


def test_the_mean_of_metrics_is_geometric(on, rng):
    shapes = [(4,), (2, 1, 4), (3, 4), (4,)]
    metrics = [
        MetricFit(
            on.put(np.exp(rng.standard_normal(shape)), "float64"),
            0.1 * (k + 1),
            0.0,
            Status.CONVERGED,
            History(),
        )
        for k, shape in enumerate(shapes)
    ]
    alone, several, full, other = metrics
    both = alone.mean_with([other])
    np.testing.assert_allclose(on.host(both.C) ** 2, on.host(alone.C) * on.host(other.C))
    assert both.ratio**2 == pytest.approx(0.1 * 0.4)
    assert (alone.n_fits, both.n_fits) == (1, 2)
    same = several.mean_with([several, several])
    np.testing.assert_allclose(on.host(same.C), on.host(several.C))
    assert alone.mean_with([several]) is alone  # of other kernels
    assert full.mean_with([full]) is full  # no diagonal
    assert alone.mean_with([None]) is alone
