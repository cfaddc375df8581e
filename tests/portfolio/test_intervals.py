"""Intervals cover what they say, are MAPIE's where the definitions agree, and follow the spread."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold

from gpukfl.portfolio import Residuals, Spread, Uncertainty
from gpukfl.predictor._codec import Decoder, Encoder


def rng_of(seed=0):
    return np.random.RandomState(seed)


def crossed(X, y, new, k=5, model=Ridge):
    """Out-of-fold predictions, folds, and the fold models' predictions for new rows."""
    folds, oof = np.empty(len(y), dtype=int), np.empty_like(y)
    predictions = []
    for number, (rest, part) in enumerate(KFold(k).split(X)):
        fitted = model().fit(X[rest], y[rest])
        folds[part], oof[part] = number, fitted.predict(X[part])
        predictions.append(fitted.predict(new))
    return oof, folds, np.stack(predictions)


def linear_data(rng, n, noise=0.5):
    X = rng.standard_normal((n, 3))
    return X, X @ [1.0, -2.0, 0.5] + noise * rng.standard_normal(n)


@pytest.fixture
def data(rng):
    return *linear_data(rng, 60), rng.standard_normal((25, 3))


# ------------------------------------------------------------------ against MAPIE


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9])
def test_cv_plus_is_mapies(data, coverage):
    mapie = pytest.importorskip("mapie.regression")
    X, y, new = data
    peer = mapie.CrossConformalRegressor(
        Ridge(), confidence_level=coverage, method="plus", cv=KFold(5)
    )
    _, expected = peer.fit_conformalize(X, y).predict_interval(new)
    oof, folds, predictions = crossed(X, y, new)
    residuals = Residuals.standardize((y - oof)[:, None], folds)
    found = residuals.interval(predictions[:, :, None], coverage=coverage)
    np.testing.assert_allclose(found[:, 0], expected[:, :, 0], rtol=1e-10)


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_one_model_gives_mapies_split_conformal_intervals(data, coverage):
    mapie = pytest.importorskip("mapie.regression")
    X, y, new = data
    model = Ridge().fit(X[:30], y[:30])
    peer = mapie.SplitConformalRegressor(model, confidence_level=coverage, prefit=True)
    _, expected = peer.conformalize(X[30:], y[30:]).predict_interval(new)
    left = y[30:] - model.predict(X[30:])
    residuals = Residuals.standardize(left[:, None], np.zeros(30, dtype=int))
    found = residuals.interval(model.predict(new)[None, :, None], coverage=coverage)
    np.testing.assert_allclose(found[:, 0], expected[:, :, 0], rtol=1e-10)


# ------------------------------------------------------------------ laws


def test_scaled_intervals_are_the_definition(rng):
    n, m, k = 40, 7, 4
    left, folds = rng.standard_normal(n), rng.integers(0, k, n)
    folds[:k] = np.arange(k)
    sizes, centers = rng.uniform(0.5, 2, n), rng.standard_normal((k, m))
    spreads = rng.uniform(0.5, 2, (k, m))
    residuals = Residuals.standardize(left[:, None], folds, spreads=sizes[:, None])
    found = residuals.interval(centers[:, :, None], spreads[:, :, None], coverage=0.8)
    reach = np.abs(left / sizes)[:, None] * spreads[folds]
    rank = int(np.ceil(41 * 0.8)) - 1
    upper = np.sort(centers[folds] + reach, axis=0)[rank]
    lower = -np.sort(reach - centers[folds], axis=0)[rank]
    np.testing.assert_allclose(found[:, 0], np.stack([lower, upper], axis=1), rtol=1e-12)


@pytest.mark.parametrize("coverage", [0.7, 0.9])
def test_coverage_is_what_was_asked_for(rng, coverage):
    """Of CV+, over many small data sets: near 1 - α, and at least 1 - 2α by theory."""
    inside, total = 0, 0
    for _ in range(60):
        X, y = linear_data(rng, 40)
        new, truth = linear_data(rng, 50)
        oof, folds, predictions = crossed(X, y, new)
        found = Residuals.standardize((y - oof)[:, None], folds).interval(
            predictions[:, :, None], coverage=coverage
        )[:, 0]
        inside += np.sum((found[:, 0] <= truth) & (truth <= found[:, 1]))
        total += 50
    # 60 sets of 40 rows: rows of one set share their residuals, so 2400 draws at most count
    error = 4.0 * np.sqrt(coverage * (1 - coverage) / 60 / 40 * 2)
    assert abs(inside / total - coverage) <= error + 1 / 41
    assert inside / total >= 1 - 2 * (1 - coverage)


def test_split_coverage_is_exact_on_average(rng):
    """The average over calibrations is ceil((n + 1) c) / (n + 1) without ties."""
    n, coverage, repetitions = 19, 0.9, 400
    covered = 0.0
    for _ in range(repetitions):
        residuals = Residuals.standardize(rng.standard_normal((n, 1)), np.zeros(n, dtype=int))
        low, high = residuals.interval(np.zeros((1, 1, 1)), coverage=coverage)[0, 0]
        covered += stats.norm.cdf(high) - stats.norm.cdf(low)
    exact = np.ceil((n + 1) * coverage) / (n + 1)
    spread = np.sqrt(exact * (1 - exact) / (n + 2) / repetitions)
    assert covered / repetitions == pytest.approx(exact, abs=4 * spread)


def test_order_of_rows_does_not_matter(data, rng):
    X, y, new = data
    oof, folds, predictions = crossed(X, y, new)
    order = rng.permutation(len(y))
    first, second = (
        Residuals.standardize((y - oof)[rows, None], folds[rows]).interval(
            predictions[:, :, None], coverage=0.8
        )
        for rows in (np.arange(len(y)), order)
    )
    np.testing.assert_array_equal(first, second)


def test_targets_are_apart_from_each_other(data):
    X, y, new = data
    oof, folds, predictions = crossed(X, y, new)
    one = Uncertainty.fit(X, y, oof, folds, rng=rng_of()).interval(new, predictions)
    both = Uncertainty.fit(
        X, np.stack([y, 7 * y], 1), np.stack([oof, 7 * oof], 1), folds, rng=rng_of()
    ).interval(new, np.stack([predictions, 7 * predictions], axis=2))
    assert one.shape == (25, 2)
    assert both.shape == (25, 2, 2)
    np.testing.assert_allclose(both[:, 1], 7 * both[:, 0], rtol=1e-6)


def test_rows_without_weight_do_not_count(data):
    X, y, new = data
    oof, folds, predictions = crossed(X, y, new)
    w, wild = np.ones(60), oof.copy()
    w[::3] = 0.0
    wild[::3] += 1e6
    kept = w > 0
    given = predictions[:, :, None]
    expected = Residuals.standardize((y - oof)[kept, None], folds[kept]).interval(
        given, coverage=0.8
    )
    found = Residuals.standardize((y - wild)[:, None], folds, weights=w).interval(
        given, coverage=0.8
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_heavy_rows_count_more(rng):
    left = rng.standard_normal((200, 1)) * np.repeat([1.0, 10.0], 100)[:, None]
    zeros = np.zeros(200, dtype=int)
    widths = [
        np.ptp(
            Residuals.standardize(left, zeros, weights=np.repeat([a, b], 100)).interval(
                np.zeros((1, 1, 1)), coverage=0.5
            )
        )
        for a, b in ((1.0, 0.1), (1.0, 1.0), (0.1, 1.0))
    ]
    assert widths == sorted(widths)
    assert widths[2] > 3 * widths[0]


# ------------------------------------------------------------------ quantiles


def test_quantiles_are_those_of_the_noise(rng):
    left, levels = rng.gamma(2.0, size=(4000, 1)), [0.05, 0.25, 0.5, 0.75, 0.95]
    residuals = Residuals.standardize(left, np.arange(4000) % 5)
    found = residuals.quantiles(np.full((5, 3, 1), 10.0), levels=levels)
    assert found.shape == (3, 1, 5)
    np.testing.assert_allclose(found[0, 0], 10 + stats.gamma(2.0).ppf(levels), atol=0.2)
    np.testing.assert_array_equal(found[0], found[1])


def test_quantiles_are_ranks(rng):
    left = rng.standard_normal(19)
    residuals = Residuals.standardize(left[:, None], np.zeros(19, dtype=int))
    found = residuals.quantiles(np.zeros((1, 1, 1)), levels=[0.05, 0.31, 0.5, 0.69, 0.95])[0, 0]
    np.testing.assert_array_equal(found, np.sort(left)[[0, 5, 9, 13, 18]])


def test_quantiles_mirror_and_ascend(data):
    X, y, new = data
    oof, folds, predictions = crossed(X, y, new)
    levels = np.arange(5, 100, 5) / 100
    above = Uncertainty.fit(X, y, oof, folds, rng=rng_of())
    found = above.quantiles(new, predictions, levels=levels)
    assert found.shape == (25, 19)
    assert np.all(np.diff(found, axis=1) >= 0)
    left = Residuals.standardize((y - oof)[:, None], folds)
    mirrored = Residuals.standardize((oof - y)[:, None], folds)
    given = predictions[:, :, None]
    np.testing.assert_allclose(
        left.quantiles(given, levels=levels),
        -mirrored.quantiles(-given, levels=levels)[:, :, ::-1],
        rtol=1e-12,
    )


# ------------------------------------------------------------------ the spread


def rough_data(rng, n):
    """Noise ten times as large on one side of the first column."""
    X = rng.uniform(-1, 1, (n, 2))
    return X, X[:, 1] + np.where(X[:, 0] > 0, 1.0, 0.1) * rng.standard_normal(n)


def test_intervals_are_wide_where_the_data_are_rough(rng):
    X, y = rough_data(rng, 500)
    new, truth = rough_data(rng, 2000)
    oof, folds, predictions = crossed(X, y, new)
    uncertainty = Uncertainty.fit(X, y, oof, folds, rng=rng_of())
    found = uncertainty.interval(new, predictions, coverage=0.9)
    width, rough = found[:, 1] - found[:, 0], new[:, 0] > 0
    inside = (found[:, 0] <= truth) & (truth <= found[:, 1])
    assert width[rough].mean() > 4 * width[~rough].mean()
    for side in (rough, ~rough):
        assert inside[side].mean() == pytest.approx(0.9, abs=0.09)  # even ones: 1.0 and 0.8
    plain = Residuals.standardize((y - oof)[:, None], folds).interval(
        predictions[:, :, None], coverage=0.9
    )
    assert width.mean() < 0.85 * np.mean(plain[:, 0, 1] - plain[:, 0, 0])


def test_spread_of_even_noise_is_nearly_even(rng):
    X, y = rng.standard_normal((400, 4)), rng.standard_normal((400, 1))
    spread = Spread.fit(X, y, rng=rng_of())(rng.standard_normal((500, 4)))
    assert spread.shape == (500, 1)
    assert spread.std() < 0.2 * spread.mean()


def test_spread_takes_the_units_of_the_residuals(rng):
    X, left = rng.standard_normal((100, 2)), rng.standard_normal((100, 1))
    one = Spread.fit(X, left, rng=rng_of())(X)
    other = Spread.fit(X * [1e6, 1e-6] + [5.0, -3.0], 1e3 * left, rng=rng_of())
    np.testing.assert_allclose(other(X * [1e6, 1e-6] + [5.0, -3.0]), 1e3 * one, rtol=1e-5)


@pytest.mark.parametrize("value", [0.0, 2.0])
def test_spread_of_equal_residuals_is_even_and_positive(rng, value):
    spread = Spread.fit(rng.standard_normal((50, 2)), np.full((50, 1), value), rng=rng_of())
    found = spread(rng.standard_normal((9, 2)))
    np.testing.assert_allclose(found, value or 1.0, rtol=1e-6)


def test_constant_columns_do_no_harm(rng):
    X = np.column_stack([np.full(50, 7.0), rng.standard_normal(50)])
    assert np.isfinite(Spread.fit(X, rng.standard_normal((50, 1)), rng=rng_of())(X)).all()


@pytest.mark.parametrize("k", [1, 5])
def test_a_spread_does_not_see_the_residuals_it_scales(rng, k):
    X, y = rough_data(rng, 200)
    folds = np.arange(200) % k
    first = Uncertainty.fit(X, y, np.zeros(200), folds, rng=rng_of())
    group = first.residuals.groups == 0
    other = np.where(group, 50.0 * y, y)
    second = Uncertainty.fit(X, other, np.zeros(200), folds, rng=rng_of())
    np.testing.assert_array_equal(first.residuals.groups, second.residuals.groups)
    new = np.column_stack([X, np.zeros(200)])
    np.testing.assert_allclose(second.spreads[0](new), first.spreads[0](new), rtol=1e-9)
    assert np.max(second.spreads[1](new)) > 2 * np.max(first.spreads[1](new))


def test_one_hold_out_has_intervals_that_follow_the_spread(rng):
    X, y = rough_data(rng, 400)
    new, truth = rough_data(rng, 2000)
    model = Ridge().fit(*rough_data(rng, 400))
    held_out = Uncertainty.fit(X, y, model.predict(X), np.zeros(400, dtype=int), rng=rng_of())
    found = held_out.interval(new, model.predict(new)[None, :])
    width, rough = found[:, 1] - found[:, 0], new[:, 0] > 0
    assert width[rough].mean() > 4 * width[~rough].mean()
    inside = (found[:, 0] <= truth) & (truth <= found[:, 1])
    assert inside.mean() == pytest.approx(0.9, abs=0.035)


def test_intervals_of_the_rows_themselves_hold_as_many_as_was_asked_for(rng):
    X, y = rough_data(rng, 300)
    oof, folds, _ = crossed(X, y, X[:1])
    fitted = Uncertainty.fit(X, y, oof, folds, rng=rng_of())
    found = fitted.held_out(oof, coverage=0.8)
    inside = np.abs(y - oof) <= np.ptp(found, axis=1) / 2 * (1 + 1e-12)
    assert inside.sum() == np.ceil(301 * 0.8)
    np.testing.assert_allclose(found.mean(axis=1), oof)
    assert np.ptp(found, axis=1).max() > 4 * np.ptp(found, axis=1).min()
    both = fitted.held_out(oof[:, None], coverage=0.8)
    np.testing.assert_array_equal(both[:, 0], found)


def test_values_are_what_their_annotations_say(rng):
    X, y = rough_data(rng, 102)  # folds of 20 and of 21
    oof, folds, _ = crossed(X, y, X[:1])
    fitted = Uncertainty.fit(X, y, oof, folds, rng=rng_of())
    encoder = Encoder({})
    node = encoder.encode(fitted, "it")
    decoder = Decoder(encoder.arrays, None, {})
    again = decoder.decode(node, Uncertainty, "it", {})
    decoder.finish()
    assert len(again.models) == 5
    np.testing.assert_array_equal(again.residuals.scores, fitted.residuals.scores)


@pytest.mark.parametrize(("n", "max_time"), [(12, None), (40, 0.0), (40, 1e-9)])
def test_a_few_rows_have_even_intervals_and_others_without_time(rng, n, max_time):
    X, y = linear_data(rng, n)
    oof, folds, predictions = crossed(X, y, X[:4], k=3)
    few = Uncertainty.fit(X, y, oof, folds, rng=rng_of(), max_time=max_time)
    expected = Residuals.standardize((y - oof)[:, None], folds)
    centers = np.broadcast_to(predictions.mean(axis=0), predictions.shape)
    np.testing.assert_array_equal(
        few.interval(X[:4], predictions, coverage=0.8),
        expected.interval(centers[:, :, None], coverage=0.8)[:, 0],
    )


# ------------------------------------------------------------------ bad input


def test_wrong_residuals_are_named():
    ones, zeros = np.ones((4, 1)), np.zeros(4, dtype=int)
    with pytest.raises(ValueError, match=r"expected residuals \(n, t\), groups \(n,\)"):
        Residuals.standardize(np.ones(4), zeros)
    with pytest.raises(ValueError, match="got 1 NaN or infinite"):
        Residuals.standardize(np.array([[1.0], [np.nan]]), zeros[:2])
    with pytest.raises(ValueError, match="positive, finite spreads"):
        Residuals.standardize(ones, zeros, spreads=0 * ones)
    with pytest.raises(ValueError, match=r"expected weights \(4,\)"):
        Residuals.standardize(ones, zeros, weights=np.ones(3))


def test_wrong_questions_are_named(data):
    X, y, new = data
    oof, folds, predictions = crossed(X, y, new)
    fitted = Uncertainty.fit(X, y, oof, folds, rng=rng_of())
    with pytest.raises(ValueError, match=r"greater than 0 and less than 1, got 1.0"):
        fitted.interval(new, predictions, coverage=1.0)
    with pytest.raises(ValueError, match=r"at least 99 held-out rows .* coverage of 0.99, got 60"):
        fitted.interval(new, predictions, coverage=0.99)
    with pytest.raises(ValueError, match=r"at least 99 held-out rows"):
        fitted.quantiles(new, predictions, levels=[0.5, 0.01])
    with pytest.raises(ValueError, match=r"5 fold models for 25 rows .* got \(4, 25, 1\)"):
        fitted.interval(new, predictions[:4])
    predictions[2, 7] = np.inf
    with pytest.raises(ValueError, match="got 1 NaN or infinite"):
        fitted.interval(new, predictions)


def test_wrong_shapes_are_named(data):
    X, y, _ = data
    with pytest.raises(ValueError, match=r"expected X \(n, d\), Y and predicted"):
        Uncertainty.fit(X, y, y[:-1], np.zeros(60, dtype=int), rng=rng_of())
    with pytest.raises(ValueError, match=r"expected X \(n, d\), Y and predicted"):
        Uncertainty.fit(X[:-1], y, y, np.zeros(60, dtype=int), rng=rng_of())
    with pytest.raises(ValueError, match="expected finite residuals"):
        Uncertainty.fit(X, y, np.full(60, np.nan), np.zeros(60, dtype=int), rng=rng_of())
