"""Fitted functions whose Shapley values have a closed form."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from gpukfl._accel.trust import has_compiled_code
from gpukfl.core._array import Array, array_namespace, to_double, to_host
from gpukfl.kernels import Kernel, sum_terms
from gpukfl.kernels._base import Scaled
from gpukfl.kernels._terms import ColumnBlock
from gpukfl.methods import leaf_shares, linear_contributions, product_contributions
from gpukfl.predictor._blend import Blend
from gpukfl.predictor._foreign import LinearValues
from gpukfl.predictor._forest import FEATURE, LEFT, RIGHT, Forest
from gpukfl.predictor._predictor import Predictor
from gpukfl.predictor._sums import KernelSum
from gpukfl.predictor._views import Slot, View


class ClosedForm(Protocol):
    """A function whose Shapley values need no evaluations at mixtures of rows."""

    def __call__(self, X: Array, /) -> np.ndarray:
        """Return host values (n, t) at rows (n, d)."""

    def contributions(self, X: Array, B: Array, players: np.ndarray, p: int, /) -> np.ndarray:
        """Return the players' Shapley values for each pair of row and background row.

        Parameters
        ----------
        X, B : arrays, shapes (n, d) and (G, d)
            Rows and background rows.
        players : host array of int, shape (d,)
            The player of each column.
        p : int
            Number of players.

        Returns
        -------
        host array, shape (n, G, p, t)
        """


def find_closed_form(model: Predictor, /) -> tuple[ClosedForm, bool] | None:
    """Return a model's closed form and whether the model clips its values; None without a form.

    Linear functions, sums of product kernels, and trees have a closed form. Classifiers and models
    with a link have none.
    """
    values = model.values
    if model.monotone is not None or model.labels is not None:
        return None
    if isinstance(values, LinearValues):
        return LinearForm(values), False
    if isinstance(values, Forest) and values.link == "identity":
        return TreeForm(values), False
    if isinstance(values, KernelSum) and values.link is None and _is_product(values):
        unclipped = dataclasses.replace(values, bound=None, bounds=None)
        return ProductForm(unclipped), values.bound is not None or values.bounds is not None
    return None


@dataclass(frozen=True, eq=False)
class LinearForm:
    """The closed form of a linear model."""

    values: LinearValues

    def __call__(self, X: Array, /) -> np.ndarray:
        """Return host values (n, t)."""
        return to_host(self.values(to_host(X).astype(np.float64)))

    def contributions(self, X: Array, B: Array, players: np.ndarray, p: int, /) -> np.ndarray:
        """Return the players' Shapley values (n, G, p, t)."""
        x, b = (to_host(one).astype(np.float64) for one in (X, B))
        coef = self.values.coef / self.values.scale[:, None]
        return to_host(linear_contributions(x, b, coef, _indicators(players, p)))


@dataclass(frozen=True, eq=False)
class ProductForm:
    """The closed form of a sum of product kernels, whose values are not clipped."""

    values: KernelSum

    def __call__(self, X: Array, /) -> np.ndarray:
        """Return host values (n, t)."""
        return to_host(self.values.evaluate_in_blocks(to_double(X)))

    def contributions(self, X: Array, B: Array, players: np.ndarray, p: int, /) -> np.ndarray:
        """Return the players' Shapley values (n, G, p, t), in O(n G q p²) for q centres."""
        f = self.values
        if f.coef is None:
            return np.zeros((X.shape[0], B.shape[0], p, f.intercept.shape[0]))
        owner = players if f.columns is None else players[f.columns]
        x, b = (self._points(one) for one in (X, B))
        total: Any = 0.0
        for term in sum_terms(f.kernel):
            factor, (kernel, columns) = _unscale(term)
            at_rows, at_background = (
                _player_factors(kernel, one[:, columns], f.points[:, columns], owner[columns])
                for one in (x, b)
            )
            total = total + factor * product_contributions(at_rows, at_background, f.coef)
        used = np.unique(owner)
        found = np.zeros((X.shape[0], B.shape[0], p, f.coef.shape[1]))
        found[:, :, used] = to_host(total)
        return found

    def _points(self, X: Array) -> Array:
        """Return the kernel's arguments: scaled rows times the map."""
        U, B = self.values.rows(to_double(X)).whole(), self.values.components
        return U if B is None else U * B


@dataclass(frozen=True, eq=False)
class TreeForm:
    """The closed form of boosted trees."""

    forest: Forest

    def __call__(self, X: Array, /) -> np.ndarray:
        """Return host values (n, t)."""
        return to_host(self.forest.raw(np.ascontiguousarray(to_host(X), dtype=np.float64)))

    @cached_property
    def _shares(self) -> tuple[np.ndarray, np.ndarray]:
        return leaf_shares(len(self.forest._levels_of_nodes()) - 1)

    def contributions(self, X: Array, B: Array, players: np.ndarray, p: int, /) -> np.ndarray:
        """Return the players' Shapley values (n, G, p, t)."""
        f = self.forest
        x, b = (np.ascontiguousarray(to_host(one), dtype=np.float64) for one in (X, B))
        out = np.zeros((len(x), len(b), p, len(f.baseline)))
        if has_compiled_code(x):
            from gpukfl._accel.cpu_tree_games import add_tree_games

            tables = f.nodes, f.numbers, f.trees, f.subsets, f.levels, f.starts
            add_tree_games(*tables, players.astype(np.int64), *self._shares, x, b, out)
            return out
        sides = f.goes_left(x), f.goes_left(b)
        for root, output in f.trees:
            self._add_leaves(int(root), {}, sides, players, out[..., output])
        return out

    def _add_leaves(
        self,
        node: int,
        followers: dict[int, tuple[np.ndarray, np.ndarray]],
        sides: tuple[np.ndarray, np.ndarray],
        players: np.ndarray,
        out: np.ndarray,
    ) -> None:
        """Add the contributions of all leaves below a node to `out` (n, G, p).

        By player on the path, `followers` has masks of the rows and of the background rows that
        follow the path at all nodes of the player.
        """
        f = self.forest
        feature = int(f.nodes[node, FEATURE])
        if feature >= 0:
            player = int(players[feature])
            before = followers.get(player, (np.True_, np.True_))
            for child, is_left in ((LEFT, True), (RIGHT, False)):
                x, b = (
                    mask & (side[:, node] == is_left)
                    for mask, side in zip(before, sides, strict=True)
                )
                below = {**followers, player: (x, b)}
                self._add_leaves(int(f.nodes[node, child]), below, sides, players, out)
            return
        if not followers:
            return
        x = np.stack([rows for rows, _ in followers.values()], axis=-1)[:, None, :]
        b = np.stack([rows for _, rows in followers.values()], axis=-1)[None, :, :]
        reached, only_x, only_b = (x | b).all(axis=-1), x & ~b, ~x & b
        counts = only_x.sum(axis=-1), only_b.sum(axis=-1)
        gain, loss = (f.numbers[node] * reached * share[counts] for share in self._shares)
        for k, player in enumerate(followers):
            out[..., player] += only_x[..., k] * gain - only_b[..., k] * loss


@dataclass(frozen=True, eq=False)
class ClosedMembers:
    """The models of a blend that have closed forms, and their weights.

    Attributes
    ----------
    blend : Blend
        A blend that is a weighted sum of its models.
    n_folds : int
        Number of folds that have a blend of their own, K.
    forms : dict of int and ClosedForm
        Closed forms by the models' numbers.
    """

    blend: Blend
    n_folds: int
    forms: dict[int, ClosedForm]

    @classmethod
    def find(cls, blend: Blend, n_folds: int, /) -> ClosedMembers | None:
        """Return the closed forms of a blend that is a weighted sum; None if there are none."""
        if blend.blending.classes or blend.blending.transform is not None:
            return None
        models = [model for one in blend.members for model in one.models]
        found = {k: find_closed_form(model) for k, model in enumerate(models)}
        forms = {k: one[0] for k, one in found.items() if one is not None}
        return cls(blend, n_folds, forms) if forms else None

    @cached_property
    def _slots(self) -> list[Slot]:
        members = self.blend.members
        return [Slot(k, one.sees) for one in members for k in range(len(one.models))]

    @property
    def has_all(self) -> bool:
        """Whether every model has a closed form."""
        return len(self.forms) == len(self._slots)

    @property
    def views(self) -> set[str]:
        """The names of the views of rows that these models use."""
        return {self._slots[k].sees for k in self.forms}

    @cached_property
    def _weights(self) -> np.ndarray:
        return self.blend.model_weights(self.n_folds)

    def remainders(self, X: Array, /) -> list[Array]:
        """Return the blend, and the blend of each fold, minus the closed forms: (n, t) each."""
        taken = np.isin(np.arange(len(self._slots)), list(self.forms))
        return self.blend.remainders(X, taken, self.n_folds)

    def contributions(
        self, X: Array, B: Array, players: Mapping[str, np.ndarray], p: int, /
    ) -> np.ndarray:
        """Return the players' Shapley values of the closed forms.

        Parameters
        ----------
        X, B : arrays, shapes (n, d) and (G, d)
            Rows and background rows of the blend.
        players : mapping of str to host array of int
            The player of each column, by view of the rows.
        p : int
            Number of players.

        Returns
        -------
        host array, shape (n, G, p, (1 + K) t)
            For the blend, and for the blends of K folds.
        """
        x, b = View(self.blend._views, X), View(self.blend._views, B)
        total: Any = 0.0
        for k, form in self.forms.items():
            slot = self._slots[k]
            rows = x.model_rows(slot), b.model_rows(slot)
            found = form.contributions(*rows, players[slot.sees], p)
            total = total + found[..., None, :] * self._weights[:, k][:, None]
        return np.asarray(total).reshape(*total.shape[:3], -1)


def _is_product(f: KernelSum) -> bool:
    if f.leading_ones or (f.B is not None and f.B.ndim != 1):
        return False
    return all(_unscale(term)[1][0].factorises for term in sum_terms(f.kernel))


def _unscale(kernel: Kernel) -> tuple[float, tuple[Kernel, slice]]:
    """Return the factor of a term, its kernel, and the columns that the kernel uses."""
    if isinstance(kernel, Scaled):
        factor, rest = _unscale(kernel.kernel)
        return kernel.factor * factor, rest
    if isinstance(kernel, ColumnBlock):
        return 1.0, (kernel.kernel, slice(kernel.start, kernel.stop))
    return 1.0, (kernel, slice(None))


def _player_factors(kernel: Kernel, X: Array, Z: Array, owner: np.ndarray) -> Array:
    """Return the kernel's values (p, n, q) on the columns of each player that owns some."""
    xp = array_namespace(X)
    parts = []
    for player in np.unique(owner):
        own = np.flatnonzero(owner == player).tolist()
        columns = [xp.concat([one[:, j : j + 1] for j in own], axis=1) for one in (X, Z)]
        parts.append(to_double(kernel._evaluate(*columns)))
    return xp.stack(parts, axis=0)


def _indicators(players: np.ndarray, p: int) -> np.ndarray:
    return (np.arange(p)[:, None] == players).astype(np.float64)
