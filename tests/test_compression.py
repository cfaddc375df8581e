"""Compressed models lose no more than was said, and say what they lost."""

import numpy as np
import pandas as pd
import pytest
from model_files import assert_as_before
from served_models import RNG, SMALL, X, Y, kernel_blend, model
from sklearn.linear_model import Lasso
from sklearn.metrics import r2_score

import gpukfl
from gpukfl import runtime
from gpukfl.core._array import to_host

ROWS = X + 0.05 * RNG.normal(size=X.shape)
UNITS = {
    "bkernn": "knots",
    "hkrr": "centres",
    "selection": "centres",
    "rkhs_weighting": "features",
    "regfeal": "centres",
    "regfeal, Hermite": "features",
}


@pytest.mark.parametrize("name", UNITS)
def test_a_smaller_model_is_as_good_as_was_asked(name, tmp_path):
    found = model(name if "," in name else f"{name}, one target")
    small = found.compress(0.05, ROWS, Y)
    said = small.compression
    assert said.unit == UNITS[name]
    assert said.size < said.size_before
    judges = said.rows
    assert said.score_before == found.score(ROWS[judges], Y[judges])
    assert said.score == small.score(ROWS[judges], Y[judges])
    assert said.loss == said.score_before - said.score
    others = np.setdiff1d(np.arange(len(ROWS)), judges)
    assert len(others) == len(ROWS) // 2
    lost = found.score(ROWS[others], Y[others]) - small.score(ROWS[others], Y[others])
    assert lost <= 0.05 + 1e-12
    assert f"{said.size} of {said.size_before} {said.unit}" in said.summary()
    assert found.compression is None
    small.save(tmp_path / "small.gpukfl")
    again = gpukfl.load(tmp_path / "small.gpukfl")
    assert_as_before(again.predict(ROWS), small.predict(ROWS))
    light = runtime.load(tmp_path / "small.gpukfl")
    np.testing.assert_allclose(light.predict(ROWS), small.predict(ROWS), rtol=0, atol=1e-6)


@pytest.mark.each
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["bkernn", "hkrr", "rkhs_weighting", "regfeal"])
def test_a_model_stays_on_its_place(on_double, method):
    rows, y = on_double.put(ROWS), on_double.put(Y)
    found = gpukfl.fit(rows, y, method=method, progress=False, **SMALL[method])
    small = found.compress(0.05, rows, y)
    predicted = small.predict(rows)
    assert type(predicted) is type(rows)
    assert small.compression.size < small.compression.size_before
    host = small.estimator.to_host().predict(ROWS)
    np.testing.assert_allclose(to_host(predicted), host, rtol=0, atol=1e-8)


@pytest.mark.parametrize("method", SMALL)
def test_the_model_stays_as_it_was(method):
    found = model(f"{method}, one target")
    before = found.predict(ROWS)
    found.compress(0.5, ROWS, Y)
    assert np.array_equal(found.predict(ROWS), before)


def test_nothing_is_lost_where_nothing_may_be():
    found = model("hkrr, one target")
    small = found.compress(0.0, ROWS, Y)
    others = np.setdiff1d(np.arange(len(ROWS)), small.compression.rows)
    assert small.score(ROWS[others], Y[others]) >= found.score(ROWS[others], Y[others])
    assert small.compression.size <= small.compression.size_before


def test_classes_are_compressed(tmp_path):
    found = model("hkrr, three classes")
    labels = found.predict(ROWS)
    small = found.compress(0.1, ROWS, labels)
    assert small.compression.score_before == 1.0
    judges = small.compression.rows
    assert small.compression.score == np.mean((small.predict(ROWS) == labels)[judges])
    assert small.compression.size < small.compression.size_before


def test_members_are_left_out_by_rows_that_their_folds_held_out():
    noisy = Y + np.std(Y) * RNG.standard_normal(len(Y))
    found = gpukfl.fit(X, noisy, members=["laplace", "matern52"], n_folds=2, progress=False)
    small = found.compress(0.2)
    said, kept = small.compression, small.estimator.out_of_fold_
    assert said.unit == "members"
    assert said.size == len(small.estimator.members_) < said.size_before
    assert said.size_before == len(found.estimator.members_)
    assert sum(member.weight for member in small.estimator.members_) == pytest.approx(1.0)
    truth, predicted = kept.truth[said.rows], kept.predicted[said.rows]
    assert said.score == pytest.approx(r2_score(truth, predicted))
    assert small.predict_interval(ROWS).shape == (len(ROWS), 2)


def test_members_are_left_out_by_given_rows():
    found = kernel_blend("three classes")
    small = found.compress(0.3, ROWS, found.predict(ROWS))
    judges = small.compression.rows
    assert small.compression.score == small.score(ROWS[judges], found.predict(ROWS[judges]))
    assert small.predict_set(ROWS).shape == (len(ROWS), 3)


def test_standard_deviations_are_forgotten():
    found = model("hkrr, evidence")
    small = found.compress(0.05, ROWS, Y)
    assert small.compression.size < small.compression.size_before
    with pytest.raises(ValueError, match="for standard deviations"):
        small.estimator.predict(ROWS, return_std=True)


def test_rows_of_frames_with_weights_are_halved():
    frame = pd.DataFrame(ROWS).rename(columns=str).assign(target=Y)
    found = gpukfl.fit(frame, "target", method="hkrr", n_components=1, ridge=1e-3, progress=False)
    weights = np.arange(1.0, len(Y) + 1.0)
    small = found.compress(0.05, frame, "target", weights)
    judges = small.compression.rows
    expected = small.score(frame.iloc[judges, :-1], Y[judges], weights[judges])
    assert small.compression.score == expected


@pytest.mark.few
@pytest.mark.parametrize("n_folds", [1, 2])
@pytest.mark.parametrize("task", ["regression", "classes"])
def test_given_rows_say_how_sure_members_are_that_were_fitted_to_all(task, n_folds):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(400, 3)), columns=list("abc"))
    frame["text"] = rng.choice(["left", "right"], len(frame))
    y = np.abs(frame["a"]) + frame["b"] + 0.3 * rng.normal(size=len(frame))
    if task == "classes":
        y = y.gt(1.0).map({False: "low", True: "high"})
    seen, new, y, truth = frame[:250], frame[250:], y[:250], y[250:].to_numpy()
    options = {"n_folds": n_folds, "refit": True, "progress": False}
    found = gpukfl.fit(seen, y, members=["linear", "laplace", "matern52"], **options)
    small = found.compress(1.0, new, truth)
    assert small.compression.size == len(small.estimator.members_) < small.compression.size_before
    kept = small.estimator.out_of_fold_
    assert kept.rows.shape == new.shape
    if task == "regression":
        np.testing.assert_allclose(kept.predicted[:, 0], small.predict(new), rtol=1e-12)
        np.testing.assert_array_equal(kept.truth[:, 0], truth)
        ends = np.asarray(small.predict_interval(new))
        assert np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])) >= 0.9
    else:
        np.testing.assert_allclose(kept.predicted, small.predict_proba(new), rtol=1e-12)
        sets = np.asarray(small.predict_set(new))
        assert np.mean(sets[np.arange(len(new)), (truth == "low").astype(int)]) >= 0.9


def test_several_targets_of_given_rows_are_known_by_their_names():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    both = pd.DataFrame({"height": frame["a"], "width": 9.0 * frame["b"]})
    both += 0.3 * rng.normal(size=both.shape)
    options = {"n_folds": 1, "refit": True, "progress": False}
    found = gpukfl.fit(frame[:120], both[:120], members=["linear", "laplace"], **options)
    small = found.compress(1.0, frame[120:], both[["width", "height"]][120:])
    np.testing.assert_array_equal(small.estimator.out_of_fold_.truth, both[120:])


# ---------------------------------------------------------------------- bad input


def test_rows_are_asked_for():
    found = model("hkrr, one target")
    with pytest.raises(ValueError, match="got no X and no y"):
        found.compress(0.1)
    with pytest.raises(ValueError, match="got X and no y"):
        found.compress(0.1, ROWS)
    with pytest.raises(ValueError, match="tolerance"):
        found.compress(-0.1, ROWS, Y)
    with pytest.raises(ValueError, match="at least 4 rows to compare scores, got 3"):
        found.compress(0.1, ROWS[:3], Y[:3])


def test_what_has_nothing_to_leave_out_is_refused():
    lasso = gpukfl.fit(X, Y, method="regfeal", n_random_features=30, retrain=Lasso(), ridge=1e-3)
    with pytest.raises(TypeError, match="got RegFeaLRegressor, which has none"):
        lasso.compress(0.1, ROWS, Y)


@pytest.mark.parametrize("n_folds", [1, 2])
def test_a_blend_of_refitted_members_asks_for_rows(n_folds):
    options = {"n_folds": n_folds, "refit": True, "progress": False}
    found = gpukfl.fit(X, Y, members=["laplace", "matern52"], **options)
    with pytest.raises(ValueError, match="pass X and y"):
        found.compress(0.1)
