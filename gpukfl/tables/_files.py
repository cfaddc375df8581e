"""Tables in files of any format, and bundled sets, as pandas frames.

`load_frame` reads every column, and `load_table` splits the target off. Text in files and workbooks
becomes numbers here. `_text_files` finds the rows of a text file.
"""

from __future__ import annotations

import difflib
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from lzma import LZMAError
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from gpukfl.core._checks import suggest
from gpukfl.core._frames import GAPS, WHOLE, listed, reads_as_date
from gpukfl.core._warnings import warn
from gpukfl.tables._numerals import VERSIONS, doubtful_number_text
from gpukfl.tables._text_files import Source, TextTable, warn_titles

# --------------------------------------------------------------------------------- load


BUNDLED = ("breast_cancer", "diabetes", "digits", "iris", "wine")
_READ_ERRORS = (ValueError, OSError, KeyError, EOFError, BadZipFile, LZMAError, zlib.error)
_WORKBOOKS = (".xlsx", ".xlsm")
NaValues = Sequence[str] | Mapping[str, Sequence[str]] | None  # for all columns, or by column


@dataclass(frozen=True, eq=False)
class LoadedTable:
    """A frame of features, and the target if there is one."""

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
    """Load a table, and split its target off.

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
    """Split the target off; the default is the last column of a file."""
    hint = ""
    if target is None and default is not None:
        target = default if default in frame.columns else frame.columns[-1]
        hint = ": the target is the last column, or the one that --target names"
    if target is None:
        return LoadedTable(frame, None, None)
    if frame.shape[1] < 2:
        msg = f"expected a table with a target and at least one feature, got {list(frame.columns)}"
        raise ValueError(msg)
    missing = frame[target].isna().to_numpy()
    if missing.all():
        msg = f"expected targets in column {target}, got none in any row{hint}"
        raise ValueError(msg)
    y = frame[target]
    if missing.any():
        lost = int(missing.sum())
        has, are = ("has", "is") if lost == 1 else ("have", "are")
        warn(f"{lost} of {len(frame)} rows {has} no {target}, and {are} dropped{hint}")
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
    """Load a table from a file, standard input, or a bundled set.

    A text file may be separated by commas, semicolons, tabs, bars or blanks. Its encoding may be
    UTF-8, UTF-16 or Windows-1252. It may be compressed (gz, bz2, xz, zip). Titles above the header
    are dropped. Numbers may have decimal commas, groups of three digits, a currency or a percent
    sign.

    "?", "NA", "null" and blank fields are missing values in any column. Words such as "None", "-"
    and "unknown" are missing values in columns of numbers or dates; elsewhere they are words.
    Digits with a leading zero, such as 020, are text. A warning names doubtful values.

    Parameters
    ----------
    source : str
        A path to a CSV, Parquet, Feather, Excel (.xlsx) or .npz file, "-" for standard input, or
        one of `BUNDLED`. An .npz file holds X (n, d), and y (n,) if it has a target.
    kinds : mapping of str to str, optional
        Kinds of columns of a text file or workbook, by name: see `gpukfl.tables.KINDS`. A
        "category" in a text file keeps its leading zeros. A "numeric" column must hold numbers.
    decimal : {".", ","}, optional
        Decimal mark of ambiguous numbers, such as "1,234". By default other numbers decide.
    na_values : sequence of str, or mapping of str to these, optional
        Words that are missing values in text columns. They replace "?", "NA", "null" and the like,
        in all text columns or, with a mapping, in the named columns. ``["None"]`` makes None a
        missing value. With ``[]`` only blank fields are missing. In columns of numbers and dates
        these words, such as ``["-999"]``, are missing values beside the usual ones.

    Returns
    -------
    pandas.DataFrame
        All columns, with unique names that are text. ``attrs["missing_words"]`` lists the words
        that were read as missing values, for each column of a text file or workbook.

    Raises
    ------
    ValueError
        If the source does not exist or cannot be read as a table. The message gives line and
        column.

    Notes
    -----
    A text file is read twice, once for its encoding. Two kinds of columns are read a third time:
    text with missing values, and columns that may have lost digits.
    """
    if isinstance(na_values, str):
        msg = f"expected na_values to be a list of words, got {na_values!r}: pass [{na_values!r}]"
        raise TypeError(msg)
    if decimal not in (None, ".", ","):
        msg = f'expected decimal to be "." or ",", got {decimal!r}'
        raise ValueError(msg)
    if source in BUNDLED:
        return _load_bundled_set(source)
    try:
        return _read_source(Source.from_path(source), kinds or {}, decimal, na_values)
    except FileNotFoundError as error:
        names = ", ".join(BUNDLED)
        hint = suggest(str(source), BUNDLED) or "."
        msg = (
            f"the file {str(source)!r} was not found{hint} Expected a file, - for standard input, "
            f"or one of {names}"
        )
        raise ValueError(msg) from error
    except _READ_ERRORS as error:
        formats = "CSV, Parquet, Feather, Excel or .npz"
        msg = f"expected a {formats} table, got {source!r}: {error}"
        raise ValueError(msg) from error


def _read_source(
    source: Source, kinds: Mapping[str, str], decimal: str | None, na_values: NaValues
) -> Any:
    """Read a frame with all columns."""
    import pandas as pd

    suffix = source.suffix
    if suffix == ".xls":
        msg = "expected an Excel workbook in the format .xlsx: save the file as .xlsx"
        raise ValueError(msg)
    try:
        if suffix in _WORKBOOKS:
            return _read_workbook(source, kinds, decimal, na_values)
        if suffix == ".npz":
            return _read_npz(source)
        if suffix in (".parquet", ".pq", ".feather"):
            with source.open() as file:
                read = pd.read_feather if suffix == ".feather" else pd.read_parquet
                return _index_to_columns(read(file))
        return _read_text(source, kinds, decimal, na_values)
    except ImportError as error:
        extra, library = ("excel", "openpyxl") if suffix in _WORKBOOKS else ("parquet", "pyarrow")
        msg = f"reading {suffix} needs {library}: `pip install 'gpukfl[{extra}]'`"
        raise ValueError(msg) from error


def _load_bundled_set(name: str) -> Any:
    from sklearn import datasets

    data = getattr(datasets, f"load_{name}")(as_frame=True)
    if not hasattr(data, "target_names") or name == "diabetes":
        return data.frame
    labels = np.asarray(data.target_names)[data.target].astype(str)
    return data.frame.assign(target=labels)


# ------------------------------------------------------------------------------ formats


def _read_text(
    source: Source, kinds: Mapping[str, str], decimal: str | None, na_values: NaValues
) -> Any:
    """Read a text; raise ValueError with the line if its rows are no table.

    Columns that `kinds` declares as categories are read as text, so that codes keep leading zeros.
    """
    text = TextTable.of(source)
    names = make_column_names(text.names)
    options = FileOptions(
        place=lambda row: f"line {text.find_line(row)}",
        kinds=kinds,
        decimal=decimal,
        na_values=na_values,
        commas_separate=text.separator == ",",
        written=lambda some: text.read(names, some, [""], usecols=some),
    )
    # "?" stays until `_warn_missing_words`
    missing = {n: list({"", *MISSING, *options.missing_words(n)} - {"?"}) for n in names}
    frame = text.read(names, [name for name in names if kinds.get(name) in _TEXT_KINDS], missing)
    if frame.iloc[:, -1].isna().any():  # perhaps a short row, or a long first row
        text.check_field_counts()
    codes = [name for name in names if name not in kinds] if text.has_padded_digits() else []
    return _drop_unnamed_columns(_parse_numbers(_restore_text(frame, options, codes), options))


def _restore_text(frame: Any, options: FileOptions, codes: Sequence[str]) -> Any:
    """Restore the text of columns in which pandas lost leading zeros or marks.

    Missing values get back their words. Large integers beside missing values were rounded, and
    `codes` may have lost zeros.
    """
    kinds = {name: frame[name].dtype.kind for name in frame.columns}
    texts = [name for name in kinds if kinds[name] in "OU" and frame[name].hasnans]
    numbers = [name for name in kinds if kinds[name] in "iuf"]
    whole = [name for name in numbers if (frame[name].dropna() % 1 == 0).all()]
    large = [n for n in whole if kinds[n] == "f" and (frame[n].abs() >= WHOLE).any()]
    codes = [name for name in whole if name in codes]
    some = list(dict.fromkeys([*texts, *large, *codes]))
    if not some or options.written is None:
        return frame
    again = options.written(some)
    kept = {*texts, *large, *(name for name in codes if _is_zero_padded(again[name]))}
    return _replace_columns(frame, {name: again[name] for name in kept})


def _is_zero_padded(column: Any) -> bool:
    words = Words.from_column(column)
    return words is not None and bool(words.decimals and words.zero_padded_value)


def _read_npz(source: Source) -> Any:
    """Read arrays X (n, d), and y (n,) if there is one, into a frame of x0, x1, ..., and y."""
    import pandas as pd

    with source.open() as file, np.load(file, allow_pickle=False) as archive:
        if "X" not in archive.files:
            msg = f"expected arrays X and y in the file, got {', '.join(archive.files)}"
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


def _index_to_columns(frame: Any) -> Any:
    """Convert named index levels to columns."""
    named = [name for name in frame.index.names if name is not None]
    frame = frame.reset_index(level=named) if named else frame
    return frame.reset_index(drop=True).set_axis(make_column_names(frame.columns), axis=1)


def _read_workbook(
    source: Source, kinds: Mapping[str, str], decimal: str | None, na_values: NaValues
) -> Any:
    """Read the first sheet of a workbook that is not empty.

    Rows above the header are titles: they have fewer cells than most rows.
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
        warn(f"{source.name} has several sheets: only {name} is read, not {others}")
    frame, rows = _split_header(sheet.dropna(axis=1, how="all"), source.name)
    if not len(frame):
        msg = f"its sheet {name} has a header and no rows below it"
        raise ValueError(msg)
    options = FileOptions(
        lambda row: f"row {rows[row] + 1} of sheet {name}", kinds, decimal, na_values
    )
    return _drop_unnamed_columns(_parse_numbers(frame, options))


def _split_header(sheet: Any, name: str) -> tuple[Any, np.ndarray]:
    """Split the header off; return the columns and their row numbers."""
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
    """Convert a column that holds some text to text, as a text file would."""
    texts = column.map(lambda cell: isinstance(cell, str))
    if not texts.any():
        return column
    if column.notna().sum() > texts.sum() and set(column[texts]) <= MISSING - {"?"}:
        return column.mask(texts, None).infer_objects()
    return column.map(str, na_action="ignore")


# ------------------------------------------------------------------------------ numbers


_NUMBER_KINDS = ("numeric", "code", "boolean", "date", "duration")
_TEXT_KINDS = ("category", "ordered", "text", "identifier")  # kinds that are read as written


@dataclass(frozen=True)
class FileOptions:
    """Options and findings on a file's columns.

    Attributes
    ----------
    place : callable
        Returns the place of a row in words, from its index.
    kinds, decimal, na_values
        As for `load_frame`.
    commas_separate : bool
        Whether commas separate columns, so that they are seldom decimal.
    written : callable, optional
        Returns columns of a text file as text, without conversion.
    """

    place: Callable[[int], str]
    kinds: Mapping[str, str]
    decimal: str | None
    na_values: NaValues
    commas_separate: bool = True
    written: Callable[[list[str]], Any] | None = None

    def missing_words(self, name: str, /) -> Collection[str]:
        """Return the words that are missing values in a column, even among text."""
        if isinstance(self.na_values, Mapping):
            return self.na_values.get(name, MISSING)
        return MISSING if self.na_values is None else self.na_values


def _parse_numbers(frame: Any, options: FileOptions) -> Any:
    """Parse text columns that hold numbers, and their words for missing values.

    Unambiguous numbers show the file's decimal mark. Without any, commas are decimal in a column
    whose numbers all have one, unless commas separate columns; a warning shows the result. Raises
    ValueError with the first other word of a column that is declared numeric.
    """
    texts = _text_columns(frame, options)
    numbers = {name: words for name, words in texts.items() if _is_number(name, words, options)}
    for name, words in texts.items():
        if name not in numbers and options.kinds.get(name) in ("numeric", "code"):
            numbers[name] = _treat_words_as_missing(name, words, options)
    mark = options.decimal or _file_decimal_mark(frame, numbers)
    if mark == "," and options.written is not None and not options.commas_separate:
        numbers |= _reread_as_text(frame, options)
    changed = {
        name: words.as_truth(frame[name]) if words.are_truth else words.as_text(frame[name])
        for name, words in texts.items()
        if name not in numbers
    }
    for name, words in numbers.items():
        changed[name] = words.as_numbers(frame[name], _decimal_mark(words, mark, options))
    if not mark:
        # Beside comma separators, points seldom separate groups of digits
        _warn_ambiguous_numbers(numbers, changed, "," if options.commas_separate else ",.")
    _warn_versions(frame, options)
    _warn_zero_padded({n: words for n, words in texts.items() if n not in numbers}, options)
    _warn_missing_words(texts | numbers, options)
    found = _replace_columns(frame, changed)
    found.attrs["missing_words"] = {
        name: sorted(words.gaps - {""}) for name, words in texts.items() if words.gaps - {""}
    }
    return found


def _is_number(name: str, words: Words, options: FileOptions) -> bool:
    """Whether a text column is read as numbers; codes such as 020 only if `kinds` says so."""
    kind = options.kinds.get(name)
    return bool(words.decimals) and (
        kind in _NUMBER_KINDS if words.zero_padded_value else kind not in _TEXT_KINDS
    )


def _warn_zero_padded(texts: dict[str, Words], options: FileOptions) -> None:
    """Warn of codes with leading zeros, which stay text."""
    some = [n for n, words in texts.items() if words.decimals and n not in options.kinds]
    if some:
        shown = join_names(f"{texts[name].zero_padded_value!r} in {name}" for name in some)
        warn(
            f"digits that begin with a zero are read as text: {shown}. For numbers, use "
            f"load_frame(..., kinds={{{some[0]!r}: 'numeric'}}), or --columns "
            f"{some[0]}=numeric on the command line"
        )


def _warn_versions(frame: Any, options: FileOptions) -> None:
    """Warn of floats that the file may write as versions, such as 1.10 beside 1.9."""
    some = [name for name in frame.columns if name not in options.kinds]
    some = [name for name in some if _like_versions(frame[name])]
    again = options.written(some) if some and options.written else {}
    for name in some if len(again) else ():
        words = Words.from_column(again[name])
        doubt = doubtful_number_text(words.values) if words else ""
        if doubt:
            warn(
                f"column {name!r}: {doubt}. To keep the text, use load_frame(..., "
                f"kinds={{{name!r}: 'category'}}), or --columns {name}=category on the command "
                "line"
            )


def _like_versions(column: Any) -> bool:
    """Whether numbers are few, with one to three decimals, as versions have."""
    if not _has_fractions(column):
        return False
    values = 1000.0 * column.dropna().unique()
    return len(values) <= VERSIONS and np.allclose(values, np.rint(values), rtol=0.0, atol=1e-6)


def _text_columns(frame: Any, options: FileOptions) -> dict[str, Words]:
    """Return the text columns by name."""
    columns = {name: frame[name] for name in frame.columns if frame[name].dtype.kind in "OU"}
    found = {
        n: Words.from_column(column, options.missing_words(n)) for n, column in columns.items()
    }
    return {name: words for name, words in found.items() if words is not None}


def _reread_as_text(frame: Any, options: FileOptions) -> dict[str, Words]:
    """Return as text the float columns whose points may separate groups of digits."""
    floats = [name for name in frame.columns if frame[name].dtype.kind == "f"]
    again = _text_columns(options.written(floats), options) if floats and options.written else {}
    return {name: words for name, words in again.items() if words.decimals}


def _has_fractions(column: Any) -> bool:
    if column.dtype.kind != "f":
        return False
    values = column.to_numpy()
    return bool((values != np.rint(values)).any(where=np.isfinite(values)))


def _file_decimal_mark(frame: Any, numbers: dict[str, Words]) -> str | None:
    """Return the decimal mark of unambiguous columns, or None."""
    sure = {words.decimals for words in numbers.values()} & {".", ","}
    if sure == {","}:
        return ","
    if sure:
        return "." if sure == {"."} else None
    points = numbers and any(_has_fractions(frame[name]) for name in frame.columns)
    return "." if points else None


def _decimal_mark(words: Words, mark: str | None, options: FileOptions) -> str:
    """Return the decimal mark of a column of numbers."""
    if len(words.decimals) == 1:
        return words.decimals
    if mark is not None:
        return mark
    commas = all("," in value for value in words.values)
    return "," if commas and not options.commas_separate else "."


def _treat_words_as_missing(name: str, words: Words, options: FileOptions) -> Words:
    """Treat the words of a column that is declared numeric as missing values; raise for others."""
    missing = {*MISSING, *options.missing_words(name)}
    others = [
        word for word in words.words if word and word not in missing and word.casefold() not in GAPS
    ]
    if others:
        first = min(others, key=lambda word: bool(Words([0], [word]).decimals))
        where = options.place(int(np.argmax(words.codes == words.words.index(first))))
        msg = f"expected numbers of one unit in column {name}, got {first!r} in {where}"
        raise ValueError(msg)
    return replace(words, gaps=frozenset(words.words))


def _warn_ambiguous_numbers(numbers: dict[str, Words], changed: dict[str, Any], marks: str) -> None:
    """Warn of numbers whose marks can be read in two ways."""
    said = []
    for name, words in numbers.items():
        marked = [k for k, word in enumerate(words.words) if set(marks) & set(word)]
        if len(words.decimals) == 2 and marked:
            row = int(np.argmax(words.codes == marked[0]))
            value = changed[name].iloc[row]
            said.append(f"{words.words[marked[0]]!r} in {name} is read as {value:g}")
    if said:
        warn(
            f"numbers can be read in two ways: {join_names(said)}. If the decimal mark is "
            "different, set decimal= (on the command line --decimal)"
        )


def _warn_missing_words(texts: dict[str, Words], options: FileOptions) -> None:
    """Warn of words read as missing values that other readers may keep."""
    said: dict[str, list[str]] = {}
    for name, words in texts.items():
        usual = MISSING - {"?"} if options.na_values is None else options.missing_words(name)
        for word in sorted(words.gaps.difference([""], usual)):
            said.setdefault(word, []).append(name)
    if said:
        shown = "; ".join(f"{word!r} in {join_names(names)}" for word, names in said.items())
        warn(f"words are read as missing values: {shown}")


def _replace_columns(frame: Any, changed: dict[str, Any]) -> Any:
    """Return a frame with some columns replaced."""
    import pandas as pd

    if not changed:
        return frame
    return pd.DataFrame({name: changed.get(name, frame[name]) for name in frame.columns})


# -------------------------------------------------------------------------------- words


# Missing values in any column: those of pandas without the word None
MISSING = frozenset(
    {
        *("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
        *("<NA>", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null", "?"),
    }
)
_TRUTH_WORDS = {"true": True, "false": False}
_PADDED = re.compile(r"[-+]?0\d+", re.ASCII)
_UNIT = "[$€£¥₹%]"
_SPACE = "[ '\u2019\u00a0\u202f]"  # separates groups of three digits, as a comma or a point does
_DIGITS = rf"\d+|[1-9]\d{{0,2}}(?:{_SPACE}\d{{3}})+"
_POINT_NUMBER = rf"(?:{_DIGITS}|[1-9]\d{{0,2}}(?:,\d{{2,3}})*,\d{{3}})(?:\.\d*)?|\.\d+"
_COMMA_NUMBER = rf"(?:{_DIGITS}|[1-9]\d{{0,2}}(?:\.\d{{3}})+)(?:,\d*)?|,\d+"
_NUMBER = {
    mark: re.compile(
        rf"(?P<sign>[-+\u2212]?)\s*(?P<before>{_UNIT}?)\s*(?P<minus>[-\u2212]?)"
        rf"(?P<digits>{digits})(?P<power>(?:[eE][-+]?\d+)?)\s*(?P<after>{_UNIT}?)"
    )
    for mark, digits in ((".", _POINT_NUMBER), (",", _COMMA_NUMBER))
}
_INTEGER, _LARGEST_INT64 = re.compile(r"[-+]?\d+", re.ASCII), 2**63
_MARKS = {mark: re.compile(rf"{_SPACE}|[{other}]") for mark, other in ((".", ","), (",", "."))}


@dataclass(frozen=True, eq=False)
class Words:
    """A column of text as distinct values and the code of each row.

    Attributes
    ----------
    codes : array (n,)
        Indices in `words`, -1 for a missing value.
    words : list of str
        Distinct values, without blanks at their ends.
    gaps : frozenset of str
        The words that are missing values.
    """

    codes: Any
    words: list[str]
    gaps: frozenset[str] = frozenset()

    @classmethod
    def from_column(cls, column: Any, missing: Collection[str] = MISSING, /) -> Words | None:
        """Read a pandas column; return None if it holds anything but text.

        Words in `missing` are missing values. So are others, such as "-" and "None", if all other
        values are numbers, or dates, or true and false.
        """
        import pandas as pd

        codes, different = pd.factorize(column)
        words = different.tolist()
        if not all(isinstance(word, str) for word in words):
            return None
        found = cls(codes, [word.strip() for word in words])
        gaps = frozenset(word for word in found.words if word in missing)
        likely = {word for word in found.words if word.casefold() in GAPS or word in MISSING}
        clear = replace(found, gaps=gaps | likely)
        dates = clear.values and all(map(reads_as_date, clear.values))
        return clear if clear.decimals or clear.are_truth or dates else replace(found, gaps=gaps)

    @cached_property
    def values(self) -> list[str]:
        """Distinct values that are not missing."""
        return [word for word in self.words if word and word not in self.gaps]

    @cached_property
    def decimals(self) -> str:
        """Decimal marks with which all values are numbers of one unit: "", ".", "," or ".,"."""
        values = self.values
        return "".join(mark for mark in ".," if values and _are_numbers(values, mark))

    @cached_property
    def are_truth(self) -> bool:
        """Whether all values are true or false."""
        return bool(self.values) and all(value.casefold() in _TRUTH_WORDS for value in self.values)

    @cached_property
    def zero_padded_value(self) -> str:
        """A value with leading zeros, as codes have, or "" if there is none."""
        return next(filter(_PADDED.fullmatch, self.values), "")

    def as_truth(self, column: Any) -> Any:
        """Convert the column to booleans."""
        values = [_TRUTH_WORDS.get(word.casefold()) for word in self.words]
        return self._map_words(column, values, object)

    def as_text(self, column: Any, /) -> Any:
        """Convert the column to text with missing values, without blanks at the ends."""
        values = [word if word and word not in self.gaps else None for word in self.words]
        return self._map_words(column, values, column.dtype)

    def as_numbers(self, column: Any, mark: str, /) -> Any:
        """Convert the column to numbers with a decimal mark."""
        import pandas as pd

        plain = [
            _normalize_number(word, mark) if word and word not in self.gaps else None
            for word in self.words
        ]
        whole = [int(text) if text and _INTEGER.fullmatch(text) else None for text in plain]
        if all(number is not None for number, text in zip(whole, plain, strict=True) if text):
            sizes = [abs(number) for number in whole if number is not None]
            if max(sizes, default=0) >= WHOLE:  # float64 would round them beside missing values
                dtype = "Int64" if max(sizes) < _LARGEST_INT64 else object
                return self._map_words(column, whole, dtype)
        return self._map_words(column, pd.to_numeric(pd.Series(plain, dtype=object)), None)

    def _map_words(self, column: Any, values: Any, dtype: Any) -> Any:
        """Return a column with the value of each word."""
        import pandas as pd

        return pd.Series(values, dtype=dtype).reindex(self.codes).set_axis(column.index)


def _are_numbers(values: list[str], mark: str) -> bool:
    units = set()
    for value in values:
        match = _NUMBER[mark].fullmatch(value)
        if match is None or (match["sign"] and match["minus"]):
            return False
        units.add(match["before"] or match["after"])
    return len(units - {""}) < 2


def _normalize_number(value: str, mark: str) -> str:
    """Return a number in Python's notation."""
    match = _NUMBER[mark].fullmatch(value)
    assert match is not None
    digits = _MARKS[mark].sub("", match["digits"]).replace(mark, ".")
    minus = "-" if {match["sign"], match["minus"]} & {"-", "\u2212"} else ""
    return minus + digits + match["power"]


# -------------------------------------------------------------------------------- names


_UNNAMED = "Unnamed: "
_MOST_SHOWN = 20  # columns that a message names


def make_column_names(names: Iterable[Any], /) -> list[str]:
    """Return unique names from a header; warn if two columns share one."""
    names = [str(name) for name in names]
    named = [name or f"{_UNNAMED}{k}" for k, name in enumerate(names)]
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
        renamed = join_names(f"another {old} is called {new}" for old, new in changed)
        warn(f"columns have the same name: {renamed}")
    return unique


def _drop_unnamed_columns(frame: Any) -> Any:
    """Drop unnamed columns that are empty, or that number the rows."""
    nameless = [name for name in frame.columns if name.startswith(_UNNAMED)]
    empty = [name for name in nameless if frame[name].isna().all()]
    numbers = [
        name
        for name in nameless
        if name == f"{_UNNAMED}0" and frame[name].dtype.kind == "i" and frame[name].is_unique
    ]
    if numbers and len(frame) > 1:
        warn("the first column has no name and a different number in every row: it is dropped")
    return frame.drop(columns=empty + numbers)


def check_columns(names: Iterable[str], known: Iterable[str], expected: str, /) -> None:
    """Raise ValueError, with the most similar known name, if a name is unknown."""
    known = set(known)
    missing = [name for name in names if name not in known]
    if missing:
        by_folded = {name.casefold(): name for name in sorted(known)}
        near = difflib.get_close_matches(missing[0].casefold(), by_folded, n=3)
        hint = f" (did you mean {' or '.join(by_folded[name] for name in near)}?)" if near else ""
        msg = f"expected {expected}{join_names(map(repr, missing))}{hint}"
        raise ValueError(msg)


def join_names(names: Iterable[str], /) -> str:
    """Join names; after the first ones, give the number of others."""
    return listed(names, _MOST_SHOWN)
