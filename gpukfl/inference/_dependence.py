"""Partial dependence of a model on sets of features: in closed form, or by predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpukfl._array import to_host
from gpukfl.estimators.bkernn._base import BKerNNBase
from gpukfl.estimators.hkrr._base import HKRRBase
from gpukfl.estimators.kernel_ridge._base import KernelRidgeBase
from gpukfl.estimators.selection._base import SelectionBase
from gpukfl.methods import ProductExpansion, product_terms

_AT_ONCE = 20_000  # rows that are predicted
_SUMS = 1e-11  # what sums over centres with large coefficients leave of float64
_TINY = 1e-300
_AGREES = 1e4  # units of rounding by which a closed form may differ from predictions

Values = Callable[[np.ndarray], np.ndarray]  # rows (m, c) -> values (m, t) of the function


class Dependence(ABC):
    """Averages of a function over a background in all but some columns."""

    exact: bool

    @abstractmethod
    def on(self, columns: np.ndarray, /) -> np.ndarray:
        """Evaluate at all rows: (n, t)."""

    def may_interact(self, columns: Sequence[np.ndarray], /) -> bool:  # noqa: ARG002
        """Whether the function may be anything but a sum of functions of fewer of the sets."""
        return True


@dataclass(frozen=True, eq=False)
class ByPrediction(Dependence):
    """Means of predictions."""

    rows: np.ndarray  # (n, c)
    background: np.ndarray  # (b, c)
    values: Values
    weights: np.ndarray  # (b,), of the background
    coupled: np.ndarray | None = None  # (c, c) of bool, by whether two columns share a direction
    exact = False

    def on(self, columns: np.ndarray, /) -> np.ndarray:
        """Evaluate at all rows, some at a time."""
        (n, _), count = self.rows.shape, len(self.background)
        step = max(1, _AT_ONCE // count)
        parts = []
        for begin in range(0, n, step):
            some = self.rows[begin : begin + step]
            changed = np.tile(self.background, (len(some), 1))
            changed[:, columns] = np.repeat(some[:, columns], count, axis=0)
            found = self.values(changed).reshape(len(some), count, -1)
            parts.append(np.average(found, axis=1, weights=self.weights))
        return np.concatenate(parts)

    def may_interact(self, columns: Sequence[np.ndarray], /) -> bool:
        """Whether every two of the sets share a direction of a sum of ridge functions."""
        if self.coupled is None:
            return True
        pairs = [(a, b) for k, a in enumerate(columns) for b in columns[:k]]
        return all(bool(self.coupled[np.ix_(a, b)].any()) for a, b in pairs)


@dataclass(frozen=True, eq=False)
class InClosedForm(Dependence):
    """Products of one-dimensional kernels, averaged one by one."""

    expansion: ProductExpansion
    rows: Any  # (n, q), as the kernel sees them
    background: Any  # (b, q)
    places: dict[int, int]  # which of its columns each column of the rows has become
    exact = True

    def on(self, columns: np.ndarray, /) -> np.ndarray:
        """Evaluate at all rows."""
        inside = [self.places[k] for k in columns.tolist() if k in self.places]
        found = self.expansion.partial_dependence(self.rows, self.background, inside)
        return to_host(found).astype(np.float64)

    def may_interact(self, columns: Sequence[np.ndarray], /) -> bool:
        """Whether the kernel sees a column of every set."""
        return all(any(k in self.places for k in some.tolist()) for some in columns)


def dependence_of(
    estimator: Any, rows: np.ndarray, background: np.ndarray, values: Values, weights: np.ndarray, /
) -> Dependence:
    """Give the partial dependence at rows (n, c), in closed form where a regression has one.

    That is for a background whose rows all have the same weight.
    """
    alike = np.ptp(weights) == 0
    closed = _closed_form(estimator, rows, background) if alike else None
    if closed is not None:
        eps = float(np.finfo(to_host(estimator.centers_).dtype).eps)
        if _agrees(closed, values(rows), eps):
            return closed
    coupled = None
    if isinstance(estimator, BKerNNBase):
        loads = to_host(estimator.W_) != 0
        coupled = (loads[:, None, :] & loads[None, :, :]).any(axis=2)
    return ByPrediction(rows, background, values, weights, coupled)


def _closed_form(estimator: Any, rows: np.ndarray, background: np.ndarray) -> InClosedForm | None:
    """Read the expansion of a kernel regression whose kernel is a product; None of others."""
    kinds = (KernelRidgeBase, HKRRBase, SelectionBase)
    if not isinstance(estimator, kinds) or hasattr(estimator, "classes_"):
        return None
    terms = product_terms(estimator.kernel_)
    if terms is None or estimator.dual_coef_ is None:
        return None
    used, factors = _axes(estimator, rows.shape[1])
    if factors is None:
        return None

    def seen(X: np.ndarray) -> np.ndarray:
        scaled = X if estimator.scaling_ is None else to_host(estimator.scaling_(X))
        return scaled[:, used] * factors

    centers, coefficients, intercept = (
        to_host(one).astype(np.float64)
        for one in (estimator.centers_, estimator.dual_coef_, estimator.intercept_)
        if one is not None
    )
    if isinstance(estimator, HKRRBase):
        centers = centers[:, used] * factors
    expansion = ProductExpansion(centers, coefficients, intercept, terms)
    places = {int(column): k for k, column in enumerate(used)}
    return InClosedForm(expansion, seen(rows), seen(background), places)


def _axes(estimator: Any, n_columns: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Columns that a kernel sees, and their factors; no factors where it sees mixtures of them."""
    if isinstance(estimator, SelectionBase):
        return to_host(estimator._used), to_host(estimator._stretch)
    if not isinstance(estimator, HKRRBase):
        return np.arange(n_columns), np.ones(n_columns)
    loads = np.abs(to_host(estimator.map_).astype(np.float64))
    if loads.ndim == 1:
        used = np.flatnonzero(loads)
        return used, loads[used]
    used = np.flatnonzero(loads.any(axis=0))
    alone = max((loads > 0).sum(axis=0).max(), (loads > 0).sum(axis=1).max()) <= 1
    return used, loads.sum(axis=0)[used] if alone else None


def _agrees(closed: InClosedForm, predicted: np.ndarray, eps: float) -> bool:
    """Whether a closed form is what the model predicts: some models bound their predictions."""
    gap = np.abs(closed.on(np.array(list(closed.places), dtype=np.int64)) - predicted)
    return bool(gap.max() <= _AGREES * max(eps, _SUMS) * max(np.abs(predicted).max(), _TINY))
