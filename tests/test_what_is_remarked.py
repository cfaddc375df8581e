"""What `gpukfl.fit` remarks on before it fits: the target among the features, labels of several
kinds, and options of others."""

import warnings

import numpy as np
import pandas as pd
import pytest

import gpukfl

polars = pytest.importorskip("polars")
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(40, 3)), columns=["a", "b", "c"])
FRAME["kind"] = np.where(FRAME["a"] > 0, "x", "y")
CODES = np.digitize(FRAME["b"], [-0.5, 0.5])
FLAGS = np.stack([FRAME["a"] > 0, CODES == 1], axis=1)


def _fit(X, y, **options):
    given = {"method": "bkernn", "ridge": "auto", "n_particles": 3, **options}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = gpukfl.fit(X, y, **given)
    return model, [str(one.message) for one in caught]


INSIDE = {
    "text": (FRAME, FRAME["kind"], "kind is the target"),
    "numbers": (FRAME, FRAME["b"].to_numpy(), "b is the target"),
    "another name": (FRAME[["a", "b"]].assign(z=FRAME["c"]), FRAME["c"], "z is the target"),
    "a category": (
        FRAME.assign(k=FRAME["kind"].astype("category")),
        FRAME["kind"],
        "kind, k are the target each",
    ),
    "polars": (polars.from_pandas(FRAME), FRAME["kind"].to_numpy(), "kind is the target"),
}


@pytest.mark.parametrize("name", INSIDE)
def test_the_target_among_the_features_is_said(name):
    X, y, words = INSIDE[name]
    assert words in " ".join(_fit(X, y)[1])


def test_of_the_target_of_many_rows_all_are_compared():
    X = pd.concat([FRAME[["a", "b"]]] * 3, ignore_index=True)
    y = X["a"].copy()
    y.iloc[-1] = 7.0
    assert not any("is the target" in said for said in _fit(X, y)[1])


@pytest.mark.parametrize("y", ["kind", FRAME["b"] + FRAME["a"]], ids=["by name", "another"])
def test_nothing_is_said_where_it_is_not_there(y):
    assert not any("the target" in said for said in _fit(FRAME, y)[1])


# ---------------------------------------------------------------------- labels of several kinds


@pytest.mark.parametrize("y", [FLAGS, FLAGS.astype(int), np.eye(3, dtype=int)[CODES]])
def test_columns_of_labels_that_are_taken_for_numbers_are_said(y):
    model, said = _fit(FRAME[["a", "b"]], y)
    assert model.task == "regression"
    assert "MultiOutputClassifier" in " ".join(said)
    assert _fit(FRAME[["a", "b"]], y, task="regression")[1] == []


@pytest.mark.parametrize("y", [FLAGS, FLAGS.astype(str), np.stack([CODES, CODES], axis=1)])
def test_labels_of_several_kinds_are_no_classification(y):
    with pytest.raises(ValueError, match=r"one target of classes.*MultiOutputClassifier"):
        _fit(FRAME[["a", "b"]], y, task="classification")


# ---------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "auto", "n_estimators": 9}, "got 'n_estimators': they are backend, columns"),
        ({"effort": "quick"}, "got 'effort', an option of method 'auto': they are"),
        ({"method": "hkrr"}, "got 'n_particles', an option of method 'bkernn'"),
        ({"class_weight": "balanced"}, "'class_weight', an option for a classification"),
        ({"standardize": True}, "has no parameter 'standardize' any more"),
    ],
)
def test_options_of_others_are_named(options, words):
    given = {"method": "bkernn", "ridge": "auto", "n_particles": 3, **options}
    if given["method"] == "auto":
        given = {"n_estimators": 9}
    with pytest.raises(TypeError, match=words):
        gpukfl.fit(FRAME[["a", "b"]], FRAME["c"], **given)


def test_a_name_is_no_weight():
    with pytest.raises(TypeError, match="expected weights of the rows as sample_weight"):
        _fit(FRAME[["a", "b"]], FRAME["c"], sample_weight="a")
