"""Quantiles of groups that are moved and stretched are those of the whole table."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpukfl.portfolio._uncertainty import SortedGroups


def problem(rng, sizes, m, kind):
    groups = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    values = rng.standard_normal(len(groups))
    centers, spreads = rng.standard_normal((len(sizes), m)), rng.uniform(0.2, 3, (len(sizes), m))
    if kind == "tied":
        values = np.round(values)
        centers, spreads = np.round(centers), np.ones_like(spreads)
    if kind == "constant":
        values, centers, spreads = 0 * values, 0 * centers, np.ones_like(spreads)
    if kind == "apart":
        centers = centers + 1000.0 * np.arange(len(sizes))[:, None]
    return values, groups, centers, spreads


def by_table(values, groups, weights, centers, spreads, wanted):
    table = centers[groups] + spreads[groups] * values[:, None]
    order = np.argsort(table, axis=0)
    reached = np.cumsum(weights[order], axis=0)
    rank = np.minimum(np.sum(reached < wanted, axis=0), len(values) - 1)
    return np.take_along_axis(table, np.take_along_axis(order, rank[None, :], axis=0), axis=0)[0]


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=6).filter(any),
    st.integers(0, 5),
    st.sampled_from(["random", "tied", "constant", "apart"]),
    st.floats(0.01, 1.0),
    st.booleans(),
)
def test_the_search_finds_what_the_table_holds(sizes, m, kind, share, weighted):
    rng = np.random.default_rng(sum(sizes) + m)
    values, groups, centers, spreads = problem(rng, sizes, m, kind)
    weights = rng.integers(0, 4, len(values)).astype(float) if weighted else np.ones(len(values))
    wanted = share * weights.sum() - 1e-9
    found = SortedGroups.sort(values, groups, len(sizes), weights).quantile(
        centers, spreads, wanted
    )
    expected = by_table(values, groups, weights, centers, spreads, wanted)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("kind", ["random", "tied", "apart"])
def test_the_search_is_right_for_many_rows(rng, kind):
    values, groups, centers, spreads = problem(rng, [3000, 1, 500, 4000], 400, kind)
    weights = rng.uniform(0.5, 2, len(values))
    groups_ = SortedGroups.sort(values, groups, 4, weights)
    for share in (0.03, 0.5, 0.97):
        wanted = share * weights.sum()
        expected = by_table(values, groups, weights, centers, spreads, wanted)
        found = groups_.quantile(centers, spreads, wanted)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
