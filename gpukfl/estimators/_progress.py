"""A live progress line, on terminals and in notebooks."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO, Any, cast

from gpukfl.core._streams import QuietStream, is_terminal
from gpukfl.estimators._run import Report, has_report, use_report

_PAUSE = 0.2  # seconds between two updates in a notebook


def is_interactive() -> bool:
    """Whether output goes to a terminal or a notebook."""
    return is_terminal(sys.stderr) or _is_notebook()


@contextlib.contextmanager
def report_progress(show: bool, /) -> Iterator[Report]:
    """Yield a function that reports steps on a live line, or does nothing."""
    if not show or not (_is_notebook() or _can_show()):
        yield lambda *_: None
        return
    with _notebook_line() if _is_notebook() else _terminal_line() as say:
        yield lambda stage, k, history: say(
            f"{stage}: step {k + 1}, objective {history.objective[-1]:.5g}"
            if len(history)
            else stage
        )


@contextlib.contextmanager
def show_progress(show: bool | None, /) -> Iterator[None]:
    """Show the progress of fits in the block; by default on terminals and in notebooks.

    By default nothing is shown if a caller reports progress already.
    """
    if show is None and has_report():
        yield
        return
    with report_progress(is_interactive() if show is None else show) as report, use_report(report):
        yield


def _is_notebook() -> bool:
    """Whether a Jupyter kernel runs this process, found without imports."""
    known = sys.modules.get("IPython")
    return known is not None and hasattr(known.get_ipython(), "kernel")


def _can_show() -> bool:
    """Whether a thread can write a line to standard error."""
    if sys.stderr is None or getattr(sys.stderr, "closed", False):
        return False
    try:
        thread = threading.Thread(target=lambda: None)
        thread.start()
    except RuntimeError:  # no more threads
        return False
    thread.join()
    return True


@contextlib.contextmanager
def _terminal_line() -> Iterator[Any]:
    """Yield a function that updates a line of the terminal on standard error."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    # Names of stages may contain brackets, which are not markup
    text = TextColumn("{task.description}", markup=False)
    columns = SpinnerColumn(), text, TimeElapsedColumn()
    console = Console(file=cast("IO[str]", QuietStream(sys.stderr)), force_jupyter=False)
    with Progress(*columns, console=console, transient=True) as bar:
        line = bar.add_task("starting", total=None)
        yield lambda text: bar.update(line, description=text)


@contextlib.contextmanager
def _notebook_line() -> Iterator[Any]:
    """Yield a function that updates a line of a notebook, without ipywidgets."""
    from IPython.display import display

    begun = time.monotonic()
    last = begun - _PAUSE
    handle = display({"text/plain": "starting"}, raw=True, display_id=True)

    def say(text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _PAUSE:
            last = now
            handle.update({"text/plain": f"{text}, {now - begun:.0f} s"}, raw=True)

    try:
        yield say
    finally:
        handle.update({"text/plain": ""}, raw=True)
