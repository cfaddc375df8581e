"""A blend of models, which evaluates models of one kind together."""

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
    to_double,
    to_host,
)
from gpukfl.linalg import each_block
from gpukfl.predictor._blending import Blending, stack_residuals, weigh_predictions
from gpukfl.predictor._predictor import Predictor, Put
from gpukfl.predictor._seen_rows import SeenRows
from gpukfl.predictor._stacks import SingleModel, Stack, stack_models
from gpukfl.predictor._views import Encoder, Slot, View, Views

_MAX_ENCODED = 2**24  # elements of rows, encoded by all folds, per call of another library's model


@dataclass(frozen=True, eq=False)
class BlendedModels:
    """A member of a blend: weight, models, and residuals on its transformed scale.

    `sees` is the name of the view of the table's rows that its models use.
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
        Members, all with a weight.
    blending : Blending
        Combines their predictions.
    n_classes : int
        Number of classes; 0 for a regression.
    n_features : int
        Number of columns of X.
    encoder : Encoder, optional
        Encodes the codes of a table for the models.
    is_traced : bool
        Whether X records operations; models are not stacked then.
    seen : SeenRows, optional
        Predictions at rows of the training set, if these had exact copies.
    """

    members: tuple[BlendedModels, ...]
    blending: Blending
    n_classes: Annotated[int, Count()]
    n_features: Annotated[int, Count()]
    encoder: Encoder | None = None
    is_traced: bool = field(default=False, metadata=NOT_STORED)
    seen: SeenRows | None = None

    def check(self) -> None:
        """Raise ValueError unless there are members and each has models."""
        if not self.members or not all(one.models for one in self.members):
            msg = "expected members with models of a blend"
            raise ValueError(msg)

    def __call__(self, X: Array, /) -> Array:
        """Values (n, t), or probabilities, at all rows at once."""
        found = self._total(self.blending.clip(self._model_outputs(X)), self._shares)
        return array_namespace(X).astype(self._move_seen(X, found), X.dtype, copy=False)

    def evaluate_in_blocks(self, X: Array, /) -> Array:
        """Return the same, by blocks of rows that fit in memory."""
        found = self._move_seen(X, self.evaluate_in_double(X))
        return array_namespace(found).astype(found, X.dtype, copy=False)

    def evaluate_in_double(self, X: Array, /) -> Array:
        """Return values in float64, computed as for new rows, also at rows of the training set."""
        (found,) = self._blend_in_blocks(X, [self._shares])
        return found

    def _move_seen(self, X: Array, found: Array) -> Array:
        return found if self.seen is None else self.seen.move(X, found)

    def fold_outputs(self, X: Array, /) -> list[Array]:
        """Return the blends (n, t) of each fold's models, then that of all models, in float64."""
        return self._blend_in_blocks(X, [*self._fold_shares(self.n_folds), self._shares])

    def model_weights(self, n_folds: int, /) -> np.ndarray:
        """Return the weights (1 + K, m) of models in the blend, and in the blends of K folds.

        Models are numbered member by member.
        """
        all_shares = [self._shares, *self._fold_shares(n_folds)]
        weights = np.stack([self._weights @ shares for shares in all_shares])
        found = np.empty_like(weights)
        found[:, self._stacks_and_order[1]] = weights
        return found

    def remainders(self, X: Array, taken: np.ndarray, n_folds: int, /) -> list[Array]:
        """Return the blend, and the blend of each fold, minus the weighted sum of some models.

        Parameters
        ----------
        X : array, shape (n, d)
            Rows.
        taken : host array of bool, shape (m,)
            Models to subtract, with unclipped values.
        n_folds : int
            Number of folds, K.

        Returns
        -------
        list of arrays, shapes (n, t)
            The remainders of the blend and of the K folds, in float64.
        """
        taken = taken[self._stacks_and_order[1]]
        return self._blend_in_blocks(X, [self._shares, *self._fold_shares(n_folds)], taken)

    def prepare(self) -> None:
        """Stack the models."""
        assert self._stacks
        if self.seen is not None:
            self.seen.prepare()

    # ------------------------------------------------------------------ folds

    @property
    def n_folds(self) -> int:
        """Number of folds that each member has a model for."""
        return min(len(one.models) for one in self.members) - self.blending.whole

    def select_fold(self, k: int, /) -> Blend:
        """Return the blend of one fold's models, without `seen`."""
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
        """Approximate number of operations per row in NumPy."""
        return sum(stack.steps for stack in self._stacks)

    @cached_property
    def _views(self) -> Views:
        return Views(self.n_features, self.encoder)

    @cached_property
    def _stacks_and_order(self) -> tuple[list[Stack], np.ndarray]:
        """Stacks of all models, and the number of the model of each of their outputs."""
        models = [model for one in self.members for model in one.models]
        slots = [Slot(k, one.sees) for one in self.members for k in range(len(one.models))]
        if not self.is_traced:
            return stack_models(models, slots, self._views, self.n_classes)
        pairs = zip(models, slots, strict=True)
        single: list[Stack] = [SingleModel(*pair, self.n_classes, is_traced=True) for pair in pairs]
        return single, np.arange(len(models))

    @property
    def _stacks(self) -> list[Stack]:
        return self._stacks_and_order[0]

    @cached_property
    def _residuals(self) -> Array | None:
        if self.blending.transform is None:
            return None
        known = [one.residuals for one in self.members if one.residuals is not None]
        return stack_residuals(known) if len(known) == len(self.members) else None

    @cached_property
    def _weights(self) -> np.ndarray:
        return np.array([one.weight for one in self.members])

    @cached_property
    def _shares(self) -> np.ndarray:
        """Shares (p, m) of models in the means of members, in the order of the stacks."""
        return self._order_shares([self.blending.shares(len(one.models)) for one in self.members])

    def _fold_shares(self, n_folds: int) -> list[np.ndarray]:
        """Return the shares (p, m) of each fold's models, in the order of the stacks."""
        units = [np.eye(len(one.models)) for one in self.members]
        return [self._order_shares([unit[k] for unit in units]) for k in range(n_folds)]

    def _order_shares(self, shares: Sequence[Any]) -> np.ndarray:
        rows = np.zeros((len(shares), sum(map(len, shares))))
        start = 0
        for row, own in zip(rows, shares, strict=True):
            row[start : start + len(own)] = own
            start += len(own)
        return rows[:, self._stacks_and_order[1]]

    def _total(self, found: Array, shares: np.ndarray) -> Array:
        return self.blending.total(shares, self._weights, found, self._residuals)

    def _model_outputs(
        self, X: Array, known: dict[int, Array] | None = None, rows: Any = None
    ) -> Array:
        """Return predictions (m, n, t) of all models.

        `known` has predictions of some stacks at more rows, and `rows` the slice of these.
        """
        view, parts = View(self._views, X), list[Array]()
        for k, stack in enumerate(self._stacks):
            if known is not None and k in known:
                parts.append(known[k][:, rows, :])
                continue
            found = stack(view.to_place(stack.reference))
            parts.append(found if self.is_traced else asarray_like_double(found, X))
        return concat_rows(parts)

    def _blend_in_blocks(
        self, X: Array, all_shares: Sequence[np.ndarray], taken: np.ndarray | None = None
    ) -> list[Array]:
        """Return a blend (n, t) for each array of shares, minus the sum of the `taken` models."""
        known, parts = self._foreign_outputs(X), list[list[Array]]()

        def compute(start: int, stop: int) -> list[Array]:
            found = self._model_outputs(X[start:stop, :], known, slice(start, stop))
            clipped = self.blending.clip(found)
            totals = [self._total(clipped, shares) for shares in all_shares]
            if taken is None:
                return totals
            sums = [self._weights @ (shares * taken) for shares in all_shares]
            return [
                total - weigh_predictions(weights, found)
                for total, weights in zip(totals, sums, strict=True)
            ]

        each_block(
            double_reference(X),
            (0, X.shape[0]),
            self.width,
            compute,
            lambda _start, _stop, part: parts.append(part),
            fewest=1,
        )
        return [concat_rows(list(some)) for some in zip(*parts, strict=True)]

    def _foreign_outputs(self, X: Array) -> dict[int, Array]:
        """Return predictions (1, n, t) of models of other libraries, by the index of the stack.

        These libraries make blocks themselves.
        """
        singles = {k: one for k, one in enumerate(self._stacks) if isinstance(one, SingleModel)}
        foreign = {k: one for k, one in singles.items() if one.is_foreign}
        if not foreign:
            return {}
        sizes = [np.prod(self._views.shape(one.sees)) for one in self.members]
        step = max(_MAX_ENCODED // int(max(sizes)), 1)
        parts: dict[int, list[Array]] = {k: [] for k in foreign}
        for start in range(0, X.shape[0], step):
            view = View(self._views, X[start : start + step, :])
            for k, stack in foreign.items():
                parts[k].append(asarray_like_double(stack(view.to_place(stack.reference)), X))
        xp = array_namespace(X)
        return {k: xp.concat(some, axis=1) for k, some in parts.items()}

    # ------------------------------------------------------------------ other arrays

    def to_traceable(self) -> Self:
        """Return the same blend, without `seen`, for arrays that record operations."""
        members = tuple(
            dataclasses.replace(one, models=tuple(model.to_traceable() for model in one.models))
            for one in self.members
        )
        return dataclasses.replace(self, members=members, is_traced=True, seen=None)

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
    """Convert values to the library and device of X, in float64."""
    if is_host(found) and is_host(X):
        return found.astype(np.float64, copy=False)
    if type(found) is type(X):
        return to_double(found)
    return asarray_like(to_host(found), double_reference(X))
