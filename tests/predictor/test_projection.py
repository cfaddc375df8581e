"""Projections onto monotone functions: order to the last bit, and what they leave as it is."""

import itertools

import numpy as np
import pytest

from gpukfl.predictor import Monotone


def rough(X):
    """Return values that rise and fall in all columns, with products whose rounding differs."""
    return np.sin(7 * X @ np.linspace(1, 2, X.shape[1]))[:, None] + np.cos(5 * X) @ np.ones((3, 1))


def make_pairs(signs, n, seed=0, dtype=np.float64):
    """Return rows, and rows that should be no lower: random, near, equal and outside."""
    rng = np.random.default_rng(seed)
    low = rng.uniform(-1.5, 1.5, (n, 3)).astype(dtype)
    high = low.copy()
    steps = rng.choice([0.0, 1e-16, 1e-9, 1e-3, 0.1, 3.0], (n, len(signs)))
    for k, (column, sign) in enumerate(signs.items()):
        high[:, column] += (sign * steps[:, k] * rng.uniform(size=n)).astype(dtype)
    return low, high


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("signs", [{0: 1}, {1: -1}, {0: 1, 2: -1}, {0: -1, 1: 1, 2: 1}])
def test_no_pair_is_out_of_order(signs, dtype):
    X = np.random.default_rng(1).uniform(-1, 1, (200, 3))
    project = Monotone.learn(X, signs)
    low, high = make_pairs(signs, 2_000, dtype=dtype)
    apart = project(rough, low), project(rough, high)
    together = np.split(project(rough, np.concatenate([low, high])), 2)
    for one, other in (apart, together):
        assert not np.any(other < one)
        assert np.any(other > one)


def test_monotone_functions_stay_at_knots_and_by_any_knots_where_they_are_linear():
    X = np.random.default_rng(0).uniform(-1, 1, (100, 2))

    def rising(rows):
        return rows[:, :1] ** 3 + rows[:, 1:] ** 2

    def linear(rows):
        return rows[:, :1] * rows[:, 1:]

    few = Monotone.learn(X[:20], {0: 1})
    np.testing.assert_allclose(few(rising, X[:20]), rising(X[:20]), atol=1e-8)
    within = np.clip(np.abs(X), *np.sort(np.abs(X[:, 0]))[[0, -1]])
    found = Monotone.learn(np.abs(X), {0: 1})(linear, within)
    np.testing.assert_allclose(found, linear(within), atol=1e-6)


def test_equals_the_mean_of_the_envelopes_at_knots():
    rng = np.random.default_rng(0)
    knots = np.stack(np.meshgrid(*2 * [np.arange(5.0)], indexing="ij"), axis=-1).reshape(-1, 2)
    values = rng.standard_normal(25)

    def ask(rows):
        return values[(5 * rows[:, 0] + rows[:, 1]).astype(int)][:, None]

    found = Monotone.learn(knots, {0: 1, 1: -1})(ask, knots)[:, 0]
    for k, (u, v) in enumerate(itertools.product(range(5), repeat=2)):
        below = (knots[:, 0] <= u) & (knots[:, 1] >= v)
        above = (knots[:, 0] >= u) & (knots[:, 1] <= v)
        mean = 0.5 * (values[below].max() + values[above].min())
        np.testing.assert_allclose(found[k], mean, atol=1e-8)


def test_projections_keep_order_and_distance():
    X = np.random.default_rng(0).uniform(-1, 1, (100, 3))
    project = Monotone.learn(X, {0: 1, 1: 1})

    def both(rows):
        one = rough(rows)
        return np.stack([one, one + 0.1 * (1 + np.sin(9 * rows[:, 2:]))], axis=2)

    found = project(both, X)
    assert np.all(found[:, :, 0] <= found[:, :, 1])
    assert np.max(found[:, :, 1] - found[:, :, 0]) <= 0.2 + 1e-7


def test_missing_values_are_outside_the_order():
    X = np.random.default_rng(0).uniform(-1, 1, (50, 3))
    X[:10, 0] = np.nan

    def ask(rows):
        return np.where(np.isnan(rows[:, :1]), 5.0 - rows[:, 1:2] ** 2, rows[:, :1])

    found = Monotone.learn(X, {0: 1})(ask, X)
    np.testing.assert_array_equal(found[:10], ask(X[:10]))
    other = Monotone.learn(X, {0: 1, 1: 1})
    low, high = X[:10], X[:10] + np.array([0.0, 0.3, 0.0])
    assert not np.any(other(ask, high) < other(ask, low))


def test_targets_keep_their_scales():
    X = np.random.default_rng(0).uniform(-1, 1, (30, 3))

    def ask(rows):
        return rows[:, :1] * np.array([1e9, 1e-9])

    found = Monotone.learn(X, {0: 1})(ask, X)
    np.testing.assert_allclose(found, ask(X), rtol=1e-6, atol=1e-14)


def test_no_rows_have_no_values():
    project = Monotone.learn(np.zeros((3, 3)), {0: 1})
    assert project(rough, np.zeros((0, 3))).shape == (0, 1)


def test_bad_values_are_refused():
    project = Monotone.learn(np.eye(3), {0: 1})
    for columns in ((), project.columns * 2):
        with pytest.raises(ValueError, match="different monotone columns"):
            Monotone(columns).check()
