"""The kernels of ``brownian.cu``, run by a CPU emulation of CUDA, and on a GPU where there is one.

The emulation runs the launches of `gpukfl._accel.cuda` unchanged on NumPy arrays, with blocks so
small that short rows have several.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from emulation import emulate, replace_kernels

from gpukfl import memory_budget
from gpukfl._accel import _launch, cuda, cuda_vectors
from gpukfl.core._places import cupy_is_usable
from gpukfl.linalg import Positions, ridge_sums, sort_rows
from gpukfl.linalg._bins import _bin_products, _bin_sums, _encode, _interpolate_bins, _pair_sums
from gpukfl.linalg._ridge_sums import _ridge_sums, _sign_products, _sort_rows

pytestmark = pytest.mark.slow
EPS = float(np.finfo(np.float64).eps)
THREADS, ITEMS = 8, 2

SHAPES = [  # n, m, t
    *[(1, 1, 1), (1, 4, 3), (2, 1, 3), (2, 4, 1), (37, 1, 3), (37, 4, 1)],
    *[(300, 1, 1), (300, 4, 3)],
]
KINDS = ["random", "tied", "constant"]
DTYPES = [(a, v) for a in ("float32", "float64") for v in ("float32", "float64")]
# Every kind in double, and the other dtypes where there are several blocks; of few samples one
CASES = [
    *[(shape, "tied", ("float64", "float64")) for shape in SHAPES if shape[0] <= 2],
    *[(shape, kind, ("float64", "float64")) for shape in SHAPES[4:] for kind in KINDS],
    *[((300, 3, 2), "tied", dtypes) for dtypes in DTYPES],
]


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("brownian")
    return emulate(cuda.KERNELS, folder, THREADS=THREADS, ITEMS=ITEMS)


@pytest.fixture(scope="session")
def library_of_vectors(tmp_path_factory) -> ctypes.CDLL:
    return emulate(cuda_vectors.KERNELS, tmp_path_factory.mktemp("vectors"), THREADS=THREADS)


@pytest.fixture
def emulated(library, library_of_vectors, monkeypatch):
    """Let `gpukfl._accel.cuda`, and what it asks of vectors, run on NumPy arrays."""
    replace_kernels(monkeypatch, cuda.KERNELS, library)
    replace_kernels(monkeypatch, cuda_vectors.KERNELS, library_of_vectors)
    monkeypatch.setattr(cuda_vectors, "_THREADS", THREADS)
    monkeypatch.setattr(cuda, "_THREADS", THREADS)
    monkeypatch.setattr(cuda, "_ITEMS", ITEMS)
    monkeypatch.setattr(cuda, "_BIN_SAMPLES", 64)
    return monkeypatch


def projections(rng, kind: str, m: int, n: int, dtype: str) -> np.ndarray:
    A = rng.standard_normal((m, n))
    if kind == "tied":
        A = np.round(2 * A) / 2
    if kind == "constant":
        A[:] = 0.3
    return A.astype(dtype)


def make(case):
    """Projections (m, n), weights (n, t) that sum to zero, and their generic sorted rows."""
    (n, m, t), kind, (a, v) = case
    rng = np.random.default_rng(7)
    V = rng.standard_normal((n, t))
    A = projections(rng, kind, m, n, a)
    return A, (V - V.mean(axis=0)).astype(v), _sort_rows(A)


def positions(A: np.ndarray, n_knots: int, *, shift: int | None = None) -> Positions:
    low = A.min(axis=1).astype(np.float64)
    gap = (A.max(axis=1) - low) / max(n_knots - 1, 1)
    shift = 31 - (n_knots - 1).bit_length() if shift is None else shift
    codes = _encode(A, low, np.where(gap > 0, gap, 1.0), n_knots, shift)
    return Positions(codes, shift, n_knots)


def assert_close(actual, expected, *, dtype="float64"):
    """Agree to 4000 eps of a double (about 1e-12), and one rounding to `dtype`."""
    assert actual.dtype == dtype
    assert actual.shape == expected.shape
    scale = float(np.max(np.abs(expected), initial=0.0))
    rounding = float(np.finfo(dtype).eps) if dtype == "float32" else 0.0
    np.testing.assert_allclose(actual, expected, rtol=0, atol=(4000 * EPS + rounding) * scale)


@pytest.mark.each
@pytest.mark.parametrize("together", [0, 2**16], ids=["row by row", "together"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_sort_rows(emulated, case, together):
    emulated.setattr(cuda, "_TOGETHER_UP_TO", together)
    A, _, rows = make(case)
    values, order, rank = cuda.sort_rows(np.asfortranarray(A))
    assert values.dtype == A.dtype
    assert order.dtype == rank.dtype == np.int32
    np.testing.assert_array_equal(values, rows.values)
    np.testing.assert_array_equal(np.take_along_axis(A, order.astype(int), axis=1), values)
    everyone = np.broadcast_to(np.arange(A.shape[1]), A.shape)
    np.testing.assert_array_equal(np.take_along_axis(order, rank.astype(int), axis=1), everyone)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ridge_sums(emulated, case):
    A, V, rows = make(case)
    assert_close(cuda.ridge_sums(*cuda.sort_rows(A), V), _ridge_sums(rows, V))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_sign_products(emulated, case):
    A, Z, rows = make(case)
    actual = cuda.sign_products(*cuda.sort_rows(A), Z)
    assert_close(actual, _sign_products(rows, Z), dtype=Z.dtype.name)


def test_arrays_of_another_dtype_are_refused(emulated):
    A, V, _ = make(((37, 4, 1), "random", ("float64", "float32")))
    values, order, rank = cuda.sort_rows(A)
    with pytest.raises(TypeError, match="expected rank to be int32, got int64"):
        cuda.ridge_sums(values, order, rank.astype(np.int64), V)
    with pytest.raises(TypeError, match="expected order to be int32, got int64"):
        cuda.sign_products(values, order.astype(np.int64), rank, V)


def test_sorted_sums_are_the_pairwise_sums(emulated):
    A, V, _ = make(((37, 4, 3), "tied", ("float64", "float64")))
    rows = cuda.sort_rows(A)
    gaps = A[:, :, None] - A[:, None, :]
    u = -0.5 * np.abs(gaps) @ V  # (m, n, t)
    lowest = np.take_along_axis(u, A.argmin(axis=1)[:, None, None], axis=1)
    assert_close(cuda.ridge_sums(*rows, V), (u - lowest).sum(axis=0))
    assert_close(cuda.sign_products(*rows, V), ((np.sign(gaps) @ V) * V).sum(axis=2))


@pytest.mark.pairs
@pytest.mark.parametrize("n_knots", [1, 2, 17, 300])
@pytest.mark.parametrize("shared_bytes", [48 * 1024, 0], ids=["shared", "global"])
@pytest.mark.parametrize("case", [case for case in CASES if case[2][0] == "float64"], ids=str)
def test_bin_sums(emulated, case, shared_bytes, n_knots):
    emulated.setattr(_launch, "_SHARED_BYTES", shared_bytes)
    A, V, _ = make(case)
    V = V + 1.0  # or one bin with everything holds nothing but rounding errors
    at = positions(A, n_knots)
    assert_close(cuda.bin_sums(at.codes, at.shift, at.n_knots, V), _bin_sums(at, V))


@pytest.mark.each
@pytest.mark.parametrize(("n_knots", "shift"), [(1, 31), (2, 4), (300, 22)])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_encode(emulated, case, n_knots, shift):
    A, _, _ = make(case)
    A = A.copy()
    A[0, 0] = np.nan
    low = np.full(A.shape[0], -0.7)  # some lie beyond the knots
    gap = np.full(A.shape[0], 1.9 / n_knots)
    with np.errstate(invalid="ignore"):
        expected = _encode(A, low, gap, n_knots, shift)
    actual = cuda.encode(np.asfortranarray(A), low, gap, n_knots, shift)
    assert actual.dtype == np.int32
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.pairs
@pytest.mark.parametrize(("n_knots", "shift"), [(2, 4), (17, 4), (17, 9), (40, 0)])
@pytest.mark.parametrize("table_bytes", [48 * 1024, 800], ids=["whole", "tiles"])
@pytest.mark.parametrize("case", [case for case in CASES if case[2][0] == "float64"], ids=str)
@pytest.mark.parametrize("some", [False, True])
def test_pair_sums(emulated, case, table_bytes, n_knots, shift, some):
    emulated.setattr(_launch, "_SHARED_BYTES", table_bytes)
    emulated.setattr(_launch, "_BLOCKS", 7)
    emulated.setattr(_launch, "_MULTIPROCESSORS", 1)
    A, _, _ = make(case)
    at = positions(A, n_knots, shift=shift)
    assert cuda.can_sum_pairs(at.codes, shift, n_knots)
    rows = (len(A) + 1) // 2 if some else len(A)
    actual = cuda.pair_sums(at.codes, shift, n_knots, rows)
    np.testing.assert_array_equal(actual, _pair_sums(at, None, rows))


def test_pair_sums_know_what_they_have_room_for():
    codes = np.zeros((1, 1), dtype=np.int32)
    assert cuda.can_sum_pairs(codes, 4, 129)
    assert not cuda.can_sum_pairs(codes, 11, 129)
    assert not cuda.can_sum_pairs(codes, 4, 20_000)


@pytest.mark.each
@pytest.mark.parametrize("n_knots", [1, 2, 17, 300])
@pytest.mark.parametrize("case", [case for case in CASES if case[2][0] == "float64"], ids=str)
def test_interpolation(emulated, case, n_knots):
    A, Z, _ = make(case)
    at = positions(A, n_knots)
    U = np.random.default_rng(8).standard_normal((A.shape[0], n_knots, Z.shape[1]))
    assert_close(cuda.interpolate_bins(at.codes, at.shift, U), _interpolate_bins(at, U))
    actual = cuda.bin_products(at.codes, at.shift, U, Z)
    assert_close(actual, _bin_products(at, U, Z), dtype=Z.dtype.name)


def test_rounded_positions_stay_in_their_bin(emulated):
    A, V, _ = make(((300, 3, 2), "random", ("float64", "float64")))
    at = positions(A, 16, shift=0)
    expected = np.zeros((3, 16, 2))
    for j in range(3):
        np.add.at(expected[j], at.codes[j] >> at.shift, V)
    assert_close(cuda.bin_sums(at.codes, at.shift, at.n_knots, V), expected)


# --------------------------------------------------------------------------------------------------
# Launches: blocks of rows, small grids, strides, empty input


def everything(A, V, at, U):
    """Results of every twin that takes floats, on the same samples."""
    rows = cuda.sort_rows(A)
    return [
        cuda.ridge_sums(*rows, V),
        cuda.sign_products(*rows, V),
        cuda.bin_sums(at.codes, at.shift, at.n_knots, V),
        cuda.interpolate_bins(at.codes, at.shift, U),
        cuda.bin_products(at.codes, at.shift, U, V),
    ]


@pytest.fixture
def problem():
    A, V, _ = make(((150, 5, 2), "tied", ("float32", "float32")))
    U = np.random.default_rng(8).standard_normal((5, 40, 2))
    return A, V, positions(A, 40), U


def assert_same_bits(actual, expected):
    for x, y in zip(actual, expected, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def test_results_repeat_to_the_last_bit(emulated, problem):
    assert_same_bits(everything(*problem), everything(*problem))


@pytest.mark.parametrize("budget", [1, 9 * 150 * 2 * 2])
def test_row_blocks_do_not_change_results(emulated, problem, budget):
    expected = everything(*problem)
    with memory_budget(budget):
        assert_same_bits(everything(*problem), expected)


def test_small_grids_loop_over_the_rest(emulated, problem):
    expected = everything(*problem)
    emulated.setattr(cuda, "_MAX_BLOCKS", 2)
    assert_same_bits(everything(*problem), expected)


def test_strided_inputs(emulated, problem):
    A, V, at, U = problem
    expected = everything(*problem)
    strided = Positions(np.asfortranarray(at.codes), at.shift, at.n_knots)
    wide = np.repeat(V, 2, axis=1)[:, ::2]
    args = (np.asfortranarray(A), wide, strided, np.asfortranarray(U))
    assert_same_bits(everything(*args), expected)
    rows = [np.asfortranarray(x) for x in cuda.sort_rows(A)]
    assert_same_bits([cuda.ridge_sums(*rows, V), cuda.sign_products(*rows, V)], expected[:2])


def test_no_rows(emulated):
    A, V = np.zeros((0, 5)), np.ones((5, 2))
    at = Positions(np.zeros((0, 5), dtype=np.int32), 27, 16)
    results = everything(A, V, at, np.zeros((0, 16, 2)))
    assert [x.shape for x in results] == [(5, 2), (0, 5), (0, 16, 2), (5, 2), (0, 5)]
    assert not results[0].any()
    assert not results[3].any()


# --------------------------------------------------------------------------------------------------
# Fixed point


@pytest.mark.parametrize("exponent", [-900, -32, 900])
def test_bin_sums_scale_with_the_weights(emulated, problem, exponent):
    _, V, at, _ = problem
    V = V.astype(np.float64)
    expected = cuda.bin_sums(at.codes, at.shift, at.n_knots, V) * 2.0**exponent
    actual = cuda.bin_sums(at.codes, at.shift, at.n_knots, V * 2.0**exponent)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("largest", [2.0**1015, 5e-324])
def test_bin_sums_at_the_ends_of_the_range(emulated, largest):
    V = np.full((200, 1), largest)
    at = Positions(np.zeros((1, 200), dtype=np.int32), 27, 16)
    sums = cuda.bin_sums(at.codes, at.shift, at.n_knots, V)
    assert sums[0, 0, 0] == 200 * largest  # as every term is a multiple of the fixed point's unit
    assert not sums[0, 1:, 0].any()


def test_zero_and_infinite_weights(emulated, problem):
    _, V, at, _ = problem
    V = np.concatenate([V, np.zeros_like(V), V, V], axis=1)
    V[3, 4], V[5, 5], V[7, 6] = np.nan, np.inf, -np.inf
    sums = cuda.bin_sums(at.codes, at.shift, at.n_knots, V)
    alone = cuda.bin_sums(at.codes, at.shift, at.n_knots, V[:, :2])
    np.testing.assert_array_equal(sums[:, :, [0, 1, 7]], alone[:, :, [0, 1, 1]])
    np.testing.assert_array_equal(sums[:, :, [2, 3]], 0.0)
    assert np.isnan(sums[:, :, [4, 5, 6]]).all()
    assert np.isfinite(alone).all()


# --------------------------------------------------------------------------------------------------
# A GPU, where there is one


@pytest.mark.parametrize("dtypes", DTYPES, ids=str)
def test_cupy_agrees(dtypes):
    if not cupy_is_usable():
        pytest.skip("CuPy cannot use a GPU here")
    import cupy

    n, m, t = 100_003, 3, 2  # about fifty chunks a row
    for kind in KINDS:
        A, V, rows = make(((n, m, t), kind, dtypes))
        V = V + V.dtype.type(1)  # no sum is 0 but for rounding errors
        U = np.random.default_rng(8).standard_normal((m, 500, t))
        at = positions(A, 500)
        expected = [
            _ridge_sums(rows, V),
            _sign_products(rows, V),
            _bin_sums(at, V),
            _interpolate_bins(at, U),
            _bin_products(at, U, V),
        ]
        on_gpu = Positions(cupy.asarray(at.codes), at.shift, at.n_knots)
        given = (cupy.asarray(A), cupy.asarray(V), on_gpu, cupy.asarray(U))
        actual = [x.get() for x in everything(*given)]
        for x, y in zip(actual, expected, strict=True):
            # both sides sum n terms one after the other
            slack = np.sqrt(n) * EPS + float(np.finfo(y.dtype).eps)
            atol = 100 * slack * float(np.max(np.abs(y)))
            np.testing.assert_allclose(x, y, rtol=0, atol=atol)
        assert_same_bits([x.get() for x in everything(*given)], actual)
        public = ridge_sums(sort_rows(given[0]), given[1]).get()
        assert_same_bits([public], actual[:1])
