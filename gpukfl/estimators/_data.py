"""One data set, placed and scaled, and how arrays get there and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Protocol

import numpy as np

from gpukfl._array import (
    Array,
    array_namespace,
    as_columns,
    beside,
    double_reference,
    library_of,
    lies_in_parts,
    like,
    small_beside,
    to_host,
)
from gpukfl._draws import drawn
from gpukfl._passes import made_anew
from gpukfl._places import Place
from gpukfl._rows import Rows, resident
from gpukfl.estimators._precision_range import check_range
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._validation import weighted_mean_scale
from gpukfl.estimators.scaling import learned_scaling
from gpukfl.operators import center

_ROOM = 2.0  # times the largest deviation of a target, which predictions stay within
_SAMPLE = 1_000  # rows of which all pairs may be looked at


class Scaled(Protocol):
    """Settings that say how features are scaled."""

    @property
    def scaling(self) -> str | None:
        """A word of `scaling.WORDS`; None for features as they are."""


class Data:
    """Samples and targets, placed; features are scaled as the settings ask for.

    Targets are scaled to unit variance, classes by one factor; with `raw_targets` they stay as
    they are. Scaled features beyond `clip` are moved there.

    Attributes
    ----------
    rows : Rows
        Samples (n, d).
    Y : array, shape (n, t)
        Targets, less `y_mean`, over `y_scale`.
    weights, root_weights : array, shape (n, 1), or None
        Sample weights, and their square roots.
    constant : bool
        Whether no target varies.
    """

    def __init__(
        self,
        settings: Scaled,
        samples: Samples,
        place: Place,
        *,
        raw_targets: bool = False,
        clip: float | None = None,
    ) -> None:
        self.reference = place.reference
        self.rows = replace(scaled_rows(settings, samples, self.reference), clip=clip)
        xp = array_namespace(self.reference)
        s = placed_root_weights(samples, self.reference)
        self.root_weights = s
        self.weights = None if s is None else s * s
        self.n_effective = samples.n_effective
        Y = placed_columns(samples.Y, place)
        self.y_mean, spread = weighted_mean_scale(Y, s)
        if raw_targets:
            self.y_mean, self.y_scale = xp.zeros_like(spread), xp.ones_like(spread)
        else:
            joint = xp.sqrt(xp.sum(spread**2)) + xp.zeros_like(spread)
            spread = joint if samples.labels else spread
            self.y_scale = xp.where(spread > 0, spread, xp.ones_like(spread))
        Y = (Y - self.y_mean) / self.y_scale
        with np.errstate(over="ignore"):  # found by check_range
            self.Y = made_anew(array_namespace(Y).astype(Y, self.reference.dtype))
        check_range(replace(self.rows, clip=None), self.Y)
        centered = center(self.Y, s)
        self.constant = not bool(array_namespace(centered).any(abs(centered) > 1e-12))

    @cached_property
    def bound(self) -> Array:
        """Where predictions may end that are wild outside the data: (t,)."""
        return _ROOM * array_namespace(self.Y).max(abs(self.Y), axis=0)

    def sample(self, rng: np.random.RandomState, /) -> tuple[Array, np.ndarray | None]:
        """Draw some rows, with their weights: what pairs of samples are looked at in."""
        index = some_rows(self.rows.shape[0], rng)
        rows, s = self.rows.taken_with(index, self.root_weights)
        weights = None if s is None else to_host(s)[:, 0].astype(np.float64) ** 2
        return rows.whole(), weights

    def scaled(self, samples: Samples, /) -> tuple[Array, Array]:
        """Other samples and their targets (float64), placed and scaled like these."""
        rows = replace(self.rows, source=samples.X, leading_ones=False)
        xp = array_namespace(self.reference)
        Y = to_host(samples.Y).astype(np.float64)
        wide = beside(Y, xp.astype(self.reference, xp.float64))
        return rows.whole(), (wide - self.y_mean) / self.y_scale


def some_rows(n: int, rng: np.random.RandomState, /) -> np.ndarray:
    """Draw the host indices of so many of n rows that all pairs of them may be looked at."""
    return np.arange(n) if n <= _SAMPLE else np.sort(drawn(rng, n, _SAMPLE))


def drawn_of_weight(
    weights: Array | None, n: int, at_most: int, rng: np.random.RandomState, /
) -> np.ndarray:
    """Draw ascending host indices of at most so many of n rows that have weight (n, 1).

    Those that lie in parts are all taken to have some.
    """
    known = None if weights is None or lies_in_parts(weights) else to_host(weights)[:, 0]
    kept = None if known is None else np.flatnonzero(known)
    count = n if kept is None else len(kept)
    index = np.arange(count) if count <= at_most else np.sort(drawn(rng, count, at_most))
    return index if kept is None else kept[index]


def scaled_rows(settings: Scaled, samples: Samples, reference: Array, /) -> Rows:
    """Rows on the place of `reference`, scaled as the settings ask for."""
    X = resident(samples.X, reference)
    if settings.scaling is None:
        return Rows(X, reference)
    # Where the data are, because sums are made on the host
    there = double_reference(samples.X)
    scaling = learned_scaling(settings.scaling, Rows(samples.X, there), samples.weights)
    return Rows(X, reference, scaling)


def placed_root_weights(samples: Samples, reference: Array, /) -> Array | None:
    """Square roots of the weights (n, 1) on the place of `reference`."""
    if samples.weights is None:
        return None
    xp = array_namespace(samples.weights)
    return beside(xp.sqrt(samples.weights)[:, None], reference)


def placed_columns(Y: Array, place: Place) -> Array:
    """`Y` on the place in float64, whatever library it comes from."""
    return Place(place.xp, place.device, "float64").put(as_columns(Y))


def mover(X: Array, dtype: str) -> Callable[[Array], Array]:
    """Move results to the library and device of `X`."""
    X = small_beside(X)
    xp = array_namespace(X)
    target = xp.empty((0,), dtype=getattr(xp, dtype), device=like(X)["device"])

    return lambda x: moved(x, target)


def moved(x: Array, target: Array, /) -> Array:
    """Move an array of any place to the library, dtype and device of another.

    What that dtype cannot hold becomes infinite, for `check_finite_result` to report.
    """
    with np.errstate(over="ignore"):
        if library_of(x) == library_of(target):
            return array_namespace(target).asarray(x, **like(target))
        return beside(to_host(x), target)


def dual_coefficients(alpha: Array, data: Data, there: Array, /) -> Array:
    """Give coefficients (q, t) of centres in units of the targets, in float64, beside an array.

    In float64, whatever the rows are in: those of small ridges nearly cancel.
    """
    with np.errstate(over="ignore"):
        found = array_namespace(alpha).astype(alpha, data.y_scale.dtype) * data.y_scale[None, :]
    return moved(found, double_reference(there))


def truncated(fitted: Array, bound: Array, /) -> Array:
    """Cut predictions (n, t) off at plus and minus `bound` (t,)."""
    xp = array_namespace(fitted)
    return xp.minimum(xp.maximum(fitted, -bound), bound)
