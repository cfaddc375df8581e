"""The base class of kernels, and sums, products and multiples."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpukfl.core._array import Array, array_namespace, clip, epsilon, is_array, to_double
from gpukfl.core._checks import check_number, keep_python_numbers

_COINCIDENT = 16.0  # rounding of a coordinate, in units of the precision


class Kernel(ABC):
    """A positive semidefinite function of two points, as a frozen value.

    Kernels add and multiply: ``Gaussian() + 0.1 * Linear()``.
    """

    norm: str | float = "euclidean"  # in which a typical distance is measured
    bounded: bool = True  # whether k(x, x) has a bound
    factorises: bool = False  # whether values are products of those at single columns
    __array_ufunc__ = None  # NumPy's numbers and arrays leave products to the kernel

    def __call__(self, X: Array, Z: Array, /) -> Array:
        """Evaluate between `X` (n, d) and `Z` (q, d): (n, q).

        In the precision of the points; in float64 where they are integers or truth values, or one
        is float32 and the other float64.

        Raises
        ------
        TypeError
            If they are not arrays of real numbers.
        ValueError
            If the numbers of columns differ.
        """
        return self._evaluate(*_check_points(X, Z))

    def pullback(
        self, X: Array, Z: Array, P: Array, /, K: Array | None = None
    ) -> tuple[Array, Array]:
        r"""Differentiate :math:`\sum_{ij} P_{ij} k(x_i, z_j)` with respect to X and Z.

        Where the kernel has a kink (points that are equal up to rounding, of a kernel that is not
        differentiable there) the derivative is taken to be 0. Arrays of different precisions, or
        of integers, are taken in float64.

        Parameters
        ----------
        X, Z : arrays, shapes (n, d) and (q, d)
            Points.
        P : array, shape (n, q)
            Weights.
        K : array, shape (n, q), optional
            The kernel's values, where they are known: saves computing them anew.

        Returns
        -------
        tuple of arrays, shapes (n, d) and (q, d)
            The derivatives, by matrix products: O(n q d) time and O(n q) memory.

        Raises
        ------
        TypeError
            If they are not arrays of real numbers.
        ValueError
            If the shapes disagree.
        """
        X, Z, P, *known = _check_points(X, Z, P, *([] if K is None else [K]))
        if tuple(P.shape) != (X.shape[0], Z.shape[0]):
            msg = f"expected weights P ({X.shape[0]}, {Z.shape[0]}), got {tuple(P.shape)}"
            raise ValueError(msg)
        return self._pullback(X, Z, P, known[0] if known else None)

    @abstractmethod
    def _evaluate(self, X: Array, Z: Array, /) -> Array:
        """Return the values (n, q) without checks."""

    @abstractmethod
    def _pullback(self, X: Array, Z: Array, P: Array, K: Array | None, /) -> tuple[Array, Array]:
        """Return the derivatives (n, d) and (q, d) without checks."""

    def _gradients(self, X: Array, Z: Array, A: Array, K: Array | None, /) -> Iterator[Array]:
        r"""Yield the gradients (n, d) at X of :math:`\sum_j A_{jc} k(x, z_j)` for each column c."""
        ones = array_namespace(X).ones_like(X[:, :1])
        for c in range(A.shape[1]):
            yield self._pullback(X, Z, ones @ A[:, c : c + 1].T, K)[0]

    @abstractmethod
    def diagonal(self, X: Array, /) -> Array:
        """Values k(x, x) for the rows of `X` (n, d): (n,)."""

    @abstractmethod
    def stretched(self, factor: float, /) -> Kernel:
        """Return the kernel whose values at factor x, factor z are this one's at x, z."""

    def __add__(self, other: Kernel, /) -> Kernel:
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel | float, /) -> Kernel:
        if isinstance(other, Kernel):
            return Product(self, other)
        if isinstance(other, numbers.Real) and not isinstance(other, bool):
            return Scaled(self, float(other))
        return NotImplemented

    __rmul__ = __mul__


@dataclass(frozen=True)
class LengthscaleKernel(Kernel):
    """A kernel of points that are divided by a lengthscale first."""

    lengthscale: float = 1.0

    def __post_init__(self) -> None:
        keep_python_numbers(self)
        check_positive_number("lengthscale", self.lengthscale)

    def stretched(self, factor: float, /) -> Kernel:
        """Return the same kernel with `factor` times the lengthscale."""
        return replace(self, lengthscale=self.lengthscale * factor)


@dataclass(frozen=True)
class _Pair(Kernel):
    first: Kernel
    second: Kernel

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        """Whether both kernels are bounded."""
        return self.first.bounded and self.second.bounded

    def stretched(self, factor: float, /) -> Kernel:
        """Stretch both."""
        return type(self)(self.first.stretched(factor), self.second.stretched(factor))


@dataclass(frozen=True)
class Sum(_Pair):
    """The sum of two kernels."""

    def _evaluate(self, X: Array, Z: Array, /) -> Array:
        return self.first._evaluate(X, Z) + self.second._evaluate(X, Z)

    def _pullback(self, X: Array, Z: Array, P: Array, K: Array | None, /) -> tuple[Array, Array]:  # noqa: ARG002
        dX, dZ = self.first._pullback(X, Z, P, None)
        more_X, more_Z = self.second._pullback(X, Z, P, None)
        return dX + more_X, dZ + more_Z

    def diagonal(self, X: Array, /) -> Array:
        """Values k(x, x)."""
        return self.first.diagonal(X) + self.second.diagonal(X)


@dataclass(frozen=True)
class Product(_Pair):
    """The product of two kernels."""

    def _evaluate(self, X: Array, Z: Array, /) -> Array:
        return self.first._evaluate(X, Z) * self.second._evaluate(X, Z)

    def _pullback(self, X: Array, Z: Array, P: Array, K: Array | None, /) -> tuple[Array, Array]:  # noqa: ARG002
        one, other = self.first._evaluate(X, Z), self.second._evaluate(X, Z)
        dX, dZ = self.first._pullback(X, Z, P * other, one)
        more_X, more_Z = self.second._pullback(X, Z, P * one, other)
        return dX + more_X, dZ + more_Z

    def diagonal(self, X: Array, /) -> Array:
        """Values k(x, x)."""
        return self.first.diagonal(X) * self.second.diagonal(X)


@dataclass(frozen=True)
class Scaled(Kernel):
    """A positive multiple of a kernel."""

    kernel: Kernel
    factor: float

    def __post_init__(self) -> None:
        keep_python_numbers(self)
        check_positive_number("factor", self.factor)

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        """Whether the kernel is bounded."""
        return self.kernel.bounded

    def _evaluate(self, X: Array, Z: Array, /) -> Array:
        return self.factor * self.kernel._evaluate(X, Z)

    def _pullback(self, X: Array, Z: Array, P: Array, K: Array | None, /) -> tuple[Array, Array]:
        return self.kernel._pullback(X, Z, self.factor * P, None if K is None else K / self.factor)

    def diagonal(self, X: Array, /) -> Array:
        """Values k(x, x)."""
        return self.factor * self.kernel.diagonal(X)

    def stretched(self, factor: float, /) -> Kernel:
        """Stretch the kernel."""
        return Scaled(self.kernel.stretched(factor), self.factor)


def check_positive_number(name: str, value: float, /) -> None:
    """Raise TypeError or ValueError unless `value` is a positive, finite number."""
    check_number(name, value, low=0, low_allowed=False)


def _check_points(X: Array, Z: Array, /, *others: Array) -> tuple[Array, ...]:
    X, Z, *others_too = to_common_precision(X, Z, *others)
    if X.ndim != 2 or Z.ndim != 2 or X.shape[1] != Z.shape[1]:
        msg = f"expected X (n, d) and Z (q, d), got {tuple(X.shape)} and {tuple(Z.shape)}"
        raise ValueError(msg)
    return X, Z, *others_too


def to_common_precision(*arrays: Array) -> tuple[Array, ...]:
    """Return arrays of one float precision unchanged, and convert others to float64.

    Results are in the dtype of the points: distances of integers would be cut to integers.

    Raises
    ------
    TypeError
        If they are not arrays of real numbers.
    """
    for x in arrays:
        if not is_array(x):
            msg = f"expected arrays, got {type(x).__name__}"
            raise TypeError(msg)
    xp, dtype = array_namespace(*arrays), arrays[0].dtype
    if dtype in (xp.float32, xp.float64) and all(x.dtype == dtype for x in arrays):
        return arrays
    for x in arrays:
        if not xp.isdtype(x.dtype, ("bool", "integral", "real floating")):
            msg = f"expected arrays of real numbers, got {x.dtype}"
            raise TypeError(msg)
    return tuple(to_double(x) for x in arrays)


def smallest_normal(X: Array, /) -> float:
    """Return the smallest normal number in the dtype of `X`."""
    return float(array_namespace(X).finfo(X.dtype).smallest_normal)


def is_lengthscale_tiny(lengthscale: float, X: Array, /) -> bool:
    """Whether squared distances over the lengthscale may overflow."""
    return lengthscale < smallest_normal(X) ** 0.25


def divide_by_lengthscale(r: Array, lengthscale: float, /) -> Array:
    """Divide distances `r` by the lengthscale; a tiny one makes all but 0 huge.

    That leaves room for squares and their multiples, and is where bounded kernels are about 0.
    """
    if not is_lengthscale_tiny(lengthscale, r):
        return r / lengthscale
    width, far = max(lengthscale, smallest_normal(r)), 0.25 * smallest_normal(r) ** -0.5
    return clip(r, high=width * far) / width


def are_coincident(X: Array, Z: Array, r: Array, /) -> Array:
    """Return whether points at distances `r` (n, q) are equal up to rounding.

    A sample among the centres is: linear maps of blocks of different length round differently.
    """
    xp = array_namespace(X, Z)
    middle = xp.mean(Z, axis=0)
    norms = xp.linalg.vector_norm(xp.concat([X, Z], axis=0) - middle, axis=1)
    return r <= _COINCIDENT * epsilon(X) * xp.max(norms)
