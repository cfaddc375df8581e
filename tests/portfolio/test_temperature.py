"""The temperature of a blend's probabilities, by rows held out."""

import numpy as np
import pytest
from portfolio_cases import THREE, TWO, Unsure, X, classifier
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import log_loss

import gpukfl
from gpukfl.portfolio._blend import choose_temperature
from gpukfl.portfolio._folds import LogLoss
from gpukfl.predictor import apply_temperature

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(0.0, 2.0, (4000, 3))
CODES = np.array([RNG.choice(3, p=row) for row in softmax(LOGITS, axis=1)])
TRUTH = np.eye(3)[CODES]


def judge(rows=slice(None), weights=None):
    truth = TRUTH[rows]
    return LogLoss(truth, np.ones(len(truth)) if weights is None else weights)


@pytest.mark.parametrize("hidden", [0.5, 1.0, 2.0])
def test_a_wrong_temperature_is_undone(hidden):
    found = choose_temperature(softmax(LOGITS / hidden, axis=1), judge())
    assert found == pytest.approx(1.0 / hidden, rel=0.1)


def test_few_rows_say_little():
    few, many = slice(0, 8), slice(0, 4000)
    sure = softmax(4.0 * LOGITS, axis=1)
    assert 1.0 < choose_temperature(sure[few], judge(few)) < choose_temperature(sure[many], judge())


def test_weights_count_as_copies():
    rows, counts = slice(0, 200), RNG.integers(1, 4, 200)
    p = softmax(3.0 * LOGITS[rows], axis=1)
    copied = LogLoss(np.repeat(TRUTH[rows], counts, axis=0), np.ones(counts.sum()))
    weighted = choose_temperature(p, judge(rows, counts.astype(float)))
    assert weighted == pytest.approx(
        choose_temperature(np.repeat(p, counts, axis=0), copied), rel=1e-4
    )


def test_the_order_of_classes_stays(on):
    p = on.rounded(softmax(LOGITS[:20], axis=1))
    found = apply_temperature(on.put(p), 0.7)
    expected = p ** (1 / 0.7) / np.sum(p ** (1 / 0.7), axis=1, keepdims=True)
    np.testing.assert_allclose(on.host(found), expected, rtol=50 * on.eps)
    np.testing.assert_array_equal(on.host(found).argmax(axis=1), p.argmax(axis=1))


class Timid(ClassifierMixin, BaseEstimator):
    """Knows the class, and is not sure of it."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        second = np.where(np.sin(3.0 * X[:, 0]) + X[:, 1] > 0, 0.7, 0.3)
        return np.stack([1.0 - second, second], axis=1)


def test_a_timid_blend_becomes_surer():
    model = classifier(members=[("timid", Timid())]).fit(X, TWO)
    assert model.temperature_ < 0.7
    board = model.leaderboard().set_index("member")
    assert board.loc["blend", "log_loss"] < board.loc["timid", "log_loss"] - 0.1
    held_out = np.unique(model.out_of_fold_.predicted.round(10))
    np.testing.assert_array_equal(np.unique(model.predict_proba(X).round(10)), held_out)
    assert log_loss(TWO, model.predict_proba(X)) == pytest.approx(board.loc["blend", "log_loss"])


def test_who_knows_nothing_has_a_temperature_of_one():
    assert classifier(members=[("unsure", Unsure())]).fit(X, THREE).temperature_ == 1.0


def test_a_saved_blend_has_its_temperature(tmp_path):
    model = gpukfl.fit(X, TWO, progress=False, members=["linear", "laplace"], random_state=0)
    model.save(tmp_path / "model.gpukfl")
    again = gpukfl.load(tmp_path / "model.gpukfl")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
