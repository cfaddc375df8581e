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
    with pytest.warns(UserWarning, match="column 'd': values that are no dates, such as '"):
        assert np.isnan(table.codes(pd.DataFrame({"d": later}))[:, 0]).all()
    with pytest.raises(ValueError, match="expected 'a' to be date, as told, got values such as"):
        column(later, columns={"a": "date"})
