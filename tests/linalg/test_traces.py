"""Traces of a kernel's values are 0 where a processor would be slow with them."""

import numpy as np
import pytest

from gpukfl.core._array import is_on_gpu
from gpukfl.kernels import Gaussian, Laplace, ManhattanLaplace, Matern32, Matern52, PowerExponential
from gpukfl.linalg import drop_negligible

DECAYING = [
    Gaussian(0.1),
    Laplace(0.01),
    Matern32(0.03),
    Matern52(0.03),
    ManhattanLaplace(0.05),
    PowerExponential(0.02, order=1.5),
]


def test_values_below_the_squared_epsilon_are_0(on):
    least = on.eps**2
    given = np.array([1.0, 0.3, 2.0 * least, 0.5 * least, 1e-37, 0.0, np.nan])
    found = drop_negligible(1.0 * on.put(given))  # it is given what has just been computed
    on.assert_lives_here(found)
    kept = given if is_on_gpu(found) else np.where(given < least, 0.0, given)
    np.testing.assert_array_equal(on.host(found), on.rounded(kept))


@pytest.mark.parametrize("kernel", DECAYING, ids=str)
def test_a_gram_matrix_of_points_far_apart_has_no_subnormal_numbers(kernel):
    X = np.random.default_rng(0).standard_normal((200, 5))
    K = kernel(X, X)
    traced = kernel.profile(kernel._scaled_squares(X, X)) if hasattr(kernel, "smooth") else None
    G = K.T @ K
    assert not np.any((G > 0.0) & (np.finfo(np.float64).tiny > G))
    assert np.count_nonzero(K) < K.size / 2
    if traced is not None:  # what is left out would have had some
        assert np.any((traced > 0.0) & (traced**2 < np.finfo(np.float64).tiny))
        np.testing.assert_allclose(K, traced, atol=1e-31)
