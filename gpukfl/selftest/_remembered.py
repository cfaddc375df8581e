"""What a self-test has found, kept in the user's cache folder: one file, a row for each set-up."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

_MOST = 20  # set-ups that are kept
_VERSION = 1  # of what is kept


def file() -> Path | None:
    """Where it is kept; None without a home. ``GPUKFL_CACHE_DIR`` names another folder."""
    given = os.environ.get("GPUKFL_CACHE_DIR")
    if given:
        return Path(given) / "selftest.json"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        folder = os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"
    else:
        folder = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    return Path(folder) / "gpukfl" / "selftest.json"


def look_up(facts: dict[str, Any], /) -> dict[str, str] | None:
    """Say what was wrong on this set-up, by the part at fault; None where it was not tested."""
    for row in _rows():
        if row["facts"] == facts:
            return row["wrong"]
    return None


def keep(facts: dict[str, Any], wrong: dict[str, str], /) -> None:
    """Remember what was wrong; where nothing can be written, the next process tests anew."""
    path = file()
    if path is None:
        return
    others = [row for row in _rows() if row["facts"] != facts]
    text = json.dumps(
        {"version": _VERSION, "rows": [{"facts": facts, "wrong": wrong}, *others][:_MOST]}
    )
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # At once, because several processes may test at the same time
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            written = Path(folder) / path.name
            written.write_text(text, encoding="utf-8")
            os.replace(written, path)


def _rows() -> list[dict[str, Any]]:
    """Give what is kept, nothing where the file is missing or damaged."""
    path = file()
    try:
        kept = {} if path is None else json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    if not isinstance(kept, dict) or kept.get("version") != _VERSION:
        return []
    rows = kept.get("rows", [])
    return [row for row in rows if isinstance(row, dict) and {"facts", "wrong"} <= row.keys()]
