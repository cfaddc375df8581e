"""Lines of a terminal: so wide, whatever letters they have."""

from __future__ import annotations

from gpukfl.inspection._markup import clean

WIDE = 80  # cells of a line


def width(text: str, /) -> int:
    """Cells that a text takes: two for wide letters, none for marks."""
    from rich.cells import cell_len

    return cell_len(text)


def wrapped(lead: str, text: str, /) -> list[str]:
    """Put a text behind a lead into lines, of which later ones are indented as far."""
    room, rows = WIDE - width(lead), [""]
    for word in clean(text).split():
        for part in _parts(word, room):
            longer = f"{rows[-1]} {part}" if rows[-1] else part
            if width(longer) <= room:
                rows[-1] = longer
            else:
                rows.append(part)
    indent = " " * width(lead)
    return [f"{indent if k else lead}{row}" for k, row in enumerate(rows)]


def padded(text: str, cells: int, /) -> str:
    """Fill up with spaces, or leave out the middle of what is longer."""
    text = clean(text)
    if width(text) > cells:
        half = (cells - 1) // 2
        text = f"{_first(text, cells - 1 - half)}…{_first(text[::-1], half)[::-1]}"
    return text + " " * (cells - width(text))


def _parts(word: str, room: int) -> list[str]:
    """Cut a word that is wider than a line."""
    found = []
    while width(word) > room:
        begin = _first(word, room)
        found.append(begin)
        word = word[len(begin) :]
    return [*found, word]


def _first(text: str, cells: int) -> str:
    """Give the beginning that takes at most so many cells."""
    taken = 0
    for k, letter in enumerate(text):
        taken += width(letter)
        if taken > cells:
            return text[:k]
    return text
