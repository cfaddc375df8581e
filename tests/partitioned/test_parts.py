"""How partitions are put together, and what a worker's allocator is told."""

import os
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpukfl.linalg import Positions
from gpukfl.partitioned import Collections, Holder, Pass
from gpukfl.partitioned import _dask as allocator
from gpukfl.partitioned._dask import WorkerHolder, put_values
from gpukfl.partitioned._program import add_halves, add_part


def of_lengths(lengths):
    return Collections([], [], None, list(lengths), None)


@given(st.lists(st.integers(0, 300_000), min_size=1, max_size=60).filter(any))
def test_parts_are_all_partitions_with_rows_in_their_order(lengths):
    parts = of_lengths(lengths).parts()
    assert [k for part in parts for k in part] == [k for k, n in enumerate(lengths) if n]
    assert all(parts)


@pytest.mark.parametrize("n", [1_000_000, 10_000_000])
def test_half_of_the_parts_are_half_of_the_rows(n):
    parts = of_lengths([n // 100] * 100).parts()
    rows = [sum([n // 100] * len(part)) for part in parts]
    assert sum(rows[: len(rows) // 2]) == n // 2
    assert max(rows) <= 2**17


def test_no_rows_are_an_error():
    with pytest.raises(ValueError, match="0 sample"):
        of_lengths([0, 0]).parts()


@pytest.mark.skipif(allocator._glibc() is None, reason="another C library")
def test_an_allocator_is_told_to_keep_and_then_what_was_before(monkeypatch):
    told = []

    class Library:
        def mallopt(self, parameter, value):
            told.append((parameter, value))

        def malloc_trim(self, pad):
            told.append(pad)

    monkeypatch.setattr(allocator, "_glibc", Library)
    monkeypatch.setitem(os.environ, "MALLOC_TRIM_THRESHOLD_", "65536")
    monkeypatch.delitem(os.environ, "MALLOC_TOP_PAD_", raising=False)
    monkeypatch.delitem(os.environ, "MALLOC_MMAP_THRESHOLD_", raising=False)
    allocator.keep_freed_memory()
    assert told == [(-1, 2**28), (-2, 2**26), (-3, 2**24)]
    del told[:]
    allocator.restore_allocator()
    assert told == [(-1, 65536), (-2, 2**17), (-3, 2**17), 0]


def test_without_glibc_nothing_is_told(monkeypatch):
    monkeypatch.setattr(allocator, "_glibc", lambda: None)
    allocator.keep_freed_memory()
    allocator.restore_allocator()


@given(st.integers(1, 40), st.randoms(use_true_random=False))
def test_totals_that_are_put_together_at_once_are_those_at_the_end(count, random):
    parts = [part for part in range(count) if random.random() < 0.8]
    late = {(part, part + 1): str(part) for part in parts}
    add_halves(late, 0, count, "({} {})".format)
    random.shuffle(parts)
    early: dict[tuple[int, int], str] = {}
    for part in parts:
        early[part, part + 1] = str(part)
        add_part(early, part, count, "({} {})".format)
    assert early == late


@pytest.fixture
def holder():
    found = object.__new__(WorkerHolder)  # a worker would make it
    Holder.__init__(found, np.empty(0))
    return found


def asked(replaced=()):
    return Pass((), None, frozenset(), frozenset(), frozenset(replaced))


def test_what_is_forgotten_is_counted_however_deep_it_lies(holder, monkeypatch):
    told = []
    monkeypatch.setattr(WorkerHolder, "let_go", lambda _, count: told.append(count))
    codes = np.zeros((3, 100), dtype=np.int16)
    holder.put(0, 1, [(0, 100, Positions(codes, 4, 8))])
    holder.put(0, 2, np.zeros(50))
    holder.put(1, 2, np.zeros(10))
    holder.put(1, 4, np.zeros(7))
    holder.free({1, 2, 3})
    assert sum(told) == codes.nbytes + 8 * 60
    holder.free({1, 2, 3})
    assert sum(told) == codes.nbytes + 8 * 60
    holder.run(asked({4}), [1], [0, 1, 2])
    assert sum(told) == codes.nbytes + 8 * 67


def test_free_pages_are_given_back_once_much_was_forgotten_and_now_and_then(holder, monkeypatch):
    trimmed, now = [], [100.0]
    monkeypatch.setattr("gpukfl.partitioned._dask.trim_memory", lambda: trimmed.append(now[0]))
    monkeypatch.setattr("gpukfl.partitioned._dask._TRIM_BYTES", 800)
    monkeypatch.setattr("gpukfl.partitioned._dask._TRIM_SECONDS", 2.0)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    for moment, length in ((100.0, 0), (101.0, 60), (101.5, 39), (101.6, 1), (103.0, 9)):
        now[0] = moment
        holder.put(0, 1, np.zeros(length))
        holder.step(asked(), [], [0, 1], {1})
    assert trimmed == [100.0, 101.6]
    now[0] = 103.7
    holder.step(asked(), [], [0, 1], ())
    assert trimmed == [100.0, 101.6, 103.7]


def test_free_pages_are_given_back_while_parts_are_worked_on(holder, monkeypatch):
    held = []
    monkeypatch.setattr("gpukfl.partitioned._dask._TRIM_BYTES", 800)
    holder._trim_time = np.inf
    monkeypatch.setattr(
        "gpukfl.partitioned._dask.trim_memory",
        lambda: held.append([1 in values for values in holder.values.values()]),
    )
    for part in range(4):
        holder.put(part, 1, np.zeros(60))
    holder.step(asked({1}), range(4), [0, 1, 2, 3, 4], ())
    assert held == [[False, False, True, True], [False] * 4]


def test_pyarrow_gives_back_what_it_keeps_where_a_part_was_read(monkeypatch):
    released = []
    pool = SimpleNamespace(release_unused=lambda: released.append(threading.get_ident()))
    arrow = SimpleNamespace(default_memory_pool=lambda: pool)
    monkeypatch.setattr("gpukfl.partitioned._dask._LOCAL_HOLDERS", {"one": Holder(np.empty(0))})
    monkeypatch.setitem(sys.modules, "pyarrow", arrow)
    put_values("one", 0, {0: np.ones(3)})
    assert released == [threading.get_ident()]
    monkeypatch.delitem(sys.modules, "pyarrow")
    put_values("one", 1, {0: np.ones(3)})
    assert len(released) == 1
