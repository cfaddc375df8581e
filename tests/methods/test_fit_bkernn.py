"""The network: gradient, objective and fit, the same on every place."""

import numpy as np
import oracles
import pytest
from brief import bkernn

from gpukfl.core._results import Status
from gpukfl.methods import RidgeSystem, fit_bkernn
from gpukfl.methods._bkernn import _ReducedObjective
from gpukfl.operators import BinnedBrownianKernel, BrownianKernel
from gpukfl.partitioned._rows import Rows
from gpukfl.penalties import Basic, ConcaveVariable, Feature, Variable
from gpukfl.solvers import ProximalGradient

N, D, M, RIDGE = 80, 3, 4, 0.02


class Data:
    """Regression data that float32 represents exactly, so that all places see the same."""

    def __init__(self, rng, *, weighted=False):
        def single(a):
            return np.asarray(a, dtype=np.float32).astype(np.float64)

        self.X = single(rng.standard_normal((N, D)))
        self.Y = single(np.abs(self.X[:, :1]) + 0.1 * rng.standard_normal((N, 1)))
        self.W = single(rng.standard_normal((D, M)) / np.sqrt(D))
        self.s = single(rng.uniform(0.5, 2.0, (N, 1))) if weighted else None

    def system(self, on, ridge=RIDGE):
        return RidgeSystem(on.put(self.Y), ridge, None if self.s is None else on.put(self.s))

    def maker(self, on, n_knots=None):
        X = on.put(self.X)
        if n_knots is None:
            return lambda W: BrownianKernel.build(X, W)
        rows = Rows(X, on.reference)
        return lambda W: BinnedBrownianKernel.build(rows, W, n_knots=n_knots)

    def fit(self, on, *, n_knots=None, ridge=RIDGE, penalty=None, watch=None, **settings):
        more = {} if watch is None else {"watch": watch}
        return fit_bkernn(
            self.maker(on, n_knots),
            self.system(on, ridge),
            on.put(self.W),
            penalty=penalty or Feature(),
            optimizer=ProximalGradient(**settings),
            **more,
        )

    def reduced(self, W):
        """G(W), densely."""
        s = np.ones((N, 1)) if self.s is None else self.s
        K = oracles.brownian(self.X, W)
        inside = oracles.centered(oracles.centered(s * K * s.T, s).T, s)
        target = oracles.centered(s * self.Y, s)
        A = inside + np.sum(s**2) * RIDGE * np.eye(N)
        return 0.5 * RIDGE * np.sum(target * np.linalg.solve(A, target))


@pytest.mark.parametrize("weighted", [False, True])
def test_reduced_objective_and_its_gradient(on_double, rng, weighted):
    on, data = on_double, Data(rng, weighted=weighted)
    objective = _ReducedObjective(data.maker(on), data.system(on), 1e-10)
    evaluation = objective.evaluate(on.put(data.W), None, np.inf)
    assert evaluation.lower == pytest.approx(data.reduced(data.W), rel=1e-11)
    assert evaluation.upper == pytest.approx(evaluation.lower, rel=1e-11)
    gradient = on.host(objective.gradient(evaluation))
    for index in np.ndindex(D, M):
        step = np.zeros((D, M))
        step[index] = 1e-6
        difference = (data.reduced(data.W + step) - data.reduced(data.W - step)) / 2e-6
        assert abs(gradient[index] - difference) <= 1e-6 * np.max(np.abs(gradient))


@pytest.fixture(scope="module")
def reference_place(request):
    from conftest import Place

    return Place("numpy", "cpu", "float64")


@pytest.mark.each
@pytest.mark.parametrize("n_knots", [None, 64])
@pytest.mark.parametrize("penalty", [Basic(), Variable(), Feature(), ConcaveVariable()], ids=str)
def test_every_place_learns_the_same_particles(on, rng, reference_place, penalty, n_knots):
    data = Data(rng)
    settings = dict(n_knots=n_knots, penalty=penalty, max_iter=5, tol=0.0)
    expected = data.fit(reference_place, **settings)
    fit = data.fit(on, **settings)
    on.assert_lives_here(fit.W)
    on.assert_lives_here(fit.alpha)
    on.assert_lives_here(fit.intercept)
    assert fit.status is expected.status is Status.MAX_ITER
    # Fixed-point positions and close projections turn rounding into steps of this size
    slack = 5e-3 if on.dtype_name == "float32" else 1e-6
    assert np.max(np.abs(on.host(fit.W) - expected.W)) <= slack * np.max(np.abs(expected.W))
    assert fit.history.objective == pytest.approx(expected.history.objective, rel=slack)


@pytest.mark.each
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("step_size", ["auto", 5.0])
def test_objective_falls_to_that_of_the_returned_model(on, rng, weighted, step_size):
    data = Data(rng, weighted=weighted)
    fit = data.fit(on, step_size=step_size, max_iter=25, tol=1e-6)
    history = fit.history
    assert len(history) >= 5
    assert np.all(np.diff(history.objective) <= 100 * on.eps * history.objective[0])
    assert len(history.step) == len(history.seconds) == len(history.residual) == len(history)
    assert fit.solve_status is Status.CONVERGED
    W, alpha, c = (on.host(a).astype(np.float64) for a in (fit.W, fit.alpha, fit.intercept))
    fitted = on.host(fit.kernel @ fit.alpha)
    w = np.ones((N, 1)) if data.s is None else data.s**2
    primal = np.sum(w * (data.Y - fitted - c) ** 2) / (2 * np.sum(w))
    primal += RIDGE / 2 * np.sum(alpha * (oracles.brownian(data.X, W) @ alpha))
    primal += RIDGE * np.sum(np.linalg.svd(W, compute_uv=False)) / (2 * np.sqrt(M))
    assert history.objective[-1] == pytest.approx(primal, rel=1e3 * on.eps + 1e-8)


def test_watcher_sees_finished_models(on, rng):
    data, seen = Data(rng), []

    def watch(k, W, finish, history):
        fit = finish()
        on.assert_close(fit.W, on.host(W), ulps=0)
        missing = data.Y - on.host(fit.kernel @ fit.alpha) - on.host(fit.intercept)
        seen.append(float(np.mean(missing**2)))
        return Status.EARLY_STOPPED if k == 3 else None

    fit = data.fit(on, watch=watch, tol=0.0)
    assert fit.status is Status.EARLY_STOPPED
    assert len(seen) == len(fit.history) == 4
    assert seen[-1] < seen[0]


def test_a_large_ridge_leaves_the_mean(on, rng):
    data = Data(rng)
    fit = data.fit(on, ridge=100.0)
    assert fit.status is Status.COLLAPSED
    on.assert_close(fit.W, np.zeros((D, M)), ulps=0)
    predicted = on.host(fit.kernel @ fit.alpha) + on.host(fit.intercept)
    assert np.max(np.abs(predicted - np.mean(data.Y))) <= 100 * on.eps


def test_penalty_strength_is_relative_to_the_ridge(on_double, rng):
    on, data = on_double, Data(rng)
    W = []
    for strength, penalty in ((0.0, Feature()), (0.0, Variable()), (50.0, Variable())):
        fit = fit_bkernn(
            data.maker(on),
            data.system(on),
            on.put(data.W),
            penalty=penalty,
            penalty_strength=strength,
            optimizer=ProximalGradient(max_iter=10),
        )
        W.append(on.host(fit.W))
    assert np.max(np.abs(W[0] - W[1])) <= 1e-6
    assert np.linalg.norm(W[2]) < 0.5 * np.linalg.norm(W[1])


def test_data_that_overflow_raise(on, rng):
    data = Data(rng)
    data.X *= 1e37 if on.dtype_name == "float32" else 1e307
    data.W *= 100.0
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match="not finite"):
        data.fit(on)


def test_trials_that_miss_by_far_on_a_sample_are_not_tried_on_all(on_double, rng):
    on, data, few = on_double, Data(rng), Data(rng)
    few.X, few.Y = data.X[::2], data.Y[::2]
    made = []

    def counted(W):
        made.append(W)
        return data.maker(on)(W)

    def run(sample):
        made.clear()
        fit = fit_bkernn(
            counted,
            data.system(on),
            on.put(data.W),
            penalty=Feature(),
            optimizer=ProximalGradient(step_size=1e4, max_iter=5),
            sample=sample,
        )
        return fit, len(made)

    plain, all_trials = run(None)
    fit, trials = run((few.maker(on), few.system(on)))
    assert trials < all_trials
    assert len(fit.history) == len(plain.history)
    assert fit.history.objective == sorted(fit.history.objective, reverse=True)
    assert fit.history.objective[-1] == pytest.approx(plain.history.objective[-1], rel=0.05)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_large_fit_judges_its_trials_on_a_sample_first(monkeypatch):
    """The estimator draws one row in so many, on the host."""
    from gpukfl import BKerNNRegressor
    from gpukfl.estimators.bkernn import _fit as _bkernn_problem

    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((600, 3)), rng.uniform(0.5, 2.0, 600)
    y = np.abs(X[:, 0])
    settings = bkernn(n_particles=5, max_iter=5, random_state=0)
    plain = BKerNNRegressor(**settings).fit(X, y, sample_weight=w)
    monkeypatch.setattr(_bkernn_problem, "_SAMPLE_FROM", 500)
    monkeypatch.setattr(_bkernn_problem, "_SAMPLE_DIVISOR", 3)
    monkeypatch.setattr(_bkernn_problem, "_FIRST_DIVISOR", 2)
    seen = []
    sampled = _bkernn_problem.BKerNNProblem._sample_system
    monkeypatch.setattr(
        _bkernn_problem.BKerNNProblem,
        "_sample_system",
        lambda self, *given: seen.append(sampled(self, *given)) or seen[-1],
    )
    monkeypatch.setattr(_bkernn_problem, "_COLD_FROM", 500)
    monkeypatch.setattr(_bkernn_problem, "_LEAST_FIRST", 100)
    model = BKerNNRegressor(**settings).fit(X, y, sample_weight=w)
    judges, first = seen[0][1], seen[1][1]
    assert judges.Y.shape == judges.root_weights.shape == (200, 1)
    assert first.Y.shape == (300, 1)
    assert first.ridge == pytest.approx(2 * judges.ridge)  # it goes with 1/n
    assert model.n_iter_ == len(model.history_) == 5
    assert np.all(np.diff(model.history_.seconds) > 0)
    assert model.score(X, y) == pytest.approx(plain.score(X, y), abs=0.02)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("status", ["TIME_LIMIT", "INTERRUPTED"])
def test_a_fit_that_ends_among_its_first_steps_is_solved_on_all_rows(monkeypatch, status):
    from gpukfl import BKerNNRegressor
    from gpukfl.estimators._run import use_report
    from gpukfl.estimators.bkernn import _fit as _bkernn_problem

    monkeypatch.setattr(_bkernn_problem, "_COLD_FROM", 500)
    monkeypatch.setattr(_bkernn_problem, "_LEAST_FIRST", 100)
    monkeypatch.setattr(_bkernn_problem, "_FIRST_DIVISOR", 2)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((600, 3))
    y = np.abs(X[:, 0])
    limit = 1e-6 if status == "TIME_LIMIT" else None
    model = BKerNNRegressor(5, **bkernn(max_iter=20, tol=0.0, max_time=limit, random_state=0))

    def report(_, k, __):
        if status == "INTERRUPTED" and k == 2:
            raise KeyboardInterrupt

    with use_report(report):
        model.fit(X, y)
    assert model.status_ == status
    assert 1 <= model.n_iter_ <= 3
    assert model.score(X, y) > 0.5
