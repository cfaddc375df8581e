"""Whole numbers that float64 does not tell apart stay what they are, as integers and as text."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_cases import MAKERS, column

import gpukfl
from gpukfl._accel.trust import use_numpy_only
from gpukfl.core._frames import is_numeric
from gpukfl.core._warnings import collect_warnings
from gpukfl.tables import Table
from gpukfl.tables._frame import read_frame

IDS = [10**18 + 17 * k for k in range(6)]
far = st.lists(
    st.integers(2**53, 2**63 - 1) | st.integers(-(2**63), -(2**53)),
    min_size=2,
    max_size=6,
    unique=True,
)


def rows_of_dicts(columns):
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


FRAMES = {
    **MAKERS,
    "nullable": lambda columns: pd.DataFrame({n: pd.array(v, "Int64") for n, v in columns.items()}),
    "objects": lambda columns: pd.DataFrame(columns, dtype=object),
    "dicts": rows_of_dicts,
}
WITH_MISSING = {name: make for name, make in FRAMES.items() if name != "pandas"}


def alone(table, X):
    with use_numpy_only():
        return table.codes(read_frame(X))


@pytest.mark.parametrize("make", FRAMES.values(), ids=list(FRAMES))
@settings(max_examples=8, deadline=None)
@given(ids=far)
def test_levels_are_as_many_as_the_integers(make, ids):
    X = make({"a": ids * 3})
    table = Table.learn(X, columns={"a": "category"})
    assert sorted(map(int, table.columns[0].levels)) == sorted(ids)
    codes = table.codes(X)
    assert len(np.unique(codes)) == len(ids)
    np.testing.assert_array_equal(alone(table, X), codes)
    np.testing.assert_array_equal(table.codes(pd.DataFrame({"a": map(str, ids * 3)})), codes)
    one = [{"a": ids[0]}]
    np.testing.assert_array_equal(alone(table, one), codes[:1])


@pytest.mark.parametrize("make", WITH_MISSING.values(), ids=list(WITH_MISSING))
def test_integers_keep_their_digits_beside_missing_values(make):
    X = make({"a": [*IDS * 5, None]})
    table = Table.learn(X, columns={"a": "category"})
    assert sorted(table.columns[0].levels) == list(map(str, IDS))
    codes = table.codes(X)[:, 0]
    assert np.isnan(codes).tolist() == [False] * 30 + [True]
    np.testing.assert_array_equal(alone(table, X)[:, 0], codes)


@settings(max_examples=10, deadline=None)
@given(ids=far)
def test_text_of_integers_is_found_by_integers_and_the_other_way_round(ids):
    texts = pd.DataFrame({"a": list(map(str, ids)) * 4})
    for kind in ("category", "code"):
        table = Table.learn(texts, columns={"a": kind})
        expected = table.codes(texts)
        np.testing.assert_array_equal(table.codes(pd.DataFrame({"a": ids * 4})), expected)
        np.testing.assert_array_equal(alone(table, {"a": ids * 4}), expected)


def test_integers_that_float64_merges_are_codes():
    ids = [10**18 + k for k in range(20)]
    found = column(ids * 3)
    assert (found.kind, len(found.levels)) == ("code", 20)
    assert found.reason == "20 different integers, which float64 does not tell apart"
    assert column([str(one) for one in ids] * 3).levels == found.levels
    assert column(IDS[:1] * 30).kind == "constant"
    assert column(IDS[:2] * 30).kind != "constant"


def test_integers_that_are_rounded_are_warned_of():
    every = [10**18 + k for k in range(40)]
    with pytest.warns(
        UserWarning, match=r"40 different integers are rounded to \d numbers of float64"
    ):
        assert column(every).kind == "numeric"
    with pytest.warns(
        UserWarning, match="'store_id' has dtype float64, which rounds integers beyond"
    ):
        assert column(np.array(IDS * 9, float), "store_id").kind == "code"


@pytest.mark.parametrize("kind", ["code", "category", "ordered"])
def test_later_ids_that_were_rounded_are_warned_of(kind):
    frame = pd.DataFrame({"user_id": [2**60 + k % 5 for k in range(100)]})
    table = Table.learn(frame, columns={"user_id": kind})
    with collect_warnings() as told:
        table.codes(frame)
        table.codes(frame.astype(str))
        table.codes(frame.astype("Int64"))
    assert told == []
    said = "column 'user_id' has dtype float64, which rounds integers beyond 2\\*\\*53"
    for later in (frame.astype(float), [{"user_id": float(2**60)}]):
        with pytest.warns(UserWarning, match=said):
            table.codes(later)
        with pytest.warns(UserWarning, match=said):
            alone(table, later)
    exact = pd.DataFrame({"user_id": [2.0 ** (60 + k % 3) for k in range(100)]})
    with collect_warnings():
        table = Table.learn(exact, columns={"user_id": kind})
    with collect_warnings() as told:
        table.codes(exact)
    assert told == []


@pytest.mark.parametrize("first", [2**52, 2**60, 2**63 - 300, 10**18, 2**70])
@pytest.mark.parametrize("write", [int, str])
def test_row_numbers_are_identifiers_however_long(first, write):
    rows = [write(first + k) for k in range(300)]
    with pytest.warns(UserWarning, match="'tid' looks like a row number and is dropped"):
        assert column(rows, "tid").kind == "identifier"
    apart = [first + 10**9 * k for k in range(300)]
    assert column(apart, "tid").kind == "numeric"


def test_columns_that_are_equal_as_floats_are_no_duplicates():
    frame = pd.DataFrame({"a": IDS * 20, "b": [one + k % 2 for k, one in enumerate(IDS * 20)]})
    assert "duplicate" not in [one.kind for one in Table.learn(frame).columns]
    frame["b"] = frame["a"].astype(str)
    assert [one.kind for one in Table.learn(frame).columns] == ["code", "duplicate"]


def test_complete_numbers_are_a_table_where_float64_merges_them():
    frame = pd.DataFrame({"a": IDS * 20, "b": np.arange(120) / 7})
    assert not is_numeric(frame)
    assert is_numeric(frame.assign(a=[2**60, 2**61] * 60))


@pytest.mark.filterwarnings("ignore:the best ridge of the last fit:UserWarning")
def test_a_fit_tells_ids_apart_and_so_does_the_runtime(tmp_path):
    rng = np.random.default_rng(0)
    effect = rng.standard_normal(6)
    k = rng.integers(6, size=150)
    frame = pd.DataFrame({"account": np.array(IDS)[k], "x": rng.standard_normal(150)})
    y = effect[k] + 0.1 * frame["x"]
    model = gpukfl.fit(frame, y, method="hkrr", random_state=0)
    predictions = np.asarray(model.predict(frame))
    assert np.corrcoef(predictions, y)[0, 1] > 0.99
    text = frame.assign(account=frame["account"].astype(str))
    np.testing.assert_array_equal(np.asarray(model.predict(text)), predictions)
    model.save(tmp_path / "m.gpukfl")
    served = gpukfl.runtime.load(tmp_path / "m.gpukfl")
    rows = json.loads(frame[:5].to_json(orient="records"))
    np.testing.assert_allclose(np.asarray(served.predict(rows)), predictions[:5], rtol=1e-9)


@pytest.mark.parametrize("make", [np.array, np.ndarray.tolist, pd.DataFrame, pl.DataFrame])
def test_columns_of_arrays_and_estimators_that_are_rounded_are_warned_of(make):
    rows = np.column_stack([10**18 + np.arange(40), np.arange(40)])
    with pytest.warns(UserWarning, match="40 different integers are rounded to 1 numbers") as told:
        gpukfl.KernelRidgeRegressor().fit(make(rows), np.sin(np.arange(40)))
    assert [str(one.message) for one in told if "rounded" in str(one.message)][1:] == []


def test_weights_that_are_rounded_are_warned_of():
    X = np.arange(40, dtype=float)[:, None]
    weights = [2**53 + 1] * 20 + [2**54] * 20
    with pytest.warns(UserWarning, match="sample_weight has integers beyond 2"):
        gpukfl.KernelRidgeRegressor().fit(X, np.sin(X[:, 0]), sample_weight=weights)


def test_an_integer_that_float64_does_not_hold_is_refused_with_its_column():
    for rows in ([[10**400 + k, 1.5 * k] for k in range(9)], pd.DataFrame({"x0": [10**400] * 9})):
        with pytest.raises(ValueError, match=r"column 'x0': expected numbers below 1\.8e308"):
            gpukfl.fit(rows, np.arange(9) / 7, method="rkhs_weighting")
