"""What `gpukfl.fit` remarks on before it fits: the target among the features, labels of several
kinds, and options of others."""

import inspect
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpukfl
from gpukfl import AutoRegressor, KernelRidgeRegressor
from gpukfl.tables._target_checks import warn_target_leakage

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
    "text": (FRAME, FRAME["kind"], "kind of X equals the target"),
    "numbers": (FRAME, FRAME["b"].to_numpy(), "b of X equals the target"),
    "another name": (
        FRAME[["a", "b"]].assign(z=FRAME["c"]),
        FRAME["c"],
        "z of X equals the target",
    ),
    "a category": (
        FRAME.assign(k=FRAME["kind"].astype("category")),
        FRAME["kind"],
        "kind, k of X equal the target",
    ),
    "polars": (polars.from_pandas(FRAME), FRAME["kind"].to_numpy(), "kind of X equals the target"),
}


@pytest.mark.parametrize("name", INSIDE)
def test_the_target_among_the_features_is_said(name):
    X, y, words = INSIDE[name]
    assert words in " ".join(_fit(X, y)[1])


def test_of_the_target_of_many_rows_all_are_compared():
    X = pd.concat([FRAME[["a", "b"]]] * 3, ignore_index=True)
    y = X["a"].copy()
    y.iloc[-1] = 7.0
    assert not any("of X equal" in said for said in _fit(X, y)[1])


@pytest.mark.parametrize("y", ["kind", FRAME["b"] + FRAME["a"]], ids=["by name", "another"])
def test_nothing_is_said_where_it_is_not_there(y):
    assert not any("the target" in said for said in _fit(FRAME.drop(columns="a"), y)[1])


# ---------------------------------------------------------------------- what is made of the target

MONOTONE = {
    "logarithm": np.log,
    "reverse": lambda y: -(y**3),
    "rounded": lambda y: np.round(np.log(y), 2),
    "text": lambda y: np.round(y, 3).astype(str),
    "gaps": lambda y: np.where(np.arange(len(y)) % 3, y, np.nan),
}


@pytest.mark.parametrize("make", MONOTONE.values(), ids=MONOTONE)
@pytest.mark.parametrize("library", [pd.DataFrame, polars.from_pandas], ids=["pandas", "polars"])
def test_a_monotone_function_of_the_target_is_warned_of(library, make):
    y = np.exp(FRAME["c"].to_numpy())
    X = library(FRAME[["a", "b"]].assign(logwage=make(y)))
    (said,) = (said for said in _fit(X, y)[1] if "may give the target away" in said)
    assert "logwage may" in said
    assert "X.drop(columns=['logwage'])" in said


def _leaks(X, y, *, classes):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_target_leakage(X, y, classes=classes)
    return [str(one.message) for one in caught]


@given(
    n=st.integers(20, 3000),
    power=st.sampled_from([-1.0, 1.0, 3.0]),
    digits=st.integers(2, 12),
    seed=st.integers(0, 99),
)
@settings(max_examples=25)
def test_leakage_of_numbers_is_exactly_that_of_monotone_columns(n, power, digits, seed):
    rng = np.random.default_rng(seed)
    y = np.exp(rng.normal(size=n))
    X = pd.DataFrame({"a": y * np.exp(0.1 * rng.normal(size=n)), "b": np.round(y**power, digits)})
    assert ["b may" in said for said in _leaks(X, y, classes=False)] == [True]
    X.loc[X["b"].idxmax(), "b"] = X["b"].min() - 1.0  # one row of all
    assert _leaks(X, y, classes=False) == []


@given(
    n=st.integers(40, 3000),
    k=st.integers(2, 5),
    form=st.sampled_from(["words", "codes", "ranges", "categories"]),
    seed=st.integers(0, 99),
)
@settings(max_examples=25)
def test_leakage_of_classes_is_that_of_columns_with_one_class_a_level(n, k, form, seed):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % k
    y, level = np.array(list("pqrst"))[codes], codes + k * rng.integers(0, 3, n)
    made = {"words": level.astype(str), "codes": level, "ranges": codes + rng.uniform(0, 0.9, n)}
    column = pd.Series(made["words"], dtype="category") if form == "categories" else made[form]
    X = pd.DataFrame({"a": codes + rng.normal(size=n), "b": column})
    assert ["b may" in said for said in _leaks(X, y, classes=True)] == [True]
    y[0] = "q"  # the level of row 0 has two classes
    y[np.flatnonzero(level == level[0])[1:]] = "p"
    X.loc[n] = X.loc[0]
    assert _leaks(X, np.append(y, "p"), classes=True) == []


def test_leakage_is_seen_where_a_class_is_rare_and_not_in_names_of_rows():
    y = np.where(np.arange(4000) % 400 == 7, "fraud", "fine")
    X = pd.DataFrame({"row": np.arange(4000).astype(str), "a": RNG.normal(size=4000)})
    assert _leaks(X, y, classes=True) == []
    assert len(_leaks(X.assign(refund=np.where(y == "fraud", 12.5, np.nan)), y, classes=True)) == 0
    assert len(_leaks(X.assign(case=np.where(y == "fraud", "open", "none")), y, classes=True)) == 1


def test_coarse_functions_of_a_column_are_no_leakage_of_numbers():
    y = RNG.normal(size=300)
    X = pd.DataFrame({"finer": y, "coarser": np.digitize(y, [-1, 0, 1]), "a": RNG.normal(size=300)})
    assert _leaks(X[["finer", "a"]], np.digitize(y, [0.0]), classes=False) == []
    assert _leaks(X[["coarser", "a"]], y, classes=False) == []


def test_a_few_rows_are_no_evidence_of_leakage():
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "b": [0.0, 1.0] * 3})
    assert _leaks(X, np.arange(6.0), classes=False) == []
    assert _leaks(X, np.array(["p", "q"] * 3), classes=True) == []


# ---------------------------------------------------------------------- order of rows


@given(order=st.permutations(range(40)), labels=st.sampled_from(["numbers", "words", "repeated"]))
@settings(max_examples=20)
def test_other_orders_of_labels_are_warned_of(order, labels):
    names = {"numbers": list(range(40)), "words": [f"r{k}" for k in range(40)]}
    index = pd.Index(names.get(labels, [k // 2 for k in range(40)]))
    X = FRAME[["a", "b"]].set_axis(index, axis=0)
    y, w = (pd.Series(FRAME["c"].abs().to_numpy(), index=index).iloc[order] for _ in range(2))
    moved = not y.index.equals(index)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        KernelRidgeRegressor(ridge=0.1).fit(X, y, sample_weight=w)
    said = [str(one.message) for one in caught]
    for name in ("y", "sample_weight"):
        assert [f"{name}.loc[X.index]" in one for one in said].count(True) == moved
    assert [one for one in said if "index labels" not in one] == []


def test_orders_are_warned_of_by_every_door():
    X, y = FRAME[["a", "b"]], FRAME["c"].iloc[::-1]
    model, said = _fit(X, y, sample_weight=FRAME["c"].abs().iloc[::-1])
    assert sum("index labels of X in another order" in one for one in said) == 2
    for call in (model.fit, model.score, AutoRegressor(["linear"], n_folds=2).fit):
        with pytest.warns(UserWarning, match="y has the index labels of X in another order"):
            call(X, y)


def test_orders_in_partitions_are_warned_of():
    dd = pytest.importorskip("dask.dataframe")
    lazy = dd.from_pandas(FRAME, npartitions=2)
    y = lazy["c"].map_partitions(lambda part: part.iloc[::-1], meta=("c", float))
    with pytest.warns(UserWarning, match="y has the index labels of X in another order"):
        KernelRidgeRegressor(ridge=0.1).fit(lazy[["a", "b"]], y)


DATES = pd.date_range("2024-01-01", periods=50)


@pytest.mark.parametrize(
    ("of_x", "of_y", "shared"),
    [
        (range(40), range(5, 45), 35),
        (range(10, 50), range(40), 30),
        (range(1, 80, 2), range(0, 120, 3), 13),
        (DATES[:40], DATES[10:], 30),
        (list("abcdefghij" * 4), list("bcdefghijk" * 4), 36),
    ],
)
def test_indexes_that_overlap_are_warned_of(of_x, of_y, shared):
    X, y = FRAME[["a", "b"]].set_axis(of_x), FRAME["c"].set_axis(of_y)
    said = _fit(X, y, sample_weight=y.abs())[1]
    for name in ("y", "sample_weight"):
        words = f"{name} has only {shared} of the 40 index labels of X"
        assert sum(one.startswith(words) for one in said) == 1


@pytest.mark.parametrize(
    ("of_x", "of_y"),
    [
        (range(40), range(100, 140)),  # none is shared
        (range(40), range(1, 41)),  # as two programs count
        (range(40), np.random.default_rng(0).permutation(200)[:40]),  # after a split and a scaler
        (np.random.default_rng(0).permutation(200)[:40], range(40)),
        (range(40), DATES[:40]),
    ],
)
def test_labels_that_count_rows_say_nothing(of_x, of_y):
    X, y = FRAME[["a", "b"]].set_axis(of_x), FRAME["c"].set_axis(of_y)
    assert _fit(X, y, sample_weight=y.abs())[1] == []


@pytest.mark.parametrize("y", [FRAME["c"], FRAME["c"].set_axis(range(1, 41)), FRAME[["c"]]])
def test_the_same_order_and_other_labels_are_silent(y):
    assert _fit(FRAME[["a", "b"]], y)[1] == []


# ---------------------------------------------------------------------- labels of several kinds


@pytest.mark.parametrize("y", [FLAGS, FLAGS.astype(int), np.eye(3, dtype=int)[CODES]])
def test_columns_of_labels_that_are_taken_for_numbers_are_said(y):
    model, said = _fit(FRAME[["a", "b"]], y)
    assert model.task == "regression"
    assert "several labels" in " ".join(said)
    assert _fit(FRAME[["a", "b"]], y, task="regression")[1] == []


@pytest.mark.parametrize("y", [FLAGS.astype(str), np.stack([CODES, CODES], axis=1)])
def test_labels_of_several_kinds_are_no_classification(y):
    with pytest.raises(ValueError, match=r"one column of classes.*several labels"):
        _fit(FRAME[["a", "b"]], y, task="classification")


# ---------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"method": "auto", "n_estimators": 9},
            "no option 'n_estimators' for a regression. Its options are backend",
        ),
        ({"effort": "quick"}, "no option 'effort' .*: it is an option of method 'auto'. Its"),
        ({"method": "hkrr"}, "'n_particles' .*: it is an option of method 'bkernn'"),
        ({"class_weight": "balanced"}, "'class_weight' .*: it is an option for a classification"),
        ({"n_particle": 3}, "no option 'n_particle' .* Did you mean 'n_particles'?"),
        ({"standardize": True}, "no longer has a parameter 'standardize'"),
    ],
)
def test_options_of_others_are_named(options, words):
    given = {"method": "bkernn", "ridge": "auto", "n_particles": 3, **options}
    if given["method"] == "auto":
        given = {"n_estimators": 9}
    with pytest.raises(TypeError, match=words):
        gpukfl.fit(FRAME[["a", "b"]], FRAME["c"], **given)


def test_a_name_is_no_weight():
    with pytest.raises(TypeError, match="expected sample_weight to be an array of weights"):
        _fit(FRAME[["a", "b"]], FRAME["c"], sample_weight="a")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gpukfl.fit(FRAME, "c", effrt="quick"), r"'effrt' .* Did you mean 'effort'\?"),
        (lambda: gpukfl.fit(FRAME, "c", group="a"), r"'group' .* Did you mean 'groups'\?"),
        (lambda: gpukfl.fit(FRAME, "c", groups="Aa"), r"X has no column 'Aa' for groups"),
        (lambda: gpukfl.fit(FRAME, "c", effort="qick"), r"got 'qick'. Did you mean 'quick'\?"),
        (lambda: gpukfl.fit(FRAME, "c", method="bkern"), r"Did you mean 'bkernn'\?"),
        (lambda: gpukfl.fit(FRAME.rename(columns={"c": "Cost"}), "cost"), r"mean 'Cost'\?"),
        (lambda: gpukfl.datasets.load_table("diabets"), r"'diabets' was not found. Did you mean"),
    ],
)
def test_the_closest_name_is_suggested(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()


@pytest.mark.parametrize("name", ["effort", "members", "n_folds", "refit", "target_transform"])
def test_options_of_blends_are_parameters_with_their_defaults(name):
    own = inspect.signature(gpukfl.fit).parameters[name].default
    assert own == inspect.signature(gpukfl.AutoRegressor).parameters[name].default
