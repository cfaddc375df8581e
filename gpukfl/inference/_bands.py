"""Curves of a model, with simultaneous confidence bands."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from gpukfl.core._array import to_host
from gpukfl.core._checks import check_bool, check_choice, check_kind, check_number
from gpukfl.estimators._progress import show_progress
from gpukfl.inference._evaluation import InferenceData, mean_squared_change
from gpukfl.inference._kernels import (
    LearnedKernel,
    Smoother,
    best_kernel_share,
    default_kernel,
    has_directions,
    make_scaler,
)
from gpukfl.inference._losses import loss_of_fit
from gpukfl.inference._results import Band, Bands
from gpukfl.inference._row_groups import find_row_groups
from gpukfl.inference._stepwise import (
    NO_LIMIT,
    TimeLimit,
    map_all_or_nothing,
    map_with_progress,
)
from gpukfl.inspection import direction_name
from gpukfl.linalg import host_eigh
from gpukfl.tables._clusters import group_sums
from gpukfl.tables._encoding import Category

# ------------------------------------------------------------------------------- estimates

# An estimated curve with its covariance, before it is a band.


@dataclass(frozen=True, eq=False)
class Estimate:
    """One curve of one output: values (g,), covariance (g, g), and its degrees of freedom."""

    values: np.ndarray
    covariance: np.ndarray
    freedom: float


# ---------------------------------------------------------------------------------- curves

# Curves of a function as linear functionals of it: partial dependence, local effects, profiles.


TAIL = 0.02  # of the rows beyond either end of a curve
_AT_ONCE = 2_000  # points at which a function is asked, so that kernels with all rows fit memory


@dataclass(frozen=True, eq=False)
class Curve:
    """A curve of a function: weighted averages of its values at some points.

    Of curves that are means over rows, `strata` (b,) says which of these are drawn alike: all, or
    those of an interval, and `groups` (b,) which of them depend on each other. Points are those of
    all rows, for one value after the other.
    """

    name: str  # of the feature or direction
    steps: np.ndarray  # (g,), where it is
    points: np.ndarray  # (p, d), rows at which the function is evaluated
    weights: np.ndarray  # (g, p), what of each makes the curve
    strata: np.ndarray | None = None
    labels: tuple[str, ...] = ()  # of the steps, where these are levels of a category
    columns: tuple[int, ...] | None = None  # that alone tell points of the same row apart
    groups: np.ndarray | None = None
    kept: np.ndarray | None = None  # which of the background rows these are; None of all

    def evaluate(self, function: Callable[[np.ndarray], np.ndarray], /) -> np.ndarray:
        """Return the curve (..., g, q) of a function of rows with values (..., m, q)."""
        parts = (
            self.weights[:, begin : begin + _AT_ONCE]
            @ function(self.points[begin : begin + _AT_ONCE])
            for begin in range(0, len(self.points), _AT_ONCE)
        )
        return sum(parts, np.zeros(()))

    def evaluate_additive(self, kernel: LearnedKernel, X: np.ndarray, /) -> np.ndarray:
        """Return the curve (g, n) of the additive kernel with rows X (n, d).

        Where the curve is of differences, terms of columns that do not change cancel.
        """
        if self.columns is None:
            return self.evaluate(lambda points: kernel.additive(points, X))
        columns = list(self.columns)
        _, first, which = np.unique(
            self.points[:, columns], axis=0, return_index=True, return_inverse=True
        )
        weights = np.zeros((len(self.steps), len(first)))
        np.add.at(weights.T, which.ravel(), self.weights.T)
        return weights @ kernel.additive(self.points[first], X, columns)

    def covariance(self, values: np.ndarray, /) -> np.ndarray:
        """Covariance (g, g) of the curve over draws of its rows, by values (p,) of a function.

        Of whole groups, where rows depend on each other.
        """
        g = len(self.steps)
        if self.strata is None:
            return np.zeros((g, g))
        parts = (self.weights * values).reshape(g, -1, len(self.strata)).sum(axis=1)
        members = self.strata == np.unique(self.strata)[:, None]  # (s, b)
        counts = members.sum(axis=1)
        away = parts - (parts @ members.T / counts) @ members
        if self.groups is not None:
            sums = group_sums(away.T, self.groups)
            return len(sums) / max(len(sums) - 1, 1) * sums.T @ sums
        factor = (counts / np.maximum(counts - 1, 1)) @ members
        return (factor * away) @ away.T


def partial_dependence(
    X: np.ndarray, feature: int, name: str, /, *, points: int, background: np.ndarray
) -> Curve:
    r"""Average a function over background rows (b, d) at values of a feature.

    Less the mean over these values, each of which counts alike.

    .. math:: t \mapsto \frac1b \sum_i f(t, x_{i, -j})
    """
    steps = _grid_values(X[:, feature], points)
    rows, weights = _repeat_at_values(background, [feature], steps[:, None])
    alike = np.zeros(len(background), dtype=np.int64)
    return Curve(name, steps, rows, weights, strata=alike, columns=(feature,))


def level_effects(X: np.ndarray, category: Category, /, *, background: np.ndarray) -> Curve:
    """Average a function over background rows (b, d) at the levels of a category.

    Less the mean over the levels, each of which counts alike.
    """
    examples, labels = category.examples(X)
    rows, weights = _repeat_at_values(background, category.columns, examples)
    alike, steps = np.zeros(len(background), dtype=np.int64), np.arange(float(len(labels)))
    found = Curve(category.name, steps, rows, weights, strata=alike, labels=labels)
    return replace(found, columns=tuple(category.columns))


def _repeat_at_values(
    background: np.ndarray, columns: Sequence[int], values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return all rows with each of the values (g, c) in some columns, and averaging weights."""
    b, g = len(background), len(values)
    rows = np.tile(background, (g, 1))
    rows[:, columns] = np.repeat(values, b, axis=0)
    weights = np.kron(np.eye(g), np.full((1, b), 1.0 / b))
    return rows, weights - weights.mean(axis=0)


def accumulated_effects(
    X: np.ndarray, feature: int, name: str, /, *, points: int, background: np.ndarray
) -> Curve:
    """Sum the mean differences across intervals of a feature, over the rows inside each.

    Apley and Zhu's accumulated local effects, less their mean over the rows X that are between the
    first and the last step: beyond, the curve says nothing.
    """
    steps = _grid_values(X[:, feature], points)
    interval = _assign_intervals(steps, background[:, feature])
    kept = np.flatnonzero(interval >= 0)
    rows, interval = background[kept], interval[kept]
    filled, interval, counts = np.unique(interval, return_inverse=True, return_counts=True)
    # An interval without rows is joined to the one below it
    edges = np.append(steps[filled], steps[-1])
    edges[0] = steps[0]
    low, high = rows.copy(), rows.copy()
    low[:, feature], high[:, feature] = edges[interval], edges[interval + 1]
    local = (interval == np.arange(len(counts))[:, None]) / counts[:, None]
    total = np.concatenate([np.zeros((1, len(rows))), np.cumsum(local, axis=0)])
    everywhere = _assign_intervals(edges, X[:, feature])
    shares = np.bincount(everywhere[everywhere >= 0]) / np.count_nonzero(everywhere >= 0)
    weights = total - shares @ (0.5 * (total[:-1] + total[1:])[: len(shares)])
    return Curve(
        name,
        edges,
        np.concatenate([high, low]),
        np.concatenate([weights, -weights], axis=1),
        strata=interval,
        columns=(feature,),
        kept=kept,
    )


def direction_profile(
    X: np.ndarray,
    scaled: np.ndarray,
    directions: np.ndarray,
    rank: int,
    names: tuple[str, ...],
    /,
    *,
    points: int,
) -> Curve:
    """Evaluate a function along one of the directions (k, d) of scaled rows, through their mean.

    As far as every feature stays within the range that it has.
    """
    middle, u = scaled.mean(axis=0), directions[rank]
    low, high = np.quantile((scaled - middle) @ u, [TAIL, 1.0 - TAIL])
    moved = np.flatnonzero(np.abs(u) > 1e-9)
    ends = np.stack([scaled.min(axis=0) - middle, scaled.max(axis=0) - middle])[:, moved] / u[moved]
    low, high = max(low, ends.min(axis=0).max()), min(high, ends.max(axis=0).min())
    steps = np.linspace(low, high, points)
    rows = _invert_scaling(middle + steps[:, None] * u, X, scaled)
    return Curve(direction_name(names, directions, rank), steps, rows, np.eye(points))


def _assign_intervals(edges: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Return the interval between edges (g,) that holds each value (n,), -1 beyond the ends."""
    found = np.clip(np.searchsorted(edges, column, side="left") - 1, 0, len(edges) - 2)
    return np.where((column < edges[0]) | (column > edges[-1]), -1, found)


def _grid_values(column: np.ndarray, points: int) -> np.ndarray:
    """Return distinct values of a feature over its range, without the tails.

    Both ends where nearly all rows have one value, as of a category that is rare.
    """
    quantiles = np.quantile(column, np.linspace(TAIL, 1.0 - TAIL, points), method="nearest")
    found = np.unique(quantiles)
    return found if len(found) > 1 else np.unique([column.min(), column.max()])


def _invert_scaling(Z: np.ndarray, X: np.ndarray, scaled: np.ndarray) -> np.ndarray:
    """Return rows whose scaled features are `Z`, by interpolating known rows."""
    found = np.empty_like(Z)
    for j in range(Z.shape[1]):
        there, first = np.unique(scaled[:, j], return_index=True)
        found[:, j] = np.interp(Z[:, j], there, X[first, j])
    return found


# ------------------------------------------------------------------------------ fold bands

# Curves of models without a kernel, by how far the fits of folds vary.


_FOLDS = 10


def estimate_by_folds(
    subject: InferenceData, curves: Sequence[Curve], rng: Any, limit: TimeLimit, /
) -> list[list[Estimate]]:
    r"""Return the model's curves, with the jackknife covariance over folds.

    .. math:: \frac{K - 1}{K} \sum_k (c_k - \bar c)(c_k - \bar c)^\top

    of K - 1 degrees of freedom.
    """
    fold = subject.deal_groups(_FOLDS, rng)
    if fold is None:
        # Rows of one class after the other, so that each fold takes its share of every class
        order = rng.permutation(len(subject))
        if subject.classes:
            order = order[np.argsort(subject.y[order], kind="stable")]
        fold = np.empty(len(subject), dtype=np.int64)
        fold[order] = np.arange(len(subject)) % _FOLDS
    count = int(fold.max()) + 1

    def refit_without(k: int) -> Any:
        share = limit.share(_FIT_SHARE / (count - k))
        return subject.refit(np.flatnonzero(fold != k), share)

    models = map_all_or_nothing("fits for bands", range(count), refit_without)

    def estimate(curve: Curve) -> list[Estimate]:
        own = curve.weights @ subject.functions(curve.points)
        by_fold = np.stack(
            [curve.weights @ subject.functions(curve.points, one) for one in models]
        )  # (K, g, t)
        away = by_fold - by_fold.mean(axis=0)
        share = (count - 1.0) / count
        return [
            Estimate(own[:, c], share * away[..., c].T @ away[..., c], count - 1.0)
            for c in range(own.shape[1])
        ]

    return map_with_progress("curves of bands", curves, estimate, limit)


# ---------------------------------------------------------------------------- kernel bands

# Curves of what is estimated by a learned kernel, with their covariance in closed form.


FEWEST = 40  # rows
# Chosen by coverage on models that no benchmark has
_RIDGE_SHARE = 0.1  # of the evidence's
_LENGTH_SHARE = 0.5  # of the learned lengthscale
_WITHOUT_LENGTH = 0.5  # of the ridge, for kernels that have no lengthscale to shorten
_MIXES = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # of the additive kernel, in units of the learned
_FREE_SHARE = 5  # one in so many rows may be spent on what is not penalised
_MOST_FREE = 10  # features of which something is not penalised
_LEAST = 1e-3  # probability of which noise of classes is made at least
_FIT_SHARE = 0.6  # of the time, for fits


@dataclass(frozen=True, eq=False)
class _Half:
    """Rows to smooth, and a kernel learned without them."""

    kernel: LearnedKernel
    rows: np.ndarray

    @property
    def ridge_share(self) -> float:
        """The share of the evidence's ridge to use, which reduces bias."""
        return _RIDGE_SHARE * (1.0 if self.kernel.has_lengthscale else _WITHOUT_LENGTH)


def estimate_by_kernel(
    subject: InferenceData,
    curves: Sequence[Curve],
    sample: np.ndarray,
    kernel: LearnedKernel | None,
    rng: Any,
    limit: TimeLimit,
    /,
) -> list[list[Estimate]]:
    """Estimate curves from a sample of the rows, for each output.

    By a kernel that has not seen the rows; without one by those of fits to halves.
    """
    if kernel is None:
        halves = _split_halves(subject, sample, rng, limit)
    else:
        halves = [_undersmoothed_half(kernel, sample)]
    shared = [_Shared.build(subject, half, curves) for half in halves]
    outputs = range(subject.Y.shape[1])
    by_output = map_all_or_nothing(
        "smoothers of bands", outputs, lambda c: _estimate_curves(subject, shared, c)
    )
    return [[by_output[c][k] for c in outputs] for k in range(len(curves))]


def _split_halves(
    subject: InferenceData, sample: np.ndarray, rng: Any, limit: TimeLimit
) -> list[_Half]:
    """Split the rows in two halves, each smoothed with the kernel learned on the other."""
    side = _assign_halves(subject, sample, rng)

    def half(k: int) -> _Half:
        assert subject.kernel is not None
        kernel = subject.learn_kernel(np.flatnonzero(side != k), limit.share(_FIT_SHARE / (2 - k)))
        rows = sample[side[sample] == k]
        # A half that finds nothing says nothing of what to compare: then the whole fit's kernel
        return _undersmoothed_half(subject.kernel if kernel is None else kernel, rows)

    return map_all_or_nothing("fits for bands", (0, 1), half)


def _undersmoothed_half(kernel: LearnedKernel, rows: np.ndarray) -> _Half:
    """Return a half with a shorter lengthscale, for less bias."""
    return _Half(kernel.shorten(_LENGTH_SHARE), rows)


def _assign_halves(subject: InferenceData, sample: np.ndarray, rng: Any) -> np.ndarray:
    """Assign every row to one of two halves (n,), stratified by class and sample."""
    side = np.empty(len(subject), dtype=np.int64)
    sampled = np.isin(np.arange(len(subject)), sample)
    labels = subject.y if subject.classes else np.zeros(len(subject))
    groups = np.unique(np.stack([np.unique(labels, return_inverse=True)[1], sampled]), axis=1)
    codes = np.unique(labels, return_inverse=True)[1]
    start = 0
    for label, inside in groups.T:
        members = np.flatnonzero((codes == label) & (sampled == inside))
        side[rng.permutation(members)] = (start + np.arange(len(members))) % 2
        start += len(members)
    return side


# ---------------------------------------------------------------------- one half of the rows


@dataclass(frozen=True, eq=False)
class _Shared:
    """Kernels and features of the rows of one half and of the curves."""

    half: _Half
    K: tuple[np.ndarray, np.ndarray]  # the learned kernel and the additive one, of one size
    kernels: list[tuple[np.ndarray, np.ndarray]]  # of each curve with the rows (g, n)
    H: np.ndarray  # what is not penalised, of each output (t, n, p)
    free: list[np.ndarray]  # the same of each curve (t, g, p)

    @classmethod
    def build(cls, subject: InferenceData, half: _Half, curves: Sequence[Curve]) -> _Shared:
        X, kernel = subject.X[half.rows], half.kernel
        K, other = kernel(X, X), kernel.additive(X, X)
        unit = _kernel_variance(K) / (_kernel_variance(other) or 1.0)
        kernels = [
            (
                curve.evaluate(lambda points: kernel(points, X)),
                curve.evaluate_additive(kernel, X) * unit,
            )
            for curve in curves
        ]
        free = _Free.build(kernel, X, subject.Y.shape[1])
        return cls(
            half,
            (K, unit * other),
            kernels,
            free.evaluate(X),
            [curve.evaluate(free.evaluate) for curve in curves],
        )


def _kernel_variance(K: np.ndarray) -> float:
    """Return the variance of a kernel's functions (n, n) about their mean over the rows."""
    return float(np.trace(K) / len(K) - K.mean())


def _most_common(column: np.ndarray) -> int:
    """Return how many rows have the most common value."""
    return int(np.unique(column, return_counts=True)[1].max())


@dataclass(frozen=True, eq=False)
class _Free:
    """The unpenalised functions: a constant, trends, and changes of the learned directions."""

    kernel: LearnedKernel
    features: np.ndarray  # whose trends are free, and loadings where there are directions
    n_outputs: int

    @classmethod
    def build(cls, kernel: LearnedKernel, X: np.ndarray, n_outputs: int) -> _Free:
        """Choose the most important features, as many as the rows (n, d) allow.

        At most ten, and none that is the same in nearly all rows: functions of more features go
        far beyond the targets where curves combine values as no row does.
        """
        each = 1 + len(kernel.directions)  # functions of a feature
        count = (len(X) // _FREE_SHARE - 1) // each
        others = len(X) - np.array([_most_common(column) for column in X.T])
        order = np.argsort(-kernel.importances, kind="stable")
        order = order[others[order] >= _FREE_SHARE * each]
        return cls(kernel, order[: min(max(count, 0), _MOST_FREE)], n_outputs)

    def evaluate(self, X: np.ndarray) -> np.ndarray:
        r"""Return the unpenalised functions of each output (t, m, p) at rows.

        A direction u moves by some v that is orthogonal to all of them, and the function by
        :math:`\partial_u f(x)\, v^\top x`.
        """
        Z = self.kernel.scale(X)
        trends = np.concatenate([np.ones((len(Z), 1)), Z[:, self.features]], axis=1)
        found = np.broadcast_to(trends, (self.n_outputs, *trends.shape))
        if not len(self.kernel.directions):
            return found
        slopes = np.moveaxis(self.kernel.slopes(Z), 2, 0)  # (t, m, k)
        beside = Z - (Z @ self.kernel.directions.T) @ self.kernel.directions
        moved = slopes[..., None] * beside[:, None, self.features]
        return np.concatenate([found, moved.reshape(*found.shape[:2], -1)], axis=2)


def _estimate_curves(
    subject: InferenceData, shared: Sequence[_Shared], output: int
) -> list[Estimate]:
    """Average the halves' curves of one output."""
    maps: list[list[np.ndarray]] = []  # of each half, those of the curves (g, n)
    noises, sums = [], np.zeros(3)
    for one in shared:
        y, weights = subject.Y[one.half.rows, output], subject.weights[one.half.rows]
        H, roots, (K, other) = one.H[output], np.sqrt(weights), one.K
        mix = best_kernel_share(K, other, H, y, roots, _MIXES)
        smoother = Smoother.fit(K + mix * other, H, y, roots, share=one.half.ridge_share)
        found = [
            smoother.map(learned + mix * more, free[output])
            for (learned, more), free in zip(one.kernels, one.free, strict=True)
        ]
        maps.append([smoother.correct_bias(L) / len(shared) for L in found])
        sums = sums + smoother.residual_sums(y)
        noises.append(np.ones(len(y)))
        if subject.classes:
            share = np.clip(smoother.smooth(y), _LEAST, 1.0 - _LEAST)
            noises[-1] = share * (1.0 - share)
    squares, expected, spread = sums
    # Of classes p (1 - p) says where there is more noise; as it is it would be too low in sum,
    # since fitted shares that smooth little follow the classes
    rows, noise = np.concatenate([one.half.rows for one in shared]), np.concatenate(noises)
    noise = noise / subject.weights[rows] * (squares / expected / noise.mean())
    freedom = float(expected**2 / spread)  # Satterthwaite's
    y = subject.Y[rows, output]
    joined = [np.concatenate(halves, axis=1) for halves in zip(*maps, strict=True)]
    return [Estimate(L @ y, (L * noise) @ L.T, freedom) for L in joined]


KINDS = ("partial_dependence", "accumulated_effects", "profiles")
_FEATURES, _DIRECTIONS = 6, 3  # that are shown unless others are named
_ASKED = 7_500  # points of a curve at most, each of them with every row: what bands cost
_SQUARES = 1.5e7  # of rows times columns, that a second is enough for
_PRODUCTS = 1e9  # of numbers, that a second is enough for
_SHUFFLED = 300  # rows by which features are ordered
_DRAWS = 4_000  # of the largest deviation
_FEW = 100  # rows below which smoothers cannot bend as curves do
_BESIDE = "the centre of a band is smoothed less than the model, whose own curve is shown too"
_NOTHING = "the model predicts a constant, so that bands use a kernel that has learned nothing"
_STRAIGHT = "the bands cover straight lines, and miss curves more often than they state"


def bands(
    model: Any,
    X: Any,
    y: Any,
    *,
    kind: str = "partial_dependence",
    features: Sequence[int | str] | None = None,
    coverage: float = 0.95,
    held_out: bool = False,
    points: int = 25,
    max_rows: int = 2_000,
    max_time: float | None = None,
    sample_weight: Any = None,
    row_groups: Any = None,
    random_state: Any = 0,
    progress: bool | None = None,
) -> Bands:
    r"""Estimate curves of the regression function with simultaneous confidence bands.

    Parameters
    ----------
    model : gpukfl.Model, or fitted regressor or classifier
        A model of this library or of scikit-learn.
    X : array or frame of shape (n, d)
        Rows, at least 40.
    y : array of shape (n,) or (n, t), or str
        Targets of the rows, or the name of the target column in X.
    kind : {"partial_dependence", "accumulated_effects", "profiles"}
        "partial_dependence" is the mean over rows at values of a feature, the steps, minus the
        mean of these. "accumulated_effects" are sums of local differences, minus their mean over
        the rows between the first and the last step. They use no combinations of features that
        the rows do not have. For categories, whose levels have no order, they are still means over
        rows. "profiles" are functions along the learned directions, through the mean of the rows.
        Steps exclude 2 % of the rows at either end.
    features : sequence of int or str, optional
        Features with curves; by default the six most important. A category of a table with few
        levels has a step for each level. For "profiles", numbers of directions; by default the
        first three.
    coverage : float
        Probability, in (0, 1), with which a band covers its whole curve.
    held_out : bool
        Whether X and y are test rows, which the model has not seen, and not its training set. The
        model's kernel is then used as it is, without new fits.
    points : int
        Largest number of points on a curve, at least 3. With more, partial dependence averages over
        fewer rows.
    max_rows : int
        Largest number of rows, at least 40. More are sampled, and bands are wider than those of all
        rows.
    max_time : float, optional
        Approximate time limit in seconds, by shorter fits and fewer rows, which make the bands
        wider. Curves without time are skipped.
    sample_weight : array of shape (n,), optional
        Weights. The variance of the noise is inversely proportional to them.
    row_groups : array of shape (n,), or str, optional
        Groups of dependent rows, or the name of their column in X. Any model is then fitted without
        each tenth of the groups. By default the column of the fit.
    random_state : int, RandomState or None
        Seed of halves, of the rows to average over, and of the largest deviation, which are drawn
        on the host.
    progress : bool, optional
        Whether to show the progress; by default on a terminal and in a notebook.

    Returns
    -------
    Bands
        A frozen result with `summary`, `frame` and `plot`. Ctrl-C returns the complete curves, with
        a ConvergenceWarning; `unfinished` names the others.

    Raises
    ------
    TypeError, ValueError
        If the model, the rows or an option is not as described.

    Notes
    -----
    The curve is that of the conditional mean of y (for classes, of their probabilities). The
    model's own curve lies near it. Partial dependence averages over at most 7500 / `points` rows
    (300 by default), or 40, with equal weights. Accumulated effects use up to 3750 rows. Bands
    cover the curve of the population. They include how far the mean over these rows varies from
    sample to sample, and are wider where features interact. Bands of fewer than 100 rows cover
    straight lines, and miss curves more often than they state.

    A model that has learned a kernel (BKerNN, HKRR, kernel ridge regression, selection, RegFeaL)
    is split: each half of the rows is smoothed by the kernel of a fit to the other half, and the
    two curves are averaged. Given the kernels a curve is linear in y, with a variance in closed
    form. Against bias the lengthscale is half of the learned one, the ridge a tenth of what the
    restricted evidence says (a twentieth for kernels without a lengthscale), and each smoother
    fits its residuals once more; a linear trend, and the derivatives of the fit with respect to
    the learned directions, are not penalised, so that errors of the directions are in the
    variance. What a half may have left out is added by an additive kernel, as much of it as the
    evidence asks for, where it does so clearly. Then the largest deviation over the curve is
    simulated. Costs two fits to half of the rows, some ten times O(n³) for each target and half,
    and O(n p) kernel values for p points; n at most
    `max_rows`.

    Other models are fitted ten times, each time without a tenth of the rows, and the bands show how
    far these curves vary. Such bands do not include the bias that all fits share. Rows with groups
    are treated in the same way, as the closed form needs independent errors. Fits with another
    `loss` than the squared one are too: their bands are of what the loss estimates.

    References
    ----------
    .. [1] Calonico, Cattaneo and Farrell, "On the Effect of Bias Estimation on Coverage Accuracy
       in Nonparametric Inference", JASA, 2018.
    .. [2] Chernozhukov and others, "Double/debiased machine learning for treatment and structural
       parameters", The Econometrics Journal, 2018.
    .. [3] Apley and Zhu, "Visualizing the effects of predictor variables in black box supervised
       learning models", JRSS B, 2020.
    """
    check_choice("kind", kind, KINDS)
    check_number("coverage", coverage, low=0, high=1, low_allowed=False)
    if coverage == 1:
        msg = "expected coverage below 1, got 1"
        raise ValueError(msg)
    check_bool("held_out", held_out)
    check_number("points", points, kind=Integral, low=3)
    check_number("max_rows", max_rows, kind=Integral, low=FEWEST)
    check_number("max_time", max_time, low=0, low_allowed=False, also=(None,))
    limit = TimeLimit(max_time)
    row_groups = find_row_groups(model, X, row_groups)
    subject = InferenceData.from_model(model, X, y, sample_weight, row_groups)
    if len(subject) < FEWEST:
        msg = f"expected at least {FEWEST} rows for bands, got {len(subject)}"
        raise ValueError(msg)
    check_kind("progress", progress, (bool, type(None)))
    rng = check_random_state(random_state)
    d = subject.X.shape[1]
    subject = subject.draw(limit.affordable(_SQUARES / d, len(subject), least=100, power=2), rng)

    def make_bands(k: int) -> list[Band]:
        return _make_bands(subject, curves[k], estimates[k], coverage, rng)

    with show_progress(progress):
        curves = choose_curves(subject, kind, features, points, rng, limit)
        estimates, said, remarks = _estimate_all(subject, curves, held_out, max_rows, rng, limit)
        # An interruption may have left fewer estimates than curves, and leaves fewer bands
        found = map_with_progress("bands", range(len(estimates)), make_bands)
    unfinished = tuple(curve.name for curve in curves[len(found) :])
    remarks = [subject.remark, *remarks] if subject.remark else remarks
    asked = "member of the blend" if subject.remark else "model"
    every = tuple(itertools.chain.from_iterable(found))
    return Bands(every, kind, float(coverage), said, tuple(remarks), asked, unfinished)


def _make_bands(
    subject: InferenceData, curve: Curve, estimates: Sequence[Estimate], coverage: float, rng: Any
) -> list[Band]:
    """Put bands around the estimates of a curve, one for each output."""
    values, found = subject.functions(curve.points), []
    own = curve.weights @ values
    for c, (output, e) in enumerate(zip(subject.outputs, estimates, strict=True)):
        covariance = e.covariance + curve.covariance(values[:, c])
        factor = largest_deviation(covariance, e.freedom, coverage, rng)
        width = factor * np.sqrt(np.diagonal(covariance))
        seconds = subject.seconds.get(curve.name, 0.0)
        band = curve.steps, e.values, width, own[:, c], curve.labels, seconds
        found.append(Band(curve.name, output, *band))
    return found


def _estimate_all(
    subject: InferenceData,
    curves: list[Curve],
    held_out: bool,
    max_rows: int,
    rng: Any,
    limit: TimeLimit,
) -> tuple[list[list[Estimate]], str, list[str]]:
    """Estimate curves by kernel or by folds; also return the method's name and remarks."""
    constant = subject.kernel is None and not np.ptp(subject.functions(subject.X), axis=0).any()
    is_of_means = loss_of_fit(subject.estimator) is None  # as smoothers of the targets are
    if subject.groups is not None or not is_of_means or (subject.kernel is None and not constant):
        shared = "the bands do not include the bias that all fits share"
        count = _FOLDS if subject.groups is None else min(_FOLDS, len(np.unique(subject.groups)))
        return estimate_by_folds(subject, curves, rng, limit), f"{count} fits", [shared]
    sample = np.arange(len(subject))
    if len(sample) > max_rows:
        sample = np.sort(rng.choice(sample, max_rows, replace=False))
    remarks = [_NOTHING if constant else _BESIDE]
    if len(sample) < _FEW:
        remarks.append(f"{len(sample)} rows are fewer than {_FEW}: {_STRAIGHT}")
    kernel = subject.kernel if held_out else None
    if constant:
        kernel = default_kernel(subject.X, subject.Y.shape[1])
    estimates = estimate_by_kernel(subject, curves, sample, kernel, rng, limit)
    said = f"{'an additive' if constant else 'the learned'} kernel and {len(sample)} rows"
    return estimates, said, remarks


def largest_deviation(
    covariance: np.ndarray, freedom: float, coverage: float, rng: Any, /
) -> float:
    """Return the quantile of the largest deviation of a curve (g,), in standard errors.

    Standard errors have so many degrees of freedom.
    """
    errors = np.sqrt(np.diagonal(covariance))
    sure = errors > 1e-9 * errors.max(initial=0.0)
    if not sure.any():
        return 0.0
    scaled = covariance[np.ix_(sure, sure)] / np.outer(errors[sure], errors[sure])
    values, vectors = host_eigh(scaled)
    roots = vectors * np.sqrt(np.clip(values, 0.0, None))
    draws = np.abs(roots @ rng.standard_normal((len(scaled), _DRAWS))).max(axis=0)
    return float(np.quantile(draws / np.sqrt(rng.chisquare(freedom, _DRAWS) / freedom), coverage))


# ---------------------------------------------------------------------- which curves


def choose_curves(
    subject: InferenceData,
    kind: str,
    features: Sequence[int | str] | None,
    points: int,
    rng: Any,
    limit: TimeLimit = NO_LIMIT,
) -> list[Curve]:
    """Return the requested curves."""
    if kind == "profiles":
        return _direction_profiles(subject, features, points)
    make = partial_dependence if kind == "partial_dependence" else accumulated_effects
    each = points if kind == "partial_dependence" else 2  # points of a row
    X, kernel = subject.X, subject.kernel
    evaluations = 1 + (0 if kernel is None else 2 * len(kernel.directions))
    work = each * _FEATURES * X.size * evaluations  # of a row that curves are means over
    most = min(max(_ASKED // each, FEWEST), len(subject))
    count = limit.affordable(_PRODUCTS / work, most, least=min(FEWEST, most))
    some = np.sort(rng.choice(len(X), count, replace=False))
    background = X[some]
    curves = [
        level_effects(X, one, background=background)
        if isinstance(one, Category)
        else make(X, one, subject.names[one], points=points, background=background)
        for one in _choose_features(subject, features, rng)
    ]
    if subject.groups is None:
        return curves
    groups = subject.groups[some]
    return [replace(one, groups=groups if one.kept is None else groups[one.kept]) for one in curves]


def _choose_features(
    subject: InferenceData, features: Sequence[int | str] | None, rng: Any
) -> list[int | Category]:
    """Return the features of the curves, with the columns of a category as one."""
    varying = np.ptp(subject.X, axis=0) > 0
    places = {k: one for one in subject.categories for k in one.columns}
    every = dict.fromkeys(places.get(k, k) for k in range(len(varying)))
    columns = {one: [*one.columns] if isinstance(one, Category) else [one] for one in every}
    if features is None:
        there = [one for one in every if varying[columns[one]].any()]
        scores = {one: _feature_importance(subject, columns[one], rng) for one in there}
        return sorted(there, key=lambda one: -scores[one])[:_FEATURES]
    found = [_find_feature(subject, places, one) for one in features]
    for one in found:
        if not varying[columns[one]].any():
            name = one.name if isinstance(one, Category) else subject.names[one]
            msg = f"expected features that are not constant, got {name!r}"
            raise ValueError(msg)
    return list(dict.fromkeys(found))


def _feature_importance(subject: InferenceData, columns: list[int], rng: Any) -> float:
    """Return a model's importance of columns, or the change of predictions by shuffling them."""
    known = getattr(subject.estimator, "feature_importances_", None)
    if known is not None:
        return float(np.asarray(known, dtype=np.float64)[columns].sum())
    some = np.sort(rng.permutation(len(subject))[:_SHUFFLED])
    return mean_squared_change(
        subject.functions, subject.X[some], columns, subject.weights[some], rng
    )


def _find_feature(
    subject: InferenceData, places: dict[int, Category], feature: int | str
) -> int | Category:
    d = len(subject.names)
    names = [*subject.names, *(one.name for one in subject.categories)]
    columns = [*range(d), *(one.columns[0] for one in subject.categories)]
    if isinstance(feature, str) and feature in names:
        feature = columns[names.index(feature)]
    if isinstance(feature, Integral) and 0 <= feature < d:
        return places.get(int(feature), int(feature))
    msg = f"expected features by name or number below {d}, got {feature!r}"
    raise ValueError(msg)


def _direction_profiles(
    subject: InferenceData, ranks: Sequence[int | str] | None, points: int
) -> list[Curve]:
    if not has_directions(subject.estimator):
        msg = (
            "expected a model with learned directions for profiles, got "
            f"{type(subject.estimator).__name__}"
        )
        raise ValueError(msg)
    directions = to_host(subject.estimator.components_).astype(np.float64)
    known = range(len(directions))
    chosen = list(known)[:_DIRECTIONS] if ranks is None else list(ranks)
    if any(rank not in known for rank in chosen):
        msg = f"expected numbers of directions below {len(directions)}, got {chosen}"
        raise ValueError(msg)
    scaled = make_scaler(subject.estimator)(subject.X)
    return [
        direction_profile(subject.X, scaled, directions, int(k), subject.names, points=points)
        for k in chosen
    ]
