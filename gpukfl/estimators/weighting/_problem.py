"""One data set of an RKHS weighting: its folds, and what each learner makes of it."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpukfl._array import Array, array_namespace, beside, double_like, index_like, to_host
from gpukfl._places import Place
from gpukfl._results import History, Status
from gpukfl.estimators._data import Data
from gpukfl.estimators._samples import Samples, take
from gpukfl.instantiations import Instantiation
from gpukfl.methods import (
    LOSSES,
    FoldSums,
    FunctionalDescent,
    LassoFits,
    Sums,
    Validated,
    cross_validated,
    cross_validated_near,
    fold_sums,
    least_squares,
    scored_rows,
)
from gpukfl.operators import FeatureOperator, common_scale
from gpukfl.solvers import Lasso, largest_penalty

LEARNERS = ("least_squares", "lasso", "optimal_step", "sfgd")
ON_SUMS = ("least_squares", "lasso")  # learners that need one pass over the rows
N_FOLDS = 5

_RIDGES = np.geomspace(1e-9, 1.0, 10).tolist()  # in units of the mean square of the features
_PENALTIES = np.geomspace(1e-5, 1.0, 16).tolist()  # of the one that leaves nothing
_STEP_RIDGES = np.geomspace(1e-5, 1e-1, 5).tolist()  # in units of the mean square of the features
_HARMLESS = 1e-10  # jitter that only rounding asks for: nearby parameters have nearly one feature
_LARGEST_LOG = 600.0  # beyond this a ridge leaves nothing anyway
_CERTAIN = 1e-6  # rounding of a sum of squared errors, relative, above which rows are predicted


@dataclass(frozen=True, eq=False)
class Learned:
    """Coefficients, and how they were found."""

    operator: FeatureOperator
    A: Array  # (T, t), float64, of the scaled features
    log_ridge: float  # of λ as the paper has it
    status: Status
    history: History
    jitter: float = 0.0
    raised: bool = False
    gap: float = 0.0  # of the Lasso, relative
    n_seen: int = 0  # rows that the fit has seen
    sums: Sums | None = None  # over them
    validated: Validated | None = None  # with λ as the paper has it
    held_out: HeldOut | None = None

    @property
    def log_share(self) -> float:
        """Logarithm of λ of least squares in units of the mean square of the features."""
        return self.log_ridge - 2.0 * self.operator.log_scale


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions for rows of each fold by the model without it, on the host."""

    F: np.ndarray  # (m, t)
    Y: np.ndarray  # (m, t)
    weights: np.ndarray  # (m,)


class WeightingProblem(Data):
    """One data set of an RKHS weighting."""

    def __init__(
        self,
        settings: Any,
        samples: Samples,
        place: Place,
        rng: np.random.RandomState,
    ) -> None:
        labels, classes = samples.labels, samples.classes
        if labels:  # -1 and 1
            samples = replace(samples, Y=2.0 * samples.Y - 1.0)
        super().__init__(settings, samples, place, raw_targets=labels)
        self.rows = replace(self.rows, leading_ones=settings.bias)
        self.rng, self.labels, self.classes = rng, labels, classes
        self.n, self.d = self.rows.shape
        self.loss = LOSSES[settings.loss]

    def part(self, index: np.ndarray) -> WeightingProblem:
        """Keep the rows at ascending host indices only, scaled and in folds as they are here."""
        one = copy.copy(self)
        one.drawn_folds = self.drawn_folds[index]
        one.rows, one.n = self.rows.taken(index), len(index)
        one.Y = take(self.Y, index)
        if self.weights is not None:
            assert self.root_weights is not None
            one.weights = take(self.weights, index)
            one.root_weights = take(self.root_weights, index)
        return one

    def operator(self, instantiation: Instantiation, W: np.ndarray) -> FeatureOperator:
        """Features of host parameters `W` at the rows.

        Raises
        ------
        ValueError
            If `W` is not a finite matrix with a row for each parameter.
        """
        if W.ndim != 2 or not np.isfinite(W).all():
            msg = (
                f"expected {type(instantiation).__name__}.draw to give a finite matrix with a row "
                f"for each parameter, got shape {W.shape}"
            )
            raise ValueError(msg)
        placed = beside(W, self.reference)
        scale = common_scale(instantiation, placed, self.d)
        return FeatureOperator(instantiation, self.rows, placed, scale)

    def folds(self) -> np.ndarray:
        """Draw the fold of each row, every class spread evenly."""
        order = self.rng.permutation(self.n)
        if self.classes is not None:
            order = order[np.argsort(self.classes[order], kind="stable")]
        if self.weights is not None:  # so that no fold has all the weight
            order = order[np.argsort(to_host(self.weights)[order, 0] == 0, kind="stable")]
        folds = np.empty(self.n, dtype=np.int8)
        folds[order] = np.arange(self.n) % min(N_FOLDS, self.n)
        return folds

    @cached_property
    def drawn_folds(self) -> np.ndarray:
        """Fold of each row, drawn once: what is compared is scored on the same ones."""
        return self.folds()

    # ------------------------------------------------------------------ learning

    def learn(
        self,
        operator: FeatureOperator,
        *,
        late: Callable[[], bool] = lambda: False,
        left: Callable[[], float | None] = lambda: None,
        tell: Callable[[str, int, History], None] = lambda *_: None,
        validate: bool = False,
        near: Learned | None = None,
    ) -> Learned:
        """Learn the coefficients, and the ridge if it is to be chosen.

        `late` says whether time is up, `left` how many seconds there are for one descent. With
        `validate` a given ridge is scored on folds too. That of least squares is looked for around
        the ridge that was best `near`.
        """
        # Folds choose the ridge, calibrate probabilities, and show what the bound is compared with
        validate = validate or self.labels or self.settings.ridge == "auto"
        if self.settings.learner in ON_SUMS:
            return self._learn_on_sums(operator, late, tell, validate, near)
        return self._descend(operator, left, tell, validate)

    def _learn_on_sums(
        self,
        operator: FeatureOperator,
        late: Callable[[], bool],
        tell: Callable[..., None],
        validate: bool,
        near: Learned | None,
    ) -> Learned:
        begun, history = time.perf_counter(), History()
        folds = self.drawn_folds if validate else np.zeros(self.n, dtype=np.int8)

        def watch(seen: int) -> bool:
            _note(history, 1.0, seen / self.n, begun)
            tell("sums, share of rows", len(history) - 1, history)
            return late()

        sums = fold_sums(operator, self.Y, self.weights, folds, watch=watch)
        status, whole = sums.status, sums.whole
        solve = _LassoOnSums() if self.settings.learner == "lasso" else _LeastSquares(sums)
        ridges, unit = self._ridges(operator, whole)
        validated, chosen = None, ridges[len(ridges) // 2]
        if sum(one.count > 0 for one in sums.folds) > 1:
            try:
                validated = self._validated(sums, solve, ridges, near)
                ridges = validated.ridges
                chosen = ridges[validated.best]
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
        A = solve.last(whole, ridges, chosen)
        history = _one_entry(self._objective(operator, whole, A, chosen), begun)
        held_out = None
        if validated is not None:
            coefs = validated.coefs[ridges.index(chosen)]
            held_out = self._held_out(operator, coefs, folds, sums.n_seen)
        return Learned(
            operator,
            A,
            math.log(chosen) + unit,
            status if status is not Status.CONVERGED else solve.status,
            history,
            jitter=solve.jitter,
            raised=solve.raised,
            gap=solve.gap,
            n_seen=sums.n_seen,
            sums=whole,
            validated=_in_units(validated, unit),
            held_out=held_out,
        )

    def _validated(
        self, sums: FoldSums, solve: _Learner, ridges: list[float], near: Learned | None
    ) -> Validated:
        """Score all ridges, or those around the best one of another fit."""
        if near is None or near.validated is None or self.settings.learner == "lasso":
            return cross_validated(sums, solve, ridges)
        gaps = np.abs(np.log(ridges) - near.log_share)
        return cross_validated_near(sums, solve, ridges, int(gaps.argmin()))

    def _ridges(self, operator: FeatureOperator, whole: Sums) -> tuple[list[float], float]:
        """Give ridges for the scaled features, and the logarithm of their unit."""
        lasso = self.settings.learner == "lasso"
        unit = operator.log_scale * (1.0 if lasso else 2.0)
        if self.settings.ridge != "auto":
            return [math.exp(min(math.log(self.settings.ridge) - unit, _LARGEST_LOG))], unit
        if not lasso:
            return _RIDGES, unit
        moments = to_host(whole.moment) / whole.weight
        top = max(largest_penalty(moments[:, j]) for j in range(moments.shape[1])) or 1.0
        return [share * top for share in _PENALTIES], unit

    def _objective(self, operator: FeatureOperator, whole: Sums, A: Array, ridge: float) -> float:
        """Value of (53) or (55)."""
        xp = array_namespace(A)
        risk, _ = self._risk(operator, whole, A)
        if self.settings.learner == "lasso":
            return risk + ridge * float(xp.sum(xp.abs(A)))
        return risk + 0.5 * ridge * float(xp.sum(A * (operator.core @ A)))

    def training_risk(self, learned: Learned, A: Array) -> tuple[float, int]:
        """Mean loss of coefficients `A` on the rows seen, or on some of them, and their number."""
        return self._risk(learned.operator, learned.sums, A)

    def _risk(self, operator: FeatureOperator, sums: Sums | None, A: Array) -> tuple[float, int]:
        xp = array_namespace(A)
        if sums is not None:
            error = float(xp.sum(sums.squared_error(A)))
            if float(xp.sum(sums.rounding(A))) <= _CERTAIN * error:
                return error / (2.0 * sums.weight), sums.count
        rows = scored_rows(self.n if sums is None else sums.count)
        F = xp.astype(operator.at(self.rows.at(rows)), xp.float64) @ A
        Y = xp.astype(xp.take(self.Y, xp.asarray(rows, **index_like(A)), axis=0), xp.float64)
        w = xp.ones_like(Y[:, :1])
        if self.weights is not None:
            picked = xp.take(self.weights, xp.asarray(rows, **index_like(A)), axis=0)
            w = xp.astype(picked, xp.float64)
        return float(xp.sum(w * self.loss.value(F, Y)) / xp.sum(w)), len(rows)

    # ------------------------------------------------------------------ descent

    def _descend(
        self,
        operator: FeatureOperator,
        left: Callable[[], float | None],
        tell: Callable[..., None],
        validate: bool,
    ) -> Learned:
        """Algorithms 1 and 2: all ridges side by side, once without each fold, once with all."""
        unit = 2.0 * operator.log_scale
        if self.settings.ridge == "auto":
            # 1 - λ is the share of α that a step of Algorithm 2 keeps
            logs = [min(math.log(r) + unit, math.log(0.5)) for r in _STEP_RIDGES]
        else:
            logs = [math.log(self.settings.ridge)]
        validated, held_out, status = None, None, Status.CONVERGED
        if validate:
            try:
                validated, held_out = self._descend_on_folds(operator, logs, left, tell)
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
        k = len(logs) // 2 if validated is None else validated.best
        fit = self._walk(operator, np.arange(self.n), [logs[k]], left(), tell)
        ended = fit.status if status is Status.CONVERGED else status
        return Learned(
            operator,
            fit.A,
            logs[k],
            ended,
            fit.history,
            n_seen=self.n,
            validated=validated,
            held_out=held_out,
        )

    def _walk(
        self,
        operator: FeatureOperator,
        rows: np.ndarray,
        log_ridges: list[float],
        max_time: float | None,
        tell: Callable[..., None] = lambda *_: None,
    ) -> Any:
        """Descend on batches of some rows, for every ridge and target."""
        settings, t = self.settings, self.Y.shape[1]
        xp = array_namespace(self.reference)
        shares = None
        if self.root_weights is not None:
            shares = to_host(self.root_weights)[rows, 0].astype(np.float64) ** 2
            shares = shares / shares.sum()
        size = (operator.shape[1], settings.batch_size)
        batches = self.rng.choice(rows, size=size, p=shares)
        columns = xp.concat([self.Y] * len(log_ridges), axis=1) if len(log_ridges) > 1 else self.Y
        each = np.repeat(log_ridges, t)
        descent = FunctionalDescent(
            self.loss, settings.learner == "optimal_step", settings.radius, max_time
        )
        return descent.run(
            operator,
            columns,
            batches,
            xp.asarray(each, **double_like(self.reference)),
            watch=lambda step, history: tell("descent", step - 1, history),
        )

    def _descend_on_folds(
        self,
        operator: FeatureOperator,
        log_ridges: list[float],
        left: Callable[[], float | None],
        tell: Callable[..., None],
    ) -> tuple[Validated, HeldOut]:
        folds, t = self.drawn_folds, self.Y.shape[1]
        coefs: list[list[Array]] = [[] for _ in log_ridges]
        for k in range(int(folds.max()) + 1):
            fit = self._walk(operator, np.flatnonzero(folds != k), log_ridges, left(), tell)
            if fit.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            for r in range(len(log_ridges)):
                coefs[r].append(fit.A[:, r * t : (r + 1) * t])
        held = [self._held_out(operator, one, folds, self.n) for one in coefs]
        scores = [self._score(one) for one in held]
        validated = Validated([math.exp(log) for log in log_ridges], scores, coefs)
        return validated, held[validated.best]

    def _score(self, held: HeldOut) -> float:
        """Share of the loss of the mean, or of f = 0, that held-out predictions avoid."""
        w = held.weights[:, None]
        constant = np.zeros_like(held.Y)
        if not self.loss.for_labels:
            constant = constant + np.sum(w * held.Y, axis=0) / w.sum()
        risk = float(np.sum(w * self.loss.value(held.F, held.Y)))
        baseline = float(np.sum(w * self.loss.value(constant, held.Y)))
        return 1.0 - risk / baseline if baseline > 0 else -risk

    def _held_out(
        self, operator: FeatureOperator, coefs: list[Array], folds: np.ndarray, n_seen: int
    ) -> HeldOut:
        """Predict some rows of each fold by the coefficients without it."""
        rows = scored_rows(n_seen)
        xp = array_namespace(self.reference)
        F, Y, weights = [], [], []
        present = [k for k in range(int(folds.max()) + 1) if np.any(folds[:n_seen] == k)]
        for k, A in zip(present, coefs, strict=True):
            index = rows[folds[rows] == k]
            if not len(index):
                continue
            Phi = xp.astype(operator.at(self.rows.at(index)), xp.float64)
            F.append(to_host(Phi @ A))
            Y.append(to_host(self.Y)[index].astype(np.float64))
            w = self.root_weights
            weights.append(np.ones(len(index)) if w is None else to_host(w)[index, 0] ** 2)
        return HeldOut(np.concatenate(F), np.concatenate(Y), np.concatenate(weights))


class _LeastSquares:
    """Algorithm 3 on sums, and how the last solve ended."""

    status, gap = Status.CONVERGED, 0.0

    def __init__(self, sums: FoldSums) -> None:
        self.sums, self.jitter, self.raised = sums, 0.0, False

    def __call__(self, some: Sums, ridges: Sequence[float]) -> list[Array]:
        """Coefficients for each ridge."""
        solved, factor = least_squares(self.sums, some, ridges)
        self.jitter, self.raised = factor.jitter, factor.jitter > _HARMLESS
        return solved

    def last(self, whole: Sums, ridges: Sequence[float], chosen: float) -> Array:  # noqa: ARG002
        """Coefficients for the ridge that was chosen."""
        return self(whole, [chosen])[0]


class _LassoOnSums:
    """Algorithm 4 on sums, and how the last solve ended."""

    jitter, raised = 0.0, False

    def __init__(self) -> None:
        self.fits, self.gap, self.status = LassoFits(Lasso()), 0.0, Status.CONVERGED

    def __call__(self, some: Sums, ridges: Sequence[float]) -> list[Array]:
        """Coefficients for each ridge, along one path, or KeyboardInterrupt."""
        solved = self.fits(some, ridges)
        if self.fits.interrupted:
            raise KeyboardInterrupt
        return solved

    def last(self, whole: Sums, ridges: Sequence[float], chosen: float) -> Array:
        """Coefficients for the ridge that was chosen: a path from above is as quick.

        Ctrl-C keeps what was found.
        """
        path = [ridge for ridge in ridges if ridge >= chosen]
        k = path.index(chosen)
        A = self.fits(whole, path)[k]
        ends = [fits[k] for fits in self.fits.fits]
        self.gap = max(end.gap for end in ends)
        failed = [end.status for end in ends if end.status is not Status.CONVERGED]
        self.status = failed[0] if failed else Status.CONVERGED
        if self.fits.interrupted:
            self.status = Status.INTERRUPTED
        return A


_Learner = _LeastSquares | _LassoOnSums


def _in_units(validated: Validated | None, log_unit: float) -> Validated | None:
    """Give the ridges of the true features."""
    if validated is None:
        return None
    ridges = [math.exp(min(math.log(r) + log_unit, _LARGEST_LOG)) for r in validated.ridges]
    return Validated(ridges, validated.scores, validated.coefs)


def _note(history: History, step: float, objective: float, begun: float) -> None:
    history.objective.append(objective)
    history.step.append(step)
    history.residual.append(0.0)
    history.seconds.append(time.perf_counter() - begun)


def _one_entry(objective: float, begun: float) -> History:
    history = History()
    _note(history, 1.0, objective, begun)
    return history
