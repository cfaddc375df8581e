"""Sums of differences equal the formula over all pairs, in float64 on the host."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpukfl.linalg import (
    SortedColumns,
    difference_sums,
    factored_difference_sums,
    factored_square_sums,
)
from gpukfl.linalg import _difference_sums as generic

EPS = float(np.finfo(np.float64).eps)
SHAPES = [(1, 1), (1, 4), (2, 1), (2, 3), (7, 1), (9, 8), (40, 5), (263, 3), (519, 2)]  # n, p

powers = pytest.mark.parametrize("power", [1, 2])
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


def dense(A, X, power=1):
    """The definition, one (n, n, p) array."""
    gaps = np.abs(X[:, None, :] - X[None, :, :])
    return np.sum(A[:, :, None] * gaps**power, axis=(0, 1))


def problem(on, rng, n, p, m=4):
    """Weights A (n, n), their factor V (n, m), and data with ties and a constant column."""
    A, V, X = (rng.standard_normal(shape) for shape in ((n, n), (n, m), (n, p)))
    X[:, 1::3] = np.round(2 * X[:, 1::3]) / 2
    X[:, 2::5] = 0.7
    return on.rounded(A + A.T), on.rounded(V), on.rounded(X)


def factored(V, X, power):
    """The sums by a factor, as callers form them."""
    if power == 2:
        return factored_square_sums(V, X)
    return factored_difference_sums(V, SortedColumns.sort(X))


def assert_within(actual, expected, scale, *, eps=EPS, ulps):
    """Entry by entry within ulps of scale, the sum of what an error is relative to."""
    actual = np.asarray(actual)
    assert actual.dtype == np.float64
    assert actual.shape == expected.shape
    excess = np.abs(actual - expected) - ulps * eps * scale
    assert np.max(excess, initial=0.0) <= 0, f"{np.max(excess / (eps * scale + 1e-300))} too many"


# --------------------------------------------------------------------------------------------------
# Every place


@pytest.mark.pairs
@powers
@shapes
def test_sums_are_those_of_the_formula(on, rng, shape, power):
    A, _, X = problem(on, rng, *shape)
    actual = difference_sums(on.put(A), on.put(X), power=power)
    on.assert_lives_here(actual, "float64")
    # float32 data are exact in float64, in which everything is summed
    scale = spread(A, X, power)
    assert_within(on.host(actual), dense(A, X, power), scale, ulps=20)


def spread(A, X, power):
    """What errors are relative to; squares are expanded around the mean of a column."""
    if power == 1:
        return dense(np.abs(A), X)
    return np.sum(np.abs(A)) * np.max(np.abs(X - np.mean(X, axis=0)), axis=0) ** 2


def factored_spread(V, X, power):
    """The same for weights by their factor."""
    return spread(np.abs(V) @ np.abs(V).T, X, power)


@pytest.mark.pairs
@powers
@shapes
def test_factored_sums_are_those_of_the_matrix(on, rng, shape, power):
    _, V, X = problem(on, rng, *shape)
    actual = factored(on.put(V), on.put(X), power)
    on.assert_lives_here(actual, "float64")
    # gaps between neighbours are rounded as the data are
    eps, ulps = (on.eps, 4) if power == 1 and on.dtype_name == "float32" else (EPS, 20)
    scale = factored_spread(V, X, power)
    assert_within(on.host(actual), dense(V @ V.T, X, power), scale, eps=eps, ulps=ulps)


@powers
def test_one_sample_differs_from_nothing(on, power):
    A, V, X = on.put([[3.0]]), on.put([[1.0, 2.0]]), on.put([[0.3, -1e8, 0.0]])
    for actual in (difference_sums(A, X, power=power), factored(V, X, power)):
        on.assert_close(actual, np.zeros(3), ulps=0, dtype="float64")


@powers
def test_constant_columns_count_nothing(on, rng, power):
    A, V, _ = problem(on, rng, 30, 1)
    X = on.put(np.full((30, 2), 0.75))  # of which the mean is exact
    for actual in (difference_sums(on.put(A), X, power=power), factored(on.put(V), X, power)):
        on.assert_close(actual, np.zeros(2), ulps=0, dtype="float64")


@powers
def test_no_columns(on, rng, power):
    A, V, X = (on.put(a) for a in (np.ones((5, 5)), np.ones((5, 2)), np.ones((5, 0))))
    for actual in (difference_sums(A, X, power=power), factored(V, X, power)):
        on.assert_close(actual, np.zeros(0), dtype="float64")


@pytest.mark.pairs
@powers
@pytest.mark.parametrize("offset", [-3.0, 2.0**16])
def test_shifts_of_columns_change_nothing(on, rng, power, offset):
    A, V, _ = problem(on, rng, 50, 1)
    X = np.round(16 * rng.standard_normal((50, 4))) / 16  # exact with either offset
    shifts = offset * np.array([1.0, -1.0, 0.0, 0.5])
    here, there = on.put(X), on.put(X + shifts)
    np.testing.assert_array_equal(on.rounded(X + shifts), X + shifts)
    placed = on.put(A), on.put(V)
    moved = on.host(difference_sums(placed[0], there, power=power))
    # what is left of the offset after centring is a rounding of the mean
    slack = np.sum(np.abs(A)) * (EPS * offset) ** power
    scale = spread(A, X, power) + slack
    assert_within(moved, on.host(difference_sums(placed[0], here, power=power)), scale, ulps=20)
    scale = factored_spread(V, X, power) + slack
    moved = on.host(factored(placed[1], there, power))
    assert_within(moved, on.host(factored(placed[1], here, power)), scale, ulps=20)


@powers
def test_order_of_the_samples_changes_rounding_only(on, rng, power):
    A, V, X = problem(on, rng, 60, 5)
    order = rng.permutation(60)
    mixed = difference_sums(on.put(A[order][:, order]), on.put(X[order]), power=power)
    plain = difference_sums(on.put(A), on.put(X), power=power)
    assert_within(on.host(mixed), on.host(plain), spread(A, X, power), ulps=20)
    mixed, plain = (
        factored(on.put(V[order]), on.put(X[order]), power),
        factored(on.put(V), on.put(X), power),
    )
    assert_within(on.host(mixed), on.host(plain), factored_spread(V, X, power), ulps=20)


@pytest.mark.parametrize("power", [0, 3, 1.5, "1", None])
def test_other_powers_are_refused(on, power):
    with pytest.raises(ValueError, match=f"expected power 1 or 2, got {power!r}"):
        difference_sums(on.put(np.ones((2, 2))), on.put(np.ones((2, 1))), power=power)


def test_columns_are_sorted_and_taken(on, rng):
    _, V, X = problem(on, rng, 30, 6)
    data = SortedColumns.sort(on.put(X))
    order, gaps = on.host(data.order), on.host(data.gaps)
    on.assert_lives_here(data.gaps)
    assert gaps.shape == (6, 29)
    values = np.take_along_axis(X.T, order.astype(int), axis=1)
    np.testing.assert_array_equal(values, np.sort(X.T, axis=1))
    np.testing.assert_array_equal(gaps, np.diff(values.astype(on.dtype_name), axis=1))
    everything = on.host(factored_difference_sums(on.put(V), data))
    for columns in ([4], [5, 0, 2], [1, 1], []):
        index = np.array(columns, dtype=np.int64)
        some = data.take(index)
        np.testing.assert_array_equal(on.host(some.order), order[index])
        np.testing.assert_array_equal(on.host(some.gaps), gaps[index])
        actual = on.host(factored_difference_sums(on.put(V), some))
        np.testing.assert_array_equal(actual, everything[index])


def test_views_give_the_same_and_stay_as_they_are(on, rng):
    A, V, X = problem(on, rng, 40, 6)
    plain = [on.put(a) for a in (A, V, X)]
    transposed = [on.put(a.T).T for a in (A, V, X)]
    strided = [on.put(np.repeat(a, 2, axis=1))[:, ::2] for a in (A, V, X)]
    for a, v, x in (plain, transposed, strided):
        for power in (1, 2):
            sums = on.host(difference_sums(a, x, power=power))
            assert_within(sums, dense(A, X, power), spread(A, X, power), ulps=20)
            sums = on.host(factored(v, x, power))
            expected = on.host(factored(plain[1], plain[2], power))
            assert_within(sums, expected, factored_spread(V, X, power), ulps=20)
        for view, host in ((a, A), (v, V), (x, X)):
            np.testing.assert_array_equal(on.host(view), host)


@powers
def test_results_repeat_to_the_last_bit(on, rng, power):
    A, V, X = (on.put(a) for a in problem(on, rng, 530, 3, m=150))  # enough work for threads
    for compute in (lambda: difference_sums(A, X, power=power), lambda: factored(V, X, power)):
        first = on.host(compute())
        for _ in range(3):
            np.testing.assert_array_equal(on.host(compute()), first)


# --------------------------------------------------------------------------------------------------
# Compiled and array-API form on NumPy


LAYOUTS = [
    np.ascontiguousarray,
    np.asfortranarray,
    lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
]


@st.composite
def drawn(draw):
    """Weights, their factor and data from shapes, ties, scales, precisions and layouts."""
    n, p, m = draw(st.integers(1, 40)), draw(st.integers(0, 6)), draw(st.integers(1, 9))
    if draw(st.booleans()):
        n += 250  # more than a tile
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    A, V, X = (rng.standard_normal(shape) for shape in ((n, n), (n, m), (n, p)))
    if draw(st.booleans()):
        X = np.round(2 * X) / 2
    weight, size = (10.0 ** draw(st.integers(-8, 8)) for _ in range(2))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    arrays = [a.astype(dtype) for a in (weight * (A + A.T), weight * V, size * X)]
    return [draw(st.sampled_from(LAYOUTS))(a) for a in arrays]


@given(drawn())
@settings(derandomize=True, max_examples=40)
def test_both_forms_equal_the_formula(case):
    A, V, X = case
    wide = A.astype(np.float64), V.astype(np.float64), X.astype(np.float64)
    exact, scale = dense(wide[0], wide[2]), dense(np.abs(wide[0]), wide[2])
    for actual in (difference_sums(A, X), generic._difference_sums(A, X)):
        assert_within(actual, exact, scale, ulps=20)
    exact = dense(wide[1] @ wide[1].T, wide[2])
    scale = factored_spread(wide[1], wide[2], 1)
    columns = SortedColumns.sort(X)
    eps = np.finfo(X.dtype).eps
    for actual in (
        factored_difference_sums(V, columns),
        generic._factored_difference_sums(V, columns),
    ):
        assert_within(actual, exact, scale, eps=eps, ulps=4 if X.dtype == np.float32 else 20)


def test_another_number_of_threads_changes_rounding_only(monkeypatch, rng):
    n, p = 530, 6
    A, V, X = (rng.standard_normal(shape) for shape in ((n, n), (n, 100), (n, p)))
    A = A + A.T
    expected = dense(A, X)
    results = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("GPUKFL_NUM_THREADS", threads)
        assert_within(difference_sums(A, X), expected, dense(np.abs(A), X), ulps=20)
        results.append(factored(V, X, 1))
    for other in results[1:]:  # threads share the columns
        np.testing.assert_array_equal(other, results[0])


def test_the_generic_form_keeps_a_few_arrays_like_the_factor(rng):
    n, m = 20_000, 20
    V, columns = rng.standard_normal((n, m)), SortedColumns.sort(rng.standard_normal((n, 8)))
    tracemalloc.start()
    generic._factored_difference_sums(V, columns)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * V.nbytes
