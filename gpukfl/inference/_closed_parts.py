"""The part of a fitted model whose contributions have a closed form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.base import is_classifier

from gpukfl.core._array import Array, array_namespace, to_host
from gpukfl.portfolio._base import AutoBase
from gpukfl.predictor._closed_forms import ClosedForm, ClosedMembers, find_closed_form


class ClosedPart(Protocol):
    """What of a model's values has a closed form, at rows in codes."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left beside it."""

    @property
    def is_nearly_whole(self) -> bool:
        """Whether only the limits of predictions are left."""

    def remainder(self, rows: Array, /) -> np.ndarray:
        """Return what the values are beside it: host (m, (1 + K) t)."""

    def contributions(self, X: Array, B: Array, owner: np.ndarray, p: int, /) -> np.ndarray:
        """Return what players add to it: host (n, G, p, (1 + K) t).

        `owner` has the player of each column of the user's table, of which there are p.
        """


def find_closed_part(model: Any, n_folds: int, /) -> ClosedPart | None:
    """Return what of a model's values, and of those of each fold, has a closed form, or None."""
    estimator = model.estimator
    if is_classifier(estimator):
        return None
    return _find_in_blend(model, n_folds) if isinstance(estimator, AutoBase) else _find_alone(model)


@dataclass(frozen=True, eq=False)
class _OfOneModel:
    model: Any
    form: ClosedForm
    has_limits: bool
    sources: np.ndarray

    @property
    def is_whole(self) -> bool:
        return not self.has_limits

    @property
    def is_nearly_whole(self) -> bool:
        return True

    def _rows(self, codes: Array) -> Array:
        known, xp = self.model.reader, array_namespace(codes)
        if known is not None:
            codes = known.encoding.transform(codes)
        return xp.astype(codes, xp.float64, copy=False)

    def remainder(self, rows: Array, /) -> np.ndarray:
        rows = self._rows(rows)
        found = to_host(self.model.estimator._fitted_predictor().evaluate(rows))
        return found - self.form(rows)

    def contributions(self, X: Array, B: Array, owner: np.ndarray, p: int, /) -> np.ndarray:
        return self.form.contributions(self._rows(X), self._rows(B), owner[self.sources], p)


def _find_alone(model: Any) -> ClosedPart | None:
    found, known = find_closed_form(model.estimator._fitted_predictor()), model.reader
    if found is None or (known is not None and known.encoding.imputations):
        return None
    names = model.feature_names
    sources = np.arange(len(names)) if known is None else np.array(known.encoding.sources)
    return _OfOneModel(model, *found, sources)


@dataclass(frozen=True, eq=False)
class _OfBlend:
    members: ClosedMembers
    sources: Mapping[str, np.ndarray]

    @property
    def is_whole(self) -> bool:
        return self.members.has_all and self.members.blend.blending.reach is None

    @property
    def is_nearly_whole(self) -> bool:
        return self.members.has_all

    def remainder(self, rows: Array, /) -> np.ndarray:
        return np.concatenate([to_host(one) for one in self.members.remainders(rows)], axis=1)

    def contributions(self, X: Array, B: Array, owner: np.ndarray, p: int, /) -> np.ndarray:
        players = {view: owner[sources] for view, sources in self.sources.items()}
        return self.members.contributions(X, B, players, p)


def _find_in_blend(model: Any, n_folds: int) -> ClosedPart | None:
    estimator = model.estimator
    found = ClosedMembers.find(estimator._blend, n_folds)
    if found is None or estimator.predictor_.monotone is not None:
        return None
    encodings, sources = estimator.encodings_, {}
    for view in found.views:
        own = np.arange(len(model.feature_names)) if encodings is None else encodings.sources(view)
        if own is None:
            return None
        sources[view] = own
    return _OfBlend(found, sources)
