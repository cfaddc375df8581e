"""Derivatives of the quadratic forms in the particles."""

import numpy as np
import oracles
import pytest
from registry import KERNELS, Problem

import gpukfl
from gpukfl.operators import BinnedBrownianKernel, BrownianKernel
from gpukfl.partitioned._rows import Rows

learning = pytest.mark.parametrize("case", [k for k in KERNELS if k.learns], ids=str)


def exact(on, p, alpha):
    kernel = BrownianKernel.build(on.put(p.X), on.put(p.W))
    return kernel.quadratic_gradient(on.put(alpha))


def binned(on, p, alpha, n_knots):
    kernel = BinnedBrownianKernel.build(
        Rows(on.put(p.X), on.reference), on.put(p.W), n_knots=n_knots
    )
    return kernel.quadratic_gradient(on.put(alpha))


@pytest.mark.pairs
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("n", [1, 2, 300])
def test_gradient_is_that_of_the_formula(on, rng, tied, n):
    p = Problem.draw(on, rng, tied=tied).taken(slice(n)) if n < 60 else Problem.draw(on, rng, n=n)
    alpha = oracles.zero_sum(rng, n, 2)
    expected = oracles.brownian_gradient(p.X, p.W, alpha)
    scale = np.max(np.abs(p.X)) * np.sum(np.abs(alpha)) ** 2 / len(p.W.T)
    if not tied and on.dtype_name == "float32":
        # Rounded projections may tie or change their order: pairs that are close, wrongly signed
        scale *= 10
    on.assert_close(exact(on, p, alpha), expected, ulps=10, scale=scale)


@pytest.mark.parametrize("tied", [False, True])
def test_gradient_is_exact_to_eleven_digits(on_double, rng, tied):
    p = Problem.draw(on_double, rng, n=400, tied=tied)
    alpha = oracles.zero_sum(rng, 400, 2)
    expected = oracles.brownian_gradient(p.X, p.W, alpha)
    actual = on_double.host(exact(on_double, p, alpha))
    assert np.max(np.abs(actual - expected)) <= 1e-11 * np.max(np.abs(expected))


def test_gradient_is_that_of_finite_differences(on_double, rng):
    on = on_double
    p = Problem.draw(on, rng, n=30)
    alpha = oracles.zero_sum(rng, 30, 2)
    actual = on.host(exact(on, p, alpha))
    step = 1e-7  # the form is linear between ties, so the difference is exact but for rounding
    for index in np.ndindex(p.W.shape):
        ends = []
        for sign in (-1, 1):
            W = p.W.copy()
            W[index] += sign * step
            ends.append(np.sum(alpha * (oracles.brownian(p.X, W) @ alpha)))
        difference = (ends[1] - ends[0]) / (2 * step)
        assert abs(actual[index] - difference) <= 1e-6 * np.max(np.abs(actual))


@pytest.mark.parametrize("n", [2, 100])
def test_equal_projections_do_not_pull(on, rng, n):
    p = Problem.draw(on, rng, n=n)
    alpha = oracles.zero_sum(rng, n, 2)
    particles = p.W.copy()
    particles[:, 1] = 0.0  # all projections on this particle are equal
    still = Problem(p.X, particles, p.s)
    for gradient in (exact(on, still, alpha), binned(on, still, alpha, 16)):
        host = on.host(gradient)
        assert np.max(np.abs(host[:, 1])) <= 10 * on.eps * np.sum(np.abs(alpha)) ** 2
        assert np.any(host[:, 0] != 0.0)
    same = Problem(np.tile(p.X[:1], (n, 1)), p.W, p.s)
    for gradient in (exact(on, same, alpha), binned(on, same, alpha, 16)):
        scale = np.max(np.abs(p.X)) * np.sum(np.abs(alpha)) ** 2
        on.assert_close(gradient, np.zeros(p.W.shape), ulps=10, scale=scale)


def test_binned_gradient_tends_to_the_exact_one(on_double, rng):
    on = on_double
    p = Problem.draw(on, rng, n=1000)
    alpha = oracles.centered(np.tanh(p.X[:, :1]))
    alpha = on.rounded(alpha)
    exactly = on.host(exact(on, p, alpha))
    errors = [np.max(np.abs(on.host(binned(on, p, alpha, q)) - exactly)) for q in (17, 65, 257)]
    assert errors[1] <= errors[0] / 3
    assert errors[2] <= errors[1] / 3
    assert errors[2] <= 1e-3 * np.max(np.abs(exactly))


@pytest.mark.parametrize("tied", [False, True])
def test_binned_gradient_is_that_of_interpolated_signs(on, rng, tied):
    p = Problem.draw(on, rng, tied=tied)
    alpha = oracles.zero_sum(rng, len(p.X), 2)
    rows = Rows(on.put(p.X), on.reference)
    kernel = BinnedBrownianKernel.build(rows, on.put(p.W), n_knots=9)
    ((_, _, at),) = kernel._stored_positions
    B = oracles.interpolation(on.host(at.codes), at.shift, 9)
    expected = oracles.binned_gradient(p.X, B, alpha)
    scale = np.max(np.abs(p.X)) * np.sum(np.abs(alpha))
    on.assert_close(kernel.quadratic_gradient(on.put(alpha)), expected, ulps=10, scale=scale)


@learning
def test_small_memory_changes_no_gradient(on, rng, case):
    p = Problem.draw(on, rng)
    alpha = on.put(oracles.zero_sum(rng, len(p.X), 2))
    whole = on.host(case.build(on, p).quadratic_gradient(alpha))
    with gpukfl.memory_budget(2000):
        pieces = case.build(on, p).quadratic_gradient(alpha)
    slack = 100 * on.eps + 1e-7
    assert np.max(np.abs(on.host(pieces) - whole)) <= slack * np.sum(np.abs(on.host(alpha))) ** 2


@learning
def test_permuting_samples_changes_no_gradient(on, rng, case):
    p = Problem.draw(on, rng)
    alpha = oracles.zero_sum(rng, len(p.X), 2)
    order = rng.permutation(len(p.X))
    whole = case.build(on, p).quadratic_gradient(on.put(alpha))
    permuted = case.build(on, p.taken(order)).quadratic_gradient(on.put(alpha[order]))
    slack = (100 * on.eps + 1e-7) * np.sum(np.abs(alpha)) ** 2
    assert np.max(np.abs(on.host(whole) - on.host(permuted))) <= slack
