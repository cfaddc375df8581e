"""Centres, blocks of kernels, and the systems made of them are the same on every place."""

import numpy as np
import pytest
from agreement import REFERENCE, assert_agrees
from drawn import examples, lay, problems
from hypothesis import given
from hypothesis import strategies as st
from registry import KERNEL_CASES

import gpukfl
from gpukfl.kernels import Gaussian, Laplace, Matern32
from gpukfl.methods import (
    SELECTIONS,
    DenseSystem,
    NystromSystem,
    choose_centers,
    falkon,
    nystrom_preconditioner,
)
from gpukfl.operators import KernelOperator
from gpukfl.partitioned._rows import Rows
from gpukfl.solvers import ConjugateGradient

RIDGES = [1e-3, 1e-2, 1.0]
FOLDS = 3
JITTER = 1e-6  # the condition of what is factored is at most its inverse
maps = st.sampled_from([None, "diagonal", 1, 2])
budgets = st.sampled_from([None, 2_000])


def drawn_map(problem, kind):
    """A map (k, d) or (d,), or none."""
    d = problem.X.shape[1]
    if kind is None:
        return None
    return problem.rng.uniform(0.5, 1.0, d if kind == "diagonal" else (kind, d))


@given(st.sampled_from(KERNEL_CASES), problems(), maps, budgets)
@examples(25)
def test_blocks(on, case, problem, kind, budget):
    def call(X, Z, Y, V, weights, B):
        operator = KernelOperator(case.kernel, Rows(X, X[:0, 0]), Z, B)
        with gpukfl.memory_budget(budget):
            sums = operator.moments(Y, weights)
            normal = operator.normal(V, weights)
            return operator @ V, operator.adjoint(Y), normal, operator.core, *sums

    V = problem.rng.standard_normal((len(problem.new), 2))
    operands = problem.X, problem.new, problem.Y, V, problem.weights, drawn_map(problem, kind)
    scale = max(float(np.max(np.abs(a))) for a in (problem.Y, V))
    dtypes = [None] * 3 + ["float64"] * 3
    assert_agrees(on, call, *operands, layout=problem.layout, scale=scale, dtypes=dtypes)


def solved(X, Z, Y, weights, ridge):
    """What is learned from the sums, as predictions: coefficients are known less well."""
    operator = KernelOperator(Laplace(), Rows(X, X[:0, 0]), Z)
    system = NystromSystem.from_rows(operator, Y, weights)
    alpha, _ = system.solve(ridge, jitter=JITTER)
    folds = [np.arange(k, X.shape[0], FOLDS) for k in range(FOLDS)]
    of_rows = [
        system.leave_one_out(Y, weights, RIDGES).scores,
        system.held_out(Y, weights, folds, RIDGES).scores,
        system.path(RIDGES).scores,
    ]
    return operator.core @ alpha, system.left_out(Y, weights, ridge), *map(np.asarray, of_rows)


@given(problems(fewest=8, rows=30, flaws=("none", "repeated rows")))
@examples(15)
def test_systems_of_few_centres(on_double, problem):
    operands = problem.X, problem.X[:4] + 0.0, problem.Y, problem.weights
    assert_agrees(
        on_double,
        lambda *arrays: solved(*arrays, 1e-2),
        *operands,
        layout=problem.layout,
        ulps=2.0 / JITTER,
        dtypes=["float64", "float64", "host", "host", "host"],
    )


@given(problems(flaws=("none", "repeated rows", "constant column")))
@examples(15)
def test_systems_of_all_rows(on_double, problem):
    def call(X, Y, weights):
        K = Matern32()(X, X)
        system = DenseSystem.from_kernel(K, Y, weights)
        alpha, _, residuals = system.solve(1e-2)
        scores = np.asarray(system.leave_one_out(RIDGES).scores)
        return K @ alpha, system.left_out(1e-2), scores, residuals < 1e-8

    operands = problem.X, problem.Y, problem.weights
    dtypes = [None, None, "host", "host"]
    assert_agrees(on_double, call, *operands, layout=problem.layout, ulps=1e4, dtypes=dtypes)


@given(problems(fewest=8, rows=30, flaws=("none", "constant column")))
@examples(10)
def test_falkon_and_preconditioners(on_double, problem):
    def call(X, Z, Y, weights):
        operator = KernelOperator(Matern32(2.0), Rows(X, X[:0, 0]), Z)
        tight = ConjugateGradient(1e-12, max_iter=200)
        alpha, _, solution = falkon(operator, Y, weights, ridge=1e-2, solver=tight)
        assert solution.relative_residual < 1e-9
        system = NystromSystem.from_rows(operator, Y, weights)
        return operator @ alpha, nystrom_preconditioner(system, weights, 1e-2)(Y)

    operands = problem.X, problem.X[:5] + 0.0, problem.Y, problem.weights
    # The jitter of both is 1e-10, and the root of its inverse counts in directions of their own
    assert_agrees(on_double, call, *operands, layout=problem.layout, ulps=1e7)


@pytest.mark.parametrize("selection", SELECTIONS)
@given(problems(rows=60), st.integers(1, 8))
@examples(10)
def test_the_same_rows_are_centres(on_double, selection, problem, q):
    def chosen(on, X):
        rows = Rows(X, on.reference)
        how = {"ridge": 1e-2, "rng": problem.state}
        return choose_centers(selection, Gaussian(), rows, q, **how)

    here = chosen(on_double, lay(on_double, problem.X, problem.layout))
    np.testing.assert_array_equal(here, chosen(REFERENCE, problem.X))
