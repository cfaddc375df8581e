"""Prediction sets cover what they say, are never empty, and are MAPIE's where definitions agree."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from gpukfl.portfolio import ClassScores

METHODS = ("adaptive", "threshold")


def draw(rng, n, k=5, sharp=1.5):
    """Probabilities (n, k), and classes drawn from them."""
    logits = sharp * rng.standard_normal((n, k))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    codes = (rng.uniform(size=(n, 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
    return p, codes


def covered(sets, codes):
    return float(np.mean(sets[np.arange(len(codes)), codes]))


# ------------------------------------------------------------------ against MAPIE


@pytest.fixture(scope="module")
def fitted():
    X, y = make_classification(700, 8, n_informative=6, n_classes=4, random_state=0, class_sep=0.6)
    model = LogisticRegression(max_iter=1000).fit(X[:200], y[:200])
    return model, X, y


@pytest.mark.parametrize("coverage", [0.6, 0.9])
def test_threshold_sets_are_mapies(fitted, coverage):
    mapie = pytest.importorskip("mapie.classification")
    model, X, y = fitted
    peer = mapie.SplitConformalClassifier(
        model, confidence_level=coverage, prefit=True, conformity_score="lac"
    )
    _, expected = peer.conformalize(X[200:450], y[200:450]).predict_set(X[450:])
    scores = ClassScores.from_probabilities(
        model.predict_proba(X[200:450]), y[200:450], method="threshold"
    )
    found = scores.sets(model.predict_proba(X[450:]), coverage=coverage)
    filled = expected[:, :, 0].any(axis=1)
    np.testing.assert_array_equal(found[filled], expected[filled, :, 0])
    assert np.all(found[~filled].sum(axis=1) == 1)


@pytest.mark.parametrize("coverage", [0.6, 0.9])
def test_randomized_adaptive_sets_are_mapies(fitted, coverage):
    mapie = pytest.importorskip("mapie.classification")
    model, X, y = fitted
    peer = mapie.SplitConformalClassifier(
        model, confidence_level=coverage, prefit=True, conformity_score="aps", random_state=3
    )
    peer.conformalize(X[200:450], y[200:450])
    _, expected = peer.predict_set(
        X[450:], conformity_score_params={"include_last_label": "randomized"}
    )
    scores = ClassScores.from_probabilities(model.predict_proba(X[200:450]), y[200:450], seed=3)
    found = scores.sets(model.predict_proba(X[450:]), coverage=coverage)
    filled = expected[:, :, 0].any(axis=1)
    np.testing.assert_array_equal(found[filled], expected[filled, :, 0])


# ------------------------------------------------------------------ laws


def test_scores_are_the_definition():
    p = np.array([[0.5, 0.2, 0.3], [0.25, 0.5, 0.25]])
    cases = (([0, 0], [0.25, 0.75]), ([1, 1], [0.9, 0.25]), ([2, 2], [0.65, 0.75]))
    for codes, expected in cases:
        np.testing.assert_allclose(
            ClassScores.from_probabilities(p, np.array(codes)).scores, expected
        )
    threshold = ClassScores.from_probabilities(p, np.array([2, 1]), method="threshold").scores
    np.testing.assert_allclose(threshold, [0.7, 0.5])


@pytest.mark.pairs
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", [None, 0])
@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
def test_sets_hold_the_class_as_often_as_was_asked_for(rng, method, seed, coverage):
    p, codes = draw(rng, 4000)
    scores = ClassScores.from_probabilities(p, codes, method=method, seed=seed)
    new, truth = draw(rng, 4000)
    share = covered(scores.sets(new, coverage=coverage), truth)
    error = 4 * np.sqrt(2 * coverage * (1 - coverage) / 4000)
    assert share >= coverage - error
    if coverage > 0.6:  # a set is never empty, so a small coverage is exceeded
        assert share <= coverage + error


def test_adaptive_sets_of_wrong_probabilities_cover_too(rng):
    p, codes = draw(rng, 4000)
    wrong = p**3 / np.sum(p**3, axis=1, keepdims=True)
    scores = ClassScores.from_probabilities(wrong[:2000], codes[:2000], seed=1)
    sets = scores.sets(wrong[2000:], coverage=0.9)
    assert covered(sets, codes[2000:]) == pytest.approx(0.9, abs=0.03)


def test_sets_of_models_that_are_sure_and_right_have_one_class(rng):
    p, codes = draw(rng, 4000, k=6, sharp=12.0)
    right = np.mean(p.argmax(axis=1) == codes)
    assert right > 0.91
    sets = ClassScores.from_probabilities(p[:2000], codes[:2000]).sets(p[2000:], coverage=0.9)
    assert sets.sum(axis=1).mean() < 1.02


def test_adaptive_sets_are_larger_where_rows_are_harder(rng):
    p, codes = draw(rng, 2000)
    sets = ClassScores.from_probabilities(p, codes).sets(p, coverage=0.9)
    hard = p.max(axis=1) < np.median(p.max(axis=1))
    assert sets[hard].sum(axis=1).mean() > 1.2 * sets[~hard].sum(axis=1).mean()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", [None, 0])
def test_sets_are_never_empty_and_hold_the_likeliest_classes(rng, method, seed):
    p, codes = draw(rng, 300, sharp=4.0)
    scores = ClassScores.from_probabilities(p, codes, method=method, seed=seed)
    sets = scores.sets(p, coverage=0.05)
    assert sets.any(axis=1).all()
    assert np.all(sets[np.arange(300), p.argmax(axis=1)])


@pytest.mark.parametrize("method", METHODS)
def test_more_coverage_gives_larger_sets(rng, method):
    p, codes = draw(rng, 300)
    scores = ClassScores.from_probabilities(p, codes, method=method)
    small, large = (scores.sets(p, coverage=c) for c in (0.6, 0.9))
    assert np.all(large | ~small)
    assert large.sum() > small.sum()


def test_order_of_rows_and_of_classes_does_not_matter(rng):
    p, codes = draw(rng, 200, k=4)
    p[:50] = 0.25  # ties
    expected = ClassScores.from_probabilities(p, codes).sets(p, coverage=0.8)
    rows, columns = rng.permutation(200), rng.permutation(4)
    moved = ClassScores.from_probabilities(p[rows][:, columns], np.argsort(columns)[codes[rows]])
    np.testing.assert_array_equal(moved.sets(p[:, columns], coverage=0.8), expected[:, columns])


def test_draws_repeat_with_their_seed(rng):
    p, codes = draw(rng, 200)
    scores = ClassScores.from_probabilities(p, codes, seed=5)
    np.testing.assert_array_equal(scores.sets(p), scores.sets(p))


def test_rows_without_weight_do_not_count(rng):
    p, codes = draw(rng, 200)
    w = np.ones(200)
    w[100:] = 0.0
    expected = ClassScores.from_probabilities(p[:100], codes[:100]).sets(p)
    wrong = np.where(np.arange(200) < 100, codes, p.argmin(axis=1))
    np.testing.assert_array_equal(ClassScores.from_probabilities(p, wrong, w).sets(p), expected)


def test_sure_predictions_of_one_class(rng):
    p = np.tile([1.0, 0.0, 0.0], (50, 1))
    scores = ClassScores.from_probabilities(p, np.zeros(50, dtype=int))
    np.testing.assert_array_equal(scores.sets(p, coverage=0.9), p > 0)


def test_one_class_is_in_every_set():
    p = np.ones((30, 1))
    assert ClassScores.from_probabilities(p, np.zeros(30, dtype=int)).sets(p).all()


# ------------------------------------------------------------------ bad input


def test_wrong_probabilities_and_codes_are_named(rng):
    p, codes = draw(rng, 20)
    with pytest.raises(ValueError, match=r"at least one class, got shape \(20,\)"):
        ClassScores.from_probabilities(p[:, 0], codes)
    with pytest.raises(ValueError, match="sum to 1 in each row"):
        ClassScores.from_probabilities(2 * p, codes)
    with pytest.raises(ValueError, match="sum to 1 in each row"):
        ClassScores.from_probabilities(np.where(p > 0, np.nan, p), codes)
    with pytest.raises(ValueError, match="of classes 0 to 4, got shape"):
        ClassScores.from_probabilities(p, codes + 3)
    with pytest.raises(ValueError, match="of classes 0 to 4, got shape"):
        ClassScores.from_probabilities(p, codes[:-1])
    with pytest.raises(ValueError, match="expected method to be one of 'adaptive', 'threshold'"):
        ClassScores.from_probabilities(p, codes, method="naive")
    with pytest.raises(TypeError, match="expected seed to be an integer"):
        ClassScores.from_probabilities(p, codes, seed="yes")


def test_wrong_coverages_are_named(rng):
    scores = ClassScores.from_probabilities(*draw(rng, 20))
    with pytest.raises(ValueError, match=r"less than 1, got 1.0"):
        scores.sets(draw(rng, 3)[0], coverage=1.0)
    with pytest.raises(ValueError, match=r"at least 99 held-out rows .* got 20"):
        scores.sets(draw(rng, 3)[0], coverage=0.99)
