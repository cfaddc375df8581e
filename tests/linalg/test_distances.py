"""Distances equal scipy's, and sums of signs the dense formula, in float64 on the host."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from gpukfl.linalg import _distances as generic
from gpukfl.linalg import distances, power_sums, sign_sums, squared_distances

METRICS = {"euclidean": "euclidean", "manhattan": "cityblock"}  # our names, scipy's
SHAPES = [(1, 1, 1), (1, 300, 2), (300, 1, 3), (20, 9, 4), (150, 261, 7), (17, 530, 33)]
EMPTY = [(0, 3, 2), (3, 0, 2), (0, 0, 1)]

norms = pytest.mark.parametrize("norm", METRICS)
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


def points(rng, n, q, d, *, rounding=lambda a: a):
    """Points X (n, d) and Z (q, d), with ties in every feature and points in both sets."""
    X, Z = rng.standard_normal((n, d)), rng.standard_normal((q, d))
    half = min(n, q) // 2
    Z[half:, :] = np.round(2 * Z[half:, :]) / 2
    X[half:, :] = np.round(2 * X[half:, :]) / 2
    if half:
        Z[:half, :] = X[rng.integers(0, n, half), :]
    return rounding(X), rounding(Z)


def dense_sign_sums(Q, X, Z):
    """The definition, one (n, q, d) array."""
    return np.sum(Q[:, :, None] * np.sign(X[:, None, :] - Z[None, :, :]), axis=1)


def sum_of_weights(Q):
    """What an error of a sum of signs is relative to (n, 1)."""
    return np.sum(np.abs(Q), axis=1)[:, None] + 1e-300


def assert_within(actual, expected, *, eps, ulps, scale):
    """Entry by entry within ulps of scale."""
    excess = np.abs(np.asarray(actual, dtype=np.float64) - expected) - ulps * eps * scale
    assert np.max(excess, initial=0.0) <= 0, f"{np.max(excess / (eps * scale))} ulps too many"


# --------------------------------------------------------------------------------------------------
# Every place


@pytest.mark.pairs
@norms
@shapes
def test_distances_are_scipys(on, rng, shape, norm):
    X, Z = points(rng, *shape, rounding=on.rounded)
    actual = distances(on.put(X), on.put(Z), norm=norm)
    on.assert_lives_here(actual)
    expected = cdist(X, Z, METRICS[norm])
    # the sum, the difference and the result are rounded; in float64 scipy's result too
    ulps = 2 if on.dtype_name == "float32" else 4 + shape[2] / 2
    assert_within(on.host(actual), expected, eps=on.eps, ulps=ulps, scale=expected)
    same = (X[:, None, :] == Z[None, :, :]).all(axis=2)
    assert np.array_equal(on.host(actual) == 0, same)


@norms
def test_distances_over_many_features(on, rng, norm):
    X, Z = points(rng, 5, 40, 1000, rounding=on.rounded)
    expected = cdist(X, Z, METRICS[norm])
    actual = on.host(distances(on.put(X), on.put(Z), norm=norm))
    ulps = 2 if on.dtype_name == "float32" else 50
    assert_within(actual, expected, eps=on.eps, ulps=ulps, scale=expected)


@pytest.mark.pairs
@pytest.mark.parametrize("offset", [0.0, 1000.0])
@shapes
def test_squared_distances_err_by_the_squared_radius(on, rng, shape, offset):
    X, Z = points(rng, *shape)
    X, Z = on.rounded(X + offset), on.rounded(Z + offset)
    actual = squared_distances(on.put(X), on.put(Z))
    on.assert_lives_here(actual)
    radii = [np.sum((a - np.mean(Z, axis=0)) ** 2, axis=1).max() for a in (X, Z)]
    expected = cdist(X, Z, "sqeuclidean")
    # the mean itself is rounded, which counts where all points are about equal
    scale = max(radii) + (on.eps * offset) ** 2
    ulps = 8 + np.sqrt(shape[2])
    assert_within(on.host(actual), expected, eps=on.eps, ulps=ulps, scale=scale)
    assert np.min(on.host(actual)) >= 0


@shapes
def test_sign_sums_are_sums_of_signs(on, rng, shape):
    X, Z = points(rng, *shape, rounding=on.rounded)
    Q = on.rounded(rng.standard_normal((len(X), len(Z))))
    placed = on.put(Q), on.put(X), on.put(Z)
    on.assert_lives_here(sign_sums(*placed))
    other = sign_sums(placed[0].T, placed[2], placed[1])
    for actual, args in ((sign_sums(*placed), (Q, X, Z)), (other, (Q.T, Z, X))):
        exact = dense_sign_sums(*args)
        ulps = 1 if on.dtype_name == "float32" else 20
        scale = sum_of_weights(args[0])
        assert_within(on.host(actual), exact, eps=on.eps, ulps=ulps, scale=scale)


def test_ties_count_nothing(on):
    same = on.put(np.full((3, 2), 0.7))
    on.assert_close(sign_sums(on.put(np.ones((3, 3))), same, same), np.zeros((3, 2)), ulps=0)


def test_sign_sums_are_the_gradient_of_manhattan_distances(on_double, rng):
    on = on_double
    X, Z = rng.standard_normal((6, 3)), rng.standard_normal((5, 3))
    Q, H = rng.standard_normal((6, 5)), rng.standard_normal((5, 3))
    grad = on.host(sign_sums(on.put(Q.T), on.put(Z), on.put(X)))
    step = 1e-6
    sides = [
        np.sum(Q * on.host(distances(on.put(X), on.put(Z + s * H), norm="manhattan")))
        for s in (step, -step)
    ]
    assert np.isclose(np.sum(grad * H), (sides[0] - sides[1]) / (2 * step), rtol=1e-7)


@pytest.mark.parametrize("order", [0.7, 1.0, 1.5, 2.0, 3.0])
def test_distances_of_any_order_are_scipys(on, rng, order):
    X, Z = points(rng, 20, 9, 4, rounding=on.rounded)
    actual = distances(on.put(X), on.put(Z), norm=order)
    on.assert_lives_here(actual)
    expected = cdist(X, Z, "minkowski", p=order)
    assert_within(on.host(actual), expected, eps=on.eps, ulps=20, scale=expected)


@pytest.mark.parametrize("size", [1e-190, 1e-30, 1e30, 1e190])
def test_distances_of_order_1_5_of_any_size(rng, size):
    X, Z = points(rng, 20, 300, 4)
    actual, expected = distances(size * X, size * Z, norm=1.5), cdist(X, Z, "minkowski", p=1.5)
    assert_within(actual / size, expected, eps=np.finfo(np.float64).eps, ulps=20, scale=expected)


def test_distances_of_order_1_5_beyond_all_numbers_are_infinite(rng):
    X, Z = points(rng, 20, 300, 4)
    assert np.isinf(distances(1e250 * (2.0 + np.abs(X)), -1e250 * np.abs(Z), norm=1.5)).all()


@pytest.mark.parametrize("order", [0.7, 1.0, 1.5, 2.0])
def test_power_sums_are_the_formula(on, rng, order):
    X, Z = points(rng, 20, 9, 4, rounding=on.rounded)
    Q = on.rounded(rng.standard_normal((20, 9)))
    gaps = X[:, None, :] - Z[None, :, :]
    sizes = np.where(gaps == 0, 1.0, np.abs(gaps)) ** (order - 1.0)
    for args, each in (((Q, X, Z), np.sign(gaps) * sizes), ((Q.T, Z, X), None)):
        turned = -np.swapaxes(np.sign(gaps) * sizes, 0, 1) if each is None else each
        placed = [on.put(np.ascontiguousarray(a)) for a in args]
        actual = power_sums(*placed, order=order)
        on.assert_lives_here(actual)
        exact = np.sum(args[0][:, :, None] * turned, axis=1)
        scale = np.sum(np.abs(args[0][:, :, None] * turned), axis=1) + 1e-300
        assert_within(on.host(actual), exact, eps=on.eps, ulps=20, scale=scale)


@pytest.mark.parametrize("shape", EMPTY, ids=str)
def test_no_rows(on, shape):
    n, q, d = shape
    Q, X, Z = on.put(np.zeros((n, q))), on.put(np.zeros((n, d))), on.put(np.zeros((q, d)))
    for norm in METRICS:
        on.assert_close(distances(X, Z, norm=norm), np.zeros((n, q)))
    on.assert_close(squared_distances(X, Z), np.zeros((n, q)))
    on.assert_close(sign_sums(Q, X, Z), np.zeros((n, d)))


def test_views_give_the_same_and_stay_as_they_are(on, rng):
    X, Z = points(rng, 40, 300, 6, rounding=on.rounded)
    Q = on.rounded(rng.standard_normal((40, 300)))
    plain = [on.put(a) for a in (Q, X, Z)]
    transposed = [on.put(a.T).T for a in (Q, X, Z)]
    strided = [on.put(np.repeat(a, 2, axis=1))[:, ::2] for a in (Q, X, Z)]
    for q, x, z in (plain, transposed, strided):
        results = [distances(x, z, norm=norm) for norm in METRICS]
        for norm, result in zip(METRICS, results, strict=True):
            assert np.array_equal(on.host(result), on.host(distances(*plain[1:], norm=norm)))
        assert np.array_equal(on.host(sign_sums(q, x, z)), on.host(sign_sums(*plain)))
        on.assert_close(squared_distances(x, z), cdist(X, Z, "sqeuclidean"), ulps=20)
        for view, host in ((q, Q), (x, X), (z, Z)):
            assert np.array_equal(on.host(view), host)


@norms
def test_extreme_scales_neither_overflow_nor_vanish(on, norm):
    for scale in (1e-30, 1e30):  # whose squares float32 does not have
        X = on.rounded(np.array([[0.0, 0.0], [3.0, 4.0]]) * scale)
        expected = cdist(X, X, METRICS[norm])
        actual = on.host(distances(on.put(X), on.put(X), norm=norm))
        assert_within(actual, expected, eps=on.eps, ulps=4, scale=expected)


def test_unknown_norms_are_refused(on):
    X = on.put(np.zeros((2, 2)))
    for norm in ("cosine", 0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=f"or a positive number, got '?{norm}"):
            distances(X, X, norm=norm)


# --------------------------------------------------------------------------------------------------
# Compiled and array-API form on NumPy


LAYOUTS = [
    np.ascontiguousarray,
    np.asfortranarray,
    lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    lambda a: a[::-1, ::-1],
]


@st.composite
def drawn(draw):
    """Weights and points from shapes, ties, scales and memory layouts."""
    n, q, d = draw(st.integers(0, 40)), draw(st.integers(0, 40)), draw(st.integers(1, 12))
    if draw(st.booleans()):
        q += 250  # more than a tile
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X, Z = points(rng, n, q, d)
    scale = 10.0 ** draw(st.integers(-8, 8))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    arrays = [a.astype(dtype) for a in (rng.standard_normal((n, q)), scale * X, scale * Z)]
    layouts = [
        np.asfortranarray,
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: a[::-1, ::-1],
    ]
    chosen = [draw(st.sampled_from([np.ascontiguousarray, *layouts])) for _ in arrays]
    return [layout(a) for layout, a in zip(chosen, arrays, strict=True)]


@given(drawn())
@settings(derandomize=True, max_examples=40)
def test_both_forms_equal_the_formula(case):
    Q, X, Z = case
    eps, d = np.finfo(X.dtype).eps, X.shape[1]
    Q64, X64, Z64 = (a.astype(np.float64) for a in case)
    for norm, metric in METRICS.items():
        exact = cdist(X64, Z64, metric)
        for actual in (distances(X, Z, norm=norm), generic._distances(X, Z, norm)):
            assert actual.dtype == X.dtype
            assert_within(actual, exact, eps=eps, ulps=4 + d / 2, scale=exact)
    gaps = X64[:, None, :] - Z64[None, :, :]
    for order in (0.6, 1.5):
        exact = cdist(X64, Z64, "minkowski", p=order)
        for actual in (distances(X, Z, norm=order), generic._power_distances(X, Z, order)):
            assert actual.dtype == X.dtype
            assert_within(actual, exact, eps=eps, ulps=20 + 2 * d, scale=exact)
        sizes = np.where(gaps == 0, 1.0, np.abs(gaps)) ** (order - 1.0)
        terms = Q64[:, :, None] * np.sign(gaps) * sizes
        scale = np.sum(np.abs(terms), axis=1) + 1e-300
        for actual in (power_sums(Q, X, Z, order=order), generic._power_sums(Q, X, Z, order)):
            assert actual.dtype == X.dtype
            assert_within(actual, np.sum(terms, axis=1), eps=eps, ulps=50, scale=scale)
    exact = dense_sign_sums(Q64, X64, Z64)
    for actual in (sign_sums(Q, X, Z), generic._sign_sums(Q, X, Z)):
        assert actual.dtype == X.dtype
        assert_within(actual, exact, eps=eps, ulps=20, scale=sum_of_weights(Q64))


def test_threads_change_no_bit(monkeypatch, rng):
    X, Z = points(rng, 700, 300, 5)
    Q = rng.standard_normal((700, 300))
    results = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("GPUKFL_NUM_THREADS", threads)
        results.append([distances(X, Z), distances(X, Z, norm="manhattan"), sign_sums(Q, X, Z)])
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(other, results[0], strict=True))
