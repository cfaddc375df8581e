"""Learned directions of a fitted estimator, and those that would come next."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpukfl._array import to_host
from gpukfl._rows import Rows
from gpukfl.estimators._base import HostStored
from gpukfl.linalg import host_eigh
from gpukfl.methods import average_gradient_outer_product
from gpukfl.operators import KernelOperator

_LEAST = 1e-6  # of all variation: what is less is rounding


def has_directions(estimator: Any, /) -> bool:
    """Whether a fitted estimator, of this library, has learned directions."""
    return isinstance(estimator, HostStored) and len(getattr(estimator, "components_", ())) > 0


def leading_directions(estimator: Any, /) -> np.ndarray:
    """Directions (k, d) of scaled features: those that the estimator says, then all others.

    The others are orthogonal to them, in the order of how much the function varies there; those of
    selected variables are no others.
    """
    known = _wide(estimator.components_)
    M = _variation(estimator)
    total = 0.0 if M is None else float(np.trace(M))
    if M is None or total <= 0:
        return known
    rest = np.eye(len(M)) - known.T @ known
    values, vectors = host_eigh(rest @ (M / total) @ rest)
    count = min(int(np.sum(values > _LEAST)), len(M) - len(known))
    return np.concatenate([known, vectors[:, ::-1][:, :count].T])


def _variation(estimator: Any) -> np.ndarray | None:
    """How much the function varies along directions (d, d); None of selected variables.

    Of HKRR the average gradient outer product at its centres. The map says which directions tell
    rows apart, and a diagonal one has the features for eigenvectors whatever the function is.
    """
    if not hasattr(estimator, "map_"):
        M = getattr(estimator, "feature_matrix_", None)
        return None if M is None else _wide(M)
    e = estimator.to_host()
    Z = _wide(e.centers_)
    scale = np.where(e.bound_ > 0, e.bound_, 1.0)  # of the targets
    operator = KernelOperator(e.kernel_, Rows(Z, Z[:0, 0]), Z, _wide(e.map_))
    return np.asarray(average_gradient_outer_product(operator, _wide(e.dual_coef_) / scale))


def _wide(x: Any) -> np.ndarray:
    return np.asarray(to_host(x), dtype=np.float64)
