"""Blends of classes are means of log-odds: in weights, out of folds, predictions and files."""

import functools
import json

import numpy as np
import pytest
from model_files import opened
from portfolio_cases import THREE, TWO, X, classifier
from scipy.special import logsumexp, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import gpukfl
import gpukfl.runtime
from gpukfl.core._archive import write_archive
from gpukfl.portfolio import blend_weights
from gpukfl.portfolio._folds import LogLoss
from gpukfl.predictor import apply_temperature, pool_probabilities

RNG = np.random.default_rng(0)
P = softmax(RNG.normal(0.0, 2.0, (3, 25, 4)), axis=2)
CODES = RNG.integers(4, size=25)
W = np.array([0.5, 0.3, 0.2])


def judge(codes=CODES, classes=4, weights=None):
    return LogLoss(np.eye(classes)[codes], np.ones(len(codes)) if weights is None else weights)


# ---------------------------------------------------------------------- the pool


def test_log_odds_of_a_pool_are_the_mean(on):
    p = on.rounded(P)
    found = on.host(pool_probabilities(W, on.put(p)))
    odds = np.log(p) - np.log(p[..., :1])
    np.testing.assert_allclose(
        np.log(found) - np.log(found[:, :1]), np.tensordot(W, odds, 1), atol=100 * on.eps
    )
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=10 * on.eps)


def test_a_weight_of_one_is_the_member_itself():
    for weights, p in zip(np.eye(3), P, strict=True):
        np.testing.assert_allclose(pool_probabilities(weights, P), p, rtol=1e-13)


def test_the_order_of_classes_changes_nothing():
    order = RNG.permutation(4)
    found = pool_probabilities(W, P[..., order])
    np.testing.assert_allclose(found, pool_probabilities(W, P)[:, order], rtol=1e-13)


def test_a_temperature_is_a_power_of_the_pool():
    expected = apply_temperature(pool_probabilities(W, P), 1.7)
    np.testing.assert_allclose(pool_probabilities(W / 1.7, P), expected, rtol=1e-12)


# ---------------------------------------------------------------------- its loss


@pytest.mark.parametrize("classes", [1, 2, 4])
def test_losses_of_blends_are_those_of_mean_log_odds(classes):
    p = P[..., :classes] / P[..., :classes].sum(axis=2, keepdims=True)
    codes = CODES % classes
    judged = judge(codes, classes, RNG.uniform(1.0, 2.0, len(codes)))
    logs = np.tensordot(W, np.log(p), 1)
    expected = judged.weights * (logsumexp(logs, axis=1) - logs[np.arange(len(codes)), codes])
    mean = sum(w * judged.part(one) for w, one in zip(W, p, strict=True))
    np.testing.assert_allclose(judged.row_losses(mean), expected, atol=1e-14)
    np.testing.assert_allclose(judged.losses(judged.mix(W, list(p))), expected, atol=1e-14)
    some = np.array([3, 3, 0])
    np.testing.assert_array_equal(judged.part(p[0][some], some), judged.part(p[0])[some])


def test_weights_of_a_blend_are_those_of_classes_in_another_order():
    order = np.array([2, 0, 3, 1])
    found = []
    for codes, members in ((CODES, P), (np.argsort(order)[CODES], P[..., order])):
        judged = judge(codes)
        parts = [judged.part(one) for one in members]
        found.append(blend_weights(parts, lambda m, j=judged: j.row_losses(m).sum(), 25))
    np.testing.assert_array_equal(*found)


def test_two_experts_of_different_rows_are_surer_than_their_mean():
    """Each is sure where the other does not know."""
    codes = np.arange(200) % 2
    sure, knows = np.array([0.99, 0.01]), np.arange(200) // 100
    p = np.full((2, 200, 2), 0.5)
    for k in range(2):
        p[k, knows == k] = np.where(codes[knows == k, None] == [0, 1], *sure)
    judged = judge(codes, 2)
    pooled, mean = judged.mix([0.5, 0.5], list(p)), p.mean(axis=0)
    assert judged.losses(pooled).sum() < 0.4 * judged.losses(mean).sum()


# ---------------------------------------------------------------------- fits


@functools.cache
def fitted(target="three", **options):
    members = ["linear", ("bayes", GaussianNB()), ("logistic", LogisticRegression())]
    y = {"two": TWO, "three": THREE}[target]
    return classifier(members=members, **dict(options)).fit(X, y)


def by_hand(model, X, models_of):
    """Pool what some models of each member say, by the weights and the temperature of a blend."""
    logs = sum(
        member.weight * np.log(mean_of(models_of(member.models), X, model.floor_))
        for member in model.members_
    )
    return softmax(logs / model.temperature_, axis=1)


def mean_of(models, X, floor):
    """Return the mean of what models say."""
    raised = [np.maximum(one.predict_proba(X), floor) for one in models]
    return np.mean([p / p.sum(axis=1, keepdims=True) for p in raised], axis=0)


@pytest.mark.parametrize("target", ["two", "three"])
def test_means_of_members_are_pooled_by_weight(target):
    model = fitted(target)
    assert len(model.members_) > 1
    found = model.predict_proba(X)
    np.testing.assert_allclose(found, by_hand(model, X, list), rtol=1e-8)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)


def test_probabilities_out_of_folds_are_those_of_one_folds_models():
    model = fitted()
    kept = model.out_of_fold_
    for k in range(3):
        rows = kept.fold == k
        expected = by_hand(model, kept.rows[rows], lambda models, k=k: [models[k]])
        np.testing.assert_allclose(kept.predicted[rows], expected, rtol=1e-8)


def test_a_model_of_all_rows_has_half_of_the_share():
    model = fitted(refit="both")
    assert model.whole_
    expected = by_hand(model, X, lambda models: [*models[:-1], *models[-1:] * 3])
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-8)


def test_sample_weights_have_no_unit():
    weights = RNG.uniform(0.5, 1.5, len(X))
    found = [classifier().fit(X, THREE, sample_weight=c * weights) for c in (1.0, 4.0)]
    np.testing.assert_allclose(*(one.predict_proba(X) for one in found), rtol=1e-9)


# ---------------------------------------------------------------------- files


@pytest.mark.parametrize("load", [gpukfl.load, gpukfl.runtime.load])
def test_a_file_of_before_keeps_the_mean_of_probabilities(load, tmp_path):
    model = gpukfl.fit(X, THREE, members=["linear", "laplace"], n_folds=2, progress=False)
    model.save(tmp_path / "new")
    np.testing.assert_allclose(
        load(tmp_path / "new").predict_proba(X), model.predict_proba(X), rtol=1e-12
    )
    header, arrays = opened(tmp_path / "new")
    blending = header["predictor"]["fields"]["values"]["fields"]["blending"]["fields"]
    assert blending.pop("log_odds") is True
    with (tmp_path / "old").open("w+b") as file:
        write_archive(file, json.dumps(header).encode(), arrays)
    known = model.estimator
    mean = sum(one.weight * mean_of(one.models, X, known.floor_) for one in known.members_)
    expected = np.asarray(apply_temperature(mean, known.temperature_))
    np.testing.assert_allclose(load(tmp_path / "old").predict_proba(X), expected, rtol=1e-8)
