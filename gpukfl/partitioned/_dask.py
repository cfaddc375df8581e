"""Parts held by the workers of a Dask cluster."""

from __future__ import annotations

import contextlib
import itertools
import math
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from gpukfl._array import Array
from gpukfl._memory import release_arrow
from gpukfl.partitioned._allocator import give_memory_back, keep_memory, trim_memory
from gpukfl.partitioned._holder import Holder, NotHereError, Pass, n_bytes
from gpukfl.partitioned._journal import Journal
from gpukfl.partitioned._tree import Known

_HERE: dict[str, Holder] = {}  # those of this process, by name
_LOOKED_EVERY = 2.0  # seconds between looks for workers that have come
_PATIENCE = 60.0  # seconds for a worker to come, where none is left
_PAUSE = 0.1  # seconds between looks for it
_ASKED_EVERY = 2.0  # seconds of waiting, after which the scheduler is asked for
_MUCH = 2**26  # bytes forgotten, after which memory is looked through for free pages
_TRIMMED_EVERY = 2.0  # seconds after which it is so too: far more than a look at all pages takes
_TRIES = 10  # times that lost parts are made again in one pass

Load = Callable[[int], Any]  # describes, as something Dask computes, the values of a part by key


class WorkerHolder(Holder):
    """A holder on a worker, known there by a name."""

    _trimmed, _gone = -math.inf, 0  # when memory was last looked through, and bytes since then

    def __init__(self, name: str, make_place: Callable[[], Array]) -> None:
        from distributed import get_worker

        super().__init__(make_place(), get_worker().state.nthreads)
        keep_memory()
        _HERE[name] = self

    def step(
        self, work: Pass, parts: Sequence[int], edges: Sequence[int], freed: Iterable[int], /
    ) -> Known[Any]:
        """Forget values, and do a pass."""
        self.free(freed)
        if time.monotonic() - self._trimmed > _TRIMMED_EVERY:
            self._trim()
        return self.run(work, parts, edges)

    def let_go(self, count: int, /) -> None:
        """Give pages back where much was forgotten: before as much is made, of pages elsewhere."""
        self._gone += count
        if self._gone >= _MUCH:
            self._trim()

    def _trim(self) -> None:
        trim_memory()
        self._gone, self._trimmed = 0, time.monotonic()

    def leave(self, name: str, /) -> None:
        """Be forgotten."""
        self.values.clear()
        _HERE.pop(name, None)
        if not _HERE:
            give_memory_back()


def put(name: str, part: int, values: dict[int, Any], /) -> None:
    """Keep values of a part by the holder of this name: a task for the worker that it is on."""
    if name not in _HERE:
        msg = f"no holder {name} is here"
        raise NotHereError(msg)
    for key, value in values.items():
        _HERE[name].put(part, key, value)
    release_arrow()  # which read the part, in this thread


class SchedulerLostError(RuntimeError):
    """Nobody is left to ask for rows."""


class _Held:
    """A holder on one worker, as it is seen from here."""

    def __init__(self, client: Any, address: str, make_place: Callable[[], Array]) -> None:
        self.address, self.name = address, f"gpukfl-{uuid.uuid4().hex}"
        self.parts: list[int] = []
        self._future = client.submit(
            WorkerHolder,
            self.name,
            make_place,
            actor=True,
            workers=[address],
            allow_other_workers=True,  # else a call to one that is gone waits for ever
            key=self.name,
        )
        with client.as_current():  # which an actor asks for once, when it is made
            self.actor = self._future.result()


class DaskHolders:
    """Holders on the workers of a cluster, one each, as actors.

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
        """Do a pass over all parts, and forget what was freed; give totals of consecutive parts."""
        self.journal.forget(freed)
        if time.monotonic() - self._looked > _LOOKED_EVERY:
            self._looked = time.monotonic()
            if set(self._addresses()) != {held.address for held in self._held}:
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
        msg = f"{len(lost)} parts of the rows were lost {_TRIES} times: no worker keeps them"
        return RuntimeError(msg)

    def _try(
        self, work: Pass, parts: set[int], freed: frozenset[int]
    ) -> tuple[Known[Any], set[int]]:
        """Do a pass over some parts; also those whose holders are gone."""
        calls = []
        for held in self._held:
            if mine := [part for part in held.parts if part in parts]:
                calls.append((held, mine, held.actor.step(work, mine, self._edges, freed)))
        self.bytes_sent += len(calls) * work.n_bytes
        known: Known[Any] = {}
        left = parts - {part for held in self._held for part in held.parts}
        for held, mine, call in calls:
            with self._unless_gone(held, mine, left):
                known |= (found := self._answer(call))
                self.bytes_received += sum(n_bytes(parts) for parts in found.values())
        return known, left

    @contextlib.contextmanager
    def _unless_gone(self, held: _Held, parts: Iterable[int], lost: set[int]) -> Iterator[None]:
        """Add parts to those that are lost, where their holder is found to be gone."""
        try:
            yield
        except SchedulerLostError:
            raise
        except (NotHereError, OSError, RuntimeError) as error:
            self._check_client()
            if not self._is_gone(held.address, error):
                raise
            lost.update(parts)

    def _answer(self, call: Any) -> Any:
        """Wait for a holder; not for ever, should the scheduler be lost."""
        while True:
            try:
                return call.result(timeout=_ASKED_EVERY)
            except TimeoutError as late:
                # It knows itself, and with its callers whatever they hold of the rows
                late.__traceback__ = None
                self._check_client()

    def _check_client(self) -> None:
        if self.client.status != "running":
            msg = (
                "the scheduler was lost, and with it the rows: expected a client that is running, "
                f"got one that is {self.client.status}"
            )
            raise SchedulerLostError(msg)

    def _is_gone(self, address: str, error: Exception) -> bool:
        lost = isinstance(error, NotHereError) or "Actor" in str(error)
        return lost or address not in self._addresses()

    # ------------------------------------------------------------------ who holds what

    def _addresses(self) -> list[str]:
        info = self.client.scheduler_info(n_workers=-1)
        return sorted(info["workers"])

    def _settle(self, lost: set[int]) -> set[int]:
        """Divide the parts among the workers that are there; make those that move, and give them.

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
                    with self._unless_gone(held, held.parts, lost):
                        self._answer(held.actor.drop(parted))
            if not lost:
                return moved
        raise self._given_up(lost)

    def _find_holders(self, lost: set[int]) -> None:
        """Have a holder on every worker: the one that there is, unless parts of it were lost."""
        addresses = self._wait_for_workers()
        self._held = [h for h in self._held if h.address in addresses and not lost & set(h.parts)]
        known = {held.address for held in self._held}
        for address in addresses:
            if address in known:
                continue
            try:
                self._held.append(_Held(self.client, address, self.make_place))
            except (OSError, RuntimeError) as error:
                self._check_client()
                if not self._is_gone(address, error):
                    raise

    def _divide(self) -> list[tuple[_Held, list[int], set[int]]]:
        """Say who is to hold what: parts that are new to each, and those that it is to forget."""
        wanted = divided(self.sizes, [held.parts for held in self._held])
        moving = []
        for held, parts in zip(self._held, wanted, strict=True):
            held.parts, before = parts, set(held.parts)
            new = [part for part in parts if part not in before]
            moving.append((held, new, before - set(parts)))
        return moving

    def _load(self, moving: list[tuple[_Held, list[int]]]) -> set[int]:
        """Load parts where they are to be held, and repeat what was computed on them.

        Gives those whose holders are gone before that is done.
        """
        from dask import delayed

        lost: set[int] = set()
        loads = []
        for held, parts in moving:
            tasks = [delayed(put, pure=False)(held.name, i, self.load(i)) for i in parts]
            on = {"workers": [held.address], "allow_other_workers": True}
            loads.append((held, parts, self.client.compute(tasks, **on)))
        for held, parts, tasks in loads:
            with self._unless_gone(held, parts, lost):
                self.client.gather(tasks)
        for work in self.journal.passes():
            there = [(held, parts) for held, parts in moving if not lost & set(parts)]
            calls = [held.actor.step(work, parts, self._edges, ()) for held, parts in there]
            for (held, parts), call in zip(there, calls, strict=True):
                with self._unless_gone(held, parts, lost):
                    self._answer(call)
        return lost

    def _wait_for_workers(self) -> list[str]:
        # Not by the client's way of waiting: it writes over what its cluster knows of workers
        end = time.monotonic() + _PATIENCE
        while not (addresses := self._addresses()):
            if time.monotonic() > end:
                msg = f"expected a worker within {_PATIENCE:g} s, got none"
                raise TimeoutError(msg)
            time.sleep(_PAUSE)
        return addresses

    def close(self) -> None:
        """Let the workers forget everything."""
        for held in self._held:
            with contextlib.suppress(OSError, RuntimeError):  # one that is gone has forgotten
                self._answer(held.actor.leave(held.name))
        self._held = []
        self.journal.close()


def divided(sizes: Sequence[int], held: Sequence[Sequence[int]], /) -> list[list[int]]:
    """Divide parts evenly by their rows, moving as few as may be.

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
