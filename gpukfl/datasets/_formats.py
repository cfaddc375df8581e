"""Tables in files that are no text: arrays, Parquet, Feather and workbooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpukfl.core._warnings import warn
from gpukfl.datasets._names import drop_unnamed_columns, make_column_names, warn_titles
from gpukfl.datasets._notation import MISSING
from gpukfl.datasets._numbers import NaValues, Reading, parse_numbers
from gpukfl.datasets._source import Source


def read_npz(source: Source, /) -> Any:
    """Read arrays X (n, d), and y (n,) if there is one, into a frame of x0, x1, ..., and y."""
    import pandas as pd

    with source.open() as file, np.load(file, allow_pickle=False) as archive:
        if "X" not in archive.files:
            msg = f"expected arrays X and y in it, got {', '.join(archive.files)}"
            raise ValueError(msg)
        X = archive["X"]
        y = archive["y"] if "y" in archive.files else None
    if X.ndim != 2:
        msg = f"expected X of shape (n, d), got {X.shape}"
        raise ValueError(msg)
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    if y is None:
        return frame
    if y.shape not in ((len(X),), (len(X), 1)):
        msg = f"expected y of shape (n,), got {y.shape}"
        raise ValueError(msg)
    return frame.assign(y=y.reshape(-1))


def read_parquet(source: Source, /) -> Any:
    """Read a Parquet file; an index that has a name is a column."""
    import pandas as pd

    with source.open() as file:
        return _index_to_columns(pd.read_parquet(file))


def read_feather(source: Source, /) -> Any:
    """Read a Feather file, which is one of Arrow."""
    import pandas as pd

    with source.open() as file:
        return _index_to_columns(pd.read_feather(file))


def _index_to_columns(frame: Any) -> Any:
    named = [name for name in frame.index.names if name is not None]
    frame = frame.reset_index(level=named) if named else frame
    return frame.reset_index(drop=True).set_axis(make_column_names(frame.columns), axis=1)


def read_workbook(
    source: Source,
    /,
    *,
    kinds: Mapping[str, str],
    decimal: str | None,
    na_values: NaValues = None,
) -> Any:
    """Read the first sheet of a workbook that is not empty.

    Rows above the first one that has as many cells as most are titles.
    """
    import pandas as pd

    with source.open() as file:
        sheets = pd.read_excel(
            file,
            sheet_name=None,
            header=None,
            engine="openpyxl",
            keep_default_na=False,
            na_values=[""],
        )
    filled = {name: sheet for name, sheet in sheets.items() if sheet.notna().any(axis=None)}
    if not filled:
        msg = "its sheets are empty"
        raise ValueError(msg)
    name, sheet = next(iter(filled.items()))
    if len(filled) > 1:
        others = ", ".join(map(str, list(filled)[1:]))
        warn(f"{source.name} has several sheets: {name} is read, and not {others}")
    frame, rows = _split_header(sheet.dropna(axis=1, how="all"), source.name)
    if not len(frame):
        msg = f"its sheet {name} has a header and no rows below it"
        raise ValueError(msg)
    reading = Reading(
        lambda row: f"row {rows[row] + 1} of sheet {name}", kinds, decimal, na_values=na_values
    )
    return drop_unnamed_columns(parse_numbers(frame, reading))


def _split_header(sheet: Any, name: str) -> tuple[Any, np.ndarray]:
    """Columns under their names, and which rows of the sheet these are."""
    import pandas as pd

    cells = sheet.notna().sum(axis=1).to_numpy()
    width = int(np.bincount(cells[cells > 0]).argmax())
    above = int(np.argmax(cells >= width))
    titles = [cell for cell in sheet.iloc[:above].to_numpy().ravel() if not pd.isna(cell)]
    if titles:
        warn_titles(name, str(titles[0]))
    header = ["" if pd.isna(cell) else str(cell).strip() for cell in sheet.iloc[above]]
    below = sheet.iloc[above + 1 :].dropna(how="all").infer_objects()
    frame = (
        below.reset_index(drop=True)
        .apply(_cells_to_text)
        .set_axis(make_column_names(header), axis=1)
    )
    return frame, below.index.to_numpy()


def _cells_to_text(column: Any) -> Any:
    """Make a column of text of one that holds some, as a text file would."""
    texts = column.map(lambda cell: isinstance(cell, str))
    if not texts.any():
        return column
    if column.notna().sum() > texts.sum() and set(column[texts]) <= MISSING - {"?"}:
        return column.mask(texts, None).infer_objects()
    return column.map(str, na_action="ignore")
