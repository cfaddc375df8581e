"""Tables of trees: the predictions of scikit-learn, and no table that reads anywhere else."""

import dataclasses
import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from gpukfl._accel.trust import use_numpy_only
from gpukfl.predictor import Forest, array_model

LOSSES = ("squared_error", "absolute_error", "quantile", "poisson", "gamma", "log_loss")


def drawn_rows(rng, n, n_levels):
    """Rows of two numbers and two categories, with missing values."""
    numbers = rng.standard_normal((n, 2)).round(1)
    levels = rng.permutation(300)[:n_levels] * 1.5 - 40.0
    codes = np.stack([rng.choice(levels, n), rng.integers(0, 3, n)], axis=1)
    X = np.concatenate([codes[:, :1], numbers, codes[:, 1:]], axis=1)
    return np.where(rng.random(X.shape) < 0.1, np.nan, X)


def fitted(rng, loss, categories, X):
    """Boosted trees of rows, with or without categories of their own."""
    y = np.nan_to_num(X[:, 1]) + np.sin(5.0 * np.nan_to_num(X[:, 0])) + 2.0
    options = {"max_iter": 10, "min_samples_leaf": 2, "categorical_features": categories}
    if loss == "log_loss":
        classes = np.digitize(y, [1.7, 2.4][: rng.integers(1, 3)])
        return HistGradientBoostingClassifier(**options).fit(X, classes)
    if loss == "quantile":
        options["quantile"] = 0.3
    return HistGradientBoostingRegressor(loss=loss, **options).fit(X, np.abs(y) + 0.1)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    loss=st.sampled_from(LOSSES),
    categories=st.sampled_from([None, [0], [0, 3], [3]]),
    n_levels=st.sampled_from([1, 2, 40, 255]),
)
def test_predictions_are_those_of_scikit_learn(seed, loss, categories, n_levels):
    rng = np.random.default_rng(seed)
    X = drawn_rows(rng, 300, n_levels)
    model = fitted(rng, loss, categories, X)
    forest = array_model(model).values
    forest.check()
    rows = np.concatenate([X[:40], drawn_rows(rng, 40, 255)])
    rows[:4, 1] = [np.inf, -np.inf, 1e300, np.nan]
    rows[4:6, 0] = [1e300, -1e300]
    expected = getattr(model, "predict_proba", model.predict)(rows).reshape(len(rows), -1)
    np.testing.assert_allclose(forest(rows), expected, rtol=1e-15, atol=1e-15)
    for few in (rows, rows[:1]):
        with use_numpy_only():
            alone = forest(few)
        np.testing.assert_allclose(alone, expected[: len(few)], rtol=1e-13, atol=1e-14)


def test_joined_forests_predict_side_by_side():
    rng = np.random.default_rng(0)
    X = drawn_rows(rng, 200, 20)
    one, other = (array_model(fitted(rng, "gamma", None, X[k:])).values for k in (0, 50))
    both = Forest.concat([one, other], [0, 4], 8)
    both.check()
    rows = np.concatenate([X, X[::-1]], axis=1)
    np.testing.assert_array_equal(both(rows), np.concatenate([one(X), other(X[::-1])], axis=1))


def test_rows_of_other_columns_are_refused():
    rng = np.random.default_rng(0)
    X = drawn_rows(rng, 100, 5)
    forest = array_model(fitted(rng, "squared_error", None, X)).values
    with pytest.raises(ValueError, match="rows of 4 columns, got 3"):
        forest(X[:, :3])


# ---------------------------------------------------------------------- tables that are none


@functools.cache
def forest_of_categories():
    rng = np.random.default_rng(1)
    return array_model(fitted(rng, "squared_error", [0], drawn_rows(rng, 400, 12))).values


def tables_of_categories():
    forest = forest_of_categories()
    return {f.name: np.copy(getattr(forest, f.name)) for f in dataclasses.fields(forest)}


def inner(tables):
    return int(np.flatnonzero(tables["nodes"][:, 0] != -1)[1])


def leaf(tables):
    return int(np.flatnonzero(tables["nodes"][:, 0] == -1)[1])


def by_levels(tables):
    return int(np.flatnonzero(tables["nodes"][:, 4] != -1)[0])


def by_numbers(tables):
    nodes = tables["nodes"]
    return int(np.flatnonzero((nodes[:, 4] == -1) & (nodes[:, 0] > 0))[0])


def node(where, column, value):
    return lambda tables: tables["nodes"].__setitem__((where(tables), column), value)


def put(name, place, value):
    return lambda tables: tables[name].__setitem__(place, value)


def change(name, how):
    return lambda tables: tables.update({name: how(tables[name])})


def number(where, value):
    return lambda tables: tables["numbers"].__setitem__(where(tables), value)


def chain(tables):
    """A tree as deep as it has splits."""
    n = 1_200
    nodes = np.zeros((2 * n + 1, 5), "int32")
    nodes[:, 4] = nodes[1::2, 0] = nodes[-1, 0] = -1
    nodes[:-1:2, 1], nodes[:-1:2, 2] = np.arange(1, 2 * n, 2), np.arange(2, 2 * n + 1, 2)
    tables.update(nodes=nodes, numbers=np.zeros(len(nodes)), trees=np.zeros((1, 2), "int32"))


WRONG = {
    "a child beyond the table": (node(inner, 1, 10**6), "children in the tree"),
    "a child before its parent": (node(inner, 2, 0), "children after their parents"),
    "a child of its own": (lambda t: node(inner, 1, inner(t))(t), "children after"),
    "a child below 0": (node(inner, 1, -3), "children after"),
    "a child of two": (lambda t: node(inner, 1, t["nodes"][inner(t), 2])(t), "one parent"),
    "a child in another tree": (
        lambda t: node(inner, 1, int(t["trees"][1, 0]) + 1)(t),
        "children in the tree",
    ),
    "a leaf with children": (node(leaf, 1, 5), "leaves without children"),
    "no such feature": (node(inner, 0, 4), "features within the columns"),
    "a feature of a billion": (node(inner, 0, 10**9), "features within the columns"),
    "a feature below 0": (node(inner, 0, -5), "features within the columns"),
    "a third side": (node(inner, 3, 2), "a side for missing values"),
    "no such subset": (node(by_levels, 4, 10**6), "subsets of categories"),
    "a subset below -1": (node(by_levels, 4, -2), "subsets of categories"),
    "a subset of numbers": (node(by_numbers, 4, 0), "subsets of categories"),
    "a threshold that is none": (number(by_numbers, np.nan), "thresholds"),
    "a threshold of a subset": (number(by_levels, 1.0), "thresholds"),
    "a leaf without a value": (number(leaf, np.inf), "finite leaves"),
    "a root below 0": (put("trees", (0, 0), -1), "roots in order"),
    "a root beyond the table": (put("trees", (-1, 0), 2**31 - 1), "roots in order"),
    "roots that overflow": (put("trees", (slice(1, 3), 0), [2**31 - 1, -2]), "roots in order"),
    "an output below 0": (put("trees", (3, 1), -1), "outputs"),
    "an output beyond": (put("trees", (3, 1), 1), "outputs"),
    "an output without trees": (lambda t: t.update(baseline=np.zeros(2)), "a tree for each"),
    "no outputs": (change("baseline", lambda x: x[:0]), "outputs"),
    "no trees": (change("trees", lambda x: x[:0]), "a tree for each output"),
    "no nodes": (change("nodes", lambda x: x[:0]), "nodes of int32"),
    "nodes of four columns": (change("nodes", lambda x: x[:, :4]), "nodes of int32"),
    "nodes of int64": (change("nodes", lambda x: x.astype("int64")), "nodes of int32"),
    "nodes without an end": (lambda t: t.update(nodes=t["nodes"][:-1]), "nodes of int32"),
    "a baseline that is none": (put("baseline", 0, np.nan), "finite baselines"),
    "levels that fall": (change("levels", lambda x: x[::-1]), "ascending levels"),
    "a level that is none": (put("levels", 1, np.nan), "ascending levels"),
    "levels before the first": (put("starts", 0, -4), "levels of each feature"),
    "levels beyond the last": (put("starts", -1, 10**6), "levels of each feature"),
    "levels below none": (put("starts", 2, 10**4), "levels of each feature"),
    "no columns": (change("starts", lambda x: x[:1]), "columns"),
    "subsets of one word": (change("subsets", lambda x: x[:, :1]), "subsets of uint32"),
    "numbers of two columns": (change("numbers", lambda x: x[:, None]), "numbers of float64"),
    "another link": (lambda t: t.update(link="exec"), "a link of identity"),
    "a chain": (chain, "at most 512 steps"),
}


@pytest.mark.parametrize("name", WRONG)
def test_tables_that_are_no_trees_are_refused(name):
    tables = tables_of_categories()
    change_it, words = WRONG[name]
    Forest(**tables).check()
    change_it(tables)
    with pytest.raises(ValueError, match=f"expected trees (with|of) .*{words.removeprefix('at')}"):
        Forest(**tables).check()


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_table_that_is_taken_predicts(data):
    """Whatever numbers are put into it; by both ways to walk, to the same end."""
    tables = tables_of_categories()
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from([n for n in tables if tables[n].ndim]))
        array = tables[name].reshape(-1)
        place = data.draw(st.integers(0, len(array) - 1))
        limits = np.iinfo(array.dtype) if array.dtype.kind in "iu" else None
        near = [array[place] + np.array(k).astype(array.dtype) for k in (1, -1)]
        ends = [np.nan, 1e300] if limits is None else [limits.min, limits.max, 7]
        array[place] = data.draw(st.sampled_from([*near, *ends]))
    forest = Forest(**tables)
    rows = drawn_rows(np.random.default_rng(0), 50, 60)
    try:
        forest.check()
    except ValueError as error:
        assert str(error).startswith("expected trees")  # noqa: PT017
        return
    with use_numpy_only():
        expected = forest(rows)
    np.testing.assert_allclose(forest(rows), expected, rtol=1e-12)
