"""What the scripts on RKHS weightings share: problems, fits of the published grids, scores."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from common import say
from samples import classification_split
from sklearn.model_selection import KFold

from gpukfl import RKHSWeightingClassifier
from gpukfl.core._array import Array, asarray_like, double_like, to_host
from gpukfl.core._places import resolve_place
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators.weighting._data import WeightingProblem
from gpukfl.instantiations import GaussianSign, Instantiation, RandomKitchenSinks
from gpukfl.methods import (
    LOSSES,
    FoldSums,
    FunctionalDescent,
    LassoFits,
    Sums,
    Validated,
    cross_validate,
    fold_sums,
    generalization_gap,
    least_squares,
)
from gpukfl.operators import FeatureOperator
from gpukfl.solvers import Lasso

REFERENCE = "rkhs_weightings.json"
T, FOLDS, BATCH, RADIUS, DELTA = 1000, 5, 50, 1000.0, 0.05
LAMBDAS = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
ON_SUMS = ("least_squares", "lasso")


def problem_of(
    backend: str, X: np.ndarray, y: np.ndarray, seed: int, dtype: str = "float64", **settings: Any
) -> WeightingProblem:
    """Standardised rows after a column of ones, labels -1 and 1."""
    method = RKHSWeightingClassifier(**settings)._method()
    place = resolve_place(backend, X, dtype=dtype, work=len(y) * T)
    samples = Samples(X, (y[:, None] > 0).astype(np.float64), None, labels=True)
    return method.problem(samples, place, Run(None, seed, 0))


def operator_of(problem: WeightingProblem, instantiation: Instantiation, T: int) -> FeatureOperator:
    """Features of fresh parameters."""
    instantiation = instantiation.resolved(problem.d)
    return problem.operator(instantiation, instantiation.draw(T, problem.d, problem.rng))


def digits(args: argparse.Namespace) -> tuple[Any, ...]:
    """Digits 1 and 7 as `classification_split` gives them; a smoke run does without the file."""
    try:
        return classification_split(args, "mnist17")
    except FileNotFoundError as error:
        if not args.smoke:
            sys.exit(f"nothing to do: {error}")
        say(f"breast cancer instead of the digits: {error}")
        return classification_split(args, "breast cancer")


def published_folds(n: int) -> np.ndarray:
    """Fold of each row, the authors' folds."""
    folds = np.empty(n, dtype=np.int64)
    for k, (_, held) in enumerate(KFold(FOLDS, shuffle=True, random_state=0).split(folds)):
        folds[held] = k
    return folds


def on_rows(operator: FeatureOperator, X: np.ndarray) -> FeatureOperator:
    """Give the same features at other raw rows."""
    rows = replace(operator.rows, source=X)
    return FeatureOperator(operator.instantiation, rows, operator.W, operator.log_scale)


def predictions(operator: FeatureOperator, A: Array) -> np.ndarray:
    """Values of each column of coefficients: (n, c), host."""
    return np.asarray(
        to_host(operator @ asarray_like(to_host(A), operator.rows.reference)), np.float64
    )


def wrong(f: np.ndarray, y: np.ndarray) -> float:
    """Share of wrong labels."""
    return float(np.mean(f * y <= 0))


# ---------------------------------------------------------------------- fits from sums


def ridges_for(learner: str, operator: FeatureOperator, lambdas: Sequence[float]) -> list[float]:
    """Give λ for the features as the operator scales them."""
    unit = operator.log_scale * (1.0 if learner == "lasso" else 2.0)
    return [math.exp(math.log(value) - unit) for value in lambdas]


def solver(learner: str, sums: FoldSums) -> Callable[[Sums, Sequence[float]], list[Array]]:
    """Give what solves for all ridges."""
    if learner == "lasso":
        return LassoFits(Lasso())
    if isinstance(sums.operator.instantiation, RandomKitchenSinks):
        # As coded: the penalty is λ, not m λ
        return lambda some, lambdas: least_squares(
            sums, some, [value / some.weight for value in lambdas]
        )[0]
    return lambda some, ridges: least_squares(sums, some, ridges)[0]


@dataclass
class Cell:
    """One instantiation: sums of its features, and how well the best λ does on held-out rows."""

    operator: FeatureOperator
    sums: FoldSums
    pass_seconds: float
    ridge: float = math.nan
    value: float = math.nan  # λ as published
    score: float = -math.inf  # of the held-out folds

    @classmethod
    def of(cls, problem: WeightingProblem, operator: FeatureOperator, folds: np.ndarray) -> Cell:
        """Pass over the rows."""
        begun = time.perf_counter()
        sums = fold_sums(operator, problem.Y, None, folds)
        return cls(operator, sums, time.perf_counter() - begun)

    def validated(self, learner: str, lambdas: Sequence[float]) -> Cell:
        """Choose λ by the squared errors on the folds."""
        ridges = ridges_for(learner, self.operator, lambdas)
        found = self._cross_validated(learner, ridges)
        return self._at(found.best, ridges, lambdas, found.scores[found.best])

    def by_accuracy(
        self, learner: str, problem: WeightingProblem, lambdas: Sequence[float]
    ) -> Cell:
        """Choose λ by the wrong labels on the folds, as the authors: one more pass."""
        ridges = ridges_for(learner, self.operator, lambdas)
        found = self._cross_validated(learner, ridges)
        columns = [to_host(A)[:, 0] for along in found.coefs for A in along]
        F = predictions(self.operator, np.stack(columns, axis=1))
        F = F.reshape(problem.n, len(ridges), FOLDS)
        held = np.take_along_axis(F, published_folds(problem.n)[:, None, None], axis=2)[:, :, 0]
        right = np.mean(held * to_host(problem.Y) > 0, axis=0)
        k = int(np.argmax(right))  # the first best
        return self._at(k, ridges, lambdas, float(right[k]))

    def _cross_validated(self, learner: str, ridges: Sequence[float]) -> Validated:
        return cross_validate(self.sums, solver(learner, self.sums), ridges)

    def _at(self, k: int, ridges: Sequence[float], lambdas: Sequence[float], score: float) -> Cell:
        return Cell(self.operator, self.sums, self.pass_seconds, ridges[k], lambdas[k], score)

    def fit(self, learner: str) -> tuple[Array, float]:
        """Coefficients from all rows, and the seconds of the pass and of this."""
        begun = time.perf_counter()
        (A,) = solver(learner, self.sums)(self.sums.whole, [self.ridge])
        return A, self.pass_seconds + time.perf_counter() - begun


def search(
    problem: WeightingProblem,
    instantiations: Sequence[Instantiation],
    learners: Sequence[str],
    T: int,
    lambdas: Sequence[float] = LAMBDAS,
    accuracy: dict[str, Cell] | None = None,
) -> tuple[dict[str, Cell], dict[str, float]]:
    """Best cell of each learner over the instantiations, and the seconds of its search.

    A dictionary for `accuracy` takes up the cells that the authors' score chooses.
    """
    folds = published_folds(problem.n)
    best: dict[str, Cell] = {}
    seconds = dict.fromkeys(learners, 0.0)
    for instantiation in instantiations:
        cell = Cell.of(problem, operator_of(problem, instantiation, T), folds)
        for learner in learners:
            begun = time.perf_counter()
            found = cell.validated(learner, lambdas)
            seconds[learner] += cell.pass_seconds + time.perf_counter() - begun
            if learner not in best or found.score > best[learner].score:
                best[learner] = found
            if accuracy is not None:
                found = cell.by_accuracy(learner, problem, lambdas)
                if learner not in accuracy or found.score > accuracy[learner].score:
                    accuracy[learner] = found
    return best, seconds


# ---------------------------------------------------------------------- descents


def descended(
    problem: WeightingProblem,
    operator: FeatureOperator,
    learner: str,
    lambdas: Sequence[float],
    rows: np.ndarray | None = None,
    loss: str = "squared",
) -> Array:
    """Coefficients (T, number of λ) of Algorithm 2 ("optimal_step") or 1 ("sfgd")."""
    rows = np.arange(problem.n) if rows is None else rows
    # The authors' derivative of the squared loss is twice ours in Algorithm 1
    share = 0.5 if (learner, loss) == ("sfgd", "squared") else 1.0
    xp = operator.rows.reference.__array_namespace__()
    logs = [math.log(share * value) for value in lambdas]
    log_ridges = xp.asarray(logs, **double_like(operator.rows.reference))
    batches = problem.rng.choice(rows, size=(operator.shape[1], BATCH))
    Y = xp.concat([problem.Y] * len(lambdas), axis=1)
    settings = FunctionalDescent(LOSSES[loss], learner == "optimal_step", RADIUS)
    return settings.run(operator, Y, batches, log_ridges).A


def descent_lambda(
    problem: WeightingProblem,
    operator: FeatureOperator,
    learner: str,
    loss: str = "squared",
    lambdas: Sequence[float] = LAMBDAS,
) -> float:
    """Choose λ of a descent by the loss on the authors' folds."""
    folds, y = published_folds(problem.n), to_host(problem.Y)
    risks = np.zeros(len(lambdas))
    for k in range(FOLDS):
        A = descended(problem, operator, learner, lambdas, np.flatnonzero(folds != k), loss)
        held = np.flatnonzero(folds == k)
        Phi = np.asarray(to_host(operator.evaluate(problem.rows.gather(held))), np.float64)
        risks += np.sum(LOSSES[loss].value(Phi @ to_host(A), y[held]), axis=0)
    return lambdas[int(np.argmin(risks))]


# ---------------------------------------------------------------------- norms and bounds


def log_norm(operator: FeatureOperator, A: Array) -> float:
    """Logarithm of the norm of α."""
    A = to_host(A)[:, :1]
    square = float(np.sum(A * (to_host(operator.core) @ A)))
    return (0.5 * math.log(square) if square > 0 else -math.inf) - operator.log_scale


def bounds(operator: FeatureOperator, A: Array, train_mse: float, n: int) -> dict[str, float]:
    """Right side of (71) as published, with the paper's bound on θ and with θ."""
    instantiation, d, norm = operator.instantiation, operator.rows.shape[1], log_norm(operator, A)
    thetas = {"bound_exact_theta": instantiation.log_theta(d)}
    published = instantiation.log_theta(d)
    if isinstance(instantiation, GaussianSign):
        published = instantiation.log_theta_bound(d)
    thetas["bound_Rm"] = published
    found = {}
    for name, log_theta in thetas.items():
        capacity = math.exp(log_theta + norm)
        rho, most = 2.0 * (capacity + 1.0), (capacity + 1.0) ** 2
        found[name] = train_mse + generalization_gap(capacity, rho, most, n, DELTA)
    return found


def spread(runs: Sequence[dict[str, Any]], keys: Sequence[str]) -> dict[str, Any]:
    """Mean and standard deviation over the runs of what they have."""
    found: dict[str, Any] = {}
    for key in keys:
        values = [run[key] for run in runs if run.get(key) is not None]
        if values:
            found[key] = float(np.mean(values))
            found[f"{key}_std"] = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return found
