"""Fits in several processes: their results are those of one process, in the order that was asked.

Processes of joblib's loky stay for later fits. This process does its share of the calls, and all of
them until others have started: what has not come up costs nothing. Values that many calls read lie
in a file, whose pages all processes map. A call that cannot go to another process, or whose result
cannot come back, is made here.
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

# What a call came to, wherever it was made.


Heard = tuple[str, type[Warning], str, int]  # text, category, file and line of a warning


@dataclass(frozen=True, eq=False)
class Outcome(Generic[Found]):
    """The result of a call, or its error, with its warnings.

    Attributes
    ----------
    found : object
        What it returned; None after an error.
    error : Exception or None
        What it raised.
    notes : list of str
        Warnings of this library.
    heard : list of tuple
        Warnings of others, in another process.
    seconds : float
        That it took.
    """

    found: Any
    error: BaseException | None
    notes: list[str]
    heard: list[Heard]
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
class _Surroundings:
    """What calls see of the process and the thread that asks for them.

    Attributes
    ----------
    processes : int
        That make calls at the same time.
    threads : int
        Into which work is split.
    sklearn : dict
        Scikit-learn's settings.
    numpy : dict
        What NumPy does with errors of floating point.
    memory : int or None
        The budget that the user set.
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
        except Exception as error:  # for who asked
            failed = error
    return Outcome(found, failed, notes, [], time.perf_counter() - begun)


# ---------------------------------------------------------------------------- shared values

# Values that many calls read, in a file that is written once.


_ALIGNED = 64  # bytes, as NumPy aligns no better


class Shared(Generic[Value]):
    """A value that other processes read from a file.

    Attributes
    ----------
    value : object
        Itself in this process; elsewhere its copy, whose arrays are pages of the file.
    """

    def __init__(self, value: Value, path: str, /) -> None:
        self.value, self._path = value, path

    def __reduce__(self) -> tuple[Callable[[str], Shared[Any]], tuple[str]]:
        if not self._path:
            msg = "a value that cannot be saved"
            raise pickle.PicklingError(msg)
        return _read_shared, (self._path,)


def _write_shared(value: object, path: str, /) -> None:
    """Write a value, with its arrays behind it."""
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    parts = [one.raw() for one in buffers]
    places, end = [], 0
    for part in parts:
        places.append((end, part.nbytes))
        end += -(-part.nbytes // _ALIGNED) * _ALIGNED
    with open(path + ".arrays", "wb") as file:
        for (start, _), part in zip(places, parts, strict=True):
            file.seek(start)
            file.write(part)
        file.truncate(max(end, 1))  # an empty file cannot be mapped
    with open(path, "wb") as file:
        pickle.dump((places, text), file)


@functools.lru_cache(maxsize=1)
def _read_shared(path: str) -> Shared[Any]:
    """Read a value; what changes its arrays has pages of its own from then on."""
    with open(path, "rb") as file:
        places, text = pickle.load(file)
    with open(path + ".arrays", "rb") as file:
        pages = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    buffers = [pages[start : start + size] for start, size in places]
    return Shared(pickle.loads(text, buffers=buffers), path)


# ------------------------------------------------------------------------------ a process

# What happens in another process.


_LOOKS = 1.0  # seconds between two looks for the process that started this one


def _begin(parent: int, /) -> None:
    """Prepare a process: it leaves Ctrl-C to its parent, and ends when that is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    import psutil

    while os.getppid() == parent and psutil.pid_exists(parent):
        time.sleep(_LOOKS)
    os._exit(1)


def _greet(modules: Sequence[str], /) -> None:
    """Import what calls need."""
    import importlib

    for name in modules:
        importlib.import_module(name)


def _call_there(text: bytes, /) -> Outcome[Any]:
    """Make a pickled call in another process, surrounded as in the one that asks."""
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
    told = [(str(one.message), one.category, one.filename, one.lineno) for one in heard]
    return Outcome(made.found, made.error, made.notes, told, made.seconds)


# ---------------------------------------------------------------------------------- queues

# How calls are handed out, and come back. Every step that this process's main thread takes is one
# step of the interpreter, so that Ctrl-C leaves nothing locked; see `gpukfl._accel.pool`.


_IDLE = 120.0  # seconds after which a process that has nothing to do ends


class _Job:
    """Calls that belong together: each is taken once, in their order."""

    def __init__(self, fit: Callable[[Any], Any], given: Sequence[Any], processes: int) -> None:
        self.fit, self.given = fit, given
        self.around = _Surroundings.here(processes)
        self.left: deque[int] = deque()
        self.done: SimpleQueue[tuple[int, Outcome[Any] | None]] = SimpleQueue()

    def take(self) -> int | None:
        """Return the number of the next call, or None."""
        try:
            return self.left.popleft()
        except IndexError:
            return None

    def take_number(self, number: int) -> bool:
        """Take a call by its number; return whether nobody has."""
        try:
            self.left.remove(number)
        except ValueError:
            return False
        return True


class _Processes:
    """Processes that stay, each with a thread here that hands calls to it and waits for them."""

    def __init__(self, count: int) -> None:
        from joblib.externals.loky import ProcessPoolExecutor

        self.count, self.is_broken = count, False
        self._ready: set[int] = set()  # threads whose processes have begun
        self._busy: set[int] = set()
        self._jobs: SimpleQueue[_Job | Sequence[str] | None] = SimpleQueue()
        self._executor = ProcessPoolExecutor(
            count,
            timeout=_IDLE,
            initializer=_begin,
            initargs=(os.getpid(),),
            env={"OMP_NUM_THREADS": "1"},
        )
        for k in range(count):
            threading.Thread(target=self._keep, args=(k,), daemon=True).start()

    @property
    def n_free(self) -> int:
        """The number of processes that have begun and wait for calls."""
        return len(self._ready - self._busy)

    @property
    def is_busy(self) -> bool:
        """Whether calls are made whose results nobody waits for."""
        return bool(self._busy)

    def greet(self, modules: Sequence[str]) -> None:
        """Let all processes import modules, also those that begin anew."""
        self._ready.clear()
        for _ in range(self.count):
            self._jobs.put(modules)

    def offer(self, job: _Job) -> None:
        """Offer calls to all processes."""
        for _ in range(self.count):
            self._jobs.put(job)

    def end(self) -> None:
        """End the processes, whatever they do."""
        self.is_broken = True
        for _ in range(self.count):
            self._jobs.put(None)
        self._executor.shutdown(wait=True, kill_workers=True)

    def _keep(self, k: int) -> None:
        while (job := self._jobs.get()) is not None and not self.is_broken:
            if not isinstance(job, _Job):
                with contextlib.suppress(Exception):  # without it calls are made here
                    self._executor.submit(_greet, job).result()
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
                made = self._executor.submit(_call_there, text).result()
            except BrokenProcessPool:
                self.is_broken = True
            except BaseException:  # of pickling, perhaps: the call is made where it was asked for
                made = None
            job.done.put((number, made))
        self._busy.discard(k)


_kept: dict[int, _Processes] = {}  # of this process; a forked one starts its own


def _start(count: int) -> _Processes:
    """Return so many processes: those of an earlier fit, or new ones."""
    here = os.getpid()
    known = _kept.get(here)
    if known is not None and (known.is_broken or known.is_busy or known.count != count):
        end_processes()
        known = None
    if known is None:
        _kept.clear()
        known = _kept[here] = _Processes(count)
    return known


def end_processes() -> None:
    """End the processes that stay for later fits."""
    known = _kept.pop(os.getpid(), None)
    if known is not None:
        known.end()


# --------------------------------------------------------------------------------- workers

# What fits ask.


_LEAST_MEMORY = 2**28  # bytes of a process that has imported all


class Workers:
    """Processes that make calls: the calling one, and others beside it.

    Parameters
    ----------
    count : int, default=1
        Of all of them. One makes its calls one after the other.
    modules : sequence of str
        That the others import as they begin.
    """

    def __init__(self, count: int = 1, modules: Sequence[str] = (), /) -> None:
        self.count, self._modules = max(1, count), modules
        self._others: _Processes | None = None
        self._folder, self._n_shared = "", 0

    def __reduce__(self) -> tuple[type[Workers], tuple[()]]:
        return Workers, ()  # another process is one

    def __enter__(self) -> Self:
        if self.count > 1:
            self._others = _start(self.count - 1)
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
        """Return how many calls are made at once; under a time limit, of those that have begun."""
        if not limited or self._others is None:
            return self.count
        return 1 + self._others.n_free

    def share(self, value: Value, /) -> Shared[Value]:
        """Return a value that calls may hold; other processes read it from a file.

        Where it cannot be written, calls that hold it are made here.
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

        An outcome is there as soon as it and those before it are made. Where the iterator is
        closed, calls that have not begun are dropped, and nobody waits for others.

        Parameters
        ----------
        fit : callable
            Whose result depends on its argument alone.
        given : sequence
            Its arguments.
        report : callable
            To which calls in this process report their steps.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C, or from a call in this process.
        """
        others = self._others if len(given) > 1 else None
        job = _Job(fit, given, 1 if others is None else self.count)
        made: dict[int, Outcome[Found]] = {}
        own = deque(range(min(len(given), 1)))  # which are made here: the first one reports
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

        Without other processes all of them are made here, as they are asked for.
        """
        job = _Job(fit, given, self.count)
        job.left.extend(range(len(given)))
        if self._others is not None and len(given):
            self._others.offer(job)
        return BegunCalls(job)


class BegunCalls(Generic[Given, Found]):
    """Calls that other processes make, whose outcomes are asked for by number, each once."""

    def __init__(self, job: _Job, /) -> None:
        self._job = job
        self._made: dict[int, Outcome[Found]] = {}
        self._own: deque[int] = deque()

    def is_made(self, number: int, /) -> bool:
        """Whether an outcome is there."""
        _collect(self._job, self._made, self._own, wait=False)
        return number in self._made

    def outcome(self, number: int, report: Report = ignore_step, /) -> Outcome[Found]:
        """Return an outcome; a call that nobody has begun, or that came back, is made here.

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
        """Leave out the calls that nobody has begun."""
        self._job.left.clear()


def call_here(fit: Callable[[Given], Found], given: Given, report: Report, /) -> Outcome[Found]:
    """Make a call in this process, and return its outcome."""
    with use_report(report):
        return _call(fit, given, 1)


def _collect(job: _Job, made: dict[int, Outcome[Any]], own: deque[int], *, wait: bool) -> None:
    """Take up what other processes have made, and the calls that come back to be made here."""
    with contextlib.suppress(Empty):
        while True:
            number, outcome = job.done.get(block=wait)
            wait = False
            if outcome is None:
                own.append(number)
            else:
                made[number] = outcome


def _make_folder() -> str:
    """Return a new folder, which loky removes where this process dies before it does."""
    from joblib.externals.loky.backend import resource_tracker

    folder = tempfile.mkdtemp(prefix="gpukfl_")
    resource_tracker.register(folder, "folder")
    return folder


def _remove_folder(folder: str) -> None:
    from joblib.externals.loky.backend import resource_tracker

    shutil.rmtree(folder, ignore_errors=True)
    if not os.path.exists(folder):  # else it is removed when this process ends
        resource_tracker.unregister(folder, "folder")


def affordable_processes(count: int, reference: Array, bytes_each: int, /) -> int:
    """Return how many of the processes there is memory for, of which each plans for some bytes."""
    return max(1, min(count, 1 + available_memory(reference) // (_LEAST_MEMORY + bytes_each)))


def check_n_jobs(n_jobs: object, /) -> None:
    """Raise TypeError or ValueError unless it is None or an integer other than 0."""
    check_number("n_jobs", n_jobs, kind=numbers.Integral, also=(None,))
    if n_jobs == 0:
        msg = "expected n_jobs to be None or an integer other than 0, got 0"
        raise ValueError(msg)


def count_processes(n_jobs: int | None, /) -> int:
    """Return how many processes `n_jobs` means here, as scikit-learn does.

    One in a process that another has started: its cores are divided already.
    """
    if multiprocessing.parent_process() is not None or multiprocessing.current_process().daemon:
        return 1
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))
