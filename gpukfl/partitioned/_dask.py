"""Parts held by the workers of a Dask cluster."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import itertools
import math
import os
import pickle
import sys
import tempfile
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from typing import Any

from gpukfl.core._array import Array
from gpukfl.core._memory import release_arrow
from gpukfl.partitioned._program import Holder, Known, NotHereError, Pass, n_bytes

# ------------------------------------------------------------------------------- allocator

# Memory that blocks of rows give back, kept by a worker for the next block.
#
# Dask starts workers with ``MALLOC_TRIM_THRESHOLD_``, so that memory goes back to the system at
# once. Each block's arrays are then new pages, which cost as much time as what is computed in
# them.


_BLOCK = 2**24  # bytes of an array up to which it is made of what stays; larger ones leave gaps
_HEAP = 2**26  # bytes of the heaps of threads, which are given back one by one but for a pad
_KEPT = 2**28  # bytes that stay, at most
_DEFAULT = 2**17  # glibc's, of all three
# Parameters of `mallopt`, by their names in the environment, and what keeps memory
_KEEPING = {
    "MALLOC_TRIM_THRESHOLD_": (-1, _KEPT),
    "MALLOC_TOP_PAD_": (-2, _HEAP),
    "MALLOC_MMAP_THRESHOLD_": (-3, _BLOCK),
}


def keep_freed_memory() -> None:
    """Let glibc keep freed memory in this process."""
    if (library := _glibc()) is not None:
        for parameter, value in _KEEPING.values():
            library.mallopt(parameter, value)


def trim_memory() -> None:
    """Release free pages of memory to the system."""
    if (library := _glibc()) is not None:
        library.malloc_trim(0)


def restore_allocator() -> None:
    """Undo `keep_freed_memory`, by the environment's settings."""
    if (library := _glibc()) is not None:
        for variable, (parameter, _) in _KEEPING.items():
            text = os.environ.get(variable, "")
            library.mallopt(parameter, int(text) if text.isdigit() else _DEFAULT)
        library.malloc_trim(0)


@functools.cache
def _glibc() -> Any:
    """Return the C library, or None if it is not glibc."""
    if os.name != "posix":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


# --------------------------------------------------------------------------------- journal

# What was computed, in order, so that a part that is lost can be made again.


_PRUNED_EVERY = 256  # passes


@dataclass(frozen=True)
class _Entry:
    offset: int
    length: int
    kept: frozenset[int]
    reads: frozenset[int]
    last_read: frozenset[int] = frozenset()  # of what was made, nothing later asks for these


class Journal:
    """A journal on disk of passes, from which lost values can be computed again.

    What nobody can ask for again, and what only such values were made of, is forgotten.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as this is
        self._entries: list[_Entry] = []
        self._live: set[int] = set()

    def forget(self, freed: frozenset[int], /) -> None:
        """Record values that are not needed again."""
        self._live -= freed

    def add(self, work: Pass, /) -> None:
        """Record a pass that all parts have done."""
        self._live -= work.replaced
        if not work.kept:
            return
        self._live |= work.kept
        data = pickle.dumps(replace(work, asked=None))
        offset = self._file.seek(0, 2)
        self._file.write(data)
        self._entries.append(_Entry(offset, len(data), work.kept, work.reads))
        if len(self._entries) % _PRUNED_EVERY == 0:
            self._entries = self._needed_entries()

    def passes(self) -> Iterator[Pass]:
        """Yield the passes that made the live values, with all other results dropped."""
        for entry in self._needed_entries():
            self._file.seek(entry.offset)
            work = pickle.loads(self._file.read(entry.length))  # written by this
            yield replace(work, kept=entry.kept, replaced=entry.last_read)

    def _needed_entries(self) -> list[_Entry]:
        made = frozenset(key for entry in self._entries for key in entry.kept)
        wanted, needed = set(self._live), []
        for entry in reversed(self._entries):
            if kept := entry.kept & wanted:
                last_read = (entry.reads & made) - wanted
                needed.append(replace(entry, kept=kept, last_read=last_read))
                wanted |= entry.reads
        return needed[::-1]

    def close(self) -> None:
        """Delete the journal."""
        self._file.close()
        self._entries = []


# --------------------------------------------------------------------------------- cluster

# Answers of a cluster that are waited for: not for ever, should it be lost.


_ASKED_EVERY = 2.0  # seconds of waiting, after which the scheduler is asked
_PATIENCE = 40.0  # seconds for a worker to come, where none is left
_PAUSE = 0.1  # seconds between looks for it


class ClusterLostError(RuntimeError):
    """The cluster has no scheduler or no worker left."""


def check_client(client: Any, /) -> None:
    """Raise ClusterLostError if the client has lost its scheduler."""
    if client.status != "running":
        msg = (
            f"the Dask scheduler was lost, and the rows with it: the client is {client.status}. "
            "Start a cluster and a client, and fit again"
        )
        raise ClusterLostError(msg)


def worker_addresses(client: Any, /) -> list[str]:
    """Return the addresses of the workers that the scheduler knows."""
    return sorted(client.scheduler_info(n_workers=-1)["workers"])


class Watch:
    """A watch on a cluster while results are awaited."""

    def __init__(self, client: Any) -> None:
        self.client, self._alone_since = client, time.monotonic()

    def look(self) -> list[str]:
        """Return the addresses of workers; raise ClusterLostError after a long time without any."""
        check_client(self.client)
        now, found = time.monotonic(), worker_addresses(self.client)
        if found:
            self._alone_since = now
        elif now - self._alone_since > _PATIENCE:
            msg = (
                f"the cluster has no worker: expected one within {_PATIENCE:g} s, got none. "
                "Start workers, wait for them with client.wait_for_workers(1), and fit again"
            )
            raise ClusterLostError(msg)
        return found

    def workers(self) -> list[str]:
        """Wait for a worker, and return the addresses of all."""
        # Not by the client's way of waiting: it writes over what its cluster knows of workers
        while not (found := self.look()):
            time.sleep(_PAUSE)
        return found


def await_result(client: Any, call: Any, /, look: Callable[[], object] = lambda: None) -> Any:
    """Return the result of a call; check the cluster while it is late.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster that works.
    call : future
        What is waited for.
    look : callable, optional
        Raises where this call's own worker is gone.
    """
    watch = Watch(client)
    while True:
        try:
            return call.result(timeout=_ASKED_EVERY)
        except TimeoutError as late:
            # It knows itself, and with its callers whatever they hold of the rows
            late.__traceback__ = None
            if call.done():
                return call.result()
            watch.look()
            look()


def gather_values(client: Any, futures: Any, /) -> Any:
    """Gather the values of futures.

    Raises
    ------
    ClusterLostError
        If scheduler or workers are lost, or rows that only a lost worker had.
    """

    async def gather() -> Any:
        return await client.gather(futures, asynchronous=True)

    call = asyncio.run_coroutine_threadsafe(gather(), client.loop.asyncio_loop)
    try:
        return await_result(client, call)
    except CancelledError as error:
        check_client(client)
        msg = (
            f"rows that only one worker had are lost ({error}): pass collections that can be read "
            "again, such as files"
        )
        raise ClusterLostError(msg) from error
    finally:
        call.cancel()


def compute_values(*values: Any) -> Any:
    """Compute values as `dask.compute` does, but raise an error if the cluster is lost."""
    import dask

    owner = getattr(dask.base.get_scheduler(), "__self__", None)
    if "distributed" in sys.modules:
        from distributed import Client

        if isinstance(owner, Client):
            return gather_values(owner, owner.compute(list(values)))
    return dask.compute(*values)


# Those of this process, by name. An actor that Dask makes again goes without being asked to.
_HERE: weakref.WeakValueDictionary[str, Holder] = weakref.WeakValueDictionary()
_LOOKED_EVERY = 2.0  # seconds between looks for workers that have come
_NOTICED = 3.0  # seconds in which the scheduler notices that a worker is gone
_WORKER_PAUSE = 0.1  # seconds between looks whether it has
_MUCH = 2**26  # bytes forgotten, after which memory is looked through for free pages
_TRIMMED_EVERY = 2.0  # seconds after which it is so too: far more than a look at all pages takes
_TRIES = 10  # times that lost parts are made again in one pass

Load = Callable[[int], Any]  # describes, as something Dask computes, the values of a part by key


class WorkerHolder(Holder):
    """A holder on a worker, registered under a name."""

    _trimmed, _gone = -math.inf, 0  # when memory was last looked through, and bytes since then

    def __init__(self, name: str, make_place: Callable[[], Array]) -> None:
        from distributed import get_worker

        super().__init__(make_place(), get_worker().state.nthreads)
        keep_freed_memory()
        _HERE[name] = self
        weakref.finalize(self, _restore_allocator).atexit = False

    def step(
        self, work: Pass, parts: Sequence[int], edges: Sequence[int], freed: Iterable[int], /
    ) -> Known[Any]:
        """Free values, and run a pass."""
        self.free(freed)
        if time.monotonic() - self._trimmed > _TRIMMED_EVERY:
            self._trim()
        return self.run(work, parts, edges)

    def let_go(self, count: int, /) -> None:
        """Release memory after much was freed."""
        self._gone += count
        if self._gone >= _MUCH:
            self._trim()

    def _trim(self) -> None:
        trim_memory()
        self._gone, self._trimmed = 0, time.monotonic()

    def leave(self, name: str, /) -> None:
        """Remove the holder from its worker."""
        self.values.clear()
        _HERE.pop(name, None)
        _restore_allocator()


def _restore_allocator() -> None:
    """Restore Dask's allocator settings once nothing is held."""
    if next(iter(_HERE.values()), None) is None:  # of those that live
        restore_allocator()


def put_values(name: str, part: int, values: dict[int, Any], /) -> None:
    """Store values of a part in the holder of a name, as a task of its worker."""
    if name not in _HERE:
        msg = f"no holder {name} is here"
        raise NotHereError(msg)
    for key, value in values.items():
        _HERE[name].put(part, key, value)
    release_arrow()  # which read the part, in this thread


class _Held:
    """The client's side of a holder on a worker.

    Raises
    ------
    NotHereError
        If the worker is gone before its holder is made.
    """

    def __init__(self, client: Any, address: str, make_place: Callable[[], Array]) -> None:
        self.address, self.name = address, f"gpukfl-{uuid.uuid4().hex}"
        self.parts: list[int] = []
        self._client = client
        self._future = client.submit(
            WorkerHolder,
            self.name,
            make_place,
            actor=True,
            workers=[address],
            allow_other_workers=True,  # else a call to one that is gone waits for ever
            key=self.name,
        )
        try:
            with client.as_current():  # which an actor asks for once, when it is made
                self.actor = await_result(client, self._future)
        except RuntimeError as lost:
            if isinstance(lost, ClusterLostError) or address in worker_addresses(client):
                raise
            raise NotHereError(str(lost)) from lost
        self.check()

    def ask(self, what: str, /, *args: Any) -> Any:
        """Call a method on the worker; return a future."""
        try:
            method = getattr(self.actor, what)
        except RuntimeError as lost:  # as Dask says it, once it knows
            raise NotHereError(str(lost)) from lost
        return method(*args)

    def is_here(self) -> bool:
        """Whether the holder is still on its worker."""
        # Not whether its worker is: another may have come at the same address
        (addresses,) = self._client.who_has([self._future]).values()
        return self.address in addresses

    def check(self) -> None:
        """Raise NotHereError if the holder is gone."""
        if not self.is_here():
            msg = f"the worker {self.address} is gone"
            raise NotHereError(msg)


class DaskHolders:
    """Holders on the workers of a cluster, one actor each.

    A worker that is gone is noticed by its next pass: other workers load its parts and repeat what
    was computed on them, from a journal. One that has come takes over some parts in the same way.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    sizes : sequence of int
        Rows of each part, by which they are divided.
    load : callable
        ``load(part)`` describes a dictionary of the part's values, by key, for Dask to compute.
    make_place : callable
        Gives an empty array of the place that a worker is to work on.
    """

    def __init__(
        self, client: Any, sizes: Sequence[int], load: Load, make_place: Callable[[], Array]
    ) -> None:
        self.client, self.sizes, self.load, self.make_place = client, list(sizes), load, make_place
        self.journal = Journal()
        self.bytes_sent, self.bytes_received = 0, 0  # in passes
        self._held: list[_Held] = []
        self._edges = [0, *itertools.accumulate(sizes)]
        self._looked = time.monotonic()
        try:
            self._settle(set())
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------------ passes

    def run(self, work: Pass, freed: frozenset[int], /) -> Known[Any]:
        """Run a pass over all parts, and free values; return totals of consecutive parts."""
        self.journal.forget(freed)
        if time.monotonic() - self._looked > _LOOKED_EVERY:
            self._looked = time.monotonic()
            if set(worker_addresses(self.client)) != {held.address for held in self._held}:
                self._settle(set())
        known, left = self._try(work, set(range(len(self.sizes))), freed)
        untold, behind = replace(work, asked=None), set[int]()  # parts with totals, not its values
        for _ in range(_TRIES):
            if not left | behind:
                break
            behind |= self._settle(left | behind) - left
            found, left = self._try(work, left, frozenset())
            _, behind = self._try(untold, behind, frozenset())
            known |= found
        if lost := left | behind:
            raise self._given_up(lost)
        self.journal.add(work)
        return known

    @staticmethod
    def _given_up(lost: set[int]) -> RuntimeError:
        msg = f"{len(lost)} partitions were lost {_TRIES} times: no worker keeps them"
        return RuntimeError(msg)

    def _try(
        self, work: Pass, parts: set[int], freed: frozenset[int]
    ) -> tuple[Known[Any], set[int]]:
        """Run a pass over some parts; also return those whose holders are gone."""
        calls = []
        left = parts - {part for held in self._held for part in held.parts}
        for held in self._held:
            if mine := [part for part in held.parts if part in parts]:
                with self._note_lost_parts(held, mine, left):
                    calls.append((held, mine, held.ask("step", work, mine, self._edges, freed)))
        self.bytes_sent += len(calls) * work.n_bytes
        known: Known[Any] = {}
        for held, mine, call in calls:
            with self._note_lost_parts(held, mine, left):
                known |= (found := self._answer(held, call))
                self.bytes_received += sum(n_bytes(parts) for parts in found.values())
        return known, left

    @contextlib.contextmanager
    def _note_lost_parts(self, held: _Held, parts: Iterable[int], lost: set[int]) -> Iterator[None]:
        """Record parts as lost if their holder is gone."""
        try:
            yield
        except NotHereError:
            lost.update(parts)
        except ClusterLostError:
            raise
        except (OSError, RuntimeError):  # of a connection, or of what was done
            check_client(self.client)
            if not self._is_reported_lost(held):
                raise
            lost.update(parts)

    def _answer(self, held: _Held, call: Any) -> Any:
        """Wait for a holder's answer, while it exists."""
        return await_result(self.client, call, held.check)

    @staticmethod
    def _is_reported_lost(held: _Held) -> bool:
        """Whether the scheduler knows that a holder is gone."""
        end = time.monotonic() + _NOTICED
        while held.is_here():
            if time.monotonic() > end:
                return False
            time.sleep(_WORKER_PAUSE)
        return True

    # ------------------------------------------------------------------ who holds what

    def _settle(self, lost: set[int]) -> set[int]:
        """Divide the parts among the workers; load those that moved, and return them.

        They are as they were before the pass that is being done, if any.
        """
        moved: set[int] = set()
        for _ in range(_TRIES):
            self._find_holders(lost)
            if not self._held:
                lost = set(range(len(self.sizes)))
                continue
            moving = self._divide()
            moved.update(part for _, new, _ in moving for part in new)
            lost = self._load([(held, new) for held, new, _ in moving if new])
            for held, _, parted in moving:
                if parted:
                    with self._note_lost_parts(held, held.parts, lost):
                        self._answer(held, held.ask("drop", parted))
            if not lost:
                return moved
        raise self._given_up(lost)

    def _find_holders(self, lost: set[int]) -> None:
        """Ensure that every worker has a holder without lost parts."""
        addresses = Watch(self.client).workers()
        kept = [h for h in self._held if h.address in addresses and not lost & set(h.parts)]
        for held in self._held:
            if held not in kept:  # it may be there yet, where what it should read is gone
                with contextlib.suppress(NotHereError, OSError, RuntimeError):
                    held.ask("leave", held.name)
        self._held = kept
        known = {held.address for held in kept}
        for address in addresses:
            if address not in known:
                with contextlib.suppress(NotHereError):
                    self._held.append(_Held(self.client, address, self.make_place))

    def _divide(self) -> list[tuple[_Held, list[int], set[int]]]:
        """Return the parts that each holder gets and drops."""
        wanted = divide_parts(self.sizes, [held.parts for held in self._held])
        moving = []
        for held, parts in zip(self._held, wanted, strict=True):
            held.parts, before = parts, set(held.parts)
            new = [part for part in parts if part not in before]
            moving.append((held, new, before - set(parts)))
        return moving

    def _load(self, moving: list[tuple[_Held, list[int]]]) -> set[int]:
        """Load parts on their holders, and repeat the recorded passes on them.

        Gives those whose holders are gone before that is done.
        """
        from dask import delayed

        lost: set[int] = set()
        loads = []
        for held, parts in moving:
            tasks = [delayed(put_values, pure=False)(held.name, i, self.load(i)) for i in parts]
            on = {"workers": [held.address], "allow_other_workers": True}
            loads.append((held, parts, self.client.compute(tasks, **on)))
        for held, parts, tasks in loads:
            with self._note_lost_parts(held, parts, lost):
                gather_values(self.client, tasks)
        for work in self.journal.passes():
            calls = []
            for held, parts in moving:
                if not lost & set(parts):
                    with self._note_lost_parts(held, parts, lost):
                        calls.append((held, parts, held.ask("step", work, parts, self._edges, ())))
            for held, parts, call in calls:
                with self._note_lost_parts(held, parts, lost):
                    self._answer(held, call)
        return lost

    def close(self) -> None:
        """Release everything on the workers."""
        for held in self._held:
            with contextlib.suppress(NotHereError, OSError, RuntimeError):  # who is gone forgot
                self._answer(held, held.ask("leave", held.name))
        self._held = []
        self.journal.close()


def divide_parts(sizes: Sequence[int], held: Sequence[Sequence[int]], /) -> list[list[int]]:
    """Divide parts evenly by their rows, with few moves.

    Parameters
    ----------
    sizes : sequence of int
        Rows of each part.
    held : sequence of sequence of int
        Parts that each holder has.

    Returns
    -------
    list of list of int
        Parts that each is to have, ascending.
    """
    fair = sum(sizes) / len(held)
    result: list[list[int]] = []
    for parts in held:
        kept, rows = [], 0.0
        for part in parts:
            if rows + sizes[part] / 2 <= fair:
                kept.append(part)
                rows += sizes[part]
        result.append(kept)
    taken = {part for parts in result for part in parts}
    free = [part for part in range(len(sizes)) if part not in taken]
    for parts in result:
        rows = sum(sizes[part] for part in parts)
        while free and rows + sizes[free[0]] / 2 <= fair:
            rows += sizes[free[0]]
            parts.append(free.pop(0))
    for part in free:  # rounding has left them
        min(result, key=lambda parts: sum(sizes[i] for i in parts)).append(part)
    return [sorted(parts) for parts in result]
