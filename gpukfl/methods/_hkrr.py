"""HKRR, hyper-kernel ridge regression (Huang, Labarrière, De Vito, Poggio and Rosasco)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpukfl.core._array import Array, array_namespace, asarray_like, clip, is_host, to_host
from gpukfl.core._lazy import OldName
from gpukfl.core._results import History, Status
from gpukfl.kernels import Kernel
from gpukfl.linalg import map_singular_values, move_small_to_host, svd
from gpukfl.methods._nystrom import (
    NystromFactor,
    NystromSystem,
    add_jitter,
    gradient_jitter,
    target_sums,
)
from gpukfl.operators import KernelOperator, leading_rows
from gpukfl.partitioned._rows import Rows
from gpukfl.solvers import LBFGS, AlternatingGradient, VariableProjection


class HyperKernelObjective:
    r"""The Nyström objective of a linear map B and the dual coefficients α (eq. (5)).

    .. math:: L(B, \alpha) = \frac1N \|K^B_{nq} \alpha - Y\|_D^2
              + \lambda\, \mathrm{tr}\, \alpha^\top K^B_{qq}\, \alpha, \qquad
              k_B(x, x') = k(Bx, Bx')

    Values and gradients by matrix products over row blocks: O(n q (k + t)) time for each pass, a
    block of rows in memory. Kernel values are kept between passes at one B where they fit.

    Parameters
    ----------
    kernel : Kernel
        The mother kernel k.
    rows : Rows
        Data (n, d).
    Z : array, shape (q, d)
        Centres.
    Y : array, shape (n, t)
        Targets.
    ridge : float
        λ, positive.
    weights : array, shape (n, 1), optional
        Sample weights D, of sum N.
    """

    def __init__(
        self,
        kernel: Kernel,
        rows: Rows,
        Z: Array,
        Y: Array,
        /,
        *,
        ridge: float,
        weights: Array | None = None,
    ) -> None:
        self.kernel, self.rows, self.Z, self.Y = kernel, rows, Z, Y
        self.ridge, self.weights = ridge, weights
        self.squares, self.weight = target_sums(Y, weights)
        self.factor: NystromFactor | None = None  # of the last solve
        self._operator = self._make_operator(Z[:1, :])

    def _make_operator(self, B: Array) -> KernelOperator:
        return KernelOperator(self.kernel, self.rows, self.Z, B, keep=True)

    def operator(self, B: Array, /) -> KernelOperator:
        """Kernel between rows and centres at `B`; the last one is remembered."""
        if self._operator.B is not B:
            self._operator = self._make_operator(B)
        return self._operator

    def system(self, B: Array, /) -> NystromSystem:
        """Return the normal equations at `B`: one pass."""
        operator = self.operator(B)
        gram, moment = operator.moments(self.Y, self.weights)
        return NystromSystem(operator, gram, moment, self.squares, self.weight)

    def minimize_alpha(self, B: Array, /) -> Array:
        """Return the best α at `B` (eq. (6)), float64 (q, t)."""
        system = self.system(B)
        jitter = gradient_jitter(system.operator, self.ridge)
        alpha, self.factor = system.solve(self.ridge, jitter=jitter)
        return alpha

    def value(self, B: Array, alpha: Array, /) -> float:
        """Evaluate L: one pass."""
        return self._evaluate(B, alpha, with_gradient=False)[0]

    def gradient_B(self, B: Array, alpha: Array, /) -> Array:  # noqa: N802
        """Differentiate L with respect to B at fixed α, (k, d): one pass."""
        return _match_place(self._evaluate(B, alpha, with_gradient=True)[1], B)

    def gradient_alpha(self, B: Array, alpha: Array, /) -> Array:
        """Differentiate L with respect to α: one pass."""
        xp = array_namespace(alpha)
        operator, Y, weights = self.operator(B), self.Y, self.weights
        a = xp.astype(alpha, Y.dtype)

        def compute(start: int, stop: int) -> tuple[Array, ...]:
            K = operator.values(start, stop)
            r = K @ a - Y[start:stop, :]
            return (K.T @ _weigh_rows(r, weights, start, stop),)

        (total,) = operator.sum_over_blocks(compute)
        # With the jitter that α is solved with, so that all optimisers have one objective
        core = add_jitter(operator.core, gradient_jitter(operator, self.ridge))
        return 2.0 * total / self.weight + 2.0 * self.ridge * (core @ alpha)

    def project(self, B: Array, /) -> Array:
        """Project on the maps of operator norm at most 1, by clipping singular values."""
        return map_singular_values(B, lambda s: clip(s, high=1.0))[0]

    def reduce(self, B: Array, /) -> tuple[float, Array]:
        """Return H(B), the minimum of L over α (eq. (7)), and its gradient: two passes.

        The gradient is that of L at the best α, which does not move to first order. `B` may be on
        the host, and then the gradient is too. Waits for the device twice where centres are few.
        """
        placed = asarray_like(B, self.Z) if is_host(B) else B
        value, slope = self._evaluate(placed, self.minimize_alpha(placed), with_gradient=True)
        return value, _match_place(slope, B)

    def _evaluate(self, B: Array, alpha: Array, *, with_gradient: bool) -> tuple[float, Array]:
        operator, Y, weights = self.operator(B), self.Y, self.weights
        xp, kernel, unit = array_namespace(alpha), self.kernel, 2.0 / self.weight
        a, V = xp.astype(alpha, Y.dtype), operator.centers

        def compute(start: int, stop: int) -> tuple[Array, ...]:
            X = operator.rows.block(start, stop)
            U = operator.project(X)
            K = operator.values(start, stop, U)
            r = K @ a - Y[start:stop, :]
            pull = _weigh_rows(r, weights, start, stop)
            loss = xp.sum(xp.astype(r, xp.float64) * xp.astype(pull, xp.float64))
            if not with_gradient:
                return (loss,)
            dU, dV = kernel._pullback(U, V, unit * pull @ a.T, K)
            return loss, dU.T @ X, dV

        wide = (xp.astype(x, xp.float64, copy=False) for x in (B, self.Z))
        core, alpha, wide_B, Z, loss, *slopes = move_small_to_host(
            operator.core, alpha, *wide, *operator.sum_over_blocks(compute)
        )
        xp = array_namespace(alpha)
        jittered_core = add_jitter(core, gradient_jitter(operator, self.ridge))
        norm = xp.sum(alpha * (jittered_core @ alpha))
        both = to_host(xp.stack([loss, norm]))
        value = float(both[0]) / self.weight + self.ridge * float(both[1])
        if not with_gradient:
            return value, B
        V = Z @ wide_B.T
        here, there = self.kernel._pullback(V, V, self.ridge * alpha @ alpha.T, core)
        gradient = slopes[0] + (slopes[1] + here + there).T @ Z
        return value, gradient

    reduced = OldName("reduce")


def _weigh_rows(r: Array, weights: Array | None, start: int, stop: int) -> Array:
    return r if weights is None else weights[start:stop, :] * r


def _match_place(gradient: Array, B: Array) -> Array:
    """Put a gradient in float64, perhaps on the host, beside `B`, perhaps there too."""
    if is_host(B):
        return to_host(gradient).astype(B.dtype)
    if is_host(gradient):
        return asarray_like(gradient, B)
    return array_namespace(B).astype(gradient, B.dtype)


@dataclass(frozen=True, eq=False)
class HKRRFit:
    """A fitted linear map, and the record of its fit."""

    B: Array  # (k, d), operator norm at most 1
    lengthscale: float  # of the kernel of Bx
    status: Status
    value: float  # of the objective
    history: History


def fit_hkrr(
    objective: HyperKernelObjective,
    B: Array,
    /,
    *,
    lengthscale: float,
    learn_lengthscale: bool = True,
    shortest: float = 0.0,
    optimizer: LBFGS | VariableProjection | AlternatingGradient,
    watch: Callable[[int, Array, History], Status | None] = lambda *_: None,
) -> HKRRFit:
    r"""Fit the linear map of HKRR (eq. (4)), from `B` (k, d).

    Parameters
    ----------
    objective : HyperKernelObjective
        With the kernel at lengthscale 1.
    B : array, shape (k, d)
        Starting point.
    lengthscale : float
        Of the kernel of Bx.
    learn_lengthscale : bool
        Whether the lengthscale is learned too; the bound on the norm of B then only fixes its
        unit. `VariableProjection` and `AlternatingGradient` hold it as the paper does.
    shortest : float
        Lengthscale than which none that is learned is shorter. Noise asks for ever shorter ones, by
        which samples next to each other differ.
    optimizer : LBFGS, VariableProjection or AlternatingGradient
        L-BFGS minimises the reduced objective (7); the other two are Algorithms 3 and 4.
    watch : callable
        ``watch(k, C, history)`` after each iteration, with C = B / lengthscale.

    Returns
    -------
    HKRRFit
        The map of the lowest objective.

    Notes
    -----
    A map B with lengthscale ℓ is the map C = B/ℓ with lengthscale 1, which is what is optimised.
    Budget on a GPU, an iteration: 57 launches, 2 waits, 4 uploads of 21 kB, 10 MB read and written,
    by L-BFGS for 1000 samples and 50 centres.
    """
    start = B / lengthscale
    if isinstance(optimizer, LBFGS):
        least = shortest if learn_lengthscale else lengthscale
        ball = _Ball(objective, 1.0 / least if least > 0 else math.inf)
        found = optimizer.minimize(  # on the host, where steps of few numbers cost no launches
            ball.reduce,
            to_host(start),
            watch=lambda k, C, history: watch(k, asarray_like(C, start), history),
        )
        C = asarray_like(ball.inside(found.x), start)
        end, history = found.status, found.history
        value = found.value
    else:
        bounded = _Bounded(objective, lengthscale)
        descent = optimizer.minimize(bounded, bounded.project(start), watch=watch)
        C, value, end, history = descent.B, descent.value, descent.status, descent.history
    if learn_lengthscale and isinstance(optimizer, LBFGS):
        lengthscale = 1.0 / (_norm(C) or 1.0)
    return HKRRFit(C * lengthscale, lengthscale, end, value, history)


class _Bounded:
    """The objective of C = B/ℓ, with the norm of B at most 1."""

    def __init__(self, objective: HyperKernelObjective, lengthscale: float) -> None:
        self.objective, self.lengthscale = objective, lengthscale
        self.value, self.gradient_B = objective.value, objective.gradient_B
        self.gradient_alpha = objective.gradient_alpha
        self.minimize_alpha = objective.minimize_alpha

    def project(self, C: Array, /) -> Array:
        """Clip the singular values of B."""
        return self.objective.project(C * self.lengthscale) / self.lengthscale


@dataclass(frozen=True, eq=False)
class _Ball:
    """The objective on all maps, with longer ones scaled to operator norm `radius`."""

    objective: HyperKernelObjective
    radius: float

    def inside(self, C: Array, /) -> Array:
        return C * min(1.0, self.radius / max(_norm(C), 1e-300))

    def reduce(self, C: Array, /) -> tuple[float, Array]:
        if _norm(C) <= self.radius:
            return self.objective.reduce(C)
        value, slope = self.objective.reduce(self.inside(C))
        xp = array_namespace(C)
        U, s, Vt = svd(C)
        norm = float(s[0])
        # C -> radius C / |C|, and the norm's gradient is u v'
        along = float(xp.sum(slope * C)) / norm
        return value, (self.radius / norm) * (slope - along * U[:, :1] @ Vt[:1, :])


def _norm(C: Array, /) -> float:
    """Operator norm."""
    return float(np.linalg.norm(to_host(C).astype(np.float64), 2))


def resized_map(B: Array, k: int, /, *, rng: np.random.RandomState) -> Array:
    """Return `B` (l, d), or (d,), with k rows: its leading ones, or short random ones added.

    Another basis of the rows leaves every radial kernel of Bx as it is.
    """
    if B.ndim == 1:
        rows = to_host(leading_rows(B, k)).astype(np.float64)
    else:
        _, s, Vt = np.linalg.svd(to_host(B).astype(np.float64), full_matrices=False)
        rows = (s[:, None] * Vt)[:k]
    if k == len(rows):
        return asarray_like(rows, B)
    short = 0.03 * (np.linalg.norm(rows[0]) if len(rows) else 1.0) / np.sqrt(rows.shape[1])
    extra = short * rng.standard_normal((k - len(rows), rows.shape[1]))
    return asarray_like(np.concatenate([rows, extra]), B)
