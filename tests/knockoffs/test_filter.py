"""The filter: signs, e-values and what is found, beside hidimstat and plain formulas."""

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpukfl.knockoffs import (
    contest,
    e_values,
    min_discoveries,
    select_by_e_values,
    selection_level,
    smallest_level,
)

STATISTICS = arrays.arrays(
    float, st.integers(1, 40), elements=st.integers(-6, 6).map(lambda k: k / 2.0)
)
WEIGHTS = arrays.arrays(float, (4, 7), elements=st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0]))


def knockoff_filter(W, level):
    """Knockoffs+ as Candès and others write it."""
    for t in np.unique(np.abs(W[W != 0])):
        if (1 + np.sum(-t >= W)) / max(np.sum(t <= W), 1) <= level:
            return t <= W
    return np.zeros(len(W), dtype=bool)


def e_bh(values, level):
    p, best = len(values), np.zeros(len(values), dtype=bool)
    for value in np.unique(values[values > 0]):
        mine = values >= value
        if value >= p / (level * mine.sum()) * (1 - 1e-9):
            best = best | mine
    return best


@given(W=STATISTICS, level=st.sampled_from([0.1, 0.25, 0.5, 0.9]))
def test_one_draw_of_one_copy_is_the_knockoff_filter(W, level):
    found = select_by_e_values(e_values(W, level=level), level)
    np.testing.assert_array_equal(found, knockoff_filter(W, level))


@pytest.mark.parametrize("level", [0.1, 0.2, 0.4])
def test_one_draw_finds_what_hidimstat_finds(level):
    ModelXKnockoff = pytest.importorskip("hidimstat.knockoffs").ModelXKnockoff
    rng = np.random.default_rng(0)
    for _ in range(20):
        W = rng.standard_normal(60) + 2.5 * (np.arange(60) < 25)
        threshold = ModelXKnockoff.knockoff_threshold(W, fdr=level)
        np.testing.assert_array_equal(
            select_by_e_values(e_values(W, level=level), level), threshold <= W
        )


@pytest.mark.parametrize("level", [0.1, 0.3])
def test_e_values_and_their_procedure_are_those_of_hidimstat(level):
    knockoffs = pytest.importorskip("hidimstat.knockoffs").ModelXKnockoff
    fdr_threshold = pytest.importorskip(
        "hidimstat.statistical_tools.multiple_testing"
    ).fdr_threshold
    rng, ours, theirs = np.random.default_rng(1), [], []
    for _ in range(10):
        W = rng.standard_normal(50) + 3.5 * (np.arange(50) < 30)
        at = knockoffs.knockoff_threshold(W, fdr=level / 2)
        if 0 < at < np.inf:
            ours.append(e_values(W, level=level / 2))
            theirs.append(knockoffs._empirical_knockoff_eval(W, at))
    assert len(ours) > 1
    np.testing.assert_allclose(ours, theirs)
    values = np.mean(ours, axis=0)
    threshold = fdr_threshold(values, fdr=level, method="ebh")
    assert select_by_e_values(values, level).any()  # of nothing, hidimstat takes the largest
    np.testing.assert_array_equal(select_by_e_values(values, level), values >= threshold)


@given(
    values=arrays.arrays(float, st.integers(1, 30), elements=st.floats(0.0, 300.0)),
    level=st.sampled_from([0.01, 0.1, 0.5, 1.0]),
)
def test_what_is_found_by_e_values(values, level):
    found = select_by_e_values(values, level)
    np.testing.assert_array_equal(found, e_bh(values, level))
    if found.any():
        own = selection_level(values, found)
        assert own <= level * (1 + 1e-8)
        np.testing.assert_array_equal(select_by_e_values(values, own), found)
    else:
        assert selection_level(values, found) == 0.0


@given(weights=WEIGHTS, variable=st.integers(0, 6), copy=st.integers(1, 3))
def test_changing_places_with_a_copy_changes_only_a_sign(weights, variable, copy):
    W = contest(weights)
    changed = weights.copy()
    changed[[0, copy], variable] = changed[[copy, 0], variable]
    other = contest(changed)
    np.testing.assert_array_equal(np.abs(other), np.abs(W))
    np.testing.assert_array_equal(np.delete(other, variable), np.delete(W, variable))
    wins = weights[0, variable] == weights[:, variable].max()
    assert (W[variable] >= 0) == wins or W[variable] == 0


def test_ties_say_nothing():
    np.testing.assert_array_equal(contest(np.zeros((3, 4))), 0.0)
    np.testing.assert_array_equal(contest(np.array([[2.0, 1.0], [2.0, 0.0], [0.0, 0.0]])), [0, 1])
    np.testing.assert_array_equal(e_values(np.zeros(5), level=0.1, copies=10), 0.0)
    assert not select_by_e_values(np.zeros(5), 1.0).any()


@pytest.mark.parametrize("copies", [1, 2, 10])
@pytest.mark.parametrize("level", [0.05, 0.2, 0.5])
def test_the_fewest_that_can_be_found_are_found(copies, level):
    fewest = min_discoveries(level, copies)
    for count in (fewest - 1, fewest):
        W = np.where(np.arange(50) < count, 1.0, 0.0)
        found = select_by_e_values(e_values(W, level=level, copies=copies), level)
        assert found.sum() == (count if count == fewest else 0)


def test_the_smallest_level_is_one_at_which_all_can_be_found():
    level = smallest_level(7, 3)
    values = e_values(np.ones(7), level=level, copies=3)
    assert select_by_e_values(values, level).all()
    assert not select_by_e_values(values, 0.99 * level).any()


@pytest.mark.parametrize("copies", [1, 3, 10])
@pytest.mark.parametrize("true", [0, 2, 20])
def test_the_share_of_false_ones_is_bounded(copies, true):
    """Signs of false ones as the theory has them; draws that depend on each other wholly or not."""
    rng, p, level, shares = np.random.default_rng(copies + true), 60, 0.2, []
    for repeat in range(400):
        sizes = rng.uniform(0.0, 1.0, p) + (np.arange(p) < true)
        draws = []
        for _ in range(1 if repeat % 2 else 3):
            wins = (rng.uniform(size=p) < 1.0 / (copies + 1)) | (np.arange(p) < true)
            draws.append(np.where(wins, sizes, -sizes))
        target = level if len(draws) == 1 else level / 2
        values = np.mean([e_values(W, level=target, copies=copies) for W in draws], axis=0)
        found = select_by_e_values(values, level)
        shares.append(found[true:].sum() / max(found.sum(), 1))
    assert np.mean(shares) <= level + 2.0 * np.std(shares) / 20.0


@pytest.mark.few
@pytest.mark.parametrize("copies", [1, 4])
@pytest.mark.parametrize("level", [0.1, 0.5])
def test_e_values_of_false_ones_have_a_mean_of_at_most_one(copies, level):
    rng, p = np.random.default_rng(7), 20
    sums = []
    for _ in range(4000):
        wins = rng.uniform(size=p) < 1.0 / (copies + 1)
        W = np.where(wins, 1.0, -1.0) * rng.uniform(size=p)
        sums.append(e_values(W, level=level, copies=copies).sum())
    assert np.mean(sums) <= p + 3.0 * np.std(sums) / len(sums) ** 0.5
