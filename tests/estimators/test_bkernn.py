"""BKerNN estimators: the formula, weights, options, interruption, small data."""

import warnings

import numpy as np
import pytest
from bkernn_cases import LABELS, NEW, RNG, Y2, D, M, N, X, Y, classifier, kernel, regressor, spread
from brief import bkernn
from interruption import interrupt
from model_files import assert_as_before
from near_copies import near_copies
from sklearn.exceptions import ConvergenceWarning

import gpukfl
from gpukfl import BKerNNRegressor, BrownianKernelRidge, feature_score
from gpukfl.datasets import make_single_direction
from gpukfl.estimators.bkernn import _fit as _bkernn_problem
from gpukfl.operators import BrownianKernel
from gpukfl.penalties import PENALTIES, Basic
from gpukfl.solvers import ProximalGradient

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# ---------------------------------------------------------------------- the formula


@pytest.mark.parametrize("y", [Y, Y2], ids=["one target", "two targets"])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_predictions_are_the_dense_formula(penalty, y):
    model = regressor(penalty=penalty).fit(X, y)
    assert np.any(model.W_)
    dense = kernel(NEW, X, model.W_) @ model.dual_coef_
    actual = model.predict(NEW).reshape(dense.shape)
    shift = actual - dense
    np.testing.assert_allclose(shift - shift.mean(axis=0), 0, atol=1e-11 * np.abs(actual).max())
    np.testing.assert_allclose(model.predict(X).mean(axis=0), y.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(model.dual_coef_.sum(axis=0), 0, atol=1e-10)


def bordered(K, y, ridge, weights):
    """Dual coefficients and intercept of weighted kernel ridge regression."""
    n = len(y)
    system = np.ones((n + 1, n + 1))
    system[:n, :n] = K + weights.sum() * ridge * np.diag(1.0 / weights)
    system[n, n] = 0.0
    solution = np.linalg.solve(system, np.vstack([y, np.zeros((1, y.shape[1]))]))
    return solution[:n], solution[n]


@pytest.mark.parametrize("weighted", [False, True])
def test_coefficients_belong_to_the_final_particles(weighted):
    weights = RNG.uniform(0.5, 2.0, N) if weighted else np.ones(N)
    model = regressor().fit(X, Y2, sample_weight=weights if weighted else None)
    K = kernel(X, X, model.W_)
    alpha, c = bordered(K, Y2, model.ridge_, weights)
    scale = np.abs(alpha).max()
    np.testing.assert_allclose(model.dual_coef_, alpha, atol=1e-8 * scale)
    np.testing.assert_allclose(model.predict(X), K @ alpha + c, atol=1e-8)
    left = weights @ (model.predict(X) - Y2) / weights.sum()
    np.testing.assert_allclose(left, 0, atol=1e-12 * np.abs(Y2).max())


@pytest.mark.parametrize("weighted", [False, True])
def test_without_features_to_learn_it_is_the_dense_formula(weighted):
    weights = RNG.uniform(0.5, 2.0, N) if weighted else np.ones(N)
    model = BrownianKernelRidge(ridge=0.01, scaling=None)
    model.fit(X, Y2, sample_weight=weights if weighted else None)
    gaps = np.linalg.norm(X[:, None] - X[None], axis=2)
    alpha, c = bordered(-0.5 * gaps, Y2, 0.01, weights)
    expected = -0.5 * np.linalg.norm(NEW[:, None] - X[None], axis=2) @ alpha + c
    np.testing.assert_allclose(model.predict(NEW), expected, atol=1e-8)


def test_the_objective_never_rises():
    for penalty in PENALTIES:
        objective = regressor(penalty=penalty, max_iter=15).fit(X, Y).history_.objective
        assert np.all(np.diff(objective) <= 1e-7 * objective[0]), penalty


def test_importances_and_directions_describe_the_particles():
    model = regressor().fit(X, Y)
    W = model.W_
    np.testing.assert_allclose(model.feature_matrix_, W @ W.T / M, rtol=1e-12, atol=1e-15)
    norms = np.linalg.norm(W, axis=1)
    np.testing.assert_allclose(model.feature_importances_, norms / norms.sum(), rtol=1e-12)
    components = model.components_
    assert components.shape == (model.n_effective_features_, D)
    np.testing.assert_allclose(components @ components.T, np.eye(len(components)), atol=1e-12)
    np.testing.assert_allclose(model.transform(NEW), NEW @ components.T, atol=1e-12)


# ---------------------------------------------------------------------- weights


@pytest.mark.parametrize("options", [{}, {"scaling": "standard"}])
@pytest.mark.parametrize("make", [regressor, BrownianKernelRidge])
def test_integer_weights_are_repeated_rows(make, options):
    options = {"ridge": 0.01, **options}
    weights = np.random.default_rng(1).integers(1, 4, N)
    weighted = make(**options).fit(X, Y, sample_weight=weights)
    repeated = make(**options).fit(near_copies(X, weights), np.repeat(Y, weights))
    np.testing.assert_allclose(weighted.predict(NEW), repeated.predict(NEW), atol=1e-6)


@pytest.mark.parametrize("make", [regressor, BrownianKernelRidge])
def test_rows_of_weight_zero_are_dropped(on_double, make):
    weights = np.where(np.arange(N) % 3 == 0, 0.0, 2.0)
    kept = weights > 0
    y = np.where(kept, Y, 1e3)
    model = make().fit(on_double.put(X), on_double.put(y), sample_weight=on_double.put(weights))
    expected = make().fit(X[kept], Y[kept], sample_weight=weights[kept]).predict(NEW)
    np.testing.assert_allclose(
        on_double.host(model.predict(on_double.put(NEW))), expected, atol=1e-6
    )


def test_equal_weights_of_one_are_none():
    expected = regressor().fit(X, Y).predict(NEW)
    np.testing.assert_array_equal(
        regressor().fit(X, Y, sample_weight=np.ones(N)).predict(NEW), expected
    )


def test_weighted_classes_are_repeated_rows():
    weights = np.random.default_rng(1).integers(1, 4, N)
    labels = LABELS[3]
    weighted = classifier(ridge=0.01).fit(X, labels, sample_weight=weights)
    repeated = classifier(ridge=0.01).fit(near_copies(X, weights), np.repeat(labels, weights))
    np.testing.assert_allclose(
        weighted.decision_function(NEW), repeated.decision_function(NEW), atol=1e-6
    )


# ---------------------------------------------------------------------- options


def test_units_of_the_target_change_nothing():
    plain, scaled = regressor().fit(X, Y), regressor().fit(X, 1e3 * Y - 40.0)
    np.testing.assert_allclose(scaled.predict(NEW), 1e3 * plain.predict(NEW) - 40.0, rtol=1e-7)


def test_standardize_is_standardising_by_hand(on_double):
    wide = X * [1.0, 100.0, 0.01] + [0.0, 5.0, -3.0]
    mean, scale = wide.mean(axis=0), wide.std(axis=0)
    model = regressor(scaling="standard").fit(on_double.put(wide), on_double.put(Y))
    by_hand = regressor().fit((wide - mean) / scale, Y)
    new = mean + 1.1 * (wide[:20] - mean)
    predicted = on_double.host(model.predict(on_double.put(new)))
    np.testing.assert_allclose(predicted, by_hand.predict((new - mean) / scale), atol=1e-6)
    shown = on_double.host(model.transform(on_double.put(new)))
    np.testing.assert_allclose(shown, by_hand.transform((new - mean) / scale), atol=1e-5)


def test_standardize_keeps_the_precision_of_the_data():
    # No steps: rounding alone makes searches part ways
    options = {"scaling": "standard", "dtype": "float32", "max_iter": 0}
    near = regressor(**options).fit(X, Y).predict(NEW)
    far = regressor(**options).fit(X + 1e8, Y).predict(NEW + 1e8)
    np.testing.assert_allclose(far, near, atol=1e-2 * spread(Y))


def test_a_tensor_with_a_gradient_is_data_only(torch):
    tracked = torch.asarray(X, requires_grad=True)
    model = regressor().fit(tracked, torch.asarray(Y))
    assert not model.W_.requires_grad
    np.testing.assert_array_equal(model.to_host().W_, regressor().fit(torch.asarray(X), Y).W_)


def test_early_stopping_keeps_the_best():
    noisy = Y + 0.5 * np.random.default_rng(5).standard_normal(N)
    options = {"early_stopping": True, "validation_fraction": 0.3, "ridge": 1e-4, "tol": 0.0}
    model = regressor(max_iter=60, **options).fit(X, noisy)
    scores = model.history_.validation_score
    assert len(scores) == model.n_iter_ == len(model.history_.step)
    held_out = np.random.RandomState(0).permutation(N)[N - 18 :]
    assert model.score(X[held_out], noisy[held_out]) == pytest.approx(max(scores), rel=1e-6)
    if model.status_ == "EARLY_STOPPED":
        assert max(scores[-5:]) <= max(scores[:-5])


def test_early_stopping_stops():
    noisy = np.random.default_rng(5).standard_normal(N)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = regressor(
            max_iter=500, early_stopping=True, validation_fraction=0.3, ridge=1e-5, tol=0.0
        ).fit(X, noisy)
    assert model.status_ == "EARLY_STOPPED"
    assert model.n_iter_ == int(np.argmax(model.history_.validation_score)) + 1 + 5


@pytest.mark.each
@pytest.mark.parametrize("make", [regressor, classifier])
def test_early_stopping_on_every_place(on, make):
    y = on.put(Y if make is regressor else LABELS[3])
    model = make(early_stopping=True).fit(on.put(X), y)
    assert len(model.history_.validation_score) == model.n_iter_
    on.assert_lives_here(model.W_)


def test_max_time_ends_after_the_step_at_hand():
    with pytest.warns(ConvergenceWarning, match="max_time was reached first"):
        model = regressor(max_time=1e-9, max_iter=50).fit(X, Y)
    assert (model.status_, model.n_iter_) == ("TIME_LIMIT", 1)
    assert np.all(np.isfinite(model.predict(NEW)))


def test_max_iter_warns():
    with pytest.warns(ConvergenceWarning, match="after 2 iterations: max_iter was reached first"):
        regressor(max_iter=2).fit(X, Y)


def test_warm_start_goes_on_from_the_last_particles():
    model = regressor(max_iter=8).fit(X, Y)
    W = model.W_
    model.set_params(warm_start=True, optimizer=ProximalGradient(max_iter=0)).fit(X, Y)
    np.testing.assert_array_equal(model.W_, W)
    model.set_params(n_particles=M + 1, optimizer=ProximalGradient(max_iter=2)).fit(
        X, Y
    )  # of another shape: starts anew
    assert model.W_.shape == (D, M + 1)


def test_warm_start_on_another_library(torch):
    model = regressor(max_iter=8).fit(torch.asarray(X), torch.asarray(Y))
    W = model.W_.numpy()
    model.set_params(warm_start=True, optimizer=ProximalGradient(max_iter=0)).fit(X, Y)
    np.testing.assert_array_equal(model.W_, W)


def test_verbose_prints_a_line_a_step_to_stderr(capfd):
    model = regressor(verbose=1).fit(X, Y)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("objective") == model.n_iter_
    regressor().fit(X, Y)
    assert capfd.readouterr() == ("", "")


def test_a_given_step_size_begins_the_search():
    model = regressor(step_size=1e-3, max_iter=3, tol=0.0).fit(X, Y)
    np.testing.assert_allclose(model.history_.step, 1e-3 * 1.5 ** np.arange(1, 4), rtol=1e-12)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_every_penalty_finds_the_one_feature(penalty):
    wide = np.random.default_rng(2).uniform(-1, 1, (150, 8))
    y = np.sin(3 * wide[:, 4])
    model = regressor(penalty=penalty, max_iter=20).fit(wide, y)
    assert np.argmax(model.feature_importances_) == 4
    assert model.score(wide, y) > 0.9


def test_particles_of_the_l1_sphere_have_few_variables_and_are_filed(tmp_path):
    wide = np.random.default_rng(2).uniform(-1, 1, (150, 8))
    y = np.sin(3 * wide[:, 4])
    options = bkernn(max_iter=20, penalty=Basic(sphere="l1"), random_state=0)
    model = gpukfl.fit(wide, y, method="bkernn", ridge=0.02, **options)
    model.save(tmp_path / "model.npz")
    again = gpukfl.load(tmp_path / "model.npz")
    assert again.estimator.penalty == Basic(sphere="l1")
    assert np.argmax(again.estimator.feature_importances_) == 4
    left_out = np.delete(again.estimator.W_, 4, axis=0) == 0.0
    assert left_out.mean() > 0.5
    assert_as_before(again.predict(wide), model.predict(wide))


def test_a_stronger_penalty_learns_fewer_directions():
    sizes = [
        np.linalg.norm(regressor(penalty_strength=p, max_iter=20).fit(X, Y).W_) for p in (0.1, 3.0)
    ]
    assert sizes[1] < sizes[0]


def test_it_learns_the_direction():
    samples, y, P = make_single_direction(200, 8, noise=0.1)
    model = BKerNNRegressor(30, **bkernn(max_iter=30, random_state=0)).fit(samples, y)
    direction = P.sum(axis=1, keepdims=True)
    assert feature_score(direction, model.W_) > 0.9
    assert model.score(samples, y) > 0.95


def test_a_random_state_repeats_the_fit():
    first, second = regressor().fit(X, Y), regressor().fit(X, Y)
    np.testing.assert_array_equal(first.W_, second.W_)
    np.testing.assert_array_equal(first.predict(NEW), second.predict(NEW))
    assert not np.array_equal(regressor(random_state=1).fit(X, Y).W_, first.W_)


def test_particles_start_alike_on_every_place(on):
    start = on.host(regressor(max_iter=1, step_size=1e-12).fit(on.put(X), on.put(Y)).W_)
    expected = np.random.RandomState(0).normal(0.0, np.sqrt(1.0 / D), (D, M))
    np.testing.assert_allclose(start, expected, atol=4 * on.eps + 1e-9)


# ---------------------------------------------------------------------- interruption


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_an_interrupted_fit_is_a_usable_model(monkeypatch, steps):
    interrupt(monkeypatch, BrownianKernel, "quadratic_gradient", steps)
    with pytest.warns(ConvergenceWarning, match="interrupted: the best iterate so far is kept"):
        model = regressor(max_iter=20, penalty_strength=0.01).fit(X, Y)
    assert model.status_ == "INTERRUPTED"
    alpha, c = bordered(kernel(X, X, model.W_), Y[:, None], model.ridge_, np.ones(N))
    expected = kernel(NEW, X, model.W_) @ alpha + c
    np.testing.assert_allclose(model.predict(NEW), expected[:, 0], atol=1e-7)


def test_an_interruption_while_validating_keeps_the_history_whole(monkeypatch):
    interrupt(monkeypatch, _bkernn_problem.Watcher, "_score", 2)
    model = regressor(max_iter=20, early_stopping=True).fit(X, Y)
    history = model.history_
    lengths = {len(getattr(history, name)) for name in ("objective", "step", "residual", "seconds")}
    assert lengths == {len(history.validation_score)}


# ---------------------------------------------------------------------- small and odd data

ODD = {
    "two samples": X[:2],
    "two samples of one feature": X[:2, :1],
    "one feature": X[:, :1],
    "more features than samples": np.random.default_rng(0).uniform(-1, 1, (5, 30)),
    "duplicated columns": X[:, [0, 0, 1, 1]],
    "duplicated samples": np.repeat(X[:10], 3, axis=0),
    "a constant column": np.column_stack([X, np.full(N, 3.0)]),
    "constant columns": np.full((N, 2), 3.0),
    "zeros": np.zeros((N, 2)),
}


@pytest.mark.few
@pytest.mark.pairs
@pytest.mark.parametrize("m", [1, 3, 90])
@pytest.mark.parametrize("kind", ODD)
def test_odd_data_give_the_dense_formula(on_double, kind, m):
    samples = ODD[kind]
    y = Y[: len(samples)]
    model = regressor(n_particles=m, ridge=1e-3, max_iter=4, penalty_strength=0.1)
    model.fit(on_double.put(samples), on_double.put(y))
    W = on_double.host(model.W_)
    alpha, c = bordered(kernel(samples, samples, W), y[:, None], 1e-3, np.ones(len(y)))
    new = 1.5 * samples
    expected = (kernel(new, samples, W) @ alpha + c)[:, 0]
    actual = on_double.host(model.predict(on_double.put(new)))
    np.testing.assert_allclose(actual, expected, atol=1e-7 * max(1.0, np.abs(expected).max()))


@pytest.mark.few
@pytest.mark.each
@pytest.mark.parametrize("options", [{"scaling": "standard"}, {"knots": 16}, {"knots": 2}])
@pytest.mark.parametrize("kind", ODD)
def test_odd_data_with_other_options(kind, options):
    samples = ODD[kind]
    y = Y[: len(samples)]
    model = regressor(max_iter=3, **options).fit(samples, y)
    assert np.all(np.isfinite(model.predict(1.5 * samples)))
    assert model.predict(samples).mean() == pytest.approx(y.mean(), abs=0.2 * np.std(y))


def test_units_of_the_samples_change_nothing_when_standardised():
    plain = regressor(scaling="standard").fit(X, Y).predict(NEW)
    tiny = regressor(scaling="standard").fit(1e-9 * X, Y).predict(1e-9 * NEW)
    np.testing.assert_allclose(tiny, plain, atol=1e-6)


@pytest.mark.each
@pytest.mark.parametrize("penalty", ["concave_feature", "concave_variable", "tune"])
@pytest.mark.parametrize("columns", ["one", "a constant", "twice"])
def test_samples_on_a_line_are_not_interpolated(penalty, columns):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 1_300)
    y = np.sin(2 * x) + 0.5 * rng.standard_normal(len(x))
    others = {"one": [], "a constant": [np.ones_like(x)], "twice": [2 * x]}[columns]
    rows = np.column_stack([x, *others])
    model = BKerNNRegressor(penalty=penalty, random_state=0).fit(rows[:300], y[:300])
    assert model.score(rows[300:], y[300:]) > 0.55  # 0.67 at best
    assert not model.penalty_.startswith("concave")
    if penalty != "tune":
        assert model.penalty_ == penalty.removeprefix("concave_")
