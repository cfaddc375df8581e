"""Rows that a fit has seen, and what is predicted where they come again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np

from gpukfl.core._annotations import AnyValue, Count, Doubles
from gpukfl.core._array import Array, array_namespace, asarray_like, to_host
from gpukfl.core._hashes import hash_rows, row_factors

_AT_ONCE = 2**16  # rows that are looked up at a time


@dataclass(frozen=True, eq=False)
class SeenRows:
    """A table of the different rows of a fit, for rows that come again.

    With p what models predict, a row of the table is predicted as ``p + pull * (value - p)``. All
    arrays are NumPy's, whatever library rows are of.

    Attributes
    ----------
    rows : array, shape (m, d)
        Rows as the blend takes them, in float64; all different.
    values, pulls : arrays, shape (m, t)
        What is predicted there, and the share of the way to it, from 0 to 1: 1 where `values` begin
        from a prediction by models that have not seen the row.
    spreads : array, shape (m, t)
        Deviation of a new target there, in units of that at a new row; from 0 to 1.
    repeatability : array, shape (t,)
        Share of the variance of residuals that is alike in all copies of a row.
    n_copies : int
        Given rows of which there was another one.
    score : float
        Of these, each predicted by its copies.
    """

    rows: Annotated[np.ndarray, Doubles("n_seen", "n_columns", any_value=True)]
    values: Annotated[np.ndarray, Doubles("n_seen", "n_outputs")]
    pulls: Annotated[np.ndarray, Doubles("n_seen", "n_outputs")]
    spreads: Annotated[np.ndarray, Doubles("n_seen", "n_outputs")]
    repeatability: Annotated[np.ndarray, Doubles("n_outputs")]
    n_copies: Annotated[int, Count()]
    score: Annotated[float, AnyValue()]

    def check(self) -> None:
        """Raise ValueError unless shares are from 0 to 1, and there is a row."""
        shares = (self.pulls, self.spreads, self.repeatability)
        if not len(self.rows) or not all(((one >= 0) & (one <= 1)).all() for one in shares):
            msg = "expected shares from 0 to 1 of rows that a fit has seen"
            raise ValueError(msg)

    def prepare(self) -> None:
        """Sort the hashes of the rows."""
        assert len(self._sorted[0])

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Hashes in ascending order, whose rows they are, and the factors of the columns."""
        factors = row_factors(self.rows.shape[1])
        hashes = hash_rows(self.rows, factors)
        order = np.argsort(hashes, kind="stable")
        return hashes[order], order, factors

    def find(self, X: Array, /) -> tuple[np.ndarray, np.ndarray]:
        """Find rows of the table.

        Parameters
        ----------
        X : array, shape (n, d)
            Of any library; compared on the host.

        Returns
        -------
        tuple of arrays (k,)
            Which rows of `X` are in the table, ascending, and their numbers there: where all values
            are equal, and NaN equals NaN. O(n (d + log m)).
        """
        n = X.shape[0]
        found = [
            self._find(to_host(X[start : min(start + _AT_ONCE, n), :]).astype(np.float64), start)
            for start in range(0, n, _AT_ONCE)
        ]
        index, number = zip(*found, strict=True) if found else ((), ())
        nothing = np.empty(0, dtype=np.int64)
        return np.concatenate([nothing, *index]), np.concatenate([nothing, *number])

    def _find(self, rows: np.ndarray, start: int) -> tuple[np.ndarray, np.ndarray]:
        hashes, order, factors = self._sorted
        own = hash_rows(rows, factors)
        place = np.minimum(np.searchsorted(hashes, own), len(hashes) - 1)
        index = np.flatnonzero(hashes[place] == own)
        number, asked = order[place[index]], rows[index]
        known = self.rows[number]
        same = np.all((asked == known) | (np.isnan(asked) & np.isnan(known)), axis=1)
        return index[same] + start, number[same]

    def move(self, X: Array, found: Array, /) -> Array:
        """Move predictions (n, t) at rows (n, d) that are in the table; others stay as they are."""
        index, number = self.find(X)
        if not len(index):
            return found
        xp = array_namespace(found)
        values, pulls = np.zeros(found.shape), np.zeros(found.shape)
        values[index], pulls[index] = self.values[number], self.pulls[number]
        here = asarray_like(pulls, found)
        moved = found + here * (asarray_like(values, found) - found)
        return xp.where(here > 0, moved, found)

    def narrow(self, X: Array, ends: np.ndarray, centers: np.ndarray, /) -> np.ndarray:
        """Narrow quantiles (n, t, q) about predictions (n, t) at rows that are in the table."""
        index, number = self.find(X)
        ends, middle = ends.copy(), centers[index][:, :, None]
        ends[index] = middle + self.spreads[number][:, :, None] * (ends[index] - middle)
        return ends
