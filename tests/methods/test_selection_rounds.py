"""Algorithm 2' finds interactions below what it has found, and thresholds hold back noise."""

import numpy as np
import pytest
from interruption import interrupt
from selection_signals import KERNELS, hierarchy, kept, main_effects, objective_of

from gpukfl.core._results import Status
from gpukfl.methods import (
    DenseSelection,
    FactoredSelection,
    FeatureSelection,
    largest_sparsity,
    permutation_threshold,
)
from gpukfl.solvers import ProjectedGradient

kernels = pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
forms = pytest.mark.parametrize("form", [DenseSelection, FactoredSelection])
ALGORITHM = FeatureSelection(anchor=0.6)


def by_permutations(objective, seen=None):
    rng = np.random.RandomState(0)

    def threshold(point, columns):
        gamma = permutation_threshold(objective, point, columns, n_permutations=19, rng=rng)
        if seen is not None:
            seen.append((point, columns, gamma))
        return gamma

    return threshold


def falling(point, _columns):
    """High in the first round, low in the others."""
    return 0.7 if point.beta.any() else 4.0


@forms
def test_interactions_are_found_below_their_main_effect(rng, form):
    objective, seen = objective_of(*hierarchy(rng), form=form), []
    selection = ALGORITHM.select_in_rounds(objective, by_permutations(objective, seen))
    assert selection.status is Status.CONVERGED
    assert [found.entered.tolist() for found in selection.rounds] == [[0], [1], []]
    assert selection.beta.tolist() == [0.6, 0.6] + [0.0] * 18
    for k, (found, (point, columns, gamma)) in enumerate(zip(selection.rounds, seen, strict=True)):
        # What was found is held at τ, and what was not is asked for
        assert point.beta.tolist() == [0.6] * k + [0.0] * (20 - k)
        assert columns.tolist() == list(range(k, 20))
        assert found.sparsity == gamma
        assert found.beta[:k].tolist() == [0.6] * k
        assert np.flatnonzero(found.beta[k:]).tolist() == ([0] if k < 2 else [])
        assert np.all(found.scores[:k] == 0)
        assert (np.max(found.scores) > gamma) == (k < 2)
        if form is DenseSelection:
            slopes = objective.gradient(objective.evaluate(point.beta))
            np.testing.assert_allclose(found.scores[k:], -slopes[k:], rtol=1e-9)
    history = selection.history
    assert len(history.objective) == len(history.step) == len(history.residual)
    assert len(history.seconds) == len(history)
    assert np.all(np.diff(history.seconds) >= 0)


def test_one_round_does_not_find_interactions(rng):
    objective = objective_of(*hierarchy(rng))
    gamma = falling(objective.evaluate(np.zeros(20)), None)
    assert np.flatnonzero(FeatureSelection().select(objective, gamma).support).tolist() == [0]


@pytest.mark.parametrize("p", [1, 2])
def test_rounds_end_when_all_variables_are_found(rng, p):
    X, y = main_effects(rng, 100, 2)
    objective = objective_of(X[:, :p], y)
    selection = ALGORITHM.select_in_rounds(objective, by_permutations(objective))
    assert selection.beta.tolist() == [0.6] * p
    assert selection.status is Status.CONVERGED
    assert sum(len(found.entered) for found in selection.rounds) == p


@pytest.mark.parametrize("share", [1.0, 100.0])
def test_rounds_may_find_nothing(rng, share):
    objective = objective_of(*hierarchy(rng, 60, 4))
    gamma = share * largest_sparsity(objective)
    selection = ALGORITHM.select_in_rounds(objective, lambda *_: gamma)
    assert not selection.support.any()
    assert selection.status is Status.CONVERGED
    assert len(selection.rounds) == 1
    assert len(selection.history) == 0


def test_rounds_run_out(rng):
    objective = objective_of(*hierarchy(rng, 120, 4))
    for count in (1, 2):
        algorithm = FeatureSelection(max_rounds=count)
        selection = algorithm.select_in_rounds(objective, falling)
        assert selection.status is Status.MAX_ITER
        assert len(selection.rounds) == count
        assert np.flatnonzero(selection.support).tolist() == list(range(count))


def test_rounds_go_on_where_iterations_ran_out(rng):
    objective = objective_of(*hierarchy(rng, 120, 4))
    algorithm = FeatureSelection(solver=ProjectedGradient(max_iter=1, tol=0.0))
    selection = algorithm.select_in_rounds(objective, falling)
    assert selection.status is Status.CONVERGED
    assert [found.entered.tolist() for found in selection.rounds] == [[0], [1], []]


def test_steps_are_counted_over_all_rounds(rng):
    objective, seen = objective_of(*hierarchy(rng, 120, 4)), []

    def watch(k, history):
        assert np.all(np.diff(history.seconds) >= 0)
        seen.append((k, len(history)))

    selection = ALGORITHM.select_in_rounds(objective, falling, watch)
    assert seen == [(k, k + 1) for k in range(len(selection.history))]


def test_time_runs_out(rng):
    objective = objective_of(*hierarchy(rng, 120, 4))
    selection = FeatureSelection(max_time=0.0).select_in_rounds(objective, lambda *_: 1e-3)
    assert selection.status is Status.TIME_LIMIT
    assert len(selection.rounds) == 1
    assert selection.support.any()
    assert set(selection.beta) <= {0.0, 1.0}


@pytest.mark.parametrize("method", ["evaluate", "gradient"])
def test_interruptions_keep_what_was_found(rng, monkeypatch, method):
    """After any number of calls, those for the threshold included."""
    objective = objective_of(*hierarchy(rng, 120, 4))

    def run():
        return ALGORITHM.select_in_rounds(objective, by_permutations(objective))

    with monkeypatch.context() as patch:
        calls = interrupt(patch, DenseSelection, method, 10**6)
        assert run().status is Status.CONVERGED
    found = []
    for after in range(calls[0]):
        with monkeypatch.context() as patch:
            interrupt(patch, DenseSelection, method, after)
            selection = kept(run)
        assert selection.status is Status.INTERRUPTED
        assert set(selection.beta) <= {0.0, 0.6}
        found.append(np.flatnonzero(selection.support).tolist())
    assert found == sorted(found)  # later interruptions keep more
    assert found[0] == []
    assert [0] in found
    assert found[-1] == [0, 1]


@kernels
@pytest.mark.parametrize("held", [False, True])
def test_noise_seldom_exceeds_the_threshold(rng, kernel, held):
    """Whether or not a variable that acts has been found before: as likely as one rank in 20."""
    draws, exceeded = 200, 0
    permutations = np.random.RandomState(1)
    beta, columns = np.zeros(5), np.arange(int(held), 5)
    beta[0] = 1.0 if held else 0.0
    for _ in range(draws):
        X = rng.standard_normal((30, 4))
        X = np.concatenate([X, X[:, 3:] + 0.1 * rng.standard_normal((30, 1))], axis=1)
        y = rng.standard_normal(30) + (2 * X[:, 0] if held else 0.0)
        objective = objective_of(X, y, kernel, ridge=0.1)
        point = objective.evaluate(beta)
        score = np.max(-objective.gradient(point, columns))
        exceeded += score > permutation_threshold(
            objective, point, columns, n_permutations=19, rng=permutations
        )
    # Of a binomial law with mean 10, less than 1 in 2000 is above 22
    assert exceeded <= 22
    assert exceeded >= 1 or held  # scores below 0 never do


@forms
def test_thresholds_are_the_largest_score_of_the_permutations(rng, form):
    objective = objective_of(*main_effects(rng, 40, 6), form=form, m=20)
    point, columns = objective.evaluate(np.asarray([0.5, 0, 0, 0, 0, 0])), np.asarray([1, 3, 4])
    draws, scores = np.random.RandomState(7), [0.0]
    for count in range(6):
        found = permutation_threshold(
            objective, point, columns, n_permutations=count, rng=np.random.RandomState(7)
        )
        assert isinstance(found, float)
        assert found == max(scores)
        slopes = objective.gradient(point, columns, draws.permutation(40))
        scores.append(float(np.max(-slopes)))


def test_repeats_give_the_same_level_with_less_spread(rng):
    objective = objective_of(rng.standard_normal((30, 4)), rng.standard_normal(30), ridge=0.1)
    point, columns = objective.evaluate(np.zeros(4)), np.arange(4)
    draws, scores = np.random.RandomState(7), []
    for _ in range(11):
        slopes = objective.gradient(point, columns, draws.permutation(30))
        scores.append(float(np.max(-slopes)))

    def threshold(seed, repeats, count=3):
        rng = np.random.RandomState(seed)
        given = {"n_permutations": count, "repeats": repeats, "rng": rng}
        return permutation_threshold(objective, point, columns, **given)

    # The third largest of 11 others is exceeded with probability 3 / 12, as one of 3 others
    assert threshold(7, 3) == sorted(scores)[-3]
    few, many = ([threshold(seed, k, 19) for seed in range(40)] for k in (1, 5))
    assert np.std(many) < 0.7 * np.std(few)
    exceeded = np.mean(
        [
            np.max(-objective.gradient(point, columns, draws.permutation(30))) > gamma
            for gamma in many
            for _ in range(20)
        ]
    )
    assert 0.02 < exceeded < 0.09


def test_no_permutations_hold_nothing_back(rng):
    objective, draws = objective_of(*main_effects(rng, 20, 3)), np.random.RandomState(7)
    point = objective.evaluate(np.zeros(3))
    found = permutation_threshold(objective, point, np.arange(3), n_permutations=0, rng=draws)
    assert found == 0.0
    assert draws.randint(10**6) == np.random.RandomState(7).randint(10**6)


@pytest.mark.pairs
@kernels
@forms
def test_places_agree(on_double, rng, kernel, form):
    """Thresholds, what is found round by round, and weights."""
    for draw in (main_effects, hierarchy):
        X, y = draw(rng, 80, 6)
        results = []
        for place in (None, on_double):
            objective = objective_of(X, y, kernel, form=form, m=40, on=place)
            rounds = ALGORITHM.select_in_rounds(objective, by_permutations(objective)).rounds
            gamma = 0.1 * largest_sparsity(objective)
            weights = FeatureSelection().select(objective, gamma).beta
            results.append((rounds, weights))
        (expected, weights), (rounds, found) = results
        assert np.array_equal(found > 0, weights > 0)
        np.testing.assert_allclose(found, weights, rtol=0, atol=1e-6 * np.max(weights))
        assert len(rounds) == len(expected)
        for one, other in zip(rounds, expected, strict=True):
            assert one.entered.tolist() == other.entered.tolist()
            assert one.sparsity == pytest.approx(other.sparsity, rel=1e-6)
            np.testing.assert_allclose(one.scores, other.scores, rtol=1e-6, atol=1e-9)


@forms
def test_single_precision_finds_the_same(on, rng, form):
    X, y = hierarchy(rng, 120, 6)
    objective = objective_of(X, y, form=form, m=60, on=on)
    selection = ALGORITHM.select_in_rounds(objective, falling)
    assert np.flatnonzero(selection.support).tolist() == [0, 1]
