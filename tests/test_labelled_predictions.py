"""Predictions for frames are series and frames, and scikit-learn's tools take the model still."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict, cross_val_score

import gpukfl

pytestmark = pytest.mark.filterwarnings("ignore")
N = 150
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(N, 2)), columns=["a", "b"]).set_index(np.arange(N)[::-1] + 7)
FRAME["town"] = RNG.choice(["u", "v"], N)
Y = (FRAME["a"] + (FRAME["town"] == "u")).rename("price")
THREE = pd.Series(np.array(["x", "y", "z"])[np.digitize(Y, [0.0, 1.0])], FRAME.index, name="sort")
OPTIONS = {"members": ["linear"], "n_folds": 2, "n_jobs": 1}


@pytest.fixture(scope="module")
def model():
    return gpukfl.fit(FRAME, Y, **OPTIONS)


@pytest.fixture(scope="module")
def classifier():
    return gpukfl.fit(FRAME, THREE, **OPTIONS)


def test_a_regression_keeps_index_and_names(model):
    few = FRAME[5:9]
    found = model.predict(few)
    assert isinstance(found, pd.Series)
    assert found.name == "price"
    assert found.index.equals(few.index)
    ends = model.predict_interval(few, 0.8)
    assert list(ends.columns) == ["lower", "upper"]
    assert ends.index.equals(few.index)
    assert (ends["lower"] < found).all()
    assert list(model.predict_quantiles(few, [0.25, 0.5]).columns) == [0.25, 0.5]
    plain = few.to_numpy(dtype=object)
    for method in ("predict", "predict_interval", "predict_quantiles"):
        array = getattr(model, method)(plain)
        assert isinstance(array, np.ndarray)
        np.testing.assert_array_equal(array, getattr(model, method)(few).to_numpy())
    both = gpukfl.fit(FRAME, pd.DataFrame({"one": Y, "two": -Y}), **OPTIONS)
    assert list(both.predict(few).columns) == ["one", "two"]
    assert both.predict_interval(few)["two"]["upper"].gt(both.predict(few)["two"]).all()


def test_probabilities_are_arrays_until_frames_are_asked_for(classifier):
    assert isinstance(classifier.predict(FRAME), pd.Series)
    assert list(classifier.predict_set(FRAME).columns) == ["x", "y", "z"]
    proba = classifier.predict_proba(FRAME)
    assert isinstance(proba, np.ndarray)
    try:
        framed = classifier.set_output(predict="pandas").predict_proba(FRAME)
        assert list(framed.columns) == ["x", "y", "z"]
        assert framed.index.equals(FRAME.index)
        np.testing.assert_array_equal(framed, proba)
        assert list(classifier.predict_log_proba(FRAME).columns) == ["x", "y", "z"]
        assert isinstance(classifier.set_output(predict="default").predict(FRAME), np.ndarray)
        with pytest.raises(ValueError, match="arrow"):
            classifier.set_output(predict="arrow")
    finally:
        classifier.set_output(predict="auto")


@pytest.mark.slow
def test_reports_take_a_model_whatever_its_output(tmp_path, model, classifier):
    for one, y in ((model, Y), (replace(classifier, output="pandas"), THREE)):
        one.report(tmp_path / "page.html", held_out=(FRAME, y))
        assert (tmp_path / "page.html").stat().st_size > 1000


def test_polars_where_it_is_asked_for(model, classifier):
    polars = pytest.importorskip("polars")
    rows = polars.from_pandas(FRAME[:4])
    assert isinstance(model.predict(rows), np.ndarray)
    model, classifier = (replace(one, output="polars") for one in (model, classifier))
    found = model.predict(rows)
    assert isinstance(found, polars.Series)
    assert found.name == "price"
    np.testing.assert_array_equal(found.to_numpy(), model.estimator.predict(FRAME[:4]))
    assert model.predict_interval(rows).columns == ["lower", "upper"]
    assert classifier.predict_set(rows).columns == ["x", "y", "z"]
    assert classifier.predict(rows).to_list() == classifier.predict(FRAME[:4]).to_list()


@pytest.mark.slow
def test_scorers_and_calibration_of_scikit_learn_take_the_model(classifier):
    two = gpukfl.fit(FRAME, Y > 0.5, **OPTIONS)
    assert cross_val_score(two, FRAME, Y > 0.5, scoring="roc_auc", cv=2).min() > 0.8
    losses = cross_val_score(classifier, FRAME, THREE, scoring="neg_log_loss", cv=2)
    assert losses.min() > -0.7
    areas = cross_val_score(classifier, FRAME, THREE, scoring="roc_auc_ovr", cv=2)
    assert areas.min() > 0.8
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrated = CalibratedClassifierCV(two, cv=2).fit(FRAME, Y > 0.5)
    assert log_loss(Y > 0.5, calibrated.predict_proba(FRAME)) < 0.5
    found = cross_val_predict(classifier, FRAME, THREE, cv=2, method="predict_proba")
    assert found.shape == (N, 3)
    assert cross_val_predict(classifier, FRAME, THREE, cv=2).shape == (N,)
