"""Numbers as people write them, and words that stand for gaps."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpukfl.datasets import load_frame, load_table
from gpukfl.tables._files import Words

NUMBERS = [1234567.25, -1000.5, 999.0, 0.125, -3.0]


def written(tmp_path, text):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    return str(tmp_path / "t.csv")


def column(tmp_path, values, separator=";", **options):
    text = "\n".join(["a" + separator + "b", *(f'"{value}"{separator}x' for value in values)])
    return load_frame(written(tmp_path, text + "\n"), **options)["a"]


def marked(number, group, point):
    return f"{number:,.3f}".replace(",", "G").replace(".", point).replace("G", group)


@pytest.mark.pairs
@pytest.mark.parametrize(
    ("group", "point"),
    [(",", "."), (".", ","), (" ", ","), (" ", "."), ("'", "."), ("\u00a0", ","), ("\u202f", ",")],
)
@pytest.mark.parametrize("unit", ["{}", "${}", "{} €", "{}%"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_groups_decimals_and_units_are_read(tmp_path, group, point, unit, separator):
    values = [unit.format(marked(number, group, point)) for number in NUMBERS]
    np.testing.assert_array_equal(column(tmp_path, values, separator), NUMBERS)


@given(
    st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=5),
    st.sampled_from([".", ","]),
    st.integers(0, 5),
)
def test_whatever_is_written_with_a_mark_is_read_with_it(integers, point, digits):
    numbers = [integer / 10**digits for integer in integers]
    group = "," if point == "." else "."
    values = [marked(number, group, point) for number in numbers]
    words = Words.from_column(pd.Series(values))
    assert point in words.decimals
    expected = [float(f"{number:.3f}") for number in numbers]
    np.testing.assert_array_equal(words.as_numbers(pd.Series(values), point), expected)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["-$1,000.5", "$-2", "$ 3"], [-1000.5, -2, 3]),
        (["\u22121,5", "2"], [-1.5, 2]),
        (["12,34,567", "1,000"], [1234567, 1000]),
        (["1,5e3", "2"], [1500, 2]),
        ([",5", "-,25"], [0.5, -0.25]),
        (["1,234,567", "12"], [1234567, 12]),
    ],
)
def test_other_ways_to_write_numbers(tmp_path, values, expected):
    np.testing.assert_array_equal(column(tmp_path, values), expected)


@pytest.mark.parametrize(
    "values",
    [
        ["1,5", "x"],
        ["$1", "€2"],
        ["1.2.3", "4"],
        ["1,23,4", "5"],
        ["12:30", "13:45"],
        ["01.02.2020", "13.02.2020"],
        ["1-2", "3-4"],
        ["- -5", "6"],
        ["1,5", "1.5"],
        ["0,123,456", "1"],
        ["<5", "6"],
    ],
)
def test_what_is_no_number_stays_text(tmp_path, values):
    assert column(tmp_path, values).tolist() == values


# ---------------------------------------------------------------------- two ways


def test_what_can_be_read_in_two_ways_is_said(tmp_path):
    with pytest.warns(UserWarning, match=r"'1,234' in a is read as 1\.234\. If the decimal mark"):
        assert column(tmp_path, ["1,234", "2,345"]).tolist() == [1.234, 2.345]
    with pytest.warns(UserWarning, match="'1,234' in a is read as 1234"):
        assert column(tmp_path, ["999", "1,234"]).tolist() == [999, 1234]
    with pytest.warns(UserWarning, match="'1,234' in a is read as 1234"):
        assert column(tmp_path, ["1,234", "2,345"], ",").tolist() == [1234, 2345]
    assert column(tmp_path, ["1,234", "1,234,567"], ",").tolist() == [1234, 1234567]
    assert column(tmp_path, ["1.234", "2.345"], ",").tolist() == [1.234, 2.345]


@pytest.mark.parametrize(("decimal", "expected"), [(",", [1.234, 2.345]), (".", [1234, 2345])])
def test_what_can_be_read_in_two_ways_can_be_decided(tmp_path, decimal, expected):
    assert column(tmp_path, ["1,234", "2,345"], decimal=decimal).tolist() == expected
    points = column(tmp_path, ["1.234", "2.345"], decimal={",": ".", ".": ","}[decimal])
    assert points.tolist() == expected
    with pytest.raises(ValueError, match="expected decimal to be"):
        column(tmp_path, ["1"], decimal=";")


@pytest.mark.parametrize(
    ("other", "expected"),
    [("1,5", [1.234, 2.345]), ("1.5", [1234, 2345]), ("1,000.5", [1234, 2345])],
)
def test_other_columns_decide(tmp_path, other, expected):
    path = written(tmp_path, f"a;b\n1,234;{other}\n2,345;{other}\n")
    assert load_frame(path)["a"].tolist() == expected


def test_points_between_groups_are_no_decimals_beside_decimal_commas(tmp_path):
    path = written(tmp_path, "a;b;c;d\n1.234;1,5;0.5;1.000\n12.345;2,5;1.25;20.000\n")
    frame = load_frame(path)
    assert frame["a"].tolist() == [1234, 12345]
    assert frame["d"].tolist() == [1000, 20000]
    assert frame["b"].tolist() == [1.5, 2.5]
    assert frame["c"].tolist() == [0.5, 1.25]


def test_floats_with_gaps_stay_what_they_are_beside_decimal_commas(tmp_path):
    frame = load_frame(written(tmp_path, "a;b;c\n1,5;;inf\n2,5;2;1e3\n"))
    assert frame.fillna(-1).to_dict("list") == {"a": [1.5, 2.5], "b": [-1, 2], "c": [np.inf, 1000]}


def test_columns_that_contradict_each_other_decide_nothing(tmp_path):
    path = written(tmp_path, "a;b;c\n1,234;1,5;1,000.5\n2,345;2,5;2,000.5\n")
    with pytest.warns(UserWarning, match="can be read in two ways: '1,234' in a"):
        frame = load_frame(path)
    assert frame["b"].tolist() == [1.5, 2.5]
    assert frame["c"].tolist() == [1000.5, 2000.5]


# ---------------------------------------------------------------------- gaps


@pytest.mark.parametrize("word", ["-", "--", "none", "Unknown", "MISSING", "n.a.", "#DIV/0!", "."])
def test_words_among_numbers_and_dates_are_gaps(tmp_path, word):
    for values, kind in ((["1", "2.5"], "f"), (["2020-01-02", "2021-03-04"], "O")):
        with pytest.warns(UserWarning, match="words are read as missing values: .* in a"):
            found = column(tmp_path, [values[0], word, values[1]])
        assert found.isna().tolist() == [False, True, False]
        assert found.dtype.kind == kind


def test_words_among_words_are_words(tmp_path):
    values = ["none", "guarantor", "-", "unknown"]
    assert column(tmp_path, values).tolist() == values


def test_a_question_mark_is_a_gap_anywhere(tmp_path):
    with pytest.warns(UserWarning, match=r"values: '\?' in a$"):
        found = column(tmp_path, ["private", "?", " ? ", "state"])
    assert found.isna().tolist() == [False, True, True, False]


def test_blanks_around_text_are_no_part_of_it(tmp_path):
    found = column(tmp_path, ["red ", " red", "blue", "  ", ""])
    assert found.fillna("gap").tolist() == ["red", "red", "blue", "gap", "gap"]


def test_integers_stay_integers(tmp_path):
    assert column(tmp_path, ["1 000", "2 000"]).dtype == np.int64
    with pytest.warns(UserWarning, match="missing"):
        assert column(tmp_path, ["1 000", "?"]).dtype == np.float64


def test_a_column_of_other_objects_is_left():
    values = pd.Series([True, None, 3], dtype=object)
    assert Words.from_column(values) is None


def test_versions_in_a_file_are_warned_of(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("v,x,y\n1.10,0.10,1\n1.9,0.2,2\n1.1,0.3,3\n")
    with pytest.warns(UserWarning, match=r"column 'v': '1.10' is read as the number 1.1") as told:
        load_table(path, "y")
    assert len(told) == 1
    kept = load_table(path, "y", kinds={"v": "category"})
    assert kept.X["v"].tolist() == ["1.10", "1.9", "1.1"]
