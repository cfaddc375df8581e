"""`gpukfl.fit` of every method learns the same on every place, whatever the data."""

import numpy as np
import pytest
from agreement import assert_agrees
from brief import bkernn, hkrr, regfeal
from drawn import examples, problems
from hypothesis import assume, given
from hypothesis import strategies as st

import gpukfl
from gpukfl._registry import METHODS

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

# What is not learned is fixed
FIXED = {
    "bkernn": bkernn(n_particles=6, max_iter=3, tol=0.0, ridge=0.05),
    "hkrr": hkrr(n_components=1, n_starts=1, max_iter=3, ridge=1e-2),
    "selection": {"ridge": 0.05, "sparsity": 0.1},
    "rkhs_weighting": {"n_parameters": 12, "instantiation": "stumps", "ridge": 1e-2},
    "regfeal": regfeal(
        n_random_features=30, n_iter=2, degree_decay=0.3, strength=0.1, ridge=1e-2, retrain=None
    ),
}
# Parameters drawn close together have nearly dependent features: coefficients of 10⁴ that cancel
# HKRR: rounding moves steps that are nearly as good; of repeated columns it decides them
# BKerNN: steps of few rows carry rounding on, and so do calibrated probabilities
# Selection: its steps end where they no longer gain, to within a tolerance
ULPS = {"bkernn": 1e9, "hkrr": 1e9, "selection": 1e8, "rkhs_weighting": 1e9, "regfeal": 1e6}
some_rows = problems(fewest=6, rows=30, columns=4, targets=2)


def is_decided(method, problem):
    """Whether the data decide every step of a method."""
    return method != "hkrr" or problem.flaw != "repeated columns"


def fitted(problem, method, y, **options):
    """Fit to operands, and predict for new ones."""

    def call(X, Y, weights, new):
        model = gpukfl.fit(
            X,
            Y if y is None else y,
            method=method,
            sample_weight=None if weights is None else weights[:, 0],
            progress=False,
            **options,
        )
        if model.task == "classification":
            return model.estimator.predict_proba(new)
        return model.predict(new)

    return call, (problem.X, problem.Y, problem.weights, problem.new)


@pytest.mark.parametrize("method", FIXED)
@given(some_rows)
@examples(3)
def test_regression(on_double, method, problem):
    assume(is_decided(method, problem))
    call, operands = fitted(problem, method, None, **FIXED[method])
    assert_agrees(on_double, call, *operands, layout=problem.layout, ulps=ULPS[method], scale=1.0)


@pytest.mark.parametrize("method", FIXED)
@given(some_rows, st.integers(2, 3))
@examples(2)
def test_classification(on_double, method, problem, k):
    assume(is_decided(method, problem))
    labels = np.argsort(np.argsort(problem.Y[:, 0])) * k // len(problem.Y)
    call, operands = fitted(problem, method, labels, task="classification", **FIXED[method])
    assert_agrees(on_double, call, *operands, layout=problem.layout, ulps=ULPS[method], scale=1.0)


def test_every_method_is_tried():
    assert set(FIXED) == {name for name, row in METHODS.items() if row.single}


@pytest.mark.parametrize("n", [300, 1100])
def test_rounding_of_the_data_does_not_grow_in_a_fit_of_bkernn(rng, n):
    X = rng.standard_normal((n, 4))
    y = np.abs(X[:, 0] + X[:, 1]) + 0.1 * rng.standard_normal(n)
    options = bkernn(n_particles=20, max_iter=8)
    first, second = (
        gpukfl.BKerNNRegressor(random_state=0, **options).fit(factor * X, y).predict(X)
        for factor in (1.0, 1.0 + 1e-13)
    )
    assert np.max(np.abs(first - second)) <= 1e-7 * np.std(y)
