"""Choice of Nyström centres among the samples."""

from __future__ import annotations

import math

import numpy as np

from gpukfl.core._array import (
    Array,
    array_namespace,
    double_like,
    epsilon,
    index_like,
    like,
    to_host,
)
from gpukfl.core._memory import available_memory
from gpukfl.core._random import draw_indices
from gpukfl.kernels import Kernel
from gpukfl.linalg import CholeskyFactor, add_to_diagonal, mean_diagonal
from gpukfl.operators import KernelOperator
from gpukfl.partitioned._rows import Rows

SELECTIONS = ("uniform", "leverage", "pivoted")

_PILOT = 1000  # centres behind approximate leverage scores, at most
_BLOCK = 64  # proposals of the pivoted choice at a time
_EXHAUSTED = 1e-12  # share of k(x, x) below which nothing is left to explain
_ROUNDING = 100.0  # the same in units of the precision
_HERE = 20_000  # of rows in parts, those that are looked at where they are chosen
_PIVOTED_SHARE = 0.25  # of the memory that may be used, for the factor of the pivoted choice


def choose_centers(
    selection: str,
    kernel: Kernel,
    rows: Rows,
    n_centers: int,
    /,
    *,
    ridge: float,
    rng: np.random.RandomState,
    B: Array | None = None,
) -> np.ndarray:
    """Choose samples as centres.

    Parameters
    ----------
    selection : {"uniform", "leverage", "pivoted"}
        "uniform" without replacement; "leverage" with probabilities proportional to approximate
        ridge leverage scores; "pivoted" by randomly pivoted Cholesky.
    kernel : Kernel
        Kernel of the points, mapped by `B` where it is given.
    rows : Rows
        Data (n, d).
    n_centers : int
        Centres wanted; all samples where there are fewer.
    ridge : float
        λ of the leverage scores.
    rng : RandomState
        Draws on the host, so that every place chooses alike up to rounding.

    Returns
    -------
    host array of int64
        Indices in ascending order, all different. "pivoted" gives fewer where the kernel matrix
        has no larger rank.

    Raises
    ------
    ValueError
        If the selection is unknown or `n_centers` is not positive.

    Notes
    -----
    "leverage" costs one pass of O(n p²) with p = min(n, 1000) pilot samples; "pivoted" n (q + 1)
    kernel values, O(n q²) time and O(n q) memory, on a random part of the rows where that is too
    much. Where rows lie in parts both choose among 20 000 of them, which are brought here.

    References
    ----------
    .. [1] Rudi, Camoriano and Rosasco, "Less is More: Nyström Computational Regularization",
       NeurIPS 2015.
    .. [2] Chen, Epperly, Tropp and Webber, "Randomly pivoted Cholesky", Comm. Pure Appl. Math.,
       2025, Algorithm 1; Epperly, Tropp and Webber, "Embrace rejection", 2024, for the blocks.
    """
    if selection not in SELECTIONS:
        msg = f"expected selection to be one of {', '.join(SELECTIONS)}, got {selection!r}"
        raise ValueError(msg)
    if n_centers < 1:
        msg = f"expected at least one centre, got {n_centers}"
        raise ValueError(msg)
    n = rows.shape[0]
    if n_centers >= n:
        return np.arange(n)
    if selection == "uniform":
        return np.sort(draw_indices(rng, n, n_centers))
    if rows.partitioning is not None:  # some are looked at here, one by one
        at_most = max(_HERE, 2 * n_centers)
        some = np.arange(n) if n <= at_most else np.sort(draw_indices(rng, n, at_most))
        here = Rows(rows.gather(some), rows.reference)
        return some[choose_centers(selection, kernel, here, n_centers, ridge=ridge, rng=rng, B=B)]
    if selection == "leverage":
        scores = leverage_scores(kernel, rows, ridge=ridge, rng=rng, B=B)
        return np.sort(rng.choice(n, n_centers, replace=False, p=scores / scores.sum()))
    return _pivoted_cholesky(kernel, rows, n_centers, rng, B)


def leverage_scores(
    kernel: Kernel, rows: Rows, /, *, ridge: float, rng: np.random.RandomState, B: Array | None
) -> np.ndarray:
    r"""Return approximate ridge leverage scores of all samples, host float64 (n,), positive.

    .. math:: \hat\ell_i = \frac{1}{n\lambda} \left( k(x_i, x_i)
              - k_{iJ} (K_{JJ} + p \lambda I)^{-1} k_{Ji} \right)

    with J a uniform sample of size p.
    """
    n = rows.shape[0]
    p = min(n, _PILOT)
    pilot = KernelOperator(kernel, rows, rows.gather(np.sort(rng.choice(n, p, replace=False))), B)
    core = pilot.core
    xp = array_namespace(core)
    factor = CholeskyFactor.factor(add_to_diagonal(core, p * ridge + 1e-10 * mean_diagonal(core)))
    scores = np.empty(n)

    def compute(start: int, stop: int) -> Array:
        K = xp.astype(pilot.values(start, stop), xp.float64)
        explained = xp.sum(factor.solve_lower(K.T) ** 2, axis=0)
        return xp.astype(_diagonal(pilot, start, stop), xp.float64) - explained

    def take(start: int, stop: int, left: Array) -> None:
        scores[start:stop] = to_host(left)

    pilot.for_each_block(compute, take)
    # What rounding leaves of the scores of the pilot's neighbours still lets them be drawn
    return np.maximum(scores, 1e-6 * max(float(scores.mean()), 1e-300)) / max(n * ridge, 1e-300)


def _pivoted_cholesky(
    kernel: Kernel, rows: Rows, q: int, rng: np.random.RandomState, B: Array | None
) -> np.ndarray:
    """Choose pivots by randomly pivoted Cholesky in blocks with rejection."""
    n = rows.shape[0]
    fitting = int(_PIVOTED_SHARE * available_memory(rows.reference) // (16 * q))
    part = np.arange(n)
    if fitting < n:  # the factor of all rows would be too large
        part = np.sort(rng.choice(n, min(n, max(fitting, 2 * q)), replace=False))
    X = rows.gather(part) if len(part) < n else rows.whole()
    whole = KernelOperator(kernel, Rows(X, rows.reference), X[:1, :], B)
    xp = array_namespace(X)
    left = to_host(_diagonal(whole, 0, len(part))).astype(np.float64)
    floor = max(_EXHAUSTED, _ROUNDING * epsilon(X)) * left
    factor = xp.zeros((len(part), 0), **like(X))
    chosen: list[int] = []
    while len(chosen) < q and left.any():
        proposals = rng.choice(len(part), _BLOCK, p=left / left.sum())
        index = xp.asarray(proposals, **index_like(X))
        points, known = xp.take(X, index, axis=0), xp.take(factor, index, axis=0)
        small = KernelOperator(kernel, whole.rows, points, B)
        known = xp.astype(known, xp.float64)
        H = to_host(small.core - known @ known.T)
        left[proposals[np.diag(H) <= floor[proposals]]] = 0.0
        kept, L = _accept_proposals(H, floor[proposals], rng, q - len(chosen))
        if not len(kept):
            continue
        columns = xp.asarray(kept, **index_like(X))
        pivots = KernelOperator(kernel, whole.rows, xp.take(points, columns, axis=0), B)
        known = xp.astype(xp.take(known, columns, axis=0), X.dtype)
        residual = pivots.dense() - factor @ known.T
        lower = CholeskyFactor(xp.asarray(L, **double_like(X)))
        new = lower.solve_lower(xp.astype(residual, xp.float64).T)
        factor = xp.concat([factor, xp.astype(new.T, X.dtype)], axis=1)
        chosen += proposals[kept].tolist()
        left = left - to_host(xp.sum(new * new, axis=0))
        left[left <= floor] = 0.0
        left[np.asarray(chosen)] = 0.0
    return np.sort(part[np.asarray(chosen or [0])])


def _accept_proposals(
    H: np.ndarray, floor: np.ndarray, rng: np.random.RandomState, at_most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Accept proposals with residual kernel `H`, each with its remaining share of variance.

    Returns their positions, the first above the floor always among them, and the Cholesky factor
    of their block.
    """
    first = np.diag(H).copy()
    H = H.copy()
    kept: list[int] = []
    columns: list[np.ndarray] = []
    for j in range(len(H)):
        left = H[j, j]
        if left <= floor[j] or rng.uniform() * first[j] > left:
            continue
        column = H[:, j] / math.sqrt(left)
        H = H - np.outer(column, column)
        kept.append(j)
        columns.append(column)
        if len(kept) == at_most:
            break
    L = np.asarray([column[kept] for column in columns]).T
    return np.asarray(kept, dtype=np.int64), np.tril(L)


def _diagonal(operator: KernelOperator, start: int, stop: int) -> Array:
    return operator.kernel.diagonal(operator.project(operator.rows.block(start, stop)))
