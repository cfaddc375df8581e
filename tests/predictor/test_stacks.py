"""A blend's models of one sort are evaluated together, and say what each of them says."""

import dataclasses
import functools
import sys
import warnings

import numpy as np
import pytest
from served_models import NEW, TARGETS, X, Y, model, said

import gpukfl
from gpukfl import HKRRRegressor, runtime
from gpukfl._accel.trust import use_numpy_only
from gpukfl.estimators.scaling import RobustScaling, StandardScaling
from gpukfl.kernels import (
    Laplace,
    Linear,
    ManhattanLaplace,
    Matern32,
    Matern52,
    PowerExponential,
)
from gpukfl.partitioned._rows import Rows
from gpukfl.predictor import Forest, Predictor
from gpukfl.predictor._stacks import ForestStack, Powers, SingleModel, Terms, disable_buffering
from gpukfl.predictor._views import Slot, View, Views

MEMBERS = ("linear", "trees", "manhattan_laplace", "laplace", "matern52", "agop", "bkernn")


@functools.cache
def blend(target="one target", transform=None, members=MEMBERS):
    y = np.exp(2.0 * Y) if transform else TARGETS[target][0]
    options = {"target_transform": transform} if target.endswith("target") else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gpukfl.fit(X, y, members=list(members), n_folds=2, progress=False, **options)


def stacks_of(found):
    return found.estimator.predictor_.values._stacks


def light_of(found, folder):
    found.save(folder / "model.gpukfl")
    return runtime.load(folder / "model.gpukfl")


def agree(found, light):
    """The package's stacks, the runtime's, and every model by itself say the same."""
    predicted, probabilities = said(found)
    ask = light.predict if probabilities is None else light.predict_proba
    expected = predicted if probabilities is None else probabilities
    near = {"rtol": 0, "atol": 1e-10 * np.std(expected)}
    of_file = near | {"atol": 1e3 * near["atol"]}  # where knots of BKerNN are in float32
    np.testing.assert_allclose(ask(NEW), expected, **of_file)
    np.testing.assert_allclose(ask(NEW[:1]), expected[:1], **of_file)
    blend = found.estimator.predictor_
    alone = dataclasses.replace(blend.values, is_traced=True)(NEW)
    np.testing.assert_allclose(alone.reshape(expected.shape), expected, **near)
    by_fold = [
        blend.values.select_fold(k).evaluate_in_double(NEW) for k in range(blend.values.n_folds)
    ]
    np.testing.assert_allclose(blend.values.fold_outputs(NEW)[:-1], by_fold, **near)


@pytest.mark.few
@pytest.mark.parametrize("target", TARGETS)
def test_every_sort_of_member_is_as_alone(target, tmp_path):
    agree(blend(target), light_of(blend(target), tmp_path))


@pytest.mark.parametrize("transform", ["log", "rank"])
def test_other_scales_of_the_target(transform, tmp_path):
    found = blend(transform=transform)
    assert found.estimator.target_transform_ is not None
    agree(found, light_of(found, tmp_path))


SUMS = {
    "one metric": (Matern52() + 0.2 * Matern32(0.3), "diagonal"),
    "a map": (Matern52() + 0.2 * Matern32(0.3), "low_rank"),
    "a metric for each term": (Matern52() + 0.2 * Matern32(0.3), "diagonals"),
    "no stack": (Matern52() + 0.2 * Linear(), "diagonals"),
    "a scaling for each term": (Matern52() + 0.2 * Matern32(0.3), "diagonals"),
}


@pytest.mark.parametrize("kind", SUMS)
def test_sums_of_kernels_are_as_alone(kind, tmp_path):
    kernel, structure = SUMS[kind]
    options = {"kernel": kernel, "structure": structure, "random_state": 0}
    if kind == "a scaling for each term":
        options["scaling"] = ("standard", "quantile")
    member = HKRRRegressor(criterion="evidence", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = gpukfl.fit(X, Y, members=[("sum", member), "linear"], n_folds=2, progress=False)
    agree(found, light_of(found, tmp_path))
    terms = [s for s in stacks_of(found) if isinstance(getattr(s, "values", None), Terms)]
    assert len(terms) == (kind != "no stack")


def test_what_is_not_stacked_is_evaluated_alone(tmp_path):
    found = blend(members=("linear", "rkhs_weighting"))
    light = light_of(found, tmp_path)
    assert any(isinstance(stack, SingleModel) for stack in stacks_of(found))
    agree(found, light)


def test_blocks_of_rows_are_one(tmp_path, monkeypatch):
    light = light_of(blend(), tmp_path)
    whole = light.predict(NEW)
    monkeypatch.setattr("gpukfl.predictor._stacks._CACHE_ELEMENTS", 300)
    np.testing.assert_allclose(light.predict(NEW), whole, rtol=0, atol=1e-10)
    monkeypatch.setattr("gpukfl.runtime._predictor._BLOCK_ELEMENTS", 300)
    np.testing.assert_allclose(light.predict(NEW), whole, rtol=0, atol=1e-10)


def test_a_row_takes_few_calls(tmp_path):
    """However many folds: of ten folds hardly more than of two."""
    counts = []
    for n_folds in (2, 10):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = {"members": ["linear", "trees", "manhattan_laplace"], "n_folds": n_folds}
            light = light_of(gpukfl.fit(X, Y, progress=False, **options), tmp_path)
        light.predict(NEW[:1])
        counts.append(0)

        def note(_frame, event, _arg):
            counts[-1] += event in ("call", "c_call")

        sys.setprofile(note)
        light.predict(NEW[:1])
        sys.setprofile(None)
    assert max(counts) < 500
    assert counts[1] <= 1.1 * counts[0]


def test_a_quick_blend_is_stacked(tmp_path):
    found = model("auto, three classes")
    light = light_of(found, tmp_path)
    assert not any(isinstance(stack, SingleModel) for stack in stacks_of(found))
    agree(found, light)


def test_models_of_fewer_centres_take_no_longer_for_those_of_more(tmp_path, monkeypatch):
    members = ["manhattan_laplace", "matern52"]
    options = {"members": members, "n_folds": 2, "refit": "both", "progress": False}
    found = gpukfl.fit(X, Y, **options)
    taken = []
    for stack in stacks_of(found):
        evaluate = type(stack.values).evaluate

        def note(values, U, start, stop, q, evaluate=evaluate):
            taken.append(q)
            return evaluate(values, U, start, stop, q)

        monkeypatch.setattr(type(stack.values), "evaluate", note)
    monkeypatch.setattr("gpukfl.predictor._stacks._MAX_MATRIX", 1)
    found.predict(NEW)
    assert sorted(taken) == sorted(2 * [len(X) // 2, len(X) // 2, len(X)])
    agree(found, light_of(found, tmp_path))


# ---------------------------------------------------------------------- scaled rows


def test_scalings_of_all_classes_are_one_array():
    rows = Rows(X, np.empty(0))
    scalings = [kind.fit(rows, None) for kind in (RobustScaling, StandardScaling, RobustScaling)]
    views, given = Views(X.shape[1], None), [scalings[0], None, *scalings[1:], None]
    places = [views.register_scaling(scaling, Slot(0, "numbers")) for scaling in given]
    assert places == [0, 1, 2, 0, 1]
    assert views.register_scaling(scalings[2], Slot(0, "levels")) == 0  # rows of another view
    found = View(views, X).scale("numbers")
    for place, scaling in zip(places, given, strict=True):
        np.testing.assert_array_equal(found[:, place], X if scaling is None else scaling(X))


@pytest.mark.parametrize(
    "kernel",
    [
        Laplace(),
        ManhattanLaplace(),
        PowerExponential(order=0.5, exponent=0.5),
        PowerExponential(order=1.3),
        PowerExponential(order=1.5),
    ],
    ids=repr,
)
def test_powers_of_differences_are_those_of_the_kernel(kernel, monkeypatch):
    centers, rows = [X[:20], X[20:40], X[40:60]], np.stack([NEW, NEW + 0.1, X[:1] + 0.0 * NEW])
    values, given = Powers.from_centers(centers, [kernel] * 3, X), (0, len(centers), 20)
    whole, part = values.evaluate(rows, *given), values.evaluate(rows[1:], 1, 3, 15)
    np.testing.assert_allclose(whole[1:, :, :15], part)
    expected = [kernel._evaluate(U, Z) for U, Z in zip(rows, centers, strict=True)]
    for near in (2**16, 3 * centers[0].size, 1):
        monkeypatch.setattr("gpukfl.predictor._stacks._CACHE_ELEMENTS", near)
        with use_numpy_only():
            np.testing.assert_allclose(values.evaluate(rows, *given), expected, rtol=1e-13)
    np.testing.assert_allclose(values.evaluate(rows, *given), expected, rtol=1e-13)


def test_buffers_are_as_before():
    sizes = [np.getbufsize()]

    def fail():
        with disable_buffering():
            sizes.append(np.getbufsize())
            return 1 // 0

    with pytest.raises(ZeroDivisionError):
        fail()
    assert np.getbufsize() == sizes[0] > sizes[1]


# ---------------------------------------------------------------------- trees


def trees(right, left):
    """Make a tree that splits at 0, where missing values go left, and at infinity."""
    leaf = [-1, 0, 0, 0, -1]
    return Forest(
        nodes=np.array([[0, 1, 2, 1, -1], leaf, [1, left, right, 0, -1], leaf, leaf], "int32"),
        numbers=np.array([0.0, 1.0, np.inf, 2.0, 4.0]),
        trees=np.array([[0, 0]], "int32"),
        baseline=np.array([0.5]),
        subsets=np.empty((0, 8), "uint32"),
        levels=np.empty(0),
        starts=np.zeros(3, "int32"),
        link="identity",
    )


def test_missing_values_go_where_each_tree_says():
    tree, views = trees(4, 3), Views(2, None)
    tree.check()
    model, place = Predictor(tree, 2, one_target=False), Slot(0, "numbers")
    stack = ForestStack.build([model, model], [place, place], views)
    rows = np.array([[-1.0, 0.0], [np.nan, 0.0], [1.0, 7.0], [1.0, np.nan]])
    found = stack(View(views, rows))
    np.testing.assert_array_equal(found[0, :, 0], [1.5, 1.5, 2.5, 4.5])
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(tree(rows), found[0])


def test_trees_of_other_columns_are_refused():
    model, place = Predictor(trees(4, 3), 2, one_target=False), Slot(0, "numbers")
    with pytest.raises(ValueError, match=r"trees of 3 columns, got \[2\]"):
        ForestStack.build([model], [place], Views(3, None))
