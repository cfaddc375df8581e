r"""What copies of rows tell of residuals: how much of them comes again with the row.

Folds keep copies on one side, so that what members learn holds for new rows. Of a row x that was
seen, more is known: with its mean target :math:`\bar y` of m copies, its prediction f by models
that have not seen it, the variance :math:`s^2` within copies (the pure error of tests of lack of
fit) and the variance :math:`\tau^2` of what is alike in all copies of a row, the best linear
prediction of a further copy is

.. math:: f + \frac{\tau^2}{\tau^2 + s^2 / m}\, (\bar y - f)
          = f + \frac{m \rho}{1 + (m - 1) \rho}\, (\bar y - f), \qquad
          \rho = \frac{\tau^2}{\tau^2 + s^2}

(Searle, Casella and McCulloch, "Variance Components", 1992, Sections 3.4 and 7.2: one random effect
for each different row). Both variances are estimated by moments from the rows that have copies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpukfl.core._array import lies_in_parts, to_host
from gpukfl.estimators._samples import Samples, effective_number, find_equal_rows
from gpukfl.estimators._search import explained_share
from gpukfl.portfolio._attributes import OutOfFold
from gpukfl.portfolio._folds import HeldOutLoss, LogLoss
from gpukfl.predictor import SeenRows, floor_probabilities

_PRIOR_ROWS = 10.0  # of which nothing repeats, beside the different rows that have copies
_FEWEST = 10  # different rows with copies, below which predictions at all rows are left as they are
_LEAST = 0.05  # repeatability below which a table of rows is not worth its memory
_ELEMENTS = 2**24  # of the rows of the table
_COPY = 1e-9  # more than one copy of a row, but for the rounding of weights


@dataclass(frozen=True, eq=False)
class CopyGroups:
    """Different rows, and what their copies say.

    Attributes
    ----------
    group : array of int (n,)
        Which different row each sample is.
    firsts : array of int (g,)
        A sample of each.
    weights : array (g,)
        Their total weights.
    counts : array (g,)
        Kish's numbers of their copies.
    means : array (g, t)
        Mean targets.
    squares : array (g, t)
        Weighted squares of the copies' targets about these.
    """

    group: np.ndarray
    firsts: np.ndarray
    weights: np.ndarray
    counts: np.ndarray
    means: np.ndarray
    squares: np.ndarray

    @classmethod
    def from_samples(cls, samples: Samples, Y: np.ndarray, /) -> CopyGroups | None:
        """Group samples with targets `Y` (n, t) by their rows; None where there are no copies."""
        found = find_equal_rows(samples.X)
        if found is None and samples.copies is None:
            return None
        n = len(samples)
        firsts, group = found or (np.arange(n), np.arange(n))
        w = np.ones(n) if samples.weights is None else samples.weights
        own = np.ones(n) if samples.copies is None else samples.copies
        weights = np.bincount(group, weights=w)
        counts = weights**2 / np.bincount(group, weights=w**2 / own)
        means = _sum_groups(group, w[:, None] * Y) / weights[:, None]
        squares = _sum_groups(group, w[:, None] * (Y - means[group]) ** 2)
        return cls(group, firsts, weights, counts, means, squares)

    @property
    def repeated(self) -> np.ndarray:
        """Which rows have copies (g,)."""
        return self.counts > 1.0 + _COPY


def _sum_groups(group: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the sums (g, t) of values (n, t) over groups."""
    return np.stack([np.bincount(group, weights=column) for column in values.T], axis=1)


def estimate_repeatability(
    groups: CopyGroups, residuals: np.ndarray, judged: np.ndarray, /, *, together: bool
) -> np.ndarray:
    r"""Estimate :math:`\rho`, the share of residual variance that copies of a row have in common.

    Parameters
    ----------
    groups : CopyGroups
        g different rows.
    residuals : array, shape (g, t)
        Mean targets less predictions by models that have not seen the rows.
    judged : array of bool, shape (g,)
        For which rows there are such predictions.
    together : bool
        Whether the targets, as indicators of classes, have one share.

    Returns
    -------
    array, shape (t,)
        From 0 to less than 1: estimates by moments, drawn to 0 as by ten different rows of whose
        residuals nothing repeats. 0 where fewer than ten rows that are judged have copies.
    """
    some = groups.repeated & judged
    t = residuals.shape[1]
    if np.count_nonzero(some) < _FEWEST:
        return np.zeros(t)
    w, m = groups.weights[some], groups.counts[some]
    pure = groups.squares[some].sum(axis=0) / np.sum(w * (1.0 - 1.0 / m))
    means = np.average(residuals[some] ** 2, axis=0, weights=w)
    if together:
        pure, means = pure.sum(keepdims=True), means.sum(keepdims=True)
    shared = np.maximum(means - pure * np.average(1.0 / m, weights=w), 0.0)
    total = shared + pure
    share = np.where(total > 0, shared / np.where(total > 0, total, 1.0), 0.0)
    known = effective_number(w)
    return np.broadcast_to(share * known / (known + _PRIOR_ROWS), (t,)).copy()


def repeated_share(repeatability: np.ndarray, counts: np.ndarray, /) -> np.ndarray:
    r"""Return the shares :math:`m \rho / (1 + (m - 1) \rho)` (g, t) of counts m (g,); 0 for 0."""
    m = counts[:, None]
    return m * repeatability / (1.0 + (m - 1.0) * repeatability)


def learn_seen_rows(
    samples: Samples, kept: OutOfFold, judge: HeldOutLoss, floor: float, /
) -> SeenRows | None:
    """Learn what is predicted where rows of the fit come again.

    Parameters
    ----------
    samples : Samples
        Of the fit.
    kept : OutOfFold
        Predictions of some of them by models that have not seen them.
    judge : HeldOutLoss
        Of these predictions.
    floor : float
        Lowest probability.

    Returns
    -------
    SeenRows or None
        None where no row has copies or hardly anything repeats, where rows hang together by more
        than copies, where they are cells of a table,
        which all members see on both sides of the folds, and where they lie in parts, in a memory
        map, or are too many for a table. O(n (d + log n)).
    """
    if samples.relations is not None:
        return None  # what is predicted holds for rows of other groups, or later ones
    if lies_in_parts(samples.X) or np.prod(samples.X.shape) > _ELEMENTS:
        return None
    Y = to_host(samples.Y).astype(np.float64)
    if isinstance(judge, LogLoss) and Y.shape[1] < judge.truth.shape[1]:
        Y = np.concatenate([1.0 - Y, Y], axis=1)
    groups = CopyGroups.from_samples(samples, Y)
    if groups is None:
        return None
    rows = to_host(samples.X)[groups.firsts].astype(np.float64)
    place = _find_places(rows, kept)
    judged, predicted = _held_out_means(groups, place, kept)
    rho = estimate_repeatability(
        groups, groups.means - predicted, judged, together=isinstance(judge, LogLoss)
    )
    if rho.max() < _LEAST:
        return None
    share = repeated_share(rho, groups.counts)
    values = np.where(judged[:, None], predicted + share * (groups.means - predicted), groups.means)
    pulls = np.where(judged[:, None], 1.0, share)
    spreads = np.sqrt(np.maximum(1.0 - rho * share, 0.0))
    n_copies = round(float(groups.counts[groups.repeated].sum()))
    score = _score_of_copies(groups, rho, place, kept, judge, floor)
    return SeenRows(rows, values, pulls, spreads, rho, n_copies, score)


def _held_out_means(
    groups: CopyGroups, place: np.ndarray, kept: OutOfFold
) -> tuple[np.ndarray, np.ndarray]:
    """Return which different rows were held out (g,), and their predictions (g, t).

    Those of others are their targets' means.
    """
    held = np.bincount(place, weights=kept.weights, minlength=len(groups.firsts))
    sums = np.zeros_like(groups.means)
    np.add.at(sums, place, kept.weights[:, None] * kept.predicted)
    judged = held > 0
    means = sums / np.where(judged, held, 1.0)[:, None]
    return judged, np.where(judged[:, None], means, groups.means)


def _find_places(rows: np.ndarray, kept: OutOfFold) -> np.ndarray:
    """Return which of some different rows each row is that was held out."""
    nothing = np.zeros((len(rows), 0))
    table = SeenRows(rows, nothing, nothing, nothing, np.zeros(0), 0, 0.0)
    return table.find(kept.rows)[1]


def _score_of_copies(
    groups: CopyGroups,
    rho: np.ndarray,
    place: np.ndarray,
    kept: OutOfFold,
    judge: HeldOutLoss,
    floor: float,
) -> float:
    """Return the score of copies that were held out, each predicted with the others as seen."""
    some = np.flatnonzero(groups.repeated[place])
    g, truth = place[some], kept.truth[some]
    m = groups.counts[g]
    # The mean of the others is that of all, less its own part
    others = truth + (groups.means[g] - truth) * (m / (m - 1.0))[:, None]
    left = kept.predicted[some]
    found = left + repeated_share(rho, m - 1.0) * (others - left)
    if isinstance(judge, LogLoss):
        found = to_host(floor_probabilities(np.maximum(found, 0.0), floor))
    mean = np.average(judge.truth, axis=0, weights=judge.weights)
    spread = judge.losses(np.broadcast_to(mean, truth.shape), some).sum()
    return explained_share(float(judge.losses(found, some).sum()), float(spread))
