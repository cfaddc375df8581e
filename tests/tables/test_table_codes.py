"""Codes: what they are of each kind, and how columns of a later frame are matched."""

import datetime
import tracemalloc
import weakref

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_cases import COLUMNS, N, arrow_table, empty, makers, polars_frame

from gpukfl._accel.trust import use_numpy_only
from gpukfl.tables import Encoding, Table
from gpukfl.tables._frame import read_column, read_frame
from gpukfl.tables._values import labels


def codes_of(values, later=None, **told):
    """Codes of a column of a table, of other rows than it was learned from."""
    table = Table.learn(pd.DataFrame({"a": values}), **told)
    return table.codes(pd.DataFrame({"a": values if later is None else later}))


@pytest.fixture(scope="module")
def table():
    frame = pd.DataFrame(COLUMNS).drop(columns="none")
    return Table.learn(frame)


@makers
@empty
def test_codes_are_the_same_in_every_library(make, table):
    frame = make(COLUMNS)
    expected = table.codes(pd.DataFrame(COLUMNS).drop(columns="none"))
    np.testing.assert_array_equal(Table.learn(frame).codes(frame), expected)


@pytest.mark.parametrize("backend", ["pyarrow", "numpy_nullable"])
def test_codes_are_the_same_of_other_dtypes_of_pandas(backend):
    pytest.importorskip("pyarrow")
    days = [None, *(datetime.date(2020, 1, 1 + k % 28) for k in range(N - 1))]
    times = [None, *(datetime.time(k % 24, 3) for k in range(N - 1))]
    gaps = {name: [None, *COLUMNS[name][1:]] for name in ("sold", "built", "took")}
    frame = pd.DataFrame({**COLUMNS, **gaps, "day": days, "time": times}).drop(columns="none")
    table, other = Table.learn(frame), frame.convert_dtypes(dtype_backend=backend)
    expected = table.codes(frame)
    np.testing.assert_array_equal(table.codes(other), expected)
    np.testing.assert_array_equal(Table.learn(other).codes(other), expected)
    np.testing.assert_array_equal(table.codes(frame.astype(object)), expected)


def test_each_column_of_codes_says_what_it_is(table):
    assert len(table.coded) == table.codes(pd.DataFrame(COLUMNS).drop(columns="none")).shape[1]
    street = next(one for one in table.coded if one.name == "street")
    assert (table.columns[street.source].name, street.levels, street.gaps) == ("street", 30, False)
    assert next(one for one in table.coded if one.name == "built hour").period == 24.0


def test_levels_are_numbered_and_gaps_are_nan():
    found = codes_of(["b", "b", "a", None], ["a", "new", "b", None])
    np.testing.assert_array_equal(found[:, 0], [1, 2, 0, np.nan])


def test_text_has_no_levels_that_are_blank():
    np.testing.assert_array_equal(
        codes_of(["b", " ", "b", "a", ""])[:, 0], [0, np.nan, 0, 1, np.nan]
    )


def test_ordered_levels_are_ranks():
    sizes = pd.Categorical(["s", "l", None, "m"], categories=["s", "m", "l"], ordered=True)
    np.testing.assert_array_equal(codes_of(sizes)[:, 0], [0, 2, np.nan, 1])
    with pytest.warns(UserWarning, match="not levels of the fit, such as 'xl', are treated as"):
        found = codes_of(sizes, ["l", "xl", "s"])[:, 0]
    np.testing.assert_array_equal(found, [2, np.nan, 0])


def test_codes_of_integers_are_both():
    found = codes_of([5, 5, 7, 7, 7, 9] * 20, [7.0, 8.0, None])
    np.testing.assert_array_equal(found, [[7, 0], [8, 3], [np.nan, np.nan]])


def test_numbers_in_text():
    found = codes_of(["$1,200.50", "3", "?", "-$4"] * 5)
    np.testing.assert_array_equal(found[:4, 0], [1200.5, 3.0, np.nan, -4.0])


def test_another_unit_is_no_number():
    table = Table.learn(pd.DataFrame({"a": ["1.5 km", "2 KM", "null km"] * 5}))
    assert table.columns[0].reason == "numbers, written as text with km"
    with pytest.warns(UserWarning, match="that are not numbers, such as '3 miles', are treated"):
        found = table.codes(pd.DataFrame({"a": ["3 miles", "3 km", "3", "? km"]}))
    np.testing.assert_array_equal(found[:, 0], [np.nan, 3.0, 3.0, np.nan])


@pytest.mark.parametrize("gap", ["inf", "-Infinity", "+INF", "<NA>"])
def test_what_python_writes_of_gaps_is_missing_among_numbers_in_text(gap):
    found = codes_of([gap, "1.5", "2.5"] * 10, [gap, "4"])
    np.testing.assert_array_equal(found[:, 0], [np.nan, 4.0])


def alone(table, frame):
    with use_numpy_only():
        return table.codes(read_frame(frame))


def test_infinity_is_missing_with_one_warning():
    frame = pd.DataFrame({"a": [np.inf, 1.5, -np.inf, 2.5], "b": 1.5, "c": [0.5, 1, 2, np.inf]})
    with pytest.warns(UserWarning, match="infinite") as given:
        table = Table.learn(frame)
    said = "infinite values are treated as missing: 2 of 4 rows of a, 1 of 4 rows of c"
    assert [str(one.message) for one in given] == [said]
    expected = [[np.nan, 0.5], [1.5, 1], [np.nan, 2], [2.5, np.nan]]
    for take in (table.codes, lambda X: alone(table, X)):
        with pytest.warns(UserWarning, match="infinite") as given:
            np.testing.assert_array_equal(take(frame), expected)
        assert [str(one.message) for one in given] == [said]
    np.testing.assert_array_equal(table.codes(frame, seen=True), expected)
    with pytest.warns(
        UserWarning, match="infinite values are treated as missing: 1 of 1 rows of a$"
    ):
        table.codes([{"a": np.inf, "b": 1.5, "c": 1}])


def test_parts_of_dates_are_those_of_pandas():
    moments = pd.Series(pd.date_range("1965-11-30 05:30", periods=300, freq="37h"))
    frame = pd.DataFrame({"a": moments})
    table, dt = Table.learn(frame), moments.dt
    found = pd.DataFrame(table.codes(frame), columns=[one.name for one in table.coded])
    expected = {
        "a days": (moments - moments.min()).dt.total_seconds() / 86400,
        "a year": dt.year,
        "a month": dt.month,
        "a day": dt.day,
        "a weekday": dt.day_of_week,
        "a hour": dt.hour + dt.minute / 60,
    }
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values.to_numpy(float), rtol=1e-11, err_msg=name)


@pytest.mark.parametrize(
    ("texts", "days"),
    [
        (["2020-01-31", "2020-02-01"], [0, 1]),
        (["31/01/2020", "01/02/2020"], [0, 1]),  # no month is the 31st
        (["01/31/2020", "02/01/2020"], [0, 1]),
        (["01.02.2020", "02.02.2020"], [0, 1]),  # days first where no slashes are
        pytest.param(
            *(["01/02/2020", "02/02/2020"], [0, 31]),
            marks=pytest.mark.filterwarnings("ignore:column 'a'. dates such as '01/02/2020' may"),
        ),
        (["Jan 31, 2020", "2020-02-01"], [0, 1]),
        (["2020-01-31T10:00:00+02:00", "2020-02-01 10:00 GMT+2"], [0, 1]),
        (["2020-01-31 23:00:00-0330", "2020-02-01T23:00-03:30"], [0, 1]),
        (["0001-01-01", "9999-12-31"], [0, 3652058]),
        (["20200131T000000", "20200201T120000"], [0, 1.5]),
    ],
)
def test_dates_in_text(texts, days):
    np.testing.assert_array_equal(codes_of(texts * 10)[:2, 0], days)


ISO = pd.date_range("2021-01-01", periods=40)


@pytest.mark.parametrize("fitted", [ISO, ISO.strftime("%Y-%m-%d")])
@pytest.mark.parametrize("later", [["05/03/2021", "25/03/2021"], ["03/05/2021", "03/25/2021"]])
def test_later_dates_say_their_order_where_the_fit_has_none(fitted, later):
    np.testing.assert_array_equal(codes_of(fitted, later)[:, 0], [63, 83])


@pytest.mark.parametrize(
    ("fitted", "later", "said"),
    [
        (ISO, ["05/03/2021"], "'05/03/2021' may begin with the day or the month: they are read"),
        (["01/31/2021", "02/01/2021"], ["25/03/2021"], "'25/03/2021' begin with the day, but"),
        (["31/01/2021", "01/02/2021"], ["03/25/2021"], "'03/25/2021' begin with the month, but"),
    ],
)
def test_a_doubtful_order_of_days_and_months_is_said(fitted, later, said):
    table = Table.learn(pd.DataFrame({"a": fitted}))
    with pytest.warns(UserWarning, match=f"column 'a': dates such as {said}"):
        table.codes(pd.DataFrame({"a": later}))


def test_time_zones_keep_local_time():
    moments = pd.Series(
        pd.date_range("2020-06-01 08:00", periods=30, tz="Europe/Paris", freq="25h")
    )
    np.testing.assert_array_equal(codes_of(moments), codes_of(moments.dt.tz_localize(None)))


def test_the_time_between_dates_of_a_row(table):
    frame = pd.DataFrame(COLUMNS).drop(columns="none")
    at = [one.name for one in table.coded].index("left since built")
    expected = (frame["left"] - frame["built"]).dt.total_seconds() / 86400
    np.testing.assert_allclose(table.codes(frame)[:, at], expected, atol=1e-9)


def test_objects_of_python_are_read():
    days = [datetime.date(2020, 1, 1), None, datetime.date(2020, 3, 1)]
    times = [datetime.time(1), None, datetime.time(0, 2, 3)]
    frame = pd.DataFrame({"day": days, "time": times, "yes": [True, None, False]})
    found = Table.learn(frame).codes(frame)
    np.testing.assert_array_equal(found[:, 0], [0, np.nan, 60])
    np.testing.assert_array_equal(found[:, -2:], [[3600, 1], [np.nan, np.nan], [123, 0]])


TIMES_OF_DAY = [datetime.time(13, 45, 10, 500_000), None, datetime.time(9, 5), datetime.time(0)]
WRITTEN = ["13:45:10.5", "n/a", "9:05", " 00:00 "]


@pytest.mark.parametrize("fitted", [TIMES_OF_DAY, WRITTEN])
@pytest.mark.parametrize("later", [TIMES_OF_DAY, WRITTEN, [49510.5, None, 32700, 0]])
def test_times_of_the_day_are_seconds_however_they_are_written(fitted, later):
    found = codes_of(fitted, later)
    np.testing.assert_array_equal(found[:, 0], [49510.5, np.nan, 32700, 0])


@given(st.lists(st.none() | st.integers(0, 86_400 * 10**9 - 1), min_size=2, max_size=8))
@settings(max_examples=20)
def test_times_of_the_day_in_any_library_and_unit_are_seconds(nanoseconds):
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    expected = np.array([np.nan if v is None else v // 1000 * 1e-6 for v in nanoseconds])
    in_arrow = pa.chunked_array([pa.array(nanoseconds, pa.time64("ns"))])
    in_polars = pl.Series("a", nanoseconds, dtype=pl.Int64).cast(pl.Time)
    arrays = {
        "arrow": pa.table({"a": in_arrow}),
        "polars": pl.DataFrame({"a": in_polars}),
        "polars in arrow": pl.DataFrame({"a": in_polars}).to_arrow(),
        "pandas": pd.DataFrame({"a": pd.arrays.ArrowExtensionArray(in_arrow)}),
    }
    table = Table.learn(pd.DataFrame({"a": TIMES_OF_DAY}))
    for name, frame in arrays.items():
        found = table.codes(frame)[:, 0]
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=1.1e-6, err_msg=name)
        with use_numpy_only():
            alone = table.codes(read_frame(frame))[:, 0]
        np.testing.assert_allclose(alone, expected, rtol=0.0, atol=1.1e-6, err_msg=name)


def test_one_time_of_the_day_and_words_for_gaps_are_told_apart():
    found = codes_of(["9:00", "?", "?"] * 10)
    np.testing.assert_array_equal(found[:3, 0], [1, 0, 0])


def test_what_is_no_time_of_the_day_is_missing_with_a_warning():
    with pytest.warns(UserWarning, match="'a': values that are not durations, such as 'noon', are"):
        found = codes_of(WRITTEN, ["noon", "12:00"])
    np.testing.assert_array_equal(found[:, 0], [np.nan, 43200])


# ---------------------------------------------------------------------- matching columns

FRAME = pd.DataFrame({"x": np.arange(40) / 7, "g": ["u", "v"] * 20, "same": 1.0})


def test_columns_are_matched_by_name():
    table = Table.learn(FRAME)
    expected = table.codes(FRAME)
    np.testing.assert_array_equal(table.codes(FRAME[["g", "x"]]), expected)  # "same" is not used
    with pytest.warns(UserWarning, match="columns that were not in the fit are ignored: new"):
        found = table.codes(FRAME.assign(new=1.0))
    np.testing.assert_array_equal(found, expected)


def test_missing_columns_are_named():
    with pytest.raises(ValueError, match="expected columns x, g, which are not in X"):
        Table.learn(FRAME).codes(pd.DataFrame({"same": [1.0]}))


def test_arrays_are_matched_by_place():
    table = Table.learn(FRAME)
    with pytest.warns(UserWarning, match="X does not have valid feature names, but the table"):
        found = table.codes(FRAME.to_numpy(object))
    np.testing.assert_array_equal(found, table.codes(FRAME))
    with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3 features"):
        table.codes(FRAME[["x", "g"]].to_numpy(object))


def test_names_that_are_no_text():
    frame = pd.DataFrame({0: np.arange(30) / 7, ("a", 1): ["u", "v", "w"] * 10})
    assert [one.name for one in Table.learn(frame).columns] == ["0", "('a', 1)"]
    np.testing.assert_array_equal(Table.learn(frame).codes(frame)[:3, 1], [0, 1, 2])


def test_no_rows_have_no_codes():
    assert Table.learn(FRAME).codes(FRAME[:0]).shape == (0, 2)
    assert Table.learn(FRAME).codes(pd.DataFrame({"g": [], "x": []})).shape == (0, 2)


def test_what_no_longer_fits_is_missing_with_a_warning():
    table = Table.learn(
        FRAME.assign(day="2020-01-01").assign(day=pd.Series(pd.date_range("2020", periods=40)))
    )
    later = pd.DataFrame({"x": ["1.5", "wide"], "g": [1, None], "day": ["2020-01-03", "soon"]})
    with pytest.warns(UserWarning, match="are treated as missing") as given:
        found = table.codes(later)
    said = sorted(str(one.message) for one in given)
    assert said == [
        "column 'day': values that are not dates, such as 'soon', are treated as missing",
        "column 'x': values that are not numbers, such as 'wide', are treated as missing",
    ]
    np.testing.assert_array_equal(found[:, :3], [[1.5, 2, 2], [np.nan, np.nan, np.nan]])


TIMES = pd.date_range("2024-01-01", periods=40)
UNSUITED = {
    "dates among numbers": (np.arange(40) / 3, TIMES[:3], "numbers"),
    "durations among numbers": (np.arange(40) / 3, TIMES[:3] - TIMES[0], "numbers"),
    "dates among truths": (np.arange(40) % 2 == 0, TIMES[:3], "true or false"),
    "seconds among dates": (TIMES, TIMES[:3].astype("int64"), "dates"),
    "words among truths": (np.arange(40) % 2 == 0, ["perhaps", "so", "?"], "true or false"),
}


@pytest.mark.parametrize("name", UNSUITED)
def test_values_of_another_kind_are_missing_with_a_warning(name):
    values, later, what = UNSUITED[name]
    with pytest.warns(UserWarning, match=f"column 'a': values that are not {what}, such as"):
        found = codes_of(values, later)
    assert np.isnan(found).all()


def test_dates_that_are_told_to_be_numbers_are_days():
    table = Table.learn(pd.DataFrame({"a": TIMES}), columns={"a": "numeric"})
    np.testing.assert_array_equal(np.diff(table.codes(pd.DataFrame({"a": TIMES}))[:, 0]), 1.0)


def test_truths_are_read_from_text():
    found = codes_of(np.arange(40) % 2 == 0, ["True", "FALSE", " yes", "no", "1", "0", "?", None])
    np.testing.assert_array_equal(found[:, 0], [1, 0, 1, 0, 1, 0, np.nan, np.nan])


@pytest.mark.filterwarnings("error")
def test_numbers_beside_words_for_gaps_are_plain_numbers():
    found = codes_of(np.array([3, "?", 5, 7.5] * 10, dtype=object))
    np.testing.assert_array_equal(found[:4, 0], [3, np.nan, 5, 7.5])


# ---------------------------------------------------------------------- what is no frame


def test_arrays_of_numbers_are_numbers():
    X = np.arange(60).reshape(30, 2).astype(float)
    table = Table.learn(X)
    assert table.plain
    np.testing.assert_array_equal(table.codes(X), X)
    X[3, 1] = np.nan
    assert not Table.learn(X).plain
    np.testing.assert_array_equal(Table.learn(X).codes(X), X)


def test_lists_of_rows():
    rows = [[k / 7, "ab"[k % 2], None] for k in range(30)]
    with pytest.warns(UserWarning, match="columns without any value are dropped: x2"):
        table = Table.learn(rows)
    np.testing.assert_array_equal(table.codes(rows)[:2], [[0.0, 0.0], [1 / 7, 1.0]])


@pytest.mark.parametrize("X", [[1, 2, 3], np.arange(3.0), ["a", "b"], np.zeros((2, 2, 2))])
def test_other_shapes_are_refused(X):
    with pytest.raises(ValueError, match=r"Expected 2D array, got [13]D array instead"):
        Table.learn(X)


def test_rows_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="expected rows of the same length, got 1 to 2 values"):
        Table.learn([["a", 1], ["b"]])


def test_other_containers_are_refused():
    with pytest.raises(
        TypeError, match="expected data in memory, got LazyFrame: call its collect\\(\\) first"
    ):
        Table.learn(pytest.importorskip("polars").LazyFrame({"a": [1]}))
    with pytest.raises(ValueError, match="while a minimum of 1 is required"):
        Table.learn(FRAME[:0])
    with pytest.raises(ValueError, match="expected at least 1 row, got 0 sample"):
        Table.learn([])
    with pytest.raises(ValueError, match="expected different column names"):
        Table.learn(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_a_table_is_not_changed():
    frame = pd.DataFrame(COLUMNS).drop(columns="none")
    before = frame.copy(deep=True)
    Table.learn(frame).codes(frame)
    pd.testing.assert_frame_equal(frame, before)
    assert len(frame) == N


@pytest.mark.parametrize("dtype", ["str", "object", "string[pyarrow]"])
def test_text_read_in_parts_is_what_it_is_at_once(monkeypatch, dtype):
    rng = np.random.default_rng(0)
    words = [" ".join(rng.choice(["red", "blue", "small", "old"], 4)) + f" {k}" for k in range(50)]
    column = pd.Series([*words, None, "", "red"], dtype=dtype)
    frame = pd.DataFrame({"a": column, "b": np.arange(53.0)})
    table = Table.learn(frame, columns={"a": "text"})
    expected = table.codes(frame)
    monkeypatch.setattr("gpukfl.tables._frame._BLOCK_ROWS", 7)
    np.testing.assert_allclose(table.codes(frame), expected, rtol=1e-12)
    assert np.isnan(expected[50:52, 0]).all()


@pytest.mark.parametrize("make", [polars_frame, arrow_table], ids=["polars", "pyarrow"])
def test_words_of_arrow_become_objects_in_parts(make):
    words = np.array(["red", "", None, "green", "blue"], dtype=object)
    drawn = np.random.default_rng(0).integers(5, size=100_000)
    frame = read_frame(make({"a": words[drawn].tolist()}))
    read_column(frame, 0)  # what is imported is there
    tracemalloc.start()
    found = read_column(frame, 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    expected = labels(words[drawn])
    np.testing.assert_array_equal(found.data, expected.data)
    assert found.labels.tolist() == expected.labels.tolist()
    assert peak < 3 * found.data.nbytes  # objects and places of all rows take more


def test_no_column_of_codes_is_held_while_the_next_is_made():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.5], "b": [4.0, 7.0, 1.5]})
    coded, made = Table.learn(frame).coded, []

    def columns():
        for _ in coded:
            assert not made or made.pop()() is None
            codes = np.arange(3.0)
            made.append(weakref.ref(codes))
            yield codes
            del codes

    _, encoded = Encoding.learn_columns(columns(), coded, n=3)
    np.testing.assert_array_equal(encoded, np.tile(np.arange(3.0)[:, None], 2))
