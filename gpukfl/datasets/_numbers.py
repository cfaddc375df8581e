"""Columns of a file that are numbers, though not as Python writes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpukfl.core._frames import GAPS
from gpukfl.core._warnings import warn
from gpukfl.datasets._names import join_names
from gpukfl.datasets._notation import MISSING, Words

NaValues = Sequence[str] | Mapping[str, Sequence[str]] | None  # of all columns, or of some
_NUMBERS = ("numeric", "code", "boolean", "date", "duration")
AS_TEXT = ("category", "ordered", "text", "identifier")  # kinds that are read as written


@dataclass(frozen=True)
class Reading:
    """What is known of a file's columns.

    Attributes
    ----------
    kinds : mapping of str to str
        What columns are, of those where somebody says it.
    decimal : {".", ",", None}
        The decimal mark of what may be read in two ways, if somebody says it.
    commas_separate : bool
        Whether commas stand between columns, so that they are seldom decimal.
    place : callable
        Says where a row is, by its index.
    written : callable, optional
        Returns columns as they were written, of a text.
    na_values : sequence of str, or mapping of str to these, optional
        Words that stand for missing values in all columns, or in those that are named.
    """

    place: Callable[[int], str]
    kinds: Mapping[str, str] = field(default_factory=dict)
    decimal: str | None = None
    commas_separate: bool = True
    written: Callable[[list[str]], Any] | None = None
    na_values: NaValues = None

    def missing_words(self, name: str, /) -> Collection[str]:
        """Return the words that stand for missing values in a column, also of text."""
        if isinstance(self.na_values, Mapping):
            return self.na_values.get(name, MISSING)
        return MISSING if self.na_values is None else self.na_values


def parse_numbers(frame: Any, reading: Reading, /) -> Any:
    """Parse columns of text that are numbers, and the words for missing values.

    What the decimal mark is, numbers tell that can be read in one way only. Where none does,
    "1,234" has a decimal comma if every number of the column has one and commas do not separate
    columns; a warning says what was taken.

    Raises
    ------
    ValueError
        If a column that is told to be numeric has other words; says where the first is.
    """
    texts = _text_columns(frame, reading)
    numbers = {name: words for name, words in texts.items() if _is_number(name, words, reading)}
    for name, words in texts.items():
        if name not in numbers and reading.kinds.get(name) in ("numeric", "code"):
            numbers[name] = _treat_words_as_missing(name, words, reading)
    mark = reading.decimal or _file_decimal_mark(frame, numbers)
    if mark == "," and reading.written is not None and not reading.commas_separate:
        numbers |= _reread_as_text(frame, reading)
    changed = {
        name: words.as_truth(frame[name]) if words.are_truth else words.as_text(frame[name])
        for name, words in texts.items()
        if name not in numbers
    }
    for name, words in numbers.items():
        changed[name] = words.as_numbers(frame[name], _decimal_mark(words, mark, reading))
    if not mark:
        # Where commas separate columns, points are seldom between groups of digits
        _warn_ambiguous_numbers(numbers, changed, "," if reading.commas_separate else ",.")
    _warn_zero_padded(
        {name: words for name, words in texts.items() if name not in numbers}, reading
    )
    _warn_missing_words(texts | numbers, reading)
    found = replace_columns(frame, changed)
    found.attrs["missing_words"] = {
        name: sorted(words.gaps - {""}) for name, words in texts.items() if words.gaps - {""}
    }
    return found


def _is_number(name: str, words: Words, reading: Reading) -> bool:
    """Whether a column of text is read as numbers; codes such as 020 only where `kinds` says so."""
    kind = reading.kinds.get(name)
    return bool(words.decimals) and (kind in _NUMBERS if words.padded else kind not in AS_TEXT)


def _warn_zero_padded(texts: dict[str, Words], reading: Reading) -> None:
    """Warn of codes whose zeros say that they are text."""
    some = [n for n, words in texts.items() if words.decimals and n not in reading.kinds]
    if some:
        shown = join_names(f"{texts[name].padded!r} in {name}" for name in some)
        warn(
            f"digits that begin with a zero are text: {shown}. load_frame(..., "
            f"kinds={{{some[0]!r}: 'numeric'}}) reads numbers, as does --columns {some[0]}=numeric "
            "on the command line"
        )


def _text_columns(frame: Any, reading: Reading) -> dict[str, Words]:
    """Columns of text, by name."""
    columns = {name: frame[name] for name in frame.columns if frame[name].dtype.kind in "OU"}
    found = {n: Words.of(column, reading.missing_words(n)) for n, column in columns.items()}
    return {name: words for name, words in found.items() if words is not None}


def _reread_as_text(frame: Any, reading: Reading) -> dict[str, Words]:
    """Columns of which pandas took the points for decimal, as they were written."""
    floats = [name for name in frame.columns if frame[name].dtype.kind == "f"]
    again = _text_columns(reading.written(floats), reading) if floats and reading.written else {}
    return {name: words for name, words in again.items() if words.decimals}


def _has_points(column: Any) -> bool:
    if column.dtype.kind != "f":
        return False
    values = column.to_numpy()
    return bool((values != np.rint(values)).any(where=np.isfinite(values)))


def _file_decimal_mark(frame: Any, numbers: dict[str, Words]) -> str | None:
    """Find the decimal mark that columns tell for certain; None where they tell none, or both."""
    sure = {words.decimals for words in numbers.values()} & {".", ","}
    if sure == {","}:
        return ","
    if sure:
        return "." if sure == {"."} else None
    points = numbers and any(_has_points(frame[name]) for name in frame.columns)
    return "." if points else None


def _decimal_mark(words: Words, mark: str | None, reading: Reading) -> str:
    """Decimal mark of a column of numbers."""
    if len(words.decimals) == 1:
        return words.decimals
    if mark is not None:
        return mark
    commas = all("," in value for value in words.values)
    return "," if commas and not reading.commas_separate else "."


def _treat_words_as_missing(name: str, words: Words, reading: Reading) -> Words:
    """Treat the words of a column that is declared numeric as missing values.

    Raises
    ------
    ValueError
        If there are others.
    """
    missing = {*MISSING, *reading.missing_words(name)}
    others = [
        word for word in words.words if word and word not in missing and word.casefold() not in GAPS
    ]
    if others:
        first = min(others, key=lambda word: bool(Words([0], [word]).decimals))
        where = reading.place(int(np.argmax(words.codes == words.words.index(first))))
        msg = f"expected numbers in column {name}, of one unit, got {first!r} in {where}"
        raise ValueError(msg)
    return replace(words, gaps=frozenset(words.words))


def _warn_ambiguous_numbers(numbers: dict[str, Words], changed: dict[str, Any], marks: str) -> None:
    """Warn of numbers with such marks that can be read in two ways."""
    said = []
    for name, words in numbers.items():
        marked = [k for k, word in enumerate(words.words) if set(marks) & set(word)]
        if len(words.decimals) == 2 and marked:
            row = int(np.argmax(words.codes == marked[0]))
            value = changed[name].iloc[row]
            said.append(f"{words.words[marked[0]]!r} in {name} is taken for {value:g}")
    if said:
        warn(
            f"numbers can be read in two ways: {join_names(said)}. If the decimal mark is another, "
            "name it by decimal (on the command line --decimal)"
        )


def _warn_missing_words(texts: dict[str, Words], reading: Reading) -> None:
    """Warn of words that are taken for missing values, though not every reader takes them so."""
    said: dict[str, list[str]] = {}
    for name, words in texts.items():
        usual = MISSING - {"?"} if reading.na_values is None else reading.missing_words(name)
        for word in sorted(words.gaps.difference([""], usual)):
            said.setdefault(word, []).append(name)
    if said:
        told = "; ".join(f"{word!r} in {join_names(names)}" for word, names in said.items())
        warn(f"words are taken for missing values: {told}")


def replace_columns(frame: Any, changed: dict[str, Any], /) -> Any:
    """Return a frame with other columns in place of some."""
    import pandas as pd

    if not changed:
        return frame
    return pd.DataFrame({name: changed.get(name, frame[name]) for name in frame.columns})
