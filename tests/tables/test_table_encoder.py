"""The transformer of scikit-learn: in pipelines, with names, and its own checks."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from table_cases import COLUMNS, N, Y, makers

from gpukfl.tables import Encoding, Table, TableEncoder

FRAME = pd.DataFrame(COLUMNS).drop(columns="none")
NOT_OURS = {
    "check_dataframe_column_names_consistency": "columns are matched by name, in any order",
}


@parametrize_with_checks(
    [TableEncoder(), TableEncoder(impute="model")], expected_failed_checks=lambda _: NOT_OURS
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_names_of_columns_differ():
    towns = [*"uvw"] * 20
    frame = pd.DataFrame({"town": towns, "town=u": np.linspace(0.0, 1.0, 60), "y": np.arange(60.0)})
    encoder = TableEncoder().set_output(transform="pandas")
    names = encoder.fit_transform(frame[["town", "town=u"]], frame["y"]).columns.tolist()
    assert names == ["town=u", "town=u (2)", "town=v", "town=w"]


@makers
def test_it_is_a_table_and_its_encoding(make):
    frame = make({name: values for name, values in COLUMNS.items() if name != "none"})
    encoder = TableEncoder()
    X = encoder.fit_transform(frame, Y)
    table = Table.learn(FRAME)
    encoding, expected = Encoding.learn(table.codes(FRAME), table.coded, Y)
    np.testing.assert_array_equal(X, expected)
    np.testing.assert_array_equal(encoder.transform(frame), encoding.transform(table.codes(FRAME)))
    assert encoder.get_feature_names_out().tolist() == list(encoding.names)
    assert encoder.feature_names_in_.tolist() == list(FRAME)


def test_labels_of_classes_are_told():
    labels = np.where(Y > 0, "up", "down")
    codes = TableEncoder().fit(FRAME, Y > 0).encoding_
    told = TableEncoder().fit(FRAME, labels).encoding_
    assert told.names == codes.names
    assert "street mean" in told.names
    three = TableEncoder().fit(FRAME, np.where(Y > 1, "top", labels)).encoding_
    assert [name for name in three.names if name.startswith("street mean")] == [
        "street mean 0",
        "street mean 1",
        "street mean 2",
    ]


def test_it_is_fitted_in_each_fold():
    signal = np.array([np.sin(k % 30) for k in range(N)])
    pipeline = make_pipeline(TableEncoder(), StandardScaler(), Ridge())
    assert cross_val_score(pipeline, FRAME[["street"]], signal, cv=4).mean() > 0.8
    noise = np.random.default_rng(3).standard_normal(N)
    assert cross_val_score(pipeline, FRAME[["street"]], noise, cv=4).mean() < 0.1
    classes = make_pipeline(TableEncoder(), StandardScaler(), LogisticRegression())
    assert cross_val_score(classes, FRAME[["street", "colour"]], signal > 0, cv=4).mean() > 0.8


def test_output_may_be_a_frame():
    encoder = TableEncoder().set_output(transform="pandas")
    found = encoder.fit_transform(FRAME, Y)
    assert list(found) == list(encoder.encoding_.names)
    assert found.index.equals(FRAME.index)


def test_kinds_may_be_told():
    encoder = clone(TableEncoder({"rooms": "category"})).fit(FRAME)
    names = [name for name in encoder.get_feature_names_out() if name.startswith("rooms")]
    assert names == ["rooms=1", "rooms=2", "rooms=3", "rooms=4"]


def test_names_with_newlines_are_one_line():
    frame = pd.DataFrame({"a": ["x\ny", "z", "x\ny"]})
    assert TableEncoder().fit(frame).get_feature_names_out().tolist() == ["a=x y", "a=z"]


def test_a_table_that_says_nothing_is_refused():
    with pytest.raises(ValueError, match="got none: a is dropped: the same in every row"):
        TableEncoder().fit(pd.DataFrame({"a": [1] * 10}))


def test_a_bad_fit_changes_nothing():
    encoder = TableEncoder().fit(FRAME)
    before = encoder.encoding_
    with pytest.raises(ValueError, match="expected a target in every row"):
        encoder.fit(FRAME, [None] * N)
    assert encoder.encoding_ is before


def test_many_rows_become_float32_unless_told(monkeypatch):
    monkeypatch.setattr("gpukfl.tables._encoder._MANY", N - 1)
    encoder = TableEncoder()
    assert encoder.fit_transform(FRAME, Y).dtype == encoder.dtype_ == np.float32
    assert encoder.transform(FRAME[:1]).dtype == np.float32
    assert TableEncoder(dtype=np.float64).fit_transform(FRAME, Y).dtype == np.float64
    assert TableEncoder().fit_transform(FRAME[1:], Y[1:]).dtype == np.float64


def test_numbers_that_float32_rounds_are_warned_of():
    frame = pd.DataFrame({"seconds": 1.7e9 + 1.5 * np.arange(100), "metres": np.arange(100) / 7})
    with pytest.warns(UserWarning, match=r"'seconds'.* become multiples of 2e\+02 in float32"):
        TableEncoder(dtype="float32").fit(frame)
    TableEncoder().fit(frame)


def test_numbers_may_be_of_float32():
    half, whole = TableEncoder(dtype="float32"), TableEncoder()
    found, expected = half.fit_transform(FRAME, Y), whole.fit_transform(FRAME, Y)
    assert found.dtype == half.transform(FRAME).dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="expected dtype float64 or float32, got 'int8'"):
        TableEncoder(dtype="int8").fit(FRAME)
