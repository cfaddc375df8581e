"""Kernels, their derivatives and their operators are the same on every place."""

import numpy as np
import pytest
from agreement import assert_agrees
from drawn import ORDINARY, examples, of_numpy_numbers, problems, with_each
from hypothesis import given
from hypothesis import strategies as st
from registry import KERNEL_CASES, OPERATORS, Problem


@with_each(KERNEL_CASES, ORDINARY)
@given(st.sampled_from(KERNEL_CASES), problems(weighted=False, targets=1))
@examples(40)
def test_values_and_derivatives(on, case, problem):
    kernel = case.kernel
    P = problem.rng.standard_normal((len(problem.X), len(problem.new)))

    def call(X, Z, P):
        K = kernel(X, Z)
        return K, kernel.diagonal(X), *kernel.pullback(X, Z, P), *kernel.pullback(X, Z, P, K)

    scale = np.max(np.abs(P))
    assert_agrees(on, call, problem.X, problem.new, P, layout=problem.layout, scale=scale)


@pytest.mark.each
@pytest.mark.parametrize("case", KERNEL_CASES, ids=str)
def test_numpy_numbers_as_settings_keep_the_precision(on, case):
    kernel = of_numpy_numbers(case.kernel)
    assert kernel == case.kernel

    def call(X, P):
        return kernel(X, X), kernel.diagonal(X), *kernel.pullback(X, X, P)

    scale = np.max(np.abs(ORDINARY.X))
    assert_agrees(on, call, ORDINARY.X, ORDINARY.X @ ORDINARY.X.T, scale=scale)


@with_each(OPERATORS, ORDINARY)
@given(st.sampled_from(OPERATORS), problems(fewest=2))
@examples(20)
def test_products_of_operators(on, case, problem):
    W = problem.rng.standard_normal((problem.X.shape[1], 3))
    s = np.ones((len(problem.X), 1)) if problem.weights is None else problem.weights

    class Here:
        """A place where what is put lies already."""

        def __init__(self, reference):
            self.reference = reference

        @staticmethod
        def put(a):
            return a

    def call(X, W, s, V):
        operator = case.build(Here(X[:0, 0]), Problem(X, W, s))
        learned = [operator.quadratic_gradient(V)] if case.learns else []
        return operator @ V, *learned

    operands = problem.X, W, s, problem.Y - np.mean(problem.Y, axis=0)
    dtypes = ["float64", None] if case.learns else [None]
    scale = np.max(np.abs(problem.Y))
    assert_agrees(on, call, *operands, layout=problem.layout, dtypes=dtypes, scale=scale)
