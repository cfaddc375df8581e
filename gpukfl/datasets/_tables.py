"""Tables from files and standard input, and sets that ship with scikit-learn."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from lzma import LZMAError
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from gpukfl.core._warnings import warn
from gpukfl.datasets._formats import read_feather, read_npz, read_parquet, read_workbook
from gpukfl.datasets._names import check_columns, join_names
from gpukfl.datasets._numbers import NaValues
from gpukfl.datasets._source import Source
from gpukfl.datasets._text import read_text_table

BUNDLED = ("breast_cancer", "diabetes", "digits", "iris", "wine")
_UNREADABLE = (ValueError, OSError, KeyError, EOFError, BadZipFile, LZMAError, zlib.error)
_READERS = {
    ".npz": read_npz,
    ".parquet": read_parquet,
    ".pq": read_parquet,
    ".feather": read_feather,
}
_NEEDS = {".xlsx": ("excel", "openpyxl"), ".xlsm": ("excel", "openpyxl")}


@dataclass(frozen=True, eq=False)
class LoadedTable:
    """Features as a frame, and the target where there is one."""

    X: Any  # pandas.DataFrame
    y: np.ndarray | None
    target: str | None


def load_table(
    source: str,
    target: str | None = None,
    *,
    drop: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    decimal: str | None = None,
    na_values: NaValues = None,
) -> LoadedTable:
    """Load a table as it comes, and take its target out.

    Parameters
    ----------
    source : str
        As for `load_frame`.
    target : str, optional
        Column to predict. By default the last one of a file, "y" of an .npz file, and the
        target of a bundled set. Rows without one are left out, with a warning that counts them.
    drop : sequence of str, optional
        Leave these columns out.
    kinds, decimal, na_values
        As for `load_frame`.

    Returns
    -------
    LoadedTable
        Features, target and its name.

    Raises
    ------
    ValueError
        If the source or a column does not exist, or the file cannot be read as a table; says in
        which line and column.
    """
    frame = load_frame(source, kinds=kinds, decimal=decimal, na_values=na_values)
    known = f"one of {join_names(frame.columns)}, got "
    check_columns(drop, frame.columns, f"each column to drop to be {known}")
    if target is not None:
        check_columns([target], frame.columns, f"--target to be {known}")
    default = _default_target(source, frame)
    frame = frame.drop(columns=[name for name in drop if name != target])
    return _split_target(frame, target, default)


def _default_target(source: str, frame: Any) -> str | None:
    if source in BUNDLED:
        return "target"
    if Path(source).suffix.lower() == ".npz":
        return "y" if "y" in frame.columns else None
    return frame.columns[-1]


def _split_target(frame: Any, target: str | None, default: str | None) -> LoadedTable:
    """Take the target out, by default the last column of a file."""
    hint = ""
    if target is None and default is not None:
        target = default if default in frame.columns else frame.columns[-1]
        hint = ": it is the last column, --target names another"
    if target is None:
        return LoadedTable(frame, None, None)
    if frame.shape[1] < 2:
        msg = f"expected a table with a target and at least one feature, got {list(frame.columns)}"
        raise ValueError(msg)
    missing = frame[target].isna().to_numpy()
    if missing.all():
        msg = f"expected a target in some row, got none in {target}{hint}"
        raise ValueError(msg)
    y = frame[target]
    if missing.any():
        lost = int(missing.sum())
        has, are = ("has", "is") if lost == 1 else ("have", "are")
        warn(f"{lost} of {len(frame)} rows {has} no {target}, and {are} left out{hint}")
        frame = frame[~missing].reset_index(drop=True)
        y = _restore_integers(frame[target])
    return LoadedTable(frame.drop(columns=[target]), y.to_numpy(), target)


def _restore_integers(y: Any) -> Any:
    """Restore integers that became floats because of missing values."""
    whole = y.dtype == np.float64 and (y % 1 == 0).all() and (y.abs() < 2**53).all()
    return y.astype(np.int64) if whole else y


def load_frame(
    source: str,
    *,
    kinds: Mapping[str, str] | None = None,
    decimal: str | None = None,
    na_values: NaValues = None,
) -> Any:
    """Load a table as it comes: a file, standard input, or a bundled set.

    A text may be separated by commas, semicolons, tabs, bars or blanks, be in UTF-8, UTF-16 or
    Windows-1252, and be compressed (gz, bz2, xz, zip). Titles above its header are left out.
    Numbers may have decimal commas, groups of three digits, a currency or a percent sign. "?",
    "NA", "null" and blank fields are missing values in any column. Words such as "None", "-" and
    "unknown" are missing values in a column of numbers or dates, and words elsewhere. Digits that
    begin with a zero are text, such as 020. A warning names what is doubtful.

    Parameters
    ----------
    source : str
        A path to a CSV, Parquet, Feather, Excel (.xlsx) or .npz file, "-" for standard input, or
        one of `BUNDLED`. An .npz file holds X (n, d), and y (n,) if it has a target.
    kinds : mapping of str to str, optional
        What columns of a text or of a workbook are, where it is known: see
        `gpukfl.tables.KINDS`. A "category" of a text is read as it is written, with its leading
        zeros; a "numeric" column has to be numbers.
    decimal : {".", ","}, optional
        The decimal mark of numbers that may be read in two ways, such as "1,234"; by default
        what other numbers tell.
    na_values : sequence of str, or mapping of str to these, optional
        The words that are missing values in columns of text, in all of them or in those that are
        named, in place of "?", "NA", "null" and the like: ``["None"]`` takes None for missing, and
        ``[]`` nothing but blank fields. Columns of numbers and dates lose these words beside the
        usual ones, such as ``["-999"]``.

    Returns
    -------
    pandas.DataFrame
        All columns, under names that are text and different. ``attrs["missing_words"]`` has the
        words of columns of a text or a workbook that were taken for missing values.

    Raises
    ------
    ValueError
        If the source does not exist or cannot be read as a table; says in which line and column.

    Notes
    -----
    A text is read twice, once for its encoding, and some columns a third time: those of text with
    missing values, and those that may have lost digits.
    """
    if isinstance(na_values, str):
        msg = f"expected na_values to be a list of words, got {na_values!r}: write [{na_values!r}]"
        raise TypeError(msg)
    if decimal not in (None, ".", ","):
        msg = f'expected decimal to be "." or ",", got {decimal!r}'
        raise ValueError(msg)
    if source in BUNDLED:
        return _load_bundled(source)
    try:
        return _read_source(Source.of(source), kinds or {}, decimal, na_values)
    except FileNotFoundError as error:
        names = ", ".join(BUNDLED)
        msg = f"expected a file, - for standard input, or one of {names}, got {source!r}"
        raise ValueError(msg) from error
    except _UNREADABLE as error:
        formats = "CSV, Parquet, Feather, Excel or .npz"
        msg = f"expected a {formats} table, got {source!r}: {error}"
        raise ValueError(msg) from error


def _read_source(
    source: Source, kinds: Mapping[str, str], decimal: str | None, na_values: NaValues
) -> Any:
    """Read a frame with every column."""
    suffix = source.suffix
    if suffix == ".xls":
        msg = "workbooks are read from .xlsx: save it as one"
        raise ValueError(msg)
    try:
        if suffix in (".xlsx", ".xlsm"):
            return read_workbook(source, kinds=kinds, decimal=decimal, na_values=na_values)
        if suffix in _READERS:
            return _READERS[suffix](source)
        return read_text_table(source, kinds=kinds, decimal=decimal, na_values=na_values)
    except ImportError as error:
        extra, library = _NEEDS.get(suffix, ("parquet", "pyarrow"))
        msg = f"reading {suffix} needs {library}: `pip install 'gpukfl[{extra}]'`"
        raise ValueError(msg) from error


def _load_bundled(name: str) -> Any:
    from sklearn import datasets

    data = getattr(datasets, f"load_{name}")(as_frame=True)
    if not hasattr(data, "target_names") or name == "diabetes":
        return data.frame
    labels = np.asarray(data.target_names)[data.target].astype(str)
    return data.frame.assign(target=labels)
