"""Scores along the ridges: held-out errors are those of refitting, and have the last word."""

import math
import tracemalloc

import numpy as np
import oracles
import pytest

from gpukfl.kernels import Gaussian
from gpukfl.methods import DenseSystem, NystromSystem, RidgePath, best_path
from gpukfl.operators import KernelOperator
from gpukfl.partitioned._rows import Rows

weighted = pytest.mark.parametrize("weighted", [False, True])
RIDGES = [1e-3, 1e-1, 1e-2]


def data_of(on, rng, weighted, n=30, t=2):
    X = on.rounded(rng.uniform(-2, 2, (n, 2)))
    noise = 0.1 * rng.standard_normal((n, t))
    Y = on.rounded(np.sin(2 * X[:, :1]) + X[:, 1:] + noise)
    D = on.rounded(rng.uniform(0.2, 3.0, (n, 1)) if weighted else np.ones((n, 1)))
    return X, Y, D, on.put(D) if weighted else None


def folds_of(n):
    return [np.arange(k, n, 3) for k in range(3)]


def refitted_error(K, core, Y, D, ridge, folds):
    """Weighted squared error of the rows of each fold by a fit to the others."""
    total = 0.0
    for outside in folds:
        inside = np.setdiff1d(np.arange(len(K)), outside)
        w = D[inside]
        left = K[inside].T @ (w * K[inside]) + w.sum() * ridge * core
        coef = np.linalg.lstsq(left, K[inside].T @ (w * Y[inside]), rcond=None)[0]
        total += np.sum(D[outside] * (Y[outside] - K[outside] @ coef) ** 2)
    return total / sum(D[outside].sum() for outside in folds)


@pytest.mark.pairs
@weighted
@pytest.mark.parametrize("t", [1, 2])
@pytest.mark.parametrize("some", [slice(0, 3), slice(1, 2)], ids=["all folds", "one fold"])
def test_held_out_errors_of_all_samples_are_those_of_refitting(on, rng, weighted, t, some):
    X, Y, D, weights = data_of(on, rng, weighted, t=t)
    K, folds = oracles.gaussian(X, X, 1.0), folds_of(30)[some]
    path = DenseSystem.from_kernel(on.put(K), on.put(Y), weights).held_out(folds, RIDGES)
    assert path.ridges == RIDGES
    for ridge, score in zip(RIDGES, path.scores, strict=True):
        expected = 0.0
        for outside in folds:
            inside = np.setdiff1d(np.arange(30), outside)
            w = D[inside, 0]
            system = np.diag(w) @ K[np.ix_(inside, inside)] + w.sum() * ridge * np.eye(len(inside))
            coef = np.linalg.solve(system, w[:, None] * Y[inside])
            left = Y[outside] - K[np.ix_(outside, inside)] @ coef
            expected += np.sum(D[outside] * left**2)
        expected /= sum(D[outside].sum() for outside in folds)
        assert score == pytest.approx(expected, rel=300 * on.eps / ridge)


@pytest.mark.pairs
@weighted
@pytest.mark.parametrize("mapped", [False, True])
def test_held_out_errors_of_centres_are_those_of_refitting(on_double, rng, weighted, mapped):
    on = on_double
    X, Y, D, weights = data_of(on, rng, weighted)
    B = np.array([[0.7, 0.4], [0.1, -1.2]]) if mapped else np.eye(2)
    K = oracles.gaussian(X @ B.T, X[:9] @ B.T, 1.0)
    core = oracles.gaussian(X[:9] @ B.T, X[:9] @ B.T, 1.0)
    rows = Rows(on.put(X), on.reference)
    map_of = on.put(B) if mapped else None
    operator = KernelOperator(Gaussian(), rows, on.put(X[:9]), map_of, keep=True)
    system = NystromSystem.from_rows(operator, on.put(Y), weights)
    folds = folds_of(30)
    path = system.held_out(on.put(Y), weights, folds, RIDGES)
    again = system.held_out(on.put(Y), weights, folds, RIDGES)
    assert path.scores == again.scores
    for ridge, score in zip(RIDGES, path.scores, strict=True):
        expected = refitted_error(K, core, Y, D, ridge, folds)
        assert score == pytest.approx(expected, rel=1e-4)  # the jitter of the centres


def test_held_out_rows_are_not_all_told_at_once(rng):
    n, q = 12_000, 400
    X = rng.standard_normal((n, 3))
    operator = KernelOperator(Gaussian(), Rows(X, X[:0, 0]), X[:q])
    system = NystromSystem.from_rows(operator, X[:, :1], None)
    tracemalloc.start()
    system.errors_outside(operator, X[:, :1], None, RIDGES)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.75 * 8 * n * q  # which is what all of their kernel values take


def test_the_edges_of_the_grid_are_known():
    assert RidgePath([1.0, 0.1, 0.01], [3.0, 2.0, 1.0]).is_at_edge
    assert RidgePath([1.0, 0.1, 0.01], [1.0, 2.0, 3.0]).is_at_edge
    assert RidgePath([1.0, 0.1], [math.nan, math.inf]).is_at_edge
    assert not RidgePath([1.0, 0.1, 0.01], [3.0, 1.0, 2.0]).is_at_edge
    assert RidgePath([1.0, 0.1], [math.nan, math.inf]).lowest == math.inf


def test_held_out_samples_have_the_last_word_at_the_edge_only():
    left = {"a": RidgePath([1.0, 0.1, 0.01], [3.0, 2.0, 2.5]), "b": None}
    left["b"] = RidgePath([1.0, 0.1, 0.01], [3.0, 2.0, 1.0])
    held = {
        "a": RidgePath([1.0, 0.1, 0.01], [3.0, 2.5, 2.7]),
        "b": RidgePath([1.0, 0.1, 0.01], [3.0, 2.6, 9.0]),
    }
    asked = []

    def held_out(name):
        asked.append(name)
        return held[name]

    assert best_path(["a"], left.__getitem__, held_out) == ("a", left["a"])
    assert asked == []
    # All candidates are judged by the same samples then
    assert best_path(["a", "b"], left.__getitem__, held_out) == ("a", held["a"])
    assert asked == ["a", "b"]
    assert best_path(["b"], left.__getitem__, held_out) == ("b", held["b"])


def test_finer_judges_see_the_few_that_were_best():
    """One judge is noisy: the finer one, of the best by it, has the last word."""
    edge, noisy = RidgePath([1.0, 0.1, 0.01], [3.0, 2.0, 1.0]), [4.0, 1.0, 3.0, 9.0, 2.0, 5.0]
    fine, asked = [2.0, 3.0, 1.0, 0.0, 4.0, 0.0], []

    def judge(scores):
        def path(k):
            asked.append(k)
            return RidgePath([1.0, 0.1, 0.01], [9.0, scores[k], 8.0])

        return path

    best, path = best_path(range(6), lambda _: edge, judge(noisy), judge(fine))
    assert (best, path.lowest) == (2, 1.0)
    assert asked == [0, 1, 2, 3, 4, 5, 0, 1, 2, 4]


def test_a_path_that_is_flat_to_its_edge_does_not_choose_the_edge():
    ridges = [1.0, 0.1, 0.01, 0.001]
    assert RidgePath(ridges, [3.0, 1.05, 1.02, 1.0]).best_inside(0.1) == 0.1
    assert RidgePath(ridges, [3.0, 1.02, 1.0, 1.05]).best_inside(0.1) == 0.01  # not at the edge
    assert RidgePath(ridges, [3.0, 2.0, 1.5, 1.0]).best_inside(0.1) == 0.001
    assert RidgePath(ridges, [1.0, 2.0, 3.0, 4.0]).best_inside(0.1) == 1.0


def test_of_candidates_that_are_about_as_good_the_first_is_taken():
    paths = {
        "a": RidgePath([1.0, 0.1, 0.01], [9.0, 1.05, 9.0]),
        "b": RidgePath([1.0, 0.1, 0.01], [9.0, 1.01, 9.0]),
        "c": RidgePath([1.0, 0.1, 0.01], [9.0, 1.0, 9.0]),
    }
    for alike, name in [(0.0, "c"), (0.02, "b"), (0.1, "a")]:
        found = best_path("abc", paths.__getitem__, paths.__getitem__, alike=alike)
        assert found == (name, paths[name])
    lost = RidgePath([1.0, 0.1], [math.nan, math.inf])
    assert best_path("ab", lambda _: lost, lambda _: lost, alike=0.02) == ("a", lost)
