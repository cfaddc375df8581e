"""Curves of what is estimated by a learned kernel, with their covariance in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpukfl.inference._curves import Curve
from gpukfl.inference._estimates import Estimate
from gpukfl.inference._learned_kernels import LearnedKernel
from gpukfl.inference._smoother import Smoother, mixed_share
from gpukfl.inference._stepwise import all_of
from gpukfl.inference._subject import Subject

FEWEST = 40  # rows
# Chosen by coverage on models that no benchmark has
_RIDGE_SHARE = 0.1  # of the evidence's
_LENGTH_SHARE = 0.5  # of the learned lengthscale
_WITHOUT_LENGTH = 0.5  # of the ridge, for kernels that have no lengthscale to shorten
_MIXES = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # of the additive kernel, in units of the learned
_FREE_SHARE = 5  # one in so many rows may be spent on what is not penalised
_LEAST = 1e-3  # probability of which noise of classes is made at least


@dataclass(frozen=True, eq=False)
class _Half:
    """Rows to smooth, and the kernel that has not seen them."""

    kernel: LearnedKernel
    rows: np.ndarray

    @property
    def ridge_share(self) -> float:
        """Share of the evidence's ridge, for less bias than what predicts best has."""
        return _RIDGE_SHARE * (1.0 if self.kernel.has_lengthscale else _WITHOUT_LENGTH)


def estimates_by_kernel(
    subject: Subject,
    curves: Sequence[Curve],
    sample: np.ndarray,
    kernel: LearnedKernel | None,
    rng: Any,
    /,
) -> list[list[Estimate]]:
    """Estimate curves from a sample of the rows: for each curve one of every output.

    By a kernel that has not seen the rows; without one by those of fits to halves.
    """
    halves = _halves(subject, sample, rng) if kernel is None else [_half(kernel, sample)]
    shared = [_Shared.of(subject, half, curves) for half in halves]
    outputs = range(subject.Y.shape[1])
    by_output = all_of("smoothers of bands", outputs, lambda c: _estimates(subject, shared, c))
    return [[by_output[c][k] for c in outputs] for k in range(len(curves))]


def _halves(subject: Subject, sample: np.ndarray, rng: Any) -> list[_Half]:
    """Split all rows in two: the sample's in one half goes with the kernel of the other."""
    side = _sides(subject, sample, rng)

    def half(k: int) -> _Half:
        assert subject.kernel is not None
        kernel = subject.kernel_from(np.flatnonzero(side != k))
        rows = sample[side[sample] == k]
        # A half that finds nothing says nothing of what to compare: then the whole fit's kernel
        return _half(subject.kernel if kernel is None else kernel, rows)

    return all_of("fits for bands", (0, 1), half)


def _half(kernel: LearnedKernel, rows: np.ndarray) -> _Half:
    """Let functions bend sooner than the fit does: of a smooth kernel a low ridge is not enough."""
    return _Half(kernel.shortened(_LENGTH_SHARE), rows)


def _sides(subject: Subject, sample: np.ndarray, rng: Any) -> np.ndarray:
    """Put every row in one of two halves (n,), of every class and of the sample its half."""
    side = np.empty(len(subject), dtype=np.int64)
    sampled = np.isin(np.arange(len(subject)), sample)
    labels = subject.y if subject.classes else np.zeros(len(subject))
    groups = np.unique(np.stack([np.unique(labels, return_inverse=True)[1], sampled]), axis=1)
    codes = np.unique(labels, return_inverse=True)[1]
    start = 0
    for label, inside in groups.T:
        members = np.flatnonzero((codes == label) & (sampled == inside))
        side[rng.permutation(members)] = (start + np.arange(len(members))) % 2
        start += len(members)
    return side


# ---------------------------------------------------------------------- one half of the rows


@dataclass(frozen=True, eq=False)
class _Shared:
    """Kernels and features of the rows of one half, and of the curves."""

    half: _Half
    K: tuple[np.ndarray, np.ndarray]  # the learned kernel and the additive one, of one size
    kernels: list[tuple[np.ndarray, np.ndarray]]  # of each curve with the rows (g, n)
    H: np.ndarray  # what is not penalised, of each output (t, n, p)
    free: list[np.ndarray]  # the same of each curve (t, g, p)

    @classmethod
    def of(cls, subject: Subject, half: _Half, curves: Sequence[Curve]) -> _Shared:
        X, kernel = subject.X[half.rows], half.kernel
        K, other = kernel(X, X), kernel.additive(X, X)
        unit = _spread(K) / (_spread(other) or 1.0)
        kernels = [
            (
                curve.of(lambda points: kernel(points, X)),
                curve.of(lambda points: kernel.additive(points, X)) * unit,
            )
            for curve in curves
        ]
        free = _Free.of(kernel, len(X), subject.Y.shape[1])
        return cls(
            half, (K, unit * other), kernels, free.at(X), [curve.of(free.at) for curve in curves]
        )


def _spread(K: np.ndarray) -> float:
    """Variance of functions of a kernel (n, n) about their mean over the rows."""
    return float(np.trace(K) / len(K) - K.mean())


@dataclass(frozen=True, eq=False)
class _Free:
    """What is not penalised: a constant, trends, and moves of the learned directions."""

    kernel: LearnedKernel
    features: np.ndarray  # whose trends are free, and loadings where there are directions
    n_outputs: int

    @classmethod
    def of(cls, kernel: LearnedKernel, n: int, n_outputs: int) -> _Free:
        """Leave the most important features free, as many as the rows allow."""
        count = (n // _FREE_SHARE - 1) // (1 + len(kernel.directions))
        order = np.argsort(-kernel.importances, kind="stable")
        return cls(kernel, order[: max(count, 0)], n_outputs)

    def at(self, X: np.ndarray) -> np.ndarray:
        r"""Give the features of each output (t, m, p) at rows.

        A direction u moves by some v that is orthogonal to all of them, and the function by
        :math:`\partial_u f(x)\, v^\top x`.
        """
        Z = self.kernel.scale(X)
        trends = np.concatenate([np.ones((len(Z), 1)), Z[:, self.features]], axis=1)
        found = np.broadcast_to(trends, (self.n_outputs, *trends.shape))
        if not len(self.kernel.directions):
            return found
        slopes = np.moveaxis(self.kernel.slopes(Z), 2, 0)  # (t, m, k)
        beside = Z - (Z @ self.kernel.directions.T) @ self.kernel.directions
        moved = slopes[..., None] * beside[:, None, self.features]
        return np.concatenate([found, moved.reshape(*found.shape[:2], -1)], axis=2)


def _estimates(subject: Subject, shared: Sequence[_Shared], output: int) -> list[Estimate]:
    """Average the halves' curves of one output."""
    maps: list[list[np.ndarray]] = []  # of each half, those of the curves (g, n)
    noises, sums = [], np.zeros(3)
    for one in shared:
        y, weights = subject.Y[one.half.rows, output], subject.weights[one.half.rows]
        H, roots, (K, other) = one.H[output], np.sqrt(weights), one.K
        mix = mixed_share(K, other, H, y, roots, _MIXES)
        smoother = Smoother.of(K + mix * other, H, y, roots, share=one.half.ridge_share)
        found = [
            smoother.map(learned + mix * more, free[output])
            for (learned, more), free in zip(one.kernels, one.free, strict=True)
        ]
        maps.append([smoother.corrected(L) / len(shared) for L in found])
        sums = sums + smoother.residual_sums(y)
        noises.append(np.ones(len(y)))
        if subject.classes:
            share = np.clip(smoother.fitted(y), _LEAST, 1.0 - _LEAST)
            noises[-1] = share * (1.0 - share)
    squares, expected, spread = sums
    # Of classes p (1 - p) says where there is more noise; as it is it would be too low in sum,
    # since fitted shares that smooth little follow the classes
    rows, noise = np.concatenate([one.half.rows for one in shared]), np.concatenate(noises)
    noise = noise / subject.weights[rows] * (squares / expected / noise.mean())
    freedom = float(expected**2 / spread)  # Satterthwaite's
    y = subject.Y[rows, output]
    joined = [np.concatenate(halves, axis=1) for halves in zip(*maps, strict=True)]
    return [Estimate(L @ y, (L * noise) @ L.T, freedom) for L in joined]
