"""Small instances of every operator and penalty, built on any place, with their dense forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import oracles

from gpukfl._rows import Rows
from gpukfl.operators import (
    BinnedBrownianKernel,
    BrownianKernel,
    CenteredKernel,
    EuclideanBrownianKernel,
    LinearOperator,
)
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


def _brownian(on, p):
    return BrownianKernel.of(on.put(p.X), on.put(p.W))


def _binned(on, p):
    return BinnedBrownianKernel.of(Rows(on.put(p.X), on.reference), on.put(p.W), n_knots=N_KNOTS)


def _euclidean(on, p):
    return EuclideanBrownianKernel(on.put(p.X))


def _dense_brownian(p):
    return oracles.brownian(p.X, p.W)


def _dense_euclidean(p):
    return -0.5 * np.linalg.norm(p.X[:, None, :] - p.X[None, :, :], axis=2)


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
]
OPERATORS = [
    *KERNELS,
    *[_centered(case, weighted=weighted) for case in KERNELS for weighted in (False, True)],
]
PENALTIES: list[Penalty] = [
    Basic(),
    Variable(),
    Feature(),
    ConcaveVariable(),
    ConcaveVariable(concavity=20.0),
    ConcaveFeature(),
    ConcaveFeature(concavity=20.0),
]
