"""Which rows of a table are held out for a score."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gpukfl.tables._target import Target

_FEWEST = 2  # different rows that a fit takes


def check_fraction(fraction: float) -> None:
    """Raise ValueError unless a share of the rows can be held out, and others are left."""
    if not 0 <= fraction < 1:
        msg = f"expected --test-fraction of at least 0 and below 1, got {fraction}"
        raise ValueError(msg)


def split(X: Any, target: Target, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and to test: copies of a row on one side, a share of every class on each."""
    from sklearn.model_selection import train_test_split

    from gpukfl.estimators._copies import copies_of
    from gpukfl.estimators._samples import by_appearance

    rows = np.arange(len(target.y))
    firsts, group = copies_of(_comparable(X), target.y) or (rows, rows)
    n_out = round(fraction * len(firsts))
    if n_out == 0:
        return rows, rows[:0]
    if len(firsts) - n_out < _FEWEST:
        most = math.floor(1000 * max(1 - _FEWEST / len(firsts), 0)) / 1000
        msg = (
            f"expected --test-fraction of at most {most:g}, which leaves {_FEWEST} of "
            f"{len(firsts)} different rows to fit, got {fraction}"
        )
        raise ValueError(msg)
    classes = None
    if target.task == "classification":
        _, classes, counts = np.unique(target.y[firsts], return_inverse=True, return_counts=True)
        few = counts.min() < 2 or len(counts) > min(n_out, len(firsts) - n_out)
        classes = None if few else by_appearance(classes)
    inside, _ = train_test_split(
        np.arange(len(firsts)), test_size=n_out, stratify=classes, random_state=seed
    )
    fitted = np.isin(group, inside)
    return rows[fitted], rows[~fitted]


def _comparable(X: Any) -> np.ndarray:
    """Numbers (n, d) that are equal where the values of a frame are, gaps included."""
    columns = [X.iloc[:, k] for k in range(X.shape[1])]
    if all(column.dtype.kind in "iufb" and not column.hasnans for column in columns):
        return X.to_numpy()
    return np.column_stack([_numbered(column) for column in columns]).astype(np.float64)


def _numbered(column: Any) -> np.ndarray:
    """Which of its different values (n,) each row has, -1 where it has none."""
    import pandas as pd

    try:
        return pd.factorize(column)[0]
    except TypeError:  # lists and the like, of Parquet
        return pd.factorize(column.astype(str))[0]


def score_name(model: Any, n: int, /) -> str:
    """Name the score of a model on so many rows: its measure first."""
    measure = "R²" if model.task == "regression" else "accuracy"
    return f"{measure} on {n} held-out rows"
