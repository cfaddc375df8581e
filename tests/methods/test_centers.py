"""Centres are different samples, and those chosen with care stand for more of the others."""

import numpy as np
import oracles
import pytest

import gpukfl
from gpukfl.kernels import Gaussian, Linear, Polynomial
from gpukfl.methods import SELECTIONS, choose_centers, leverage_scores
from gpukfl.partitioned._rows import Rows

selections = pytest.mark.parametrize("selection", SELECTIONS)


def choose(on, X, n_centers, selection, *, kernel=None, seed=0, ridge=1e-3, B=None):
    rows = Rows(on.put(X), on.reference)
    return choose_centers(
        selection,
        kernel or Gaussian(),
        rows,
        n_centers,
        ridge=ridge,
        rng=np.random.RandomState(seed),
        B=None if B is None else on.put(B),
    )


def clustered(rng, n=200):
    """A tight cluster, and a tenth of the samples each for itself."""
    X = 0.05 * rng.standard_normal((n, 2))
    X[: n // 10] = 6.0 * rng.standard_normal((n // 10, 2))
    return X


def trace_error(X, index):
    """What the centres leave of the trace of the kernel matrix."""
    K = oracles.gaussian(X, X, 1.0)
    part = np.linalg.pinv(K[np.ix_(index, index)], hermitian=True, rcond=1e-12)
    return np.trace(K - K[:, index] @ part @ K[index])


@pytest.mark.pairs
@selections
@pytest.mark.parametrize("n_centers", [1, 7, 64, 99])
def test_centres_are_different_samples_in_order(on, rng, selection, n_centers):
    X = 3 * rng.standard_normal((100, 3))
    index = choose(on, X, n_centers, selection)
    assert isinstance(index, np.ndarray)
    assert index.dtype == np.int64
    assert len(index) == n_centers
    assert np.all(np.diff(index) > 0)
    assert 0 <= index[0] <= index[-1] < 100


@pytest.mark.pairs
@selections
@pytest.mark.parametrize("n_centers", [20, 21, 1000])
def test_all_samples_where_there_are_no_more(on, rng, selection, n_centers):
    index = choose(on, rng.standard_normal((20, 2)), n_centers, selection)
    np.testing.assert_array_equal(index, np.arange(20))


@selections
def test_a_seed_repeats_the_choice_and_another_changes_it(on, rng, selection):
    X = 3 * rng.standard_normal((100, 3))
    once = choose(on, X, 20, selection)
    np.testing.assert_array_equal(once, choose(on, X, 20, selection))
    assert not np.array_equal(once, choose(on, X, 20, selection, seed=1))


@selections
def test_places_choose_alike(on_double, rng, selection):
    X, B = 3 * rng.standard_normal((150, 3)), rng.standard_normal((2, 3))
    rows = Rows(X, X[:0, 0])
    expected = choose_centers(
        selection, Gaussian(), rows, 30, ridge=1e-3, rng=np.random.RandomState(5), B=B
    )
    actual = choose(on_double, X, 30, selection, seed=5, B=B)
    np.testing.assert_array_equal(actual, expected)


def test_unknown_selections_and_no_centres_are_refused(on, rng):
    X = rng.standard_normal((20, 2))
    with pytest.raises(ValueError, match="one of uniform, leverage, pivoted, got 'best'"):
        choose(on, X, 3, "best")
    with pytest.raises(ValueError, match="at least one centre, got 0"):
        choose(on, X, 0, "uniform")


def test_pivoted_choice_ends_at_the_rank(on, rng):
    X = rng.standard_normal((120, 3))
    assert len(choose(on, X, 50, "pivoted", kernel=Linear())) == 3
    B = rng.standard_normal((2, 3))
    assert len(choose(on, X, 50, "pivoted", kernel=Linear(), B=B)) == 2
    kernel = Polynomial(2.0, degree=2)  # all monomials up to degree 2
    assert len(choose(on, X, 50, "pivoted", kernel=kernel)) == 10


@pytest.mark.parametrize("seed", range(5))
def test_pivoted_choice_takes_one_of_equal_samples(on, rng, seed):
    X = 3 * rng.standard_normal((20, 3))[rng.integers(0, 20, 150)]
    index = choose(on, X, 60, "pivoted", seed=seed)
    assert len(np.unique(X[index], axis=0)) == len(index) == len(np.unique(X, axis=0))


def test_samples_that_are_all_zero_give_one_centre(on):
    assert choose(on, np.zeros((10, 2)), 3, "pivoted", kernel=Linear()).tolist() == [0]


@pytest.mark.pairs
@selections
@pytest.mark.parametrize("n_centers", [10, 60])
def test_little_memory_is_enough(on, rng, selection, n_centers):
    X = 3 * rng.standard_normal((100, 3))
    with gpukfl.memory_budget(20_000):
        index = choose(on, X, n_centers, selection)
    assert len(index) == n_centers
    assert np.all(np.diff(index) > 0)


@pytest.mark.parametrize("selection", ["pivoted", "leverage"])
def test_care_leaves_less_of_the_trace_than_chance(on, rng, selection):
    errors = {"uniform": 0.0, selection: 0.0}
    for seed in range(5):
        X = on.rounded(clustered(rng))
        for name in errors:
            errors[name] += trace_error(X, choose(on, X, 25, name, seed=seed, ridge=1e-4))
    assert errors[selection] < 0.3 * errors["uniform"]


def test_pivots_are_drawn_by_what_is_left_of_them(on_double):
    """One far pair of points and a heap of 98: two pivots are one of each, nearly always."""
    X = np.zeros((100, 1))
    X[0] = 50.0
    for seed in range(20):
        assert 0 in choose(on_double, X, 2, "pivoted", seed=seed)


@pytest.mark.parametrize("mapped", [False, True])
def test_leverage_scores_are_exact_with_all_samples_for_pilots(on, rng, mapped):
    X = on.rounded(rng.standard_normal((60, 3)))
    B = on.rounded(rng.standard_normal((2, 3))) if mapped else np.eye(3)
    K = oracles.gaussian(X @ B.T, X @ B.T, 1.0)
    expected = np.diag(np.linalg.solve(K + 60 * 0.02 * np.eye(60), K))
    scores = leverage_scores(
        Gaussian(),
        Rows(on.put(X), on.reference),
        ridge=0.02,
        rng=np.random.RandomState(0),
        B=on.put(B) if mapped else None,
    )
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, expected, rtol=0, atol=300 * on.eps + 1e-9)


def test_leverage_scores_from_few_pilots_are_near(on, rng, monkeypatch):
    monkeypatch.setattr("gpukfl.methods._centers._PILOT", 150)
    X = on.rounded(rng.uniform(-2, 2, (600, 1)))
    K = oracles.gaussian(X, X, 1.0)
    expected = np.diag(np.linalg.solve(K + 600 * 1e-2 * np.eye(600), K))
    scores = leverage_scores(
        Gaussian(), Rows(on.put(X), on.reference), ridge=1e-2, rng=np.random.RandomState(0), B=None
    )
    assert np.all(scores > 0.5 * expected)
    assert np.all(scores < 2.0 * expected)


@pytest.mark.parametrize("budget", [None, 200])
def test_rows_are_found_wherever_they_are(on, rng, tmp_path, budget):
    X = on.rounded(rng.standard_normal((50, 3)))
    file = np.memmap(tmp_path / "X", dtype=on.dtype_name, mode="w+", shape=X.shape)
    file[:] = X
    index = np.array([0, 7, 8, 30, 49])
    with gpukfl.memory_budget(budget):
        on.assert_close(Rows(file, on.reference).gather(index), X[index], ulps=0)
