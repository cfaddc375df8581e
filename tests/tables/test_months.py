"""Months in digits, as 200301 and 01/2003: the same dates in every form, or a warning."""

import numpy as np
import pandas as pd
import pytest
from table_cases import column

from gpukfl._accel.trust import use_numpy_only
from gpukfl.core._warnings import collect_warnings
from gpukfl.tables import Table
from gpukfl.tables._frame import read_frame

MONTHS = [f"{2003 + k // 12}-{k % 12 + 1:02d}" for k in range(48)]
DIGITS = [int(month.replace("-", "")) for month in MONTHS]


@pytest.mark.parametrize(
    "written",
    [
        DIGITS,
        [float(month) for month in DIGITS],
        [str(month) for month in DIGITS],
        [f"{month}.0" for month in DIGITS],
        [f"{month[5:]}/{month[:4]}" for month in MONTHS],
        [f"{int(month[5:])}/{month[:4]}" for month in MONTHS],
        MONTHS[:20] + [str(month) for month in DIGITS[20:]],
    ],
)
def test_later_months_mean_the_same_in_every_form(written):
    table = Table.learn(pd.DataFrame({"d": MONTHS}))
    assert table.columns[0].kind == "date"
    expected = table.codes(pd.DataFrame({"d": MONTHS}))
    for rows in (slice(None), slice(7, 8)):
        with collect_warnings() as told:
            found = table.codes(pd.DataFrame({"d": written[rows]}))
        with use_numpy_only(), collect_warnings() as alone:
            again = table.codes(read_frame({"d": written[rows]}))
        np.testing.assert_array_equal(found, expected[rows])
        np.testing.assert_array_equal(again, expected[rows])
        assert told == alone == []


def test_months_in_six_digits_are_dates_where_the_user_says_so():
    for values in (DIGITS, list(map(str, DIGITS)), [*DIGITS, None]):
        found = column(values, columns={"a": "date"})
        assert (found.kind, found.start) == ("date", column(MONTHS).start)
        assert found.parts == ("year", "month", "weekday")


@pytest.mark.parametrize("later", [[200301, 251203], ["200313"], [200301, 200300], [180001]])
def test_six_digits_of_which_some_are_no_months_are_missing_with_a_warning(later):
    table = Table.learn(pd.DataFrame({"d": MONTHS}))
    with pytest.warns(UserWarning, match="column 'd': values that are not dates, such as '"):
        assert np.isnan(table.codes(pd.DataFrame({"d": later}))[:, 0]).all()
    with pytest.raises(ValueError, match="expected only date values in column 'a', got"):
        column(later, columns={"a": "date"})


@pytest.mark.parametrize("write", ["{1}/{0}", "{1:>02}/{0}"])
def test_months_before_years_are_dates(write):
    values = [write.format(*month.split("-")) for month in MONTHS]
    with collect_warnings() as told:
        found = column(values)
    assert (found.kind, found.start, told) == ("date", column(MONTHS).start, [])
    assert column([f"{k}/200" for k in range(1, 13)] * 9).kind == "category"


@pytest.mark.parametrize("name", ["date", "Month", "sale_date", "yyyymm", "YYYY-MM", "report_ym"])
@pytest.mark.parametrize("write", [int, float, str])
def test_integers_named_months_are_told_of(name, write):
    values = list(map(write, DIGITS)) * 2
    said = f"column '{name}' holds integers such as 200301: if they are months, pass columns="
    with pytest.warns(UserWarning, match=said):
        assert column(values, name).kind == "numeric"
    with collect_warnings() as told:
        assert column(values, name, columns={name: "date"}).kind == "date"
        assert column(values, name, columns={name: "numeric"}).kind == "numeric"
        assert column(values, "amount").kind == "numeric"
        assert column([*values, write(200313)], name).kind == "numeric"
    assert told == []
