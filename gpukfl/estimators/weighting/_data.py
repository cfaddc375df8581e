"""A data set of an RKHS weighting: folds, sums over rows, learners and gradients."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    double_like,
    like,
    take_rows,
    to_double,
    to_host,
)
from gpukfl.core._places import Place
from gpukfl.core._random import hash_folds
from gpukfl.core._results import History, Status
from gpukfl.estimators._data import Data, HeldOut, draw_weighted_rows
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._search import explained_share
from gpukfl.estimators.weighting._settings import Descent, WeightingSettings
from gpukfl.instantiations import Instantiation
from gpukfl.linalg import host_eigh
from gpukfl.methods import (
    DescentFit,
    FoldSums,
    FunctionalDescent,
    LassoFits,
    Sums,
    Validated,
    cross_validate,
    cross_validate_locally,
    fold_sums,
    least_squares,
    scored_rows,
)
from gpukfl.operators import FeatureOperator, common_scale
from gpukfl.partitioned._rows import Rows, map_rows
from gpukfl.solvers import Lasso, largest_penalty

# --------------------------------------------------------------------------------- on sums

_SMALL_JITTER = 1e-10  # without a warning: similar parameters have nearly equal features


class LeastSquares:
    """Algorithm 3 on sums, with the status of the last solve."""

    status, gap = Status.CONVERGED, 0.0

    def __init__(self, sums: FoldSums) -> None:
        self.sums, self.jitter, self.raised = sums, 0.0, False

    def __call__(self, some: Sums, ridges: Sequence[float]) -> list[Array]:
        """Return the coefficients for each ridge."""
        solved, factor = least_squares(self.sums, some, ridges)
        self.jitter, self.raised = factor.jitter, factor.jitter > _SMALL_JITTER
        return solved

    def last(self, whole: Sums, ridges: Sequence[float], chosen: float) -> Array:  # noqa: ARG002
        """Return the coefficients for the chosen ridge."""
        return self(whole, [chosen])[0]


class LassoOnSums:
    """Algorithm 4 on sums, with the status of the last solve."""

    jitter, raised = 0.0, False

    def __init__(self) -> None:
        self.fits, self.gap, self.status = LassoFits(Lasso()), 0.0, Status.CONVERGED

    def __call__(self, some: Sums, ridges: Sequence[float]) -> list[Array]:
        """Return coefficients for each ridge along a path, or raise KeyboardInterrupt."""
        solved = self.fits(some, ridges)
        if self.fits.is_interrupted:
            raise KeyboardInterrupt
        return solved

    def last(self, whole: Sums, ridges: Sequence[float], chosen: float) -> Array:
        """Return the coefficients for the chosen ridge, by a path from larger ones.

        Ctrl-C keeps the coefficients so far.
        """
        path = [ridge for ridge in ridges if ridge >= chosen]
        k = path.index(chosen)
        A = self.fits(whole, path)[k]
        ends = [fits[k] for fits in self.fits.fits]
        self.gap = max(end.gap for end in ends)
        failed = [end.status for end in ends if end.status is not Status.CONVERGED]
        self.status = failed[0] if failed else Status.CONVERGED
        if self.fits.is_interrupted:
            self.status = Status.INTERRUPTED
        return A


LearnerOnSums = LeastSquares | LassoOnSums


# --------------------------------------------------------------------------------- problem

N_FOLDS = 5
_MOST_DEALT = 2**22  # rows up to which folds have equal sizes; for more, each row's fold is drawn

_RIDGES = np.geomspace(1e-9, 1.0, 10).tolist()  # in mean squares of the features
_PENALTIES = np.geomspace(1e-5, 1.0, 16).tolist()  # relative to the least with coefficients 0
_STEP_RIDGES = np.geomspace(1e-5, 1e-1, 5).tolist()  # in mean squares of the features
_LARGEST_LOG = 600.0  # larger ridges give coefficients 0
_MOST_ROUNDING = 1e-6  # relative rounding of errors from sums; with more, rows are predicted


@dataclass(frozen=True, eq=False)
class WeightingFit:
    """Coefficients, and the record of their fit."""

    operator: FeatureOperator
    A: Array  # (T, t), float64, of the scaled features
    log_ridge: float  # of the paper's λ
    status: Status
    history: History
    jitter: float = 0.0
    raised: bool = False
    gap: float = 0.0  # of the Lasso, relative
    n_seen: int = 0  # rows of the fit
    sums: Sums | None = None  # over these rows
    validated: Validated | None = None  # with the paper's λ

    @property
    def log_start(self) -> float | None:
        """The logarithm of the chosen relative λ, near which other fits search, or None."""
        if self.validated is None:
            return None
        return log_relative_ridge(self.log_ridge, self.operator)


def log_relative_ridge(log_ridge: float, operator: FeatureOperator, /) -> float:
    """Return the logarithm of λ in units of the mean square of the features."""
    return log_ridge - 2.0 * operator.log_scale


class WeightingProblem(Data):
    """One data set of an RKHS weighting; classes are -1 and 1."""

    settings: WeightingSettings

    def __init__(
        self, settings: WeightingSettings, samples: Samples, place: Place, run: Run
    ) -> None:
        self.labels, self._samples = samples.labels, samples
        super().__init__(settings, _encode_signs(samples), place, run, raw_targets=self.labels)
        self.rows, self.loss = replace(self.rows, leading_ones=settings.bias), settings.loss
        self.d = self.rows.shape[1]  # with the column of ones

    def scale_samples(self, samples: Samples, /) -> tuple[Array, Array]:
        """Return other samples, without the column of ones, and targets, scaled like these."""
        return super().scale_samples(_encode_signs(samples))

    def part(self, index: np.ndarray) -> WeightingProblem:
        """Return the problem of rows at ascending host indices, with the same folds."""
        some, folds = self.take(index), take_rows(self.drawn_folds, index)
        some.drawn_folds = to_host(folds)
        return some

    def operator(self, instantiation: Instantiation, W: np.ndarray) -> FeatureOperator:
        """Return the features of host parameters `W` at the rows."""
        if W.ndim != 2 or not np.isfinite(W).all():
            msg = (
                f"expected {type(instantiation).__name__}.draw to return a finite matrix with a "
                f"row for each parameter, got shape {W.shape}"
            )
            raise ValueError(msg)
        placed = asarray_like(W, self.reference)
        scale = common_scale(instantiation, placed, self.d)
        return FeatureOperator(instantiation, self.rows, placed, scale)

    def fitted_operator(self, learned: WeightingFit, X: Array, /) -> FeatureOperator:
        """Return the features of a fit at other scaled rows (m, d), without the column of ones."""
        rows = Rows(X, self.reference, leading_ones=self.settings.bias)
        return replace(learned.operator, rows=rows)

    @cached_property
    def drawn_folds(self) -> Array:
        """The fold of each row (n,), on the host or partitioned like the rows; drawn once.

        Folds respect relations, or else are stratified by class.
        """
        blocks = None if self.relations is None else self.relations.blocks(self.rng, N_FOLDS)
        if blocks is not None:
            dealt = blocks.astype(np.int8)
            return self._map_folds(lambda start, stop: dealt[start:stop])
        if self.n > _MOST_DEALT:
            seed = self.rng.randint(2**31)
            return self._map_folds(lambda start, stop: hash_folds(start, stop, N_FOLDS, seed))
        order, classes = self.rng.permutation(self.n), self._samples.classes
        if classes is not None:
            order = order[np.argsort(classes[order], kind="stable")]
        if self.weights is not None and self.rows.partitioning is None:
            # Rows of weight 0 are spread evenly too; partitioned rows have none
            order = order[np.argsort(to_host(self.weights)[order, 0] == 0, kind="stable")]
        folds = np.empty(self.n, dtype=np.int8)
        folds[order] = np.arange(self.n) % min(N_FOLDS, self.n)
        return self._map_folds(lambda start, stop: folds[start:stop])

    def _map_folds(self, part: Callable[[int, int], np.ndarray]) -> Array:
        return map_rows(self.rows.source, part, columns=(), dtype=np.int8)

    def held_out_folds(self) -> list[HeldOut]:
        """Return the held-out rows of each fold."""
        rows = scored_rows(self.n)
        plain, targets, weights, found_folds = replace(self.rows, leading_ones=False).take_with(
            rows, self.Y, self.weights, self.drawn_folds
        )
        folds, every = to_host(found_folds), to_double(targets)
        weights, found = None if weights is None else to_double(weights), []
        for k in range(int(folds.max()) + 1):
            own = np.flatnonzero(folds == k)
            Y = take_rows(every, own)
            w = (
                array_namespace(Y).ones_like(Y[:, :1])
                if weights is None
                else take_rows(weights, own)
            )
            groups = None if self.relations is None else self.relations.take(rows[own]).groups
            found.append(HeldOut(plain.gather(own), Y, w, groups))
        return found

    def losses(self, held_out: HeldOut, predicted: np.ndarray, /) -> np.ndarray:
        """Return weighted losses (m,) of host predictions (m, t)."""
        if not self.loss.for_labels:
            return held_out.losses(predicted)
        values = self.loss.value(predicted, to_host(held_out.Y))
        return to_host(held_out.weights)[:, 0] * np.sum(to_host(values), axis=1)

    # ------------------------------------------------------------------ learning

    def learn(
        self,
        operator: FeatureOperator,
        *,
        late: Callable[[], bool] = lambda: False,
        left: Callable[[], float | None] = lambda: None,
        tell: Callable[[str, int, History], None] = lambda *_: None,
        validate: bool = False,
        near: float | None = None,
    ) -> WeightingFit:
        """Learn the coefficients, and choose the ridge if it is open.

        `late` returns whether the time is spent, `left` the seconds for one descent. With
        `validate`, ridges are scored on folds, even a given one; else the middle one is taken.
        Least squares searches near the ridge whose `log_relative_ridge` is `near`.
        """
        learner = self.settings.learner
        if isinstance(learner, Descent):
            return self._descend(operator, learner, left, tell, validate)
        return self._learn_on_sums(operator, late, tell, validate, near)

    def _learn_on_sums(
        self,
        operator: FeatureOperator,
        late: Callable[[], bool],
        tell: Callable[..., None],
        validate: bool,
        near: float | None,
    ) -> WeightingFit:
        begun, history = time.perf_counter(), History()

        def watch(seen: int) -> bool:
            history.append(seen / self.n, 1.0, 0.0, begun)
            tell("sums, share of rows", len(history) - 1, history)
            return late()

        if validate:
            folds, count = self.drawn_folds, min(N_FOLDS, self.n)
        else:  # a single fold
            folds, count = self._map_folds(lambda a, b: np.zeros(b - a, np.int8)), 1
        sums = fold_sums(operator, self.Y, self.weights, folds, n_folds=count, watch=watch)
        status, whole = sums.status, sums.whole
        solve = LassoOnSums() if self.settings.learner == "lasso" else LeastSquares(sums)
        ridges, unit = self._ridges(operator, whole)
        validated, chosen = None, ridges[len(ridges) // 2]
        if sum(one.count > 0 for one in sums.folds) > 1:
            try:
                validated = self._validate_ridges(sums, solve, ridges, near)
                ridges = validated.ridges
                chosen = ridges[validated.best]
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
        A = solve.last(whole, ridges, chosen)
        if validated is not None:  # the paper's λ, of unscaled features
            logs = [min(math.log(ridge) + unit, _LARGEST_LOG) for ridge in validated.ridges]
            validated = replace(validated, ridges=[math.exp(log) for log in logs])
        history = History()
        history.append(self._objective(operator, whole, A, chosen), 1.0, 0.0, begun)
        return WeightingFit(
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
            validated=validated,
        )

    def _validate_ridges(
        self, sums: FoldSums, solve: LearnerOnSums, ridges: list[float], near: float | None
    ) -> Validated:
        """Score all ridges, or those around the best one of another fit."""
        if near is None or self.settings.learner == "lasso":
            return cross_validate(sums, solve, ridges)
        gaps = np.abs(np.log(ridges) - near)
        return cross_validate_locally(sums, solve, ridges, int(gaps.argmin()))

    def _ridges(self, operator: FeatureOperator, whole: Sums) -> tuple[list[float], float]:
        """Return ridges for the scaled features, and the logarithm of their unit."""
        lasso = self.settings.learner == "lasso"
        unit = operator.log_scale * (1.0 if lasso else 2.0)
        if self.settings.ridge is not None:
            return [math.exp(min(math.log(self.settings.ridge) - unit, _LARGEST_LOG))], unit
        if not lasso:
            return _RIDGES, unit
        moments = to_host(whole.moment) / whole.weight
        top = max(largest_penalty(moments[:, j]) for j in range(moments.shape[1])) or 1.0
        return [share * top for share in _PENALTIES], unit

    def _objective(self, operator: FeatureOperator, whole: Sums, A: Array, ridge: float) -> float:
        """Return the value of (53) or (55)."""
        xp = array_namespace(A)
        risk, _ = self._risk(operator, whole, A)
        if self.settings.learner == "lasso":
            return risk + ridge * float(xp.sum(xp.abs(A)))
        return risk + 0.5 * ridge * float(xp.sum(A * (operator.core @ A)))

    def training_risk(self, learned: WeightingFit, A: Array) -> tuple[float, int]:
        """Return the mean training loss of coefficients `A`, and the number of rows."""
        return self._risk(learned.operator, learned.sums, A)

    def _risk(self, operator: FeatureOperator, sums: Sums | None, A: Array) -> tuple[float, int]:
        xp = array_namespace(A)
        if sums is not None:
            error = float(xp.sum(sums.squared_error(A)))
            if float(xp.sum(sums.rounding(A))) <= _MOST_ROUNDING * error:
                return error / (2.0 * sums.weight), sums.count
        rows = scored_rows(self.n if sums is None else sums.count)
        some, Y, w = self.rows.take_with(rows, self.Y, self.weights)
        F = xp.astype(operator.evaluate(some.whole()), xp.float64) @ A
        Y = to_double(Y)
        w = xp.ones_like(Y[:, :1]) if w is None else to_double(w)
        return float(xp.sum(w * self.loss.value(F, Y)) / xp.sum(w)), len(rows)

    # ------------------------------------------------------------------ descent

    def _descend(
        self,
        operator: FeatureOperator,
        descent: Descent,
        left: Callable[[], float | None],
        tell: Callable[..., None],
        validate: bool,
    ) -> WeightingFit:
        """Run Algorithms 1 and 2 for all ridges together, on each fold and on all rows."""
        unit = 2.0 * operator.log_scale
        if self.settings.ridge is None:
            # 1 - λ is the share of α that a step of Algorithm 2 keeps
            logs = [min(math.log(r) + unit, math.log(0.5)) for r in _STEP_RIDGES]
        else:
            logs = [math.log(self.settings.ridge)]

        def walk(rows: np.ndarray, log_ridges: list[float]) -> DescentFit:
            return self._run_descent(operator, descent, rows, log_ridges, left(), tell)

        validated, status = None, Status.CONVERGED
        if validate:
            try:
                validated = self._descend_on_folds(operator, walk, logs)
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
        k = len(logs) // 2 if validated is None else validated.best
        fit = walk(np.arange(self.n), [logs[k]])
        ended = fit.status if status is Status.CONVERGED else status
        return WeightingFit(
            operator, fit.A, logs[k], ended, fit.history, n_seen=self.n, validated=validated
        )

    def _run_descent(
        self,
        operator: FeatureOperator,
        descent: Descent,
        rows: np.ndarray,
        log_ridges: list[float],
        max_time: float | None,
        tell: Callable[..., None] = lambda *_: None,
    ) -> DescentFit:
        """Descend on batches of some rows, for every ridge and target."""
        xp, t = array_namespace(self.reference), self.Y.shape[1]
        shares = None
        if self.root_weights is not None:
            shares = to_host(take_rows(self.root_weights, rows))[:, 0].astype(np.float64) ** 2
            shares = shares / shares.sum()
        size = (operator.shape[1], descent.batch_size)
        batches = self.rng.choice(rows, size=size, p=shares)
        columns = self.Y
        if len(log_ridges) > 1:
            columns = array_namespace(columns).concat([columns] * len(log_ridges), axis=1)
        each = np.repeat(log_ridges, t)
        steps = FunctionalDescent(self.loss, descent.optimal_step, descent.radius, max_time)
        return steps.run(
            operator,
            columns,
            batches,
            xp.asarray(each, **double_like(self.reference)),
            watch=lambda step, history: tell("descent", step - 1, history),
        )

    def _descend_on_folds(
        self,
        operator: FeatureOperator,
        walk: Callable[[np.ndarray, list[float]], DescentFit],
        log_ridges: list[float],
    ) -> Validated:
        folds = to_host(take_rows(self.drawn_folds, np.arange(self.n)))
        t, held = self.Y.shape[1], self.held_out_folds()
        rows, each = scored_rows(self.n), range(len(log_ridges))
        coefs: list[list[Array]] = [[] for _ in each]
        predicted: list[list[np.ndarray]] = [[] for _ in each]
        for k in range(len(held)):
            fit = walk(np.flatnonzero(folds != k), log_ridges)
            if fit.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            own = replace(operator, rows=self.rows.take(rows[folds[rows] == k]))
            F = to_host(own @ fit.A)
            for r in each:
                coefs[r].append(fit.A[:, r * t : (r + 1) * t])
                predicted[r].append(F[:, r * t : (r + 1) * t])
        spread = self._constant_loss(held)
        scores = [explained_share(self._loss(held, one), spread) for one in predicted]
        return Validated([math.exp(log) for log in log_ridges], scores, coefs, predicted, spread)

    def _loss(self, held: Sequence[HeldOut], predicted: Sequence[np.ndarray]) -> float:
        pairs = zip(held, predicted, strict=True)
        return float(sum(self.losses(one, F).sum() for one, F in pairs))

    def _constant_loss(self, held: Sequence[HeldOut]) -> float:
        """Return the loss of f = 0, or the squared error of the held-out mean."""
        Y = np.concatenate([to_host(one.Y) for one in held])
        w = np.concatenate([to_host(one.weights) for one in held])
        constant = np.zeros_like(Y)
        if not self.loss.for_labels:
            constant = constant + np.sum(w * Y, axis=0) / w.sum()
        ends = np.cumsum([len(to_host(one.Y)) for one in held])[:-1]
        return self._loss(held, np.split(constant, ends))


def _encode_signs(samples: Samples) -> Samples:
    """Return samples whose indicators of classes are -1 and 1."""
    return replace(samples, Y=2.0 * samples.Y - 1.0) if samples.labels else samples


# ------------------------------------------------------------------------------- gradients

_GRADIENT_ROWS = 500  # rows at which gradients are computed ...
_DIFFERENCE_ROWS = 50  # ... or, for each column, differences of features that have no gradient
_SPAN_ROWS, _SPAN_CELLS = 20_000, 2**22  # most rows and values of the sample for the data's span
_SPAN_COLUMNS = 1_000  # with more, eigenvectors take longer than a fit
_LEAST_VARIANCE = 1e-10  # of a direction, for columns of variance 1; less is rounding
_LEAST_DEVIATION = 1e-6  # of a scaled column, relative to the largest; less is rounding


def feature_principal_gradients(
    problem: WeightingProblem, operator: FeatureOperator, A: Array, /
) -> tuple[np.ndarray, float, np.ndarray]:
    """Return the average gradient outer product within the span of the rows.

    Parameters are drawn independently of the data, so functions also vary outside the span of the
    rows, such as along a constant column. The data do not determine that part, and predictions do
    not show it; it is projected out. A kernel's gradients have no such part.

    For coefficients `A` (T, t), return orthogonal rows R (r, d), longest first; a unit, whose
    square times RᵀR is the average outer product; and the rows of the gradients.
    """
    at_most = _GRADIENT_ROWS if operator.features.differentiable else _DIFFERENCE_ROWS
    rows = draw_weighted_rows(problem.root_weights, problem.n, at_most, problem.rng)
    X, w = problem.rows.gather(rows), np.ones(len(rows))
    xp = array_namespace(X)
    if problem.root_weights is not None:
        w = to_host(take_rows(problem.root_weights, rows))[:, 0].astype(np.float64) ** 2
    first = 1 if problem.settings.bias else 0
    parts, scales = [], to_host(problem.y_scale)
    unit = float(scales.max())  # its square may overflow
    for j in range(A.shape[1]):
        b = xp.astype(A[:, j], X.dtype) * operator.factors
        P = xp.ones((len(rows), 1), **like(X)) * b[None, :]
        g = to_host(operator.features.pullback(X, P)).astype(np.float64)[:, first:]
        parts.append(float(scales[j] / unit) * np.sqrt(w / w.sum())[:, None] * g)
    root = _principal_rows(_project_on_data(problem, np.concatenate(parts), first))
    return root, unit, to_host(X)[:, first:].astype(np.float64)


def _project_on_data(problem: WeightingProblem, G: np.ndarray, first: int) -> np.ndarray:
    """Project rows of `G` (m, d) on the span of the centred data, by a sample of its rows.

    With more than 1000 columns, only constant ones are projected out.
    """
    d = G.shape[1]
    at_most = min(_SPAN_ROWS, max(_SPAN_CELLS // d, 2))
    rng = np.random.RandomState(0)
    rows = draw_weighted_rows(problem.root_weights, problem.n, at_most, rng)
    X = to_double(problem.rows.gather(rows))[:, first:]
    xp = array_namespace(X)
    X = X - X[:1, :]  # so that constant columns are exactly 0
    X = X - xp.mean(X, axis=0)
    deviations = to_host(xp.mean(X * X, axis=0)) ** 0.5
    least = 0.0 if problem.settings.scaling is None else _LEAST_DEVIATION * deviations.max()
    varies = deviations > least
    G = np.where(varies, G, 0.0)
    if d > _SPAN_COLUMNS or not varies.any():
        return G
    sizes = deviations[varies]
    C = to_host(X.T @ X)[np.ix_(varies, varies)] / (len(rows) * np.outer(sizes, sizes))
    values, vectors = host_eigh(C)
    kept = values > _LEAST_VARIANCE
    if not kept.all():
        Q, _ = np.linalg.qr(sizes[:, None] * vectors[:, kept])
        G[:, varies] = G[:, varies] @ Q @ Q.T
    return G


def _principal_rows(G: np.ndarray) -> np.ndarray:
    """Return orthogonal rows R, longest first and at most d, with RᵀR = GᵀG."""
    used = G.any(axis=0)  # columns of zeros stay exactly 0
    H = G[:, used]
    if len(H) < H.shape[1]:
        _, sizes, rows = np.linalg.svd(H, full_matrices=False)
        found = sizes[:, None] * rows
    else:
        values, vectors = host_eigh(H.T @ H)
        found = np.sqrt(np.clip(values[::-1], 0.0, None))[:, None] * vectors[:, ::-1].T
    root = np.zeros((max(len(found), 1), G.shape[1]))
    root[: len(found), used] = found
    return root
