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

# ---------------------------------------------------------------------------------- judges

# What members are judged by: squared errors of targets, or the log loss of classes.


Chosen = slice | np.ndarray  # rows by their numbers, which may come again
# Shares of the loss of saying the same of every row, of which there is no use in less
_SETTLED, _SETTLED_CLASSES = 1e-10, 0.01
_LIKELIEST = 0.5


@dataclass(frozen=True, eq=False)
class HeldOutLoss(ABC):
    """A loss on held-out rows.

    Attributes
    ----------
    truth : array, shape (n, t)
        Targets, or indicators of all classes.
    weights : array, shape (n,)
        Of the rows.
    groups : array, shape (n,), or None
        Where rows of one group depend on each other.
    """

    truth: np.ndarray
    weights: np.ndarray
    groups: np.ndarray | None = field(default=None, kw_only=True)

    def losses(self, predicted: np.ndarray, rows: Chosen = slice(None), /) -> np.ndarray:
        """Return the weighted loss (m,) of some rows of predictions (m, t)."""
        return self.row_losses(self.part(predicted, rows), rows)

    @abstractmethod
    def mix(self, weights: np.ndarray, predicted: Sequence[np.ndarray], /) -> np.ndarray:
        """Return the blend (m, t) of predictions by weights (p,) that sum to 1."""

    @abstractmethod
    def part(self, predicted: np.ndarray, rows: Chosen = slice(None), /) -> np.ndarray:
        """Return what the loss of predictions (m, t) is of: of a blend it is the members' mean."""

    @abstractmethod
    def row_losses(self, part: np.ndarray, rows: Chosen = slice(None), /) -> np.ndarray:
        """Return the weighted loss (m,) of some rows, by the `part` of predictions."""

    @abstractmethod
    def is_settled(self, predicted: np.ndarray, /) -> bool:
        """Whether predictions of all rows are nearly perfect."""

    def _leaves(self, predicted: np.ndarray, share: float) -> bool:
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
            return np.zeros(len(self.truth))  # and no rounding of a mean
        return self.losses(np.broadcast_to(self.constant(), self.truth.shape))

    def constant(self) -> np.ndarray:
        """Return the best constant predictions (t,)."""
        return np.average(self.truth, axis=0, weights=self.weights)

    def score(self, losses: np.ndarray, /) -> float:
        """Return the score: the share of the constant predictions' loss that is saved."""
        return explained_share(float(losses.sum()), self.spread)

    def standard_error(self, losses: np.ndarray, /) -> float:
        """Return the standard error of the score, as groups are a sample, or else rows."""
        if self.spread <= 0:
            return influence_error(losses - losses.mean(), self.groups)
        return influence_error(ratio_influence(losses, self._constant_losses)[1], self.groups)


@dataclass(frozen=True, eq=False)
class SquaredError(HeldOutLoss):
    """Squared errors, in units of each target's variance."""

    scale: np.ndarray  # (t,), standard deviations; positive

    def mix(self, weights: np.ndarray, predicted: Sequence[np.ndarray], /) -> np.ndarray:
        """Return the mean of predictions."""
        return sum(w * one for w, one in zip(weights, predicted, strict=True))

    def part(self, predicted: np.ndarray, rows: Chosen = slice(None), /) -> np.ndarray:  # noqa: ARG002
        """Return the predictions."""
        return predicted

    def row_losses(self, part: np.ndarray, rows: Chosen = slice(None), /) -> np.ndarray:
        """Weighted squared error of each row, averaged over targets."""
        left = (self.truth[rows] - part) / self.scale
        return self.weights[rows] * np.mean(left**2, axis=1)

    def is_settled(self, predicted: np.ndarray, /) -> bool:
        """Whether errors are as small as rounding."""
        return self._leaves(predicted, _SETTLED)


@dataclass(frozen=True, eq=False)
class LogLoss(HeldOutLoss):
    """The log loss of probabilities (n, k) that are positive."""

    def losses(self, predicted: np.ndarray, rows: Chosen = slice(None), /) -> np.ndarray:
        """Weighted log loss of each row."""
        with np.errstate(divide="ignore"):
            return -self.weights[rows] * np.log(self._true_probabilities(predicted, rows))

    def mix(self, weights: np.ndarray, predicted: Sequence[np.ndarray], /) -> np.ndarray:
        """Return the probabilities of the mean of log-odds."""
        return to_host(pool_probabilities(np.asarray(weights), np.stack(predicted)))

    def part(self, predicted: np.ndarray, rows: Chosen = slice(None), /) -> np.ndarray:
        """Return the log-odds of the other classes to the true one (m, k - 1), by columns."""
        odds = predicted / self._true_probabilities(predicted, rows)[:, None]
        return np.asfortranarray(np.log(odds[self.truth[rows] == 0].reshape(len(odds), -1)))

    def row_losses(self, part: np.ndarray, rows: Chosen = slice(None), /) -> np.ndarray:
        """Weighted log loss of each row."""
        return self.weights[rows] * np.log(1.0 + np.exp(part).sum(axis=1))

    def _true_probabilities(self, predicted: np.ndarray, rows: Chosen = slice(None)) -> np.ndarray:
        return np.sum(self.truth[rows] * predicted, axis=1)

    def is_settled(self, predicted: np.ndarray, /) -> bool:
        """Whether all true classes have the highest probability, of nearly 1."""
        likeliest = self._true_probabilities(predicted)[self.weights > 0] > _LIKELIEST
        return bool(np.all(likeliest)) and self._leaves(predicted, _SETTLED_CLASSES)


def held_out_loss(truth: np.ndarray, weights: np.ndarray, /, *, classes: bool) -> HeldOutLoss:
    """Return what judges predictions of targets, or of classes."""
    return LogLoss(truth, weights) if classes else squared_error(truth, weights)


def squared_error(truth: np.ndarray, weights: np.ndarray, /) -> SquaredError:
    """Return what judges predictions of targets by errors in units of their deviations."""
    return SquaredError(truth, weights, target_scale(truth, weights))


def target_scale(Y: np.ndarray, weights: np.ndarray | None, /) -> np.ndarray:
    """Return weighted standard deviations (t,) of targets (n, t).

    Of those that do not vary it is 1, or a power of 2 of their size where that is more: the
    deviation of equal numbers may be their rounding, by which all errors would be large.
    """
    # A power of 2 changes no digit, and squares of what it divides do not overflow
    unit = np.ldexp(1.0, np.maximum(np.frexp(np.max(np.abs(Y), axis=0))[1] - 1, 0))
    Y = Y / unit
    middle = np.average(Y, axis=0, weights=weights)
    scale = np.sqrt(np.average((Y - middle) ** 2, axis=0, weights=weights))
    return unit * np.where((np.ptp(Y, axis=0) > 0) & (scale > 0), scale, 1.0)


# ----------------------------------------------------------------------------------- folds

# Folds that all members share.


MANY, _FOLDS_BELOW = 2_000, 20_000
_MOST_FOLDS, _FOLDS, _MOST_QUICK_FOLDS, _QUICK_FOLDS, _FEW_QUICK_FOLDS = 8, 5, 4, 3, 2
REFITTED = 200  # rows from which fits to all of them make up for what fewer folds lack
_HALF_ENOUGH = 1_000  # rows from which half of them are enough to fit, where it is quick
_WIDE = 300  # columns up to which a row takes a member about as long
_HASTE = 5e-3  # seconds a row below which many rows have no time for folds
_SHARE, _MOST_HELD_OUT = 0.2, 20_000  # of the rows, that are held out once
# Of so many rows half of that: it judges as well, and a fit to all rows would add nothing
_ENOUGH, _SMALL_SHARE = 50_000, 0.1
FEWEST = 2  # rows that are split at all
FEW = 4  # rows below which a fold leaves too few to fit


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

    They are fewer where there is little time: more members, fitted to as many rows, say more. Rows
    of many columns take longer in proportion. One part takes longer than two folds, of 2000 to 4000
    rows: to learn a metric of four fifths of the rows takes four times as long as of a half.
    """
    each = math.inf if max_time is None else max_time / n / max(d / _WIDE, 1.0)
    if n >= _FOLDS_BELOW or (n >= MANY and each < _HASTE):
        return 1
    if effort == "quick" and n >= _HALF_ENOUGH:
        return _FEW_QUICK_FOLDS
    if n >= MANY:
        return _FOLDS
    if d > _WIDE and each < _HASTE / 4.0:
        return _FEW_QUICK_FOLDS
    if each < 2.0 * _HASTE:
        return _QUICK_FOLDS
    quick = effort == "quick"
    most, fewer = (_MOST_QUICK_FOLDS, _QUICK_FOLDS) if quick else (_MOST_FOLDS, _FOLDS)
    return most if n < REFITTED or effort == "thorough" else fewer


def count_related_folds(relations: Relations, n_folds: int, asked: int | str, /) -> int:
    """Return the number of folds of rows that hang together: all splits that the user gave.

    Of times no more than five, unless the user asks for more: each fold has fewer rows to fit.
    """
    if relations.n_given:
        return relations.n_given
    in_order = relations.times is not None and isinstance(asked, str)
    return min(n_folds, _FOLDS) if in_order else n_folds


def split_folds(samples: Samples, rng: np.random.RandomState, n_folds: int, /) -> list[MemberFold]:
    """Split samples into folds, or hold out one part of at most 20 000 rows.

    Every class has its share in each part, where it has a row for each. Copies are on one side,
    also those whose targets differ. Rows that are known to hang together are split by that alone:
    by whole groups, before and after, or as the user says. Raises ValueError if there is one row
    only.
    """
    n = len(samples)
    if n < FEWEST:
        msg = f"expected at least {FEWEST} different rows, to fit some and hold out others, got {n}"
        raise ValueError(msg)
    how = Splits(
        at_most=n,
        folds_below=n + 1 if n_folds > 1 else 0,
        share=min(_SMALL_SHARE if n >= _ENOUGH else _SHARE, _MOST_HELD_OUT / n),
        n_folds=n_folds,
    )
    plain = samples.relations is None and not lies_in_parts(samples.X)
    found = find_equal_rows(samples.X) if plain else None
    if found is None or len(found[0]) < max(n_folds, FEWEST):
        return [MemberFold(inside, outside) for inside, outside in samples.splits(rng, how)]
    firsts, group = found
    splits = samples.take(firsts).split_rows(rng, replace(how, at_most=len(firsts)))
    rows = [[np.flatnonzero(np.isin(group, part)) for part in split] for split in splits]
    return [MemberFold(samples.take(inside), samples.take(outside)) for inside, outside in rows]


def make_held_out_loss(
    folds: Sequence[MemberFold], samples: Samples, n_classes: int, /
) -> HeldOutLoss:
    """Return what judges predictions of all rows that are held out."""
    truth = np.concatenate([to_host(fold.outside.Y).astype(np.float64) for fold in folds])
    weights = [fold.outside.weights for fold in folds]
    sizes = [len(fold.outside) for fold in folds]
    w = np.concatenate(
        [np.ones(m) if one is None else one for one, m in zip(weights, sizes, strict=True)]
    )
    groups = join_groups([fold.outside.groups for fold in folds])
    if n_classes:
        if truth.shape[1] == 1 and n_classes == 2:
            truth = np.concatenate([1.0 - truth, truth], axis=1)
        return LogLoss(truth, w, groups=groups)
    Y = to_host(samples.Y).astype(np.float64)
    return SquaredError(truth, w, target_scale(Y, samples.weights), groups=groups)
