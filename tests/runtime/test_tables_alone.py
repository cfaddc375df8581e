"""Models of tables predict with NumPy alone, whatever holds their rows."""

import datetime
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest
from dateutil.tz import tzoffset
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy_alone import BLOCKING
from served_tables import COLUMNS, FRAME, OTHERS, ROUNDING, blend, said, single
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import Lasso
from sklearn.utils import murmurhash3_32

import gpukfl
from gpukfl import runtime
from gpukfl._accel.trust import use_numpy_only
from gpukfl.core._warnings import collect_warnings
from gpukfl.tables import Table
from gpukfl.tables._codes import murmur3, project_texts
from gpukfl.tables._dates import parse_dates
from gpukfl.tables._frame import read_frame, read_values

DAY = datetime.datetime(2021, 3, 4, 10, 5, 6, 7)
MODELS = {
    "blend of targets": lambda: blend("two targets", "model"),
    "blend of classes": lambda: blend("three classes"),
    "single": lambda: single("one target"),
    "single, told gaps": lambda: single("one target", "model"),
}


def alone(found, folder):
    found.save(folder / "model.gpukfl")
    return runtime.load(folder / "model.gpukfl")


SLOW = pytest.param("blend of targets", marks=pytest.mark.slow)


@pytest.fixture(scope="module", params=[SLOW, *list(MODELS)[1:]])
def pair(request, tmp_path_factory):
    found = MODELS[request.param]()
    return found, alone(found, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def light(tmp_path_factory):
    return alone(single("one target"), tmp_path_factory.mktemp("model"))


@pytest.mark.few
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("rows", [FRAME, OTHERS], ids=["of the fit", "others"])
def test_tables_predict_alike(pair, rows):
    found, model = pair
    expected = said(found, rows)
    for given_as in (rows, rows.to_dict("list"), rows.to_dict("records"), rows.to_numpy(object)):
        np.testing.assert_allclose(said(model, given_as), expected, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(said(model, rows[::-1].iloc[:, ::-1])[::-1], expected, atol=ROUNDING)
    if model.task == "classification":
        assert model.predict(rows).tolist() == found.predict(rows).tolist()


def test_one_row_is_as_among_others(pair):
    found, model = pair
    whole = np.asarray(said(found, OTHERS))
    for k, row in enumerate(OTHERS.iloc[:5].to_dict("records")):
        np.testing.assert_allclose(said(model, [row])[0], whole[k], rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_frames_of_other_libraries_are_read(library, light):
    module = pytest.importorskip(library)
    columns = {name: list(values) for name, values in COLUMNS.items()}
    make = module.table if library == "pyarrow" else module.DataFrame
    expected = single("one target").predict(FRAME)
    np.testing.assert_allclose(light.predict(make(columns)), expected, rtol=0, atol=ROUNDING)


@pytest.mark.filterwarnings("ignore")
def test_structured_arrays_are_read(tmp_path):
    frame = FRAME[["width", "colour"]].fillna("none")
    options = {"method": "hkrr", "n_components": 1, "ridge": 1e-2}
    found = gpukfl.fit(frame, FRAME["width"] ** 2, progress=False, **options)
    rows = np.array(list(frame.itertuples(index=False)), dtype=[("width", "f8"), ("colour", "U9")])
    model = alone(found, tmp_path)
    np.testing.assert_allclose(model.predict(rows), found.predict(frame), rtol=0, atol=ROUNDING)
    numbers = gpukfl.fit(frame[["width"]], FRAME["width"] ** 2, progress=False, **options)
    model, expected = alone(numbers, tmp_path), numbers.predict(frame[["width"]])
    for given_as in (
        rows[["width"]],
        {"width": rows["width"]},
        frame[["width"]].to_dict("records"),
    ):
        np.testing.assert_allclose(model.predict(given_as), expected, rtol=0, atol=ROUNDING)
    with pytest.raises(ValueError, match="expected columns width, which are not in X"):
        model.predict({"colour": ["red"]})


ALONE = (
    BLOCKING
    + """
import json
import gpukfl.runtime

model = gpukfl.runtime.load(sys.argv[1])
print(json.dumps(model.predict_proba(json.load(open(sys.argv[2]))).tolist()))
"""
)


def test_nothing_but_numpy_is_imported(tmp_path):
    found = blend("three classes")
    found.save(tmp_path / "model.gpukfl")
    rows = OTHERS.assign(took=[None if v is None else v.total_seconds() for v in OTHERS["took"]])
    rows["built"] = [None if pd.isna(v) else v.isoformat() for v in rows["built"]]
    text = json.dumps(rows.astype(object).where(rows.notna(), None).to_dict("list"))
    (tmp_path / "rows.json").write_text(text)
    command = [
        sys.executable,
        "-c",
        ALONE,
        str(tmp_path / "model.gpukfl"),
        str(tmp_path / "rows.json"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = found.predict_proba(OTHERS)
    np.testing.assert_allclose(json.loads(done.stdout), expected, rtol=0, atol=1e-12)


# ---------------------------------------------------------------------- a single row

ODD = {
    "gaps": [None, float("nan"), np.nan, pd.NA, pd.NaT, np.datetime64("NaT", "s"), "", " ", "NA"],
    "numbers": [3, 3.0, -0.0, np.float64(3), np.float32(2.5), np.int8(3), float("inf"), 10**30],
    "text of numbers": ["3", "3.0", " 3 ", "1,000", "2.5 kg", "$4", "many"],
    "truths": [True, False, np.True_, "True", 1],
    "other numbers": [Decimal("1.50"), Decimal("1.5"), Decimal("NaN")],
    "text": [
        "red",
        "nowhere",
        "street 3",
        "mid",
        "house 7 of many words",
        "x" * 300,
        np.str_("red"),
    ],
    "dates": [
        DAY,
        DAY.date(),
        DAY.time(),
        pd.Timestamp(DAY),
        np.datetime64(DAY),
        "2021-02-03T04:05:06.5",
        "3/4/2021",
        "25/03/2021",
        DAY.replace(tzinfo=datetime.UTC),
        DAY.replace(tzinfo=datetime.UTC).astimezone(datetime.timezone(datetime.timedelta(hours=2))),
        DAY.replace(tzinfo=tzoffset(None, 7200)),  # which has no hash
    ],
    "spans": [datetime.timedelta(1, 2), pd.Timedelta(5, "s"), np.timedelta64(3, "h")],
    "neither": [1j, ["red"], {"a": 1}, object],
}


def told(rows, code):
    """Give the codes of rows, or what is wrong with them, and what is warned of."""
    with use_numpy_only(), collect_warnings() as warned:
        try:
            found = code(rows)
        except (TypeError, ValueError, OverflowError) as error:
            return f"{type(error).__name__}: {error}", warned
    return found, warned


def as_a_table(light, rows):
    table = light._table
    names = [column.name for column in table.columns]
    return told(
        rows, lambda given: table.codes(read_frame(given, besides=light.target_name, known=names))
    )


@pytest.mark.few
@pytest.mark.parametrize("sort", ODD)
def test_a_row_is_coded_as_a_table_is(light, sort):
    row = FRAME.iloc[0].to_dict()
    for name in row:
        for value in ODD[sort]:
            other = {**row, name: value}
            expected, warned = as_a_table(light, [other])
            for _ in range(2):  # values are kept after the first
                found, heard = told([other], light._rows)
                np.testing.assert_array_equal(found, expected)
                assert heard == warned


def test_rows_that_are_not_plain_are_read_as_tables(light):
    row = FRAME.iloc[0].to_dict()
    short = {name: value for name, value in row.items() if name != "colour"}
    for rows in (
        [short],
        [{**row, "new": 1.0}],
        [{**row, light.target_name: 1.0}],
        ({**row, 0: 1},),
        [MappingProxyType(row)],
        [row, row],
        [],
    ):
        expected, warned = as_a_table(light, rows)
        found, heard = told(rows, light._rows)
        np.testing.assert_array_equal(found, expected)
        assert heard == warned


def test_few_values_are_kept(light, monkeypatch):
    monkeypatch.setattr("gpukfl.tables._codes._CACHE_SIZE", 30)
    light._table._row_coder._cache.clear()
    rows = OTHERS.to_dict("records")
    for k, row in enumerate([*rows, {**rows[0], "note": "x" * 1000}]):
        np.testing.assert_array_equal(light._rows([row]), as_a_table(light, [row])[0], str(k))
        assert 0 < len(light._table._row_coder._cache) <= 30
    assert not any(len(str(key)) > 999 for key in light._table._row_coder._cache)


def test_a_known_row_takes_few_calls(light):
    row, calls = OTHERS.iloc[:1].to_dict("records"), 0
    light.predict(row)

    def note(_frame, event, _arg):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(note)
    light._rows(row)
    sys.setprofile(None)
    assert calls < 20 * len(FRAME.columns)


def test_threads_read_rows_together(light, monkeypatch):
    monkeypatch.setattr("gpukfl.tables._codes._CACHE_SIZE", 5)
    rows = [[row] for row in OTHERS.to_dict("records")] * 5
    expected = [light.predict(row) for row in rows]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(light.predict, rows)) == expected


# ---------------------------------------------------------------------- its own operations
VALUES = {
    "text": ["b", "a", None, " ", "b", np.nan],
    "integers": [3, 1, None],
    "numbers": [1, 2.5, np.inf, float("nan")],
    "booleans": [True, None, False],
    "decimals": [Decimal("1.5"), None],
    "datetimes": [DAY, None, pd.Timestamp(DAY), pd.NaT],
    "with a zone": [DAY.replace(tzinfo=datetime.UTC)],
    "dates": [DAY.date(), None],
    "times": [DAY.time(), None, DAY.time().replace(microsecond=250_000)],
    "durations": [datetime.timedelta(1, 2, 3), None, pd.Timedelta(5, "s")],
    "NumPy's durations": [np.timedelta64(5, "h"), None, np.timedelta64(7, "s")],
    "periods": [pd.Period("2021-03", "M"), None],
    "mixed": ["a", 1.0, 2, None],
    "nothing": [None, None],
    "pandas' own": [pd.NA, 1, 2],
}


@pytest.mark.parametrize("name", VALUES)
def test_values_are_read_as_by_the_package(name):
    values = np.empty(len(VALUES[name]), dtype=object)
    values[:] = VALUES[name]
    expected = read_values(values)
    with use_numpy_only():
        for given_as in (VALUES[name], values, pd.Series(values)):
            found = read_values(given_as)
            assert (found.form, found.note) == (expected.form, expected.note)
            np.testing.assert_array_equal(found.missing, expected.missing)
            kept = found.as_labels().data >= 0
            labels = [one.as_labels() for one in (found, expected)]
            words = [one.labels[one.data[kept]].tolist() for one in labels]
            assert words[0] == words[1]
            if found.form != "labels":
                np.testing.assert_array_equal(found.data, expected.data)


def test_arrays_are_read_as_they_are():
    with use_numpy_only():
        assert read_values(np.array([True, False])).form == "booleans"
        assert read_values(np.array(["2021-03-04", "NaT"], "M8[D]")).missing.tolist() == [
            False,
            True,
        ]
        assert read_values(np.array([1, "NaT"], "m8[s]")).data[0] == 1.0
        assert read_values(np.array(["a", ""])).data.tolist() == [0, -1]
        assert read_values(np.array([1, 2], np.int8)).data.dtype == np.float64


@given(st.binary(max_size=40))
def test_hashes_are_those_of_scikit_learn(data):
    assert murmur3(data) == murmurhash3_32(data, 0)


@settings(max_examples=25)
@given(st.lists(st.text(max_size=30), max_size=5))
def test_words_of_text_are_those_of_scikit_learn(texts):
    texts = np.array([*texts, "the quick brown fox and the Lazy dog", ""], dtype=object)
    components = np.random.default_rng(0).normal(size=(3, 64))
    expected = HashingVectorizer(n_features=64).transform(texts) @ components.T
    np.testing.assert_allclose(project_texts(texts, components), expected, rtol=0, atol=1e-15)


WRITTEN = [
    *("2020-01-31", "2020-1-3", "2020/02/03", "2020.02.03", "20200203", "2020-02", "3/4/2020"),
    *(
        "13/4/2020",
        "4-13-2020",
        "3.4.2020",
        "12 Jan 2020",
        "12-jan-2020",
        "Jan 5, 2020",
        "Mar 2020",
    ),
    *("2020-01-31T10:11", "2020-01-31 10:11:12.5", "2020-01-31T10:11:12.123456789Z", "5/6/1850"),
    *("2020-01-31 10:11:12+02:00", "3/4/2020 5:06 PM", "3/4/2020 12:06 am", "NA", "unknown"),
    *("1960-01-01 23:59:59.9999999", "12 Sept 2020", "January 5 2020", "20200203T10:11"),
]


@pytest.mark.parametrize("day_first", [False, True])
@pytest.mark.filterwarnings("ignore:Parsing dates in:UserWarning")
def test_dates_in_text_are_those_of_pandas(day_first):
    labels = np.array(WRITTEN, dtype=object)
    expected = parse_dates(labels, day_first)
    with use_numpy_only():
        np.testing.assert_array_equal(parse_dates(labels, day_first), expected)


@pytest.mark.parametrize(
    "rows", [["05/03/2021", "25/03/2021", "inf"], ["05/03/2021", "<NA>"], ["05/25/2021"]]
)
def test_the_order_of_days_and_months_is_found_as_by_the_package(light, rows):
    built = Table((next(c for c in light._table.columns if c.name == "built"),))
    with collect_warnings() as warned:
        expected = built.codes(pd.DataFrame({"built": rows}))
    with use_numpy_only(), collect_warnings() as told:
        found = built.codes(read_frame({"built": rows}))
    np.testing.assert_array_equal(found, expected)
    assert told == warned


# ---------------------------------------------------------------------- bad input


def test_what_is_no_table_is_refused(light):
    row = FRAME.iloc[:1].to_dict("list")
    short = {k: v for k, v in row.items() if k != "colour"}
    for rows, told in (
        (short, "expected columns colour, which are not in X"),
        ({**row, "width": [1.0, 2.0]}, "expected columns of the same length"),
        ({**row, "width": [1j]}, "column 'width': .*expected real numbers"),
        ({**row, "width": np.ones((1, 2))}, "column 'width': expected a one-dimensional column"),
        ({**row, "left": ["some day"]}, "column 'left': expected dates such as 2020-01-31"),
        ({**row, "left": ["2021-13-40"]}, "column 'left': expected dates such as"),
        ([], "expected at least 1 row, got 0 sample"),
        ([[1.0, 2.0], [3.0]], "expected rows of the same length"),
        (np.ones(3), "Expected 2D array, got 1D array"),
        (np.ones((2, 3)), "X has 3 features"),
        (pd.concat([FRAME, FRAME], axis=1), "two columns called 'length'"),
    ):
        with pytest.raises(ValueError, match=told):
            light.predict(rows)
    with pytest.raises(TypeError, match="column 'width': expected a list or an array"):
        light.predict({**row, "width": 1.5})


def test_frames_that_are_not_collected_are_refused(light):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({k: list(v) for k, v in COLUMNS.items()})
    with pytest.raises(TypeError, match="call its collect\\(\\) first"):
        light.predict(frame.lazy())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_other_members_are_refused(tmp_path):
    found = gpukfl.fit(FRAME[["width"]], FRAME["width"], members=[("lasso", Lasso())], n_folds=2)
    found.save(tmp_path / "model.gpukfl")
    with pytest.raises(ValueError, match="got Lasso: fit with members='kernels'"):
        runtime.load(tmp_path / "model.gpukfl")
