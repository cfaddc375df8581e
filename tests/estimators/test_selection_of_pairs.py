"""What acts together with others alone is not selected, and that is said."""

import warnings

import numpy as np
import pytest

import gpukfl

N, P = 400, 4
RNG = np.random.default_rng(8)
X = RNG.choice([-1.0, 1.0], (N, P)) * RNG.uniform(0.5, 1.5, (N, P))
NOISE = RNG.standard_normal(N)
PAIRS = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + 0.4 * NOISE
MISSED = r"no variable was selected: .*, though all variables together predict well \(R² 0\.[89]"


def warned(model, *given, **options):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model.fit(*given, **options)
    assert model.n_effective_features_ == 0
    return [str(one.message) for one in heard]


def test_pairs_are_missed_on_every_place(on):
    model = gpukfl.KernelFeatureSelector(random_state=0)
    with pytest.warns(UserWarning, match=MISSED):
        model.fit(on.put(X), on.put(PAIRS))
    assert model.n_effective_features_ == 0


def test_pairs_are_missed_in_classes_and_of_several_targets():
    classifier = gpukfl.KernelFeatureSelectorClassifier(random_state=0)
    (said,) = warned(classifier, X, PAIRS > 0)
    assert "though all variables together predict well" in said
    with pytest.warns(UserWarning, match=MISSED):
        gpukfl.KernelFeatureSelector(random_state=0).fit(X, np.column_stack([PAIRS, -2 * PAIRS]))


def test_rows_without_weight_have_no_say():
    weights, y = np.ones(N), PAIRS.copy()
    weights[:100], y[:100] = 0.0, NOISE[:100]
    with pytest.warns(UserWarning, match=MISSED):
        gpukfl.KernelFeatureSelector(random_state=0).fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("n", [8, 60, N])
def test_of_noise_nothing_more_is_said(n):
    said = warned(gpukfl.KernelFeatureSelector(random_state=0), X[:n], NOISE[:n])
    assert "no variable was selected: the model predicts the mean of y" in said


def test_classes_without_a_variable_are_predicted_by_their_frequencies():
    model = gpukfl.KernelFeatureSelectorClassifier(random_state=0)
    said = warned(model, X[:60], np.where(NOISE[:60] > 0.5, "a", "b"))
    assert "no variable was selected: the model predicts the frequencies of the classes" in said


def test_the_explained_share_is_that_of_kernel_ridge_regression():
    model = gpukfl.KernelFeatureSelector(random_state=0)
    with pytest.warns(UserWarning, match=MISSED) as heard:
        model.fit(X, PAIRS)
    share = float(str(heard[0].message).split("R² ")[1].split(")")[0])
    peer = gpukfl.KernelRidgeRegressor(ridge="auto", kernel="gaussian", random_state=0)
    peer.fit(X[::2], PAIRS[::2])
    assert share == pytest.approx(peer.score(X[1::2], PAIRS[1::2]), abs=0.1)
