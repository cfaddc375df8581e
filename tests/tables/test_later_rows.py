"""Later rows that say the same as those of the fit in another way, or nothing that it knew."""

import datetime
import io
import re

import numpy as np
import pandas as pd
import pytest
from table_cases import makers

import gpukfl
from gpukfl._accel.trust import use_numpy_only
from gpukfl.core._warnings import collect_warnings
from gpukfl.tables import Table
from gpukfl.tables._frame import read_frame

ZIPS = ["00501", "10115", "20095"] * 20


def table_of(values, name="zip", **told):
    return Table.learn(pd.DataFrame({name: values}), **told)


def both(table, later, name="zip"):
    """Codes of a column, the same of the package and of the runtime, and what is warned of."""
    with collect_warnings() as told:
        found = table.codes(pd.DataFrame({name: later}))
    with use_numpy_only(), collect_warnings() as alone:
        again = table.codes(read_frame({name: list(later)}))
    np.testing.assert_array_equal(again, found)
    assert alone == told
    return found[:, -1], told


# ---------------------------------------------------------------------- text and numbers


@makers
@pytest.mark.parametrize("gap", [[], [None]])
def test_numbers_are_the_levels_whose_text_is_the_same_number(make, gap):
    table = table_of(ZIPS)
    later = make({"zip": [10115, 501, 20095, 501, *gap]})
    said = "'zip' was text in the fit and is numbers here: 501 is read as '00501'"
    with pytest.warns(UserWarning, match=said) as given:
        found = table.codes(later)[:, 0]
    np.testing.assert_array_equal(found, [1, 0, 2, 0, *([np.nan] if gap else [])])
    assert len(given) == 1


def test_a_file_without_its_zeros_is_understood():
    table = table_of(ZIPS)
    written = pd.DataFrame({"zip": ZIPS}).to_csv(index=False)
    later = pd.read_csv(io.StringIO(written))
    assert later["zip"].dtype.kind == "i"
    found, told = both(table, later["zip"].tolist())
    np.testing.assert_array_equal(found, [0, 1, 2] * 20)
    assert len(told) == 1


@pytest.mark.parametrize(
    ("levels", "later", "expected", "count"),
    [
        (["1", "2"], [1, 2.0], [0, 1], 0),
        (["1", "2"], ["1.0", " 2 "], [0, 1], 1),
        (["1.0", "2.0"], [1, 2], [0, 1], 1),
        (["1.50", "2.5"], [1.5, 2.5], [0, 1], 1),
        (["1", "2"], [3, 2], [2, 1], 0),
        (["00501", "0501"], [501, 501], [2, 2], 0),  # either may be meant
        (["00501", "501"], [501, 501.0], [1, 1], 0),
        (["1E3", "2E3"], [1000.0, 2000.0], [0, 1], 1),  # as files' readers understand them
        (["1000", "2000"], ["1e3", "2e3"], [2, 2], 0),  # which may be names
        (["a1", "b2"], [1, 2], [2, 2], 0),
        (["9007199254740993", "a"], [9007199254740993, 2**53], [0, 2], 0),  # equal in float64
        (["00501", "1"], [True, False], [2, 2], 0),
    ],
)
def test_a_number_is_a_level_where_one_alone_is_the_same(levels, later, expected, count):
    table = table_of(levels * 20, columns={"zip": "category"})
    found, told = both(table, later)
    np.testing.assert_array_equal(found, expected)
    assert len(told) == count


@pytest.mark.parametrize("write", [str.lower, str.upper])
def test_truths_are_the_levels_that_are_the_same_word(write):
    table = table_of([write("True"), write("False"), write("False")] * 20)
    found, told = both(table, [True, False] * 10)
    np.testing.assert_array_equal(found, [1, 0] * 10)
    said = "column 'zip' was text in the fit and is true or false here: False is read as"
    assert told == [f"{said} {write('False')!r}"]


@pytest.mark.parametrize("kind", ["category", "code", "ordered"])
@pytest.mark.parametrize("later", [["3", "1", "5"], ["3.0", "1.0", "5"], [3.0, 1.0, 5.0]])
def test_levels_of_integers_are_found_in_text(kind, later):
    table = table_of([1, 3, 5] * 20, columns={"zip": kind})
    found, _ = both(table, later)
    np.testing.assert_array_equal(found, [1, 0, 2])


def test_text_that_is_ordered_is_found_by_its_number():
    table = table_of(["01", "02", "03"] * 20, columns={"zip": "ordered"})
    found, told = both(table, [3, 1, 7])
    np.testing.assert_array_equal(found, [2, 0, np.nan])
    assert len(told) == 2
    assert told[0].endswith("numbers here: 1 is read as '01'")


# ---------------------------------------------------------------------- levels that are new

KINDS = ["male", "female"] * 50


@makers
@pytest.mark.parametrize("change", [str.upper, "{} ".format])
def test_levels_that_are_all_new_are_told(make, change):
    table = table_of(KINDS, "kind")
    later = [change(kind) for kind in KINDS]
    odd = min(later)
    said = f"column 'kind': none of 100 values was seen in the fit, such as {odd!r}: "
    with pytest.warns(UserWarning, match="seen in the fit") as given:
        found = table.codes(make({"kind": later}))
    assert [str(one.message) for one in given] == [said + "levels were 'female', 'male'"]
    np.testing.assert_array_equal(found[:, 0], 2)
    assert both(table, later, "kind")[1] == [said + "levels were 'female', 'male'"]


def test_half_of_the_values_are_told_and_gaps_are_no_values():
    table = table_of(list("abcdef") * 20, "kind")
    _, told = both(table, ["x"] * 3 + ["y"] * 2 + ["a"] * 5 + [None] * 30, "kind")
    said = "column 'kind': 5 of 10 values were not seen in the fit, such as 'x': "
    assert told == [said + "levels were 'a', 'b', 'c', 3 more"]
    assert both(table, ["x"] * 4 + ["a"] * 6, "kind")[1] == []


def test_few_rows_tell_nothing():
    table = table_of(KINDS, "kind")
    assert both(table, ["MALE"] * 9, "kind")[1] == []
    assert both(table, ["MALE"] * 9 + [None] * 9, "kind")[1] == []


def test_new_codes_are_told():
    table = table_of([1, 2, 3] * 40, "kind")
    found, told = both(table, [7.0] * 10, "kind")
    np.testing.assert_array_equal(found, 3)
    assert [one.split(":")[1] for one in told] == [
        " none of 10 values was seen in the fit, such as '7'"
    ]


def test_names_of_which_most_are_new_in_the_fit_too_are_not_told():
    rng = np.random.default_rng(0)
    names = [f"n{k}" for k in rng.integers(3000, size=2000)]
    table = table_of(names, "who", columns={"who": "category"})
    assert 0.4 < table.columns[0].rare < 0.6
    assert both(table, [f"m{k}" for k in range(50)], "who")[1] == []
    few = table_of([f"n{k}" for k in rng.integers(300, size=2000)], "who")
    assert few.columns[0].rare < 0.01
    assert len(both(few, [f"m{k}" for k in range(50)], "who")[1]) == 1


# ---------------------------------------------------------------------- numbers in text

PLAIN = np.arange(40) * 33.5


@makers
@pytest.mark.parametrize(
    ("later", "expected"),
    [
        (["$1,234", "$5", None], [1234, 5, np.nan]),
        (["12 %", "3.5%", "n/a"], [12, 3.5, np.nan]),  # as readers of files take them
        (["1.234,50", "0,5", None], [1234.5, 0.5, np.nan]),
        (["1.200,50 €", "7", "?"], [1200.5, 7, np.nan]),
    ],
)
def test_numbers_are_read_as_a_fit_would(make, later, expected):
    table = table_of(PLAIN, "price")
    with pytest.warns(UserWarning, match="'price' is written unlike in the fit: ") as given:
        found = table.codes(make({"price": later}))[:, 0]
    np.testing.assert_array_equal(found, expected)
    assert len(given) == 1
    np.testing.assert_array_equal(both(table, later, "price")[0], expected)


@pytest.mark.parametrize(
    ("later", "expected", "odd"),
    [
        (["1,234", "(1,200)", "1.234"], [1234, -1200, 1.234], "1,234"),
        (["1.234", "2.5", "-3"], [1.234, 2.5, -3], ""),
    ],
)
def test_what_may_be_read_in_two_ways_is_as_it_was(later, expected, odd):
    found, told = both(table_of(PLAIN, "price"), later, "price")
    np.testing.assert_array_equal(found, expected)
    assert [f"{odd!r} is read as" in one for one in told] == [True] * bool(odd)


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        (["1.234", "0,5"], [1.234, np.nan]),  # 1.234 would be a thousand and more
        (["3 kg", "4"], [np.nan, 4]),  # may be grams in the fit
        (["9:05", "4"], [np.nan, 4]),  # may be hours
        (["$3", "€4", "5"], [3, np.nan, 5]),
        (["wide", "5"], [np.nan, 5]),
    ],
)
def test_what_is_doubtful_stays_missing_with_a_warning(later, expected):
    found, told = both(table_of(PLAIN, "price"), later, "price")
    np.testing.assert_array_equal(found, expected)
    assert told[-1].endswith("are treated as missing")


@pytest.mark.parametrize("later", [["1,5 €", "2.000 €"], ["1,5", "wide"], ["5 €", "1,234"]])
def test_decimal_commas_of_the_fit_hold(later):
    table = table_of([f"{x:.2f} €".replace(".", ",") for x in PLAIN], "price")
    expected = {"1,5 €": 1.5, "2.000 €": 2000, "1,5": 1.5, "5 €": 5, "1,234": 1.234}
    found, _ = both(table, later, "price")
    np.testing.assert_array_equal(found, [expected.get(text, np.nan) for text in later])


@pytest.mark.parametrize(
    "fitted", [PLAIN, [f"{x:.3f}" for x in PLAIN / 7], [f"${x}" for x in PLAIN]]
)
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize(
    ("later", "expected"),
    [
        (["0,7", "1,234"], [0.7, 1.234]),
        (["2,5", "1,234"], [2.5, 1.234]),
        (["1,5", "-1,234"], [1.5, -1.234]),
        (["0,7", "1,234", "abc"], [np.nan] * 3),
        (["0,7", "1,234", "1.5"], [np.nan, np.nan, 1.5]),
    ],
)
def test_a_decimal_comma_says_so_of_all_values_in_any_order(fitted, later, expected, back):
    order = slice(None, None, -1 if back else 1)
    found, told = both(table_of(fitted, "price"), later[order], "price")
    np.testing.assert_array_equal(found, expected[order])
    assert len(told) == 1
    assert f"'{later[1]}'" in told[0]


def test_a_point_says_so_after_decimal_commas():
    table = table_of([f"{x:.2f}".replace(".", ",") for x in PLAIN], "price")
    found, told = both(table, ["2.000", "0.7"], "price")
    np.testing.assert_array_equal(found, [2.0, 0.7])
    assert told[0].endswith("fit: '0.7' is read as 0.7, '2.000' is read as 2")


def test_two_readings_are_told_beside_words():
    found, told = both(table_of(PLAIN, "price"), ["abc", "1,234"], "price")
    np.testing.assert_array_equal(found, [np.nan, 1234])
    assert [("two ways, and '1,234'" in one, "'abc'" in one) for one in told] == [
        (True, False),
        (False, True),
    ]


# ---------------------------------------------------------------------- numbers written otherwise


@pytest.mark.parametrize(
    ("fitted", "later", "expected", "said"),
    [
        (
            ["0,345", "0,5", "1,25"],
            ["0.345"],
            [0.345],
            "unlike in the fit: '0.345' is read",
        ),
        (["0,345", "0,5", "1,25"], ["0,3", "0.345"], [0.3, np.nan], "not numbers, such as '0.345'"),
        ([0.5, 1.25, 2.75], ["1,234"], [1234.0], "in two ways, and '1,234' is read as 1234$"),
        ([0.5, 1.25, 2.75], ["1,5"], [1.5], "unlike in the fit: '1,5' is read as 1.5"),
        ([0.5, 1.25, 2.75], ["1.5", "12 kg"], [1.5, np.nan], "not numbers, such as '12 kg', are"),
        (
            [0.5, 1.25, 2.75],
            [1.5, "x"],
            [1.5, np.nan],
            "not numbers, such as 'x', are treated",
        ),
        (["$5.5", "$6.25", "$7"], ["€5"], [np.nan], "not numbers, such as '€5', are treated"),
    ],
)
def test_what_is_not_read_as_in_the_fit_is_told(fitted, later, expected, said):
    table = table_of(fitted * 20, name="a")
    found, told = both(table, later, name="a")
    np.testing.assert_array_equal(found, expected)
    assert len(told) == 1
    assert re.search(said, told[0])


@pytest.mark.parametrize(
    "later", [["12", pd.NA], pd.array(["12", None], "string"), ["12.0", "n/a"]]
)
@pytest.mark.parametrize("other", [None, "text"])
def test_text_of_a_number_is_one_whatever_else_the_table_holds(later, other):
    frame = pd.DataFrame({"a": np.arange(60) / 7, "b": np.sin(np.arange(60))})
    frame = frame if other is None else frame.assign(c=["u", "v", "w"] * 20)
    model = gpukfl.fit(frame, np.arange(60) / 5, effort="quick", members=["linear", "laplace"])
    rows = frame[:2].assign(a=later)
    plain = frame[:2].assign(a=[12.0, np.nan])
    with collect_warnings() as told:
        found = model.predict(rows)
    with collect_warnings() as expected:
        np.testing.assert_array_equal(found, model.predict(plain))
    assert told == expected


def test_days_are_found_among_categories_of_days():
    days = [datetime.date(2020, 1, 1 + k % 5) for k in range(60)]
    table = table_of(pd.Categorical(days), name="a")
    expected = table.codes(pd.DataFrame({"a": pd.Categorical(days)}))
    assert (table.columns[0].kind, len(np.unique(expected))) == ("category", 5)
    np.testing.assert_array_equal(both(table, days, name="a")[0], expected[:, 0])
    np.testing.assert_array_equal(table.codes([{"a": days[3]}]), expected[3:4])
    moments = pd.DataFrame({"a": pd.to_datetime(pd.Series(days))})
    np.testing.assert_array_equal(table.codes(moments), expected)
