"""A blend of which models of one sort are evaluated together, whatever their member and fold.

A row of a blend takes dozens of small steps by every model. All that does not depend on the row
is done when the blend is joined, and the rest once for each sort.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gpukfl.core._array import Array
from gpukfl.prediction import Blend, Blending, Served, bounded, mixed
from gpukfl.runtime._encodings import FoldEncodings
from gpukfl.runtime._forest import ForestStack
from gpukfl.runtime._stacks import LinearStack, Stack
from gpukfl.runtime._sums import KernelStack, ShapeStack
from gpukfl.runtime._views import Place, View, Views

_STACKS: tuple[type[Stack], ...] = (LinearStack, ForestStack, KernelStack, ShapeStack)


@dataclass(frozen=True, eq=False)
class Alone:
    """A model of a sort that is not stacked."""

    model: Served
    place: Place
    fold: int
    n_classes: int

    @property
    def width(self) -> int:
        """Elements that a row needs."""
        return self.model.values.width

    def __call__(self, view: View, /) -> np.ndarray:
        """Evaluate it."""
        rows = view.rows(self.place.sees)[:, self.fold]
        return np.asarray(self.model.outputs(rows, self.n_classes))[None]


@dataclass(frozen=True, eq=False)
class JoinedBlend:
    """The values of a blend, for rows (n, d) of numbers, or of the codes of a table."""

    views: Views
    stacks: Sequence[Stack | Alone]
    shares: np.ndarray  # (P, M): of each member's models in its mean
    weights: np.ndarray  # (P,): of members
    residuals: np.ndarray | None  # (P, q, 1, t)
    blending: Blending

    @property
    def width(self) -> int:
        """Elements that a row needs."""
        quantiles = 0 if self.residuals is None else self.residuals.size
        return max(quantiles, *(stack.width for stack in self.stacks))

    def __call__(self, X: Array, /) -> np.ndarray:
        """Values (n, t), or probabilities."""
        view, blending = View(self.views, np.asarray(X)), self.blending
        found = np.concatenate([stack(view) for stack in self.stacks])
        said = mixed(found, blending.floor) if blending.classes else bounded(found, blending.reach)
        means = _weighted(self.shares, np.asarray(said))
        if self.residuals is not None:
            means = self._smeared(means)
        total = blending.total([(1.0, _weighted(self.weights, means))])
        return np.asarray(total).astype(view.dtype, copy=False)

    def _smeared(self, means: np.ndarray) -> np.ndarray:
        """Means (P, n, t) of targets, as of `TargetTransform.mean`, by all quantiles at once."""
        assert self.blending.transform is not None
        every = means[:, None] + self.residuals
        found = self.blending.transform.inverse(every.reshape(-1, every.shape[-1]))
        return np.mean(np.reshape(np.asarray(found), every.shape), axis=1)

    def placed(self, put: Any, /) -> Self:
        """Return itself: its arrays are of NumPy."""
        del put
        return self


def _weighted(weights: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Add up predictions (M, n, t) by weights (..., M)."""
    flat = weights @ found.reshape(len(found), -1)
    return flat.reshape(*weights.shape[:-1], *found.shape[1:])


def joined(model: Served, encodings: Any, /) -> Served:
    """Join the models of a blend, whose `encodings` are of a table; leave other models."""
    if not isinstance(model.values, Blend):
        return model
    blend = model.values
    by_fold = None if encodings is None else FoldEncodings(encodings.by_fold, encodings.some)
    views = Views(model.n_features, by_fold)
    stacks, order = _stacked(blend, views)
    member = np.repeat(np.arange(len(blend.members)), [len(m.models) for m in blend.members])
    ours = member[order] == np.arange(len(blend.members))[:, None]
    values = JoinedBlend(
        views,
        stacks,
        shares=_shares_of(blend)[order] * ours,
        weights=np.array([one.weight for one in blend.members]),
        residuals=_residuals_of(blend),
        blending=blend.blending,
    )
    return dataclasses.replace(model, values=values)


def _shares_of(blend: Blend) -> np.ndarray:
    """Share of each model in the mean of its member."""
    return np.concatenate([blend.blending.shares(len(one.models)) for one in blend.members])


def _stacked(blend: Blend, views: Views) -> tuple[list[Stack | Alone], np.ndarray]:
    """Stack models, and give their numbers in the order of what they say."""
    models = [model for member in blend.members for model in member.models]
    places = [
        Place(fold, member.sees) for member in blend.members for fold in range(len(member.models))
    ]
    sorts: dict[Hashable, list[int]] = {}
    for k, (model, place) in enumerate(zip(models, places, strict=True)):
        sorts.setdefault(_sort_of(model, place, blend.n_classes) or k, []).append(k)
    stacks: list[Stack | Alone] = []
    for sort, some in sorts.items():
        if isinstance(sort, tuple):
            own = [models[k] for k in some], [places[k] for k in some]
            stacks.append(sort[0].of(*own, views))
        else:
            place = places[some[0]]
            stacks.append(Alone(models[some[0]], place, views.fold_of(place), blend.n_classes))
    return stacks, np.concatenate(list(sorts.values()))


def _sort_of(model: Served, place: Place, n_classes: int) -> tuple[type[Stack], Hashable] | None:
    """Return what stacks a model with others of its sort; None of one that knows few classes."""
    if n_classes and (model.labels is None or not 1 < len(model.labels) == n_classes):
        return None
    sorts = ((stack, stack.sort_of(model, place)) for stack in _STACKS)
    return next((found for found in sorts if found[1] is not None), None)


def _residuals_of(blend: Blend) -> np.ndarray | None:
    """Quantiles of all members' residuals on the scale that they predict on."""
    if blend.blending.transform is None:
        return None
    return np.stack([np.asarray(one.residuals)[:, None] for one in blend.members])
