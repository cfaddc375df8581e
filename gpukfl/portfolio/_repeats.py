r"""Predictions of rows of the fit that come again, from the targets of their copies.

Folds keep copies of a row on one side, so that scores are for new rows. For a row x of the fit, the
targets of its m copies add information. Let :math:`\bar y` be their mean, and f the prediction of
models that have not seen the row. Let :math:`s^2` be the variance within copies, and
:math:`\tau^2` that of the residuals that all copies share. The best linear prediction of another
copy is

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
from gpukfl.portfolio._folds import HeldOutLoss, LogLoss, all_indicators
from gpukfl.predictor import SeenRows, floor_probabilities

_PRIOR_ROWS = 10.0  # rows without repeatability, in addition to the different rows with copies
_MIN_ROWS = 10  # different rows with copies, for an estimate of the repeatability
_MIN_REPEATABILITY = 0.05  # below which a table of rows is not worth its memory
_MAX_ENTRIES = 2**24  # of the table of rows
_TOLERANCE = 1e-9  # of counts, for the rounding of weights


@dataclass(frozen=True, eq=False)
class CopyGroups:
    """Different rows, and statistics of their copies.

    Attributes
    ----------
    group : array of int (n,)
        Number of the different row of each sample.
    firsts : array of int (g,)
        First sample of each different row.
    weights : array (g,)
        Total weights of the copies.
    counts : array (g,)
        Kish's effective numbers of copies.
    means : array (g, t)
        Mean targets.
    squares : array (g, t)
        Weighted sums of squared deviations of the targets from their means.
    """

    group: np.ndarray
    firsts: np.ndarray
    weights: np.ndarray
    counts: np.ndarray
    means: np.ndarray
    squares: np.ndarray

    @classmethod
    def from_samples(cls, samples: Samples, Y: np.ndarray, /) -> CopyGroups | None:
        """Group samples with targets `Y` (n, t) by their rows; None if there are no copies."""
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
        return self.counts > 1.0 + _TOLERANCE


def _sum_groups(group: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the sums (g, t) of values (n, t) over groups."""
    return np.stack([np.bincount(group, weights=column) for column in values.T], axis=1)


def estimate_repeatability(
    groups: CopyGroups, residuals: np.ndarray, judged: np.ndarray, /, *, together: bool
) -> np.ndarray:
    r"""Estimate :math:`\rho`, the share of residual variance that copies of a row share.

    Parameters
    ----------
    groups : CopyGroups
        g different rows.
    residuals : array, shape (g, t)
        Mean targets less held-out predictions.
    judged : array of bool, shape (g,)
        Rows with held-out predictions.
    together : bool
        Whether all targets, as indicators of classes, have one share.

    Returns
    -------
    array, shape (t,)
        From 0 to less than 1: estimates by moments, shrunk to 0 as by ten rows without
        repeatability. 0 for fewer than ten judged rows with copies.
    """
    some = groups.repeated & judged
    t = residuals.shape[1]
    if np.count_nonzero(some) < _MIN_ROWS:
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
    """Learn the predictions of rows of the fit that come again.

    Parameters
    ----------
    samples : Samples
        Samples of the fit.
    kept : OutOfFold
        Held-out predictions of some of them.
    judge : HeldOutLoss
        Loss of these predictions.
    floor : float
        Lowest probability.

    Returns
    -------
    SeenRows or None
        None if no row has copies, or their residuals have hardly anything in common. Also None for
        related rows, rows in parts, and more rows than a table should hold. O(n (d + log n)).
    """
    if samples.relations is not None:
        return None  # predictions are for other groups, or later rows
    if lies_in_parts(samples.X) or np.prod(samples.X.shape) > _MAX_ENTRIES:
        return None
    Y = to_host(samples.Y).astype(np.float64)
    if isinstance(judge, LogLoss):
        Y = all_indicators(Y, judge.truth.shape[1])
    groups = CopyGroups.from_samples(samples, Y)
    if groups is None:
        return None
    rows = to_host(samples.X)[groups.firsts].astype(np.float64)
    place = _find_places(rows, kept)
    judged, predicted = _held_out_means(groups, place, kept)
    rho = estimate_repeatability(
        groups, groups.means - predicted, judged, together=isinstance(judge, LogLoss)
    )
    if rho.max() < _MIN_REPEATABILITY:
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
    """Return whether different rows were held out (g,), and their predictions (g, t).

    Predictions of other rows are the means of their targets.
    """
    held = np.bincount(place, weights=kept.weights, minlength=len(groups.firsts))
    sums = np.zeros_like(groups.means)
    np.add.at(sums, place, kept.weights[:, None] * kept.predicted)
    judged = held > 0
    means = sums / np.where(judged, held, 1.0)[:, None]
    return judged, np.where(judged[:, None], means, groups.means)


def _find_places(rows: np.ndarray, kept: OutOfFold) -> np.ndarray:
    """Return the number of the different row of each held-out row."""
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
    """Return the score of held-out copies, each predicted from the other copies of its row."""
    some = np.flatnonzero(groups.repeated[place])
    g, truth = place[some], kept.truth[some]
    m = groups.counts[g]
    # The mean of the other copies, from the mean of all
    others = truth + (groups.means[g] - truth) * (m / (m - 1.0))[:, None]
    predicted = kept.predicted[some]
    found = predicted + repeated_share(rho, m - 1.0) * (others - predicted)
    if isinstance(judge, LogLoss):
        found = to_host(floor_probabilities(np.maximum(found, 0.0), floor))
    mean = np.average(judge.truth, axis=0, weights=judge.weights)
    spread = judge.losses(np.broadcast_to(mean, truth.shape), some).sum()
    return explained_share(float(judge.losses(found, some).sum()), float(spread))
