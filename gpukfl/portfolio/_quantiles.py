"""Conformal quantiles: of values that are sorted in groups, which a new row moves and stretches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_BLOCK = 2**14  # new rows at a time


@dataclass(frozen=True, eq=False)
class SortedGroups:
    r"""Values in groups, of which quantiles are wanted after each group is moved and stretched.

    A new row has a centre :math:`c_g` and a spread :math:`s_g` for each group; its quantile is that
    of all :math:`c_g + s_g v` with v in group g. The groups stay sorted, so that n values and m
    rows need no table of n x m.

    Attributes
    ----------
    values : tuple of arrays (n_g,)
        Ascending.
    reached : tuple of arrays (n_g + 1,)
        Weight of the first so many.
    """

    values: tuple[np.ndarray, ...]
    reached: tuple[np.ndarray, ...]

    @classmethod
    def of(
        cls, values: np.ndarray, groups: np.ndarray, n_groups: int, weights: np.ndarray, /
    ) -> SortedGroups:
        """Sort `values` (n,) of rows in `groups` (n,) 0, ..., n_groups - 1."""
        orders = [np.flatnonzero(groups == g) for g in range(n_groups)]
        orders = [rows[np.argsort(values[rows], kind="stable")] for rows in orders]
        return cls(
            tuple(values[rows] for rows in orders),
            tuple(np.concatenate([[0.0], np.cumsum(weights[rows])]) for rows in orders),
        )

    def quantile(self, centers: np.ndarray, spreads: np.ndarray, wanted: float, /) -> np.ndarray:
        """Smallest value at or below which the weights sum to `wanted`, for every new row.

        Parameters
        ----------
        centers, spreads : arrays, shape (G, m)
            Of the groups at the new rows; spreads positive.
        wanted : float
            At most the sum of the weights.

        Returns
        -------
        array, shape (m,)
            One of the moved and stretched values, up to rounding. O(m G log(n / G)) where groups
            are alike, by a search in all of them at once.
        """
        m = centers.shape[1]
        starts = range(0, m, _BLOCK)
        found = [
            self._search(centers[:, i : i + _BLOCK], spreads[:, i : i + _BLOCK], wanted)
            for i in starts
        ]
        return np.concatenate(found) if found else np.empty(0)

    def _search(self, centers: np.ndarray, spreads: np.ndarray, wanted: float) -> np.ndarray:
        """Halve what is left of the longest group, and cut the others at the same value."""
        n_groups, m = centers.shape
        best = np.full(m, np.inf)
        low = np.zeros((n_groups, m), dtype=np.int64)
        high = np.repeat(np.array([[len(v)] for v in self.values]), m, axis=1)
        rows = np.arange(m)  # whose search goes on
        while len(rows):
            longest = np.argmax(high - low, axis=0)
            columns = np.arange(len(rows))
            middle = (low[longest, columns] + high[longest, columns]) // 2
            own = longest[None, :] == np.arange(n_groups)[:, None]
            c, s = centers[:, rows], spreads[:, rows]
            pivot = c[longest, columns] + s[longest, columns] * self._at(longest, middle)
            below, upto = self._ranks((pivot - c) / s)
            # The pivot's own rank is known; rounding must not keep it in play
            below = np.where(own, np.minimum(below, middle), below)
            upto = np.where(own, np.maximum(upto, middle + 1), upto)
            enough = sum(r[k] for r, k in zip(self.reached, upto, strict=True)) >= wanted
            best[rows[enough]] = np.minimum(best[rows[enough]], pivot[enough])
            high = np.where(enough, np.minimum(high, below), high)
            low = np.where(enough, low, np.maximum(low, upto))
            open_ = (high > low).any(axis=0)
            rows, low, high = rows[open_], low[:, open_], high[:, open_]
        return best

    def _at(self, groups: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Values of index[k] in group groups[k]."""
        begins = np.cumsum([0, *(len(v) for v in self.values[:-1])])
        return np.concatenate(self.values)[begins[groups] + index]

    def _ranks(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How many of each group lie below values (G, m), and how many at or below."""
        pairs = list(zip(self.values, values, strict=True))
        return (
            np.stack([np.searchsorted(v, x, side="left") for v, x in pairs]),
            np.stack([np.searchsorted(v, x, side="right") for v, x in pairs]),
        )
