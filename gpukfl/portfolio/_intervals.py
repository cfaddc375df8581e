"""How sure a blend is: residuals of rows that were held out, and spreads that follow the rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpukfl._draws import draws_put_back
from gpukfl.estimators._declared import DOUBLE, Declared, Fields, Items, Numbers
from gpukfl.methods import (
    can_cover,
    check_share,
    conformal_weight,
    unit_weights,
    weighted_quantile,
)
from gpukfl.portfolio._residuals import Residuals, all_positive, check_values
from gpukfl.portfolio._spread import CENTERS, Spread

_FEW = 60  # rows of a spread that says how long others take
_LESS = 4.0  # times as long as by rows and centres: much of so short a time is for other things
_PARTS = 5  # of rows that one model has not seen, to fit spreads to the others
_FEWEST = 20  # rows from which spreads are fitted
_ROWS_TO_A_CENTER = 2  # a spread is smooth: more centres change no interval by 1 %


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
            O(K (n q² + q³)) with q = 300, or half the rows where they are fewer.

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
        check_values(left, np.ones(1))
        n_models = int(np.max(folds)) + 1
        groups, models = _groups(folds, n_models, rng)
        Z, used = np.concatenate([X, predicted], axis=1), unit_weights(weights, len(Y))
        seen = (used > 0) & (groups != np.arange(len(models))[:, None])
        n_centers = min(CENTERS, int(seen.sum(axis=1).min()) // _ROWS_TO_A_CENTER)

        def learned(rows: np.ndarray, count: int = n_centers) -> Spread:
            return Spread.of(Z[rows], left[rows], used[rows], rng=rng, n_centers=count)

        def learned_of_few(rows: np.ndarray) -> float:
            """Time a spread of few rows, as a share of the whole one."""
            few = np.flatnonzero(rows)[:: max(np.count_nonzero(rows) // _FEW, 1)]
            count = max(min(n_centers, len(few) // _ROWS_TO_A_CENTER), 1)
            begun = time.perf_counter()
            with draws_put_back(rng):
                learned(few, count)
            ratio = np.count_nonzero(rows) * n_centers / (len(few) * count)
            return (time.perf_counter() - begun) * max(ratio / _LESS, 1.0)

        spreads = [] if len(Y) < _FEWEST else _in_time(learned, learned_of_few, seen, max_time)
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
            and all_positive(self.sizes)
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
            Lower and upper ends, equally far from the mean of the predictions.

        Raises
        ------
        ValueError
            As `Residuals.interval`.

        Notes
        -----
        `Residuals.interval` with the mean of all models in place of each, whose guarantee for
        several models is thereby lost: models that hardly differ give the same intervals, and of
        those that do the mean errs less, as squares go, by their variance.
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
        """Centres and spreads of every group at new rows: the centres are the same.

        Models that are averaged err less than each, and about each of them intervals would be
        wider than they need be.
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
        check_values(predictions, np.ones(1))
        own = predictions[self.models]
        mean = sum(predictions) / n_models  # in this order, whatever the layout in memory is
        centers = np.broadcast_to(mean, own.shape)
        if not self.spreads:
            return centers, None
        pairs = zip(self.spreads, own, strict=True)
        sizes = [spread(np.concatenate([X, center], axis=1)) for spread, center in pairs]
        return centers, np.stack(sizes)


def _in_time(
    learned: Callable[[np.ndarray], Spread],
    seconds: Callable[[np.ndarray], float],
    parts: np.ndarray,
    max_time: float | None,
) -> list[Spread]:
    """Learn a spread of each part, or none where there is no time for all.

    How long the first one takes, `seconds` says before.
    """
    begun, found = time.perf_counter(), list[Spread]()
    if max_time is not None and (max_time <= 0 or seconds(parts[0]) * len(parts) >= max_time):
        return []
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
