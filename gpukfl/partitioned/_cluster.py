"""Answers of a cluster that are waited for: not for ever, should it be lost."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

_ASKED_EVERY = 2.0  # seconds of waiting, after which the scheduler is asked
_PATIENCE = 40.0  # seconds for a worker to come, where none is left
_PAUSE = 0.1  # seconds between looks for it


class ClusterLostError(RuntimeError):
    """Nobody is left to work on the rows: no scheduler, or no worker."""


def check_client(client: Any, /) -> None:
    """Raise ClusterLostError where a client has lost its scheduler."""
    if client.status != "running":
        msg = (
            "the scheduler was lost, and with it the rows: expected a client that is running, "
            f"got one that is {client.status}. Start a cluster and a client, and fit again"
        )
        raise ClusterLostError(msg)


def addresses_of(client: Any, /) -> list[str]:
    """Return the addresses of the workers that the scheduler knows."""
    return sorted(client.scheduler_info(n_workers=-1)["workers"])


class Watch:
    """Looks at a cluster while something of it is waited for."""

    def __init__(self, client: Any) -> None:
        self.client, self._alone_since = client, time.monotonic()

    def look(self) -> list[str]:
        """Return the addresses of workers; raise ClusterLostError where none comes for long."""
        check_client(self.client)
        now, found = time.monotonic(), addresses_of(self.client)
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


def waited(client: Any, call: Any, /, look: Callable[[], object] = lambda: None) -> Any:
    """Return the result of a call; whenever it is late, look whether it can come at all.

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


def gathered(client: Any, futures: Any, /) -> Any:
    """Bring the values of futures here.

    Raises
    ------
    ClusterLostError
        If scheduler or workers are lost, or rows that only a lost worker had.
    """

    async def gather() -> Any:
        return await client.gather(futures, asynchronous=True)

    call = asyncio.run_coroutine_threadsafe(gather(), client.loop.asyncio_loop)
    try:
        return waited(client, call)
    except CancelledError as error:
        check_client(client)
        msg = (
            f"rows are lost that only one worker had ({error}): give collections that can be read "
            "again, such as those of files"
        )
        raise ClusterLostError(msg) from error
    finally:
        call.cancel()


def computed(*values: Any) -> Any:
    """Compute values as `dask.compute` does, but not for ever where a cluster is lost."""
    import dask

    owner = getattr(dask.base.get_scheduler(), "__self__", None)
    if "distributed" in sys.modules:
        from distributed import Client

        if isinstance(owner, Client):
            return gathered(owner, owner.compute(list(values)))
    return dask.compute(*values)
