"""Tables in text files: read into a frame, with an error that names the line of what is wrong."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpukfl.core._frames import WHOLE
from gpukfl.datasets._encodings import detect_encoding
from gpukfl.datasets._layout import detect_layout
from gpukfl.datasets._lines import (
    BLANKS,
    Layout,
    Text,
    check_field_counts,
    find_last_line,
    find_line,
    unclosed_quote_text,
)
from gpukfl.datasets._names import drop_unnamed_columns, make_column_names
from gpukfl.datasets._notation import MISSING, Words
from gpukfl.datasets._numbers import AS_TEXT, NaValues, Reading, parse_numbers, replace_columns
from gpukfl.datasets._source import Source


def read_text_table(
    source: Source,
    /,
    *,
    kinds: Mapping[str, str],
    decimal: str | None = None,
    na_values: NaValues = None,
) -> Any:
    """Read a text table into a pandas frame.

    Parameters
    ----------
    source : Source
        Bytes of a text: see `detect_encoding`, and `detect_layout` for what may separate its
        columns.
    kinds : mapping of str to str
        What columns are, where it is known: categories are read as they are written, so that
        codes keep their leading zeros.
    decimal : {".", ","}, optional
        The decimal mark of numbers that may be read in two ways; by default what others tell.
    na_values : sequence of str, or mapping of str to these, optional
        Words that stand for missing values in text, of all columns or of those that are named.

    Raises
    ------
    ValueError
        If the file is no text, or its rows are no table; says in which line.
    """
    text = Text(source, detect_encoding(source))
    layout = detect_layout(text)
    names = make_column_names(layout.names)
    read = functools.partial(_parse_csv, text, layout, names)
    reading = Reading(
        place=lambda row: f"line {find_line(text, layout, row)}",
        kinds=kinds,
        decimal=decimal,
        commas_separate=layout.separator == ",",
        written=lambda some: read(some, [""], usecols=some),
        na_values=na_values,
    )
    # "?" is left to what warns of it
    missing = {name: ["", *MISSING - {"?"}, *reading.missing_words(name)] for name in names}
    missing = {name: list(set(words) - {"?"}) for name, words in missing.items()}
    frame = read([name for name in names if kinds.get(name) in AS_TEXT], missing)
    if frame.iloc[:, -1].isna().any():  # as in a short row, and below a long first one
        check_field_counts(text, layout)
    codes = [name for name in names if name not in kinds] if _has_zero_padded(text, layout) else []
    return drop_unnamed_columns(parse_numbers(_restore_text(frame, reading, codes), reading))


def _restore_text(frame: Any, reading: Reading, codes: Sequence[str]) -> Any:
    """Put columns as they were written, where pandas made less of them.

    Text with missing values has words for these. Large integers beside missing values were rounded,
    and `codes` may have lost zeros.
    """
    kinds = {name: frame[name].dtype.kind for name in frame.columns}
    texts = [name for name in kinds if kinds[name] in "OU" and frame[name].hasnans]
    whole = [name for name in kinds if kinds[name] in "iuf" and _is_whole(frame[name])]
    large = [n for n in whole if kinds[n] == "f" and (frame[n].abs() >= WHOLE).any()]
    codes = [name for name in whole if name in codes]
    some = list(dict.fromkeys([*texts, *large, *codes]))
    if not some or reading.written is None:
        return frame
    again = reading.written(some)
    kept = {*texts, *large, *(name for name in codes if _is_zero_padded(again[name]))}
    return replace_columns(frame, {name: again[name] for name in kept})


def _is_whole(column: Any) -> bool:
    return bool((column.dropna() % 1 == 0).all())


def _is_zero_padded(column: Any) -> bool:
    words = Words.of(column)
    return words is not None and bool(words.decimals and words.padded)


def _has_zero_padded(text: Text, layout: Layout) -> bool:
    """Whether some field has digits that begin with a zero."""
    mark = r"[ \t]" if layout.separator == BLANKS else re.escape(layout.separator)
    field = re.compile(rf'(?:^|{mark})[ "]*[-+]?0\d+[ "]*(?:{mark}|$)')
    with text.open() as lines:
        return any(field.search(line.rstrip("\r\n")) for line in lines)


def _parse_csv(
    text: Text,
    layout: Layout,
    names: list[str],
    as_text: list[str],
    na_values: Any,
    **options: Any,
) -> Any:
    """Read the rows below the header; columns in `as_text` as they are written."""
    import pandas as pd

    try:
        with text.open() as file:
            return pd.read_csv(
                file,
                sep=r"\s+" if layout.separator == BLANKS else layout.separator,
                header=None,
                names=names,
                skiprows=layout.above,
                skipinitialspace=True,
                low_memory=False,  # so that a column has one type
                dtype=dict.fromkeys(as_text, str),
                keep_default_na=False,
                na_values=na_values,
                **options,
            )
    except pd.errors.ParserError as error:
        if "EOF inside string" in str(error):
            raise ValueError(unclosed_quote_text(find_last_line(text, layout))) from error
        check_field_counts(text, layout)
        raise
