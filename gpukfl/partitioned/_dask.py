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
from gpukfl.partitioned._program import Holder, HolderLostError, Pass, Totals, n_bytes

# ------------------------------------------------------------------------------- allocator

# Settings of glibc's allocator, with which a worker reuses freed memory for the next block of rows.
#
# Dask starts workers with ``MALLOC_TRIM_THRESHOLD_``, so that freed memory is returned to the
# system at once. New pages for each block's arrays then take as long as the computation.


_MMAP_THRESHOLD = 2**24  # bytes of the largest array that reuses memory; larger ones fragment it
_TOP_PAD = 2**26  # bytes that the heap of a thread keeps
_TRIM_THRESHOLD = 2**28  # bytes that are kept, at most
_GLIBC_DEFAULT = 2**17  # bytes, for all three
# Names in the environment, parameters of `mallopt`, and values
_MALLOC_SETTINGS = {
    "MALLOC_TRIM_THRESHOLD_": (-1, _TRIM_THRESHOLD),
    "MALLOC_TOP_PAD_": (-2, _TOP_PAD),
    "MALLOC_MMAP_THRESHOLD_": (-3, _MMAP_THRESHOLD),
}


def keep_freed_memory() -> None:
    """Let glibc keep freed memory in this process."""
    if (library := _glibc()) is not None:
        for parameter, value in _MALLOC_SETTINGS.values():
            library.mallopt(parameter, value)


def trim_memory() -> None:
    """Release free pages of memory to the system."""
    if (library := _glibc()) is not None:
        library.malloc_trim(0)


def restore_allocator() -> None:
    """Undo `keep_freed_memory`: set the values of the environment."""
    if (library := _glibc()) is not None:
        for variable, (parameter, _) in _MALLOC_SETTINGS.items():
            text = os.environ.get(variable, "")
            library.mallopt(parameter, int(text) if text.isdigit() else _GLIBC_DEFAULT)
        library.malloc_trim(0)


@functools.cache
def _glibc() -> Any:
    """Return the C library, or None if it is not glibc."""
    if os.name != "posix":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


# --------------------------------------------------------------------------------- journal

# A record of all passes, to compute lost parts again.


_PRUNE_PASSES = 256  # passes after which unneeded ones are dropped


@dataclass(frozen=True)
class _Entry:
    offset: int
    length: int
    kept: frozenset[int]
    reads: frozenset[int]
    last_read: frozenset[int] = frozenset()  # results of passes that no later entry reads


class Journal:
    """A journal on disk of passes, from which lost values can be computed again.

    Passes are dropped if no value depends on their results any more.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the journal
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
        if len(self._entries) % _PRUNE_PASSES == 0:
            self._entries = self._needed_entries()

    def passes(self) -> Iterator[Pass]:
        """Yield the passes that made the live values, with all other results dropped."""
        for entry in self._needed_entries():
            self._file.seek(entry.offset)
            work = pickle.loads(self._file.read(entry.length))  # the journal's own file
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

# Waiting for results of a cluster, with an error if the cluster is lost.


_CHECK_SECONDS = 2.0  # of waiting, between checks of the cluster
_WORKER_TIMEOUT = 40.0  # seconds until a cluster without workers counts as lost
_POLL_SECONDS = 0.1  # between looks at the workers


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
        self.client, self._empty_since = client, time.monotonic()

    def check(self) -> list[str]:
        """Return the workers' addresses; raise ClusterLostError after a long time without any."""
        check_client(self.client)
        now, found = time.monotonic(), worker_addresses(self.client)
        if found:
            self._empty_since = now
        elif now - self._empty_since > _WORKER_TIMEOUT:
            msg = (
                f"the cluster has no worker: expected one within {_WORKER_TIMEOUT:g} s, got none. "
                "Start workers, wait for them with client.wait_for_workers(1), and fit again"
            )
            raise ClusterLostError(msg)
        return found

    def workers(self) -> list[str]:
        """Wait for a worker, and return the addresses of all."""
        # `Client.wait_for_workers` would overwrite the cluster's record of its workers
        while not (found := self.check()):
            time.sleep(_POLL_SECONDS)
        return found


def await_result(client: Any, call: Any, /, check: Callable[[], object] = lambda: None) -> Any:
    """Return the result of a call; check the cluster while waiting.

    Parameters
    ----------
    client : distributed.Client
        A client of the cluster.
    call : future
        The future to wait for.
    check : callable, optional
        Raises an error if the call's own worker is gone.
    """
    watch = Watch(client)
    while True:
        try:
            return call.result(timeout=_CHECK_SECONDS)
        except TimeoutError as late:
            late.__traceback__ = None  # breaks a cycle, whose frames keep rows in memory
            if call.done():
                return call.result()
            watch.check()
            check()


def gather_values(client: Any, futures: Any, /) -> Any:
    """Gather the values of futures.

    Raises
    ------
    ClusterLostError
        If the scheduler or all workers are lost, or rows that only a lost worker had.
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


# Holders of this process, by name; weak, as Dask drops an actor without notice when it moves it
_LOCAL_HOLDERS: weakref.WeakValueDictionary[str, Holder] = weakref.WeakValueDictionary()
_REBALANCE_SECONDS = 2.0  # between looks for new workers
_LOSS_TIMEOUT = 3.0  # seconds in which the scheduler notices that a worker is gone
_TRIM_BYTES = 2**26  # free pages are returned to the system after so many freed bytes ...
_TRIM_SECONDS = 2.0  # ... or after so many seconds, far longer than that takes
_MAX_TRIES = 10  # times that one pass computes lost parts again

Load = Callable[[int], Any]  # returns a lazy Dask value: a part's values by key


class WorkerHolder(Holder):
    """A holder on a worker, registered under a name."""

    _trim_time, _freed_bytes = -math.inf, 0  # the last trim, and bytes freed since then

    def __init__(self, name: str, make_place: Callable[[], Array]) -> None:
        from distributed import get_worker

        super().__init__(make_place(), get_worker().state.nthreads)
        keep_freed_memory()
        _LOCAL_HOLDERS[name] = self
        weakref.finalize(self, _restore_allocator).atexit = False

    def step(
        self, work: Pass, parts: Sequence[int], edges: Sequence[int], freed: Iterable[int], /
    ) -> Totals[Any]:
        """Free values, and run a pass."""
        self.free(freed)
        if time.monotonic() - self._trim_time > _TRIM_SECONDS:
            self._trim()
        return self.run(work, parts, edges)

    def let_go(self, count: int, /) -> None:
        """Release memory after much was freed."""
        self._freed_bytes += count
        if self._freed_bytes >= _TRIM_BYTES:
            self._trim()

    def _trim(self) -> None:
        trim_memory()
        self._freed_bytes, self._trim_time = 0, time.monotonic()

    def leave(self, name: str, /) -> None:
        """Remove the holder from its worker."""
        self.values.clear()
        _LOCAL_HOLDERS.pop(name, None)
        _restore_allocator()


def _restore_allocator() -> None:
    """Restore Dask's allocator settings if this process has no holders."""
    if next(iter(_LOCAL_HOLDERS.values()), None) is None:  # `values` has live holders only
        restore_allocator()


def put_values(name: str, part: int, values: dict[int, Any], /) -> None:
    """Store values of a part in the holder `name`, as a task of its worker."""
    if name not in _LOCAL_HOLDERS:
        msg = f"no holder {name} is here"
        raise HolderLostError(msg)
    for key, value in values.items():
        _LOCAL_HOLDERS[name].put(part, key, value)
    release_arrow()  # memory of reading the part, in this thread


class _HolderProxy:
    """The client's side of a holder on a worker.

    Raises
    ------
    HolderLostError
        If the worker is lost before its holder is made.
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
            allow_other_workers=True,  # else calls to a lost worker wait for ever
            key=self.name,
        )
        try:
            with client.as_current():  # a new actor looks up the current client
                self.actor = await_result(client, self._future)
        except RuntimeError as lost:
            if isinstance(lost, ClusterLostError) or address in worker_addresses(client):
                raise
            raise HolderLostError(str(lost)) from lost
        self.check()

    def submit(self, what: str, /, *args: Any) -> Any:
        """Call a method on the worker; return a future."""
        try:
            method = getattr(self.actor, what)
        except RuntimeError as lost:  # Dask's error, once it knows that the actor is lost
            raise HolderLostError(str(lost)) from lost
        return method(*args)

    def is_here(self) -> bool:
        """Whether the holder is still on its worker."""
        # The worker's address is not enough, as a new worker may have the same one
        (addresses,) = self._client.who_has([self._future]).values()
        return self.address in addresses

    def check(self) -> None:
        """Raise HolderLostError if the holder is gone."""
        if not self.is_here():
            msg = f"the worker {self.address} is gone"
            raise HolderLostError(msg)


class DaskHolders:
    """Holders on the workers of a cluster, one actor each.

    The next pass notices a lost worker. Other workers then load its parts, and repeat the passes of
    a journal on them. A new worker takes over parts in the same way.

    Parameters
    ----------
    client : distributed.Client
        A client of the cluster.
    sizes : sequence of int
        Numbers of rows of the parts.
    load : callable
        ``load(part)`` returns a lazy Dask value, a dictionary of the part's values by key.
    make_place : callable
        Returns an empty array of the library and device of a worker.
    """

    def __init__(
        self, client: Any, sizes: Sequence[int], load: Load, make_place: Callable[[], Array]
    ) -> None:
        self.client, self.sizes, self.load, self.make_place = client, list(sizes), load, make_place
        self.journal = Journal()
        self.bytes_sent, self.bytes_received = 0, 0  # in passes
        self._proxies: list[_HolderProxy] = []
        self._edges = [0, *itertools.accumulate(sizes)]
        self._balance_time = time.monotonic()
        try:
            self._assign_parts(set())
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------------ passes

    def run(self, work: Pass, freed: frozenset[int], /) -> Totals[Any]:
        """Run a pass over all parts, and free values; return totals of consecutive parts."""
        self.journal.forget(freed)
        if time.monotonic() - self._balance_time > _REBALANCE_SECONDS:
            self._balance_time = time.monotonic()
            if set(worker_addresses(self.client)) != {proxy.address for proxy in self._proxies}:
                self._assign_parts(set())
        known, left = self._try_pass(work, set(range(len(self.sizes))), freed)
        # Parts `behind` were counted in totals, but moved: their values must be computed again
        repeated, behind = replace(work, asked=None), set[int]()
        for _ in range(_MAX_TRIES):
            if not left | behind:
                break
            behind |= self._assign_parts(left | behind) - left
            found, left = self._try_pass(work, left, frozenset())
            _, behind = self._try_pass(repeated, behind, frozenset())
            known |= found
        if lost := left | behind:
            raise self._loss_error(lost)
        self.journal.add(work)
        return known

    @staticmethod
    def _loss_error(lost: set[int]) -> RuntimeError:
        msg = f"{len(lost)} partitions were lost {_MAX_TRIES} times: no worker keeps them"
        return RuntimeError(msg)

    def _try_pass(
        self, work: Pass, parts: set[int], freed: frozenset[int]
    ) -> tuple[Totals[Any], set[int]]:
        """Run a pass over some parts; return totals, and the parts of lost holders."""
        calls = []
        left = parts - {part for proxy in self._proxies for part in proxy.parts}
        for proxy in self._proxies:
            if mine := [part for part in proxy.parts if part in parts]:
                with self._catch_loss(proxy, mine, left):
                    calls.append(
                        (proxy, mine, proxy.submit("step", work, mine, self._edges, freed))
                    )
        self.bytes_sent += len(calls) * work.n_bytes
        known: Totals[Any] = {}
        for proxy, mine, call in calls:
            with self._catch_loss(proxy, mine, left):
                known |= (found := self._answer(proxy, call))
                self.bytes_received += sum(n_bytes(parts) for parts in found.values())
        return known, left

    @contextlib.contextmanager
    def _catch_loss(
        self, proxy: _HolderProxy, parts: Iterable[int], lost: set[int]
    ) -> Iterator[None]:
        """Add parts to `lost` if the block fails because their holder is lost."""
        try:
            yield
        except HolderLostError:
            lost.update(parts)
        except ClusterLostError:
            raise
        except (OSError, RuntimeError):  # of the connection, or of the computation
            check_client(self.client)
            if not self._is_reported_lost(proxy):
                raise
            lost.update(parts)

    def _answer(self, proxy: _HolderProxy, call: Any) -> Any:
        """Wait for a holder's answer; raise an error if the holder is lost."""
        return await_result(self.client, call, proxy.check)

    @staticmethod
    def _is_reported_lost(proxy: _HolderProxy) -> bool:
        """Whether the scheduler notices in time that a holder is lost."""
        end = time.monotonic() + _LOSS_TIMEOUT
        while proxy.is_here():
            if time.monotonic() > end:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    # ------------------------------------------------------------------ assignment of parts

    def _assign_parts(self, lost: set[int]) -> set[int]:
        """Divide the parts among the workers; load those that moved, and return them.

        They have the values of all completed passes, but not of the current one.
        """
        moved: set[int] = set()
        for _ in range(_MAX_TRIES):
            self._find_holders(lost)
            if not self._proxies:
                lost = set(range(len(self.sizes)))
                continue
            moving = self._move_parts()
            moved.update(part for _, new, _ in moving for part in new)
            lost = self._load([(proxy, new) for proxy, new, _ in moving if new])
            for proxy, _, parted in moving:
                if parted:
                    with self._catch_loss(proxy, proxy.parts, lost):
                        self._answer(proxy, proxy.submit("drop", parted))
            if not lost:
                return moved
        raise self._loss_error(lost)

    def _find_holders(self, lost: set[int]) -> None:
        """Ensure that every worker has a holder without lost parts."""
        addresses = Watch(self.client).workers()
        kept = [h for h in self._proxies if h.address in addresses and not lost & set(h.parts)]
        for proxy in self._proxies:
            if proxy not in kept:  # the holder may still exist, and only lack values
                with contextlib.suppress(HolderLostError, OSError, RuntimeError):
                    proxy.submit("leave", proxy.name)
        self._proxies = kept
        known = {proxy.address for proxy in kept}
        for address in addresses:
            if address not in known:
                with contextlib.suppress(HolderLostError):
                    self._proxies.append(_HolderProxy(self.client, address, self.make_place))

    def _move_parts(self) -> list[tuple[_HolderProxy, list[int], set[int]]]:
        """Assign the parts to holders; return the parts that each holder gets and drops."""
        wanted = divide_parts(self.sizes, [proxy.parts for proxy in self._proxies])
        moving = []
        for proxy, parts in zip(self._proxies, wanted, strict=True):
            proxy.parts, before = parts, set(proxy.parts)
            new = [part for part in parts if part not in before]
            moving.append((proxy, new, before - set(parts)))
        return moving

    def _load(self, moving: list[tuple[_HolderProxy, list[int]]]) -> set[int]:
        """Load parts on their holders, and repeat the recorded passes on them.

        Return the parts whose holders are lost meanwhile.
        """
        from dask import delayed

        lost: set[int] = set()
        loads = []
        for proxy, parts in moving:
            tasks = [delayed(put_values, pure=False)(proxy.name, i, self.load(i)) for i in parts]
            on = {"workers": [proxy.address], "allow_other_workers": True}
            loads.append((proxy, parts, self.client.compute(tasks, **on)))
        for proxy, parts, tasks in loads:
            with self._catch_loss(proxy, parts, lost):
                gather_values(self.client, tasks)
        for work in self.journal.passes():
            calls = []
            for proxy, parts in moving:
                if not lost & set(parts):
                    with self._catch_loss(proxy, parts, lost):
                        calls.append(
                            (proxy, parts, proxy.submit("step", work, parts, self._edges, ()))
                        )
            for proxy, parts, call in calls:
                with self._catch_loss(proxy, parts, lost):
                    self._answer(proxy, call)
        return lost

    def close(self) -> None:
        """Release everything on the workers."""
        for proxy in self._proxies:
            with contextlib.suppress(HolderLostError, OSError, RuntimeError):  # a lost worker
                self._answer(proxy, proxy.submit("leave", proxy.name))
        self._proxies = []
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
        Parts that each holder should have, ascending.
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
    for part in free:  # left over by rounding
        min(result, key=lambda parts: sum(sizes[i] for i in parts)).append(part)
    return [sorted(parts) for parts in result]
