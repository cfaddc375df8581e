"""Least squares and Lasso fits of RKHS weightings, from sums over the rows, and their pruning."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Self

import numpy as np

from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    clip,
    double_like,
    epsilon,
    take_rows,
    to_double,
    to_host,
)
from gpukfl.core._lazy import OldName
from gpukfl.core._random import draw_indices
from gpukfl.core._results import Status
from gpukfl.linalg import each_block
from gpukfl.methods._nystrom import NystromFactor
from gpukfl.operators import FeatureOperator
from gpukfl.partitioned._rows import Rows, reduce_rows
from gpukfl.solvers import Lasso, LassoFit, largest_penalty

# ------------------------------------------------------------------------------------ sums

# Sums over rows that least squares and the Lasso are solved from.


_ERROR_ROUNDING = 10.0  # of a quadratic form, in units of the precision and of its largest terms


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over some rows in float64, which can be added and subtracted."""

    gram: Array  # Phi' D Phi (T, T)
    moment: Array  # Phi' D Y (T, t)
    squares: Array  # Y' D Y (t,)
    total: Array  # D-weighted sum of Y (t,)
    weight: float  # N
    count: int  # rows

    @classmethod
    def from_arrays(cls, arrays: Sequence[Array], /) -> Self:
        """Make the sums from `arrays`."""
        gram, moment, squares, total, weight, count = arrays
        return cls(gram, moment, squares, total, float(weight), int(count))

    @property
    def arrays(self) -> list[Array]:
        """All sums as arrays."""
        xp, on = array_namespace(self.gram), double_like(self.gram)
        numbers = [xp.asarray(float(x), **on) for x in (self.weight, self.count)]
        return [self.gram, self.moment, self.squares, self.total, *numbers]

    def __add__(self, other: Sums, /) -> Sums:
        return self._combine(other, 1)

    def __sub__(self, other: Sums, /) -> Sums:
        return self._combine(other, -1)

    def _combine(self, other: Sums, sign: int) -> Sums:
        return Sums(
            self.gram + sign * other.gram,
            self.moment + sign * other.moment,
            self.squares + sign * other.squares,
            self.total + sign * other.total,
            self.weight + sign * other.weight,
            self.count + sign * other.count,
        )

    def squared_error(self, A: Array, /) -> Array:
        """Weighted squared errors (t,) that coefficients `A` (T, t) make on the rows."""
        xp = array_namespace(A)
        fitted = xp.sum(A * (self.gram @ A), axis=0)
        return clip(self.squares - 2.0 * xp.sum(A * self.moment, axis=0) + fitted, low=0.0)

    @property
    def spread(self) -> float:
        """Weighted squares of the targets about their means."""
        xp = array_namespace(self.squares)
        return float(xp.sum(self.squares - self.total**2 / self.weight))

    def rounding(self, A: Array, /) -> Array:
        """Estimate the rounding (t,) of `squared_error`, in which large coefficients cancel."""
        xp = array_namespace(A)
        norms = xp.sqrt(xp.linalg.diagonal(self.gram))
        largest = xp.sqrt(self.squares) + xp.sum(xp.abs(A) * norms[:, None], axis=0)
        return _ERROR_ROUNDING * epsilon(A) * largest**2

    of = OldName("from_arrays")


# ---------------------------------------------------------------------------- feature sums

# Least squares and Lasso fits of weightings, from sums over the rows.
#
# With N the sum of the weights D, least squares (Algorithm 3) and the Lasso (Algorithm 4) minimise
#
# .. math:: \frac1{2N} \|D^{1/2} (\Phi a - Y)\|^2 + \frac\lambda2\, a^\top G a \quad\text{and}\quad
#           \frac1{2N} \|D^{1/2} (\Phi a - Y)\|^2 + \lambda \|a\|_1
#
# (eqs. (53) and (55) of Dubé and Marchand, "RKHS Weightings of Functions"). One pass over the rows
# leaves :math:`\Phi^\top D \Phi` and :math:`\Phi^\top D Y` of each fold; fits for ridges, folds
# and paths cost nothing of the order of the rows any more. They are scored on predictions for some
# rows.


_ROUNDING = 4.0  # of a matrix of sums, in units of the precision and of its trace
_FEATURE_ROUNDING = 100.0  # squared error of a feature, in squares of its precision, with a margin
_SCORED = 20_000  # rows that predictions are looked at on
_GRAM_ROWS = 2  # rows to a parameter in a block, so that adding up (T, T) parts costs little


@dataclass(frozen=True, eq=False)
class WeightedTargets:
    """The targets and weights of the rows."""

    Y: Array  # (n, t)
    weights: Array | None  # (n, 1)
    folds: Array  # (n,), on the host or where the rows lie


@dataclass(eq=False)
class FoldSums:
    """Sums of each fold, the number of rows seen, and the status of the pass."""

    operator: FeatureOperator
    folds: list[Sums]
    n_seen: int = 0
    status: Status = Status.CONVERGED
    targets: WeightedTargets | None = None

    @property
    def whole(self) -> Sums:
        """Sums over all rows seen."""
        total = self.folds[0]
        for one in self.folds[1:]:
            total = total + one
        return total

    @cached_property
    def scoring_rows(self) -> tuple[Rows, np.ndarray, np.ndarray, np.ndarray]:
        """The rows for scores, with their targets, weights and folds."""
        assert self.targets is not None
        index = scored_rows(self.operator.shape[0])
        rows, Y, weights, folds = self.operator.rows.take_with(
            index, self.targets.Y, self.targets.weights, self.targets.folds
        )
        w = np.ones(len(index)) if weights is None else to_host(weights)[:, 0].astype(np.float64)
        return rows, to_host(Y).astype(np.float64), w, to_host(folds)

    scored = OldName("scoring_rows")


def fold_sums(
    operator: FeatureOperator,
    Y: Array,
    weights: Array | None,
    folds: Array,
    /,
    *,
    n_folds: int | None = None,
    watch: Callable[[int], bool] = lambda _: False,
) -> FoldSums:
    """Sum over the rows of each fold: one pass, O(n T (d + T)).

    Parameters
    ----------
    operator : FeatureOperator
        Features at the rows.
    Y : array, shape (n, t)
        Targets.
    weights : array, shape (n, 1), or None
        Sample weights.
    folds : array of int, shape (n,)
        Fold of each row, from 0: on the host, or with rows that lie in parts.
    n_folds : int, optional
        Their number, where it is known.
    watch : callable
        Called with the rows seen so far; the pass ends where it gives True. Ctrl-C also ends it,
        once some rows were seen. Rows in parts are all seen, or none.

    Returns
    -------
    FoldSums
        Of the rows seen.
    """
    n_folds = n_folds or int(array_namespace(folds).max(folds)) + 1
    done = FoldSums(operator, [_zero_sums(operator, Y.shape[1])] * n_folds)
    done.targets = WeightedTargets(Y, weights, folds)
    try:
        for stop, sums in _iterate_sums(operator, done.targets, n_folds):
            # Taken over together: an interruption splits no block
            done.folds, done.n_seen = sums, stop
            if watch(stop) and stop < operator.shape[0]:
                done.status = Status.TIME_LIMIT
                break
    except KeyboardInterrupt:
        if not done.n_seen:
            raise
        done.status = Status.INTERRUPTED
    return done


def _iterate_sums(
    operator: FeatureOperator, targets: WeightedTargets, n_folds: int
) -> Iterator[tuple[int, list[Sums]]]:
    """Yield the number of rows so far, and the sums over each fold."""
    n = operator.shape[0]
    if operator.rows.partitioning is None:
        yield from _iterate_block_sums(operator, targets, n_folds, (0, n))
        return

    def part(start: int, stop: int) -> list[Array]:
        *_, (_, sums) = _iterate_block_sums(operator, targets, n_folds, (start, stop))
        return [x for one in sums for x in one.arrays]

    each = len(fields(Sums))
    found = reduce_rows(operator.rows.source, part)
    yield n, [Sums.from_arrays(found[k : k + each]) for k in range(0, len(found), each)]


def _iterate_block_sums(
    operator: FeatureOperator, targets: WeightedTargets, n_folds: int, rows: tuple[int, int]
) -> Iterator[tuple[int, list[Sums]]]:
    """Sum over rows that lie together, block by block."""
    operator.factors  # noqa: B018  # once, not in every thread
    folded = [_zero_sums(operator, targets.Y.shape[1])] * n_folds
    for start, stop, X in operator.rows.blocks(start=rows[0], stop=rows[1]):
        folds, folded = to_host(targets.folds[start:stop]), list(folded)
        order = np.argsort(folds, kind="stable")
        edges = np.searchsorted(folds[order], np.arange(n_folds + 1))
        for k, (a, b) in enumerate(itertools.pairwise(edges.tolist())):
            if a < b:
                folded[k] = folded[k] + _segment_sums(operator, X, targets, start, order[a:b])
        yield stop, folded


def _zero_sums(operator: FeatureOperator, t: int) -> Sums:
    reference, T = operator.rows.reference, operator.shape[1]
    xp, on = array_namespace(reference), double_like(reference)
    zero = xp.zeros((t,), **on)
    return Sums(xp.zeros((T, T), **on), xp.zeros((T, t), **on), zero, zero, 0.0, 0)


def _segment_sums(
    operator: FeatureOperator, X: Array, targets: WeightedTargets, start: int, index: np.ndarray
) -> Sums:
    """Sum over the rows of the block `X` at `index`; the block begins at row `start`."""
    xp = array_namespace(X)
    U, block, weights = take_rows(X, index), slice(start, start + X.shape[0]), targets.weights
    target = to_double(take_rows(targets.Y[block, :], index))
    w = None if weights is None else to_double(take_rows(weights[block, :], index))
    parts: list[Sums] = []

    def compute(a: int, b: int) -> Sums:
        Phi = xp.astype(operator.evaluate(U[a:b, :]), xp.float64)
        y = target[a:b, :]
        if w is None:
            total, weight = xp.sum(y, axis=0), float(b - a)
        else:
            total, weight = xp.sum(w[a:b, :] * y, axis=0), float(xp.sum(w[a:b, :]))
            root = xp.sqrt(w[a:b, :])
            Phi, y = root * Phi, root * y
        return Sums(Phi.T @ Phi, Phi.T @ y, xp.sum(y * y, axis=0), total, weight, b - a)

    def add(_a: int, _b: int, part: Sums) -> None:
        parts[:] = [parts[0] + part] if parts else [part]

    fewest = _GRAM_ROWS * operator.shape[1]
    each_block(
        operator.rows.reference, (0, len(index)), operator.width, compute, add, fewest=fewest
    )
    return parts[0]


@dataclass(eq=False)
class Validated:
    """Held-out errors along the ridges, and the coefficients of every fold."""

    ridges: list[float]
    scores: list[float]  # share of the held-out squares that is explained
    coefs: list[list[Array]]  # [ridge][fold], (T, t)
    predicted: list[list[np.ndarray]]  # [ridge][fold], (m, t), of the rows that are looked at
    spread: float  # held-out squares in all, of which the scores are shares

    @property
    def best(self) -> int:
        """Position of the best score, of the largest such ridge."""
        top = max(self.scores)
        return max(
            (k for k, score in enumerate(self.scores) if score == top),
            key=lambda k: self.ridges[k],
        )

    def __add__(self, other: Validated, /) -> Validated:
        """Join ridges."""
        return Validated(
            self.ridges + other.ridges,
            self.scores + other.scores,
            self.coefs + other.coefs,
            self.predicted + other.predicted,
            self.spread,
        )


Solve = Callable[[Sums, Sequence[float]], list[Array]]


def cross_validate(sums: FoldSums, solve: Solve, ridges: Sequence[float], /) -> Validated:
    """Fit without each fold for all ridges, and score the predictions of the fold.

    The fits are independent of the rows. The squared errors are not taken from the sums: where
    features are nearly the same coefficients are large, and rounding would choose.

    Parameters
    ----------
    sums : FoldSums
        Of at least two folds with rows.
    solve : callable
        Gives coefficients (T, t) for each ridge from sums.
    ridges : sequence of float
        λ, on the scale of the features.

    Notes
    -----
    All rows are predicted, or 20 000 of them, whether the pass came to them or not.
    """
    rows, Y, weights, folds = sums.scoring_rows
    whole, t = sums.whole, sums.whole.moment.shape[1]
    errors, weight = np.zeros(len(ridges)), 0.0
    coefs: list[list[Array]] = [[] for _ in ridges]
    predicted: list[list[np.ndarray]] = [[] for _ in ridges]
    for k, fold in enumerate(sums.folds):
        solved = solve(whole - fold, ridges)
        own = np.flatnonzero(folds == k)
        F, w = _predict_rows(replace(sums.operator, rows=rows), own, solved), weights[own]
        for r, A in enumerate(solved):
            coefs[r].append(A)
            predicted[r].append(F[:, r * t : (r + 1) * t])
            errors[r] += np.sum(w[:, None] * (Y[own] - predicted[r][-1]) ** 2)
        weight += float(w.sum())
    spread = whole.spread * weight / whole.weight
    scores = [1.0 - e / spread if spread > 0 else -e for e in errors.tolist()]
    scores = [score if math.isfinite(score) else -math.inf for score in scores]
    return Validated(list(ridges), scores, coefs, predicted, spread)


def cross_validate_locally(
    sums: FoldSums, solve: Solve, ridges: Sequence[float], at: int, /
) -> Validated:
    """Cross-validate a ridge and its neighbours, and go on while the last is the best."""
    low, high = max(at - 1, 0), min(at + 2, len(ridges))
    found = cross_validate(sums, solve, ridges[low:high])
    while True:
        best = found.ridges[found.best]
        if best == ridges[low] and low > 0:
            low -= 1
            found = cross_validate(sums, solve, ridges[low : low + 1]) + found
        elif best == ridges[high - 1] and high < len(ridges):
            high += 1
            found = found + cross_validate(sums, solve, ridges[high - 1 : high])
        else:
            return found


def scored_rows(n: int, /) -> np.ndarray:
    """Return ascending host indices of at most 20 000 rows for scores."""
    if n <= _SCORED:
        return np.arange(n)
    return np.sort(draw_indices(np.random.RandomState(0), n, _SCORED))


def _predict_rows(operator: FeatureOperator, rows: np.ndarray, solved: list[Array]) -> np.ndarray:
    """Predictions of each of the coefficients at some rows, side by side on the host."""
    stacked = array_namespace(solved[0]).concat(solved, axis=1)
    if not len(rows):
        return np.zeros((0, stacked.shape[1]))
    return to_host(replace(operator, rows=operator.rows.take(rows)) @ stacked)


def least_squares(
    sums: FoldSums, some: Sums, ridges: Sequence[float], /
) -> tuple[list[Array], NystromFactor]:
    """Algorithm 3: coefficients (T, t) for each ridge, O(T³) each, and the last factor.

    The normal equations (54) by Cholesky, as they are: whitening with a factor of G would magnify
    the rounding of the sums where G is nearly singular. A jitter of the size of the rounding, of
    the sums and of the features in them, keeps coefficients so small that rounding of features
    does not show in predictions; it is raised until there is a factor. A step of refinement takes
    its effect back where there is more than rounding.
    """
    xp = array_namespace(some.gram)
    jitter = _ROUNDING * some.gram.shape[0] * epsilon(some.gram)
    jitter += _FEATURE_ROUNDING * epsilon(sums.operator.rows.reference) ** 2
    solved = []
    for ridge in ridges:
        A = some.gram + (some.weight * ridge) * sums.operator.core
        factor = NystromFactor.from_kernel(A, jitter=jitter)
        first = factor.L.solve(some.moment)
        refined = first + factor.L.solve(some.moment - A @ first)
        solved.append(refined if bool(xp.all(xp.isfinite(refined))) else first)
    return solved, factor


@dataclass(eq=False)
class LassoFits:
    """Algorithm 4 on the sums, solved on the host for one target at a time.

    Ctrl-C keeps what was found, and ends that target and all after it.
    """

    solver: Lasso
    fits: list[list[LassoFit]] = field(default_factory=list)  # of the last call, [target][ridge]

    def __call__(self, some: Sums, ridges: Sequence[float], /) -> list[Array]:
        """Coefficients (T, t) for each ridge, along one path."""
        H = to_host(some.gram) / some.weight
        c = to_host(some.moment) / some.weight
        s = to_host(some.squares) / some.weight
        self.fits, solver = [], self.solver
        for j in range(c.shape[1]):
            self.fits.append(solver.path(H, c[:, j], float(s[j]), ridges))
            if self.is_interrupted:  # the targets left stay at 0
                solver = replace(solver, max_iter=0)
        columns = [[one[k].coef for one in self.fits] for k in range(len(ridges))]
        return [asarray_like(np.stack(each, axis=1), some.gram) for each in columns]

    @property
    def is_interrupted(self) -> bool:
        """Whether Ctrl-C ended one of the paths."""
        return any(fit.status is Status.INTERRUPTED for path in self.fits for fit in path)

    interrupted = OldName("is_interrupted")


# --------------------------------------------------------------------------------- pruning

# Pruning of a weighting by the Lasso: Algorithm 5.
#
# For :math:`\alpha = \sum_t a_t K(w_t, \cdot)`, find β with fewer parameters that is close:
#
# .. math:: \min_b \frac1{2T} \|U a - U b\|^2 + \lambda \|b\|_1, \qquad G = U^\top U
#
# (eq. (60) of Dubé and Marchand, "RKHS Weightings of Functions"), for growing λ until the result
# is not accepted any more.


RULES = ("norm", "bound", "risk", "error")  # (63) to (66), from strict to lenient
_SMALLEST = 1e-8  # of the penalty that leaves nothing
_PENALTIES = 17  # from there on, two to a decade
_TOLERANCE = 1e-10  # relative duality gap


@dataclass(frozen=True, eq=False)
class Candidate:
    """A weighting with fewer parameters."""

    penalty: float  # relative to the one that leaves nothing
    B: np.ndarray  # coefficients (T, t)
    distance: np.ndarray  # norm of α - β, of each target (t,)

    @property
    def n_kept(self) -> int:
        """The number of parameters with a coefficient."""
        return int(np.any(self.B != 0, axis=1).sum())


def pruning_candidates(
    G: np.ndarray,
    A: np.ndarray,
    /,
    *,
    penalties: Sequence[float] | None = None,
    solver: Lasso | None = None,
) -> list[Candidate]:
    """Solve (60) along a path of penalties.

    The path begins at the largest, where few coefficients are left: sooner done than from b = a,
    where each coefficient that must go costs a step.

    Parameters
    ----------
    G : host array, shape (T, T)
        Kernel among the parameters.
    A : host array, shape (T, t)
        Coefficients of α, of each target.
    penalties : sequence of float, optional
        λ relative to the one that leaves nothing, ascending; by default two to a decade.
    solver : Lasso, optional
        Its settings; by default with a tolerance at which small penalties prune at all.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C: a path that was cut off says nothing of its last penalties.
    """
    T = G.shape[0]
    kept = np.flatnonzero(np.any(A != 0, axis=1))  # what α leaves out stays out
    kept = kept if len(kept) else np.arange(T)
    H = G[np.ix_(kept, kept)] / T
    moments = H @ A[kept]
    squares = np.sum(A[kept] * moments, axis=0)
    shares = np.geomspace(_SMALLEST, 1.0, _PENALTIES) if penalties is None else penalties
    solver = solver or Lasso(tol=_TOLERANCE)
    paths = []
    for j in range(A.shape[1]):
        c, s = moments[:, j], max(float(squares[j]), 0.0)
        top = largest_penalty(c)
        paths.append(solver.path(H, c, s, [float(share) * top for share in shares]))
        if any(fit.status is Status.INTERRUPTED for fit in paths[-1]):
            raise KeyboardInterrupt
    found = []
    for k, share in enumerate(shares):
        B = np.zeros_like(A)
        B[kept] = np.stack([path[k].coef for path in paths], axis=1)
        gap = A - B
        distance = np.sqrt(np.clip(np.sum(gap * (G @ gap), axis=0), 0.0, None))
        found.append(Candidate(float(share), B, distance))
    return found


def last_accepted(
    found: Sequence[Candidate], accept: Callable[[int, Candidate], bool], /
) -> Candidate | None:
    """Return the last candidate before the first that is not accepted (Algorithm 5), if any."""
    chosen = None
    for k, candidate in enumerate(found):
        if not accept(k, candidate):
            break
        chosen = candidate
    return chosen
