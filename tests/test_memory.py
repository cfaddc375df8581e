"""Budgets are respected, and running out of memory costs speed, not the result."""

import contextlib
import gc
import sys
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpukfl
from gpukfl.core import _memory
from gpukfl.core._memory import (
    MAX_ELEMENTS,
    available_memory,
    block_size,
    explain_full_gpu,
    run_in_blocks,
)

HOST = np.empty(0)
SIZES = st.integers(1, 2**40)


@pytest.fixture(scope="module", autouse=True)
def _little_to_collect():
    """Keep what other tests have left out of the collector's sight: each retry looks at all."""
    gc.collect()
    gc.freeze()


class OutOfMemoryError(RuntimeError):
    """Named and derived as torch's."""


class CUSOLVERError(RuntimeError):
    """Named and derived as CuPy's."""


class CUDARuntimeError(RuntimeError):
    """Named and derived as CuPy's."""


def out_of_memory_above(limit, error, *, seen):
    def body(start, stop):
        if stop - start > limit:
            raise error
        seen.append((start, stop))

    return body


def test_budget_is_what_is_available_and_is_restored():
    outside = available_memory(HOST)
    assert outside > 2**20
    with gpukfl.memory_budget(1000):
        assert available_memory(HOST) == 1000
        with contextlib.suppress(KeyError), gpukfl.memory_budget(10):
            assert available_memory(HOST) == 10
            raise KeyError
        assert available_memory(HOST) == 1000
        with gpukfl.memory_budget(None):
            assert available_memory(HOST) > 2**20
    assert available_memory(HOST) > 2**20


@pytest.mark.parametrize("wrong", [0, -1])
def test_budget_must_be_positive(wrong):
    with (
        pytest.raises(ValueError, match=f"positive number of bytes, got {wrong}"),
        gpukfl.memory_budget(wrong),
    ):
        pass


def test_free_memory_is_known_on_every_place(on):
    assert available_memory(on.put([1.0])) > 2**20


@pytest.mark.parametrize(
    ("limit", "taken", "unused", "free"),
    [(0, 0, 0, 1000), (0, 300, 50, 1050), (400, 300, 50, 150), (200, 300, 0, 0)],
)
def test_free_memory_of_a_gpu_is_within_the_limit_of_the_pool(
    monkeypatch, limit, taken, unused, free
):
    pool = SimpleNamespace(
        get_limit=lambda: limit, total_bytes=lambda: taken, free_bytes=lambda: unused
    )
    runtime = SimpleNamespace(memGetInfo=lambda: (1000, 5000))
    cuda = SimpleNamespace(runtime=runtime)
    fake = SimpleNamespace(cuda=cuda, get_default_memory_pool=lambda: pool)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(_memory, "is_cupy", lambda _: True)
    assert available_memory(HOST) == free // 2


@given(budget=SIZES, bytes_each=SIZES, elements_each=SIZES, at_most=st.integers(1, 10**9))
@settings(derandomize=True)
def test_blocks_fit_the_budget_and_the_element_limit(budget, bytes_each, elements_each, at_most):
    with gpukfl.memory_budget(budget):
        size = block_size(HOST, bytes_each=bytes_each, elements_each=elements_each, at_most=at_most)
    fits = min(budget // bytes_each, MAX_ELEMENTS // elements_each, at_most)
    assert size == max(fits, 1)  # as large as possible, and something is always done
    assert size == 1 or size * elements_each < 2**31


@pytest.mark.parametrize(("n", "size"), [(0, 3), (1, 1), (7, 7), (7, 3), (7, 100)])
def test_blocks_cover_every_item_once(n, size):
    seen = []
    run_in_blocks(n, size, lambda start, stop: seen.append((start, stop)))
    assert [i for start, stop in seen for i in range(start, stop)] == list(range(n))
    assert all(0 < stop - start <= size for start, stop in seen)


OUT_OF_MEMORY = [
    MemoryError(),
    OutOfMemoryError("no more"),
    CUSOLVERError("CUSOLVER_STATUS_ALLOC_FAILED"),
    CUDARuntimeError("cudaErrorMemoryAllocation: out of memory"),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY)
def test_running_out_of_memory_halves_the_block_and_says_so(error):
    seen = []
    with pytest.warns(RuntimeWarning) as caught:
        run_in_blocks(10, 8, out_of_memory_above(3, error, seen=seen))
    assert [str(warning.message) for warning in caught] == [
        "out of memory: continuing with blocks of 4 rows instead of 8",
        "out of memory: continuing with blocks of 2 rows instead of 4",
    ]
    assert seen == [(0, 2), (2, 4), (4, 6), (6, 8), (8, 10)]


def test_finished_blocks_are_not_repeated():
    seen, full = [], []

    def body(start, stop):
        if start >= 4 and not full:
            full.append(True)
            raise MemoryError
        seen.append((start, stop))

    with pytest.warns(RuntimeWarning, match="blocks of 2 rows instead of 4"):
        run_in_blocks(8, 4, body)
    assert seen == [(0, 4), (4, 6), (6, 8)]


def test_single_item_that_does_not_fit_raises():
    with pytest.raises(MemoryError), pytest.warns(RuntimeWarning, match="blocks of 1"):
        run_in_blocks(4, 2, out_of_memory_above(0, MemoryError(), seen=[]))


@pytest.mark.parametrize("error", OUT_OF_MEMORY[1:], ids=lambda error: type(error).__name__)
def test_a_full_gpu_is_explained_once(error):
    again = type(error)(*error.args)
    for _ in range(2):
        explain_full_gpu(again)
    (note,) = again.__notes__
    assert "nvidia-smi" in note


def test_the_memory_of_the_host_is_no_gpu():
    with pytest.raises(MemoryError) as caught:
        np.empty(2**59)
    for error in (caught.value, MemoryError(), ValueError("wrong")):
        explain_full_gpu(error)
        assert not hasattr(error, "__notes__")


@pytest.mark.parametrize("error", [ValueError("wrong"), RuntimeError("out of memory?")])
def test_other_errors_pass_unchanged(error):
    with pytest.raises(type(error)) as caught:
        run_in_blocks(4, 2, out_of_memory_above(0, error, seen=[]))
    assert caught.value is error


def test_temporaries_are_released_before_the_retry():
    kept = []

    def body(start, stop):
        assert all(reference() is None for reference in kept)
        temporary = np.empty(1000)
        cycle = [temporary]
        cycle.append(cycle)  # such as tracebacks make
        if stop - start > 1:
            kept.append(weakref.ref(temporary))
            raise MemoryError

    with pytest.warns(RuntimeWarning):
        run_in_blocks(4, 4, body)
    assert len(kept) == 2
