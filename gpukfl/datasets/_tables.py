"""Tables from CSV, Parquet and NumPy files, and sets that ship with scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

BUNDLED = ("breast_cancer", "diabetes", "digits", "iris", "wine")


@dataclass(frozen=True, eq=False)
class Table:
    """Features as a frame, and the target where there is one."""

    X: Any  # pandas.DataFrame
    y: np.ndarray | None
    target: str | None


def load_table(
    source: str, target: str | None = None, *, features: list[str] | None = None
) -> Table:
    """Load `source`: a CSV, Parquet or .npz file, or the name of a bundled set.

    Parameters
    ----------
    source : str
        A path, or one of `BUNDLED`. An .npz file holds X (n, d), and y (n,) if it has a target.
    target : str, optional
        Column to predict. By default the last one of a file, "y" of an .npz file, and the
        target of a bundled set.
    features : list of str, optional
        Take just these columns and no target.

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
        missing = [name for name in features if name not in frame.columns]
        if missing:
            msg = f"expected the columns {', '.join(features)}, got none called {missing[0]}"
            raise ValueError(msg)
        return Table(frame[features], None, None)
    target = default if target is None else target
    if target is None:
        return Table(frame, None, None)
    if target not in frame.columns:
        msg = f"expected --target to be one of {', '.join(map(str, frame.columns))}, got {target!r}"
        raise ValueError(msg)
    if frame.shape[1] < 2:
        msg = f"expected a table with a target and at least one feature, got {list(frame.columns)}"
        raise ValueError(msg)
    y = frame[target]
    if y.isna().any():
        msg = f"expected a target in every row, got {int(y.isna().sum())} missing in {target}"
        raise ValueError(msg)
    return Table(frame.drop(columns=[target]), y.to_numpy(), target)


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
        frame = pd.read_parquet(path) if suffix in (".parquet", ".pq") else pd.read_csv(path)
    except ImportError as error:
        msg = "reading Parquet needs pyarrow: `pip install 'gpukfl[parquet]'`"
        raise ValueError(msg) from error
    except (ValueError, OSError, KeyError) as error:
        msg = f"expected a CSV, Parquet or .npz table, got {source!r}: {error}"
        raise ValueError(msg) from error
    frame.columns = [str(name) for name in frame.columns]
    return frame, str(frame.columns[-1])


def _read_npz(path: Path) -> tuple[Any, str | None]:
    import pandas as pd

    with np.load(path, allow_pickle=False) as archive:
        X = archive["X"]
        y = archive["y"] if "y" in archive.files else None
    if X.ndim != 2:
        msg = f"expected X of shape (n, d) in {path}, got {X.shape}"
        raise ValueError(msg)
    names = [f"x{k}" for k in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    if y is None:
        return frame, None
    return frame.assign(y=y), "y"
