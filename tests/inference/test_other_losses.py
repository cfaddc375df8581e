"""Inference on fits by other losses than the squared one."""

import numpy as np
import pytest
from sklearn.metrics import d2_absolute_error_score, d2_tweedie_score

import gpukfl
from gpukfl import HKRRRegressor, KernelFeatureSelector, KernelRidgeRegressor
from gpukfl.estimators.selection import Knockoffs, Stability
from gpukfl.inference import bands, conditional_importance, infer, interactions, subspace
from gpukfl.losses import make_loss

LOSSES = ("absolute", "quantile:0.8", "huber", "poisson", "tweedie:1.5")


def draw(loss, n, seed):
    """Rows of three columns, of which the last says nothing beside the first."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    X[:, 2] = 0.7 * X[:, 0] + 0.7 * X[:, 2]
    if loss in ("poisson", "tweedie:1.5"):
        return X, rng.poisson(np.exp(0.3 + 0.6 * X[:, 0])).astype(float)
    return X, X[:, 0] + 0.5 * np.exp(0.5 * X[:, 1]) * rng.standard_t(3, n)


def fitted(loss, seed=0, n=120):
    X, y = draw(loss, n, seed)
    return KernelRidgeRegressor("gaussian", loss=loss, random_state=0, n_centers=30).fit(X, y)


@pytest.mark.parametrize(
    ("loss", "score"),
    [
        ("absolute", d2_absolute_error_score),
        ("poisson", lambda y, p: d2_tweedie_score(y, p, power=1)),
    ],
)
def test_importances_are_in_units_of_the_loss_of_the_fit(loss, score):
    model, (X, y) = fitted(loss), draw(loss, 200, 1)
    # Of two groups that are all columns together, redrawing both is saying what no column says
    found = conditional_importance(model, X, y, groups={"all": [0, 1, 2]}, n_permutations=99)
    assert found.unit == f"D² of the {make_loss(loss).words}"
    whole = score(y, model.predict(X))
    # What is redrawn predicts no better than the best constant
    assert found.importances[0] >= whole - 0.02


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_a_column_that_says_nothing_has_no_small_p_values(loss):
    found = []
    for seed in range(40):
        model, (X, y) = fitted(loss, seed), draw(loss, 100, 1_000 + seed)
        how = {"groups": {"none": [2]}, "n_permutations": 199, "n_copies": 10}
        found.append(conditional_importance(model, X, y, **how).p_values[0])
    # 40 draws at a level of .1: more than 10 have a probability of 1e-3
    assert np.count_nonzero(np.array(found) <= 0.1) <= 10


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["poisson", "tweedie:1.5"])
def test_pairs_of_an_additive_mean_have_no_small_p_values(loss):
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((260, 2))
        y = rng.poisson(2.0 + np.abs(X[:, 0]) + 0.5 * np.sin(X[:, 1])).astype(float)
        model = KernelRidgeRegressor("gaussian", loss=loss, random_state=0, n_centers=30)
        model.fit(X[:100], y[:100])
        found.append(interactions(model, X[100:], y[100:], n_permutations=199).p_values[0])
    assert np.count_nonzero(np.array(found) <= 0.1) <= 10


@pytest.mark.parametrize("loss", ["absolute", "quantile:0.8", "huber"])
def test_pairs_of_what_is_no_mean_are_measured_but_not_tested(loss):
    model, (X, y) = fitted(loss), draw(loss, 60, 1)
    with pytest.raises(ValueError, match="expected a model of means"):
        interactions(model, X, y)
    assert interactions(model, X).p_values is None
    found = infer(model, X, y, held_out=True, features=[0])
    assert found.interactions.p_values is None
    assert found.importance.unit.startswith("D² of the")


def test_targets_that_the_loss_is_not_of_are_refused():
    model, (X, y) = fitted("poisson"), draw("poisson", 60, 1)
    with pytest.raises(ValueError, match="targets of at least 0"):
        conditional_importance(model, X, y - 2.0)


def test_bands_are_of_what_the_loss_asks_for():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 2))
    y = np.exp(X[:, 0]) * rng.exponential(size=150)
    model = KernelRidgeRegressor("gaussian", loss="absolute", random_state=0, n_centers=30)
    found = bands(model.fit(X, y), X, y, features=[0], points=7)
    assert "10 fits" in found.summary()
    (one,) = found.curves
    np.testing.assert_allclose(one.center, one.model, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["absolute", "poisson"])
def test_directions_are_judged_by_the_loss_of_the_fit(loss):
    X, y = draw(loss, 80, 0)
    model = HKRRRegressor(loss=loss, random_state=0, n_centers=30).fit(X, y)
    found = subspace(model, X, y, n_folds=2, max_directions=1)
    # The loss of no direction is that of the best constant of other rows, in its own units
    assert found.losses[0] == pytest.approx(1.0, abs=0.2)
    assert found.losses[1] < found.losses[0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*reweighted fits")  # of targets that say nothing
def test_a_direction_too_many_has_no_small_p_values():
    found = []
    for seed in range(12):
        X, y = draw("poisson", 80, seed)
        y = np.random.default_rng(seed).permutation(y)
        model = HKRRRegressor(loss="poisson", random_state=0, n_centers=30).fit(X, y)
        if len(model.components_):
            found.append(subspace(model, X, y, n_folds=3, max_directions=1).p_values[0])
    assert found
    assert np.count_nonzero(np.array(found) <= 0.1) <= 5


@pytest.mark.parametrize("control", ["fdr", Knockoffs(0.5), Stability(10)])
def test_selections_with_bounds_of_errors_take_squared_errors_alone(control):
    X, y = draw("poisson", 40, 0)
    model = KernelFeatureSelector(loss="poisson", error_control=control)
    with pytest.raises(ValueError, match="expected loss='squared' with error_control"):
        model.fit(X, y)
    assert not hasattr(model, "predictor_")


@pytest.mark.slow
def test_the_folds_of_a_blend_of_counts_are_asked_by_its_loss():
    X, y = draw("poisson", 150, 0)
    model = gpukfl.fit(
        X, y, loss="poisson", members=["linear", "trees"], n_folds=2, refit=False, n_jobs=1
    )
    found = conditional_importance(model, n_permutations=99)
    assert found.unit == "D² of the Poisson deviance"
    assert found.importances[0] > found.importances[2]
