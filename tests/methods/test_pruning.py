"""Pruning: distances, the path of candidates, and what each acceptance rule guarantees."""

import functools
import math

import numpy as np
import pytest
from brief import weighting
from hypothesis import given, settings
from hypothesis import strategies as st

from gpukfl import RKHSWeightingClassifier, RKHSWeightingRegressor
from gpukfl.instantiations import GaussianSign, RandomKitchenSinks, Stumps
from gpukfl.methods import LOSSES, PRUNING_RULES, last_accepted, pruning_candidates
from gpukfl.solvers import Lasso

KINDS = [GaussianSign(1.0, 1.0), Stumps(1.0, 0.5)]


def problem(rng, kind=KINDS[1], *, count=25, d=3, t=1):
    """Kernel among drawn parameters, and coefficients."""
    W = kind.draw(count, d, np.random.RandomState(2))
    return kind.kernel(W, W), rng.standard_normal((count, t))


# ---------------------------------------------------------------------- candidates


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 20),
    t=st.integers(1, 3),
    kind=st.sampled_from(KINDS),
)
@settings(derandomize=True, max_examples=40)
def test_distances_are_those_of_the_gram_matrix_and_grow(seed, count, t, kind):
    rng = np.random.default_rng(seed)
    G, A = problem(rng, kind, count=count, t=t)
    found = pruning_candidates(G, A)
    norms = np.sqrt(np.sum(A * (G @ A), axis=0))
    assert [one.penalty for one in found] == sorted(one.penalty for one in found)
    for one in found:
        direct = [math.sqrt(max(a @ G @ a, 0.0)) for a in (A - one.B).T]
        np.testing.assert_allclose(one.distance, direct, rtol=1e-9, atol=1e-12)
        assert one.n_kept == np.count_nonzero(np.any(one.B != 0, axis=1))
        assert np.all(one.distance <= norms * (1 + 1e-6))
        np.testing.assert_array_less(
            np.sum(np.abs(one.B), axis=0), np.sum(np.abs(A), axis=0) + 1e-6
        )
    distances = np.array([one.distance for one in found])
    # Of the optimum; the solver's tolerance is relative to the squared norm
    assert np.all(np.diff(distances**2, axis=0) >= -1e-5 * norms**2 - 1e-12)
    assert found[-1].n_kept == 0
    np.testing.assert_allclose(found[-1].distance, norms, rtol=1e-9)


def test_every_candidate_minimises_eq_60(rng):
    G, A = problem(rng)
    found = pruning_candidates(G, A, penalties=[1e-3, 1e-2, 0.3], solver=Lasso(1e-12))
    T = len(G)
    top = np.max(np.abs(G @ A)) / T
    for one in found:
        # Optimality: the gradient is the penalty's, against the sign of each coefficient
        slope, b = (G @ (one.B - A))[:, 0] / T, one.B[:, 0]
        penalty = one.penalty * top
        assert np.max(np.abs(slope)) <= penalty * (1 + 1e-4)
        kept = b != 0
        np.testing.assert_allclose(slope[kept], -penalty * np.sign(b[kept]), rtol=1e-4)
    kept = [one.n_kept for one in found]
    assert kept[0] > kept[-1] > 0


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_first_candidate_is_nearly_all(rng, kind):
    G, A = problem(rng, kind)
    first = pruning_candidates(G, A)[0]
    norm = math.sqrt(float(A[:, 0] @ G @ A[:, 0]))
    assert first.distance[0] < 1e-3 * norm


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_duplicates_are_merged(rng, kind):
    W = kind.draw(8, 3, np.random.RandomState(2))
    W = np.concatenate([W, W, W])
    G = kind.kernel(W, W)
    A = rng.uniform(0.5, 1.0, (24, 1))  # of one sign: merging costs nothing
    found = pruning_candidates(G, A)
    assert all(one.n_kept <= 16 for one in found)  # of equal columns the Lasso may keep several
    total = A.reshape(3, 8).sum(axis=0)
    merged = found[0].B.reshape(3, 8).sum(axis=0)
    np.testing.assert_allclose(kind.kernel(W, W[:8]) @ (merged - total), 0.0, atol=1e-2)


def test_several_targets_are_pruned_one_by_one(rng):
    G, A = problem(rng, t=3)
    joint = pruning_candidates(G, A)
    for j in range(3):
        for both, alone in zip(joint, pruning_candidates(G, A[:, j : j + 1]), strict=True):
            np.testing.assert_allclose(both.distance[j], alone.distance[0], rtol=1e-3, atol=1e-6)


def test_nothing_is_pruned_to_nothing(rng):
    G, _ = problem(rng)
    for one in pruning_candidates(G, np.zeros((25, 2))):
        assert one.n_kept == 0
        assert one.distance.tolist() == [0.0, 0.0]


def test_the_last_accepted_is_before_the_first_that_is_not(rng):
    found = pruning_candidates(*problem(rng))
    accepted = [True, True, False, True] + [True] * (len(found) - 4)
    assert last_accepted(found, lambda k, _: accepted[k]) is found[1]
    assert last_accepted(found, lambda *_: True) is found[-1]
    assert last_accepted(found, lambda *_: False) is None
    assert last_accepted([], lambda *_: True) is None
    limit = float(found[5].distance[0])
    assert last_accepted(found, lambda _, one: one.distance[0] <= limit) in found[5:]


# ---------------------------------------------------------------------- the rules

N = 150
RNG = np.random.default_rng(6)
X = RNG.standard_normal((N, 3))
F = np.sin(2 * X[:, 0]) + X[:, 1]
Y = F + 0.1 * RNG.standard_normal(N)
LABELS = np.where(F + 0.3 * RNG.standard_normal(N) > 0, "yes", "no")
SIGNS = np.where(LABELS == "yes", 1.0, -1.0)


def classifier(**options):
    few = {"instantiation": Stumps(1.0, 0.5), "ridge": 1e-4, "random_state": 0}
    return RKHSWeightingClassifier(60, **weighting(**{**few, **options}))


def regressor(**options):
    few = {"instantiation": Stumps(1.0, 0.5), "ridge": 1e-4, "random_state": 0}
    return RKHSWeightingRegressor(60, **weighting(**{**few, **options}))


@functools.cache
def whole_classifier(**options):
    return classifier(**options).fit(X, LABELS)


def degradations(model):
    return np.array([one["degradation"] for one in model.pruning_])


def kept(model):
    return [one["n_parameters"] for one in model.pruning_]


@pytest.mark.each
@pytest.mark.parametrize("learner", ["least_squares", "lasso", "optimal_step", "sfgd"])
@pytest.mark.parametrize("rule", PRUNING_RULES)
def test_every_rule_prunes_within_its_tolerance(rule, learner):
    options = {"learner": learner, "ridge": 1e-4 if learner != "sfgd" else 0.1}
    whole = whole_classifier(**options)
    model = classifier(**options, prune=rule, prune_tolerance=0.05).fit(X, LABELS)
    assert model.n_parameters_ <= whole.n_parameters_
    assert whole.pruning_ is None
    steps = model.pruning_
    assert [one["penalty"] for one in steps] == sorted(one["penalty"] for one in steps)
    refused = np.flatnonzero(degradations(model) >= 0.05)
    last = (refused[0] if len(refused) else len(steps)) - 1
    assert model.n_parameters_ == (kept(model)[last] if last >= 0 else whole.n_parameters_)


def test_rules_go_from_strict_to_lenient():
    sizes = [
        classifier(prune=rule, prune_tolerance=0.05).fit(X, LABELS).n_parameters_
        for rule in PRUNING_RULES
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]


@pytest.mark.parametrize("tolerance", [0.005, 0.03])
def test_the_error_rule_keeps_the_training_error(tolerance):
    whole = whole_classifier()
    model = classifier(prune="error", prune_tolerance=tolerance).fit(X, LABELS)
    assert model.n_parameters_ < (50 if tolerance < 0.01 else 30)
    assert whole.score(X, LABELS) - model.score(X, LABELS) < tolerance + 1e-12


@pytest.mark.few
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("tolerance", [0.005, 0.03])
def test_the_risk_rule_keeps_the_training_risk(loss, tolerance):
    options = {"loss": loss, "learner": "optimal_step"}
    value, unit = LOSSES[loss].value, LOSSES[loss].unit
    whole = whole_classifier(**options)
    model = classifier(**options, prune="risk", prune_tolerance=tolerance).fit(X, LABELS)
    before, after = (
        unit * np.mean(value(one.decision_function(X), SIGNS)) for one in (whole, model)
    )
    assert after - before < tolerance + 1e-9
    assert model.n_parameters_ < 60


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
def test_the_norm_rule_is_lemma_7(loss):
    """The change of every risk is at most ρ θ times the distance of the weightings."""
    options = {"loss": loss, "learner": "optimal_step"}
    value, unit = LOSSES[loss].value, LOSSES[loss].unit
    whole = whole_classifier(**options)
    new = np.random.default_rng(0).standard_normal((500, 3))
    for tolerance in (0.01, 0.3, 3.0):
        model = classifier(**options, prune="norm", prune_tolerance=tolerance).fit(X, LABELS)
        bound = max((d for d in degradations(model) if d < tolerance), default=0.0)
        assert bound < tolerance
        for signs in (1.0, -1.0, np.where(new[:, 0] > 0, 1.0, -1.0)):
            before, after = (
                unit * np.mean(value(m.decision_function(new), signs + 0.0 * new[:, 0]))
                for m in (whole, model)
            )
            assert after - before <= bound + 1e-9
    assert model.n_parameters_ < 60


def test_the_norm_rule_is_its_formula():
    whole = whole_classifier()
    model = classifier(prune="norm", prune_tolerance=1e-9).fit(X, LABELS)
    W = whole.parameters_
    G, A = Stumps(1.0, 0.5).kernel(W, W), whole.coef_
    scale = math.exp(-whole.log_scale_)
    assert len(W) == 60
    for step, one in zip(model.pruning_, pruning_candidates(G, A), strict=True):
        distance, norm = one.distance[0] * scale, math.sqrt(A[:, 0] @ G @ A[:, 0]) * scale
        theta = whole.theta_
        slope = 2.0 * (theta * (norm + distance) + 1.0)
        assert step["degradation"] == pytest.approx(slope * theta * distance, rel=1e-6, abs=1e-9)


def test_the_bound_rule_is_theorem_8():
    by = {
        rule: classifier(prune=rule, prune_tolerance=1e-9).fit(X, LABELS)
        for rule in ("bound", "norm", "risk")
    }
    spread = (2.0 + math.sqrt(2.0 * math.log(20.0))) / math.sqrt(N)
    expected = degradations(by["risk"]) + degradations(by["norm"]) * spread
    np.testing.assert_allclose(degradations(by["bound"]), expected, rtol=1e-9)


@pytest.mark.parametrize("rule", ["norm", "bound", "risk"])
@pytest.mark.parametrize("y", [Y, np.stack([Y, 40.0 * X[:, 2]], axis=1)], ids=["one", "two"])
def test_regressions_are_pruned(rule, y):
    whole = regressor().fit(X, y)
    model = regressor(prune=rule, prune_tolerance=0.02).fit(X, y)
    assert model.n_parameters_ <= whole.n_parameters_
    scale = np.std(y, axis=0)
    errors = [np.sum(np.mean((m.predict(X) - y) ** 2, axis=0) / scale**2) for m in (whole, model)]
    assert errors[1] - errors[0] < 0.02 + 1e-9
    if rule == "risk":
        assert model.n_parameters_ < 60


@pytest.mark.parametrize("rule", PRUNING_RULES)
def test_classes_are_pruned_together(rule):
    three = np.searchsorted([-0.7, 0.7], F)
    whole = classifier().fit(X, three)
    model = classifier(prune=rule, prune_tolerance=0.05).fit(X, three)
    assert model.coef_.shape == (model.n_parameters_, 3)
    if rule == "error":
        assert model.n_parameters_ < 60
        assert whole.score(X, three) - model.score(X, three) < 0.05 + 1e-12


def test_weights_count_in_the_rules():
    """Rows of next to no weight may become wrong."""
    w = np.where(X[:, 2] > 0, 1.0, 1e-9)
    model = classifier(prune="error", prune_tolerance=1e-6).fit(X, LABELS, sample_weight=w)
    whole = classifier().fit(X, LABELS, sample_weight=w)
    heavy = w == 1.0
    before, after = (m.score(X[heavy], LABELS[heavy]) for m in (whole, model))
    assert before - after < 1e-9
    repeated = classifier(prune="risk").fit(X, LABELS, sample_weight=np.full(N, 3.0))
    np.testing.assert_allclose(
        degradations(repeated), degradations(classifier(prune="risk").fit(X, LABELS)), atol=1e-3
    )


def test_kitchen_sinks_are_pruned_by_what_needs_no_kernel():
    sinks = RandomKitchenSinks(Stumps())
    for rule in ("risk", "error"):
        model = classifier(instantiation=sinks, prune=rule).fit(X, LABELS)
        assert model.n_parameters_ <= 60
    for rule in ("norm", "bound"):
        with pytest.raises(ValueError, match="random kitchen sinks have no bound"):
            classifier(instantiation=sinks, prune=rule).fit(X, LABELS)
