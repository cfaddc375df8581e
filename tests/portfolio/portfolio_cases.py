"""Data and members for the tests of portfolios."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import Ridge

import gpukfl

N, D = 90, 3
RNG = np.random.default_rng(3)
X = RNG.uniform(-1.0, 1.0, (N, D))
Y = np.sin(3.0 * X[:, 0]) + X[:, 1]
THREE = np.array(["low", "mid", "high"])[np.digitize(Y, [-0.5, 0.5])]
TWO = Y > 0
QUICK = {"members": ["linear", "laplace"], "n_folds": 3, "random_state": 0}


class Truth(RegressorMixin, BaseEstimator):
    """Knows the function."""

    def fit(self, X, y, sample_weight=None):
        self.fitted_ = True
        return self

    def predict(self, X):
        return np.sin(3.0 * X[:, 0]) + X[:, 1]


class Nearly(Truth):
    """Errs a little."""

    def predict(self, X):
        return super().predict(X) + 1e-3 * np.sign(X[:, 2])


class Knowing(ClassifierMixin, BaseEstimator):
    """Knows where `TWO` is true, but for rows beyond a bound, and is nearly sure."""

    def __init__(self, bound=1.0, sure=0.999):
        self.bound, self.sure = bound, sure

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        true = (np.sin(3.0 * X[:, 0]) + X[:, 1] > 0) ^ (X[:, 2] > self.bound)
        second = np.where(true, self.sure, 1.0 - self.sure)
        return np.stack([1.0 - second, second], axis=1)


class Memory(RegressorMixin, BaseEstimator):
    """Says what it has seen, and a number far away of other rows."""

    def fit(self, X, y, sample_weight=None):
        self.seen_ = {row.tobytes(): value for row, value in zip(X, y, strict=True)}
        return self

    def predict(self, X):
        return np.array([self.seen_.get(row.tobytes(), 1e3) for row in X])


class Failing(RegressorMixin, BaseEstimator):
    """Runs out of memory."""

    def fit(self, X, y, sample_weight=None):
        msg = "no room"
        raise MemoryError(msg)


class Infinite(Ridge):
    """Predicts no numbers."""

    def predict(self, X):
        return np.full(len(X), np.nan)


class Unsure(ClassifierMixin, BaseEstimator):
    """Says of every class that it is as likely."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), 1.0 / len(self.classes_))


def regressor(**options):
    return gpukfl.AutoRegressor(**{**QUICK, **options})


def classifier(**options):
    return gpukfl.AutoClassifier(**{**QUICK, **options})


def notes(model):
    frame = model.leaderboard()
    return dict(zip(frame["member"], frame["note"], strict=True))


def weights(model):
    return {member.name: member.weight for member in model.members_}
