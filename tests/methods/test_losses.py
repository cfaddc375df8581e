"""Losses: values and slopes by formulas in float64, and the constants that the bounds take."""

import dataclasses
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpukfl.methods import LOSSES, Hinge, Logistic, Squared

CASES = [*LOSSES.values(), Hinge(smoothing=1.0), Hinge(smoothing=0.01)]
losses = pytest.mark.parametrize("loss", CASES, ids=str)
radii = st.floats(0.0, 100.0)


def formula(loss, z, y):
    """Losses in float64, written another way."""
    if isinstance(loss, Squared):
        return (z - y) ** 2 / 2
    if isinstance(loss, Logistic):
        return np.logaddexp(0.0, -y * z)
    gap, s = 1 - y * z, loss.smoothing
    parabola = (gap + s / 2) ** 2 / (2 * s)
    return np.where(np.abs(gap) < s / 2, parabola, np.maximum(gap, 0.0))


def predictions(on, loss):
    """Predictions (n, 1) on both sides of every kink, and targets (1, q) that the loss takes."""
    z = np.concatenate([np.linspace(-4.0, 4.0, 321), [-50.0, -1e-6, 1e-6, 30.0]])
    y = [-1.0, 1.0] if loss.for_labels else [-1.0, 1.0, 0.3, -2.5]
    return on.rounded(z)[:, None], on.rounded(y)[None, :]


def evaluated(loss, name, z, y):
    """What a method gives in float64."""
    return getattr(loss, name)(*np.broadcast_arrays(np.asarray(z, dtype=float), y))


@losses
def test_values_are_those_of_the_formula(on, loss):
    z, y = np.broadcast_arrays(*predictions(on, loss))
    on.assert_close(loss.value(on.put(z), on.put(y)), formula(loss, z, y), ulps=4)


@losses
def test_derivatives_are_those_of_the_values(on, loss):
    z, y = np.broadcast_arrays(*predictions(on, loss))
    step = 1e-6
    slopes = (formula(loss, z + step, y) - formula(loss, z - step, y)) / (2 * step)
    # The smoothest hinge bends within 0.01, which a difference over 2e-6 sees well enough
    actual = on.host(loss.derivative(on.put(z), on.put(y)))
    assert np.max(np.abs(actual - slopes)) <= 200 * on.eps + 1e-4
    on.assert_close(
        loss.derivative(on.put(z), on.put(y)), evaluated(loss, "derivative", z, y), ulps=500
    )


@losses
def test_they_are_convex(loss):
    z, y = np.linspace(-6.0, 6.0, 4001)[:, None], np.asarray([[-1.0, 1.0]])
    values, slopes = (evaluated(loss, name, z, y) for name in ("value", "derivative"))
    assert np.min(np.diff(slopes, axis=0)) >= 0.0
    assert np.min(np.diff(values, n=2, axis=0)) >= -1e-14
    assert np.min(values) >= 0.0


@losses
@given(radius=radii, largest_y=st.floats(0.1, 10.0))
def test_constants_are_the_least_that_bound(loss, radius, largest_y):
    z = np.linspace(-radius, radius, 201)[:, None]
    y = np.asarray([[-largest_y, largest_y]])
    largest = np.max(evaluated(loss, "value", z, y))
    assert largest == pytest.approx(loss.largest(radius, largest_y), rel=1e-12)
    slope = np.max(np.abs(evaluated(loss, "derivative", z, y)))
    assert slope == pytest.approx(loss.lipschitz(radius, largest_y), rel=1e-12)
    # And of targets in between
    inside = np.linspace(-largest_y, largest_y, 7)[None, :]
    assert np.max(evaluated(loss, "value", z, inside)) <= largest * (1 + 1e-12)
    assert np.max(np.abs(evaluated(loss, "derivative", z, inside))) <= slope * (1 + 1e-12)


def test_constants_of_the_paper():
    assert (Squared().lipschitz(3.0), Squared().largest(3.0)) == (4.0, 8.0)
    assert (Squared().lipschitz(3.0, 2.0), Squared().largest(3.0, 2.0)) == (5.0, 12.5)
    # Eq. (73) is this many of ours, with twice the constants
    assert Squared().unit * Squared().value(np.asarray(0.2), np.asarray(1.0)) == pytest.approx(0.64)


@losses
def test_constants_beyond_float64_are_infinite(loss):
    for radius in (1e200, math.inf):
        assert loss.largest(radius) >= radius
        assert loss.lipschitz(radius) >= 1.0 - 1e-12


@losses
def test_so_many_are_at_least_the_zero_one_loss(on, loss):
    z = on.rounded([-1e4, -3.0, -1.0, -0.1, -1e-7, 0.0, 1e-7, 0.5, 1.0, 2.0, 1e4])
    for label in (-1.0, 1.0):
        wrong = (label * z <= 0).astype(float)
        values = on.host(loss.value(on.put(z), on.put(np.full_like(z, label))))
        assert np.all(loss.unit * values >= wrong * (1 - 4 * on.eps))
    at_zero = float(on.host(loss.value(on.put([0.0]), on.put([1.0])))[0])
    assert loss.unit * at_zero == pytest.approx(1.0, abs=4 * on.eps)


@losses
def test_nothing_overflows(on, loss):
    z, y = np.asarray([-1e4, 1e4, -1e4, 1e4]), np.asarray([1.0, 1.0, -1.0, -1.0])
    on.assert_close(loss.value(on.put(z), on.put(y)), formula(loss, z, y), ulps=4)
    slopes = on.host(loss.derivative(on.put(z), on.put(y)))
    assert np.all(np.isfinite(slopes))
    if loss.for_labels:
        np.testing.assert_array_equal(slopes, [-1.0, 0.0, 0.0, 1.0])


@pytest.mark.parametrize("smoothing", [1e-3, 0.5, 1.0])
def test_the_hinge_is_met_from_above(smoothing):
    t = np.linspace(-2.0, 3.0, 5001)
    values = Hinge(smoothing).value(t, np.ones_like(t))
    excess = values - np.maximum(0.0, 1.0 - t)
    assert np.min(excess) >= -1e-15
    assert np.max(excess) == pytest.approx(smoothing / 8, rel=1e-12)
    assert np.max(np.abs(excess[np.abs(t - 1) >= smoothing / 2])) <= 1e-15


@pytest.mark.parametrize("wrong", [0.0, -0.5, 1.5, math.nan, math.inf])
def test_a_smoothing_out_of_range_is_named(wrong):
    with pytest.raises(ValueError, match=f"above 0 and at most 1, got {wrong}"):
        Hinge(wrong)


@losses
def test_they_are_frozen_values_that_leave_their_arguments_alone(on, loss):
    again = pickle.loads(pickle.dumps(loss))
    assert again == loss
    assert hash(again) == hash(loss)
    with pytest.raises(dataclasses.FrozenInstanceError):
        loss.smoothing = 0.3
    hosts = np.asarray([-0.5, 0.0, 2.0]), np.asarray([1.0, -1.0, 1.0])
    placed = [on.put(host) for host in hosts]
    loss.value(*placed)
    loss.derivative(*placed)
    for a, host in zip(placed, hosts, strict=True):
        on.assert_close(a, host, ulps=0)


def test_losses_have_names():
    assert {name: type(loss).__name__.lower() for name, loss in LOSSES.items()} == {
        name: name for name in ("squared", "logistic", "hinge")
    }
    assert [name for name, loss in LOSSES.items() if not loss.for_labels] == ["squared"]
