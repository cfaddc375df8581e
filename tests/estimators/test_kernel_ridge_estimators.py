"""Kernel ridge regression: its solution against oracles, what is chosen, odd data, classes."""

import warnings

import numpy as np
import oracles
import pytest
from near_copies import near_copies
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import pairwise

from gpukfl import KernelRidgeClassifier, KernelRidgeRegressor
from gpukfl.estimators.kernel_ridge import _fit as _method
from gpukfl.kernels import KERNELS, Gaussian, Linear
from gpukfl.methods import _kernel_ridge as _kernel_ridge_fit

pytestmark = pytest.mark.filterwarnings("ignore:the best ridge:UserWarning")

N, D = 70, 3
RNG = np.random.default_rng(17)
X = RNG.uniform(-1, 1, (N, D))
NEW = RNG.uniform(-1.2, 1.2, (40, D))
Y = np.sin(3 * X[:, 0]) + 0.5 * X[:, 1] + 0.05 * RNG.standard_normal(N)
Y = Y - Y.mean()
Y2 = np.stack([Y, X[:, 2] ** 2 - np.mean(X[:, 2] ** 2)], axis=1)
WEIGHTS = RNG.uniform(0.2, 3.0, N)
LABELS = np.array(["low", "mid", "high"])[np.searchsorted([-0.4, 0.4], X[:, 0])]

ELL = 0.8
ORACLES = {
    "brownian": lambda A, B: oracles.brownian_motion(A, B, ELL),
    "gaussian": lambda A, B: oracles.gaussian(A, B, ELL),
    "gaussian_mixture": lambda A, B: (
        0.5 * oracles.gaussian(A, B, ELL * 2**0.5) + 0.5 * oracles.gaussian(A, B, ELL / 2**0.5)
    ),
    "inverse_manhattan": lambda A, B: 1.0 / (1.0 + pairwise.manhattan_distances(A, B) / ELL),
    "inverse_multiquadric": lambda A, B: oracles.inverse_multiquadric(A, B, ELL),
    "laplace": lambda A, B: oracles.laplace(A, B, ELL),
    "linear": lambda A, B: A @ B.T / ELL**2,
    "manhattan_laplace": lambda A, B: oracles.manhattan_laplace(A, B, ELL),
    "manhattan_mixture": lambda A, B: (
        0.5 * oracles.manhattan_laplace(A, B, 2.0 * ELL)
        + 0.5 * oracles.manhattan_laplace(A, B, 0.5 * ELL)
    ),
    "matern32": lambda A, B: oracles.matern32(A, B, ELL),
    "matern52": lambda A, B: oracles.matern52(A, B, ELL),
    "polynomial": lambda A, B: oracles.polynomial(A, B, ELL, 3, 1.0),
    "power_exponential": lambda A, B: oracles.laplace(A, B, ELL),
    "rational_quadratic": lambda A, B: oracles.rational_quadratic(A, B, ELL, 1.0),
}
UNBOUNDED = ["linear", "polynomial", "brownian"]
SOLVERS = {
    "direct": {"solver": "direct"},
    "cg": {"solver": "cg", "n_centers": 30, "tol": 1e-10},
    "falkon": {"solver": "falkon", "n_centers": N, "tol": 1e-10},
    "normal equations": {"solver": "direct", "n_centers": 40},
    "few": {"solver": "falkon", "n_centers": 40, "tol": 1e-10},
}
SELECTIONS = ["uniform", "leverage", "pivoted"]


def regressor(**options):
    defaults = {"lengthscale": ELL, "ridge": 1e-3, "scaling": None, "random_state": 0}
    return KernelRidgeRegressor(**{**defaults, **options})


def by_sklearn(kernel, ridge, A, y, new, weights=None):
    """Predictions of scikit-learn's, whose alpha is not divided by the number of samples."""
    total = len(A) if weights is None else weights.sum()
    model = KernelRidge(alpha=total * ridge, kernel="precomputed")
    model.fit(kernel(A, A), y, sample_weight=weights)
    return model.predict(kernel(new, A))


def by_centers(kernel, ridge, A, y, new, centers, weights=None, jitter=0.0):
    """Predictions of the normal equations of given centres, by least squares."""
    w = np.ones(len(A)) if weights is None else weights
    K, core = kernel(A, centers), kernel(centers, centers)
    core = core + jitter * np.mean(np.diag(core)) * np.eye(len(core))
    system = K.T @ (w[:, None] * K) + w.sum() * ridge * core
    right = K.T @ (w[:, None] * y.reshape(len(y), -1))
    alpha = np.linalg.lstsq(system, right, rcond=1e-14)[0]
    return (kernel(new, centers) @ alpha).reshape(len(new), *y.shape[1:])


# ---------------------------------------------------------------------- the solution


def test_every_kernel_has_an_oracle():
    assert set(ORACLES) == set(KERNELS)


@pytest.mark.pairs
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("y", [Y, Y2], ids=["one target", "two targets"])
@pytest.mark.parametrize("name", KERNELS)
def test_it_is_scikit_learns(name, y, weights):
    # The mean is subtracted first, which scikit-learn does not do
    y = y - np.average(y, axis=0, weights=weights)
    model = regressor(kernel=name).fit(X, y, sample_weight=weights)
    expected = by_sklearn(ORACLES[name], 1e-3, X, y, NEW, weights)
    np.testing.assert_allclose(model.predict(NEW), expected, atol=1e-9 * np.abs(expected).max())
    assert (model.solver_, model.status_, model.jitter_) == ("direct", "CONVERGED", 0.0)
    assert model.solve_residual_ < 1e-10


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_as_a_value_is_its_name(name):
    model = regressor(kernel=KERNELS[name](lengthscale=ELL), lengthscale="auto").fit(X, Y)
    assert model.lengthscale_ == 1.0
    np.testing.assert_allclose(model.predict(NEW), regressor(kernel=name).fit(X, Y).predict(NEW))


def test_a_sum_of_kernels_is_the_sum_of_matrices():
    model = regressor(kernel=Gaussian(ELL) + 0.1 * Linear(2.0), lengthscale=1.0).fit(X, Y)

    def kernel(A, B):
        return oracles.gaussian(A, B, ELL) + 0.1 * A @ B.T / 4.0

    expected = by_sklearn(kernel, 1e-3, X, Y, NEW)
    np.testing.assert_allclose(model.predict(NEW), expected, atol=1e-9)


@pytest.mark.pairs
@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_on_every_place(on, solver, selection):
    if selection != "uniform" and SOLVERS[solver].get("n_centers", N) == N:
        pytest.skip("takes all samples")
    A, y, new = on.rounded(X), on.rounded(Y2), on.rounded(NEW)
    model = regressor(center_selection=selection, **SOLVERS[solver]).fit(on.put(X), on.put(Y2))
    kernel = ORACLES["gaussian"]
    centers = on.host(model.centers_).astype(np.float64)
    assert len(centers) == (40 if solver in ("normal equations", "few") else N)
    y = y - y.mean(axis=0)
    if solver in ("direct", "cg"):
        expected = by_sklearn(kernel, 1e-3, A, y, new)
    else:
        expected = by_centers(kernel, 1e-3, A, y, new, centers, jitter=model.jitter_)
        assert model.jitter_ <= 1e-7  # far below the ridge
        assert all(np.any(np.all(center == A, axis=1)) for center in centers)
    predicted = model.predict(on.put(NEW))
    on.assert_lives_here(predicted)
    loose = 2e-3 if model.solver_ == "falkon" else 2e-5
    tolerance = {"float32": loose, "float64": 1e-7}[on.dtype_name]
    np.testing.assert_allclose(
        on.host(predicted), expected + on.rounded(Y2).mean(axis=0), atol=tolerance
    )
    on.assert_lives_here(model.dual_coef_, "float64")
    on.assert_lives_here(model.centers_)


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_takes_weights(on_double, solver):
    model = regressor(**SOLVERS[solver])
    model.fit(on_double.put(X), on_double.put(Y2), sample_weight=WEIGHTS)
    mean = np.average(Y2, axis=0, weights=WEIGHTS)
    centers = on_double.host(model.centers_)
    expected = by_centers(ORACLES["gaussian"], 1e-3, X, Y2 - mean, NEW, centers, WEIGHTS) + mean
    predicted = on_double.host(model.predict(on_double.put(NEW)))
    np.testing.assert_allclose(predicted, expected, atol=1e-6)


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("name", UNBOUNDED)
def test_kernels_without_a_bound_have_centers(name, selection):
    options = {"kernel": name, "center_selection": selection, "solver": "direct", "n_centers": 30}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 3 and 20 dimensions, 30 centres
        model = regressor(**options).fit(X, Y)
    expected = by_centers(ORACLES[name], 1e-3, X, Y, NEW, model.centers_)
    np.testing.assert_allclose(model.predict(NEW), expected, atol=1e-4)


MORE = [{"ridge": "auto", "scaling": "standard"}, {"lengthscale": "auto"}]


@pytest.mark.parametrize("options", [*SOLVERS.values(), *MORE], ids=str)
def test_integer_weights_are_repeated_rows(options):
    if options.get("n_centers", N) < N and options["solver"] != "cg":
        pytest.skip("centres are drawn")
    if options.get("solver") == "falkon":
        pytest.skip("repeated rows are repeated centres: singular")
    counts = np.random.default_rng(1).integers(0, 4, N)
    weighted = regressor(**options).fit(X, Y, sample_weight=counts)
    chosen = "auto" in (options.get("ridge"), options.get("lengthscale"))  # without each sample
    repeated = np.repeat(X, counts, axis=0) if chosen else near_copies(X, counts)
    repeated = regressor(**options).fit(repeated, np.repeat(Y, counts))
    assert weighted.ridge_ == pytest.approx(repeated.ridge_, rel=1e-12)
    assert weighted.lengthscale_ == pytest.approx(repeated.lengthscale_, rel=1e-9)
    np.testing.assert_allclose(weighted.predict(NEW), repeated.predict(NEW), atol=1e-6)


def test_units_of_the_target_change_nothing():
    plain, scaled = regressor().fit(X, Y), regressor().fit(X, 1e3 * Y - 40.0)
    np.testing.assert_allclose(scaled.predict(NEW), 1e3 * plain.predict(NEW) - 40.0, rtol=1e-9)


def test_standardize_is_standardising_by_hand(on_double):
    wide = X * [1.0, 100.0, 0.01] + [0.0, 5.0, 1e6]
    mean, scale = wide.mean(axis=0), wide.std(axis=0)
    model = regressor(scaling="standard").fit(on_double.put(wide), on_double.put(Y))
    by_hand = regressor().fit((wide - mean) / scale, Y).predict((wide[:9] - mean) / scale)
    predicted = on_double.host(model.predict(on_double.put(wide[:9])))
    np.testing.assert_allclose(predicted, by_hand, atol=1e-7)


# ---------------------------------------------------------------------- what is chosen


def test_the_ridge_is_the_lowest_of_its_path():
    model = regressor(ridge="auto").fit(X, Y)
    path = model.ridge_path_
    assert model.ridge_ == path.ridges[int(np.argmin(path.scores))]
    assert regressor().fit(X, Y).ridge_path_ is None


@pytest.mark.parametrize("options", [{}, {"solver": "direct", "n_centers": 90}, {"solver": "cg"}])
def test_the_chosen_ridge_is_near_the_best(options):
    rng = np.random.default_rng(3)
    A, new = rng.uniform(-1, 1, (300, 2)), rng.uniform(-1, 1, (500, 2))
    truth = np.sin(4 * new[:, 0]) + new[:, 1]
    y = np.sin(4 * A[:, 0]) + A[:, 1] + 0.3 * rng.standard_normal(300)
    options = {"lengthscale": 0.4, **options}
    scores = [
        regressor(**{**options, "ridge": ridge}).fit(A, y).score(new, truth)
        for ridge in np.geomspace(1e-6, 1, 13)
    ]
    model = regressor(**{**options, "ridge": "auto"}).fit(A, y)
    assert model.score(new, truth) > max(scores) - 0.01
    assert max(scores) > scores[0] + 0.02  # a choice that matters
    assert max(scores) > scores[-1] + 0.05


@pytest.mark.parametrize("dense_up_to", [2000, 10])
def test_weights_are_repeated_rows_in_the_choice_of_the_ridge(monkeypatch, dense_up_to):
    monkeypatch.setattr(_kernel_ridge_fit, "_PATH_DENSE", dense_up_to)
    counts = np.random.default_rng(1).integers(1, 4, N)
    weighted = regressor(ridge="auto").fit(X, Y, sample_weight=counts).ridge_path_
    repeated = regressor(ridge="auto").fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts))
    high = np.asarray(weighted.ridges) > 1e-4  # where the jitter of equal centres is not seen
    expected = np.asarray(repeated.ridge_path_.scores)[high]
    np.testing.assert_allclose(np.asarray(weighted.scores)[high], expected, rtol=1e-3)


def test_the_ridge_of_few_centers_is_near_the_best(monkeypatch):
    monkeypatch.setattr(_kernel_ridge_fit, "_PATH_DENSE", 10)
    rng = np.random.default_rng(3)
    A, new = rng.uniform(-1, 1, (700, 2)), rng.uniform(-1, 1, (500, 2))
    y, truth = (np.sin(4 * B[:, 0]) + B[:, 1] for B in (A, new))
    y = y + 0.5 * rng.standard_normal(700)
    options = {"solver": "direct", "n_centers": 30}  # generalised cross-validation
    grid = np.geomspace(1e-9, 1, 19)
    scores = [regressor(ridge=r, **options).fit(A, y).score(new, truth) for r in grid]
    assert regressor(ridge="auto", **options).fit(A, y).score(new, truth) > max(scores) - 0.01
    assert max(scores) > scores[-1] + 0.1


def test_a_ridge_at_the_edge_is_reported():
    with pytest.warns(UserWarning, match="best ridge, .*edge of those tried: the lengthscale may"):
        regressor(ridge="auto", lengthscale=10.0).fit(X, np.sin(X[:, 0]))


def test_the_lengthscale_is_the_median_distance():
    gaps = np.linalg.norm(X[:, None] - X[None], axis=2)[np.triu_indices(N, 1)]
    assert regressor(lengthscale="median").fit(X, Y).lengthscale_ == pytest.approx(np.median(gaps))
    few = regressor(lengthscale="auto").fit(X[:10], Y[:10])  # of which none can be spared
    assert few.lengthscale_ == regressor(lengthscale="median").fit(X[:10], Y[:10]).lengthscale_


@pytest.mark.parametrize("weighted", [False, True])
def test_the_lengthscale_predicts_left_out_samples(weighted):
    weights = RNG.uniform(0.5, 2.0, N) if weighted else None
    options = {"kernel": "laplace", "ridge": 1e-3}
    chosen = regressor(lengthscale="auto", **options).fit(X, Y, sample_weight=weights)
    typical = regressor(lengthscale="median", **options).fit(X, Y, sample_weight=weights)
    stretch = chosen.lengthscale_ / typical.lengthscale_
    assert stretch == pytest.approx(2.0 ** np.round(np.log2(stretch)))

    D = np.ones(N) if weights is None else weights
    mean = np.average(Y, weights=D)

    def error(model):
        K = oracles.laplace(X, X, model.lengthscale_)
        shift = D.sum() * model.ridge_
        return oracles.left_out_errors((K, K), (Y - mean)[:, None], D[:, None], shift)

    for factor in (0.5, 2.0):
        if 0.25 <= stretch * factor <= 8.0:
            other = regressor(lengthscale=chosen.lengthscale_ * factor, **options)
            other.fit(X, Y, sample_weight=weights)
            assert error(chosen) < 1.01 * error(other)


def test_fits_to_about_the_same_rows_share_a_lengthscale():
    one, other = KernelRidgeRegressor(random_state=0), KernelRidgeRegressor(random_state=0)
    known = one.fit_like(X[10:], Y[10:], None, None)
    other.fit_like(X[:-10] * 3.0, Y[:-10], None, known)
    assert other.lengthscale_ == one.lengthscale_
    assert other.ridge_path_ is not None  # the ridge is its own
    same = KernelRidgeRegressor(lengthscale=one.lengthscale_, random_state=0)
    same.fit(X[:-10] * 3.0, Y[:-10])
    np.testing.assert_allclose(other.predict(NEW), same.predict(NEW), rtol=1e-9)


def test_of_many_rows_a_ridge_of_another_fit_is_kept(monkeypatch):
    monkeypatch.setattr("gpukfl.estimators.kernel_ridge._estimator._KEPT_FROM", len(X) - 10)
    one, other = KernelRidgeRegressor(random_state=0), KernelRidgeRegressor(random_state=0)
    known = one.fit_like(X[10:], Y[10:], None, None)
    other.fit_like(X[:-10] * 3.0, Y[:-10], None, known)
    assert other.ridge_ == one.ridge_
    assert other.ridge_path_ is None
    given = {"lengthscale": one.lengthscale_, "ridge": one.ridge_}
    same = KernelRidgeRegressor(**given, random_state=0).fit(X[:-10] * 3.0, Y[:-10])
    np.testing.assert_array_equal(other.predict(NEW), same.predict(NEW))


def test_a_classifiers_calibration_measures_no_other_lengthscale(monkeypatch):
    asked = []
    measured = _method.leave_one_out_lengthscale
    monkeypatch.setattr(
        _method, "leave_one_out_lengthscale", lambda *a, **k: asked.append(1) or measured(*a, **k)
    )
    KernelRidgeClassifier(random_state=0).fit(X, LABELS)
    assert len(asked) == 1


def test_auto_takes_centers_where_there_are_many(monkeypatch):
    monkeypatch.setattr(_kernel_ridge_fit, "_DENSE_UP_TO", 30)
    few = regressor().fit(X, Y)
    assert (few.solver_, len(few.centers_)) == ("cg", N)
    monkeypatch.setattr(_kernel_ridge_fit, "_EXACT_UP_TO", 60)
    many = np.random.default_rng(0).uniform(-1, 1, (1200, D))
    model = regressor().fit(many, many[:, 0])
    assert (model.solver_, len(model.centers_)) == ("direct", 1000)
    monkeypatch.setattr(_kernel_ridge_fit, "_GRAM_UP_TO", 900)
    assert regressor().fit(many, many[:, 0]).solver_ == "falkon"


def test_more_centers_than_samples_are_all_of_them():
    with pytest.warns(UserWarning, match="n_centers=71 is more than the 70 rows"):
        model = regressor(n_centers=71).fit(X, Y)
    assert model.centers_.shape == (N, D)
    np.testing.assert_array_equal(model.predict(NEW), regressor().fit(X, Y).predict(NEW))


@pytest.mark.parametrize("solver", ["cg", "falkon"])
def test_too_few_iterations_warn(solver):
    options = {"solver": solver, "n_centers": 10, "max_iter": 1, "ridge": 1e-8, "tol": 1e-12}
    with pytest.warns(ConvergenceWarning, match=r"relative residual .*: max_iter was reached"):
        model = regressor(**options).fit(X, Y)
    assert (model.status_, model.n_iter_) == ("MAX_ITER", 1)
    assert model.solve_residual_ > 1e-12


# ---------------------------------------------------------------------- odd data


@pytest.mark.parametrize("options", [{}, {"solver": "falkon"}, {"solver": "cg"}], ids=str)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_ridge_with_duplicated_rows(options):
    twice = near_copies(X[:20], 2)
    model = regressor(ridge=0, **options).fit(twice, np.repeat(Y[:20], 2))
    np.testing.assert_allclose(model.predict(X[:20]), Y[:20], atol=0.05)


def test_a_singular_matrix_says_what_was_added():
    with pytest.warns(ConvergenceWarning, match=r"singular in this precision: \S+ of its mean"):
        model = regressor(ridge=0).fit(near_copies(X[:20], 2), np.repeat(Y[:20], 2))
    assert 0 < model.jitter_ < 1e-6


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_a_linear_kernel_is_singular_without_a_loss():
    twice = np.concatenate([X, 2.0 * X], axis=1)
    options = {"kernel": Linear(offset=100.0), "ridge": 1e-9, "n_centers": 2 * D + 2}
    found = regressor(**options).fit(twice, X @ np.arange(1.0, D + 1)).predict(twice)
    np.testing.assert_allclose(found, X @ np.arange(1.0, D + 1), atol=1e-3)


@pytest.mark.pairs
@pytest.mark.parametrize(
    "samples",
    [X[:2], X[:2, :1], X[:5, :1], np.ones((N, 2)), np.zeros((N, 2)), np.tile(X[:, :1], (1, 4))],
    ids=["two", "two of one feature", "one feature", "ones", "zeros", "equal columns"],
)
@pytest.mark.parametrize("options", [{"ridge": "auto"}, {"solver": "cg"}, {"solver": "falkon"}])
@pytest.mark.parametrize("name", ["gaussian", "linear", "brownian"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_odd_samples_are_fitted(samples, options, name):
    y = Y[: len(samples)]
    model = regressor(kernel=name, lengthscale="auto", **options).fit(samples, y)
    predicted = model.predict(1.5 * samples)
    assert np.all(np.isfinite(predicted))
    assert np.abs(predicted).max() < 100
    if len(samples) == N and len(np.unique(samples, axis=0)) == 1:
        np.testing.assert_allclose(model.predict(samples), y.mean(), atol=1e-6)


def test_one_of_many_targets_may_be_constant():
    y = np.column_stack([Y, np.full(N, 4.0)])
    model = regressor().fit(X, y)
    np.testing.assert_allclose(model.predict(NEW)[:, 1], 4.0, rtol=1e-12)
    np.testing.assert_allclose(model.predict(NEW)[:, 0], regressor().fit(X, Y).predict(NEW))


# ---------------------------------------------------------------------- classes


@pytest.mark.parametrize("options", [{}, {"n_centers": 40, "solver": "direct"}], ids=str)
def test_classes_on_every_place(on, options):
    model = KernelRidgeClassifier(ridge=1e-3, random_state=0, **options).fit(on.put(X), LABELS)
    proba = model.predict_proba(on.put(NEW))
    on.assert_lives_here(proba)
    proba = on.host(proba).astype(np.float64)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=8 * on.eps)
    np.testing.assert_array_equal(
        model.predict(on.put(NEW)), model.classes_[np.argmax(proba, axis=1)]
    )
    assert model.score(on.put(X), LABELS) > 0.9


def test_two_classes_are_one_regression():
    labels = X[:, 0] > 0
    model = KernelRidgeClassifier(ridge=1e-3, lengthscale=ELL, scaling=None).fit(X, labels)
    fitted = regressor().fit(X, labels.astype(float))
    np.testing.assert_allclose(model.decision_function(NEW), fitted.predict(NEW) - 0.5, atol=1e-9)


@pytest.mark.few
@pytest.mark.parametrize("solver", ["direct", "cg", "falkon"])
def test_a_small_ridge_in_single_precision_is_resolved_or_told(solver, rng):
    samples = rng.standard_normal((1200, 3))
    y = np.sin(1.5 * samples[:, 0]) + samples[:, 1] * samples[:, 2]
    y = y + 0.1 * rng.standard_normal(len(y))
    model = KernelRidgeRegressor(
        "gaussian", lengthscale=10.0, solver=solver, ridge=2e-8, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(samples, y)
        KernelRidgeRegressor(ridge=1e-4, solver=solver, random_state=0).fit(
            samples.astype(np.float32), y
        )
        expected = model.predict(NEW[:, :3])
        if solver != "falkon":
            single = model.fit(samples.astype(np.float32), y).predict(NEW[:, :3].astype(np.float32))
            np.testing.assert_allclose(single, expected, atol=5e-3)
            return
    with pytest.warns(UserWarning, match="at a ridge of 2.0e-08 .* or float64 data"):
        model.fit(samples.astype(np.float32), y)


@pytest.mark.filterwarnings("ignore:at a ridge of 0:UserWarning")
def test_a_factor_that_leaves_much_of_the_targets_has_stalled(rng):
    """A linear function is not y, whatever the ridge: without one nothing else is solved."""
    X = rng.standard_normal((100, 3))
    y = X[:, 0] + rng.standard_normal(100)
    with pytest.warns(ConvergenceWarning) as caught:
        model = KernelRidgeRegressor(Linear(), ridge=0.0, scaling=None).fit(X, y)
    assert model.solver_ == "direct"
    assert model.solve_residual_ > 1e-3
    assert model.status_ == "STALLED"
    assert any("relative residual" in str(warning.message) for warning in caught)
    assert KernelRidgeRegressor(Linear(), ridge=1e-6).fit(X, y).status_ == "CONVERGED"
