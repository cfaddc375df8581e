"""Scales of residuals that differ from row to row."""

import numpy as np
import pytest

from gpukfl.inference._conditional import estimate_residual_scales


def test_scales_of_residuals_are_found_where_they_differ():
    rng = np.random.default_rng(0)
    others = rng.standard_normal((600, 3))
    true = np.exp(0.5 * others[:, 0])
    # Not of one law: those of the second column do not differ
    residuals = np.stack([true, np.ones(600)], axis=1) * rng.standard_normal((600, 2))
    residuals[:5, 0] = np.nan
    found = estimate_residual_scales(others, residuals, 0)
    assert np.corrcoef(np.log(found[5:, 0]), np.log(true[5:]))[0, 1] > 0.9
    np.testing.assert_array_equal(found[:5, 0], 1.0)
    assert np.log(found[:, 1]).std() < 0.1
    twice = estimate_residual_scales(others, 2.0 * residuals, 0)
    np.testing.assert_allclose(twice, found, rtol=1e-3)


def test_rows_that_are_far_out_have_larger_residuals():
    """As of Student's t: the scale of a column given the others is that of the whole row."""
    rng = np.random.default_rng(1)
    sizes = 1.0 / np.sqrt(rng.chisquare(3, 600) / 3.0)
    rows = sizes[:, None] * rng.standard_normal((600, 6))
    found = estimate_residual_scales(rows[:, 1:], rows[:, :1], 0)
    assert np.corrcoef(np.log(found[:, 0]), np.log(sizes))[0, 1] > 0.6


@pytest.mark.parametrize(
    ("others", "residuals"),
    [
        (np.zeros((200, 0)), np.ones((200, 1))),
        (np.ones((40, 2)), np.arange(40.0)[:, None]),
        (np.ones((200, 2)), np.zeros((200, 1))),
        (np.ones((200, 2)), np.arange(200.0)[:, None]),
    ],
    ids=["no others", "few rows", "no residuals", "others that say nothing"],
)
def test_scales_are_one_where_nothing_is_learned(others, residuals):
    np.testing.assert_allclose(estimate_residual_scales(others, residuals, 0), 1.0)
