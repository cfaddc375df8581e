"""Blocks of rows are computed in threads and taken in order, whatever happens."""

import threading
import time
import warnings

import numpy as np
import pytest

import gpukfl
from gpukfl._accel import threads as pool
from gpukfl.linalg import _blocks, each_block

WIDTH = 5


@pytest.fixture(autouse=True)
def threads_for_little_work(monkeypatch):
    monkeypatch.setattr(_blocks, "_WORTH_A_THREAD", 1)


def run_in_time(work):
    """What `work` gives, in a thread that may not wait for ever."""
    done = []
    worker = threading.Thread(target=lambda: done.append(work()), daemon=True)
    worker.start()
    worker.join(30)
    assert not worker.is_alive(), "threads wait for each other"
    return done[0]


def test_little_work_stays_in_the_callers_thread(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "2")
    inside = []
    each_block(
        np.empty(0),
        (0, 20),
        WIDTH,
        lambda *_: inside.append(threading.current_thread()),
        lambda *_: None,
    )
    assert inside == [threading.current_thread()]


def taken(on, n, compute=lambda start, stop: (start, stop), width=WIDTH):
    """What `take` gets: edges, results and the threads it ran in."""
    got, inside = [], set()

    def take(start, stop, result):
        got.append((start, stop, result))
        inside.add(threading.current_thread())

    each_block(on.reference, (0, n), width, compute, take)
    assert inside <= {threading.current_thread()}
    return got


def assert_cover(got, n):
    """Consecutive blocks, each with its own result."""
    edges = [start for start, _, _ in got] + [n]
    assert edges[0] == 0
    assert [stop for _, stop, _ in got] == edges[1:]
    assert all(start < stop for start, stop, _ in got)
    assert all(result == (start, stop) for start, stop, result in got)


@pytest.mark.pairs
@pytest.mark.parametrize("threads", ["1", "2", "3", "7"])
@pytest.mark.parametrize("n", [1, 2, 17, 1000])
def test_blocks_cover_the_rows_in_order(on, n, threads, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", threads)
    for budget in (None, 1, 5000):
        with gpukfl.memory_budget(budget):
            assert_cover(taken(on, n), n)


def test_no_rows_no_calls(on):
    assert taken(on, 0) == []


def test_slow_first_blocks_are_taken_first(on, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "4")

    def compute(start, stop):
        time.sleep(0.02 if start == 0 else 0.0)
        return start, stop

    with gpukfl.memory_budget(1):
        assert_cover(taken(on, 9, compute), 9)


def test_only_numpy_uses_threads(on, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "3")
    used = set()

    def compute(start, stop):
        used.add(threading.current_thread())
        return start, stop

    with gpukfl.memory_budget(1):
        taken(on, 60, compute)
    own = threading.current_thread() in used
    assert own == (on.package != "numpy")


def test_blocks_fit_the_memory(on, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "2")
    threads = 2 if on.package == "numpy" else 1
    with gpukfl.memory_budget(8 * 4 * WIDTH * 2 * 6):
        got = taken(on, 100)
    assert max(stop - start for start, stop, _ in got) == 12 // threads


def test_out_of_memory_halves_the_blocks_and_warns(on, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "2")

    def compute(start, stop):
        if stop - start > 5:
            raise MemoryError
        return start, stop

    with pytest.warns(RuntimeWarning, match="out of memory: continuing with blocks of"):
        got = taken(on, 15, compute)
    assert_cover(got, 15)
    assert max(stop - start for start, stop, _ in got) <= 5


def test_out_of_memory_for_a_single_row_is_an_error(on):
    def compute(start, stop):
        raise MemoryError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with pytest.raises(MemoryError):
            taken(on, 2, compute)


def test_errors_of_the_work_come_through(on, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "3")

    def compute(start, stop):
        if stop > 40:
            raise KeyError(start)
        return start, stop

    with gpukfl.memory_budget(1), pytest.raises(KeyError):
        taken(on, 60, compute)
    assert_cover(taken(on, 40, compute), 40)  # the threads are still there


def test_blocks_inside_blocks_stay_in_their_thread(on, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "2")

    def inner(start, stop):
        return threading.current_thread()

    def compute(start, stop):
        used = {thread for _, _, thread in taken(on, 50, inner)}
        assert used == {threading.current_thread()}
        return start, stop

    def outer():
        with gpukfl.memory_budget(1):
            return taken(on, 8, compute)

    assert_cover(run_in_time(outer), 8)


def test_threads_of_the_pool_know_that_they_are(monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "3")
    assert pool.free_threads() == 3
    assert pool.map_in_pool(lambda _: pool.free_threads(), range(5)) == [1] * 5
    assert pool.free_threads() == 3


@pytest.mark.parametrize(
    ("threads", "calls", "share"), [(8, 3, 2), (4, 2, 2), (2, 2, 1), (1, 2, 1)]
)
def test_threads_apart_share_what_is_free(threads, calls, share, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", str(threads))

    def work(k):
        inner = pool.map_in_pool(lambda j: (k * j, pool.free_threads()), range(6))
        nested = pool.map_in_shared_threads(lambda _: threading.get_ident(), range(3))
        assert set(nested) == {threading.get_ident()}  # no thread waits for another of its kind
        return pool.free_threads(), inner

    done = run_in_time(lambda: pool.map_in_shared_threads(work, range(calls)))
    assert done == [(share, [(k * j, 1) for j in range(6)]) for k in range(calls)]
    assert pool.free_threads() == threads


def test_a_single_call_apart_has_all_threads(monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "3")
    assert pool.map_in_shared_threads(lambda k: (k, pool.free_threads()), [5]) == [(5, 3)]
    assert pool.map_in_shared_threads(lambda k: k, []) == []


def test_what_fails_apart_is_raised_and_threads_go_on(monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "2")
    with pytest.raises(ZeroDivisionError):
        pool.map_in_shared_threads(lambda k: 1 // k, [1, 0])
    assert pool.free_threads() == 2
    assert pool.map_in_shared_threads(lambda k: k, range(4)) == [0, 1, 2, 3]


def test_sums_do_not_depend_on_timing(rng, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "4")
    x = rng.standard_normal(5000)

    def total():
        parts = []
        each_block(
            x,
            (0, len(x)),
            1,
            lambda start, stop: (time.sleep(rng.uniform(0, 1e-3)), np.sum(x[start:stop]))[1],
            lambda _start, _stop, part: parts.append(part),
        )
        return sum(parts)

    with gpukfl.memory_budget(8 * 4 * 4 * 100):
        assert len({total() for _ in range(5)}) == 1
