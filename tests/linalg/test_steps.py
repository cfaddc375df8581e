"""Steps of conjugate gradients, centring and products are what their formulas say, everywhere."""

import numpy as np
import pytest

from gpukfl.linalg import (
    center_columns,
    column_dots,
    conjugate_direction,
    conjugate_step,
    record,
)

SHAPES = [(1,), (40,), (40, 1), (41, 3), (0, 2)]


def vectors(on, rng, shape, count):
    return [on.rounded(rng.standard_normal(shape)) for _ in range(count)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_step_goes_along_the_direction(on, rng, shape):
    x, r, p, Ap = vectors(on, rng, shape, 4)
    rz, curvature, before = rng.uniform(0.5, 2.0, (3, *shape[1:]))
    given = [on.put(a) for a in (x, r, p, Ap)]
    numbers = [on.put(a, "float64") for a in (rz, curvature, before)]
    moved, left, worst = conjugate_step(*given, *numbers)
    step = rz / curvature
    on.assert_close(moved, x + step * p, ulps=8, scale=10.0)
    on.assert_close(left, r - step * Ap, ulps=8, scale=10.0)
    np.testing.assert_array_equal(on.host(worst), np.minimum(curvature, before))
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
    x, r, _ = conjugate_step(one, one, one, one, zero, zero, zero)
    for array in (x, r, conjugate_direction(one, one, zero, zero)):
        np.testing.assert_array_equal(on.host(array), 1.0)


@pytest.mark.parametrize(("curvature", "worst"), [(np.nan, 1.0), (1.0, np.nan)])
def test_the_lowest_curvature_may_be_nan(on, curvature, worst):
    one = on.put(np.ones((3, 1)))
    numbers = [on.put(np.array([x]), "float64") for x in (1.0, curvature, worst)]
    *_, lowest = conjugate_step(one, one, one, one, *numbers)
    assert np.isnan(on.host(lowest)).all()


# Within a slice of a kernel, and several with a rest; more columns than a block has threads
LONG = [*SHAPES, (1, 1), (9001,), (9001, 3), (3, 300)]


@pytest.mark.parametrize("shape", LONG)
def test_inner_products_are_of_columns(on, rng, shape):
    u, v = vectors(on, rng, shape, 2)
    dots = column_dots(on.put(u), on.put(v))
    scale = np.abs(u * v).sum(axis=0).max(initial=1.0) * on.eps / 2**-52
    on.assert_close(dots, (u * v).sum(axis=0), ulps=4, scale=scale, dtype="float64")


@pytest.mark.parametrize("shape", LONG)
def test_inner_products_of_a_sum(on, rng, shape):
    u, v, plus = vectors(on, rng, shape, 3)
    dots = column_dots(on.put(u), on.put(v), plus=on.put(plus))
    scale = np.abs((u + plus) * v).sum(axis=0).max(initial=1.0) * on.eps / 2**-52
    on.assert_close(dots, ((u + plus) * v).sum(axis=0), ulps=4, scale=scale, dtype="float64")


@pytest.mark.parametrize("shape", [(), (1,), (300,), (0,)])
def test_records_are_rows_of_a_log(on, rng, shape):
    vectors = rng.standard_normal((3, *shape))
    shape = (4, 3, vectors[0].size)
    log = on.xp.full(shape, -1.0, dtype=on.xp.float64, device=on.device)  # of one's own
    record(log, 2, *(on.put(v, "float64") for v in vectors))
    expected = np.full(tuple(log.shape), -1.0)
    expected[2] = vectors.reshape(3, -1)
    np.testing.assert_array_equal(on.host(log), expected)


@pytest.mark.pairs
@pytest.mark.parametrize("shift", [0.0, 0.75])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("shape", [s for s in LONG if len(s) == 2 and s[0]])
def test_columns_without_their_means_sum_to_zero(on, rng, shape, wide, shift):
    P, V = vectors(on, rng, shape, 2)
    product = on.put(P, "float64" if wide else None)
    out = center_columns(product, on.put(V), shift=shift)
    on.assert_close(out, P - P.mean(axis=0) + shift * V, ulps=8, scale=10.0)
