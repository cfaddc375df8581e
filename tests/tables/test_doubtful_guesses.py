"""Guesses that only some values support: the column stays what it is, and a warning says so."""

import re
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_cases import column, makers

from gpukfl.tables import Table
from gpukfl.tables._frame import read_values

SEASONS = [f"{year}-{(year + 1) % 100:02d}" for year in range(2003, 2018)]
quick = settings(max_examples=20, deadline=None)


def quietly(values, name="a", **told):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return column(values, name, **told)


# ---------------------------------------------------------------------- dates


@makers
def test_seasons_are_words(make):
    frame = make({"season": SEASONS * 8, "x": np.arange(120) / 7})
    said = (
        "'season' is not read as dates, as each value names a year and the next one: "
        "pass columns={'season': 'category'} to confirm"
    )
    with pytest.warns(UserWarning, match=said):
        table = Table.learn(frame)
    assert (table.columns[0].kind, table.columns[0].missing) == ("category", 0.0)
    assert sorted(table.columns[0].levels) == SEASONS


def test_seasons_without_a_month_13_are_words():
    with pytest.warns(
        UserWarning, match="as each value names a year and the next one: .*'category'"
    ):
        assert column(SEASONS[:9] * 8).kind == "category"
    months = [f"{2003 + k // 12}-{k % 12 + 1:02d}" for k in range(100)]
    assert column(months).kind == "date"
    assert quietly(SEASONS * 8, columns={"a": "date"}).kind == "date"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert column(SEASONS * 8, columns={"a": "category"}).kind == "category"


@pytest.mark.parametrize(
    "seasons",
    [
        ["2003-04", "2004-05"],
        ["2003/04", "2004/05"],
        ["2008-9", "2003-4"],
        ["1999-00", "2000-01"],
        ["2010-11", "2011-12", None],
    ],
)
def test_two_seasons_are_words_with_a_warning(seasons):
    with pytest.warns(UserWarning, match="'a' is not read as dates"):
        assert column(seasons * 30).kind == "category"


@pytest.mark.parametrize("months", [["2003-04", "2004-05", "2004-06"], ["2003-01", "2003-02"]])
def test_months_are_dates_without_a_warning(months):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert column(months * 30).kind == "date"


@pytest.mark.parametrize(
    "words",
    [
        ["2003-2004", "2004-2005"],
        ["03/04", "04/05"],
        ["2:1", "3:0"],
        ["16:9", "4:3"],
        ["192.168.0.1", "10.0.0.1"],
        ["555-1234", "555-9876"],
        ["+49 30 1234567", "+49 89 7654321"],
        ["5-10", "10-20"],
        ["3-2", "1-0"],
        ["1900-1950", "1950-2000"],
        ["120/80", "130/85"],
        ["1.10.1", "1.9.3"],
        ["2003Q1", "2004Q2"],
    ],
)
def test_ranges_scores_and_addresses_are_words(words):
    assert quietly(words * 30).levels == tuple(sorted(words))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["1.9", "1.10", "1.1"], "'1.10' is read as the number 1.1"),
        (["3.8", "3.9", "3.10"], "'3.10' is read as the number 3.1"),
        (["10E2", "12E3"], "'10E2' is read as the number 1000"),
        (["59:30", "1:02:10"], "'59:30' is read as hours and minutes, beside '1:02:10'"),
    ],
)
def test_numbers_that_may_be_names_are_warned_of(values, said):
    with pytest.warns(
        UserWarning, match=f"column 'a': {said}. To keep the text, pass columns={{'a'"
    ):
        assert column(values * 30).kind in ("numeric", "duration")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert column(values * 30, columns={"a": "category"}).kind == "category"


@pytest.mark.parametrize(
    "values", [["1.90", "1.10"], ["1.5", "2.25"], ["0.10", "0.2"], ["2", "1.50"], ["1e+05", "2.0"]]
)
def test_plain_numbers_are_not_warned_of(values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert column(values * 30).kind == "numeric"


def test_sizes_of_three_numbers_are_words():
    sizes = [f"{a}/{b}/{c}" for a in (1, 20, 30) for b in (2, 40, 50) for c in (10, 60)]
    with pytest.warns(UserWarning, match="'a' is not read as dates, as 4 of 18 values"):
        assert column(sizes * 8).kind == "category"


@quick
@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 60))
def test_nearly_all_values_are_dates_where_a_column_is(valid, invalid, often):
    """By different values and by rows, of which one that is no date may have many."""
    dates = [str(day) for day in np.arange(valid) + np.datetime64("2021-01-01")]
    others = [f"2021-{13 + k}-01" for k in range(invalid)]
    found = quietly([*dates, *dates, *others * often, "?"])
    share = min(valid / max(valid + invalid, 1), 2 * valid / max(2 * valid + invalid * often, 1))
    assert (found.kind == "date") == (share >= 0.95)
    if valid and 0.0 < share < 0.95:
        with pytest.warns(UserWarning, match="'a' is not read as dates"):
            column([*dates, *dates, *others * often])


# ---------------------------------------------------------------------- numbers


@quick
@given(st.integers(20, 60), st.integers(1, 6), st.sampled_from(["numeric", "date", "duration"]))
def test_words_among_numbers_dates_and_durations_are_warned_of(n, n_words, kind):
    make = {
        "numeric": lambda k: f"{k}.5",
        "date": lambda k: str(np.datetime64("2021-01-01") + k),
        "duration": lambda k: f"{k}:15",
    }[kind]
    values = [make(k) for k in range(n)] + [f"word {k}" for k in range(n_words)]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = column(values * 2)
    assert found.kind == "category"
    assert len(told) == (n >= 0.95 * (n + n_words))
    if told:
        assert f"pass columns={{'a': '{kind}'}} to make them missing" in str(told[0].message)
        read = quietly(values * 2, columns={"a": kind})
        assert read.missing == pytest.approx(n_words / (n + n_words))


@quick
@given(st.lists(st.integers(0, 999), min_size=5, max_size=30))
def test_no_group_of_thousands_begins_with_a_zero(thousandths):
    texts = [f"0,{number:03d}" for number in thousandths]
    expected = np.array(thousandths) / 1000
    for mark in (",", "'", "\u202f"):
        marked = np.array([text.replace(",", mark) for text in texts], dtype=object)
        assert np.isnan(read_values(marked).as_numbers()).all()
    values = [*texts, "1,234"]  # which could be more than a thousand
    found = Table.learn(pd.DataFrame({"a": values}))
    if found.columns[0].kind == "numeric":  # and no code, nor the same
        codes = found.codes(pd.DataFrame({"a": values}))[:, 0]
        np.testing.assert_array_equal(codes, [*expected, 1.234])
    else:
        assert found.columns[0].decimal == ","


@quick
@given(st.lists(st.integers(1000, 999_999), min_size=3, max_size=20, unique=True))
def test_two_readings_are_warned_of_and_one_is_not(numbers):
    """A group of thousands may be decimals unless there are two, or a point."""
    texts = [f"{number:,}" for number in numbers]
    with pytest.warns(UserWarning, match="'a': numbers can be read in two ways, and '"):
        column(texts)
    for clear in (f"{numbers[0] * 1000:,}", f"{numbers[0]:,}.5"):
        table = Table.learn(pd.DataFrame({"a": [*texts, clear]}))
        codes = table.codes(pd.DataFrame({"a": texts}))[:, 0]
        np.testing.assert_array_equal(codes, numbers)


# ---------------------------------------------------------------------- counters and codes


@pytest.mark.parametrize("name", ["Order", "order", "Rowno", "ticket"])
@quick
@given(first=st.integers(-5, 100), n=st.integers(21, 80), shuffled=st.booleans())
def test_counters_of_rows_are_left_out(name, first, n, shuffled):
    rows = np.arange(first, first + n)
    if shuffled:
        rows = np.random.default_rng(n).permutation(rows)
    with pytest.warns(UserWarning, match=f"column '{name}' looks like a row number and is dropped"):
        assert column(rows, name).kind == "identifier"


def test_an_order_of_some_rows_counts_them_too():
    rows = np.random.default_rng(0).permutation(3000)[:2500]
    assert quietly(rows, "Order").kind == "identifier"
    assert column(rows, "order_value").kind == column(rows, "rank").kind == "numeric"


@quick
@given(st.lists(st.integers(0, 99), min_size=1, max_size=6), st.sampled_from(["", " "]))
def test_codes_keep_the_zeros_before_them(numbers, blank):
    codes = [f"{blank}{number:03d}" for number in numbers]
    found = column([*codes * 3, "105"])
    assert found.kind == "category"
    assert set(found.levels) == {*codes, "105"}


# ---------------------------------------------------------------------- values of several types


@quick
@given(
    rest=st.lists(
        st.sampled_from([7, 2.5, Decimal(3), "8", " 9.5 ", "1,000", None, np.nan, pd.NA, pd.NaT]),
        min_size=5,
    ),
    word=st.sampled_from(["", "tall"]),
)
def test_text_is_warned_of_where_it_is_no_number(rest, word):
    """By a table and by its reader without pandas."""
    values = [pd.NA, "12", 11, 12.5, *rest, *([word] if word else [])]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        notes = [read_values(np.array(values, dtype=object)).note, read_values(values).note]
    assert caught == []
    assert [("read as text" in note) for note in notes] == [bool(word)] * 2


def test_numbers_with_units_among_numbers_are_no_text():
    values = [12, "13 kg", "14 kg", 15.5] * 10
    assert read_values(np.array(values, dtype=object)).note == ""
    assert read_values(values).note == ""


def test_codes_that_begin_with_a_zero_say_why_they_are_words():
    found = column([f"{k % 37:04d}" for k in range(200)])
    assert found.kind == "category"
    assert found.reason == "37 different texts, digits that begin with a zero"
    assert "zero" not in column([f"0x{k % 37:04d}" for k in range(200)]).reason


def test_a_column_of_odd_numbers_is_left_out_in_plain_words():
    said = (
        "column 'a' is dropped: every row has a different value, and some, such as '000', are not "
        "numbers. Pass columns={'a': 'numeric'} to read the numbers and treat other values "
        "as missing"
    )
    values = [f"{k:03d}" for k in range(60)]
    with pytest.warns(UserWarning, match=re.escape(said)):
        assert column(values).kind == "identifier"
    assert quietly(values, columns={"a": "numeric"}).kind == "numeric"
