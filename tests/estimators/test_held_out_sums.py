"""Errors on held-out samples, and the spread that they are compared with, are weighted sums."""

import numpy as np
import pytest

from gpukfl.estimators._data import HeldOut


@pytest.mark.entered
@pytest.mark.parametrize("size", [1.0, 7.0])  # of the weights, whose sum need not be their number
def test_errors_and_spread_are_weighted(on_double, rng, size):
    Y, predicted = rng.standard_normal((2, 11, 2)) + 3.0
    w = size * rng.uniform(0.5, 2.0, (11, 1))
    held_out = HeldOut(*(on_double.put(a) for a in (rng.standard_normal((11, 3)), Y, w)))
    assert held_out.error(on_double.put(predicted)) == pytest.approx(
        np.sum(w * (Y - predicted) ** 2)
    )
    around = np.sum(w * (Y - np.average(Y, axis=0, weights=w[:, 0])) ** 2)
    assert held_out.spread == pytest.approx(around, rel=1e-12)
