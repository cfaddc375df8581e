"""BKerNN, the Brownian kernel neural network (Follain and Bach, arXiv:2407.17280)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    assert_host,
    clip,
    double_like,
    index_like,
    is_host,
    to_host,
)
from gpukfl.core._lazy import OldName
from gpukfl.core._memory import block_size, run_in_blocks
from gpukfl.core._results import History, Status
from gpukfl.linalg import interpolate_knots
from gpukfl.methods._ridge import RidgeSystem
from gpukfl.operators import ParticleKernel
from gpukfl.penalties import Penalty
from gpukfl.solvers import ProximalGradient

_MARGIN = 0.5  # share of a change by which a sample must miss it for a trial to be dropped
_RTOL = 3e-3  # of the linear solves on the way; the last one is solved as tightly as it goes


@dataclass(frozen=True, eq=False)
class _Evaluation:
    """G at W, with intermediate results for the gradient and the next solve."""

    W: Array
    kernel: ParticleKernel
    beta: Array
    lower: float
    upper: float
    residual: float
    sampled: _Evaluation | None = None  # the same on a sample of the rows


@dataclass(frozen=True, eq=False)
class BKerNNFit:
    """A fitted network: particles, and the ridge regression with their kernel."""

    W: Array  # (d, m)
    kernel: ParticleKernel  # at W
    alpha: Array  # (n, t), columns sum to zero
    intercept: Array  # (t,)
    status: Status
    solve_status: Status  # of the last linear solve
    solve_residual: float  # relative
    history: History


class _ReducedObjective:
    r"""G(W), the ridge objective minimised over the functions (Lemmas 7 and 8).

    A `sample` is the same of few rows. Where its change from `near` is beyond what the caller
    takes by a wide margin, the full system is not solved: the trial has a lower bound of infinity,
    which is not certified, and costs its caller no more than a shorter step.
    """

    def __init__(
        self,
        make_kernel: Callable[[Array], ParticleKernel],
        system: RidgeSystem,
        rtol: float,
        sample: _ReducedObjective | None = None,
    ) -> None:
        self.make_kernel, self.system, self.rtol = make_kernel, system, rtol
        self.sample = sample

    def evaluate(self, W: Array, near: _Evaluation | None, reject_above: float, /) -> _Evaluation:
        sampled = None
        if self.sample is not None:
            sampled = self.sample.evaluate(W, None if near is None else near.sampled, math.inf)
            if near is not None and _exceeds_limit(sampled, near, reject_above):
                return replace(sampled, lower=math.inf, upper=math.inf)
        system = self.system
        if near is not None:
            near.kernel.release()  # of two, only the new one is multiplied with
        kernel = self.make_kernel(W)
        solution = system.solve(
            kernel,
            start=None if near is None else near.beta,
            rtol=self.rtol,
            measure=system.operands,
            enough=lambda products: system.lower(products) > reject_above,
        )
        lower, upper, residual = system.judge(solution.x, solution.residual)
        if solution.status is Status.BREAKDOWN and solution.n_iter == 0:  # as beyond all numbers
            lower, upper = math.nan, math.nan
        return _Evaluation(W, kernel, solution.x, lower, upper, residual, sampled)

    def gradient(self, evaluation: _Evaluation, /) -> Array:
        r""":math:`\nabla G = -\frac\lambda2 \partial_W (\alpha^\top K_W \alpha)` (Lemma 8)."""
        alpha = self.system.coefficients(evaluation.beta)
        slopes = evaluation.kernel.quadratic_gradient(alpha)
        slopes = array_namespace(slopes).astype(slopes, evaluation.W.dtype, copy=False)
        return -0.5 * self.system.ridge * slopes


@dataclass(frozen=True, eq=False)
class _OnHost:
    """The objective of particles on the host, where small steps need no kernel launches."""

    objective: _ReducedObjective
    place: Array  # particles beside the data

    def evaluate(self, W: Array, near: _Evaluation | None, reject_above: float, /) -> _Evaluation:
        return self.objective.evaluate(asarray_like(W, self.place), near, reject_above)

    def gradient(self, evaluation: _Evaluation, /) -> Array:
        return to_host(self.objective.gradient(evaluation))


def _exceeds_limit(sampled: _Evaluation, near: _Evaluation, reject_above: float) -> bool:
    """Whether the sample's change since `near` is far above the tolerance."""
    if near.sampled is None or not math.isfinite(reject_above):
        return False
    change, allowed = sampled.lower - near.sampled.lower, reject_above - near.lower
    return change - allowed > _MARGIN * max(abs(change), abs(allowed))


def fit_bkernn(
    make_kernel: Callable[[Array], ParticleKernel],
    system: RidgeSystem,
    W: Array,
    /,
    *,
    penalty: Penalty,
    penalty_strength: float = 1.0,
    optimizer: ProximalGradient,
    rtol: float = _RTOL,
    learned_by: RidgeSystem | None = None,
    sample: tuple[Callable[[Array], ParticleKernel], RidgeSystem] | None = None,
    watch: Callable[[int, Array, Callable[[], BKerNNFit], History], Status | None] = (
        lambda *_: None
    ),
    learned: bool = False,
) -> BKerNNFit:
    r"""Fit BKerNN from the particles `W`.

    .. math:: \min_{W, \alpha, c} \frac{1}{2n} \|Y - K_W \alpha - c\|^2
              + \frac\lambda2 \alpha^\top K_W \alpha + \lambda\, strength\; \Omega(W)

    Parameters
    ----------
    make_kernel : callable
        Kernel operator at given particles (d, m), with `quadratic_gradient`.
    system : RidgeSystem
        Targets (n, t), ridge λ and sample weights.
    W : array, shape (d, m)
        Starting particles.
    penalty : Penalty
        Ω.
    penalty_strength : float
        Weight of Ω relative to λ; 1 is the paper.
    optimizer : ProximalGradient
        Step rule and stopping.
    rtol : float
        Relative residual of the linear solves on the way.
    learned_by : RidgeSystem, optional
        The same of few mixtures of many targets: particles are learned by these.
    sample : tuple of a callable and a RidgeSystem, optional
        The same of a sample of the rows: trials that miss by far there are not tried on all.
    watch : callable
        ``watch(k, W, finish, history)`` after each iteration; ``finish()`` gives the fit at W.
    learned : bool
        Whether `W` are of another fit, and not random: one step is taken in any case of these.

    Returns
    -------
    BKerNNFit
        α and the intercept are solved anew, tightly, for the final particles.

    Notes
    -----
    A step costs a sort of the n m projections and about ten products of O(n m) for each trial.
    Budget on a GPU, an iteration: 460 launches, 7 waits, 1 uploads of 2.5 kB, 130 MB read and
    written, for 3200 samples; most of them in preconditioned conjugate gradients, of which six
    are made from wait to wait. The exact kernel takes half of the launches.

    References
    ----------
    .. [1] Follain and Bach, arXiv:2407.17280, Lemmas 7 to 9 and Algorithm 1.
    """
    few = None if sample is None else _ReducedObjective(*sample, rtol)
    objective = _ReducedObjective(make_kernel, learned_by or system, rtol, few)
    weight = system.ridge * penalty_strength

    def finish(found: _Evaluation, status: Status, history: History) -> BKerNNFit:
        W, kernel = found.W, found.kernel
        start = found.beta if learned_by in (None, system) else None  # of other targets
        solution = system.solve(kernel, start=start, rtol=system.tight(W))
        residual = system.relative_residual(solution.residual)
        if residual > 1.0:  # worse than nothing at all, which is then what is predicted
            solution, residual = replace(solution, x=0.0 * solution.x), 1.0
        alpha = system.coefficients(solution.x)
        return BKerNNFit(
            W,
            kernel,
            alpha,
            system.intercept(_fitted_values(kernel, alpha)),
            status,
            solution.status,
            residual,
            history,
        )

    trace = optimizer.minimize(
        _OnHost(objective, W),
        lambda V, step: penalty.prox(V, weight * step),
        lambda V: weight * float(penalty.value(V)),
        to_host(W),
        watch=lambda k, _, evaluation, history: watch(
            k, evaluation.W, lambda: finish(evaluation, Status.MAX_ITER, history), history
        ),
        learned=learned,
    )
    return finish(trace.evaluation, trace.status, trace.history)


def _fitted_values(kernel: ParticleKernel, alpha: Array) -> Array:
    return array_namespace(alpha).astype(kernel @ alpha, alpha.dtype, copy=False)


# ---------------------------------------------------------------------------------- shapes

# Learned shape functions: piecewise-linear, thinned to a stated error.


_BYTES = 160  # that thinning takes at once for each knot


@dataclass(frozen=True, eq=False)
class ShapeFunctions:
    r"""The functions :math:`g_j` of :math:`f(x) = c + \frac1m \sum_j g_j(w_j^\top x)`.

    Each is linear between its knots and constant beyond the first and the last, as the minimiser
    of the ridge problem is. Functions with fewer knots repeat their last one.
    """

    knots: Array  # (m, q), ascending
    values: Array  # (m, q, t)

    def __len__(self) -> int:
        return self.knots.shape[0]

    def mean(self, A: Array, /) -> Array:
        """Average the functions at the projections `A` (m, n): (n, t), in the dtype of `A`."""
        xp = array_namespace(A)
        total = interpolate_knots(A, self.knots, self.values)
        return xp.astype(total / len(self), A.dtype)

    @classmethod
    def simplify(cls, knots: Array, values: Array, tolerance: float, /) -> ShapeFunctions:
        """Keep enough of the knots (m, n) for an error of at most `tolerance` everywhere.

        Values are (m, n, t). O(m n log n), some functions at a time.
        """
        (m, n), t = knots.shape, values.shape[2]
        parts: list[ShapeFunctions] = []

        def body(start: int, stop: int) -> None:
            block = knots[start:stop, :], values[start:stop, ...]
            kept = keep_knots(*block, tolerance)
            parts.append(cls(*_select_knots(*block, kept)))

        each = {"bytes_each": _BYTES * n, "elements_each": n * t}
        run_in_blocks(m, block_size(knots, **each, at_most=m), body)
        q = max(part.knots.shape[1] for part in parts)
        xp = array_namespace(knots)
        return cls(
            xp.concat([_pad_with_last(part.knots, q) for part in parts], axis=0),
            xp.concat([_pad_with_last(part.values, q) for part in parts], axis=0),
        )

    thinned = OldName("simplify")


def _select_knots(knots: Array, values: Array, kept: Array, /) -> tuple[Array, Array]:
    """Return the kept knots and values, padded by the last one."""
    xp = array_namespace(knots)
    counts = xp.sum(xp.astype(kept, index_like(knots)["dtype"]), axis=1)
    q, n = int(xp.max(counts)), knots.shape[1]
    dropped_last = xp.argsort(xp.astype(~kept, xp.int8), axis=1, stable=True)[:, :q]
    slots = xp.arange(q, **index_like(knots))
    index = xp.where(
        slots[None, :] < counts[:, None], dropped_last, xp.full_like(dropped_last, n - 1)
    )
    by_target = [xp.take_along_axis(values[..., c], index, axis=1) for c in range(values.shape[2])]
    return xp.take_along_axis(knots, index, axis=1), xp.stack(by_target, axis=2)


def _pad_with_last(x: Array, q: int, /) -> Array:
    """Pad the second axis to length q by its last entry."""
    xp = array_namespace(x)
    there = x.shape[1]
    if there == q:
        return x
    slots = xp.arange(q, **index_like(x))
    last = xp.full_like(slots, there - 1)
    return xp.take(x, xp.where(slots < there, slots, last), axis=1)


def keep_knots(knots: Array, values: Array, tolerance: float, /) -> Array:
    """Return which knots (m, n) to keep.

    A knot goes when it lies inside a dyadic block of knots on which every function stays within
    `tolerance` of the chord; the two ends always stay.
    """
    if is_host(knots):
        from gpukfl._accel import cpu

        return cpu.keep_knots(*assert_host(knots, values), tolerance)
    return _keep_knots(knots, values, tolerance)


def _keep_knots(knots: Array, values: Array, tolerance: float, /) -> Array:
    xp = array_namespace(knots)
    m, n = knots.shape
    number = xp.arange(n, **index_like(knots))
    dropped = xp.zeros((m, n), dtype=xp.bool, device=index_like(knots)["device"])
    width = 2
    while width // 2 < n - 1:
        inside = (number % width != 0) & (number != n - 1)
        straight = _is_straight(knots, values, number, width, tolerance)
        dropped = dropped | (inside[None, :] & straight)
        width *= 2
    return ~dropped


def _is_straight(knots: Array, values: Array, number: Array, width: int, tolerance: float) -> Array:
    """Whether each knot's dyadic block of `width` is within `tolerance` of its chord: (m, n)."""
    xp = array_namespace(knots)
    m, n = knots.shape
    first = (number // width) * width
    last = clip(first + width, high=n - 1)
    a0, a1 = xp.take(knots, first, axis=1), xp.take(knots, last, axis=1)
    gap = xp.astype(a1 - a0, xp.float64)
    share = xp.astype(knots - a0, xp.float64) / xp.where(gap > 0, gap, xp.ones_like(gap))
    worst = xp.zeros((m, n), **double_like(knots))
    for c in range(values.shape[2]):
        v0, v1 = xp.take(values[..., c], first, axis=1), xp.take(values[..., c], last, axis=1)
        worst = xp.maximum(worst, xp.abs(values[..., c] - v0 - share * (v1 - v0)))
    blocks = -(-n // width)
    padding = xp.zeros((m, blocks * width - n), **double_like(knots))
    padded = xp.reshape(xp.concat([worst, padding], axis=1), (m, blocks, width))
    return xp.take(xp.max(padded, axis=2) <= tolerance, number // width, axis=1)
