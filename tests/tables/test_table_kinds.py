"""What columns are taken for: each kind, and what is near its limits."""

import numpy as np
import pandas as pd
import pytest
from table_cases import COLUMNS, KINDS, N, column, empty, kinds, makers

from gpukfl.tables import Column, Table


@makers
@empty
def test_every_kind_is_found_in_every_library(make):
    assert kinds(Table.learn(make(COLUMNS))) == KINDS


@empty
def test_kinds_do_not_depend_on_the_order_of_rows():
    frame = pd.DataFrame(COLUMNS)
    table, other = Table.learn(frame), Table.learn(frame.sample(frac=1.0, random_state=1))
    assert kinds(other) == kinds(table)
    assert [one.levels for one in other.columns] == [one.levels for one in table.columns]


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("CustomerId", np.arange(50) * 977, "identifier"),  # a name and no two alike
        ("ticket", np.append(np.arange(1.0, 51), np.nan), "numeric"),  # a key has no gaps
        ("sale date", np.arange(20240101, 20240125), "date"),
        ("sale date", np.arange(20240101, 20240141), "numeric"),  # some are no dates
        ("sale", np.arange(20240101, 20240111), "numeric"),
        ("n", np.arange(50), "numeric"),  # one letter is a coordinate
        ("rank", np.arange(1, 51), "numeric"),
        ("year", np.arange(1950, 2000), "numeric"),
        ("ticket", 2 * np.arange(50), "numeric"),  # of a grid
        ("temperature", np.arange(50), "numeric"),
        ("amount_paid", np.arange(50) * 977, "numeric"),  # no "Id"
        ("uric_acid", np.arange(50) * 977, "numeric"),
        ("growth", np.arange(50) * 977, "numeric"),  # no row
        ("heat_index", np.arange(50) * 977, "numeric"),  # no two need be alike by chance
        ("octane_number", np.arange(50) * 977, "numeric"),
        ("amount_paid", np.arange(60) % 20, "numeric"),
        ("heat_index", np.arange(60) % 20, "numeric"),
        ("userid", np.arange(50) * 977, "identifier"),
        ("userid", np.arange(60) % 20, "code"),
        ("weight", np.arange(50) * 977, "numeric"),  # spread far apart, as measurements are
        ("weight", np.arange(5), "numeric"),  # too few to say
        ("weight", np.linspace(0.0, 1.0, 50), "numeric"),  # no integers
        ("store_id", np.arange(60) % 20, "code"),
        ("zip", 10_000 + np.arange(60) % 20, "code"),
        ("rate", np.arange(80) % 4, "code"),
        ("rate", np.arange(80) % 2, "numeric"),
        ("rate", np.arange(80) % 5, "numeric"),  # 16 of each
        ("rate", np.arange(400) % 9, "numeric"),
    ],
)
def test_integers(name, values, kind):
    assert column(values, name).kind == kind


@pytest.mark.parametrize("name", ["RowNumber", "order_no", "NO", "key"])
def test_integers_whose_name_may_be_one_of_rows_are_left_out_in_words(name):
    values = np.arange(50) * (1 if name == "RowNumber" else 977)
    with pytest.warns(UserWarning, match=f"column '{name}' looks like a row number and is dropped"):
        assert column(values, name).kind == "identifier"


def test_an_index_of_few_numbers_far_apart_is_a_number():
    assert column(np.arange(300) * 27, "index").kind == "numeric"


def test_integers_that_follow_each_other_are_left_out_in_words():
    rows = np.random.default_rng(0).permutation(50)
    with pytest.warns(UserWarning, match="column 'ticket' looks like a row number and is dropped"):
        assert column(rows, "ticket").kind == "identifier"


def test_integers_that_count_rows_are_found_in_a_part_of_them():
    rows = np.random.default_rng(0).permutation(10_000)[:8000]
    with pytest.warns(UserWarning, match=r"'number' looks like .*'number': 'numeric'} .* keeps it"):
        assert column(rows, "number").kind == "identifier"
    assert column(rows, "mileage").kind == column(rows, "shade").kind == "numeric"
    drawn = np.random.default_rng(0).integers(10_000, size=8000)
    assert column(drawn, "number").kind == "numeric"


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1.5", "2", "-3e2"], "numeric"),
        (["$1,200.50", "-$3", "$ 4"], "numeric"),
        (["12 %", "3%", "4"], "numeric"),
        (["998 CC", "1200.5 cc", "null cc"], "numeric"),
        (["$3", "€4", "5"], "category"),  # of two units
        (["90 min", "2 h", "3 h"], "category"),
        (["--3", "4.5", "5"], "category"),
        (["A12", "A13", "A15"], "category"),
        (["1st", "2nd", "3rd"], "category"),
        (["1.5", "?", "2.5", "n/a"], "numeric"),
        (["01", "02", "10"], "category"),  # the zeros are a part of them
        (["9:05", "13:45", "00:00"], "duration"),
        (["09:05:10", " 13:45:10.5", "?", "36:00:00"], "duration"),
        (["1:30", "2", "3"], "category"),  # of what?
        (["3:75", "2:30", "1:00"], "category"),  # no minutes
        (["1,5", "2,5", "3,25"], "numeric"),  # no groups of three digits
        (["1,2,5", "2,5", "3"], "category"),
        (["1.5", "2.5", "wide"], "category"),
        (["2020-01-31", "2020-02-01", "unknown"], "date"),
        (["20140131T000000", "20150131T1030", "20150201T000000"], "date"),
        (["3/14/2020", "4/1/2020", "5/1/20"], "date"),
        (["Jan 5, 2020", "March 7, 2021", "5 May 2020"], "date"),
        (["2020-13-45", "2021-77-01", "2022-50-50"], "category"),
        (["March", "May", "June"], "category"),
        (["True", "False", "True"], "category"),
    ],
)
def test_text_that_says_something_else(values, kind):
    assert column(values * 10).kind == kind


@pytest.mark.parametrize(
    ("n", "different", "kind"), [(100, 20, "category"), (100, 50, "category"), (100, 51, "text")]
)
def test_text_of_many_values(n, different, kind):
    assert column([f"some words {k % different}" for k in range(n)]).kind == kind


def test_other_words_in_every_row():
    assert column([f"w{k}" for k in range(50)]).kind == "identifier"
    assert column([f"w{k} x" for k in range(50)]).kind == "text"
    assert column([f"w{k}" for k in range(15)]).kind == "category"
    assert column([f"w{k % 40}" for k in range(50)]).kind == "category"
    assert column([f"w{k}" if k % 2 else None for k in range(50)]).kind == "category"


def test_an_order_of_days_and_months_that_no_date_tells_is_said():
    months = [f"{k:02}/{1 + 5 * k % 12:02}/2021" for k in range(1, 13)]
    with pytest.warns(UserWarning, match="column 'a': dates such as '01/06/2021' may begin with"):
        assert column(months).day_first is False
    assert column(pd.date_range("2021", periods=12)).day_first is None


def test_levels_are_in_order_of_frequency():
    assert column(["b"] * 3 + ["a"] * 3 + ["c"] * 5).levels == ("c", "a", "b")


def test_declared_categories_stay_categories():
    numbers = pd.Categorical([1, 2, 3] * 40)
    assert (column(numbers).kind, column(numbers).levels) == ("category", ("1", "2", "3"))
    sizes = pd.Categorical(["s", "l"] * 5, categories=["s", "m", "l"], ordered=True)
    assert (column(sizes).kind, column(sizes).levels) == ("ordered", ("s", "m", "l"))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("numeric", [1, 2, 3]),
        ("code", [1, 2, 3]),
        ("code", ["1", "2", "x"]),
        ("category", [1.5, 2.5, 3.5]),
        ("ordered", ["5-9", "10-20", "20+"]),
        ("boolean", [0, 1, 1]),
        ("date", ["2020-01-01", "2021-01-01", "x"]),
        ("duration", [1, 2, 3]),
        ("text", ["a b", "c d", "a d"]),
        ("identifier", [1.5, 2.5, 2.5]),
    ],
)
def test_kinds_may_be_told(kind, values):
    frame = pd.DataFrame({"a": values * 10, "b": np.arange(30) / 7})
    table = Table.learn(frame, columns={"a": kind})
    assert (table.columns[0].kind, table.columns[0].reason) == (kind, "as told")


def test_ordered_levels_are_in_the_order_of_their_numbers():
    told = column(["20+", "5-9", "10-20", "none"] * 5, columns={"a": "ordered"})
    assert told.levels == ("5-9", "10-20", "20+", "none")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"b": "numeric"}, "expected columns= to name columns of the table, got 'b'"),
        ({"a": "zip"}, "expected a kind among numeric, .* for 'a', got 'zip'"),
        ({"a": "duplicate"}, "expected a kind among"),
        ({"a": "numeric"}, "expected only numeric values in column 'a', got 'x'"),
        ({"a": "date"}, "expected only date values in column 'a', got 'x'"),
    ],
)
def test_kinds_that_cannot_be(columns, said):
    with pytest.raises(ValueError, match=said):
        Table.learn(pd.DataFrame({"a": ["x", "y"] * 10}), columns=columns)


def test_a_column_is_of_a_known_kind():
    with pytest.raises(ValueError, match="expected a kind of column among"):
        Column("a", "number", "")


# ---------------------------------------------------------------------- left out


def test_duplicates_keep_the_first_and_say_so():
    n = np.arange(90) / 7
    frame = pd.DataFrame(
        {"x": n, "y": n.copy(), "z": n + 1, "g": list("abc") * 30, "h": list("xyz") * 30}
    )
    table = Table.learn(frame)
    assert kinds(table) == dict(
        x="numeric", y="duplicate", z="numeric", g="category", h="duplicate"
    )
    assert "h is dropped: the same values as g" in table.lines()
    assert [c.kind for c in Table.learn(frame, columns={"h": "category"}).columns][4] == "category"


def test_numbers_and_dates_in_text_are_compared_by_what_they_say():
    n = np.arange(90)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(n * 7, "D")
    frame = pd.DataFrame(
        {
            "a": [f"{k / 7:.4f}" for k in n],
            "b": [f"{(k - 40) ** 3 / 7:.4f}" for k in n],  # differ row by row, as those of "a" do
            "a in euro": [f"€{k / 7:.4f}" for k in n],
            "from": days.strftime("%Y-%m-%d"),
            "to": (days + pd.to_timedelta(n % 5 + 1, "D")).strftime("%Y-%m-%d"),
            "from again": days,
        }
    )
    assert kinds(Table.learn(frame)) == {
        "a": "numeric",
        "b": "numeric",
        "a in euro": "duplicate",
        "from": "date",
        "to": "date",
        "from again": "duplicate",
    }


def test_levels_of_integers_are_in_their_codes():
    integers = np.arange(90) % 3
    frame = pd.DataFrame({"a": integers, "b": np.array(["x", "y", "z"])[integers]})
    assert kinds(Table.learn(frame)) == {"a": "code", "b": "duplicate"}
    assert kinds(Table.learn(frame[["b", "a"]])) == {"b": "category", "a": "code"}


def test_gaps_tell_columns_apart():
    frame = pd.DataFrame({"a": list("xy") * 20, "b": ["x", "y"] * 19 + ["x", None]})
    assert kinds(Table.learn(frame)) == {"a": "category", "b": "category"}


def test_one_value_and_gaps_say_something():
    assert column([1.0, None] * 10).kind == "category"
    assert column(["x", None] * 10).levels == ("x",)


def test_columns_without_values_are_left_out_with_a_warning():
    frame = pd.DataFrame({"a": [None] * 5, "b": [np.nan] * 5, "c": ["", " "] * 2 + [""], "d": 0.5})
    with pytest.warns(UserWarning, match="columns without any value are dropped: a, b, c"):
        table = Table.learn(frame)
    assert [one.kind for one in table.columns] == ["empty"] * 3 + ["constant"]
    assert table.coded == ()


def test_a_description_says_why():
    described = Table.learn(pd.DataFrame({"id": np.arange(N), "x": np.arange(N) / 7})).describe()
    assert described["column"].tolist() == ["id", "x"]
    assert described["reason"].tolist() == ["a different integer in every row", "numbers"]


def test_a_table_is_shown_as_what_its_columns_are():
    table = Table.learn(pd.DataFrame({"<b>id": np.arange(N), "x": np.arange(N) / 7}))
    for shown, name in ((str(table), "<b>id"), (table._repr_html_(), "&lt;b&gt;id")):
        assert name in shown
        assert "a different integer in every row" in shown
    assert "<b>" not in table._repr_html_()


# ---------------------------------------------------------------------- odd columns


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1, "x", 2.5], "column 'a' has values of type float, int, str, which are read as text"),
        ([[1], [2], [1]], "column 'a' has values of type list, which are read as text"),
    ],
)
def test_objects_of_several_types_are_text(values, said):
    with pytest.warns(UserWarning, match=said):
        assert column(values * 10).kind == "category"


def test_complex_numbers_are_refused():
    with pytest.raises(ValueError, match="column 'a': Complex data not supported"):
        column([1j, 2.0])


def test_integers_beyond_float64_are_told_of():
    frame = pd.DataFrame({"a": [1, 10**400, 3]})
    with pytest.raises(ValueError, match=r"column 'a': expected numbers below 1\.8e308"):
        Table.learn(frame)


@pytest.mark.slow
def test_many_levels_and_many_columns_are_quick_enough_to_be_here():
    levels = column([f"level {k % 70_000}" for k in range(150_000)]).levels
    assert len(levels) == 2**16
    wide = pd.DataFrame(np.random.default_rng(0).standard_normal((5, 10_000)))
    assert len(Table.learn(wide).coded) == 10_000
