"""A placed and scaled data set, and held-out samples that score fits to it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from gpukfl.core._array import (
    Array,
    array_namespace,
    as_columns,
    asarray_like,
    double_reference,
    library_name,
    lies_in_parts,
    like,
    small_reference,
    to_host,
)
from gpukfl.core._places import Place
from gpukfl.core._random import draw_indices
from gpukfl.estimators._fitted import held
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._validation import weighted_mean_scale
from gpukfl.estimators.scaling import AnyScaling, learn_scaling
from gpukfl.methods import FOLDS_BELOW, N_FOLDS
from gpukfl.operators import center
from gpukfl.partitioned._rows import Rows, move_if_fits, recompute, reduce_rows

# ------------------------------------------------------------------------- precision range


def check_range(rows: Rows, Y: Array, /) -> None:
    """Raise ValueError if data overflow or underflow their precision."""
    xp, of_targets = array_namespace(rows.reference), array_namespace(Y)
    dtype = rows.reference.dtype
    limit = float(xp.finfo(dtype).max)
    if not bool(of_targets.all(of_targets.isfinite(Y))):
        msg = f"y overflows {dtype}: expected targets below {limit:.0e}; use float64"
        raise ValueError(msg)

    largest = _largest_size(rows, lambda X: xp.sum(X * X, axis=1))
    if not np.isfinite(largest):
        msg = (
            f"X overflows {dtype}: expected squared row norms below {limit:.0e}; standardise X, or "
            "use float64"
        )
        raise ValueError(msg)
    least = float(xp.finfo(dtype).smallest_normal)
    if largest < least and _largest_size(rows, lambda X: xp.max(xp.abs(X), axis=1)) > 0:
        msg = (
            f"X underflows {dtype}: expected a squared row norm of at least {least:.0e}; "
            "standardise X, or use float64"
        )
        raise ValueError(msg)


def _largest_size(rows: Rows, size: Callable[[Array], Array]) -> float:
    """Return the largest of the sizes (n,) of rows, or NaN if one is."""
    xp = array_namespace(rows.reference)

    def part(start: int, stop: int) -> list[Array]:
        blocks = (X for _, _, X in rows.blocks(start=start, stop=stop))
        with np.errstate(over="ignore", invalid="ignore"):
            return [functools.reduce(_elementwise_max, [xp.max(size(X)) for X in blocks])]

    (found,) = reduce_rows(rows.source, part, combine=_elementwise_max)
    return float(found)


def _elementwise_max(a: Array, b: Array) -> Array:
    return array_namespace(a).maximum(a, b)


# ------------------------------------------------------------------------------------ data

_BOUND_FACTOR = 2.0  # largest prediction, in units of the largest deviation of a target
_PAIR_ROWS = 1_000  # rows in a sample for statistics of all pairs


class HasScaling(Protocol):
    """Settings with a scaling of the features."""

    @property
    def scaling(self) -> str | tuple[str, ...] | None:
        """A word of `scaling.WORDS`, or one for each term; None for features as they are."""


class Data:
    """Samples and targets on a place, with scaled features.

    Methods with more than this derive a class. Targets are scaled to unit variance, indicators of
    classes by one common factor, and with `raw_targets` not at all. Scaled features are clipped to
    plus and minus `clip`.

    Attributes
    ----------
    n, d : int
        Numbers of rows and features.
    rng : RandomState
        Draws of the fit.
    rows : Rows
        Samples (n, d).
    Y : array, shape (n, t)
        Targets: (y - `y_mean`) / `y_scale`.
    weights, root_weights : array, shape (n, 1), or None
        Sample weights, and their square roots.
    constant : bool
        Whether no target varies.
    """

    def __init__(
        self,
        settings: HasScaling,
        samples: Samples,
        place: Place,
        run: Run,
        /,
        *,
        raw_targets: bool = False,
        clip: float | None = None,
    ) -> None:
        self.settings, self.rng, self.reference = settings, run.rng, place.reference
        self.relations = samples.relations
        self.rows = replace(scale_rows(settings, samples, self.reference), clip=clip)
        self.n, self.d = self.rows.shape
        xp = array_namespace(self.reference)
        self.root_weights, self.weights = None, None
        if samples.weights is not None:
            roots = array_namespace(samples.weights).sqrt(samples.weights)
            self.root_weights = asarray_like(roots[:, None], self.reference)
            self.weights = self.root_weights * self.root_weights
        s, self.n_effective = self.root_weights, samples.n_effective
        # In float64, from any library
        Y = Place(place.xp, place.device, "float64").put(as_columns(samples.Y))
        self.y_mean, spread = weighted_mean_scale(Y, s)
        if raw_targets:
            self.y_mean, self.y_scale = xp.zeros_like(spread), xp.ones_like(spread)
        else:
            joint = xp.sqrt(xp.sum(spread**2)) + xp.zeros_like(spread)
            spread = joint if samples.labels else spread
            self.y_scale = xp.where(spread > 0, spread, xp.ones_like(spread))
        Y = (Y - self.y_mean) / self.y_scale
        with np.errstate(over="ignore"):  # found by check_range
            self.Y = recompute(array_namespace(Y).astype(Y, self.reference.dtype))
        check_range(replace(self.rows, clip=None), self.Y)
        centered = center(self.Y, s)
        self.constant = not bool(array_namespace(centered).any(abs(centered) > 1e-12))

    @cached_property
    def kept_rows(self) -> Rows:
        """The rows, scaled once if they are few, for the many passes of a fit."""
        return self.rows.materialize()

    @cached_property
    def bound(self) -> Array:
        """The largest absolute prediction (t,), as predictions may be wild outside the data."""
        return _BOUND_FACTOR * array_namespace(self.Y).max(abs(self.Y), axis=0)

    @property
    def scaling(self) -> AnyScaling | None:
        """The scaling of the features."""
        found = self.rows.scaling
        assert found is None or isinstance(found, AnyScaling)
        return found

    def to_target_units(self, values: Array, /, *, mean: bool = False) -> Array:
        """Return values (..., t) in units of the targets, perhaps plus their mean, in float64."""
        xp = array_namespace(self.y_scale)
        with np.errstate(over="ignore"):  # found by check_finite_result
            found = xp.astype(values, xp.float64, copy=False) * self.y_scale
            return found + self.y_mean if mean else found

    def take(self, index: np.ndarray, /) -> Self:
        """Return the data of rows at ascending host indices, in one place, with equal scaling."""
        some = copy(self)
        some.rows, some.Y, some.weights, some.root_weights = self.rows.take_with(
            index, self.Y, self.weights, self.root_weights
        )
        some.n = len(index)
        some.relations = None if self.relations is None else self.relations.take(index)
        vars(some).pop("kept_rows", None)
        return some

    def blocks_left_out(self) -> list[np.ndarray] | None:
        """Return host indices of rows to leave out together; None to leave out single rows."""
        if self.relations is None:
            return None
        blocks = self.relations.blocks(self.rng, N_FOLDS)
        if blocks is None:
            return None
        parts = [np.flatnonzero(blocks == k) for k in range(int(blocks.max()) + 1)]
        return parts if self.n < FOLDS_BELOW else parts[:1]

    def sample(self) -> tuple[Array, np.ndarray | None]:
        """Draw some rows with their weights, for statistics of pairs."""
        index = draw_rows(self.n, self.rng)
        rows, s = self.rows.take_with(index, self.root_weights)
        weights = None if s is None else to_host(s)[:, 0].astype(np.float64) ** 2
        return rows.whole(), weights

    def scale_samples(self, samples: Samples, /) -> tuple[Array, Array]:
        """Return other samples and their targets (float64), placed and scaled like these."""
        rows = replace(self.rows, source=samples.X, leading_ones=False)
        xp = array_namespace(self.reference)
        Y = to_host(samples.Y).astype(np.float64)
        wide = asarray_like(Y, xp.astype(self.reference, xp.float64))
        return rows.whole(), (wide - self.y_mean) / self.y_scale


def draw_rows(n: int, rng: np.random.RandomState, /, at_most: int = _PAIR_ROWS) -> np.ndarray:
    """Draw ascending host indices of at most so many of n rows; by default for all pairs."""
    return np.arange(n) if n <= at_most else np.sort(draw_indices(rng, n, at_most))


def draw_weighted_rows(
    weights: Array | None, n: int, at_most: int, rng: np.random.RandomState, /
) -> np.ndarray:
    """Draw ascending host indices of at most `count` of n rows with positive weights (n, 1).

    Partitioned weights are taken as positive.
    """
    known = None if weights is None or lies_in_parts(weights) else to_host(weights)[:, 0]
    kept = None if known is None else np.flatnonzero(known)
    index = draw_rows(n if kept is None else len(kept), rng, at_most)
    return index if kept is None else kept[index]


def scale_rows(settings: HasScaling, samples: Samples, reference: Array, /) -> Rows:
    """Return rows on the place of `reference`, scaled by the settings."""
    X = move_if_fits(samples.X, reference)
    if settings.scaling is None:
        return Rows(X, reference)
    # On the place of the data, where its sums are computed
    there = double_reference(samples.X)
    weights = samples.weights if samples.given_weights is None else samples.given_weights
    scaling = learn_scaling(settings.scaling, Rows(samples.X, there), weights)
    return Rows(X, reference, scaling)


def make_mover(X: Array, dtype: str) -> Callable[[Array], Array]:
    """Return a function that moves results to the library and device of `X`."""
    X = small_reference(X)
    xp = array_namespace(X)
    target = xp.empty((0,), dtype=getattr(xp, dtype), device=like(X)["device"])

    return lambda x: move_like(x, target)


def move_like(x: Array, target: Array, /) -> Array:
    """Move an array to the library, dtype and device of another.

    Overflow gives infinity, which `check_finite_result` reports.
    """
    with np.errstate(over="ignore"):
        if library_name(x) == library_name(target):
            return array_namespace(target).asarray(x, **like(target))
        return asarray_like(to_host(x), target)


def rescale_dual_coefficients(alpha: Array, data: Data, there: Array, /) -> Array:
    """Return coefficients (q, t) of centres in units of the targets, beside an array.

    They are float64 for rows of any precision, as those of small ridges nearly cancel.
    """
    return move_like(data.to_target_units(alpha), double_reference(there))


def truncate(fitted: Array, bound: Array, /) -> Array:
    """Clip predictions (n, t) to plus and minus `bound` (t,)."""
    xp = array_namespace(fitted)
    return xp.minimum(xp.maximum(fitted, -bound), bound)


# -------------------------------------------------------------------------------- held out


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out samples on a problem's scale."""

    X: Array
    Y: Array  # float64
    weights: Array  # (n, 1), float64
    groups: np.ndarray | None = None  # (n,), of dependent rows

    @classmethod
    def from_samples(cls, problem: Data, samples: Samples, /) -> Self:
        """Place and scale samples like the problem's."""
        placed, targets = problem.scale_samples(samples)
        w = np.ones(len(samples)) if samples.weights is None else samples.weights
        return cls(placed, targets, asarray_like(w[:, None], targets), samples.groups)

    def losses(self, predicted: Array, /) -> np.ndarray:
        """Return the weighted squared errors (n,) of predictions (n, t), on the host."""
        Y, weights = self._host_targets
        left = Y - to_host(predicted).astype(np.float64, copy=False)
        return np.sum(weights * left**2, axis=1)

    def error(self, predicted: Array, /) -> float:
        """Return the sum of weighted squared errors of predictions (n, t)."""
        return float(self.losses(predicted).sum())

    @cached_property
    def spread(self) -> float:
        """The error of predicting the mean."""
        Y, weights = self._host_targets
        mean = np.sum(weights * Y, axis=0) / np.sum(weights)
        return float(np.sum(weights * (Y - mean) ** 2))

    @cached_property
    def _host_targets(self) -> tuple[np.ndarray, np.ndarray]:
        """Targets (n, t) and weights (n, 1) on the host."""
        return to_host(self.Y), to_host(self.weights)


# ---------------------------------------------------------------------------------- bounds


class BoundedPredictions:
    """An estimator that clips its predictions to bounds."""

    bounds_: Array = held("values.bounds")


def prediction_bounds(problem: Data, back: Callable[[Array], Array], /) -> Array:
    """Return the lowest and highest prediction (2, t) of each target."""
    bound = problem.bound * problem.y_scale
    ends = [back(problem.y_mean - bound), back(problem.y_mean + bound)]
    return array_namespace(ends[0]).stack(ends)
