"""Views of rows for the models of a blend: encoded by each fold, and scaled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from gpukfl.core._array import Array, array_namespace, index_like, is_host, library_name, to_host


class Place(NamedTuple):
    """The position of a model in a blend."""

    fold: int
    sees: str  # how it sees the rows of a table


class Seen(Protocol):
    """Rows in the views of all models."""

    def rows(self, k: int, view: str, /) -> Array:
        """Return the rows in the view of a model of fold k."""


class FoldViews(Protocol):
    """Codes of rows, encoded by all folds at once."""

    def rows(self, view: str, /) -> np.ndarray:
        """Return rows (n, F, d) as models of each fold see them; (n, 1, d) where all agree."""


class Encoder(Protocol):
    """The encodings of a table's codes for the models of each fold."""

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Of each view the numbers of folds that differ, and of columns."""

    def view_rows(self, codes: Array, /) -> Seen:
        """Encode codes by one fold after another, also those that only record it."""

    def together(self, codes: np.ndarray, /) -> FoldViews:
        """Encode codes of NumPy by all folds at once."""

    def only(self, fold: int, /) -> Self:
        """Return what encodes by one of the folds."""


class Scalings:
    """Scalings of one view of rows, which models register first."""

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
        """Apply all scalings (n, s, d) to the rows (n, F, d) of folds."""
        parts = [
            _scale_rows(take_places(X, folds), scaling) for folds, scaling in self._class_groups
        ]
        if len(parts) == 1:
            return parts[0]
        xp = array_namespace(X)
        wide = [xp.astype(part, xp.float64, copy=False) for part in parts]
        return take_places(xp.concat(wide, axis=1), self._order)

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
        made = []
        for some in self._classes.values():
            parts = [one for _, one in (self._known[k] for k in some) if one is not None]
            folds = np.array([self._known[k][0] for k in some])
            made.append((folds, parts[0].concat(parts) if parts else None))
        return made

    @cached_property
    def _order(self) -> np.ndarray:
        """The position of each scaling in the order by class."""
        return np.argsort(np.concatenate(list(self._classes.values())))


class Views:
    """The views of rows that models have registered."""

    def __init__(self, n_features: int, encoder: Encoder | None) -> None:
        self._n_features, self.encoder = n_features, encoder
        self.scalings: defaultdict[str, Scalings] = defaultdict(Scalings)  # by view

    def shape(self, view: str, /) -> tuple[int, int]:
        """Return the numbers of distinct folds and of columns."""
        return (1, self._n_features) if self.encoder is None else self.encoder.shapes[view]

    def fold_index(self, place: Place, /) -> int:
        """Return the index of a model's fold, 0 if folds do not differ."""
        return place.fold if self.shape(place.sees)[0] > 1 else 0

    def register_scaling(self, scaling: Any, place: Place, /) -> int:
        """Register a scaling of a view, and return the index of its rows."""
        return self.scalings[place.sees].register(scaling, self.fold_index(place))


def scaling_parts(scaling: Any, /) -> Sequence[Any]:
    """Return the parts of a scaling, which scale each column once; None has itself."""
    parts: Sequence[Any] = getattr(scaling, "parts", (scaling,))
    return parts


def take_places(X: Array, places: np.ndarray, /) -> Array:
    """Rows (n, s, d) at places along the second axis, which may be one row for all."""
    if X.shape[1] == len(places) == 1:
        return X
    if is_host(X) and len(X) == 1:
        return X.take(places if X.shape[1] > 1 else np.zeros(len(places), dtype=np.intp), axis=1)
    xp: Any = array_namespace(X)
    if X.shape[1] == 1:
        wide: Array = xp.broadcast_to(X, (X.shape[0], len(places), X.shape[2]))
        return wide
    if is_host(X):
        return X.take(places, axis=1)
    moved: Array = xp.take(X, xp.asarray(places, **index_like(X)), axis=1)
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
        if library_name(reference) == library_name(self.X):  # a memory map is of NumPy too
            return self
        library = library_name(reference)
        if library not in self._moved:
            xp, rows = array_namespace(reference), to_host(self.X)
            placed = rows if is_host(reference) else xp.asarray(rows, device=reference.device)
            self._moved[library] = View(self._views, placed)
        return self._moved[library]

    def rows(self, view: str, /) -> Array:
        """Return rows (n, F, d) in the views of each fold's models, or (n, 1, d) if all agree."""
        return self.X[:, None, :] if self._together is None else self._together.rows(view)

    @cached_property
    def _together(self) -> FoldViews | None:
        encoder = self._views.encoder
        return None if encoder is None else encoder.together(to_host(self.X))

    def model_rows(self, place: Place, /) -> Array:
        """Rows (n, d) as one model sees them."""
        if self._views.encoder is None:
            return self.X
        return self.rows(place.sees)[:, self._views.fold_index(place), :]

    def one_by_one(self, place: Place, /) -> Array:
        """Return the same, by operations that may only be recorded."""
        return self.X if self._viewed_rows is None else self._viewed_rows.rows(*place)

    @cached_property
    def _viewed_rows(self) -> Seen | None:
        encoder = self._views.encoder
        return None if encoder is None else encoder.view_rows(self.X)

    def scale(self, view: str, /) -> Array:
        """Return rows (n, s, d) by all scalings of a view."""
        if view not in self._scaled:
            self._scaled[view] = self._views.scalings[view](self.rows(view))
        return self._scaled[view]
