"""Shapley values: the laws that define them, all orders in turn, and another library's."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpukfl.methods import (
    ShapleyEstimate,
    ShapleyGames,
    draw_orders,
    order_contributions,
    subset_contributions,
    subset_weights,
)

RNG = np.random.default_rng(0)
PLAYERS = np.array([0, 1, 2, 1, 3])


def curved(X):
    """Two functions of rows of five columns, with interactions."""
    X = np.asarray(X, dtype=np.float64)
    first = np.sin(X[:, 0] * X[:, 1]) + X[:, 2] * X[:, 3] * np.exp(X[:, 0])
    return np.stack([first, X[:, 4] ** 2 + X[:, 0]], axis=1)


def make_games(f, X, B, players=PLAYERS):
    return ShapleyGames(f, X, B, f(X), f(B), players)


def draw(n=3, g=4, d=5):
    """Rows and background rows, some of whose columns are equal."""
    X, B = RNG.standard_normal((n, d)), RNG.standard_normal((g, d))
    B[0], B[1, :2], X[2, 0], B[2, 0] = X[0], X[1, :2], 1.0, 1.0
    return X, B


def by_all_orders(f, x, b, players=PLAYERS):
    p = players.max() + 1
    found = np.zeros((p, f(x[None]).shape[1]))
    for order in itertools.permutations(range(p)):
        row, before = b.copy(), f(b[None])[0]
        for j in order:
            row[players == j] = x[players == j]
            after = f(row[None])[0]
            found[j] += after - before
            before = after
    return found / math.factorial(p)


def test_all_subsets_are_the_mean_of_all_orders():
    X, B = draw()
    found = subset_contributions(make_games(curved, X, B))
    expected = [[by_all_orders(curved, x, b) for b in B] for x in X]
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_every_order_in_turn_is_the_mean_of_all_subsets():
    X, B = draw()
    games = make_games(curved, X, B)
    every = np.array(list(itertools.permutations(range(4))))
    found = order_contributions(games, np.broadcast_to(every, (len(B), *every.shape)))
    np.testing.assert_allclose(found.mean(axis=2), subset_contributions(games), atol=1e-13)


@given(p=st.integers(1, 6), seed=st.integers(0, 99))
def test_weights_are_those_of_a_mean_over_orders(p, seed):
    values = np.random.default_rng(seed).standard_normal(2**p)
    found = np.zeros(p)
    for order in itertools.permutations(range(p)):
        number = 0
        for j in order:
            found[j] += values[number | 2**j] - values[number]
            number |= 2**j
    np.testing.assert_allclose(subset_weights(p) @ values, found / math.factorial(p), atol=1e-12)


@pytest.mark.parametrize("how", ["subsets", "orders"])
def test_laws(how):
    """Efficiency, a player that does nothing, two that do the same, and sums of functions."""
    X, B = draw()
    rng = np.random.RandomState(0)
    orders = np.concatenate([draw_orders(4, 3, rng).reshape(1, 6, 4) for _ in B])

    def ask(f):
        games = make_games(f, X, B)
        if how == "subsets":
            return subset_contributions(games)
        return order_contributions(games, orders).mean(axis=2)

    found = ask(curved)
    gaps = curved(X)[:, None] - curved(B)[None]
    np.testing.assert_allclose(found.sum(axis=2), gaps, atol=1e-13)
    nothing = found[..., 3, 0]  # the first function does not read the last column
    np.testing.assert_allclose(nothing, 0.0, atol=1e-15)

    def other(rows):
        return np.stack([rows.sum(axis=1), np.abs(rows[:, 0])], axis=1)

    both = ask(lambda rows: 2.0 * curved(rows) - other(rows))
    np.testing.assert_allclose(both, 2.0 * found - ask(other), atol=1e-12)
    if how == "subsets":
        alike = make_games(
            lambda rows: (rows[:, :1] * rows[:, 2:3]) ** 2,
            *(np.where(np.arange(5) == 2, one[:, :1], one) for one in (X, B)),
        )
        same = subset_contributions(alike)
        np.testing.assert_allclose(same[:, :, 0], same[:, :, 2], atol=1e-13)


def test_sums_over_columns_are_exact_by_any_order():
    X, B = draw()

    def additive(rows):
        return (np.sin(rows) * [1.0, 2.0, 0.0, 3.0, -1.0]).sum(axis=1, keepdims=True)

    games = make_games(additive, X, B)
    found = order_contributions(games, draw_orders(4, len(B), np.random.RandomState(0)))
    spread = np.ptp(found, axis=2)
    np.testing.assert_allclose(spread, 0.0, atol=1e-13)
    np.testing.assert_allclose(found[:, :, 0], subset_contributions(games), atol=1e-13)


def test_sums_of_functions_of_two_columns_are_exact_by_an_order_and_its_reverse():
    X, B = draw()

    def pairwise(rows):
        found = np.sin(rows[:, 0] * rows[:, 4]) + rows[:, 2] * rows[:, 4] ** 2 + rows[:, 0]
        return found[:, None]

    games = make_games(pairwise, X, B)
    found = order_contributions(games, draw_orders(4, len(B), np.random.RandomState(0)))
    np.testing.assert_allclose(found.mean(axis=2), subset_contributions(games), atol=1e-13)


def test_equal_columns_are_not_evaluated():
    X, B = RNG.standard_normal((1, 5)), np.empty((1, 5))
    X[0, 4], B[0] = 2.0, X[0]
    B[0, 4], B[0, 0] = 0.0, np.nan
    asked = []

    def count(rows):
        asked.append(len(rows))
        return np.nansum(rows, axis=1, keepdims=True)

    games = make_games(count, X, B)
    asked.clear()
    found = order_contributions(games, draw_orders(4, 1, np.random.RandomState(0)))
    assert sum(asked) == 2  # two players differ: one row in each of two orders
    np.testing.assert_allclose(found[0, 0, 0, :, 0], [X[0, 0], 0.0, 0.0, 2.0], atol=1e-13)
    asked.clear()
    assert subset_contributions(games).shape == (1, 1, 4, 1)
    assert sum(asked) == 2


def test_rows_are_mixed_where_they_live(on):
    X, B = (on.rounded(one) for one in draw())
    kinds = []

    def f(rows):
        kinds.append(rows)
        return curved(on.host(rows))

    games = ShapleyGames(f, on.put(X), on.put(B), curved(X), curved(B), PLAYERS)
    found = subset_contributions(games)
    on.assert_lives_here(kinds[0])
    np.testing.assert_allclose(found, subset_contributions(make_games(curved, X, B)), atol=1e-12)


def test_orders_come_in_pairs():
    orders = draw_orders(5, 3, np.random.RandomState(0))
    assert orders.shape == (3, 2, 5)
    np.testing.assert_array_equal(np.sort(orders, axis=2), np.broadcast_to(np.arange(5), (3, 2, 5)))
    np.testing.assert_array_equal(orders[:, 0], orders[:, 1, ::-1])


def test_too_many_players_for_all_subsets():
    X = np.zeros((1, 13))
    with pytest.raises(ValueError, match="at most 12 players for all subsets, got 13"):
        subset_contributions(make_games(lambda rows: rows[:, :1], X, X, np.arange(13)))


# -------------------------------------------------------------------------------- estimates


def estimate(found, at, baseline=None, n_background=None, **how):
    made = ShapleyEstimate(
        at.mean(axis=0) if baseline is None else baseline, n_background or len(at)
    )
    made.add(found, at, **how)
    return made


def test_of_all_background_rows_the_mean_is_kept():
    X, B = draw()
    found = subset_contributions(make_games(curved, X, B))
    made = estimate(found[:, :, None], curved(B), exact=True)
    np.testing.assert_allclose(made.contributions(curved(X)), found.mean(axis=1), atol=1e-12)
    assert np.all(made.standard_errors() == 0.0)


@pytest.mark.parametrize("taken", [1, 2, 3])
def test_they_sum_to_the_prediction_whatever_was_taken(taken):
    X, B = draw()
    found = subset_contributions(make_games(curved, X, B))[:, :taken, None]
    whole = curved(B).mean(axis=0)
    made = estimate(found, curved(B)[:taken], whole, len(B))
    gaps = curved(X) - whole
    np.testing.assert_allclose(made.contributions(curved(X)).sum(axis=1), gaps, atol=1e-12)
    assert np.isnan(made.standard_errors()).all() == (taken < 3)


def test_what_is_linear_in_the_background_values_needs_two_rows():
    """Contributions that f there tells are exact, whichever rows were taken."""
    players = np.arange(2)
    X, B = np.array([[5.0, -1.0]]), np.array([0.0, 3.0]) + RNG.standard_normal((9, 1))

    def f(rows):
        return rows.sum(axis=1, keepdims=True)

    found = subset_contributions(make_games(f, X, B, players))
    made = estimate(found[:, :2, None], f(B)[:2], f(B).mean(axis=0), len(B))
    exact = (X - B.mean(axis=0))[:, :, None]
    np.testing.assert_allclose(made.contributions(f(X)), exact, atol=1e-12)


def test_errors_are_those_of_orders():
    """Of many draws the deviation is what is stated."""
    X, B = RNG.standard_normal((2, 5)), RNG.standard_normal((6, 5))
    games = make_games(curved, X, B)
    rng, found, stated = np.random.RandomState(0), [], []
    for _ in range(200):
        orders = np.stack([draw_orders(4, 2, rng) for _ in B])
        walks = order_contributions(games, orders.reshape(6, 4, 4))
        made = estimate(walks.reshape(2, 6, 2, 2, 4, 2).mean(axis=3), curved(B))
        found.append(made.contributions(curved(X)))
        stated.append(made.standard_errors() ** 2)
    exact = subset_contributions(games).mean(axis=1)
    deviation = np.std(found, axis=0)
    np.testing.assert_allclose(np.mean(found, axis=0), exact, atol=4 * deviation.max() / 200**0.5)
    at = deviation > 1e-12
    assert at.any()
    ratio = np.sqrt(np.mean(stated, axis=0))[at] / deviation[at]
    assert ratio.min() > 0.8
    assert ratio.max() < 1.25


def test_errors_of_a_part_of_the_background():
    """Background rows that were not taken are a sample's rest; f there removes what it tells."""
    X, B = RNG.standard_normal((1, 5)), RNG.standard_normal((4000, 5))
    found = subset_contributions(make_games(curved, X, B))
    whole, rng, gaps, stated = curved(B).mean(axis=0), np.random.default_rng(1), [], []
    for _ in range(150):
        some = rng.choice(4000, 25, replace=False)
        made = estimate(found[:, some, None], curved(B)[some], whole, 4000)
        gaps.append(made.contributions(curved(X)) - found.mean(axis=1))
        stated.append(made.standard_errors())
    off = np.sqrt(np.mean(np.square(gaps), axis=0))[0, :3, 0]
    said = np.sqrt(np.mean(np.square(stated), axis=0))[0, :3, 0]
    np.testing.assert_allclose(said, off, rtol=0.35)


# ----------------------------------------------------------------------------------- oracle


def test_they_are_those_of_shap():
    shap = pytest.importorskip("shap")
    X, B = draw()
    masker = shap.maskers.Independent(B, max_samples=len(B))
    told = shap.explainers.Exact(lambda rows: curved(rows)[:, 0], masker)(X)
    own = subset_contributions(make_games(curved, X, B, np.arange(5)))[..., 0].mean(axis=1)
    np.testing.assert_allclose(own, told.values, atol=1e-10)
    np.testing.assert_allclose(curved(B)[:, 0].mean(), told.base_values, atol=1e-10)
