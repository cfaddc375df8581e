"""Scalings of columns: laws, outside oracles, places and files."""

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import ndtr, ndtri
from scipy.stats import kurtosis, rankdata
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from gpukfl.estimators.scaling import (
    LARGE_SAMPLE,
    SCALINGS,
    QuantileScaling,
    RobustScaling,
    StandardScaling,
    has_heavy_tails,
    learn_scaling,
)
from gpukfl.partitioned._rows import Rows

N = 300
RNG = np.random.default_rng(5)
X = np.column_stack(
    [
        RNG.standard_normal(N),
        np.exp(1.5 * RNG.standard_normal(N)),
        RNG.poisson(0.4, N),
        np.where(np.arange(N) % 5 == 0, RNG.exponential(3.0, N), 0.0),
    ]
)
NEW = np.vstack([RNG.choice(X.ravel(), (50, 4)), 3.0 * RNG.standard_normal((50, 4))])
every = pytest.mark.parametrize("kind", SCALINGS.values(), ids=SCALINGS)
columns = arrays(np.float64, st.integers(2, 30), elements=st.integers(-5, 5))


def learned(kind, samples, weights=None):
    return kind.fit(Rows(np.asarray(samples), np.empty(0)), weights)


# ---------------------------------------------------------------------- laws


@every
@given(column=columns)
def test_scaling_is_monotone(kind, column):
    steps = np.concatenate([np.linspace(-8, 8, 200), column, [-1e300, 1e12, 1e300]])
    scaled = learned(kind, column[:, None])(np.sort(steps)[:, None])[:, 0]
    if kind is StandardScaling:  # what is not believed is moved to where others are
        scaled = scaled[(np.sort(steps) >= column.min()) & (np.sort(steps) <= column.max())]
    assert np.all(np.diff(scaled) >= -1e-12)


@pytest.mark.parametrize("kind", [RobustScaling, QuantileScaling])
def test_no_value_is_far_out(kind):
    wild = X.copy()
    wild[3, :] = 1e12
    scaling = learned(kind, wild)
    assert np.abs(scaling(np.vstack([wild, NEW, [4 * [1e308], 4 * [-1e308]]]))).max() <= 3.1
    gap = np.delete(scaling(wild) - learned(kind, X)(X), 3, axis=0)
    assert np.abs(gap).mean(axis=0).max() < 0.02


@pytest.mark.parametrize("kind", [StandardScaling, RobustScaling, QuantileScaling])
@pytest.mark.parametrize(
    ("unit", "shift"), [(1e-6, 0.0), (1e-15, 0.0), (1e-200, 0.0), (1e6, -30.0), (0.3, 1e3)]
)
def test_units_of_columns_do_not_matter(kind, unit, shift):
    expected = learned(kind, X)(NEW)
    found = learned(kind, X * unit + shift)(NEW * unit + shift)
    np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize("kind", [RobustScaling, QuantileScaling])
def test_a_sign_is_a_sign(kind):
    found = learned(kind, -X)(-NEW)
    np.testing.assert_allclose(found, -learned(kind, X)(NEW), atol=1e-12)


@pytest.mark.parametrize("change", [np.exp, np.arctan, lambda x: x**3], ids=["exp", "atan", "cube"])
def test_normal_scores_do_not_depend_on_a_monotone_map(change):
    column = X[:, :1]
    before, after = learned(QuantileScaling, column), learned(QuantileScaling, change(column))
    np.testing.assert_allclose(after(change(column)), before(column), atol=1e-12)
    inside = RNG.uniform(column.min(), column.max(), (500, 1))
    widest = np.diff(np.sort(before(column), axis=0), axis=0).max()
    assert np.abs(after(change(inside)) - before(inside)).max() <= widest


@every
def test_weights_count_as_copies(kind):
    weights = RNG.integers(1, 4, N)
    ours = learned(kind, X, weights.astype(float))(NEW)
    np.testing.assert_allclose(ours, learned(kind, np.repeat(X, weights, axis=0))(NEW), atol=1e-10)


@every
def test_rows_without_weight_have_no_say(kind):
    weights = np.where(np.arange(N) < 50, 0.0, 0.7)
    spoiled = np.where(np.arange(N)[:, None] < 50, 1e6, X)
    np.testing.assert_allclose(
        learned(kind, spoiled, weights)(NEW), learned(kind, X[50:])(NEW), atol=1e-10
    )


@every
def test_a_column_that_does_not_vary_is_zero(kind):
    rows = np.tile([0.0, 3.7, 1e9, -1e-9], (20, 1))
    rows[::2, 2] += 1e-7  # rounding
    scaled = learned(kind, rows)(rows)
    np.testing.assert_allclose(scaled, 0.0, atol=1e-6)


@every
def test_two_rows_are_enough(kind):
    low, high = learned(kind, [[0.0], [2.0]])(np.array([[0.0], [2.0]]))[:, 0]
    assert low == -high < 0


@every
def test_some_columns_may_be_scaled_and_stretched(kind):
    scaling, index, factors = learned(kind, X), np.array([2, 0]), np.array([0.5, 4.0])
    part = scaling.select_columns(index, factors)
    np.testing.assert_allclose(part(NEW[:, index]), scaling(NEW)[:, index] * factors, rtol=1e-12)
    part.check()


@pytest.mark.parametrize("kind", [RobustScaling, QuantileScaling])
def test_ranges_that_overflow_are_reported(kind):
    learned(kind, X * 1e300)
    with pytest.raises(ValueError, match="X overflows float64 when it is scaled"):
        learned(kind, [[-1.7e308], [1.7e308], [1.7e308], [-1.7e308]])


# ---------------------------------------------------------------------- oracles


def test_standard_is_that_of_scikit_learn():
    expected = StandardScaler().fit(X[:, :1]).transform(X[:, :1])
    np.testing.assert_allclose(learned(StandardScaling, X[:, :1])(X[:, :1]), expected, atol=1e-12)


def test_robust_is_its_formula():
    low, median, high = np.quantile(
        X[:, :2], [0.25, 0.5, 0.75], axis=0, method="averaged_inverted_cdf"
    )
    z = (NEW[:, :2] - median) / (high - low)
    found = learned(RobustScaling, X)(NEW)[:, :2]
    np.testing.assert_allclose(found, z / np.sqrt(1 + (z / 3) ** 2), rtol=1e-10)


def test_half_the_range_takes_the_place_of_no_interquartile_range():
    column = X[:, 3:]
    z = NEW[:, 3:] / (0.5 * np.ptp(column))
    found = learned(RobustScaling, column)(NEW[:, 3:])
    np.testing.assert_allclose(found, z / np.sqrt(1 + (z / 3) ** 2), rtol=1e-10)
    wild = column.copy()
    wild[1] = 1e12  # not believed
    np.testing.assert_allclose(learned(RobustScaling, wild)(NEW[:, 3:]), found, rtol=1e-10)


def test_normal_scores_are_those_of_ranks():
    expected = ndtri((rankdata(X, axis=0) - 0.5) / N)
    np.testing.assert_allclose(learned(QuantileScaling, X)(X), expected, atol=1e-12)


def test_normal_scores_are_near_those_of_scikit_learn():
    """Which takes the share of values below out of n - 1, and lets ends be 5.2."""
    peer = QuantileTransformer(n_quantiles=N, output_distribution="normal").fit(X[:, :2])
    inside = np.clip(NEW[:, :2], *np.quantile(X[:, :2], [0.05, 0.95], axis=0))
    found = learned(QuantileScaling, X[:, :2])(inside)
    np.testing.assert_allclose(found, peer.transform(inside), atol=0.03)


@given(column=arrays(np.float64, 60, elements=st.integers(-9, 9)), power=st.sampled_from([1, 5]))
def test_tails_are_heavy_where_scipy_finds_much_kurtosis(column, power):
    column = column**power
    several = len(np.unique(column)) > 2
    assert _heavy(column[:, None]) == (several and kurtosis(column) > 20.0)


# ---------------------------------------------------------------------- where it is left open


def _heavy(samples, weights=None):
    return has_heavy_tails(Rows(np.asarray(samples), np.empty(0)), weights)


def test_auto_bounds_only_where_tails_are_heavy():
    light = RNG.uniform(size=(N, 3))
    heavy = np.column_stack([light, np.exp(2.0 * RNG.standard_normal(N))])
    for samples, word in ((light, "standard"), (heavy, "robust")):
        rows = Rows(samples, np.empty(0))
        found = learn_scaling("auto", rows, None)
        assert type(found) is SCALINGS[word]
        np.testing.assert_array_equal(found(samples), learned(SCALINGS[word], samples)(samples))


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_units_do_not_make_tails(scale):
    heavy = np.exp(2.0 * np.random.default_rng(0).standard_normal((N, 1)))
    assert _heavy(heavy / heavy.max() * scale)
    assert not _heavy(np.linspace(-scale, scale, N)[:, None])


@pytest.mark.pairs
@pytest.mark.parametrize("wild", [1e6, -1e6, 1e300])
@pytest.mark.parametrize(("n", "count"), [(51, 1), (80, 1), (99, 1), (101, 2), (400, 5), (400, 7)])
@pytest.mark.parametrize("weighted", [False, True])
def test_what_takes_the_place_of_wild_values_is_none(rng, n, count, wild, weighted):
    X = rng.standard_normal((n, 2))
    believed = X[count:, 0].copy()
    X[:count, 0] = wild
    w = np.ones(n) + 1e-3 * np.arange(n) / n if weighted else None
    scaling = learned(StandardScaling, X, w)
    assert np.abs(scaling(X)).max() < 6.0
    low, high = scaling.limits[1:3, 0]
    assert believed.min() <= low < high <= believed.max()


def test_a_wild_value_makes_no_tails():
    column = np.random.default_rng(0).uniform(size=(N, 1))
    column[7] = 1e8
    assert not _heavy(column)


def test_rare_categories_have_no_tails():
    assert not _heavy((np.arange(1_000) == 3)[:, None].astype(float))
    assert not _heavy(np.ones((50, 2)))


def test_weights_make_tails_as_copies_do():
    column = np.append(np.linspace(-1.0, 1.0, 50), 2.5)[:, None]
    copies = np.append(np.where(np.abs(column[:50, 0]) < 0.1, 300, 1), 1)
    assert not _heavy(column)
    assert _heavy(column, copies.astype(float))
    assert _heavy(np.repeat(column, copies, axis=0))


# ---------------------------------------------------------------------- many rows


def test_values_that_differ_by_rounding_have_one_score():
    """Of a table that tells them apart the slope between them would be 1e15."""
    column = np.cos(np.deg2rad(np.tile([30.0, 330.0, 60.0, 300.0, 80.0], 20)))[:, None]
    scaling = learned(QuantileScaling, column)
    near = np.cos(np.deg2rad([[30.0], [60.0]]))
    steps = [scaling(np.nextafter(near, end)) - scaling(near) for end in (-2.0, 2.0)]
    assert np.abs(steps).max() < 1e-12
    assert np.ptp(scaling(column[:2])) < 1e-12


def test_quantiles_of_many_rows_are_at_most_a_thousand():
    many = RNG.standard_normal((3000, 2))
    scaling = learned(QuantileScaling, many)
    assert scaling.values.shape[1] <= 1000
    shares = (rankdata(many, axis=0) - 0.5) / len(many)
    np.testing.assert_allclose(ndtr(scaling(many)), shares, atol=1e-3)
    np.testing.assert_array_equal(scaling.values[:, -1], many.max(axis=0))


@pytest.mark.parametrize("kind", [RobustScaling, QuantileScaling])
def test_rows_beyond_the_sample_are_not_lost(kind):
    """A value that is so rare that no sample has it is told from others."""
    n = 3 * LARGE_SAMPLE
    many = np.stack([RNG.standard_normal(n), np.arange(n) == 17, np.full(n, 2.0)], axis=1)
    scaling = learned(kind, many)
    ours, exact = scaling(many[:1000]), learned(kind, many[:LARGE_SAMPLE])(many[:1000])
    middle = np.abs(exact[:, 0]) < 2.5  # in the tails two samples differ by chance
    np.testing.assert_allclose(ours[middle, 0], exact[middle, 0], atol=0.1)
    assert ours[17, 1] > 1.0 > ours[18, 1] == ours[19, 1]
    assert np.all(ours[:, 2] == 0.0)


# ---------------------------------------------------------------------- places


@pytest.mark.entered
@every
def test_every_place_scales_alike(on, kind):
    scaling = learned(kind, on.rounded(X))
    new = on.rounded(NEW)
    rows = Rows(on.put(new), on.reference, scaling)
    on.assert_close(rows.whole(), scaling(new), ulps=100, scale=1.0)


@every
def test_rows_of_a_file_are_scaled_as_they_are_read(kind, tmp_path):
    file = np.memmap(tmp_path / "X", dtype="float32", mode="w+", shape=X.shape)
    file[:] = X
    file.flush()
    stored = np.memmap(tmp_path / "X", dtype="float32", mode="r", shape=X.shape)
    wide = np.array(stored, dtype=np.float64)
    scaling = learned(kind, stored)
    np.testing.assert_array_equal(Rows(stored, np.empty(0), scaling).whole(), scaling(wide))
    np.testing.assert_array_equal(scaling(wide), learned(kind, wide)(wide))


@every
def test_what_does_not_scale_is_not_sound(kind):
    scaling = learned(kind, X)
    scaling.check()
    for name in inspect.signature(kind).parameters:
        for wrong in (np.nan, -np.inf):
            parts = {n: getattr(scaling, n).copy() for n in inspect.signature(kind).parameters}
            parts[name].flat[0] = wrong
            with pytest.raises(ValueError, match="scaling of features"):
                kind(**parts).check()
