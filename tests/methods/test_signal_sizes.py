"""Effective signal sizes: their definitions by loops over pairs and orders, and how they scale."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpukfl.kernels import InverseManhattan, ManhattanLaplace
from gpukfl.methods import (
    additive_effect_sizes,
    detectable_size,
    hierarchical_effect_sizes,
    main_effect_size,
)


def mean_of_pairs(X, F, h):
    """E[F F' h(|X - X'|_1)], pair by pair."""
    pairs = itertools.product(range(len(X)), repeat=2)
    return sum(F[i] * F[j] * h(np.abs(X[i] - X[j]).sum()) for i, j in pairs) / len(X) ** 2


def smallest_product(X, effects, column, h):
    """Definition 4.2, order by order."""
    signal = set().union(*effects)
    found = []
    for order in itertools.permutations(signal - {column}):
        product = 1.0
        for k in range(len(order) + 1):
            T = {column, *order[:k]}
            inside = [f for A, f in effects.items() if column in A and set(A) <= T]
            F = np.sum(inside, axis=0) if inside else np.zeros(len(X))
            product *= min(mean_of_pairs(X[:, sorted(T)], F, h), 1.0)
        found.append(product)
    return min(found)


def signal(on, rng, n=9):
    """Rows of four variables, and effects of three of them, as the place holds them."""
    X = on.rounded(rng.standard_normal((n, 4)))
    effects = {
        (0,): 3.0 * X[:, 0],
        (2,): np.sign(X[:, 2]),
        (0, 2): 2.0 * X[:, 0] * X[:, 2],
        (0, 2, 3): X[:, 0] * X[:, 2] * X[:, 3],
    }
    return X, {columns: on.rounded(f) for columns, f in effects.items()}


def test_additive_sizes_are_means_over_pairs(on, rng):
    X, effects = on.rounded(rng.standard_normal((2, 11, 3)))
    X[4:7, 1] = 0.5  # ties
    found = additive_effect_sizes(on.put(X), on.put(effects))
    expected = [
        abs(mean_of_pairs(X[:, [k]], effects[:, k], lambda t: t)) for k in range(X.shape[1])
    ]
    on.assert_close(found, expected, ulps=100, dtype="float64")


@given(c=st.floats(0.01, 100.0), seed=st.integers(0, 100), n=st.integers(1, 8))
@settings(max_examples=15, deadline=None)
def test_additive_sizes_scale_as_the_variable_and_the_squared_effect(c, seed, n):
    X, effects = np.random.default_rng(seed).standard_normal((2, n, 2))
    size = additive_effect_sizes(X, effects)
    assert additive_effect_sizes(c * X + 3.0, effects) == pytest.approx(
        c * size, rel=1e-9, abs=1e-9
    )
    assert additive_effect_sizes(X, c * effects) == pytest.approx(c**2 * size, rel=1e-9)


@pytest.mark.parametrize(
    ("kernel", "h"),
    [
        (None, lambda t: math.exp(-t)),
        (ManhattanLaplace(2.0), lambda t: math.exp(-t / 2)),
        (InverseManhattan(), lambda t: 1 / (1 + t)),
    ],
    ids=["default", "laplace", "inverse"],
)
def test_main_effect_size_is_the_least_product_over_orders(on, rng, kernel, h):
    X, effects = signal(on, rng)
    placed = {columns: on.put(f) for columns, f in effects.items()}
    for column in (0, 2, 3):
        found = main_effect_size(on.put(X), placed, column, kernel=kernel)
        expected = smallest_product(X, effects, column, h)
        assert found == pytest.approx(expected, rel=1e4 * on.eps, abs=1e-12)
    assert main_effect_size(on.put(X), placed, 3, kernel=kernel) == 0.0  # no main effect
    assert main_effect_size(on.put(X), placed, 1, kernel=kernel) == 0.0  # no signal


def test_a_single_main_effect_is_the_mean_over_pairs(rng):
    x = rng.standard_normal((10, 1))
    f = 0.1 * x[:, 0]
    size = main_effect_size(x, {(0,): f}, 0)
    assert size == pytest.approx(mean_of_pairs(x, f, lambda t: math.exp(-t)), rel=1e-12)
    assert main_effect_size(x, {(0,): 3.0 * f}, 0) == pytest.approx(9.0 * size, rel=1e-12)


def test_hierarchical_sizes_are_those_of_the_definition(on, rng):
    X = on.rounded(rng.standard_normal((8, 3)))
    effects = on.rounded(2.0 * np.cumprod(X, axis=1))
    found = hierarchical_effect_sizes(on.put(X), on.put(effects))
    products = []
    for m in range(3):
        product = 1.0
        for j in range(m, 3):
            F = effects[:, m : j + 1].sum(axis=1)
            product *= min(mean_of_pairs(X[:, : j + 1], F, lambda t: math.exp(-t)), 1.0)
        products.append(product)
    expected = [min(products[: k + 1]) for k in range(3)]
    assert found == pytest.approx(expected, rel=1e4 * on.eps)


def test_hierarchical_size_of_one_variable_is_its_main_effect_size(rng):
    X = rng.standard_normal((12, 1))
    assert hierarchical_effect_sizes(X, X)[0] == pytest.approx(
        main_effect_size(X, {(0,): X[:, 0]}, 0), rel=1e-12
    )


def test_detectable_size():
    assert detectable_size(0.04, 3.0) == pytest.approx(0.2 * 1.2 + 0.12, rel=1e-14)
    assert detectable_size(0.0, 5.0) == 0.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X: additive_effect_sizes(X, X[:, :1]), r"alike, got \(5, 2\), \(5, 1\)"),
        (lambda X: hierarchical_effect_sizes(X, X[:3]), r"alike, got \(5, 2\), \(3, 2\)"),
        (lambda X: main_effect_size(X, {(2,): X[:, 0]}, 0), r"from 0 to 1, got \[2\]"),
        (lambda X: main_effect_size(X, {(): X[:, 0]}, 0), r"from 0 to 1, got \[\]"),
        (lambda X: main_effect_size(X, {(0,): X}, 0), r"effects \(5,\), got \(5, 2\)"),
        (lambda _: detectable_size(-1.0, 0.0), "ridge of at least 0 and finite, got -1.0"),
        (lambda _: detectable_size(1.0, math.nan), "sparsity of at least 0 and finite, got nan"),
        (
            lambda _: main_effect_size(np.ones((2, 20)), {tuple(range(17)): np.ones(2)}, 0),
            "at most 16 columns in all, got 17",
        ),
    ],
)
def test_bad_arguments_are_named(rng, make, message):
    with pytest.raises(ValueError, match=message):
        make(rng.standard_normal((5, 2)))
