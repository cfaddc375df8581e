"""What the stand-in has is what CuPy has, and its numbers are NumPy's."""

import importlib.metadata
import subprocess
import sys

import cupy
import numpy as np
import pytest
from cupy._surface import SURFACE, MissingError

from gpukfl.core._places import cuda_devices, cupy_is_usable


def test_every_public_name_is_one_of_cupys():
    assert set(cupy.__all__) <= set(SURFACE["cupy"])
    assert set(cupy.linalg.__all__) == set(SURFACE["cupy.linalg.__all__"])


def test_a_name_that_cupy_lacks_is_no_attribute():
    with pytest.raises(AttributeError, match="concat_rows"):
        _ = cupy.concat_rows
    with pytest.raises(AttributeError, match="nuclear"):
        _ = cupy.zeros(1).nuclear


def test_what_only_cupy_has_says_that_it_is_missing_here():
    with pytest.raises(MissingError, match=r"cupy\.kron"):
        cupy.kron(cupy.zeros(2), cupy.zeros(2))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: cupy.sum(x, dim=0),  # torch's name
        lambda x: cupy.argsort(x, stable=True),  # not in CuPy 14.2, which surface.json shows
        lambda x: cupy.concatenate([x], 0, None, "f8"),  # dtype is a keyword
    ],
)
def test_arguments_are_those_of_cupys_signatures(wrong):
    with pytest.raises(TypeError):
        wrong(cupy.zeros(3))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_numbers_are_those_of_numpy(rng, dtype):
    host = (10 * rng.standard_normal((5, 4))).astype(dtype)
    x = cupy.asarray(host)
    for name in ("sum", "max", "argmin", "cumsum", "mean"):
        expected = getattr(np, name)(host, axis=1)
        got = getattr(cupy, name)(x, axis=1)
        assert got.dtype == expected.dtype
        assert np.array_equal(got.get(), expected)
    assert np.array_equal((2 * x + x[::-1, :] - 1).get(), 2 * host + host[::-1, :] - 1)
    assert np.array_equal(cupy.sort(x, axis=0).get(), np.sort(host, axis=0))
    assert np.array_equal((x @ x.T).get(), host @ host.T)


def test_scalars_do_not_widen():
    assert (cupy.zeros(2, "float32") * 2.0).dtype == np.float32
    assert (cupy.zeros(2, "int32") + 1).dtype == np.int32


def test_the_library_finds_a_driver_with_two_devices():
    assert cuda_devices() == 2
    assert cupy_is_usable()


def test_it_cannot_be_put_where_cupy_is_already():
    code = "import sys, placing; sys.modules['cupy'] = placing; placing.put()"
    folder = str(cupy.__path__[0]) + "/../.."
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert "expected cupy not to be imported" in done.stderr


def test_no_wheel_of_cupy_is_installed_beside_it():
    installed = {d.metadata["Name"] for d in importlib.metadata.distributions()}
    assert not {"cupy", "cupy-cuda12x", "cupy-cuda13x"} & installed
