"""Directions: their number, tests, and angles between fits."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.linear_model import LinearRegression

import gpukfl
from gpukfl import BKerNNRegressor, HKRRRegressor, KernelFeatureSelector, RKHSWeightingRegressor
from gpukfl.estimators import KernelRidgeRegressor
from gpukfl.inference import Subspace, bands, subspace
from gpukfl.inference._kernels import complete_directions

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


def test_words_say_that_the_model_has_more_directions(found):
    assert "The model has" not in replace(found, n_learned=1).in_words()
    assert "The model has 3" in replace(found, n_learned=3).in_words()


def test_noise_speaks_for_no_direction():
    noise = RNG.standard_normal(150)
    model = HKRRRegressor(1, criterion="evidence", random_state=0).fit(X, noise)
    found = subspace(model, X, noise)
    assert found.n_directions == 0
    assert found.p_values.min() > 0.01
    assert "no direction" in found.in_words()


@pytest.mark.few
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


# ---------------------------------------------------------------------- which directions

TRUE = np.array([1.0, 1.0, -1.0, 0.0]) / np.sqrt(3.0)
DIAGONAL = {
    "evidence": HKRRRegressor(criterion="evidence", random_state=0),
    "loo": HKRRRegressor(criterion="loo", random_state=0),
    "agop": HKRRRegressor(optimizer="agop", random_state=0),
}
TURNED = {
    "low rank": HKRRRegressor(2, criterion="evidence", random_state=0),
    "bkernn": BKerNNRegressor(8, random_state=0),
    "signs": RKHSWeightingRegressor(100, instantiation="gaussian_sign", random_state=0),
    "stumps": RKHSWeightingRegressor(100, instantiation="stumps", random_state=0),
}


@pytest.mark.few
@pytest.mark.parametrize("name", DIAGONAL)
def test_diagonal_maps_have_the_directions_of_the_function(name):
    """The eigenvectors of a diagonal map are the features, whatever was learned."""
    model = DIAGONAL[name].fit(X, Y)
    found = subspace(model, X, Y)
    assert np.abs(found.directions[0] @ TRUE) > 0.97
    assert found.n_directions == 1
    assert found.losses[1] < 0.3
    assert found.p_values[1] > 0.05
    assert np.median(found.angles[0]) < 10.0


def test_blends_have_the_directions_of_their_member():
    blend = gpukfl.fit(X, Y, members=["evidence_quantile"], progress=False, random_state=0)
    found = subspace(blend, X, Y, n_folds=3)
    assert np.abs(found.directions[0] @ TRUE) > 0.97
    assert found.n_directions == 1


@pytest.mark.few
@pytest.mark.parametrize("model", (DIAGONAL | TURNED).values(), ids=DIAGONAL | TURNED)
def test_the_directions_of_the_model_come_first(model):
    model.fit(X, Y)
    found, known = complete_directions(model), model.components_
    np.testing.assert_allclose(found[: len(known)], known)
    np.testing.assert_allclose(found @ found.T, np.eye(len(found)), atol=1e-8)


@pytest.mark.parametrize("name", ["evidence", "low rank"])
def test_the_others_are_in_the_order_of_the_slopes(name):
    """By differences of predictions at the rows of the fit."""
    model = HKRRRegressor(criterion="evidence", scaling=None, random_state=0)
    if name == "low rank":
        model.set_params(n_components=3)
    y = Y + 0.3 * X[:, 3] ** 2
    model.fit(X, y)
    steps = 1e-5 * np.eye(4)
    slopes = [(model.predict(X + step) - model.predict(X - step)) / 2e-5 for step in steps]
    expected = np.linalg.svd(np.transpose(slopes))[2]
    found = complete_directions(model)
    shared = np.abs(np.sum(found * expected[: len(found)], axis=1))
    np.testing.assert_allclose(shared, 1.0, atol=1e-3)


def test_the_unit_of_a_target_orders_nothing():
    both = np.column_stack([Y, X[:, 3] + 0.1 * Y])
    one, other = (
        complete_directions(
            HKRRRegressor(2, criterion="evidence", random_state=0).fit(X, both * unit)
        )
        for unit in ([1.0, 1.0], [1.0, 1e4])
    )
    np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.few
@pytest.mark.parametrize("name", ["signs", "stumps"])
def test_weightings_have_directions_too(name):
    model = TURNED[name].fit(X, Y)
    found = subspace(model, X, Y, n_folds=3, max_directions=2)
    assert found.n_directions == 1
    assert np.abs(found.directions[0] @ TRUE) > 0.95
    band = bands(model, X, Y, kind="profiles", features=[0])[0]
    assert not band.may_be_flat


@pytest.mark.torch
def test_models_of_every_library_have_the_same_directions(on):
    """Which are found on the host."""
    if on.dtype_name == "float32":
        pytest.skip("the fits differ")
    here, there = (
        HKRRRegressor(criterion="evidence", random_state=0).fit(*rows)
        for rows in ((X, Y), (on.put(X), on.put(Y)))
    )
    one, other = subspace(here, X, Y, n_folds=2), subspace(there, on.put(X), on.put(Y), n_folds=2)
    np.testing.assert_allclose(one.directions, other.directions, atol=1e-4)
    np.testing.assert_allclose(one.losses, other.losses, atol=1e-4)


def test_a_search_that_ended_at_a_direction_that_matters_says_so():
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * RNG.standard_normal(150)
    model = HKRRRegressor(criterion="evidence", random_state=0).fit(X, y)
    found = subspace(model, X, y, n_folds=3, max_directions=1)
    said = "earch ended at one direction, and the last one matters: raise max_directions"
    assert found.is_cut_off
    assert said in found.summary()
    assert said in found.in_words()


def test_a_search_that_found_its_end_says_nothing(found):
    assert not found.is_cut_off
    assert "max_directions" not in found.summary() + found.in_words()
    losses = np.tile([1.0, 0.5, 0.1], (50, 1)) + 0.05 * RNG.standard_normal((50, 3))
    assert not made(losses).is_cut_off  # there are no more features
    assert made(losses[:, :2]).is_cut_off


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
    assert "Directions: 1 by held-out rows, 1 in the model" in found.summary()
    assert len(found.named()) == len(found.directions)
    _, ax = plt.subplots()
    assert found.plot(ax=ax) is ax


# ---------------------------------------------------------------------- bad input


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="learned directions, got KernelRidgeRegressor"):
        subspace(KernelRidgeRegressor().fit(X, Y), X, Y)
    with pytest.warns(UserWarning, match="no variable"):
        nothing = KernelFeatureSelector(sparsity=100.0, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="got KernelFeatureSelector, which has none"):
        subspace(nothing, X, Y)
    other = LinearRegression().fit(X, Y)
    other.components_ = np.eye(4)  # of another library, which may mean anything by them
    with pytest.raises(ValueError, match="learned directions, got LinearRegression"):
        subspace(other, X, Y)
    model = HKRRRegressor(1, criterion="evidence", random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="at least 20 rows for 5 folds, got 19"):
        subspace(model, X[:19], Y[:19])
    with pytest.raises(ValueError, match="n_folds"):
        subspace(model, X, Y, n_folds=1)
    with pytest.raises(ValueError, match="max_directions"):
        subspace(model, X, Y, max_directions=0)
