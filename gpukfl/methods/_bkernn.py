"""BKerNN, the Brownian kernel neural network (Follain and Bach, arXiv:2407.17280)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpukfl._array import Array, array_namespace
from gpukfl._results import History, Status
from gpukfl.methods._ridge import RidgeSystem
from gpukfl.operators import ParticleKernel
from gpukfl.penalties import Penalty
from gpukfl.solvers import ProximalGradient

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
    r"""G(W), the ridge objective minimised over the functions (Lemmas 7 and 8)."""

    def __init__(
        self, make_kernel: Callable[[Array], ParticleKernel], system: RidgeSystem, rtol: float
    ) -> None:
        self.make_kernel, self.system, self.rtol = make_kernel, system, rtol

    def evaluate(self, W: Array, near: _Evaluation | None, reject_above: float, /) -> _Evaluation:
        system = self.system
        kernel = self.make_kernel(W)
        solution = system.solve(
            kernel,
            start=None if near is None else near.beta,
            rtol=self.rtol,
            enough=lambda beta, r: system.bounds(beta, r)[0] > reject_above,
        )
        lower, upper = system.bounds(solution.x, solution.residual)
        residual = system.relative_residual(solution.residual)
        return _Evaluation(W, kernel, solution.x, lower, upper, residual)

    def gradient(self, evaluation: _Evaluation, /) -> Array:
        r""":math:`\nabla G = -\frac\lambda2 \partial_W (\alpha^\top K_W \alpha)` (Lemma 8)."""
        alpha = self.system.coefficients(evaluation.beta)
        slopes = evaluation.kernel.quadratic_gradient(alpha)
        slopes = array_namespace(slopes).astype(slopes, evaluation.W.dtype, copy=False)
        return -0.5 * self.system.ridge * slopes


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
    watch: Callable[[int, Array, Callable[[], BKerNNFit], History], Status | None] = (
        lambda *_: None
    ),
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
    watch : callable
        ``watch(k, W, finish, history)`` after each iteration; ``finish()`` gives the fit at W.

    Returns
    -------
    BKerNNFit
        α and the intercept are solved anew, tightly, for the final particles.

    Notes
    -----
    A step costs a sort of the n m projections and about ten products of O(n m) for each trial.

    References
    ----------
    .. [1] Follain and Bach, arXiv:2407.17280, Lemmas 7 to 9 and Algorithm 1.
    """
    objective = _ReducedObjective(make_kernel, system, rtol)
    weight = system.ridge * penalty_strength

    def finish(W: Array, near: Array | None, status: Status, history: History) -> BKerNNFit:
        kernel = make_kernel(W)
        solution = system.solve(kernel, start=near, rtol=system.tight(W))
        alpha = system.coefficients(solution.x)
        return BKerNNFit(
            W,
            kernel,
            alpha,
            system.intercept(_fitted(kernel, alpha)),
            status,
            solution.status,
            system.relative_residual(solution.residual),
            history,
        )

    trace = optimizer.minimize(
        objective,
        lambda V, step: penalty.prox(V, weight * step),
        lambda V: weight * float(penalty.value(V)),
        W,
        watch=lambda k, V, evaluation, history: watch(
            k, V, lambda: finish(V, evaluation.beta, Status.MAX_ITER, history), history
        ),
    )
    return finish(trace.W, trace.evaluation.beta, trace.status, trace.history)


def _fitted(kernel: ParticleKernel, alpha: Array) -> Array:
    return array_namespace(alpha).astype(kernel @ alpha, alpha.dtype, copy=False)
