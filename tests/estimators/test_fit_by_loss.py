"""Losses of regressions: against scikit-learn's, and laws that hold for every method."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import (
    GammaRegressor,
    PoissonRegressor,
    QuantileRegressor,
    TweedieRegressor,
)
from sklearn.metrics import d2_pinball_score, d2_tweedie_score, mean_tweedie_deviance

import gpukfl
from gpukfl import (
    BKerNNRegressor,
    HKRRRegressor,
    KernelFeatureSelector,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    RegFeaLRegressor,
    RKHSWeightingRegressor,
)
from gpukfl.kernels import Linear
from gpukfl.losses import LOSSES, Absolute, Gamma, Huber, Poisson, Quantile, Tweedie, make_loss

NAMES = ("absolute", "quantile:0.8", "huber", "poisson", "gamma", "tweedie:1.5")
METHODS = (
    KernelRidgeRegressor,
    HKRRRegressor,
    BKerNNRegressor,
    RegFeaLRegressor,
    KernelFeatureSelector,
    RKHSWeightingRegressor,
)


def draw_means(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.exp(0.5 + 0.6 * X[:, 0] - 0.3 * X[:, 1]), rng


def draw_targets(name, n, seed=0):
    """Targets whose law is that of the loss: counts, amounts, or claims that are mostly 0."""
    X, mean, rng = draw_means(n, seed)
    if name == "gamma":
        return X, rng.gamma(2.0, mean / 2.0)
    if name.startswith("tweedie"):
        claims = rng.poisson(mean / 2.0)
        return X, np.array([rng.gamma(1.0, 2.0, k).sum() for k in claims])
    if name == "poisson":
        return X, rng.poisson(mean).astype(float)
    return X, mean + rng.standard_t(2, n)


def fit_linear(loss, X, y, **given):
    return KernelRidgeRegressor(
        Linear(offset=1e4), ridge=1e-3, scaling=None, solver="direct", loss=loss, **given
    ).fit(X, y)


# ------------------------------------------------------------------------------ oracles


@pytest.mark.parametrize(
    ("loss", "make"),
    [
        ("poisson", PoissonRegressor),
        ("gamma", GammaRegressor),
        (Tweedie(1.5), lambda **given: TweedieRegressor(power=1.5, link="log", **given)),
    ],
)
def test_a_linear_kernel_is_scikit_learns_model_of_the_same_penalty(loss, make):
    name = make_loss(loss).name
    X, y = draw_targets(name, 300)
    model = fit_linear(loss, X, y)
    power = {"poisson": 1.0, "gamma": 2.0, "tweedie": 1.5}[name]
    mean = model.predict(X)
    # Weights have mean 1: the penalty is in units of their mean
    alpha = 1e-3 * np.mean(mean ** (2.0 - power))
    oracle = make(alpha=alpha, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(mean, oracle.predict(X), rtol=2e-4)


def test_a_linear_quantile_loses_no_more_than_scikit_learns():
    X, y = draw_targets("quantile", 400)
    model = fit_linear("quantile:0.8", X, y)
    oracle = QuantileRegressor(quantile=0.8, alpha=0.0).fit(X, y)
    own, best = (d2_pinball_score(y, one.predict(X), alpha=0.8) for one in (model, oracle))
    assert best - own < 2e-3


def test_a_linear_huber_fit_minimises_its_loss():
    X, y = draw_targets("huber", 200)
    model, loss = fit_linear("huber", X, y), Huber()
    scale = loss.scale(y[:, None], np.ones(200))
    A = np.column_stack([X, np.ones(200)])

    def objective(beta):
        return loss.losses(y[:, None], (A @ beta)[:, None], scale).mean()

    best = minimize(objective, np.zeros(4), tol=1e-12)
    own = loss.losses(y[:, None], model.predict(X)[:, None], scale).mean()
    assert own <= best.fun * (1.0 + 1e-4)


# ---------------------------------------------------------------------------------- laws


@pytest.mark.parametrize("name", NAMES)
def test_slopes_are_those_of_the_loss(name):
    loss, (X, y) = make_loss(name), draw_targets(name, 50)
    Y, F = y[:, None] + 0.05, 0.3 * X[:, :1] + 0.1
    scale = loss.scale(Y, np.ones(50))
    back = np.exp if loss.link == "log" else lambda F: F
    step = 1e-6
    slopes, weights = loss.slopes_and_weights(Y, F, scale, 5)
    ends = [loss.losses(Y, back(F + s), scale) for s in (step, -step)]
    expected = (ends[1] - ends[0]) / (2.0 * step)
    if loss.link == "log":
        expected = expected / 2.0  # deviances are twice what scoring is of
    far = np.abs(Y - F) > 20 * scale * 0.1 if loss.name in ("absolute", "quantile") else slice(None)
    np.testing.assert_allclose(slopes[far], expected[far], rtol=0.1 if far is not None else 1e-4)
    assert (weights > 0).all()


def test_settings_of_a_deviance_are_chosen_before_targets_hold_what_was_fitted():
    """Later working targets of rows held out would have been fitted to these rows."""
    for seed in range(1, 4):
        X, y = draw_targets("poisson", 150, seed)
        model = KernelRidgeRegressor("gaussian", loss="poisson", random_state=0).fit(X, y)
        near = 0.5 * (y + y.mean())
        first = KernelRidgeRegressor("gaussian", random_state=0)
        first.fit(X, np.log(near) + (y - near) / near, sample_weight=near)
        assert model.ridge_ == first.ridge_


@pytest.mark.parametrize("kind", METHODS)
def test_every_method_predicts_means_of_counts_that_add_up(kind):
    X, y = draw_targets("poisson", 150)
    given = {"n_parameters": 100} if kind is RKHSWeightingRegressor else {}
    model = kind(loss="poisson", random_state=0, **given).fit(X, y)
    mean = model.predict(X)
    assert (mean > 0).all()
    np.testing.assert_allclose(mean.sum(), y.sum(), rtol=1e-3)
    assert model.score(X, y) == pytest.approx(d2_tweedie_score(y, mean, power=1), abs=1e-9)
    assert model.score(X, y) > 0.2
    assert model.n_reweightings_ >= 1


@pytest.mark.parametrize("name", NAMES)
def test_integer_weights_are_copies(name):
    X, y = draw_targets(name, 60)
    times = np.random.default_rng(1).integers(1, 4, 60)
    one = fit_linear(name, X, y, n_centers=60)
    weighted = KernelRidgeRegressor(Linear(), ridge=1e-3, scaling=None, loss=name)
    weighted.fit(X, y, sample_weight=times)
    copied = KernelRidgeRegressor(Linear(), ridge=1e-3, scaling=None, loss=name)
    copied.fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.predict(X), copied.predict(X), rtol=1e-6)
    assert np.abs(weighted.predict(X) - one.predict(X)).max() > 1e-6


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_a_share_of_rows_is_below_their_quantile(level):
    X, y = draw_targets("quantile", 300)
    model = KernelRidgeRegressor(loss=Quantile(level), random_state=0).fit(X, y)
    assert np.mean(y <= model.predict(X)) == pytest.approx(level, abs=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_units_of_the_target_change_nothing(name):
    X, y = draw_targets(name, 100)
    one, other = (fit_linear(name, X, unit * y).predict(X) / unit for unit in (1.0, 1024.0))
    np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-6)


def test_an_outlier_moves_a_robust_fit_little():
    X, mean, rng = draw_means(200)
    y = mean + 0.1 * rng.normal(size=200)
    y[:10] += 100.0
    errors = {
        loss: np.abs(KernelRidgeRegressor(loss=loss, random_state=0).fit(X, y).predict(X) - mean)
        for loss in ("squared", "absolute", "huber")
    }
    assert np.median(errors["absolute"]) < 0.3 * np.median(errors["squared"])
    assert np.median(errors["huber"]) < 0.3 * np.median(errors["squared"])


def test_many_targets_are_fitted_each_by_its_loss():
    X, y = draw_targets("poisson", 200)
    other = np.random.default_rng(3).poisson(np.exp(1.0 + 0.5 * X[:, 2])).astype(float)
    both = fit_linear("poisson", X, np.column_stack([y, other])).predict(X)
    assert both.shape == (200, 2)
    for column, target in zip(both.T, (y, other), strict=True):
        alone = fit_linear("poisson", X, target).predict(X)
        np.testing.assert_allclose(column, alone, rtol=0.02)
        np.testing.assert_allclose(column.sum(), target.sum(), rtol=1e-3)


def test_the_squared_loss_changes_no_bit():
    X, y = draw_targets("huber", 80)
    plain = KernelRidgeRegressor(random_state=0).fit(X, y)
    named = KernelRidgeRegressor(random_state=0, loss="squared").fit(X, y)
    assert np.array_equal(plain.predict(X), named.predict(X))
    assert not hasattr(named, "n_reweightings_")


@pytest.mark.filterwarnings("ignore:the best ridge")
@pytest.mark.parametrize("name", NAMES)
def test_two_rows_are_enough(name):
    model = KernelRidgeRegressor(loss=name).fit(np.array([[0.0], [1.0]]), np.array([1.0, 2.0]))
    assert np.isfinite(model.predict(np.array([[0.5], [100.0]]))).all()


@pytest.mark.parametrize("kind", [BKerNNRegressor, HKRRRegressor, RegFeaLRegressor])
def test_files_and_the_runtime_predict_means_too(kind, tmp_path):
    X, y = draw_targets("poisson", 60)
    model = gpukfl.fit(
        X,
        y,
        method={"BKerNNRegressor": "bkernn", "HKRRRegressor": "hkrr"}.get(kind.__name__, "regfeal"),
        loss="poisson",
    )
    model.save(tmp_path / "model")
    for read in (gpukfl.load, gpukfl.runtime.load):
        np.testing.assert_allclose(read(tmp_path / "model").predict(X), model.predict(X), rtol=1e-6)
    assert "loss='poisson'" in model.describe().call


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tensors_are_taken(dtype, torch):
    X, y = draw_targets("poisson", 100)
    X = X.astype(dtype)
    model = KernelRidgeRegressor(loss="poisson", random_state=0)
    host = model.fit(X, y).predict(X)
    found = model.fit(torch.asarray(X), torch.asarray(y)).predict(torch.asarray(X))
    np.testing.assert_allclose(found.numpy(), host, rtol=1e-3)


# ------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        ("absolute", Absolute()),
        ("quantile:0.9", Quantile(0.9)),
        ("huber:1.5", Huber(1.5)),
        ("tweedie:1.7", Tweedie(1.7)),
        ("poisson", Poisson()),
        ("gamma", Gamma()),
    ],
)
def test_a_text_is_a_loss_with_its_parameter(text, loss):
    assert make_loss(text) == loss == make_loss(loss)


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        ("poison", 1.0, "Did you mean 'poisson'"),
        ("quantile", 1.0, "needs a level, such as loss='quantile:0.9'"),
        ("mae", 1.0, "Did you mean 'absolute'"),
        ("MSE", 1.0, "Did you mean 'squared'"),
        ("quantile:1.5", 1.0, "level"),
        ("quantile:a", 1.0, "quantile:0.9"),
        ("poisson:2", 1.0, "without a number"),
        ("tweedie:2", 1.0, "between 1 and 2"),
        ("huber:-1", 1.0, "delta"),
        ("poisson", -1.0, "targets of at least 0"),
        ("tweedie", -1.0, "targets of at least 0"),
        ("gamma", 0.0, "positive targets"),
    ],
)
@pytest.mark.parametrize("fit", [KernelRidgeRegressor, gpukfl.AutoRegressor])
def test_bad_losses_are_refused_before_anything_is_fitted(loss, y, message, fit):
    X, Y = np.arange(8.0)[:, None], np.r_[np.arange(1.0, 8.0), y]
    model = fit(loss=loss)
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    assert not hasattr(model, "predictor_")


def test_what_is_no_loss_is_a_type_error():
    with pytest.raises(TypeError, match="expected loss to be one of"):
        KernelRidgeRegressor(loss=3).fit([[0.0], [1.0]], [0.0, 1.0])


def test_classifications_have_no_such_loss():
    assert "loss" not in KernelRidgeClassifier().get_params()
    X, y = np.arange(8.0)[:, None], ["a", "b"] * 4
    with pytest.raises(ValueError, match="expected numbers for task='regression'"):
        gpukfl.fit(X, y, loss="poisson")
    with pytest.raises(TypeError, match="option for a regression"):
        gpukfl.fit(X, y, loss="poisson", task="classification")


def test_all_names_are_losses():
    for name, kind in LOSSES.items():
        loss = make_loss("quantile:0.5" if name == "quantile" else name)
        assert isinstance(loss, kind)
        assert loss.name == name


def test_deviances_are_scikit_learns():
    X, y = draw_targets("gamma", 50)
    P = np.exp(X[:, :1])
    for loss, power in ((Poisson(), 1), (Gamma(), 2), (Tweedie(1.3), 1.3)):
        own = loss.losses(y[:, None], P, np.ones(1)).mean()
        assert own == pytest.approx(mean_tweedie_deviance(y, P[:, 0], power=power))


def test_a_loss_asks_for_a_regression():
    y = np.arange(60) % 4
    model = gpukfl.fit(np.eye(4)[y], y, loss="poisson", members=["linear"], n_folds=2)
    assert model.task == "regression"


def test_ends_of_counts_are_no_less_than_none():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = rng.poisson(np.exp(0.5 * X[:, 0])).astype(float)
    model = gpukfl.fit(X, y, loss="poisson", members=["linear"], n_folds=3)
    assert model.predict_interval(X).min() == 0.0
    assert model.predict_quantiles(X, levels=[0.05, 0.5]).min() == 0.0
    board = model.leaderboard(X, y).set_index("member")
    assert board.loc["blend", "d2"] == pytest.approx(model.score(X, y))


@pytest.mark.parametrize("text", ["quantile:0", "quantile:1", "tweedie:2", "huber:-1", "poisson:2"])
def test_parameters_of_losses_have_limits(text):
    with pytest.raises(ValueError, match="expected"):
        make_loss(text)
