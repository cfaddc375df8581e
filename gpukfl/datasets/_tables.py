"""Tables from CSV, Parquet and NumPy files, and sets that ship with scikit-learn."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from lzma import LZMAError
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from gpukfl.datasets._text import read_text_table

_NAMED = 20  # columns that a message names
BUNDLED = ("breast_cancer", "diabetes", "digits", "iris", "wine")


@dataclass(frozen=True, eq=False)
class Table:
    """Features as a frame, and the target where there is one."""

    X: Any  # pandas.DataFrame
    y: np.ndarray | None
    target: str | None


def load_table(
    source: str,
    target: str | None = None,
    *,
    features: list[str] | None = None,
    drop: Sequence[str] = (),
) -> Table:
    """Load `source`: a CSV, Parquet or .npz file, or the name of a bundled set.

    A CSV file may be separated by commas, semicolons, tabs, bars or blanks, and compressed.

    Parameters
    ----------
    source : str
        A path, or one of `BUNDLED`. An .npz file holds X (n, d), and y (n,) if it has a target.
    target : str, optional
        Column to predict. By default the last one of a file, "y" of an .npz file, and the
        target of a bundled set.
    features : list of str, optional
        Take just these columns and no target.
    drop : sequence of str, optional
        Leave these columns out.

    Returns
    -------
    Table
        Features, target and its name.

    Raises
    ------
    ValueError
        If the source or a column does not exist, or the file cannot be read as a table.
    """
    frame, default = _read(source)
    if features is not None:
        wanted = f"the columns {_listed(features)}, got none called "
        _check_columns(features, frame, wanted)
        return Table(frame[features], None, None)
    known = f"one of {_listed(frame.columns)}, got "
    _check_columns(drop, frame, f"each column to drop to be {known}")
    if target is not None:
        _check_columns([target], frame, f"--target to be {known}")
    frame = frame.drop(columns=[name for name in drop if name != target])
    return _split_target(frame, target, default)


def _split_target(frame: Any, target: str | None, default: str | None) -> Table:
    """Take the target out, by default the last column of a file."""
    hint = ""
    if target is None and default is not None:
        target = default if default in frame.columns else str(frame.columns[-1])
        hint = ": it is the last column, --target names another"
    if target is None:
        return Table(frame, None, None)
    if frame.shape[1] < 2:
        msg = f"expected a table with a target and at least one feature, got {list(frame.columns)}"
        raise ValueError(msg)
    y = frame[target]
    if y.isna().any():
        msg = f"expected a target in every row, got {int(y.isna().sum())} missing in {target}{hint}"
        raise ValueError(msg)
    return Table(frame.drop(columns=[target]), y.to_numpy(), target)


def _check_columns(names: Iterable[str], frame: Any, expected: str) -> None:
    """Raise ValueError with the nearest names unless the frame has all columns."""
    missing = [name for name in names if name not in frame.columns]
    if missing:
        known = {str(name).casefold(): str(name) for name in frame.columns}
        near = difflib.get_close_matches(missing[0].casefold(), known, n=3)
        hint = f" (did you mean {' or '.join(known[name] for name in near)}?)" if near else ""
        msg = f"expected {expected}{_listed(map(repr, missing))}{hint}"
        raise ValueError(msg)


def _listed(names: Iterable[Any]) -> str:
    names = list(map(str, names))
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _read(source: str) -> tuple[Any, str | None]:
    """Frame with every column, and the target it has by default."""
    import pandas as pd

    if source in BUNDLED:
        from sklearn import datasets

        data = getattr(datasets, f"load_{source}")(as_frame=True)
        frame = data.frame
        if hasattr(data, "target_names") and source != "diabetes":
            frame = frame.assign(target=np.asarray(data.target_names)[data.target].astype(str))
        return frame, "target"
    path = Path(source)
    if not path.is_file():
        msg = f"expected a file, or one of {', '.join(BUNDLED)}, got {source!r}"
        raise ValueError(msg)
    suffix = path.suffix.lower()
    try:
        if suffix == ".npz":
            return _read_npz(path)
        read = pd.read_parquet if suffix in (".parquet", ".pq") else read_text_table
        frame = read(path)
    except ImportError as error:
        msg = "reading Parquet needs pyarrow: `pip install 'gpukfl[parquet]'`"
        raise ValueError(msg) from error
    except (ValueError, OSError, KeyError, EOFError, BadZipFile, LZMAError) as error:
        msg = f"expected a CSV, Parquet or .npz table, got {source!r}: {error}"
        raise ValueError(msg) from error
    frame.columns = [str(name) for name in frame.columns]
    return frame, str(frame.columns[-1])


def _read_npz(path: Path) -> tuple[Any, str | None]:
    import pandas as pd

    with np.load(path, allow_pickle=False) as archive:
        if "X" not in archive.files:
            msg = f"expected arrays X and y in it, got {', '.join(archive.files)}"
            raise ValueError(msg)
        X = archive["X"]
        y = archive["y"] if "y" in archive.files else None
    if X.ndim != 2:
        msg = f"expected X of shape (n, d) in {path}, got {X.shape}"
        raise ValueError(msg)
    names = [f"x{k}" for k in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    if y is None:
        return frame, None
    if y.ndim != 1 and y.shape != (len(X), 1):
        msg = f"expected y of shape (n,), got {y.shape}"
        raise ValueError(msg)
    y = y.reshape(-1)
    return frame.assign(y=y), "y"
