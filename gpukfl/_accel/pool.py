"""A thread pool that Ctrl-C cannot leave locked.

An interruption is raised in the main thread between any two steps of the interpreter. The locks of
`concurrent.futures` and `threading` are taken in Python code, and one that comes just then leaves
them taken for ever: the next call would hang. A `queue.SimpleQueue` is one step.
"""

from __future__ import annotations

import _thread
import contextlib
import contextvars
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any


class Pool:
    """Threads that start with the first work, and stay.

    Parameters
    ----------
    initializer : callable
        Called once in each thread.
    """

    def __init__(self, initializer: Callable[[], None], /) -> None:
        self._initializer, self._started = initializer, 0
        self._tasks: SimpleQueue[_Task] = SimpleQueue()

    def map(
        self, threads: int, body: Callable[..., Any], /, *arguments: Iterable[Any]
    ) -> list[Any]:
        """Call `body` on each argument in several threads; return the results in order.

        Each call sees the context variables of the caller, such as `numpy.errstate`.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C: what has not begun is left out, what has begun ends unseen.
        BaseException
            What a call raised, the first in order, once all have ended.
        """
        calls = list(zip(*arguments, strict=True))
        job = _Job(body)
        try:
            with contextlib.suppress(RuntimeError):  # no more threads: those that there are do it
                while self._started < min(threads, len(calls)):
                    _thread.start_new_thread(self._work, ())
                    self._started += 1
            if not self._started:
                return [contextvars.copy_context().run(body, *given) for given in calls]
            for k, given in enumerate(calls):
                self._tasks.put(_Task(job, k, given, contextvars.copy_context()))
            ended = sorted((job.done.get() for _ in calls), key=lambda end: end[0])
        finally:
            job.cancelled = True
        return [_outcome(result, error) for _, result, error in ended]

    def _work(self) -> None:
        self._initializer()
        while True:
            self._tasks.get().run()  # held by no name, so that what waits keeps no array alive


def map_in_threads(
    threads: int, body: Callable[..., Any], /, *arguments: Iterable[Any]
) -> Iterator[Any]:
    """Call `body` on each argument in temporary threads; yield the results in order.

    Where no more threads can be started, those that there are do the work, or this one.
    """
    calls = list(zip(*arguments, strict=True))
    if threads == 1 or len(calls) < 2:
        yield from (body(*given) for given in calls)
        return
    with ThreadPoolExecutor(threads) as pool:
        begun = []
        with contextlib.suppress(RuntimeError):
            for given in calls:
                begun.append(pool.submit(body, *given))
        for call in begun:
            yield call.result()
        for given in calls[len(begun) :]:
            yield body(*given)


@dataclass(eq=False)
class _Job:
    """Calls that belong together."""

    body: Callable[..., Any]
    cancelled: bool = False
    done: SimpleQueue[tuple[int, Any, BaseException | None]] = field(default_factory=SimpleQueue)


@dataclass(frozen=True, eq=False)
class _Task:
    """One call of a job."""

    job: _Job
    number: int
    given: tuple[Any, ...]
    context: contextvars.Context

    def run(self) -> None:
        """Make the call, unless its job was abandoned."""
        if self.job.cancelled:
            return
        result = failed = None
        try:
            result = self.context.run(self.job.body, *self.given)
        except BaseException as error:  # for the caller to see
            failed = error
        self.job.done.put((self.number, result, failed))


def _outcome(result: Any, error: BaseException | None) -> Any:
    if error is not None:
        try:
            raise error
        finally:
            del error  # this frame is in its traceback
    return result
