"""Folds that all members share, and held-out losses."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gpukfl.core._array import lies_in_parts, to_host
from gpukfl.estimators._samples import Samples, Splits, effective_number, find_equal_rows
from gpukfl.estimators._search import explained_share
from gpukfl.inspection._metrics import influence_error, ratio_influence
from gpukfl.portfolio._members import Member
from gpukfl.predictor import pool_probabilities
from gpukfl.tables._clusters import join_groups
from gpukfl.tables._relations import Relations

# --------------------------------------------------------------------------------- losses

RowChoice = slice | np.ndarray  # a slice, or numbers of rows with repetition
# Shares of the best constant's loss below which predictions are nearly perfect
_PERFECT_SHARE, _PERFECT_SHARE_OF_CLASSES = 1e-10, 0.01
_MAJORITY = 0.5  # a probability above it is the highest


@dataclass(frozen=True, eq=False)
class HeldOutLoss(ABC):
    """A loss on held-out rows.

    Attributes
    ----------
    truth : array, shape (n, t)
        Targets, or indicators of all classes.
    weights : array, shape (n,)
        Weights of the rows.
    groups : array, shape (n,), or None
        Group of each row; rows of one group depend on each other.
    """

    truth: np.ndarray
    weights: np.ndarray
    groups: np.ndarray | None = field(default=None, kw_only=True)

    def losses(self, predicted: np.ndarray, rows: RowChoice = slice(None), /) -> np.ndarray:
        """Return the weighted loss (m,) of some rows of predictions (m, t)."""
        return self.row_losses(self.part(predicted, rows), rows)

    @abstractmethod
    def mix(self, weights: np.ndarray, predicted: Sequence[np.ndarray], /) -> np.ndarray:
        """Return the blend (m, t) of predictions by weights (p,) that sum to 1."""

    @abstractmethod
    def part(self, predicted: np.ndarray, rows: RowChoice = slice(None), /) -> np.ndarray:
        """Return the form of predictions (m, t) that the loss takes; blends average it."""

    @abstractmethod
    def row_losses(self, part: np.ndarray, rows: RowChoice = slice(None), /) -> np.ndarray:
        """Return the weighted loss (m,) of some rows from the `part` of predictions."""

    @abstractmethod
    def is_nearly_perfect(self, predicted: np.ndarray, /) -> bool:
        """Whether predictions of all rows are nearly perfect."""

    def _loss_is_at_most(self, share: float, predicted: np.ndarray) -> bool:
        """Whether the loss of all rows is at most a share of the best constant's."""
        return float(self.losses(predicted).sum()) <= share * self.spread

    @property
    def n_effective(self) -> float:
        """Kish's effective number of rows."""
        return effective_number(self.weights)

    @cached_property
    def spread(self) -> float:
        """The loss of the best constant predictions; 0 if these are exact."""
        return float(self._constant_losses.sum())

    @cached_property
    def _constant_losses(self) -> np.ndarray:
        """The loss (n,) of each row by the best constant predictions."""
        if not np.ptp(self.truth, axis=0).any():
            return np.zeros(len(self.truth))  # a mean would round
        return self.losses(np.broadcast_to(self.constant(), self.truth.shape))

    def constant(self) -> np.ndarray:
        """Return the best constant predictions (t,)."""
        return np.average(self.truth, axis=0, weights=self.weights)

    def score(self, losses: np.ndarray, /) -> float:
        """Return the score: the share of the constant predictions' loss that is saved."""
        return explained_share(float(losses.sum()), self.spread)

    def standard_error(self, losses: np.ndarray, /) -> float:
        """Return the standard error of the score over groups, or over rows without groups."""
        if self.spread <= 0:
            return influence_error(losses - losses.mean(), self.groups)
        return influence_error(ratio_influence(losses, self._constant_losses)[1], self.groups)


@dataclass(frozen=True, eq=False)
class RegressionLoss(HeldOutLoss):
    """A loss of predictions of targets."""

    def mix(self, weights: np.ndarray, predicted: Sequence[np.ndarray], /) -> np.ndarray:
        """Return the mean of predictions."""
        return sum(w * one for w, one in zip(weights, predicted, strict=True))

    def part(self, predicted: np.ndarray, rows: RowChoice = slice(None), /) -> np.ndarray:  # noqa: ARG002
        """Return the predictions."""
        return predicted

    def is_nearly_perfect(self, predicted: np.ndarray, /) -> bool:
        """Whether the loss is as small as rounding."""
        return self._loss_is_at_most(_PERFECT_SHARE, predicted)


@dataclass(frozen=True, eq=False)
class SquaredError(RegressionLoss):
    """Squared errors, in units of each target's variance."""

    scale: np.ndarray  # (t,), standard deviations; positive

    def row_losses(self, part: np.ndarray, rows: RowChoice = slice(None), /) -> np.ndarray:
        """Weighted squared error of each row, averaged over targets."""
        errors = (self.truth[rows] - part) / self.scale
        return self.weights[rows] * np.mean(errors**2, axis=1)


@dataclass(frozen=True, eq=False)
class LogLoss(HeldOutLoss):
    """The log loss of probabilities (n, k) that are positive."""

    def losses(self, predicted: np.ndarray, rows: RowChoice = slice(None), /) -> np.ndarray:
        """Weighted log loss of each row."""
        with np.errstate(divide="ignore"):
            return -self.weights[rows] * np.log(self._true_probabilities(predicted, rows))

    def mix(self, weights: np.ndarray, predicted: Sequence[np.ndarray], /) -> np.ndarray:
        """Return the probabilities of the mean log odds."""
        return to_host(pool_probabilities(np.asarray(weights), np.stack(predicted)))

    def part(self, predicted: np.ndarray, rows: RowChoice = slice(None), /) -> np.ndarray:
        """Return the log odds of the other classes to the true one (m, k - 1), in column order."""
        odds = predicted / self._true_probabilities(predicted, rows)[:, None]
        return np.asfortranarray(np.log(odds[self.truth[rows] == 0].reshape(len(odds), -1)))

    def row_losses(self, part: np.ndarray, rows: RowChoice = slice(None), /) -> np.ndarray:
        """Weighted log loss of each row."""
        return self.weights[rows] * np.log(1.0 + np.exp(part).sum(axis=1))

    def _true_probabilities(
        self, predicted: np.ndarray, rows: RowChoice = slice(None)
    ) -> np.ndarray:
        return np.sum(self.truth[rows] * predicted, axis=1)

    def is_nearly_perfect(self, predicted: np.ndarray, /) -> bool:
        """Whether all true classes have the highest probability, of nearly 1."""
        likeliest = self._true_probabilities(predicted)[self.weights > 0] > _MAJORITY
        perfect = self._loss_is_at_most(_PERFECT_SHARE_OF_CLASSES, predicted)
        return bool(np.all(likeliest)) and perfect


def held_out_loss(truth: np.ndarray, weights: np.ndarray, /, *, classes: bool) -> HeldOutLoss:
    """Return the loss of predictions of targets, or of probabilities of classes."""
    return LogLoss(truth, weights) if classes else squared_error(truth, weights)


def all_indicators(indicators: np.ndarray, n_classes: int, /) -> np.ndarray:
    """Return indicators of all classes (n, k), also if those of two are given for the second."""
    if n_classes != 2 or indicators.shape[1] != 1:
        return indicators
    return np.concatenate([1.0 - indicators, indicators], axis=1)


def squared_error(truth: np.ndarray, weights: np.ndarray, /) -> SquaredError:
    """Return the squared error of predictions, in units of the targets' standard deviations."""
    return SquaredError(truth, weights, target_scale(truth, weights))


def target_scale(Y: np.ndarray, weights: np.ndarray | None, /) -> np.ndarray:
    """Return weighted standard deviations (t,) of targets (n, t).

    For constant targets it is 1, or a power of 2 of their size if that is larger: the deviation of
    equal numbers may be rounding, in whose units all errors would be large.
    """
    # A power of 2 changes no digit, and the squares of the quotients do not overflow
    unit = np.ldexp(1.0, np.maximum(np.frexp(np.max(np.abs(Y), axis=0))[1] - 1, 0))
    Y = Y / unit
    middle = np.average(Y, axis=0, weights=weights)
    scale = np.sqrt(np.average((Y - middle) ** 2, axis=0, weights=weights))
    return unit * np.where((np.ptp(Y, axis=0) > 0) & (scale > 0), scale, 1.0)


# ----------------------------------------------------------------------------------- folds

MIN_ROWS = 2  # that can be split
MIN_ROWS_FOR_FOLDS = 4  # with fewer, a fold leaves too few rows to fit
REFIT_FROM = 200  # rows from which a refit to all rows compensates for fewer folds
MANY_ROWS, _ONE_FOLD_FROM = 2_000, 20_000
_TWO_FOLDS_FROM = 1_000  # rows of which half are enough for quick fits
_MOST_FOLDS, _FOLDS, _MOST_QUICK_FOLDS, _QUICK_FOLDS, _FEW_QUICK_FOLDS = 8, 5, 4, 3, 2
_WIDE = 300  # columns up to which the time of a row is about the same
_SECONDS_PER_ROW = 5e-3  # with less time, many rows are held out once
_HELD_OUT_SHARE, _MAX_HELD_OUT = 0.2, 20_000  # rows that are held out once
# From this number of rows on, half of that share is enough to score members
_SMALL_SHARE_FROM, _SMALL_SHARE = 50_000, 0.1


@dataclass(frozen=True, eq=False)
class MemberFold:
    """The training rows and held-out rows of a member."""

    inside: Samples
    outside: Samples

    def transform_targets(self, forward: Callable[[np.ndarray], np.ndarray], /) -> MemberFold:
        """Return the fold with transformed targets, as NumPy arrays."""
        inside, outside = (
            replace(part, Y=forward(to_host(part.Y).astype(np.float64)))
            for part in (self.inside, self.outside)
        )
        return MemberFold(inside, outside)

    @property
    def source(self) -> MemberFold:
        """The fold before encoding."""
        return self

    def member_view(self, member: Member, /) -> MemberFold:
        """Return the fold in the form that a member takes."""
        return self if member.takes_any_library else self.host_fold

    @cached_property
    def host_fold(self) -> MemberFold:
        """The fold in NumPy, for members that need it."""
        return MemberFold(to_host_samples(self.inside), to_host_samples(self.outside))


def to_host_samples(samples: Samples, /) -> Samples:
    """Return samples as NumPy arrays."""
    X, Y = to_host(samples.X), to_host(samples.Y)
    return replace(samples, X=np.asarray(X), Y=Y)


def choose_n_folds(
    n: int, d: int = 1, /, max_time: float | None = None, *, effort: str = "normal"
) -> int:
    """Return the number of folds; 1 means one held-out part.

    With little time there are fewer folds, which leaves time for more members. Time is counted in
    seconds a row, and rows of many columns take longer in proportion. Two folds are quicker than
    one part of 2000 to 4000 rows: learning a metric from four fifths of the rows takes four times
    as long as from half.
    """
    each = math.inf if max_time is None else max_time / n / max(d / _WIDE, 1.0)
    if n >= _ONE_FOLD_FROM or (n >= MANY_ROWS and each < _SECONDS_PER_ROW):
        return 1
    if effort == "quick" and n >= _TWO_FOLDS_FROM:
        return _FEW_QUICK_FOLDS
    if n >= MANY_ROWS:
        return _FOLDS
    if d > _WIDE and each < _SECONDS_PER_ROW / 4.0:
        return _FEW_QUICK_FOLDS
    if each < 2.0 * _SECONDS_PER_ROW:
        return _QUICK_FOLDS
    quick = effort == "quick"
    most, fewer = (_MOST_QUICK_FOLDS, _QUICK_FOLDS) if quick else (_MOST_FOLDS, _FOLDS)
    return most if n < REFIT_FROM or effort == "thorough" else fewer


def count_related_folds(relations: Relations, n_folds: int, asked: int | str, /) -> int:
    """Return the number of folds of related rows: that of the given splits, if there are any.

    With times it is at most five, unless the user asks for more: earlier folds have few rows to
    fit.
    """
    if relations.n_given:
        return relations.n_given
    in_order = relations.times is not None and isinstance(asked, str)
    return min(n_folds, _FOLDS) if in_order else n_folds


def split_folds(samples: Samples, rng: np.random.RandomState, n_folds: int, /) -> list[MemberFold]:
    """Split samples into folds, or hold out one part of at most 20 000 rows.

    Classes are stratified as far as they have enough rows. Copies of a row are on one side, even
    if their targets differ. Related rows are split by their groups, times or given splits alone.
    Raises ValueError for a single row.
    """
    n = len(samples)
    if n < MIN_ROWS:
        msg = (
            f"expected at least {MIN_ROWS} different rows, to fit some and hold out others, got {n}"
        )
        raise ValueError(msg)
    how = Splits(
        at_most=n,
        folds_below=n + 1 if n_folds > 1 else 0,
        share=min(_SMALL_SHARE if n >= _SMALL_SHARE_FROM else _HELD_OUT_SHARE, _MAX_HELD_OUT / n),
        n_folds=n_folds,
    )
    plain = samples.relations is None and not lies_in_parts(samples.X)
    found = find_equal_rows(samples.X) if plain else None
    if found is None or len(found[0]) < max(n_folds, MIN_ROWS):
        return [MemberFold(inside, outside) for inside, outside in samples.splits(rng, how)]
    firsts, group = found
    splits = samples.take(firsts).split_rows(rng, replace(how, at_most=len(firsts)))
    rows = [[np.flatnonzero(np.isin(group, part)) for part in split] for split in splits]
    return [MemberFold(samples.take(inside), samples.take(outside)) for inside, outside in rows]


def make_held_out_loss(
    folds: Sequence[MemberFold], samples: Samples, n_classes: int, /
) -> HeldOutLoss:
    """Return the loss on all held-out rows, in the order of the folds."""
    truth = np.concatenate([to_host(fold.outside.Y).astype(np.float64) for fold in folds])
    weights = [fold.outside.weights for fold in folds]
    sizes = [len(fold.outside) for fold in folds]
    w = np.concatenate(
        [np.ones(m) if one is None else one for one, m in zip(weights, sizes, strict=True)]
    )
    groups = join_groups([fold.outside.groups for fold in folds])
    if n_classes:
        return LogLoss(all_indicators(truth, n_classes), w, groups=groups)
    Y = to_host(samples.Y).astype(np.float64)
    return SquaredError(truth, w, target_scale(Y, samples.weights), groups=groups)
