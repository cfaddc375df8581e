"""Shape functions: thinned within a stated error, averaged as the kernel says."""

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpukfl
from gpukfl.methods import ShapeFunctions
from gpukfl.methods import _bkernn as generic
from gpukfl.operators import BinnedBrownianKernel, BrownianKernel
from gpukfl.partitioned._rows import Rows

TOLERANCES = [0.0, 1e-3, 0.1234567, 10.0]
kinds = pytest.mark.parametrize("kind", oracles.KINDS)


def curves(rng, kind, m, n):
    """Sorted knots (m, n) and values (m, n, 2) that are equal where knots are."""
    knots = np.sort(oracles.projections(rng, kind, m, n), axis=1)
    return knots, np.stack([np.cos(2 * knots), np.maximum(knots, 0.0)], axis=2)


def deviation(on, thin, knots, values):
    """Largest distance between the thinned and the full functions, at the knots and between."""
    at = np.sort(np.concatenate([knots, (knots[:, 1:] + knots[:, :-1]) / 2], axis=1), axis=1)
    worst = 0.0
    for j in range(len(knots)):
        for c in range(values.shape[2]):
            full = np.interp(at[j], knots[j], values[j, :, c])
            few = on.host(thin.knots)[j].astype(np.float64), on.host(thin.values)[j, :, c]
            worst = max(worst, np.max(np.abs(oracles.piecewise_linear(at[j], *few) - full)))
    return worst


@pytest.mark.pairs
@kinds
@pytest.mark.parametrize("tolerance", TOLERANCES)
def test_thinned_functions_are_within_the_tolerance(on, rng, kind, tolerance):
    for m, n in [(1, 1), (2, 2), (2, 3), (3, 200), (2, 129)]:
        knots, values = curves(rng, kind, m, n)
        knots = on.rounded(knots)
        placed = on.put(knots), on.put(values, "float64")
        thin = ShapeFunctions.simplify(*placed, tolerance)
        assert len(thin) == m
        assert deviation(on, thin, knots, values) <= tolerance + 10 * on.eps
        ends = on.host(thin.knots)[:, [0, -1]]
        assert np.array_equal(ends, knots[:, [0, -1]])


def test_a_straight_line_keeps_its_ends_and_a_bend_its_bend(on):
    knots = np.linspace(0.0, 1.0, 65)[None, :]
    line = ShapeFunctions.simplify(on.put(knots), on.put(knots[:, :, None], "float64"), 1e-6)
    on.assert_close(line.knots, [[0.0, 1.0]], ulps=0)
    bend = np.abs(knots - 0.5)[:, :, None]
    thin = ShapeFunctions.simplify(on.put(knots), on.put(bend, "float64"), 1e-6)
    on.assert_close(thin.knots, [[0.0, 0.5, 1.0]], ulps=0)


@kinds
def test_functions_are_thinned_some_at_a_time_as_all_at_once(on, rng, kind):
    knots, values = (on.put(x) for x in curves(rng, kind, 5, 60))
    values = on.put(on.host(values), "float64")
    whole = ShapeFunctions.simplify(knots, values, 1e-3)
    with gpukfl.memory_budget(2 * generic._BYTES * 60):
        by_parts = ShapeFunctions.simplify(knots, values, 1e-3)
    on.assert_close(by_parts.knots, on.host(whole.knots), ulps=0)
    on.assert_close(by_parts.values, on.host(whole.values), ulps=0, dtype="float64")


def test_functions_with_fewer_knots_repeat_their_last(on):
    knots = np.tile(np.linspace(0.0, 1.0, 9), (2, 1))
    values = np.stack([knots[0], np.abs(knots[1] - 0.5)])[:, :, None]
    thin = ShapeFunctions.simplify(on.put(knots), on.put(values, "float64"), 1e-6)
    on.assert_close(thin.knots, [[0.0, 1.0, 1.0], [0.0, 0.5, 1.0]], ulps=0)


@given(
    st.integers(1, 4),
    st.integers(1, 70),
    st.sampled_from(oracles.KINDS),
    st.sampled_from(["float32", "float64"]),
    st.sampled_from(TOLERANCES[1:]),
    st.integers(0, 2**32 - 1),
)
@settings(derandomize=True)
def test_compiled_thinning_equals_the_array_api_form(m, n, kind, dtype, tolerance, seed):
    knots, values = curves(np.random.default_rng(seed), kind, m, n)
    knots = knots.astype(dtype)
    kept = generic.keep_knots(knots, values, tolerance)
    assert kept.dtype == np.bool_
    assert np.array_equal(kept, generic._keep_knots(knots, values, tolerance))


def model(on, rng, n=200, d=3, m=5, t=2):
    X, W = on.rounded(rng.standard_normal((n, d))), on.rounded(rng.standard_normal((d, m)))
    new = on.rounded(1.5 * rng.standard_normal((70, d)))
    return X, W, oracles.zero_sum(rng, n, t), new


def dense_function(X, W, alpha, new):
    """``K(x, X) alpha``, each particle's part 0 left of all samples, and its scale."""
    A, A_new = W.T @ X.T, W.T @ new.T
    u = -0.5 * np.abs(A_new[:, :, None] - A[:, None, :]) @ alpha
    left = -0.5 * np.abs(np.min(A, axis=1)[:, None, None] - A[:, None, :]) @ alpha
    return np.mean(u - left, axis=0), np.max(np.abs(A)) * np.sum(np.abs(alpha))


def test_mean_function_equals_the_dense_kernel(on_double, rng):
    on = on_double
    X, W, alpha, new = model(on, rng)
    kernel = BrownianKernel.build(on.put(X), on.put(W))
    expected, _ = dense_function(X, W, alpha, new)
    shapes = ShapeFunctions(*kernel.curves(on.put(alpha)))
    predicted = shapes.mean(on.put(W).T @ on.put(new).T)
    assert np.max(np.abs(on.host(predicted) - expected)) <= 1e-11 * np.max(np.abs(expected))


def test_mean_function_is_as_exact_as_the_projections(on, rng):
    X, W, alpha, new = model(on, rng)
    kernel = BrownianKernel.build(on.put(X), on.put(W))
    expected, scale = dense_function(X, W, alpha, new)
    shapes = ShapeFunctions(*kernel.curves(on.put(alpha)))
    on.assert_close(shapes.mean(on.put(W).T @ on.put(new).T), expected, ulps=10, scale=scale)


def test_mean_function_at_the_samples_is_the_kernel_product(on, rng):
    X, W, alpha, _ = model(on, rng)
    rows = Rows(on.put(X), on.reference)
    for kernel in (
        BrownianKernel.build(on.put(X), on.put(W)),
        BinnedBrownianKernel.build(rows, on.put(W), n_knots=33),
    ):
        shapes = ShapeFunctions(*kernel.curves(on.put(alpha)))
        there = shapes.mean(on.put(W).T @ on.put(X).T)
        product = on.host(kernel @ on.put(alpha))
        # Binned positions are in fixed point, float32 projections rounded to their range
        slack = 1e-7 + 100 * on.eps
        assert np.max(np.abs(on.host(there) - product)) <= slack * np.max(np.abs(product))


def test_mean_function_is_constant_beyond_the_samples(on, rng):
    X, W, alpha, _ = model(on, rng)
    kernel = BrownianKernel.build(on.put(X), on.put(W))
    shapes = ShapeFunctions(*kernel.curves(on.put(alpha)))
    A = W.T @ X.T
    ends = [np.min(A, axis=1), np.min(A, axis=1) - 100, np.max(A, axis=1) + 1, 100 + np.max(A, 1)]
    there = on.host(shapes.mean(on.put(np.stack(ends, axis=1))))
    scale = np.max(np.abs(A)) * np.sum(np.abs(alpha))
    assert np.max(np.abs(there[:2])) <= 10 * on.eps * scale
    assert np.array_equal(there[2], there[3])
