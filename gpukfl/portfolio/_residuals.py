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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpukfl.estimators._declared import DOUBLE, Declared, Numbers, Whole
from gpukfl.methods import (
    check_share,
    conformal_weight,
    unit_weights,
)
from gpukfl.portfolio._quantiles import SortedGroups


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
        check_values(residuals, spreads)
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
        check_values(centers, spreads)
        return centers, spreads


def check_values(values: np.ndarray, spreads: np.ndarray, /) -> None:
    """Raise ValueError unless values are finite, and spreads positive too."""
    if not np.isfinite(values).all():
        bad = int(np.count_nonzero(~np.isfinite(values)))
        msg = f"expected finite residuals and predictions, got {bad} that are not"
        raise ValueError(msg)
    if not all_positive(spreads):
        msg = f"expected positive, finite spreads, got some of {spreads.min():g}"
        raise ValueError(msg)


def all_positive(values: np.ndarray, /) -> bool:
    """Whether all values are positive and finite."""
    return bool((np.isfinite(values) & (values > 0)).all())
