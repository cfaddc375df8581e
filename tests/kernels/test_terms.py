"""Terms of sums of kernels are what they add up to, and blocks see their columns alone."""

import numpy as np
import oracles
import pytest

from gpukfl.kernels import (
    ColumnBlock,
    Gaussian,
    KernelTerms,
    Linear,
    ManhattanLaplace,
    Matern32,
    Matern52,
    Product,
    sum_terms,
)

SUM = 2.0 * (Matern52() + 0.5 * (Matern32(0.4) + Linear(2.0))) + Gaussian() * Linear()


@pytest.fixture
def points(on, rng):
    return on.rounded(rng.standard_normal((6, 5))), on.rounded(rng.standard_normal((4, 5)))


def test_a_block_is_the_kernel_of_its_columns(on, points):
    X, Z = points
    block, inner = ColumnBlock(ManhattanLaplace(2.0), 1, 4), ManhattanLaplace(2.0)
    K = block(on.put(X), on.put(Z))
    on.assert_close(K, on.host(inner(on.put(X[:, 1:4]), on.put(Z[:, 1:4]))), ulps=0)
    P = on.put(np.ones((6, 4)))
    dX, dZ = block.pullback(on.put(X), on.put(Z), P)
    for slopes, of_inner in zip(
        (dX, dZ), inner.pullback(on.put(X[:, 1:4]), on.put(Z[:, 1:4]), P), strict=True
    ):
        on.assert_lives_here(slopes)
        padded = np.pad(on.host(of_inner), ((0, 0), (1, 1)))
        on.assert_close(slopes, padded, ulps=0)
    assert block.stretched(3.0) == ColumnBlock(ManhattanLaplace(6.0), 1, 4)
    assert not ColumnBlock(Linear(), 0, 2).bounded


def test_columns_that_are_not_there_are_named():
    X = np.ones((2, 3))
    for call in (
        lambda k: k(X, X),
        lambda k: k.pullback(X, X, np.ones((2, 2))),
        lambda k: k.diagonal(X),
    ):
        with pytest.raises(ValueError, match="expected points of at least 4 columns, got 3"):
            call(ColumnBlock(Gaussian(), 1, 4))
    with pytest.raises(ValueError, match="start"):
        ColumnBlock(Gaussian(), -1, 2)
    with pytest.raises(ValueError, match="stop"):
        ColumnBlock(Gaussian(), 2, 2)
    with pytest.raises(TypeError, match="stop"):
        ColumnBlock(Gaussian(), 0, 1.5)


def test_terms_add_up_to_the_kernel(on, points):
    X, Z = map(on.put, points)
    terms = sum_terms(SUM)
    assert len(terms) == 4
    assert isinstance(terms[-1], Product)
    on.assert_close(sum(one(X, Z) for one in terms), on.host(SUM(X, Z)), ulps=50)
    assert sum_terms(Gaussian(2.0)) == [Gaussian(2.0)]


def test_shares_are_the_factors_over_their_sum(on, points):
    X, Z = map(on.put, points)
    terms = KernelTerms.from_kernel(SUM)
    assert len(terms) == 4
    assert sum(terms.shares) == pytest.approx(1.0)
    np.testing.assert_allclose(terms.shares, np.array([2.0, 1.0, 1.0, 1.0]) / 5.0)
    on.assert_close(terms.join()(X, Z), on.host(SUM(X, Z)) / 5.0, ulps=50)


def test_terms_side_by_side_are_the_sum_of_kernels_of_their_own_points(on_double, rng):
    on = on_double
    terms = KernelTerms((Matern52(), Matern32(0.4)), (0.7, 0.3), (1.0, 0.5))
    X, Z = rng.standard_normal((6, 3)), rng.standard_normal((4, 3))
    here, there = (np.hstack([V, V / 0.5]) for V in (X, Z))
    found = terms.side_by_side(3)(on.put(here), on.put(there))
    expected = 0.7 * oracles.matern52(X, Z, 1.0) + 0.3 * oracles.matern32(X, Z, 0.2)
    on.assert_close(found, expected, ulps=1e3)
    on.assert_close(terms.join()(on.put(X), on.put(Z)), expected, ulps=1e3)
