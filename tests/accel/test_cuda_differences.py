"""The kernels of ``differences.cu``, by a CPU emulation of CUDA, and on a GPU if there is one."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from emulation import emulate, replace_kernels

from gpukfl import memory_budget
from gpukfl._accel import cuda_differences
from gpukfl.core._places import cupy_is_usable
from gpukfl.linalg import SortedColumns, difference_sums
from gpukfl.linalg._difference_sums import _difference_sums, _factored_difference_sums

SIDE, EACH, DEPTH = 2, 2, 3
TILE = SIDE * EACH
SHAPES = [  # n, p, around multiples of the tiles' sizes
    *[(1, 1), (2, 1), (1, 5), (2, 4), (3, 3), (4, 4), (5, 7), (8, 8), (9, 1), (33, 10), (21, 70)],
    *[(0, 3), (3, 0), (0, 0)],
]
DTYPES = ["float32", "float64"]

shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)
dtypes = pytest.mark.parametrize("dtype", DTYPES)


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("differences")
    return emulate(cuda_differences.KERNELS, folder, SIDE=SIDE, EACH=EACH, DEPTH=DEPTH)


@pytest.fixture
def emulated(library, monkeypatch):
    """Let `gpukfl._accel.cuda_differences` run on NumPy arrays."""
    replace_kernels(monkeypatch, cuda_differences.KERNELS, library)
    monkeypatch.setattr(cuda_differences, "_SIDE", SIDE)
    monkeypatch.setattr(cuda_differences, "_EACH", EACH)
    monkeypatch.setattr(cuda_differences, "_BLOCKS", 17)
    return monkeypatch


def problem(shape, dtype):
    """Symmetric weights (n, n) in float64, and data (n, p) with ties and a constant column."""
    n, p = shape
    rng = np.random.default_rng(6)
    A, X = rng.standard_normal((n, n)), rng.standard_normal((n, p))
    X[:, 1::3] = np.round(2 * X[:, 1::3]) / 3
    X[:, 2::5] = 0.7
    return A + A.T, X.astype(dtype)


def assert_close(actual, expected, A, X, *, ulps=20):
    """Agree to ulps of the sums of the terms' sizes."""
    assert actual.dtype == expected.dtype == np.float64
    assert actual.shape == expected.shape == X.shape[1:]
    scale = _difference_sums(np.abs(A), X)
    assert np.all(np.abs(actual - expected) <= ulps * np.finfo(np.float64).eps * scale)


@shapes
@dtypes
def test_difference_sums(emulated, shape, dtype):
    A, X = problem(shape, dtype)
    assert_close(cuda_differences.difference_sums(A, X), _difference_sums(A, X), A, X)


@dtypes
def test_weights_of_either_dtype(emulated, dtype):
    A, X = problem((9, 5), dtype)
    A = A.astype(np.float32)
    wide = cuda_differences.difference_sums(A.astype(np.float64), X)
    np.testing.assert_array_equal(cuda_differences.difference_sums(A, X), wide)


@pytest.mark.parametrize("n", [TILE - 1, 2 * TILE, 3 * TILE + 1])
@pytest.mark.parametrize("blocks", [1, 2, 5, 17, 1000])
def test_how_sums_are_cut_changes_rounding_only(emulated, n, blocks):
    A, X = problem((n, 6), "float64")
    emulated.setattr(cuda_differences, "_BLOCKS", blocks)
    cut = cuda_differences.difference_sums(A, X)
    np.testing.assert_array_equal(cut, cuda_differences.difference_sums(A, X))
    assert_close(cut, _difference_sums(A, X), A, X)
    whole = np.round(3 * X), np.round(A)  # sums without rounding
    exact = _difference_sums(*whole[::-1])
    np.testing.assert_array_equal(cuda_differences.difference_sums(*whole[::-1]), exact)


def test_every_pair_of_samples_counts_twice(emulated):
    n = 2 * TILE + 1
    X = np.arange(n, dtype=np.float64)[:, None] ** 2
    for i, j in np.ndindex(n, n):
        A = np.zeros((n, n))
        A[i, j] = A[j, i] = 1.0
        expected = [2.0 * abs(i**2 - j**2)]
        np.testing.assert_array_equal(cuda_differences.difference_sums(A, X), expected)


def test_strided_inputs(emulated):
    A, X = problem((11, 6), "float64")
    expected = cuda_differences.difference_sums(A, X)
    for layout in (np.asfortranarray, lambda a: np.repeat(a, 2, axis=1)[:, ::2]):
        given = layout(A), layout(X)
        assert not any(a.flags.c_contiguous for a in given)
        np.testing.assert_array_equal(cuda_differences.difference_sums(*given), expected)


def test_inputs_are_left_alone(emulated):
    A, X = problem((9, 5), "float64")
    for a in (A, X):
        a.flags.writeable = False
    assert_close(cuda_differences.difference_sums(A, X), _difference_sums(A, X), A, X)


def factored(shape, m, dtype):
    """A factor (n, m), and data as in `problem`, sorted."""
    _, X = problem(shape, dtype)
    V = np.random.default_rng(7).standard_normal((shape[0], m)).astype(dtype)
    return V, X, SortedColumns.sort(X)


def twin(V, columns):
    return cuda_differences.factored_difference_sums(V, columns.order, columns.gaps)


@pytest.mark.pairs
@shapes
@dtypes
@pytest.mark.parametrize("m", [0, 1, 3, 9])
def test_factored_sums(emulated, shape, dtype, m):
    if shape[0] == 0:
        return  # there is no gap between no samples
    emulated.setattr(cuda_differences, "_CHUNK", 3)
    V, X, columns = factored(shape, m, dtype)
    found, expected = twin(V, columns), _factored_difference_sums(V, columns)
    assert found.dtype == expected.dtype == np.float64
    # Running sums are rounded, of which a factor may be small
    most = np.sum(np.sum(np.abs(V), axis=0, dtype=np.float64) ** 2)
    scale = most * np.ptp(X, axis=0)
    assert np.all(np.abs(found - expected) <= 20 * np.finfo(np.float64).eps * scale)


@pytest.mark.parametrize("chunk", [1, 7, 50])
@pytest.mark.parametrize("most", [1, 4, 1000])
def test_how_samples_are_cut_changes_rounding_only(emulated, chunk, most):
    V, _, columns = factored((33, 10), 5, "float64")
    V = np.round(3 * V)
    columns = SortedColumns(columns.order, np.round(4 * columns.gaps))  # sums without rounding
    emulated.setattr(cuda_differences, "_CHUNK", chunk)
    emulated.setattr(cuda_differences, "_CHUNKS", most)
    expected = _factored_difference_sums(V, columns)
    np.testing.assert_array_equal(twin(V, columns), expected)
    emulated.setattr(cuda_differences, "_MAX_BLOCKS", 2)  # features are looped over
    np.testing.assert_array_equal(twin(V, columns), expected)
    with memory_budget(1):  # one at a time
        np.testing.assert_array_equal(twin(V, columns), expected)


def test_a_factor_of_another_dtype_than_the_gaps(emulated):
    V, _, columns = factored((33, 3), 2, "float64")
    narrow = V.astype(np.float32)
    wide = twin(narrow.astype(np.float64), columns)
    np.testing.assert_array_equal(twin(narrow, columns), wide)


@dtypes
def test_cupy_agrees(dtype):
    if not cupy_is_usable():
        pytest.skip("CuPy cannot use a GPU here")
    import cupy

    for shape in ((1, 1), (2, 3), (64, 64), (65, 1), (1000, 130), (3001, 5)):
        A, X = problem(shape, dtype)
        given = cupy.asarray(A), cupy.asarray(X)
        actual = difference_sums(*given).get()
        assert_close(actual, _difference_sums(A, X), A, X, ulps=100)
        np.testing.assert_array_equal(actual, difference_sums(*given).get())
