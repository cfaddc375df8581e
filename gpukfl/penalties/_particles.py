r"""The five penalties of Follain and Bach (arXiv:2407.17280), Section 2.5 and Lemma 9.

All shrink non-negative magnitudes r: the norms of the columns of W (`Basic`), of its rows
(`Variable`), or its singular values (`Feature`). The convex ones are sums of :math:`r / 2`, the
concave ones sums of :math:`\log(1 + s r) / 2s`, with r over :math:`\sqrt m` (`Basic`: over m).
Particles are on the ℓ2 sphere, or with ``Basic(sphere="l1")`` on the ℓ1 sphere of Definition 1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from gpukfl.core._array import Array, array_namespace, clip
from gpukfl.core._checks import check_choice, keep_python_numbers
from gpukfl.linalg import map_singular_values


class Penalty(ABC):
    """A penalty on the particles W (d, m)."""

    is_convex: ClassVar[bool]

    @abstractmethod
    def value(self, W: Array, /) -> Array:
        """Penalty of `W` (d, m), a 0-d array."""

    @abstractmethod
    def prox(self, W: Array, strength: float, /) -> Array:
        r"""Minimise :math:`\frac12 \|U - W\|_F^2 + strength \cdot \Omega(U)` over U, exactly."""


@dataclass(frozen=True)
class Basic(Penalty):
    r""":math:`\Omega(W) = \frac{1}{2m} \sum_j \|w_j\|`: few particles.

    The norm is that of the sphere on which the model's directions lie, Definition 1. With ``"l1"``
    each particle also has few variables.
    """

    sphere: str = "l2"  # or "l1"
    is_convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_choice("sphere", self.sphere, ("l2", "l1"))

    def value(self, W: Array, /) -> Array:
        """Penalty of `W` (d, m), a 0-d array."""
        xp = array_namespace(W)
        norms = xp.abs(W) if self.sphere == "l1" else _norms(W, axis=0)
        return xp.sum(norms) / (2.0 * W.shape[1])

    def prox(self, W: Array, strength: float, /) -> Array:
        """Soft-threshold the norms of the particles, or on the ℓ1 sphere their entries."""
        xp = array_namespace(W)
        threshold = strength / (2.0 * W.shape[1])
        if self.sphere == "l1":
            return xp.sign(W) * _soft(xp.abs(W), threshold)
        r = _norms(W, axis=0)
        return W * _ratio(_soft(r, threshold), r)[None, :]


@dataclass(frozen=True)
class Variable(Penalty):
    r""":math:`\Omega(W) = \frac{1}{2\sqrt m} \sum_a \|W_{a\cdot}\|`: few variables."""

    is_convex: ClassVar[bool] = True

    def value(self, W: Array, /) -> Array:
        """Penalty of `W` (d, m), a 0-d array."""
        return array_namespace(W).sum(_norms(W, axis=1)) / (2.0 * math.sqrt(W.shape[1]))

    def prox(self, W: Array, strength: float, /) -> Array:
        """Soft-threshold the norms of the rows."""
        r = _norms(W, axis=1)
        return W * _ratio(_soft(r, strength / (2.0 * math.sqrt(W.shape[1]))), r)[:, None]


@dataclass(frozen=True)
class Feature(Penalty):
    r""":math:`\Omega(W) = \frac12 \mathrm{tr}\,(WW^\top/m)^{1/2}`: few directions."""

    is_convex: ClassVar[bool] = True

    def value(self, W: Array, /) -> Array:
        """Penalty of `W` (d, m), a 0-d array."""
        return array_namespace(W).sum(_singular_values(W)) / (2.0 * math.sqrt(W.shape[1]))

    def prox(self, W: Array, strength: float, /) -> Array:
        """Soft-threshold the singular values."""
        threshold = strength / (2.0 * math.sqrt(W.shape[1]))
        return map_singular_values(W, lambda r: _soft(r, threshold))[0]


@dataclass(frozen=True)
class ConcaveVariable(Penalty):
    r""":math:`\Omega(W) = \frac{1}{2s} \sum_a \log(1 + \frac{s}{\sqrt m} \|W_{a\cdot}\|)`."""

    concavity: float = 1.0  # s, positive
    is_convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        keep_python_numbers(self)
        _check_concavity(self.concavity)

    def value(self, W: Array, /) -> Array:
        """Penalty of `W` (d, m), a 0-d array."""
        return _log_sum(_norms(W, axis=1), W.shape[1], self.concavity)

    def prox(self, W: Array, strength: float, /) -> Array:
        """Shrink the norms of the rows."""
        r = _norms(W, axis=1)
        return W * _ratio(_log_prox(r, W.shape[1], self.concavity, strength), r)[:, None]


@dataclass(frozen=True)
class ConcaveFeature(Penalty):
    r""":math:`\Omega(W) = \frac{1}{2s} \sum_a \log(1 + \frac{s}{\sqrt m} \sigma_a(W))`."""

    concavity: float = 1.0  # s, positive
    is_convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        keep_python_numbers(self)
        _check_concavity(self.concavity)

    def value(self, W: Array, /) -> Array:
        """Penalty of `W` (d, m), a 0-d array."""
        return _log_sum(_singular_values(W), W.shape[1], self.concavity)

    def prox(self, W: Array, strength: float, /) -> Array:
        """Shrink the singular values."""
        m, s = W.shape[1], self.concavity
        return map_singular_values(W, lambda r: _log_prox(r, m, s, strength))[0]


PENALTIES: dict[str, type[Penalty]] = {
    "basic": Basic,
    "variable": Variable,
    "feature": Feature,
    "concave_variable": ConcaveVariable,
    "concave_feature": ConcaveFeature,
}


def _check_concavity(s: float) -> None:
    if not 0 < s < math.inf:
        msg = f"expected a positive, finite concavity, got {s}"
        raise ValueError(msg)


def _norms(W: Array, /, *, axis: int) -> Array:
    return array_namespace(W).linalg.vector_norm(W, axis=axis)


def _singular_values(W: Array, /) -> Array:
    return map_singular_values(W, lambda r: r)[1]


def _soft(r: Array, threshold: float, /) -> Array:
    return clip(r - float(threshold), low=0.0)


def _ratio(new: Array, r: Array, /) -> Array:
    """Return ``new / r``, and 0 where r is 0."""
    xp = array_namespace(r)
    zero = r <= 0
    return xp.where(zero, xp.zeros_like(r), new / xp.where(zero, xp.ones_like(r), r))


def _log_sum(r: Array, m: int, s: float, /) -> Array:
    xp = array_namespace(r)
    return xp.sum(xp.log1p((s / math.sqrt(m)) * r)) / (2.0 * s)


def _log_prox(r: Array, m: int, s: float, strength: float, /) -> Array:
    r"""Minimise :math:`\frac12 (u - r)^2 + \frac{strength}{2s} \log(1 + b u)` over u ≥ 0.

    With b = s/√m and κ = strength/(2√m) the stationary points solve
    b u² + (1 - b r) u + κ - r = 0. The smaller root is a maximum, so the minimiser is the larger
    one or 0, whichever costs less; without real roots the cost increases from 0.
    """
    xp, strength = array_namespace(r), float(strength)  # NumPy's numbers would widen float32
    b, kappa = s / math.sqrt(m), strength / (2.0 * math.sqrt(m))
    linear = 1.0 - b * r
    discriminant = (1.0 + b * r) ** 2 - 4.0 * b * kappa
    root = xp.sqrt(clip(discriminant, low=0.0))
    # Two forms of the same root, so that neither subtracts nearly equal numbers
    total = linear + root
    safe = xp.where(total > 0, total, xp.ones_like(r))
    u = xp.where(linear > 0, 2.0 * (r - kappa) / safe, (root - linear) / (2.0 * b))
    u = clip(u, low=0.0)
    gain = 0.5 * r**2 - 0.5 * (u - r) ** 2 - (strength / (2.0 * s)) * xp.log1p(b * u)
    return xp.where((discriminant >= 0) & (gain > 0), u, xp.zeros_like(r))
