"""Frames of pandas, polars and pyarrow at the front door: names kept, bad columns explained."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from fit_cases import FRAME, LABELS, N, X, Y, fit

import gpukfl
from gpukfl.core._frames import numeric_frame

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

DAY = datetime.date(2021, 3, 4)
QUICK = {"ridge": 0.1}


def polars_frame(columns):
    return pytest.importorskip("polars").DataFrame(columns, strict=False)


def arrow_table(columns):
    return pytest.importorskip("pyarrow").table(columns)


MAKERS = {"pandas": pd.DataFrame, "polars": polars_frame, "pyarrow": arrow_table}
makers = pytest.mark.parametrize("make", MAKERS.values(), ids=list(MAKERS))
others = pytest.mark.parametrize("make", [polars_frame, arrow_table], ids=["polars", "pyarrow"])
COLUMNS = {name: FRAME[name].tolist() for name in FRAME}


@pytest.fixture(scope="module")
def expected():
    return fit(FRAME, Y, **QUICK)


# ---------------------------------------------------------------------- frames as data


@makers
def test_a_frame_gives_names_and_equal_predictions(make, expected):
    frame = make(COLUMNS)
    model = fit(frame, Y, **QUICK)
    assert model.feature_names == list(FRAME)
    predictions = model.predict(frame)
    assert isinstance(predictions, pd.Series if isinstance(frame, pd.DataFrame) else np.ndarray)
    np.testing.assert_array_equal(predictions, expected.predict(FRAME))
    np.testing.assert_array_equal(model.transform(frame), expected.transform(FRAME))
    assert model.score(frame, Y) == expected.score(FRAME, Y)


@makers
def test_frames_are_tuned_and_classified(make):
    target = make({"answer": LABELS.tolist()})
    model = fit(make(COLUMNS), target, penalty="variable")
    assert (model.task, model.target_name) == ("classification", "answer")
    assert len(model.tuning) > 1
    probabilities = model.predict_proba(make(COLUMNS))
    np.testing.assert_array_equal(
        probabilities, fit(FRAME, LABELS, penalty="variable").predict_proba(FRAME)
    )
    assert model.score(make(COLUMNS), target) > 0.9


@others
def test_columns_are_series_too(make):
    column = make({"price": Y.tolist(), "weight": np.arange(1.0, N + 1).tolist()})
    model = fit(make(COLUMNS), column["price"], sample_weight=column["weight"], **QUICK)
    plain = fit(FRAME, Y, sample_weight=np.arange(1.0, N + 1), **QUICK)
    np.testing.assert_array_equal(model.predict(FRAME), plain.predict(FRAME))


def test_a_polars_series_gives_the_target_its_name():
    polars = pytest.importorskip("polars")
    assert fit(polars_frame(COLUMNS), polars.Series("price", Y), **QUICK).target_name == "price"
    assert fit(polars_frame(COLUMNS), polars.Series(Y), **QUICK).target_name == "y"


ARROW = {
    "text": (lambda pa: pa.array(LABELS.tolist()), LABELS),
    "dictionary": (lambda pa: pa.array(LABELS.tolist()).dictionary_encode(), LABELS),
    "booleans": (lambda pa: pa.array((Y > 0).tolist()), Y > 0),
    "numbers": (lambda pa: pa.array(Y.tolist()), Y),
    "chunks": (lambda pa: pa.chunked_array([LABELS[:9].tolist(), LABELS[9:].tolist()]), LABELS),
}


@pytest.mark.parametrize("name", ARROW)
def test_arrays_of_arrow_are_targets(name):
    make, plain = ARROW[name]
    y = make(pytest.importorskip("pyarrow"))
    model, expected = fit(X, y, **QUICK), fit(X, plain, **QUICK)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert model.score(X, y) == expected.score(X, plain)


@pytest.mark.filterwarnings("ignore:y is missing in 1 of")
def test_arrays_of_arrow_may_have_gaps():
    y = pytest.importorskip("pyarrow").array([None, *Y[1:].tolist()])
    expected = fit(X[1:], Y[1:], **QUICK).predict(X)
    np.testing.assert_array_equal(fit(X, y, **QUICK).predict(X), expected)


def test_a_batch_of_arrow_is_a_table():
    pa = pytest.importorskip("pyarrow")
    columns = {**COLUMNS, "town": ["a", "b"] * (N // 2)}
    batch, table = pa.RecordBatch.from_pydict(columns), pa.table(columns)
    model, expected = fit(batch, Y, **QUICK), fit(table, Y, **QUICK)
    np.testing.assert_array_equal(model.predict(batch), expected.predict(table))


@pytest.mark.filterwarnings("ignore:column 's' has values of type")
@pytest.mark.parametrize("struct", [True, False])
def test_columns_whose_values_have_parts_are_text(struct):
    polars = pytest.importorskip("polars")
    kind = None if struct else polars.Array(polars.Int64, 2)
    values = [{"x": k % 3} if struct else [k % 3, 1] for k in range(N)]
    frame = polars.DataFrame({**COLUMNS, "s": polars.Series(values, dtype=kind)})
    model = fit(frame, Y, **QUICK)
    assert next(c.kind for c in model.table.columns if c.name == "s") == "category"
    assert np.isfinite(model.predict(frame)).all()


@makers
def test_columns_are_checked_by_name_at_prediction(make, expected):
    renamed = {"width": COLUMNS["width"], "height": COLUMNS["height"], "weight": COLUMNS["age"]}
    with pytest.raises(ValueError, match="expected columns age, which are not in X"):
        expected.predict(make(renamed))
    turned = expected.predict(make(dict(reversed(COLUMNS.items()))))
    np.testing.assert_array_equal(turned, expected.predict(FRAME))


@makers
def test_a_model_of_one_library_predicts_for_another(make, expected, tmp_path):
    fit(make(COLUMNS), Y, **QUICK).save(tmp_path / "model")
    loaded = gpukfl.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.predict(FRAME), expected.predict(FRAME), atol=1e-6)
    np.testing.assert_array_equal(expected.predict(make(COLUMNS)), expected.predict(FRAME))


def test_a_lazy_frame_is_to_be_collected():
    lazy = polars_frame(COLUMNS).lazy()
    with pytest.raises(TypeError, match="expected data in memory, got LazyFrame: call its collect"):
        fit(lazy, Y)


# ---------------------------------------------------------------------- kinds of columns

COMPLETE = pd.DataFrame({"a": COLUMNS["width"], "b": COLUMNS["age"]})


@pytest.fixture(scope="module")
def plain():
    """A model of numbers only, which later takes nothing else."""
    return fit(COMPLETE, Y, **QUICK)


NUMBERS = {
    "integers": [1, 2, 3, 4] * 20,
    "booleans": [True, False] * 40,
    "decimals": [Decimal(k) / 8 for k in range(N)],
}
PANDAS_NUMBERS = {
    "nullable integers": pd.array(range(N), dtype="Int64"),
    "nullable floats": pd.array(np.linspace(0, 1, N), dtype="Float64"),
    "nullable booleans": pd.array([True, False] * 40, dtype="boolean"),
    "objects that are numbers": np.array([1, 2.5, True, Decimal(3)] * 20, dtype=object),
    "single precision": np.linspace(0, 1, N, dtype=np.float32),
}


@makers
@pytest.mark.parametrize("kind", NUMBERS)
def test_columns_of_numbers_are_taken(make, kind):
    values = NUMBERS[kind]
    model = fit(make({"a": COLUMNS["width"], "b": values}), Y, **QUICK)
    plain = fit(np.stack([X[:, 0], np.array(values, dtype=float)], axis=1), Y, **QUICK)
    frame = make({"a": COLUMNS["width"], "b": values})
    np.testing.assert_array_equal(
        model.predict(frame),
        plain.estimator.predict(np.stack([X[:, 0], np.array(values, dtype=float)], axis=1)),
    )


@pytest.mark.parametrize("kind", PANDAS_NUMBERS)
def test_columns_of_numbers_of_pandas_are_taken(kind):
    frame = FRAME.assign(more=PANDAS_NUMBERS[kind])
    plain = np.column_stack([X, np.array(PANDAS_NUMBERS[kind], dtype=float)])
    np.testing.assert_array_equal(
        fit(frame, Y, **QUICK).predict(frame), fit(plain, Y, **QUICK).predict(plain)
    )


@pytest.mark.few
@makers
@pytest.mark.parametrize(
    ("values", "match"),
    [
        (["red", "blue"] * 40, "expected columns of numbers, got text in b: encode categories"),
        ([DAY] * N, "got dates in b: convert dates to numbers"),
        ([datetime.datetime(2021, 3, 4, 5)] * N, "got dates in b"),
        ([datetime.timedelta(days=1)] * N, "got durations in b: convert durations"),
        ([1.0] * 77 + [None] * 3, "expected no missing values, got NaN in b: .* the 3 of 80 rows"),
        ([1] * 78 + [None] * 2, "got NaN in b: fill"),
        ([True] * 79 + [None], "got NaN in b: fill"),
        ([Decimal(1)] * 79 + [None], "got NaN in b: fill"),
        (["red", None] * 40, "got text in b: .* drop the columns$"),
        (["2021-03-04 10:00", "4 March 2021"] * 40, "got dates as text in b: convert dates to"),
    ],
)
def test_bad_columns_are_explained(make, values, match, plain):
    with pytest.raises(ValueError, match=match):
        plain.predict(make({"a": COLUMNS["width"], "b": values}))


@pytest.mark.parametrize(
    ("values", "match"),
    [
        (pd.Categorical(["a", "b"] * 40), "got categories in b: encode"),
        (pd.array([1, None] * 40, dtype="Int64"), "got NaN in b: .* the 40 of 80 rows"),
        (pd.array([1.5, None] * 40, dtype="Float64"), "got NaN in b: fill"),
        (pd.array(["a"] * N, dtype="string"), "got text in b"),
        (pd.date_range("2020", periods=N, tz="UTC"), "got dates in b"),
        (pd.period_range("2020", periods=N, freq="D"), "got dates in b"),
        (np.full(N, 1j), "got complex numbers in b"),
        (np.array(["a", 1] * 40, dtype=object), "got other objects such as .* in b"),
        (np.array([[], {}] * 40, dtype=object), "got other objects such as .* in b"),
    ],
)
def test_bad_columns_of_pandas_are_explained(values, match, plain):
    with pytest.raises(ValueError, match=match):
        plain.predict(COMPLETE.assign(b=values))


def test_polars_categories_and_lists_are_explained(plain):
    polars = pytest.importorskip("polars")
    frame = polars_frame({"a": COLUMNS["width"]})
    red = polars.Series("b", ["red", "blue"] * 40)
    for column, match in [
        (red.cast(polars.Categorical), "got text in b"),
        (red.cast(polars.Enum(["red", "blue"])), "got text in b"),
        (polars.Series("b", [[1, 2]] * N), "got other objects such as .* in b"),
    ]:
        with pytest.raises(ValueError, match=match):
            plain.predict(frame.with_columns(column))


def test_many_bad_columns_are_counted():
    frame = pd.DataFrame({f"c{k}": ["x"] * N for k in range(14)})
    with pytest.raises(ValueError, match=r"text in c0, .*, c9 and 4 more"):
        numeric_frame(frame)


@makers
def test_columns_that_the_fit_did_not_have_may_hold_anything(plain, make):
    frame = {
        **COMPLETE.to_dict("list"),
        "name": ["red"] * len(COMPLETE),
        "gap": [None] * len(COMPLETE),
    }
    with pytest.warns(UserWarning, match="were not in the fit are ignored: name, gap"):
        found = plain.predict(make(frame))
    np.testing.assert_array_equal(found, plain.predict(COMPLETE))


def test_text_and_gaps_are_explained_together(plain):
    frame = COMPLETE.assign(a=["red", None] * 40)
    frame.loc[:4, "b"] = np.nan
    match = "got text in a: .*; and expected no missing values, got NaN in b: .* the 5 of 80"
    with pytest.raises(ValueError, match=match):
        plain.predict(frame)


def test_columns_of_numbers_are_matched_by_name(plain):
    there = plain.predict(COMPLETE)
    np.testing.assert_array_equal(plain.predict(COMPLETE[["b", "a"]]), there)
    np.testing.assert_array_equal(plain.predict(COMPLETE.assign(y=Y)), there)
    with pytest.warns(UserWarning, match="were not in the fit are ignored: other"):
        np.testing.assert_array_equal(plain.predict(COMPLETE.assign(other=1.0)), there)
    with pytest.raises(ValueError, match="expected columns b, which are not in X"):
        plain.predict(COMPLETE[["a"]])


def test_a_plain_frame_is_not_copied():
    from gpukfl.core._frames import numeric_frame

    assert numeric_frame(FRAME) is FRAME
    assert numeric_frame(X) is X
