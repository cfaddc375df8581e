"""Losses of regressions: what a model predicts of the target, such as a mean, a median or a rate.

`LOSSES` maps the names that ``loss`` takes to the classes here. Those with a parameter are also
written as one text, such as "quantile:0.9", "huber:0.5" or "tweedie:1.7".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from gpukfl.core._array import Array, array_namespace, like
from gpukfl.core._checks import check_number, keep_python_numbers, suggest

__all__ = [
    "LOSSES",
    "Absolute",
    "Gamma",
    "Huber",
    "Loss",
    "Poisson",
    "Quantile",
    "Squared",
    "Tweedie",
    "looks_like_counts",
    "make_loss",
    "saved_share",
]

_TO_DEVIATION = 1.4826  # times the median distance from the median: the deviation of a normal law
# Of the rounded kink of a quantile, in deviations of y: narrower ones gained nothing on new rows,
# as rows near their quantile alone had all weight
_WIDTH = 0.1
_SHIFTS = 50  # steps to the best constant at most
_SETTLED = 1e-12  # change of a constant that ends these
_LEAST = 1e-300  # mean that logarithms take
_FEWEST, _SMALL, _MANY_SMALL, _SKEWED = 30, 10, 0.5, 0.75  # of targets that look like counts


def _check_between(name: str, value: object, low: float, high: float) -> None:
    """Raise TypeError or ValueError unless a value is a number inside of two limits."""
    check_number(name, value)
    if not low < value < high:  # type: ignore[operator]
        msg = f"expected {name} to be a number between {low:g} and {high:g}, got {value!r}"
        raise ValueError(msg)


@dataclass(frozen=True)
class Loss(ABC):
    """A loss of predictions of a target.

    Methods take targets Y and linear predictors F of shape (n, t), and `scale` (t,), the size of
    each target. A mean is the exponential of its linear predictor where `link` is "log".
    """

    link: ClassVar[str] = "identity"
    lowest: ClassVar[float] = -np.inf  # that a target may be
    settled_from: ClassVar[int] = 0  # step from which weights are those of the loss itself
    expected: ClassVar[str] = ""  # targets, in words

    @property
    def name(self) -> str:
        """The name of the loss."""
        return type(self).__name__.lower()

    @property
    def words(self) -> str:
        """The loss in words, with its parameters."""
        return f"{self.name} error"

    @property
    def predicts(self) -> str:
        """What predictions are, in words."""
        return "mean"

    @abstractmethod
    def losses(self, Y: Array, P: Array, scale: np.ndarray, /) -> Array:
        """Return the loss (n, t) of predictions P (n, t), on the targets' own scale."""

    @abstractmethod
    def slopes_and_weights(
        self, Y: Array, F: Array, scale: np.ndarray, step: int, /
    ) -> tuple[Array, Array]:
        """Return the negative slopes (n, t) of the loss along F, and positive weights (n, t).

        Least squares with these weights, of F plus slopes over weights, lower the loss. Early
        steps are more careful.
        """

    @abstractmethod
    def best_shift(
        self, Y: np.ndarray, F: np.ndarray, weights: np.ndarray, scale: np.ndarray, /
    ) -> np.ndarray:
        """Return the constants (t,) that lower the loss most where F is moved by them."""

    def allows(self, Y: np.ndarray, /) -> bool:
        """Whether all targets are such as the loss is of."""
        del Y
        return True

    def check_targets(self, Y: np.ndarray, /) -> None:
        """Raise ValueError unless all targets are in the range of the loss."""
        if not self.allows(Y):
            msg = (
                f"expected {self.expected} for loss={self!r}, got targets from "
                f"{float(np.min(Y)):.6g} to {float(np.max(Y)):.6g}"
            )
            raise ValueError(msg)

    def scale(self, Y: np.ndarray, weights: np.ndarray, /) -> np.ndarray:
        """Return the size (t,) of targets (n, t): a robust deviation, or else a plain one."""
        return np.array([_robust_deviation(y, weights) for y in Y.T])

    def constant(self, Y: np.ndarray, weights: np.ndarray, scale: np.ndarray, /) -> np.ndarray:
        """Return the best constant predictions (t,)."""
        middle = np.average(Y, axis=0, weights=weights)
        if self.link == "log":
            return middle
        at = np.broadcast_to(middle, Y.shape)
        return middle + self.best_shift(Y, at, weights, scale)


@dataclass(frozen=True)
class Squared(Loss):
    """Squared errors: predicts means."""

    def losses(self, Y: Array, P: Array, scale: np.ndarray, /) -> Array:  # noqa: ARG002
        """Return the squared errors."""
        return (Y - P) ** 2

    def slopes_and_weights(
        self,
        Y: Array,
        F: Array,
        scale: np.ndarray,  # noqa: ARG002
        step: int,  # noqa: ARG002
        /,
    ) -> tuple[Array, Array]:
        """Return residuals, and ones."""
        return Y - F, array_namespace(Y).ones_like(Y)

    def best_shift(
        self,
        Y: np.ndarray,
        F: np.ndarray,
        weights: np.ndarray,
        scale: np.ndarray,  # noqa: ARG002
        /,
    ) -> np.ndarray:
        """Return the mean residual."""
        return np.average(Y - F, axis=0, weights=weights)


@dataclass(frozen=True)
class Quantile(Loss):
    r"""The quantile (pinball) loss: predicts the quantile of a level.

    Parameters
    ----------
    level : float
        In (0, 1): the share of targets below their predictions.

    Notes
    -----
    Weights :math:`1 / (2 (\epsilon + |r|))` of the majorisation by Hunter and Lange, "Quantile
    regression via an MM algorithm", JCGS 2000, eq. (9), with ε of 0.1 robust deviations of y.
    """

    level: float

    def __post_init__(self) -> None:
        _check_between("level", self.level, 0.0, 1.0)
        keep_python_numbers(self)

    @property
    def words(self) -> str:
        """The loss in words, with its parameters."""
        return f"pinball loss at {self.level:g}"

    @property
    def predicts(self) -> str:
        """What predictions are, in words."""
        return f"{self.level:g} quantile"

    def losses(self, Y: Array, P: Array, scale: np.ndarray, /) -> Array:  # noqa: ARG002
        """Return the level's share of what predictions lack, and the rest's of what they exceed."""
        short = Y - P
        return array_namespace(Y).maximum(self.level * short, (self.level - 1.0) * short)

    def slopes_and_weights(
        self,
        Y: Array,
        F: Array,
        scale: np.ndarray,
        step: int,  # noqa: ARG002
        /,
    ) -> tuple[Array, Array]:
        """Return those of the loss with a rounded kink."""
        xp, short = array_namespace(Y), Y - F
        width = _beside(scale, Y) * _WIDTH
        weights = 0.5 / (width + xp.abs(short))
        return (self.level - 0.5) + short * weights, weights

    def best_shift(
        self,
        Y: np.ndarray,
        F: np.ndarray,
        weights: np.ndarray,
        scale: np.ndarray,  # noqa: ARG002
        /,
    ) -> np.ndarray:
        """Return the quantile of the residuals."""
        return np.array([_quantile(r, weights, self.level) for r in (Y - F).T])


@dataclass(frozen=True)
class Absolute(Loss):
    """Absolute errors: predicts medians, and is robust to outliers."""

    @property
    def predicts(self) -> str:
        """What predictions are, in words."""
        return "median"

    def losses(self, Y: Array, P: Array, scale: np.ndarray, /) -> Array:  # noqa: ARG002
        """Return the absolute errors."""
        return array_namespace(Y).abs(Y - P)

    def slopes_and_weights(
        self, Y: Array, F: Array, scale: np.ndarray, step: int, /
    ) -> tuple[Array, Array]:
        """Return twice those of the median."""
        slopes, weights = _MEDIAN.slopes_and_weights(Y, F, scale, step)
        return 2.0 * slopes, 2.0 * weights

    def best_shift(
        self, Y: np.ndarray, F: np.ndarray, weights: np.ndarray, scale: np.ndarray, /
    ) -> np.ndarray:
        """Return the median of the residuals."""
        return _MEDIAN.best_shift(Y, F, weights, scale)


_MEDIAN = Quantile(0.5)


@dataclass(frozen=True)
class Huber(Loss):
    r"""Huber's loss: squared errors up to a size, and absolute ones beyond.

    Parameters
    ----------
    delta : float, default=0.5
        From which size errors count by their absolute value, positive, in robust deviations of the
        target: 1.48 times the median distance from its median.

    Notes
    -----
    Weights :math:`\min(1, \delta / |r|)`: Huber, "Robust Statistics", 1981, Section 7.8.
    """

    delta: float = 0.5

    def __post_init__(self) -> None:
        check_number("delta", self.delta, low=0, low_allowed=False)
        keep_python_numbers(self)

    @property
    def words(self) -> str:
        """The loss in words, with its parameters."""
        return f"Huber loss of delta {self.delta:g}"

    @property
    def predicts(self) -> str:
        """What predictions are, in words."""
        return "robust mean"

    def losses(self, Y: Array, P: Array, scale: np.ndarray, /) -> Array:
        """Return half the squared errors, or the line that touches them."""
        xp, end = array_namespace(Y), self.delta * _beside(scale, Y)
        size = xp.abs(Y - P)
        near = xp.minimum(size, end)
        return near * (size - 0.5 * near)

    def slopes_and_weights(
        self,
        Y: Array,
        F: Array,
        scale: np.ndarray,
        step: int,  # noqa: ARG002
        /,
    ) -> tuple[Array, Array]:
        """Return residuals within their limit, and their shares of the whole residuals."""
        xp, end = array_namespace(Y), self.delta * _beside(scale, Y)
        short = Y - F
        weights = end / xp.maximum(xp.abs(short), end + xp.zeros_like(short))
        return short * weights, weights

    def best_shift(
        self, Y: np.ndarray, F: np.ndarray, weights: np.ndarray, scale: np.ndarray, /
    ) -> np.ndarray:
        """Return the constants of reweighted means."""
        shift, w = np.zeros(Y.shape[1]), weights[:, None]
        for _ in range(_SHIFTS):
            slopes, own = self.slopes_and_weights(Y, F + shift, scale, 0)
            move = np.sum(w * slopes, axis=0) / np.sum(w * own, axis=0)
            shift = shift + move
            if np.all(np.abs(move) <= _SETTLED * scale):
                break
        return shift


@dataclass(frozen=True)
class _Deviance(Loss):
    """A deviance of means on a log scale, whose variance grows with a power of the mean."""

    link: ClassVar[str] = "log"
    lowest: ClassVar[float] = 0.0
    settled_from: ClassVar[int] = 1
    expected: ClassVar[str] = "targets of at least 0, not all 0,"

    @property
    def words(self) -> str:
        """The loss in words, with its parameters."""
        return f"{self.name} deviance"

    @property
    @abstractmethod
    def _power(self) -> float:
        """With which power of the mean the variance grows."""

    def allows(self, Y: np.ndarray, /) -> bool:
        """Whether no target is negative, and each has a positive row."""
        return bool(np.all(Y >= 0) and np.all(np.max(Y, axis=0) > 0))

    def slopes_and_weights(
        self,
        Y: Array,
        F: Array,
        scale: np.ndarray,  # noqa: ARG002
        step: int,
        /,
    ) -> tuple[Array, Array]:
        """Return those of Fisher's scoring; at first such that no row moves by more than 1."""
        xp = array_namespace(Y)
        mean = xp.exp(F)
        unit = mean ** (1.0 - self._power)
        slopes, weights = (Y - mean) * unit, mean * unit
        return slopes, weights if step else xp.maximum(weights, xp.abs(slopes))

    def best_shift(
        self,
        Y: np.ndarray,
        F: np.ndarray,
        weights: np.ndarray,
        scale: np.ndarray,  # noqa: ARG002
        /,
    ) -> np.ndarray:
        """Return the logarithm of what means are to be multiplied by."""
        mean, w = np.exp(F), weights[:, None]
        unit = mean ** (1.0 - self._power)
        above, below = np.sum(w * Y * unit, axis=0), np.sum(w * mean * unit, axis=0)
        return np.where(above > 0, np.log(np.where(above > 0, above, 1.0) / below), 0.0)

    def scale(self, Y: np.ndarray, weights: np.ndarray, /) -> np.ndarray:
        """Return the means (t,)."""
        return np.average(Y, axis=0, weights=weights)


@dataclass(frozen=True)
class Poisson(_Deviance):
    """The Poisson deviance: predicts the mean of counts, or of rates with exposures as weights."""

    @property
    def words(self) -> str:
        """The loss in words, with its parameters."""
        return "Poisson deviance"

    @property
    def _power(self) -> float:
        return 1.0

    def losses(self, Y: Array, P: Array, scale: np.ndarray, /) -> Array:  # noqa: ARG002
        """Return the unit deviances."""
        xp = array_namespace(Y)
        P = _positive(P)
        logs = xp.log(xp.where(Y > 0, Y, P) / P)
        return 2.0 * xp.maximum(Y * logs - (Y - P), xp.zeros_like(P))


@dataclass(frozen=True)
class Gamma(_Deviance):
    """The gamma deviance: predicts the mean of positive amounts, by relative errors."""

    expected: ClassVar[str] = "positive targets"

    @property
    def _power(self) -> float:
        return 2.0

    def allows(self, Y: np.ndarray, /) -> bool:
        """Whether all targets are positive."""
        return bool(np.all(Y > 0))

    def losses(self, Y: Array, P: Array, scale: np.ndarray, /) -> Array:  # noqa: ARG002
        """Return the unit deviances."""
        xp = array_namespace(Y)
        ratio = _positive(Y) / _positive(P)
        return 2.0 * xp.maximum(ratio - 1.0 - xp.log(ratio), xp.zeros_like(ratio))


@dataclass(frozen=True)
class Tweedie(_Deviance):
    """The Tweedie deviance: predicts the mean of amounts of which many are 0, such as claims.

    Parameters
    ----------
    power : float, default=1.5
        Between 1, Poisson's, and 2, gamma's: the variance grows with this power of the mean.

    Notes
    -----
    Jørgensen, "The Theory of Dispersion Models", 1997, Chapter 4.
    """

    power: float = 1.5

    def __post_init__(self) -> None:
        _check_between("power", self.power, 1.0, 2.0)
        keep_python_numbers(self)

    @property
    def words(self) -> str:
        """The loss in words, with its parameters."""
        return f"Tweedie deviance of power {self.power:g}"

    @property
    def _power(self) -> float:
        return self.power

    def losses(self, Y: Array, P: Array, scale: np.ndarray, /) -> Array:  # noqa: ARG002
        """Return the unit deviances."""
        xp, p = array_namespace(Y), self.power
        P = _positive(P)
        own = Y ** (2.0 - p) / ((1.0 - p) * (2.0 - p))
        cross = Y * P ** (1.0 - p) / (1.0 - p)
        found = own - cross + P ** (2.0 - p) / (2.0 - p)
        return 2.0 * xp.maximum(found, xp.zeros_like(P))


LOSSES: dict[str, type[Loss]] = {
    "squared": Squared,
    "absolute": Absolute,
    "quantile": Quantile,
    "huber": Huber,
    "poisson": Poisson,
    "gamma": Gamma,
    "tweedie": Tweedie,
}
_LEVEL = "loss='quantile' needs a level, such as loss='quantile:0.9' or Quantile(0.9)"
_ELSEWHERE = {
    **dict.fromkeys(("mae", "l1", "absolute_error"), "absolute"),
    **dict.fromkeys(("mse", "l2", "rmse", "squared_error"), "squared"),
    **dict.fromkeys(("pinball", "q"), "quantile:0.9"),
}  # what other libraries call losses


def make_loss(loss: str | Loss, /) -> Loss:
    """Return a loss by its name, with its parameter after a colon, or as it is given.

    Parameters
    ----------
    loss : str or Loss
        A name of `LOSSES`, perhaps with a parameter such as "quantile:0.9", or a value.

    Returns
    -------
    Loss

    Raises
    ------
    TypeError, ValueError
        If there is no such loss, or its parameter is out of its range.
    """
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str):
        msg = f"expected loss to be one of {', '.join(LOSSES)}, or a Loss, got {loss!r}"
        raise TypeError(msg)
    name, colon, parameter = loss.partition(":")
    kind: Any = LOSSES.get(name)
    if kind is None:
        same = _ELSEWHERE.get(name.lower())
        hint = f". Did you mean {same!r}?" if same else suggest(name, LOSSES)
        msg = f"expected loss to be one of {', '.join(LOSSES)}, got {loss!r}{hint}"
        raise ValueError(msg)
    if colon and not fields(kind):
        msg = f"expected loss={name!r} without a number, got {loss!r}"
        raise ValueError(msg)
    if colon:
        try:
            return kind(float(parameter))
        except ValueError as error:
            msg = f"expected a loss such as 'quantile:0.9' or 'tweedie:1.5', got {loss!r}: {error}"
            raise ValueError(msg) from None
    if kind is Quantile:
        raise ValueError(_LEVEL)
    return kind()


def saved_share(
    loss: Loss, Y: np.ndarray, P: np.ndarray, weights: np.ndarray | None = None, /
) -> float:
    """Return the share of the best constant's loss that predictions save, averaged over targets.

    Parameters
    ----------
    loss : Loss
        Whose.
    Y, P : arrays of shape (n,) or (n, t)
        Targets and predictions.
    weights : array of shape (n,), optional
        Of the rows.

    Returns
    -------
    float
        1 for exact predictions, 0 for those of the best constant: D², of squared errors R².

    Raises
    ------
    ValueError
        If a target is out of the range of the loss.
    """
    Y, P = (np.asarray(one, dtype=np.float64).reshape(len(one), -1) for one in (Y, P))
    w = np.ones(len(Y)) if weights is None else np.asarray(weights, dtype=np.float64)
    loss.check_targets(Y)
    scale = loss.scale(Y, w)
    constant = np.broadcast_to(loss.constant(Y, w, scale), Y.shape)
    least, own = (
        np.average(np.asarray(loss.losses(Y, one, scale)), axis=0, weights=w)
        for one in (constant, P)
    )
    exact = np.where(own > 0, 0.0, 1.0)
    shares = np.where(least > 0, 1.0 - own / np.where(least > 0, least, 1.0), exact)
    return float(np.mean(shares))


def looks_like_counts(y: np.ndarray, /) -> bool:
    """Return whether targets (n,) look like counts: skewed, with many small whole numbers.

    Parameters
    ----------
    y : array of shape (n,)
        Numbers.

    Returns
    -------
    bool
    """
    y = np.asarray(y, dtype=np.float64)
    whole = len(y) >= _FEWEST and bool(np.all((y >= 0) & (y == np.floor(y))))
    if not whole or len(np.unique(y)) <= 2 or np.mean(y <= _SMALL) < _MANY_SMALL:
        return False
    gaps = y - y.mean()
    return float(np.mean(gaps**3)) > _SKEWED * float(np.mean(gaps**2)) ** 1.5


def _beside(scale: np.ndarray, Y: Array) -> Array:
    """Put sizes (t,) beside targets."""
    return array_namespace(Y).asarray(scale, **like(Y))


def _positive(P: Array) -> Array:
    xp = array_namespace(P)
    return xp.maximum(P, xp.full_like(P, _LEAST))


def _quantile(values: np.ndarray, weights: np.ndarray, level: float) -> float:
    if not np.ptp(weights):
        return float(np.quantile(values, level, method="inverted_cdf"))
    return float(np.quantile(values, level, weights=weights, method="inverted_cdf"))


def _robust_deviation(y: np.ndarray, weights: np.ndarray) -> float:
    """Return the deviation of a normal law with the median distance of y (n,) from its median."""
    near = _TO_DEVIATION * _quantile(np.abs(y - _quantile(y, weights, 0.5)), weights, 0.5)
    if near > 0:
        return near
    spread = float(np.sqrt(np.average((y - np.average(y, weights=weights)) ** 2, weights=weights)))
    return spread if np.ptp(y) > 0 and spread > 0 else 1.0
