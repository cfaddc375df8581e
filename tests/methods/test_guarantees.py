"""Hyperparameters of the theorems: their formulas, and how they scale."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpukfl.methods import (
    convergence_gap,
    convergence_ridge,
    degradation,
    gaussian_complexity,
    guaranteed_ridge,
    guaranteed_strength,
    pruning_candidates,
    pruning_penalty,
    sufficient_centers,
)

sizes = st.floats(1e-3, 1e3)
counts = st.integers(1, 10**6)
shares = st.floats(1e-6, 0.9)


def close(value):
    return pytest.approx(value, rel=1e-12)


@given(n=counts, d=st.integers(1, 1000), mean=sizes, largest=sizes)
@settings(max_examples=20, deadline=None)
def test_complexity_is_the_smaller_of_theorems_12_and_14(n, d, mean, largest):
    given_sizes = {"mean_norm": mean, "mean_squared_maximum": largest**2}
    of_d = 8 * np.sqrt(d / n) * np.sqrt(np.log(n + 1)) * np.sqrt(mean)
    for sphere, factor in (("l2", 1.0), ("l1", np.log(2 * d) ** 0.25)):
        free = 3 / n ** (1 / 6) * factor * np.sqrt(largest)
        found = gaussian_complexity(n, d, **given_sizes, sphere=sphere)
        assert found == close(min(free, of_d))
    scaled = {"mean_norm": 4 * mean, "mean_squared_maximum": 16 * largest**2}
    assert gaussian_complexity(n, d, **scaled) == close(
        2 * gaussian_complexity(n, d, **given_sizes)
    )


@given(n=counts, G=sizes, L=sizes, sigma=sizes, delta=shares)
@settings(max_examples=20, deadline=None)
def test_ridge_is_that_of_theorem_16(n, G, L, sigma, delta):
    found = guaranteed_ridge(n, complexity=G, lipschitz=L, variance_proxy=sigma**2, delta=delta)
    tail = 288 * L * sigma / np.sqrt(n) * np.sqrt(np.log(1 / delta))
    assert found == close(12 * L * (1 / np.sqrt(n) + G) + tail)
    # Twice it is the factor of Ω(f*) in the bound of the risk
    bound = 24 * L * (1 / np.sqrt(n) + G + 24 * sigma / np.sqrt(n) * np.sqrt(np.log(1 / delta)))
    assert 2 * found == close(bound)


@given(
    n=counts, d=st.integers(1, 30), R=st.floats(0.0, 20.0), rho=st.floats(0.01, 0.95), delta=shares
)
@settings(max_examples=20, deadline=None)
def test_strength_is_that_of_corollary_4_1(n, d, R, rho, delta):
    options = {"radius": R, "degree_decay": rho, "delta": delta}
    found = guaranteed_strength(n, d, lipschitz=3.0, **options)
    root = np.sqrt(1 + np.exp(R**2 / 2) / (1 - rho) ** d)
    spread = 8 * np.sqrt(np.pi / 2) + 2 * np.sqrt(2) * np.sqrt(np.log(2 / delta))
    assert found == close(3 / np.sqrt(n) * root * spread)
    assert guaranteed_strength(4 * n, d, lipschitz=3.0, **options) == close(found / 2)


def test_strength_lasts_until_it_is_beyond_float64():
    options = {"lipschitz": 1.0, "degree_decay": 0.5, "delta": 0.1}
    radius = 45.0  # exp(radius²/2) is beyond float64, its root is not
    found = guaranteed_strength(10**6, 2, radius=radius, **options)
    spread = 8 * math.sqrt(math.pi / 2) + 2 * math.sqrt(2 * math.log(20))
    assert found == close(1e-3 * spread * math.exp(radius**2 / 4) * 2)
    assert guaranteed_strength(10, 2, radius=100.0, **options) == math.inf
    assert guaranteed_strength(10, 2, radius=100.0, **options | {"lipschitz": 0.0}) == 0.0


@given(ridge=st.floats(1e-9, 1.0), delta=shares, kappa=sizes, dimension=st.floats(0.0, 1e6))
@settings(max_examples=20, deadline=None)
def test_centers_are_those_of_theorem_2(ridge, delta, kappa, dimension):
    log_ratio = np.log(4 * kappa / (ridge * delta))
    expected = max(67 * log_ratio, 5 * dimension * log_ratio, 1.0)
    found = sufficient_centers(ridge, delta, largest=kappa, dimension=dimension)
    assert expected * (1 - 1e-12) <= found <= expected * (1 + 1e-12) + 1
    at_most = sufficient_centers(ridge, delta, largest=kappa)
    assert at_most == sufficient_centers(ridge, delta, largest=kappa, dimension=kappa / ridge)
    # Kernel and ridge in other units
    assert sufficient_centers(2.0 * ridge, delta, largest=2.0 * kappa) == pytest.approx(
        at_most, abs=1
    )


@pytest.mark.parametrize("n", [10, 1000])
@pytest.mark.parametrize("n_steps", [1, 10_000])
def test_convergence_ridge_gives_eq_75_and_no_lower_value_of_its_terms(n, n_steps):
    radius, rho, theta, kappa = 4.0, 1.7, 0.3, 1.0
    ridge = convergence_ridge(n, radius, rho)
    assert ridge == close(np.sqrt(8 * rho**2 / (radius**2 * n)))
    steps = n / (np.sqrt(32) * n_steps) * (kappa + np.sqrt(8 / n)) ** 2 * (1 + np.log(n_steps))
    expected = rho * radius / np.sqrt(n) * (np.sqrt(32) + 2 * theta + steps)
    assert convergence_gap(n, n_steps, ridge, radius, rho, theta, kappa) == close(expected)
    limits = [
        convergence_gap(n, 10**12, factor * ridge, radius, rho, theta, kappa)
        for factor in (0.8, 1.0, 1.25)
    ]
    assert min(limits) == limits[1]


@given(tolerance=sizes, T=counts, rho=sizes, theta=sizes, total=sizes)
@settings(max_examples=20, deadline=None)
def test_pruning_penalty_is_eq_62(tolerance, T, rho, theta, total):
    options = {"rho": rho, "theta": theta, "coefficient_sum": total}
    found = pruning_penalty(tolerance, T, **options)
    assert found == close(tolerance**2 / (12 * T * rho**2 * theta**2 * total))
    assert pruning_penalty(2 * tolerance, T, **options) == close(4 * found)


def test_pruning_penalty_where_theta_and_coefficients_are_far_from_1():
    found = pruning_penalty(1.0, 1, rho=1.0, theta=1e-250, coefficient_sum=1e300)
    assert found == close(1e200 / 12)
    assert pruning_penalty(1.0, 1, rho=1.0, theta=1e-300, coefficient_sum=1.0) == math.inf


def test_pruning_at_its_penalty_costs_less_than_the_tolerance(rng):
    T, rho, theta, tolerance = 30, 1.5, 0.8, 0.5
    w = rng.standard_normal((T, 2))
    G = np.exp(-0.5 * ((w[:, None] - w[None]) ** 2).sum(axis=2))
    a = rng.standard_normal((T, 1))
    penalty = pruning_penalty(
        tolerance, T, rho=rho, theta=theta, coefficient_sum=float(np.abs(a).sum())
    )
    top = float(np.abs(G @ a).max()) / T
    (pruned,) = pruning_candidates(G, a, penalties=[penalty / top])
    assert 0.0 < degradation(theta * float(pruned.distance[0]), rho) < tolerance


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gaussian_complexity(0, 1, mean_norm=1, mean_squared_maximum=1), "n of at least 1"),
        (
            lambda: gaussian_complexity(1, 1, mean_norm=math.nan, mean_squared_maximum=1),
            "mean_norm of at least 0 and finite, got nan",
        ),
        (
            lambda: gaussian_complexity(1, 1, mean_norm=1, mean_squared_maximum=1, sphere="l3"),
            "sphere to be one of 'l2', 'l1', got 'l3'",
        ),
        (
            lambda: guaranteed_ridge(1, complexity=1, lipschitz=1, variance_proxy=1, delta=0.0),
            "delta between 0 and 1, got 0.0",
        ),
        (
            lambda: guaranteed_ridge(1, complexity=1, lipschitz=-1, variance_proxy=1, delta=0.1),
            "lipschitz of at least 0 and finite, got -1",
        ),
        (
            lambda: guaranteed_strength(1, 1, radius=1, degree_decay=1.0, lipschitz=1.0, delta=0.1),
            "degree_decay between 0 and 1, got 1.0",
        ),
        (lambda: sufficient_centers(0.0, 0.1), "positive, finite ridge, got 0.0"),
        (lambda: sufficient_centers(1e-308, 0.1, dimension=1e308), "within float64"),
        (lambda: convergence_ridge(1, 0.0, 1.0), "positive, finite radius, got 0.0"),
        (
            lambda: pruning_penalty(1.0, 1, rho=1.0, theta=0.0, coefficient_sum=1.0),
            "positive, finite theta, got 0.0",
        ),
    ],
)
def test_bad_numbers_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
