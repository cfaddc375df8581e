"""Ridge regression on Hermite features: both views, stretched systems, overflow."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from gpukfl.linalg import hermite_table
from gpukfl.methods._regfeal import FeatureSums, SampleFeatures, solve_with_room
from gpukfl.operators import HermiteOperator
from gpukfl.partitioned._rows import Rows

# ---------------------------------------------------------------------- ridge regression


def problem(on, n, m, t, d=3):
    rng = np.random.default_rng(n + m)
    X = on.rounded(rng.standard_normal((n, d)))
    Y = on.rounded(rng.standard_normal((n, t)) + np.arange(t) + 1.0)
    w = on.rounded(rng.uniform(0.2, 3.0, (n, 1)))
    tuples = np.array(list(itertools.product(range(5), repeat=d)))[1 : m + 1]
    scales = rng.uniform(0.1, 1.0, m)
    operator = HermiteOperator(Rows(on.put(X), on.reference), tuples, scales)
    table = hermite_table(X, 4)
    Phi = np.stack([table[:, a, np.arange(d)].prod(axis=1) for a in tuples], axis=1) * scales
    return operator, Phi, Y, w


@pytest.mark.pairs
@pytest.mark.parametrize("view", [FeatureSums, SampleFeatures])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ridge", [1.0, 0.03])
@pytest.mark.parametrize(("n", "m", "t"), [(40, 12, 1), (12, 30, 2), (20, 20, 3), (2, 1, 1)])
def test_both_views_are_a_ridge_regression_with_an_intercept(on, view, weighted, n, m, t, ridge):
    operator, Phi, Y, w = problem(on, n, m, t)
    weights = w if weighted else np.ones((n, 1))
    N = weights.sum()
    model = Ridge(alpha=ridge * N, tol=1e-12).fit(Phi, Y, sample_weight=weights[:, 0])
    system = view.from_operator(operator, on.put(Y), on.put(w) if weighted else None)
    theta, intercept, objective = system.solve(ridge)
    tolerance = 1e-7 if on.dtype_name == "float64" else 2e-3
    np.testing.assert_allclose(theta, model.coef_.reshape(t, m).T, atol=tolerance)
    np.testing.assert_allclose(intercept, model.intercept_, atol=tolerance)
    left = Y - model.predict(Phi).reshape(n, t)
    expected = np.sum(weights * left**2) / N + ridge * np.sum(model.coef_**2)
    assert objective == pytest.approx(expected, abs=10 * tolerance)


@pytest.mark.parametrize("view", [FeatureSums, SampleFeatures])
def test_a_stretched_system_is_that_of_stretched_features(on_double, view):
    operator, _, Y, w = problem(on_double, 14, 9, 2)
    stretch = np.random.default_rng(3).uniform(0.3, 3.0, 9)
    other = replace(operator, scales=operator.scales * stretch)
    Y, w = on_double.put(Y), on_double.put(w)
    once = view.from_operator(operator, Y, w)
    for one, two in zip(
        once.solve(0.1, stretch), view.from_operator(other, Y, w).solve(0.1), strict=True
    ):
        np.testing.assert_allclose(one, two, atol=1e-10)
    for one, two in zip(
        once.solve(0.1), view.from_operator(operator, Y, w).solve(0.1), strict=True
    ):
        np.testing.assert_array_equal(one, two)  # it is as it was


@pytest.mark.parametrize("view", [FeatureSums, SampleFeatures])
def test_weights_are_repeated_rows(view):
    class Host:
        reference = np.empty(0)
        rounded = put = staticmethod(lambda a, _=None: a)

    operator, _, Y, _ = problem(Host, 15, 8, 2)
    counts = np.arange(15) % 3 + 1.0
    X = operator.rows.source
    repeated = HermiteOperator(
        Rows(np.repeat(X, counts.astype(int), axis=0), X[:0, 0]), operator.tuples, operator.scales
    )
    weighted = view.from_operator(operator, Y, counts[:, None]).solve(1.0)
    copies = view.from_operator(repeated, np.repeat(Y, counts.astype(int), axis=0), None).solve(1.0)
    for one, two in zip(weighted, copies, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-10)


def test_where_the_ridge_is_below_the_rounding_there_is_more(on_double):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 3)) * 1e12
    K, right = A @ A.T, A @ rng.standard_normal((3, 1))
    operator = problem(on_double, 5, 2, 1)[0]
    given = on_double.put(K), 1.0, on_double.put(right)
    found = solve_with_room(*given, lambda x: on_double.put(K) @ x[:, 0], operator)
    np.testing.assert_allclose(found, right[:, 0], atol=1e-9 * np.abs(right).max())


def test_features_that_overflow_are_named(on_double):
    operator = problem(on_double, 5, 2, 1)[0]
    K = on_double.put(np.diag([1.0, np.inf]))
    with pytest.raises(FloatingPointError, match=r"of degree \d overflow .*float64.*use clip=6"):
        solve_with_room(K, 1.0, K[:, :1], lambda x: x[:, 0], operator)
