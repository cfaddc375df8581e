"""What `gpukfl.fit` takes a target for, and what it says of it."""

import datetime
import warnings
from decimal import Decimal

import fit_cases
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from fit_cases import LABELS, N, X, Y, fit
from hypothesis import given, settings
from hypothesis import strategies as st

import gpukfl
from gpukfl.tables._target import host_target, read_target

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(3)
BIG = 600
COUNTS = np.repeat(np.arange(12), [30, 90, 134, 134, 101, 60, 30, 13, 5, 1, 1, 1])
QUALITY = np.repeat([3, 4, 5, 6, 7, 8], [10, 50, 250, 200, 80, 10])
PRICES = np.array([f"${k:,}" for k in RNG.permutation(np.arange(900, 900 + BIG))])
DAYS = np.arange("2021-03-04", "2022-10-25", dtype="M8[D]")[:BIG]
THREE = np.arange(BIG) % 3

CLASSES = {
    "0 and 1": (np.arange(BIG) % 2, "integers", 2),
    "a rare 1": ((np.arange(BIG) == 7).astype(int), "integers", 2),
    "-1 and 1": (2 * (np.arange(BIG) % 2) - 1, "integers", 2),
    "two integers far apart": (np.where(np.arange(BIG) % 2, 5, 900), "integers", 2),
    "0 to 2": (THREE, "integers", 3),
    "0 to 2, unequally": (np.repeat([0, 1, 2], [400, 140, 60]), "integers", 3),
    "digits": (np.arange(BIG) % 10, "integers", 10),
    "small unsigned": ((np.arange(BIG) % 4).astype(np.uint8), "integers", 4),
    "list": ([1, 2] * 40, "integers", 2),
    "nullable": (pd.Series(THREE, dtype="Int64"), "integers", 3),
    "integers as objects": (THREE.astype(object), "integers", 3),
    "text": (np.array(["no", "yes", "maybe"])[THREE], "text", 3),
    "text as objects": (np.array(["no", "yes", "maybe"], dtype=object)[THREE], "text", 3),
    "text in pandas": (pd.Series(np.array(["no", "yes"])[THREE % 2]), "text", 2),
    "1, 2 and 3 as text": ((THREE + 1).astype(str), "text", 3),
    "many well-filled classes": (
        np.char.add("zone ", (np.arange(BIG) % 60).astype(str)),
        "text",
        60,
    ),
    "booleans": (THREE > 0, "booleans", 2),
    "booleans in pandas": (pd.Series(THREE > 0, dtype="boolean"), "booleans", 2),
    "booleans as objects": ((THREE > 0).astype(object), "booleans", 2),
    "categories": (pd.Series(np.array(["a", "b"])[THREE % 2], dtype="category"), "categories", 2),
    "categories of numbers": (pd.Series(QUALITY, dtype="category"), "categories", 6),
    "categories of whole floats": (
        pd.Series(THREE.astype(float), dtype="category"),
        "categories",
        3,
    ),
    "a column of booleans": ((THREE > 0)[:, None], "booleans", 2),
    "a column of integers": (THREE[:, None], "integers", 3),
    "a column of text": (np.array(["no", "yes"])[THREE % 2][:, None], "text", 2),
}

NUMBERS = {
    "floats": (np.linspace(0, 1, BIG), "floats"),
    "quality as floats": (QUALITY.astype(float), "floats"),
    "single precision": (np.linspace(0, 1, BIG, dtype=np.float32), "floats"),
    "nullable floats": (pd.Series(np.linspace(0, 1, BIG), dtype="Float64"), "floats"),
    "decimals": ([Decimal(k) / 7 for k in range(BIG)], "floats"),
    "integers and floats as objects": (np.array([1, 2.5] * 3 + [3], dtype=object), "floats"),
    "many integers": (np.arange(BIG), "integers"),
    "years": (1960 + np.arange(BIG) % 60, "integers"),
    "incomes": (1000 * RNG.integers(10, 99, BIG), "integers"),
    "few rows of integers": (np.array([3, 1, 4, 15, 9]), "integers"),
    "one integer": (np.full(BIG, 4), "integers"),
    "several targets": (np.stack([THREE, THREE % 2], axis=1), "integers"),
}

DOUBTFUL = {
    "quality": (QUALITY, "6 different integers from 3 to 8"),
    "counts": (COUNTS, "12 different integers from 0 to 11"),
    "counts, evenly": (np.arange(BIG) % 12, "12 different integers from 0 to 11"),
    "1 to 5": (np.arange(BIG) % 5 + 1, "5 different integers from 1 to 5"),
    "few years": (2015 + np.arange(BIG) % 6, "6 different integers from 2015 to 2020"),
    "0 to 2, hardly filled": (np.repeat([0, 1, 2], [500, 95, 5]), "3 different integers"),
    "0.0 and 1.0": ((np.arange(BIG) % 2).astype(float), "two different floats, 0 and 1"),
}

REFUSED = {
    "prices": (
        PRICES,
        r"600 .* like numbers as text, such as .*1,000.*: for numbers, .*str",
    ),
    "numbers as text": (RNG.permutation(BIG).astype(str), "numbers as text.*pandas.to_numeric"),
    "most are prices": (np.append(PRICES[:-1], "unknown"), "like numbers as text"),
    "identifiers": (
        [f"id_{k:03d}" for k in range(500)],
        "500 different texts in 500 rows.*iden",
    ),
    "nearly all names once": (["Ann", "Bo"] * 20 + [f"n{k}" for k in range(9)], "names or ident"),
    "dates": (DAYS, "dates such as 2021-03-04: for numbers, use"),
    "dates in pandas": (pd.Series(DAYS), "dates such as 2021-03-04"),
    "dates as objects": (
        [datetime.date(2021, 3, 4 + k % 9) for k in range(BIG)],
        "dates such as 2",
    ),
    "dates as text": (DAYS.astype(str), "dates as text such as '2021-03-04'"),
    "few dates as text": (["2021-03-04", "2021-03-05"] * 40, "dates as text"),
    "days of the month first": (["31/12/2020 10:00", "30/11/2020"] * 9, "dates as text"),
    "durations": (DAYS - DAYS[0], "durations such as 0 days: for seconds"),
    "gaps": (np.array(["a", None, "b", np.nan], dtype=object), "NaN or None in 2 of 4"),
    "gaps in integers": (np.array([1, None] * 4, dtype=object), "NaN or None in 4 of 8"),
    "a mixture": (np.array(["a", 1] * 4, dtype=object), "of one kind, got int, str"),
    "several targets of text": (
        np.array([["a", "b"]] * 8),
        "one column of classes.*text of shape .8, 2",
    ),
}


def table(cases):
    return pytest.mark.parametrize("case", cases.values(), ids=list(cases))


def shuffled(y):
    order = np.random.default_rng(1).permutation(len(y))
    if isinstance(y, list):
        return [y[k] for k in order]
    return y.iloc[order] if hasattr(y, "iloc") else y[order]


@table(CLASSES)
def test_classes_are_recognised(case):
    y, kind, count = case
    target = read_target(y)
    assert (target.task, target.kind) == ("classification", kind)
    assert len(np.unique(target.y)) == count
    assert read_target(shuffled(y)).task == "classification"


@pytest.mark.parametrize(
    ("categories", "kind", "label"),
    [
        ([1.5, 3.5], "float", "1.5"),
        (list(pd.date_range("2020-01-01", periods=2)), "Timestamp", "2020-01-01 00:00:00"),
        (list(pd.interval_range(0, 2)), "Interval", r"\(0, 1\]"),
    ],
)
def test_categories_that_are_no_labels_become_text_in_words(categories, kind, label):
    y = pd.Series(pd.Categorical([categories[k % 2] for k in range(BIG)]))
    said = f"y holds categories of type {kind}.*: labels are converted to text, such as '{label}'"
    with pytest.warns(UserWarning, match=said):
        target = read_target(y)
    assert target.task == "classification"
    assert target.y.dtype.kind == "U"
    host_target(y)  # says it no more


def test_labels_of_categories_have_their_type():
    y = pd.Series(pd.Categorical(THREE.astype(float)))
    assert read_target(y).y.dtype == np.float64


@table(NUMBERS)
def test_numbers_are_recognised(case):
    y, kind = case
    target = read_target(y)
    assert (target.task, target.kind) == ("regression", kind)
    np.testing.assert_array_equal(target.y, np.asarray(y, dtype=float))
    assert read_target(shuffled(y)).task == "regression"


@table(DOUBTFUL)
def test_doubtful_numbers_are_numbers_with_a_warning_that_says_how_to_choose(case):
    y, match = case
    say = "treated as numbers: pass task='regression' to confirm, or task='classification' if"
    for here in (y, shuffled(y)):
        with pytest.warns(UserWarning, match=f"y holds {match}.*{say}"):
            assert read_target(here).task == "regression"


@table(REFUSED)
def test_what_makes_no_target_is_refused_with_a_way_out(case):
    y, match = case
    for here in (y, shuffled(y)):
        with pytest.raises(ValueError, match=match):
            read_target(here)


def test_prices_that_repeat_are_classes_with_a_warning():
    with pytest.warns(UserWarning, match=r"3 different texts that look like numbers.*'\$10'"):
        target = read_target(np.array(["$10", "$15", "$20"])[THREE])
    assert target.task == "classification"


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("case", ["quality", "counts", "0.0 and 1.0"])
def test_a_task_that_is_said_wins_in_silence(case, task):
    assert read_target(DOUBTFUL[case][0], task).task == task


@pytest.mark.parametrize("case", ["prices", "numbers as text", "identifiers", "dates as text"])
def test_text_is_classified_where_that_is_said(case):
    target = read_target(REFUSED[case][0], "classification")
    assert (target.task, target.kind) == ("classification", "text")


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (
            LABELS,
            "expected numbers for task='regression', got text such as 'no'",
        ),
        (PRICES, r"got text such as '\$1,000'.*str.replace"),
        (np.array(["1.5", "2", "n/a"] * 4), r"got text such as 'n/a' \(1 different"),
        (pd.Series(LABELS, dtype="category"), "got categories such as 'no'"),
    ],
)
def test_a_regression_on_text_is_refused(y, match):
    with pytest.raises(ValueError, match=match):
        read_target(y, "regression")


def test_a_regression_on_numbers_that_are_text_takes_the_numbers():
    np.testing.assert_array_equal(read_target(["1.5", "-2e3"], "regression").y, [1.5, -2000.0])


def test_a_frame_of_one_column_is_that_column():
    frame = pd.DataFrame({"answer": LABELS})
    model = fit(X, frame, ridge=0.1)
    assert (model.task, model.target_name) == ("classification", "answer")
    assert model.score(X, frame) == model.score(X, LABELS)


def test_targets_of_devices_stay_there(on_double):
    labels = on_double.put(np.arange(N) % 3, "int64")
    target = read_target(labels)
    assert target.y is labels
    assert target.task == "classification"


@pytest.mark.filterwarnings("error")
def test_tries_of_transforms_say_nothing_of_the_target():
    rare = np.zeros(200)
    rare[7] = 1.0  # some rows of the tries have one value
    rows = np.random.default_rng(0).normal(size=(200, 3))
    options = {"members": ["linear"], "effort": "quick", "task": "regression"}
    assert gpukfl.fit(rows, rare, **options).target_name == "y"


# ---------------------------------------------------------------------- what is said


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (Y, "regression (floats)"),
        (np.arange(N), "regression (integers)"),
        (LABELS, "classification of 2 classes (text)"),
        (X[:, 0] > 0, "classification of 2 classes (booleans)"),
        (pd.Series(LABELS, dtype="category"), "classification of 2 classes (categories)"),
    ],
)
def test_the_summary_says_what_the_target_was_taken_for(tmp_path, y, said):
    model = fit(X, y, ridge=0.1)
    assert f"\n  task        {said}\n" in model.summary()
    model.save(tmp_path / "model")
    assert gpukfl.load(tmp_path / "model").summary() == model.summary()


def test_a_doubt_is_raised_at_the_line_of_the_caller():
    with pytest.warns(UserWarning, match="different integers") as caught:
        fit(X, 1 + np.arange(N) % 5, ridge=0.1)
    assert {warning.filename for warning in caught} == {fit_cases.__file__}


# ---------------------------------------------------------------------- values of a series

EXTENSIONS = {
    "Float64": (Y, "Float64"),
    "Int64": (np.arange(N) % 2, "Int64"),
    "boolean": (np.arange(N) % 2 == 0, "boolean"),
    "string": (LABELS, "string"),
    "category": (LABELS, "category"),
    "double[pyarrow]": (Y, "double[pyarrow]"),
    "int64[pyarrow]": (np.arange(N) % 2, "int64[pyarrow]"),
    "string[pyarrow]": (LABELS, "string[pyarrow]"),
}


@pytest.mark.few
@given(lacking=st.sets(st.integers(0, N - 1), min_size=1, max_size=5))
@settings(max_examples=3)
@pytest.mark.parametrize("name", EXTENSIONS)
def test_extension_arrays_with_missing_values_are_targets(name, lacking):
    values, dtype = EXTENSIONS[name]
    rows = sorted(lacking)
    array = pd.array(pd.Series(values, dtype=object).mask(np.isin(np.arange(N), rows)), dtype=dtype)
    rest = np.setdiff1d(np.arange(N), rows)
    options = {"method": "rkhs_weighting", "n_parameters": 10, "ridge": 0.1}
    with pytest.warns(UserWarning, match=f"y is missing in {len(rows)} of {N} rows"):
        found = gpukfl.fit(X, array, **options)
    expected = gpukfl.fit(X[rest], values[rest], **options)
    assert found.task == expected.task
    np.testing.assert_array_equal(found.predict(X).astype(str), expected.predict(X).astype(str))


@pytest.mark.parametrize("dtype", ["Float64", "double[pyarrow]"])
def test_single_methods_refuse_them_by_the_reason(dtype):
    array = pd.array([None, *Y[1:]], dtype=dtype)
    with pytest.raises(ValueError, match="y contains NaN"):
        gpukfl.KernelRidgeRegressor(ridge=0.1).fit(X, array)


# ---------------------------------------------------------------------- names of any kind

NAMES = {
    "tuple": ("t", "y"),
    "tuple of numbers": (1, 2),
    "time": pd.Timestamp("2020-01-01"),
    "float": 1.5,
    "integer": 7,
}


@pytest.mark.few
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("several", [False, True])
def test_targets_have_names_of_any_kind(name, several):
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"])
    levels = [("f", "a"), ("f", "b")]
    if isinstance(name, tuple):
        frame = frame.set_axis(pd.MultiIndex.from_tuples(levels), axis=1)
    whole = pd.concat([frame, pd.Series(Y, name=name)], axis=1)
    if isinstance(name, tuple):
        whole.columns = pd.MultiIndex.from_tuples([*levels, name])
    options = {"method": "rkhs_weighting", "n_parameters": 10, "ridge": 0.1}
    y = [name] if several and isinstance(name, tuple) else name
    model, expected = gpukfl.fit(whole, y, **options), gpukfl.fit(frame, Y, **options)
    assert model.target_name == str(name)
    np.testing.assert_array_equal(np.ravel(model.predict(whole)), expected.predict(frame))


# ---------------------------------------------------------------------- integers beyond 2**53

FAR = [2**60 + k for k in (THREE % 2).tolist()]
FAR_TARGETS = {
    "list": FAR,
    "array": np.array(FAR),
    "unsigned": np.array(FAR, dtype=np.uint64) + np.uint64(2**63),
    "nullable": pd.Series(FAR, dtype="Int64"),
    "objects": np.array(FAR, dtype=object),
    "integers and whole floats": [float(v) if v == 2**60 else v for v in FAR],
    "decimals": list(map(Decimal, FAR)),
    "arrow": pa.array(FAR),
    "polars": pl.Series(FAR, dtype=pl.UInt64),
    "128 bits": pl.Series(FAR, dtype=pl.Int128),
    "categories": pd.Series(FAR).astype("category"),
    "text": list(map(str, FAR)),
}
LONG = {
    "list": [2**70 + k for k in (THREE % 2).tolist()],
    "of both signs": [2**63 + 1 if k else -5 for k in (THREE % 2).tolist()],
    "of 400 digits": [10**400 + k for k in (THREE % 2).tolist()],
}


@pytest.mark.parametrize("y", FAR_TARGETS.values(), ids=list(FAR_TARGETS))
def test_numbers_that_float64_rounds_are_warned_of(y):
    with pytest.warns(UserWarning, match="price has integers beyond .* values become 1: subtract"):
        assert read_target(y, "regression", name="price").task == "regression"


@pytest.mark.parametrize("y", FAR_TARGETS.values(), ids=list(FAR_TARGETS))
def test_labels_beyond_2_to_the_53_stay_exact(y):
    target = read_target(y, "classification")
    low, high = np.unique(target.y).tolist()
    assert int(high) - int(low) == 1
    np.testing.assert_array_equal(host_target(y), target.y)


def test_integers_that_float64_holds_are_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_target([2**60 * k for k in range(-4, 8)], "regression")
        read_target([2**70 * k for k in range(40)], "regression")


@pytest.mark.parametrize("y", LONG.values(), ids=list(LONG))
def test_labels_beyond_64_bits_are_refused(y):
    X = np.arange(len(y), dtype=float)[:, None]
    for refused in (
        lambda: read_target(y, "classification"),
        lambda: gpukfl.KernelRidgeClassifier().fit(X, y),
    ):
        with pytest.raises(ValueError, match="expected labels within 64-bit integers, got"):
            refused()


def test_targets_that_float64_does_not_hold_are_refused():
    X, y = np.arange(BIG, dtype=float)[:, None], LONG["of 400 digits"]
    for refused in (
        lambda: read_target(y, "regression"),
        lambda: gpukfl.KernelRidgeRegressor().fit(X, y),
        lambda: gpukfl.KernelRidgeRegressor().fit(X, X[:, 0], sample_weight=y),
    ):
        with pytest.raises(ValueError, match=r"expected numbers below 1\.8e308"):
            refused()


@pytest.mark.parametrize("make", [pa.array, pl.Series, lambda y: pl.DataFrame({"y": y})])
def test_labels_stay_exact_beside_missing_ones(make):
    X = np.random.default_rng(0).standard_normal((40, 2))
    y = make([None, *FAR[:39]])
    with pytest.warns(UserWarning, match="y is missing in 1 of 40 rows"):
        model = gpukfl.fit(X, y, method="rkhs_weighting")
    assert model.classes_.tolist() == [2**60, 2**60 + 1]
    assert set(model.predict(X).tolist()) <= {2**60, 2**60 + 1}


def test_an_estimator_warns_of_rounded_targets():
    X = np.arange(40, dtype=float)[:, None]
    with pytest.warns(UserWarning, match="y has integers beyond 2"):
        gpukfl.KernelRidgeRegressor().fit(X, [2**60 + 300 * k for k in range(40)])
