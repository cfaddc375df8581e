"""One data set, placed and scaled, and how arrays get there and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gpukfl._array import (
    Array,
    array_namespace,
    as_columns,
    beside,
    double_like,
    library_of,
    like,
    to_host,
)
from gpukfl._places import Place
from gpukfl._rows import Rows
from gpukfl.estimators._copies import copies_of, total_weights
from gpukfl.estimators._standardization import column_statistics
from gpukfl.estimators._validation import (
    check_overflow,
    validate_weights,
    weighted_mean_scale,
)
from gpukfl.methods import rows_at
from gpukfl.operators import center

_SAMPLE = 1_000  # rows of which all pairs may be looked at
_WEIGHT_BITS = 33  # of a weight's mantissa


class Data:
    """Samples and targets, placed, and scaled as the settings ask for.

    With `raw_targets` these stay as they are. Scaled features beyond `clip` are moved there.

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
        settings: Any,
        X: Array,
        Y: Array,
        weights: np.ndarray | None,
        place: Place,
        *,
        scale_each: bool,
        raw_targets: bool = False,
        clip: float | None = None,
    ) -> None:
        self.settings = settings
        self.reference = place.reference
        self.rows = replace(scaled_rows(settings, X, weights, self.reference), clip=clip)
        xp = array_namespace(self.reference)
        s = None if weights is None else beside(np.sqrt(weights)[:, None], self.reference)
        self.root_weights = s
        self.weights = None if s is None else s * s
        self.n_effective = effective_number(weights, X.shape[0])
        self.y_mean, spread = weighted_mean_scale(placed_columns(Y, place), s)
        if raw_targets:
            self.y_mean, self.y_scale = xp.zeros_like(spread), xp.ones_like(spread)
        elif settings.normalize_y:
            joint = xp.sqrt(xp.sum(spread**2)) + xp.zeros_like(spread)
            spread = spread if scale_each else joint
            self.y_scale = xp.where(spread > 0, spread, xp.ones_like(spread))
        else:
            self.y_scale = xp.ones_like(spread)
        Y = (placed_columns(Y, place) - self.y_mean) / self.y_scale
        with np.errstate(over="ignore"):  # found by check_overflow
            self.Y = xp.astype(Y, self.reference.dtype)
        check_overflow(replace(self.rows, clip=None), self.Y)
        self.constant = not bool(xp.any(xp.abs(center(self.Y, s)) > 1e-12))

    def sample(self, rng: np.random.RandomState, /) -> tuple[Array, np.ndarray | None]:
        """Draw some rows, with their weights: what pairs of samples are looked at in."""
        n, s = self.rows.shape[0], self.root_weights
        index = np.arange(n)
        if n > _SAMPLE:
            index = np.sort(rng.choice(n, _SAMPLE, replace=False))
        weights = None if s is None else to_host(s)[index, 0].astype(np.float64) ** 2
        return rows_at(self.rows, index), weights

    def scaled(self, X: Array, Y: Array, /) -> tuple[Array, Array]:
        """Other samples and targets (float64), placed and scaled like these."""
        rows = replace(self.rows, source=X, leading_ones=False)
        xp = array_namespace(self.reference)
        wide = beside(to_host(Y).astype(np.float64), xp.astype(self.reference, xp.float64))
        return rows.whole(), (wide - self.y_mean) / self.y_scale


def scaled_rows(settings: Any, X: Array, weights: np.ndarray | None, reference: Array, /) -> Rows:
    """Rows of `X` on the place of `reference`, standardised if the settings ask for it."""
    if not settings.standardize:
        return Rows(X, reference)
    wide = Rows(X, array_namespace(reference).empty((0,), **double_like(reference)))
    shift, scale, limits = column_statistics(wide, weights)
    return Rows(X, reference, shift, scale, limits)


def dtype_for(settings: Any, X: Array, /) -> str:
    """Precision to compute in: the setting's, or that of `X`."""
    if settings.dtype != "auto":
        return settings.dtype
    return "float32" if X.dtype == array_namespace(X).float32 else "float64"


def weighted_samples(
    X: Array, Y: Array, sample_weight: Any, /
) -> tuple[Array, Array, np.ndarray | None]:
    """Validate the weights, leave out samples of weight 0, and let copies of one count as weight.

    Not of a memory map, of which this would be a copy: there they stay in. The weights returned
    have mean 1, or are None where all are equal: a common factor says nothing. Copies are one
    sample, so that leaving it out of a fit, by itself or with a fold, leaves out all of them.
    """
    weights = validate_weights(sample_weight, X)
    if weights is not None and np.any(weights == 0) and not isinstance(X, np.memmap):
        rows = np.flatnonzero(weights)
        X, Y, weights = take(X, rows), take(Y, rows), weights[rows]
    found = copies_of(X, to_host(Y))
    if found is not None:
        firsts, group = found
        X, Y, weights = take(X, firsts), take(Y, firsts), total_weights(group, weights)
    return X, Y, relative_weights(weights)


def relative_weights(weights: np.ndarray | None, /) -> np.ndarray | None:
    """Give weights (n,) of mean 1 where they are positive; None where all are equal.

    To ten digits, so that rounding of another common factor cannot choose another model.
    """
    if weights is None or np.all(weights == weights[0]):
        return None
    shares = weights / weights.max()
    mantissa, exponent = np.frexp(shares / np.mean(shares[shares > 0]))
    return np.ldexp(np.round(np.ldexp(mantissa, _WEIGHT_BITS)), exponent - _WEIGHT_BITS)


def effective_number(weights: np.ndarray | None, n: int, /) -> float:
    """Give Kish's number: of samples of equal weight, of which a mean is as certain."""
    if weights is None:
        return float(n)
    w = weights / weights.max()
    return float(w.sum() ** 2 / (w @ w))


def take(x: Array, index: np.ndarray, /) -> Array:
    """Rows of `x` by host indices."""
    xp = array_namespace(x)
    if isinstance(x, np.ndarray):
        return x[index]
    on = like(x)["device"]
    return xp.take(x, xp.asarray(index, dtype=xp.int64, device=on), axis=0)


def placed_columns(Y: Array, place: Place) -> Array:
    """`Y` on the place in float64, whatever library it comes from."""
    return Place(place.xp, place.device, "float64").put(as_columns(Y))


def mover(X: Array, dtype: str) -> Callable[[Array], Array]:
    """Move results to the library and device of `X`."""
    xp = array_namespace(X)
    target = xp.empty((0,), dtype=getattr(xp, dtype), device=like(X)["device"])

    def back(x: Array) -> Array:
        if library_of(x) == library_of(target):
            return xp.asarray(x, **like(target))
        return beside(to_host(x), target)

    return back
