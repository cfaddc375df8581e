"""Rows of validation in place of folds: what judges, and is never fitted."""

import numpy as np
import pandas as pd
import pytest
from portfolio_cases import TWO, N, X, Y, classifier, regressor
from sklearn.metrics import accuracy_score, r2_score

import gpukfl
from gpukfl.core._array import to_host

M = 60  # rows of the fit
INSIDE, OUTSIDE = np.arange(M), np.arange(M, N)
WORDS = np.where(TWO, "yes", "no").astype(object)
W = np.random.default_rng(1).uniform(0.5, 2.0, N)
NAMED = ["linear", "laplace"]


def parts(*arrays):
    """Return the rows of the fit, and those of validation."""
    return [one[:M] for one in arrays], tuple(one[M:] for one in arrays)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("metric", ["auto", "plain"])
@pytest.mark.parametrize("make", [regressor, classifier])
def test_validation_is_one_given_split_that_is_not_fitted(make, metric, dtype):
    y = Y if make is regressor else WORDS
    asked = {"members": NAMED}
    if metric != "auto":
        asked["metric"] = "mae" if make is regressor else "roc_auc"
    given, held_out = parts(X.astype(dtype), y)
    model = make(**asked).fit(*given, validation=held_out)
    split = make(**asked, refit=False).fit(X.astype(dtype), y, cv=[(INSIDE, OUTSIDE)])
    np.testing.assert_array_equal(model.predict(X.astype(dtype)), split.predict(X.astype(dtype)))
    assert not model.whole_
    assert {len(one.models) for one in model.members_} == {1}
    np.testing.assert_array_equal(model.out_of_fold_.rows, X[M:].astype(dtype))


def test_the_score_of_the_blend_is_that_of_validation():
    given, held_out = parts(X, Y)
    model = gpukfl.fit(*given, validation=held_out, members=NAMED)
    board = model.leaderboard().set_index("member")
    own = r2_score(Y[M:], model.predict(X[M:]))
    assert board.loc["blend", "score"] == pytest.approx(own)
    assert "validation=validation" in gpukfl._call.call_text(model)
    (low, high), truth = model.predict_interval(X[M:], 0.8).T, Y[M:]
    assert np.mean((low <= truth) & (truth <= high)) > 0.6


@pytest.mark.parametrize("transform", ["auto", "log", None])
def test_targets_of_validation_are_not_fitted(transform):
    skewed = np.exp(2.0 * Y)
    models = []
    for factor in (1.0, 3.0):
        (rows, y), (others, truth) = parts(X, skewed)
        model = regressor(members=["linear"], target_transform=transform)
        models.append(model.fit(rows, y, validation=(others, factor * truth)))
    own = [one.members_[0].models[0].predict(X) for one in models]
    np.testing.assert_array_equal(*own)


@pytest.mark.parametrize("name", ["y", "frame"])
def test_tables_with_text_are_joined_by_their_columns(name, tmp_path):
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["kind"] = np.where(X[:, 0] > 0, "left", "right")
    frame["y"] = WORDS
    others = frame[M:][frame.columns[::-1]]  # in any order
    held_out = others if name == "frame" else (others.drop(columns="y"), others["y"])
    model = gpukfl.fit(frame[:M], "y", validation=held_out, members=NAMED, metric="accuracy")
    board = model.leaderboard().set_index("member")
    said = model.predict(frame[M:].drop(columns="y"))
    assert board.loc["blend", "accuracy"] == pytest.approx(accuracy_score(WORDS[M:], said))
    model.save(tmp_path / "model.gpukfl")
    loaded = gpukfl.load(tmp_path / "model.gpukfl")
    np.testing.assert_array_equal(loaded.predict(frame[M:].drop(columns="y")), said)


def test_weights_of_validation_judge_in_their_own_unit():
    given, held_out = parts(X, Y, W)
    models = [
        regressor(members=NAMED).fit(*given, validation=(*held_out[:2], factor * held_out[2]))
        for factor in (1.0, 1024.0)
    ]
    np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))
    kept = models[0].out_of_fold_.weights
    np.testing.assert_allclose(kept / kept.sum(), W[M:] / W[M:].sum())


def test_a_model_is_fitted_again_with_validation():
    given, held_out = parts(X, Y)
    model = gpukfl.fit(*given, validation=held_out, members=NAMED)
    before = model.predict(X)
    np.testing.assert_array_equal(model.fit(*given, validation=held_out).predict(X), before)
    with pytest.warns(UserWarning, match="fitted with validation"):
        model.fit(*given)
    again = gpukfl.fit(*given, validation=held_out, members=NAMED, refit=True)
    assert again.estimator.whole_


def test_arrays_of_every_library_are_joined_and_scored(on):
    if on.package == "array_api_strict":
        pytest.skip("no library of data")
    given, held_out = parts(on.put(X), on.put(Y))
    model = regressor(members=["linear"], metric="mae").fit(*given, validation=held_out)
    assert type(model.out_of_fold_.rows) is type(given[0])
    found = model.predict(on.put(X))
    assert type(found) is type(given[0])
    rounded = X.astype(on.dtype_name), Y.astype(on.dtype_name)
    given, held_out = parts(*rounded)
    plain = regressor(members=["linear"], metric="mae").fit(*given, validation=held_out)
    np.testing.assert_allclose(to_host(found), plain.predict(rounded[0]), rtol=1e-4, atol=1e-5)
    board = model.leaderboard(on.put(X), on.put(Y))
    np.testing.assert_allclose(board["mae"], plain.leaderboard(*rounded)["mae"], rtol=1e-3)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        (lambda *both: both[0], TypeError, r"expected validation to be \(X, y\)"),
        (lambda X, y: (X[:0], y[:0]), ValueError, "expected validation with rows, got none"),
        (lambda X, y: (X[:, :2], y), ValueError, "with the columns of X"),
        (lambda X, y: (X, y[:5]), ValueError, "as many targets"),
        (lambda X, y: (X.tolist(), y), TypeError, "expected validation of rows as ndarray"),
        (lambda X, y: (X, y, -np.ones(len(y))), ValueError, "weights of validation of at least 0"),
        (lambda X, y: (X, np.where(y == "no", "new", y)), ValueError, "classes of the fit .* new"),
        (lambda X, y: (X[y == "no"], y[y == "no"]), ValueError, "in validation, got only 'no'"),
    ],
)
def test_validation_that_does_not_fit_is_an_error_before_a_fit(monkeypatch, change, error, match):
    monkeypatch.setattr("gpukfl.portfolio._base.MemberTrainer", None)
    given, held_out = parts(X, WORDS)
    for fit in (classifier(members=NAMED).fit, gpukfl.fit):
        with pytest.raises(error, match=match):
            fit(*given, validation=change(*held_out))


def test_validation_takes_the_place_of_folds_of_a_blend():
    given, held_out = parts(X, Y)
    with pytest.raises(TypeError, match="validation or groups, got both"):
        gpukfl.fit(*given, validation=held_out, groups=np.arange(M))
    with pytest.raises(TypeError, match=r"members=\['bkernn'\]"):
        gpukfl.fit(*given, validation=held_out, method="bkernn")
    frame = pd.DataFrame(given[0], columns=list("abc")).assign(y=given[1])
    with pytest.raises(ValueError, match="got no a and also d"):
        gpukfl.fit(frame, "y", validation=frame.rename(columns={"a": "d"}))
    with pytest.raises(TypeError, match="or y as the name of a column"):
        gpukfl.fit(frame.drop(columns="y"), frame["y"], validation=frame)
    dask = pytest.importorskip("dask.dataframe")
    with pytest.raises(TypeError, match="in memory"):
        gpukfl.fit(dask.from_pandas(frame, npartitions=2), "y", validation=frame)


def test_missing_targets_of_validation_are_counted_by_themselves():
    y = Y[M:].copy()
    y[:2] = np.nan
    with pytest.warns(UserWarning, match=f"y of validation is missing in 2 of {len(y)} rows"):
        model = gpukfl.fit(X[:M], Y[:M], validation=(X[M:], y), members=["linear"])
    assert len(model.estimator.out_of_fold_.truth) == len(y) - 2
