"""The multi-dimensional Brownian kernel is half the negative distance."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import gpukfl
from gpukfl.operators import EuclideanBrownianKernel
from gpukfl.operators._euclidean import distances


def test_dense_is_half_the_negative_distance(on, rng):
    X = on.rounded(rng.standard_normal((40, 3)))
    kernel = EuclideanBrownianKernel(on.put(X))
    on.assert_close(kernel.dense(on.reference), -0.5 * cdist(X, X), ulps=4)


def test_near_samples_do_not_cancel(on):
    X = on.rounded([[1000.0], [1000.0 + 512 * on.eps], [1000.0]])
    on.assert_close(distances(on.put(X), on.put(X)), cdist(X, X), ulps=4)


@pytest.mark.parametrize("budget", [None, 1, 5000])
def test_kernel_between_other_points_and_the_samples(on, rng, budget):
    X, Z = on.rounded(rng.standard_normal((40, 3))), on.rounded(rng.standard_normal((25, 3)))
    V = on.rounded(rng.standard_normal((40, 2)))
    kernel = EuclideanBrownianKernel(on.put(X))
    with gpukfl.memory_budget(budget):
        between = kernel.between(on.put(Z), on.put(V))
    scale = np.sum(np.abs(V)) * np.max(np.abs(X)) * 4
    on.assert_close(between, -0.5 * cdist(Z, X) @ V, ulps=10, scale=scale)
