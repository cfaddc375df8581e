"""Rows whose values in some columns are redrawn, given all others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

_ROUNDING = 1e-12  # of a sum of losses; closer ones are equal


@dataclass(frozen=True, eq=False)
class Redrawn(ABC):
    """Rows, and values that they may have instead of their own.

    A table (n, v) or (n, v, t) says something of each row with each of its values.

    Attributes
    ----------
    rows : array of int, shape (n,)
        Which rows they are.
    values : array, shape (n, v, g)
        Of g columns; what the row has itself is among them.
    own : array of int, shape (n,)
        Which of the values that is.
    """

    rows: np.ndarray
    values: np.ndarray
    own: np.ndarray

    def actual(self, table: np.ndarray, /) -> np.ndarray:
        """Give what a table says of the rows as they are: (n,)."""
        return table[np.arange(len(self.own)), self.own]

    @abstractmethod
    def middle(self, table: np.ndarray, /) -> np.ndarray:
        """Average a table over the values, in a way that no redrawing changes."""

    @abstractmethod
    def expected(self, table: np.ndarray, /) -> np.ndarray:
        """Give the mean of a table over redrawn values."""

    @abstractmethod
    def sums(self, table: np.ndarray, count: int, rng: np.random.RandomState, /) -> np.ndarray:
        """Redraw all rows so many times, and sum up a table (n, v) over them: (count,)."""

    def p_value(self, losses: np.ndarray, count: int, rng: np.random.RandomState, /) -> float:
        r"""Compare the sum of losses with redrawn ones: :math:`(1 + \#\{T_b \le T\}) / (1 + B)`."""
        actual = float(self.actual(losses).sum())
        as_low = self.sums(losses, count, rng) <= actual + _ROUNDING * abs(actual)
        return float(1 + np.count_nonzero(as_low)) / (1 + count)


@dataclass(frozen=True, eq=False)
class Permuted(Redrawn):
    """Rows in blocks of v, each with the residuals of all rows of its block.

    They are redrawn by permutations inside the blocks, of which there are many more than values
    that a model is asked of.
    """

    @classmethod
    def of(
        cls, values: np.ndarray, means: np.ndarray, scales: np.ndarray, blocks: np.ndarray, /
    ) -> Permuted:
        """Give rows in blocks (b, v) residuals of values (m, g) of all rows from means (m, g).

        In units of the scales (m, g) of both rows.
        """
        size = blocks.shape[1]
        residuals = ((values - means) / scales)[blocks]
        moved = scales[blocks][:, :, None, :] * residuals[:, None, :, :]
        copies = means[blocks][:, :, None, :] + moved
        own = np.arange(size)
        copies[:, own, own, :] = values[blocks]  # as they are, to the last bit
        flat = copies.reshape(blocks.size, size, values.shape[1])
        return cls(blocks.ravel(), flat, np.tile(own, len(blocks)))

    def middle(self, table: np.ndarray, /) -> np.ndarray:
        """Average a table over all residuals of the block, the row's own among them."""
        return table.mean(axis=1)

    def expected(self, table: np.ndarray, /) -> np.ndarray:
        """Give the mean of a table over the residuals of other rows."""
        size, actual = table.shape[1], self.actual(table)
        return (table.sum(axis=1) - actual) / (size - 1) if size > 1 else actual

    def sums(self, table: np.ndarray, count: int, rng: np.random.RandomState, /) -> np.ndarray:
        """Draw permutations inside every block, and sum up a table: (count,)."""
        size = table.shape[1]
        total, rows = np.zeros(count), np.arange(size)
        for block in table.reshape(-1, size, size):
            permutations = np.argsort(rng.random_sample((count, size)), axis=1)
            total += block[rows, permutations].sum(axis=1)
        return total


@dataclass(frozen=True, eq=False)
class Drawn(Redrawn):
    """Rows with each of v levels, which have probabilities (n, v)."""

    probabilities: np.ndarray

    @classmethod
    def of(
        cls, values: np.ndarray, levels: np.ndarray, shares: np.ndarray, rows: np.ndarray, /
    ) -> Drawn:
        """Give some rows all levels (m,) of values (m, g), by their probabilities (m, v)."""
        known = values[np.unique(levels, return_index=True)[1]]
        each = np.broadcast_to(known, (len(rows), *known.shape))
        return cls(rows, each, levels[rows], shares[rows])

    def middle(self, table: np.ndarray, /) -> np.ndarray:
        """Average a table over the levels."""
        return np.einsum("nv,nv...->n...", self.probabilities, table)

    def expected(self, table: np.ndarray, /) -> np.ndarray:
        """Give the mean of a table over the levels."""
        return self.middle(table)

    def sums(self, table: np.ndarray, count: int, rng: np.random.RandomState, /) -> np.ndarray:
        """Draw a level for every row, and sum up a table: (count,)."""
        ends = np.cumsum(self.probabilities, axis=1)[:, :-1]
        total = np.zeros(count)
        for row, steps in zip(table, ends, strict=True):
            total += row[np.searchsorted(steps, rng.random_sample(count), side="right")]
        return total
