"""Dates of time zones: moments are compared, hours are those of the zone of the fit."""

import datetime
import warnings
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from dateutil.tz import gettz, tzoffset

from gpukfl.tables import Table
from gpukfl.tables._dates import known_zone, to_local_time, zone_offset
from gpukfl.tables._frame import read_values

N = 60
UTC = pd.Series(pd.date_range("2024-01-01", periods=N, freq="80h", tz="UTC")).dt.as_unit("us")
LOCAL = UTC.dt.tz_convert("Europe/Berlin")  # with summer time
OFFSETS = [zone_offset(f"+0{2 * (k % 2)}:00") for k in range(N)]


def frame(column):
    return pd.DataFrame({"when": column})


def polars_column(column, zone):
    polars = pytest.importorskip("polars")
    naive = polars.Series(column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    return naive.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)


def arrow_column(column, zone):
    arrow = pytest.importorskip("pyarrow")
    naive = column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
    return arrow.chunked_array([arrow.array(naive, arrow.timestamp("us", zone))])


def in_several(column):
    zones = ["UTC", "Asia/Tokyo", "America/St_Johns"]
    return [time.tz_convert(zones[k % 3]) for k, time in enumerate(column)]


WRITTEN = {
    "pandas": lambda: LOCAL,
    "of Greenwich": lambda: UTC,
    "polars": lambda: polars_column(UTC, "Asia/Tokyo"),
    "arrow": lambda: arrow_column(UTC, "America/St_Johns"),
    "text": lambda: pd.Series([time.isoformat() for time in UTC]),
    "text of several zones": lambda: pd.Series([time.isoformat() for time in in_several(UTC)]),
    "objects of several zones": lambda: pd.Series(in_several(UTC), dtype=object),
    "python": lambda: pd.Series([t.to_pydatetime() for t in LOCAL], dtype=object),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_moments_are_the_same_however_they_are_written(name):
    table = Table.learn(frame(LOCAL))
    assert table.columns[0].zone == "Europe/Berlin"
    column = WRITTEN[name]()
    expected = table.codes(frame(LOCAL))
    hours = [c.name for c in table.coded].index("when hour")
    np.testing.assert_array_equal(expected[:, hours], LOCAL.dt.hour)
    read = frame(column)
    if name == "polars":
        read = pytest.importorskip("polars").DataFrame({"when": column})
    if name == "arrow":
        read = pytest.importorskip("pyarrow").table({"when": column})
    np.testing.assert_array_equal(table.codes(read), expected)
    listed = column if name in ("polars", "arrow") else list(column)
    values = read_values(listed)  # with NumPy alone
    np.testing.assert_array_equal(
        values.as_dates(None, "Europe/Berlin"), LOCAL.dt.tz_localize(None).to_numpy()
    )


@pytest.mark.parametrize("name", ["text of several zones", "objects of several zones"])
def test_a_fit_to_several_zones_takes_them_as_one_and_says_so(name):
    with pytest.warns(UserWarning, match=r"'when' has dates of [34] time zones, such as .* to UTC"):
        table = Table.learn(frame(WRITTEN[name]()))
    assert table.columns[0].zone == "UTC"
    np.testing.assert_array_equal(table.codes(frame(UTC)), table.codes(frame(WRITTEN[name]())))


def test_text_of_one_zone_has_its_hours():
    text = [time.isoformat() for time in UTC.dt.tz_convert("Asia/Tokyo")]
    table = Table.learn(frame(text))
    assert table.columns[0].zone == "+09:00"
    np.testing.assert_array_equal(table.codes(frame(UTC)), table.codes(frame(text)))
    hours = [c.name for c in table.coded].index("when hour")
    np.testing.assert_array_equal(table.codes(frame(UTC))[:, hours], (UTC.dt.hour + 9) % 24)


def test_a_zone_that_only_one_side_has_is_told():
    naive = LOCAL.dt.tz_localize(None)
    table = Table.learn(frame(LOCAL))
    with pytest.warns(UserWarning, match="without a time zone are read as times in Europe/Berlin"):
        found = table.codes(frame(naive))
    np.testing.assert_array_equal(found, table.codes(frame(LOCAL)))
    table = Table.learn(frame(naive))
    assert table.columns[0].zone == ""
    with pytest.warns(UserWarning, match="the fit had no time zones: local times in Europe/Berlin"):
        np.testing.assert_array_equal(table.codes(frame(LOCAL)), found)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.codes(frame(naive))


def test_text_without_a_zone_among_others_is_local():
    text = [time.isoformat() for time in LOCAL.dt.tz_localize(None)]
    mixed = [f"{t}+01:00" if k % 2 else t for k, t in enumerate(text)]
    table = Table.learn(frame(mixed))
    assert table.columns[0].zone == "+01:00"
    assert (table.codes(frame(mixed)) == Table.learn(frame(text)).codes(frame(text))).all()


def test_gaps_stay_gaps():
    with_gap = LOCAL.copy()
    with_gap[3] = pd.NaT
    table = Table.learn(frame(with_gap))
    found = table.codes(frame(with_gap.dt.tz_convert("UTC")))
    assert np.isnan(found[3]).all()
    assert np.isfinite(np.delete(found, 3, axis=0)).all()
    objects = [None if pd.isna(time) else time.to_pydatetime() for time in with_gap]
    np.testing.assert_array_equal(table.codes(frame(pd.Series(objects, dtype=object))), found)


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "-03:30", "UTC"]
)
def test_local_times_are_those_of_pandas(zone):
    drawn = np.random.default_rng(0).integers(-(10**15), 3 * 10**15, size=2000)
    moments = pd.DatetimeIndex(drawn.astype("datetime64[us]"))
    expected = moments.tz_localize("UTC").tz_convert(zone).tz_localize(None)
    np.testing.assert_array_equal(to_local_time(moments.to_numpy(), zone), expected.to_numpy())


def test_moments_beyond_the_dates_of_python():
    moments = np.array(["-5000-01-01", "20000-01-01", "NaT"], dtype="datetime64[us]")
    found = to_local_time(moments, "Asia/Tokyo") - moments
    assert np.isnat(found[2])
    assert found[1] == np.timedelta64(9, "h")


@pytest.mark.parametrize(
    ("zone", "name"),
    [
        (datetime.UTC, "UTC"),
        (datetime.timezone(datetime.timedelta(hours=-3, minutes=-30)), "-03:30"),
        (datetime.timezone(datetime.timedelta(seconds=30)), ""),
        (tzoffset(None, 7200), "+02:00"),
        (ZoneInfo("Asia/Tokyo"), "Asia/Tokyo"),
        (gettz("Asia/Tokyo"), ""),  # does not say its name
        ("Atlantis/Capital", ""),
        ("../etc", ""),
        ("", ""),
    ],
)
def test_names_of_zones(zone, name):
    assert known_zone(zone) == name


def test_zones_that_nobody_knows_leave_local_times():
    zone = gettz("Asia/Tokyo")
    times = [datetime.datetime(2024, 1, 1 + k % 28, 8, tzinfo=zone) for k in range(N)]
    table = Table.learn(frame(pd.Series(times, dtype=object)))
    assert table.columns[0].zone == ""
    naive = [time.replace(tzinfo=None) for time in times]
    np.testing.assert_array_equal(table.codes(frame(naive))[:, 0], [k % 28 for k in range(N)])
