r"""Shapley values of columns with an interventional background, by orders or by all subsets.

With background rows :math:`b_1, \dots, b_B` the game of a row x is

.. math:: v(S) = \frac1B \sum_g f(x_S, b_{g, -S}),

of which player j is paid :math:`\varphi_j`, the mean of :math:`v(S \cup j) - v(S)` over all orders
of the players, S being those before j.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpukfl.core._array import Array, array_namespace, index_like, is_host, to_host

MOST_PLAYERS = 12  # of which all subsets may be taken
_ELEMENTS = 2**22  # of rows that are evaluated at once
_TINY = np.finfo(np.float64).tiny

Evaluate = Callable[[Array], np.ndarray]  # rows (m, d) -> host values (m, t)


@dataclass(frozen=True, eq=False)
class ShapleyGames:
    """The games of n rows x against G background rows b.

    Attributes
    ----------
    evaluate : callable
        The function f of rows (m, d): host values (m, t).
    X, background : arrays, shapes (n, d) and (G, d)
        x and b, of one library; NaN equals NaN.
    at_rows, at_background : host arrays, shapes (n, t) and (G, t)
        f there.
    players : host array of int, shape (d,)
        The player 0, ..., p - 1 that each column belongs to.
    """

    evaluate: Evaluate
    X: Array
    background: Array
    at_rows: np.ndarray
    at_background: np.ndarray
    players: np.ndarray

    @property
    def n_players(self) -> int:
        """The number p of players."""
        return int(self.players.max()) + 1

    def differ(self) -> np.ndarray:
        """Return whether x and b differ in a column of each player: (n, G, p)."""
        x, b = to_host(self.X)[:, None, :], to_host(self.background)[None, :, :]
        columns = (x != b) & ~(np.isnan(x) & np.isnan(b))
        return np.stack(
            [columns[..., self.players == j].any(axis=-1) for j in range(self.n_players)], axis=-1
        )

    def mix(self, row: np.ndarray, other: np.ndarray, inside: np.ndarray, /) -> np.ndarray:
        """Return f at rows with the columns of some players of x, and others of b.

        Parameters
        ----------
        row, other : host arrays of int, shape (m,)
            Which x and b.
        inside : host array of bool, shape (m, p)
            The players whose columns are of x.

        Returns
        -------
        host array, shape (m, t)
        """
        step = max(1, _ELEMENTS // len(self.players))
        parts = [np.empty((0, self.at_rows.shape[1]))]
        for start in range(0, len(row), step):
            some = slice(start, start + step)
            mask = inside[some][:, self.players]
            parts.append(self.evaluate(_mix(self, row[some], other[some], mask)))
        return np.concatenate(parts)


def _mix(games: ShapleyGames, row: np.ndarray, other: np.ndarray, mask: np.ndarray) -> Array:
    X, B = games.X, games.background
    if is_host(X):
        return np.where(mask, to_host(X)[row], to_host(B)[other])
    xp, at = array_namespace(X), index_like(X)
    x = xp.take(X, xp.asarray(row, **at), axis=0)
    b = xp.take(B, xp.asarray(other, **at), axis=0)
    return xp.where(xp.asarray(mask, dtype=xp.bool, device=at["device"]), x, b)


# --------------------------------------------------------------------------------- subsets


def all_subsets(p: int, /) -> np.ndarray:
    """Return all subsets (2^p, p) of p players as rows of bool, in binary order."""
    return (np.arange(2**p)[:, None] >> np.arange(p)[None, :]) % 2 == 1


def subset_weights(p: int, /) -> np.ndarray:
    r"""Return the weights (p, 2^p) that make Shapley values of the values of all subsets.

    Of a subset S that has player j it is :math:`(|S| - 1)!\,(p - |S|)! / p!`, of one without j
    :math:`-|S|!\,(p - |S| - 1)! / p!` (Shapley 1953).
    """
    inside = all_subsets(p)
    size = inside.sum(axis=1)
    share = np.array([1.0 / (p * math.comb(p - 1, k)) for k in range(p)])
    with_j, without = share[np.maximum(size - 1, 0)], share[np.minimum(size, p - 1)]
    return np.where(inside.T, with_j, -without)


def subset_contributions(games: ShapleyGames, /) -> np.ndarray:
    """Return exact Shapley values of every x against every b.

    Parameters
    ----------
    games : ShapleyGames
        Of at most 12 players.

    Returns
    -------
    host array, shape (n, G, p, t)
        At most 2^p - 2 evaluations for each pair: equal columns of x and b are left out.

    Raises
    ------
    ValueError
        If there are more players.
    """
    p = games.n_players
    if p > MOST_PLAYERS:
        msg = f"expected at most {MOST_PLAYERS} players for all subsets, got {p}"
        raise ValueError(msg)
    differ, inside, bits = games.differ(), all_subsets(p), 2 ** np.arange(p)
    # A subset has the value of the one without players that change nothing
    number, whole = (differ[:, :, None, :] & inside) @ bits, differ @ bits
    inner = (number == np.arange(2**p)) & (number > 0) & (number < whole[:, :, None])
    row, other, subset = np.nonzero(inner)
    n, g, m = len(games.at_rows), len(games.at_background), len(row)
    values = np.concatenate(
        [games.at_background, games.mix(row, other, inside[subset]), games.at_rows]
    )
    at = np.zeros(number.shape, dtype=np.int64)
    at[row, other, subset] = g + np.arange(m)
    np.put_along_axis(at, whole[:, :, None], g + m + np.arange(n)[:, None, None], axis=2)
    at[:, :, 0] = np.arange(g)
    return np.asarray(subset_weights(p) @ values[np.take_along_axis(at, number, axis=2)])


# ---------------------------------------------------------------------------------- orders


def draw_orders(p: int, count: int, rng: np.random.RandomState, /) -> np.ndarray:
    """Draw `count` pairs of an order of p players and its reverse: (count, 2, p).

    Antithetic pairs: Mitchell, Cooper, Frank and Holmes, "Sampling permutations for Shapley value
    estimation", JMLR 23, 2022, Section 4.
    """
    orders = np.stack([rng.permutation(p) for _ in range(count)])
    return np.stack([orders, orders[:, ::-1]], axis=1)


def order_contributions(games: ShapleyGames, orders: np.ndarray, /) -> np.ndarray:
    """Return what players add to f as they change from b to x one after another.

    Parameters
    ----------
    games : ShapleyGames
        n rows, G background rows.
    orders : host array of int, shape (G, W, p)
        Orders of the players, for each background row.

    Returns
    -------
    host array, shape (n, G, W, p, t)
        In the order of the players. Of sum f(x) - f(b) along players up to rounding. At most
        p - 1 evaluations for each order; none where columns of x and b are equal.
    """
    moves = np.take_along_axis(games.differ()[:, :, None, :], orders[None], axis=3)
    left = np.flip(np.cumsum(np.flip(moves, axis=3), axis=3), axis=3)
    row, other, walk, step = np.nonzero(moves & (left > 1))
    rank = np.argsort(orders, axis=2)
    inside = rank[other, walk] <= step[:, None]
    g, m = len(games.at_background), len(row)
    values = np.concatenate([games.at_background, games.mix(row, other, inside), games.at_rows])
    at = np.zeros((*moves.shape[:3], moves.shape[3] + 1), dtype=np.int64)
    at[..., 0] = np.arange(g)[:, None]
    at[row, other, walk, step + 1] = g + np.arange(m)
    last = np.nonzero(moves & (left == 1))
    at[(*last[:3], last[3] + 1)] = g + m + last[0]
    values = values[np.maximum.accumulate(at, axis=3)]
    return np.take_along_axis(np.diff(values, axis=3), rank[None, ..., None], axis=3)


# -------------------------------------------------------------------------------- estimate


@dataclass(eq=False)
class ShapleyEstimate:
    """The mean over background rows, of which some may not have been taken yet.

    Attributes
    ----------
    baseline : host array, shape (t,)
        Mean of f over all background rows.
    n_background : int
        How many there are.
    """

    baseline: np.ndarray
    n_background: int
    _sums: dict[str, Any] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many background rows were taken."""
        return int(self._sums.get("count", 0))

    def add(self, found: np.ndarray, at_background: np.ndarray, /, *, exact: bool = False) -> None:
        """Add contributions (n, G, R, p, t) of R draws against each of G rows, with f (G, t).

        Those of all subsets are exact.
        """
        n_rows, n_draws = found.shape[1:3]
        mean = found.mean(axis=2)
        gap = (at_background - self.baseline)[None, :, None, :]
        parts: dict[str, Any] = {
            "mean": mean.sum(axis=1),
            "square": (mean**2).sum(axis=1),
            "product": (mean * gap).sum(axis=1),
            "gap": gap.sum(axis=1),
            "gap_square": (gap**2).sum(axis=1),
            "share": n_rows / n_draws,
            "count": n_rows,
        }
        if exact or n_draws > 1:
            variance = 0.0 * mean if exact else found.var(axis=2, ddof=1)
            parts |= {"variance": variance.sum(axis=1), "n_variances": n_rows}
        # At once, so that an interruption leaves the sums of whole blocks
        self._sums = self._sums | {k: self._sums.get(k, 0.0) + one for k, one in parts.items()}

    def contributions(self, at_rows: np.ndarray, /) -> np.ndarray:
        """Return estimates (n, p, t) of sum f(x) - baseline, for f (n, t) at the rows.

        Of background rows that were not taken f is known: their mean is a control variate, with
        which the estimates are regressed on f. The coefficients of all players have the sum -1.
        """
        mean, _ = self._regress()
        rest = (at_rows - self.baseline)[:, None, :] - mean.sum(axis=1, keepdims=True)
        share = mean**2 + _TINY  # of what is left of rounding, or of a single background row
        return np.asarray(mean + rest * share / share.sum(axis=1, keepdims=True))

    def standard_errors(self) -> np.ndarray:
        """Return standard errors (n, p, t) of the estimates, given the background; NaN unknown.

        Where all background rows were taken, they are those of the draws: of their variance for one
        row, averaged over the rows that had several. Else the rows that were taken are a sample.
        """
        sums, count = self._sums, self.count
        if count >= self.n_background and "variance" in sums:
            of_draw = sums["variance"] / sums["n_variances"]
            return np.asarray(np.sqrt(of_draw * sums["share"]) / count)
        _, square = self._regress()
        if count < 3:
            return np.full(sums["mean"].shape, np.nan)
        return np.asarray(np.sqrt(square / ((count - 2) * count)))

    def _regress(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means at the mean f, and residual sums of squares, both (n, p, t)."""
        sums, count = self._sums, self.count
        mean, gap = sums["mean"] / count, sums["gap"] / count
        spread = np.maximum(sums["gap_square"] - count * gap**2, 0.0)
        product = sums["product"] - count * mean * gap
        known = spread > 1e-12 * sums["gap_square"]
        slope = np.where(known, product / np.where(known, spread, 1.0), 0.0)
        square = sums["square"] - count * mean**2 - slope * product
        return mean - slope * gap, np.maximum(square, 0.0)
