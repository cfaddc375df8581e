r"""Kernel ridge regression with all samples for centres, in float32 with refinement in float64.

With weights D and a shift :math:`\mu`,

.. math:: \alpha = D^{1/2} (D^{1/2} K D^{1/2} + \mu I)^{-1} D^{1/2} Y,

of which float32 solves approximately: by conjugate gradients on a kernel matrix in float32, which
is kept where it fits and else computed anew, preconditioned by some centres; or, whatever the shift
is, by a Cholesky factor, which takes n³ / 3 operations. Residuals are of float64, and each further
solve is of the last one, so that the solution is that of float64 (Carson and Higham, "Accelerating
the solution of linear systems by iterative refinement in three precisions", SIAM J. Sci. Comput.
40(2), 2018). Nothing of float64 and order n² is stored.

Of very many samples some are held out, and products go on until their error stops falling; then
all samples are solved for to the residual of that moment.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from gpukfl.core._array import (
    Array,
    array_namespace,
    clip,
    epsilon,
    is_host,
    like,
    sample_dot,
    sample_norm,
    to_double,
)
from gpukfl.core._results import Solution, Status
from gpukfl.kernels import Kernel
from gpukfl.linalg import BlockCholeskyFactor, CholeskyFactor, each_block
from gpukfl.methods._nystrom import indefinite_error
from gpukfl.operators import KernelOperator
from gpukfl.partitioned._rows import Rows
from gpukfl.solvers import ConjugateGradient, EarlyStopping, Stop

# A factor that is hardly rounded takes two or three products
_BY_FACTOR = ConjugateGradient(1e-9, max_iter=100, check_every=1, n_kept=30)
# Of more products a factor takes less time; float32 alone comes no further
_BY_PRODUCTS = ConjugateGradient(3e-3, max_iter=150, check_every=5)
# Of many rows a product takes longer than a look at the error of those that are held out
_UNTIL_STOPPED = ConjugateGradient(0.0, max_iter=200, check_every=1)
# Directions that are kept, and their elements at most: rounding then decides no step
_KEPT, _KEPT_ELEMENTS = 50, 2**26
_GAINED = 1e-3  # share by which squared errors must fall to be a gain
# Products without a gain that end it: few where the residual of the targets is small; where it is
# not, errors of a poor preconditioner rest or rise for a dozen products and then fall again
_SMALL, _FEW_VAIN, _MANY_VAIN = 0.1, 4, 16
_FIRST_SHARE = 0.7  # of the time, after which those with rows held out end
_LOST = 1e4  # times the first residual, above which rounding has made directions of noise
_SOLVED = 1e-7  # residual of a target below which rounding to float32 is all that is left
# Columns of a block of the factor: a host factors all at once, in its threads. On a GPU a product
# of so many runs at full speed, and takes .3 GB of float32
_WIDTH = 8192
_PASSES = 8  # of refinement, each of which leaves some thousandths
_GAIN = 0.5  # of the residual that a pass must take, or rounding does not let it
# Rounding moves eigenvalues of a kernel matrix by some epsilon √n of its mean diagonal: of a shift
# that is not above, the factor may not exist
_ROUNDING, _RAISE, _LARGEST = 4.0, 30.0, 1e-2

Apply = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class AllRowsSolution:
    """Dual coefficients of all samples, and how the solver ended.

    Attributes
    ----------
    alpha : array, shape (n, t)
        In float64.
    status : Status
        `CONVERGED` where every residual is below the tolerance.
    n_iter : int
        Products with the kernel matrix, but for those of residuals.
    residual : float
        The largest residual of a target in float64, relative to it.
    jitter : float
        What was added to the diagonal of a factored matrix, in units of its mean. The solution is
        without it.
    errors : tuple of float
        Squared errors on rows that were held out, in units of those of 0: after each product
        without these rows.
    centers_error : float, optional
        The same of the centres alone.
    by_factor : bool
        Whether the matrix was factored.
    """

    alpha: Array
    status: Status
    n_iter: int
    residual: float
    jitter: float = 0.0
    errors: tuple[float, ...] = ()
    centers_error: float | None = None
    by_factor: bool = False

    @property
    def beats_centers(self) -> bool:
        """Whether the lowest error on rows held out is below that of the centres alone."""
        return self.centers_error is not None and min(self.errors, default=math.inf) < (
            self.centers_error
        )


@dataclass(frozen=True, eq=False)
class _System:
    """The system of all samples, in float64, with targets of norm 1."""

    kernel: Kernel
    X: Array  # (n, k)
    right: Array  # (n, t), weighted
    roots: Array | None  # of the weights, (n, 1)
    size: Array  # (t,), of the targets
    shift: float

    @classmethod
    def from_targets(
        cls, kernel: Kernel, X: Array, Y: Array, weights: Array | None, shift: float, /
    ) -> _System:
        """Weigh targets, and divide them by their norms."""
        X, right = to_double(X), to_double(Y)
        xp = array_namespace(right)
        roots = None if weights is None else xp.sqrt(to_double(weights))
        if roots is not None:
            right = roots * right
        size = _sizes(right)
        return cls(kernel, X, right / size, roots, size, shift)

    def apply(self, V: Array, /) -> Array:
        """Multiply the matrix with V (n, t), in float64."""
        return self.weigh(multiply_symmetric(self.kernel, self.X, self.weigh(V))) + self.shift * V

    def in_half(self) -> Apply:
        """Return `apply` by kernel values of float32, which are kept where they fit."""
        xp = array_namespace(self.X)
        few = xp.astype(self.X, xp.float32)
        rounded = KernelOperator(self.kernel, Rows(few, few[:0, 0]), few, keep=True)

        def apply(V: Array) -> Array:
            product = rounded @ xp.astype(self.weigh(V), xp.float32)
            return self.weigh(to_double(product)) + self.shift * V

        return apply

    @cached_property
    def mean_diagonal(self) -> float:
        """Mean of the diagonal without the shift, 1 for 0."""
        own = self.weigh(self.weigh(self.kernel.diagonal(self.X)[:, None]))
        return float(array_namespace(own).mean(own)) or 1.0

    @property
    def rounding(self) -> float:
        """By how much rounding to float32 moves eigenvalues."""
        xp = array_namespace(self.X)
        few = xp.zeros(0, **{**like(self.X), "dtype": xp.float32})
        return _ROUNDING * epsilon(few) * math.sqrt(self.X.shape[0]) * self.mean_diagonal

    def weigh(self, V: Array, /) -> Array:
        """Multiply V (n, t) by the roots of the weights."""
        return V if self.roots is None else self.roots * V

    def solution(self, x: Array, status: Status, n_iter: int, r: Array) -> AllRowsSolution:
        """Return the solution with a residual `r`, in units of the targets."""
        worst = float(array_namespace(r).max(sample_norm(r)))
        return AllRowsSolution(self.size * self.weigh(x), status, n_iter, worst)


def _sizes(V: Array) -> Array:
    """Return the norms of the columns of V (n, t), 1 for 0."""
    xp, norms = array_namespace(V), sample_norm(V)
    return xp.where(norms > 0, norms, xp.ones_like(norms))


def solve_by_factor(
    kernel: Kernel,
    X: Array,
    Y: Array,
    weights: Array | None,
    /,
    *,
    shift: float,
    solver: ConjugateGradient = _BY_FACTOR,
) -> AllRowsSolution:
    r"""Solve by a Cholesky factor in float32, as preconditioner of conjugate gradients in float64.

    Parameters
    ----------
    kernel : Kernel
        At its lengthscale.
    X : array, shape (n, k)
        Samples as the kernel sees them.
    Y : array, shape (n, t)
        Targets.
    weights : array, shape (n, 1), optional
        Sample weights D.
    shift : float
        :math:`\mu`, positive.
    solver : ConjugateGradient
        Tolerance and products of the refinement.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the kernel matrix is not finite, or far from positive semidefinite.

    Notes
    -----
    n³ / 3 operations of float32, and n² / 2 kernel values of float64 a product. The factor takes
    4 n² bytes on a host; elsewhere it is made of block columns, and takes 2 n².
    """
    system = _System.from_targets(kernel, X, Y, weights, shift)
    factor, jitter = _factor_in_half(system)

    def precondition(r: Array) -> Array:
        # Of small residuals no digit falls below the smallest number of float32
        unit, xp = _sizes(r), array_namespace(r)
        return unit * to_double(factor.solve(xp.astype(r / unit, xp.float32)))

    found = solver.solve(system.apply, system.right, precondition=precondition)
    solution = system.solution(found.x, found.status, found.n_iter, found.residual)
    return replace(solution, jitter=jitter, by_factor=True)


def solve_by_products(
    kernel: Kernel,
    X: Array,
    Y: Array,
    weights: Array | None,
    /,
    *,
    shift: float,
    precondition: Apply,
    rtol: float = 1e-9,
    share: float = 0.0,
    solver: ConjugateGradient = _BY_PRODUCTS,
) -> AllRowsSolution:
    r"""Solve by conjugate gradients on the kernel in float32, each pass on what the last one left.

    Parameters
    ----------
    kernel, X, Y, weights, shift
        As of `solve_by_factor`.
    precondition : callable
        Approximate inverse of the weighted matrix, on arrays (n, t) of float64; see
        `centers_preconditioner`.
    rtol : float
        Of the residuals in float64, relative to the targets.
    share : float
        Of what the fit itself leaves of the targets, :math:`\mu D^{-1/2} \alpha`: residuals below
        this are small enough too, as they change predictions by less.
    solver : ConjugateGradient
        Tolerance and products of a pass. Where its products do not suffice, there is no other
        pass, and the status is its own.

    Returns
    -------
    AllRowsSolution
        `Status.STALLED` where rounding of the kernel to float32 is too coarse for the shift.

    Notes
    -----
    A product takes n² kernel values of float32, which are kept between products where 8 n² bytes
    are a quarter of the memory that may be used; each pass n² / 2 values of float64.
    """
    system = _System.from_targets(kernel, X, Y, weights, shift)
    xp, apply = array_namespace(system.X), system.in_half()
    x, r, n_iter, left = xp.zeros_like(system.right), system.right, 0, 1.0
    for _ in range(_PASSES):
        unit = _sizes(r)
        found = solver.solve(apply, r / unit, precondition=precondition)
        x, n_iter = x + unit * found.x, n_iter + found.n_iter
        r = system.right - system.apply(x)
        solution = system.solution(x, found.status, n_iter, r)
        if bool(xp.all(sample_norm(r) <= clip(share * shift * sample_norm(x), low=rtol))):
            return replace(solution, status=Status.CONVERGED)
        if found.status not in (Status.CONVERGED, Status.STALLED):
            return solution
        if not solution.residual < _GAIN * left:
            break
        left = solution.residual
    return replace(solution, status=Status.STALLED)


def solve_by_early_stopping(
    kernel: Kernel,
    X: Array,
    Y: Array,
    weights: Array | None,
    /,
    *,
    shift: float,
    centers: KernelOperator,
    factors: tuple[CholeskyFactor, CholeskyFactor],
    n_held: int,
    max_time: float | None = None,
    solver: ConjugateGradient = _UNTIL_STOPPED,
) -> AllRowsSolution:
    r"""Solve by products until the error on the last rows, which are held out, stops falling.

    Held-out rows are rows without coefficients, which the preconditioner leaves at 0: what the
    iteration calls their residual is then the error of its prediction, and costs nothing. From the
    iterate of the lowest error the iteration goes on with all rows, until their residual is no
    larger, of each target and for each row, than that of the other rows was there. Where that is
    not reached, the iterate of the smallest residual is taken.

    Parameters
    ----------
    kernel, X, Y, weights, shift
        As of `solve_by_factor`.
    centers : KernelOperator
        Kernel between all samples and q of them, in float64.
    factors : tuple of CholeskyFactor
        As of `NystromSystem.factors`, of all samples.
    n_held : int
        Rows that are held out at first, from 1 to n - 1: the last ones, none of them a centre.
    max_time : float, optional
        Seconds. The best iterate until then is kept.
    solver : ConjugateGradient
        Products at most, and how often the error is looked at. Nothing else of it is used.

    Returns
    -------
    AllRowsSolution
        `Status.EARLY_STOPPED` where the error stopped falling. Where there was no time, or Ctrl-C
        ended it with `Status.INTERRUPTED`, rows that were held out may have coefficients of 0; an
        interrupted one has the residual of the recursion.

    Raises
    ------
    numpy.linalg.LinAlgError
        If rounding makes the factor without the held-out rows indefinite.

    Notes
    -----
    A product takes n² kernel values of float32, which are kept between products where 8 n² bytes
    are a quarter of the memory that may be used, or n² / 2 of float64 where float32 cannot tell the
    shift from rounding; a preconditioner 2 n q of float64, and the last residual n² / 2. Nothing
    else of order n² is stored.
    """
    begun = time.perf_counter()
    system = _System.from_targets(kernel, X, Y, weights, shift)
    held = _HeldOut.from_rows(system, centers, factors, n_held)
    ends = [None if max_time is None else begun + share * max_time for share in (_FIRST_SHARE, 1.0)]
    kept = min(_KEPT, _KEPT_ELEMENTS // math.prod(Y.shape))
    solver = replace(solver, rtol=0.0, atol=0.0, n_kept=kept)
    # A shift that float32 rounds away takes products of float64
    apply = system.in_half() if shift > system.rounding else system.apply
    rule = EarlyStopping(held.error, _GAINED, _MANY_VAIN, ends[0])

    def stop(k: int, x: Array, r: Array) -> Status | None:
        left, ended = _largest_norm(r[: held.first, :]), rule(k, x, r)
        if left <= _SMALL and rule.waited >= _FEW_VAIN:
            return Status.EARLY_STOPPED
        return ended or (Status.STALLED if left <= _SOLVED else None)

    found = _solve(solver, apply, system.right, held.precondition, rule, stop)
    status, n_iter, x, r = found.status, found.n_iter, found.x, found.residual
    if status not in (Status.INTERRUPTED, Status.TIME_LIMIT):
        # Nothing is held out any more: what was its error is a residual now
        inverse = centers_preconditioner(centers, *factors, weights, shift=shift)
        unit = clip(held.scale * sample_norm(r[: held.first, :]), low=_SOLVED)
        last = EarlyStopping(lambda _, r: _largest_norm(r), patience=None, deadline=ends[1])
        found = _solve(replace(solver, atol=1.0), apply, r / unit, inverse, last, last)
        n_iter, x, r = n_iter + found.n_iter, x + unit * found.x, unit * found.residual
        status = found.status if found.status is Status.INTERRUPTED else status
    if status is not Status.INTERRUPTED:
        r = system.right - system.apply(x)
    solution = system.solution(x, status, n_iter, r)
    return replace(solution, errors=tuple(rule.errors), centers_error=held.centers_error)


def _solve(
    solver: ConjugateGradient,
    apply: Apply,
    b: Array,
    precondition: Apply,
    rule: EarlyStopping,
    stop: Stop,
) -> Solution:
    """Solve until `stop` ends it; return the best iterate of the rule if it has not converged."""
    most = _LOST * _largest_norm(b)

    def watch(k: int, x: Array, r: Array) -> Status | None:
        lost = not _largest_norm(r) <= most
        return stop(k, x, r) or (Status.STALLED if lost else None)

    try:
        found = solver.solve(apply, b, precondition=precondition, stop=watch)
    except KeyboardInterrupt:
        found = Solution(0.0 * b, Status.INTERRUPTED, 0, b)
    if found.status is Status.CONVERGED or rule.best is None:
        return found
    k, x, r = rule.best
    return Solution(x, found.status, k, r)


def _largest_norm(r: Array) -> float:
    """Return the largest norm of a column of r (n, t)."""
    return float(array_namespace(r).max(sample_norm(r)))


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """The last rows of a system, without coefficients."""

    first: int  # of the rows that are held out
    scale: float  # of the norms of residuals of all rows, in units of those of the others
    squares: float  # of the targets that are held out
    precondition: Apply  # which leaves these rows at 0
    centers_error: float  # squared, of the centres alone, in units of the targets

    @classmethod
    def from_rows(
        cls,
        system: _System,
        centers: KernelOperator,
        factors: tuple[CholeskyFactor, CholeskyFactor],
        n_held: int,
        /,
    ) -> _HeldOut:
        """Take the held-out rows out of the sums of the centres."""
        (core, inner), n = factors, system.X.shape[0]
        first, xp = n - n_held, array_namespace(system.right)
        rows = centers.values(first, n)
        if system.roots is not None:
            rows = system.roots[first:, :] * rows
        features = core.solve_lower(rows.T)  # (q, h)
        inner = CholeskyFactor.factor(inner.L @ inner.L.T - features @ features.T, overwrite=True)
        weights = None if system.roots is None else system.roots**2
        inverse = centers_preconditioner(centers, core, inner, weights, shift=system.shift)
        inside = xp.zeros_like(system.right[:, :1])
        inside[:first, :] = 1.0
        target = system.right[first:, :]
        moment = core.solve_lower(centers.adjoint(system.weigh(inside * system.right)))
        left = target - features.T @ inner.solve(moment)
        squares = float(xp.sum(sample_dot(target, target)))
        return cls(
            first,
            math.sqrt(n / first),
            squares,
            lambda r: inside * inverse(inside * r),
            _share(left, squares),
        )

    def error(self, _: Array, r: Array) -> float:
        """Return the squared error on the rows that are held out."""
        return _share(r[self.first :, :], self.squares)


def _share(left: Array, squares: float) -> float:
    """Return the sum of the squares of (h, t) in units of others, NaN where these are 0."""
    xp = array_namespace(left)
    return float(xp.sum(sample_dot(left, left))) / squares if squares > 0 else math.nan


def centers_preconditioner(
    operator: KernelOperator,
    core: CholeskyFactor,
    inner: CholeskyFactor,
    weights: Array | None,
    /,
    *,
    shift: float,
) -> Apply:
    r"""Return the inverse of the matrix of all samples where some centres stand for the kernel.

    .. math:: P^{-1} = \tfrac1\mu \bigl(I - \Phi (\mu I + \Phi^\top \Phi)^{-1} \Phi^\top\bigr),
              \qquad \Phi = D^{1/2} K_{nq} L^{-\top}

    Parameters
    ----------
    operator : KernelOperator
        Kernel between all samples and q of them, in float64.
    core : CholeskyFactor
        L, of the kernel among the centres.
    inner : CholeskyFactor
        Of :math:`\mu I + \Phi^\top \Phi` (q, q).
    weights : array, shape (n, 1), optional
        Sample weights D.
    shift : float
        :math:`\mu`, positive.

    Returns
    -------
    callable
        On arrays (n, t); O(n q t) each, two passes over the kernel.
    """
    roots = None if weights is None else array_namespace(weights).sqrt(to_double(weights))

    def weigh(V: Array) -> Array:
        return V if roots is None else roots * V

    def apply(r: Array) -> Array:
        inside = inner.solve(core.solve_lower(operator.adjoint(weigh(r))))
        return (r - weigh(operator @ core.solve_upper(inside))) / shift

    return apply


def multiply_symmetric(kernel: Kernel, X: Array, V: Array, /) -> Array:
    """Multiply the kernel among the rows of `X` (n, k) with V (n, t): n² / 2 kernel values."""
    xp = array_namespace(V)
    product = xp.zeros_like(V)

    def add(start: int, stop: int, K: Array) -> None:
        product[start:stop, :] += K @ V[:stop, :]
        product[:start, :] += K[:, :start].T @ V[start:stop, :]

    _each_lower_block(kernel, X, (0, X.shape[0]), add)
    return product


def _each_lower_block(
    kernel: Kernel, X: Array, columns: tuple[int, int], take: Callable[[int, int, Array], None]
) -> None:
    """Pass rows of some columns of a kernel matrix, from the first of these on.

    Each block ends at the last column, or where its diagonal does.
    """
    n, (first, last) = X.shape[0], columns

    def compute(start: int, stop: int) -> Array:
        return kernel._evaluate(X[start:stop, :], X[first : min(stop, last), :])

    each_block(X[:0, 0], (first, n), last - first, compute, take)


def _factor_in_half(system: _System) -> tuple[BlockCholeskyFactor, float]:
    """Factor the matrix in float32, with as little added to its diagonal as that needs."""
    n, shift = system.X.shape[0], system.shift
    width = n if is_host(system.X) else _WIDTH
    mean, least = system.mean_diagonal, system.rounding
    jitter = max(least - shift, 0.0)
    while True:
        form = partial(_form_columns, system, shift + jitter)
        try:
            return BlockCholeskyFactor.factor(n, width, form), jitter / mean
        except np.linalg.LinAlgError as error:
            if jitter >= _LARGEST * mean:
                raise indefinite_error(n, jitter / mean) from error
            jitter = min(max(jitter, least) * _RAISE, _LARGEST * mean)


def _form_columns(system: _System, shift: float, first: int, last: int) -> Array:
    """Return the lower part of columns of the matrix with a shift, in float32."""
    s, n = system.roots, system.X.shape[0]
    xp = array_namespace(system.X)
    few: dict[str, Any] = {**like(system.X), "dtype": xp.float32}
    A = xp.zeros((n - first, last - first), **few)

    def take(start: int, stop: int, K: Array) -> None:
        if s is not None:
            K = s[start:stop, :] * K * s[first : first + K.shape[1], :].T
        a, b = start - first, K.shape[1]
        A[a : stop - first, :b] = xp.astype(K, xp.float32)
        if a < b:
            A[a:b, a:b] += xp.asarray(shift, **few) * xp.eye(b - a, **few)

    _each_lower_block(system.kernel, system.X, (first, last), take)
    return A
