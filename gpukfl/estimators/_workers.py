"""Fits in several processes, with the results and the order of a single process.

Processes of joblib's loky stay for later fits. This process makes its share of the calls, and all
of them until others have started. Values that many calls read are in a file that all processes map.
A call that cannot be pickled, or whose result cannot, is made in this process.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import multiprocessing
import numbers
import os
import pickle
import shutil
import signal
import tempfile
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import numpy as np
from sklearn import config_context, get_config

from gpukfl._accel.limits import limit_sklearn_openmp, one_blas_thread
from gpukfl._accel.threads import n_threads, share_threads
from gpukfl.core._array import Array
from gpukfl.core._checks import check_number
from gpukfl.core._memory import available_memory, memory_budget, planned_budget, share_memory
from gpukfl.core._warnings import collect_warnings, warn
from gpukfl.estimators._run import Report, ignore_step, use_report

Value = TypeVar("Value")
Given = TypeVar("Given")
Found = TypeVar("Found")

# --------------------------------------------------------------------------------- results


ForeignWarning = tuple[str, type[Warning], str, int]  # text, category, file and line of a warning


@dataclass(frozen=True, eq=False)
class Outcome(Generic[Found]):
    """The result of a call, or its error, with its warnings.

    Attributes
    ----------
    found : object
        The returned value; None after an error.
    error : Exception or None
        The raised error.
    notes : list of str
        Warnings of this library.
    heard : list of ForeignWarning
        Warnings of other libraries, if it was made in another process.
    seconds : float
        Its duration.
    """

    found: Any
    error: BaseException | None
    notes: list[str]
    heard: list[ForeignWarning]
    seconds: float

    def result(self) -> Found:
        """Return the result, or raise the error, and issue the warnings."""
        for message in self.notes:
            warn(message)
        for text, category, file, line in self.heard:
            warnings.warn_explicit(text, category, file, line)
        if self.error is not None:
            raise self.error
        found: Found = self.found
        return found


@dataclass(frozen=True)
class _Environment:
    """The settings of the calling process and thread, which calls elsewhere adopt.

    Attributes
    ----------
    processes : int
        Number of processes that make calls.
    threads : int
        Number of threads.
    sklearn : dict
        scikit-learn's settings.
    numpy : dict
        NumPy's handling of floating-point errors.
    memory : int or None
        The user's memory budget.
    """

    processes: int
    threads: int
    sklearn: dict[str, Any]
    numpy: dict[str, Any]
    memory: int | None

    @classmethod
    def here(cls, processes: int, /) -> Self:
        return cls(processes, n_threads(), get_config(), dict(np.geterr()), planned_budget())


def _call(fit: Callable[[Given], Found], given: Given, processes: int, /) -> Outcome[Found]:
    """Make a call in this process, with its share of threads and memory."""
    share, begun = max(1, n_threads() // processes), time.perf_counter()
    found = failed = None
    with contextlib.ExitStack() as limits:
        notes = limits.enter_context(collect_warnings())
        if processes > 1:
            from joblib import parallel_config

            limits.enter_context(share_memory(processes))
            limits.enter_context(share_threads(share))
            limits.enter_context(one_blas_thread())
            limits.enter_context(limit_sklearn_openmp(share))
            limits.enter_context(parallel_config("sequential"))
        try:
            found = fit(given)
        except Exception as error:  # `Outcome.result` raises it
            failed = error
    return Outcome(found, failed, notes, [], time.perf_counter() - begun)


# ---------------------------------------------------------------------------- shared values

_ALIGNMENT = 64  # bytes, that of NumPy's arrays


class Shared(Generic[Value]):
    """A value that other processes read from a file.

    Attributes
    ----------
    value : object
        The value itself in this process; elsewhere a copy, whose arrays are pages of the file.
    """

    def __init__(self, value: Value, path: str, /) -> None:
        self.value, self._path = value, path

    def __reduce__(self) -> tuple[Callable[[str], Shared[Any]], tuple[str]]:
        if not self._path:
            msg = "a value that cannot be saved"
            raise pickle.PicklingError(msg)
        return _read_shared, (self._path,)


def _write_shared(value: object, path: str, /) -> None:
    """Write a value to a file, and its arrays to a second one."""
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    parts = [one.raw() for one in buffers]
    places, end = [], 0
    for part in parts:
        places.append((end, part.nbytes))
        end += -(-part.nbytes // _ALIGNMENT) * _ALIGNMENT
    with open(path + ".arrays", "wb") as file:
        for (start, _), part in zip(places, parts, strict=True):
            file.seek(start)
            file.write(part)
        file.truncate(max(end, 1))  # an empty file cannot be mapped
    with open(path, "wb") as file:
        pickle.dump((places, text), file)


@functools.lru_cache(maxsize=1)
def _read_shared(path: str) -> Shared[Any]:
    """Read a value; pages of its arrays are copied when they are changed."""
    with open(path, "rb") as file:
        places, text = pickle.load(file)
    with open(path + ".arrays", "rb") as file:
        pages = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    buffers = [pages[start : start + size] for start, size in places]
    return Shared(pickle.loads(text, buffers=buffers), path)


# --------------------------------------------------------------------- in another process

_CHECK_PERIOD = 1.0  # seconds between two checks that the parent process exists


def _initialize(parent: int, /) -> None:
    """Prepare a process: it ignores Ctrl-C, and exits when its parent has."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()


def _exit_with(parent: int) -> None:
    import psutil

    while os.getppid() == parent and psutil.pid_exists(parent):
        time.sleep(_CHECK_PERIOD)
    os._exit(1)


def _import_modules(modules: Sequence[str], /) -> None:
    """Import the modules that calls need."""
    import importlib

    for name in modules:
        importlib.import_module(name)


def _call_pickled(text: bytes, /) -> Outcome[Any]:
    """Make a pickled call in another process, with the settings of the calling one."""
    fit, given, around = pickle.loads(text)
    os.environ["GPUKFL_NUM_THREADS"] = str(around.threads)
    with (
        config_context(**around.sklearn),
        np.errstate(**around.numpy),
        memory_budget(around.memory),
        warnings.catch_warnings(record=True) as heard,
    ):
        warnings.simplefilter("always")
        made = _call(fit, given, around.processes)
    foreign = [(str(one.message), one.category, one.filename, one.lineno) for one in heard]
    return Outcome(made.found, made.error, made.notes, foreign, made.seconds)


# ---------------------------------------------------------------------------------- queues

# Every step of the main thread is one step of the interpreter, so that Ctrl-C leaves no lock held;
# see `gpukfl._accel.pool`.

_IDLE_SECONDS = 120.0  # after which an idle process exits


class _Job:
    """A sequence of calls, each taken once, in their order."""

    def __init__(self, fit: Callable[[Any], Any], given: Sequence[Any], processes: int) -> None:
        self.fit, self.given = fit, given
        self.around = _Environment.here(processes)
        self.left: deque[int] = deque()
        self.done: SimpleQueue[tuple[int, Outcome[Any] | None]] = SimpleQueue()

    def take(self) -> int | None:
        """Return the number of the next call, or None."""
        try:
            return self.left.popleft()
        except IndexError:
            return None

    def take_number(self, number: int) -> bool:
        """Take a call by its number; return whether it was still there."""
        try:
            self.left.remove(number)
        except ValueError:
            return False
        return True


class _Pool:
    """Processes that stay, each with a thread here that sends it calls and waits for results."""

    def __init__(self, count: int) -> None:
        from joblib.externals.loky import ProcessPoolExecutor

        self.count, self.is_broken = count, False
        self._ready: set[int] = set()  # threads whose processes have started
        self._busy: set[int] = set()
        self._jobs: SimpleQueue[_Job | Sequence[str] | None] = SimpleQueue()
        self._executor = ProcessPoolExecutor(
            count,
            timeout=_IDLE_SECONDS,
            initializer=_initialize,
            initargs=(os.getpid(),),
            env={"OMP_NUM_THREADS": "1"},
        )
        for k in range(count):
            threading.Thread(target=self._keep, args=(k,), daemon=True).start()

    @property
    def n_free(self) -> int:
        """The number of started processes that wait for calls."""
        return len(self._ready - self._busy)

    @property
    def is_busy(self) -> bool:
        """Whether calls are still being made."""
        return bool(self._busy)

    def greet(self, modules: Sequence[str]) -> None:
        """Import modules in all processes, restarted ones included."""
        self._ready.clear()
        for _ in range(self.count):
            self._jobs.put(modules)

    def offer(self, job: _Job) -> None:
        """Offer calls to all processes."""
        for _ in range(self.count):
            self._jobs.put(job)

    def end(self) -> None:
        """Kill the processes."""
        self.is_broken = True
        for _ in range(self.count):
            self._jobs.put(None)
        self._executor.shutdown(wait=True, kill_workers=True)

    def _keep(self, k: int) -> None:
        while (job := self._jobs.get()) is not None and not self.is_broken:
            if not isinstance(job, _Job):
                with contextlib.suppress(Exception):  # else this process makes the calls
                    self._executor.submit(_import_modules, job).result()
                    self._ready.add(k)
            elif k in self._ready:
                self._serve(k, job)

    def _serve(self, k: int, job: _Job) -> None:
        from joblib.externals.loky.backend.reduction import dumps
        from joblib.externals.loky.process_executor import BrokenProcessPool

        self._busy.add(k)
        while not self.is_broken and (number := job.take()) is not None:
            made = None
            try:
                text = bytes(dumps((job.fit, job.given[number], job.around)))
                made = self._executor.submit(_call_pickled, text).result()
            except BrokenProcessPool:
                self.is_broken = True
            except BaseException:  # perhaps of pickling: the calling thread makes the call
                made = None
            job.done.put((number, made))
        self._busy.discard(k)


_pools: dict[int, _Pool] = {}  # by process, as a forked one needs its own


def _get_pool(count: int) -> _Pool:
    """Return a pool of `count` processes: that of an earlier fit, or a new one."""
    here = os.getpid()
    known = _pools.get(here)
    if known is not None and (known.is_broken or known.is_busy or known.count != count):
        end_processes()
        known = None
    if known is None:
        _pools.clear()
        known = _pools[here] = _Pool(count)
    return known


def end_processes() -> None:
    """Kill the processes that stay for later fits."""
    known = _pools.pop(os.getpid(), None)
    if known is not None:
        known.end()


# --------------------------------------------------------------------------------- workers

_LEAST_MEMORY = 2**28  # bytes of a process after its imports


class Workers:
    """Processes that make calls: the calling one and others.

    Parameters
    ----------
    count : int, default=1
        Number of all processes.
    modules : sequence of str
        Modules that the others import when they start.
    """

    def __init__(self, count: int = 1, modules: Sequence[str] = (), /) -> None:
        self.count, self._modules = max(1, count), modules
        self._others: _Pool | None = None
        self._folder, self._n_shared = "", 0

    def __reduce__(self) -> tuple[type[Workers], tuple[()]]:
        return Workers, ()  # a worker has no workers of its own

    def __enter__(self) -> Self:
        if self.count > 1:
            self._others = _get_pool(self.count - 1)
            self._others.greet(self._modules)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        others, self._others = self._others, None
        if others is not None and (others.is_busy or others.is_broken):
            end_processes()
        if self._folder:
            _remove_folder(self._folder)
            self._folder = ""

    def n_at_once(self, *, limited: bool) -> int:
        """Return the number of calls made at once; if `limited`, by processes that have started."""
        if not limited or self._others is None:
            return self.count
        return 1 + self._others.n_free

    def share(self, value: Value, /) -> Shared[Value]:
        """Return a value that calls may hold; other processes read it from a file.

        If it cannot be written, this process makes the calls that hold it.
        """
        path = ""
        if self._others is not None:
            with contextlib.suppress(OSError, pickle.PicklingError, TypeError, AttributeError):
                self._folder = self._folder or _make_folder()
                name = os.path.join(self._folder, str(self._n_shared))
                _write_shared(value, name)
                path, self._n_shared = name, self._n_shared + 1
        return Shared(value, path)

    def map(
        self, fit: Callable[[Given], Found], given: Sequence[Given], report: Report = ignore_step, /
    ) -> Iterator[Outcome[Found]]:
        """Make calls in all processes, and yield their outcomes in the order of the arguments.

        An outcome is yielded as soon as it and those before it are made. Closing the iterator drops
        the calls that have not begun, and does not wait for others.

        Parameters
        ----------
        fit : callable
            A function whose result depends on its argument alone.
        given : sequence
            The arguments.
        report : callable
            The function to which calls in this process report their steps.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C, or from a call in this process.
        """
        others = self._others if len(given) > 1 else None
        job = _Job(fit, given, 1 if others is None else self.count)
        made: dict[int, Outcome[Found]] = {}
        own = deque(range(min(len(given), 1)))  # this process makes the first, which reports
        job.left.extend(range(len(own), len(given)))
        try:
            if others is not None:
                others.offer(job)
            for number in range(len(given)):
                while number not in made:
                    mine = own.popleft() if own else job.take()
                    if mine is not None:
                        with use_report(report):
                            made[mine] = _call(fit, given[mine], job.around.processes)
                    _collect(job, made, own, wait=mine is None)
                yield made.pop(number)
        finally:
            job.left.clear()

    def begin(
        self, fit: Callable[[Given], Found], given: Sequence[Given], /
    ) -> BegunCalls[Given, Found]:
        """Begin calls in the other processes, in their order, and return them.

        Without other processes, each is made here when its outcome is needed.
        """
        job = _Job(fit, given, self.count)
        job.left.extend(range(len(given)))
        if self._others is not None and len(given):
            self._others.offer(job)
        return BegunCalls(job)


class BegunCalls(Generic[Given, Found]):
    """Calls that other processes make; each outcome is taken once, by number."""

    def __init__(self, job: _Job, /) -> None:
        self._job = job
        self._made: dict[int, Outcome[Found]] = {}
        self._own: deque[int] = deque()

    def is_made(self, number: int, /) -> bool:
        """Whether an outcome is available."""
        _collect(self._job, self._made, self._own, wait=False)
        return number in self._made

    def outcome(self, number: int, report: Report = ignore_step, /) -> Outcome[Found]:
        """Return an outcome; make the call here if it has not begun, or failed elsewhere.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C, or from a call in this process.
        """
        while not self.is_made(number):
            if number in self._own or self._job.take_number(number):
                with use_report(report):
                    return _call(self._job.fit, self._job.given[number], self._job.around.processes)
            _collect(self._job, self._made, self._own, wait=True)
        return self._made.pop(number)

    def drop(self) -> None:
        """Drop the calls that have not begun."""
        self._job.left.clear()


def call_here(fit: Callable[[Given], Found], given: Given, report: Report, /) -> Outcome[Found]:
    """Make a call in this process, and return its outcome."""
    with use_report(report):
        return _call(fit, given, 1)


def _collect(job: _Job, made: dict[int, Outcome[Any]], own: deque[int], *, wait: bool) -> None:
    """Move finished outcomes to `made`, and calls that failed elsewhere to `own`."""
    with contextlib.suppress(Empty):
        while True:
            number, outcome = job.done.get(block=wait)
            wait = False
            if outcome is None:
                own.append(number)
            else:
                made[number] = outcome


def _make_folder() -> str:
    """Return a new folder, which loky removes if this process is killed."""
    from joblib.externals.loky.backend import resource_tracker

    folder = tempfile.mkdtemp(prefix="gpukfl_")
    resource_tracker.register(folder, "folder")
    return folder


def _remove_folder(folder: str) -> None:
    from joblib.externals.loky.backend import resource_tracker

    shutil.rmtree(folder, ignore_errors=True)
    if not os.path.exists(folder):  # else loky removes it when this process ends
        resource_tracker.unregister(folder, "folder")


def affordable_processes(count: int, reference: Array, bytes_each: int, /) -> int:
    """Return how many of `count` processes fit in memory with `bytes_each` each."""
    return max(1, min(count, 1 + available_memory(reference) // (_LEAST_MEMORY + bytes_each)))


def check_n_jobs(n_jobs: object, /) -> None:
    """Raise TypeError or ValueError unless it is None or an integer other than 0."""
    check_number("n_jobs", n_jobs, kind=numbers.Integral, also=(None,))
    if n_jobs == 0:
        msg = "expected n_jobs to be None or an integer other than 0, got 0"
        raise ValueError(msg)


def count_processes(n_jobs: int | None, /) -> int:
    """Return the number of processes for `n_jobs`, as in scikit-learn; 1 in a child process."""
    if multiprocessing.parent_process() is not None or multiprocessing.current_process().daemon:
        return 1
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))
