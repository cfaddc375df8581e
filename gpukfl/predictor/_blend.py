"""A blend of models, of which those of one sort are evaluated together."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np

from gpukfl.core._annotations import NOT_STORED, Count, Doubles
from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    concat_rows,
    double_reference,
    is_host,
    to_host,
)
from gpukfl.linalg import each_block
from gpukfl.predictor._blending import Blending, stacked_residuals, weigh_predictions
from gpukfl.predictor._predictor import Predictor, Put
from gpukfl.predictor._seen_rows import SeenRows
from gpukfl.predictor._stacks import Alone, Stack, stack_models
from gpukfl.predictor._views import Encoder, Place, View, Views

_ENCODED = 2**24  # elements of rows by all folds, that models of other libraries are asked at


@dataclass(frozen=True, eq=False)
class BlendedModels:
    """A member of a blend: weight, models, and residuals on its transformed scale.

    `sees` says how its models see the rows of a table.
    """

    name: str
    weight: float
    models: tuple[Predictor, ...]
    residuals: Annotated[Array, Doubles("q", "t")] | None
    sees: str


@dataclass(frozen=True, eq=False)
class Blend:
    """A blend of models, for numeric rows (n, d) or codes of a table.

    Attributes
    ----------
    members : tuple of BlendedModels
        All with a weight.
    blending : Blending
        How they are joined.
    n_classes : int
        0 of a regression.
    n_features : int
        Columns of rows.
    encoder : Encoder, optional
        What makes the models' rows, where these are of a table.
    recorded : bool
        Whether rows only record what is done with them: then no models are stacked.
    seen : SeenRows, optional
        What is predicted at rows that were in the fit, where there were copies that tell.
    """

    members: tuple[BlendedModels, ...]
    blending: Blending
    n_classes: Annotated[int, Count()]
    n_features: Annotated[int, Count()]
    encoder: Encoder | None = None
    recorded: bool = field(default=False, metadata=NOT_STORED)
    seen: SeenRows | None = None

    def check(self) -> None:
        """Raise ValueError unless there are members, with models."""
        if not self.members or not all(one.models for one in self.members):
            msg = "expected members with models of a blend"
            raise ValueError(msg)

    def __call__(self, X: Array, /) -> Array:
        """Values (n, t), or probabilities, at all rows at once."""
        found = self._move_seen(
            X, self._total(self.blending.clip(self._member_outputs(X)), self._shares)
        )
        return array_namespace(X).astype(found, X.dtype, copy=False)

    def evaluate_in_blocks(self, X: Array, /) -> Array:
        """Return the same, by blocks of rows that fit in memory."""
        found = self._move_seen(X, self.evaluate_in_double(X))
        return array_namespace(found).astype(found, X.dtype, copy=False)

    def evaluate_in_double(self, X: Array, /) -> Array:
        """Values in float64, whatever the rows are, as of new rows."""
        (found,) = self._blend_in_blocks(X, [self._shares])
        return found

    def _move_seen(self, X: Array, found: Array) -> Array:
        return found if self.seen is None else self.seen.move(X, found)

    def fold_outputs(self, X: Array, /) -> list[Array]:
        """Blends (n, t) of each fold's models, and of all of them, in float64."""
        folds = [self._shares_of_fold(k) for k in range(self.n_folds)]
        return self._blend_in_blocks(X, [*folds, self._shares])

    def model_weights(self, n_folds: int, /) -> np.ndarray:
        """Return the weights (1 + K, m) of models in the sums of the blend and of K folds' models.

        Models are numbered member by member.
        """
        folds = [self._shares_of_fold(k) for k in range(n_folds)]
        weights = np.stack([self._weights @ shares for shares in (self._shares, *folds)])
        found = np.empty_like(weights)
        found[:, self._stacks_and_order[1]] = weights
        return found

    def remainders(self, X: Array, taken: np.ndarray, n_folds: int, /) -> list[Array]:
        """Return what the blend, and that of each fold, are beside sums of some of their models.

        Parameters
        ----------
        X : array, shape (n, d)
            Rows.
        taken : host array of bool, shape (m,)
            The models whose weighted values are subtracted, as they are without limits.
        n_folds : int
            K.

        Returns
        -------
        list of arrays, shapes (n, t)
            1 + K of them, in float64.
        """
        folds = [self._shares_of_fold(k) for k in range(n_folds)]
        taken = taken[self._stacks_and_order[1]]
        return self._blend_in_blocks(X, [self._shares, *folds], taken)

    def prepare(self) -> None:
        """Stack the models."""
        assert self._stacks
        if self.seen is not None:
            self.seen.prepare()

    # ------------------------------------------------------------------ folds

    @property
    def n_folds(self) -> int:
        """How many folds each member has a model of."""
        return min(len(one.models) for one in self.members) - self.blending.whole

    def select_fold(self, k: int, /) -> Blend:
        """Return the blend of one fold's models, as of new rows."""
        if k not in self._folds:
            members = tuple(
                dataclasses.replace(one, models=(one.models[k],)) for one in self.members
            )
            self._folds[k] = dataclasses.replace(
                self,
                members=members,
                blending=dataclasses.replace(self.blending, whole=False),
                encoder=None if self.encoder is None else self.encoder.only(k),
                seen=None,
            )
        return self._folds[k]

    @cached_property
    def _folds(self) -> dict[int, Blend]:
        return {}

    # ------------------------------------------------------------------ evaluation

    @cached_property
    def width(self) -> int:
        """Return the temporary elements per row."""
        quantiles = 0 if self._residuals is None else int(np.prod(self._residuals.shape))
        seen = [np.prod(self._views.shape(one.sees)) for one in self.members]
        return max(quantiles, *map(int, seen), *(stack.width for stack in self._stacks))

    @property
    def steps(self) -> int:
        """Steps that a row takes, about, where NumPy takes them."""
        return sum(stack.steps for stack in self._stacks)

    @cached_property
    def _views(self) -> Views:
        return Views(self.n_features, self.encoder)

    @cached_property
    def _stacks_and_order(self) -> tuple[list[Stack], np.ndarray]:
        """Stacks of all models, and their numbers in the order of what these say."""
        models = [model for one in self.members for model in one.models]
        places = [Place(k, one.sees) for one in self.members for k in range(len(one.models))]
        if not self.recorded:
            return stack_models(models, places, self._views, self.n_classes)
        pairs = zip(models, places, strict=True)
        alone: list[Stack] = [Alone(*pair, self.n_classes, recorded=True) for pair in pairs]
        return alone, np.arange(len(models))

    @property
    def _stacks(self) -> list[Stack]:
        return self._stacks_and_order[0]

    @cached_property
    def _residuals(self) -> Array | None:
        if self.blending.transform is None:
            return None
        known = [one.residuals for one in self.members if one.residuals is not None]
        return stacked_residuals(known) if len(known) == len(self.members) else None

    @cached_property
    def _weights(self) -> np.ndarray:
        return np.array([one.weight for one in self.members])

    @cached_property
    def _shares(self) -> np.ndarray:
        """Shares (p, m) of the models in the means of members, in the order of the stacks."""
        return self._order_shares([self.blending.shares(len(one.models)) for one in self.members])

    def _shares_of_fold(self, k: int) -> np.ndarray:
        return self._order_shares([np.eye(len(one.models))[k] for one in self.members])

    def _order_shares(self, shares: Sequence[Any]) -> np.ndarray:
        rows = np.zeros((len(shares), sum(map(len, shares))))
        start = 0
        for row, own in zip(rows, shares, strict=True):
            row[start : start + len(own)] = own
            start += len(own)
        return rows[:, self._stacks_and_order[1]]

    def _total(self, found: Array, shares: np.ndarray) -> Array:
        return self.blending.total(shares, self._weights, found, self._residuals)

    def _member_outputs(
        self, X: Array, known: dict[int, Array] | None = None, rows: Any = None
    ) -> Array:
        """Predictions (m, n, t), of which some may be known at all rows."""
        view, parts = View(self._views, X), list[Array]()
        for k, stack in enumerate(self._stacks):
            if known is not None and k in known:
                parts.append(known[k][:, rows, :])
                continue
            found = stack(view.to_place(stack.reference))
            parts.append(found if self.recorded else asarray_like_double(found, X))
        return concat_rows(parts)

    def _blend_in_blocks(
        self, X: Array, all_shares: Sequence[np.ndarray], taken: np.ndarray | None = None
    ) -> list[Array]:
        """Blends (n, t) by several shares of the models, less sums of those that are `taken`."""
        known, parts = self._foreign(X), list[list[Array]]()

        def compute(start: int, stop: int) -> list[Array]:
            found = self._member_outputs(X[start:stop, :], known, slice(start, stop))
            clipped = self.blending.clip(found)
            totals = [self._total(clipped, shares) for shares in all_shares]
            if taken is None:
                return totals
            sums = [self._weights @ (shares * taken) for shares in all_shares]
            return [
                total - weigh_predictions(weights, found)
                for total, weights in zip(totals, sums, strict=True)
            ]

        def take(_start: int, _stop: int, part: list[Array]) -> None:
            parts.append(part)

        n = X.shape[0]
        each_block(double_reference(X), (0, n), self.width, compute, take, fewest=1)
        return [concat_rows(list(some)) for some in zip(*parts, strict=True)]

    def _foreign(self, X: Array) -> dict[int, Array]:
        """Predictions (1, n, t) of models of other libraries, which make blocks by themselves."""
        asked = [
            k for k, one in enumerate(self._stacks) if isinstance(one, Alone) and one.is_foreign
        ]
        if not asked:
            return {}
        sizes = [np.prod(self._views.shape(one.sees)) for one in self.members]
        step = max(_ENCODED // int(max(sizes)), 1)
        parts: dict[int, list[Array]] = {k: [] for k in asked}
        for start in range(0, X.shape[0], step):
            view = View(self._views, X[start : start + step, :])
            for k in asked:
                stack = self._stacks[k]
                parts[k].append(asarray_like_double(stack(view.to_place(stack.reference)), X))
        xp = array_namespace(X)
        return {k: xp.concat(some, axis=1) for k, some in parts.items()}

    # ------------------------------------------------------------------ other places

    def alone(self) -> Self:
        """Return the same blend, of new rows, for arrays that record what is done with them."""
        members = tuple(
            dataclasses.replace(one, models=tuple(model.alone() for model in one.models))
            for one in self.members
        )
        return dataclasses.replace(self, members=members, recorded=True, seen=None)

    def map_arrays(self, put: Put, /) -> Self:
        """Return the blend with arrays mapped by `put`."""
        members = tuple(
            dataclasses.replace(
                one,
                models=tuple(model.map_arrays(put) for model in one.models),
                residuals=None if one.residuals is None else put(one.residuals),
            )
            for one in self.members
        )
        reach, shift = self.blending.reach, self.blending.shift
        blending = dataclasses.replace(
            self.blending,
            reach=None if reach is None else put(reach),
            shift=None if shift is None else put(shift),
        )
        return dataclasses.replace(self, members=members, blending=blending)


def asarray_like_double(found: Array, X: Array, /) -> Array:
    """Put values beside rows, in float64."""
    if is_host(found) and is_host(X):
        return found.astype(np.float64, copy=False)
    if type(found) is type(X):
        xp = array_namespace(X)
        return xp.astype(found, xp.float64, copy=False)
    return asarray_like(to_host(found), double_reference(X))
