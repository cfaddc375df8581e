"""Every kernel at its shipped sizes: right numbers, and the same bits in any order of threads."""

from __future__ import annotations

import itertools

import cupy
import numpy as np
import pytest
from cupy import _memory, _raw

from gpukfl._accel import cuda_differences, cuda_distances, cuda_hermite, cuda_knots, cuda_vectors
from gpukfl.linalg import (
    Positions,
    SortedColumns,
    _bins,
    _difference_sums,
    _distances,
    _hermite,
    _knots,
    _ridge_sums,
    bin_products,
    bin_sums,
    center_columns,
    column_dots,
    conjugate_direction,
    conjugate_step,
    difference_sums,
    distances,
    factored_difference_sums,
    hermite_table,
    interpolate_bins,
    interpolate_knots,
    knot_levels,
    pair_sums,
    record,
    ridge_sums,
    row_products,
    sign_products,
    sign_sums,
    sort_rows,
)

ORDERS = [0, 1, 2, 3]  # ascending, descending, and two shufflings
SHIFT = 4
# Several chunks of sorted elements, the last of which is not whole; ties in each
N, M, T = 4500, 2, 2
FEW = (5, 2, 1)


@pytest.fixture(autouse=True)
def _guarded(monkeypatch):
    """Let no kernel read or write beside its arrays."""
    monkeypatch.setattr(_memory, "GUARDED", True)


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return request.param


def in_every_order(monkeypatch, run):
    """Bits of what `run` gives, which are the same whatever the order."""
    found = []
    for order in ORDERS:
        monkeypatch.setattr(_raw, "ORDER", order)
        found.append([x.get() for x in run()])
    for again in found[1:]:
        for one, other in zip(found[0], again, strict=True):
            np.testing.assert_array_equal(one, other)
    return found[0]


def near(got, expected, dtype):
    ulps = 60 if dtype == "float64" else 8
    scale = np.max(np.abs(expected), initial=1e-300)
    assert np.max(np.abs(got - expected), initial=0.0) <= ulps * np.finfo(dtype).eps * scale


def projections(rng, n, m, dtype):
    return np.round(rng.standard_normal((m, n)), 2).astype(dtype)


@pytest.mark.parametrize("size", [(N, M, T), FEW])
def test_sorted_sums(rng, monkeypatch, dtype, size):
    n, m, t = size
    A, V = projections(rng, n, m, dtype), rng.standard_normal((n, t)).astype(dtype)
    on_host = _ridge_sums._sort_rows(A)

    def run():
        rows, v = sort_rows(cupy.asarray(A)), cupy.asarray(V)
        return ridge_sums(rows, v), sign_products(rows, v), rows.values, rows.rank

    ridges, signs, values, rank = in_every_order(monkeypatch, run)
    near(ridges, _ridge_sums._ridge_sums(on_host, V.astype("float64")), "float64")
    near(signs, _ridge_sums._sign_products(on_host, V.astype("float64")), dtype)
    np.testing.assert_array_equal(values, np.sort(A, axis=1))
    np.testing.assert_array_equal(np.take_along_axis(values, rank, axis=1), A)


@pytest.mark.parametrize("n_knots", [9, 100, 7000])  # the last beyond shared memory
@pytest.mark.parametrize("size", [(N, M, T), FEW])
def test_bins(rng, monkeypatch, dtype, n_knots, size):
    n, m, t = size
    A, V = projections(rng, n, m, dtype), rng.standard_normal((n, t)).astype(dtype)
    # Some projections lie before the first knot, and some beyond the last
    low = A.min(axis=1).astype("float64") + 0.1
    gap = (A.max(axis=1) - low - 0.1) / (n_knots - 1)
    gap = np.where(gap > 0, gap, 1.0)
    S = rng.standard_normal((m, n_knots, t))

    def run():
        at = Positions.from_projections(*map(cupy.asarray, (A, low, gap)), n_knots)
        v, s = cupy.asarray(V), cupy.asarray(S)
        levels = knot_levels([(0, n, at)], v, cupy.asarray(gap), n_knots, over=m)
        return at.codes, bin_sums(at, v), interpolate_bins(at, s), bin_products(at, s, v), levels

    codes, sums, between, products, levels = in_every_order(monkeypatch, run)
    at = Positions.from_projections(A, low, gap, n_knots)
    np.testing.assert_array_equal(codes, at.codes)
    near(sums, _bins._bin_sums(at, V.astype("float64")), "float64")
    expected = _bins.levels_of_sums(_bins._bin_sums(at, V.astype("float64")), gap, m)
    np.testing.assert_allclose(levels, expected, rtol=0, atol=1e-11 * np.abs(expected).max())
    near(between, _bins._interpolate_bins(at, S), "float64")
    near(products, _bins._bin_products(at, S, V.astype("float64")), dtype)


def test_more_chunks_than_threads_are_carried(rng):
    A, V = rng.standard_normal((1, 600_000)), rng.standard_normal((600_000, 1))
    sums = ridge_sums(sort_rows(cupy.asarray(A)), cupy.asarray(V)).get()
    expected = _ridge_sums._ridge_sums(_ridge_sums._sort_rows(A), V)
    np.testing.assert_allclose(sums, expected, rtol=0, atol=1e-11 * np.max(np.abs(expected)))


def test_slices_beyond_shared_memory_are_added(rng):
    codes = rng.integers(0, 7000 << SHIFT, (1, 60_000)).astype("int32")
    V = rng.standard_normal((60_000, 1))
    sums = bin_sums(Positions(cupy.asarray(codes), SHIFT, 7000), cupy.asarray(V)).get()
    expected = _bins._bin_sums(Positions(codes, SHIFT, 7000), V)
    np.testing.assert_allclose(sums, expected, rtol=0, atol=1e-11)  # of the fixed point


def test_sums_of_a_column_beyond_32_bits_carry(monkeypatch):
    at = Positions(cupy.zeros((1, 600), dtype="int32"), SHIFT, 3)
    (sums,) = in_every_order(monkeypatch, lambda: (bin_sums(at, cupy.full((600, 1), 1.0 / 3.0)),))
    near(sums[:, :, 0], np.array([[200.0, 0.0, 0.0]]), "float64")


def test_a_column_that_is_not_finite_sums_to_nan(monkeypatch):
    at = Positions(cupy.zeros((1, 2), dtype="int32"), SHIFT, 3)
    V = np.array([[1.0, np.inf], [2.0, 0.0]])
    (sums,) = in_every_order(monkeypatch, lambda: (bin_sums(at, cupy.asarray(V)),))
    assert sums[0, 0, 0] == 3.0
    assert np.all(np.isnan(sums[..., 1]))


@pytest.mark.parametrize(("m", "n_knots"), [(4, 33), (2, 300)])  # one table, and tiles of one
def test_pairs(rng, monkeypatch, m, n_knots):
    A = projections(rng, 1000, m, "float64")
    low, gap = A.min(axis=1), (A.max(axis=1) - A.min(axis=1)) / (n_knots - 1)
    at = Positions.from_projections(A, low, gap, n_knots, shift=SHIFT)
    moved = Positions(cupy.asarray(at.codes, dtype="int32"), at.shift, n_knots)
    (sums,) = in_every_order(monkeypatch, lambda: (pair_sums(moved, None),))
    near(sums, _bins._pair_sums(at, np.ones((1000, 1)), len(at.codes)), "float64")


@pytest.mark.parametrize(("n", "q", "d"), [(150, 70, 21), (3, 2, 1), (64, 600, 16)])
@pytest.mark.parametrize("slow", [False, True], ids=["double", "pairs"])
def test_distances(rng, monkeypatch, dtype, slow, n, q, d):
    monkeypatch.setattr(cuda_distances, "double_is_slow", lambda _: slow)
    X, Z = (rng.standard_normal((rows, d)).astype(dtype) for rows in (n, q))
    Q = rng.standard_normal((n, q)).astype(dtype)
    Z[0] = X[0]  # a distance and signs of zero

    def run():
        x, z, weights = map(cupy.asarray, (X, Z, Q))
        signs = sign_sums(weights, x, z), sign_sums(weights.T, z, x)
        return distances(x, z), distances(x, z, norm="manhattan"), *signs

    euclidean, manhattan, forth, back = in_every_order(monkeypatch, run)
    wide = X.astype("float64"), Z.astype("float64")
    near(euclidean, _distances._distances(*wide, "euclidean"), dtype)
    exact = _distances._distances(*wide, "manhattan")
    near(manhattan, exact, dtype)
    if dtype == "float32":  # of sums that round once
        assert np.all(np.abs(manhattan - exact) <= 0.51 * np.spacing(manhattan))
    near(forth, _distances._sign_sums(Q.astype("float64"), *wide), dtype)
    near(back, _distances._sign_sums(Q.T.astype("float64"), *wide[::-1]), dtype)


@pytest.mark.parametrize(("n", "p"), [(150, 21), (200, 70), (2, 1)])
def test_differences(rng, monkeypatch, dtype, n, p):
    A = rng.standard_normal((n, n))
    A = A + A.T
    X = rng.standard_normal((n, p)).astype(dtype)
    (sums,) = in_every_order(
        monkeypatch, lambda: (difference_sums(cupy.asarray(A), cupy.asarray(X)),)
    )
    near(sums, _difference_sums._difference_sums(A, X.astype("float64")), "float64")


@pytest.mark.parametrize(("n", "p", "m"), [(1500, 3, 70), (2100, 2, 1), (1, 2, 3)])
def test_factored_differences(rng, monkeypatch, dtype, n, p, m):
    monkeypatch.setattr(cuda_differences, "_CHUNKS", 7)
    V, X = (rng.standard_normal((n, k)) for k in (m, p))
    V, X = (V - V.mean(axis=0)).astype(dtype), X.astype(dtype)  # no terms that cancel

    def run():
        columns = SortedColumns.sort(cupy.asarray(X))
        return (factored_difference_sums(cupy.asarray(V), columns),)

    (sums,) = in_every_order(monkeypatch, run)
    expected = _difference_sums._factored_difference_sums(V, SortedColumns.sort(X))
    near(sums, expected, "float64")


def test_features_beyond_the_grid_are_looped_over(rng, monkeypatch):
    monkeypatch.setattr(cuda_differences, "_MAX_BLOCKS", 1)
    test_factored_differences(rng, monkeypatch, "float64", 1500, 3, 2)


def test_parts_of_the_samples_have_one_fixed_point(rng, monkeypatch):
    codes = rng.integers(0, 8 << SHIFT, (2, 700)).astype("int32")
    V = np.concatenate([rng.standard_normal((300, 1)), 1e3 * rng.standard_normal((400, 1))])
    gap = np.array([0.5, 2.0])

    def run(*cuts):
        ends = [0, *cuts, 700]
        parts = [
            (i, j, Positions(cupy.asarray(codes[:, i:j]), SHIFT, 9))
            for i, j in itertools.pairwise(ends)
        ]
        return (knot_levels(parts, cupy.asarray(V), cupy.asarray(gap), 9),)

    (whole,), (cut,) = (in_every_order(monkeypatch, lambda c=c: run(*c)) for c in [(), (300, 301)])
    np.testing.assert_array_equal(whole, cut)


@pytest.mark.parametrize("shape", [(700, 2), (3, 1), (300,), (9000, 3)])
def test_steps(rng, monkeypatch, dtype, shape):
    x, r, p, Ap = rng.standard_normal((4, *shape)).astype(dtype)
    rz, curvature, worst = rng.uniform(1.0, 2.0, (3, *shape[1:]))

    def steps(put):
        moved = conjugate_step(*map(put, (x, r, p, Ap, rz, curvature, worst)))
        return *moved, conjugate_direction(*map(put, (r, p, rz, curvature)))

    found = in_every_order(monkeypatch, lambda: steps(cupy.asarray))
    for got, expected in zip(found, steps(np.asarray), strict=True):
        near(got, expected, dtype)


@pytest.mark.parametrize("shape", [(700, 2), (1, 3), (300, 1), (9000, 3), (2, 256)])
def test_columns(rng, monkeypatch, dtype, shape):
    u, v = rng.standard_normal((2, *shape)).astype(dtype)
    product = rng.standard_normal(shape)

    def columns(put):
        same, wide = (center_columns(put(p), put(v), shift=0.5) for p in (u, product))
        plus = column_dots(put(u), put(v), plus=put(u))
        return column_dots(put(u), put(v)), plus, same, wide

    dots, plus, *centered = in_every_order(monkeypatch, lambda: columns(cupy.asarray))
    terms = u.astype("float64") * v
    assert np.all(np.abs(dots - terms.sum(axis=0)) <= 1e-13 * np.abs(terms).sum(axis=0))
    assert np.all(np.abs(plus - 2.0 * dots) <= 1e-13 * np.abs(terms).sum(axis=0))
    for got, expected in zip(centered, columns(np.asarray)[2:], strict=True):
        near(got, expected, dtype)


def test_records(rng, monkeypatch):
    vectors = rng.standard_normal((3, 300))

    def run():
        log = cupy.zeros((2, 3, 300))
        record(log, 1, *map(cupy.asarray, vectors))
        return (log,)

    (log,) = in_every_order(monkeypatch, run)
    np.testing.assert_array_equal(log, [np.zeros((3, 300)), vectors])


def test_the_largest_of_columns_may_be_nan(monkeypatch):
    V = np.full((9000, 3), -2.0)
    V[4000, 1], V[8999, 2] = np.nan, -7.0
    for order in ORDERS:
        monkeypatch.setattr(_raw, "ORDER", order)
        parts = cuda_vectors.column_maxima(cupy.asarray(V)).get()
        assert parts.shape == (4, 3)
        np.testing.assert_array_equal(parts.max(axis=0), [2.0, np.nan, 7.0])


def test_the_threads_of_a_small_grid_loop_on(rng, monkeypatch):
    monkeypatch.setattr(cuda_vectors, "_MAX_BLOCKS", 2)
    monkeypatch.setattr(cuda_vectors, "_SLICE", 100)
    test_steps(rng, monkeypatch, "float64", (700, 2))
    test_columns(rng, monkeypatch, "float64", (700, 2))


def test_a_solved_column_stays_where_it_is(monkeypatch):
    ones, zeros = cupy.ones((5, 2)), cupy.zeros(2)
    x, r, _ = in_every_order(monkeypatch, lambda: conjugate_step(*[ones] * 4, *[zeros] * 3))
    assert np.all(x == 1.0)
    assert np.all(r == 1.0)


def test_a_slice_of_differences_has_several_tiles(rng, monkeypatch):
    monkeypatch.setattr(cuda_differences, "_BLOCKS", 2)
    test_differences(rng, monkeypatch, "float64", 200, 3)


@pytest.mark.parametrize("blocks", [65_535, 2])
@pytest.mark.parametrize(("m", "n", "q", "t"), [(3, 700, 9, 2), (2, 5, 1, 1), (1, 300, 2, 1)])
def test_lines_between_knots(rng, monkeypatch, dtype, blocks, m, n, q, t):
    monkeypatch.setattr(cuda_knots, "_MAX_BLOCKS", blocks)
    A, knots = rng.standard_normal((m, n)), np.sort(rng.standard_normal((m, q)), axis=1)
    knots[:, -2:] = knots[:, -1:]  # a padding
    A[:, :q] = knots[:, : A.shape[1]]  # points at knots
    values, A, knots = rng.standard_normal((m, q, t)), A.astype(dtype), knots.astype(dtype)
    (found,) = in_every_order(
        monkeypatch, lambda: (interpolate_knots(*map(cupy.asarray, (A, knots, values))),)
    )
    wide = A.astype("float64"), knots.astype("float64"), values
    near(found, _knots._interpolate_knots(*wide), "float64")


@pytest.mark.parametrize("blocks", [65_535, 2])  # a thread for each element, and more than one
@pytest.mark.parametrize(("n", "d", "degree"), [(7, 300, 9), (600, 2, 3), (3, 1, 0)])
def test_hermite_polynomials(rng, monkeypatch, dtype, blocks, n, d, degree):
    monkeypatch.setattr(cuda_hermite, "_MAX_BLOCKS", blocks)
    X = (2.0 * rng.standard_normal((n, d))).astype(dtype)
    (table,) = in_every_order(monkeypatch, lambda: (hermite_table(cupy.asarray(X), degree),))
    expected = _hermite._hermite_table(X, degree)
    np.testing.assert_allclose(table, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("blocks", [65_535, 2])  # a thread for each product, and more than one
@pytest.mark.parametrize(("n", "sizes"), [(7, (300, 40, 3)), (600, (5,)), (3, (2, 2, 0))])
def test_products_of_rows(rng, monkeypatch, blocks, n, sizes):
    monkeypatch.setattr(cuda_hermite, "_MAX_BLOCKS", blocks)
    m, table = sizes[0], rng.standard_normal((20, n))
    inside = np.arange(m) < np.array(sizes)[:, None]
    rows = np.where(inside, rng.integers(0, 20, inside.shape), -1)
    scales = rng.uniform(0.5, 2.0, m)
    given = tuple(map(cupy.asarray, (table, rows)))
    (found,) = in_every_order(
        monkeypatch, lambda: (row_products(*given, sizes, cupy.asarray(scales)),)
    )
    np.testing.assert_array_equal(found, _hermite._row_products(table, rows, sizes, scales))
