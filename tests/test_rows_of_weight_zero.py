"""Rows of weight 0 change nothing: neither kinds of columns, nor classes, nor draws."""

import functools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import gpukfl
from gpukfl import AutoClassifier, AutoRegressor, KernelRidgeClassifier, KernelRidgeRegressor
from gpukfl.inference import conditional_importance

RNG = np.random.default_rng(3)
N = 60
X = RNG.normal(size=(N, 3))
Y = X[:, 0] + np.sin(2.0 * X[:, 1])
LABELS = np.where(Y > 0.0, "high", "low").astype(object)
WEIGHTS = RNG.choice([0.5, 1.0, 2.0], N)
TABLE = pd.DataFrame({"size": X[:, 0], "count": np.arange(N) % 7, "colour": list("abc") * 20})
STRANGE = pd.DataFrame(
    {"size": ["tall", np.inf, None], "count": [2.5, "many", -1e9], "colour": ["d", 7, "2020-01-01"]}
)
SINGLE = {"method": "rkhs_weighting", "n_parameters": 20, "ridge": 1e-2}
QUICK = {"members": ["linear", "manhattan_laplace"], "n_folds": 2, "random_state": 0}
KINDS = {"single": SINGLE, "blend": QUICK}
RIDGE = {"ridge": 0.01, "random_state": 0}


def mixed(own, others, places):
    """Put other rows between the own ones, at places (k,) of the result."""
    order = np.full(len(own) + len(others), -1)
    order[places] = len(own) + np.arange(len(others))
    order[order < 0] = np.arange(len(own))
    if isinstance(own, pd.DataFrame):
        return pd.concat([own, others], ignore_index=True).iloc[order]
    return np.concatenate([own, others])[order]


@st.composite
def additions(draw, kinds):
    """Draw rows of the given kinds, and where they are among the own ones."""
    k = draw(st.integers(1, 6))
    places = draw(st.lists(st.integers(0, N + k - 1), min_size=k, max_size=k, unique=True))
    return [draw(st.sampled_from(kinds)) for _ in places], np.sort(places)


def weights_with(places):
    return mixed(WEIGHTS, np.zeros(len(places)), places)


@settings(max_examples=3)
@given(drawn=additions([0.0, 1e9, np.nan, np.inf]), y=st.sampled_from([0.0, 1e6, np.nan]))
@pytest.mark.parametrize("model", [KernelRidgeRegressor(**RIDGE), AutoRegressor(**QUICK)])
def test_of_a_regression_of_arrays(model, drawn, y):
    values, places = drawn
    X_more = mixed(X, np.outer(values, np.ones(3)), places)
    y_more = mixed(Y, np.full(len(values), y), places)
    expected = model.fit(X, Y, sample_weight=WEIGHTS).predict(X)
    found = model.fit(X_more, y_more, sample_weight=weights_with(places)).predict(X)
    assert_array_equal(found, expected)


@settings(max_examples=3)
@given(drawn=additions(["high", "other", "3"]))
@pytest.mark.parametrize("model", [KernelRidgeClassifier(**RIDGE), AutoClassifier(**QUICK)])
def test_of_a_classification_of_arrays(model, drawn):
    labels, places = drawn
    X_more = mixed(X, np.ones((len(labels), 3)), places)
    y_more = mixed(LABELS, np.array(labels, dtype=object), places)
    expected = model.fit(X, LABELS, sample_weight=WEIGHTS).predict_proba(X)
    found = model.fit(X_more, y_more, sample_weight=weights_with(places))
    assert found.classes_.tolist() == ["high", "low"]
    assert_array_equal(found.predict_proba(X), expected)


@functools.cache
def model_of_the_table(kind, classes):
    """Fit a model to the rows that have weight."""
    return gpukfl.fit(TABLE, LABELS if classes else Y, sample_weight=WEIGHTS, **KINDS[kind])


@pytest.mark.each
@settings(max_examples=3)
@given(drawn=additions(range(len(STRANGE))), label=st.sampled_from(["high", "other"]))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("classes", [False, True])
def test_of_a_table(classes, kind, drawn, label):
    which, places = drawn
    y, more = (LABELS, label) if classes else (Y, 1e9)
    table = mixed(TABLE, STRANGE.iloc[which], places).astype(dict.fromkeys(TABLE, object))
    y_more = mixed(y, np.full(len(which), more, dtype=y.dtype), places)
    one = model_of_the_table(kind, classes)
    other = gpukfl.fit(table, y_more, sample_weight=weights_with(places), **KINDS[kind])
    assert (other.n_samples, other.task) == (one.n_samples, one.task)
    assert_array_equal(other.predict(TABLE), one.predict(TABLE))
    again = other.fit(table, y_more, sample_weight=weights_with(places))
    assert_array_equal(again.predict(TABLE), one.predict(TABLE))


def test_of_arrays_with_text_and_of_lists():
    rows = [[*row, "a"] for row in X.tolist()]
    more = [*rows, ["tall", None, 1.0, "b"]]
    given = {"sample_weight": [*WEIGHTS, 0.0], "method": "auto", **QUICK}
    one = gpukfl.fit(rows, Y, sample_weight=WEIGHTS, **QUICK)
    for kind in (list, lambda x: np.array(x, dtype=object)):
        other = gpukfl.fit(kind(more), [*Y, 1e9], **given)
        assert_array_equal(other.predict(rows), one.predict(rows))


def test_of_what_is_asked_of_a_model():
    model = gpukfl.fit(X, LABELS, **QUICK)
    X_more, y_more = np.vstack([X, np.full((2, 3), np.nan)]), [*LABELS, "other", "low"]
    w = [*WEIGHTS, 0.0, 0.0]
    assert model.score(X_more, y_more, w) == model.score(X, LABELS, WEIGHTS)
    one = conditional_importance(model, X, LABELS, sample_weight=WEIGHTS)
    other = conditional_importance(model, X_more, y_more, sample_weight=w)
    assert str(other) == str(one)


@pytest.mark.each
@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("options", [SINGLE, QUICK], ids=["single", "blend"])
@settings(max_examples=1)
@given(drawn=additions(range(len(STRANGE))))
def test_of_dask_collections(options, many, classes, drawn):
    dd = pytest.importorskip("dask.dataframe")
    which, places = drawn
    y, more = (LABELS, "other") if classes else (Y, 1e9)
    y_more = mixed(y, np.full(len(which), more, dtype=y.dtype), places)
    objects = dict.fromkeys(TABLE, object)
    table = mixed(TABLE, STRANGE.iloc[which], places).astype(objects)
    table["y"], table["w"] = y_more, weights_with(places)

    def fitted(frame, cuts):
        # Partitions that begin with the same rows of weight
        parts = [frame.iloc[a:b] for a, b in zip([0, *cuts], [*cuts, len(frame)], strict=True)]
        lazy = dd.from_map(lambda k: parts[k], range(len(parts)), meta=frame.iloc[:0])
        with pytest.MonkeyPatch.context() as patch:
            if many:
                patch.setattr("gpukfl.estimators._dask.SAMPLE", 40)
                patch.setattr("gpukfl.tables._training.SAMPLE", 40)
                patch.setattr("gpukfl.tables._training.FEWEST", 40)
                patch.setattr("gpukfl.portfolio._base.SAMPLE", 40)
                patch.setattr("gpukfl.tables._reader.SAMPLE", 40)
            X = lazy[list(TABLE)]
            return gpukfl.fit(X, lazy["y"], sample_weight=lazy["w"], **options)

    weighted = np.flatnonzero(table["w"])
    own = table.iloc[weighted]
    one = fitted(own, [25, 25, 40])
    other = fitted(table, [int(weighted[25]), int(weighted[25]), int(weighted[40])])
    assert (other.n_samples, other.task) == (one.n_samples, one.task)
    assert_array_equal(other.predict(TABLE), one.predict(TABLE))
