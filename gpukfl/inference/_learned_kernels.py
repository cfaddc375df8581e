"""The kernel that a fitted estimator has learned, as a function of host rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.spatial.distance import cdist

from gpukfl._array import to_host
from gpukfl.estimators._base import HostStored
from gpukfl.operators import mapped

Map = Callable[[np.ndarray], np.ndarray]
_STEP = 0.15  # of a scaled coordinate, for derivatives


@dataclass(frozen=True, eq=False)
class LearnedKernel:
    """A kernel of rows, and what a fit has learned beside it.

    Attributes
    ----------
    scale : callable
        Rows (n, d) as the fit scales them.
    project : callable
        What of scaled rows the kernel compares: (n, k).
    compare : callable
        Kernel between projections (n, k) and (q, k): (n, q).
    functions : callable
        Fitted functions (n, t) at scaled rows.
    directions : array, shape (k, d)
        Orthonormal learned directions of scaled rows, most important first; none of selected or
        weighed features.
    importances : array, shape (d,)
        Of the features.
    """

    scale: Map
    project: Map
    compare: Callable[[np.ndarray, np.ndarray], np.ndarray]
    functions: Map
    directions: np.ndarray
    importances: np.ndarray

    def __call__(self, X: np.ndarray, Z: np.ndarray, /) -> np.ndarray:
        """Evaluate between rows (n, d) and (q, d): (n, q)."""
        U, V = (self.project(self.scale(rows)) for rows in (X, Z))
        return np.asarray(self.compare(U, V), dtype=np.float64)

    @property
    def has_lengthscale(self) -> bool:
        """Whether `shortened` changes more than the kernel's size."""
        return self.compare is not _brownian

    def additive(self, X: np.ndarray, Z: np.ndarray, /) -> np.ndarray:
        """Evaluate a kernel that has learned nothing: a Brownian one of every feature, (n, q)."""
        return _brownian(self.scale(X), self.scale(Z))

    def shortened(self, share: float, /) -> Self:
        """Multiply the lengthscale; kernels without one, as Brownian ones, change in size only."""
        project = self.project
        return replace(self, project=lambda Z: project(Z) / share)

    def slopes(self, scaled: np.ndarray, /) -> np.ndarray:
        """Differentiate the fitted functions along the directions: (n, k, t)."""
        found = [
            (self.functions(scaled + _STEP * u) - self.functions(scaled - _STEP * u)) / (2 * _STEP)
            for u in self.directions
        ]
        return np.stack(found, axis=1)


def kernel_of(estimator: Any, /) -> LearnedKernel | None:
    """Give the kernel of a fitted estimator; None where it has none, or one that sees nothing."""
    if not isinstance(estimator, HostStored):
        return None
    e = estimator.to_host()
    found = _parts_of(e)
    if found is None:
        return None
    scale = scale_of(e)
    e.scaling_ = None  # of this copy, which is asked at scaled rows
    e.__dict__.pop("feature_names_in_", None)
    d = e.n_features_in_
    importances = getattr(e, "feature_importances_", None)
    return LearnedKernel(
        scale,
        *found,
        lambda Z: np.asarray(e._predict(Z, "predict"), dtype=np.float64),
        _turned(getattr(e, "components_", None), d),
        np.ones(d) if importances is None else _wide(importances),
    )


def scale_of(estimator: Any, /) -> Map:
    """Give how a fitted estimator scales host rows (n, d)."""
    scaling = estimator.to_host().scaling_
    return (lambda X: X) if scaling is None else (lambda X: np.asarray(scaling(X)))


def unlearned(X: np.ndarray, n_outputs: int, /) -> LearnedKernel:
    """Give a kernel for a fit that has found nothing: an additive one of standardised rows."""
    middle, spread = X.mean(axis=0), X.std(axis=0)
    return LearnedKernel(
        lambda rows: (rows - middle) / np.where(spread > 0, spread, 1.0),
        lambda Z: Z,
        _brownian,
        lambda Z: np.zeros((len(Z), n_outputs)),
        np.zeros((0, X.shape[1])),
        np.ones(X.shape[1]),
    )


def _parts_of(e: Any) -> tuple[Map, Callable[[np.ndarray, np.ndarray], np.ndarray]] | None:
    """Projection and kernel of an estimator whose arrays are NumPy's."""
    if hasattr(e, "W_"):  # a sum of Brownian kernels along particles
        W = _wide(e.W_)
        return (lambda Z: Z @ W, _brownian) if W.any() else None
    kernel = getattr(e, "kernel_", None)
    if kernel is None or getattr(e, "dual_coef_", None) is None:
        return None
    if hasattr(e, "_used"):
        used, stretch = e._used, _wide(e._stretch)
        return lambda Z: Z[:, used] * stretch, kernel
    to = getattr(e, "map_", getattr(e, "retrain_components_", None))
    if to is None:
        return lambda Z: Z, kernel
    B = _wide(to)
    return (lambda Z: to_host(mapped(Z, B))), kernel


def _brownian(U: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Mean over particles of the Brownian kernels of projections (n, m) and (q, m)."""
    here, there = np.abs(U).sum(axis=1), np.abs(V).sum(axis=1)
    return 0.5 * (here[:, None] + there - cdist(U, V, "cityblock")) / U.shape[1]


def _turned(components: Any, d: int) -> np.ndarray:
    """Directions (k, d), none where each is a feature: nothing was turned to find them."""
    if components is None:
        return np.zeros((0, d))
    found = _wide(components)
    single = np.count_nonzero(np.abs(found) > 1e-6, axis=1) <= 1
    return np.zeros((0, d)) if single.all() else found


def _wide(x: Any) -> np.ndarray:
    return np.asarray(to_host(x), dtype=np.float64)
