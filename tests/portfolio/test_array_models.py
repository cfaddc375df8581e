"""Members of scikit-learn as arrays predict what they do themselves."""

import pickle

import numpy as np
import pandas as pd
import pytest
from portfolio_cases import THREE, TWO, X, Y
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpukfl
from gpukfl.predictor import ConstantValues, Forest, LinearValues, array_model, member_predictor

BOTH = np.column_stack([Y, X[:, 0] - 2.0 * Y])
GAPPY = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
SMALL = {"max_iter": 20, "min_samples_leaf": 3, "random_state": 0}
REGRESSION = HistGradientBoostingRegressor(**SMALL)
CLASSES = HistGradientBoostingClassifier(**SMALL)


def linear(last):
    return make_pipeline(StandardScaler(), last)


def asked(model, X):
    found = model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X)
    return found.reshape(len(X), -1)


@pytest.mark.parametrize(
    ("kind", "model", "X", "y"),
    [
        (Forest, REGRESSION, GAPPY, Y),
        (Forest, CLASSES, GAPPY, TWO),
        (Forest, CLASSES, GAPPY, THREE),
        (Forest, MultiOutputRegressor(REGRESSION), GAPPY, BOTH),
        (Forest, HistGradientBoostingRegressor(loss="poisson", **SMALL), GAPPY, np.exp(Y)),
        (LinearValues, linear(RidgeCV()), X, Y),
        (LinearValues, linear(RidgeCV()), X, BOTH),
        (LinearValues, linear(LogisticRegression()), X, TWO),
        (LinearValues, linear(LogisticRegression()), X, THREE),
        (ConstantValues, DummyRegressor(), X, BOTH),
        (ConstantValues, DummyClassifier(), X, THREE),
    ],
)
def test_what_is_known_says_what_scikit_learn_does(kind, model, X, y):
    model = clone(model).fit(X[:60], y[:60])
    found = array_model(model)
    found.check()
    assert isinstance(found.values, kind)  # or this version of scikit-learn keeps trees otherwise
    expected = asked(model, X)
    np.testing.assert_allclose(found.values(X), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(found.predict(X).shape, model.predict(X).shape)
    if hasattr(model, "classes_"):
        np.testing.assert_array_equal(found.predict(X), model.predict(X))
        np.testing.assert_array_equal(found.predict_proba(X), found.values(X))
    else:
        with pytest.raises(TypeError, match="use predict"):
            found.predict_proba(X)
    evaluate = member_predictor(model).evaluate
    for rows in (X[:1], X):
        np.testing.assert_allclose(evaluate(rows), asked(model, rows), rtol=1e-12, atol=1e-14)
    single = X[:5].astype(np.float32)  # in which scikit-learn may compute
    np.testing.assert_allclose(evaluate(single), asked(model, single), rtol=1e-4, atol=1e-6)


class Own(HistGradientBoostingRegressor):
    """May predict anything."""


@pytest.mark.parametrize(
    "model",
    [
        Own(**SMALL),
        MultiOutputRegressor(Own(**SMALL)),
        make_pipeline(StandardScaler(), StandardScaler(), RidgeCV()),
        RidgeCV(),
    ],
)
def test_what_is_not_known_is_asked_itself(model):
    rows = np.abs(np.round(3 * X))
    y = np.exp(BOTH) if isinstance(model, MultiOutputRegressor) else np.exp(Y)
    model.fit(rows, y)
    assert array_model(model) is None
    np.testing.assert_array_equal(
        member_predictor(model).evaluate(rows[:3]), asked(model, rows[:3])
    )


FRAME = pd.DataFrame(GAPPY, columns=["a", "b", "c"]).assign(
    kind=np.where(X[:, 0] > 0.3, "u", "v"), when=pd.Timestamp("2024-01-01")
)
MEMBERS = {"members": ["linear", "trees", "shallow_trees", "agop", "laplace"], "n_folds": 2}


@pytest.mark.parametrize(
    ("rows", "y"), [pytest.param(X, THREE, marks=pytest.mark.slow), (FRAME, Y)]
)
@pytest.mark.filterwarnings("ignore")
def test_rows_by_themselves_are_predicted_as_together(rows, y):
    model = gpukfl.fit(rows, y, random_state=0, progress=False, **MEMBERS)
    ask = model.predict if y is Y else model.predict_proba
    together = ask(rows)
    apart = np.concatenate([ask(rows[k : k + 1]) for k in range(10)])
    np.testing.assert_allclose(apart, together[:10], rtol=1e-8, atol=1e-10)


def test_a_row_is_not_checked_by_every_model(monkeypatch):
    members = ["linear", "trees", "agop"]
    model = gpukfl.AutoRegressor(members, n_folds=2, random_state=0).fit(X, Y)
    expected = model.predict(X[:1])

    def refuse(*_, **__):
        msg = "asked"
        raise AssertionError(msg)

    for kind in (HistGradientBoostingRegressor, RidgeCV, StandardScaler):
        for name in ("predict", "transform"):
            if hasattr(kind, name):
                monkeypatch.setattr(kind, name, refuse)
    monkeypatch.setattr("gpukfl.estimators._learner.validate_samples", refuse)
    np.testing.assert_array_equal(model.predict(X[:1]), expected)


def test_predictors_are_kept_in_no_pickle():
    model = gpukfl.AutoRegressor(["linear", "laplace"], n_folds=2, random_state=0).fit(X, Y)
    size = len(pickle.dumps(clone(model).fit(X, Y)))
    model.predict(X[:1])
    assert model.predictor_ is model.predictor_
    assert len(pickle.dumps(model)) == pytest.approx(size, rel=0.01)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X[:5]), model.predict(X[:5]))


def test_a_predictor_follows_what_is_fitted():
    model = gpukfl.BKerNNRegressor(ridge=0.01, random_state=0).fit(X, Y)
    first = model.predictor_
    assert model.fit(X, -Y).predictor_ is not first
    np.testing.assert_array_equal(model.predict(X), model.predictor_.evaluate(X)[:, 0])
    np.testing.assert_allclose(first.evaluate(X)[:, 0], -model.predict(X), atol=0.2)
