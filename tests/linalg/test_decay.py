"""Polynomials times exponentials equal the standard library's, number by number."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpukfl._accel.trust import use_numpy_only
from gpukfl.linalg import decay
from gpukfl.linalg._decay import _decay

POLYNOMIALS = [(1.0,), (-1.5,), (1.0, 1.0), (-0.8, -0.8), (1.0, 1.0, 1.0 / 3.0), (0.0, 2.0, 0.5)]

polynomials = pytest.mark.parametrize("coefficients", POLYNOMIALS, ids=str)
ways = pytest.mark.parametrize(
    ("rate", "root"), [(1.0, False), (0.5, False), (1.0, True), (5.0, True)]
)


def expected_at(s, coefficients, *, rate, root):
    """The definition, of Python's numbers."""
    a = [math.sqrt(rate * value) if root else rate * value for value in map(float, s)]
    return np.asarray(
        [sum(c * x**k for k, c in enumerate(coefficients)) * math.exp(-x) for x in a]
    ), np.asarray(a)


def lengths(on, *, root):
    """Normal numbers of all sizes for which the exponential is normal as well, and 0."""
    least, most = (1e-18, 80.0) if on.dtype_name == "float32" else (1e-30, 700.0)
    a = np.concatenate([[0.0], np.geomspace(least, 1.0, 300), np.linspace(1.0, most, 3_001)])
    return on.rounded(a**2 / 5.0 if root else a)


@pytest.mark.pairs
@polynomials
@ways
def test_values_are_those_of_the_standard_library(on, coefficients, rate, root):
    s = lengths(on, root=root)
    actual = decay(on.put(s), coefficients, rate=rate, root=root)
    on.assert_lives_here(actual)
    expected, a = expected_at(s, coefficients, rate=rate, root=root)
    # a is rounded, by which the exponential changes by a times as much
    error = np.abs(on.host(actual).astype(np.float64) - expected)
    assert np.all(error <= (6.0 + 2.0 * a) * on.eps * np.abs(expected))


def test_of_a_number_that_is_not_rounded_no_digit_is_lost():
    a = np.linspace(0.0, 700.0, 20_001) * (1.0 - 2.0**-20)
    expected = np.exp(-a.astype(np.longdouble))
    assert np.max(np.abs(decay(a) / expected - 1.0)) <= 2.0**-52


@pytest.mark.pairs
@polynomials
@ways
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7, 0), (513,), (3, 400), (2, 3, 301)], ids=str)
def test_shape_is_kept_and_nothing_is_changed(on, rng, coefficients, rate, root, shape):
    s = on.rounded(5.0 * rng.random(shape))
    given_ = on.put(s.copy())
    actual = decay(given_, coefficients, rate=rate, root=root)
    assert tuple(actual.shape) == shape
    np.testing.assert_array_equal(on.host(given_), s)
    expected, _ = expected_at(np.ravel(s), coefficients, rate=rate, root=root)
    on.assert_close(actual, expected.reshape(shape), ulps=20)


@pytest.mark.parametrize("layout", ["rows", "columns", "every other", "backwards", "read-only"])
def test_the_layout_does_not_matter(rng, layout):
    s = 9.0 * rng.random((60, 44))
    seen = {
        "rows": s,
        "columns": np.asfortranarray(s),
        "every other": s[::2, ::3],
        "backwards": s[::-1, ::-1],
        "read-only": s.copy(),
    }[layout]
    if layout == "read-only":
        seen.flags.writeable = False
    actual = decay(seen, (1.0, 1.0), rate=3.0, root=True)
    np.testing.assert_allclose(actual, _decay(seen, (1.0, 1.0), 3.0, True), rtol=1e-14)
    assert actual.flags.writeable


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0.0, 1e6), min_size=1, max_size=40),
    st.sampled_from(POLYNOMIALS),
    st.sampled_from([0.01, 1.0, 3.0]),
    st.booleans(),
    st.sampled_from([np.float32, np.float64]),
)
def test_compiled_code_gives_what_array_operations_give(numbers, coefficients, rate, root, dtype):
    s = np.asarray(numbers, dtype=dtype)
    # A product below the smallest normal number has lost digits, which a root makes large
    s = np.where(rate * s < np.finfo(dtype).tiny, dtype(0.0), s)
    compiled = decay(s, coefficients, rate=rate, root=root)
    with use_numpy_only():
        alone = decay(s, coefficients, rate=rate, root=root)
    assert compiled.dtype == alone.dtype == dtype
    a = np.sqrt(rate * s) if root else rate * s
    slack = (8.0 + 4.0 * a.astype(np.float64)) * np.finfo(dtype).eps * np.abs(alone)
    # Below the smallest normal number there is nothing, or a few digits
    assert np.all(np.abs(compiled - alone.astype(np.float64)) <= slack + 1e6 * np.finfo(dtype).tiny)


def test_many_numbers_are_shared_among_threads(rng, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "3")
    s = 40.0 * rng.random((1_000, 701))
    np.testing.assert_allclose(decay(s, rate=0.5), np.exp(-0.5 * s), rtol=1e-14)


def test_what_is_far_is_nothing_and_what_is_unknown_stays_so(on):
    far, unknown = on.host(decay(on.put([1e6, 1e30, math.inf]))), on.host(decay(on.put([math.nan])))
    np.testing.assert_array_equal(far, 0.0)
    assert np.isnan(unknown).all()
    polynomial = on.host(decay(on.put([1e6, math.nan, 0.0]), (2.0, 1.0, 1.0)))
    np.testing.assert_array_equal(polynomial, [0.0, math.nan, 2.0])


def test_a_polynomial_of_higher_degree_is_not_cut_off(rng):
    with pytest.raises(ValueError, match="too many values"):
        decay(rng.random(5), (1.0, 1.0, 1.0, 1.0))
