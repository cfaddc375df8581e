"""Bands: laws, oracles, what they are asked for, and bad input."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from scipy.stats import t as student
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import gpukfl
from gpukfl import (
    BKerNNClassifier,
    BKerNNRegressor,
    HKRRClassifier,
    HKRRRegressor,
    KernelFeatureSelector,
)
from gpukfl.estimators import KernelRidgeRegressor
from gpukfl.inference import Band, Bands, _bands, bands
from gpukfl.inference import _bands as _kernel_bands
from gpukfl.inference._bands import largest_deviation
from gpukfl.inference._evaluation import InferenceData
from gpukfl.inference._kernels import learned_kernel

plt = pytest.importorskip("matplotlib.pyplot")

RNG = np.random.default_rng(2)
X = RNG.uniform(-1.5, 1.5, (100, 3))


def truth(A):
    return np.sin(2.0 * A[:, 0]) + 0.5 * A[:, 1]


Y = truth(X) + 0.2 * RNG.standard_normal(100)


@pytest.fixture(scope="module")
def model():
    return HKRRRegressor(criterion="evidence", random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def found(model):
    """With so much coverage that one sample shows it."""
    return bands(model, X, Y, features=[0, 1, 2], coverage=0.999, points=15)


# ---------------------------------------------------------------------- what is estimated


def test_bands_hold_the_terms_of_a_sum(found):
    for band, term in zip(
        found, (lambda t: np.sin(2.0 * t), lambda t: 0.5 * t, np.zeros_like), strict=True
    ):
        curve = term(band.steps)
        assert band.holds(curve - curve.mean())
    assert [band.may_be_flat for band in found] == [False, False, True]
    assert not found["x0"].holds(np.full(15, 9.0))


def test_the_models_own_curve_is_beside(found, model):
    for band in found:
        assert np.abs(band.model - band.center).max() < 2.0 * band.width.max()
    own = bands(model, X, Y, kind="profiles", features=[0], points=9)[0].model
    assert own.shape == (9,)


def test_a_shortened_kernel_compares_points_that_are_as_much_nearer():
    kernel = learned_kernel(KernelRidgeRegressor(random_state=0).fit(X, Y))
    middle = X.mean(axis=0)
    near, far = (middle + step * (X[:5] - middle) for step in (0.5, 1.0))
    at = middle[None, :]
    np.testing.assert_allclose(kernel.shorten(0.5)(near, at), kernel(far, at))


def test_a_kernel_without_a_lengthscale_has_a_lower_ridge(model, monkeypatch):
    """Brownian ones: halving their lengthscale changes nothing."""
    shares, smoother = [], _kernel_bands.Smoother.fit

    def spied(*args, share):
        shares.append(share)
        return smoother(*args, share=share)

    monkeypatch.setattr(_kernel_bands.Smoother, "fit", spied)
    for one in (model, BKerNNRegressor(10, random_state=0).fit(X, Y)):
        bands(one, X, Y, features=[0], held_out=True)
    assert shares[1] == 0.5 * shares[0]


@pytest.mark.slow
def test_coverage_is_about_nominal():
    held = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        A = rng.uniform(-1.5, 1.5, (120, 3))
        y = truth(A) + 0.3 * rng.standard_normal(120)
        fit = HKRRRegressor(criterion="evidence", random_state=0).fit(A, y)
        band = bands(fit, A, y, features=[0], points=15)[0]
        curve = np.sin(2.0 * band.steps)
        held.append(band.holds(curve - curve.mean()))
    assert 0.85 <= np.mean(held) <= 1.0


@pytest.mark.parametrize("make", [KernelRidgeRegressor(lengthscale=3.0, ridge=1e-3), None])
def test_bands_hold_the_populations_curve_where_features_interact(make):
    """Of x0 x1 it is flat: that of some rows has the slope of their mean of x1."""
    rng = np.random.default_rng(0)
    A = rng.uniform(-1.7, 1.7, (200, 3))
    y = 2.0 * A[:, 0] * A[:, 1] + A[:, 2] + 0.1 * rng.standard_normal(200)
    fit = (make or make_pipeline(PolynomialFeatures(2), LinearRegression())).fit(A, y)
    for seed in range(4):
        band = bands(fit, A, y, features=[0], points=9, coverage=0.99, random_state=seed)[0]
        assert band.may_be_flat
        own = 2.0 * A[:, 1].mean() * band.steps
        assert band.holds(own - own.mean())


def test_the_population_is_less_known_by_fewer_rows(monkeypatch):
    y = X[:, 0] * X[:, 1]
    fit = KernelRidgeRegressor(lengthscale=3.0, ridge=1e-3).fit(X, y)
    whole = bands(fit, X, y, features=[0], held_out=True)[0]
    monkeypatch.setattr(_bands, "_ASKED", 1)  # of which 40 rows are left
    few = bands(fit, X, y, features=[0], held_out=True)[0]
    assert few.width.mean() > 1.3 * whole.width.mean()


def test_more_coverage_is_wider_at_the_same_place(model):
    narrow, wide = (bands(model, X, Y, features=[0], coverage=c)[0] for c in (0.5, 0.99))
    assert (wide.width > narrow.width).all()
    assert np.array_equal(wide.center, narrow.center)


def test_units_of_the_target_go_through(model, found):
    other = HKRRRegressor(criterion="evidence", random_state=0).fit(X, 100.0 * Y)
    scaled = bands(other, X, 100.0 * Y, features=[0, 1, 2], coverage=0.999, points=15)
    for one, band in zip(scaled, found, strict=True):
        assert np.allclose(one.center, 100.0 * band.center, atol=3.0)
        assert np.allclose(one.width, 100.0 * band.width, rtol=0.1)


def test_the_same_seed_gives_the_same_bands_and_nothing_changes(model, found):
    before, rows = model.predict(X), X.copy()
    again = bands(model, X, Y, features=[0, 1, 2], coverage=0.999, points=15)
    for one, band in zip(again, found, strict=True):
        assert np.array_equal(one.center, band.center)
        assert np.array_equal(one.width, band.width)
    assert np.array_equal(before, model.predict(X))
    assert np.array_equal(rows, X)


def test_rows_that_the_model_has_not_seen_need_no_fit(model, monkeypatch):
    new = RNG.uniform(-1.5, 1.5, (80, 3))
    y = truth(new) + 0.2 * RNG.standard_normal(80)
    monkeypatch.setattr(HKRRRegressor, "fit", None)
    band = bands(model, new, y, features=["x0"], held_out=True)[0]
    curve = np.sin(2.0 * band.steps)
    assert band.holds(curve - curve.mean())


def test_a_sample_of_many_rows_is_used_and_said(model):
    found = bands(model, X, Y, features=[0], max_rows=60)
    assert "60 rows" in found.basis
    assert found[0].width.mean() > bands(model, X, Y, features=[0])[0].width.mean()


def test_accumulated_effects_of_a_sum_are_its_terms(model):
    band = bands(model, X, Y, kind="accumulated_effects", features=[1], points=6)[0]
    assert band.holds(0.5 * band.steps - np.mean(0.5 * X[:, 1]))


def test_weights_are_variances(model):
    weights = np.where(np.arange(100) < 50, 1.0, 1e-3)
    light = bands(model, X, Y, features=[0], held_out=True, sample_weight=weights)[0]
    even = bands(model, X, Y, features=[0], held_out=True)[0]
    assert light.width.mean() > 1.1 * even.width.mean()
    times = bands(model, X, Y, features=[0], held_out=True, sample_weight=7.0 * weights)[0]
    assert np.allclose(times.width, light.width)


# ---------------------------------------------------------------------- the largest deviation


def test_the_quantile_of_one_point_is_students():
    rng = np.random.RandomState(0)
    found = largest_deviation(np.array([[4.0]]), 8.0, 0.9, rng)
    assert found == pytest.approx(student.ppf(0.95, 8), rel=0.05)


def test_the_quantile_of_independent_points_is_sidaks():
    rng = np.random.RandomState(0)
    found = largest_deviation(np.diag(np.arange(1.0, 11.0)), 1e6, 0.9, rng)
    assert found == pytest.approx(norm.ppf(0.5 + 0.5 * 0.9**0.1), rel=0.03)


def test_points_without_error_do_not_count():
    rng = np.random.RandomState(0)
    assert largest_deviation(np.zeros((3, 3)), 9.0, 0.9, rng) == 0.0
    one = largest_deviation(np.diag([0.0, 1.0]), 1e6, 0.9, rng)
    assert one == pytest.approx(norm.ppf(0.95), rel=0.05)


# ---------------------------------------------------------------------- kinds of models


def test_a_model_without_a_kernel_is_fitted_to_folds():
    """The jackknife of a line has about the standard errors of least squares."""
    y = 0.5 * X[:, 0] + 0.3 * RNG.standard_normal(100)
    found = bands(LinearRegression().fit(X, y), X, y, features=[0], coverage=0.9)
    assert "10 fits" in found.basis
    assert "bias" in found.summary()
    band = found[0]
    H = np.column_stack([np.ones(100), X])
    left = y - H @ np.linalg.lstsq(H, y, rcond=None)[0]
    error = np.sqrt(left @ left / 96 * np.linalg.inv(H.T @ H)[1, 1])
    expected = student.ppf(0.95, 9) * error * np.abs(band.steps - band.steps.mean())
    kept = expected > 0.2 * expected.max()
    ratio = band.width[kept] / expected[kept]
    assert 0.5 < ratio.min() <= ratio.max() < 2.0
    assert np.array_equal(band.center, band.model)


def test_names_of_a_frame_are_kept():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    found = bands(LinearRegression().fit(frame, Y), frame, Y, features=["b"])
    assert found["b"].holds(0.5 * (found["b"].steps - found["b"].steps.mean()))


def test_fewer_rows_than_columns_leave_only_leading_features_free():
    wide = RNG.uniform(-1.5, 1.5, (50, 80))
    y = wide[:, 0] + 0.1 * RNG.standard_normal(50)
    fit = BKerNNRegressor(8, random_state=0).fit(wide, y)
    for band in bands(fit, wide, y):
        assert np.isfinite(band.width).all()
        assert (band.width > 0).any()


@pytest.mark.few
@pytest.mark.parametrize("labels", [("high", "low"), (0, 1, 2)])
def test_of_classes_there_are_probabilities(labels):
    score = np.digitize(Y, np.quantile(Y, np.arange(1, len(labels)) / len(labels)))
    classes = np.array(labels)[score]
    fit = BKerNNClassifier(8, random_state=0).fit(X, classes)
    found = bands(fit, X, classes, features=[0], points=8)
    assert [one.output for one in found] == (
        ["class low"] if len(labels) == 2 else ["class 0", "class 1", "class 2"]
    )
    assert not found[0].may_be_flat
    assert all(one.width.max() < 1.0 for one in found)


RARE = np.where(X[:, 0] > 0, "high", "low")
RARE[7] = "rare"


@pytest.mark.few
@pytest.mark.parametrize(
    "fit",
    [
        RandomForestClassifier(5, random_state=0),
        HKRRClassifier(1, ridge=1e-2, random_state=0),
    ],
)
def test_a_class_of_one_row_has_its_own_curves(fit):
    found = bands(fit.fit(X, RARE), X, RARE, features=[0], points=5)
    assert [one.output for one in found] == ["class high", "class low", "class rare"]
    assert not found[1].may_be_flat
    assert np.abs(found[2].center).max() < 0.1


def test_a_fit_to_fewer_classes_gives_the_others_nothing():
    subject = InferenceData.from_model(
        RandomForestClassifier(5, random_state=0).fit(X, RARE), X, RARE
    )
    fit = RandomForestClassifier(5, random_state=0).fit(X[RARE != "rare"], RARE[RARE != "rare"])
    found = subject.functions(X[:9], fit)
    np.testing.assert_array_equal(found[:, :2], fit.predict_proba(X[:9]))
    assert not found[:, 2].any()
    two = np.where(RARE == "rare", "rare", "low")
    subject = InferenceData.from_model(
        RandomForestClassifier(5, random_state=0).fit(X, two), X, two
    )
    alone = RandomForestClassifier(5, random_state=0).fit(X, np.full(100, "low"))
    np.testing.assert_array_equal(subject.functions(X[:9], alone), np.zeros((9, 1)))


def test_slopes_of_a_half_are_those_of_all_classes():
    subject = InferenceData.from_model(
        HKRRClassifier(1, ridge=1e-2, random_state=0).fit(X, RARE), X, RARE
    )
    slopes = subject.learn_kernel(np.flatnonzero(RARE != "rare")).slopes(X[:9])
    assert slopes.shape == (9, 1, 3)
    np.testing.assert_array_equal(slopes[..., 0], -slopes[..., 1])
    assert not slopes[..., 2].any()


def test_folds_have_their_share_of_every_class(monkeypatch):
    seen, y = [], np.repeat(["a", "b"], [90, 10])
    subject_refitted = InferenceData.refit

    def spied(self, rows, *limit):
        seen.append(np.count_nonzero(self.y[rows] == "b"))
        return subject_refitted(self, rows)

    monkeypatch.setattr(InferenceData, "refit", spied)
    bands(RandomForestClassifier(2, random_state=0).fit(X, y), X, y, features=[0], points=3)
    assert seen == [9] * 10


@pytest.mark.parametrize("fit", [KernelFeatureSelector(sparsity=100.0), DummyRegressor()])
@pytest.mark.filterwarnings("ignore:no variable:UserWarning")
def test_a_model_that_found_nothing_has_bands_that_hold(fit):
    found = bands(fit.fit(X, Y), X, Y, features=[0, 2], points=9)
    for band, term in zip(found, (lambda t: np.sin(2.0 * t), np.zeros_like), strict=True):
        curve = term(band.steps)
        assert band.holds(curve - curve.mean())
        assert band.width.max() > 0.05
    assert found.basis == "an additive kernel and 100 rows"
    assert "the model predicts a constant" in found.summary()


def test_few_rows_are_said(model):
    assert "fewer than" not in bands(model, X, Y, features=[0], held_out=True).summary()
    few = bands(model, X[:99], Y[:99], features=[0], held_out=True)
    assert "99 rows are fewer than 100: the bands cover straight lines" in few.summary()


def test_each_target_has_a_band():
    both = np.column_stack([Y, -3.0 * Y])
    fit = HKRRRegressor(2, criterion="evidence", random_state=0).fit(X, both)
    first, second = bands(fit, X, both, features=[0])
    assert (first.output, second.output) == ("y 0", "y 1")
    assert np.allclose(second.center, -3.0 * first.center, atol=0.05)


def test_a_model_names_columns_and_encodes_them():
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        kind=np.where(X[:, 2] > 0, "one", "other"), target=Y
    )
    model = gpukfl.fit(frame, "target", method="hkrr", criterion="evidence", progress=False)
    found = bands(model, frame, "target", features=["a"])
    assert found[0].name == "a"
    assert found[0].output == "target"


@pytest.mark.torch
def test_arrays_of_every_library_are_taken(on):
    if on.dtype_name == "float32" and on.package != "numpy":
        pytest.skip("one precision of the others is enough")
    fit = HKRRRegressor(criterion="evidence", random_state=0).fit(on.put(X), on.put(Y))
    found = bands(fit, on.put(X), on.put(Y), features=[0], points=15)[0]
    curve = np.sin(2.0 * found.steps)
    assert found.holds(curve - curve.mean())


# ---------------------------------------------------------------------- what is shown


def test_frame_summary_and_pictures(found):
    frame = found.frame()
    assert list(frame.columns) == ["name", "output", "at", "center", "lower", "upper", "model"]
    assert len(frame) == 45
    assert "no flat line fits" in found.summary()
    assert "x0 and x1 is not constant" in found.in_words()
    assert found.plot().shape == (3,)
    _, ax = plt.subplots()
    assert found.plot("x1", ax=ax) is ax
    assert ax.get_xlabel() == "x1"
    _, ax = plt.subplots()
    assert len(found.plot(ax=ax)) == 3
    with pytest.raises(KeyError, match="one of x0, x1, x2"):
        found.plot("x9")


def test_a_band_is_what_it_says():
    band = Band("a", "y", np.arange(3.0), np.array([0.0, 1.0, 2.0]), np.full(3, 0.6), np.zeros(3))
    assert not band.may_be_flat
    assert np.allclose(band.upper - band.lower, 1.2)
    assert band.holds([0.5, 0.5, 1.5])
    assert not band.holds([0.5, 0.5, 1.3])


def test_curves_of_the_model_outside_a_band_are_told():
    steps, wide = np.arange(3.0), np.full(3, 9.0)
    inside = Band("inside", "y", steps, steps, wide, np.zeros(3))
    outside = Band("outside", "y", steps, steps, np.full(3, 0.6), np.zeros(3))
    found = Bands((inside, outside), "partial_dependence", 0.95, "")
    assert "leaves the band of outside:" in found.in_words()
    assert "leaves" not in replace(found, curves=(inside,)).in_words()
    labels = [ax.get_xlabel() for ax in found.plot()]
    assert ["leaves the band" in label for label in labels] == [False, True]
    plt.close("all")


@pytest.mark.parametrize(("days", "unit", "shown"), [(0.03, "minutes", 43.2), (40.0, "days", 40.0)])
def test_times_have_a_unit(days, unit, shown):
    steps = np.linspace(0.0, days, 3)
    band = Band("b since a", "y", steps, steps, steps, steps, seconds=86_400.0)
    ax = Bands((band,), "partial_dependence", 0.95, "").plot()
    assert ax.get_xlabel() == f"b since a, {unit}"
    assert ax.lines[0].get_xdata()[-1] == pytest.approx(shown)
    plt.close("all")


def test_times_between_dates_and_durations_are_known():
    n = 80
    rng = np.random.default_rng(0)
    begun = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 90, n), "D")
    hours = rng.uniform(1.0, 9.0, n)
    frame = pd.DataFrame(
        {"begun": begun, "ended": begun + pd.to_timedelta(hours, "h"), "x": rng.normal(size=n)}
    )
    frame["break"] = pd.to_timedelta(rng.uniform(1.0, 50.0, n), "min")
    y = hours + frame["x"] + 0.3 * rng.standard_normal(n)
    model = gpukfl.fit(frame, y, method="hkrr", ridge=1e-2, progress=False)
    found = bands(model, frame, y, features=["ended since begun", "break", "x"], held_out=True)
    assert [one.seconds for one in found] == [86_400.0, 1.0, 0.0]


def test_what_nearly_all_rows_share_is_estimated_within_reason():
    """Single rows of a level cannot say how its effect goes with learned directions."""
    rng = np.random.default_rng(0)
    n = 400
    x = rng.standard_normal((n, 4))
    rare = np.zeros((n, 6))
    rare[rng.choice(n, 12, replace=False), np.arange(12) % 6] = 1.0
    y = np.exp(x[:, 0]) + x[:, 1] + rare.sum(axis=1) + rng.standard_t(2, n)
    rows = np.column_stack([x, rare])
    model = HKRRRegressor(2, criterion="evidence", random_state=0).fit(rows, y)
    found = bands(model, rows, y, features=[0, 4, 5])
    assert max(np.abs(one.center).max() for one in found) < 3.0 * np.abs(y).max()


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "ice"}, "expected kind to be one of"),
        ({"coverage": 1.0}, "expected coverage below 1"),
        ({"coverage": 0.0}, "expected coverage"),
        ({"points": 2}, "expected points"),
        ({"max_rows": 10}, "expected max_rows"),
        ({"features": ["z"]}, "expected features by name or number below 3, got 'z'"),
        ({"features": [3]}, "below 3, got 3"),
        ({"kind": "profiles", "features": [7]}, "numbers of directions"),
        ({"sample_weight": -np.ones(100)}, "weights of at least 0"),
    ],
)
def test_bad_options_are_named(model, options, message):
    with pytest.raises(ValueError, match=message):
        bands(model, X, Y, **options)


def test_bad_rows_are_named(model):
    with pytest.raises(ValueError, match="at least 40 rows for bands, got 39"):
        bands(model, X[:39], Y[:39])
    with pytest.raises(ValueError, match=r"shape \(n, 3\)"):
        bands(model, X[:, :2], Y)
    with pytest.raises(ValueError, match="a target for each of 100 rows, got 99"):
        bands(model, X, Y[1:])
    with pytest.raises(ValueError, match="got None"):
        bands(model, X, None)
    with pytest.raises(ValueError, match="got infinity in x0, x1, x2"):
        bands(model, np.where(X > 1.4, np.inf, X), Y)
    with pytest.raises(TypeError, match="fitted regressor or classifier, got str"):
        bands("model", X, Y)


def test_a_constant_feature_is_left_out_or_refused():
    flat = np.column_stack([X, np.ones(100)])
    fit = HKRRRegressor(criterion="evidence", random_state=0).fit(flat, Y)
    assert {one.name for one in bands(fit, flat, Y)} == {"x0", "x1", "x2"}
    with pytest.raises(ValueError, match="are not constant, got 'x3'"):
        bands(fit, flat, Y, features=[3])


def test_copies_of_a_feature_do_no_harm():
    twins = np.column_stack([X, X[:, 0]])
    fit = HKRRRegressor(2, criterion="evidence", random_state=0).fit(twins, Y)
    assert all(np.isfinite(one.width).all() for one in bands(fit, twins, Y))


def test_profiles_need_directions():
    with pytest.raises(ValueError, match="learned directions for profiles, got KernelRidge"):
        bands(KernelRidgeRegressor().fit(X, Y), X, Y, kind="profiles")
