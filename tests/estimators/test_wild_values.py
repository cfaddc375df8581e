"""Values far beyond all others are not believed: they change neither other rows nor the scale."""

import numpy as np
import pytest
from brief import bkernn, hkrr, regfeal
from model_files import assert_as_before

import gpukfl
from gpukfl import (
    BKerNNRegressor,
    BrownianKernelRidge,
    HKRRRegressor,
    KernelFeatureSelector,
    KernelRidgeRegressor,
    RegFeaLRegressor,
    RKHSWeightingRegressor,
)
from gpukfl.estimators.scaling import StandardScaling
from gpukfl.partitioned._rows import Rows

N, D = 400, 6
RNG = np.random.default_rng(0)


def target(X):
    return np.sin(1.5 * (X[:, 0] + 0.5 * X[:, 1])) + 0.5 * X[:, 1] * X[:, 2]


X, NEW = RNG.standard_normal((N, D)), RNG.standard_normal((200, D))
Y, Y_NEW = target(X) + 0.05 * RNG.standard_normal(N), target(NEW)
UNITS = 10.0 ** np.arange(D) + np.arange(D) * 1e3, 10.0 ** np.arange(-3, 3)  # means and scales

MAKERS = {
    "bkernn": lambda **o: BKerNNRegressor(20, **bkernn(max_iter=20, tol=1e-2, random_state=0, **o)),
    "brownian": lambda **o: BrownianKernelRidge(random_state=0, **o),
    "hkrr": lambda **o: HKRRRegressor(
        3, **hkrr(ridge=1e-4, n_starts=1, max_iter=30, random_state=0, **o)
    ),
    "kernel ridge": lambda **o: KernelRidgeRegressor(random_state=0, **o),
    "selection": lambda **o: KernelFeatureSelector(sparsity=0.01, ridge=1e-3, random_state=0, **o),
    "weighting": lambda **o: RKHSWeightingRegressor(200, random_state=0, **o),
    "regfeal": lambda **o: RegFeaLRegressor(
        200, **regfeal(degree_decay=0.3, strength=0.01, n_iter=3, random_state=0, **o)
    ),
}
every = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge:UserWarning"),
    pytest.mark.filterwarnings("ignore:at a ridge of .* or float64 data:UserWarning"),
]


def spoiled(samples, cell, value):
    samples = samples.copy()
    samples[cell] = value
    return samples


def statistics(samples, weights=None):
    samples = np.asarray(samples, dtype=float)
    by = StandardScaling.fit(Rows(samples, np.empty(0)), weights)
    return by.mean, by.scale, by.limits


# ---------------------------------------------------------------------- fits and predictions


@pytest.mark.slow
@every
def test_one_wild_value_costs_little(make):
    score = make().fit(X, Y).score(NEW, Y_NEW)
    for cell, value in [((7, 0), 1e8), ((50, 1), -1e8), ((90, 5), 1e8)]:
        wild = make().fit(spoiled(X, cell, value), Y).score(NEW, Y_NEW)
        assert wild > score - 0.02


@pytest.mark.few
@every
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_wild_value_to_predict_for_changes_its_own_row_only(make, dtype):
    model, new = make().fit(X[:150].astype(dtype), Y[:150]), NEW.astype(dtype)
    expected = model.predict(new)
    for value in (1e8, -1e8, np.finfo(dtype).max):
        predictions = model.predict(spoiled(new, (3, 1), value))
        assert abs(predictions[3]) < 10 * np.abs(Y).max()
        others = np.arange(len(new)) != 3
        np.testing.assert_array_equal(predictions[others], expected[others])


@every
def test_without_standardising_nothing_is_moved(make):
    model = make(scaling=None).fit(X[:40], Y[:40])
    assert model.scaling_ is None


@pytest.mark.few
@pytest.mark.parametrize("method", ["bkernn", "hkrr", "selection", "rkhs_weighting", "regfeal"])
def test_limits_are_part_of_the_model_file(method, tmp_path):
    few = {"ridge": 1e-2, "max_time": 2.0}
    model = gpukfl.fit(X, Y, method=method, **few)
    new = spoiled(NEW, (3, 1), 1e8)
    model.save(tmp_path / "model")
    same = gpukfl.load(tmp_path / "model")
    assert_as_before(same.predict(new), model.predict(new))


# ---------------------------------------------------------------------- limits

COLUMNS = {
    "normal": RNG.standard_normal(N),
    "far from zero": 1e6 + 1e-3 * RNG.standard_normal(N),
    "uniform": RNG.uniform(-1, 1, N),
    "lognormal": np.exp(1.5 * RNG.standard_normal(N)),
    "counts": RNG.poisson(0.3, N),
    "one-hot": np.arange(N) == 11,
    "rare": np.where(np.arange(N) % 7 == 0, RNG.exponential(1000.0, N), 0.0),
    "missing as a number": np.where(np.arange(N) % 20 == 0, -9999.0, RNG.standard_normal(N)),
    "constant": np.full(N, 3.7),
    "two scales": np.where(np.arange(N) % 10 == 0, 1e6, 1.0) * RNG.standard_normal(N),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_ordinary_columns_keep_mean_and_standard_deviation(name):
    column = np.asarray(COLUMNS[name], dtype=float)[:, None]
    mean, scale, limits = statistics(column)
    assert mean == np.ones(N) @ column / N
    spread = np.sqrt(np.ones(N) @ (column - mean) ** 2 / N)
    assert scale == (spread if spread > 1e-9 else 1.0)
    assert np.all(np.diff(limits, axis=0) >= 0)
    within = Rows(column, np.empty(0), StandardScaling(mean, scale, limits)).whole()
    np.testing.assert_array_equal(within, (column - mean) / scale)


@pytest.mark.parametrize("name", [n for n in COLUMNS if n not in ("constant", "one-hot")])
@pytest.mark.parametrize("value", [1e20, -1e20])
def test_a_wild_value_leaves_the_statistics_of_the_others(name, value):
    column = np.asarray(COLUMNS[name], dtype=float)[:, None]
    mean, scale, limits = statistics(spoiled(column, (1, 0), value))
    expected_mean, expected_scale, _ = statistics(np.delete(column, 1, axis=0))
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(scale, expected_scale, rtol=1e-9)
    seen = StandardScaling(mean, scale, limits)(spoiled(column, (1, 0), value))
    assert abs(seen[1, 0]) <= np.abs(np.delete(seen, 1)).max()


def test_weights_count_as_copies():
    weights = RNG.integers(1, 4, N)
    wild = spoiled(X, (7, 0), 1e8)
    ours = statistics(wild, weights.astype(float))
    for one, other in zip(ours, statistics(np.repeat(wild, weights, axis=0)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_rows_without_weight_have_no_say():
    weights = np.where(np.arange(N) < 100, 0.0, 1.0)
    wild = np.where(np.arange(N)[:, None] < 100, 1e8, X)
    for one, other in zip(statistics(wild, weights), statistics(X[100:]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_units_do_not_matter():
    wild = spoiled(X, (7, 0), 1e8)
    shift, unit = UNITS
    mean, scale, limits = statistics(wild)
    m, s, within = statistics(wild * unit + shift)
    np.testing.assert_allclose((m - shift) / unit, mean, atol=1e-6)
    np.testing.assert_allclose(s / unit, scale, rtol=1e-6)
    np.testing.assert_allclose((within - shift) / unit, limits, rtol=1e-5, atol=1e-5)


def test_limits_of_many_rows_are_those_of_a_sample():
    """Wild values are found wherever they are."""
    many = np.random.default_rng(1).standard_normal((60_000, 2))
    many[::7000, 0] = 1e9
    rare = np.zeros((60_000, 1))
    rare[17] = 5.0  # most likely not in the sample
    mean, scale, limits = statistics(np.hstack([many, rare]))
    np.testing.assert_allclose(mean[:2], 0.0, atol=0.02)
    np.testing.assert_allclose(scale[:2], 1.0, atol=0.02)
    assert np.all(limits[[0, -1], :2] / [[-46.5], [46.5]] == pytest.approx(1.0, abs=0.1))
    assert scale[2] == pytest.approx(5.0 / 60_000**0.5, rel=1e-4)
    assert limits[-1, 2] > 5.0


def test_every_library_sees_the_same_limits(on):
    wild = spoiled(X, (7, 0), 1e8)
    placed, new = on.put(wild), spoiled(NEW, (3, 1), 1e8)
    given = {"lengthscale": 3.0, "ridge": 1e-2, "scaling": "standard"}
    model = KernelRidgeRegressor(**given).fit(placed, on.put(Y))
    expected = KernelRidgeRegressor(**given).fit(on.rounded(wild), on.rounded(Y))
    np.testing.assert_array_equal(model.scaling_.limits, expected.scaling_.limits)
    np.testing.assert_allclose(
        on.host(model.predict(on.put(new))), expected.predict(on.rounded(new)), atol=1e-4
    )
