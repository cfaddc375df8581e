"""Greedy weights against brute force, and laws."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpukfl.portfolio import blend_weights, greedy_weights


def squared(y):
    return lambda mean: float(np.sum((y - mean) ** 2))


def chosen_in(weights, steps):
    """How often each member was chosen."""
    for k in range(1, steps + 1):
        counts = weights * k
        if np.allclose(counts, np.round(counts), atol=1e-9):
            return np.round(counts).astype(int)
    return None


@given(seed=st.integers(0, 10**6), m=st.integers(1, 4), steps=st.integers(1, 6))
def test_every_step_is_the_best_of_all(seed, m, steps):
    """By a plain loop over sequences of members, as the paper describes it."""
    rng = np.random.default_rng(seed)
    P, y = rng.standard_normal((m, 7, 1)), rng.standard_normal((7, 1))
    loss, chosen, paths = squared(y), [], []
    for _ in range(steps):
        tried = [loss(np.mean(P[[*chosen, k]], axis=0)) for k in range(m)]
        chosen.append(int(np.argmin(tried)))
        paths.append((min(tried), list(chosen)))
    best = min(paths, key=lambda path: path[0])[1]
    expected = np.bincount(best, minlength=m) / len(best)
    np.testing.assert_allclose(greedy_weights(list(P), loss, steps=steps), expected, atol=1e-12)


def test_two_members_reach_the_best_mixture_of_so_many():
    rng = np.random.default_rng(0)
    P, y = rng.standard_normal((2, 30, 1)), rng.standard_normal((30, 1))
    steps = 20
    found = squared(y)(np.tensordot(greedy_weights(list(P), squared(y), steps=steps), P, 1))
    every = [
        squared(y)((a * P[0] + b * P[1]) / (a + b))
        for a, b in itertools.product(range(steps + 1), repeat=2)
        if 0 < a + b <= steps
    ]
    assert found <= 1.01 * min(every)


def test_the_truth_gets_all_weight():
    y = np.arange(5.0)[:, None]
    weights = greedy_weights([y + 1.0, y, y - 0.5], squared(y))
    np.testing.assert_array_equal(weights, [0.0, 1.0, 0.0])


def test_of_equals_one_is_taken():
    y = np.arange(5.0)[:, None]
    P = [y + 1.0, y + 1.0, y + 2.0]
    np.testing.assert_array_equal(greedy_weights(P, squared(y)), [1.0, 0.0, 0.0])


def test_a_loss_that_is_not_finite_is_not_taken():
    y = np.zeros((3, 1))
    np.testing.assert_array_equal(greedy_weights([y + np.nan, y + 1.0], squared(y)), [0.0, 1.0])
    with pytest.raises(ValueError, match="finite loss, got none"):
        greedy_weights([y + np.inf], squared(y))


@given(seed=st.integers(0, 10**6), m=st.integers(1, 4), steps=st.integers(1, 6))
def test_evenness_is_paid_at_every_step(seed, m, steps):
    rng = np.random.default_rng(seed)
    P, y = rng.standard_normal((m, 7, 1)), rng.standard_normal((7, 1))
    least = min(map(squared(y), P))

    def cost(members):
        w = np.bincount(members, minlength=m) / len(members)
        return squared(y)(np.mean(P[members], axis=0)) + 0.7 * least * np.sum((w - 1 / m) ** 2)

    chosen, paths = [], []
    for _ in range(steps):
        tried = [cost([*chosen, k]) for k in range(m)]
        chosen.append(int(np.argmin(tried)))
        paths.append((min(tried), list(chosen)))
    best = min(paths, key=lambda path: path[0])[1]
    found = greedy_weights(list(P), squared(y), steps=steps, evenness=0.7)
    np.testing.assert_allclose(found, np.bincount(best, minlength=m) / len(best), atol=1e-12)


def test_equally_good_members_share():
    """Where greedy weights of few rows believe their noise."""
    rng = np.random.default_rng(0)
    y = rng.standard_normal((60, 1))
    P = [y + rng.standard_normal((60, 1)) for _ in range(8)]
    found, greedy, even = blend_weights(P, squared(y), len(y)), greedy_weights(P, squared(y)), 1 / 8
    assert np.linalg.norm(found - even) < np.linalg.norm(greedy - even)
    assert found[found > 0].min() >= 0.02
    assert found.sum() == pytest.approx(1.0)


def test_weights_of_many_rows_follow_the_loss():
    """Of members that differ by a little, which a few hundred rows would not tell apart."""
    rng = np.random.default_rng(1)
    y = rng.standard_normal((50_000, 1))
    error = rng.standard_normal((50_000, 1))
    P = [y + scale * error for scale in (0.50, 0.52, 0.54)]  # nothing cancels between them
    np.testing.assert_array_equal(blend_weights(P, squared(y), len(y)), [1.0, 0.0, 0.0])
    few = [one[:400] for one in P]
    assert blend_weights(few, squared(y[:400]), 400)[0] < 1.0


def test_a_member_that_is_far_better_keeps_all_weight():
    rng = np.random.default_rng(0)
    y = rng.standard_normal((60, 1))
    P = [y + 0.1 * rng.standard_normal((60, 1)), *(rng.standard_normal((60, 1)) for _ in range(5))]
    np.testing.assert_array_equal(blend_weights(P, squared(y), len(y)), [1.0, 0, 0, 0, 0, 0])
