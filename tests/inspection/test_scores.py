"""Scores of learned directions against their definitions."""

import numpy as np
import pytest

from gpukfl import feature_score
from gpukfl.inspection import effective_rank, leading_directions

EPS = np.finfo(float).eps


def projector(B):
    return B @ np.linalg.pinv(B)


@pytest.mark.parametrize(("d", "k"), [(4, 1), (4, 2), (5, 2), (5, 3), (5, 4), (9, 7), (2, 1)])
def test_score_is_the_distance_of_the_projectors(rng, d, k):
    P = rng.standard_normal((d, k))
    W = rng.standard_normal((d, d + 3))
    U = np.linalg.svd(W)[0][:, :k]
    distance = np.sum((projector(P) - U @ U.T) ** 2)
    expected = 1 - distance / (2 * k if k <= d / 2 else 2 * d - 2 * k)
    assert feature_score(P, W) == pytest.approx(expected, abs=100 * EPS)


def test_score_is_one_for_the_same_span(rng):
    P = rng.standard_normal((6, 2))
    assert feature_score(P, P @ rng.standard_normal((2, 5))) == pytest.approx(1.0, abs=100 * EPS)


@pytest.mark.parametrize(("d", "k"), [(4, 1), (4, 2), (5, 3), (5, 4)])
def test_score_is_zero_for_directions_as_wrong_as_they_can_be(d, k):
    eye = np.eye(d)
    assert feature_score(eye[:, :k], eye[:, ::-1][:, :k]) == pytest.approx(0.0, abs=10 * EPS)


def test_score_does_not_depend_on_the_basis_or_the_scale(rng):
    P, W = rng.standard_normal((6, 2)), rng.standard_normal((6, 9))
    expected = feature_score(P, W)
    mixed = P @ rng.standard_normal((2, 2))
    assert feature_score(mixed, 1e-6 * W) == pytest.approx(expected, abs=1e4 * EPS)


def test_all_directions_are_always_found(rng):
    assert feature_score(rng.standard_normal((4, 4)), rng.standard_normal((4, 2))) == 1.0
    assert feature_score(np.ones((1, 1)), np.zeros((1, 3))) == 1.0


def test_missing_directions_count_as_wrong():
    eye = np.eye(6)
    assert feature_score(eye[:, :2], eye[:, :1]) == pytest.approx(0.5, abs=10 * EPS)
    assert feature_score(eye[:, :2], np.zeros((6, 3))) == pytest.approx(0.0, abs=10 * EPS)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("rank", [0, 1, 2, 5])
def test_score_is_between_zero_and_one(rng, k, rank):
    P = np.eye(5)[:, :k]
    for W in (
        np.eye(5)[:, ::-1][:, :rank] @ rng.standard_normal((rank, 6)),
        rng.standard_normal((5, rank)) @ rng.standard_normal((rank, 6)),
    ):
        assert -10 * EPS <= feature_score(P, W) <= 1 + 10 * EPS


def test_score_takes_every_library(on, rng):
    P, W = rng.standard_normal((5, 2)), rng.standard_normal((5, 8))
    expected = feature_score(on.rounded(P), on.rounded(W))
    assert feature_score(on.put(P), on.put(W)) == pytest.approx(expected, abs=100 * EPS)


@pytest.mark.parametrize(
    ("P", "W", "match"),
    [
        (np.eye(4)[:, :2], np.eye(3), r"got \(4, 2\) and \(3, 3\)"),
        (np.ones((2, 3)), np.eye(2), r"k <= d .*got \(2, 3\)"),
        (np.ones(3), np.eye(3), r"got \(3,\)"),
        (np.ones((3, 2)), np.eye(3), "full column rank 2"),
        (np.zeros((3, 1)), np.eye(3), "full column rank 1"),
        (np.zeros((3, 0)), np.eye(3), "full column rank 0"),
    ],
)
def test_wrong_directions_are_named(P, W, match):
    with pytest.raises(ValueError, match=match):
        feature_score(P, W)


def test_effective_rank_counts_what_reaches_a_fifth_of_the_largest():
    assert effective_rank(np.diag([3.0, 3.0, 3.0])) == 3
    assert effective_rank(np.diag([3.0, 2.9, 2.8])) == 3
    assert effective_rank(np.diag([3.0, 0.5, 0.1])) == 1
    assert effective_rank(np.diag([3.0, 2.0, 0.1])) == 2
    assert effective_rank(1e-9 * np.eye(4)[:, :2]) == 2
    assert effective_rank(np.zeros((3, 5))) == 1


def test_leading_directions_are_the_left_singular_vectors(rng):
    W = rng.standard_normal((4, 7))
    directions = leading_directions(W, 3)
    U = np.linalg.svd(W)[0][:, :3]
    np.testing.assert_allclose(np.abs(directions), np.abs(U.T), atol=100 * EPS)
    np.testing.assert_allclose(directions @ directions.T, np.eye(3), atol=100 * EPS)


def test_the_largest_entry_of_a_direction_is_positive(rng):
    W = rng.standard_normal((6, 8))
    for sign in (1, -1):
        directions = leading_directions(sign * W, 6)
        largest = np.argmax(np.abs(directions), axis=1)
        assert np.all(directions[np.arange(6), largest] > 0)
    np.testing.assert_allclose(leading_directions(W, 6), leading_directions(-W, 6), atol=1e-13)


def test_there_are_no_more_directions_than_the_rank(rng):
    W = rng.standard_normal((6, 2)) @ rng.standard_normal((2, 9))
    assert leading_directions(W, 5).shape == (2, 6)
    assert leading_directions(np.zeros((6, 9)), 5).shape[1] == 6


def test_there_are_as_many_directions_as_matter_where_no_number_is_given(rng):
    W = np.linalg.qr(rng.standard_normal((6, 6)))[0] * [9.0, 8.0, 7.0, 0.1, 0.1, 0.1]
    np.testing.assert_array_equal(leading_directions(W), leading_directions(W, effective_rank(W)))
    assert leading_directions(W).shape == (3, 6)
    assert leading_directions(np.zeros((6, 9))).shape == (0, 6)
