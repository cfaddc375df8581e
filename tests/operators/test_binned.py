"""The kernel on equally spaced knots: its own dense form, its limit, and rows from a file."""

import numpy as np
import oracles
import pytest
from registry import Problem

import gpukfl
from gpukfl.operators import BinnedBrownianKernel, _binned
from gpukfl.partitioned._rows import Rows


def build(on, p, n_knots, source=None):
    rows = Rows(on.put(p.X) if source is None else source, on.reference)
    return BinnedBrownianKernel.build(rows, on.put(p.W), n_knots=n_knots)


def product(on, kernel, V):
    return oracles.centered(on.host(kernel @ on.put(V)))


@pytest.mark.pairs
@pytest.mark.parametrize("n_knots", [2, 17])
@pytest.mark.parametrize("tied", [False, True])
def test_product_is_that_of_interpolated_grid_kernels(on, rng, n_knots, tied):
    p = Problem.draw(on, rng, tied=tied)
    kernel = build(on, p, n_knots)
    ((_, _, at),) = kernel._stored_positions
    B = oracles.interpolation(on.host(at.codes), at.shift, n_knots)
    knots = on.host(kernel.gap)[:, None] * np.arange(n_knots)
    dense = np.mean(B @ (-0.5 * np.abs(oracles.gaps(knots))) @ B.swapaxes(1, 2), axis=0)
    V = oracles.zero_sum(rng, len(p.X), 2)
    expected = oracles.centered(dense @ V)
    assert np.max(np.abs(product(on, kernel, V) - expected)) <= 1e-12 * np.sum(np.abs(V)) * 10


def test_knots_span_the_projections(on, rng):
    p = Problem.draw(on, rng)
    kernel = build(on, p, 9)
    A = p.W.T @ p.X.T
    low, gap = on.host(kernel.low), on.host(kernel.gap)
    slack = 100 * on.eps
    assert np.max(np.abs(low - np.min(A, axis=1))) <= slack
    assert np.max(np.abs(low + 8 * gap - np.max(A, axis=1))) <= slack
    positions, _ = kernel.curves(on.put(oracles.zero_sum(rng, len(p.X), 1)))
    on.assert_lives_here(positions, "float64")
    assert np.max(np.abs(on.host(positions)[:, -1] - np.max(A, axis=1))) <= slack


@pytest.mark.parametrize("smooth", [True, False])
def test_product_tends_to_the_exact_one(on_double, rng, smooth):
    on = on_double
    p = Problem.draw(on, rng, n=1000)
    V = np.tanh(p.X[:, :1]) if smooth else rng.standard_normal((1000, 1))
    V = oracles.centered(V)
    exact = oracles.centered(oracles.brownian(p.X, p.W) @ V)
    errors = [np.max(np.abs(product(on, build(on, p, q), V) - exact)) for q in (9, 33, 129)]
    assert errors[1] <= errors[0] / 4  # order 1/q² where smooth, 1/q^1.5 else
    assert errors[2] <= errors[1] / 4
    assert errors[2] <= 5e-3 * np.max(np.abs(exact))


def test_equal_projections_need_no_range(on, rng):
    p = Problem.draw(on, rng)
    zero = Problem(p.X, np.zeros_like(p.W), p.s)
    V = oracles.zero_sum(rng, len(p.X), 2)
    assert np.max(np.abs(product(on, build(on, zero, 5), V))) <= 1e-13


@pytest.mark.parametrize("budget", [None, 3000])
def test_rows_may_stay_in_a_file(on, rng, tmp_path, budget):
    p = Problem.draw(on, rng, n=300)
    V = oracles.zero_sum(rng, 300, 2)
    p.X.tofile(tmp_path / "X.bin")
    in_file = np.memmap(tmp_path / "X.bin", dtype="float64", mode="r+", shape=p.X.shape)
    with gpukfl.memory_budget(budget):
        kernel = build(on, p, 65, source=in_file)
        assert (kernel._stored_positions is None) == (budget is not None)
        actual = product(on, kernel, V)
        gradient = on.host(kernel.quadratic_gradient(on.put(V)))
    whole = build(on, p, 65)
    # Blocks may round their projections otherwise, and those are rounded to fixed point
    slack = (100 * on.eps + 1e-7) * np.sum(np.abs(V))
    assert np.max(np.abs(actual - product(on, whole, V))) <= slack
    expected = on.host(whole.quadratic_gradient(on.put(V)))
    assert np.max(np.abs(gradient - expected)) <= slack * np.sum(np.abs(V))


def test_positions_of_many_projections_take_half_of_the_memory(on, rng, monkeypatch):
    p = Problem.draw(on, rng, n=300)
    V = oracles.zero_sum(rng, 300, 1)
    exact = product(on, build(on, p, 65), V)
    monkeypatch.setattr(_binned, "_MANY", 1)
    kernel = build(on, p, 65)
    ((_, _, at),) = kernel._stored_positions
    assert np.max(on.host(at.codes)) == 64 << at.shift < 2**15
    rounding = 2.0**-15 * np.max(on.host(kernel.gap)) * 64
    assert np.max(np.abs(product(on, kernel, V) - exact)) <= 2.0 * rounding * np.sum(np.abs(V))


def test_positions_that_were_released_are_found_again(on, rng):
    p = Problem.draw(on, rng)
    kernel = build(on, p, 17)
    V = oracles.zero_sum(rng, len(p.X), 1)
    before = product(on, kernel, V)
    kernel.release()
    assert "_stored_positions" not in kernel.__dict__
    np.testing.assert_array_equal(product(on, kernel, V), before)
