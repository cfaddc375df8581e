r"""Prediction sets of classes from out-of-fold probabilities.

A row's score for a class y with probability :math:`p_y` is

.. math:: \sum_{j: p_j \ge p_y} p_j - u \sum_{j: p_j = p_y} p_j

with u = 1/2, or uniform on [0, 1] (Romano, Sesia and Candès, "Classification with valid and
adaptive coverage", NeurIPS 2020, eq. (7); classes that are as likely as each other are one step,
and one of probability 0 scores infinity), or :math:`1 - p_y` (Sadinle, Lei and Wasserman, "Least
ambiguous set-valued classifiers with bounded error levels", JASA 114, 2019). A set holds the
classes whose score is at most the :math:`\lceil (n + 1)(1 - \alpha) \rceil` smallest score of the
true classes.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from gpukfl.core._annotations import Choice, Count, Doubles
from gpukfl.core._checks import check_choice, check_number
from gpukfl.core._lazy import OldName
from gpukfl.methods import check_share, conformal_weight, unit_weights, weighted_quantile

_METHODS = ("adaptive", "threshold")
_SUM_TOLERANCE = 1e-3  # of sums of probabilities


@dataclass(frozen=True, eq=False)
class ClassScores:
    """Conformity scores of the true classes on held-out rows.

    Attributes
    ----------
    scores : array (n,)
        Score of the true class of each row.
    weights : array (n,)
        Weights in units of a new row's weight; see `unit_weights`.
    method : {"adaptive", "threshold"}
        Kind of score.
    seed : int or None
        Seed of the draws of u. None means u = 1/2.
    """

    scores: Annotated[np.ndarray, Doubles("n_judges", any_value=True)]
    weights: Annotated[np.ndarray, Doubles("n_judges")]
    method: Annotated[str, Choice(_METHODS)] = "adaptive"
    seed: Annotated[int, Count()] | None = None

    @classmethod
    def from_probabilities(
        cls,
        probabilities: np.ndarray,
        codes: np.ndarray,
        weights: np.ndarray | None = None,
        /,
        *,
        method: str = "adaptive",
        seed: int | None = None,
    ) -> ClassScores:
        """Compute the scores of the true classes.

        Parameters
        ----------
        probabilities : host array, shape (n, k)
            Probabilities from models that have not seen the row; each row sums to 1.
        codes : host array of int, shape (n,)
            True classes, 0, ..., k - 1.
        weights : host array, shape (n,), optional
            Sample weights, at least 0.
        method : {"adaptive", "threshold"}
            Adaptive sets are larger where rows are harder. Thresholds give the smallest sets on
            average. Some of these hold only the likeliest class of a hard row.
        seed : int, optional
            Seed of u, drawn on the host. Without a seed u is 1/2, and the set of a row does not
            depend on the other rows. u = 0 would always include the last class. Sets would then
            have many classes where models are sure and right.

        Raises
        ------
        ValueError
            If shapes disagree, rows do not sum to 1 or codes are no classes.
        """
        check_choice("method", method, _METHODS)
        check_number("seed", seed, kind=numbers.Integral, low=0, high=2**32 - 1, also=(None,))
        p = _check_probabilities(probabilities)
        codes = np.asarray(codes)
        if codes.shape != p.shape[:1] or not ((codes >= 0) & (codes < p.shape[1])).all():
            msg = (
                f"expected codes ({len(p)},) of classes 0 to {p.shape[1] - 1}, got shape "
                f"{codes.shape} from {codes.min(initial=0)} to {codes.max(initial=0)}"
            )
            raise ValueError(msg)
        found = cls(np.empty(0), unit_weights(weights, len(p)), method, seed)
        scores = found._score(p)[np.arange(len(p)), codes]
        return cls(scores, found.weights, method, seed)

    @property
    def is_sound(self) -> bool:
        """Whether the values are valid."""
        known = ~np.isnan(self.scores) & np.isfinite(self.weights) & (self.weights >= 0)
        return bool(known.all() and self.weights.any())

    def sets(self, probabilities: np.ndarray, /, *, coverage: float = 0.9) -> np.ndarray:
        """Return the prediction sets of new rows.

        Parameters
        ----------
        probabilities : host array, shape (m, k)
            Probabilities of the new rows.
        coverage : float
            Target share of sets that hold the true class, in (0, 1).

        Returns
        -------
        array of bool, shape (m, k)
            Whether each class is in the set. The likeliest class always is, so no set is empty. The
            cost is O(m k log k).

        Raises
        ------
        ValueError
            If `coverage` is outside (0, 1). If the rows are too few for it, the message gives the
            number needed.

        Notes
        -----
        Let a row be exchangeable with the rows of the scores, and its probabilities come from a
        similar model. The set then covers its class with a probability of at least `coverage`.
        """
        check_share("coverage", coverage)
        wanted = conformal_weight(coverage, float(self.weights.sum()))
        largest = weighted_quantile(self.scores, self.weights, wanted)
        p = _check_probabilities(probabilities)
        inside = self._score(p) <= largest
        return inside | (p == p.max(axis=1, keepdims=True)) & ~inside.any(axis=1, keepdims=True)

    def _score(self, p: np.ndarray) -> np.ndarray:
        """Return the scores of all classes (m, k)."""
        if self.method == "threshold":
            return 1.0 - p
        order = np.argsort(-p, axis=1, kind="stable")
        ranked = np.take_along_axis(p, order, axis=1)
        sums = np.cumsum(ranked, axis=1)
        before, upto = _tie_sums(ranked, sums)
        u = np.full((len(p), 1), 0.5)
        if self.seed is not None:
            u = np.random.RandomState(self.seed).uniform(size=(len(p), 1))
        scores = np.empty_like(p)
        np.put_along_axis(scores, order, upto - u * (upto - before), axis=1)
        return np.where(p > 0, scores, np.inf)

    of = OldName("from_probabilities")


def _tie_sums(ranked: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums before and including ties, for rows in descending order."""
    m, k = ranked.shape
    steps = ranked[:, 1:] != ranked[:, :-1]
    index = np.broadcast_to(np.arange(k), (m, k))
    edge = np.ones((m, 1), dtype=bool)
    first = np.maximum.accumulate(np.where(np.hstack([edge, steps]), index, 0), axis=1)
    ends = np.where(np.hstack([steps, edge]), index, k - 1)
    last = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
    before = np.take_along_axis(np.hstack([np.zeros((m, 1)), sums]), first, axis=1)
    return before, np.take_along_axis(sums, last, axis=1)


def _check_probabilities(probabilities: np.ndarray) -> np.ndarray:
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 2 or not p.shape[1]:
        msg = f"expected probabilities (n, k) of at least one class, got shape {p.shape}"
        raise ValueError(msg)
    if not ((p >= 0).all() and (np.abs(p.sum(axis=1) - 1.0) <= _SUM_TOLERANCE).all()):
        sums = p.sum(axis=1)
        msg = (
            "expected probabilities of at least 0 that sum to 1 in each row, got a smallest value "
            f"of {p.min():g} and sums from {sums.min():g} to {sums.max():g}"
        )
        raise ValueError(msg)
    return p
