"""Stability selection: complementary halves, frequencies, and the bound on false variables."""

import itertools
import math

import numpy as np
import pytest

from gpukfl.estimators.selection._fit import selection_frequencies, stability_threshold


def halves(n, count, seed=0):
    """Give the halves that are drawn."""
    drawn = []

    def select(rows):
        drawn.append(rows)
        return np.zeros(2, dtype=bool)

    selection_frequencies(select, n, count, np.random.RandomState(seed))
    return drawn


@pytest.mark.parametrize("n", [4, 10, 11])
@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_halves_come_in_complementary_pairs(n, count):
    drawn = halves(n, count)
    assert len(drawn) == count
    for rows in drawn:
        assert len(rows) == n // 2
        assert np.all(np.diff(rows) > 0)  # sorted, each once
        assert 0 <= rows[0] <= rows[-1] < n
    for first, second in zip(drawn[::2], drawn[1::2], strict=False):
        assert not set(first) & set(second)


def test_pairs_differ_and_are_repeated_by_the_seed():
    drawn = halves(20, 8)
    firsts = [tuple(rows) for rows in drawn[::2]]
    assert len(set(firsts)) == 4
    assert all(map(np.array_equal, drawn, halves(20, 8)))
    assert not all(map(np.array_equal, drawn, halves(20, 8, seed=1)))


def test_every_sample_is_drawn_as_often_as_any():
    counts = np.bincount(np.concatenate(halves(8, 4000)), minlength=8)
    assert np.all(counts == 2000)  # of an even number, a pair holds every sample
    counts = np.bincount(np.concatenate(halves(9, 4000)), minlength=9)
    assert np.abs(counts - 4000 * 4 / 9).max() < 100


@pytest.mark.parametrize("count", [1, 3, 4])
def test_frequencies_are_shares_of_the_halves(count):
    found = itertools.cycle([[True, True, False], [True, False, False], [True, True, False]])
    shares, mean, whole = selection_frequencies(
        lambda _: np.array(next(found)), 10, count, np.random.RandomState(0)
    )
    second = {1: 1.0, 3: 2 / 3, 4: 3 / 4}[count]
    np.testing.assert_allclose(shares, [1.0, second, 0.0], rtol=1e-15)
    assert mean == pytest.approx(1.0 + second, rel=1e-15)
    assert whole
    assert shares.dtype == np.float64


@pytest.mark.parametrize(("asked", "whole"), [(2, False), (5, True), (9, True)])
def test_it_ends_after_a_half_when_it_is_late(asked, whole):
    calls = []

    def select(rows):
        calls.append(rows)
        return np.array([len(calls) == 1, True])

    shares, mean, ended = selection_frequencies(
        select, 10, 5, np.random.RandomState(0), lambda: len(calls) >= asked
    )
    assert len(calls) == min(asked, 5)
    assert ended is whole
    np.testing.assert_allclose(shares, [1 / len(calls), 1.0])
    assert mean == pytest.approx(1.0 + 1 / len(calls))


@pytest.mark.pairs
@pytest.mark.parametrize("mean", [0.5, 3.0, 20.0])
@pytest.mark.parametrize("p", [1, 10, 1000])
@pytest.mark.parametrize("max_false", [0.1, 1.0, 5])
def test_the_threshold_meets_the_bound(mean, p, max_false):
    threshold = stability_threshold(mean, p, max_false)
    assert threshold > 0.5
    # E[V] <= q^2 / ((2 pi - 1) p)
    assert mean**2 / ((2.0 * threshold - 1.0) * p) <= max_false * (1 + 1e-12)
    exact = (mean**2 / (p * max_false) + 1.0) / 2.0
    assert threshold == pytest.approx(exact, rel=1e-14)


def test_a_threshold_is_above_one_half():
    assert stability_threshold(0.0, 10, 1.0) == math.nextafter(0.5, 1.0)
    assert stability_threshold(1e-12, 10**6, 1.0) > 0.5
    assert stability_threshold(10.0, 10, 1.0) == 5.5  # more than can be asked for


def test_false_variables_are_as_few_as_promised():
    """A base selection that takes 4 of 40 by chance, and always the first."""
    rng, p, wrong = np.random.default_rng(0), 40, []
    for repeat in range(200):

        def select(_):
            mask = np.zeros(p, dtype=bool)
            mask[rng.choice(np.arange(1, p), 4, replace=False)] = True
            mask[0] = True
            return mask

        shares, mean, _ = selection_frequencies(select, 20, 10, np.random.RandomState(repeat))
        kept = shares >= stability_threshold(mean, p, 1.0)
        assert kept[0]
        wrong.append(np.count_nonzero(kept[1:]))
    assert np.mean(wrong) <= 1.0
