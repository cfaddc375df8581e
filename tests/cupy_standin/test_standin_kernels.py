"""Kernels on fibers: what is checked before a launch, and what is seen while one runs."""

import ctypes

import cupy
import numpy as np
import pytest
from cupy import _compiler
from cupy._devices import CUDARuntimeError

SOURCE = """
extern "C" __global__ void twice(const double *x, long long n, double *out) {
    for (long long k = blockIdx.x * blockDim.x + threadIdx.x; k < n; k += gridDim.x * blockDim.x) {
        out[k] = 2.0 * x[k];
    }
}
extern "C" __global__ void reversed(const double *x, double *out) {
    __shared__ double held[SIZE];
    held[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = held[SIZE - 1 - threadIdx.x];
}
extern "C" __global__ void unwritten(double *out) {
    __shared__ double held[SIZE];
    if (threadIdx.x == 1000) held[0] = 0.0;
    out[threadIdx.x] = held[threadIdx.x];
}
extern "C" __global__ void raced(long long *out) { out[0] = threadIdx.x; }
extern "C" __global__ void diverged(double *out) {
    if (threadIdx.x > 3) __syncthreads();
    out[0] = 1.0;
}
extern "C" __global__ void narrow(int n, double *out) { out[0] = n; }
"""
SIZE = 64


def kernel(name):
    return cupy.RawModule(code=SOURCE, options=("--std=c++17", f"-DSIZE={SIZE}")).get_function(name)


@pytest.fixture
def x():
    return cupy.asarray(np.arange(float(SIZE)))


def test_kernels_run(x):
    out = cupy.empty(SIZE)
    kernel("twice")((2,), (32,), (x, SIZE, out))
    assert np.array_equal(out.get(), 2.0 * x.get())


def test_threads_share_memory_and_meet_at_barriers(x):
    out = cupy.empty(SIZE)
    kernel("reversed")((1,), (SIZE,), (x, out))
    assert np.array_equal(out.get(), x.get()[::-1])


def test_shared_memory_is_poison_until_it_is_written(x):
    kernel("reversed")((1,), (SIZE,), (x, cupy.empty(SIZE)))  # makes the library's shared memory
    out = cupy.zeros(SIZE)
    kernel("unwritten")((2,), (SIZE,), (out,))
    assert np.all(np.isnan(out.get()))


@pytest.mark.parametrize(("order", "last"), [(0, SIZE - 1), (1, 0)])
def test_the_order_of_threads_can_be_turned(order, last):
    found = kernel("raced")
    out = cupy.zeros(1, dtype="int64")
    args = (ctypes.c_longlong * 16)(out.data.ptr)
    sizes = (ctypes.c_longlong(size) for size in (1, 1, SIZE, 0))
    function = ctypes.cast(found.compiled.raced, ctypes.c_void_p)
    assert found.compiled.launch(function, *sizes, args, ctypes.c_ulonglong(order)) is None
    assert int(out[0]) == last


def test_a_barrier_that_not_all_threads_meet_is_seen():
    with pytest.raises(AssertionError, match="some threads of a block ended"):
        kernel("diverged")((1,), (SIZE,), (cupy.zeros(1),))


# cupy/_core/raw.pyx and docs/source/user_guide/kernel.rst: arguments are handed over as they are
@pytest.mark.parametrize(
    "args",
    [
        lambda x: (x, SIZE),
        lambda x: (x, SIZE, x.astype("float32")),
        lambda x: (x, np.int32(SIZE), x),
        lambda x: (x, 1.0, x),
        lambda x: (SIZE, x, x),
    ],
)
def test_arguments_of_the_wrong_number_or_type_stop_the_test(x, args):
    with pytest.raises(AssertionError, match="expected"):
        kernel("twice")((1,), (32,), args(x))


def test_numbers_narrower_than_what_is_handed_over_stop_the_test(x):
    with pytest.raises(AssertionError, match="8 bytes"):
        kernel("narrow")((1,), (1,), (3, x))


def test_arrays_of_the_host_and_of_other_devices_stop_the_test(x):
    with pytest.raises(AssertionError, match="expected out"):
        kernel("twice")((1,), (32,), (x, SIZE, np.zeros(SIZE)))
    with cupy.cuda.Device(1), pytest.raises(ValueError, match="array device = 0"):
        kernel("twice")((1,), (32,), (x, SIZE, x))


# CUDA C++ Programming Guide, "Compute Capabilities": limits of every GPU
@pytest.mark.parametrize(
    ("grid", "block", "shared"),
    [((2**31,), (1,), 0), ((1, 65_536), (1,), 0), ((1,), (1025,), 0), ((1,), (1,), 48 * 1024 + 1)],
)
def test_launches_beyond_a_limit_are_errors(x, grid, block, shared):
    with pytest.raises(CUDARuntimeError, match="INVALID_VALUE"):
        kernel("twice")(grid, block, (x, SIZE, x), shared_mem=shared)


@pytest.mark.parametrize("grid", [[1], (np.int64(1),), (1.0,)])
def test_grids_are_tuples_of_ints(x, grid):
    with pytest.raises(TypeError, match="expected"):
        kernel("twice")(grid, (32,), (x, SIZE, x))


# cupy/cuda/compiler.py
def test_sources_that_do_not_compile_are_errors():
    with pytest.raises(_compiler.CompileError, match="not declared"):
        cupy.RawModule(code='extern "C" __global__ void f(double *x) { y = 0; }').get_function("f")


def test_kernels_that_are_not_there_are_errors():
    with pytest.raises(CUDARuntimeError, match="NOT_FOUND"):
        kernel("thrice")
