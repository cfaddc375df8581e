"""Functions that methods fit: sums of kernels, shape functions, polynomials and features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np

from gpukfl.core._annotations import Count, Doubles, Floats, Integers, Rounded
from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    double_like,
    double_reference,
    index_like,
    is_host,
    like,
    reference_like,
    to_double,
    to_host,
)
from gpukfl.instantiations import Instantiation, RandomKitchenSinks, Stumps
from gpukfl.kernels import Kernel
from gpukfl.linalg import interpolate_knots
from gpukfl.operators import FeatureOperator, HermiteOperator, apply_map
from gpukfl.partitioned._rows import Rows
from gpukfl.predictor._function import Function

MAX_DEGREE = 400  # of a Hermite polynomial
_MAX_ROUNDING = 4e-7  # share of a function's standard deviation that float32 may change


def inside(found: Array, bounds: Array, /) -> Array:
    """Clip functions (n, t) to bounds (2, t); overflowed values stay."""
    xp = array_namespace(found)
    within = xp.minimum(xp.maximum(found, bounds[0, ...]), bounds[1, ...])
    return xp.where(xp.isfinite(found), within, found)


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelSum(Function):
    r""":math:`c + \sum_j \alpha_j k(B x, B z_j)`.

    Computed in float64, as it was solved: with a small ridge, coefficients magnify rounding errors
    of the kernel.

    Attributes
    ----------
    kernel : Kernel
        The function k.
    centers : array, shape (q, d), or (q, k) if mapped
        The centres z; None for a constant.
    coef : array, shape (q, t)
        The coefficients α; None for a constant.
    B : array, shape (k, d), or (d,) if diagonal, optional
        The map; without it, the identity.
    is_mapped : bool
        Whether `centers` are B z instead of z.
    columns : host array of int, shape (d,), optional
        Columns of rows that the function uses; all without it.
    factors : host array, shape (d,), optional
        Factors of these columns after scaling.
    bound : array, shape (t,), optional
        Largest absolute value of the sum.
    bounds : array, shape (2, t), optional
        Least and largest value of the function.
    in_double : bool
        Whether the function is computed in float64 instead of the dtype of the centres.
    """

    kernel: Kernel
    centers: Annotated[Array, Floats("q", "e")] | None
    coef: Annotated[Array, Doubles("q", "t")] | None
    B: Annotated[Array, Floats("k", "d", or_shape=("d",))] | None = None
    is_mapped: bool = False
    columns: Annotated[np.ndarray, Integers("c")] | None = None
    factors: Annotated[np.ndarray, Doubles("c")] | None = None
    bound: Annotated[Array, Floats("t")] | None = None
    bounds: Annotated[Array, Floats(2, "t")] | None = None
    in_double: bool = True
    _on_host: ClassVar[tuple[str, ...]] = ("columns", "factors")

    @cached_property
    def reference(self) -> Array:
        """An empty array with the library, device and dtype of the computation."""
        return (double_reference if self.in_double else reference_like)(self.intercept)

    def check(self) -> None:
        """Raise ValueError unless centres, map and columns have matching shapes."""
        if (self.centers is None) != (self.coef is None):
            msg = "expected centres with their coefficients"
            raise ValueError(msg)
        if (self.columns is None) != (self.factors is None):
            msg = "expected columns with their factors"
            raise ValueError(msg)
        known = [] if self.columns is None else self.columns.tolist()
        if min(known, default=0) < 0 or len({*known}) < len(known):
            msg = f"expected indices of different columns, got {known[:20]}"
            raise ValueError(msg)
        if self.factors is not None and not bool((self.factors > 0).all()):
            msg = "expected positive factors of columns"
            raise ValueError(msg)
        if self.centers is None or (self.B is None and self.columns is None):
            return
        wanted = len(known) if self.B is None else self.B.shape[0 if self.is_mapped else -1]
        if self.centers.shape[1] != wanted:
            shape = tuple(self.centers.shape)
            msg = f"expected centers of shape ({shape[0]}, {wanted}), got {shape}"
            raise ValueError(msg)

    @cached_property
    def components(self) -> Array | None:
        """B in float64."""
        return None if self.B is None else to_double(self.B)

    @cached_property
    def points(self) -> Array:
        """Mapped centres (q, k), the kernel's second argument."""
        Z, B = self.centers, self.components
        assert Z is not None
        Z = to_double(Z) if self.in_double else Z
        return Z if B is None or self.is_mapped else apply_map(Z, B)

    @cached_property
    def column_scaling(self) -> Callable[[Array], Array] | None:
        """The scaling of `columns`, with its factors."""
        if self.columns is None or self.factors is None:
            return self.scaling
        if self.scaling is None:
            return _column_multiplier(self.factors)
        return self.scaling.select_columns(self.columns, self.factors)

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        if self.coef is None:
            return self.intercept.shape[0]
        B = self.components
        return max(*self.points.shape, 0 if B is None else B.shape[-1])

    def rows(self, X: Array, /) -> Rows:
        """Return rows (n, d) of data that are scaled on access."""
        if self.coef is None:
            return Rows(X, self.reference)
        if self.columns is not None:
            X = _take_columns(X, self.columns)
        return Rows(X, self.reference, self.column_scaling, self.clip)

    def prepare(self) -> None:
        """Map the centres."""
        if self.coef is not None:
            assert self.points is not None

    def evaluate(self, X: Array, /) -> Array:
        """Values (n, t)."""
        xp, B = array_namespace(X), self.components
        if self.coef is None:
            return self.intercept + xp.zeros_like(X[:, :1])
        U = X if B is None else apply_map(xp.astype(X, B.dtype, copy=False), B)
        K = self.kernel._evaluate(U, self.points)
        found = xp.astype(K, self.coef.dtype, copy=False) @ self.coef
        if self.bound is not None:
            found = xp.minimum(xp.maximum(found, -self.bound), self.bound)
        found = self.intercept + found
        return found if self.bounds is None else inside(found, self.bounds)


@dataclass(frozen=True, eq=False, kw_only=True)
class ShapeSum(Function):
    r""":math:`c + \frac1m \sum_j g_j(w_j^\top x)`, with piecewise-linear g.

    Attributes
    ----------
    W : array, shape (d, m)
        The particles w.
    knots, values : arrays, shapes (m, q) and (m, q, t)
        Knots of the functions g, and values there.
    """

    W: Annotated[Array, Floats("d", "m")]
    knots: Annotated[Array, Rounded("m", "q")]
    values: Annotated[Array, Rounded("m", "q", "t")]

    def __post_init__(self) -> None:
        for name in ("knots", "values"):  # a file may have them in float32
            array = getattr(self, name)
            if array.dtype != self.W.dtype:
                wide = array_namespace(array).astype(array, self.W.dtype)
                object.__setattr__(self, name, wide)

    def rounded(self) -> dict[str, np.ndarray]:
        """Return knots and values in float32, or nothing if predictions would change.

        Changes of functions must be at most 4e-7 of their mean standard deviation, on average over
        the particles. This bounds the change of predictions.
        """
        knots, values = to_host(self.knots), to_host(self.values)
        found = {"knots": knots.astype(np.float32), "values": values.astype(np.float32)}
        changed = [
            _largest_changes(one, value.astype(np.float64), other, rounded)
            for one, value, other, rounded in zip(knots, values, *found.values(), strict=True)
        ]
        deviation = values.astype(np.float64).std(axis=1).mean(axis=0)
        is_negligible = bool(np.all(np.mean(changed, axis=0) <= _MAX_ROUNDING * deviation))
        return found if is_negligible else {}

    def check(self) -> None:
        """Raise ValueError unless there are knots and they ascend."""
        knots = to_host(self.knots)
        if not knots.size or not bool((knots[:, 1:] >= knots[:, :-1]).all()):
            msg = "expected ascending knots of functions"
            raise ValueError(msg)

    @cached_property
    def reference(self) -> Array:
        """An empty array with the library, device and dtype of the computation."""
        return reference_like(self.W)

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        return max(self.W.shape)

    def evaluate(self, X: Array, /) -> Array:
        """Values (n, t)."""
        total = interpolate_knots(self.W.T @ X.T, self.knots, self.values)
        mean = total / self.W.shape[1]
        return self.intercept + array_namespace(X).astype(mean, self.W.dtype)

    def evaluate_in_blocks(self, X: Array, /) -> Array:
        """Evaluate by large blocks, which compiled code divides among threads."""
        xp, blocks = array_namespace(self.reference), self.rows(X).blocks(self.W.shape[1])
        found = xp.concat([self.evaluate(block) for _, _, block in blocks], axis=0)
        return xp.astype(self._apply_link(found), X.dtype)


@dataclass(frozen=True, eq=False, kw_only=True)
class HermiteSum(Function):
    r""":math:`\sum_\alpha \hat f(\alpha) H_\alpha(R^\top x)`.

    Attributes
    ----------
    tuples : array of int, shape (m, d)
        The degrees α.
    coef : array, shape (m, t)
        The coefficients.
    R : array, shape (d, d)
        The rotation, in float64.
    bounds : array, shape (2, t)
        Least and largest value of the function.
    """

    tuples: Annotated[Array, Integers("m", "d")]
    coef: Annotated[Array, Floats("m", "t")]
    bounds: Annotated[Array, Floats(2, "t")]
    R: Annotated[Array, Doubles("d", "d")]
    _on_host: ClassVar[tuple[str, ...]] = ("tuples", "R")

    @cached_property
    def reference(self) -> Array:
        """An empty array with the library, device and dtype of the computation."""
        return reference_like(self.coef)

    def check(self) -> None:
        """Raise ValueError unless degrees are from 0 to `MAX_DEGREE`."""
        degrees = to_host(self.tuples)
        if not bool(np.all((degrees >= 0) & (degrees <= MAX_DEGREE))):
            msg = f"expected degrees from 0 to {MAX_DEGREE}"
            raise ValueError(msg)

    @cached_property
    def _operator(self) -> HermiteOperator:
        tuples, R = to_host(self.tuples), to_host(self.R)
        rows = _no_rows(self.reference, tuples.shape[1])
        is_identity = np.array_equal(R, np.eye(len(R)))
        rotation = None if is_identity else asarray_like(R, double_reference(self.coef))
        return HermiteOperator(rows, tuples, np.ones(len(tuples)), rotation)

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        return self._operator.width

    def prepare(self) -> None:
        """Order the tuples."""
        self._operator._prepare()

    def evaluate(self, X: Array, /) -> Array:
        """Values (n, t)."""
        values = array_namespace(X).astype(self._operator.evaluate(X), self.coef.dtype, copy=False)
        return inside(self.intercept + values @ self.coef, self.bounds)


@dataclass(frozen=True, eq=False, kw_only=True)
class FeatureSum(Function):
    r""":math:`c + \sum_t a_t \bar\varphi_t(x)`, with expected features of an instantiation.

    Attributes
    ----------
    instantiation : Instantiation
        The instantiation, with defaults for the dimension filled in.
    parameters : array, shape (T, e)
        Parameters of the features.
    log_scale : float
        Constant subtracted from the logarithms of the features' constants.
    coef : array, shape (T, t)
        The coefficients a, in float64.
    n_columns : int
        Number of columns of scaled rows.
    """

    intercept: Annotated[Array, Doubles("t")]
    instantiation: Instantiation
    parameters: Annotated[Array, Floats("T", "e")]
    log_scale: float
    coef: Annotated[Array, Doubles("T", "t")]
    n_columns: Annotated[int, Count()]

    def check(self) -> None:
        """Raise ValueError unless the instantiation could have drawn the parameters."""
        one, W = self.instantiation, to_host(self.parameters)
        is_valid = one.draw(1, self.n_columns, np.random.RandomState(0)).shape[1] == W.shape[1]
        while isinstance(one, RandomKitchenSinks):
            one = one.of
        if is_valid and isinstance(one, Stumps):
            column = W[:, 0]
            is_valid = bool(((column >= 0) & (column < self.n_columns) & (column % 1 == 0)).all())
        if not is_valid:
            msg = "expected parameters of its instantiation"
            raise ValueError(msg)

    @cached_property
    def reference(self) -> Array:
        """An empty array with the library, device and dtype of the computation."""
        return reference_like(self.parameters)

    @cached_property
    def _operator(self) -> FeatureOperator:
        rows = _no_rows(self.reference, self.n_columns)
        return FeatureOperator(self.instantiation, rows, self.parameters, self.log_scale)

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        return self._operator.width if self.parameters.shape[0] else self.intercept.shape[0]

    def prepare(self) -> None:
        """Compute the features' constants."""
        if self.parameters.shape[0]:
            self._operator._prepare()

    def evaluate(self, X: Array, /) -> Array:
        """Values (n, t)."""
        if not self.parameters.shape[0]:
            return self.intercept + array_namespace(X).zeros_like(X[:, :1])
        values = array_namespace(X).astype(self._operator.evaluate(X), self.coef.dtype, copy=False)
        return self.intercept + values @ self.coef


def _largest_changes(
    knots: np.ndarray, values: np.ndarray, others: np.ndarray, others_values: np.ndarray
) -> list[float]:
    """Return the largest differences between two sets of piecewise-linear functions (q, t)."""
    at = np.concatenate([knots, others])
    return [
        float(np.max(np.abs(np.interp(at, knots, one) - np.interp(at, others, other))))
        for one, other in zip(values.T, others_values.T, strict=True)
    ]


def _take_columns(X: Array, columns: np.ndarray) -> Array:
    if is_host(X):
        return np.asarray(X[:, columns])
    xp = array_namespace(X)
    return xp.take(X, xp.asarray(columns, **index_like(X)), axis=1)


def _column_multiplier(factors: np.ndarray) -> Callable[[Array], Array]:
    """Return a function that multiplies columns by factors."""
    return lambda X: X * array_namespace(X).asarray(factors, **double_like(X))


def _no_rows(reference: Array, d: int) -> Rows:
    """Return empty rows of `d` columns."""
    return Rows(array_namespace(reference).empty((0, d), **like(reference)), reference)
