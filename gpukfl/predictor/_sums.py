"""Functions that methods fit: sums of kernels, shapes, polynomials and features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from gpukfl.core._array import Array, array_namespace, like
from gpukfl.instantiations import Instantiation
from gpukfl.kernels import Kernel
from gpukfl.linalg import interpolate_knots
from gpukfl.operators import FeatureOperator, HermiteOperator, apply_map
from gpukfl.partitioned._rows import Rows
from gpukfl.predictor._function import Function


def inside(found: Array, bounds: Array, /) -> Array:
    """Clip functions (n, t) to bounds (2, t); overflowed values stay."""
    xp = array_namespace(found)
    within = xp.minimum(xp.maximum(found, bounds[0, ...]), bounds[1, ...])
    return xp.where(xp.isfinite(found), within, found)


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelSum(Function):
    r""":math:`c + \sum_j \alpha_j k(B x, z_j)`.

    Attributes
    ----------
    kernel : Kernel
        The function k.
    centers : array, shape (q, k)
        z, as the kernel sees them.
    coef : array, shape (q, t)
        α.
    components : array, shape (k, d), or (d,) where it is diagonal, optional
        B; the identity without one.
    bound : array, shape (t,), optional
        Largest absolute value of the sum.
    bounds : array, shape (2, t), optional
        Least and largest value of the function.
    """

    kernel: Kernel
    centers: Array
    coef: Array
    components: Array | None = None
    bound: Array | None = None
    bounds: Array | None = None

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        B = self.components
        return max(*self.centers.shape, 0 if B is None else B.shape[-1])

    def evaluate(self, X: Array, /) -> Array:
        """Values (n, t)."""
        xp, B = array_namespace(X), self.components
        U = X if B is None else apply_map(xp.astype(X, B.dtype, copy=False), B)
        K = self.kernel._evaluate(U, self.centers)
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
        Particles.
    knots, values : arrays, shapes (m, q) and (m, q, t)
        Of the functions g.
    """

    W: Array
    knots: Array
    values: Array

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
        blocks = self.rows(X).blocks(self.W.shape[1])
        xp, parts = (
            array_namespace(self.reference),
            [self.evaluate(block) for _, _, block in blocks],
        )
        return xp.astype(xp.concat(parts, axis=0), X.dtype)


@dataclass(frozen=True, eq=False, kw_only=True)
class HermiteSum(Function):
    r""":math:`\sum_\alpha \hat f(\alpha) H_\alpha(R^\top x)`.

    Attributes
    ----------
    tuples : host array of int, shape (m, d)
        Degrees α.
    coef : array, shape (m, t)
        Coefficients.
    R : array, shape (d, d), optional
        Rotation, float64; the identity without one.
    bounds : array, shape (2, t)
        Least and largest value of the function.
    """

    tuples: np.ndarray
    coef: Array
    bounds: Array
    R: Array | None = None
    _on_host: ClassVar[tuple[str, ...]] = ("columns", "tuples")

    @cached_property
    def _operator(self) -> HermiteOperator:
        rows = _no_rows(self.reference, self.tuples.shape[1])
        return HermiteOperator(rows, self.tuples, np.ones(len(self.tuples)), self.R)

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
        With what depends on the dimension settled.
    parameters : array, shape (T, e)
        Of the features.
    log_scale : float
        What the logarithms of the features' constants are less.
    coef : array, shape (T, t)
        a, float64.
    n_columns : int
        Of rows that are prepared.
    """

    instantiation: Instantiation
    parameters: Array
    log_scale: float
    coef: Array
    n_columns: int

    @cached_property
    def _operator(self) -> FeatureOperator:
        rows = _no_rows(self.reference, self.n_columns)
        return FeatureOperator(self.instantiation, rows, self.parameters, self.log_scale)

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        return self._operator.width

    def prepare(self) -> None:
        """Compute the features' constants."""
        self._operator._prepare()

    def evaluate(self, X: Array, /) -> Array:
        """Values (n, t)."""
        values = array_namespace(X).astype(self._operator.evaluate(X), self.coef.dtype, copy=False)
        return self.intercept + values @ self.coef


def _no_rows(reference: Array, d: int) -> Rows:
    """Return empty rows of `d` columns."""
    return Rows(array_namespace(reference).empty((0, d), **like(reference)), reference)
