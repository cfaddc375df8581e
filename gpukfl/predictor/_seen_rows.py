"""Predictions at rows that equal rows of the training set."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np

from gpukfl.core._annotations import AnyValue, Count, Doubles
from gpukfl.core._array import Array, array_namespace, asarray_like, to_host
from gpukfl.core._hashes import hash_rows, row_factors

_BLOCK_ROWS = 2**16  # rows that are looked up together


@dataclass(frozen=True, eq=False)
class SeenRows:
    """A table of the distinct rows of the training set.

    If the models predict p at a row of the table, the blend predicts ``p + pull * (value - p)``.
    All arrays are NumPy's, for rows of any library.

    Attributes
    ----------
    rows : array, shape (m, d)
        Distinct rows, as the blend takes them, in float64.
    values, pulls : arrays, shape (m, t)
        Predictions at the rows, and their weights from 0 to 1. A weight is 1 if the value includes
        a prediction by models that were not fitted to the row.
    spreads : array, shape (m, t)
        Standard deviation of a new target at the row, relative to that at a new row; 0 to 1.
    repeatability : array, shape (t,)
        Share of the residuals' variance that all copies of a row have in common.
    n_copies : int
        Number of given rows with an exact copy.
    score : float
        Score on the rows with copies, each predicted from its copies.
    """

    rows: Annotated[np.ndarray, Doubles("n_seen", "n_columns", any_value=True)]
    values: Annotated[np.ndarray, Doubles("n_seen", "n_outputs")]
    pulls: Annotated[np.ndarray, Doubles("n_seen", "n_outputs")]
    spreads: Annotated[np.ndarray, Doubles("n_seen", "n_outputs")]
    repeatability: Annotated[np.ndarray, Doubles("n_outputs")]
    n_copies: Annotated[int, Count()]
    score: Annotated[float, AnyValue()]

    def check(self) -> None:
        """Raise ValueError unless there are rows, and shares are from 0 to 1."""
        shares = (self.pulls, self.spreads, self.repeatability)
        if not len(self.rows) or not all(((one >= 0) & (one <= 1)).all() for one in shares):
            msg = "expected shares from 0 to 1 of rows that a fit has seen"
            raise ValueError(msg)

    def prepare(self) -> None:
        """Sort the hashes of the rows."""
        assert len(self._sorted[0])

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Hashes in ascending order, the rows' numbers in this order, and columns' factors."""
        factors = row_factors(self.rows.shape[1])
        hashes = hash_rows(self.rows, factors)
        order = np.argsort(hashes, kind="stable")
        return hashes[order], order, factors

    def find(self, X: Array, /) -> tuple[np.ndarray, np.ndarray]:
        """Find rows that are in the table, in O(n (d + log m)).

        Parameters
        ----------
        X : array, shape (n, d)
            Rows of any library, which are compared on the host; NaN equals NaN.

        Returns
        -------
        tuple of arrays (k,)
            Ascending numbers of the rows of `X` that are in the table, and their numbers there.
        """
        n = X.shape[0]
        found = [
            self._find(to_host(X[start : min(start + _BLOCK_ROWS, n), :]).astype(np.float64), start)
            for start in range(0, n, _BLOCK_ROWS)
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
        weights = asarray_like(pulls, found)
        moved = found + weights * (asarray_like(values, found) - found)
        return xp.where(weights > 0, moved, found)

    def narrow(self, X: Array, ends: np.ndarray, centers: np.ndarray, /) -> np.ndarray:
        """Narrow quantiles (n, t, q) towards predictions (n, t) at rows of the table."""
        index, number = self.find(X)
        ends, middle = ends.copy(), centers[index][:, :, None]
        ends[index] = middle + self.spreads[number][:, :, None] * (ends[index] - middle)
        return ends
