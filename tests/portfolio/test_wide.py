"""Tables of more features than rows: nothing that is kept grows with the square of the features."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from gpukfl import AutoRegressor
from gpukfl.estimators import (
    BKerNNRegressor,
    HKRRRegressor,
    RKHSWeightingClassifier,
    RKHSWeightingRegressor,
)
from gpukfl.estimators._pace import Pace, Size, fit_work
from gpukfl.portfolio import _importances
from gpukfl.portfolio._budget import Budget
from gpukfl.portfolio._importances import group_columns
from gpukfl.portfolio._members import Task, _trees, make_members

N, D = 40, 600
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D))
Y = 2.0 * X[:, 3] + 0.1 * RNG.standard_normal(N)

ESTIMATORS = {
    "agop": HKRRRegressor(optimizer="agop", random_state=0),
    "evidence": HKRRRegressor(criterion="evidence", kernel="matern32", random_state=0),
    "two components": HKRRRegressor(2, criterion="evidence", random_state=0),
    "hold out": HKRRRegressor(random_state=0),
    "bkernn": BKerNNRegressor(random_state=0),
    "weighting": RKHSWeightingRegressor(random_state=0),
    "classes": RKHSWeightingClassifier(random_state=0),
}


@pytest.mark.few
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_models_are_small(name):
    model = ESTIMATORS[name].fit(X, Y > 0 if name == "classes" else Y)
    assert len(pickle.dumps(model)) < 8 * D**2 / 2
    assert model.feature_matrix_.shape == (D, D)
    assert model.components_.shape == (model.n_effective_features_, D)
    # Coordinates along the directions vary as the matrix says
    along = model.components_ @ model.feature_matrix_
    lengths = np.sum(along * model.components_, axis=1)
    assert np.all(lengths > 0)


@pytest.mark.parametrize("options", [{"optimizer": "agop"}, {"criterion": "evidence"}], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_diagonal_map_is_its_factors(options, dtype):
    model = HKRRRegressor(kernel="matern32", random_state=0, **options)
    model.fit(X[:, :8].astype(dtype), Y.astype(dtype))
    assert model.map_.shape == (8,)
    assert model.map_.dtype == dtype
    np.testing.assert_array_equal(model.B_, np.diag(model.map_))
    np.testing.assert_array_equal(model.feature_matrix_, np.diag(model.map_**2))
    # It predicts as one whose map is that matrix
    twin = pickle.loads(pickle.dumps(model))
    twin.map_ = model.B_
    rows = X[:5, :8].astype(dtype)
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(model.predict(rows), twin.predict(rows), rtol=tolerance)


# ---------------------------------------------------------------------- importances


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 12), d=st.integers(1, 9))
@settings(derandomize=True, max_examples=60, deadline=None)
def test_groups_are_those_of_single_linkage(seed, n, d):
    rng = np.random.default_rng(seed)
    parts = rng.standard_normal((n, 2)) @ rng.standard_normal((2, d))
    rows = parts + 0.3 * rng.standard_normal((n, d))
    if d == 1:
        assert group_columns(rows) == [[0]]
        return
    gaps = 1.0 - np.abs(np.corrcoef(rows, rowvar=False))
    np.fill_diagonal(gaps, 0.0)
    tree = linkage(squareform(gaps, checks=False), "single")
    labels = fcluster(tree, 0.1, "distance")
    expected = sorted(np.flatnonzero(labels == label).tolist() for label in set(labels))
    assert group_columns(rows) == expected


@pytest.mark.parametrize("d", [100, 3_000])
def test_only_few_columns_are_joined_when_time_is_over(rng, d):
    half = rng.standard_normal((40, d // 2))
    found = group_columns(np.concatenate([half, half], axis=1), is_over=lambda: True)
    assert len(found) == (d // 2 if d == 100 else d)


@pytest.mark.parametrize("scale", [1e300, 1e-300, 1.0])
def test_columns_that_do_not_vary_belong_to_nothing(scale):
    rows = np.stack([np.full(9, 0.1), np.full(9, 0.3), np.arange(9.0), np.arange(9.0) ** 2], axis=1)
    assert group_columns(scale * rows) == [[0], [1], [2, 3]]


def test_of_too_many_columns_the_strongest_are_shuffled(monkeypatch):
    monkeypatch.setattr(_importances, "_MAX_ENTRIES", 20 * 5 * D)  # twenty, of five rows each
    model = AutoRegressor(["agop"], random_state=0).fit(X, Y)
    importances = model.feature_importances_
    assert 1 <= np.count_nonzero(importances) <= 20
    assert np.argmax(importances) == 3
    assert importances.sum() == pytest.approx(1.0)
    assert sorted(k for group in model.feature_groups_ for k in group) == list(range(D))


def test_shuffles_do_not_depend_on_how_many_are_predicted_at_once(monkeypatch):
    fits = []
    for elements in (2**22, 1):
        monkeypatch.setattr(_importances, "_BLOCK_ENTRIES", elements)
        fits.append(AutoRegressor(["linear"], random_state=0).fit(X[:, :6], Y))
    one, other = (fit.feature_importances_ for fit in fits)
    np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.usefixtures("all_steps")
def test_trees_of_many_features_take_fewer_steps():
    few, many, most = (_trees(Task(False, N, d, 1, N, "numpy", 0)) for d in (100, 8_000, 10**6))
    assert (few.max_iter, few.learning_rate) == (100, 0.1)
    assert (many.max_iter, many.learning_rate) == (50, 0.2)
    assert (most.max_iter, most.learning_rate) == (20, 0.3)


# ---------------------------------------------------------------------- feature selection


@given(n=st.integers(20, 3_000), d=st.integers(1, 5_000), classes=st.booleans())
@settings(derandomize=True, max_examples=40, deadline=None)
def test_selection_is_tried_where_columns_are_more_than_rows(n, d, classes):
    task = Task(classes, n, d, 1, n, "numpy", 0)
    for effort in ("quick", "normal"):
        free, limited = (
            [member.name for member in make_members(None, effort, task, limited=limited)]
            for limited in (False, True)
        )
        wide = d > n and d > 300
        assert ("selection" in free) == wide
        assert sorted(free) == sorted(limited)
        assert (limited[:2] == ["linear", "selection"]) == wide
    assert "selection" in [member.name for member in make_members(None, "thorough", task)]


def slow_members(monkeypatch, each):
    """Let the least that members of ours take be so many seconds, which nothing measures."""

    def paced(budget, member, clock):
        least = each if member.keeps_time else 0.0
        inside = budget.fitter.folds[0].inside
        full = Size(*inside.X.shape)
        return Pace(full, fit_work, full, least, 0.0)

    monkeypatch.setattr(Budget, "_measure_pace", paced)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::UserWarning")
@pytest.mark.parametrize(("each", "begun"), [(100.0, True), (1000.0, False)])
def test_the_first_member_of_ours_may_take_all_that_is_left(monkeypatch, each, begun):
    slow_members(monkeypatch, each)  # a quarter of 900 s is no time for two folds of 100 s each
    names = ["linear", "selection", "agop", "hkrr", "bkernn"]
    model = AutoRegressor(names, max_time=900.0, n_folds=2, random_state=0).fit(X[:, :6], Y)
    notes = {trial["member"]: trial["note"] for trial in model.tuning_}
    assert (notes["selection"] == "") == begun
    late = "skipped: would exceed max_time"
    assert begun or (notes["selection"], notes["bkernn"]) == (late, late)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::UserWarning")
def test_a_summary_names_what_there_was_no_time_to_try(monkeypatch):
    slow_members(monkeypatch, 1000.0)
    noise = np.random.default_rng(5).standard_normal(N)
    model = AutoRegressor(["linear", "agop"], max_time=900.0, n_folds=2, random_state=0)
    words = " ".join(model.fit(X[:, :6], noise).summary().split())
    assert "nothing was found that predicts in this time" in words
    assert "(agop); importances mean nothing" in words.partition("max_time was too short to try")[2]
