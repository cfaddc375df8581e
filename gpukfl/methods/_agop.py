r"""Recursive feature machines: a kernel's linear map from the gradients of its own fit.

A fit with the map B gives :math:`f(x) = \sum_j \alpha_j k(Bx, Bz_j)`; the next map is a power of
its average gradient outer product (AGOP)

.. math:: G = \frac1N \sum_i D_i \sum_c \nabla f_c(x_i) \nabla f_c(x_i)^\top,

and so on (Radhakrishnan, Beaglehole, Pandit and Belkin, "Mechanism of feature learning in deep
fully connected networks and kernel machines that recursively learn features", 2022, Algorithm 1;
Beaglehole, Holzmüller, Radhakrishnan and Belkin, "xRFM", 2025).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral

import numpy as np

from gpukfl.core._array import (
    Array,
    array_namespace,
    clip,
    double_like,
    double_reference,
    epsilon,
    like,
    to_double,
)
from gpukfl.core._checks import check_choice, check_number
from gpukfl.core._lazy import OldName
from gpukfl.core._results import History, Status
from gpukfl.kernels import Kernel, median_distance
from gpukfl.linalg import eigh
from gpukfl.methods._kernel_ridge import DenseSystem, leave_one_out_path
from gpukfl.methods._nystrom import NystromFactor, NystromSystem, add_jitter, choose_jitter
from gpukfl.methods._ridge_path import RidgePath, mix_targets
from gpukfl.operators import KernelOperator, apply_map, leading_rows, map_row_gradient
from gpukfl.partitioned._rows import Rows

# ----------------------------------------------------------------------- average gradients

# Average gradient outer products of kernel sums, and their eigenvectors.


_RANK = 1e-10  # share of the largest eigenvalue, below which rounding makes the directions


def average_gradient_outer_product(
    operator: KernelOperator,
    alpha: Array,
    weights: Array | None = None,
    /,
    *,
    diagonal: bool = False,
) -> Array:
    r"""Average gradient outer product of :math:`f(x) = \sum_j \alpha_j k(Bx, Bz_j)`: (d, d).

    .. math:: \frac1N \sum_i D_i \sum_c \nabla f_c(x_i) \nabla f_c(x_i)^\top

    Where x_i is a centre and the kernel has a kink there, that centre counts nothing.

    Parameters
    ----------
    operator : KernelOperator
        The kernel between the rows at which gradients are taken and the centres, with its map.
    alpha : array, shape (q, t)
        Dual coefficients.
    weights : array, shape (n, 1), optional
        Sample weights D, of sum N.
    diagonal : bool
        Give its diagonal alone.

    Returns
    -------
    array, shape (d, d), or (d,)
        In float64: O(n q t (k + d)) time, by blocks of rows, and O(n t d²) for all of it.
    """
    xp, shape = array_namespace(operator.Z), (operator.Z.shape[1],) * (1 if diagonal else 2)

    def compute(start: int, stop: int) -> tuple[Array, ...]:
        total = xp.zeros(shape, **double_like(operator.Z))
        for slopes in _gradients(operator, alpha, start, stop):
            weighted = slopes if weights is None else weights[start:stop, :] * slopes
            part = xp.sum(weighted * slopes, axis=0) if diagonal else weighted.T @ slopes
            total = total + xp.astype(part, xp.float64)
        return (total,)

    (total,) = operator.sum_over_blocks(compute)
    return total / _total_weight(operator, weights)


def principal_gradients(
    operator: KernelOperator, alpha: Array, weights: Array | None = None, /
) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of the average gradient outer product.

    Parameters
    ----------
    operator, alpha, weights
        As of `average_gradient_outer_product`, in one place.

    Returns
    -------
    tuple of arrays, shapes (r,) and (r, d)
        In float64, the largest first; r is d, or at most the number of gradients n t where
        features are more, without directions of rounding: O(n q t (k + d) + n t d min(n t, d)).
    """
    n, d = operator.shape[0], operator.Z.shape[1]
    if n * alpha.shape[1] >= d:
        G = average_gradient_outer_product(operator, alpha, weights)
        xp, (values, vectors) = array_namespace(G), eigh(G)
        return clip(xp.flip(values), low=0.0), xp.flip(vectors, axis=1).T
    parts: list[Array] = []

    def compute(start: int, stop: int) -> list[Array]:
        found = [to_double(slopes) for slopes in _gradients(operator, alpha, start, stop)]
        if weights is None:
            return found
        roots = to_double(weights[start:stop, :]) ** 0.5
        return [roots * slopes for slopes in found]

    operator.for_each_block(compute, lambda _start, _stop, found: parts.extend(found))
    values, rows = right_singular_vectors(array_namespace(alpha).concat(parts, axis=0))
    return values / _total_weight(operator, weights), rows


def right_singular_vectors(A: Array, /) -> tuple[Array, Array]:
    """Squared singular values and right singular vectors of a wide matrix, by its Gram matrix.

    Parameters
    ----------
    A : array, shape (n, d)
        Wide, in float64.

    Returns
    -------
    tuple of arrays, shapes (r,) and (r, d)
        The largest first, without those below 1e-10 times the largest: O(n² (n + d)), a third of
        the time of a singular value decomposition.
    """
    xp, (values, vectors) = array_namespace(A), eigh(A @ A.T)
    values = clip(xp.flip(values), low=0.0)
    rank = max(int(xp.sum(xp.astype(values > _RANK * values[0], xp.int64))), 1)
    values, rows = values[:rank], xp.flip(vectors, axis=1)[:, :rank].T @ A
    lengths = xp.sqrt(values)[:, None]
    return values, rows / xp.where(lengths > 0, lengths, xp.ones_like(lengths))


def _gradients(operator: KernelOperator, alpha: Array, start: int, stop: int) -> Iterator[Array]:
    """Gradients (stop - start, d) of each target at a block of rows."""
    a = array_namespace(alpha).astype(alpha, operator.Z.dtype)
    U = operator.project(operator.rows.block(start, stop))
    K = operator.values(start, stop, U)
    for slopes in operator.kernel._gradients(U, operator.centers, a, K):
        yield slopes if operator.B is None else map_row_gradient(slopes, operator.B)


def _total_weight(operator: KernelOperator, weights: Array | None) -> float:
    if weights is None:
        return float(operator.shape[0])
    xp = array_namespace(weights)
    return float(xp.sum(weights, dtype=xp.float64))


STRUCTURES = ("diagonal", "full")
_ROUNDING = 1e-10  # share of an error by which another must be lower: less is rounding
_PATIENCE = 2  # maps without a gain after which no more are tried


@dataclass(frozen=True)
class AverageGradientOuterProduct:
    r"""The rule by which the next map is made of the gradients of a fit.

    Parameters
    ----------
    max_iter : int
        Maps at most after the first, at least 0; the best of all is kept. More than three gain
        little, and fit the samples left out.
    exponent : float
        Power :math:`s > 0` of the eigenvalues of G: :math:`B^\top B = G^{2s}`, divided by its
        largest eigenvalue; 1/2 is the paper's.
    structure : {"diagonal", "full"}
        "diagonal" keeps the diagonal of G alone: a weight for each feature. "full" also turns the
        features, which only kernels of the Euclidean norm are made for.
    noise : float
        Largest variance of noise, at least 0, in units of what the kernel varies, in the fits whose
        gradients are taken. Where more noise predicts better, such a fit is so flat that only what
        is linear is left in its gradients, and the maps end there.
    shrinkage : float
        Multiple, at least 0, of the mean eigenvalue of G that is added to all that are not 0, so
        that no direction is given up because one fit hardly needs it. 0.05 is better where targets
        depend on most features; where they depend on few, 0 is.
    """

    max_iter: int = 3
    exponent: float = 0.5
    structure: str = "diagonal"
    noise: float = 0.1
    shrinkage: float = 0.0

    def __post_init__(self) -> None:
        check_number("max_iter", self.max_iter, kind=Integral, low=0)
        check_number("exponent", self.exponent, low=0, low_allowed=False)
        check_choice("structure", self.structure, STRUCTURES)
        check_number("noise", self.noise, low=0)
        check_number("shrinkage", self.shrinkage, low=0)

    @property
    def is_diagonal(self) -> bool:
        """Whether the map is diagonal."""
        return self.structure == "diagonal"

    def make_map(self, G: Array, k: int, /) -> Array:
        """Return the map of an average gradient outer product, of operator norm 1.

        Parameters
        ----------
        G : array, shape (d, d), or its diagonal (d,) of the structure "diagonal"
            Average gradient outer product.
        k : int
            Rows of the map.

        Returns
        -------
        array, shape (k, d), or (d,) of a diagonal map of all features
            Its rows are the leading directions, or features; the identity where all gradients are
            0.
        """
        xp, d = array_namespace(G), G.shape[0]
        if self.is_diagonal:
            factors = self._factors(G, G)
            if k == d:  # features stay in their order
                return factors
            return leading_rows(factors, k)
        values, vectors = eigh(G)
        if not bool(xp.max(values) > 0):
            return xp.eye(d, **like(G))[:k, :]
        factors = self._factors(xp.flip(values)[:k], values)
        return factors[:, None] * xp.flip(vectors, axis=1).T[:k, :]

    def _factors(self, values: Array, every: Array) -> Array:
        """Return the roots of the leading eigenvalues, scaled to maximum 1."""
        xp = array_namespace(values)
        values = clip(values, low=0.0)
        largest = xp.max(values)
        if not bool(largest > 0):
            return xp.ones_like(values)
        more = self.shrinkage * xp.mean(every)
        values = xp.where(values > epsilon(values) * largest, values + more, values)
        return (values / (largest + more)) ** self.exponent


@dataclass(frozen=True, eq=False)
class MappedRidge:
    """Kernel ridge regression of mapped rows, scored by leave-one-out."""

    operator: KernelOperator  # with the map, over the lengthscale; float64
    lengthscale: float
    system: DenseSystem | NystromSystem
    Y: Array  # (n, t), float64
    weights: Array | None  # (n, 1), float64
    ridges: Sequence[float]  # among which to choose

    @cached_property
    def path(self) -> RidgePath:
        """Leave-one-out errors along the ridges: O(n³), or O(n q²)."""
        if isinstance(self.system, DenseSystem):
            return self.system.leave_one_out(self.ridges)
        return leave_one_out_path(self.system, self.Y, self.weights, self.ridges)

    @property
    def B(self) -> Array:  # noqa: N802
        """The map (k, d), or (d,), of operator norm 1."""
        assert self.operator.B is not None
        return self.operator.B * self.lengthscale

    @property
    def score(self) -> float:
        """Leave-one-out mean squared error."""
        return self.path.lowest

    @cached_property
    def ridge(self) -> float:
        """The ridge with the lowest leave-one-out error."""
        return self.path.best_inside(self.Y.shape[0] ** -0.5)

    def left_out(self) -> Array:
        """Return the leave-one-out predictions: (n, t)."""
        if isinstance(self.system, DenseSystem):
            return self.system.left_out(self.ridge)
        return self.system.left_out(self.Y, self.weights, self.ridge)

    def solve(self) -> tuple[Array, NystromFactor]:
        """Return the dual coefficients of the centres (q, t), and the factor of their kernel."""
        if isinstance(self.system, NystromSystem):
            return self.system.solve(self.ridge)
        core = self.operator.core
        factor = NystromFactor.from_kernel(core, jitter=choose_jitter(self.operator, self.ridge))
        system = DenseSystem.from_kernel(add_jitter(core, factor.jitter), self.Y, self.weights)
        return system.solve(self.ridge)[0], factor

    def gradients(self, ridge: float, noise: float, /, *, diagonal: bool = False) -> Array:
        """Return the average gradient outer product of a fit with this ridge: (d, d).

        Or its diagonal (d,) alone. With a smaller ridge where that is more noise; of many targets
        by mixtures.
        """
        ridge = min(ridge, noise * self.system.variation() / self.system.weight)
        alpha = mix_targets(self.system.solve(ridge)[0])
        return average_gradient_outer_product(self.operator, alpha, self.weights, diagonal=diagonal)


@dataclass(frozen=True, eq=False)
class MappedProblem:
    """Samples for kernels of mapped rows.

    Attributes
    ----------
    kernel : Kernel
        At lengthscale 1.
    rows : Rows
        Samples (n, d).
    Y : array, shape (n, t)
        Targets of mean 0.
    weights : array, shape (n, 1), or None
        Sample weights.
    Z : array, shape (q, d), or None
        Centres; None are all samples.
    ridges : sequence of float
        Among which leaving out each sample chooses, at every map anew; generalised cross-validation
        where samples are many.
    lengthscale : float or None
        None is `stretch` times the median distance of the mapped `sample`.
    sample : pair
        Some rows (m, d), and their weights on the host (m,) or None.
    """

    kernel: Kernel
    rows: Rows
    Y: Array
    weights: Array | None
    ridges: Sequence[float]
    sample: tuple[Array, np.ndarray | None]
    Z: Array | None = None
    lengthscale: float | None = None
    stretch: float = 1.0

    @cached_property
    def _wide(self) -> tuple[Rows, Array, Array, Array | None]:
        """Rows, centres, targets and weights in float64."""
        xp = array_namespace(self.Y)
        rows = replace(self.rows, reference=double_reference(self.Y))
        if self.Z is None:
            whole = rows.whole()
            rows, Z = Rows(whole, rows.reference), whole
        else:
            Z = xp.astype(self.Z, xp.float64)
        weights = None if self.weights is None else to_double(self.weights)
        return rows, Z, to_double(self.Y), weights

    def fit(self, B: Array, /) -> MappedRidge:
        """Fit with the map B (k, d), or (d,), float64."""
        rows, Z, Y, weights = self._wide
        lengthscale = self._lengthscale(B)
        operator = KernelOperator(self.kernel, rows, Z, B / lengthscale, keep=True)
        if self.Z is None:
            dense = DenseSystem.from_kernel(operator.dense(), Y, weights).near_spectrum()
            return MappedRidge(operator, lengthscale, dense, Y, weights, self.ridges)
        system = NystromSystem.from_rows(operator, Y, weights)
        return MappedRidge(operator, lengthscale, system, Y, weights, self.ridges)

    def _lengthscale(self, B: Array) -> float:
        if self.lengthscale is not None:
            return self.lengthscale
        sample, weights = self.sample
        xp = array_namespace(B)
        U = apply_map(xp.astype(sample, B.dtype), B)
        return self.stretch * median_distance(U, norm=self.kernel.norm, weights=weights)

    at = OldName("fit")


@dataclass(frozen=True, eq=False)
class GradientFit:
    """The best map, and the history of all maps."""

    best: MappedRidge
    ridges: tuple[float, ...]  # of the fits whose gradients led to the best
    status: Status
    history: History

    @property
    def n_steps(self) -> int:
        """Steps from the first map to the best."""
        return len(self.ridges)


def fit_gradient_maps(
    problem: MappedProblem,
    optimizer: AverageGradientOuterProduct,
    /,
    *,
    n_components: int | None = None,
    start: Array | None = None,
    ridges: Sequence[float] | None = None,
    watch: Callable[[int, Array, History], Status | None] = lambda *_: None,
) -> GradientFit:
    r"""Alternate between fits and maps from their gradients (Algorithm 1).

    Parameters
    ----------
    problem : MappedProblem
        What is fitted at each map.
    optimizer : AverageGradientOuterProduct
        How a map is made, and how many.
    n_components : int, optional
        Rows of the maps after the first; as many as features without.
    start : array, shape (k, d) or (d,), float64, optional
        The first map; the identity without.
    ridges : sequence of float, optional
        Of another fit to about the same samples: as many maps are made, each of a fit with one of
        them, and the last is taken. What is to be chosen is then searched once, and the maps are
        the samples' own.
    watch : callable
        ``watch(k, B, history)`` after each fit; a status it returns ends them. The history's
        objective is the error of the samples left out.

    Returns
    -------
    GradientFit
        The map whose fit predicts left-out samples best. `Status.EARLY_STOPPED` where two maps in
        succession gained nothing, `Status.MAX_ITER` where there were as many as were asked for. An
        interruption from the keyboard keeps the best so far.

    Raises
    ------
    ValueError
        If the structure is full and the kernel's norm not Euclidean.
    FloatingPointError
        If the first fit is not finite.

    Notes
    -----
    Each fit of all samples takes an eigendecomposition, O(n³), with q centres O(n q²); gradients
    O(n q t (k + d)). Waits for the device at each fit.
    """
    if optimizer.structure == "full" and problem.kernel.norm != "euclidean":
        msg = (
            "expected structure 'diagonal' for a kernel that does not use the Euclidean norm, got "
            f"'full' and {problem.kernel}"
        )
        raise ValueError(msg)
    return _Run(problem, optimizer, n_components, start, ridges, watch).fit()


class _Run:
    """The state of one fit: the best map so far, and the history."""

    def __init__(
        self,
        problem: MappedProblem,
        optimizer: AverageGradientOuterProduct,
        n_components: int | None,
        start: Array | None,
        known: Sequence[float] | None,
        watch: Callable[[int, Array, History], Status | None],
    ) -> None:
        self.problem, self.optimizer, self.watch = problem, optimizer, watch
        self.known, self.max_iter = known or (), optimizer.max_iter if known is None else len(known)
        self.ridges: list[float] = []
        d = problem.rows.shape[1]
        self.k = d if n_components is None else n_components
        self.begun, self.history = time.perf_counter(), History()
        xp, there = array_namespace(problem.Y), double_like(problem.Y)
        identity = xp.ones(d, **there) if optimizer.is_diagonal else xp.eye(d, **there)
        self.last: Array = identity if start is None else start
        self.best: MappedRidge | None = None
        self.n_steps = 0

    def fit(self) -> GradientFit:
        try:
            status = self._maps()
        except KeyboardInterrupt:
            if self.best is None:
                raise
            status = Status.INTERRUPTED
        assert self.best is not None
        return GradientFit(self.best, tuple(self.ridges[: self.n_steps]), status, self.history)

    def _maps(self) -> Status:
        B, step = self.last, 0
        for ridge in self.known:
            B, step = self._next(self.problem.fit(B), ridge), step + 1
        while True:
            found = self.problem.fit(B)
            if not math.isfinite(found.score):
                if self.best is None:
                    msg = "the first fit is not finite: the data overflow this precision"
                    raise FloatingPointError(msg)
                return Status.STALLED
            self._note(found, B, step)
            asked = self.watch(step, B, self.history)
            if asked is not None:
                return asked
            if step == self.max_iter:
                return Status.MAX_ITER
            if step >= self.n_steps + _PATIENCE:
                return Status.EARLY_STOPPED
            B, step = self._next(found, found.ridge), step + 1

    def _next(self, found: MappedRidge, ridge: float) -> Array:
        how = self.optimizer
        self.ridges.append(ridge)
        return how.make_map(found.gradients(ridge, how.noise, diagonal=how.is_diagonal), self.k)

    def _note(self, found: MappedRidge, B: Array, step: int) -> None:
        if self.best is None or found.score < (1.0 - _ROUNDING) * self.best.score:
            self.best, self.n_steps = found, step
        xp = array_namespace(B)
        moved = B - self.last if B.shape == self.last.shape else B
        self.last = B
        self.history.append(found.score, float(xp.sqrt(xp.sum(moved * moved))), 0.0, self.begun)
