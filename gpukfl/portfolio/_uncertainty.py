"""Uncertainty of a blend: intervals and quantiles from held-out residuals."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from gpukfl.core._annotations import Count, Doubles, Integers
from gpukfl.core._array import to_host
from gpukfl.core._lazy import OldName
from gpukfl.core._random import preserve_rng_state
from gpukfl.estimators.scaling import RobustScaling
from gpukfl.kernels import ManhattanLaplace, median_distance
from gpukfl.methods import (
    KernelRidge,
    KernelRidgeFit,
    can_cover,
    check_share,
    conformal_weight,
    unit_weights,
    weighted_quantile,
)
from gpukfl.partitioned._rows import Rows
from gpukfl.tables._relations import deal_groups

# ------------------------------------------------------------------------------- quantiles

_BLOCK = 2**14  # new rows in a search


@dataclass(frozen=True, eq=False)
class SortedGroups:
    r"""Sorted values in groups, for quantiles of shifted and scaled groups.

    A new row has a centre :math:`c_g` and a spread :math:`s_g` for each group. Its quantile is that
    of all :math:`c_g + s_g v` with v in group g. Groups stay sorted, so that n values and m rows
    need no n x m table.

    Attributes
    ----------
    values : tuple of arrays (n_g,)
        Values in ascending order.
    sums : tuple of arrays (n_g + 1,)
        Cumulative sums of their weights, from 0.
    """

    values: tuple[np.ndarray, ...]
    sums: tuple[np.ndarray, ...]

    @classmethod
    def sort(
        cls, values: np.ndarray, groups: np.ndarray, n_groups: int, weights: np.ndarray, /
    ) -> SortedGroups:
        """Sort `values` (n,) in `groups` (n,) 0, ..., n_groups - 1."""
        orders = [np.flatnonzero(groups == g) for g in range(n_groups)]
        orders = [rows[np.argsort(values[rows], kind="stable")] for rows in orders]
        return cls(
            tuple(values[rows] for rows in orders),
            tuple(np.concatenate([[0.0], np.cumsum(weights[rows])]) for rows in orders),
        )

    def quantile(self, centers: np.ndarray, spreads: np.ndarray, wanted: float, /) -> np.ndarray:
        """Return the weighted quantile for every new row.

        Parameters
        ----------
        centers, spreads : arrays, shape (G, m)
            Centres and positive spreads of the groups at the new rows.
        wanted : float
            Cumulative weight of the quantile, at most the sum of the weights.

        Returns
        -------
        array, shape (m,)
            One of the shifted and scaled values, up to rounding. O(m G log(n / G)) for groups of
            similar sizes.
        """
        m = centers.shape[1]
        starts = range(0, m, _BLOCK)
        found = [
            self._search(centers[:, i : i + _BLOCK], spreads[:, i : i + _BLOCK], wanted)
            for i in starts
        ]
        return np.concatenate(found) if found else np.empty(0)

    def _search(self, centers: np.ndarray, spreads: np.ndarray, wanted: float) -> np.ndarray:
        """Find the quantiles by bisection of the longest group."""
        n_groups, m = centers.shape
        best = np.full(m, np.inf)
        low = np.zeros((n_groups, m), dtype=np.int64)
        high = np.repeat(np.array([[len(v)] for v in self.values]), m, axis=1)
        rows = np.arange(m)  # whose search has not ended
        while len(rows):
            longest = np.argmax(high - low, axis=0)
            columns = np.arange(len(rows))
            middle = (low[longest, columns] + high[longest, columns]) // 2
            own = longest[None, :] == np.arange(n_groups)[:, None]
            c, s = centers[:, rows], spreads[:, rows]
            pivot = c[longest, columns] + s[longest, columns] * self._get_values(longest, middle)
            below, upto = self._ranks((pivot - c) / s)
            # The rank of the pivot in its group is known; rounding may give another
            below = np.where(own, np.minimum(below, middle), below)
            upto = np.where(own, np.maximum(upto, middle + 1), upto)
            enough = sum(r[k] for r, k in zip(self.sums, upto, strict=True)) >= wanted
            best[rows[enough]] = np.minimum(best[rows[enough]], pivot[enough])
            high = np.where(enough, np.minimum(high, below), high)
            low = np.where(enough, low, np.maximum(low, upto))
            open_ = (high > low).any(axis=0)
            rows, low, high = rows[open_], low[:, open_], high[:, open_]
        return best

    def _get_values(self, groups: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Return the value index[k] of group groups[k]."""
        begins = np.cumsum([0, *(len(v) for v in self.values[:-1])])
        return np.concatenate(self.values)[begins[groups] + index]

    def _ranks(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return how many of each group are below values (G, m), and how many at or below."""
        pairs = list(zip(self.values, values, strict=True))
        return (
            np.stack([np.searchsorted(v, x, side="left") for v, x in pairs]),
            np.stack([np.searchsorted(v, x, side="right") for v, x in pairs]),
        )


# ------------------------------------------------------------------------------- residuals

# Prediction intervals and quantiles from out-of-fold residuals and the models of the folds.
#
# With :math:`\mu_k` the model that has not seen fold k, :math:`\sigma_k` the spread that has not
# seen its residuals, :math:`R_i = |y_i - \mu_{k(i)}(x_i)| / \sigma_{k(i)}(x_i)` and
# :math:`q_{n,\alpha}` the :math:`\lceil (n + 1)(1 - \alpha) \rceil` smallest of n values, the CV+
# interval is
#
# .. math:: \bigl[ -q_{n,\alpha}\{\sigma_{k(i)}(x) R_i - \mu_{k(i)}(x)\},\;
#                  q_{n,\alpha}\{\mu_{k(i)}(x) + \sigma_{k(i)}(x) R_i\} \bigr],
#
# the interval (12) of Barber, Candès, Ramdas and Tibshirani, "Predictive inference with the
# jackknife+", Annals of Statistics 49, 2021, whose spread is 1. One model for all rows is the
# split conformal interval.


@dataclass(frozen=True, eq=False)
class Residuals:
    """Held-out residuals, divided by their spreads.

    Attributes
    ----------
    scores : array (n, t)
        ``(y - prediction) / spread``.
    groups : array of int (n,)
        Group of each residual: the number of its centre and spread at a new row.
    n_groups : int
        Number of groups.
    weights : array (n,)
        Weights in units of a new row's weight; see `unit_weights`.
    """

    scores: Annotated[np.ndarray, Doubles("n_judges", "n_targets")]
    groups: Annotated[np.ndarray, Integers("n_judges")]
    n_groups: Annotated[int, Count()]
    weights: Annotated[np.ndarray, Doubles("n_judges")]

    @classmethod
    def standardize(
        cls,
        residuals: np.ndarray,
        groups: np.ndarray,
        /,
        *,
        spreads: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> Residuals:
        """Divide residuals by their spreads.

        Parameters
        ----------
        residuals : host array, shape (n, t)
            Targets less predictions. The model of each prediction has not seen the row.
        groups : host array of int, shape (n,)
            Number of that model: 0, ..., G - 1.
        spreads : host array, shape (n, t), optional
            Positive spreads; 1 by default.
        weights : host array, shape (n,), optional
            Sample weights, at least 0.

        Raises
        ------
        ValueError
            If shapes disagree, residuals are not finite or spreads not positive.
        """
        residuals = np.asarray(residuals, dtype=np.float64)
        spreads = np.ones_like(residuals) if spreads is None else np.asarray(spreads)
        shapes = residuals.shape, np.shape(groups), spreads.shape
        if residuals.ndim != 2 or shapes[1:] != (residuals.shape[:1], residuals.shape):
            msg = f"expected residuals (n, t), groups (n,) and spreads (n, t), got {shapes}"
            raise ValueError(msg)
        groups = np.asarray(groups)
        check_target_values(residuals, spreads)
        scores = residuals / spreads
        return cls(scores, groups, int(groups.max()) + 1, unit_weights(weights, len(scores)))

    def count_less(self, together: np.ndarray | None, /) -> Residuals:
        r"""Return the residuals with weights that sum to the number of independent rows.

        Let a group have m rows, whose sizes of residuals have correlation :math:`\rho`. Their mean
        is as certain as that of :math:`m / (1 + (m - 1) \rho)` independent rows (Kish, "Survey
        Sampling", 1965, 5.4).
        """
        if together is None:
            return self
        return replace(self, weights=self.weights * _effective_share(np.abs(self.scores), together))

    @property
    def is_sound(self) -> bool:
        """Whether the values of the residuals are valid."""
        w = self.weights
        finite = bool(np.isfinite(self.scores).all() and np.isfinite(w).all())
        return finite and bool((w >= 0).all() and w.any())

    def interval(
        self, centers: np.ndarray, spreads: np.ndarray | None = None, /, *, coverage: float
    ) -> np.ndarray:
        r"""Return CV+ intervals.

        Parameters
        ----------
        centers : host array, shape (G, m, t)
            Predictions for new rows.
        spreads : host array, shape (G, m, t), optional
            Spreads at the new rows; 1 by default.
        coverage : float
            :math:`1 - \alpha`, in (0, 1).

        Returns
        -------
        array, shape (m, t, 2)
            Lower and upper ends.

        Raises
        ------
        ValueError
            If `coverage` is outside (0, 1), shapes disagree or values are not finite. If the rows
            are too few for `coverage`, the message gives the number needed.

        Notes
        -----
        Let rows be exchangeable, and let spreads not depend on the residuals. Intervals then cover
        a row with a probability of at least :math:`1 - 2\alpha`, and of :math:`1 - \alpha` with one
        group. In practice the probability is about :math:`1 - \alpha`. With weights the quantiles
        are weighted, and a new row has the effective mean weight. The ends of an interval may cross
        if models disagree; they are then swapped. The cost is O(m G log n).
        """
        check_share("coverage", coverage)
        wanted = conformal_weight(coverage, float(self.weights.sum()))
        centers, spreads = self._check_values(centers, spreads)
        ends = []
        for c in range(self.scores.shape[1]):
            sizes = self._sort_groups(np.abs(self.scores[:, c]))
            lower = -sizes.quantile(-centers[:, :, c], spreads[:, :, c], wanted)
            upper = sizes.quantile(centers[:, :, c], spreads[:, :, c], wanted)
            ends.append(np.stack([np.minimum(lower, upper), np.maximum(lower, upper)], axis=1))
        return np.stack(ends, axis=1)

    def quantiles(
        self,
        centers: np.ndarray,
        spreads: np.ndarray | None = None,
        /,
        *,
        levels: Sequence[float],
    ) -> np.ndarray:
        r"""Return quantiles of the cross-conformal predictive distribution.

        The points of the distribution are :math:`\mu_{k(i)}(x) + \sigma_{k(i)}(x)\, r_i` with the
        signed scores :math:`r_i` (Vovk, Nouretdinov, Manokhin and Gammerman, "Cross-conformal
        predictive distributions", 2018). For levels above one half, the quantile is the
        :math:`\lceil (n + 1) \tau \rceil` smallest point. For levels below one half, it is the same
        point counted from above. At one half it is the mean of both.

        Parameters
        ----------
        centers, spreads : host arrays, shape (G, m, t)
            As for `interval`.
        levels : sequence of float (q,)
            Levels in (0, 1).

        Returns
        -------
        array, shape (m, t, q)
            Quantiles, ascending where the levels are.

        Raises
        ------
        ValueError
            As for `interval`, for each level and for one less the level.
        """
        if np.ndim(levels) != 1 or not len(levels):
            msg = f"expected levels to be a sequence of at least one number, got {levels!r}"
            raise ValueError(msg)
        for level in levels:
            check_share("levels", level)
        total = float(self.weights.sum())
        wanted = [conformal_weight(max(level, 1.0 - level), total) for level in levels]
        centers, spreads = self._check_values(centers, spreads)
        found = np.empty((*centers.shape[1:], len(wanted)))
        for c in range(self.scores.shape[1]):
            place = centers[:, :, c], spreads[:, :, c]
            above, below = (
                self._sort_groups(self.scores[:, c]),
                self._sort_groups(-self.scores[:, c]),
            )
            for k, (level, weight) in enumerate(zip(levels, wanted, strict=True)):
                ends = []
                if level >= 0.5:
                    ends.append(above.quantile(*place, weight))
                if level <= 0.5:
                    ends.append(-below.quantile(-place[0], place[1], weight))
                found[:, c, k] = np.mean(ends, axis=0)
        return found

    def _sort_groups(self, values: np.ndarray) -> SortedGroups:
        return SortedGroups.sort(values, self.groups, self.n_groups, self.weights)

    def _check_values(
        self, centers: np.ndarray, spreads: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        centers = np.asarray(centers, dtype=np.float64)
        spreads = np.ones_like(centers) if spreads is None else np.asarray(spreads)
        expected = self.n_groups, *centers.shape[1:2], self.scores.shape[1]
        if centers.shape != expected or spreads.shape != expected:
            msg = (
                f"expected centers and spreads ({self.n_groups}, m, {self.scores.shape[1]}), "
                f"got {centers.shape} and {spreads.shape}"
            )
            raise ValueError(msg)
        check_target_values(centers, spreads)
        return centers, spreads

    of = OldName("standardize")


def check_target_values(values: np.ndarray, spreads: np.ndarray, /) -> None:
    """Raise ValueError unless values are finite, and spreads positive too."""
    if not np.isfinite(values).all():
        bad = int(np.count_nonzero(~np.isfinite(values)))
        msg = f"expected finite residuals and predictions, got {bad} NaN or infinite"
        raise ValueError(msg)
    if not all_positive(spreads):
        msg = f"expected positive, finite spreads, got a smallest of {spreads.min():g}"
        raise ValueError(msg)


def all_positive(values: np.ndarray, /) -> bool:
    """Whether all values are positive and finite."""
    return bool((np.isfinite(values) & (values > 0)).all())


# ---------------------------------------------------------------------------------- spread

# The spread is the expected size of the residual of a row.
#
# Kernel ridge regression smooths the square roots of absolute residuals, which are close to normal
# if residuals are. The spread is the square of its prediction. Of the ridges with about equal
# leave-one-out errors, the largest is taken. If no rows are clearly noisier, the spread is nearly
# constant.


CENTERS = 300
_SAMPLE = 500  # rows that give the lengthscale
_MAX_ROWS = 5_000  # that the smooth function is fitted to
_MIN_ROOT = 0.2  # smallest predicted root, as a share of the mean root


@dataclass(frozen=True, eq=False)
class Spread:
    """A model of the expected size of residuals, up to a factor.

    The model predicts the root of a residual's absolute value.

    Attributes
    ----------
    scaling : array (3, d)
        Median, factor and bound of the columns; see `RobustScaling`.
    lengthscale : float
        Lengthscale of the kernel, a product of Laplace kernels.
    Z : array (q, d)
        Centres of the kernel.
    alpha : array (q, t)
        Dual coefficients. They are fitted to the roots, less their mean and divided by it.
    size : array (t,)
        Square of the mean root for each target; positive.
    """

    scaling: Annotated[np.ndarray, Doubles(3, "n_columns")]
    lengthscale: float
    Z: Annotated[np.ndarray, Doubles("n_centers", "n_columns")]
    alpha: Annotated[np.ndarray, Doubles("n_centers", "n_targets")]
    size: Annotated[np.ndarray, Doubles("n_targets")]

    @classmethod
    def fit(
        cls,
        X: np.ndarray,
        residuals: np.ndarray,
        weights: np.ndarray | None = None,
        /,
        *,
        rng: np.random.RandomState,
        n_centers: int = CENTERS,
    ) -> Spread:
        """Fit the model to rows and their residuals.

        Parameters
        ----------
        X : host array, shape (n, d)
            Finite numbers that may predict the size of residuals. n is at least 2.
        residuals : host array, shape (n, t)
            Residuals of rows that the fits have not seen.
        weights : host array, shape (n,), optional
            Sample weights, positive.
        rng : RandomState
            Draws the centres.
        n_centers : int
            Number q of centres; all rows if there are fewer.

        Returns
        -------
        Spread
            The fitted model. The cost is O(n q² + q³) for n up to 5000; more rows are sampled to
            5000.
        """
        if len(X) > _MAX_ROWS:
            rows = np.sort(rng.choice(len(X), _MAX_ROWS, replace=False))
            X, residuals = X[rows], residuals[rows]
            weights = None if weights is None else weights[rows]
        w = None if weights is None else weights / weights.mean()
        scaling = RobustScaling.fit(Rows(X, np.empty(0)), w)
        Z, roots = to_host(scaling(X)), np.sqrt(np.abs(residuals))
        mean = np.average(roots, axis=0, weights=w)
        unit = np.where(mean > 0, mean, 1.0)
        sample = Z[rng.permutation(len(Z))[:_SAMPLE]]
        lengthscale = median_distance(sample, norm="manhattan")
        method = KernelRidge(
            ManhattanLaplace(lengthscale), n_centers=min(n_centers, len(Z)), cautious=True
        )
        fit = method.fit(
            Rows(Z, np.empty(0)), (roots - mean) / unit, None if w is None else w[:, None], rng
        )
        columns = np.stack([to_host(a) for a in (scaling.median, scaling.factor, scaling.bound)])
        # In the memory order of model files, on which the rounding of products depends
        centers, alpha = (np.ascontiguousarray(to_host(one)) for one in (fit.Z, fit.alpha))
        return cls(columns, lengthscale, centers, alpha, unit**2)

    @property
    def is_sound(self) -> bool:
        """Whether the values of the model are valid."""
        arrays = (self.scaling, self.Z, self.alpha, self.size)
        finite = all(bool(np.isfinite(array).all()) for array in arrays)
        return finite and self.lengthscale > 0 and bool((self.size > 0).all())

    def __call__(self, X: np.ndarray, /) -> np.ndarray:
        """Return the expected size of residuals (m, t) at rows (m, d), positive."""
        fit = KernelRidgeFit(ManhattanLaplace(self.lengthscale), self.Z, self.alpha, "direct")
        Z = to_host(RobustScaling(*self.scaling)(X))
        roots = 1.0 + to_host(fit.predict(Rows(Z, np.empty(0))))
        return self.size * np.maximum(roots, _MIN_ROOT) ** 2

    of = OldName("fit")


# ------------------------------------------------------------------------------- intervals

_PROBE_ROWS = 60  # of the spread whose fit measures the time
_OVERHEAD = 4.0  # divides the time that the probe suggests: much of its own is overhead
_PARTS = 5  # of the held-out rows of one fold
_MIN_ROWS = 20  # from which spreads are fitted
_ROWS_PER_CENTER = 2  # a spread is smooth: more centres change no interval by 1 %


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Residuals and spread models for intervals at new rows.

    Attributes
    ----------
    residuals : Residuals
        Residuals divided by `sizes`.
    sizes : array (n, t)
        Spreads of the residuals.
    spreads : list of Spread
        One model for each group of residuals, learned from the other groups. The list is empty if
        the spread is 1.
    models : array of int (G,)
        Number of the fold model that predicts for each group.
    """

    residuals: Residuals
    sizes: Annotated[np.ndarray, Doubles("n_judges", "n_targets")]
    spreads: list[Spread]
    models: Annotated[np.ndarray, Integers("n_groups")]

    @classmethod
    def fit(
        cls,
        X: np.ndarray,
        Y: np.ndarray,
        predicted: np.ndarray,
        folds: np.ndarray,
        weights: np.ndarray | None = None,
        /,
        *,
        rng: np.random.RandomState,
        max_time: float | None = None,
        together: np.ndarray | None = None,
    ) -> Uncertainty:
        """Fit spreads to out-of-fold residuals, and standardise the residuals.

        Parameters
        ----------
        X : host array, shape (n, d)
            Finite rows. Each row is unseen by some model.
        Y, predicted : host arrays, shape (n,) or (n, t)
            Targets, and out-of-fold predictions for them.
        folds : host array of int, shape (n,)
            Number of the fold model of each prediction: 0, ..., K - 1. A single hold-out has K = 1.
            Its rows are split at random into five parts, so that no spread sees its own residuals.
        weights : host array, shape (n,), optional
            Sample weights.
        rng : RandomState
            Draws these parts, and the centres of the spreads.
        max_time : float, optional
            Seconds for spreads. The spread is 1, which takes no time, if `max_time` is 0 or the
            first spreads predict a longer time for all. It is always 1 below 20 rows.
        together : host array of int, shape (n,), optional
            Groups of rows with similar residuals. Quantiles count them as fewer rows. The parts of
            a single hold-out are whole groups.

        Returns
        -------
        Uncertainty
            The fitted value. The cost is O(K (n q² + q³)) with q = 300, or half the rows if that is
            less.

        Raises
        ------
        ValueError
            If shapes disagree or values are not finite.
        """
        Y, predicted = _as_2d(Y), _as_2d(predicted)
        if Y.shape != predicted.shape or {len(X), len(folds)} != {len(Y)}:
            shapes = X.shape, Y.shape, predicted.shape, np.shape(folds)
            msg = f"expected X (n, d), Y and predicted (n, t) and folds (n,), got {shapes}"
            raise ValueError(msg)
        residuals = Y - predicted
        check_target_values(residuals, np.ones(1))
        n_models = int(np.max(folds)) + 1
        groups, models = _spread_groups(folds, n_models, rng, together)
        Z, used = np.concatenate([X, predicted], axis=1), unit_weights(weights, len(Y))
        seen = (used > 0) & (groups != np.arange(len(models))[:, None])
        n_centers = min(CENTERS, int(seen.sum(axis=1).min()) // _ROWS_PER_CENTER)

        def learn_spread(rows: np.ndarray, count: int = n_centers) -> Spread:
            return Spread.fit(Z[rows], residuals[rows], used[rows], rng=rng, n_centers=count)

        def time_few_rows(rows: np.ndarray) -> float:
            """Return the expected seconds of a full spread, from one of few rows."""
            few = np.flatnonzero(rows)[:: max(np.count_nonzero(rows) // _PROBE_ROWS, 1)]
            count = max(min(n_centers, len(few) // _ROWS_PER_CENTER), 1)
            begun = time.perf_counter()
            with preserve_rng_state(rng):
                learn_spread(few, count)
            ratio = np.count_nonzero(rows) * n_centers / (len(few) * count)
            return (time.perf_counter() - begun) * max(ratio / _OVERHEAD, 1.0)

        spreads = []
        if len(Y) >= _MIN_ROWS:
            spreads = _learn_spreads(learn_spread, time_few_rows, seen, max_time)
        if not spreads:
            plain = Residuals.standardize(residuals, folds, weights=weights)
            return cls(plain.count_less(together), np.ones_like(residuals), [], np.arange(n_models))
        sizes = np.empty_like(residuals)
        for g, spread in enumerate(spreads):
            sizes[groups == g] = spread(Z[groups == g])
        scaled = Residuals.standardize(residuals, groups, spreads=sizes, weights=weights)
        return cls(scaled.count_less(together), sizes, spreads, models)

    def is_sound(self, n_features: int, n_models: int, /) -> bool:
        """Whether the values are valid for these numbers of columns and fold models."""
        kept, n_groups = self.residuals, len(self.models)
        whole = (self.models, n_models), (kept.groups, n_groups)
        columns = n_features + self.sizes.shape[1]
        return (
            kept.is_sound
            and kept.n_groups == n_groups
            and self.sizes.shape == kept.scores.shape
            and all(bool(((a >= 0) & (a < count)).all()) for a, count in whole)
            and int(self.models.max()) + 1 == n_models
            and all_positive(self.sizes)
            and len(self.spreads) in (0, n_groups)
            and all(one.is_sound and one.Z.shape[1] == columns for one in self.spreads)
        )

    def interval(
        self, X: np.ndarray, predictions: np.ndarray, /, *, coverage: float = 0.9
    ) -> np.ndarray:
        """Return intervals for new rows.

        Parameters
        ----------
        X : host array, shape (m, d)
            New rows.
        predictions : host array, shape (K, m) or (K, m, t)
            Predictions of every fold model.
        coverage : float
            Target share of intervals that hold their target, in (0, 1).

        Returns
        -------
        array, shape (m, 2) or (m, t, 2)
            Lower and upper ends, equally far from the mean of the predictions.

        Raises
        ------
        ValueError
            As `Residuals.interval`.

        Notes
        -----
        The intervals are those of `Residuals.interval`, with the mean of all models in place of
        each model. The guarantee for several models is thereby lost. Models that hardly differ give
        the same intervals. Where models differ, the mean has a squared error that is lower by their
        variance.
        """
        found = self.residuals.interval(
            *self._centers_and_spreads(X, predictions), coverage=coverage
        )
        return found[:, 0] if np.ndim(predictions) == 2 else found

    def quantiles(
        self, X: np.ndarray, predictions: np.ndarray, /, *, levels: Sequence[float]
    ) -> np.ndarray:
        """Return quantiles for new rows.

        Parameters
        ----------
        X, predictions : host arrays
            As for `interval`.
        levels : sequence of float (q,)
            Levels in (0, 1).

        Returns
        -------
        array, shape (m, q) or (m, t, q)
            Quantiles, ascending where the levels are.

        Raises
        ------
        ValueError
            As `Residuals.quantiles`.
        """
        found = self.residuals.quantiles(*self._centers_and_spreads(X, predictions), levels=levels)
        return found[:, 0] if np.ndim(predictions) == 2 else found

    def can_cover(self, coverage: float, /) -> bool:
        """Whether there are enough rows for a coverage in (0, 1)."""
        return can_cover(coverage, float(self.residuals.weights.sum()))

    def held_out(self, predicted: np.ndarray, /, *, coverage: float = 0.9) -> np.ndarray:
        """Return intervals for the held-out rows themselves.

        Parameters
        ----------
        predicted : host array, shape (n,) or (n, t)
            Out-of-fold predictions of these rows.
        coverage : float
            Share of these rows whose interval holds the target, or slightly more.

        Returns
        -------
        array, shape (n, 2) or (n, t, 2)
            The prediction, less and plus its spread times one quantile of all scores.

        Raises
        ------
        ValueError
            If `coverage` is outside (0, 1) or the rows are too few for it.
        """
        check_share("coverage", coverage)
        weights, scores = self.residuals.weights, np.abs(self.residuals.scores)
        wanted = conformal_weight(coverage, float(weights.sum()))
        factors = [weighted_quantile(column, weights, wanted) for column in scores.T]
        reach = self.sizes * np.array(factors)
        found = np.stack([_as_2d(predicted) - reach, _as_2d(predicted) + reach], axis=2)
        return found[:, 0] if np.ndim(predicted) == 1 else found

    def _centers_and_spreads(
        self, X: np.ndarray, predictions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return centres and spreads of every group at new rows, with equal centres.

        The mean of the models errs less than each. Intervals about each would be too wide.
        """
        predictions = np.asarray(predictions, dtype=np.float64)
        if predictions.ndim == 2:
            predictions = predictions[:, :, None]
        n_models, t = int(self.models.max()) + 1, self.residuals.scores.shape[1]
        if predictions.shape != (n_models, len(X), t):
            msg = (
                f"expected predictions of {n_models} fold models for {len(X)} rows and {t} "
                f"targets, ({n_models}, {len(X)}, {t}), got {predictions.shape}"
            )
            raise ValueError(msg)
        check_target_values(predictions, np.ones(1))
        own = predictions[self.models]
        mean = sum(predictions) / n_models  # summed in this order for any memory layout
        centers = np.broadcast_to(mean, own.shape)
        if not self.spreads:
            return centers, None
        pairs = zip(self.spreads, own, strict=True)
        sizes = [spread(np.concatenate([X, center], axis=1)) for spread, center in pairs]
        return centers, np.stack(sizes)

    of = OldName("fit")


def _learn_spreads(
    learn: Callable[[np.ndarray], Spread],
    seconds: Callable[[np.ndarray], float],
    parts: np.ndarray,
    max_time: float | None,
) -> list[Spread]:
    """Fit a spread to each part, or none if time is short; `seconds` estimates that of one."""
    begun, found = time.perf_counter(), list[Spread]()
    if max_time is not None and (max_time <= 0 or seconds(parts[0]) * len(parts) >= max_time):
        return []
    for rows in parts:
        took = time.perf_counter() - begun
        if max_time is not None and took * len(parts) >= max_time * max(len(found), 1):
            return []
        found.append(learn(rows))
    return found


def _spread_groups(
    folds: np.ndarray, n_models: int, rng: np.random.RandomState, together: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the groups of residuals for spreads, and the model of each group."""
    if n_models > 1:
        return np.asarray(folds), np.arange(n_models)
    if together is not None and len(np.unique(together)) >= _PARTS:
        return deal_groups(together, _PARTS, rng), np.zeros(_PARTS, dtype=np.int64)
    parts = rng.permutation(len(folds)) % _PARTS
    return parts, np.zeros(_PARTS, dtype=np.int64)


def _effective_share(sizes: np.ndarray, together: np.ndarray) -> float:
    """Return the number of independent rows per row, from the ranks of sizes (n, t) in groups."""
    _, codes, counts = np.unique(together, return_inverse=True, return_counts=True)
    codes, n, n_groups = codes.reshape(-1), len(together), len(counts)
    if n_groups in (1, n):
        return 1.0 / n if n_groups == 1 else 1.0
    mean_size = float(np.sum(counts.astype(np.float64) ** 2)) / n
    typical_size = (n - mean_size) / (n_groups - 1.0)
    least = 1.0
    for column in sizes.T:
        ranks = np.argsort(np.argsort(column)) / n - 0.5
        means = np.bincount(codes, weights=ranks) / counts
        between = float(counts @ (means - ranks.mean()) ** 2) / (n_groups - 1.0)
        within = float(np.sum((ranks - means[codes]) ** 2)) / (n - n_groups)
        total = between + (typical_size - 1.0) * within
        shared = max((between - within) / total, 0.0) if total > 0 else 0.0
        least = min(least, 1.0 / (1.0 + (mean_size - 1.0) * shared))
    return least


def _as_2d(Y: np.ndarray) -> np.ndarray:
    Y = np.asarray(Y, dtype=np.float64)
    return Y[:, None] if Y.ndim == 1 else Y
