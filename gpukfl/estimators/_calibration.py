"""Calibrated probabilities from scores, in the same order of classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from gpukfl.core._array import Array, array_namespace, clip, to_host

_SUCCESSION = 1.0  # Laplace's rule: after m rows that were right the next may be wrong
_LEAST = 0.01  # share of the offset that is left of scores below it
_LOWEST, _HIGHEST = (-3.0, -12.0), (6.0, 3.0)  # logarithms of power and offset
_SLOPES = (-4.0, 4.0)  # logarithms of a power of log odds
_STARTS = ((0.0, -3.0), (1.0, 0.0))  # logarithms of power and offset


class HeldOutScores(NamedTuple):
    """Held-out predictions, on the host."""

    F: np.ndarray  # (m, t)
    Y: np.ndarray  # (m, t), indicators of classes
    weights: np.ndarray  # (m,)


@dataclass(frozen=True)
class Calibration:
    r"""Probabilities :math:`p_k \propto (f_k + c)^s` of scores f.

    Least squares on indicators of classes estimate probabilities (s = 1, c = 0); a larger c takes
    the place of what is 0 or below; c beyond all scores makes this a softmax.

    Attributes
    ----------
    power : float
        s, positive.
    offset : float
        c, positive; of sums below, a hundredth of it is taken.
    """

    power: float = 1.0
    offset: float = 0.02

    @classmethod
    def fit(cls, scores: np.ndarray, codes: np.ndarray, weights: np.ndarray, /) -> Self:
        """Fit power and offset by maximum likelihood.

        Parameters
        ----------
        scores : host array, shape (m, k)
            One column for each of at least two classes, by models that have not seen the row.
        codes : host array of int, shape (m,)
            The classes.
        weights : host array, shape (m,)
            Sample weights.
        """
        unit = float(np.sqrt(np.mean(scores**2))) or 1.0

        def numbers(logs: np.ndarray) -> tuple[float, float]:
            power, offset = np.exp(np.clip(logs, _LOWEST, _HIGHEST))
            return float(power), float(unit * offset)

        found = _most_likely(lambda logs: cls(*numbers(logs)), _STARTS, scores, codes, weights)
        return cls(*numbers(found))

    def log_proba(self, scores: Array, /) -> Array:
        """Logarithms of the probabilities for scores (..., k)."""
        xp = array_namespace(scores)
        logs = self.power * xp.log(clip(scores + self.offset, low=_LEAST * self.offset))
        return _normalise(logs)


@dataclass(frozen=True)
class SoftmaxCalibration:
    r"""Probabilities :math:`p_k \propto e^{s f_k}` of scores f on the scale of log odds.

    Attributes
    ----------
    power : float
        s, positive; below 1 where the scores are too sure.
    """

    power: float = 1.0

    @classmethod
    def fit(cls, scores: np.ndarray, codes: np.ndarray, weights: np.ndarray, /) -> Self:
        """Fit the power by maximum likelihood, of scores (m, k) as `Calibration.fit`."""
        found = _most_likely(
            lambda logs: cls(float(np.exp(np.clip(logs[0], *_SLOPES)))),
            [(0.0,)],
            scores,
            codes,
            weights,
        )
        return cls(float(np.exp(np.clip(found[0], *_SLOPES))))

    def log_proba(self, scores: Array, /) -> Array:
        """Logarithms of the probabilities for scores (..., k)."""
        return _normalise(self.power * scores)


def _most_likely(
    make: Callable[[np.ndarray], Calibration | SoftmaxCalibration],
    starts: Sequence[tuple[float, ...]],
    scores: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return the logarithms of the numbers of the highest likelihood of classes (m,)."""
    from scipy.optimize import minimize

    m, k = scores.shape
    doubt = _SUCCESSION / (m + 2.0)
    truth = np.full((m, k), doubt / (k - 1.0))
    truth[np.arange(m), codes] = 1.0 - doubt

    def loss(logs: np.ndarray) -> float:
        log_proba = to_host(make(logs).log_proba(scores))
        return -float(weights @ np.sum(truth * log_proba, axis=1))

    found = [minimize(loss, start, method="Nelder-Mead") for start in starts]
    return np.asarray(min(found, key=lambda one: one.fun).x)


def _normalise(logs: Array) -> Array:
    """Return logarithms of probabilities (..., k) that sum to 1, from these up to a constant."""
    xp = array_namespace(logs)
    less = logs - xp.max(logs, axis=-1, keepdims=True)
    return less - xp.log(xp.sum(xp.exp(less), axis=-1, keepdims=True))
