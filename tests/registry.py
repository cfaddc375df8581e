"""Small instances of every kernel, operator and penalty, with their dense forms."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import oracles
from sklearn.metrics.pairwise import manhattan_distances

from gpukfl.kernels import (
    Brownian,
    ColumnBlock,
    Gaussian,
    GaussianMixture,
    InverseManhattan,
    InverseMultiquadric,
    Kernel,
    Laplace,
    Linear,
    ManhattanLaplace,
    ManhattanMixture,
    Matern32,
    Matern52,
    Polynomial,
    PowerExponential,
    RationalQuadratic,
)
from gpukfl.operators import (
    BinnedBrownianKernel,
    BrownianKernel,
    CenteredKernel,
    KernelMatrix,
    LinearOperator,
)
from gpukfl.partitioned._rows import Rows
from gpukfl.penalties import Basic, ConcaveFeature, ConcaveVariable, Feature, Penalty, Variable

N_KNOTS = 33


@dataclass(frozen=True)
class Problem:
    """Host float64 data that a place represents exactly."""

    X: np.ndarray  # (n, d)
    W: np.ndarray  # (d, m)
    s: np.ndarray  # (n, 1), roots of the sample weights

    @classmethod
    def draw(cls, on, rng, *, n=60, d=4, m=5, tied=False):
        """Random data; `tied` rounds them, so that many projections are equal."""
        X, W = rng.standard_normal((n, d)), rng.standard_normal((d, m))
        s = rng.uniform(0.5, 2.0, (n, 1))
        if tied:
            X, W = np.round(X), np.round(W)
        return cls(on.rounded(X), on.rounded(W), on.rounded(s))

    def taken(self, index):
        """The same problem with its samples in another order, or some of them."""
        return Problem(self.X[index], self.W, self.s[index])


@dataclass(frozen=True)
class OperatorCase:
    """One kind of operator."""

    name: str
    build: Callable[[Any, Problem], LinearOperator]
    dense: Callable[[Problem], np.ndarray] | None  # outside formula; None where only approximate
    weighted: bool = False
    learns: bool = False  # has a derivative in the particles

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Counting(Kernel):
    """A kernel that notes the rows of each of its evaluations."""

    kernel: Kernel
    seen: list = field(default_factory=list, compare=False)

    def _evaluate(self, X, Z, /):
        self.seen.append(X.shape[0])
        return self.kernel._evaluate(X, Z)

    def _pullback(self, X, Z, P, K, /):
        K = self._evaluate(X, Z) if K is None else K
        return self.kernel._pullback(X, Z, P, K)

    def diagonal(self, X, /):
        return self.kernel.diagonal(X)

    def stretched(self, factor, /):
        return Counting(self.kernel.stretched(factor), self.seen)


def _brownian(on, p):
    return BrownianKernel.build(on.put(p.X), on.put(p.W))


def _binned(on, p):
    return BinnedBrownianKernel.build(Rows(on.put(p.X), on.reference), on.put(p.W), n_knots=N_KNOTS)


def _euclidean(on, p):
    return KernelMatrix(Brownian(), on.put(p.X))


def _matrix(on, p):
    return KernelMatrix(Matern32(1.5), on.put(p.X))


def _dense_matrix(p):
    return oracles.matern32(p.X, p.X, 1.5)


def _dense_brownian(p):
    return oracles.brownian(p.X, p.W)


def _dense_euclidean(p):
    norms = np.linalg.norm(p.X, axis=1)
    gaps = np.linalg.norm(p.X[:, None, :] - p.X[None, :, :], axis=2)
    return 0.5 * (norms[:, None] + norms[None, :] - gaps)


def _centered(case, *, weighted):
    def build(on, p):
        return CenteredKernel(case.build(on, p), on.put(p.s) if weighted else None)

    def dense(p):
        s = p.s if weighted else np.ones_like(p.s)
        return oracles.centered(oracles.centered(s * case.dense(p) * s.T, s).T, s)

    name = f"centered {case.name}" + (", weighted" if weighted else "")
    return OperatorCase(name, build, dense if case.dense else None, weighted)


KERNELS = [
    OperatorCase("brownian", _brownian, _dense_brownian, learns=True),
    OperatorCase("binned", _binned, None, learns=True),
    OperatorCase("euclidean", _euclidean, _dense_euclidean),
    OperatorCase("kernel matrix", _matrix, _dense_matrix),
]
OPERATORS = [
    *KERNELS,
    *[_centered(case, weighted=weighted) for case in KERNELS for weighted in (False, True)],
]
PENALTIES: list[Penalty] = [
    Basic(),
    Basic(sphere="l1"),
    Variable(),
    Feature(),
    ConcaveVariable(),
    ConcaveVariable(concavity=20.0),
    ConcaveFeature(),
    ConcaveFeature(concavity=20.0),
]


@dataclass(frozen=True)
class KernelCase:
    """A kernel, and its values by other means: host float64 (n, d), (q, d) -> (n, q)."""

    kernel: Kernel
    formula: Callable[[np.ndarray, np.ndarray], np.ndarray]

    def __str__(self) -> str:
        return str(self.kernel)


def _case(kernel, formula, **settings):
    return KernelCase(kernel, functools.partial(formula, **settings))


KERNEL_CASES = [
    _case(Brownian(2.0), oracles.brownian_motion, lengthscale=2.0),
    _case(Gaussian(), oracles.gaussian, lengthscale=1.0),
    _case(Gaussian(1.7), oracles.gaussian, lengthscale=1.7),
    KernelCase(  # rates are inverse lengthscales, or halves of their inverse squares
        GaussianMixture(1.4, weights=(0.7, 0.2, 1.5), rates=(0.1, 1.0, 0.5)),
        lambda X, Z: (
            0.7 * oracles.gaussian(X, Z, 1.4 / 0.2**0.5)
            + 0.2 * oracles.gaussian(X, Z, 1.4 / 2.0**0.5)
            + 1.5 * oracles.gaussian(X, Z, 1.4)
        ),
    ),
    KernelCase(
        InverseManhattan(2.5, exponent=1.5),
        lambda X, Z: (1.0 + manhattan_distances(X, Z) / 2.5) ** -1.5,
    ),
    _case(InverseMultiquadric(1.3), oracles.inverse_multiquadric, lengthscale=1.3),
    _case(Laplace(2.5), oracles.laplace, lengthscale=2.5),
    _case(Linear(2.0, offset=0.5), oracles.polynomial, lengthscale=2.0, degree=1, offset=0.5),
    _case(ManhattanLaplace(3.0), oracles.manhattan_laplace, lengthscale=3.0),
    KernelCase(
        ManhattanMixture(3.0, weights=(0.4, 1.2), rates=(0.25, 2.0)),
        lambda X, Z: (
            0.4 * oracles.manhattan_laplace(X, Z, 12.0) + 1.2 * oracles.manhattan_laplace(X, Z, 1.5)
        ),
    ),
    _case(Matern32(1.5), oracles.matern32, lengthscale=1.5),
    _case(Matern52(0.8), oracles.matern52, lengthscale=0.8),
    _case(Polynomial(2.0), oracles.polynomial, lengthscale=2.0, degree=3, offset=1.0),
    *[
        _case(
            PowerExponential(2.2, order=order, exponent=exponent),
            oracles.power_exponential,
            lengthscale=2.2,
            order=order,
            exponent=exponent,
        )
        for order, exponent in [(2.0, 1.0), (2.0, 1.4), (1.5, 1.2), (1.0, 0.7)]
    ],
    _case(
        RationalQuadratic(1.2, mixture=0.6),
        oracles.rational_quadratic,
        lengthscale=1.2,
        mixture=0.6,
    ),
    KernelCase(
        0.3 * Laplace(2.0) + Polynomial(degree=2),
        lambda X, Z: 0.3 * oracles.laplace(X, Z, 2.0) + oracles.polynomial(X, Z, 1.0, 2, 1.0),
    ),
    KernelCase(
        Gaussian(3.0) * ManhattanLaplace(4.0) * Linear(),
        lambda X, Z: (
            oracles.gaussian(X, Z, 3.0)
            * oracles.manhattan_laplace(X, Z, 4.0)
            * oracles.polynomial(X, Z, 1.0, 1, 0.0)
        ),
    ),
    KernelCase(
        2.0 * (Matern52(2.0) + Gaussian()) * Matern32(),
        lambda X, Z: (
            2.0
            * (oracles.matern52(X, Z, 2.0) + oracles.gaussian(X, Z, 1.0))
            * oracles.matern32(X, Z, 1.0)
        ),
    ),
    KernelCase(
        ColumnBlock(Matern52(1.2), 0, 1) + 0.4 * Gaussian(2.0),
        lambda X, Z: oracles.matern52(X[:, :1], Z[:, :1], 1.2) + 0.4 * oracles.gaussian(X, Z, 2.0),
    ),
]
