"""Dates and durations keep the nanoseconds that they have."""

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpukfl
from gpukfl._accel.trust import use_numpy_only
from gpukfl.tables import Table
from gpukfl.tables._frame import read_frame

BEGIN = np.datetime64("2024-03-05T06:07:08.123456789", "ns")
DAY = 86_400 * 10**9
spans = st.lists(st.integers(0, 10**7), min_size=3, max_size=8, unique=True)


def polars_frame(array):
    return pytest.importorskip("polars").DataFrame({"a": array})


def arrow_table(array):
    pa = pytest.importorskip("pyarrow")
    return pa.table({"a": pa.array(array)})


def arrow_in_pandas(array):
    pytest.importorskip("pyarrow")
    kind = "timestamp[ns]" if array.dtype.kind == "M" else "duration[ns]"
    return pd.DataFrame({"a": pd.Series(array).astype(f"{kind}[pyarrow]")})


MAKERS = {
    "pandas": lambda array: pd.DataFrame({"a": array}),
    "polars": polars_frame,
    "pyarrow": arrow_table,
    "arrow in pandas": arrow_in_pandas,
    "objects": lambda array: pd.DataFrame({"a": pd.Series(list(pd.Series(array)), dtype=object)}),
    "dicts": lambda array: [{"a": value} for value in pd.Series(array)],
    "NumPy's": lambda array: [{"a": value} for value in array],
    "text": lambda array: pd.DataFrame({"a": pd.Series(array).astype(str)}),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=list(MAKERS))
@pytest.mark.parametrize("kind", ["date", "duration"])
@settings(max_examples=6, deadline=None)
@given(offsets=spans)
def test_nanoseconds_are_in_the_codes(make, kind, offsets):
    times = np.array(offsets, dtype="timedelta64[ns]")
    X = make(BEGIN + times if kind == "date" else times)
    table = Table.learn(X)
    assert table.columns[0].kind == kind
    codes = table.codes(X)[:, 0] * (DAY if kind == "date" else 10**9)
    np.testing.assert_allclose(codes - codes[0], np.array(offsets) - offsets[0], atol=0.01)
    with use_numpy_only():
        found = table.codes(read_frame(X))
    np.testing.assert_array_equal(found, table.codes(X))
    micro = (BEGIN + times).astype("datetime64[us]") if kind == "date" else times.astype("m8[us]")
    later = table.codes(pd.DataFrame({"a": micro}))[:, 0] * (DAY if kind == "date" else 10**9)
    np.testing.assert_allclose(later, codes, atol=1000.1)


def test_zones_and_missing_values_leave_nanoseconds_alone():
    times = BEGIN + np.arange(0, 900, 9).astype("timedelta64[ns]")
    frame = pd.DataFrame({"a": pd.Series(times).dt.tz_localize("Europe/Berlin")})
    frame.loc[3, "a"] = pd.NaT
    found = Table.learn(frame).codes(frame)
    expected = np.arange(0, 900, 9) - 0.0
    expected[3] = np.nan
    np.testing.assert_allclose(found[:, 0] * DAY - found[0, 0] * DAY, expected, atol=0.01)


@settings(max_examples=10, deadline=None)
@given(st.dates(datetime.date(100, 1, 1), datetime.date(9000, 1, 1)), st.integers(0, 10**6 - 1))
def test_years_that_nanoseconds_do_not_reach_stay(day, micro):
    first = datetime.datetime.combine(day, datetime.time(1, 2, 3, micro))
    frame = pd.DataFrame({"a": np.array([first, datetime.datetime(2020, 1, 1)], "M8[us]")})
    found = Table.learn(frame).codes(frame)[:, 0]
    apart = (datetime.datetime(2020, 1, 1) - first) / datetime.timedelta(days=1)
    np.testing.assert_allclose(found[1] - found[0], apart, rtol=1e-12, atol=1e-11)


@pytest.mark.filterwarnings("ignore:the best ridge of the last fit:UserWarning")
@pytest.mark.filterwarnings("ignore:columns that were not in the fit:UserWarning")
def test_a_fit_sees_what_differs_in_nanoseconds():
    k = np.random.default_rng(0).integers(0, 800, 120)
    frame = pd.DataFrame({"a": BEGIN + k.astype("timedelta64[ns]"), "x": np.arange(120) % 7 / 7})
    frame["b"] = frame["a"] - BEGIN
    y = np.sin(k / 100.0)
    for name in "ab":
        model = gpukfl.fit(frame[[name, "x"]], y, method="hkrr", random_state=0)
        assert np.corrcoef(np.asarray(model.predict(frame)), y)[0, 1] > 0.99
