"""A process of its own for what `bench_gpu.py` times, which may crash or take too long there."""

from __future__ import annotations

import gc
import sys
import traceback
import warnings
from typing import Any

from common import start_method
from gpu_fits import Row, tasks


class Worker:
    """A process that runs one task after the other; it is ended where a task takes too long."""

    def __init__(self, backend: str, smoke: bool) -> None:
        self.backend, self.smoke = backend, smoke
        self._process: Any = None
        self._pipe: Any = None

    def run(self, number: int, limit: float) -> Row:
        """Run the task of a number, and say what went wrong where something did."""
        if self._process is None:
            context = start_method()
            self._pipe, there = context.Pipe()
            self._process = context.Process(
                target=_work, args=(there, self.backend, self.smoke), daemon=True
            )
            self._process.start()
            there.close()
        self._pipe.send(number)
        try:
            if self._pipe.poll(limit):
                return self._pipe.recv()
            failed = f"more than {limit:.0f} s"
        except (EOFError, OSError):
            self._process.join(10.0)
            failed = f"the process ended with exit code {self._process.exitcode}"
        self.end()
        return {"failed": failed}

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
        self._process = None


def _work(pipe: Any, backend: str, smoke: bool) -> None:
    """Run tasks by their numbers until the pipe is closed."""
    warnings.simplefilter("ignore")
    every = tasks(smoke)
    while True:
        try:
            number = pipe.recv()
        except EOFError:
            return
        task = every[number]
        _free()
        try:
            found = task.run(backend, task.n)
        except Exception as error:
            traceback.print_exc()
            found = {"failed": f"{type(error).__name__}: {error}"[:200]}
        pipe.send({**found, **_device_memory()})


def _free() -> None:
    """Give back what the last task has left on the device."""
    gc.collect()
    if "cupy" in sys.modules:
        sys.modules["cupy"].get_default_memory_pool().free_all_blocks()


def _device_memory() -> dict[str, float]:
    """Largest memory that CuPy's pool has taken since it was last emptied."""
    if "cupy" not in sys.modules:
        return {}
    return {"peak_gpu_mb": sys.modules["cupy"].get_default_memory_pool().total_bytes() / 1e6}
