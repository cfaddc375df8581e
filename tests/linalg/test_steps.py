"""Steps of conjugate gradients, and centring, are what their formulas say, on every place."""

import numpy as np
import pytest

from gpukfl.linalg import conjugate_direction, conjugate_step, subtract_means

SHAPES = [(1,), (40,), (40, 1), (41, 3), (0, 2)]


def vectors(on, rng, shape, count):
    return [on.rounded(rng.standard_normal(shape)) for _ in range(count)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_step_goes_along_the_direction(on, rng, shape):
    x, r, p, Ap = vectors(on, rng, shape, 4)
    rz, curvature = rng.uniform(0.5, 2.0, (2, *shape[1:]))
    given = [on.put(a) for a in (x, r, p, Ap)]
    moved, left = conjugate_step(*given, *(on.put(a, "float64") for a in (rz, curvature)))
    step = rz / curvature
    on.assert_close(moved, x + step * p, ulps=8, scale=10.0)
    on.assert_close(left, r - step * Ap, ulps=8, scale=10.0)
    for array, host in zip(given, (x, r, p, Ap), strict=True):
        np.testing.assert_array_equal(on.host(array), host)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_direction_keeps_its_share_of_the_last(on, rng, shape):
    z, p = vectors(on, rng, shape, 2)
    rz, rz_old = rng.uniform(0.5, 2.0, (2, *shape[1:]))
    turned = conjugate_direction(
        on.put(z), on.put(p), on.put(rz, "float64"), on.put(rz_old, "float64")
    )
    on.assert_close(turned, z + rz / rz_old * p, ulps=8, scale=10.0)


def test_columns_without_curvature_stay(on):
    one = on.put(np.ones((3, 2)))
    zero = on.put(np.zeros(2), "float64")
    x, r = conjugate_step(one, one, one, one, zero, zero)
    for array in (x, r, conjugate_direction(one, one, zero, zero)):
        np.testing.assert_array_equal(on.host(array), 1.0)


@pytest.mark.parametrize("shape", [(1, 1), (40, 1), (41, 3)])
def test_columns_without_their_means_sum_to_zero(on, rng, shape):
    (V,) = vectors(on, rng, shape, 1)
    out = subtract_means(on.put(V), on.put(V.sum(axis=0), "float64"))
    on.assert_close(out, V - V.mean(axis=0), ulps=8, scale=10.0)
