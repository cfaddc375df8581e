"""Arrays for frames, columns of arrays that are told, lists of dicts, and what is no table."""

import warnings

import numpy as np
import pandas as pd
import pytest
from brief import bkernn
from sklearn.model_selection import cross_val_score

import gpukfl
from gpukfl import runtime
from gpukfl.tables import Table, TableEncoder

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge of the last fit:UserWarning"),
]
N = 120
RNG = np.random.default_rng(2)
CODES = RNG.integers(0, 5, N).astype(float)
SIZE = RNG.uniform(0, 1, N)
Y = SIZE + np.array([3.0, -1.0, 2.0, -2.0, 0.0])[CODES.astype(int)]
ARRAY = np.column_stack([CODES, SIZE])
FRAME = pd.DataFrame({"kind": np.array(list("abcde"))[CODES.astype(int)], "size": SIZE})
TOLD = {"x0": "category"}


def auto(X, y=Y, **options):
    return gpukfl.fit(X, y, members=["linear", "laplace"], n_folds=2, progress=False, **options)


def single(X, y=Y, **options):
    brief = bkernn(n_particles=8, max_iter=4, ridge=0.01)
    return gpukfl.fit(X, y, method="bkernn", progress=False, **brief, **options)


fits = pytest.mark.parametrize("fit", [auto, single])


def loaded(model, folder):
    """Give the model as it is read again: by the package, and by the runtime."""
    model.save(folder / "model.gpukfl")
    return gpukfl.load(folder / "model.gpukfl"), runtime.load(folder / "model.gpukfl")


# ---------------------------------------------------------------------- arrays for frames


@fits
def test_arrays_for_frames_with_names_are_told(fit, tmp_path):
    model = fit(FRAME)
    expected, rows = model.predict(FRAME), FRAME.to_numpy(object)
    for one in (model, *loaded(model, tmp_path)):
        for given in (rows, rows.tolist()):
            with pytest.warns(
                UserWarning, match="X does not have valid feature names, but"
            ) as told:
                found = one.predict(given)
            assert len(told) == 1
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@fits
def test_arrays_for_arrays_are_not_told(fit, tmp_path):
    rows = FRAME.to_numpy(object)
    model = fit(rows)
    for one in (model, *loaded(model, tmp_path)):
        np.testing.assert_allclose(one.predict(rows), model.predict(rows), rtol=0, atol=1e-6)
    table = Table.learn(ARRAY)
    np.testing.assert_array_equal(table.codes(ARRAY), ARRAY)


def test_an_encoder_of_a_frame_tells_of_arrays():
    encoder = TableEncoder().fit(FRAME)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        found = encoder.transform(FRAME.to_numpy(object))
    np.testing.assert_array_equal(found, encoder.transform(FRAME))


# ---------------------------------------------------------------------- told columns of arrays


@pytest.mark.few
@fits
@pytest.mark.parametrize(
    "make", [np.asarray, lambda X: X.astype(int), np.float32, np.ndarray.tolist]
)
def test_columns_of_arrays_may_be_told(fit, make, tmp_path):
    rows = make(ARRAY)
    model = fit(rows, columns=TOLD)
    assert [one.kind for one in model.table.columns] == ["category", "numeric"]
    assert model.feature_names == ["x0", "x1"]
    frame = pd.DataFrame(np.asarray(rows), columns=["x0", "x1"])
    expected = model.predict(rows)
    for one in (model, *loaded(model, tmp_path)):
        for given in (rows, frame, frame[["x1", "x0"]], frame.to_dict("records")):
            np.testing.assert_allclose(one.predict(given), expected, rtol=0, atol=1e-6)


@fits
def test_what_is_told_of_arrays_is_learned_again(fit):
    model = fit(ARRAY, columns=TOLD)
    assert model.score(ARRAY, Y) > 0.9
    assert cross_val_score(model, ARRAY, Y, cv=3).min() > 0.8
    again = model.fit(ARRAY[:90], Y[:90])
    assert [one.kind for one in again.table.columns] == ["category", "numeric"]


def test_estimators_take_what_is_told_of_arrays():
    options = {"members": ["linear"], "n_folds": 2, "columns": TOLD}
    model = gpukfl.AutoClassifier(**options).fit(ARRAY, CODES > 2)
    assert model.encodings_.table.columns[0].kind == "category"
    assert model.score(ARRAY, CODES > 2) == 1.0
    encoder = TableEncoder(columns=TOLD).fit(ARRAY)
    assert sum(name.startswith("x0=") for name in encoder.get_feature_names_out()) == 5


@fits
def test_what_cannot_be_told_of_arrays_is_explained(fit):
    with pytest.raises(
        ValueError, match=r"columns= to name columns of the table, got 'x2': it has x0, x1"
    ):
        fit(ARRAY, columns={"x2": "category"})
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        fit(CODES, columns=TOLD)


@fits
def test_columns_of_arrays_of_torch_are_not_told(fit, torch):
    with pytest.raises(TypeError, match="or a NumPy array with columns=, got Tensor"):
        fit(torch.asarray(ARRAY), columns=TOLD)


# ---------------------------------------------------------------------- rows that are dicts


@fits
@pytest.mark.parametrize("columns", [["kind", "size"], ["size"]])
def test_lists_of_dicts_are_frames(fit, columns, tmp_path):
    frame = FRAME[columns]
    rows = frame.to_dict("records")
    model = fit(frame)
    expected = model.predict(frame)
    for one in (model, *loaded(model, tmp_path)):
        np.testing.assert_allclose(one.predict(rows), expected, rtol=0, atol=1e-6)
        np.testing.assert_allclose(one.predict(rows[:1]), expected[:1], rtol=0, atol=1e-6)
    assert model.score(rows, Y) == model.score(frame, Y)
    of_rows = fit([{**row, "y": y} for row, y in zip(rows, Y, strict=True)], "y")
    assert of_rows.feature_names == columns
    np.testing.assert_array_equal(of_rows.predict(frame), expected)


def test_dicts_may_lack_values_of_tables(tmp_path):
    model = single(FRAME.assign(size=np.where(SIZE < 0.2, np.nan, SIZE)))
    rows = [{"kind": "a"}, {"kind": "b", "size": 0.5}]
    expected = model.predict(pd.DataFrame(rows))
    for one in (model, *loaded(model, tmp_path)):
        np.testing.assert_allclose(one.predict(rows), expected, rtol=0, atol=1e-6)


# ---------------------------------------------------------------------- what is no table


@fits
@pytest.mark.parametrize("columns", [["kind", "size"], ["size"]])
def test_a_series_is_told_from_a_frame_of_one_row(fit, columns, tmp_path):
    model = fit(FRAME[columns])
    _, light = loaded(model, tmp_path)
    for one in (model, light) if len(columns) > 1 else (model,):
        with pytest.raises(
            ValueError, match=r"got a series: for one row, use frame\.iloc\[\[0\]\], with two"
        ):
            one.predict(FRAME[columns].iloc[0])


@fits
def test_what_arrow_has_not_read_is_told_how_to_read(fit, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    dataset = pytest.importorskip("pyarrow.dataset")
    table = arrow.Table.from_pandas(FRAME.assign(y=Y))
    dataset.write_dataset(table, tmp_path / "parts", format="parquet")
    stored = dataset.dataset(tmp_path / "parts")
    with pytest.raises(TypeError, match=r"got FileSystemDataset: call its to_table\(\)"):
        fit(stored, "y")
    with pytest.raises(TypeError, match=r"got RecordBatchReader: call its read_all\(\)"):
        fit(table.to_reader(), "y")
    model = fit(stored.to_table(), "y")
    _, light = loaded(model, tmp_path)
    for one in (model, light):
        with pytest.raises(TypeError, match="its to_table"):
            one.predict(stored)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert len(one.predict(stored.to_table())) == N


# ---------------------------------------------------------------------- files read otherwise

CELLS = pd.DataFrame(
    {
        "zip": np.array(["00501", "10115", "01067", "20095", "00099"])[CODES.astype(int)],
        "price": [f"${1000 + 400 * x:,.1f}" for x in SIZE],
        "y": Y,
    }
)
READ = CELLS.assign(price=CELLS["price"].str.replace("[$,]", "", regex=True).astype(float))


@fits
@pytest.mark.filterwarnings("ignore")
def test_columns_that_readers_change_predict_alike(fit, tmp_path):
    dask = pytest.importorskip("dask.dataframe")
    model = fit(READ, "y")
    expected = model.predict(READ)
    changed = CELLS.assign(zip=CELLS["zip"].astype(int))
    _, light = loaded(model, tmp_path)
    for one in (model, light):
        for rows in (CELLS, changed, changed.to_dict("records")):
            np.testing.assert_allclose(one.predict(rows), expected, rtol=0, atol=1e-6)
    lazy = model.predict(dask.from_pandas(changed, npartitions=3)).compute(scheduler="sync")
    np.testing.assert_allclose(lazy, expected, rtol=0, atol=1e-6)
    changed.to_csv(tmp_path / "new.csv", index=False)
    rows = gpukfl.datasets.load_frame(str(tmp_path / "new.csv"))
    np.testing.assert_allclose(model.predict(rows), expected, rtol=0, atol=1e-6)


def test_each_row_of_a_service_says_so(tmp_path):
    _, light = loaded(single(READ, "y"), tmp_path)
    row = CELLS.drop(columns="y").iloc[0].to_dict()
    for _ in range(2):  # what became of a value is kept, and so is what is said
        with pytest.warns(UserWarning, match="is read as") as told:
            light.predict([{**row, "zip": int(row["zip"])}])
        assert len(told) == 2
    unknown = [{**row, "price": 1200.0, "zip": "x"}]
    assert np.isfinite(light.predict(unknown)).all()  # one row tells nothing of its level


def test_levels_that_are_all_new_are_told_by_models(tmp_path):
    model = single(FRAME)
    later = FRAME.assign(kind=FRAME["kind"].str.upper())
    for one in (model, *loaded(model, tmp_path)):
        with pytest.warns(UserWarning, match="'kind': none of 120 values was seen in the fit"):
            one.predict(later)
