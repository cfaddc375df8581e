"""Calibrated probabilities from scores, in the same order of classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from gpukfl.core._array import Array, array_namespace, clip, to_host

_DOUBT = 1.0  # Laplace's rule: labels of m rows are wrong with probability 1 / (m + 2)
_LEAST_SHARE = 0.01  # least score plus offset, as a share of the offset
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

    Least squares on indicators estimate probabilities (s = 1, c = 0). A larger c raises scores that
    are 0 or below. With c beyond all scores this is a softmax.

    Attributes
    ----------
    power : float
        s, positive.
    offset : float
        c, positive; the least f + c is a hundredth of it.
    """

    power: float = 1.0
    offset: float = 0.02

    @classmethod
    def fit(cls, scores: np.ndarray, codes: np.ndarray, weights: np.ndarray, /) -> Self:
        """Fit power and offset by maximum likelihood.

        Parameters
        ----------
        scores : host array, shape (m, k)
            One column for each of at least two classes, predicted on held-out rows.
        codes : host array of int, shape (m,)
            The classes.
        weights : host array, shape (m,)
            Sample weights.
        """
        unit = float(np.sqrt(np.mean(scores**2))) or 1.0

        def numbers(logs: np.ndarray) -> tuple[float, float]:
            power, offset = np.exp(np.clip(logs, _LOWEST, _HIGHEST))
            return float(power), float(unit * offset)

        found = _maximize_likelihood(lambda x: cls(*numbers(x)), _STARTS, scores, codes, weights)
        return cls(*numbers(found))

    def log_proba(self, scores: Array, /) -> Array:
        """Logarithms of the probabilities for scores (..., k)."""
        xp = array_namespace(scores)
        logs = self.power * xp.log(clip(scores + self.offset, low=_LEAST_SHARE * self.offset))
        return _normalize_logs(logs)


@dataclass(frozen=True)
class SoftmaxCalibration:
    r"""Probabilities :math:`p_k \propto e^{s f_k}` of scores f on the scale of log odds.

    Attributes
    ----------
    power : float
        s, positive; below 1 for overconfident scores.
    """

    power: float = 1.0

    @classmethod
    def fit(cls, scores: np.ndarray, codes: np.ndarray, weights: np.ndarray, /) -> Self:
        """Fit the power by maximum likelihood, of scores (m, k) as `Calibration.fit`."""
        found = _maximize_likelihood(
            lambda logs: cls(float(np.exp(np.clip(logs[0], *_SLOPES)))),
            [(0.0,)],
            scores,
            codes,
            weights,
        )
        return cls(float(np.exp(np.clip(found[0], *_SLOPES))))

    def log_proba(self, scores: Array, /) -> Array:
        """Logarithms of the probabilities for scores (..., k)."""
        return _normalize_logs(self.power * scores)


def _maximize_likelihood(
    make: Callable[[np.ndarray], Calibration | SoftmaxCalibration],
    starts: Sequence[tuple[float, ...]],
    scores: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return the log parameters with the highest likelihood of classes (m,)."""
    from scipy.optimize import minimize

    m, k = scores.shape
    doubt = _DOUBT / (m + 2.0)
    truth = np.full((m, k), doubt / (k - 1.0))
    truth[np.arange(m), codes] = 1.0 - doubt

    def loss(logs: np.ndarray) -> float:
        log_proba = to_host(make(logs).log_proba(scores))
        return -float(weights @ np.sum(truth * log_proba, axis=1))

    found = [minimize(loss, start, method="Nelder-Mead") for start in starts]
    return np.asarray(min(found, key=lambda one: one.fun).x)


def _normalize_logs(logs: Array) -> Array:
    """Return log probabilities (..., k), normalised to sum to 1."""
    xp = array_namespace(logs)
    less = logs - xp.max(logs, axis=-1, keepdims=True)
    return less - xp.log(xp.sum(xp.exp(less), axis=-1, keepdims=True))
