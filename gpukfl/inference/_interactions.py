"""Interactions of pairs and triples of features."""

from __future__ import annotations

import itertools
import math
import numbers
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.preprocessing import SplineTransformer
from sklearn.utils import check_random_state

from gpukfl.core._array import to_host
from gpukfl.core._checks import check_choice, check_kind, check_number
from gpukfl.estimators._progress import show_progress
from gpukfl.estimators.bkernn._estimator import BKerNNBase
from gpukfl.estimators.hkrr._estimator import HKRRBase
from gpukfl.estimators.kernel_ridge._estimator import KernelRidgeBase
from gpukfl.estimators.selection._estimator import SelectionBase
from gpukfl.inference._evaluation import (
    EvaluationData,
    known_importances,
    make_evaluation_data,
    mean_squared_change,
)
from gpukfl.inference._groups import feature_index
from gpukfl.inference._losses import loss_of_fit, predicts_means
from gpukfl.inference._row_groups import find_row_groups
from gpukfl.inference._stepwise import TimeLimit, map_with_progress
from gpukfl.inference._test_results import Interactions
from gpukfl.methods import ProductExpansion, product_terms
from gpukfl.tables._clusters import group_sums

# ------------------------------------------------------------------------------ score test

# Whether one effect goes along with what others leave of targets.


_KNOTS = (5, 4, 3, 2)  # of splines, the finest first; two make cubic polynomials
_LEVELS = 8  # different values that are classes of their own
_FREE = 4  # rows for each function of two features that is taken out
_AT_ONCE = 2_000_000  # numbers that are drawn
_ROUNDING = 1e-9
_ALONE = 1e-6  # share of a direction that other groups have, below which a group has it alone


@dataclass(frozen=True, eq=False)
class Score:
    """What is tested to go along (n, t), without functions that the hypothesis leaves open."""

    effect: np.ndarray
    left: np.ndarray
    errors: np.ndarray  # `left`, as large as its errors, of which fitted functions take a part

    @classmethod
    def residualize(
        cls,
        basis: np.ndarray,
        effect: np.ndarray,
        left: np.ndarray,
        row_groups: np.ndarray | None = None,
        /,
    ) -> Score:
        """Project a basis (n, q) out of an effect (n, t) and of residuals (n, t).

        Errors of groups (n,) have the variance that the projection takes of them given back.
        """
        axes, sizes, _ = np.linalg.svd(basis, full_matrices=False)
        axes = axes[:, sizes > _ROUNDING * sizes[0]]
        effect, left = (values - axes @ (axes.T @ values) for values in (effect, left))
        if row_groups is not None:
            return cls(effect, left, _unshrink_errors(axes, left, row_groups))
        kept = np.maximum(1.0 - np.sum(axes**2, axis=1, keepdims=True), _ROUNDING)
        return cls(effect, left, left / np.sqrt(kept))


def _unshrink_errors(axes: np.ndarray, left: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return (I - P_gg)^(-1/2) r_g for residuals (n, t) of each group and a projection P.

    Bell and McCaffrey, "Bias reduction in standard errors for linear regression with multi-stage
    samples", 2002. Directions in which a group stands alone have no error of their own.
    """
    found = np.empty_like(left)
    for number in np.unique(groups):
        own = np.flatnonzero(groups == number)
        vectors, sizes, _ = np.linalg.svd(axes[own], full_matrices=False)
        free = np.maximum(1.0 - sizes**2, 0.0)
        factors = np.where(free > _ALONE, 1.0 / np.sqrt(np.maximum(free, _ALONE)), 0.0)
        parts = vectors.T @ left[own]
        found[own] = left[own] + vectors @ ((factors - 1.0)[:, None] * parts)
    return found


def additive_basis(
    features: Sequence[np.ndarray], row_groups: np.ndarray | None = None, /
) -> np.ndarray:
    """Return basis functions (n, q) of one feature each: splines, or indicators.

    A feature may have several columns (n, g); gaps are as the median. Of rows in groups (n,)
    splines have as many knots as leave four groups for each function, or two knots.
    """
    count = len(features[0]) if row_groups is None else len(np.unique(row_groups))
    for knots in _KNOTS:
        whole = _add_constant([_feature_basis(feature, knots) for feature in features])
        if row_groups is None or _FREE * whole.shape[1] <= count:
            break
    return whole


def pairwise_basis(
    features: Sequence[np.ndarray], row_groups: np.ndarray | None = None, /
) -> np.ndarray:
    """Return basis functions (n, q) of one or two features each: products of `additive_basis`.

    Splines have as many knots as leave four rows, or groups of rows, for each function.
    """
    n = free = len(features[0])
    what = "rows beside the background"
    if row_groups is not None:
        free, what = len(np.unique(row_groups)), "groups of rows beside the background"
    for knots in _KNOTS:
        parts = [_feature_basis(feature, knots) for feature in features]
        products = [
            (first[:, :, None] * second[:, None, :]).reshape(n, -1)
            for first, second in itertools.combinations(parts, 2)
        ]
        whole = _add_constant([*parts, *products])
        count = whole.shape[1]
        if _FREE * count <= free:
            return whole
    msg = (
        f"expected at least {_FREE * count} {what} to test interactions of three features, "
        f"got {free}: raise max_rows, or pass no y to compute H without tests"
    )
    raise ValueError(msg)


def project_out(basis: np.ndarray, values: np.ndarray, weights: np.ndarray, /) -> np.ndarray:
    """Project a basis (n, q) out of values (n, t), by weighted least squares."""
    roots = np.sqrt(weights)
    parts = [
        column - basis @ np.linalg.lstsq(root[:, None] * basis, root * column, rcond=None)[0]
        for column, root in zip(values.T, roots.T, strict=True)
    ]
    return np.stack(parts, axis=1)


def score_p_values(
    scores: Sequence[Score], count: int, rng: np.random.RandomState, /
) -> np.ndarray:
    """Return the p-values of correlations between effects and residuals.

    One-sided, by the same permutations of the errors of all; of the inner product over its
    standard error, so that it does not matter that errors differ in size.
    """
    n, t = scores[0].effect.shape
    actual = [
        _studentise(_row_products(one.effect, one.left), _row_products(one.effect, one.errors))
        for one in scores
    ]
    above, step = np.zeros(len(scores)), max(1, _AT_ONCE // (n * t))
    for begin in range(0, count, step):
        some = min(step, count - begin)
        orders = np.argsort(rng.random_sample((some, n)), axis=1)
        for k, one in enumerate(scores):
            drawn = _row_products(one.effect, one.errors[orders])
            above[k] += np.count_nonzero(_studentise(drawn, drawn) >= actual[k] - _ROUNDING)
    return (1 + above) / (1 + count)


def score_p_values_of_groups(
    scores: Sequence[Score], row_groups: np.ndarray, count: int, rng: np.random.RandomState, /
) -> np.ndarray:
    """Return the p-values of correlations between effects and residuals of rows in groups (n,).

    One-sided, by the same signs of the errors of whole groups for all: the wild bootstrap of the
    score (Kline and Santos, "A score based approach to wild bootstrap inference", Journal of
    Econometric Methods, 2012). Rows of a group may depend on each other in any way.
    """
    parts = [group_sums(_row_products(one.effect, one.errors), row_groups) for one in scores]
    actual = [float(np.sum(one.effect * one.left)) for one in scores]
    above, n = np.zeros(len(scores)), len(parts[0])
    step = max(1, _AT_ONCE // n)
    for begin in range(0, count, step):
        signs = rng.choice([-1.0, 1.0], (min(step, count - begin), n))
        for k, part in enumerate(parts):
            least = actual[k] - _ROUNDING * float(np.linalg.norm(part))
            above[k] += np.count_nonzero(signs @ part >= least)
    return (1 + above) / (1 + count)


def _row_products(effect: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Return the inner products (..., n) of the rows of an effect (n, t) and residuals."""
    return np.einsum("nt,...nt->...n", effect, left)


def _studentise(parts: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Return studentised sums of scores (..., n)."""
    sizes = np.sqrt(np.sum(errors**2, axis=-1))
    return np.asarray(parts.sum(axis=-1) / np.maximum(sizes, 1e-300))


def _add_constant(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ones((len(parts[0]), 1)), *parts], axis=1)


def _feature_basis(feature: np.ndarray, knots: int) -> np.ndarray:
    """Return basis functions (n, q) of a feature's columns (n, g), without the constant."""
    return np.concatenate([_column_basis(column, knots) for column in feature.T], axis=1)


def _column_basis(column: np.ndarray, knots: int) -> np.ndarray:
    """Return basis functions (n, q) of a column (n,), without one of them."""
    known = np.unique(column[~np.isnan(column)])
    column = np.where(np.isnan(column), np.median(known) if len(known) else 0.0, column)
    if len(known) <= _LEVELS:
        return (column[:, None] == known[None, 1:]).astype(np.float64)
    splines = SplineTransformer(knots, knots="quantile").set_output(transform="default")
    return splines.fit_transform(column[:, None])[:, 1:]


# ------------------------------------------------------------------------------ dependence

# Partial dependence of a model on sets of features: in closed form, or by predictions.


_ROWS_AT_ONCE = 20_000  # rows that are predicted
_SUMS = 1e-11  # what sums over centres with large coefficients leave of float64
_TINY = 1e-300
_AGREES = 1e4  # units of rounding by which a closed form may differ from predictions

Values = Callable[[np.ndarray], np.ndarray]  # rows (m, c) -> values (m, t) of the function


class Dependence(ABC):
    """Partial dependence: averages of a function over a background in all but some columns."""

    exact: bool

    @abstractmethod
    def evaluate(self, columns: np.ndarray, /) -> np.ndarray:
        """Evaluate at all rows: (n, t)."""

    def may_interact(self, columns: Sequence[np.ndarray], /) -> bool:  # noqa: ARG002
        """Whether the function may have an interaction of all the sets."""
        return True


@dataclass(frozen=True, eq=False)
class ByPrediction(Dependence):
    """Partial dependence by means of predictions."""

    rows: np.ndarray  # (n, c)
    background: np.ndarray  # (b, c)
    values: Values
    weights: np.ndarray  # (b,), of the background
    coupled: np.ndarray | None = None  # (c, c) of bool, by whether two columns share a direction
    exact = False

    def evaluate(self, columns: np.ndarray, /) -> np.ndarray:
        """Evaluate at all rows, by blocks."""
        (n, _), count = self.rows.shape, len(self.background)
        step = max(1, _ROWS_AT_ONCE // count)
        parts = []
        for begin in range(0, n, step):
            some = self.rows[begin : begin + step]
            changed = np.tile(self.background, (len(some), 1))
            changed[:, columns] = np.repeat(some[:, columns], count, axis=0)
            found = self.values(changed).reshape(len(some), count, -1)
            parts.append(np.average(found, axis=1, weights=self.weights))
        return np.concatenate(parts)

    def may_interact(self, columns: Sequence[np.ndarray], /) -> bool:
        """Whether all pairs of sets share a direction of a sum of ridge functions."""
        if self.coupled is None:
            return True
        pairs = [(a, b) for k, a in enumerate(columns) for b in columns[:k]]
        return all(bool(self.coupled[np.ix_(a, b)].any()) for a, b in pairs)


@dataclass(frozen=True, eq=False)
class InClosedForm(Dependence):
    """Partial dependence by averages of one-dimensional kernels."""

    expansion: ProductExpansion
    rows: Any  # (n, q), as the kernel sees them
    background: Any  # (b, q)
    places: dict[int, int]  # which of its columns each column of the rows has become
    exact = True

    def evaluate(self, columns: np.ndarray, /) -> np.ndarray:
        """Evaluate at all rows."""
        inside = [self.places[k] for k in columns.tolist() if k in self.places]
        found = self.expansion.partial_dependence(self.rows, self.background, inside)
        return to_host(found).astype(np.float64)

    def may_interact(self, columns: Sequence[np.ndarray], /) -> bool:
        """Whether the kernel sees a column of every set."""
        return all(any(k in self.places for k in some.tolist()) for some in columns)


def make_dependence(
    estimator: Any, rows: np.ndarray, background: np.ndarray, values: Values, weights: np.ndarray, /
) -> Dependence:
    """Return the partial dependence at rows (n, c), in closed form if there is one.

    That is for a background whose rows all have the same weight.
    """
    alike = np.ptp(weights) == 0
    closed = _make_closed_form(estimator, rows, background) if alike else None
    if closed is not None:
        eps = float(np.finfo(to_host(estimator.centers_).dtype).eps)
        if _agrees(closed, values(rows), eps):
            return closed
    coupled = None
    if isinstance(estimator, BKerNNBase):
        loads = to_host(estimator.W_) != 0
        coupled = (loads[:, None, :] & loads[None, :, :]).any(axis=2)
    return ByPrediction(rows, background, values, weights, coupled)


def _make_closed_form(
    estimator: Any, rows: np.ndarray, background: np.ndarray
) -> InClosedForm | None:
    """Return the closed form of a regression with a product kernel, or None."""
    kinds = (KernelRidgeBase, HKRRBase, SelectionBase)
    if not isinstance(estimator, kinds) or hasattr(estimator, "classes_"):
        return None
    terms = product_terms(estimator.kernel_)
    if terms is None or estimator.dual_coef_ is None:
        return None
    used, factors = _axes(estimator, rows.shape[1])
    if factors is None:
        return None

    def scale_columns(X: np.ndarray) -> np.ndarray:
        scaled = X if estimator.scaling_ is None else to_host(estimator.scaling_(X))
        return scaled[:, used] * factors

    centers, coefficients, intercept = (
        to_host(one).astype(np.float64)
        for one in (estimator.centers_, estimator.dual_coef_, estimator.intercept_)
        if one is not None
    )
    if isinstance(estimator, HKRRBase):
        centers = centers[:, used] * factors
    expansion = ProductExpansion(centers, coefficients, intercept, terms)
    places = {int(column): k for k, column in enumerate(used)}
    return InClosedForm(expansion, scale_columns(rows), scale_columns(background), places)


def _axes(estimator: Any, n_columns: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the columns that a kernel uses and their factors, or None for mixtures of columns."""
    if isinstance(estimator, SelectionBase):
        return to_host(estimator._used), to_host(estimator._stretch)
    if not isinstance(estimator, HKRRBase):
        return np.arange(n_columns), np.ones(n_columns)
    loads = np.abs(to_host(estimator.map_).astype(np.float64))
    if loads.ndim == 1:
        used = np.flatnonzero(loads)
        return used, loads[used]
    used = np.flatnonzero(loads.any(axis=0))
    alone = max((loads > 0).sum(axis=0).max(), (loads > 0).sum(axis=1).max()) <= 1
    return used, loads.sum(axis=0)[used] if alone else None


def _agrees(closed: InClosedForm, predicted: np.ndarray, eps: float) -> bool:
    """Whether a closed form equals the predictions, which may be clipped."""
    gap = np.abs(closed.evaluate(np.array(list(closed.places), dtype=np.int64)) - predicted)
    return bool(gap.max() <= _AGREES * max(eps, _SUMS) * max(np.abs(predicted).max(), _TINY))


_FEATURES = {2: 10, 3: 6}  # that are looked at unless more are asked for
_FLOOR = 1e-9  # of probabilities in log-odds: a higher one would make interactions of sums
# Of a time limit: the share for predictions, rows by whose predictions it is divided, predictions
# of a set for which one more feature is looked at, and rows for each row of the background
_SHARE, _PROBED, _ENOUGH, _ROWS_EACH = 0.7, 200, 1_000, 5
_LEAST_BACKGROUND, _LEAST_ROWS = 8, 40
_ZERO = 1e-9  # of what a model's predictions vary by, below which an effect is none

Sets = tuple[int, ...]


def interactions(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    order: int = 2,
    features: Sequence[Any] | None = None,
    n_features: int | None = None,
    n_permutations: int = 9999,
    n_background: int = 50,
    max_rows: int = 500,
    max_time: float | None = None,
    sample_weight: Any = None,
    row_groups: Any = None,
    random_state: Any = 0,
    progress: bool | None = None,
) -> Interactions:
    r"""Measure interactions of a fitted model by Friedman's H, and test them on held-out rows.

    With :math:`\bar f_S` the partial dependence on features S, centred, and the effect

    .. math:: I_S = \sum_{T \subseteq S} (-1)^{|S| - |T|} \bar f_T, \qquad
              H_S^2 = \sum_i I_S(x_i)^2 \Big/ \sum_i \bar f_S(x_i)^2,

    H is the share of what the model makes of S that is more than sums of functions of fewer of
    them: :math:`I_{jk} = \bar f_{jk} - \bar f_j - \bar f_k`. With y the hypothesis is tested that
    :math:`I_S` says nothing of targets of new rows: its inner product with what all other effects
    leave of them, both without functions of fewer features of S (splines, of triples and their
    products), over its standard error, is compared with those of permuted rows. Nothing is fitted
    again.

    Parameters
    ----------
    model : Model or scikit-learn estimator
        A fitted regressor or classifier; for classes, the log odds are used.
    X : array or frame of shape (n_samples, n_features)
        Rows. P-values are valid only if the model has not seen them.
    y : str, or array or series of shape (n_samples,) or (n_samples, n_targets), optional
        Targets of the rows, or the name of their column. Without them there are no p-values.
    order : {2, 3}, default=2
        Whether to measure pairs or triples.
    features : sequence of str or int, optional
        Features to measure. By default the `n_features` whose shuffling moves predictions most. For
        a selection, these are among the selected ones, unless they are too few.
    n_features : int, optional
        Largest number of features; by default 10 for pairs, 6 for triples.
    n_permutations : int, default=9999
        Number of permutations: no p-value is below 1 / (n_permutations + 1).
    n_background : int, default=50
        Number of rows of X that partial dependence averages over, at most half. Effects are
        evaluated and tested on the others.
    max_rows : int, default=500
        Largest number of rows to evaluate; more are sampled.
    max_time : float, optional
        Approximate time limit in seconds, by fewer rows, background rows and features. Sets without
        time are skipped.
    sample_weight : array of shape (n_samples,), optional
        Weights of the rows in all averages, H and the test, at least 0. The variance of the noise
        is inversely proportional to them.
    row_groups : array of shape (n_samples,), or str, optional
        Groups of dependent rows, such as visits of a patient, or the name of their column in X.
        P-values then come from random signs of the scores of whole groups, instead of permuted
        rows. By default the column of the fit.
    random_state : int, RandomState or None, default=0
        Seed of rows and permutations.
    progress : bool, optional
        Whether to show the progress; by default on a terminal and in a notebook.

    Returns
    -------
    Interactions
        H, shares and p-values, one for each pair or triple; with `summary`, `frame`, `plot`, and
        adjusted p-values. Ctrl-C returns the complete sets, with a ConvergenceWarning; `unfinished`
        names the others.

    Raises
    ------
    TypeError, ValueError
        If the model is not fitted, does not take the rows, or has too few features; if p-values
        are asked of a fit with loss "absolute", "huber" or "quantile"; or if there are fewer than
        eight rows, or for p-values of triples fewer than four for each function of two of their
        features: 148 beside the background, of features of many values.

    Notes
    -----
    A set of features costs max_rows · n_background predictions. In closed form it is O((n + b) m d)
    for m centres: in regressions by kernel ridge, HKRR with a diagonal map, or selection, with
    kernels that are products over the features. In a BKerNN two features without a common particle
    have H = 0 and are not evaluated. Where weights differ there is no closed form. The p-values are
    those of independent features: where they depend on each other, an effect of a feature that is
    left out may look like an interaction of two others. The permutation null is of a studentised
    statistic, which holds for many rows though errors differ in size (Janssen, 1997). With weights
    w, what is permuted is :math:`\sqrt w` times what is left.

    References
    ----------
    .. [1] Friedman and Popescu, "Predictive learning via rule ensembles", Annals of Applied
       Statistics 2, 2008, Section 8.1, eqs. (44) to (47).

    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import KernelRidgeRegressor
    >>> from gpukfl.inference import interactions
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((600, 3))
    >>> y = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.standard_normal(600)
    >>> model = KernelRidgeRegressor(random_state=0).fit(X[:300], y[:300])
    >>> interactions(model, X[300:], y[300:]).selected_at(0.05)
    ['x0 × x1']
    """
    check_choice("order", order, tuple(_FEATURES))
    counts = {"n_permutations": n_permutations, "n_background": n_background, "max_rows": max_rows}
    for name, number in counts.items():
        check_number(name, number, kind=numbers.Integral, low=1)
    check_kind("progress", progress, (bool, type(None)))
    check_number("n_features", n_features, kind=numbers.Integral, low=order, also=(None,))
    if X is None:
        msg = "expected X, the rows to evaluate, got None"
        raise ValueError(msg)
    loss = loss_of_fit(getattr(model, "estimator", model))
    if y is not None and not predicts_means(loss):
        msg = f"expected a model of means to test interactions, got one with loss={loss!r}: leave "
        raise ValueError(msg + "y out to measure them without p-values")
    check_number("max_time", max_time, low=0, low_allowed=False, also=(None,))
    limit = TimeLimit(max_time)
    row_groups = None if y is None else find_row_groups(model, X, row_groups)
    truth = model.predict(X) if y is None else y
    asked = make_evaluation_data(model, X, truth, sample_weight, row_groups)
    rng = check_random_state(random_state)
    sizes = _Sizes(int(n_features or _FEATURES[order]), int(n_background), int(max_rows))
    known = None
    if max_time is not None:
        known, sizes = known_importances(model, len(asked.names)), sizes.shrink(asked, order, limit)
    space = _Space.build(model, asked, sizes.n_background, sizes.n_rows, rng)
    chosen = space.choose_features(features, sizes.n_features, order, rng, known)
    every = list(itertools.combinations(chosen, order))
    with show_progress(progress):
        effects = space.effects(chosen, order, limit)
    sets = [one for one in every if one in effects.effects]
    h, shares = zip(*(effects.sizes(one) for one in sets), strict=True)
    p_values = None if y is None else effects.p_values(sets, int(n_permutations), rng)

    def names_of(some: Sequence[Sets]) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(asked.names[k] for k in one) for one in some)

    return Interactions(
        order=int(order),
        n_features=len(asked.names),
        features=tuple(asked.names[k] for k in chosen),
        sets=names_of(sets),
        h=np.array(h),
        shares=np.array(shares),
        p_values=p_values,
        n_rows=len(space.rows),
        n_background=len(space.background),
        n_permutations=int(n_permutations),
        n_row_groups=0 if asked.groups is None else len(np.unique(asked.groups[space.rows])),
        exact=space.dependence.exact,
        unfinished=names_of(every[len(sets) :]),
    )


@dataclass(frozen=True)
class _Sizes:
    """How many features are looked at, and rows of the background and to evaluate at."""

    n_features: int
    n_background: int
    n_rows: int

    def shrink(self, asked: EvaluationData, order: int, limit: TimeLimit) -> _Sizes:
        """Return sizes that there is time for, by how long a few predictions take."""
        some, predict = asked.rows[:_PROBED], asked.parts[0].predict
        predict(some[:2])  # the first call also prepares the model
        begun = time.perf_counter()
        predict(some)
        seconds = max(time.perf_counter() - begun, _TINY) / len(some)
        budget = _SHARE * limit.remaining / seconds
        for count in range(min(self.n_features, len(asked.names)), order - 1, -1):
            n_sets = sum(math.comb(count, size) for size in range(order + 1))
            if budget >= _ENOUGH * n_sets or count == order:
                break
        each = budget / n_sets
        background = min(max(int((each / _ROWS_EACH) ** 0.5), _LEAST_BACKGROUND), self.n_background)
        rows = min(max(int(each / background), _LEAST_ROWS), self.n_rows)
        return _Sizes(min(self.n_features, max(count, order)), background, rows)


@dataclass(frozen=True, eq=False)
class _Space:
    """The rows to evaluate at, the background, and the partial dependence."""

    asked: EvaluationData
    estimator: Any
    rows: np.ndarray  # numbers
    background: np.ndarray
    dependence: Dependence

    @classmethod
    def build(
        cls,
        model: Any,
        asked: EvaluationData,
        n_background: int,
        max_rows: int,
        rng: np.random.RandomState,
    ) -> _Space:
        n = len(asked)
        if n < 8:
            msg = f"expected at least 8 rows, got {n}"
            raise ValueError(msg)
        order = rng.permutation(n)
        count = min(n_background, n // 2)
        background, rows = order[:count], np.sort(order[count : count + max_rows])
        estimator = model.estimator if hasattr(model, "reader") else model
        predict = asked.parts[0].predict

        def values(X: np.ndarray) -> np.ndarray:
            found = predict(X)
            return found if asked.is_regression else _log_odds(found)

        some, weights = asked.rows[background], asked.judge.weights[background]
        dependence = make_dependence(estimator, asked.rows[rows], some, values, weights)
        return cls(asked, estimator, rows, background, dependence)

    def choose_features(
        self,
        features: Sequence[Any] | None,
        count: int,
        order: int,
        rng: np.random.RandomState,
        known: np.ndarray | None,
    ) -> list[int]:
        """Return the numbers of the features to test, in their order; by known importances."""
        names = self.asked.names
        if features is not None:
            found = sorted({feature_index(one, names) for one in features})
        else:
            found = self._candidate_features(order)
            if len(found) > count:
                moves = np.array(
                    [self._prediction_change(k, rng) if known is None else known[k] for k in found]
                )
                found = sorted(np.array(found)[np.argsort(-moves, kind="stable")[:count]].tolist())
        if len(found) < order:
            msg = f"expected at least {order} features, got {len(found)}"
            raise ValueError(msg)
        return found

    def _candidate_features(self, order: int) -> list[int]:
        """Return the features that a selection found, or all if these are too few."""
        everything = list(range(len(self.asked.names)))
        if not hasattr(self.estimator, "get_support"):
            return everything
        support = self.estimator.get_support(indices=True).tolist()
        whole = len(self.estimator.get_support()) == len(everything)
        return support if whole and len(support) >= order else everything

    def _prediction_change(self, feature: int, rng: np.random.RandomState) -> float:
        """Return the change of predictions when one feature is shuffled."""
        asked, columns = self.asked, self.asked.column_numbers([feature])
        X, weights = asked.rows[self.rows], asked.judge.weights[self.rows]
        return mean_squared_change(asked.parts[0].predict, X, columns, weights, rng)

    def effects(self, features: Sequence[int], order: int, limit: TimeLimit) -> _Effects:
        """Evaluate the effects of all sets of features up to a size."""
        columns = {k: self.asked.column_numbers([k]) for k in features}
        averages: dict[Sets, np.ndarray] = {
            (): self.dependence.evaluate(np.zeros(0, dtype=np.int64))
        }
        found: dict[Sets, np.ndarray] = {(): averages[()]}

        def evaluate(one: Sets) -> None:
            parts = [found[part] for part in _proper_subsets(one)]
            if len(one) > 1 and not self.dependence.may_interact([columns[k] for k in one]):
                effect = np.zeros_like(averages[()])
                averages[one] = np.sum(parts, axis=0)
            else:
                averages[one] = self.dependence.evaluate(np.concatenate([columns[k] for k in one]))
                effect = averages[one] - np.sum(parts, axis=0)
            found[one] = effect

        for size in range(1, order):
            for one in itertools.combinations(features, size):
                evaluate(one)
        every = list(itertools.combinations(features, order))
        map_with_progress("interactions", every, evaluate, limit)
        return _Effects(self.asked, self.rows, order, found, averages)


@dataclass(frozen=True, eq=False)
class _Effects:
    """Effects of sets of features at all rows, by inclusion and exclusion."""

    asked: EvaluationData
    rows: np.ndarray
    order: int
    effects: dict[Sets, np.ndarray]  # (n, t)
    averages: dict[Sets, np.ndarray]

    @property
    def weights(self) -> np.ndarray:
        """Weights of the rows (n, 1)."""
        return self.asked.judge.weights[self.rows, None]

    @property
    def row_groups(self) -> np.ndarray | None:
        """The groups (n,) of the rows, where they are known."""
        return None if self.asked.groups is None else self.asked.groups[self.rows]

    def sizes(self, one: Sets) -> tuple[float, float]:
        """Return H of a set, and its share of the variance of all effects."""
        effect = _centered_sum_of_squares(self.effects[one], self.weights)
        everything = _centered_sum_of_squares(
            np.sum(list(self.effects.values()), axis=0), self.weights
        )
        if effect <= _ZERO**2 * max(everything, _TINY):
            return 0.0, 0.0
        own = max(_centered_sum_of_squares(self.averages[one], self.weights), _TINY)
        return float(np.sqrt(effect / own)), float(effect / max(everything, _TINY))

    def p_values(self, sets: Sequence[Sets], count: int, rng: np.random.RandomState) -> np.ndarray:
        """Return the p-values of effects; 1 for effects that are 0."""
        some = [k for k, one in enumerate(sets) if self.sizes(one)[0] > 0]
        found = np.ones(len(sets))
        if some:
            scores = [self._alone(sets[k]) for k in some]
            groups = self.row_groups
            found[some] = (
                score_p_values(scores, count, rng)
                if groups is None
                else score_p_values_of_groups(scores, groups, count, rng)
            )
        return found

    def _alone(self, one: Sets) -> Score:
        """Return an effect and the residuals, without functions of fewer features.

        Times the roots of the weights, with which errors are as large in every row.
        """
        X = self.asked.rows[self.rows]
        # Means over a background err by functions of fewer features, of any shape
        fewer = additive_basis if self.order == 2 else pairwise_basis
        groups = self.row_groups
        basis = [fewer([X[:, self.asked.column_numbers([k])] for k in one], groups)]
        basis += [self.effects[part] for part in _proper_subsets(one) if len(part) > 1]
        truth, effect = self.asked.judge.truth[self.rows], self.effects[one]
        rest = {part: f for part, f in self.effects.items() if part != one}
        others, roots = np.sum(list(rest.values()), axis=0), np.sqrt(self.weights)
        if self.asked.is_regression:
            left = roots * (truth - others) / self.asked.squares.scale**2
            whole = roots * np.concatenate(basis, axis=1)
            return Score.residualize(whole, roots * effect, left, groups)
        # The efficient score: to first order it does not matter how wrong the other effects are
        shares = softmax(others, axis=1)
        whole = np.concatenate([*basis, *rest.values()], axis=1)
        alone = project_out(whole, effect, self.weights * shares * (1.0 - shares))
        left = roots * (truth - shares)
        return Score(roots * alone, left, left)


def _proper_subsets(one: Sets) -> list[Sets]:
    """Return all proper subsets of a set, the empty one first."""
    return [part for k in range(len(one)) for part in itertools.combinations(one, k)]


def _centered_sum_of_squares(effect: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted sum of squares of a centred effect (n, t)."""
    middle = np.sum(weights * effect, axis=0) / np.sum(weights)
    return float(np.sum(weights * (effect - middle) ** 2))


def _log_odds(probabilities: np.ndarray) -> np.ndarray:
    """Return the logarithms of probabilities (n, k), centred over the classes."""
    logs = np.log(np.maximum(probabilities, _FLOOR))
    return logs - logs.mean(axis=1, keepdims=True)
