"""Tables with text, gaps and dates, from `gpukfl.fit` to predictions, by every method."""

import numpy as np
import pandas as pd
import pytest
from brief import bkernn
from model_files import assert_as_before
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import gpukfl
from gpukfl.portfolio import Encodings
from gpukfl.tables._training import split_target

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge of the last fit:UserWarning"),
]
N = 120
RNG = np.random.default_rng(5)
SIZE = RNG.uniform(0, 1, N)
COLOUR = np.array(["red", "green", "blue"])[RNG.integers(0, 3, N)]
PRICE = 2.0 * SIZE + 3.0 * (COLOUR == "red")
FRAME = pd.DataFrame(
    {
        "size": np.where(RNG.uniform(size=N) < 0.1, np.nan, SIZE),
        "colour": COLOUR,
        "sold": pd.date_range("2024-01-01", periods=N, freq="D"),
        "key_id": np.arange(N),
        "price": PRICE,
    }
)
ROWS = FRAME.drop(columns="price")
QUICK = {"members": ["linear", "trees", "laplace"], "n_folds": 3}
SMALL = bkernn(n_particles=8, max_iter=4, ridge=0.01)


def auto(X=FRAME, y="price", **options):
    return gpukfl.fit(X, y, **{**QUICK, **options})


def single(X=FRAME, y="price", **options):
    return gpukfl.fit(X, y, method="bkernn", **{**SMALL, **options})


fits = pytest.mark.parametrize("fit", [auto, single])


@pytest.fixture(scope="module")
def blend():
    return auto()


@pytest.fixture(scope="module")
def kernel():
    return single()


@pytest.fixture(params=["blend", "kernel"])
def model(request):
    return request.getfixturevalue(request.param)


def polars_frame(frame):
    return pytest.importorskip("polars").from_pandas(frame)


def arrow_table(frame):
    return pytest.importorskip("pyarrow").Table.from_pandas(frame)


# ---------------------------------------------------------------------- rows in, predictions out


def test_a_table_is_learned(model):
    assert (model.target_name, model.task) == ("price", "regression")
    assert model.score(ROWS, PRICE) > 0.9
    assert model.feature_names == list(ROWS)
    assert list(model.feature_names_in_) == list(ROWS)
    assert model.n_features_in_ == 4


def test_the_target_may_be_a_column_a_series_or_an_array(blend):
    for y in (FRAME["price"], PRICE, PRICE.tolist()):
        np.testing.assert_array_equal(auto(ROWS, y).predict(ROWS), blend.predict(ROWS))


def test_columns_are_matched_by_name_and_the_target_may_be_there(model):
    expected = model.predict(ROWS)
    np.testing.assert_array_equal(model.predict(ROWS[list(ROWS)[::-1]]), expected)
    np.testing.assert_array_equal(model.predict(FRAME), expected)
    with pytest.warns(UserWarning, match="ignored: more"):
        np.testing.assert_array_equal(model.predict(ROWS.assign(more=1)), expected)
    with pytest.raises(ValueError, match="colour"):
        model.predict(ROWS.drop(columns="colour"))


@pytest.mark.parametrize("make", [polars_frame, arrow_table])
@fits
def test_frames_of_all_libraries_give_the_same(fit, make, request):
    expected = request.getfixturevalue("blend" if fit is auto else "kernel").predict(ROWS)
    model = fit(make(FRAME))
    assert model.target_name == "price"
    np.testing.assert_array_equal(model.predict(make(ROWS)), expected)
    np.testing.assert_array_equal(model.predict(ROWS), expected)


def test_one_row_is_as_in_many(model):
    np.testing.assert_allclose(model.predict(ROWS)[7:8], model.predict(ROWS[7:8]), rtol=1e-12)


def test_new_levels_and_new_gaps_are_predicted(model):
    odd = ROWS.head(3).assign(colour=["purple", None, "red"], size=[np.nan, np.inf, 0.5])
    with pytest.warns(
        UserWarning, match="infinite values are treated as missing: 1 of 3 rows of size"
    ):
        assert np.isfinite(model.predict(odd)).all()


@fits
def test_classes_of_text_are_predicted(fit):
    y = np.where(PRICE > 2, "dear", "cheap")
    model = fit(ROWS, pd.Series(y, name="how"))
    assert (model.task, model.target_name) == ("classification", "how")
    assert model.score(ROWS, y) > 0.9
    np.testing.assert_allclose(model.predict_proba(ROWS).sum(axis=1), 1.0)


@fits
def test_several_targets_and_weights(fit):
    Y = np.stack([PRICE, SIZE], axis=1)
    weights = np.linspace(0.5, 2.0, N)
    model = fit(ROWS, Y, sample_weight=weights)
    assert model.predict(ROWS).shape == (N, 2)
    twice = fit(ROWS, Y, sample_weight=2.0 * weights)
    np.testing.assert_allclose(model.predict(ROWS), twice.predict(ROWS), rtol=1e-9)


def test_intervals_quantiles_and_sets_take_rows_as_they_come(blend):
    ends = np.asarray(blend.predict_interval(ROWS, 0.8))
    assert ((ends[:, 0] <= PRICE) & (ends[:, 1] >= PRICE)).mean() > 0.75
    assert blend.predict_quantiles(ROWS, [0.5]).shape == (N, 1)
    sets = auto(ROWS, np.where(PRICE > 2, "dear", "cheap")).predict_set(ROWS, 0.8)
    assert sets.any(axis=1).all()


def test_projections_take_rows_as_they_come(kernel):
    assert len(kernel.transform(ROWS)) == N


@fits
def test_an_array_with_gaps_is_a_table_of_numbers(fit):
    X = np.stack([SIZE, RNG.normal(size=N)], axis=1)
    X[::7, 1] = np.nan
    model = fit(X, PRICE)
    assert model.feature_names == ["x0", "x1"]
    assert np.isfinite(model.predict(X[:2])).all()


@fits
def test_infinity_is_a_gap_of_arrays_as_of_frames(fit):
    X = np.stack([SIZE, np.cos(9 * SIZE)], axis=1)
    gaps = X.copy()
    X[::7, 1], gaps[::7, 1] = np.inf, np.nan
    expected = fit(gaps, PRICE).predict(gaps)
    for rows in (X, pd.DataFrame(X, columns=["x0", "x1"])):
        with pytest.warns(
            UserWarning, match="infinite values are treated as missing: 18 of 120 rows"
        ):
            model = fit(rows, PRICE)
        with pytest.warns(
            UserWarning, match="infinite values are treated as missing: 18 of 120 rows"
        ):
            np.testing.assert_array_equal(model.predict(rows), expected)


GIVEN = {
    "an array of objects": lambda rows: rows,
    "an array of text": lambda rows: rows.astype(str),
    "lists": lambda rows: rows.tolist(),
    "tuples": lambda rows: tuple(map(tuple, rows.tolist())),
    "lists with a gap": lambda rows: [[None, *rows[0, 1:]], *rows[1:].tolist()],
}


@pytest.mark.few
@fits
@pytest.mark.parametrize("given", GIVEN)
def test_rows_of_text_without_names_are_a_table(fit, given):
    rows = GIVEN[given](FRAME[["size", "colour"]].fillna(0.5).to_numpy(dtype=object))
    model = fit(rows, PRICE)
    assert model.feature_names == ["x0", "x1"]
    assert [column.kind for column in model.table.columns] == ["numeric", "category"]
    found = model.predict(rows)
    assert model.score(rows, PRICE) > 0.9
    np.testing.assert_allclose(model.predict(rows[:1]), found[:1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", [list, np.array])
def test_complete_numbers_of_objects_are_numbers(kind):
    rows = np.column_stack([SIZE, COLOUR == "red"]).astype(object)
    model = auto(kind(rows.tolist()), PRICE)
    assert model.table is None
    np.testing.assert_array_equal(
        model.predict(rows), auto(rows.astype(float), PRICE).predict(rows)
    )


# ---------------------------------------------------------------------- the way of complete numbers


@fits
def test_numbers_go_the_way_of_arrays_bit_by_bit(fit):
    X = np.stack([SIZE, RNG.normal(size=N)], axis=1)
    frame = pd.DataFrame(X, columns=["a", "b"])
    model, plain = fit(frame, PRICE), fit(X, PRICE)
    assert model.reader is None
    assert getattr(model.estimator, "encodings_", None) is None
    np.testing.assert_array_equal(model.predict(frame), plain.predict(X))


@fits
def test_columns_can_be_told(fit):
    frame = pd.DataFrame({"zip": np.arange(N) % 30, "size": SIZE})
    assert "1 category" not in fit(frame, PRICE).summary()
    assert "1 category" in fit(frame, PRICE, columns={"zip": "category"}).summary()


LIBRARIES = {
    "pandas": pd.DataFrame,
    "polars": lambda columns: pytest.importorskip("polars").DataFrame(columns),
    "pyarrow": lambda columns: pytest.importorskip("pyarrow").table(columns),
    "dask": lambda columns: pytest.importorskip("dask.dataframe").from_pandas(
        pd.DataFrame(columns), npartitions=2
    ),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_list_of_names_takes_several_columns_out(library):
    frame = LIBRARIES[library]({name: np.arange(5.0) + k for k, name in enumerate("abcd")})
    X, y, name = split_target(frame, ["d", "a"])
    shown = [list(getattr(found, "column_names", found.columns)) for found in (X, y)]
    assert (shown, name) == ([["b", "c"], ["d", "a"]], None)
    assert np.asarray(y)[0].tolist() == [3.0, 0.0]
    for names in (np.array(["d", "a"]), pd.Index(["d", "a"])):
        assert np.asarray(split_target(frame, names)[1])[0].tolist() == [3.0, 0.0]
    with pytest.raises(ValueError, match="one column of X, got 'e': 0 of a, b, c, d"):
        split_target(frame, ["d", "e"])


def test_a_number_may_be_the_name_of_a_column():
    frame = FRAME[["size", "size", "price"]].set_axis([7, 8, 9], axis=1)
    assert split_target(frame, 9)[2] == "9"
    assert list(map(str, split_target(frame, ["9", "8"])[1])) == ["9", "8"]
    assert single(frame, 9).target_name == "9"
    for y in (5, [7, 8, 9]):  # no column, and a value for each row
        assert split_target(frame[:3], y)[1] is y


def test_labels_that_are_names_of_columns_are_labels():
    for y in (["size", "key_id"] * 2, ["size", "size", "key_id"], [0, 1, 1]):
        assert split_target(FRAME[:4], y)[1] is y
    numbered = pd.DataFrame(np.zeros((5, 4)))
    assert split_target(numbered, [1, 0])[1] == [1, 0]


# ---------------------------------------------------------------------- missing targets


@pytest.mark.parametrize("make", [list, np.array, pd.Series])
def test_rows_without_a_target_are_left_out(make):
    y = PRICE.copy()
    y[[3, 50]] = np.nan
    with pytest.warns(UserWarning, match=f"missing in 2 of {N} rows, which are dropped"):
        model = single(ROWS, make(y))
    rest = np.isfinite(y)
    expected = single(ROWS[rest], PRICE[rest])
    np.testing.assert_array_equal(model.predict(ROWS), expected.predict(ROWS))


def test_weights_of_rows_without_a_target_are_left_out():
    y, w = np.where(np.arange(N) % 9 == 0, np.nan, PRICE), np.linspace(1, 2, N)
    with pytest.warns(UserWarning, match="are dropped"):
        model = single(ROWS, y, sample_weight=w)
    rest = np.isfinite(y)
    expected = single(ROWS[rest], PRICE[rest], sample_weight=w[rest])
    np.testing.assert_array_equal(model.predict(ROWS), expected.predict(ROWS))


def test_missing_labels_in_a_column_are_left_out():
    frame = polars_frame(ROWS.assign(how=["dear", None, *(["cheap", "dear"] * (N // 2 - 1))]))
    with pytest.warns(UserWarning, match=f"missing in 1 of {N} rows"):
        model = single(frame, "how")
    assert model.task == "classification"


# ---------------------------------------------------------------------- inside each fold


def test_what_is_learned_of_targets_is_learned_in_each_fold():
    """A column that names rows by many levels says nothing of new rows."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"shop": rng.integers(0, 60, 240).astype(str), "x": rng.normal(size=240)})
    noise = rng.normal(size=240)
    assert cross_val_score(auto(frame, noise), frame, noise, cv=3).max() < 0.15
    assert cross_val_score(single(frame, noise), frame, noise, cv=3).max() < 0.15


def test_folds_of_a_portfolio_see_only_their_own_targets(blend):
    known = blend.estimator.encodings_
    assert isinstance(known, Encodings)
    assert len(known.by_fold) == 3
    assert len({one.medians.tobytes() for one in known.by_fold}) > 1


def test_a_clone_is_not_fitted_and_fits_again(model):
    unfitted = clone(model)
    assert unfitted.reader is None
    again = unfitted.fit(FRAME, "price")
    np.testing.assert_array_equal(again.predict(ROWS), model.predict(ROWS))


@fits
def test_what_was_told_of_columns_holds_for_other_fits(fit):
    frame = pd.DataFrame({"zip": np.arange(N) % 30, "size": SIZE})
    model = clone(fit(frame, PRICE, columns={"zip": "category"})).fit(frame, PRICE)
    assert "1 category" in model.summary()


def test_a_fit_that_fails_changes_nothing(kernel):
    before = kernel.predict(ROWS)
    with pytest.raises(ValueError, match="no number"):
        kernel.fit(ROWS.assign(size="small"), ["no number"] * N)
    with pytest.raises(ValueError, match="expected at least one column to predict from"):
        kernel.fit(ROWS[["key_id"]].assign(same="a"), PRICE)
    np.testing.assert_array_equal(kernel.predict(ROWS), before)


# ---------------------------------------------------------------------- what it says


def test_the_summary_says_what_columns_are(model):
    text = " ".join(model.summary().split())
    assert "1 category" in text
    assert "1 date" in text
    assert "dropped: key_id (" in text
    assert "4 columns" in text


def test_importances_are_of_columns(model):
    importances = dict(zip(model.feature_names, model.feature_importances_, strict=True))
    assert sum(importances.values()) == pytest.approx(1.0)
    assert importances["key_id"] == 0.0
    assert max(importances, key=importances.get) == "colour"
    assert model.most_important(1)[0][0] == "colour"


def test_levels_are_shown_below_their_column(kernel):
    lines = [line.strip().rsplit(maxsplit=1) for line in kernel.summary().splitlines()]
    shown = {
        name: float(value)
        for name, value in (line for line in lines if len(line) == 2)
        if value.replace(".", "").isdigit()
    }
    parts = [value for name, value in shown.items() if name.startswith("colour=")]
    assert len(parts) == 3
    assert shown["colour"] == pytest.approx(sum(parts), abs=2e-3)


@pytest.mark.parametrize("panel", ["importances", "directions"])
def test_pictures_name_columns(kernel, panel):
    import matplotlib.pyplot as plt

    axes = kernel.plot(panel)
    named = [label.get_text() for label in axes.get_yticklabels()]
    plt.close("all")
    assert any(name.startswith("colour") for name in named)


@pytest.mark.usefixtures("no_pictures")
def test_reports_hold_columns_and_levels(kernel, tmp_path):
    kernel.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "colour=red" in text
    assert "dropped: key_id" in text


# ---------------------------------------------------------------------- one model of a blend


def test_a_distilled_model_of_numbers_takes_columns_by_their_names():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((60, 3)), columns=["a", "b", "c"])
    small = gpukfl.fit(X, X["a"] - X["b"], members=["linear"], n_folds=2, progress=False).distilled(
        "laplace"
    )
    expected = small.predict(X)
    np.testing.assert_array_equal(small.predict(X[["c", "a", "b"]]), expected)
    np.testing.assert_array_equal(small.predict(X.to_numpy()), expected)
    with pytest.raises(ValueError, match="expected columns b, which are not in X"):
        small.predict(X[["a", "c"]])


def test_a_distilled_model_reads_the_table(blend):
    small = blend.distilled("laplace")
    assert small.score > 0.5
    assert np.corrcoef(small.predict(ROWS), PRICE)[0, 1] > 0.9


def test_a_refit_has_one_encoding():
    model = auto(refit=True)
    assert len(model.estimator.encodings_.by_fold) == 1
    assert model.score(ROWS, PRICE) > 0.9
    assert model.predict_interval(ROWS).shape == (N, 2)


def test_whole_models_have_an_encoding_beside_those_of_folds():
    model = auto(refit="both")
    n_folds = model.estimator.out_of_fold_.n_folds
    assert len(model.estimator.encodings_.by_fold) == n_folds + 1
    assert model.score(ROWS, PRICE) > 0.9
    assert model.predict_interval(ROWS).shape == (N, 2)


def test_the_estimator_takes_frames_by_itself(blend):
    one = gpukfl.AutoRegressor(**QUICK, random_state=0).fit(ROWS, PRICE)
    np.testing.assert_array_equal(one.predict(ROWS), blend.predict(ROWS))


@pytest.mark.parametrize("dtype", [object, np.float32])
def test_the_estimator_takes_arrays_with_gaps_by_itself(dtype):
    numbers = FRAME[["size", "key_id"]].to_numpy(dtype)
    rows = ROWS.to_numpy() if dtype is object else numbers
    one = gpukfl.AutoRegressor(**QUICK, random_state=0).fit(rows, PRICE)
    np.testing.assert_array_equal(one.predict(rows), auto(rows, PRICE).predict(rows))
    assert one.predict_interval(rows[:3]).shape == (3, 2)


# ---------------------------------------------------------------------- bad input


@fits
def test_bad_targets_are_explained(fit):
    with pytest.raises(ValueError, match="one column of X, got 'prize': 0 of size"):
        fit(FRAME, "prize")
    with pytest.raises(
        TypeError, match=r"column 'price' for X, got str: to read a file, use pandas\.read_csv"
    ):
        fit("houses.csv", "price")
    with pytest.raises(TypeError, match="expected a frame with a column 'price' for X"):
        fit(np.ones((N, 2)), "price")
    with pytest.raises(ValueError, match=f"got NaN or None in all {N}"):
        fit(ROWS, np.full(N, np.nan))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fit(ROWS, PRICE[1:])


@fits
def test_a_target_of_one_value_is_predicted(fit):
    with pytest.warns(UserWarning, match="y is constant"):
        model = fit(ROWS, np.full(N, 4.5))
    np.testing.assert_allclose(model.predict(ROWS), 4.5)


@fits
def test_a_table_without_a_usable_column_is_explained(fit):
    frame = pd.DataFrame({"same": ["a"] * N, "key_id": np.arange(N)})
    with pytest.raises(
        ValueError, match=r"expected at least one column to predict from, got none: .*same \("
    ):
        fit(frame, PRICE)


@fits
def test_a_frame_without_columns_or_with_one_row_is_explained(fit):
    with pytest.raises(ValueError, match=rf"0 feature\(s\) \(shape=\({N}, 0\)\)"):
        fit(ROWS[[]], PRICE)
    with pytest.raises(ValueError, match="1 sample"):
        fit(ROWS.head(1), PRICE[:1])


def test_an_empty_frame_is_explained(model):
    with pytest.raises(ValueError, match=r"row|sample"):
        model.predict(ROWS.head(0))


@fits
def test_bad_columns_that_are_told_are_explained(fit):
    with pytest.raises(ValueError, match="colur"):
        fit(FRAME, "price", columns={"colur": "category"})
    with pytest.raises(ValueError, match="kind"):
        fit(FRAME, "price", columns={"colour": "colour"})
    with pytest.raises(ValueError, match="got 'colour': it has x0, x1"):
        fit(np.ones((N, 2)) * SIZE[:, None], PRICE, columns={"colour": "category"})


# ---------------------------------------------------------------------- missing numbers

TWICE = ROWS.assign(again=SIZE + 0.01 * RNG.normal(size=N))


def encodings_of(model):
    return [model.reader.encoding] if model.reader else model.estimator.encodings_.by_fold


@fits
def test_missing_numbers_are_told_from_other_columns(fit, tmp_path):
    plain, told = (fit(TWICE, PRICE, impute=impute) for impute in ("median", "model"))
    assert not any(one.imputations for one in encodings_of(plain))
    for one in encodings_of(told):
        place = one.names.index("size")
        gaps = TWICE["size"].isna().to_numpy()
        found = one.transform(told.table.codes(TWICE))[gaps, place]
        assert np.abs(found - SIZE[gaps]).max() < 0.2 < np.abs(0.5 - SIZE[gaps]).max()
    told.save(tmp_path / "model")
    loaded = gpukfl.load(tmp_path / "model")
    assert_as_before(loaded.predict(TWICE), told.predict(TWICE))
    again = clone(told).fit(TWICE, PRICE)
    assert all(len(one.imputations) == 1 for one in encodings_of(again))


@fits
def test_a_bad_way_to_impute_is_explained(fit):
    with pytest.raises(ValueError, match=r"expected impute to be one of .*, got 'mean'"):
        fit(FRAME, impute="mean")


def test_a_model_says_what_its_columns_are(model):
    assert [column.name for column in model.table.columns] == list(ROWS)
    assert gpukfl.fit(SIZE[:, None], PRICE, **QUICK).table is None
