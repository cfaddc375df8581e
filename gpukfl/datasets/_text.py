"""Tables in text files: read into a frame, with an error that names the line of what is wrong."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from gpukfl.datasets._encodings import encoding_of
from gpukfl.datasets._layout import layout_of
from gpukfl.datasets._lines import BLANKS, Layout, Text, check_rows, last_line, line_of, unclosed
from gpukfl.datasets._names import column_names, without_nameless
from gpukfl.datasets._numbers import AS_TEXT, Reading, with_numbers
from gpukfl.datasets._source import Source


def read_text_table(
    source: Source, /, *, decimal: str | None = None, kinds: Mapping[str, str]
) -> Any:
    """Read a text table into a pandas frame.

    Parameters
    ----------
    source : Source
        Bytes of a text: see `encoding_of`, and `layout_of` for what may separate its columns.
    decimal : {".", ","}, optional
        The decimal mark of numbers that may be read in two ways; by default what others tell.
    kinds : mapping of str to str
        What columns are, where it is known: categories are read as they are written, so that
        codes keep their leading zeros.

    Raises
    ------
    ValueError
        If the file is no text, or its rows are no table; says in which line.
    """
    text = Text(source, encoding_of(source))
    layout = layout_of(text)
    names = column_names(layout.names)
    read = functools.partial(_parsed, text, layout, names)
    frame = read([name for name in names if kinds.get(name) in AS_TEXT])
    if frame.iloc[:, -1].isna().any():  # as in a short row, and below a long first one
        check_rows(text, layout)
    reading = Reading(
        place=lambda row: f"line {line_of(text, layout, row)}",
        kinds=kinds,
        decimal=decimal,
        commas_separate=layout.separator == ",",
        written=None if layout.separator == "," else lambda some: read(some, usecols=some),
    )
    return without_nameless(with_numbers(frame, reading))


def _parsed(
    text: Text, layout: Layout, names: list[str], as_text: list[str], **options: Any
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
                **options,
            )
    except pd.errors.ParserError as error:
        if "EOF inside string" in str(error):
            raise ValueError(unclosed(last_line(text, layout))) from error
        check_rows(text, layout)
        raise
