"""The same call on NumPy in float64 and on another place, and how far the results may differ.

A tolerance is in units of the place's precision, times how much the reference changes when its
operands do: that is measured, by operands that are changed by `STEP` of their size. What hangs on
rounding alone changes far more on a place than this allows.
"""

from collections.abc import Sequence

import numpy as np
from drawn import lay

from conftest import Place

REFERENCE = Place("numpy", "cpu", "float64")
STEP = 2.0**-26


def assert_agrees(on, call, *operands, layout="rows", ulps=100.0, scale=0.0, dtypes=()):
    """Compare ``call(*operands)`` on a place with the same on NumPy in float64.

    `operands` are host arrays, or None; `call` gives an array or number, or several. Arrays have to
    be on the place, in its precision or in `dtype`.
    """
    host = [None if a is None else on.rounded(a) for a in operands]
    expected = _numbers(call(*_put(REFERENCE, host)))
    found = _several(call(*[None if a is None else lay(on, a, layout) for a in host]))
    moved = _numbers(call(*_put(REFERENCE, _changed(host))))
    assert len(found) == len(expected)
    for k, (actual, right, other) in enumerate(zip(found, expected, moved, strict=True)):
        assert np.all(np.isfinite(right)), f"result {k} of the reference is not finite"
        dtype = dtypes[k] if dtypes else None
        if dtype == "host":
            assert isinstance(actual, np.ndarray | np.generic | int | float)
            values = np.asarray(actual, dtype=np.float64)
        else:
            on.assert_lives_here(actual, dtype)
            values = on.host(actual).astype(np.float64)
        assert values.shape == right.shape
        size = np.max(np.abs(right), initial=scale)
        sensitivity = np.max(np.abs(other - right), initial=0.0) / STEP
        error = np.max(np.abs(values - right), initial=0.0)
        allowed = ulps * on.eps * (size + sensitivity)
        assert error <= allowed, (
            f"result {k} differs by {error:.3g}, which is {error / on.eps:.3g} units of the"
            f" precision; {allowed:.3g} is allowed, for a size of {size:.3g} and a sensitivity of"
            f" {sensitivity:.3g}"
        )


def _several(results):
    return list(results) if isinstance(results, Sequence) else [results]


def _numbers(results):
    return [np.asarray(x, dtype=np.float64) for x in _several(results)]


def _put(place, arrays):
    return [None if a is None else place.put(a) for a in arrays]


def _changed(arrays):
    """Operands moved by a function of their entries, so that equal ones stay equal."""
    return [None if a is None else a * (1.0 + STEP * np.sin(7.0 * a + 1.0)) for a in arrays]
