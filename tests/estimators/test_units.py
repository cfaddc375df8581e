"""Without standardising, features in awkward units give a right model, a warning or an error."""

import functools
import warnings

import numpy as np
import pytest
from test_wild_values import MAKERS, NEW, Y_NEW, X, Y

few = slice(0, 150)
UNITS = {
    "far away": lambda Z: Z + 1e6,
    "large": lambda Z: 1e6 * Z,
    "small": lambda Z: 1e-6 * Z,
}


@pytest.mark.few
@pytest.mark.each
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_units_that_spoil_a_fit_are_told(make, unit, dtype):
    change = UNITS[unit]
    given = make, change(X[few]).astype(dtype), change(NEW).astype(dtype)
    if make is MAKERS["regfeal"] and unit != "small":
        with pytest.raises(ValueError, match=r"expected features around 0 .*scaling='standard'"):
            fitted(*given)
        return
    expected = score_of(make)
    score, told = fitted(*given)
    assert np.isfinite(score)
    assert told or score > expected - 0.1


@functools.cache
def score_of(make):
    """In the units as they are."""
    return fitted(make, X[few], NEW)[0]


def fitted(make, samples, new):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        return make(scaling=None).fit(samples, Y[few]).score(new, Y_NEW), told
