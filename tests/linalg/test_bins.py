"""Sums over equally spaced knots equal products with dense interpolation matrices."""

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpukfl
from gpukfl.linalg import (
    MAX_KNOTS,
    Positions,
    bin_products,
    bin_sums,
    interpolate_bins,
    pair_sums,
)
from gpukfl.linalg import _bins as generic

kinds = pytest.mark.parametrize("kind", oracles.KINDS)
SIZES = [(1, 1, 2, 1), (2, 2, 3, 2), (3, 257, 17, 2), (2, 300, 128, 1)]  # m, n, q, t


def grid(A, n_knots):
    """First knots and gaps (m,) that span the projections, or not quite."""
    low, high = np.min(A, axis=1), np.max(A, axis=1)
    gap = (high - low) / (n_knots - 1) * 0.9  # some lie beyond the last knot
    return low, np.where(gap > 0, gap, 1.0)


def cases(on, rng, kind, *, shift=None):
    """Positions on the place, the interpolation matrices (m, n, q) they mean, and sizes."""
    for m, n, q, t in SIZES:
        A = on.rounded(oracles.projections(rng, kind, m, n))
        low, gap = grid(A, q)
        placed = on.put(A), on.put(low, "float64"), on.put(gap, "float64"), q
        at = Positions.from_projections(*placed, shift=shift)
        yield at, oracles.interpolation(on.host(at.codes), at.shift, q), (m, n, q, t)


@kinds
def test_positions_count_knots_in_fixed_point(on, rng, kind):
    for m, n, q, _ in SIZES:
        A = on.rounded(oracles.projections(rng, kind, m, n))
        low, gap = grid(A, q)
        placed = on.put(A), on.put(low, "float64"), on.put(gap, "float64"), q
        exact = np.clip((A - low[:, None]) / gap[:, None], 0, q - 1)
        at = Positions.from_projections(*placed)
        on.assert_lives_here(at.codes, "int32")
        assert np.max(np.abs(on.host(at.codes) / 2.0**at.shift - exact)) <= 2.0**-at.shift
        for shift in (0, 4):
            down = Positions.from_projections(*placed, shift=shift)
            assert down.shift == shift
            assert np.array_equal(on.host(down.codes), np.floor(exact * 2**shift))


def test_positions_use_every_bit_and_never_overflow(on):
    for q in (2, 3, 4096, 4097, MAX_KNOTS):
        ends = on.put([[-5.0, 0.0, 1.0, 5.0]], "float64")
        one = on.put([1.0 / (q - 1)], "float64")
        at = Positions.from_projections(ends, on.put([0.0], "float64"), one, q)
        assert np.array_equal(on.host(at.codes) / 2.0**at.shift, [[0, 0, q - 1, q - 1]])
        assert 2**30 <= (q - 1) * 2**at.shift < 2**31
        cell, share = at.cells(0)
        assert np.array_equal(on.host(cell), [0, 0, q - 1, q - 1])
        on.assert_close(share, np.zeros(4), ulps=0, dtype="float64")


def test_positions_of_nan_stay_among_the_knots(on):
    A = on.put([[np.nan, 0.0, 2.0]])
    zero, one = on.put([0.0], "float64"), on.put([1.0], "float64")
    cells = on.host(Positions.from_projections(A, zero, one, 3).codes) >> 29
    assert np.all((cells >= 0) & (cells < 3))


@kinds
def test_bin_sums_are_products_with_the_transpose(on, rng, kind):
    for at, B, (_, n, _, t) in cases(on, rng, kind):
        V = on.rounded(rng.standard_normal((n, t)))
        sums = bin_sums(at, on.put(V))
        scale = np.sum(np.abs(V))
        on.assert_close(sums, B.swapaxes(1, 2) @ V, ulps=10, scale=scale, dtype="float64")


@kinds
def test_interpolation_is_a_product_summed_over_rows(on, rng, kind):
    for at, B, (m, _, q, t) in cases(on, rng, kind):
        U = rng.standard_normal((m, q, t))
        inside = interpolate_bins(at, on.put(U, "float64"))
        on.assert_close(inside, np.sum(B @ U, axis=0), ulps=40, dtype="float64")


@kinds
def test_bin_products_are_interpolated_values_times_weights(on, rng, kind):
    for at, B, (m, n, q, t) in cases(on, rng, kind):
        S, Z = rng.standard_normal((m, q, t)), on.rounded(rng.standard_normal((n, t)))
        products = bin_products(at, on.put(S, "float64"), on.put(Z))
        expected = np.sum(Z * (B @ S), axis=2)
        on.assert_close(products, expected, ulps=40)


@pytest.mark.pairs
@kinds
@pytest.mark.parametrize("shift", [None, 0, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_pair_sums_are_grams_of_interpolation(on, rng, kind, shift, weighted):
    for at, B, (m, n, q, _) in cases(on, rng, kind, shift=shift):
        w = on.rounded(rng.uniform(0.1, 3.0, (n, 1)))
        flat = B.swapaxes(1, 2).reshape(m * q, n)
        expected = (flat * w[:, 0]) @ flat.T if weighted else flat @ flat.T
        ulps = 100 if weighted or shift is None else 0
        for first in (None, (m + 1) // 2):
            sums = pair_sums(at, on.put(w) if weighted else None, first=first)
            some = expected[: m * q if first is None else first * q]
            on.assert_close(sums, some, ulps=ulps, dtype="float64")


def test_pairs_of_many_knots_are_summed_too(on):
    q = 300
    low, one = on.put([0.0], "float64"), on.put([1.0], "float64")
    at = Positions.from_projections(on.put(np.arange(q)[None, :] + 0.25), low, one, q, shift=2)
    B = oracles.interpolation(on.host(at.codes), at.shift, q)[0]
    on.assert_close(pair_sums(at, None), B.T @ B, ulps=0, dtype="float64")


def test_small_memory_changes_no_sum_of_pairs(on, rng):
    A = on.put(rng.uniform(0, 4, (3, 60)))
    zero, one = on.put(np.zeros(3), "float64"), on.put(np.ones(3), "float64")
    at = Positions.from_projections(A, zero, one, 5, shift=4)
    w = on.put(np.ones((60, 1)))
    for weights in (None, w):
        whole = on.host(pair_sums(at, weights))
        with gpukfl.memory_budget(1):
            on.assert_close(pair_sums(at, weights), whole, ulps=10, dtype="float64")


@st.composite
def drawn(draw):
    """Projections, knots and weights from shapes, ties and scales."""
    m, n, q = draw(st.integers(1, 4)), draw(st.integers(1, 40)), draw(st.integers(2, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(oracles.KINDS))
    A = 10.0 ** draw(st.integers(-8, 8)) * oracles.projections(rng, kind, m, n)
    A = A.astype(draw(st.sampled_from(["float32", "float64"])))
    return A, *grid(A.astype(np.float64), q), q, rng.standard_normal((n, 2)).astype(A.dtype)


@given(drawn(), st.sampled_from([None, 0, 4]))
@settings(derandomize=True)
def test_compiled_positions_equal_the_array_api_form(case, shift):
    A, low, gap, q, _ = case
    at = Positions.from_projections(A, low, gap, q, shift=shift)
    expected = generic._encode(A, low, gap, q, at.shift)
    assert at.codes.dtype == (np.int16 if (q - 1) << at.shift < 2**15 else np.int32)
    assert np.array_equal(at.codes, expected)


@given(drawn(), st.sampled_from([None, 0, 4]))
@settings(derandomize=True)
def test_compiled_bins_equal_the_array_api_form(case, shift):
    A, low, gap, q, V = case
    at = Positions.from_projections(A, low, gap, q, shift=shift)
    U = np.cos(np.arange(len(A) * q * 2.0)).reshape(len(A), q, 2)
    close = dict(rtol=0, atol=1e-14 * (1 + np.sum(np.abs(V))))
    np.testing.assert_allclose(bin_sums(at, V), generic._bin_sums(at, V), **close)
    inside = interpolate_bins(at, U)
    np.testing.assert_allclose(inside, generic._interpolate_bins(at, U), rtol=0, atol=1e-13)
    close = dict(rtol=0, atol=8 * np.finfo(V.dtype).eps * (1 + np.max(np.abs(V))))
    np.testing.assert_allclose(bin_products(at, U, V), generic._bin_products(at, U, V), **close)
    for weights in (None, np.abs(V[:, :1])):
        sums, expected = pair_sums(at, weights), generic._pair_sums(at, weights, len(A))
        np.testing.assert_allclose(sums, expected, rtol=1e-13, atol=1e-13 * np.max(expected))


@kinds
def test_positions_among_fewer_knots_are_shares_rounded_down(on, rng, kind):
    for at, _, (_, _, q, _) in cases(on, rng, kind):
        factor = 5.0 / (q - 1) * 2.0 ** (4 - at.shift)
        few = at.rescale(factor, 4, 6)
        expected = np.floor(on.host(at.codes).astype(np.float64) * factor)
        np.testing.assert_array_equal(on.host(few.codes), expected)
        assert np.max(expected) <= 5 << 4
        assert (few.shift, few.n_knots) == (4, 6)
