"""Sums of kernels and of shapes, of several models side by side."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from gpukfl.core._array import Array, clip
from gpukfl.estimators._calibration import Calibration
from gpukfl.estimators.scaling import ColumnScaling
from gpukfl.kernels import Manhattan, PowerExponential
from gpukfl.kernels._radial import Radial
from gpukfl.linalg import interpolate_columns
from gpukfl.linalg._distances import fast_power
from gpukfl.prediction import Classes, Function, KernelSum, Served, ShapeSum, inside
from gpukfl.runtime._blocks import near_blocks, unbuffered
from gpukfl.runtime._views import Place, View, Views


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows as several functions take them, and what is made of their values."""

    sees: str
    places: np.ndarray  # (M,): among the rows by all scalings
    clip: float | None
    dtype: np.dtype
    intercept: np.ndarray  # (M, 1, t)
    classes: Classes | None

    @staticmethod
    def sort_of(model: Served, place: Place, /) -> Hashable:
        """Return what functions have in common; None of those that prepare rows in another way."""
        f, classes = model.values, model.classes
        if not isinstance(f, Function) or f.leading_ones or f.columns is not None:
            return None
        if f.scaling is not None and not isinstance(f.scaling, ColumnScaling):
            return None
        told = None if classes is None else (classes.count, classes.signs)
        return place.sees, f.clip, f.reference.dtype, f.intercept.shape, told

    @classmethod
    def of(cls, models: Sequence[Served], places: Sequence[Place], views: Views, /) -> Self:
        """Join what models of one sort do with rows."""
        parts: Any = [model.values for model in models]
        pairs = zip(parts, places, strict=True)
        at = [views.place_of(one.scaling, place) for one, place in pairs]
        return cls(
            sees=places[0].sees,
            places=np.array(at),
            clip=parts[0].clip,
            dtype=parts[0].reference.dtype,
            intercept=np.stack([one.intercept[None] for one in parts]),
            classes=_classes_of(models),
        )

    def rows(self, view: View, /) -> np.ndarray:
        """Return rows (M, n, d)."""
        X = view.scaled(self.sees).take(self.places, axis=1).transpose(1, 0, 2)
        if self.clip is not None:
            X = np.asarray(clip(X, low=-self.clip, high=self.clip))
        # Products of matrices whose rows are a power of two apart take thirty times as long
        return np.ascontiguousarray(X, dtype=self.dtype)

    def said(self, found: Array, /) -> np.ndarray:
        """Return what models say (M, n, t) of values: of classes, probabilities."""
        if self.classes is None:
            return np.asarray(found)
        return np.exp(np.asarray(self.classes.log_proba(found)))


def _classes_of(models: Sequence[Served]) -> Classes | None:
    """Join calibrations of classes."""
    known = [model.classes for model in models if model.classes is not None]
    if not known:
        return None
    numbers: Any = (
        np.array([getattr(one.calibration, name) for one in known])[:, None, None]
        for name in ("power", "offset")
    )
    return replace(known[0], calibration=Calibration(*numbers))


# ---------------------------------------------------------------------- kernels


@dataclass(frozen=True, eq=False)
class KernelStack:
    """Sums of one kernel, apart from lengthscales, which are in rows and centres."""

    prepared: Prepared
    components: np.ndarray  # (M, d, k), or factors (M, 1, d), or (M, 1, 1) of all features
    values: Squares | Powers
    coef: np.ndarray  # (M, q, t)
    bound: np.ndarray | None  # (M, 1, t)
    bounds: np.ndarray | None  # (2, M, 1, t)

    @staticmethod
    def sort_of(model: Served, place: Place, /) -> Hashable:
        """Return what they have in common."""
        f, prepared = model.values, Prepared.sort_of(model, place)
        if prepared is None or not isinstance(f, KernelSum) or _way(f.kernel) is None:
            return None
        nothing = [one is None for one in (f.bound, f.bounds)]
        turns = None if f.components is None else f.components.ndim
        kernel = _unstretched(f.kernel)
        return prepared, kernel, f.centers.shape[1], f.coef.dtype, f.coef.shape[1], turns, *nothing

    @classmethod
    def of(cls, models: Sequence[Served], places: Sequence[Place], views: Views, /) -> Self:
        """Stack models of one sort."""
        parts: Any = [model.values for model in models]
        kernel, q = parts[0].kernel, max(len(one.coef) for one in parts)
        way = _way(kernel)
        assert way is not None
        centers = [one.centers / one.kernel.lengthscale for one in parts]
        coef = [np.pad(one.coef, ((0, q - len(one.coef)), (0, 0))) for one in parts]
        return cls(
            prepared=Prepared.of(models, places, views),
            components=np.stack([_stretched(one) for one in parts]),
            values=way.of(centers, _unstretched(kernel)),
            coef=np.stack(coef),
            bound=_stacked([one.bound for one in parts], 0),
            bounds=_stacked([one.bounds for one in parts], 1),
        )

    @property
    def width(self) -> int:
        """Elements that a row needs."""
        return max(self.coef.shape[0] * self.coef.shape[1], self.components.size)

    def __call__(self, view: View, /) -> np.ndarray:
        """Evaluate all."""
        X, B = self.prepared.rows(view), self.components
        U = X * B if B.shape[1] == 1 else X @ B
        found = self.values(U).astype(self.coef.dtype, copy=False) @ self.coef
        if self.bound is not None:
            found = np.minimum(np.maximum(found, -self.bound), self.bound)
        found = self.prepared.intercept + found
        found = found if self.bounds is None else inside(found, self.bounds)
        return self.prepared.said(found)


def _unstretched(kernel: Any) -> Any:
    return replace(kernel, lengthscale=1.0)


def _stretched(f: Any) -> np.ndarray:
    """Matrix (d, k), or factors (1, d) or (1, 1), for points in units of the lengthscale."""
    stretch = 1.0 / f.kernel.lengthscale
    if f.components is None:
        return np.full((1, 1), stretch, dtype=f.reference.dtype)
    return np.atleast_2d(np.asarray(f.components).T) * stretch


def _stacked(arrays: Sequence[Any], axis: int) -> np.ndarray | None:
    """Limits of models for rows: (M, 1, t), or (2, M, 1, t)."""
    return None if arrays[0] is None else np.expand_dims(np.stack(arrays, axis=axis), -2)


@dataclass(frozen=True, eq=False)
class Squares:
    """Functions of squared distances by one matrix product, as of `squared_distances`."""

    center: np.ndarray  # (M, 1, k)
    right: np.ndarray  # (M, k + 2, q)
    profile: Callable[[Any], Any]

    @classmethod
    def of(cls, centers: Sequence[np.ndarray], kernel: Radial, /) -> Self:
        """Take centres (q, k) of models; fewer are filled up with what has no coefficient."""
        middle = [points.mean(axis=0) for points in centers]
        Z = _filled([points - c for points, c in zip(centers, middle, strict=True)])
        squares = np.sum(Z * Z, axis=2, keepdims=True)
        right = np.concatenate([-2.0 * Z, np.ones_like(squares), squares], axis=2)
        return cls(np.stack(middle)[:, None], right.transpose(0, 2, 1).copy(), kernel.profile)

    def __call__(self, U: np.ndarray, /) -> np.ndarray:
        """Values (M, n, q) at points (M, n, k)."""
        U = U - self.center
        squares = np.sum(U * U, axis=2, keepdims=True)
        found = np.concatenate([U, squares, np.ones_like(squares)], axis=2) @ self.right
        return self.profile(np.maximum(found, 0.0, out=found))


@dataclass(frozen=True, eq=False)
class Powers:
    """Functions of sums of powers of differences, which do not cancel, in float64."""

    centers: np.ndarray  # (k, M, 1, q)
    power: float
    profile: Callable[[Any], Any]

    @classmethod
    def of(cls, centers: Sequence[np.ndarray], kernel: Any, /) -> Self:
        """Take centres (q, k) of models; fewer are filled up with what has no coefficient."""
        Z = _filled([points.astype(np.float64) for points in centers])
        return cls(Z.transpose(2, 0, 1)[:, :, None].copy(), kernel.power, kernel.profile)

    def __call__(self, U: np.ndarray, /) -> np.ndarray:
        """Values (M, n, q) at points (M, n, k)."""
        U = U.astype(np.float64, copy=False).transpose(2, 0, 1)[..., None]
        k, M, _, q = self.centers.shape
        found = np.empty((M, U.shape[2], q))
        with unbuffered():
            for models in near_blocks(M, k * q):
                Z = self.centers[:, models]
                for rows in near_blocks(U.shape[2], Z.size):
                    powers = self._powers(U[:, models, rows] - Z)
                    np.add.reduce(powers, axis=0, out=found[models, rows])
        return self.profile(found)

    def _powers(self, gaps: np.ndarray) -> np.ndarray:
        """Return powers of their sizes, mostly in their place."""
        if self.power == 2:
            return np.multiply(gaps, gaps, out=gaps)
        sizes = np.abs(gaps, out=gaps)
        if self.power > 1:
            rest = np.asarray(fast_power(sizes, self.power - 1.0))
            return np.multiply(sizes, rest, out=sizes)
        return sizes if self.power == 1 else np.asarray(fast_power(sizes, self.power))


def _filled(centers: Sequence[np.ndarray]) -> np.ndarray:
    """Stack points (q, k) of models, of which some have fewer."""
    q = max(map(len, centers))
    return np.stack([np.pad(points, ((0, q - len(points)), (0, 0))) for points in centers])


def _way(kernel: Any) -> type[Squares] | type[Powers] | None:
    """Return how a kernel is evaluated; None of one that is no function of scaled distances."""
    if isinstance(kernel, Radial) and kernel.smooth:
        return Squares
    return Powers if isinstance(kernel, (Radial, Manhattan, PowerExponential)) else None


# ---------------------------------------------------------------------- shapes


@dataclass(frozen=True, eq=False)
class ShapeStack:
    """Means of piecewise-linear functions of projections."""

    prepared: Prepared
    W: np.ndarray  # (M, d, m)
    knots: np.ndarray  # (M m, q)
    values: np.ndarray  # (t, M m, q)

    @staticmethod
    def sort_of(model: Served, place: Place, /) -> Hashable:
        """Return what they have in common."""
        f, prepared = model.values, Prepared.sort_of(model, place)
        if prepared is None or not isinstance(f, ShapeSum):
            return None
        return prepared, f.W.shape, f.values.dtype

    @classmethod
    def of(cls, models: Sequence[Served], places: Sequence[Place], views: Views, /) -> Self:
        """Stack models of one sort; to fewer knots the last ones are added again."""
        parts: Any = [model.values for model in models]
        q = max(one.knots.shape[1] for one in parts)
        missing = [(0, q - one.knots.shape[1]) for one in parts]
        knots = [np.pad(f.knots, ((0, 0), m), "edge") for f, m in zip(parts, missing, strict=True)]
        values = [
            np.pad(f.values, ((0, 0), m, (0, 0)), "edge")
            for f, m in zip(parts, missing, strict=True)
        ]
        return cls(
            prepared=Prepared.of(models, places, views),
            W=np.stack([one.W for one in parts]),
            knots=np.concatenate(knots),
            values=np.moveaxis(np.concatenate(values), 2, 0).copy(),
        )

    @property
    def width(self) -> int:
        """Elements that a row needs."""
        return self.W.size

    def __call__(self, view: View, /) -> np.ndarray:
        """Evaluate all."""
        M, _, m = self.W.shape
        at = (self.prepared.rows(view) @ self.W).transpose(1, 0, 2).reshape(-1, M * m)
        found = [interpolate_columns(at, self.knots, values) for values in self.values]
        parts = [np.reshape(np.asarray(one), (-1, M, m)).mean(axis=2).T for one in found]
        means = np.stack(parts, axis=2)
        return self.prepared.said(self.prepared.intercept + means.astype(self.W.dtype, copy=False))
