"""Pieces of HTML: text that is escaped, whatever it says, and tables."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any


def escaped(text: Any, /) -> str:
    """Escape a text, whose control characters become spaces."""
    return html.escape(clean(str(text)))


def lines(text: str, /) -> str:
    """Escape a text of several lines."""
    return "\n".join(escaped(line) for line in text.split("\n"))


def clean(text: str, /) -> str:
    """Put spaces for control characters and broken surrogates, which no page may hold."""
    return "".join(" " if unicodedata.category(c) in ("Cc", "Cs") else c for c in text)


def named(name: Any, /) -> str:
    """Give a name of the user's, which may be written from right to left."""
    return f'<bdi dir="auto">{escaped(name)}</bdi>'


def table(
    head: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]], /, *, words: bool = False
) -> str:
    """Make a table that scrolls by itself: of cells in HTML, and a class for each row.

    Cells of words may have several lines, those of numbers have one.
    """
    top = "".join(f'<th scope="col">{escaped(one)}</th>' for one in head)
    body = "".join(
        (f'<tr class="{kind}">' if kind else "<tr>")
        + "".join(f"<td>{cell}</td>" for cell in cells)
        + "</tr>"
        for kind, cells in rows
    )
    top = f"<thead><tr>{top}</tr></thead>" if head else ""
    kind = "wide words" if words else "wide"
    return f'<div class="{kind}"><table>{top}<tbody>{body}</tbody></table></div>\n'


def bar(share: float, /) -> str:
    """Draw a share as a bar."""
    return f'<span class="bar" style="width:{100 * min(max(share, 0.0), 1.0):.1f}%"></span>'


def section(title: str, *parts: str) -> str:
    """Put parts under a title; nothing where there is none."""
    inside = "".join(parts)
    return f"<section><h2>{escaped(title)}</h2>\n{inside}</section>\n" if inside else ""


def note(text: str, /) -> str:
    """Give a sentence in small letters; nothing of an empty one."""
    return f'<p class="note" dir="auto">{escaped(text)}</p>\n' if text else ""


def sentence(text: str, /) -> str:
    """Begin with a capital letter and end with a full stop."""
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")
