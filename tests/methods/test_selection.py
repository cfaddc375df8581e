"""Algorithm 1' finds what acts, ends at stationary points, and says how it ended."""

from dataclasses import replace

import numpy as np
import pytest
from fit_cases import Clock
from interruption import interrupt
from selection_signals import KERNELS, kept, main_effects, objective_of

from gpukfl.core._results import Status
from gpukfl.methods import (
    DenseSelection,
    FactoredSelection,
    FeatureSelection,
    largest_sparsity,
)
from gpukfl.solvers import ProjectedGradient

kernels = pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
forms = pytest.mark.parametrize("form", [DenseSelection, FactoredSelection])
EXACT = FeatureSelection(solver=ProjectedGradient(max_iter=3000, tol=1e-12))
STATIONARY = 1e-3  # slopes that are left, relative to the largest one at 0


@pytest.fixture
def objective(rng):
    return objective_of(*main_effects(rng, 100, 8))


def penalised(objective, beta, sparsity):
    """What is minimised."""
    return objective.evaluate(beta).value + sparsity * np.sum(beta)


def slopes_of(objective, beta, sparsity=0.0):
    return objective.gradient(objective.evaluate(beta)) + sparsity


def assert_usable(objective, selection, sparsity, *, start=None):
    """Weights are allowed and no worse than the start; values fall; the history is complete."""
    beta, history = selection.beta, selection.history
    assert beta.dtype == np.float64
    assert np.all(np.isfinite(beta))
    assert np.all(beta >= 0)
    assert np.array_equal(selection.support, beta > 0)
    begun = penalised(objective, np.zeros_like(beta) if start is None else start, sparsity)
    # Weights of rounding's size are dropped at the end
    assert penalised(objective, beta, sparsity) <= begun * (1 + 1e-6)
    assert len(history.objective) == len(history.step) == len(history.residual)
    assert len(history.seconds) == len(history)
    assert np.all(np.diff(history.objective) <= 1e-6 * begun)
    assert np.all(np.diff(history.seconds) >= 0)


@pytest.mark.pairs
@kernels
@forms
def test_nothing_is_selected_above_the_largest_sparsity(on, rng, kernel, form):
    X, y = main_effects(rng, 60, 6)
    objective = objective_of(X, y, kernel, form=form, on=on)
    top = largest_sparsity(objective)
    assert top == np.max(-slopes_of(objective, np.zeros(6))) > 0
    for factor in (1.0, 1.0001, 10.0):
        selection = FeatureSelection().select(objective, factor * top)
        assert not selection.support.any()
        assert selection.status is Status.CONVERGED
        assert len(selection.history) == 0
    selection = EXACT.select(objective, 0.97 * top)
    assert selection.support.tolist() == [True] + [False] * 5
    assert selection.status in (Status.CONVERGED, Status.STALLED)


@kernels
def test_no_signal_selects_nothing(rng, kernel):
    objective = objective_of(rng.standard_normal((30, 4)), np.zeros(30), kernel)
    assert largest_sparsity(objective) == 0.0
    for sparsity in (0.0, 1.0):
        selection = FeatureSelection().select(objective, sparsity)
        assert not selection.support.any()
        assert selection.status is Status.CONVERGED


@forms
def test_main_effects_are_found(rng, form):
    objective = objective_of(*main_effects(rng), form=form)
    sparsity = 0.1 * largest_sparsity(objective)
    selection = FeatureSelection().select(objective, sparsity)
    assert np.flatnonzero(selection.support).tolist() == [0, 1]
    assert selection.status is Status.CONVERGED
    if form is DenseSelection:  # other centres are other objectives
        assert_usable(objective, selection, sparsity)
    [only] = selection.rounds
    assert only.sparsity == sparsity
    assert only.entered.tolist() == [0, 1]
    assert only.beta is selection.beta
    np.testing.assert_allclose(only.scores, -slopes_of(objective, np.zeros(30)), rtol=1e-12)


@kernels
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3])
def test_ends_are_stationary(rng, kernel, share):
    objective = objective_of(*main_effects(rng, 120, 8), kernel)
    top = largest_sparsity(objective)
    selection = EXACT.select(objective, share * top)
    slopes, chosen = slopes_of(objective, selection.beta, share * top), selection.support
    assert chosen[0]
    assert np.max(np.abs(slopes[chosen])) <= STATIONARY * top
    assert np.min(slopes[~chosen], initial=0.0) >= -STATIONARY * top


@kernels
@pytest.mark.parametrize("radius", [1e-4, 0.02])
def test_the_radius_holds_and_weight_goes_where_it_gains_most(rng, kernel, radius):
    objective = objective_of(*main_effects(rng, 120, 8), kernel)
    top = largest_sparsity(objective)
    selection = replace(EXACT, radius=radius).select(objective, 0.01 * top)
    slopes, chosen = slopes_of(objective, selection.beta, 0.01 * top), selection.support
    assert np.sum(selection.beta) == pytest.approx(radius, rel=1e-12)
    price = np.mean(slopes[chosen])
    assert price < -10 * STATIONARY * top
    assert np.ptp(slopes[chosen]) <= STATIONARY * top
    assert np.min(slopes[~chosen]) >= price - STATIONARY * top
    assert_usable(objective, selection, 0.01 * top)


def test_all_variables_that_gain_share_the_radius(rng):
    """Two alike effects: the working set may hold both though weight must be taken."""
    X = rng.standard_normal((150, 4))
    objective = objective_of(X, X[:, 0] + X[:, 2])
    selection = replace(EXACT, radius=0.05).select(objective, 0.0)
    assert selection.support[[0, 2]].all()


def test_held_variables_keep_their_weight(rng):
    objective = objective_of(*main_effects(rng, 120, 8))
    start = np.asarray([0.7, 0.0, 0.0, 0.0, 0.2, 0.0, 0.0, 0.0])
    held = np.asarray([True, False, True, False, True, False, False, False])
    sparsity = 0.02 * largest_sparsity(objective)
    selection = FeatureSelection().select(objective, sparsity, start, held)
    assert np.array_equal(selection.beta[held], start[held])
    assert selection.support[1]
    assert 1 in selection.rounds[0].entered
    assert not np.isin([0, 2, 4], selection.rounds[0].entered).any()
    assert np.all(selection.rounds[0].scores[held] == 0)
    assert_usable(objective, selection, sparsity, start=start)
    # Their weight does not count against the radius
    tight = replace(EXACT, radius=0.01).select(objective, 0.0, start, held)
    assert np.sum(tight.beta[~held]) == pytest.approx(0.01, rel=1e-12)


def test_with_all_variables_held_nothing_moves(rng):
    objective = objective_of(*main_effects(rng, 40, 3))
    start = np.asarray([0.7, 0.0, 0.3])
    selection = FeatureSelection().select(objective, 0.0, start, np.ones(3, dtype=bool))
    assert np.array_equal(selection.beta, start)
    assert selection.status is Status.CONVERGED
    assert len(selection.rounds[0].entered) == 0


def test_starts_are_left_alone_and_brought_inside(rng):
    objective = objective_of(*main_effects(rng, 60, 5))
    start = np.full(5, 3.0)
    selection = FeatureSelection(radius=0.5).select(objective, 0.0, start)
    assert np.array_equal(start, np.full(5, 3.0))
    assert np.sum(selection.beta) <= 0.5 * (1 + 1e-12)
    assert penalised(objective, selection.beta, 0.0) <= penalised(objective, start / 30, 0.0)


def test_starts_at_an_end_stay_there(rng, monkeypatch):
    objective = objective_of(*main_effects(rng, 120, 8))
    sparsity = 0.1 * largest_sparsity(objective)
    first = EXACT.select(objective, sparsity)
    calls = interrupt(monkeypatch, DenseSelection, "evaluate", 10**6)
    again = FeatureSelection().select(objective, sparsity, first.beta)
    assert np.array_equal(again.support, first.support)
    np.testing.assert_allclose(again.beta, first.beta, rtol=0, atol=1e-3 * np.max(first.beta))
    assert calls[0] <= 50


def test_with_the_radius_used_up_only_what_gains_more_enters(rng, monkeypatch):
    """Weight helps most variables here, but less than where it is."""
    objective = objective_of(*main_effects(rng, 120, 8))
    algorithm = replace(EXACT, radius=0.02)
    first = algorithm.select(objective, 0.0)
    assert np.sum(slopes_of(objective, first.beta)[~first.support] < 0) > 1
    seen, plain = set(), DenseSelection.gradient

    def gradient(self, point, columns, permutation=None):
        seen.add(tuple(columns))
        return plain(self, point, columns, permutation)

    monkeypatch.setattr(DenseSelection, "gradient", gradient)
    calls = interrupt(monkeypatch, DenseSelection, "focus", 10**6)
    algorithm.select(objective, 0.0, first.beta)
    assert calls[0] == 1  # that of the descent from the start
    # By rounding, the start is the end already or not
    everything = tuple(range(8))
    assert {everything} <= seen <= {everything, tuple(np.flatnonzero(first.support))}


@pytest.mark.parametrize("power", [-25, 25])
def test_units_of_the_targets_do_not_matter(rng, power):
    X, y = main_effects(rng, 120, 8)
    plain, other = objective_of(X, y), objective_of(X, 2.0**power * y)
    sparsity = 0.1 * largest_sparsity(plain)
    expected = FeatureSelection().select(plain, sparsity)
    found = FeatureSelection().select(other, 4.0**power * sparsity)
    np.testing.assert_allclose(found.beta, expected.beta, rtol=1e-6)
    assert len(found.history) == len(expected.history)


@kernels
@forms
def test_constant_columns_are_never_selected(rng, kernel, form):
    X, y = main_effects(rng, 60, 6)
    X[:, 2], X[:, 4] = 0.1, -3e5
    objective = objective_of(X, y, kernel, form=form)
    selection = FeatureSelection().select(objective, 0.0)
    assert selection.support[0]
    assert not selection.support[[2, 4]].any()
    X[:, :] = 0.1
    objective = objective_of(X, y, kernel, form=form)
    selection = FeatureSelection().select(objective, 0.0)
    assert not selection.support.any()


@kernels
def test_copies_of_a_variable_share_its_weight(rng, kernel):
    """The kernel and the penalty know only their sum."""
    X, y = main_effects(rng, 120, 6)
    single = objective_of(X, y, kernel)
    double = objective_of(np.concatenate([X, X[:, :1]], axis=1), y, kernel)
    sparsity = 0.1 * largest_sparsity(single)
    expected = EXACT.select(single, sparsity).beta
    found = EXACT.select(double, sparsity).beta
    assert found[0] == pytest.approx(found[6], rel=1e-9)
    together = np.append(found[0] + found[6], found[1:6])
    np.testing.assert_allclose(together, expected, rtol=0, atol=1e-4 * np.max(expected))
    assert np.array_equal(EXACT.select(double, sparsity).beta, found)


def test_steps_are_reported(rng):
    objective, seen = objective_of(*main_effects(rng, 60, 6)), []

    def watch(k, history):
        seen.append((k, len(history), history.objective[-1]))

    selection = FeatureSelection().select(objective, 0.0, watch=watch)
    values = selection.history.objective
    assert seen == [(k, k + 1, values[k]) for k in range(len(values))]
    assert len(values) > 1


@pytest.fixture
def sparsities(objective):
    return (largest_sparsity(objective) * np.geomspace(1.0, 1e-3, 8)).tolist()


def test_paths_descend_from_nothing(objective, sparsities):
    path = FeatureSelection().path(objective, sparsities[::-1])
    assert [found.rounds[0].sparsity for found in path] == sparsities
    assert not path[0].support.any()
    strong = np.asarray([found.support[:2] for found in path])
    assert np.all(strong[1:] >= strong[:-1])
    assert strong[-1].all()
    fitted = [objective.evaluate(found.beta).value for found in path]
    assert np.all(np.diff(fitted) <= 0)


def test_each_begins_where_the_last_ended(objective, sparsities):
    path = FeatureSelection().path(objective, sparsities)
    starts = [np.zeros(8), *[found.beta for found in path]]
    for start, sparsity, found in zip(starts, sparsities, path, strict=False):
        assert_usable(objective, found, sparsity, start=start)
        begun = penalised(objective, start, sparsity)
        assert np.all(np.asarray(found.history.objective) <= begun * (1 + 1e-12))
        np.testing.assert_allclose(found.rounds[0].scores, -slopes_of(objective, start), rtol=1e-9)


def test_ends_are_about_those_from_nothing(objective, sparsities):
    for sparsity, found in zip(sparsities, EXACT.path(objective, sparsities), strict=True):
        alone = EXACT.select(objective, sparsity)
        assert np.array_equal(found.support[:2], alone.support[:2])
        value = penalised(objective, found.beta, sparsity)
        assert value == pytest.approx(penalised(objective, alone.beta, sparsity), rel=1e-3)


def test_interruptions_and_time_end_the_path(objective, sparsities, monkeypatch):
    path = FeatureSelection(max_time=0.0).path(objective, sparsities)
    assert path[-1].status is Status.TIME_LIMIT
    assert len(path) < len(sparsities)
    whole = interrupt(monkeypatch, DenseSelection, "evaluate", 10**6)
    FeatureSelection().path(objective, sparsities)
    interrupt(monkeypatch, DenseSelection, "evaluate", whole[0] // 2)
    path = kept(lambda: FeatureSelection().path(objective, sparsities))
    assert path[-1].status is Status.INTERRUPTED
    assert 1 < len(path) < len(sparsities)


def test_iterations_run_out(objective):
    algorithm = FeatureSelection(solver=ProjectedGradient(max_iter=2, tol=0.0))
    selection = algorithm.select(objective, 0.0)
    assert selection.status is Status.MAX_ITER
    assert len(selection.history) == 2
    assert selection.support.any()
    assert_usable(objective, selection, 0.0)


def test_no_iterations_select_nothing(objective):
    selection = FeatureSelection(solver=ProjectedGradient(max_iter=0)).select(objective, 0.0)
    assert selection.status is Status.MAX_ITER
    assert not selection.support.any()


def test_time_runs_out(objective, monkeypatch):
    clock = Clock(1e-6)  # which steps alone move much: no processor is too slow

    def watch(*_):
        clock.now += 0.03

    monkeypatch.setattr("time.perf_counter", clock)
    selection = replace(EXACT, max_time=0.05).select(objective, 0.0, watch=watch)
    assert selection.status is Status.TIME_LIMIT
    assert 1 <= len(selection.history) <= 4
    assert selection.support.any()
    assert_usable(objective, selection, 0.0)


def test_watchers_interrupt(objective):
    def watch(k, _):
        if k == 3:
            raise KeyboardInterrupt

    selection = kept(lambda: FeatureSelection().select(objective, 0.0, watch=watch))
    assert selection.status is Status.INTERRUPTED
    assert len(selection.history) == 4
    assert_usable(objective, selection, 0.0)


@pytest.mark.parametrize("method", ["evaluate", "gradient", "focus"])
def test_interruptions_keep_the_weights(objective, monkeypatch, method):
    """After any number of calls: at the start, amid a descent and between descents."""
    calls = interrupt(monkeypatch, DenseSelection, method, 10**6)
    whole = FeatureSelection().select(objective, 0.0)
    assert whole.status is Status.CONVERGED
    for after in range(calls[0]):
        with monkeypatch.context() as patch:
            interrupt(patch, DenseSelection, method, after)
            selection = kept(lambda: FeatureSelection().select(objective, 0.0))
        assert selection.status is Status.INTERRUPTED
        assert_usable(objective, selection, 0.0)
    assert selection.support.any() or method == "focus"
