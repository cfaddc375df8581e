"""Lengthscales are those of the lowest error that leaving out each sample finds nearby."""

import numpy as np
import oracles
import pytest

from gpukfl.kernels import Gaussian, Linear
from gpukfl.methods import STRETCHES, leave_one_out_lengthscale, lowest_nearby

RIDGES = [1e-4, 1e-3, 1e-2, 1e-1]


@pytest.mark.parametrize("lowest", STRETCHES)
def test_a_valley_is_found(lowest):
    seen = []

    def error(stretch):
        seen.append(stretch)
        return 1.0 + abs(np.log2(stretch / lowest))

    assert lowest_nearby(error, STRETCHES, 2.0) == lowest
    assert len(seen) == len(set(seen)) <= 6


def test_a_plain_is_not_walked():
    assert lowest_nearby(lambda s: 1.0 - 1e-4 * s, STRETCHES, 2.0) == 2.0
    assert lowest_nearby(lambda _: np.inf, STRETCHES, 2.0) == 2.0
    assert lowest_nearby(lambda s: np.inf if s > 0.5 else s, STRETCHES, 1.0) == 0.25


@pytest.mark.few
@pytest.mark.pairs
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("wiggles", [0.3, 2.0, 8.0])
def test_it_is_that_of_the_lowest_left_out_error(on, rng, weighted, wiggles):
    X = on.rounded(rng.uniform(-1, 1, (40, 1)))
    Y = np.sin(wiggles * X) + 0.1 * rng.standard_normal(X.shape)
    Y = on.rounded(Y - Y.mean())
    D = on.rounded(rng.uniform(0.5, 2.0, (40, 1)) if weighted else np.ones((40, 1)))
    placed = on.put(X), on.put(Y), on.put(D) if weighted else None
    found = leave_one_out_lengthscale(Gaussian(), *placed, typical=0.5, ridges=RIDGES)

    def error(stretch):
        K = oracles.gaussian(X, X, 0.5 * stretch)
        shifts = [D.sum() * ridge for ridge in RIDGES]
        return min(oracles.left_out_errors((K, K), Y, D, shift) for shift in shifts)

    errors = {stretch: error(stretch) for stretch in STRETCHES}
    at = STRETCHES.index(found / 0.5)
    for near in STRETCHES[max(at - 1, 0) : at + 2]:
        assert errors[found / 0.5] <= errors[near] / (1 - 3e-3)


def test_a_kernel_without_a_scale_keeps_the_start(on, rng):
    X = on.rounded(rng.standard_normal((40, 2)))
    Y = on.put(X[:, :1] - X[:, :1].mean())
    ridges = [4.0**k for k in range(-12, 3)]
    noise = on.put(on.rounded(rng.standard_normal((40, 1))))
    found = leave_one_out_lengthscale(
        Linear(), on.put(X), Y + noise, None, typical=1.0, ridges=ridges
    )
    assert found == 2.0
