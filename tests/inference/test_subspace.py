"""Directions: their number, tests, and angles between fits."""

import numpy as np
import pytest
from scipy.stats import t as student

from gpukfl import BKerNNRegressor, HKRRRegressor, KernelFeatureSelector
from gpukfl.estimators import KernelRidgeRegressor
from gpukfl.inference import Subspace, subspace

plt = pytest.importorskip("matplotlib.pyplot")

RNG = np.random.default_rng(3)
X = RNG.uniform(-1.5, 1.5, (150, 4))
U = X @ np.array([1.0, 1.0, -1.0, 0.0]) / np.sqrt(3.0)
Y = np.sin(1.5 * U) + 0.3 * RNG.standard_normal(150)


@pytest.fixture(scope="module")
def found():
    model = HKRRRegressor(2, criterion="evidence", random_state=0).fit(X, Y)
    return subspace(model, X, Y, max_directions=3)


def made(losses, angles=None, weights=None, folds=5):
    n = len(losses)
    weights = np.ones(n) if weights is None else weights
    angles = np.zeros((0, 10)) if angles is None else angles
    return Subspace(np.eye(2), ("a", "b"), angles, losses, weights, folds, 1)


# ---------------------------------------------------------------------- what is found


def test_one_direction_of_a_single_index_is_found(found):
    assert found.n_directions == 1
    assert found.p_values[0] < 1e-6
    assert found.p_values[1] > 0.01
    assert np.median(found.angles[0]) < 15.0
    assert found.angles.shape[1] == 10
    assert abs(found.directions[0] @ [1.0, 1.0, -1.0, 0.0]) / np.sqrt(3.0) > 0.98


def test_a_direction_that_no_fit_has_changes_nothing(found):
    assert found.losses[3] == found.losses[2]
    assert found.p_values[2] == 1.0


def test_noise_speaks_for_no_direction():
    noise = RNG.standard_normal(150)
    model = HKRRRegressor(1, criterion="evidence", random_state=0).fit(X, noise)
    found = subspace(model, X, noise)
    assert found.n_directions == 0
    assert found.p_values.min() > 0.01
    assert "no direction" in found.in_words()


@pytest.mark.parametrize(
    "model",
    [BKerNNRegressor(8, random_state=0), KernelFeatureSelector(sparsity=0.01, random_state=0)],
)
def test_other_methods_are_asked_alike(model):
    y = X[:, 0] ** 2 + 0.1 * RNG.standard_normal(150)
    found = subspace(model.fit(X, y), X, y, n_folds=3, max_directions=1)
    assert found.p_values[0] < 0.01
    assert found.n_folds == 3
    assert found.angles.shape[1] == 3


# ---------------------------------------------------------------------- arithmetic


def test_the_rule_and_the_test_are_those_of_the_formulas():
    losses = np.stack([np.full(50, 2.0), 1.0 + 0.1 * RNG.standard_normal(50)], axis=1)
    losses = np.concatenate([losses, losses[:, 1:] - 1e-4], axis=1)
    one = made(losses)
    assert one.n_directions == 1
    errors = losses.std(axis=0, ddof=1) / np.sqrt(50)
    assert np.allclose(one.standard_errors, errors)
    away = losses[:, 0] - losses[:, 1]
    enlarged = np.sqrt(1.0 + 5.0 / 4.0) * away.std(ddof=1) / np.sqrt(50)
    assert one.gain_errors[0] == pytest.approx(enlarged)
    assert one.p_values[0] == pytest.approx(student.sf(away.mean() / enlarged, 49))


def test_one_row_that_is_missed_by_far_speaks_for_no_direction():
    losses = np.tile([1.0, 0.25, 0.25], (200, 1)) + 0.1 * RNG.standard_normal((200, 1))
    losses[0, 1] = 12.0
    one = made(losses)
    assert one.losses[1] > one.losses[2] + one.standard_errors[2]
    assert one.p_values[1] > 0.2
    assert one.n_directions == 1


def test_directions_that_matter_only_together_are_found():
    losses = np.tile([1.0, 1.0, 0.1], (50, 1)) + 0.05 * RNG.standard_normal((50, 3))
    assert made(losses).n_directions == 2


def test_an_integer_weight_counts_as_copies_in_the_mean():
    losses = RNG.uniform(0.5, 1.0, (20, 3))
    weights = RNG.integers(1, 4, 20).astype(float)
    copies = made(np.repeat(losses, weights.astype(int), axis=0))
    assert np.allclose(made(losses, weights=weights).losses, copies.losses)


def test_frame_words_and_picture(found):
    frame = found.frame()
    assert list(frame["directions"]) == [0, 1, 2, 3]
    assert np.isnan(frame["p_value"][0])
    assert np.isnan(frame["angle"][3])
    assert "one direction" in found.in_words()
    assert "Directions: 1 by rows left out, the model has 1" in found.summary()
    assert len(found.named()) == len(found.directions)
    _, ax = plt.subplots()
    assert found.plot(ax=ax) is ax


# ---------------------------------------------------------------------- bad input


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="learned directions, got KernelRidgeRegressor"):
        subspace(KernelRidgeRegressor().fit(X, Y), X, Y)
    model = HKRRRegressor(1, criterion="evidence", random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="at least 20 rows for 5 folds, got 19"):
        subspace(model, X[:19], Y[:19])
    with pytest.raises(ValueError, match="n_folds"):
        subspace(model, X, Y, n_folds=1)
    with pytest.raises(ValueError, match="max_directions"):
        subspace(model, X, Y, max_directions=0)
