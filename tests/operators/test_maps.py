"""Diagonal maps are what their matrices are."""

import numpy as np
import pytest

from gpukfl.kernels import Matern52
from gpukfl.operators import (
    KernelOperator,
    apply_map,
    diagonal_map,
    leading_rows,
    map_gradient,
    map_row_gradient,
)
from gpukfl.partitioned._rows import Rows


@pytest.fixture
def factors(on, rng):
    return on.rounded(rng.uniform(0.5, 2.0, 4))


def test_rows_and_slopes_of_a_diagonal_map(on, rng, factors):
    X, dU = (on.rounded(rng.standard_normal((6, 4))) for _ in range(2))
    short, whole = on.put(factors), diagonal_map(on.put(factors))
    on.assert_close(whole, np.diag(factors), ulps=0)
    for B, gradient in ((short, np.sum(dU * X, axis=0)), (whole, dU.T @ X)):
        on.assert_close(apply_map(on.put(X), B), X * factors, ulps=8)
        on.assert_close(map_row_gradient(on.put(dU), B), dU * factors, ulps=8)
        on.assert_close(map_gradient(on.put(dU), on.put(X), B), gradient, ulps=100)
    assert diagonal_map(whole) is whole


def test_several_diagonal_maps_are_their_matrices_one_below_the_other(on, rng):
    both = on.rounded(rng.uniform(0.5, 2.0, (2, 1, 4)))
    matrix = np.concatenate([np.diag(factors) for factors in both[:, 0, :]])
    X, dU = on.rounded(rng.standard_normal((6, 4))), on.rounded(rng.standard_normal((6, 8)))
    B, whole = on.put(both), on.put(matrix)
    on.assert_close(diagonal_map(B), matrix, ulps=0)
    on.assert_close(apply_map(on.put(X), B), X @ matrix.T, ulps=8)
    on.assert_close(map_row_gradient(on.put(dU), B), dU @ matrix, ulps=100)
    slopes = map_gradient(on.put(dU), on.put(X), B)
    expected = map_gradient(dU, X, matrix)
    expected = np.stack([np.diag(expected[:4]), np.diag(expected[4:])])[:, None, :]
    on.assert_close(slopes, expected, ulps=200)
    rows, Z = Rows(on.put(X), on.reference), on.put(X[:3])
    short = KernelOperator(Matern52(), rows, Z, B)
    on.assert_close(
        short.dense(), on.host(KernelOperator(Matern52(), rows, Z, whole).dense()), ulps=100
    )


def test_several_diagonal_maps_of_columns_of_their_own_are_one_of_all(on, rng):
    both = on.rounded(rng.uniform(0.5, 2.0, (2, 1, 4)))
    X, dU = (on.rounded(rng.standard_normal((6, 8))) for _ in range(2))
    on.assert_close(apply_map(on.put(X), on.put(both)), X * both.ravel(), ulps=8)
    slopes = map_gradient(on.put(dU), on.put(X), on.put(both))
    on.assert_close(slopes, np.sum(dU * X, axis=0).reshape(2, 1, 4), ulps=100)


def test_kernels_see_a_diagonal_map_as_its_matrix(on, rng, factors):
    X = on.rounded(rng.standard_normal((9, 4)))
    rows, Z = Rows(on.put(X), on.reference), on.put(X[:3])
    short = KernelOperator(Matern52(), rows, Z, on.put(factors))
    whole = KernelOperator(Matern52(), rows, Z, on.put(np.diag(factors)))
    on.assert_close(short.dense(), on.host(whole.dense()), ulps=100)
    on.assert_close(short.core, on.host(whole.core), ulps=1e5, dtype="float64")


def test_the_longest_rows_come_first(on):
    B = on.put(np.array([0.5, -2.0, 0.0, 1.0]))
    expected = np.zeros((3, 4))
    expected[0, 1], expected[1, 3], expected[2, 0] = -2.0, 1.0, 0.5
    on.assert_close(leading_rows(B, 3), expected, ulps=0)
    assert leading_rows(B, 9).shape == (4, 4)
