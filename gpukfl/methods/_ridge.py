r"""Kernel ridge regression with an unpenalised intercept, for a kernel given by its products.

With weights :math:`s_i^2` of sum N the dual coefficients are :math:`\alpha = D_s \beta` and

.. math:: (\tilde K + N \lambda I)\,\beta = \Pi_s D_s Y, \qquad
          \tilde K = \Pi_s D_s K D_s \Pi_s

(Lemma 7 of arXiv:2407.17280, where s = 1).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gpukfl.core._array import (
    Array,
    array_namespace,
    epsilon,
    is_on_gpu,
    lies_in_parts,
    sample_dot,
    sample_norm,
    sample_sums,
    to_host,
)
from gpukfl.core._results import Solution, Status
from gpukfl.linalg import CholeskyFactor, add_to_diagonal, column_dots_in_one_pass
from gpukfl.operators import (
    BinnedBrownianKernel,
    CenteredKernel,
    CoarseGrid,
    KnotSums,
    LinearOperator,
    center,
    coarse_factor,
)
from gpukfl.partitioned._rows import Rows, elementwise_max, recompute, reduce_rows
from gpukfl.solvers import ConjugateGradient, ConjugateGradientOnSums, NystromPreconditioner

# Up to this many samples the solve is a dense Cholesky factor, on every place: fits of one data set
# then differ by rounding alone
DIRECT_UP_TO = 250
# Directions of a solve that are kept, so that rounding does not grow; and elements of all of them
_KEPT, _KEPT_ELEMENTS = 64, 2**23
# On a GPU a wait costs as much as two launches, and a step a dozen; up to so many elements of the
# targets its kernels take less time than their launches
_READ_TOGETHER, _QUICK = 6, 2**16
_MANY = 1000  # samples from which a preconditioner pays, and before: ...
_LONG = 40  # iterations of a solve from which one may pay, ...
_LONG_IN_PARTS = 25  # ... and where each of them is a pass over rows that lie in parts
_TIGHT = 1e-4  # relative tolerance up to which it pays in any case
_WORN = 2  # times the iterations of its first solve, from which a preconditioner is made anew
_SKETCH_SHARE = 2  # products since the last sketch, per column of a new one


def paper_ridge(rows: Rows, n_effective: float, /) -> float:
    r"""Return the paper's ridge for real data, :math:`\max_i \|x_i\| / n`.

    Appendix B.5 of arXiv:2407.17280; its simulated experiments take twice as much.
    """

    def part(start: int, stop: int) -> list[Array]:
        norms = [_largest_norm(X) for _, _, X in rows.blocks(start=start, stop=stop)]
        return [functools.reduce(elementwise_max, norms)]

    (largest,) = reduce_rows(rows.source, part, combine=elementwise_max)
    return float(largest) / n_effective


def _largest_norm(X: Array) -> Array:
    xp = array_namespace(X)
    return xp.max(xp.linalg.vector_norm(X, axis=1))


@dataclass(eq=False)
class RidgeSystem:
    """The ridge system of one data set, solved for one kernel after another.

    Small systems are factored. Of others, solves are plain until one is long; a tight one is long
    from the outset, and so are those of many samples. From then on they are preconditioned by the
    kernel's own approximate inverse where it has one: a loose solve takes that of an earlier
    kernel until it has worn out. Otherwise by a randomised Nyström sketch, which is made once as
    many products have been spent as it would cost, and again when it has worn out.

    All choices hang on sizes and counts, and directions of conjugate gradients are kept: fits of
    the same data on two places differ by rounding alone.
    """

    Y: Array  # (n, t)
    ridge: float  # lambda, positive
    root_weights: Array | None = None  # (n, 1)
    rank: int = 40  # columns of the preconditioner's sketch
    max_iter: int = 1000
    rng: np.random.RandomState = field(default_factory=lambda: np.random.RandomState(0))
    n_products: int = 0
    _is_long: bool = False
    _sketch: NystromPreconditioner | None = None
    _fewest: int = 0  # iterations of the first solve with the preconditioner that is kept
    _inverse: tuple[LinearOperator | None, Callable[[Array], Array] | None] = (None, None)
    _products_at_sketch: int = 0
    _coarse: tuple[LinearOperator | None, CholeskyFactor | None] = (None, None)

    @cached_property
    def weight(self) -> float:
        """Sum of the sample weights, N."""
        s = self.root_weights
        return float(self.Y.shape[0]) if s is None else float(sample_dot(s, s)[0])

    @cached_property
    def target(self) -> Array:
        """The right-hand side, centred and weighted."""
        s = self.root_weights
        return recompute(center(self.Y if s is None else s * self.Y, s))

    @property
    def shift(self) -> float:
        """N times the ridge."""
        return self.weight * self.ridge

    def solve(
        self,
        kernel: LinearOperator,
        /,
        *,
        start: Array | None = None,
        rtol: float,
        measure: Callable[[Array, Array], tuple[Array, Array, Array | None]] | None = None,
        enough: Callable[[Array], bool] = lambda measured: False,  # noqa: ARG005
    ) -> Solution:
        """Solve for β; `measure` and `enough` as in `ConjugateGradient.solve`."""
        if lies_in_parts(self.target) and isinstance(kernel, BinnedBrownianKernel):
            return self._solve_in_parts(kernel, start, rtol, enough)
        centered = CenteredKernel(kernel, self.root_weights)
        if kernel.n_samples <= DIRECT_UP_TO:
            solution = self._solve_directly(centered)
            if solution is not None:
                return solution
        kept = min(_KEPT, _KEPT_ELEMENTS // math.prod(self.target.shape))
        cg = ConjugateGradient(rtol, 0.0, self.max_iter, 1, self._read_every(kernel), kept)
        pays = kernel.n_samples >= _MANY or self._is_long or rtol <= _TIGHT
        own = self._inverse_near(kernel, rtol, start) if pays else None
        shifted = replace(centered, shift=self.shift)
        solution = cg.solve(
            lambda V: shifted @ V,
            self.target,
            start=start,
            precondition=own or self._sketch,
            measure=measure,
            enough=enough,
        )
        self.n_products += solution.n_iter + (start is not None)
        self._is_long = self._is_long or solution.n_iter >= _LONG
        if own is not None and self._fewest and solution.n_iter > _WORN * self._fewest:
            self._inverse, self._fewest = (None, None), 0
        elif own is not None:
            self._fewest = self._fewest or solution.n_iter
        if self._is_long and own is None and self._inverse_near(kernel, rtol, start) is None:
            self._consider_sketch(centered, solution)
        return solution

    def _solve_in_parts(
        self,
        kernel: BinnedBrownianKernel,
        start: Array | None,
        rtol: float,
        enough: Callable[[Array], bool],
    ) -> Solution:
        """Solve by few sums over rows that lie in parts."""
        system = KnotSums(kernel, self.target, self.root_weights, self.shift)
        grid = CoarseGrid.build(kernel.n_samples, kernel.ends)
        if grid is not None and (self._is_long or rtol <= _TIGHT):
            system = replace(system, grid=grid, factor=self._coarse_factor(kernel, grid))
        solution = ConjugateGradientOnSums(rtol, self.max_iter).solve(
            system, start=start, enough=enough
        )
        self._is_long = self._is_long or solution.n_iter >= _LONG_IN_PARTS
        return solution

    def _coarse_factor(self, kernel: BinnedBrownianKernel, grid: CoarseGrid) -> CholeskyFactor:
        """Return the factor of the coarse kernel, which is cached."""
        known, factor = self._coarse
        if factor is None or known is not kernel:
            self._coarse = None, None
            factor = coarse_factor(kernel, grid, self.root_weights, self.shift)
            self._coarse = kernel, factor
        return factor

    def _read_every(self, kernel: LinearOperator) -> int:
        """Return how many checks to read together: several if waits are expensive."""
        is_small = kernel.n_samples * self.target.shape[1] <= _QUICK
        return _READ_TOGETHER if is_on_gpu(self.target) and is_small else 1

    def _inverse_near(
        self, kernel: LinearOperator, rtol: float, start: Array | None
    ) -> Callable[[Array], Array] | None:
        """Return a preconditioner of this kernel, or of an earlier one while that is good.

        A solve that begins from nothing is of another kernel altogether.
        """
        if rtol > _TIGHT and start is not None and self._inverse[1] is not None:
            return self._inverse[1]
        return self._preconditioner(kernel)

    def _preconditioner(self, kernel: LinearOperator) -> Callable[[Array], Array] | None:
        """Return the preconditioner of this kernel, which is cached."""
        known, inverse = self._inverse
        if known is not kernel:
            self._inverse = None, None  # as large as the data: gone before the next is made
            try:
                inverse = kernel.approximate_inverse(self.root_weights, self.shift)
            except np.linalg.LinAlgError:  # conjugate gradients say more about what is wrong
                inverse = None
            self._inverse = kernel, inverse
        return inverse

    def _solve_directly(self, centered: CenteredKernel) -> Solution | None:
        xp = array_namespace(self.target)
        K = centered.dense(self.target)
        A = add_to_diagonal(K, self.shift)
        try:
            beta = CholeskyFactor.factor(A, overwrite=True).solve(self.target)
        except np.linalg.LinAlgError:  # conjugate gradients say more about what is wrong
            return None
        beta = center(beta, self.root_weights)
        residual = self.target - (K @ beta + self.shift * beta)
        dtype = self.target.dtype  # some kernels form their matrix in float64
        return Solution(
            xp.astype(beta, dtype, copy=False),
            Status.CONVERGED,
            1,
            xp.astype(residual, dtype, copy=False),
        )

    def _consider_sketch(self, centered: CenteredKernel, solution: Solution) -> None:
        spent = self.n_products - self._products_at_sketch
        is_worth = solution.n_iter >= _LONG and spent >= _SKETCH_SHARE * self.rank
        if not is_worth:
            return
        try:
            self._sketch = NystromPreconditioner.from_operator(
                lambda V: centered @ V, self.target, shift=self.shift, rank=self.rank, rng=self.rng
            )
        except np.linalg.LinAlgError:  # the sketch is not positive definite in this precision
            self._sketch = None
        self.n_products += self.rank
        self._products_at_sketch = self.n_products

    def bounds(self, beta: Array, residual: Array, /) -> tuple[float, float]:
        r"""Bound :math:`G = \frac\lambda2 \tilde y^\top (\tilde K + N\lambda)^{-1} \tilde y`.

        Any β with residual r gives
        :math:`\frac\lambda2 (\tilde y^\top \beta + \beta^\top r) \le G \le` that
        :math:`+ \|r\|^2 / 2N`; summed over the targets. Waits for the device.
        """
        return self.judge(beta, residual)[:2]

    def judge(self, beta: Array, residual: Array, /) -> tuple[float, float, float]:
        """Return the `bounds` and the `relative_residual`: waits for the device once."""
        squares = residual, residual, None
        found = column_dots_in_one_pass(self.operands(beta, residual), squares)
        host = to_host(array_namespace(beta).stack(found))
        xp, lower = array_namespace(host), self.lower(host[0, :])
        upper = lower + float(xp.sum(host[1, :]) / (2.0 * self.weight))
        return lower, upper, self._relative(xp.sqrt(host[1, :]))

    def operands(self, beta: Array, residual: Array, /) -> tuple[Array, Array, Array]:
        """Return what `lower` is made of: inner products, as `column_dots` takes them."""
        return self.target, beta, residual

    def lower(self, products: Array, /) -> float:
        """Return the lower one of the `bounds` from the products of `operands` on the host."""
        return float(0.5 * self.ridge * array_namespace(products).sum(products))

    def relative_residual(self, residual: Array, /) -> float:
        """Largest residual norm among the targets, relative to the target's."""
        return self._relative(to_host(sample_norm(residual)))

    def _relative(self, norms: Array) -> float:
        worst = float(array_namespace(norms).max(norms))
        return worst / self._scale if self._scale > 0 else worst

    @cached_property
    def _scale(self) -> float:
        """Largest norm among the targets."""
        return float(array_namespace(self.target).max(sample_norm(self.target)))

    def coefficients(self, beta: Array, /) -> Array:
        """Dual coefficients α, whose columns sum to zero."""
        return beta if self.root_weights is None else self.root_weights * beta

    def intercept(self, fitted: Array, /) -> Array:
        """Intercept (t,) for ``fitted = K α`` (n, t): the weighted mean of what is left."""
        xp = array_namespace(fitted)
        left = self.Y - fitted
        s = self.root_weights
        weighted = left if s is None else s * s * left
        return xp.astype(sample_sums(weighted) / self.weight, left.dtype)

    def tight(self, *data: Array) -> float:
        """Return the relative tolerance that the precision can reach."""
        return max(1e-8, *(2000.0 * epsilon(x) for x in (self.Y, *data)))
