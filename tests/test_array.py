"""The door to array libraries: places are kept, sums over samples are float64."""

import numpy as np
import pytest

from gpukfl.core import _array
from gpukfl.core._array import (
    as_columns,
    asarray_like,
    clip,
    double_like,
    epsilon,
    index_like,
    is_array,
    is_cupy,
    is_host,
    is_on_gpu,
    is_torch,
    library_name,
    like,
    sample_dot,
    sample_norm,
    sample_sums,
    to_host,
    unique_rows,
)


def test_library_is_named_as_it_is_imported(on):
    x = on.put([1.0, 2.0])
    assert library_name(x) == on.package
    assert is_host(x) == (on.package == "numpy")
    assert is_torch(x) == (on.package == "torch")
    assert is_cupy(x) == (on.package == "cupy")
    assert is_array(x)
    assert not is_array([1.0, 2.0])


def test_numpy_scalars_belong_to_numpy():
    assert library_name(np.float32(1.0)) == "numpy"


@pytest.mark.parametrize(
    ("keywords", "dtype"), [(like, None), (double_like, "float64"), (index_like, "int64")]
)
def test_creation_keywords_place_beside(on, keywords, dtype):
    on.assert_lives_here(on.xp.zeros((2,), **keywords(on.put([1.0]))), dtype)


def test_beside_and_to_host_are_inverse(on, rng):
    host = on.rounded(rng.standard_normal((3, 2)))
    placed = asarray_like(host, on.reference)
    on.assert_lives_here(placed)
    back = to_host(placed)
    assert type(back) is np.ndarray
    assert np.array_equal(back, host)


def test_to_host_leaves_the_graph_of_torch(torch):
    assert np.array_equal(to_host(torch.ones(2, requires_grad=True)), np.ones(2))


def test_epsilon_is_of_the_dtype(on):
    assert epsilon(on.put([1.0])) == on.eps
    assert type(epsilon(on.put([1.0]))) is float


def test_sample_sums_are_accumulated_in_float64(on):
    n = 100_000
    u = np.full((n, 2), 0.1)  # a float32 running sum of these is wrong in the fourth digit
    exact = n * on.rounded(on.rounded(0.1) ** 2)
    on.assert_close(sample_dot(on.put(u), on.put(u)), np.full(2, exact), ulps=1e4, dtype="float64")
    root = np.full(2, np.sqrt(exact))
    on.assert_close(sample_norm(on.put(u)), root, ulps=1e4, dtype="float64")


def test_sample_dot_of_vectors_is_0d(on):
    on.assert_close(sample_dot(on.put([1.0, 2.0]), on.put([3.0, 4.0])), 11.0, dtype="float64")


def test_a_vector_becomes_one_column(on):
    assert tuple(as_columns(on.put([1.0, 2.0])).shape) == (2, 1)
    assert tuple(as_columns(on.put([[1.0, 2.0]])).shape) == (1, 2)


def test_values_beyond_limits_are_moved_there(on):
    x = [-2.0, 0.5, 3.0, np.inf, -np.inf, np.nan]
    for low, high in [(0.0, 1.0), (None, 1.0), (0.0, None), (np.float64(0.0), np.float64(1.0))]:
        actual = clip(on.put(x), low=low, high=high)
        on.assert_lives_here(actual)
        np.testing.assert_array_equal(on.host(actual), np.clip(x, low, high))
    limit = on.put(np.full(6, 0.25))
    np.testing.assert_array_equal(on.host(clip(on.put(x), low=limit)), np.clip(x, 0.25, None))
    whole = clip(on.put([-1, 0, 5], "int64"), low=0, high=3)
    on.assert_lives_here(whole, "int64")
    assert on.host(whole).tolist() == [0, 0, 3]


def test_a_gpu_is_known_by_its_arrays(on):
    assert is_on_gpu(on.put([1.0])) == (on.package == "cupy")


@pytest.mark.parametrize("n", [1, 8, 9, 16, 37])
def test_sums_in_two_steps_are_the_sums(on, rng, monkeypatch, n):
    monkeypatch.setattr(_array, "_STRIPES", 8)
    monkeypatch.setattr(_array, "is_on_gpu", lambda _: True)
    x = on.rounded(rng.standard_normal((n, 3)))
    for given in (x, x[:, 0]):
        actual = sample_sums(on.put(given))
        on.assert_close(actual, np.sum(given, axis=0), ulps=1, dtype="float64", scale=n)


@pytest.mark.parametrize("shape", [(0, 2), (1, 3), (5, 0), (60, 1), (60, 3)])
def test_different_rows_are_those_of_numpy(rng, shape):
    rows = rng.integers(-2, 2, shape) * 0.5
    actual, which = unique_rows(rows)
    np.testing.assert_array_equal(actual[which], rows)
    np.testing.assert_array_equal(actual, np.unique(rows, axis=0))
