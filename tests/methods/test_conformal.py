"""The rank of conformal quantiles is ceil((n + 1) coverage), exactly; it says what it needs."""

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpukfl.methods import check_share, conformal_weight, unit_weights, weighted_quantile


@settings(max_examples=200)
@given(st.integers(1, 10**6), st.integers(1, 999))
def test_the_rank_is_that_of_exact_arithmetic(n, thousandths):
    exact = ceil((n + 1) * Fraction(thousandths, 1000))
    coverage = thousandths / 1000
    if exact <= n:
        assert ceil(conformal_weight(coverage, float(n))) == exact
    else:
        with pytest.raises(ValueError, match="held-out rows"):
            conformal_weight(coverage, float(n))


@pytest.mark.parametrize(("coverage", "needed"), [(0.5, 1), (0.9, 9), (0.95, 19), (0.99, 99)])
def test_too_few_rows_are_told_how_many_are_needed(coverage, needed):
    conformal_weight(coverage, float(needed))
    with pytest.raises(ValueError, match=f"at least {needed} held-out rows .* got {needed - 1}"):
        conformal_weight(coverage, float(needed - 1))


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.1, 1.5, 90])
def test_a_coverage_lies_inside(coverage):
    with pytest.raises(ValueError, match=r"greater than 0 and less than 1, got"):
        check_share("coverage", coverage)


@pytest.mark.parametrize("coverage", ["0.9", None, True])
def test_a_coverage_is_a_number(coverage):
    with pytest.raises(TypeError, match="expected coverage to be a number"):
        check_share("coverage", coverage)


def test_equal_weights_count_rows():
    for scale in (1e-300, 0.3, 1e300):
        np.testing.assert_allclose(unit_weights(np.full(7, scale), 7), np.ones(7), rtol=1e-14)
    np.testing.assert_array_equal(unit_weights(None, 3), np.ones(3))


def test_rows_without_weight_are_as_if_left_out(rng):
    w = np.concatenate([rng.uniform(1, 2, 6), np.zeros(5)])
    np.testing.assert_allclose(unit_weights(w, 11)[:6], unit_weights(w[:6], 6), rtol=1e-14)


def test_one_heavy_row_is_hardly_more_than_one():
    assert unit_weights(np.array([1e6, 1.0, 1.0]), 3).sum() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    "w", [np.ones(3), np.array([1.0, -1.0]), np.array([1.0, np.nan]), np.zeros(2)]
)
def test_wrong_weights_are_named(w):
    with pytest.raises(ValueError, match=r"expected weights \(2,\), finite, at least 0"):
        unit_weights(w, 2)


def test_a_weighted_quantile_is_that_of_repeated_values(rng):
    values, copies = rng.standard_normal(30), rng.integers(0, 4, 30)
    repeated = np.sort(np.repeat(values, copies))
    for rank in range(1, len(repeated) + 1):
        found = weighted_quantile(values, copies.astype(float), float(rank))
        assert found == repeated[rank - 1]
