"""Gradients of a weighting, along what the data vary in: what its importances are made of."""

from __future__ import annotations

import numpy as np

from gpukfl._array import Array, array_namespace, in_double, like, take, to_host
from gpukfl.estimators._data import drawn_of_weight
from gpukfl.estimators.weighting._problem import WeightingProblem
from gpukfl.linalg import host_eigh
from gpukfl.operators import FeatureOperator

_GRADIENTS = 500  # rows at which gradients show what matters
_DIFFERENCES = 50  # rows, where these are differences of features in every column
_SPAN_ROWS = 20_000  # rows whose span is looked at, and no more than
_SPAN_CELLS = 2**22  # values of these: for as many columns as below four times as many rows
_SPAN_COLUMNS = 1_000  # eigenvectors of more take longer than a fit
_ALIKE = 1e-10  # variance, of columns with 1, below which a direction's is rounding, of float32 too
_STILL = 1e-6  # deviation of a scaled column, of the largest, that is rounding of a constant


def principal_gradients(
    problem: WeightingProblem, operator: FeatureOperator, A: Array, /
) -> tuple[np.ndarray, float, np.ndarray]:
    """Average outer product of the gradients along directions in which rows differ.

    The parameters of a weighting are drawn without a look at the data, so that its functions also
    vary where no row differs from another: along a constant column, or from one to another way of
    saying the same. No row tells how they should, and no prediction for such rows shows it. A
    kernel's gradients are sums of differences of rows, and have no such part; here it is taken out.

    Parameters
    ----------
    problem : WeightingProblem
        Rows, of which some are drawn.
    operator, A : FeatureOperator, array (T, t)
        Features, and their coefficients.

    Returns
    -------
    tuple of a host array (r, d), a float and a host array (n, d)
        Orthogonal rows R, longest first, and a unit with which RᵀR is the average outer product
        over its square; and the rows at which gradients were taken.
    """
    at_most = _GRADIENTS if operator.features.differentiable else _DIFFERENCES
    rows = drawn_of_weight(problem.root_weights, problem.n, at_most, problem.rng)
    X, w = problem.rows.at(rows), np.ones(len(rows))
    xp = array_namespace(X)
    if problem.root_weights is not None:
        w = to_host(take(problem.root_weights, rows))[:, 0].astype(np.float64) ** 2
    first = 1 if problem.settings.bias else 0
    parts, scales = [], to_host(problem.y_scale)
    unit = float(scales.max())  # whose square may be beyond numbers
    for j in range(A.shape[1]):
        b = xp.astype(A[:, j], X.dtype) * operator.factors
        P = xp.ones((len(rows), 1), **like(X)) * b[None, :]
        g = to_host(operator.features.pullback(X, P)).astype(np.float64)[:, first:]
        parts.append(float(scales[j] / unit) * np.sqrt(w / w.sum())[:, None] * g)
    root = _principal_rows(_along_data(problem, np.concatenate(parts), first))
    return root, unit, to_host(X)[:, first:].astype(np.float64)


def _along_data(problem: WeightingProblem, G: np.ndarray, first: int) -> np.ndarray:
    """Project rows of `G` (m, d) on the span of the centred data, which are some rows of them.

    Of more than 1000 columns only those that do not vary are left out.
    """
    d = G.shape[1]
    at_most = min(_SPAN_ROWS, max(_SPAN_CELLS // d, 2))
    rng = np.random.RandomState(0)
    rows = drawn_of_weight(problem.root_weights, problem.n, at_most, rng)
    X = in_double(problem.rows.at(rows))[:, first:]
    xp = array_namespace(X)
    X = X - X[:1, :]  # equal values have a mean of just that
    X = X - xp.mean(X, axis=0)
    deviations = to_host(xp.mean(X * X, axis=0)) ** 0.5
    least = 0.0 if problem.settings.scaling is None else _STILL * deviations.max()
    varies = deviations > least
    G = np.where(varies, G, 0.0)
    if d > _SPAN_COLUMNS or not varies.any():
        return G
    sizes = deviations[varies]
    C = to_host(X.T @ X)[np.ix_(varies, varies)] / (len(rows) * np.outer(sizes, sizes))
    values, vectors = host_eigh(C)
    kept = values > _ALIKE
    if not kept.all():
        Q, _ = np.linalg.qr(sizes[:, None] * vectors[:, kept])
        G[:, varies] = G[:, varies] @ Q @ Q.T
    return G


def _principal_rows(G: np.ndarray) -> np.ndarray:
    """Give orthogonal rows R, longest first and at most d, with RᵀR = GᵀG."""
    used = G.any(axis=0)  # what is 0 in all rows stays just that
    H = G[:, used]
    if len(H) < H.shape[1]:
        _, sizes, rows = np.linalg.svd(H, full_matrices=False)
        found = sizes[:, None] * rows
    else:
        values, vectors = host_eigh(H.T @ H)
        found = np.sqrt(np.clip(values[::-1], 0.0, None))[:, None] * vectors[:, ::-1].T
    root = np.zeros((max(len(found), 1), G.shape[1]))
    root[: len(found), used] = found
    return root
