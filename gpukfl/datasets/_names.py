"""Names of a table's columns: one for each, and none twice."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable
from typing import Any

from gpukfl.core._warnings import warn

_NAMELESS = "Unnamed: "
_SHOWN = 20  # columns that a message names


def make_column_names(names: Iterable[Any], /) -> list[str]:
    """Make names of a header: text, and different; warns where two columns share one."""
    names = [str(name) for name in names]
    named = [name or f"{_NAMELESS}{k}" for k, name in enumerate(names)]
    taken, unique = set(named), []
    repeats: Counter[str] = Counter()
    for name in named:
        fresh = name
        while repeats[name] and fresh in taken:
            fresh = f"{name}.{repeats[name]}"
            repeats[name] += fresh in taken
        taken.add(fresh)
        repeats[name] += 1
        unique.append(fresh)
    changed = [(old, new) for old, new in zip(named, unique, strict=True) if old != new]
    if changed:
        warn(f"columns have the same name: {join_names(f'{b} is another {a}' for a, b in changed)}")
    return unique


def drop_unnamed_columns(frame: Any, /) -> Any:
    """Leave out columns without a name that are empty, or a first one that numbers the rows."""
    nameless = [name for name in frame.columns if name.startswith(_NAMELESS)]
    empty = [name for name in nameless if frame[name].isna().all()]
    numbers = [
        name
        for name in nameless
        if name == f"{_NAMELESS}0" and frame[name].dtype.kind == "i" and frame[name].is_unique
    ]
    if numbers and len(frame) > 1:
        warn("the first column has no name and another number in every row: it is left out")
    return frame.drop(columns=empty + numbers)


def warn_titles(name: str, first: str, /) -> None:
    """Warn of text above the header of the table called `name`."""
    warn(f"what is above the header of {name} is left out: {first!r}")


def check_columns(names: Iterable[str], known: Iterable[str], expected: str, /) -> None:
    """Raise ValueError, with the nearest of the known ones, unless all names are among them."""
    known = set(known)
    missing = [name for name in names if name not in known]
    if missing:
        by_folded = {name.casefold(): name for name in sorted(known)}
        near = difflib.get_close_matches(missing[0].casefold(), by_folded, n=3)
        hint = f" (did you mean {' or '.join(by_folded[name] for name in near)}?)" if near else ""
        msg = f"expected {expected}{join_names(map(repr, missing))}{hint}"
        raise ValueError(msg)


def join_names(names: Iterable[str], /) -> str:
    """Join names, and count those that are too many."""
    names = list(names)
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
