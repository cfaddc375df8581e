"""Every message of the package is short and in plain words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOOL = ROOT / "tools" / "list_messages.py"


def list_messages(*options: str) -> tuple[int, str]:
    """Return the status and the output of the tool."""
    done = subprocess.run(
        [sys.executable, str(TOOL), *options], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Write a module with a message of each kind, and let the tool take it."""
    monkeypatch.syspath_prepend(TOOL.parent)
    path = tmp_path / "own.py"
    path.write_text(
        '"""A docstring is no message of the package."""\n'
        "def fit(n, line):\n"
        '    msg = f"expected rows, got {len(n)} of {n.shape!r}"\n'
        "    if n:\n"
        "        raise ValueError(msg)\n"
        '    warn(f"X has gaps in {n}")\n'
        '    line.add_argument("--drop", help="drop a column")\n'
        '    return f"the rows of {n}"\n'
    )
    return path


def test_messages_are_listed_by_kind_with_their_fields(
    module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import list_messages as tool

    monkeypatch.setattr(tool, "ROOT", module.parent)
    found = sorted(tool.list_messages(module))
    assert [(one.kind, one.line, one.text) for one in found] == [
        ("error", 3, "expected rows, got {len} of {shape}"),
        ("help", 7, "drop a column"),
        ("text", 8, "the rows of {n}"),
        ("warning", 6, "X has gaps in {n}"),
    ]
    assert [bool(one.hard) for one in found] == [False, False, False, True]


def test_no_message_is_hard_to_read() -> None:
    assert list_messages("--hard") == (0, "0 messages that are hard to read\n")
