"""What the estimators promise: the formula, every place, weights, stopping, files, small data."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpukfl
from gpukfl import BKerNNClassifier, BKerNNRegressor, BrownianKernelRidge, feature_score
from gpukfl._rows import Rows
from gpukfl.datasets import make_single_direction
from gpukfl.estimators import _bkernn_problem, _classifier
from gpukfl.operators import BinnedBrownianKernel, BrownianKernel
from gpukfl.penalties import PENALTIES

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N, D, M = 60, 3, 12
RNG = np.random.default_rng(7)
X = RNG.uniform(-1, 1, (N, D))
NEW = RNG.uniform(-2, 2, (40, D))  # some beyond the samples
Y = np.abs(X @ [1.0, 0.5, 0.0]) + 0.1 * X[:, 2]
Y2 = np.stack([Y, 5.0 - 3.0 * X[:, 1]], axis=1)
LABELS = {
    2: np.where(X[:, 0] > 0, "yes", "no"),
    3: np.searchsorted([-0.4, 0.4], X[:, 0]) * 10,
    4: np.where(X[:, 0] > 0, 2, 0) + (X[:, 1] > 0),
}


def regressor(**options):
    defaults = {"n_particles": M, "max_iter": 5, "random_state": 0}
    return BKerNNRegressor(**{**defaults, **options})


def classifier(**options):
    defaults = {"n_particles": M, "max_iter": 5, "random_state": 0}
    return BKerNNClassifier(**{**defaults, **options})


def kernel(A, B, W):
    """Dense kernel between rows, up to what vanishes for coefficients that sum to zero."""
    gaps = np.abs((A @ W)[:, None, :] - (B @ W)[None, :, :])
    return -0.5 * gaps.mean(axis=2)


def spread(y):
    return np.std(y)


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
    model = BrownianKernelRidge(ridge=0.01).fit(X, Y2, sample_weight=weights if weighted else None)
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


# ---------------------------------------------------------------------- every place


@pytest.mark.parametrize("y", [Y, Y2], ids=["one target", "two targets"])
def test_results_live_where_the_data_live(on, y):
    model = regressor().fit(on.put(X), on.put(y))
    t = 1 if y.ndim == 1 else 2
    predicted = model.predict(on.put(NEW))
    assert tuple(predicted.shape) == (40, *y.shape[1:])
    learned = {
        (40, *y.shape[1:]): predicted,
        (40, model.n_effective_features_): model.transform(on.put(NEW)),
        (D, M): model.W_,
        (N, t): model.dual_coef_,
        (t,): model.intercept_,
        (D,): model.feature_importances_,
        (D, D): model.feature_matrix_,
        (model.n_effective_features_, D): model.components_,
    }
    for shape, array in learned.items():
        on.assert_lives_here(array)
        assert tuple(array.shape) == shape
    assert isinstance(model.score(on.put(X), on.put(y)), float)


def test_every_place_finds_the_same_function(on):
    expected = regressor(max_iter=3).fit(on.rounded(X), on.rounded(Y)).predict(on.rounded(NEW))
    model = regressor(max_iter=3).fit(on.put(X), on.put(Y))
    tolerance = {"float32": 5e-3, "float64": 1e-7}[on.dtype_name] * spread(Y)
    np.testing.assert_allclose(on.host(model.predict(on.put(NEW))), expected, atol=tolerance)


def test_ridge_without_features_lives_where_the_data_live(on):
    model = BrownianKernelRidge().fit(on.put(X), on.put(Y2))
    expected = BrownianKernelRidge().fit(on.rounded(X), on.rounded(Y2)).predict(on.rounded(NEW))
    predicted = model.predict(on.put(NEW))
    on.assert_lives_here(predicted)
    tolerance = {"float32": 1e-3, "float64": 1e-9}[on.dtype_name]
    np.testing.assert_allclose(on.host(predicted), expected, atol=tolerance)


def test_inputs_are_left_unchanged(on):
    data, targets = on.put(X), on.put(Y)
    model = regressor(standardize=True, early_stopping=True).fit(data, targets)
    model.predict(data)
    model.transform(data)
    np.testing.assert_array_equal(on.host(data), on.rounded(X))
    np.testing.assert_array_equal(on.host(targets), on.rounded(Y))


@pytest.mark.parametrize("k", LABELS)
def test_classes_on_every_place(on, k):
    labels = LABELS[k]
    model = classifier().fit(on.put(X), labels)
    proba, predicted = model.predict_proba(on.put(NEW)), model.predict(on.put(NEW))
    on.assert_lives_here(proba)
    proba = on.host(proba).astype(np.float64)
    assert proba.shape == (40, k)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=8 * on.eps)
    assert proba.min() >= 0
    if labels.dtype.kind == "i":
        assert type(predicted) is type(on.put(X))
        predicted = on.host(predicted)
    np.testing.assert_array_equal(predicted, model.classes_[np.argmax(proba, axis=1)])
    assert tuple(model.decision_function(on.put(NEW)).shape) == ((40,) if k == 2 else (40, k))
    assert model.score(on.put(X), labels) > 0.85


def test_labels_may_live_with_the_data(on_double):
    model = classifier().fit(on_double.put(X), on_double.put(LABELS[3]))
    assert list(model.classes_) == [0, 10, 20]
    predicted = model.predict(on_double.put(NEW))
    on_double.assert_lives_here(predicted)


@pytest.mark.parametrize(
    "labels",
    [X[:, 0] > 0, np.where(X[:, 0] > 0, 3, -7), LABELS[2].astype(object), LABELS[2].astype("U9")],
    ids=["bool", "int", "object", "text"],
)
def test_labels_of_any_kind_come_back(labels):
    model = classifier().fit(X, labels)
    assert set(model.predict(NEW)) == set(labels)
    assert model.predict(NEW).dtype == np.asarray(labels).dtype
    assert list(model.classes_) == sorted(set(labels))


def test_two_classes_are_one_regression():
    labels = X[:, 0] > 0
    model = classifier().fit(X, labels)
    fitted = regressor().fit(X, labels.astype(float))
    np.testing.assert_allclose(model.decision_function(NEW), fitted.predict(NEW) - 0.5, atol=1e-9)


def test_probabilities_are_the_nearest_on_the_simplex():
    scores = np.random.default_rng(3).normal(0.3, 0.5, (50, 4))
    projected = _classifier._project_on_simplex(scores)
    np.testing.assert_allclose(projected.sum(axis=1), 1.0, atol=1e-14)
    # x is the projection of s exactly if <s - x, p - x> <= 0 at every vertex p
    left = scores - projected
    slack = left - np.sum(left * projected, axis=1, keepdims=True)
    assert slack.max() <= 1e-14


def test_one_class_is_always_predicted():
    with pytest.warns(UserWarning, match="y is constant"):
        model = classifier().fit(X, ["only"] * N)
    assert set(model.predict(NEW)) == {"only"}
    np.testing.assert_array_equal(model.predict_proba(NEW), np.ones((40, 1)))


@pytest.mark.parametrize("make", [regressor, BrownianKernelRidge])
@pytest.mark.parametrize(("data", "asked"), [("float64", "float32"), ("float32", "float64")])
def test_dtype_sets_the_precision_inside_and_the_data_outside(make, data, asked):
    model = make(dtype=asked).fit(X.astype(data), Y)
    assert model.dual_coef_.dtype == asked
    assert model.predict(NEW.astype(data)).dtype == data


def test_another_backend_gives_back_the_library_of_the_data():
    pytest.importorskip("torch")
    model = regressor(backend="torch").fit(X, Y)
    assert model.place_.startswith("torch")
    assert type(model.predict(NEW)) is np.ndarray
    expected = regressor(backend="numpy").fit(X, Y).predict(NEW)
    np.testing.assert_allclose(model.predict(NEW), expected, atol=1e-6)


# ---------------------------------------------------------------------- weights


@pytest.mark.parametrize("options", [{}, {"standardize": True}, {"normalize_y": False}])
@pytest.mark.parametrize("make", [regressor, BrownianKernelRidge])
def test_integer_weights_are_repeated_rows(make, options):
    if make is BrownianKernelRidge and options:
        pytest.skip("has no such option")
    weights = np.random.default_rng(1).integers(1, 4, N)
    weighted = make(**options).fit(X, Y, sample_weight=weights)
    repeated = make(**options).fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights))
    assert weighted.ridge_ == pytest.approx(repeated.ridge_, rel=1e-12)
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
    weighted = classifier().fit(X, labels, sample_weight=weights)
    repeated = classifier().fit(np.repeat(X, weights, axis=0), np.repeat(labels, weights))
    np.testing.assert_allclose(weighted.predict_proba(NEW), repeated.predict_proba(NEW), atol=1e-6)


# ---------------------------------------------------------------------- options


def test_units_of_the_target_change_nothing():
    plain, scaled = regressor().fit(X, Y), regressor().fit(X, 1e3 * Y - 40.0)
    np.testing.assert_allclose(scaled.predict(NEW), 1e3 * plain.predict(NEW) - 40.0, rtol=1e-7)


def test_standardize_is_standardising_by_hand(on_double):
    wide = X * [1.0, 100.0, 0.01] + [0.0, 5.0, -3.0]
    mean, scale = wide.mean(axis=0), wide.std(axis=0)
    model = regressor(standardize=True).fit(on_double.put(wide), on_double.put(Y))
    by_hand = regressor().fit((wide - mean) / scale, Y)
    new = wide[:20] * 1.1
    predicted = on_double.host(model.predict(on_double.put(new)))
    np.testing.assert_allclose(predicted, by_hand.predict((new - mean) / scale), atol=1e-6)
    shown = on_double.host(model.transform(on_double.put(new)))
    np.testing.assert_allclose(shown, by_hand.transform((new - mean) / scale), atol=1e-5)


def test_standardize_keeps_the_precision_of_the_data():
    # No steps: rounding alone makes searches part ways
    options = {"standardize": True, "dtype": "float32", "max_iter": 0}
    near = regressor(**options).fit(X, Y).predict(NEW)
    far = regressor(**options).fit(X + 1e8, Y).predict(NEW + 1e8)
    np.testing.assert_allclose(far, near, atol=1e-2 * spread(Y))


def test_a_tensor_with_a_gradient_is_data_only():
    torch = pytest.importorskip("torch")
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
    model.set_params(warm_start=True, max_iter=0).fit(X, Y)
    np.testing.assert_array_equal(model.W_, W)
    model.set_params(n_particles=M + 1, max_iter=2).fit(X, Y)  # of another shape: starts anew
    assert model.W_.shape == (D, M + 1)


def test_warm_start_on_another_library():
    torch = pytest.importorskip("torch")
    model = regressor(max_iter=8).fit(torch.asarray(X), torch.asarray(Y))
    W = model.W_.numpy()
    model.set_params(warm_start=True, max_iter=0).fit(X, Y)
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


def test_a_stronger_penalty_learns_fewer_directions():
    sizes = [
        np.linalg.norm(regressor(penalty_strength=p, max_iter=20).fit(X, Y).W_) for p in (0.1, 3.0)
    ]
    assert sizes[1] < sizes[0]


def test_it_learns_the_direction():
    samples, y, P = make_single_direction(200, 8, noise=0.1)
    model = BKerNNRegressor(30, max_iter=30, random_state=0).fit(samples, y)
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


# ---------------------------------------------------------------------- knots


def test_knots_are_close_to_exact_and_the_error_is_reported():
    exact = regressor(max_iter=0).fit(X, Y)
    binned = regressor(max_iter=0, knots=64).fit(X, Y)
    assert (exact.n_knots_, binned.n_knots_) == (None, 64)
    assert exact.knots_error_ == 0.0
    np.testing.assert_allclose(binned.predict(NEW), exact.predict(NEW), atol=0.05 * spread(Y))
    W, alpha = binned.W_, binned.dual_coef_
    true = kernel(X, X, W) @ alpha
    used = BinnedBrownianKernel.of(Rows(X, X[:0, 0]), W, n_knots=64) @ alpha
    gap = used - true
    expected = np.linalg.norm(gap - gap.mean()) / np.linalg.norm(true - true.mean())
    assert binned.knots_error_ == pytest.approx(expected, rel=1e-3)
    assert 0 < binned.knots_error_ < 1e-2


def test_more_knots_are_closer_to_exact():
    errors = [regressor(knots=q).fit(X, Y).knots_error_ for q in (8, 64, 512)]
    assert errors[0] > 4 * errors[1] > 16 * errors[2] > 0  # at least of first order


def test_knots_on_every_place(on):
    expected = regressor(knots=32, max_iter=3).fit(on.rounded(X), on.rounded(Y))
    model = regressor(knots=32, max_iter=3).fit(on.put(X), on.put(Y))
    tolerance = {"float32": 1e-2, "float64": 1e-6}[on.dtype_name] * spread(Y)
    np.testing.assert_allclose(
        on.host(model.predict(on.put(NEW))), expected.predict(on.rounded(NEW)), atol=tolerance
    )
    assert model.knots_error_ == pytest.approx(expected.knots_error_, rel=0.2)


def test_auto_bins_when_memory_is_short_and_says_so(capfd):
    with gpukfl.memory_budget(2**14):
        model = regressor(max_iter=1, verbose=1).fit(X, Y)
    assert model.n_knots_ == 4096
    assert "knots='auto' chose 4096 knots" in capfd.readouterr().err
    assert regressor(max_iter=1).fit(X, Y).n_knots_ is None


@pytest.fixture
def on_disk(tmp_path):
    """A float32 memory map of the samples."""
    path = tmp_path / "X.dat"
    X.astype("float32").tofile(path)
    return np.memmap(path, dtype="float32", mode="r", shape=X.shape)


@pytest.mark.parametrize(
    "options", [{"knots": 64}, {"knots": None}, {"knots": 16, "standardize": True}]
)
def test_a_memory_map_is_its_array(on_disk, options):
    expected = regressor(**options).fit(np.array(on_disk), Y)
    model = regressor(**options).fit(on_disk, Y)
    assert model.W_.dtype == np.float32
    np.testing.assert_array_equal(model.predict(on_disk), expected.predict(np.array(on_disk)))
    np.testing.assert_array_equal(model.transform(on_disk), expected.transform(np.array(on_disk)))


def test_a_memory_map_in_small_blocks(on_disk):
    expected = regressor(knots=64, max_iter=3).fit(np.array(on_disk), Y).predict(on_disk)
    with gpukfl.memory_budget(2**11):
        blocked = regressor(knots=64, max_iter=3).fit(on_disk, Y).predict(on_disk)
    np.testing.assert_allclose(blocked, expected, atol=1e-3)


def test_early_stopping_holds_out_the_last_rows_of_a_memory_map(on_disk):
    model = regressor(knots=64, early_stopping=True).fit(on_disk, Y)
    last = slice(N - 6, N)
    best = max(model.history_.validation_score)
    assert model.score(on_disk[last], Y[last]) == pytest.approx(best, rel=1e-3)


def test_a_memory_map_is_checked_to_its_end(tmp_path):
    path = tmp_path / "X.dat"
    np.vstack([X[:-1], np.full((1, D), np.nan)]).tofile(path)
    samples = np.memmap(path, dtype="float64", mode="r", shape=X.shape)
    with pytest.raises(ValueError, match="X contains NaN"):
        regressor(knots=64).fit(samples, Y)


@pytest.mark.parametrize("tolerance", [1e-1, 1e-2, 1e-3])
def test_thinning_keeps_its_tolerance(on_double, tolerance):
    many = np.random.default_rng(0).uniform(-1, 1, (200, D))
    y = 100 * np.sin(3 * many[:, 0])
    options = {"max_iter": 1, "n_particles": 5}
    exact = regressor(knot_tolerance=0, **options).fit(on_double.put(many), on_double.put(y))
    thin = regressor(knot_tolerance=tolerance, **options).fit(on_double.put(many), on_double.put(y))
    here = on_double.put(np.vstack([many, 2 * many]))
    error = np.abs(on_double.host(exact.predict(here)) - on_double.host(thin.predict(here)))
    assert error.max() <= tolerance * spread(y) * (1 + 1e-9)
    assert thin.shape_functions_.knots.shape[1] < exact.shape_functions_.knots.shape[1]


# ---------------------------------------------------------------------- interruption


def interrupt(monkeypatch, owner, name, after):
    """Make a method raise as Ctrl-C would, at one call only."""
    method, calls = getattr(owner, name), [0]

    def interrupted(*args, **kwargs):
        calls[0] += 1
        if calls[0] == after + 1:
            raise KeyboardInterrupt
        return method(*args, **kwargs)

    monkeypatch.setattr(owner, name, interrupted)


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


# ---------------------------------------------------------------------- copies and files


@pytest.mark.parametrize("make", [regressor, classifier, BrownianKernelRidge])
def test_a_pickle_is_a_numpy_model_with_the_same_predictions(on, make):
    y = LABELS[3] if make is classifier else on.put(Y)
    model = make().fit(on.put(X), y)
    expected = on.host(model.predict(on.put(NEW)))
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), model.to_host()):
        predicted = twin.predict(NEW.astype(on.dtype_name))
        assert type(predicted) is np.ndarray
        np.testing.assert_allclose(predicted, expected, rtol=0, atol=100 * on.eps)
    on.host(model.predict(on.put(NEW)))  # the original still works where it was fitted


@pytest.mark.parametrize("make", [regressor, classifier, BrownianKernelRidge])
def test_a_pickle_names_no_other_library(make):
    torch = pytest.importorskip("torch")
    y = LABELS[3] if make is classifier else Y
    data = pickle.dumps(make().fit(torch.asarray(X), y))
    assert b"torch" not in data.replace(b"torch cpu", b"")  # `place_` tells where it was computed


def test_a_clone_has_the_parameters_only():
    model = regressor(penalty="variable", knots=32).fit(X, Y)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert not hasattr(twin, "W_")


def test_parameters_are_left_as_given():
    given = regressor(ridge="auto", n_particles="auto", step_size="auto").get_params()
    assert regressor(**given).fit(X, Y).get_params() == given


def test_it_can_be_searched_and_piped():
    pipe = make_pipeline(StandardScaler(), regressor(max_iter=2))
    search = GridSearchCV(pipe, {"bkernnregressor__ridge": [1e-3, 1e3]}, cv=2).fit(X, Y)
    assert search.best_params_ == {"bkernnregressor__ridge": 1e-3}
    piped = make_pipeline(regressor(), BrownianKernelRidge()).fit(X, Y)  # on learned features
    first = regressor().fit(X, Y)
    second = BrownianKernelRidge().fit(first.transform(X), Y)
    np.testing.assert_array_equal(piped.predict(NEW), second.predict(first.transform(NEW)))


def test_learned_features_come_as_a_frame():
    model = regressor().set_output(transform="pandas").fit(X, Y)
    frame = model.transform(pd.DataFrame(NEW, index=range(100, 140)))
    assert list(frame.columns) == list(model.get_feature_names_out())
    assert list(frame.index) == list(range(100, 140))
    np.testing.assert_allclose(frame.to_numpy(), NEW @ model.components_.T, atol=1e-12)


@pytest.mark.parametrize("ridge", [1e-2, 1e6], ids=["learned", "W = 0"])
def test_names_and_features_are_as_many_as_directions(ridge):
    model = regressor(ridge=ridge).fit(X, Y)
    k = model.n_effective_features_
    assert model.components_.shape == (k, D)
    assert model.transform(NEW).shape == (40, k)
    assert len(model.get_feature_names_out()) == k


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


@pytest.mark.parametrize("options", [{"standardize": True}, {"knots": 16}, {"knots": 2}])
@pytest.mark.parametrize("kind", ODD)
def test_odd_data_with_other_options(kind, options):
    samples = ODD[kind]
    y = Y[: len(samples)]
    model = regressor(max_iter=3, **options).fit(samples, y)
    assert np.all(np.isfinite(model.predict(1.5 * samples)))
    assert model.predict(samples).mean() == pytest.approx(y.mean(), abs=0.2 * np.std(y))


def test_units_of_the_samples_change_nothing_when_standardised():
    plain = regressor(standardize=True).fit(X, Y).predict(NEW)
    tiny = regressor(standardize=True).fit(1e-9 * X, Y).predict(1e-9 * NEW)
    np.testing.assert_allclose(tiny, plain, atol=1e-6)
