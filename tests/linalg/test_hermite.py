"""Hermite polynomials of unit variance, against NumPy's and their laws."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.polynomial import hermite_e

from gpukfl.linalg import hermite_table, row_products

DEGREE = 40


def expected(X, degree):
    """By Clenshaw's sum of NumPy's polynomials, whose variances are k!."""
    columns = [
        hermite_e.hermeval(X, np.eye(degree + 1)[k]) / math.sqrt(math.factorial(k))
        for k in range(degree + 1)
    ]
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("degree", [0, 1, 2, 7, DEGREE])
def test_values_are_those_of_numpy(on, rng, degree):
    X = on.rounded(rng.standard_normal((6, 3)))
    truth = expected(X, degree)
    table = hermite_table(on.put(X), degree)
    # Float64 whatever the precision of the points
    on.assert_close(table, truth, ulps=2000, scale=2.0, dtype="float64")


def test_large_points_keep_their_relative_precision(on):
    X = np.array([[6.0, -6.0, 30.0], [-1000.0, 15.0, 0.5]])
    table = on.host(hermite_table(on.put(X), DEGREE))
    np.testing.assert_allclose(table, expected(X, DEGREE), rtol=1e-10)
    assert np.all(np.isfinite(table))


def test_polynomials_are_orthonormal(on):
    points, weights = hermite_e.hermegauss(DEGREE + 1)
    table = on.host(hermite_table(on.put(points[:, None], "float64"), DEGREE))[:, :, 0]
    gram = table.T @ (weights[:, None] / math.sqrt(2 * math.pi) * table)
    np.testing.assert_allclose(gram, np.eye(DEGREE + 1), atol=1e-10)


@given(x=st.floats(-8, 8), k=st.integers(1, DEGREE))
@settings(derandomize=True, max_examples=60)
def test_a_derivative_is_the_polynomial_below(x, k):
    h = 1e-4
    points = x + h * np.array([[-2.0], [-1.0], [0.0], [1.0], [2.0]])
    table = hermite_table(points, k)[:, :, 0]
    slope = (table[0, k] - 8 * table[1, k] + 8 * table[3, k] - table[4, k]) / (12 * h)
    size = 1.0 + np.abs(table).max() * math.sqrt(k)
    assert slope == pytest.approx(math.sqrt(k) * table[2, k - 1], abs=1e-7 * size)


@given(x=st.floats(-20, 20), k=st.integers(0, DEGREE))
@settings(derandomize=True, max_examples=60)
def test_even_degrees_are_even_and_odd_degrees_odd(x, k):
    table = hermite_table(np.array([[x, -x]]), k)
    assert table[0, k, 0] == (-1) ** k * table[0, k, 1]


@given(
    shape=st.tuples(st.integers(0, 5), st.integers(1, 4)),
    degree=st.integers(0, 12),
    seed=st.integers(0, 2**32 - 1),
)
@settings(
    derandomize=True,
    max_examples=10,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_places_agree_and_leave_points_unchanged(on, shape, degree, seed):
    X = on.rounded(3.0 * np.random.default_rng(seed).standard_normal(shape))
    placed = on.put(X)
    table = hermite_table(placed, degree)
    on.assert_close(table, hermite_table(X, degree), ulps=10, dtype="float64")
    assert tuple(table.shape) == (shape[0], degree + 1, shape[1])
    on.assert_close(placed, X, ulps=0)


@pytest.mark.parametrize("degree", [-1, -40])
def test_a_negative_degree_is_named(on, degree):
    with pytest.raises(ValueError, match=f"expected a degree of at least 0, got {degree}"):
        hermite_table(on.put(np.zeros((1, 1))), degree)


@pytest.mark.parametrize(("n", "m"), [(5, 7), (3000, 70), (0, 3), (4, 0)])
def test_products_of_rows_are_those_one_by_one(on_double, rng, n, m):
    table, scales = on_double.rounded(rng.standard_normal((9, n))), rng.uniform(0.5, 2.0, m)
    sizes = [m, m // 2, m // 5]
    rows = np.where(np.arange(m) < np.array(sizes)[:, None], rng.integers(0, 9, (3, m)), -1)
    placed = on_double.put(table), on_double.put(rows, "int64")
    found = on_double.host(row_products(*placed, sizes, on_double.put(scales)))
    expected = [
        scale * math.prod(table[row] for row in mine if row >= 0)
        for mine, scale in zip(rows.T, scales, strict=True)
    ]
    np.testing.assert_allclose(found, np.reshape(expected, (m, n)), rtol=1e-14)
