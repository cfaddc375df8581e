"""Sums over sorted projections equal their dense formulas, on every place and any data."""

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpukfl
from gpukfl.linalg import (
    SortedRows,
    _knots,
    absolute_differences,
    interpolate_columns,
    interpolate_knots,
    ridge_curves,
    ridge_sums,
    sign_products,
    sort_rows,
)
from gpukfl.linalg import _ridge_sums as generic

kinds = pytest.mark.parametrize("kind", oracles.KINDS)
SIZES = [(1, 1, 1), (3, 1, 2), (2, 2, 1), (3, 257, 3)]  # m, n, t


def cases(on, rng, kind):
    for m, n, t in SIZES:
        A = on.rounded(oracles.projections(rng, kind, m, n))
        yield A, oracles.zero_sum(rng, n, t)


def magnitude(A, V):
    """What the rounding errors of sums over samples are relative to."""
    return np.sum(np.max(np.abs(A), axis=1)) * np.sum(np.abs(V)) + 1e-300


@kinds
def test_rows_are_sorted_and_remember_where_they_were(on, rng, kind):
    for A, _ in cases(on, rng, kind):
        rows = sort_rows(on.put(A))
        assert rows.shape == A.shape
        on.assert_close(rows.values, np.sort(A, axis=1), ulps=0)
        order = on.host(rows.order)
        assert np.array_equal(np.take_along_axis(A, order, axis=1), np.sort(A, axis=1))
        assert np.array_equal(np.sort(order, axis=1), np.tile(np.arange(A.shape[1]), (len(A), 1)))
        if rows.rank is not None:
            there = np.take_along_axis(on.host(rows.rank), order, axis=1)
            assert np.array_equal(there, np.sort(order, axis=1))


def test_rows_are_sorted_whatever_their_values(on, rng):
    """Far outliers, neighbours in floating point, infinite and subnormal values, many ties."""
    x = rng.standard_normal((8, 500))
    x[1, 7] = 1e30
    x[2] = 1.0 + on.eps * rng.integers(0, 4, 500)
    x[3, [5, 9]] = np.inf, -np.inf
    x[4] *= np.finfo(on.dtype_name).tiny / 8
    x[5] = rng.integers(0, 3, 500)
    x[6] = np.finfo(on.dtype_name).max * np.sign(x[6])
    x[7] = -0.0
    A = x.astype(on.dtype_name)
    rows = sort_rows(on.put(A, on.dtype_name))
    assert np.array_equal(on.host(rows.values), np.sort(A, axis=1))
    order = on.host(rows.order)
    assert np.array_equal(np.take_along_axis(A, order, axis=1), np.sort(A, axis=1))
    assert np.array_equal(np.sort(order, axis=1), np.tile(np.arange(500), (8, 1)))


@kinds
def test_ridge_sums_equal_the_dense_sum_in_float64(on, rng, kind):
    for A, V in cases(on, rng, kind):
        sums = ridge_sums(sort_rows(on.put(A)), on.put(V))
        expected = np.sum(oracles.ridge_curves(A, V), axis=0)
        on.assert_close(sums, expected, ulps=10, scale=magnitude(A, V), dtype="float64")


@kinds
def test_ridge_curves_are_the_terms_of_the_sums(on, rng, kind):
    for A, V in cases(on, rng, kind):
        rows = sort_rows(on.put(A))
        curves = on.host(ridge_curves(rows, on.put(V)))
        terms = np.empty_like(curves)
        np.put_along_axis(terms, on.host(rows.order)[:, :, None], curves, axis=1)
        sums = ridge_sums(rows, on.put(V))
        scale = magnitude(A, V)
        on.assert_close(sums, np.sum(terms, axis=0), ulps=10, scale=scale, dtype="float64")
        assert np.all(curves[:, 0, :] == 0.0)


def test_ridge_curves_do_not_depend_on_the_memory(on, rng):
    A, V = on.rounded(rng.standard_normal((5, 40))), oracles.zero_sum(rng, 40, 2)
    rows = sort_rows(on.put(A))
    whole = ridge_curves(rows, on.put(V))
    with gpukfl.memory_budget(2 * 64 * 40):
        by_parts = ridge_curves(rows, on.put(V))
    on.assert_close(by_parts, on.host(whole), ulps=0, dtype="float64")


@kinds
def test_sign_products_equal_the_dense_sum(on, rng, kind):
    for A, Z in cases(on, rng, kind):
        products = sign_products(sort_rows(on.put(A)), on.put(Z))
        scale = np.max(np.abs(Z)) * np.sum(np.abs(Z))
        on.assert_close(products, oracles.sign_products(A, Z), ulps=10, scale=scale)


def test_sign_products_of_equal_projections_are_exactly_zero(on, rng):
    for n in (1, 2, 3, 1000):
        Z = on.put(rng.standard_normal((n, 2)))
        rows = sort_rows(on.put(np.full((1, n), 0.3)))
        order = rng.permutation(n)[None, :]  # an unstable sort may give any
        integers = str(on.host(rows.order).dtype)
        rank = None if rows.rank is None else on.put(np.argsort(order), integers)
        shuffled = SortedRows(rows.values, on.put(order, integers), rank)
        for equal in (rows, shuffled):
            on.assert_close(sign_products(equal, Z), np.zeros((1, n)), ulps=0)


@kinds
def test_absolute_differences_equal_the_dense_sum(on, rng, kind):
    for A, _ in cases(on, rng, kind):
        expected = np.sum(np.abs(oracles.gaps(A)), axis=0)
        on.assert_close(absolute_differences(on.put(A)), expected, ulps=10)


def test_absolute_differences_are_summed_in_float64(on):
    A = np.outer(np.ones(20_000), on.rounded([0.0, 0.1, -0.3]))
    expected = np.sum(np.abs(oracles.gaps(A)), axis=0)
    ulps = 4 if on.dtype_name == "float32" else 20_000  # rounded once, or 20 000 times
    on.assert_close(absolute_differences(on.put(A)), expected, ulps=ulps)


def test_small_memory_changes_no_sum(on, rng):
    A = on.put(oracles.projections(rng, "random", 9, 50))
    V = on.put(rng.standard_normal((50, 2)))
    results = []
    for budget in (None, 1):
        with gpukfl.memory_budget(budget):
            results.append([ridge_sums(sort_rows(A), V), absolute_differences(A)])
    for whole, pieces in zip(*results, strict=True):
        on.assert_close(pieces, on.host(whole), ulps=10, dtype=str(on.host(whole).dtype))


@pytest.mark.pairs
@kinds
@pytest.mark.parametrize("knot_dtype", ["float64", None])
def test_knots_are_interpolated_linearly_and_constant_beyond(on, rng, kind, knot_dtype):
    for m, n, q in [(1, 1, 1), (2, 3, 1), (3, 200, 2), (3, 200, 33)]:
        A = on.rounded(2 * oracles.projections(rng, kind, m, n))
        knots = on.rounded(np.sort(oracles.projections(rng, kind, m, q), axis=1))
        values = np.stack([np.cos(3 * knots), knots**2], axis=2)
        expected = np.zeros((n, 2))
        for j in range(m):
            for c in range(2):
                expected[:, c] += oracles.piecewise_linear(A[j], knots[j], values[j, :, c])
        total = interpolate_knots(on.put(A), on.put(knots, knot_dtype), on.put(values, "float64"))
        # The share of a gap is as exact as the points, and the gap may be a thousandth of them
        ulps = 1e3 * on.eps / np.finfo(np.float64).eps
        on.assert_close(total, expected, ulps=ulps, dtype="float64")


def test_knots_return_their_own_values(on, rng):
    knots = on.rounded(np.sort(rng.standard_normal((1, 20)), axis=1))
    values = on.put(rng.standard_normal((1, 20, 1)), "float64")
    there = interpolate_knots(on.put(knots), on.put(knots), values)
    on.assert_close(there, on.host(values)[0], ulps=0, dtype="float64")


def test_of_repeated_knots_the_last_counts(on):
    knots, values = [[0.0, 1.0, 1.0, 1.0]], [[[0.0], [7.0], [8.0], [2.0]]]
    at = on.put([[1.0, 1.5, 100.0, -1.0]])
    total = interpolate_knots(at, on.put(knots), on.put(values, "float64"))
    on.assert_close(total, [[2.0], [2.0], [2.0], [0.0]], ulps=0, dtype="float64")


@kinds
def test_columns_are_interpolated_each_by_its_own_knots(on, rng, kind):
    for d, n, q in [(1, 1, 1), (2, 3, 1), (3, 2000, 33)]:
        X = on.rounded(2 * oracles.projections(rng, kind, d, n).T)
        knots = on.rounded(np.sort(oracles.projections(rng, kind, d, q), axis=1))
        values = np.cos(3 * knots)
        each = [oracles.piecewise_linear(X[:, j], knots[j], values[j]) for j in range(d)]
        found = interpolate_columns(on.put(X), on.put(knots, "float64"), on.put(values, "float64"))
        ulps = 1e3 * on.eps / np.finfo(np.float64).eps
        on.assert_close(found, np.stack(each, axis=1), ulps=ulps, dtype="float64")


@st.composite
def drawn(draw):
    """Projections (m, n) and centred weights (n, t), from shapes, ties and scales."""
    m, n, t = draw(st.integers(1, 5)), draw(st.integers(1, 40)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    scale = 10.0 ** draw(st.integers(-8, 8))
    A = scale * oracles.projections(rng, draw(st.sampled_from(oracles.KINDS)), m, n)
    V = oracles.zero_sum(rng, n, t)
    return A.astype(dtype), V.astype(dtype)


@given(drawn())
@settings(derandomize=True)
def test_compiled_sums_equal_the_array_api_form(case):
    A, V = case
    rows, twin = generic._sort_rows(A), sort_rows(A)
    assert np.array_equal(twin.values, rows.values)
    close = dict(rtol=0, atol=1e-14 * magnitude(A, V))
    np.testing.assert_allclose(ridge_sums(twin, V), generic._ridge_sums(rows, V), **close)
    curves = np.stack([generic._ridge_curve(rows, V[:, c]) for c in range(V.shape[1])], axis=2)
    np.testing.assert_allclose(ridge_curves(twin, V), curves, **close)
    products = generic._sign_products(rows, V)
    close = dict(rtol=0, atol=4 * np.finfo(V.dtype).eps * np.sum(np.abs(V)) ** 2)
    np.testing.assert_allclose(sign_products(twin, V), products, **close)


@given(drawn(), st.integers(1, 20))
@settings(derandomize=True)
def test_compiled_interpolation_equals_the_array_api_form(case, q):
    A, _ = case
    knots = np.sort(np.tile(A, (1, q))[:, :q], axis=1).astype(np.float64)
    values = np.cos(np.arange(len(A) * q * 2.0)).reshape(len(A), q, 2)
    twin, close = interpolate_knots(A, knots, values), 20 * np.finfo(A.dtype).eps * len(A)
    total = sum(_knots._interpolate_one(A[j], knots[j], values[j]) for j in range(len(A)))
    np.testing.assert_allclose(twin, total, rtol=0, atol=close)
    together = _knots._interpolate_all(A, knots, values).sum(axis=0)
    np.testing.assert_allclose(twin, together, rtol=0, atol=close)
