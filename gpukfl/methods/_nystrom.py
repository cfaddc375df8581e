r"""Nyström kernel ridge regression: the normal equations of q centres, and their solutions.

With N the sum of the weights D,

.. math:: \min_\alpha \frac1N \|D^{1/2} (K_{nq} \alpha - Y)\|^2
          + \lambda\, \alpha^\top K_{qq}\, \alpha

(eq. (3) of Huang et al., "Learning Multi-Index Models with Hyper-Kernel Ridge Regression").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpukfl.core._array import Array, array_namespace, clip, epsilon, like, sample_dot, to_host
from gpukfl.core._lazy import OldName
from gpukfl.core._results import Solution
from gpukfl.linalg import (
    CholeskyFactor,
    add_to_diagonal,
    eigh,
    eigh_and_measure,
    mean_diagonal,
    move_small_to_host,
    restore_device,
)
from gpukfl.methods._ridge_path import JUDGING, Fold, RidgePath, mix_targets
from gpukfl.operators import KernelOperator
from gpukfl.partitioned._rows import reduce_rows
from gpukfl.solvers import ConjugateGradient

_SMALLEST_JITTER, _LARGEST_JITTER = 1e-10, 1e-2  # of the mean diagonal of K_qq
_RAISE = 100.0  # where a factor fails
_ROUNDING = 100.0  # relative error of a kernel's Gram matrix, in units of the precision
_EPSILON = 2.0**-52  # of float64


@dataclass(frozen=True, eq=False)
class NystromFactor:
    """The factor of the kernel among the centres, with its jitter."""

    L: CholeskyFactor  # of K_qq + jitter, float64
    jitter: float  # relative to the mean diagonal
    raised: bool  # more was needed than the precision and the ridge ask for

    @classmethod
    def from_kernel(cls, core: Array, /, *, jitter: float) -> NystromFactor:
        """Factor `core` (q, q), raising the jitter until it is positive definite.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the matrix is not finite, or far from positive semidefinite, with what may be done.
        """
        share = jitter
        while True:
            try:
                factor = CholeskyFactor.factor(add_jitter(core, share), overwrite=True)
                return cls(factor, share, share > jitter)
            except np.linalg.LinAlgError as error:
                if share >= _LARGEST_JITTER:
                    raise indefinite_error(core.shape[0], share) from error
                share = min(share * _RAISE, _LARGEST_JITTER)

    @property
    def condition(self) -> float:
        """A lower bound on the condition number, from the factor's diagonal."""
        xp = array_namespace(self.L.L)
        diagonal = xp.linalg.diagonal(self.L.L)
        return float(xp.max(diagonal) / xp.min(diagonal)) ** 2

    of = OldName("from_kernel")


def indefinite_error(n: int, share: float, /) -> np.linalg.LinAlgError:
    """Return the error of a kernel matrix (n, n) that no jitter makes positive definite."""
    msg = (
        f"the kernel matrix of {n} samples or centres is not positive definite, even with "
        f"{share:.0e} of its mean diagonal added. Either the kernel is not, or some rows are too "
        "far from all others. Scale the features, or drop such rows"
    )
    return np.linalg.LinAlgError(msg)


def add_jitter(core: Array, share: float, /) -> Array:
    """Add `share` of its mean diagonal to the diagonal of `core` (q, q), float64."""
    return add_to_diagonal(core, share * mean_diagonal(core))


def choose_jitter(operator: KernelOperator, ridge: float, /) -> float:
    r"""Return a jitter by which rounding is small beside the ridge.

    Rounding of sums changes :math:`K^\top K` by some hundred :math:`n \epsilon`, with the
    precision of float64; divided by the jitter it must stay below :math:`n \lambda`. So must the
    squares of the roundings of q kernel values.
    """
    own = epsilon(operator.Z)
    sums = _ROUNDING * _EPSILON
    needed = (sums + operator.shape[1] * own**2) / max(ridge, 1e-300)
    return min(max(needed, _SMALLEST_JITTER), _LARGEST_JITTER / 10.0)


def gradient_jitter(operator: KernelOperator, ridge: float, /) -> float:
    r"""Return a jitter by which rounding is also small in derivatives of the objective.

    There roundings of kernel values are multiplied by coefficients, which are the larger, the
    smaller ridge and jitter are: with :math:`\epsilon \lambda^{-2/3}`, found by trial, the errors
    are of the size of what the jitter itself changes.
    """
    needed = epsilon(operator.Z) / max(ridge, 1e-300) ** (2.0 / 3.0)
    return max(choose_jitter(operator, ridge), min(needed, _LARGEST_JITTER / 10.0))


@dataclass(frozen=True, eq=False)
class NystromSystem:
    """The sums of one pass over the rows; all further work is of order q."""

    operator: KernelOperator
    gram: Array  # K' D K (q, q), float64
    moment: Array  # K' D Y (q, t), float64
    squares: Array  # Y' D Y (t,), float64
    weight: float  # N

    @classmethod
    def from_rows(
        cls, operator: KernelOperator, Y: Array, weights: Array | None, /
    ) -> NystromSystem:
        """Pass over the rows, O(n q²); `Y` (n, t), weights (n, 1) or None."""
        gram, moment, squares, *rest = operator.moments(
            Y, weights, also=_make_target_sums(Y, weights)
        )
        return cls(operator, gram, moment, squares, float(rest[0]) if rest else float(Y.shape[0]))

    def variation(self) -> float:
        """Variance of the centres in the kernel's feature space."""
        core = self.operator.core
        return float(mean_diagonal(core) - array_namespace(core).mean(core))

    def factor(self, ridge: float, /) -> NystromFactor:
        """Factor the kernel among the centres."""
        return NystromFactor.from_kernel(
            self.operator.core, jitter=choose_jitter(self.operator, ridge)
        )

    def whiten(self, factor: NystromFactor, /) -> tuple[Array, Array]:
        r"""Return :math:`L^{-1} K^\top D K L^{-\top}` and :math:`L^{-1} K^\top D Y`."""
        return _whiten(self.gram, self.moment, factor)

    def solve(self, ridge: float, /, *, jitter: float | None = None) -> tuple[Array, NystromFactor]:
        """Dual coefficients (q, t) in float64, with `jitter`, or `choose_jitter` the ridge: O(q³).

        By Cholesky factors; where rounding has made the matrix indefinite, by its eigenvalues, of
        which those within rounding are raised to it. Few centres of a GPU on the host: it waits
        for the device once.
        """
        core, gram, moment = move_small_to_host(self.operator.core, self.gram, self.moment)
        jitter = choose_jitter(self.operator, ridge) if jitter is None else jitter
        factor = NystromFactor.from_kernel(core, jitter=jitter)
        inner, right = _whiten(gram, moment, factor)
        shift = self.weight * ridge
        try:
            shifted = add_to_diagonal(inner, shift)
            beta = CholeskyFactor.factor(shifted, overwrite=True).solve(right)
        except np.linalg.LinAlgError:
            s, Q = eigh(inner)
            # Rounding is at least as large as what it has made negative
            noise = max(-2.0 * float(s[0]), float(s[-1]) * inner.shape[0] * epsilon(inner))
            s = clip(s, low=noise)
            beta = Q @ ((Q.T @ right) / (s + shift)[:, None])
            factor = replace(factor, raised=True)
        alpha = restore_device(factor.L.solve_upper(beta), self.gram)
        return alpha, replace(factor, L=CholeskyFactor(restore_device(factor.L.L, self.gram)))

    def factors(self, ridge: float, /) -> tuple[CholeskyFactor, CholeskyFactor]:
        r"""Return L of the centres' kernel, and the factor of the whitened sums plus Nλ: O(q³).

        What `centers_preconditioner` takes. Raises LinAlgError where rounding has made a matrix
        indefinite.
        """
        factor = self.factor(ridge)
        inner, _ = self.whiten(factor)
        shifted = add_to_diagonal(inner, self.weight * ridge)
        return factor.L, CholeskyFactor.factor(shifted, overwrite=True)

    def path(self, ridges: Sequence[float], /) -> RidgePath:
        r"""Generalised cross-validation over all ridges from one eigendecomposition: O(q³).

        .. math:: GCV(\lambda) = \frac{\|D^{1/2}(Y - \hat Y_\lambda)\|^2 / N}
                  {(1 - \mathrm{tr} H_\lambda / n)^2}
        """
        inner, right = self.whiten(self.factor(min(ridges)))
        xp, n = array_namespace(inner), self.operator.shape[0]

        def sums(s: Array, Q: Array) -> Array:
            shrunk, s = self._shrunk(s, ridges), clip(s, low=0.0)[:, None]
            c2 = xp.sum((Q.T @ right) ** 2, axis=1)[:, None]
            fitted = xp.sum(c2 * shrunk * (2.0 - s * shrunk), axis=0)
            return xp.concat([fitted, xp.sum(s * shrunk, axis=0), xp.sum(self.squares)[None]])

        *numbers, total = eigh_and_measure(inner, sums)[2].tolist()
        scores = []
        for fitted, trace in zip(numbers[: len(ridges)], numbers[len(ridges) :], strict=True):
            misfit, freedom = total - fitted, 1.0 - trace / n
            known = misfit > 0 and freedom > 0  # else only rounding is left
            scores.append(misfit / self.weight / freedom**2 if known else math.inf)
        return RidgePath(list(ridges), scores)

    def _shrunk(self, s: Array, ridges: Sequence[float]) -> Array:
        """Inverses of the eigenvalues with each ridge: (q, ridges)."""
        shifts = self.weight * array_namespace(s).asarray(list(ridges), **like(s))
        return 1.0 / (clip(s, low=0.0)[:, None] + shifts[None, :])

    def leave_one_out(
        self, Y: Array, weights: Array | None, ridges: Sequence[float], /
    ) -> RidgePath:
        r"""Leave-one-out error over all ridges, by one more pass over the rows: O(n q²).

        The residual without sample i is :math:`r_i / (1 - H_{ii})`, with the centres held: a sample
        is left out with all of its weight. Of many targets, mixtures stand for them.
        """
        s, turned, back = self._features(min(ridges))
        Y, turned = mix_targets(Y, JUDGING), mix_targets(turned, JUDGING)
        xp = array_namespace(s)
        shrunk = self._shrunk(s, ridges)
        coefs = [shrunk * turned[:, c][:, None] for c in range(turned.shape[1])]
        operator = self.operator  # without the sums, where blocks lie elsewhere

        def compute(start: int, stop: int) -> tuple[Array, ...]:
            T = xp.astype(operator.values(start, stop), xp.float64) @ back
            target = xp.astype(Y[start:stop, :], xp.float64)
            w = None if weights is None else xp.astype(weights[start:stop, :], xp.float64)
            leverage = (T * T) @ shrunk  # of all ridges at once: (rows, ridges)
            outside = clip(1.0 - (leverage if w is None else w * leverage), low=1e-12)
            squares = xp.zeros_like(outside)
            for c, coef in enumerate(coefs):
                squares = squares + ((target[:, c][:, None] - T @ coef) / outside) ** 2
            return (xp.sum(squares if w is None else w * squares, axis=0),)

        (totals,) = operator.sum_over_blocks(compute)
        return RidgePath(list(ridges), (to_host(totals) / self.weight).tolist())

    def left_out(self, Y: Array, weights: Array | None, ridge: float, /) -> Array:
        """Return leave-one-out predictions with fixed centres: (n, t), one pass, O(n q²)."""
        s, turned, back = self._features(ridge)
        xp = array_namespace(s)
        shrunk = (1.0 / (s + self.weight * ridge))[:, None]
        operator = self.operator

        def compute(start: int, stop: int) -> Array:
            T = xp.astype(operator.values(start, stop), xp.float64) @ back
            target = xp.astype(Y[start:stop, :], xp.float64)
            leverage = (T * T) @ shrunk
            if weights is not None:
                leverage = xp.astype(weights[start:stop, :], xp.float64) * leverage
            outside = clip(1.0 - leverage, low=1e-12)
            return target - (target - T @ (shrunk * turned)) / outside

        return operator.map_blocks(compute, columns=turned.shape[1:], dtype=xp.float64)

    def _features(self, smallest: float) -> tuple[Array, Array, Array]:
        """Return squared singular values, rotated targets, and a map from K to the features."""
        factor = self.factor(smallest)
        inner, right = self.whiten(factor)
        s, Q = eigh(inner)
        return clip(s, low=0.0), Q.T @ right, factor.L.solve_upper(Q)

    def held_out(
        self,
        Y: Array,
        weights: Array | None,
        folds: Sequence[Fold],
        ridges: Sequence[float],
        /,
    ) -> RidgePath:
        """Return the cross-validation errors with fixed centres: O(q³) per fold.

        Folds are host indices. The sums without a fold are the sums less its own.
        """
        xp = array_namespace(self.gram)
        factor = self.factor(min(ridges))
        totals, total = [0.0] * len(ridges), 0.0
        for index in folds:
            rows, target, w = self.operator.rows.take_with(index, Y, weights)
            target, operator = xp.astype(target, xp.float64), self.operator.evaluate_rows(rows)
            part = NystromSystem.from_rows(operator, target, w)
            errors = self._subtract(part).errors_outside(part.operator, target, w, ridges, factor)
            totals = [a + b for a, b in zip(totals, errors, strict=True)]
            total += part.weight
        return RidgePath(list(ridges), [error / total for error in totals])

    def errors_outside(
        self,
        operator: KernelOperator,
        Y: Array,
        weights: Array | None,
        ridges: Sequence[float],
        factor: NystromFactor | None = None,
        /,
    ) -> list[float]:
        """Sum of squared errors on other rows for each ridge: O(q³).

        `operator` is the kernel between those rows and the centres, `Y` (m, t) their targets, and
        `factor` that of the kernel among the centres, where it is known.
        """
        factor = self.factor(min(ridges)) if factor is None else factor
        inner, right = self.whiten(factor)
        xp = array_namespace(inner)

        def errors(s: Array, Q: Array) -> Array:
            back, shrunk, turned = factor.L.solve_upper(Q), self._shrunk(s, ridges), Q.T @ right
            coefs = [shrunk[:, k : k + 1] * turned for k in range(len(ridges))]

            def compute(start: int, stop: int) -> tuple[Array, ...]:
                T, sums = xp.astype(operator.values(start, stop), xp.float64) @ back, []
                for coef in coefs:
                    squares = (Y[start:stop, :] - T @ coef) ** 2
                    w = None if weights is None else weights[start:stop, :]
                    sums.append(xp.sum(squares if w is None else w * squares))
                return (xp.stack(sums),)

            return operator.sum_over_blocks(compute)[0]

        return eigh_and_measure(inner, errors)[2].tolist()

    def _subtract(self, part: NystromSystem) -> NystromSystem:
        """Return the system without the sums over some rows."""
        return replace(
            self,
            gram=self.gram - part.gram,
            moment=self.moment - part.moment,
            squares=self.squares - part.squares,
            weight=self.weight - part.weight,
        )

    of = OldName("from_rows")
    whitened = OldName("whiten")


def _whiten(gram: Array, moment: Array, factor: NystromFactor) -> tuple[Array, Array]:
    return factor.L.whiten(gram), factor.L.solve_lower(moment)


def falkon(
    operator: KernelOperator,
    Y: Array,
    weights: Array | None,
    /,
    *,
    ridge: float,
    solver: ConjugateGradient,
) -> tuple[Array, NystromFactor, Solution]:
    r"""Solve the Nyström problem by conjugate gradients, without forming :math:`K^\top K`.

    In the variable :math:`\beta = L^\top \alpha` with :math:`K_{qq} = L L^\top`, preconditioned by
    :math:`\frac Nq L^\top L + N \lambda I`, the same matrix with the centres for a sample.

    Parameters
    ----------
    operator : KernelOperator
        Kernel between data and centres.
    Y : array, shape (n, t)
        Targets.
    weights : array, shape (n, 1), optional
        Sample weights.
    ridge : float
        λ, positive.
    solver : ConjugateGradient
        Tolerance and iterations.

    Returns
    -------
    tuple
        Dual coefficients (q, t) in float64, the factor of the centres, and how the solver ended
        (in β).

    Notes
    -----
    O(n q (d + t)) for each iteration, one pass over the rows; O(q³) before the first.

    References
    ----------
    .. [1] Rudi, Carratino and Rosasco, "FALKON: an optimal large scale kernel method", NeurIPS
       2017, Algorithm 1.
    """
    factor = NystromFactor.from_kernel(operator.core, jitter=choose_jitter(operator, ridge))
    xp = array_namespace(Y)
    q, L, weight = operator.shape[1], factor.L, total_weight(Y, weights)
    shift = weight * ridge
    inner = CholeskyFactor.factor(
        add_to_diagonal(weight / q * (L.L.T @ L.L), shift), overwrite=True
    )

    def apply(beta: Array) -> Array:
        # In float64: with one rounding of its values the matrix stays symmetric and definite
        return L.solve_lower(operator.normal(L.solve_upper(beta), weights)) + shift * beta

    right = xp.astype(Y if weights is None else weights * Y, xp.float64)
    b = L.solve_lower(operator.adjoint(right))
    solution = solver.solve(apply, b, precondition=inner.solve)
    return L.solve_upper(solution.x), factor, solution


def target_sums(Y: Array, weights: Array | None, /) -> tuple[Array, float]:
    """Weighted squares of the targets (t,), and the sum of the weights: one pass."""
    squares, *rest = reduce_rows(Y, _make_target_sums(Y, weights))
    return squares, float(rest[0]) if rest else float(Y.shape[0])


def total_weight(Y: Array, weights: Array | None, /) -> float:
    """Return the total weight of the rows of targets `Y` (n, t)."""
    if weights is None:
        return float(Y.shape[0])
    xp = array_namespace(weights)
    return float(xp.sum(weights, dtype=xp.float64))


def _make_target_sums(Y: Array, weights: Array | None) -> Callable[[int, int], list[Array]]:
    """Return the summands of `target_sums`, of rows that lie together: squares, and weights."""
    xp = array_namespace(Y)

    def part(start: int, stop: int) -> list[Array]:
        y = Y[start:stop, :]
        if weights is None:
            return [sample_dot(y, y)]
        w = weights[start:stop, :]
        return [sample_dot(w * y, y), xp.sum(w, dtype=xp.float64)]

    return part


# ----------------------------------------------------------------------- nystrom intercept

# Nyström kernel ridge regression with an unpenalised intercept.
#
# .. math:: \min_{\alpha, c} \frac1N \|D^{1/2} (K_{nq} \alpha + c - Y)\|^2
#           + \lambda\, \alpha^\top K_{qq}\, \alpha
#
# from sums over the rows: at the best c columns of :math:`K_{nq}` and Y are less their means.


def solve_with_intercept(
    operator: KernelOperator, Y: Array, weights: Array | None, /, *, ridge: float
) -> tuple[Array, Array, NystromFactor]:
    """Solve for the coefficients of the centres, and the intercept: one pass, O(n q² + q³).

    Parameters
    ----------
    operator : KernelOperator
        Kernel between data and centres.
    Y : array, shape (n, t)
        Targets.
    weights : array, shape (n, 1), optional
        Sample weights.
    ridge : float
        λ, positive.

    Returns
    -------
    tuple
        Dual coefficients (q, t) and intercept (t,) in float64, and the factor of the centres.
    """
    t, of_targets = Y.shape[1], array_namespace(Y)
    beside = of_targets.concat([Y, of_targets.ones_like(Y[:, :1])], axis=1)
    weighted = beside if weights is None else weights * beside
    gram, moment, sums = operator.moments(
        beside, weights, also=lambda start, stop: [_sums(weighted[start:stop, :])]
    )
    xp, N = array_namespace(gram), float(sums[t])
    mean, y_mean = moment[:, t:] / N, sums[:t] / N
    right = moment[:, :t] - N * mean * y_mean[None, :]
    centred = NystromSystem(operator, gram - N * mean @ mean.T, right, xp.zeros_like(y_mean), N)
    alpha, factor = centred.solve(ridge)
    return alpha, y_mean - (mean.T @ alpha)[0, :], factor


def _sums(Y: Array) -> Array:
    xp = array_namespace(Y)
    return xp.sum(Y, axis=0, dtype=xp.float64)
