"""Stacks of models of one kind, over all folds and members of a blend.

Every model takes dozens of small steps for a row. Steps that do not depend on the row are done when
models are stacked. A stack does each of the others once, for all of its models.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import operator
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from gpukfl._accel.trust import has_compiled_code
from gpukfl.core._array import (
    Array,
    array_namespace,
    clip,
    concat_rows,
    get_device,
    is_host,
    library_name,
    to_double,
    to_host,
)
from gpukfl.kernels import (
    KERNELS,
    ColumnBlock,
    Kernel,
    Manhattan,
    PowerExponential,
    Scaled,
    Sum,
    sum_terms,
)
from gpukfl.kernels._radial import Radial
from gpukfl.linalg import interpolate_columns, interpolate_knots
from gpukfl.linalg._distances import fast_power
from gpukfl.operators import diagonal_map
from gpukfl.predictor._classes import Classes, proba
from gpukfl.predictor._foreign import LinearValues
from gpukfl.predictor._forest import Forest
from gpukfl.predictor._function import Function
from gpukfl.predictor._predictor import Foreign, Predictor
from gpukfl.predictor._sums import KernelSum, ShapeSum, inside
from gpukfl.predictor._views import Slot, View, Views, scaling_parts, take_second_axis

_CACHE_ELEMENTS = 2**16  # a few arrays of so many elements fit in the processor's cache
_MAX_MATRIX = 2**18  # elements of a kernel matrix
_MIN_LENGTHSCALE, _MAX_LENGTHSCALE = 1e-100, 1e100  # points can be divided by these


class Stack(Protocol):
    """A stack of models of one kind."""

    @property
    def reference(self) -> Array | None:
        """An array of the library and device of the computation, or None for any."""

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""

    @property
    def steps(self) -> int:
        """Approximate number of operations per row in NumPy."""

    def __call__(self, view: View, /) -> Array:
        """Return predictions (m, n, t) of the models, or probabilities."""


# ---------------------------------------------------------------------- one model


@dataclass(frozen=True, eq=False)
class SingleModel:
    """A model that is not stacked.

    `is_traced` is whether arrays record operations.
    """

    model: Predictor
    slot: Slot
    n_classes: int
    is_traced: bool = False

    def __post_init__(self) -> None:
        self.model.values.prepare()

    @property
    def is_foreign(self) -> bool:
        """Whether another library computes predictions, and makes blocks of rows itself."""
        return isinstance(self.model.values, Foreign)

    @cached_property
    def reference(self) -> Array | None:
        """An array of the library and device of the computation, or None for any."""
        values = self.model.values
        on_host = not isinstance(values, Function) and getattr(values, "on_host", True)
        return np.empty(0) if on_host and not self.is_traced else None

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        return self.model.values.width

    @property
    def steps(self) -> int:
        """Approximate number of operations per row in NumPy."""
        found: int = getattr(self.model.values, "steps", self.width)
        return found

    def __call__(self, view: View, /) -> Array:
        """Evaluate the model."""
        make_rows = view.traceable_rows if self.is_traced else view.model_rows
        return self.model.outputs(make_rows(self.slot), self.n_classes)[None, ...]


# ---------------------------------------------------------------------- linear models, trees


@dataclass(frozen=True, eq=False)
class LinearStack:
    """A stack of linear models, with scalings merged into the coefficients."""

    folds: np.ndarray  # (m,)
    mean: np.ndarray  # (m, d)
    coef: np.ndarray  # (m, d, t)
    intercept: np.ndarray  # (m, 1, t)
    sees: str
    classes: bool
    reference: ClassVar[Array] = np.empty(0)  # on the host

    @staticmethod
    def stack_key(model: Predictor, slot: Slot, /) -> Hashable:
        """Return the key of models that can be stacked, or None."""
        values = model.values
        if not isinstance(values, LinearValues):
            return None
        return slot.sees, values.classes, values.coef.shape

    @classmethod
    def build(cls, models: Sequence[Predictor], slots: Sequence[Slot], views: Views, /) -> Self:
        """Stack models with one key."""
        parts: Any = [model.values for model in models]
        return cls(
            folds=np.array([views.fold_index(slot) for slot in slots]),
            mean=np.stack([one.mean for one in parts]),
            coef=np.stack([one.coef / one.scale[:, None] for one in parts]),
            intercept=np.stack([one.intercept[None] for one in parts]),
            sees=slots[0].sees,
            classes=parts[0].classes,
        )

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        return self.mean.size

    @property
    def steps(self) -> int:
        """Approximate number of operations per row in NumPy."""
        return self.coef.size

    def __call__(self, view: View, /) -> np.ndarray:
        """Evaluate all models."""
        X: Any = take_second_axis(view.rows(self.sees), self.folds)
        raw = (X - self.mean).transpose(1, 0, 2) @ self.coef + self.intercept
        return np.asarray(proba(raw, self.coef.shape[2])) if self.classes else raw


@dataclass(frozen=True, eq=False)
class ForestStack:
    """Several forests without categories, concatenated to one."""

    forest: Forest  # has the outputs of all models
    n_outputs: int  # of each model
    sees: str
    link: str
    reference: ClassVar[Array] = np.empty(0)  # on the host

    @staticmethod
    def stack_key(model: Predictor, slot: Slot, /) -> Hashable:
        """Return the key of models that can be concatenated, or None."""
        values = model.values
        if not isinstance(values, Forest) or len(values.subsets):
            return None
        return slot.sees, values.link, len(values.baseline)

    @classmethod
    def build(cls, models: Sequence[Predictor], slots: Sequence[Slot], views: Views, /) -> Self:
        """Concatenate models with one key."""
        forests = [model.values for model in models if isinstance(model.values, Forest)]
        n_folds, d = views.shape(slots[0].sees)
        if any(one.n_features != d for one in forests):
            msg = f"expected trees of {d} columns, got {[one.n_features for one in forests]}"
            raise ValueError(msg)
        first = [d * views.fold_index(slot) for slot in slots]
        whole = Forest.concat(forests, first, n_folds * d)
        return cls(whole, len(forests[0].baseline), slots[0].sees, whole.link)

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        return len(self.forest.baseline)

    @property
    def steps(self) -> int:
        """Approximate number of operations per row in NumPy."""
        return 50 * len(self.forest.trees)

    def __call__(self, view: View, /) -> np.ndarray:
        """Values (m, n, t), or probabilities."""
        X: Any = view.rows(self.sees)
        X = X.reshape(len(X), -1)
        if has_compiled_code(X):
            sums = self.forest.compiled_sums(X)
        else:
            blocks = cache_blocks(len(X), len(self.forest.trees))
            sums = np.concatenate([self.forest.sums(X[rows]) for rows in blocks])
        raw = sums.reshape(len(X), -1, self.n_outputs).transpose(1, 0, 2)
        if self.link == "log":
            return np.exp(raw)
        return np.asarray(proba(raw, self.n_outputs)) if self.link == "probabilities" else raw


# ---------------------------------------------------------------------- functions of methods


@dataclass(frozen=True, eq=False)
class RowPreparation:
    """Scaling of rows for several functions, and conversion of their values to outputs."""

    reference: Array  # has the library, device and dtype of the computation
    sees: str
    scalings: np.ndarray  # (m, c): indices of the c scalings of each model
    clip: float | None
    intercept: Array  # (m, 1, t)
    classes: Classes | None
    limits: Array | None  # (2, m, 1, t): least and largest logarithms of means

    @staticmethod
    def stack_key(model: Predictor, slot: Slot, /) -> Hashable:
        """Return the key of functions whose rows can be scaled together, or None."""
        f, classes = model.values, model.classes
        if not isinstance(f, Function) or f.leading_ones:
            return None
        parts = scaling_parts(f.scaling)
        if not all(part is None or hasattr(part, "concat") for part in parts):
            return None
        class_key = None
        if classes is not None:
            class_key = classes.count, classes.signs, type(classes.calibration)
        computation = library_name(f.reference), str(get_device(f.reference)), f.reference.dtype
        has_link, shape = f.link is not None, f.intercept.shape
        return slot.sees, len(parts), f.clip, computation, shape, class_key, has_link

    @classmethod
    def build(cls, models: Sequence[Predictor], slots: Sequence[Slot], views: Views, /) -> Self:
        """Combine models with one key."""
        parts: Any = [model.values for model in models]
        pairs = zip(parts, slots, strict=True)
        reference = parts[0].reference
        return cls(
            reference=reference,
            sees=slots[0].sees,
            scalings=np.array(
                [
                    [views.register_scaling(part, slot) for part in scaling_parts(one.scaling)]
                    for one, slot in pairs
                ]
            ),
            clip=parts[0].clip,
            intercept=place_like(
                np.stack([to_host(one.intercept)[None] for one in parts]), reference
            ),
            classes=_join_classes(models, reference),
            limits=_stack_log_limits(parts, reference),
        )

    def rows(self, view: View, /) -> Array:
        """Return the scaled rows (m, n, d) of all models."""
        X = take_second_axis(view.scale(self.sees), self.scalings.ravel())
        if self.scalings.shape[1] > 1:
            shape = X.shape[0], len(self.scalings), self.scalings.shape[1] * X.shape[2]
            X = array_namespace(X).reshape(X, shape)
        if self.clip is not None:
            X = clip(X, low=-self.clip, high=self.clip)
        if is_host(X):
            # Contiguous: with strides of a power of two, matrix products take 30 times as long
            return np.ascontiguousarray(X.transpose(1, 0, 2), dtype=to_host(self.reference).dtype)
        xp: Any = array_namespace(X)
        X = xp.permute_dims(X, (1, 0, 2))
        moved: Array = xp.astype(X, self.reference.dtype, copy=False)
        return moved

    def outputs(self, found: Array, /) -> Array:
        """Return predictions, or probabilities, (m, n, t) from values."""
        xp = array_namespace(found)
        if self.limits is not None:
            low, high = (xp.astype(self.limits[k, ...], found.dtype) for k in (0, 1))
            return xp.exp(xp.minimum(xp.maximum(found, low), high))
        if self.classes is None:
            return found
        return xp.exp(self.classes.log_proba(found))


def _stack_log_limits(parts: Sequence[Any], reference: Array) -> Array | None:
    """Stack the limits of logarithms of means, if functions have a link."""
    if parts[0].link is None:
        return None
    limits = np.array([[one.link.low, one.link.high] for one in parts])  # (m, 2, t)
    return place_like(limits.transpose(1, 0, 2)[:, :, None], reference)


def _join_classes(models: Sequence[Predictor], reference: Array) -> Classes | None:
    """Combine the calibrations of models; None for regressions."""
    known = [model.classes for model in models if model.classes is not None]
    if not known:
        return None
    numbers: Any = {
        name: place_like(
            np.array([getattr(one.calibration, name) for one in known])[:, None, None], reference
        )
        for name in vars(known[0].calibration)
    }
    first: Any = known[0].calibration
    joint = dataclasses.replace(first, **numbers)
    return dataclasses.replace(known[0], calibration=joint)


def place_like(x: np.ndarray, reference: Array) -> Array:
    """Copy a host array to the library and device of `reference`; its dtype stays."""
    if is_host(reference):
        return x
    return array_namespace(reference).asarray(x, device=get_device(reference))


@dataclass(frozen=True, eq=False)
class KernelStack:
    """A stack of sums of one kernel, with lengthscales merged into rows and centres.

    For a sum of kernels, a point has the coordinates of all terms side by side.
    """

    preparation: RowPreparation
    components: Array  # (m, d, k); or factors of features (m, 1, d), or one for all (m, 1, 1)
    values: Squares | Powers | Terms
    counts: tuple[int, ...]  # numbers of centres of each model, without padding
    coef: Array  # (m, q, t)
    bound: Array | None  # (m, 1, t)
    bounds: Array | None  # (2, m, 1, t)

    @staticmethod
    def stack_key(model: Predictor, slot: Slot, /) -> Hashable:
        """Return the key of models that can be stacked, or None."""
        f, preparation = model.values, RowPreparation.stack_key(model, slot)
        if preparation is None or not isinstance(f, KernelSum) or _evaluator(f.kernel) is None:
            return None
        if f.coef is None or f.columns is not None:
            return None
        if _evaluator(f.kernel) is Terms and f.components is None:
            return None
        clips = f.bound is not None, f.bounds is not None
        map_ndim = None if f.components is None else f.components.ndim
        kernel, k, t = _unit_kernel(f.kernel), f.points.shape[1], f.coef.shape[1]
        return preparation, kernel, k, f.coef.dtype, t, map_ndim, clips

    @classmethod
    def build(cls, models: Sequence[Predictor], slots: Sequence[Slot], views: Views, /) -> Self:
        """Stack models with one key."""
        parts: Any = [model.values for model in models]
        kernel, reference = parts[0].kernel, parts[0].reference
        evaluator = _evaluator(kernel)
        assert evaluator is not None
        centers = [_stretch_points(to_host(one.points), one.kernel) for one in parts]
        return cls(
            preparation=RowPreparation.build(models, slots, views),
            components=place_like(np.stack([_stretch_matrix(one) for one in parts]), reference),
            values=evaluator.from_centers(centers, [one.kernel for one in parts], reference),
            counts=tuple(map(len, centers)),
            coef=place_like(_pad_and_stack([to_host(one.coef) for one in parts]), reference),
            bound=_stack_limits([one.bound for one in parts], 0, reference),
            bounds=_stack_limits([one.bounds for one in parts], 1, reference),
        )

    @property
    def reference(self) -> Array:
        """An array of the library and device of the computation."""
        return self.preparation.reference

    @property
    def width(self) -> int:
        """Return the temporary elements per row; a GPU evaluates all models at once."""
        (m, q, _), size = self.coef.shape, self.components.shape
        at_once = 1 if is_host(self.reference) or isinstance(self.values, Powers) else m
        return max(at_once * q, m * max(size[1:]))

    @property
    def steps(self) -> int:
        """Approximate number of operations per row in NumPy."""
        m, q, _ = self.coef.shape
        return m * q * (self.values.n_features if isinstance(self.values, Powers) else 50)

    def __call__(self, view: View, /) -> Array:
        """Evaluate all models, several at a time if their kernel matrices are small."""
        X, (m, q, _) = self.preparation.rows(view), self.coef.shape
        at_once = m
        if is_host(X):
            at_once = max(_MAX_MATRIX // max(X.shape[1] * q, 1), 1)
        elif isinstance(self.values, Powers):
            at_once = 1
        found = concat_rows([self._sums(X, k, min(k + at_once, m)) for k in range(0, m, at_once)])
        if self.bound is not None:
            xp = array_namespace(found)
            found = xp.minimum(xp.maximum(found, -self.bound), self.bound)
        found = self.preparation.intercept + found
        found = found if self.bounds is None else inside(found, self.bounds)
        return self.preparation.outputs(found)

    def _sums(self, X: Array, start: int, stop: int) -> Array:
        """Evaluate the sums (s, n, t) of the models from start to stop."""
        X, B = X[start:stop, ...], self.components[start:stop, ...]
        U = X * B if B.shape[1] == 1 else X @ B
        q = max(self.counts[start:stop])
        K, coef = self.values.evaluate(U, start, stop, q), self.coef[start:stop, :q, :]
        return (K if K.dtype == coef.dtype else array_namespace(K).astype(K, coef.dtype)) @ coef


def _unit_kernel(kernel: Any) -> Any:
    """Return the kernel with lengthscale 1; for a sum, those of its terms and their columns."""
    if _evaluator(kernel) is Terms:
        return tuple((_unit_kernel(one), columns) for _, one, columns in _split_terms(kernel))
    return dataclasses.replace(kernel, lengthscale=1.0)


def _split_terms(kernel: Kernel) -> list[tuple[float, Any, tuple[int, int | None]]]:
    """Return the terms of a sum: factor, kernel, and its columns as (start, stop).

    For all columns, stop is None.
    """
    found: list[tuple[float, Any, tuple[int, int | None]]] = []
    for term in sum_terms(kernel):
        factor, one = (term.factor, term.kernel) if isinstance(term, Scaled) else (1.0, term)
        if isinstance(one, ColumnBlock):
            found.append((factor, one.kernel, (one.start, one.stop)))
        else:
            found.append((factor, one, (0, None)))
    return found


def _stretch_points(U: np.ndarray, kernel: Any) -> np.ndarray:
    """Return points (n, k) in units of the lengthscale; for a sum, side by side for all terms."""
    if _evaluator(kernel) is not Terms:
        return U / kernel.lengthscale
    return np.concatenate(
        [U[:, slice(*columns)] / one.lengthscale for _, one, columns in _split_terms(kernel)],
        axis=1,
    )


def _stretch_matrix(f: Any) -> np.ndarray:
    """Return the map (d, k), (1, d) or (1, 1) from rows to points in units of the lengthscale."""
    if _evaluator(f.kernel) is Terms:
        return _stretch_points(to_host(diagonal_map(f.components)).T, f.kernel)
    stretch = 1.0 / f.kernel.lengthscale
    if f.components is None:
        return np.asarray([[stretch]])
    return np.atleast_2d(to_host(f.components).T) * stretch


def _stack_limits(arrays: Sequence[Any], axis: int, reference: Array) -> Array | None:
    """Stack the limits of models: (m, 1, t), or (2, m, 1, t)."""
    if arrays[0] is None:
        return None
    return place_like(
        np.expand_dims(np.stack(list(map(to_host, arrays)), axis=axis), -2), reference
    )


@dataclass(frozen=True, eq=False)
class Squares:
    """Functions of squared distances, from one matrix product as in `squared_distances`."""

    center: Array  # (m, 1, k)
    right: Array  # (m, k + 2, q)
    profile: Callable[[Any], Any]

    @classmethod
    def from_centers(
        cls, centers: Sequence[np.ndarray], kernels: Sequence[Radial], reference: Array, /
    ) -> Self:
        """Stack the centres (q, k) of models, padded by centres with coefficient 0."""
        kernel = _unit_kernel(kernels[0])
        middle = [points.mean(axis=0) for points in centers]
        Z = _pad_and_stack([points - c for points, c in zip(centers, middle, strict=True)])
        squares = np.sum(Z * Z, axis=2, keepdims=True)
        right = np.concatenate([-2.0 * Z, np.ones_like(squares), squares], axis=2)
        columns = right.transpose(0, 2, 1).copy()
        center = np.stack(middle)[:, None]
        return cls(place_like(center, reference), place_like(columns, reference), kernel.profile)

    def evaluate(self, U: Array, start: int, stop: int, q: int, /) -> Array:
        """Values (s, n, q) at points (s, n, k), by q centres of the models from start to stop."""
        xp, right = array_namespace(U), self.right[start:stop, :, :q]
        U = U - self.center[start:stop, ...]
        squares = xp.sum(U * U, axis=2, keepdims=True)
        found = xp.concat([U, squares, xp.ones_like(squares)], axis=2) @ right
        if is_host(found):  # NumPy can write to the same array
            return self.profile(np.maximum(found, 0.0, out=found))
        return self.profile(clip(found, low=0.0))


@dataclass(frozen=True, eq=False)
class Powers:
    """Functions of sums of powers of differences, in float64."""

    centers: Array  # (m, k, q)
    kernel: Any  # of lengthscale 1

    @classmethod
    def from_centers(
        cls, centers: Sequence[np.ndarray], kernels: Sequence[Any], reference: Array, /
    ) -> Self:
        """Stack the centres (q, k) of models, padded by centres with coefficient 0."""
        kernel = _unit_kernel(kernels[0])
        Z = _pad_and_stack([points.astype(np.float64) for points in centers])
        columns = np.ascontiguousarray(Z.transpose(0, 2, 1))
        return cls(place_like(columns, reference), kernel)

    @property
    def n_features(self) -> int:
        """Coordinates of points."""
        return self.centers.shape[1]

    def evaluate(self, U: Array, start: int, stop: int, q: int, /) -> Array:
        """Values (s, n, q) at points (s, n, k), by q centres of the models from start to stop."""
        Z = self.centers[start:stop, :, :q]
        if not is_host(U) or not is_host(Z):
            xp = array_namespace(U)
            U = to_double(U)
            pairs = [self.kernel._evaluate(U[k, ...], Z[k, ...].T) for k in range(stop - start)]
            return xp.stack(pairs, axis=0)
        U = U.astype(np.float64, copy=False)
        if has_compiled_code(U):
            from gpukfl._accel.cpu_distances import stacked_sums

            rooted = isinstance(self.kernel, PowerExponential)  # roots are faster than powers
            sums = stacked_sums(U, Z, float(self.kernel.power), rooted=rooted)
            return self.kernel.profile_at_distance(sums) if rooted else self.kernel.profile(sums)
        return self.kernel.profile(self._sum_in_numpy(U, Z))

    def _sum_in_numpy(self, U: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """Add up powers (s, n, q) by blocks that fit in the cache."""
        U, Z = U.transpose(2, 0, 1)[..., None], Z.transpose(1, 0, 2)[:, :, None]
        k, m, _, q = Z.shape
        found = np.empty((m, U.shape[2], q))
        with disable_buffering():
            for models in cache_blocks(m, k * q):
                near = Z[:, models]
                for rows in cache_blocks(U.shape[2], near.size):
                    powers = self._powers(U[:, models, rows] - near)
                    np.add.reduce(powers, axis=0, out=found[models, rows])
        return found

    def _powers(self, gaps: np.ndarray) -> np.ndarray:
        """Return the powers of absolute values, mostly in the same array."""
        power = self.kernel.power
        if power == 2:
            return np.multiply(gaps, gaps, out=gaps)
        sizes = np.abs(gaps, out=gaps)
        if power > 1:
            rest = np.asarray(fast_power(sizes, power - 1.0))
            return np.multiply(sizes, rest, out=sizes)
        return sizes if power == 1 else np.asarray(fast_power(sizes, power))


@dataclass(frozen=True, eq=False)
class Terms:
    """Sums of functions of squared distances, each with its own columns."""

    parts: tuple[Squares, ...]
    ends: tuple[int, ...]  # the last column of each part, plus 1
    factors: Array  # (s, m, 1, 1)

    @classmethod
    def from_centers(
        cls, centers: Sequence[np.ndarray], kernels: Sequence[Any], reference: Array, /
    ) -> Self:
        """Stack the centres (q, k) of models, padded by centres with coefficient 0."""
        split = [_split_terms(kernel) for kernel in kernels]
        own = [0 if stop is None else stop - start for _, _, (start, stop) in split[0]]
        # Terms of all columns share the other coordinates equally
        n_columns = (centers[0].shape[1] - sum(own)) // max(own.count(0), 1)
        widths = [width or n_columns for width in own]
        ends = np.cumsum([0, *widths])
        parts = [
            Squares.from_centers(
                [points[:, ends[k] : ends[k + 1]] for points in centers],
                [terms[k][1] for terms in split],
                reference,
            )
            for k in range(len(widths))
        ]
        factors = np.asarray([[factor for factor, _, _ in terms] for terms in split]).T
        dtype = centers[0].dtype
        placed = place_like(factors[..., None, None].astype(dtype), reference)
        return cls(tuple(parts), tuple(ends[1:].tolist()), placed)

    def evaluate(self, U: Array, start: int, stop: int, q: int, /) -> Array:
        """Values (s, n, q) at points (s, n, k), by q centres of the models from start to stop."""
        begins = (0, *self.ends[:-1])
        values = (
            self.factors[k, start:stop, ...] * part.evaluate(U[:, :, begin:end], start, stop, q)
            for k, (part, begin, end) in enumerate(zip(self.parts, begins, self.ends, strict=True))
        )
        return functools.reduce(operator.add, values)


def _pad_and_stack(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Stack arrays (q, k) of models, padded to equal numbers of rows."""
    q = max(map(len, arrays))
    return np.stack([np.pad(one, ((0, q - len(one)), (0, 0))) for one in arrays])


def _evaluator(kernel: Any) -> type[Squares] | type[Powers] | type[Terms] | None:
    """Return the class that evaluates a kernel, or None."""
    if isinstance(kernel, (Sum, Scaled)):
        squares = all(_evaluator(one) is Squares for _, one, _ in _split_terms(kernel))
        return Terms if squares else None
    if type(kernel) not in KERNELS.values():  # a user's subclass may evaluate itself differently
        return None
    if not _MIN_LENGTHSCALE < getattr(kernel, "lengthscale", 0.0) < _MAX_LENGTHSCALE:
        return None
    if isinstance(kernel, Radial) and kernel.smooth:
        return Squares
    return Powers if isinstance(kernel, (Radial, Manhattan, PowerExponential)) else None


@dataclass(frozen=True, eq=False)
class ShapeStack:
    """Means of piecewise-linear functions of projections."""

    preparation: RowPreparation
    W: Array  # (m, d, p)
    knots: Array  # (m, p, q)
    values: Array  # (m, p, q, t)

    @staticmethod
    def stack_key(model: Predictor, slot: Slot, /) -> Hashable:
        """Return the key of models that can be stacked, or None."""
        f, preparation = model.values, RowPreparation.stack_key(model, slot)
        if preparation is None or not isinstance(f, ShapeSum):
            return None
        return preparation, f.W.shape, f.values.dtype

    @classmethod
    def build(cls, models: Sequence[Predictor], slots: Sequence[Slot], views: Views, /) -> Self:
        """Stack models with one key; repeat the last knot of functions with fewer knots."""
        parts: Any = [model.values for model in models]
        q, reference = max(one.knots.shape[1] for one in parts), parts[0].W
        missing = [(0, q - one.knots.shape[1]) for one in parts]
        knots = [
            np.pad(to_host(f.knots), ((0, 0), m), "edge")
            for f, m in zip(parts, missing, strict=True)
        ]
        values = [
            np.pad(to_host(f.values), ((0, 0), m, (0, 0)), "edge")
            for f, m in zip(parts, missing, strict=True)
        ]
        return cls(
            preparation=RowPreparation.build(models, slots, views),
            W=place_like(np.stack([to_host(one.W) for one in parts]), reference),
            knots=place_like(np.stack(knots), reference),
            values=place_like(np.stack(values), reference),
        )

    @property
    def reference(self) -> Array:
        """An array of the library and device of the computation."""
        return self.preparation.reference

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        m, d, p = self.W.shape
        return m * max(d, p)

    @property
    def steps(self) -> int:
        """Approximate number of operations per row in NumPy."""
        return 50 * self.width

    def __call__(self, view: View, /) -> Array:
        """Evaluate all models."""
        at = self.preparation.rows(view) @ self.W  # (m, n, p)
        means = self._means(at) if is_host(at) else self._means_one_by_one(at)
        xp = array_namespace(at)
        return self.preparation.outputs(
            self.preparation.intercept + xp.astype(means, self.W.dtype, copy=False)
        )

    def _means(self, at: np.ndarray) -> np.ndarray:
        """Return means (m, n, t), with one search in the knots of all models."""
        m, n, p = at.shape
        columns = at.transpose(1, 0, 2).reshape(n, m * p)
        knots, tables = self._tables
        found = [np.asarray(interpolate_columns(columns, knots, values)) for values in tables]
        return np.stack([one.reshape(n, m, p).mean(axis=2).T for one in found], axis=2)

    @cached_property
    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Knots (m p, q) of all models, and values (t, m p, q)."""
        knots, values = to_host(self.knots), to_host(self.values)
        columns = knots.reshape(-1, knots.shape[2])
        return columns, np.moveaxis(values.reshape(*columns.shape, -1), 2, 0).copy()

    def _means_one_by_one(self, at: Array) -> Array:
        """Return means (m, n, t), model by model."""
        xp, (m, _, p) = array_namespace(at), at.shape
        sums = [
            interpolate_knots(at[k, ...].T, self.knots[k, ...], self.values[k, ...])
            for k in range(m)
        ]
        return xp.stack(sums, axis=0) / p


# ---------------------------------------------------------------------- all models


_STACK_CLASSES: tuple[Any, ...] = (LinearStack, ForestStack, KernelStack, ShapeStack)


def stack_models(
    models: Sequence[Predictor], slots: Sequence[Slot], views: Views, n_classes: int, /
) -> tuple[list[Stack], np.ndarray]:
    """Stack models, and return their numbers in the order of the outputs."""
    groups: dict[Hashable, list[int]] = {}
    for k, (model, slot) in enumerate(zip(models, slots, strict=True)):
        groups.setdefault(_stack_key(model, slot, n_classes) or k, []).append(k)
    stacks: list[Stack] = []
    for key, group in groups.items():
        if isinstance(key, tuple):
            own = [models[k] for k in group], [slots[k] for k in group]
            stacks.append(key[0].build(*own, views))
        else:
            stacks.append(SingleModel(models[group[0]], slots[group[0]], n_classes))
    return stacks, np.concatenate(list(groups.values()))


def _stack_key(model: Predictor, slot: Slot, n_classes: int) -> tuple[Any, Hashable] | None:
    """Return the stack class and key of a model, or None if it knows too few classes."""
    if n_classes and (n_classes == 1 or not model.knows(n_classes)):
        return None
    keys = ((stack, stack.stack_key(model, slot)) for stack in _STACK_CLASSES)
    return next((found for found in keys if found[1] is not None), None)


# ---------------------------------------------------------------------- the cache


def cache_blocks(n: int, width: int, /) -> Iterator[slice]:
    """Yield blocks of n rows that fit in the cache, with `width` temporary elements per row."""
    size = max(_CACHE_ELEMENTS // max(width, 1), 1)
    return (slice(start, start + size) for start in range(0, n, size))


@contextlib.contextmanager
def disable_buffering() -> Iterator[None]:
    """Disable NumPy's buffering of broadcast arrays.

    NumPy copies them to its buffer if this holds two rows of the result. That takes five times as
    long as the subtraction itself.
    """
    before = np.setbufsize(16)  # elements, the minimum
    try:
        yield
    finally:
        np.setbufsize(before)
