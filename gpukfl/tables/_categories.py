"""Which columns of numbers stand for one category together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpukfl.tables._encoding import Encoding


@dataclass(frozen=True, eq=False)
class Category:
    """A category of few levels, of which each has a column.

    Attributes
    ----------
    name : str
        Of the table's column.
    columns : tuple of int
        All columns of numbers that are made of it.
    marks : tuple of int
        Those of the levels.
    levels : tuple of str
        What each of these marks.
    """

    name: str
    columns: tuple[int, ...]
    marks: tuple[int, ...]
    levels: tuple[str, ...]

    def examples(self, X: np.ndarray, /) -> tuple[np.ndarray, tuple[str, ...]]:
        """Give what `columns` are of each level that encoded rows have, (g, c), and their names."""
        marks = X[:, self.marks]
        level = np.where(marks.any(axis=1), marks.argmax(axis=1), len(self.marks))
        present = np.unique(level)
        names = [(*self.levels, "another")[k] for k in present]  # that the fit has not seen
        # All rows of a level are alike, but for numbers that stand for missing ones
        found = np.stack([np.median(X[level == k][:, self.columns], axis=0) for k in present])
        if len(self.columns) > len(self.marks):  # led by the number, which missing ones have not
            order = np.lexsort([found[:, 0], np.array(names) == "missing"])
            found, names = found[order], [names[k] for k in order]
        return found, tuple(names)


def categories_of(encoding: Encoding, /) -> tuple[Category, ...]:
    """Give the categories whose levels have columns."""
    outputs, sources = encoding.outputs, np.asarray(encoding.sources, dtype=np.int64)
    codes = np.array([one.column for one in outputs], dtype=np.int64)
    found = []
    for j, coded in enumerate(encoding.coded):
        marks = np.flatnonzero(codes == j)
        if not coded.levels or not all(outputs[k].weighed for k in marks):
            continue
        # A number that is a category too has a column of numbers beside, which goes with the level
        columns = np.flatnonzero(sources == coded.source)
        levels = [*coded.labels, *["missing"] * coded.gaps]
        found.append(
            Category(coded.name, tuple(columns.tolist()), tuple(marks.tolist()), tuple(levels))
        )
    return tuple(found)
