"""BKerNN, the Brownian kernel neural network (Follain and Bach, arXiv:2407.17280)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from gpukfl._array import Array, array_namespace, beside, to_host
from gpukfl._results import History, Status
from gpukfl.methods._ridge import RidgeSystem
from gpukfl.operators import ParticleKernel
from gpukfl.penalties import Penalty
from gpukfl.solvers import ProximalGradient

_MARGIN = 0.5  # share of a change by which a sample must miss it for a trial to be dropped
_RTOL = 3e-3  # of the linear solves on the way; the last one is solved as tightly as it goes


@dataclass(frozen=True, eq=False)
class _Evaluation:
    """G at W, with what the gradient and the next solve need."""

    W: Array
    kernel: ParticleKernel
    beta: Array
    lower: float
    upper: float
    residual: float
    sampled: _Evaluation | None = None  # the same on a sample of the rows


@dataclass(frozen=True, eq=False)
class BKerNNFit:
    """A fitted network: the particles, and the ridge regression on their kernel."""

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
            if near is not None and _misses(sampled, near, reject_above):
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
    """The objective of particles on the host, where steps of few numbers cost no launches."""

    objective: _ReducedObjective
    place: Array  # particles beside the data

    def evaluate(self, W: Array, near: _Evaluation | None, reject_above: float, /) -> _Evaluation:
        return self.objective.evaluate(beside(W, self.place), near, reject_above)

    def gradient(self, evaluation: _Evaluation, /) -> Array:
        return to_host(self.objective.gradient(evaluation))


def _misses(sampled: _Evaluation, near: _Evaluation, reject_above: float) -> bool:
    """Whether the sample's change since `near` is far above what is allowed."""
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
    Budget on a GPU, an iteration: 440 launches, 7 waits, 1 uploads of 2.5 kB, 130 MB read and
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
            system.intercept(_fitted(kernel, alpha)),
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


def _fitted(kernel: ParticleKernel, alpha: Array) -> Array:
    return array_namespace(alpha).astype(kernel @ alpha, alpha.dtype, copy=False)
