"""Finite mixtures of exponentials: the kernels from which all completely monotone ones are made."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from dataclasses import dataclass

from gpukfl.core._array import Array
from gpukfl.kernels._base import check_positive_number
from gpukfl.kernels._manhattan import Manhattan
from gpukfl.kernels._radial import Radial
from gpukfl.linalg import decay


class _Mixture:
    r""":math:`h(u) = \sum_k w_k e^{-t_k u}`."""

    weights: tuple[float, ...]
    rates: tuple[float, ...]

    def _check(self) -> None:
        for name in ("weights", "rates"):
            given = getattr(self, name)
            if not isinstance(given, Iterable):
                msg = f"expected {name} to be numbers, got {given!r}"
                raise TypeError(msg)
            values = tuple(given)
            for value in values:
                check_positive_number(f"a number in {name}", value)
            object.__setattr__(self, name, tuple(map(float, values)))
        n_weights, n_rates = len(self.weights), len(self.rates)
        if n_weights != n_rates or not n_weights:
            msg = f"expected as many weights as rates, at least one, got {n_weights} and {n_rates}"
            raise ValueError(msg)

    def profile(self, u: Array, /) -> Array:
        """Value at scaled distances, or squared distances, `u`."""
        terms = zip(self.weights, self.rates, strict=True)
        return functools.reduce(operator.add, (decay(u, (w,), rate=t) for w, t in terms))

    def derivative(self, u: Array, /) -> Array:
        """Differentiate `profile`."""
        terms = zip(self.weights, self.rates, strict=True)
        return functools.reduce(operator.add, (decay(u, (-t * w,), rate=t) for w, t in terms))


@dataclass(frozen=True)
class ManhattanMixture(_Mixture, Manhattan):
    r""":math:`k = \sum_k w_k e^{-t_k u}` with :math:`u = \|x - z\|_1 / \ell`.

    The `weights` and `rates` are tuples of positive numbers, equally many.
    """

    weights: tuple[float, ...] = (0.5, 0.5)
    rates: tuple[float, ...] = (0.5, 2.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check()


@dataclass(frozen=True)
class GaussianMixture(_Mixture, Radial):
    r""":math:`k = \sum_k w_k e^{-t_k s}` with :math:`s = \|x - z\|^2 / \ell^2`.

    The `weights` and `rates` are tuples of positive numbers, equally many.
    """

    weights: tuple[float, ...] = (0.5, 0.5)
    rates: tuple[float, ...] = (0.25, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check()
