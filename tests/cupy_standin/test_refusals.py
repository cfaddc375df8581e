"""What CuPy refuses is refused. Files cited are CuPy 14.2.0's."""

import copy
import os
import pickle

import array_api_compat.cupy as xp
import cupy
import numpy as np
import pytest
from cupy._devices import CUDARuntimeError
from cupy._memory import MEMORY

HOST = np.arange(3.0)


@pytest.fixture
def x():
    return cupy.asarray(HOST)


# docs/source/user_guide/basic.rst, "Data Transfer": host arrays are no operands
@pytest.mark.parametrize(
    "mixed",
    [
        lambda x: x + HOST,
        lambda x: HOST * x,
        lambda x: x @ HOST,
        lambda x: cupy.add(x, HOST),
        lambda x: cupy.where(x > 0, x, HOST),
        lambda x: cupy.take(HOST, x),
        lambda x: cupy.concatenate([x, HOST]),
        lambda x: cupy.searchsorted(x, HOST),
    ],
)
def test_arrays_of_the_host_are_no_operands(x, mixed):
    with pytest.raises(TypeError, match=r"Unsupported type|cupy"):
        mixed(x)


# cupy/_core/core.pyx, __array__
@pytest.mark.parametrize("convert", [np.asarray, np.array, lambda x: HOST.copy().__setitem__(0, x)])
def test_no_conversion_happens_unasked(x, convert):
    with pytest.raises((TypeError, ValueError), match=r"Implicit conversion|sequence"):
        convert(x)


# cupy/_core/core.pyx, __dlpack__: to the host by a copy, if that is said
def test_the_host_gets_a_copy_by_dlpack_only_if_it_says_so(x):
    assert np.array_equal(np.from_dlpack(x, device="cpu"), HOST)
    with pytest.raises((RuntimeError, BufferError, NotImplementedError)):
        np.from_dlpack(x)


# cupy/_core/core.pyx, fill: host arrays with dimensions are not copied over
def test_no_host_array_is_assigned(x):
    with pytest.raises(ValueError, match="non-scalar"):
        x[:] = HOST
    with pytest.raises(ValueError, match="non-scalar"):
        x.fill(HOST)
    x[0] = np.float64(7.0)
    assert float(x[0]) == 7.0


# cupy/_core/core.pyx has no __index__: numbers on the device are no sizes
def test_numbers_on_the_device_are_no_indices(x):
    with pytest.raises(TypeError):
        range(cupy.asarray(3))
    with pytest.raises((TypeError, IndexError)):
        [1, 2, 3][cupy.asarray(1)]
    with pytest.raises(TypeError, match="slice indices"):
        x[: cupy.asarray(2)]


# cupy/_core/_routines_indexing.pyx, _prepare_slice_list
@pytest.mark.parametrize("index", ["a", 1.5, {}])
def test_other_things_are_no_indices(x, index):
    with pytest.raises(IndexError, match="valid indices"):
        x[index]


def test_numbers_that_are_not_whole_are_no_indices(x):
    with pytest.raises(IndexError, match="integer or boolean"):
        x[cupy.asarray([0.0])]


# docs/source/user_guide/basic.rst, "Current Device"
def test_arrays_of_another_device_are_refused(x):
    with cupy.cuda.Device(1):
        y = cupy.asarray(HOST)
    for mixed in (lambda: x + y, lambda: y * 2, lambda: cupy.sum(y), lambda: y[0], lambda: y @ x):
        with pytest.raises(ValueError, match="array device = 1 while current = 0"):
            mixed()
    moved = cupy.asarray(y)  # this, and only this, copies between devices
    assert moved.device.id == 0
    assert np.array_equal(moved.get(), HOST)


# array_api_compat/common/_aliases.py ignores `device`; cupy/_core/core.pyx allocates on the current
def test_creation_ignores_the_device_it_is_given():
    assert xp.zeros(3, device=cupy.cuda.Device(1)).device.id == 0
    assert xp.asarray([1.0], device=cupy.cuda.Device(1)).device.id == 1  # but this one does not


def test_there_are_two_devices():
    assert cupy.cuda.runtime.getDeviceCount() == 2
    with pytest.raises(CUDARuntimeError, match="cudaErrorInvalidDevice"):
        cupy.cuda.Device(2)


# cupy/cuda/memory.pyx, OutOfMemoryError and ALLOCATION_UNIT_SIZE
def test_memory_is_limited_and_given_back(monkeypatch):
    before = MEMORY.used[0]
    monkeypatch.setattr(MEMORY, "limit", before + 4096)
    kept = cupy.empty(1)
    assert MEMORY.used[0] == before + 512
    with pytest.raises(cupy.cuda.memory.OutOfMemoryError, match="Out of memory allocating 4,096"):
        cupy.empty(512)
    del kept
    assert MEMORY.used[0] == before
    assert cupy.cuda.runtime.memGetInfo() == (4096, before + 4096)
    cupy.empty(512)


def test_what_another_process_has_taken_is_not_free(monkeypatch):
    monkeypatch.setattr(MEMORY, "taken", MEMORY.limit - MEMORY.used[0] - 1024)
    assert cupy.cuda.runtime.memGetInfo()[0] == 1024
    with pytest.raises(MemoryError):
        cupy.zeros(1024)


# cupy/_core/_routines_sorting.pyx
def test_only_stable_sorts_are_known(x):
    with pytest.raises(ValueError, match="stable"):
        cupy.argsort(x, kind="mergesort")


# cupy/_core/_kernel.pyx, out arguments
def test_results_fit_into_what_they_are_written_to(x):
    with pytest.raises(ValueError, match="mismatched"):
        cupy.add(x, x, out=cupy.empty(2))
    with pytest.raises(TypeError, match="coerced"):
        cupy.add(x, x, out=cupy.empty(3, "int32"))
    with pytest.raises(TypeError, match="ArrayType"):
        cupy.add(x, x, out=HOST.copy())


# cupy/_core/_kernel.pyx, _guess_routine: no loop, no result
def test_operands_without_a_loop_are_refused(x):
    with pytest.raises(TypeError, match="Wrong type"):
        cupy.bitwise_and(x, x)


# cupy/linalg/_util.py, _assert_cupy_array and _assert_stacked_square
def test_factorisations_take_square_matrices_of_the_device(x):
    with pytest.raises(np.linalg.LinAlgError, match=r"only supports cupy\.ndarray"):
        cupy.linalg.cholesky(np.eye(2))
    with pytest.raises(np.linalg.LinAlgError, match="square"):
        cupy.linalg.cholesky(cupy.ones((2, 3)))


# CUDA C++ Programming Guide: a context does not survive a fork
def test_a_forked_child_cannot_use_cuda(x):
    child = os.fork()
    if child == 0:
        try:
            cupy.zeros(1)
        except CUDARuntimeError as error:
            os._exit(0 if "cudaErrorInitializationError" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_copies_and_pickles_are_arrays_of_the_device(x):
    for again in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(again) is cupy.ndarray
        assert np.array_equal(again.get(), HOST)
