"""Scores on held-out folds: those of refits, and of what was chosen."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import r2_score

import gpukfl
from gpukfl import RKHSWeightingClassifier, RKHSWeightingRegressor
from gpukfl.estimators.weighting._data import WeightingProblem
from gpukfl.instantiations import GaussianSign, Stumps
from gpukfl.methods import (
    cross_validate,
    cross_validate_locally,
    fold_sums,
    least_squares,
    scored_rows,
)
from gpukfl.operators import FeatureOperator, common_scale
from gpukfl.partitioned._rows import Rows

FOLDS = 5
SEEDS = [1, 5, 10, 15]


def one_hot(seed):
    """Categories of which some are rare, in columns of 0 and 1, with interactions and noise."""
    rng = np.random.RandomState(seed)
    n, levels = rng.randint(300, 600), rng.randint(3, 11, size=rng.randint(3, 7))
    codes = [np.minimum(rng.geometric(0.4, size=n) - 1, k - 1) for k in levels]
    X = np.concatenate([np.eye(k)[c] for k, c in zip(levels, codes, strict=True)], axis=1)
    X = X[:, X.std(axis=0) > 0]
    y = sum(rng.standard_normal(k)[c] for k, c in zip(levels, codes, strict=True))
    y = y + rng.standard_normal((levels[0], levels[1]))[codes[0], codes[1]]
    if seed % 2:
        Z = rng.standard_normal((n, 2))
        X, y = np.concatenate([X, Z], axis=1), y + Z[:, 0] * Z[:, 1]
    return (X - X.mean(axis=0)) / X.std(axis=0), y + 0.5 * y.std() * rng.standard_normal(n)


@pytest.mark.each
@pytest.mark.parametrize("instantiation", [Stumps(1.0, 1.0), Stumps(1.0, 0.3), GaussianSign(1, 3)])
@pytest.mark.parametrize("seed", SEEDS)
def test_listed_scores_are_those_of_refits(monkeypatch, instantiation, seed):
    X, y = one_hot(seed)
    folds = np.random.RandomState(seed).permutation(len(y)) % FOLDS
    for k in range(FOLDS):  # so that every refit subtracts the same mean, 0
        y[folds == k] -= y[folds == k].mean()
    monkeypatch.setattr(WeightingProblem, "drawn_folds", folds.astype(np.int8))
    options = {"instantiation": instantiation, "random_state": 0, "scaling": None}
    model = RKHSWeightingRegressor(120, **options).fit(X, y)
    assert len(model.tuning_) >= 10
    for trial in model.tuning_[::3]:
        predicted = np.empty(len(y))
        for k in range(FOLDS):
            rest = folds != k
            twin = RKHSWeightingRegressor(120, **options, ridge=trial["ridge"])
            twin.fit(X[rest], y[rest])
            predicted[~rest] = twin.predict(X[~rest])
        assert trial["score"] == pytest.approx(r2_score(y, predicted), rel=1e-7, abs=1e-6)


@pytest.mark.few
@pytest.mark.parametrize("n_parameters", [60, 400])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_of_the_listed_scores_is_chosen_and_shown(seed, n_parameters):
    X, y = one_hot(seed)
    model = gpukfl.fit(
        X, y, method="rkhs_weighting", n_parameters=n_parameters, instantiation="stumps",
        random_state=0,
    )  # fmt: skip
    (chosen,) = (trial for trial in model.tuning if trial["chosen"])
    assert chosen["score"] == max(trial["score"] for trial in model.tuning)
    assert f"{chosen['score']:.3f}" in model.summary()
    e = model.estimator
    assert chosen["ridge"] == pytest.approx(e.ridge_, rel=1e-9)
    assert chosen["n_parameters"] == e.n_parameters_
    tried = {(trial["n_parameters"], trial["n_samples"]) for trial in model.tuning}
    assert tried == {(min(n_parameters, 300), len(y)), (n_parameters, len(y))}


@pytest.mark.parametrize("ridge", ["auto", 1e-6])
def test_the_best_of_the_listed_scores_is_chosen_for_classes(ridge):
    X, y = one_hot(10)
    model = RKHSWeightingClassifier(400, instantiation="stumps", ridge=ridge, random_state=0)
    model.fit(X, y > np.median(y))
    (chosen,) = (trial for trial in model.tuning_ if trial["chosen"])
    assert chosen["score"] == max(trial["score"] for trial in model.tuning_)
    assert chosen["n_parameters"] == model.n_parameters_


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", SEEDS)
def test_coefficients_are_not_the_inverse_of_rounding(seed, dtype):
    X, y = one_hot(seed)
    stumps, rows = Stumps(1.0, 1.0), Rows(X.astype(dtype), np.empty(0, dtype), leading_ones=True)
    W = stumps.draw(300, rows.shape[1], np.random.RandomState(0)).astype(dtype)
    operator = FeatureOperator(stumps, rows, W, common_scale(stumps, W, rows.shape[1]))
    sums = fold_sums(operator, y[:, None] / y.std(), None, np.arange(len(y)) % FOLDS)
    found = cross_validate(
        sums, lambda *some: least_squares(sums, *some)[0], np.geomspace(1e-9, 1.0, 10).tolist()
    )
    assert max(np.abs(A).max() for along in found.coefs for A in along) < 1e6


def test_large_coefficients_that_cancel_are_scored_by_their_predictions():
    """Two equal parameters with opposite coefficients change nothing."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((200, 2)), rng.standard_normal((200, 1))
    stumps = Stumps(1.0, 0.5)
    W = stumps.draw(10, 2, np.random.RandomState(0))
    W = np.concatenate([W, W[:1]])
    operator = FeatureOperator(stumps, Rows(X, X[:0, 0]), W, common_scale(stumps, W, 2))
    sums = fold_sums(operator, Y, None, np.arange(200) % 4)
    small, large = np.full((11, 1), 0.01), np.full((11, 1), 0.01)
    large[0] += 3e7
    large[-1] -= 3e7
    found = cross_validate(sums, lambda *_: [small, large], [1.0, 1e-3])
    assert found.scores[1] == pytest.approx(found.scores[0], abs=1e-6)
    quadratic, rounding = sums.whole.squared_error(large), sums.whole.rounding(large)
    exact = np.sum((Y - operator.dense() @ small) ** 2)
    assert np.abs(quadratic - exact) <= rounding
    assert sums.whole.rounding(small) < 1e-10 * exact


def test_many_rows_are_scored_on_some_of_them(monkeypatch):
    """In the same folds as the search, whose scores stand beside them."""
    monkeypatch.setattr("gpukfl.methods._weighting._SCORED", 200)
    rows = scored_rows(1_000)
    assert len(set(rows.tolist())) == 200
    assert np.all(np.diff(rows) > 0)
    np.testing.assert_array_equal(scored_rows(200), np.arange(200))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1_000, 3))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(1_000)
    weights = rng.integers(0, 3, 1_000)
    model = RKHSWeightingRegressor(50, instantiation="stumps", random_state=0)
    model.fit(X, y, sample_weight=weights)
    seen = np.count_nonzero(weights)
    tried = {(trial["n_samples"], trial["chosen"]) for trial in model.tuning_}
    assert tried == {(200, False), (seen, False), (seen, True)}
    (chosen,) = (trial for trial in model.tuning_ if trial["chosen"])
    assert chosen["score"] == pytest.approx(0.98, abs=0.02)


@pytest.mark.parametrize("learner", ["least_squares", "lasso"])
def test_ridges_are_tried_around_the_best_of_the_fit_before(monkeypatch, learner):
    X, y = one_hot(3)
    tried = []

    def noting(sums, solve, ridges, *at):
        found = (cross_validate_locally if at else cross_validate)(sums, solve, ridges, *at)
        tried.append((len(ridges), *at, found.ridges[found.best]))
        return found

    for name in ("cross_validate", "cross_validate_locally"):
        monkeypatch.setattr(f"gpukfl.estimators.weighting._data.{name}", noting)
    options = {"instantiation": "stumps", "learner": learner, "random_state": 0}
    model = RKHSWeightingRegressor(310, **options).fit(X, y)
    assert len(tried) == 5  # four widths, and all parameters
    (chosen,) = (trial for trial in model.tuning_ if trial["chosen"])
    assert chosen["score"] == max(trial["score"] for trial in model.tuning_)
    if learner == "lasso":  # a path from above anyway
        assert {len(entry) for entry in tried} == {2}
        return
    assert [len(entry) for entry in tried] == [2, 3, 3, 3, 3]
    grid = np.geomspace(1e-9, 1.0, 10)
    for (*_, before), (_, at, _) in itertools.pairwise(tried[:4]):
        assert grid[at] == pytest.approx(before)
