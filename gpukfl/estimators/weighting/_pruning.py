"""How much worse a pruned weighting is, by each of the rules (63) to (66)."""

from __future__ import annotations

import math

import numpy as np

from gpukfl._array import Array, array_namespace, beside, to_host
from gpukfl.estimators.weighting._problem import Learned, WeightingProblem
from gpukfl.methods import Candidate, degradation, degradation_on_sample

_DELTA = 0.05  # with which Theorem 8 may fail
_LARGEST_LOG = 300.0  # beyond this a bound says nothing anyway


def degradation_of(
    problem: WeightingProblem, learned: Learned, found: list[Candidate], rule: str, /
) -> list[float]:
    """Bound or measure how much worse each candidate is than the whole model.

    "norm" is Lemma 7, "bound" Theorem 8, "risk" the difference of the training risks and "error"
    that of the shares of wrong labels. The last three take one pass over the rows. The risk is
    that of a loss which is at least the 0-1 loss, or the squared error in units of the targets'
    variance.
    """
    unit = problem.loss.unit
    pairs = []
    if rule in ("norm", "bound"):
        gaps, slopes = _capacities(problem, learned, found)
        pairs = [(gap, unit * rho) for gap, rho in zip(gaps, slopes, strict=True)]
    if rule == "norm":
        return [degradation(gap, rho) for gap, rho in pairs]
    risks, errors = _on_rows(problem, learned, found)
    if rule == "error":
        return (errors[1:] - errors[0]).tolist()
    changes = (unit * (risks[1:] - risks[0])).tolist()
    if rule == "risk":
        return changes
    return [
        degradation_on_sample(change, gap, rho, problem.n, _DELTA)
        for change, (gap, rho) in zip(changes, pairs, strict=True)
    ]


def _capacities(
    problem: WeightingProblem, learned: Learned, found: list[Candidate]
) -> tuple[list[float], list[float]]:
    """θ times the distance of each candidate, and the loss's slope for predictions of both."""
    operator, xp = learned.operator, array_namespace(problem.Y)
    log_theta = operator.instantiation.log_theta(problem.d)
    # Distances and norms are those of the scaled features
    unit = math.exp(min(log_theta - operator.log_scale, _LARGEST_LOG))
    G, A = to_host(operator.core), to_host(learned.A)
    norms = np.sqrt(np.clip(np.sum(A * (G @ A), axis=0), 0.0, None))
    largest = unit * float(np.sum(norms))
    largest_y = float(xp.max(xp.abs(problem.Y)))
    gaps = [unit * float(np.sum(one.distance)) for one in found]
    return gaps, [problem.loss.lipschitz(largest + gap, largest_y) for gap in gaps]


def _on_rows(
    problem: WeightingProblem, learned: Learned, found: list[Candidate]
) -> tuple[np.ndarray, np.ndarray]:
    """Mean loss and share of wrong labels of the whole model and each candidate: one pass."""
    operator, t = learned.operator, problem.Y.shape[1]
    xp = array_namespace(problem.Y)
    models = [to_host(learned.A), *(one.B for one in found)]
    stacked = beside(np.concatenate(models, axis=1), learned.A)
    Y, weights, loss = problem.Y, problem.weights, problem.loss

    def compute(start: int, stop: int) -> tuple[Array, ...]:
        F = xp.astype(operator.values(start, stop), xp.float64) @ stacked
        y = xp.astype(Y[start:stop, :], xp.float64)
        w = xp.ones_like(y[:, :1])
        if weights is not None:
            w = xp.astype(weights[start:stop, :], xp.float64)
        risks, errors = [], []
        for k in range(len(models)):
            f = F[:, k * t : (k + 1) * t]
            risks.append(xp.sum(w * loss.value(f, y)))
            wrong = (
                f * y <= 0 if t == 1 else (xp.argmax(f, axis=1) != xp.argmax(y, axis=1))[:, None]
            )
            errors.append(xp.sum(w * xp.astype(wrong, xp.float64)))
        return xp.stack(risks), xp.stack(errors), xp.sum(w)

    risks, errors, total = operator.sum_over_blocks(compute)
    return to_host(risks) / float(total), to_host(errors) / float(total)
