"""The error function, by its library and by quotients."""

import math

import numpy as np
import pytest

from gpukfl.linalg import erf
from gpukfl.linalg._special import _erf

functions = pytest.mark.parametrize("function", [erf, _erf])


@pytest.fixture
def ulps(on, function):
    """What the function promises: quotients have a dozen roundings."""
    return 20 if function is _erf or on.package == "array_api_strict" else 4


def points(on):
    """Points of all sizes and both signs, ascending."""
    small = np.geomspace(1e-30, 1e-3, 40)
    right = np.concatenate([small, np.linspace(1e-3, 8.0, 2001), [30.0, 1e4, 1e30]])
    return on.rounded(np.unique(np.concatenate([-right, [0.0], right])))


@functions
def test_values_are_those_of_the_standard_library(on, function, ulps):
    x = points(on)
    expected = np.asarray([math.erf(value) for value in x])
    on.assert_close(function(on.put(x)), expected, ulps=ulps)


@functions
def test_small_values_keep_their_relative_precision(on, function, ulps):
    x = on.rounded(np.geomspace(1e-30, 0.5, 60))
    actual = on.host(function(on.put(x))).astype(np.float64)
    expected = np.asarray([math.erf(value) for value in x])
    np.testing.assert_allclose(actual, expected, rtol=ulps * on.eps, atol=0)


@functions
def test_it_is_odd_and_monotone_and_within_one(on, function, ulps):
    x = points(on)
    up, down = (on.host(function(on.put(side * x))).astype(np.float64) for side in (1, -1))
    assert np.array_equal(up, -down)
    assert np.min(np.diff(up)) >= -ulps * on.eps
    assert np.max(np.abs(up)) <= 1.0
    assert up[len(up) // 2] == 0.0


@functions
def test_it_saturates(on, function, ulps):
    ends = [-math.inf, -1e30, -6.0, 6.0, 1e30, math.inf]
    on.assert_close(function(on.put(ends)), np.sign(ends), ulps=ulps)


@functions
def test_shape_is_kept_and_nothing_is_changed(on, rng, function, ulps):
    for shape in ((0, 3), (1,), (4, 5)):
        x = on.rounded(rng.standard_normal(shape))
        placed = on.put(x)
        on.assert_close(function(placed), np.vectorize(math.erf, otypes=[float])(x), ulps=ulps)
        on.assert_close(placed, x, ulps=0)


@functions
def test_not_a_number_stays_one(on, function, ulps):
    assert np.all(np.isnan(on.host(function(on.put([math.nan])))))
