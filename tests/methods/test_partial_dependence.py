"""Partial dependence of expansions of product kernels against averages of their values."""

import numpy as np
import pytest

from gpukfl.kernels import (
    Gaussian,
    GaussianMixture,
    Laplace,
    ManhattanLaplace,
    ManhattanMixture,
    Matern52,
    PowerExponential,
)
from gpukfl.methods import ProductExpansion, product_terms

KERNELS = [
    Gaussian(0.7),
    ManhattanLaplace(1.3),
    GaussianMixture(0.8, (0.2, 0.5), (0.1, 3.0)),
    ManhattanMixture(0.8, (0.2, 0.5), (0.1, 3.0)),
    PowerExponential(1.5, 1.5, 1.5),
    0.5 * (Gaussian() + 2.0 * ManhattanLaplace()),
]


def expansion(kernel, rng, d=4, t=2):
    Z, alpha, c = rng.standard_normal((9, d)), rng.standard_normal((9, t)), rng.standard_normal(t)
    X, B = rng.standard_normal((6, d)), rng.standard_normal((5, d))
    return X, B, Z, alpha, c


@pytest.mark.pairs
@pytest.mark.parametrize("columns", [[], [1], [0, 3], [2, 0, 1], [0, 1, 2, 3]])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_it_is_the_average_over_the_background(kernel, columns, on):
    X, B, Z, alpha, c = map(on.rounded, expansion(kernel, np.random.default_rng(0)))
    expected = np.zeros((6, 2))
    for i in range(6):
        rows = B.copy()
        rows[:, columns] = X[i, columns]
        expected[i] = np.mean(c + kernel(rows, Z) @ alpha, axis=0)
    terms = product_terms(kernel)
    found = ProductExpansion(on.put(Z), on.put(alpha), on.put(c), terms)
    on.assert_close(found.partial_dependence(on.put(X), on.put(B), columns), expected, ulps=200)


@pytest.mark.parametrize(
    "kernel", [Laplace(), Matern52(), PowerExponential(), Gaussian() + Laplace(), 2.0 * Laplace()]
)
def test_other_kernels_are_no_products(kernel):
    assert product_terms(kernel) is None


def test_columns_must_agree():
    X, B, Z, alpha, c = expansion(KERNELS[0], np.random.default_rng(0))
    found = ProductExpansion(Z, alpha, c, product_terms(KERNELS[0]))
    with pytest.raises(ValueError, match=r"4 columns, got \(6, 3\) and \(5, 4\)"):
        found.partial_dependence(X[:, :3], B, [0])
