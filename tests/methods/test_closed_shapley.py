"""Closed forms of Shapley values beside all subsets of players."""

import numpy as np
import pytest

from gpukfl.methods import (
    ShapleyGames,
    leaf_shares,
    linear_contributions,
    product_contributions,
    subset_contributions,
)


def all_subsets(f, X, B):
    return subset_contributions(ShapleyGames(f, X, B, f(X), f(B), np.arange(X.shape[1])))


@pytest.mark.parametrize("p", [1, 2, 5, 8])
def test_sums_of_products(on_double, rng, p):
    """Also of factors that are 0, negative, or equal in both rows."""
    coef, a, b = rng.normal(size=(6, 2)), rng.normal(size=(p, 3, 6)), rng.normal(size=(p, 4, 6))
    a[0, 0, :2], b[p - 1, 1], b[0, 2] = 0.0, 0.0, a[0, 1]
    found = product_contributions(on_double.put(a), on_double.put(b), on_double.put(coef))
    on_double.assert_lives_here(found, "float64")
    assert tuple(found.shape) == (3, 4, p, 2)

    def f(rows):  # whose columns are numbers of factors, of x before those of b
        factors = np.concatenate([a, b], axis=1)
        return np.prod([factors[j, rows[:, j].astype(int)] for j in range(p)], axis=0) @ coef

    X, B = np.repeat(np.arange(3.0)[:, None], p, 1), np.repeat(np.arange(3.0, 7.0)[:, None], p, 1)
    np.testing.assert_allclose(on_double.host(found), all_subsets(f, X, B), atol=1e-12)


def test_many_players_share_all_that_changes(rng):
    """By 40 nodes, of factors as those of kernels are."""
    p = 80
    a, b = np.exp(-rng.exponential(0.1, (2, p, 1, 5)))
    found = product_contributions(a, b, np.ones((5, 1)))
    whole = a.prod(axis=0).sum() - b.prod(axis=0).sum()
    np.testing.assert_allclose(found.sum(), whole, rtol=1e-12)


def test_linear_functions(on_double, rng):
    X, B, coef = rng.normal(size=(3, 4)), rng.normal(size=(2, 4)), rng.normal(size=(4, 2))
    member = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]])
    found = linear_contributions(*map(on_double.put, (X, B, coef, member)))
    parts = (X[:, None] - B)[..., None] * coef
    expected = np.stack([parts[:, :, ::2].sum(axis=2), parts[:, :, 1::2].sum(axis=2)], axis=2)
    np.testing.assert_allclose(on_double.host(found), expected, atol=1e-14)


@pytest.mark.parametrize(("a", "c"), [(1, 0), (0, 3), (2, 2), (4, 1)])
def test_leaves(a, c):
    """A leaf pays where a players are of x and c of b."""
    gained, lost = leaf_shares(5)

    def f(rows):
        return (rows[:, :a].all(axis=1) & ~rows[:, a:].any(axis=1)).astype(float)[:, None]

    expected = np.r_[np.full(a, gained[a, c]), np.full(c, -lost[a, c])]
    found = all_subsets(f, np.ones((1, a + c)), np.zeros((1, a + c)))
    np.testing.assert_allclose(found[0, 0, :, 0], expected, atol=1e-15)
