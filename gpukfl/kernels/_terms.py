"""Sums of kernels term by term, and kernels of some of the columns."""

from __future__ import annotations

import functools
import math
import numbers
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from gpukfl.core._array import Array, array_namespace, like
from gpukfl.core._checks import check_number, keep_python_numbers
from gpukfl.kernels._base import Kernel, Scaled, Sum, to_common_precision


@dataclass(frozen=True)
class ColumnBlock(Kernel):
    """A kernel of neighbouring columns of the points: of ``X[:, start:stop]``.

    Sums of such kernels are additive in groups of features, and compare points on several metrics:
    ``ColumnBlock(Matern52(), 0, 3) + ColumnBlock(Matern32(), 3, 8)``.

    Attributes
    ----------
    kernel : Kernel
        Of the columns.
    start, stop : int
        The first column, and the one after the last.

    Raises
    ------
    TypeError, ValueError
        If these are no numbers of columns, ``0 <= start < stop``; in a call if points have less
        than `stop` columns.
    """

    kernel: Kernel
    start: int
    stop: int

    def __post_init__(self) -> None:
        keep_python_numbers(self)
        check_number("start", self.start, kind=numbers.Integral, low=0)
        check_number("stop", self.stop, kind=numbers.Integral, low=self.start + 1)

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        """Whether the kernel is bounded."""
        return self.kernel.bounded

    def _part(self, X: Array, /) -> Array:
        count = X.shape[1]  # None of arrays that only record what is done with them
        if count is not None and count < self.stop:
            msg = f"expected points of at least {self.stop} columns, got {count}"
            raise ValueError(msg)
        return X[:, self.start : self.stop]

    def _evaluate(self, X: Array, Z: Array, /) -> Array:
        return self.kernel._evaluate(self._part(X), self._part(Z))

    def _pullback(self, X: Array, Z: Array, P: Array, K: Array | None, /) -> tuple[Array, Array]:
        dX, dZ = self.kernel._pullback(self._part(X), self._part(Z), P, K)
        return self._pad(dX, X.shape[1]), self._pad(dZ, Z.shape[1])

    def _pad(self, slopes: Array, d: int) -> Array:
        xp, n = array_namespace(slopes), slopes.shape[0]
        widths = self.start, d - self.stop
        before, after = (xp.zeros((n, width), **like(slopes)) for width in widths)
        return xp.concat([before, slopes, after], axis=1)

    def diagonal(self, X: Array, /) -> Array:
        """Values k(x, x)."""
        (X,) = to_common_precision(X)
        return self.kernel.diagonal(self._part(X))

    def stretched(self, factor: float, /) -> Kernel:
        """Stretch the kernel."""
        return replace(self, kernel=self.kernel.stretched(factor))


def sum_terms(kernel: Kernel, /) -> list[Kernel]:
    """Return the kernels whose sum a kernel is: itself unless it is a sum, or a multiple of one."""
    return [_scale(one, factor) for factor, one in _split(kernel)]


def _split(kernel: Kernel) -> list[tuple[float, Kernel]]:
    """Return the terms of a sum with their factors."""
    if isinstance(kernel, Sum):
        return [*_split(kernel.first), *_split(kernel.second)]
    if isinstance(kernel, Scaled):
        return [(kernel.factor * factor, one) for factor, one in _split(kernel.kernel)]
    return [(1.0, kernel)]


def _scale(kernel: Kernel, factor: float) -> Kernel:
    return kernel if factor == 1.0 else Scaled(kernel, factor)


def _add(kernels: Sequence[Kernel]) -> Kernel:
    return functools.reduce(operator.add, kernels)


@dataclass(frozen=True)
class KernelTerms:
    r"""A sum of kernels by the shares and lengthscales of its terms.

    .. math:: k(x, z) = \sum_t w_t\, k_t(x / \ell_t, z / \ell_t), \qquad \sum_t w_t = 1

    Attributes
    ----------
    kernels : tuple of Kernel
        k, of which none is a sum.
    shares : tuple of float
        w, positive.
    stretches : tuple of float
        ℓ, positive; the first is 1.
    """

    kernels: tuple[Kernel, ...]
    shares: tuple[float, ...]
    stretches: tuple[float, ...]

    @classmethod
    def from_kernel(cls, kernel: Kernel, /) -> Self:
        """Split a kernel, whose factors become shares, with lengthscales 1."""
        split = _split(kernel)
        total = math.fsum(factor for factor, _ in split)
        shares = tuple(factor / total for factor, _ in split)
        return cls(tuple(one for _, one in split), shares, (1.0,) * len(split))

    def __len__(self) -> int:
        return len(self.kernels)

    def join(self) -> Kernel:
        """Return the kernel of one set of columns."""
        terms = zip(self.kernels, self.shares, self.stretches, strict=True)
        return _add([_scale(one.stretched(length), w) for one, w, length in terms])

    def side_by_side(self, width: int, /) -> Kernel:
        """Return the kernel whose term t is of the columns from t times `width`, at ℓ = 1."""
        blocks = [
            ColumnBlock(one, t * width, (t + 1) * width) for t, one in enumerate(self.kernels)
        ]
        return _add([_scale(one, w) for one, w in zip(blocks, self.shares, strict=True)])
