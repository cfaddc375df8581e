"""Bounds of RKHS weightings: their formulas, and that they hold where the risk is known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpukfl.instantiations import Stumps
from gpukfl.methods import (
    Logistic,
    convergence_gap,
    degradation,
    degradation_on_sample,
    doubling,
    generalization_gap,
)

DELTA = 0.05
log_norms = st.floats(-40.0, 5000.0)


def test_formulas():
    gap = generalization_gap(1.5, 2.5, 7.0, 400, DELTA)
    assert gap == pytest.approx(2 * 1.5 * 2.5 / 20 + 7.0 * np.sqrt(np.log(20) / 800), rel=1e-14)
    assert degradation(0.3, 2.0) == pytest.approx(0.6, rel=1e-14)
    change = degradation_on_sample(-0.01, 0.3, 2.0, 100, DELTA)
    assert change == pytest.approx(-0.01 + 0.06 * (2 + np.sqrt(2 * np.log(20))), rel=1e-14)
    gap = convergence_gap(50, 200, ridge=0.1, radius=3.0, rho=2.0, theta=0.5, kappa=0.8)
    expected = 6 / np.sqrt(50) + 0.9 + 32 / 5 + 1.9**2 / 40 * (1 + np.log(200))
    assert gap == pytest.approx(expected, rel=1e-14)


def test_predictions_that_grow_faster_than_the_norm_cost_more():
    at_one, above = (convergence_gap(10, 10, 0.1, 0.0, 1.0, theta, 3.0) for theta in (1.0, 3.0))
    assert above - at_one == pytest.approx(8 * (3.0**2 - 1) / (0.1 * 10), rel=1e-13)


def test_more_samples_and_smaller_weightings_are_better():
    base = {"capacity": 2.0, "rho": 1.5, "largest": 3.0, "n": 100, "delta": DELTA}
    gap = generalization_gap(**base)
    for better in ({"capacity": 1.0}, {"rho": 1.0}, {"largest": 2.0}, {"n": 200}, {"delta": 0.1}):
        assert generalization_gap(**base | better) < gap
    change = degradation_on_sample(0.0, 2.0, 1.5, 100, DELTA)
    for better in ((-0.1, 2.0, 1.5, 100), (0.0, 1.0, 1.5, 100), (0.0, 2.0, 1.0, 100)):
        assert degradation_on_sample(*better, DELTA) < change
    assert degradation_on_sample(0.0, 2.0, 1.5, 200, 0.1) < change
    more = [convergence_gap(n, 10 * n, 0.1, 2.0, 1.0, 0.5, 1.0) for n in (10, 100, 1000)]
    assert more == sorted(more, reverse=True)


def test_what_is_beyond_float64_is_infinite():
    assert generalization_gap(math.inf, 1.0, 1.0, 10, DELTA) == math.inf
    assert generalization_gap(1e200, 1e200, 1.0, 10, DELTA) == math.inf
    assert convergence_gap(10, 10, 0.1, 1e200, 1.0, 0.5, 1.0) == math.inf


def test_shares_of_delta_sum_to_delta():
    shares = {}
    for j in range(-60, 3000):
        log_radius, share = doubling((j - 0.5) * math.log(2.0), DELTA)
        shares[round(log_radius / math.log(2.0))] = share
    assert sorted(shares) == list(range(-60, 3000))
    # Those left out, by integrals of (1 + j)^-2
    rest = DELTA / (math.pi**2 / 3 - 1) * (1 / 61.5 + 1 / 3000.5)
    assert sum(shares.values()) + rest == pytest.approx(DELTA, rel=1e-5)
    assert sum(shares.values()) < DELTA


@given(log_norms)
def test_the_radius_covers_the_norm_and_not_twice_it(log_norm):
    log_radius, share = doubling(log_norm, DELTA)
    assert log_norm <= log_radius <= log_norm + math.log(2.0) * (1 + 1e-9)
    assert log_radius / math.log(2.0) == pytest.approx(round(log_radius / math.log(2.0)), abs=1e-9)
    assert 0.0 < share < DELTA


def test_a_norm_just_above_a_power_of_two_is_covered():
    for j in range(-60, 3000):
        log_norm = math.nextafter(j * math.log(2.0), math.inf)
        assert doubling(log_norm, DELTA)[0] >= log_norm


@pytest.mark.parametrize("j", [-1074, -65, -64, -30, 0, 29, 1023])
def test_powers_of_two_are_their_own_radius(j):
    log_radius, share = doubling(math.log(math.ldexp(1.0, j)), DELTA)
    nearest = round(log_radius / math.log(2.0))
    assert nearest - max(j, -64) in (0, 1)  # the logarithm of 2^29 is rounded up
    assert share == pytest.approx(DELTA / (math.pi**2 / 3 - 1) / (1 + abs(nearest)) ** 2)


def test_a_norm_of_zero_has_a_radius():
    log_radius, share = doubling(-math.inf, DELTA)
    assert log_radius == -64 * math.log(2.0)
    assert 0.0 < share < DELTA


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: generalization_gap(-1.0, 1.0, 1.0, 5, 0.1), "capacity of at least 0, got -1.0"),
        (lambda: generalization_gap(1.0, math.nan, 1.0, 5, 0.1), "rho of at least 0, got nan"),
        (lambda: generalization_gap(1.0, 1.0, -2.0, 5, 0.1), "largest of at least 0, got -2.0"),
        (lambda: generalization_gap(1.0, 1.0, 1.0, 0, 0.1), "n of at least 1, got 0"),
        (lambda: generalization_gap(1.0, 1.0, 1.0, 5, 0.0), "delta between 0 and 1, got 0.0"),
        (lambda: generalization_gap(1.0, 1.0, 1.0, 5, 1.0), "delta between 0 and 1, got 1.0"),
        (lambda: degradation(-1.0, 1.0), "capacity_of_difference of at least 0, got -1.0"),
        (lambda: degradation_on_sample(0.0, 1.0, -1.0, 5, 0.1), "rho of at least 0, got -1.0"),
        (lambda: degradation_on_sample(0.0, 1.0, 1.0, 0, 0.1), "n of at least 1, got 0"),
        (lambda: degradation_on_sample(0.0, 1.0, 1.0, 5, 2.0), "delta between 0 and 1, got 2.0"),
        (lambda: doubling(0.0, math.nan), "delta between 0 and 1, got nan"),
        (lambda: doubling(math.inf, 0.1), "logarithm of a finite norm, got inf"),
        (lambda: doubling(math.nan, 0.1), "logarithm of a finite norm, got nan"),
        (lambda: convergence_gap(0, 1, 1.0, 1.0, 1.0, 1.0, 1.0), "n of at least 1, got 0"),
        (lambda: convergence_gap(1, 0, 1.0, 1.0, 1.0, 1.0, 1.0), "n_steps of at least 1, got 0"),
        (lambda: convergence_gap(1, 1, 0.0, 1.0, 1.0, 1.0, 1.0), "positive, finite ridge, got 0.0"),
        (lambda: convergence_gap(1, 1, 1.0, -1.0, 1.0, 1.0, 1.0), "radius of at least 0, got -1.0"),
        (lambda: convergence_gap(1, 1, 1.0, 1.0, 1.0, -1.0, 1.0), "theta of at least 0, got -1.0"),
        (lambda: convergence_gap(1, 1, 1.0, 1.0, 1.0, 1.0, -1.0), "kappa of at least 0, got -1.0"),
    ],
)
def test_bad_numbers_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


class Simulation:
    """Weightings of stumps fitted to labels that are mostly noise, and their risks."""

    n, d, n_parameters = 50, 4, 60

    def __init__(self, seed):
        stumps, random = Stumps(gamma=0.3), np.random.RandomState(seed)
        W = stumps.draw(self.n_parameters, self.d, random)
        features = stumps.features(W, self.d)
        self.G, self.constants = stumps.kernel(W, W), np.exp(features.log_constants)
        self.theta, self.features = math.exp(stumps.log_theta(self.d)), features
        self.seen, self.unseen = self.sample(random, self.n), self.sample(random, 5000)

    def sample(self, random, n):
        X = random.standard_normal((n, self.d))
        y = np.where(X[:, 0] + 3.0 * random.standard_normal(n) > 0, 1.0, -1.0)
        return self.features.shapes(X) * self.constants, y

    def fit(self, ridge):
        """Coefficients of least squares, and the norm of the weighting."""
        Phi, y = self.seen
        a = np.linalg.solve(Phi.T @ Phi + ridge * self.n * self.G, Phi.T @ y)
        return a, math.sqrt(a @ self.G @ a)

    @staticmethod
    def risk(sample, a):
        Phi, y = sample
        return float(np.mean(Logistic().value(Phi @ a, y)))


def test_the_gap_holds_in_a_simulation():
    """For a radius that was fixed, and for one that was chosen by the norm."""
    broken, overfitted = np.zeros(2), 0
    for seed in range(100):
        simulation = Simulation(seed)
        a, norm = simulation.fit(1e-4)
        excess = simulation.risk(simulation.unseen, a) - simulation.risk(simulation.seen, a)
        overfitted += excess > 0.1
        log_radius, share = doubling(math.log(norm), DELTA)
        fixed = 100.0
        assert norm <= fixed
        for k, (radius, delta) in enumerate([(fixed, DELTA), (math.exp(log_radius), share)]):
            capacity = simulation.theta * radius
            loss = Logistic()
            rho, largest = loss.lipschitz(capacity), loss.largest(capacity)
            gap = generalization_gap(capacity, rho, largest, simulation.n, delta)
            broken[k] += excess > gap
    assert overfitted > 50  # there is something to bound
    assert np.max(broken) <= 100 * DELTA


def test_degradations_hold_in_a_simulation():
    """A weighting without its smaller coefficients, judged on samples it never saw."""
    broken = 0
    for seed in range(40):
        simulation = Simulation(seed)
        a, norm = simulation.fit(1e-4)
        b = np.where(np.abs(a) >= np.median(np.abs(a)), a, 0.0)
        distance = math.sqrt((a - b) @ simulation.G @ (a - b))
        capacity = simulation.theta * distance
        rho = Logistic().lipschitz(simulation.theta * (norm + distance))
        changes = [
            simulation.risk(sample, b) - simulation.risk(sample, a)
            for sample in (simulation.unseen, simulation.seen)
        ]
        assert np.max(np.abs(changes)) <= degradation(capacity, rho)
        fresh = simulation.sample(np.random.RandomState(1000 + seed), simulation.n)
        change = simulation.risk(fresh, b) - simulation.risk(fresh, a)
        bound = degradation_on_sample(change, capacity, rho, simulation.n, DELTA)
        broken += changes[0] > bound
    assert broken <= 40 * DELTA
