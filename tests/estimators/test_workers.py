"""Calls in several processes are those of one, in the order of their arguments."""

import multiprocessing
import os
import tempfile
import threading
import time
import warnings

import numpy as np
import pytest
import sklearn
from sklearn.exceptions import ConvergenceWarning

import gpukfl
from gpukfl._accel.threads import free_threads, n_parts, run_in_chunks, share_threads
from gpukfl.core._memory import available_memory
from gpukfl.core._warnings import collect_warnings, warn
from gpukfl.estimators import _workers
from gpukfl.estimators._run import current_report
from gpukfl.estimators._workers import (
    Workers,
    affordable_processes,
    check_n_jobs,
    count_processes,
    end_processes,
)

HERE = os.getpid()
COUNTS = pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.slow)])


@pytest.fixture(scope="module", autouse=True)
def _ended():
    yield
    end_processes()


def ready(workers, seconds=120.0):
    """The workers, once all have begun."""
    begun = time.monotonic()
    while workers.n_at_once(limited=True) < workers.count:
        assert time.monotonic() - begun < seconds
        time.sleep(0.01)
    return workers


def results(outcomes):
    return [outcome.result() for outcome in outcomes]


def who(_):
    time.sleep(0.05)
    return os.getpid()


def squared(k):
    return k, np.full(3, k) ** 2


def reciprocal(k):
    time.sleep(0.01)
    return 1.0 / k


def remarked(k):
    warn(f"ours of {k}")
    warnings.warn(f"others of {k}", ConvergenceWarning, stacklevel=1)
    return k


def surroundings(_):
    time.sleep(0.02)
    X = np.empty((1, 1))
    told = sklearn.get_config()["assume_finite"], np.geterr()["over"], n_parts()
    return (*told, free_threads(), available_memory(X))


def mean_of_rows(shared, k):
    found = shared.value["rows"]
    kind = type(found) is np.ndarray, found.flags.writeable, found.flags.f_contiguous
    found[k] = k  # its own pages
    return kind, found.sum(), os.getpid()


def lock(_):
    return threading.Lock() if os.getpid() != HERE else "lock"


def dying(parent):
    if os.getpid() != parent:
        os._exit(3)
    time.sleep(0.05)
    return "here"


@COUNTS
def test_outcomes_come_in_the_order_of_the_arguments(count):
    with Workers(count) as workers:
        found = results(ready(workers).map(squared, list(range(7))))
        assert results(workers.map(squared, [])) == []
    assert [k for k, _ in found] == list(range(7))
    for k, square in found:
        np.testing.assert_array_equal(square, [k * k] * 3)


@pytest.mark.few
def test_other_processes_take_part_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = np.asfortranarray(np.arange(12.0).reshape(4, 3))
    with Workers(2) as workers:
        shared = ready(workers).share({"rows": rows})
        assert shared.value["rows"] is rows
        assert len(set(results(workers.map(who, range(6))))) == 2
        task = _Bound(mean_of_rows, shared)
        found = results(workers.map(task, [0, 1, 2, 3]))
    assert {kind for kind, _, _ in found} == {(True, True, True)}
    assert not list(tmp_path.iterdir())


class _Bound:
    """A call of a value that is shared."""

    def __init__(self, call, shared):
        self.call, self.shared = call, shared

    def __call__(self, k):
        return self.call(self.shared, k)


@COUNTS
def test_an_error_is_raised_where_its_result_is_asked_for(count):
    with Workers(count) as workers:
        first, second, third = list(ready(workers).map(reciprocal, [1, 0, 2]))
    assert (first.result(), third.result()) == (1.0, 0.5)
    with pytest.raises(ZeroDivisionError):
        second.result()


@COUNTS
def test_warnings_are_issued_with_the_result(count):
    with Workers(count) as workers, collect_warnings() as notes:
        ready(workers)
        with pytest.warns(ConvergenceWarning, match="others of") as heard:
            assert results(workers.map(remarked, [1, 2, 3])) == [1, 2, 3]
    assert notes == ["ours of 1", "ours of 2", "ours of 3"]
    # Those of other libraries are heard at once from calls made here, else with the result
    assert {str(one.message) for one in heard} == {f"others of {k}" for k in (1, 2, 3)}


@pytest.mark.slow
def test_calls_see_the_settings_of_the_caller_and_share_its_memory(monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "4")
    with (
        Workers(2) as workers,
        sklearn.config_context(assume_finite=True),
        np.errstate(over="raise"),
        gpukfl.memory_budget(1001),
    ):
        found = results(ready(workers).map(surroundings, range(5)))
    assert found == [(True, "raise", 4, 2, 500)] * 5


@COUNTS
def test_what_is_closed_begins_no_more(count):
    begun = []
    with Workers(count) as workers:
        calls = workers.map(lambda k: begun.append(k) or k, list(range(9)))  # here, and elsewhere
        assert next(calls).result() == 0
        calls.close()
    assert len(begun) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("given", ["argument", "result", "value"])
def test_what_cannot_be_pickled_is_made_here(given):
    with Workers(2) as workers:
        ready(workers)
        if given == "argument":
            locks = [threading.Lock() for _ in range(3)]
            assert results(workers.map(lambda one: one.locked(), locks)) == [False] * 3
        elif given == "result":
            assert results(workers.map(lock, range(3))) == ["lock"] * 3
        else:
            shared = workers.share({"rows": np.zeros((4, 1)), "lock": threading.Lock()})
            found = results(workers.map(_Bound(mean_of_rows, shared), range(3)))
            assert {process for _, _, process in found} == {os.getpid()}
        assert len(set(results(workers.map(who, range(6))))) == 2  # which are still there


@pytest.mark.slow
def test_the_calls_of_a_process_that_dies_are_made_here():
    with Workers(2) as workers:
        assert results(ready(workers).map(dying, [os.getpid()] * 4)) == ["here"] * 4
        assert results(workers.map(squared, [2]))[0][0] == 2
    with Workers(2) as workers:
        assert len(set(results(ready(workers).map(who, range(6))))) == 2


def test_all_is_made_here_until_others_have_begun(monkeypatch):
    monkeypatch.setattr(_workers, "_get_pool", lambda _: _Never())
    with Workers(3) as workers:
        assert workers.n_at_once(limited=True) == 1
        assert workers.n_at_once(limited=False) == 3
        assert set(results(workers.map(who, range(3)))) == {os.getpid()}


class _Never:
    """Processes that do not come up."""

    n_free, is_busy, is_broken = 0, False, False

    def greet(self, modules):
        pass

    def offer(self, job):
        pass


def test_calls_here_report_their_steps():
    told = []
    with Workers() as workers:
        results(workers.map(lambda k: current_report()("fit", k, None), [0, 1], _teller(told)))
    assert told == [0, 1]


def _teller(told):
    return lambda *step: told.append(step[1])


def test_an_interruption_comes_through_at_once():
    def interrupted(k):
        raise KeyboardInterrupt

    with Workers() as workers, pytest.raises(KeyboardInterrupt):
        list(workers.map(interrupted, [0, 1]))


# ------------------------------------------------------------------------------ how many


@pytest.mark.parametrize(("asked", "found"), [(None, 1), (1, 1), (3, 3), (np.int64(2), 2)])
def test_how_many_processes_are_asked_for(asked, found):
    check_n_jobs(asked)
    assert count_processes(asked) == found


def test_all_cores():
    assert count_processes(-1) >= 1


@pytest.mark.parametrize("wrong", [0, 1.5, "all", True])
def test_what_is_no_number_of_processes(wrong):
    with pytest.raises((TypeError, ValueError), match="expected n_jobs to be"):
        check_n_jobs(wrong)


def test_a_process_that_another_started_is_one(monkeypatch):
    monkeypatch.setattr(multiprocessing, "parent_process", object)
    assert count_processes(4) == 1


def test_processes_are_as_many_as_memory_is_enough_for():
    X = np.empty((1, 1))
    with gpukfl.memory_budget(2**31):
        assert affordable_processes(8, X, 2**29) == 3
        assert affordable_processes(2, X, 2**29) == 2
    with gpukfl.memory_budget(1):
        assert affordable_processes(8, X, 0) == 1


# ------------------------------------------------------------------------------- threads


@pytest.mark.parametrize("share", [1, 2, 3, 5])
def test_work_is_split_alike_by_any_share_of_the_threads(share, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "5")

    def split():
        found = {}

        def body(chunk, start, stop):
            found[chunk] = start, stop

        count = run_in_chunks(1000, 10**7, body)
        return count, sorted(found.items())

    expected = split()
    with share_threads(share):
        assert split() == expected
    assert expected[0] == 5
