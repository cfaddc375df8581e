"""Progress is a line of its own in notebooks, and nothing where nobody looks on."""

import sys
import types

import pytest

from gpukfl.core._results import History
from gpukfl.estimators import _progress


class Handle:
    """What IPython gives for an output that changes."""

    def __init__(self):
        self.shown = []

    def update(self, data, *, raw):
        assert raw
        self.shown.append(data["text/plain"])


@pytest.fixture
def notebook(monkeypatch):
    """IPython in a kernel of Jupyter, as far as it is asked."""
    handle = Handle()

    def display(data, *, raw, display_id):
        assert display_id
        handle.update(data, raw=raw)
        return handle

    ipython, shown = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    shown.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return handle


def history(value):
    return History(objective=[value], seconds=[0.1])


def test_a_notebook_has_a_line_that_is_gone_in_the_end(notebook, capfd):
    assert _progress.is_interactive()
    with _progress.report_progress(True) as report:
        for k in range(100):
            report("[bold]fit", k, history(0.5))
    assert notebook.shown[:2] == ["starting", "[bold]fit: step 1, objective 0.5, 0 s"]
    assert notebook.shown[-1] == ""
    assert len(notebook.shown) < 20  # not a line for each step
    assert capfd.readouterr() == ("", "")


def test_the_line_is_gone_after_an_error_too(notebook):
    with pytest.raises(KeyboardInterrupt), _progress.report_progress(True):
        raise KeyboardInterrupt
    assert notebook.shown == ["starting", ""]


def test_nothing_is_said_where_nobody_looks_on(monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "IPython", None)
    assert not _progress.is_interactive()
    with _progress.report_progress(False) as report:
        report("fit", 0, history(0.5))
    assert capfd.readouterr() == ("", "")


def test_ipython_on_a_terminal_is_a_terminal(monkeypatch, capfd):
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = object
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert not _progress.is_interactive()
    with _progress.report_progress(True) as report:
        report("fit [/bold]", 0, history(0.5))
    out, err = capfd.readouterr()
    assert out == ""
    assert "\x1b" not in err
