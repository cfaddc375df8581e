"""Views of rows for the models of a blend: as encoded by each fold, and scaled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from gpukfl.core._array import Array, array_namespace, index_like, is_host, library_name, to_host


class Slot(NamedTuple):
    """The fold and the view of rows of a model in a blend."""

    fold: int
    sees: str  # the view's name


class EncodedRows(Protocol):
    """Rows in the views of all models."""

    def rows(self, k: int, view: str, /) -> Array:
        """Return the rows in the view of a model of fold k."""


class FoldViews(Protocol):
    """Codes of rows, encoded by all folds at once."""

    def rows(self, view: str, /) -> np.ndarray:
        """Return rows (n, F, d) of a view, encoded by each fold; (n, 1, d) if folds agree."""


class Encoder(Protocol):
    """The encodings of a table's codes for the models of each fold."""

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """For each view, the numbers of distinct folds and of columns."""

    def view_rows(self, codes: Array, /) -> EncodedRows:
        """Encode codes fold by fold; the array may record operations."""

    def together(self, codes: np.ndarray, /) -> FoldViews:
        """Encode NumPy codes by all folds at once."""

    def only(self, fold: int, /) -> Self:
        """Return the encoder of one fold."""


class Scalings:
    """Scalings of one view of rows, which models register before rows are scaled."""

    def __init__(self) -> None:
        self._known: list[tuple[int, Any]] = []

    def register(self, scaling: Any, fold: int, /) -> int:
        """Register a scaling of a fold, unless there is an equal one; return its index."""
        for k, (other_fold, other) in enumerate(self._known):
            if fold == other_fold and _are_equal(scaling, other):
                return k
        self._known.append((fold, scaling))
        return len(self._known) - 1

    def __call__(self, X: Array, /) -> Array:
        """Return rows (n, F, d) of folds, scaled by all scalings: (n, s, d)."""
        parts = [
            _scale_rows(take_second_axis(X, folds), scaling)
            for folds, scaling in self._class_groups
        ]
        if len(parts) == 1:
            return parts[0]
        xp = array_namespace(X)
        wide = [xp.astype(part, xp.float64, copy=False) for part in parts]
        return take_second_axis(xp.concat(wide, axis=1), self._order)

    @cached_property
    def _classes(self) -> dict[type, list[int]]:
        """The indices of the scalings of each class, which are applied together."""
        found: dict[type, list[int]] = {}
        for k, (_, scaling) in enumerate(self._known):
            found.setdefault(type(scaling), []).append(k)
        return found

    @cached_property
    def _class_groups(self) -> list[tuple[np.ndarray, Any]]:
        """For each class, the folds of its rows and its concatenated scalings."""
        groups = []
        for indices in self._classes.values():
            known = [self._known[k] for k in indices]
            folds = np.array([fold for fold, _ in known])
            parts = [scaling for _, scaling in known if scaling is not None]
            groups.append((folds, parts[0].concat(parts) if parts else None))
        return groups

    @cached_property
    def _order(self) -> np.ndarray:
        """The index of each scaling in the order by class."""
        return np.argsort(np.concatenate(list(self._classes.values())))


class Views:
    """The views of rows that models have registered."""

    def __init__(self, n_features: int, encoder: Encoder | None) -> None:
        self._n_features, self.encoder = n_features, encoder
        self.scalings: defaultdict[str, Scalings] = defaultdict(Scalings)  # by view

    def shape(self, view: str, /) -> tuple[int, int]:
        """Return the numbers of distinct folds and of columns."""
        return (1, self._n_features) if self.encoder is None else self.encoder.shapes[view]

    def fold_index(self, slot: Slot, /) -> int:
        """Return the index of a model's fold, 0 if folds do not differ."""
        return slot.fold if self.shape(slot.sees)[0] > 1 else 0

    def register_scaling(self, scaling: Any, slot: Slot, /) -> int:
        """Register a scaling of a view, and return its index."""
        return self.scalings[slot.sees].register(scaling, self.fold_index(slot))


def scaling_parts(scaling: Any, /) -> Sequence[Any]:
    """Return the parts of a scaling, which each scale every column once; (None,) for None."""
    parts: Sequence[Any] = getattr(scaling, "parts", (scaling,))
    return parts


def take_second_axis(X: Array, index: np.ndarray, /) -> Array:
    """Return X (n, s, d) at indices along the second axis; one row is repeated for all."""
    if X.shape[1] == len(index) == 1:
        return X
    if is_host(X) and len(X) == 1:
        return X.take(index if X.shape[1] > 1 else np.zeros(len(index), dtype=np.intp), axis=1)
    xp: Any = array_namespace(X)
    if X.shape[1] == 1:
        wide: Array = xp.broadcast_to(X, (X.shape[0], len(index), X.shape[2]))
        return wide
    if is_host(X):
        return X.take(index, axis=1)
    moved: Array = xp.take(X, xp.asarray(index, **index_like(X)), axis=1)
    return moved


def _scale_rows(rows: Array, scaling: Any) -> Array:
    if scaling is None:
        return rows
    xp, (n, s, d) = array_namespace(rows), rows.shape
    flat = xp.astype(xp.reshape(rows, (n, s * d)), xp.float64, copy=False)
    return xp.reshape(scaling(flat), (n, s, d))


def _are_equal(one: Any, other: Any) -> bool:
    if one is None or type(one) is not type(other):
        return one is other
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in vars(one))


class View:
    """The views of some rows, computed on first use."""

    def __init__(self, views: Views, X: Array) -> None:
        self._views, self.X = views, X
        self._scaled: dict[str, Array] = {}
        self._moved: dict[str, View] = {}

    def to_place(self, reference: Array | None, /) -> View:
        """Return the same rows in the library of a reference; itself without one."""
        if reference is None or type(reference) is type(self.X):
            return self
        if library_name(reference) == library_name(self.X):  # such as a memory map
            return self
        library = library_name(reference)
        if library not in self._moved:
            xp, rows = array_namespace(reference), to_host(self.X)
            placed = rows if is_host(reference) else xp.asarray(rows, device=reference.device)
            self._moved[library] = View(self._views, placed)
        return self._moved[library]

    def rows(self, view: str, /) -> Array:
        """Return rows (n, F, d) in the views of each fold's models, or (n, 1, d) if all agree."""
        return self.X[:, None, :] if self._fold_views is None else self._fold_views.rows(view)

    @cached_property
    def _fold_views(self) -> FoldViews | None:
        encoder = self._views.encoder
        return None if encoder is None else encoder.together(to_host(self.X))

    def model_rows(self, slot: Slot, /) -> Array:
        """Return the rows (n, d) of one model."""
        if self._views.encoder is None:
            return self.X
        return self.rows(slot.sees)[:, self._views.fold_index(slot), :]

    def traceable_rows(self, slot: Slot, /) -> Array:
        """Return the rows of one model, by operations that arrays can record."""
        return self.X if self._encoded_rows is None else self._encoded_rows.rows(*slot)

    @cached_property
    def _encoded_rows(self) -> EncodedRows | None:
        encoder = self._views.encoder
        return None if encoder is None else encoder.view_rows(self.X)

    def scale(self, view: str, /) -> Array:
        """Return rows (n, s, d), scaled by all scalings of a view."""
        if view not in self._scaled:
            self._scaled[view] = self._views.scalings[view](self.rows(view))
        return self._scaled[view]
