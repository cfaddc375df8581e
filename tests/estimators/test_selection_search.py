"""Kernel feature selectors: what they choose, stability, and how they stop."""

import itertools
import math
import warnings

import numpy as np
import pytest
from near_copies import near_copies
from selection_cases import (
    NEW,
    THREE,
    TRUE,
    Y_NEW,
    N,
    P,
    X,
    Y,
    classifier,
    formula,
    found,
    selector,
)

from gpukfl.core._places import resolve_place
from gpukfl.estimators import KernelFeatureSelector
from gpukfl.estimators._data import HeldOut
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples, Splits
from gpukfl.estimators._search import Fold
from gpukfl.estimators.selection import Path, Permutations, Stability, Weights
from gpukfl.estimators.selection import _data as _selection_problem
from gpukfl.estimators.selection import _fit as _selection_control
from gpukfl.estimators.selection._data import SelectionProblem
from gpukfl.estimators.selection._fit import RIDGES, KernelSelection
from gpukfl.methods import FactoredSelection
from gpukfl.solvers import ProjectedGradient


def chosen(model):
    trials = [trial for trial in model.tuning_ if trial["chosen"]]
    assert len(trials) == 1
    return trials[0]


# ---------------------------------------------------------------------- what is chosen


@pytest.mark.parametrize("hierarchical", [True, False])
@pytest.mark.parametrize("make", [selector, classifier])
def test_a_path_over_sparsity_is_followed_and_chosen_from(make, hierarchical):
    y = THREE if make is classifier else Y
    model = make(sparsity="tune", n_sparsities=5, hierarchical=hierarchical).fit(X, y)
    assert found(model) == ([2] if make is classifier else TRUE)
    path, trials = model.path_, model.tuning_
    assert {key: value.shape for key, value in path.items()} == {
        "sparsity": (5,),
        "beta": (5, P),
        "score": (5,),
    }
    assert np.all(np.diff(path["sparsity"]) < 0)
    assert path["sparsity"][-1] == pytest.approx(1e-3 * path["sparsity"][0], rel=1e-12)
    assert not path["beta"][0].any()  # the largest selects nothing
    assert path["beta"][-1].any()
    assert np.all(path["beta"] >= 0)
    assert [trial["sparsity"] for trial in trials] == path["sparsity"].tolist()
    assert [trial["score"] for trial in trials] == path["score"].tolist()
    assert {trial["ridge"] for trial in trials} == {model.ridge_} == {0.01}
    said = {"score", "standard_error", "seconds", "chosen"}
    keys = {"ridge", "sparsity", "n_selected"} | said
    assert all(set(trial) == keys for trial in trials)
    best = chosen(model)
    assert best["sparsity"] == model.sparsity_
    assert best["n_selected"] == min(t["n_selected"] for t in trials if t["score"] > 0.5)
    assert trials[0]["score"] < 0.1


def test_the_sparsest_model_within_a_standard_error_is_chosen():
    noisy = Y + 0.5 * np.random.default_rng(0).standard_normal(N)
    model = selector(sparsity="tune", n_sparsities=6, hierarchical=False).fit(X, noisy)
    best, highest = chosen(model), max(trial["score"] for trial in model.tuning_)
    sparser = [t for t in model.tuning_ if t["n_selected"] < best["n_selected"]]
    assert all(trial["score"] < best["score"] for trial in sparser)
    assert best["score"] <= highest
    assert best["n_selected"] < model.tuning_[-1]["n_selected"] + 1e-12


@pytest.mark.parametrize("sparsity", ["auto", 0.3])
def test_a_ridge_is_chosen(sparsity):
    model = selector(ridge="auto", sparsity=sparsity).fit(X, Y)
    assert found(model) == TRUE
    trials = model.tuning_
    assert 1 < len(trials) <= len(RIDGES)
    assert [trial["ridge"] for trial in trials] == list(RIDGES)[: len(trials)]
    assert {trial["sparsity"] for trial in trials} == {sparsity}
    assert chosen(model)["ridge"] == model.ridge_
    assert model.path_ is None
    assert all(trial["score"] <= 1.0 for trial in trials)


def test_ridge_and_sparsity_are_chosen_together():
    model = selector(ridge="auto", sparsity="tune", n_sparsities=3, hierarchical=False).fit(X, Y)
    tried = [(trial["ridge"], trial["sparsity"]) for trial in model.tuning_]
    assert len(set(tried)) == len(tried) > 3
    assert len(tried) % 3 == 0
    assert (chosen(model)["ridge"], chosen(model)["sparsity"]) == (model.ridge_, model.sparsity_)
    assert model.path_["beta"].shape == (3, P)
    mine = [sparsity for ridge, sparsity in tried if ridge == model.ridge_]
    assert model.path_["sparsity"].tolist() == mine


@pytest.mark.parametrize("options", [{}, {"sparsity": 0.3}, {"ridge": 0.1}], ids=str)
def test_what_is_given_is_not_tuned(options):
    model = selector(**options).fit(X, Y)
    assert (model.tuning_, model.path_) == ([], None)
    assert model.ridge_ == options.get("ridge", 0.01)


@pytest.mark.filterwarnings("ignore:no variable was selected:UserWarning")
def test_few_samples_are_not_held_out():
    model = selector(sparsity="tune", ridge="auto").fit(X[:19], Y[:19])
    assert (model.tuning_, model.path_, model.ridge_) == ([], None, 0.01)


def test_smaller_ridges_than_fit_noise_are_not_tried():
    noise = np.random.default_rng(1).standard_normal(N)
    model = selector(ridge="auto", sparsity=0.0).fit(X, noise)
    assert [trial["ridge"] for trial in model.tuning_] == list(RIDGES[:2])
    assert model.ridge_ == RIDGES[0]


def test_weights_count_rows_in_the_folds_too(monkeypatch):
    counts = 1 + (X[:, 2] > 0) + (Y > 0)
    copies = np.repeat(np.arange(N), counts)

    def folds_of(group):
        def same_folds(samples, *_):
            parts = [samples.take(np.flatnonzero(group % 2 == k)) for k in range(2)]
            return [tuple(parts), tuple(parts[::-1])]

        return same_folds

    options = {"sparsity": "tune", "n_sparsities": 3, "hierarchical": False}
    monkeypatch.setattr(Samples, "splits", folds_of(np.arange(N)))
    weighted = selector(**options).fit(X, Y, sample_weight=counts)
    monkeypatch.setattr(Samples, "splits", folds_of(copies))
    repeated = selector(**options).fit(near_copies(X, counts), Y[copies])
    np.testing.assert_allclose(weighted.path_["sparsity"], repeated.path_["sparsity"], rtol=1e-9)
    np.testing.assert_allclose(weighted.path_["beta"], repeated.path_["beta"], atol=1e-3)
    np.testing.assert_allclose(weighted.path_["score"], repeated.path_["score"], atol=1e-3)


def test_every_sparsity_begins_where_the_last_ended(monkeypatch):
    run, seen = SelectionProblem.run, {}

    def noting(self, *args, start=None, **kwargs):
        selection = run(self, *args, start=start, **kwargs)
        seen.setdefault(id(self), []).append((start, selection.beta))
        return selection

    monkeypatch.setattr(SelectionProblem, "run", noting)
    selector(sparsity="tune", n_sparsities=4, hierarchical=False).fit(X, Y)
    folds = [calls for calls in seen.values() if len(calls) == 4]
    assert len(folds) == 5
    for calls in folds:
        assert calls[0][0] is None
        for (_, before), (start, _) in itertools.pairwise(calls):
            np.testing.assert_array_equal(start, before)


def test_one_set_is_held_out_of_many_rows(monkeypatch):
    monkeypatch.setattr(KernelSelection, "splits", Splits(at_most=80, folds_below=50))
    sizes = []
    make = SelectionProblem.__init__

    def counting(self, settings, samples, *args, **kwargs):
        sizes.append(len(samples))
        make(self, settings, samples, *args, **kwargs)

    monkeypatch.setattr(SelectionProblem, "__init__", counting)
    options = {"sparsity": "tune", "n_sparsities": 2, "hierarchical": False}
    selector(**options).fit(X, Y)
    assert sizes == [N, 64]


def test_many_samples_are_factored_and_the_last_fit_takes_some(monkeypatch):
    made = []
    make = FactoredSelection.__init__

    def counting(self, *args, n_centers, rng):
        made.append(n_centers)
        make(self, *args, n_centers=n_centers, rng=rng)

    monkeypatch.setattr(FactoredSelection, "__init__", counting)
    monkeypatch.setattr(_selection_problem, "_MOST_DENSE", 50)
    monkeypatch.setattr(_selection_problem, "_CENTERS", 35)
    monkeypatch.setattr(_selection_problem, "_REFINE_ROWS", 60)
    monkeypatch.setattr(_selection_problem, "_FIT_ROWS", 40)
    weights = 1.0 + (X[:, 0] > 0)
    model = selector().fit(X, Y, sample_weight=weights)
    assert (made, found(model)) == ([35, 35, 140], TRUE)  # the last two for the error
    assert model.centers_.shape == (N, 2)
    assert model.score(NEW, Y_NEW) > 0.97
    monkeypatch.setattr(_selection_problem, "available_memory", lambda _: 32 * N * 4 * 20)
    selector().fit(X, Y)
    assert made[3:] == [20, 20, 80]  # as many as the memory holds
    selector(n_centers="all").fit(X, Y)
    assert len(made) == 6


@pytest.mark.parametrize(("sparsity", "kept"), [(0.03, TRUE), (1e9, [])])
def test_rows_apart_are_predicted_by_a_fold(sparsity, kept):
    method, run = selector(sparsity=sparsity)._method(), Run(None, 0, 0)
    samples = Samples.validate(X, Y[:, None], None, labels=False)
    place = resolve_place("numpy", X, dtype="float64", work=0)
    problem = method.problem(samples.take(np.arange(60)), place, run)
    fold = Fold(problem, HeldOut.from_samples(problem, samples.take(np.arange(60, N))))
    learned = method.fit_fold(fold, method.default_setting(problem), None, run)
    assert np.flatnonzero(learned.selection.support).tolist() == kept
    error, spread = fold.held_out.error(method.predict_fold(fold, learned)), fold.held_out.spread
    assert error < 0.1 * spread if kept else error >= spread


def test_values_group_parameters():
    grouped = selector(
        sparsity=Permutations(5),
        anchor=Weights(radius=0.02),
        optimizer=ProjectedGradient(tol=1e-3),
        hierarchical=False,
    ).fit(X, Y)
    assert found(grouped) == [1]
    assert selector(sparsity="auto", n_permutations=19).sparsity == Permutations()
    words, values = (selector(sparsity=s, hierarchical=False).fit(X, Y) for s in ("tune", Path()))
    np.testing.assert_array_equal(words.predict(NEW), values.predict(NEW))
    assert len(words.tuning_) == 10
    stable = selector(error_control=Stability(4, max_false=9.0)).fit(X, Y)
    assert stable.selection_frequencies_.shape == (P,)


@pytest.mark.parametrize(("cheap", "expected"), [(5e7, 5), (10.0, 1)])
def test_thresholds_of_the_last_selection_are_drawn_more_often(monkeypatch, cheap, expected):
    thresholds, drawn = _selection_problem.permutation_threshold, []

    def noted(*args, repeats, **kwargs):
        drawn.append(repeats)
        return thresholds(*args, repeats=repeats, **kwargs)

    monkeypatch.setattr(_selection_problem, "permutation_threshold", noted)
    monkeypatch.setattr(_selection_problem, "_FEW_DIFFERENCES", cheap)
    model = selector(ridge="auto", n_permutations=5).fit(X, Y)
    last = len(model.rounds_)
    assert set(drawn[:-last]) == {1}  # of the search, which compares many fits
    assert set(drawn[-last:]) == {expected}


# ---------------------------------------------------------------------- stability


def test_stable_variables_are_selected():
    model = selector(n_subsamples=6).fit(X, Y)
    shares, threshold = model.selection_frequencies_, model.stability_threshold_
    assert shares.shape == (P,)
    np.testing.assert_allclose(6 * shares, np.round(6 * shares), atol=1e-12)
    np.testing.assert_array_equal(model.get_support(), shares >= threshold)
    assert found(model) == TRUE
    mean = shares.sum()  # of the variables selected on a half
    assert threshold == max(0.5 * (1 + mean**2 / P), math.nextafter(0.5, 1.0))
    assert np.all((model.beta_ > 0) <= model.get_support())
    plain = selector().fit(X, Y)
    assert (plain.selection_frequencies_, plain.stability_threshold_) == (None, None)


def test_an_odd_number_of_halves_is_one_more():
    """The bound is of pairs: a half alone selects as many false variables as a fit does."""
    noise = np.random.default_rng(3).standard_normal(N)
    options = {"sparsity": 0.4, "hierarchical": False, "max_false": P}
    one, two = (selector(n_subsamples=k, **options).fit(X, noise) for k in (1, 2))
    assert (two.selection_frequencies_ == 0.5).any()
    np.testing.assert_array_equal(one.selection_frequencies_, two.selection_frequencies_)
    assert one.stability_threshold_ == two.stability_threshold_


def test_max_false_sets_the_threshold():
    loose, strict = (selector(n_subsamples=4, max_false=k).fit(X, Y) for k in (5.0, 1.0))
    np.testing.assert_array_equal(loose.selection_frequencies_, strict.selection_frequencies_)
    assert 0.5 < loose.stability_threshold_ < strict.stability_threshold_ <= 1.0


def test_what_cannot_be_promised_is_said():
    noisy = Y + 2.0 * np.random.default_rng(3).standard_normal(N)
    options = {"sparsity": 0.0, "hierarchical": False, "n_subsamples": 4}
    with pytest.warns(UserWarning, match="selected on every half are kept") as said:
        model = selector(max_false=0.5, **options).fit(X, noisy)
    mean = model.selection_frequencies_.sum()
    assert str(said[0].message) == (
        f"max_false=0.5 cannot be guaranteed: {mean:.1f} of {P} variables are selected on half of "
        f"the rows, which bounds false ones by {mean**2 / P:.2g}. Variables selected on every half "
        "are kept"
    )
    assert model.stability_threshold_ == 1.0
    np.testing.assert_array_equal(model.get_support(), model.selection_frequencies_ == 1.0)


def test_variables_that_only_the_halves_select_get_a_weight(monkeypatch):
    def shares(*_):
        return np.array([1.0, 1.0, 0.0, 1.0, 0.2]), 3.2, True

    monkeypatch.setattr(_selection_control, "selection_frequencies", shares)
    model = selector(n_subsamples=2, max_false=4.0).fit(X, Y)
    assert found(model) == [0, 1, 3]
    assert model.predict(NEW) == pytest.approx(formula(model, NEW)[:, 0], abs=1e-9)

    def none(*_):
        return np.zeros(P), 0.0, True

    monkeypatch.setattr(_selection_control, "selection_frequencies", none)
    with pytest.warns(UserWarning, match="no variable was selected"):
        model = selector(n_subsamples=2).fit(X, Y)
    assert (found(model), model.stability_threshold_) == ([], math.nextafter(0.5, 1.0))


def test_stability_of_classes_and_weights():
    weights = 1.0 + (X[:, 0] > 0)
    model = classifier(n_subsamples=4, sparsity=1.0).fit(X, THREE, sample_weight=weights)
    assert found(model) == [2]
    assert model.selection_frequencies_[2] == 1.0


@pytest.mark.parametrize(("ridge", "n_centers"), [(1e-4, 8), (1.0, 150)])
def test_centres_that_are_too_few_for_the_ridge_are_warned_of(ridge, n_centers):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=200)
    model = KernelFeatureSelector(ridge=ridge, n_centers=n_centers, random_state=0)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model.fit(X, y)
    coarse = [str(one.message) for one in heard if "gradient is off" in str(one.message)]
    assert len(coarse) == (n_centers == 8)
    assert all("n_centers=32" in message for message in coarse)
