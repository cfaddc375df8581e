"""Each method, with its settings and its start given, finds the same on every place."""

import math

import numpy as np
import pytest
from agreement import assert_agrees
from drawn import ORDINARY, examples, problems, with_each
from hypothesis import given
from hypothesis import strategies as st
from registry import PENALTIES

from gpukfl.instantiations import GaussianSign, Stumps
from gpukfl.kernels import (
    Gaussian,
    KernelTerms,
    Laplace,
    ManhattanLaplace,
    Matern32,
    Matern52,
)
from gpukfl.methods import (
    LOSSES,
    AverageGradientOuterProduct,
    DegreeLaw,
    DenseSelection,
    ExactCriterion,
    FactoredSelection,
    FeatureSelection,
    FunctionalDescent,
    HyperKernelObjective,
    KernelRidge,
    MappedProblem,
    MetricPrior,
    RegFeaL,
    RidgeSystem,
    fit_bkernn,
    fit_gradient_maps,
    fit_hkrr,
    fit_metric,
    fold_sums,
    largest_sparsity,
    least_squares,
)
from gpukfl.operators import BrownianKernel, FeatureOperator, common_scale
from gpukfl.partitioned._rows import Rows
from gpukfl.solvers import (
    LBFGS,
    AlternatingGradient,
    ConjugateGradient,
    ProjectedGradient,
    ProximalGradient,
    VariableProjection,
)

SOUND = ("none", "repeated rows", "constant column", "repeated columns")
some_rows = {"fewest": 6, "rows": 24, "columns": 4, "targets": 2, "flaws": SOUND}
OPTIMIZERS = [LBFGS(max_iter=3), VariableProjection(max_iter=3), AlternatingGradient(max_iter=3)]


def centered(problem):
    """Targets of mean 0."""
    return problem.Y - np.mean(problem.Y, axis=0)


@with_each(PENALTIES, ORDINARY)
@given(st.sampled_from(PENALTIES), problems(**some_rows))
@examples(10)
def test_bkernn(on_double, penalty, problem):
    def call(X, Y, weights, W):
        system = RidgeSystem(Y, 0.05, weights)  # the weights' roots: any numbers do
        fit = fit_bkernn(
            lambda W: BrownianKernel.build(X, W),
            system,
            W,
            penalty=penalty,
            optimizer=ProximalGradient(max_iter=3, tol=0.0),
        )
        return fit.W, fit.kernel @ fit.alpha + fit.intercept

    W = problem.rng.standard_normal((problem.X.shape[1], 4))
    weights = None if problem.weights is None else problem.weights + 0.5
    operands = problem.X, problem.Y, weights, W
    assert_agrees(on_double, call, *operands, layout=problem.layout, ulps=1e5)


@with_each(OPTIMIZERS, ORDINARY)
@given(st.sampled_from(OPTIMIZERS), problems(**some_rows))
@examples(10)
def test_hkrr(on_double, optimizer, problem):
    def call(X, Z, Y, weights, B):
        rows = Rows(X, X[:0, 0])
        objective = HyperKernelObjective(Laplace(), rows, Z, Y, ridge=0.05, weights=weights)
        fit = fit_hkrr(objective, B, lengthscale=2.0, optimizer=optimizer)
        return fit.B, np.asarray([fit.value, fit.lengthscale])

    B = problem.rng.standard_normal((2, problem.X.shape[1]))
    operands = problem.X, problem.X[:5] + 0.0, problem.Y, problem.weights, B
    dtypes = [None, "host"]
    assert_agrees(on_double, call, *operands, layout=problem.layout, ulps=1e6, dtypes=dtypes)


@given(problems(**some_rows), st.sampled_from(["full", "diagonal"]))
@examples(8)
def test_maps_of_gradients(on_double, problem, structure):
    def call(X, Y, weights):
        sample = X, None
        given = Matern52(), Rows(X, X[:0, 0]), Y, weights, [1e-2], sample
        optimizer = AverageGradientOuterProduct(max_iter=2, structure=structure)
        best = fit_gradient_maps(MappedProblem(*given, lengthscale=2.0), optimizer).best
        B = best.operator.B
        return best.operator.dense(), (B * B if structure == "diagonal" else B.T @ B)

    operands = problem.X, centered(problem), problem.weights
    assert_agrees(on_double, call, *operands, layout=problem.layout, ulps=1e7)


@given(
    problems(**some_rows),
    st.sampled_from(["evidence", "loo"]),
    st.sampled_from(["one metric", "a metric each", "columns of their own"]),
)
@examples(8)
def test_metrics_of_sums_by_evidence(on_double, problem, criterion, metric):
    kernel = Matern52() + 0.3 * Matern32(0.4)

    def call(X, Y, weights, C):
        found = fit_metric(
            ExactCriterion(kernel, X, Y, criterion=criterion, weights=weights),
            [(C, 0.1)],
            prior=MetricPrior(2.0),
            terms=KernelTerms.from_kernel(kernel),
            optimizer=LBFGS(max_iter=3),
        )
        learned = [*found.terms.shares, *found.terms.stretches]
        return found.C, np.asarray([found.ratio, found.value, *learned])

    weights = None if problem.weights is None else problem.weights + 0.5
    d = problem.X.shape[1]
    C = np.full(d if metric == "one metric" else (2, 1, d), 0.5)
    own = metric == "columns of their own"
    X = np.concatenate([problem.X, np.tanh(problem.X)], axis=1) if own else problem.X
    operands = X, centered(problem), weights, C
    dtypes = [None, "host"]
    assert_agrees(on_double, call, *operands, layout=problem.layout, ulps=1e7, dtypes=dtypes)


@given(problems(**some_rows), st.sampled_from(["evidence", "loo"]))
@examples(8)
def test_metrics_by_evidence(on_double, problem, criterion):
    def call(X, Y, weights, C):
        found = fit_metric(
            ExactCriterion(Matern52(), X, Y, criterion=criterion, weights=weights),
            [(C, 0.1)],
            prior=MetricPrior(2.0),
            optimizer=LBFGS(max_iter=3),
        )
        return found.C, np.asarray([found.ratio, found.value])

    weights = None if problem.weights is None else problem.weights + 0.5
    C = np.full(problem.X.shape[1], 0.5)
    operands = problem.X, centered(problem), weights, C
    dtypes = [None, "host"]
    assert_agrees(on_double, call, *operands, layout=problem.layout, ulps=1e7, dtypes=dtypes)


@pytest.mark.parametrize("form", [DenseSelection, FactoredSelection])
@given(problems(**some_rows), st.sampled_from([ManhattanLaplace(), Gaussian(0.7)]))
@examples(8)
def test_selection(on_double, form, problem, kernel):
    def call(X, Y, weights):
        more = {}
        if form is FactoredSelection:
            more = {"n_centers": X.shape[0], "rng": np.random.RandomState(0)}
        objective = form(kernel, X, Y, 0.05, weights, **more)
        top = largest_sparsity(objective)
        method = FeatureSelection(solver=ProjectedGradient(max_iter=5, tol=0.0))
        found = method.select(objective, 0.3 * top)
        return found.beta, objective.gradient(objective.evaluate(found.beta)), np.asarray([top])

    operands = problem.X, centered(problem), problem.weights
    options = {"layout": problem.layout, "ulps": 1e6, "scale": 1.0, "dtypes": ["host"] * 3}
    assert_agrees(on_double, call, *operands, **options)


KINDS = [GaussianSign(np.float64(1.0), np.float64(1.5)), Stumps(np.float64(1.0), 0.7)]


@pytest.mark.parametrize("optimal", [False, True])
@with_each(LOSSES, KINDS[0], ORDINARY)
@given(st.sampled_from(sorted(LOSSES)), st.sampled_from(KINDS), problems(**some_rows))
@examples(8)
def test_functional_descent(on_double, optimal, loss, kind, problem):
    T, d = 6, problem.X.shape[1]
    W = kind.draw(T, d, problem.state)
    batches = problem.rng.integers(0, len(problem.X), (T, 4))

    def call(X, Y, W, logs):
        operator = FeatureOperator(kind, Rows(X, X[:0, 0]), W, common_scale(kind, W, d))
        descent = FunctionalDescent(LOSSES[loss], optimal, radius=2.0)
        return operator @ descent.run(operator, Y, batches, logs).A

    Y = np.sign(problem.Y[:, :1]) if loss != "squared" else problem.Y[:, :1]
    operands = problem.X, Y, W, np.log([0.1])
    assert_agrees(on_double, call, *operands, layout=problem.layout, ulps=1e6)


@given(st.sampled_from(KINDS), problems(**some_rows))
@examples(8)
def test_least_squares_of_features(on_double, kind, problem):
    d = problem.X.shape[1]
    W = kind.draw(6, d, problem.state)
    folds = np.arange(len(problem.X)) % 2

    def call(X, Y, W, weights):
        operator = FeatureOperator(kind, Rows(X, X[:0, 0]), W, common_scale(kind, W, d))
        sums = fold_sums(operator, Y, weights, folds)
        solved, _ = least_squares(sums, sums.whole, [1e-2])
        return operator @ solved[0], sums.folds[0].gram

    operands = problem.X, problem.Y, W, problem.weights
    # Nearly dependent features have coefficients of up to 10⁴ that cancel
    assert_agrees(on_double, call, *operands, layout=problem.layout, ulps=1e8)


@given(problems(**some_rows))
@examples(8)
def test_regfeal(on_double, problem):
    def call(X, Y, weights, new):
        method = RegFeaL(40, DegreeLaw(largest=3), 0.05, ridge=1e-3, rotate=True, n_iter=2)
        fit = method.run(Rows(X, X[:0, 0]), Y, weights, np.random.RandomState(0))
        return fit.predict(Rows(new, new[:0, 0])), fit.etas[0]

    operands = problem.X, centered(problem), problem.weights, problem.new
    dtypes = [None, "host"]
    assert_agrees(on_double, call, *operands, layout=problem.layout, ulps=1e8, dtypes=dtypes)


@pytest.mark.parametrize("solver", ["direct", "cg", "falkon", "few centres"])
@given(problems(**some_rows))
@examples(8)
def test_kernel_ridge(on_double, solver, problem):
    def call(X, Y, weights, new):
        few = 4 if solver in ("falkon", "few centres") else None
        method = KernelRidge(
            Laplace(1.5),
            ridge=0.01,
            solver="direct" if solver == "few centres" else solver,
            n_centers=few,
            conjugate_gradient=ConjugateGradient(1e-11, max_iter=300),
        )
        fit = method.fit(Rows(X, X[:0, 0]), Y, weights, np.random.RandomState(0))
        assert math.isfinite(fit.residual)
        return fit.predict(Rows(new, new[:0, 0]))

    operands = problem.X, centered(problem), problem.weights, problem.new
    assert_agrees(on_double, call, *operands, layout=problem.layout, ulps=1e6)
