"""Kernel feature selection that is cut short, by the time or by Ctrl-C."""

import numpy as np
import pytest
from interruption import interrupt
from selection_cases import (
    NEW,
    TRUE,
    Y_NEW,
    N,
    P,
    X,
    Y,
    formula,
    found,
    selector,
)
from sklearn.exceptions import ConvergenceWarning

from gpukfl.core._places import resolve_place
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators.selection import _data as _selection_problem
from gpukfl.estimators.selection import _fit as _selection_search
from gpukfl.estimators.selection._data import SelectionProblem
from gpukfl.estimators.selection._fit import RIDGES
from gpukfl.methods import DenseSelection, KernelRidge

interrupted = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
unbounded = pytest.mark.filterwarnings("ignore:the fit ended before halves of the samples")


def chosen(model):
    trials = [trial for trial in model.tuning_ if trial["chosen"]]
    assert len(trials) == 1
    return trials[0]


@pytest.mark.parametrize("options", [{}, {"hierarchical": False, "sparsity": 0.3}], ids=str)
def test_max_time_stops_early(options):
    with pytest.warns(ConvergenceWarning, match="max_time was reached first"):
        model = selector(max_time=1e-6, **options).fit(X, Y)
    assert model.status_ == "TIME_LIMIT"
    assert 1 <= model.n_iter_ <= 5
    assert 1 in found(model)
    np.testing.assert_allclose(model.predict(NEW), formula(model, NEW)[:, 0], atol=1e-9)


def test_tuning_keeps_to_its_time():
    with pytest.warns(ConvergenceWarning, match="max_time was reached first"):
        model = selector(ridge="auto", sparsity="tune", max_time=1e-6).fit(X, Y)
    # One gamma more than the one that selects nothing
    assert [trial["n_selected"] > 0 for trial in model.tuning_] == [False, True]
    assert 1 in found(model)
    with pytest.warns(ConvergenceWarning, match="max_time was reached first"):
        model = selector(ridge="auto", max_time=1e-6).fit(X, Y)
    assert len(model.tuning_) == 1


@interrupted
@pytest.mark.parametrize(
    ("count", "kept", "rows"),
    [(N, "CONVERGED", [N]), (80, "TIME_LIMIT", [80]), (40, "TIME_LIMIT", [])],
)
def test_variables_are_selected_on_the_samples_there_is_time_for(monkeypatch, count, kept, rows):
    seen, run = [], SelectionProblem.run

    def noting(self, *args, **kwargs):
        seen.append(self.n)
        return run(self, *args, **kwargs)

    monkeypatch.setattr(SelectionProblem, "affordable_rows", lambda *_: count)
    monkeypatch.setattr(_selection_search, "_LEAST_ROWS", 50)
    monkeypatch.setattr(SelectionProblem, "run", noting)
    model = selector(max_time=100.0).fit(X, Y)
    assert (model.status_, seen) == (kept, rows)
    assert found(model) == (TRUE if rows else list(range(P)))
    assert model.score(X, Y) > 0.5


def test_the_samples_there_is_time_for_are_timed_on_few(monkeypatch):
    samples = Samples.validate(X, Y[:, None], None, labels=False)
    place = resolve_place("numpy", X, dtype="float64", work=1)
    problem = selector()._method().problem(samples, place, Run(None, 0, 0))
    assert problem.affordable_rows(0.01, None) == N
    assert problem.affordable_rows(0.01, 1e-9) == N  # few enough to be exact
    monkeypatch.setattr(_selection_problem, "_TIMED_ROWS", 60)
    assert problem.affordable_rows(0.01, None) == N
    assert problem.affordable_rows(0.01, 1e9) == N
    assert problem.affordable_rows(0.01, 1e-9) == 0


def test_a_last_fit_without_time_takes_some_samples(monkeypatch):
    monkeypatch.setattr(_selection_problem, "_HASTY_ROWS", 80)
    monkeypatch.setattr(_selection_problem, "_HASTY_CENTERS", 30)
    with pytest.warns(ConvergenceWarning, match="max_time was reached first"):
        model = selector(max_time=1e-6).fit(X, Y)
    assert model.centers_.shape[0] == 30
    assert model.score(NEW, Y_NEW) > 0.2  # of one variable


@pytest.mark.parametrize("max_time", [20.0, 35.0])  # over in the first pair, or with it
def test_stability_selection_keeps_to_its_time(monkeypatch, max_time):
    run, calls = SelectionProblem.run, []

    def slow(self, *args, **kwargs):
        calls.append(self.n)
        found = run(self, *args, **{**kwargs, "max_time": None})
        clock[0] += 10.0
        return found

    clock = [0.0]
    monkeypatch.setattr(SelectionProblem, "run", slow)
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    with pytest.warns(ConvergenceWarning, match="max_time was reached first"):
        model = selector(n_subsamples=8, max_time=max_time).fit(X, Y)
    assert calls == [N, *[N // 2] * 2]
    assert model.status_ == "TIME_LIMIT"
    assert found(model) == TRUE
    np.testing.assert_allclose(2 * model.selection_frequencies_ % 1, 0.0, atol=1e-12)


@interrupted
def test_what_ends_before_the_halves_has_no_bound_and_says_so():
    with pytest.warns(UserWarning, match="before halves of the samples were compared: the number"):
        model = selector(n_subsamples=4, max_time=1e-6).fit(X, Y)
    assert (model.status_, model.stability_threshold_) == ("TIME_LIMIT", None)


def test_few_steps_select_too():
    model = selector(max_iter=1).fit(X, Y)  # what enters matters, not its weight
    assert found(model) == TRUE
    with pytest.warns(ConvergenceWarning, match="after 1 iterations: max_iter was reached first"):
        model = selector(max_iter=1, hierarchical=False).fit(X, Y)
    assert 1 in found(model)


@pytest.mark.parametrize("hierarchical", [True, False])
@pytest.mark.parametrize("after", [4, 6, 9])
def test_an_interrupted_selection_is_a_usable_model(monkeypatch, hierarchical, after):
    interrupt(monkeypatch, DenseSelection, "gradient", after)
    with pytest.warns(ConvergenceWarning, match="interrupted: the best iterate so far is kept"):
        model = selector(sparsity=0.3, hierarchical=hierarchical).fit(X, Y)
    assert model.status_ == "INTERRUPTED"
    assert 1 <= model.n_iter_ <= after
    assert 1 in found(model)
    np.testing.assert_array_equal(model.levels_ > 0, model.get_support())
    np.testing.assert_allclose(model.predict(NEW), formula(model, NEW)[:, 0], atol=1e-9)
    assert model.score(X, Y) > 0.5


@interrupted
def test_an_interruption_of_permutations_keeps_the_rounds_before(monkeypatch):
    thresholds, calls = _selection_problem.permutation_threshold, [0]

    def interrupting(*args, **kwargs):
        calls[0] += 1
        if calls[0] == stop:
            raise KeyboardInterrupt
        return thresholds(*args, **kwargs)

    monkeypatch.setattr(_selection_problem, "permutation_threshold", interrupting)
    stop = 2
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = selector().fit(X, Y)
    assert (found(model), len(model.rounds_)) == ([1], 1)
    stop, calls[0] = 1, 0
    model = selector().fit(X, Y)
    assert (model.status_, model.rounds_) == ("INTERRUPTED", [])
    assert_all_variables(model)
    calls[0] = -20  # after a ridge was tried on five folds
    model = selector(ridge="auto").fit(X, Y)
    assert model.status_ == "INTERRUPTED"
    assert len(model.tuning_) >= 1
    assert 1 in found(model)


def assert_all_variables(model):
    assert found(model) == list(range(P))
    np.testing.assert_array_equal(model.beta_, model.anchor_)
    np.testing.assert_allclose(model.predict(NEW), formula(model, NEW)[:, 0], atol=1e-9)


@interrupted
@pytest.mark.parametrize("name", ["run", "refine_weights"])
def test_an_interruption_before_anything_is_selected_leaves_all_variables(monkeypatch, name):
    interrupt_within(monkeypatch, name, 3, 0)
    model = selector(ridge="auto").fit(X, Y)
    assert (model.status_, model.tuning_, model.ridge_) == ("INTERRUPTED", [], 0.01)
    assert_all_variables(model)


def interrupt_within(monkeypatch, name, number, after):
    """Interrupt the descents, after some gradients of one call of a method of the problem."""
    method, calls = getattr(SelectionProblem, name), [0]

    def counting(self, *args, **kwargs):
        calls[0] += 1
        if calls[0] == number:
            interrupt(monkeypatch, DenseSelection, "gradient", after)
        return method(self, *args, **kwargs)

    monkeypatch.setattr(SelectionProblem, name, counting)


# The first ridge is tried on 5 folds; a descent notes an interruption, what is around it raises it
@pytest.mark.few
@pytest.mark.pairs
@unbounded
@pytest.mark.parametrize("name", ["run", "refine_weights"])
@pytest.mark.parametrize(("number", "after"), [(6, 0), (6, 1), (9, 0), (9, 1)])
def test_an_interruption_while_tuning_is_a_usable_model(monkeypatch, name, number, after):
    interrupt_within(monkeypatch, name, number, after)
    with pytest.warns(ConvergenceWarning, match="interrupted: the best iterate so far is kept"):
        model = selector(sparsity=0.03, ridge="auto", n_subsamples=4).fit(X, Y)
    assert model.status_ == "INTERRUPTED"
    assert len(model.tuning_) == 1
    assert chosen(model)["ridge"] == model.ridge_ == RIDGES[0]
    assert 1 in found(model)
    np.testing.assert_array_equal(model.levels_ > 0, model.get_support())
    assert (model.sparsity_, model.selection_frequencies_) == (0.03, None)
    np.testing.assert_allclose(model.predict(NEW), formula(model, NEW)[:, 0], atol=1e-9)


@interrupted
def test_all_variables_are_kept_where_those_selected_so_far_predict_worse(monkeypatch):
    interrupt_within(monkeypatch, "run", 6, 0)
    model = selector(sparsity=0.3, ridge="auto").fit(X, Y)  # the first ridge finds one of two
    assert (model.status_, [trial["n_selected"] for trial in model.tuning_]) == ("INTERRUPTED", [1])
    assert_all_variables(model)


def test_an_interruption_along_a_path_keeps_the_best_so_far(monkeypatch):
    interrupt_within(monkeypatch, "run", 5 * 3 + 2, 0)
    options = {"sparsity": "tune", "n_sparsities": 6, "hierarchical": False}
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = selector(**options).fit(X, Y)
    assert len(model.tuning_) == 3
    assert chosen(model)["score"] == max(trial["score"] for trial in model.tuning_)
    assert model.path_["beta"].shape == (3, P)
    assert 1 in found(model)


@pytest.mark.parametrize(("number", "after"), [(2, 0), (3, 1)])
def test_an_interruption_of_stability_selection_is_a_usable_model(monkeypatch, number, after):
    expected = selector(sparsity=0.3).fit(X, Y)
    interrupt_within(monkeypatch, "run", number, after)
    with (
        pytest.warns(ConvergenceWarning, match="interrupted"),
        pytest.warns(UserWarning, match="false variables among those selected has no bound"),
    ):
        model = selector(sparsity=0.3, n_subsamples=4).fit(X, Y)
    assert (model.status_, model.selection_frequencies_) == ("INTERRUPTED", None)
    assert found(model) == found(expected)
    np.testing.assert_array_equal(model.beta_[found(model)], model.anchor_)  # a hasty last fit


@pytest.mark.parametrize(("number", "after"), [(1, 0), (2, 1)])
def test_an_interruption_of_the_last_fit_ends_with_a_quicker_one(monkeypatch, number, after):
    interrupt_within(monkeypatch, "refine_weights", number, after)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = selector().fit(X, Y)
    assert (model.status_, found(model)) == ("INTERRUPTED", TRUE)
    np.testing.assert_array_equal(model.beta_[TRUE], model.anchor_)
    assert model.score(NEW, Y_NEW) > 0.9


@pytest.mark.parametrize(
    ("owner", "name"),
    [(KernelRidge, "fit"), (SelectionProblem, "__init__")],
)
def test_an_interruption_before_there_is_a_model_leaves_the_old_one(monkeypatch, owner, name):
    def always(*_, **__):
        raise KeyboardInterrupt

    model = selector().fit(X, Y)
    before = model.predict(NEW)
    monkeypatch.setattr(owner, name, always)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :2], -Y)
    np.testing.assert_array_equal(model.predict(NEW), before)
    assert model.n_features_in_ == P


def test_verbose_prints_a_line_a_step_to_stderr(capfd):
    model = selector(verbose=1).fit(X, Y)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("selection: iteration") == err.count("objective") == model.n_iter_
    selector(verbose=1, sparsity="tune", n_sparsities=2).fit(X, Y)
    assert "λ = 0.01, 2 of 2: iteration" in capfd.readouterr().err
    selector().fit(X, Y)
    assert capfd.readouterr() == ("", "")
