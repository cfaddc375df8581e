"""Numbers and tables in markdown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def number(x: Any, form: str = ".4f") -> str:
    """Format a number, or show that there is none."""
    return "–" if x is None else format(x, form)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Give a markdown table, its first column to the left."""
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "|:---" + "|---:" * (len(head) - 1) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)
