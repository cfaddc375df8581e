"""Rows with gaps in columns that had none where a blend was fitted."""

import warnings

import numpy as np
import pandas as pd
import pytest
from portfolio_cases import QUICK, THREE, N, X, Y
from sklearn.ensemble import HistGradientBoostingRegressor

import gpukfl
from gpukfl import runtime
from gpukfl.core._array import to_host
from gpukfl.estimators._samples import Samples
from gpukfl.portfolio import Member
from gpukfl.tables._seen import CODES

pytestmark = pytest.mark.filterwarnings("ignore:infinite values are treated as missing")

NAMES = ["size", "age", "rooms"]
NEW = X[:7].copy()
NEW[[1, 4, 4], [0, 2, 0]] = np.nan, np.inf, -np.inf
FILLED = np.where(np.isfinite(NEW), NEW, np.median(X, axis=0))
WARNED = "missing values in size, rooms, which had none in the fit"


def fit(target=Y, make=lambda rows: pd.DataFrame(rows, columns=NAMES)):
    return gpukfl.fit(make(X), target, progress=False, **QUICK)


@pytest.fixture(scope="module", params=["numbers", "classes"])
def model(request):
    return fit({"numbers": Y, "classes": THREE}[request.param])


def predict(model, rows):
    return model.predict_proba(rows) if model.task == "classification" else model.predict(rows)


def test_medians_stand_for_gaps_on_every_place(on):
    rows = on.put(X)
    model = gpukfl.AutoRegressor(**QUICK).fit(rows, on.put(Y))
    expected = model.predict(on.put(FILLED))
    with pytest.warns(UserWarning, match="missing values in x0, x2, which had none"):
        found = model.predict(on.put(NEW))
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(to_host(found), to_host(expected), rtol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: pd.DataFrame(rows, columns=NAMES),
        lambda rows: pd.DataFrame(rows, columns=NAMES).astype(object),
        lambda rows: pd.DataFrame(np.where(np.isfinite(rows), rows, np.nan), columns=NAMES).astype(
            "Float64"
        ),
        lambda rows: pytest.importorskip("polars").DataFrame(rows, schema=NAMES),
        lambda rows: pytest.importorskip("pyarrow").table(pd.DataFrame(rows, columns=NAMES)),
        lambda rows: pd.DataFrame(rows, columns=NAMES)[NAMES[::-1]],
    ],
    ids=["pandas", "objects", "nullable", "polars", "pyarrow", "another order"],
)
def test_frames_of_every_library_may_have_them(model, make):
    expected = predict(model, pd.DataFrame(FILLED, columns=NAMES))
    with pytest.warns(UserWarning, match=WARNED):
        np.testing.assert_array_equal(predict(model, make(NEW)), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gaps_beside_columns_of_truth_values(dtype):
    rows = pd.DataFrame({"size": X[:, 0].astype(dtype), "new": X[:, 1] > 0})
    model = gpukfl.fit(rows, Y, progress=False, **QUICK)
    given, whole = rows[:4].copy(), rows[:4].copy()
    given.loc[2, "size"], whole.loc[2, "size"] = np.nan, np.median(rows["size"])
    with pytest.warns(UserWarning, match="missing values in size, which had none"):
        np.testing.assert_allclose(model.predict(given), model.predict(whole), rtol=1e-6)


def test_intervals_and_sets_too(model):
    given, whole = (pd.DataFrame(rows, columns=NAMES) for rows in (NEW, FILLED))
    method = model.predict_set if model.task == "classification" else model.predict_interval
    with pytest.warns(UserWarning, match=WARNED):
        np.testing.assert_array_equal(method(given), method(whole))


def test_files_keep_what_stands_for_them(model, tmp_path):
    model.save(tmp_path / "model.gpukfl")
    frame, alone = pd.DataFrame(NEW, columns=NAMES), runtime.load(tmp_path / "model.gpukfl")
    for loaded in (gpukfl.load(tmp_path / "model.gpukfl"), alone):
        with pytest.warns(UserWarning, match=WARNED):
            found = predict(loaded, frame)
        np.testing.assert_allclose(
            found, predict(model, pd.DataFrame(FILLED, columns=NAMES)), rtol=0, atol=1e-10
        )


def test_medians_are_those_of_rows_that_count():
    weights = (X[:, 0] > 0).astype(float)
    model = gpukfl.fit(X, Y, sample_weight=weights, progress=False, **QUICK)
    row = X[:1].copy()
    row[0, 1] = np.nan
    with pytest.warns(UserWarning, match="missing values"):
        found = model.predict(row)
    row[0, 1] = np.median(X[weights > 0, 1])
    np.testing.assert_array_equal(found, model.predict(row))


def test_complete_rows_warn_of_nothing(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predict(model, pd.DataFrame(X, columns=NAMES))


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_other_mistakes_are_told_as_before(model):
    estimator, wide = model.estimator, np.hstack([NEW, NEW])
    with pytest.raises(ValueError, match="contains NaN"):
        estimator.predict(wide)
    with pytest.raises(ValueError, match="1D array"):
        estimator.predict(NEW[:, 0])
    with pytest.raises(ValueError, match="text in age"):
        model.predict(pd.DataFrame(NEW, columns=NAMES).assign(age="old"))
    told = pytest.raises(ValueError, match="feature names")
    with told, pytest.warns(UserWarning, match="missing values in"):
        estimator.predict(pd.DataFrame(NEW, columns=["size", "age", "room"]))


def test_methods_alone_take_no_gaps():
    model = gpukfl.fit(X, Y, method="bkernn", ridge=0.1, n_particles=4, progress=False)
    with pytest.raises(ValueError, match="AutoRegressor and AutoClassifier accept missing values"):
        model.predict(NEW)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("early_stopping", [False, True])
def test_trees_stand_columns_of_hardly_any_values(weighted, early_stopping):
    codes = np.column_stack([X, np.full(N, np.nan)])
    weights = np.ones(N) if weighted else None
    if weighted:  # what does not count has values
        weights[:20] = 0.0
        codes[:20, 3] = Y[:20]
    codes[-2:, 3] = 1.0
    trees = HistGradientBoostingRegressor(early_stopping=early_stopping, random_state=0)
    samples = Samples(codes, Y[:, None], weights)
    found, _ = Member("trees", trees, sees=CODES).fit_clone(samples, None, None)
    without = HistGradientBoostingRegressor(early_stopping=early_stopping, random_state=0)
    without.fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(found.predict(codes), without.predict(X))
