"""The kernels of ``distances.cu``, run by a CPU emulation of CUDA, and on a GPU if there is one."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest
from emulation import emulate, replace_kernels

from gpukfl._accel import _launch, cuda_distances
from gpukfl.core._places import cupy_is_usable
from gpukfl.linalg import distances, sign_sums
from gpukfl.linalg._distances import _distances, _sign_sums

SIDE, EACH, DEPTH = 2, 2, 3
SHAPES = [  # n, q, d, around multiples of the tiles' sizes
    *[(1, 1, 1), (1, 9, 2), (9, 1, 4), (4, 4, 3), (5, 7, 7), (33, 22, 5), (2, 70, 2)],
    *[(0, 3, 2), (3, 0, 2), (0, 0, 1)],
]
NORMS = ["euclidean", "manhattan"]
DTYPES = ["float32", "float64"]

shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)
dtypes = pytest.mark.parametrize("dtype", DTYPES)


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("distances")
    return emulate(cuda_distances.KERNELS, folder, SIDE=SIDE, EACH=EACH, DEPTH=DEPTH)


@pytest.fixture
def emulated(library, monkeypatch):
    """Let `gpukfl._accel.cuda_distances` run on NumPy arrays."""
    replace_kernels(monkeypatch, cuda_distances.KERNELS, library)
    monkeypatch.setattr(cuda_distances, "_SIDE", SIDE)
    monkeypatch.setattr(cuda_distances, "_EACH", EACH)
    monkeypatch.setattr(cuda_distances, "_BLOCKS", 64)
    monkeypatch.setattr(cuda_distances, "_SLICE", 7)
    return monkeypatch


def points(shape, dtype):
    """Weights (n, q) and points (n, d), (q, d), with ties and equal points."""
    n, q, d = shape
    rng = np.random.default_rng(5)
    X, Z = np.round(2 * rng.standard_normal((n, d))) / 3, rng.standard_normal((q, d))
    shared = min(n, q) // 2
    Z[:shared] = X[:shared]
    return tuple(a.astype(dtype) for a in (rng.standard_normal((n, q)), X, Z))


def assert_close(actual, expected, dtype, scale):
    assert actual.dtype == expected.dtype == dtype
    assert actual.shape == expected.shape
    assert np.all(np.abs(actual - expected) <= 4 * np.finfo(dtype).eps * scale)


@pytest.mark.pairs
@shapes
@dtypes
@pytest.mark.parametrize("norm", NORMS)
def test_distances(emulated, shape, dtype, norm):
    _, X, Z = points(shape, dtype)
    expected = _distances(X, Z, norm)
    actual = cuda_distances.distances(X, Z, norm)
    assert_close(actual, expected, dtype, expected)
    np.testing.assert_array_equal(actual == 0, (X[:, None, :] == Z[None, :, :]).all(axis=2))


@shapes
@dtypes
def test_sign_sums(emulated, shape, dtype):
    Q, X, Z = points(shape, dtype)
    for weights, x, z in ((Q, X, Z), (Q.T, Z, X)):
        scale = np.sum(np.abs(weights), axis=1)[:, None]
        actual = cuda_distances.sign_sums(weights, x, z)
        assert_close(actual, _sign_sums(weights, x, z), dtype, scale)


@pytest.fixture
def pairs(emulated):
    """Pretend a GPU that is slow in float64."""
    emulated.setattr(cuda_distances, "double_is_slow", lambda _: True)


@shapes
def test_pairs_of_floats_agree(pairs, shape):
    Q, X, Z = points(shape, "float32")
    expected = _distances(X, Z, "manhattan")
    actual = cuda_distances.distances(X, Z, "manhattan")
    assert_close(actual, expected, "float32", expected)
    np.testing.assert_array_equal(actual == 0, (X[:, None, :] == Z[None, :, :]).all(axis=2))
    scale = np.sum(np.abs(Q), axis=1)[:, None]
    assert_close(cuda_distances.sign_sums(Q, X, Z), _sign_sums(Q, X, Z), "float32", scale)


def ulps(actual, exact):
    """Error in units of the last place of the exact result, rounded to float32."""
    return np.max(np.abs(actual - exact) / np.spacing(np.abs(exact).astype(np.float32)))


def hard(rng, shape):
    """Numbers of very different size, so that sums in float32 lose most of the small ones."""
    return (rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 7, shape)).astype(np.float32)


@pytest.mark.parametrize("slow", [False, True], ids=["double", "pairs"])
@pytest.mark.parametrize("d", [3, 4000])
def test_manhattan_distances_are_rounded_once(emulated, slow, d):
    emulated.setattr(cuda_distances, "double_is_slow", lambda _: slow)
    rng = np.random.default_rng(8)
    X, Z = hard(rng, (5, d)), hard(rng, (4, d))
    exact = np.abs(X[:, None, :].astype(np.longdouble) - Z[None, :, :]).sum(axis=2)
    assert ulps(cuda_distances.distances(X, Z, "manhattan"), exact) <= 0.5 + 1e-4
    plain = np.cumsum(np.abs(X[:, None, :] - Z[None, :, :]), axis=2, dtype=np.float32)[:, :, -1]
    assert ulps(plain, exact) > 0.6  # what the pairs are for


@pytest.mark.parametrize("slow", [False, True], ids=["double", "pairs"])
@pytest.mark.parametrize("q", [7, 5000])
def test_sums_of_signs_cancel_without_loss(emulated, slow, q):
    emulated.setattr(cuda_distances, "double_is_slow", lambda _: slow)
    rng = np.random.default_rng(9)
    Q, X, Z = hard(rng, (4, q)), hard(rng, (4, 3)), hard(rng, (q, 3))
    signs = np.sign(X[:, None, :] - Z[None, :, :])
    exact = np.sum(Q[:, :, None].astype(np.longdouble) * signs, axis=1)
    error = np.abs(cuda_distances.sign_sums(Q, X, Z) - exact)
    rounding = 0.5 * np.spacing(np.abs(exact).astype(np.float32))
    scale = np.sum(np.abs(Q), axis=1, dtype=np.float64)[:, None]
    assert np.all(error <= rounding + 2e-13 * scale)


def test_pairs_beyond_the_largest_float_are_infinite(pairs):
    X, Z = (np.full((1, 2), value, np.float32) for value in (3e38, -3e38))
    assert cuda_distances.distances(X, Z, "manhattan").tolist() == [[np.inf]]
    assert np.isnan(cuda_distances.distances(np.float32([[np.nan]]), X[:, :1], "manhattan")).all()


def test_only_cupy_on_such_a_device_takes_pairs(monkeypatch):
    x = SimpleNamespace(device=SimpleNamespace(id=3))
    asked = []
    monkeypatch.setattr(_launch, "is_cupy", lambda one: one is x)
    for ratio, slow in ((2, False), (32, True), (64, True)):
        monkeypatch.setattr(
            _launch, "device_attribute", lambda _, device, r=ratio: asked.append(device) or r
        )
        assert _launch.double_is_slow(x) == slow
        assert not _launch.double_is_slow(np.empty(0))
    assert asked == [3, 3, 3]


def test_how_sums_are_cut_changes_rounding_only(emulated):
    Q, X, Z = points((33, 70, 5), "float64")
    cut = cuda_distances.sign_sums(Q, X, Z)
    np.testing.assert_array_equal(cut, cuda_distances.sign_sums(Q, X, Z))
    emulated.setattr(cuda_distances, "_BLOCKS", 1)
    whole = cuda_distances.sign_sums(Q, X, Z)
    assert_close(cut, whole, "float64", np.sum(np.abs(Q), axis=1)[:, None])
    ones = np.ones_like(Q)  # sums without rounding
    np.testing.assert_array_equal(cuda_distances.sign_sums(ones, X, Z), _sign_sums(ones, X, Z))


def test_strided_inputs(emulated):
    Q, X, Z = points((9, 11, 4), "float64")
    strided = [np.repeat(np.asfortranarray(a), 2, axis=1)[:, ::2] for a in (Q, X, Z)]
    assert not any(a.flags.contiguous for a in strided)
    expected = cuda_distances.sign_sums(Q, X, Z)
    np.testing.assert_array_equal(cuda_distances.sign_sums(*strided), expected)
    np.testing.assert_array_equal(
        cuda_distances.distances(*strided[1:], "euclidean"),
        cuda_distances.distances(X, Z, "euclidean"),
    )


@dtypes
def test_cupy_agrees(dtype):
    if not cupy_is_usable():
        pytest.skip("CuPy cannot use a GPU here")
    import cupy

    for shape in ((1000, 70, 8), (130, 3001, 33), (1, 5000, 1), (257, 129, 17)):
        Q, X, Z = points(shape, dtype)
        q, x, z = (cupy.asarray(a) for a in (Q, X, Z))
        for norm in NORMS:
            expected = _distances(X, Z, norm)
            assert_close(distances(x, z, norm=norm).get(), expected, dtype, 4 * expected)
        for given, host in (((q, x, z), (Q, X, Z)), ((q.T, z, x), (Q.T, Z, X))):
            actual = sign_sums(*given)
            scale = np.sum(np.abs(host[0]), axis=1)[:, None]
            assert_close(actual.get(), _sign_sums(*host), dtype, 4 * scale)
            np.testing.assert_array_equal(actual.get(), sign_sums(*given).get())
