"""RKHS weighting estimators: weights and symmetries, odd data, time, interruptions, copies."""

import pickle
import warnings

import numpy as np
import pytest
from brief import without_seconds
from interruption import interrupt
from near_copies import near_copies
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from weighting_cases import (
    GAUSSIAN,
    LABELS,
    LEARNERS,
    NEW,
    SIGNS,
    THREE,
    D,
    N,
    T,
    X,
    Y,
    classifier,
    regressor,
)

from gpukfl import RKHSWeightingRegressor
from gpukfl.core._places import resolve_place
from gpukfl.estimators._data import HeldOut
from gpukfl.estimators._learner import choose_setting
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._search import Fold
from gpukfl.estimators.weighting import Descent, Pruning
from gpukfl.estimators.weighting._data import WeightingProblem
from gpukfl.instantiations import GaussianSign, RandomKitchenSinks, Stumps
from gpukfl.operators import FeatureOperator

learners = pytest.mark.parametrize("learner", LEARNERS)
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
pytestmark = quiet


# ---------------------------------------------------------------------- weights and symmetries


@pytest.mark.pairs
@pytest.mark.parametrize("make", [regressor, classifier])
@pytest.mark.parametrize("learner", ["least_squares", "lasso"])
@pytest.mark.parametrize("options", [{}, {"instantiation": GAUSSIAN}, {"scaling": None}], ids=str)
def test_weights_are_repeated_rows_where_nothing_is_drawn(make, learner, options):
    y = LABELS if make is classifier else Y
    counts = np.random.default_rng(1).integers(0, 3, N)
    model = make(learner=learner, **options)
    rows = np.repeat(np.arange(N), counts)
    weighted = clone(model).fit(X, y, sample_weight=counts)
    repeated = clone(model).fit(near_copies(X, counts), y[rows])
    left_out = clone(model).fit(X[counts > 0], y[counts > 0], sample_weight=counts[counts > 0])
    method = "decision_function" if make is classifier else "predict"
    predicted = getattr(weighted, method)(NEW)
    np.testing.assert_allclose(predicted, getattr(left_out, method)(NEW), atol=1e-9)
    tolerance = 1e-2 if learner == "lasso" else 1e-6
    if make is regressor or learner == "least_squares":
        # A classifier's folds are drawn among the rows: another stream, the same parameters
        np.testing.assert_allclose(predicted, getattr(repeated, method)(NEW), atol=tolerance)


@learners
def test_weights_change_the_fit(learner):
    weights = np.where(X[:, 2] > 0, 1.0, 1e-6)
    y = np.where(X[:, 2] > 0, Y, 70.0)
    weighted, plain = (
        regressor(learner=learner).fit(X, y, sample_weight=w) for w in (weights, None)
    )
    scores = [model.score(X, y, sample_weight=weights) for model in (weighted, plain)]
    assert scores[0] > max(scores[1], {"sfgd": 0.0, "optimal_step": 0.5}.get(learner, 0.8))


@learners
def test_units_of_the_target_change_nothing(learner):
    plain = regressor(learner=learner).fit(X, Y)
    scaled = regressor(learner=learner).fit(X, 1e3 * Y - 40.0)
    np.testing.assert_allclose(scaled.predict(NEW), 1e3 * plain.predict(NEW) - 40.0, atol=1e-3)
    np.testing.assert_allclose(scaled.rkhs_norm_, 1e3 * plain.rkhs_norm_, rtol=1e-4)


def test_units_of_the_features_change_nothing():
    scale, shift = np.array([1.0, 100.0, 1e-3, 1.0]), np.array([1e3, 1e4, 0.0, -1e3])
    plain = regressor().fit(X, Y).predict(NEW)
    moved = regressor().fit(X * scale + shift, Y).predict(NEW * scale + shift)
    np.testing.assert_allclose(moved, plain, atol=1e-6)


# ---------------------------------------------------------------------- odd data

ODD = {
    "two samples": X[:2],
    "two samples of one feature": X[:2, :1],
    "three samples": X[:3],
    "one feature": X[:40, :1],
    "more features than samples": np.random.default_rng(0).standard_normal((25, 40)),
    "duplicated columns": X[:40, [0, 0, 1, 1]],
    "duplicated samples": np.repeat(X[:10], 4, axis=0),
    "a constant column": np.column_stack([X[:40], np.full(40, 3.0)]),
    "rows of zeros": np.concatenate([np.zeros((10, D)), X[:30]]),
    "equal rows": np.full((40, 2), 3.0),
    "zeros": np.zeros((40, 2)),
}


@pytest.mark.each
@learners
@pytest.mark.parametrize("kind", ODD)
def test_odd_data_are_fitted(kind, learner):
    samples = ODD[kind]
    y = Y[: len(samples)]
    for options in ({}, {"ridge": "auto", "instantiation": GAUSSIAN}, {"bias": False}):
        model = regressor(learner=learner, n_parameters=12, **options).fit(samples, y)
        predicted = model.predict(1.2 * samples)
        assert np.all(np.isfinite(predicted))
        assert np.abs(predicted).max() < 50
        if not np.ptp(samples, axis=0).any():
            assert np.ptp(predicted) < 1e-12
    labels = np.where(np.arange(len(samples)) % 2, "a", "b")
    model = classifier(learner=learner, n_parameters=12, prune="error").fit(samples, labels)
    assert np.all(np.isfinite(model.predict_proba(samples)))


def test_rows_of_zeros_are_predicted_by_the_intercept_without_a_bias():
    """Sign(0) is 0."""
    options = {"instantiation": GAUSSIAN, "bias": False, "scaling": None}
    model = regressor(**options).fit(X, Y)
    np.testing.assert_allclose(model.predict(np.zeros((2, D))), Y.mean(), rtol=1e-12)


@learners
@pytest.mark.parametrize("make", [regressor, classifier])
def test_a_constant_target_is_predicted(make, learner):
    y = np.full(N, 4.5) if make is regressor else np.full(N, "only")
    for options in ({}, {"ridge": "auto", "prune": "risk"}):
        model = make(learner=learner, n_parameters=12, **options)
        with pytest.warns(UserWarning, match="y is constant: the model predicts that constant"):
            model.fit(X, y)
        if make is regressor:
            np.testing.assert_allclose(model.predict(NEW), 4.5, rtol=1e-12)
        else:
            assert set(model.predict(NEW)) == {"only"}
            np.testing.assert_allclose(model.predict_proba(NEW), 1.0)
        assert model.tuning_ == []


@pytest.mark.parametrize("widths", [(1e-6, 1.0), (1e-12, 1.0), (1.0, 1e6)])
def test_singular_kernel_matrices_are_met_with_jitter(widths):
    """Parameters that are equal up to rounding."""
    model = regressor(instantiation=GaussianSign(*widths)).fit(X, Y)
    assert model.jitter_ > 0
    assert np.all(np.isfinite(model.predict(NEW)))
    assert np.abs(model.predict(NEW)).max() < 20


def test_a_singular_matrix_beyond_the_usual_jitter_is_warned_of():
    class Broken(Stumps):
        def kernel(self, U, W):
            same = np.all(U[:, None, :] == W[None, :, :], axis=2)
            return super().kernel(U, W) - 1e-3 * same

    broken = Broken(1e-9, 1.0)
    with pytest.warns(ConvergenceWarning, match="normal equations are singular"):
        model = regressor(instantiation=broken, ridge=10.0, dtype="float64").fit(X, Y)
    assert model.jitter_ > 1e-9


@pytest.mark.each
@learners
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_high_dimension_neither_underflows_nor_overflows(learner, dtype):
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((30, 784)).astype(dtype)
    y = np.where(wide[:, 0] > 0, 1, 0)
    kinds = [GaussianSign(1.0, 1.0)] + ([Stumps()] if dtype == "float32" else [])
    for instantiation in kinds:
        model = classifier(
            learner=learner, instantiation=instantiation, ridge="auto", n_parameters=15
        ).fit(wide, y)
        assert np.all(np.isfinite(model.predict_proba(wide)))
        assert np.all(np.isfinite(model.log_rkhs_norm_ + 0.0)) or not np.any(model.coef_)
        if learner == "least_squares":
            assert model.score(wide, y) > 0.5


# ---------------------------------------------------------------------- time and interruption


@pytest.mark.parametrize("make", [regressor, classifier])
@learners
def test_no_time_is_still_a_model(make, learner):
    y = LABELS if make is classifier else Y
    model = make(learner=learner, instantiation="auto", ridge="auto", max_time=1e-6).fit(X, y)
    assert model.n_parameters_ <= T
    assert np.all(np.isfinite(model.coef_))
    assert len({trial["instantiation"] for trial in model.tuning_}) == 1


@pytest.mark.parametrize("learner", ["least_squares", "lasso"])
def test_a_pass_that_is_cut_off_says_how_many_rows_it_saw(learner):
    import gpukfl

    with gpukfl.memory_budget(8 * 3 * (D + 1) * 30), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model = regressor(learner=learner, max_time=1e-6).fit(X, Y)
    assert model.status_ == "TIME_LIMIT"
    assert model._n_samples < N
    text = "".join(str(one.message) for one in seen)
    assert f"fitted on {model._n_samples} of {N} rows" in text


AT = [(FeatureOperator, "evaluate", 30), (FeatureOperator, "evaluate", 3), (Stumps, "draw", 2)]


@pytest.mark.pairs
@learners
@pytest.mark.parametrize(("owner", "name", "after"), AT, ids=str)
@pytest.mark.parametrize("make", [regressor, classifier])
def test_an_interruption_gives_a_model_or_leaves_it_as_it_was(
    monkeypatch, make, learner, owner, name, after
):
    y = LABELS if make is classifier else Y
    model = make(learner=learner, instantiation="stumps", ridge="auto", n_parameters=10)
    before = set(vars(model))
    interrupt(monkeypatch, owner, name, after)
    try:
        model.fit(X, y)
    except KeyboardInterrupt:
        assert set(vars(model)) == before
        return
    assert model.status_ in ("INTERRUPTED", "CONVERGED", "STALLED")
    assert np.all(
        np.isfinite(model.predict(NEW) if make is regressor else model.predict_proba(NEW))
    )
    assert sum(trial["chosen"] for trial in model.tuning_) <= 1


# ---------------------------------------------------------------------- copies


@pytest.mark.few
@learners
def test_a_random_state_repeats_the_fit(learner):
    first, second, other = (
        regressor(learner=learner, instantiation="stumps", ridge="auto", random_state=k).fit(X, Y)
        for k in (3, 3, 4)
    )
    np.testing.assert_array_equal(first.predict(NEW), second.predict(NEW))
    assert without_seconds(first.tuning_) == without_seconds(second.tuning_)
    assert np.any(first.predict(NEW) != other.predict(NEW))


def test_a_clone_has_the_parameters_only():
    model = regressor(instantiation=Stumps(gamma=0.3)).fit(X, Y)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert not hasattr(twin, "coef_")


def test_parameters_are_left_as_given():
    given = RKHSWeightingRegressor(20).get_params()
    assert RKHSWeightingRegressor(**given).fit(X[:30], Y[:30]).get_params() == given


def test_it_can_be_searched_and_piped():
    pipe = make_pipeline(StandardScaler(), regressor())
    grid = {"rkhsweightingregressor__ridge": [1e-4, 1e3]}
    search = GridSearchCV(pipe, grid, cv=2).fit(X, Y)
    assert search.best_params_ == {"rkhsweightingregressor__ridge": 1e-4}
    piped = make_pipeline(regressor(), regressor()).fit(X, Y)
    assert piped.predict(NEW).shape == (60,)


@pytest.mark.parametrize("make", [regressor, classifier])
def test_a_pickle_predicts_the_same(make):
    model = make(instantiation=RandomKitchenSinks()).fit(X, THREE if make is classifier else Y)
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.predict(NEW), model.predict(NEW))
    assert twin.instantiation_ == model.instantiation_


def test_no_warning_where_all_is_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for learner in LEARNERS:
            regressor(learner=learner).fit(X, Y + 0.2 * np.random.default_rng(0).standard_normal(N))


def test_signs_of_labels_follow_the_classes():
    model = classifier().fit(X, LABELS)
    assert list(model.classes_) == ["no", "yes"]
    assert np.mean(np.sign(model.decision_function(X)) == SIGNS) > 0.9


# ---------------------------------------------------------------------- the search


@pytest.mark.parametrize("make", [regressor, classifier])
def test_an_interruption_before_anything_was_learned_gives_a_small_model(monkeypatch, make):
    rng = np.random.default_rng(0)
    points = rng.standard_normal((3000, D))
    y = points[:, 0] if make is regressor else points[:, 0] > 0
    with monkeypatch.context() as patched:
        interrupt(patched, WeightingProblem, "learn", 0)
        model = make(instantiation="auto", ridge="auto", n_parameters=400).fit(points, y)
    assert (model.status_, model.tuning_, model._n_samples) == ("INTERRUPTED", [], 2000)
    assert model.n_parameters_ <= 100
    assert model.score(points, y) > 0.6


@learners
def test_a_trial_is_judged_by_its_predictions(learner):
    method = regressor(learner=learner, instantiation="stumps", ridge="auto")._method()
    run = Run(None, 0, 0)
    samples = Samples.validate(X, Y[:, None], np.arange(N) % 3, labels=False)
    place = resolve_place("numpy", X, dtype="float64", work=0)
    choice = choose_setting(method, method.problem(samples, place, run), samples, place, run)
    assert len({trial.setting.instantiation for trial in choice.trials}) == 4
    truth = np.concatenate([fold.held_out.Y for fold in choice.folds])
    weights = np.concatenate([fold.held_out.weights for fold in choice.folds])[:, 0]
    spread = np.sum(weights * (truth[:, 0] - np.average(truth[:, 0], weights=weights)) ** 2)
    for trial in choice.trials:
        losses = weights * (truth - np.concatenate(trial.predicted))[:, 0] ** 2
        np.testing.assert_allclose(trial.losses, losses, rtol=1e-9)
        assert trial.score == pytest.approx(1.0 - losses.sum() / spread, abs=1e-9)
        error = np.sqrt(len(losses)) * losses.std() / spread
        assert trial.standard_error == pytest.approx(error, rel=1e-6)
        assert trial.seconds > 0
    assert choice.trial is max(choice.trials, key=lambda trial: trial.score)


@pytest.mark.parametrize("labels", [False, True])
def test_rows_apart_are_predicted_by_a_fold(labels):
    method = (classifier if labels else regressor)()._method()
    y = (Y > 0).astype(float) if labels else Y
    samples, run = Samples.validate(X, y[:, None], None, labels=labels), Run(None, 0, 0)
    place = resolve_place("numpy", X, dtype="float64", work=0)
    problem = method.problem(samples.take(np.arange(70)), place, run)
    fold = Fold(problem, HeldOut.from_samples(problem, samples.take(np.arange(70, N))))
    learned = method.fit_fold(fold, method.default_setting(problem), None, run)
    predicted = method.predict_fold(fold, learned)
    assert predicted.shape == fold.held_out.Y.shape == (30, 1)
    if labels:
        assert set(fold.held_out.Y[:, 0].tolist()) == {-1.0, 1.0}
        assert np.mean(np.sign(predicted) == fold.held_out.Y) > 0.7
    else:
        assert fold.held_out.error(predicted) < 0.6 * fold.held_out.spread


def test_values_group_parameters():
    steps = Descent(optimal_step=False, radius=1.0, batch_size=7)
    model = regressor(learner=steps, ridge=0.1, prune=Pruning("risk", 0.5)).fit(X, Y)
    assert model.n_parameters_ < T
    words = regressor(learner="optimal_step").fit(X, Y).predict(NEW)
    np.testing.assert_array_equal(regressor(learner=Descent()).fit(X, Y).predict(NEW), words)
    assert "sfgd" in model.summary()
