r"""Prediction intervals and quantiles from out-of-fold residuals and the models of the folds.

With :math:`\mu_k` the model that has not seen fold k, :math:`\sigma_k` the spread that has not seen
its residuals, :math:`R_i = |y_i - \mu_{k(i)}(x_i)| / \sigma_{k(i)}(x_i)` and
:math:`q_{n,\alpha}` the :math:`\lceil (n + 1)(1 - \alpha) \rceil` smallest of n values, the CV+
interval is

.. math:: \bigl[ -q_{n,\alpha}\{\sigma_{k(i)}(x) R_i - \mu_{k(i)}(x)\},\;
                 q_{n,\alpha}\{\mu_{k(i)}(x) + \sigma_{k(i)}(x) R_i\} \bigr],

the interval (12) of Barber, Candès, Ramdas and Tibshirani, "Predictive inference with the
jackknife+", Annals of Statistics 49, 2021, whose spread is 1. One model for all rows is the split
conformal interval.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpukfl.estimators._declared import DOUBLE, Declared, Fields, Items, Numbers, Whole
from gpukfl.methods import (
    can_cover,
    check_share,
    conformal_weight,
    unit_weights,
    weighted_quantile,
)
from gpukfl.portfolio._quantiles import SortedGroups
from gpukfl.portfolio._spread import CENTERS, Spread

_PARTS = 5  # of rows that one model has not seen, to fit spreads to the others
_FEWEST = 20  # rows from which spreads are fitted


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals of rows that their models have not seen, each in units of its spread.

    Attributes
    ----------
    scores : array (n, t)
        ``(y - prediction) / spread``.
    groups : array of int (n,)
        Which centre and spread of a new row each residual goes with.
    n_groups : int
        How many of these there are.
    weights : array (n,)
        In units of that of a new row; see `unit_weights`.
    """

    scores: np.ndarray
    groups: np.ndarray
    n_groups: int
    weights: np.ndarray
    fields: ClassVar[Mapping[str, Declared]] = {
        "scores": Numbers(DOUBLE, ("n_judges", "n_targets")),
        "groups": Numbers("i", ("n_judges",)),
        "n_groups": Whole("n_groups"),
        "weights": Numbers(DOUBLE, ("n_judges",)),
    }

    @classmethod
    def of(
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
            Targets less their predictions by models that have not seen the row.
        groups : host array of int, shape (n,)
            0, ..., G - 1: the number of that model.
        spreads : host array, shape (n, t), optional
            Positive; 1 by default.
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
        _check_values(residuals, spreads)
        scores = residuals / spreads
        return cls(scores, groups, int(groups.max()) + 1, unit_weights(weights, len(scores)))

    @property
    def is_sound(self) -> bool:
        """Whether its values are such as `of` makes."""
        w = self.weights
        finite = bool(np.isfinite(self.scores).all() and np.isfinite(w).all())
        return finite and bool((w >= 0).all() and w.any())

    def interval(
        self, centers: np.ndarray, spreads: np.ndarray | None = None, /, *, coverage: float
    ) -> np.ndarray:
        r"""Give CV+ intervals.

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
            If `coverage` is outside (0, 1) or the rows are too few for it, which says how many
            are needed; if shapes disagree or values are not finite.

        Notes
        -----
        Rows that are exchangeable are covered with a probability of at least
        :math:`1 - 2\alpha`, and of :math:`1 - \alpha` with one group, if spreads do not depend on
        the residuals; in practice of about :math:`1 - \alpha`. With weights the quantiles are
        weighted, with a new row of the effective mean weight. Ends that cross, which those of
        models that disagree may, change places. O(m G log n).
        """
        check_share("coverage", coverage)
        wanted = conformal_weight(coverage, float(self.weights.sum()))
        centers, spreads = self._checked(centers, spreads)
        ends = []
        for c in range(self.scores.shape[1]):
            sizes = self._sorted(np.abs(self.scores[:, c]))
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
        r"""Give quantiles of the cross-conformal predictive distribution.

        Its points are :math:`\mu_{k(i)}(x) + \sigma_{k(i)}(x)\, r_i` with the signed scores
        :math:`r_i` (Vovk, Nouretdinov, Manokhin and Gammerman, "Cross-conformal predictive
        distributions", 2018). Above one half a level's quantile is the
        :math:`\lceil (n + 1) \tau \rceil` smallest, below one half the same from above, and at
        one half the mean of both.

        Parameters
        ----------
        centers, spreads : host arrays, shape (G, m, t)
            As for `interval`.
        levels : sequence of float (q,)
            In (0, 1).

        Returns
        -------
        array, shape (m, t, q)
            Ascending where the levels are.

        Raises
        ------
        ValueError
            As for `interval`, for each level and for one less it.
        """
        if np.ndim(levels) != 1 or not len(levels):
            msg = f"expected levels to be a sequence of one number or more, got {levels!r}"
            raise ValueError(msg)
        for level in levels:
            check_share("levels", level)
        total = float(self.weights.sum())
        wanted = [conformal_weight(max(level, 1.0 - level), total) for level in levels]
        centers, spreads = self._checked(centers, spreads)
        found = np.empty((*centers.shape[1:], len(wanted)))
        for c in range(self.scores.shape[1]):
            place = centers[:, :, c], spreads[:, :, c]
            above, below = self._sorted(self.scores[:, c]), self._sorted(-self.scores[:, c])
            for k, (level, weight) in enumerate(zip(levels, wanted, strict=True)):
                ends = []
                if level >= 0.5:
                    ends.append(above.quantile(*place, weight))
                if level <= 0.5:
                    ends.append(-below.quantile(-place[0], place[1], weight))
                found[:, c, k] = np.mean(ends, axis=0)
        return found

    def _sorted(self, values: np.ndarray) -> SortedGroups:
        return SortedGroups.of(values, self.groups, self.n_groups, self.weights)

    def _checked(
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
        _check_values(centers, spreads)
        return centers, spreads


def _check_values(values: np.ndarray, spreads: np.ndarray) -> None:
    if not np.isfinite(values).all():
        bad = int(np.count_nonzero(~np.isfinite(values)))
        msg = f"expected finite residuals and predictions, got {bad} that are not"
        raise ValueError(msg)
    if not _positive(spreads):
        msg = f"expected positive, finite spreads, got some of {spreads.min():g}"
        raise ValueError(msg)


def _positive(values: np.ndarray) -> bool:
    return bool((np.isfinite(values) & (values > 0)).all())


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """What is needed for intervals at new rows: residuals, and spreads that follow the rows.

    Attributes
    ----------
    residuals : Residuals
        Scaled.
    sizes : array (n, t)
        Spreads by which the residuals are scaled.
    spreads : list of Spread
        One for each group of residuals, learned from the others; empty where the spread is 1.
    models : array of int (G,)
        Which fold model's prediction goes with each group.
    """

    residuals: Residuals
    sizes: np.ndarray
    spreads: list[Spread]
    models: np.ndarray
    fields: ClassVar[Mapping[str, Declared]] = {
        "residuals": Fields(Residuals),
        "sizes": Numbers(DOUBLE, ("n_judges", "n_targets")),
        "spreads": Items(Fields(Spread)),
        "models": Numbers("i", ("n_groups",)),
    }

    @classmethod
    def of(
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
    ) -> Uncertainty:
        """Learn spreads from out-of-fold residuals, and scale these.

        Parameters
        ----------
        X : host array, shape (n, d)
            Rows, finite; only those that some model has not seen.
        Y, predicted : host arrays, shape (n,) or (n, t)
            Targets, and out-of-fold predictions for them.
        folds : host array of int, shape (n,)
            0, ..., K - 1: which fold model the prediction is of. One hold-out is K = 1: its rows
            are split by lot into five parts, so that spreads do not see their own residuals.
        weights : host array, shape (n,), optional
            Sample weights.
        rng : RandomState
            Draws those parts, and centres of the spreads.
        max_time : float, optional
            Seconds for spreads. Where the first ones say that all take longer, or it is 0, the
            spread is 1, which takes no time; below 20 rows it is in any case.

        Returns
        -------
        Uncertainty
            O(K (n q² + q³)) with q = 300.

        Raises
        ------
        ValueError
            If shapes disagree or values are not finite.
        """
        Y, predicted = _columns(Y), _columns(predicted)
        if Y.shape != predicted.shape or {len(X), len(folds)} != {len(Y)}:
            shapes = X.shape, Y.shape, predicted.shape, np.shape(folds)
            msg = f"expected X (n, d), Y and predicted (n, t) and folds (n,), got {shapes}"
            raise ValueError(msg)
        left = Y - predicted
        _check_values(left, np.ones(1))
        n_models = int(np.max(folds)) + 1
        groups, models = _groups(folds, n_models, rng)
        Z, used = np.concatenate([X, predicted], axis=1), unit_weights(weights, len(Y))
        seen = (used > 0) & (groups != np.arange(len(models))[:, None])
        n_centers = min(CENTERS, int(seen.sum(axis=1).min()))

        def learned(rows: np.ndarray) -> Spread:
            return Spread.of(Z[rows], left[rows], used[rows], rng=rng, n_centers=n_centers)

        spreads = [] if len(Y) < _FEWEST else _in_time(learned, seen, max_time)
        if not spreads:
            plain = Residuals.of(left, folds, weights=weights)
            return cls(plain, np.ones_like(left), [], np.arange(n_models))
        sizes = np.empty_like(left)
        for g, spread in enumerate(spreads):
            sizes[groups == g] = spread(Z[groups == g])
        scaled = Residuals.of(left, groups, spreads=sizes, weights=weights)
        return cls(scaled, sizes, spreads, models)

    def is_sound(self, n_features: int, n_models: int, /) -> bool:
        """Whether it is such as `of` makes it of so many columns and fold models."""
        kept, n_groups = self.residuals, len(self.models)
        whole = (self.models, n_models), (kept.groups, n_groups)
        columns = n_features + self.sizes.shape[1]
        return (
            kept.is_sound
            and all(bool(((a >= 0) & (a < count)).all()) for a, count in whole)
            and int(self.models.max()) + 1 == n_models
            and _positive(self.sizes)
            and len(self.spreads) in (0, n_groups)
            and all(one.is_sound and one.Z.shape[1] == columns for one in self.spreads)
        )

    def interval(
        self, X: np.ndarray, predictions: np.ndarray, /, *, coverage: float = 0.9
    ) -> np.ndarray:
        """Give intervals for new rows.

        Parameters
        ----------
        X : host array, shape (m, d)
            New rows.
        predictions : host array, shape (K, m) or (K, m, t)
            Of every fold model.
        coverage : float
            Share of intervals that shall hold their target, in (0, 1).

        Returns
        -------
        array, shape (m, 2) or (m, t, 2)
            Lower and upper ends.

        Raises
        ------
        ValueError
            As `Residuals.interval`.
        """
        found = self.residuals.interval(*self._at(X, predictions), coverage=coverage)
        return found[:, 0] if np.ndim(predictions) == 2 else found

    def quantiles(
        self, X: np.ndarray, predictions: np.ndarray, /, *, levels: Sequence[float]
    ) -> np.ndarray:
        """Give quantiles for new rows.

        Parameters
        ----------
        X, predictions : host arrays
            As for `interval`.
        levels : sequence of float (q,)
            In (0, 1).

        Returns
        -------
        array, shape (m, q) or (m, t, q)
            Ascending where the levels are.

        Raises
        ------
        ValueError
            As `Residuals.quantiles`.
        """
        found = self.residuals.quantiles(*self._at(X, predictions), levels=levels)
        return found[:, 0] if np.ndim(predictions) == 2 else found

    def can_cover(self, coverage: float, /) -> bool:
        """Whether there are rows enough for a coverage in (0, 1)."""
        return can_cover(coverage, float(self.residuals.weights.sum()))

    def held_out(self, predicted: np.ndarray, /, *, coverage: float = 0.9) -> np.ndarray:
        """Give intervals for the rows of the residuals themselves, to look at.

        Parameters
        ----------
        predicted : host array, shape (n,) or (n, t)
            Their out-of-fold predictions.
        coverage : float
            Share of them that holds the target, or a little more.

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
        found = np.stack([_columns(predicted) - reach, _columns(predicted) + reach], axis=2)
        return found[:, 0] if np.ndim(predicted) == 1 else found

    def _at(self, X: np.ndarray, predictions: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Centres and spreads of every group at new rows."""
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
        _check_values(predictions, np.ones(1))
        centers = predictions[self.models]
        if not self.spreads:
            return centers, None
        pairs = zip(self.spreads, centers, strict=True)
        sizes = [spread(np.concatenate([X, center], axis=1)) for spread, center in pairs]
        return centers, np.stack(sizes)


def _in_time(
    learned: Callable[[np.ndarray], Spread], parts: np.ndarray, max_time: float | None
) -> list[Spread]:
    """Learn a spread of each part, or none where there is no time for all."""
    begun, found = time.perf_counter(), list[Spread]()
    for rows in parts:
        took = time.perf_counter() - begun
        if max_time is not None and took * len(parts) >= max_time * max(len(found), 1):
            return []
        found.append(learned(rows))
    return found


def _groups(
    folds: np.ndarray, n_models: int, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Give groups whose spreads are fitted to all others, and the model that each goes with."""
    if n_models > 1:
        return np.asarray(folds), np.arange(n_models)
    parts = rng.permutation(len(folds)) % _PARTS
    return parts, np.zeros(_PARTS, dtype=np.int64)


def _columns(Y: np.ndarray) -> np.ndarray:
    Y = np.asarray(Y, dtype=np.float64)
    return Y[:, None] if Y.ndim == 1 else Y
