"""A fit gives its warnings, and keeps them: in the model, in its file, and in what it says."""

import json
import warnings

import numpy as np
import pytest

import gpukfl
from gpukfl.core._warnings import collect_warnings, keep_warnings, record_warning, warn
from gpukfl.deployment import _model_files as _persistence
from gpukfl.inspection._report import render_page

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (60, 2))
Y = X[:, 0] ** 2
GAPS = np.where(np.arange(60) == 3, np.nan, Y)
OPTIONS = {"method": "hkrr", "n_components": 1, "n_centers": 100, "ridge": 1e-3, "progress": False}
LEFT_OUT = "y is missing in 1 of 60 rows, which are dropped"
CENTERS = "n_centers=100 is more than the 59 rows: all rows are used as centres"


class Fitted:
    warnings_ = None


@keep_warnings
def fit(*messages):
    for message in messages:
        warn(message)
    return Fitted()


@pytest.fixture(scope="module")
def model():
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        found = gpukfl.fit(X, GAPS, **OPTIONS)
    assert [str(one.message) for one in given] == [LEFT_OUT, CENTERS]
    return found


def test_warnings_of_a_fit_are_given_and_kept(model):
    assert model.warnings_ == [LEFT_OUT, CENTERS]
    assert model.estimator.warnings_ == [CENTERS]


def test_a_fit_without_warnings_keeps_none():
    found = gpukfl.fit(X, Y, **OPTIONS | {"n_centers": 30})
    assert found.warnings_ == [] == found.estimator.warnings_
    assert "warnings" not in found.summary()


def test_another_fit_forgets_those_of_the_first(model):
    found = gpukfl.Model.from_estimator(model.estimator)
    assert found.warnings_ == [CENTERS]
    with pytest.warns(UserWarning, match="n_centers"):
        found.fit(X[:50], Y[:50])
    assert found.warnings_ == [CENTERS.replace("59", "50")]


def test_warnings_are_in_the_file(model, tmp_path):
    model.save(tmp_path / "model.gpukfl")
    found = gpukfl.load(tmp_path / "model.gpukfl")
    assert found.warnings_ == model.warnings_
    assert found.estimator.warnings_ == model.estimator.warnings_


def test_files_without_them_are_read(model, tmp_path):
    header, arrays = _persistence.make_header(model.estimator, model._metadata())
    del header["model"]["warnings_"], header["record"]["warnings_"]
    with (tmp_path / "older.gpukfl").open("w+b") as file:
        _persistence.write_archive(file, json.dumps(header).encode(), arrays)
    found = gpukfl.load(tmp_path / "older.gpukfl")
    assert list(found.warnings_) == [] == list(found.estimator.warnings_)
    np.testing.assert_array_equal(found.predict(X), model.predict(X))


def test_they_are_said_in_words(model):
    assert set(model.describe().warnings) == {f"{LEFT_OUT}.", f"{CENTERS}."}
    summary = model.summary()
    assert "warnings    n_centers=100 is more than" in summary
    assert "(1 more warning)" in summary
    page = render_page(model.describe(), {}, None)
    assert page.count(f"{LEFT_OUT}.") == page.count(f"{CENTERS}.") == 1
    assert model._repr_html_().count(f"{CENTERS}.") == 1


def test_a_warning_that_is_an_error_leaves_the_model_as_it_was(model):
    found = gpukfl.Model.from_estimator(model.estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="n_centers"):
            found.fit(X[:50], Y[:50])
    assert found.warnings_ == [CENTERS]


@pytest.mark.filterwarnings("ignore")
def test_the_same_is_kept_once_in_order_and_of_many_the_first():
    assert fit("b", "a", "b").warnings_ == ["b", "a"]
    many = fit(*map(str, range(30))).warnings_
    assert many == [*map(str, range(20)), "10 more warnings"]
    (cut,) = fit("x" * 600).warnings_
    assert len(cut) == 500
    assert cut.endswith("…")


def test_a_part_of_a_fit_keeps_its_own_and_those_outside_hear_only_what_they_shall():
    @keep_warnings
    def whole():
        with collect_warnings() as parts:
            inner = fit("of a part")
        assert parts == inner.warnings_ == ["of a part"]
        record_warning("of the whole")
        return Fitted()

    assert whole().warnings_ == ["of the whole"]


def test_a_blend_keeps_what_its_members_warned_of():
    A = np.column_stack([X[:, 0], 1e6 * X[:, 1]])
    member = gpukfl.HKRRRegressor(1, n_centers=100, ridge=1e-3)
    given = gpukfl.AutoRegressor(members=[("small", member)], n_folds=2, random_state=0)
    found = given.fit(A, Y)
    said = "n_centers=100 is more than the 30 rows: all rows are used as centres"
    assert f"the blend's member small: {said}" in found.warnings_
    assert all(text.startswith("the blend's member small: ") for text in found.warnings_)
