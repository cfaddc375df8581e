"""The median distance is the median of the distances."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from gpukfl.kernels import median_distance

norms = pytest.mark.parametrize(
    ("norm", "metric"), [("euclidean", "euclidean"), ("manhattan", "cityblock")]
)


@pytest.mark.pairs
@norms
@pytest.mark.parametrize("n", [2, 3, 4, 7, 40])
def test_median_is_scipys(on, rng, norm, metric, n):
    X = on.rounded(rng.standard_normal((n, 3)))
    expected = np.median(pdist(X, metric))
    actual = median_distance(on.put(X), norm=norm)
    assert isinstance(actual, float)
    assert actual == pytest.approx(expected, rel=10 * on.eps)


@pytest.mark.pairs
@norms
@pytest.mark.parametrize("copies", [2, 7, 13])
def test_pairs_of_equal_rows_are_left_out(on, rng, norm, metric, copies):
    X = on.rounded(rng.standard_normal((14, 2)))
    X[:copies] = X[0]
    gaps = pdist(X, metric)
    expected = np.median(gaps[gaps > 0])
    assert median_distance(on.put(X), norm=norm) == pytest.approx(expected, rel=10 * on.eps)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_rows_that_do_not_differ_give_one(on, n):
    assert median_distance(on.put(np.full((n, 3), 0.7))) == 1.0


def test_unknown_norms_are_refused(on):
    with pytest.raises(ValueError, match=r"'euclidean' or 'manhattan', or .*, got 'cosine'"):
        median_distance(on.put(np.ones((3, 2))), norm="cosine")


@pytest.mark.pairs
@norms
@pytest.mark.parametrize("n", [12, 60, 130])  # of which some hundred pairs are sorted, or thousands
@pytest.mark.parametrize("grid", [False, True])  # many distances are equal
def test_weights_count_as_copies(on, rng, norm, metric, n, grid):
    X = rng.integers(0, 4, (n, 2)).astype(float) if grid else rng.standard_normal((n, 2))
    X, weights = on.rounded(X), rng.integers(1, 4, n)
    gaps = pdist(np.repeat(X, weights, axis=0), metric)
    expected = np.median(gaps[gaps > 0])
    actual = median_distance(on.put(X), norm=norm, weights=weights.astype(np.float64))
    assert actual == pytest.approx(expected, rel=10 * on.eps)


def test_half_of_the_mass_may_end_between_two_distances(on):
    """Also where more than a thousand are on either side: their mean is the median."""
    X = np.zeros((2 * 40, 2))
    X[:40, 0], X[40:, 1] = 1e6 + np.arange(40), 3e6 + np.arange(40)
    X = on.rounded(X)
    gaps = pdist(X)
    assert len(gaps) > 2_000
    actual = median_distance(on.put(X), weights=np.full(80, 0.5))
    assert actual == pytest.approx(np.median(gaps), rel=10 * on.eps)


@pytest.mark.pairs
@norms
@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8"])
def test_distances_of_integers_are_no_integers(on, rng, norm, metric, dtype):
    X = rng.integers(0, 100, (30, 4))
    expected = np.median(pdist(X.astype(np.float64), metric))
    assert median_distance(on.put(X, dtype), norm=norm) == pytest.approx(expected, rel=1e-14)


def test_what_is_no_table_of_real_numbers_is_named():
    with pytest.raises(TypeError, match="expected arrays, got list"):
        median_distance([[0.0], [1.0]])
    with pytest.raises(TypeError, match="expected arrays of real numbers, got complex128"):
        median_distance(np.ones((2, 2)) * 1j)
    with pytest.raises(ValueError, match=r"expected X \(n, d\), got \(3,\)"):
        median_distance(np.ones(3))
