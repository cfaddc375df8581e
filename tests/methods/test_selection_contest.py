"""Variables against their copies: nothing may tell which is which."""

import numpy as np
import pytest
from selection_signals import hierarchy, main_effects, objective_of

from gpukfl.knockoffs import GaussianKnockoffs, contest
from gpukfl.methods import FactoredSelection, FeatureSelection, competing_weights

COPIES = 3
ALGORITHM = FeatureSelection(anchor=0.9)


def with_copies(X, seed=0):
    copies = GaussianKnockoffs().of(X, COPIES).draw(np.random.RandomState(seed))
    return np.concatenate([X, copies], axis=1)


def weights_of(columns, y, p, *, algorithm=ALGORITHM, **options):
    objective = objective_of(columns, y, **options)
    return competing_weights(algorithm, objective, p, rng=np.random.RandomState(0))[0]


@pytest.fixture(scope="module")
def signal():
    X, y = main_effects(np.random.default_rng(0), n=150, p=12)
    return with_copies(X), y, 12


def test_a_signal_outweighs_its_copies(signal):
    weights = weights_of(*signal)
    assert weights.shape == (COPIES + 1, 12)
    W = contest(weights)
    assert W[:2].min() > np.abs(W[2:]).max()


def test_an_interaction_is_found_after_its_main_effect():
    X, y = hierarchy(np.random.default_rng(1), n=200, p=10)
    columns = with_copies(X)
    W = contest(weights_of(columns, y, 10))
    assert W[:2].min() > np.abs(W[2:]).max()
    once = FeatureSelection(anchor=0.9, max_rounds=1)
    W = contest(weights_of(columns, y, 10, algorithm=once))
    assert W[0] > W[1]


def test_a_third_level_is_found_among_columns_that_go_together():
    """Neighbours and copies must not make the kernel too narrow for what comes after."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((300, 30))
    for j in range(1, 30):
        X[:, j] = 0.8 * X[:, j - 1] + 0.6 * X[:, j]
    first, second, third = X[:, 4], X[:, 14], X[:, 24]
    y = first * (1.0 + second * (1.0 + third)) + rng.standard_normal(300)
    W = contest(weights_of(with_copies(X), y / y.std(), 30))
    assert W[[4, 14, 24]].min() > np.delete(W, [4, 14, 24]).max()


@pytest.mark.parametrize("changed", [[0], [5, 7], [0, 1, 2, 3]])
@pytest.mark.parametrize("copy", [1, 3])
def test_changing_places_changes_only_signs(signal, changed, copy):
    """The flip-sign property, on which the bound on false discoveries rests."""
    columns, y, p = signal
    order = np.arange(columns.shape[1]).reshape(-1, p)
    order[[0, copy], np.array(changed)[:, None]] = order[[copy, 0], np.array(changed)[:, None]]
    before = weights_of(columns, y, p)
    after = weights_of(columns[:, order.ravel()], y, p)
    np.testing.assert_allclose(after.ravel(), before.ravel()[order.ravel()], atol=1e-6)


def test_noise_alone_says_little():
    rng = np.random.default_rng(3)
    X, wins, losses = rng.standard_normal((80, 10)), 0, 0
    for seed in range(10):
        W = contest(weights_of(with_copies(X, seed), rng.standard_normal(80), 10))
        wins, losses = wins + np.sum(W > 0), losses + np.sum(W < 0)
    assert wins <= losses


def test_the_factored_form_agrees(signal):
    columns, y, p = signal
    forms = {}, {"form": FactoredSelection, "m": 150}
    exact, factored = (contest(weights_of(columns, y, p, **form)) for form in forms)
    np.testing.assert_allclose(factored[:2], exact[:2], rtol=0.1)


def test_columns_must_be_of_variables_and_copies(signal):
    columns, y, p = signal
    for wrong in (7, 4 * p):
        with pytest.raises(ValueError, match=f"expected columns of {wrong} variables .* got 48"):
            weights_of(columns, y, wrong)


def test_it_is_the_same_everywhere(on, signal):
    columns, y, p = signal
    columns, y = on.rounded(columns), on.rounded(y)
    expected = weights_of(columns, y, p)
    actual = weights_of(columns, y, p, on=on)
    np.testing.assert_allclose(actual, expected, atol=1e-3 if on.eps > 1e-10 else 1e-7)
