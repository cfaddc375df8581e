"""Conjugate gradients for several right-hand sides at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gpukfl.core._array import (
    Array,
    array_namespace,
    as_columns,
    clip,
    double_like,
    like,
    sample_norm,
    to_host,
)
from gpukfl.core._results import Solution, Status
from gpukfl.linalg import (
    column_dots,
    column_dots_in_one_pass,
    conjugate_direction,
    conjugate_step,
    record,
)
from gpukfl.solvers._early_stopping import Stop

_HARMLESS = 3  # steps after which rounding has not yet grown
_BLOCK = 2**16  # elements of directions that are kept together, ...
_FEWEST = 8  # ... or so many directions

Measure = Callable[[Array, Array], tuple[Array, Array, Array | None]]


@dataclass(frozen=True)
class ConjugateGradient:
    r"""Preconditioned conjugate gradients for symmetric positive definite systems.

    Stops when every residual is at most ``max(rtol ‖b‖, atol)``. Inner products are accumulated
    in float64. Residuals are checked every `check_every` steps only, and of these `read_every` are
    read together, because each reading waits for the device: the steps after the one that turns
    out to be the last are made in vain, and leave no trace in the solution. The last residual is
    computed anew, since that of the recursion drifts by about the precision times the condition
    number; where rounding keeps it above the tolerance the status is `Status.STALLED`. A
    right-hand side whose square is 0 or infinite though it is not is `Status.BREAKDOWN`; so is a
    matrix that is not positive definite, where iterates may grow beyond all numbers: the solution
    is then the one that left least, among those that were checked.

    Rounding grows from step to step, by as much as a million times in twenty, since it makes
    directions less and less conjugate. The first `n_kept` directions are kept, and each new one is
    made conjugate to all of them: equal problems then have equal solutions on every place, up to
    some units of the precision, however loose the tolerance is.

    Raises
    ------
    ValueError
        If `max_iter`, `check_every` or `read_every` is less than 1, or `n_kept` or a tolerance is
        negative.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> solution = ConjugateGradient().solve(lambda V: A @ V, np.array([3.0, 4.0]))
    >>> solution.status.name
    'CONVERGED'
    """

    rtol: float = 1e-6
    atol: float = 0.0
    max_iter: int = 1000
    check_every: int = 5
    read_every: int = 1
    n_kept: int = 0

    def __post_init__(self) -> None:
        if self.max_iter < 1 or self.check_every < 1:
            msg = (
                "expected max_iter and check_every of at least 1, "
                f"got {self.max_iter} and {self.check_every}"
            )
            raise ValueError(msg)
        if self.read_every < 1:
            msg = f"expected read_every of at least 1, got {self.read_every}"
            raise ValueError(msg)
        if self.n_kept < 0:
            msg = f"expected n_kept of at least 0, got {self.n_kept}"
            raise ValueError(msg)
        if not (self.rtol >= 0 and self.atol >= 0):
            msg = f"expected tolerances of at least 0, got {self.rtol} and {self.atol}"
            raise ValueError(msg)

    def solve(
        self,
        A: Callable[[Array], Array],
        b: Array,
        /,
        *,
        start: Array | None = None,
        precondition: Callable[[Array], Array] | None = None,
        measure: Measure | None = None,
        enough: Callable[[Array], bool] = lambda measured: False,  # noqa: ARG005
        stop: Stop | None = None,
    ) -> Solution:
        r"""Solve ``A x = b``.

        Parameters
        ----------
        A : callable
            Product of the matrix with an array like `b`. Positive definiteness is not checked,
            but noticed when a direction shows otherwise.
        b : array, shape (n,) or (n, t)
            Right-hand sides.
        start : array like `b`, optional
            First guess; zero without one. Saves a product when absent.
        precondition : callable
            Approximate inverse, symmetric positive definite.
        measure : callable, optional
            ``measure(x, r)`` gives arrays (u, v, w) like `b`, or None for w: the inner products of
            the columns of u + w and v are computed at every check and read with it.
        enough : callable
            ``enough(measured)`` is asked at every check, with a host array (t,), where there is
            something to `measure`; True stops with `Status.DECIDED`.
        stop : callable, optional
            ``stop(k, x, r)`` is asked at every check that the tolerance does not end, with the
            iterate and the residual of the recursion; a status ends the iteration there. See
            `EarlyStopping`. What it reads of them waits for the device, which `enough` does not.

        Returns
        -------
        Solution
            ``x`` and ``residual`` like `b`.

        Notes
        -----
        Waits for the device at every reading, for which the iterates since the last are kept.
        Budget on a GPU, an iteration: 11.5 launches, 0.1 waits, 0 uploads of 0 kB, 2.5 MB read and
        written, with a product by a centred Brownian kernel of 4000 samples and 8 particles (7 of
        them) and a check every 10. With directions kept, 9 launches more.
        """
        xp = array_namespace(b)
        size = xp.sqrt(column_dots(b, b))
        # Of what cannot be measured NaN, which no residual is below
        lost = (size == 0.0) & xp.any(b != 0.0, axis=0) | ~xp.isfinite(size)
        tol = xp.where(lost, xp.full_like(size, math.nan), clip(self.rtol * size, low=self.atol))
        log = _Log(self.read_every, tol, measure, enough, stop)
        return replace(self._iterate(A, b, tol, start, precondition, log), size=size)

    def _iterate(
        self,
        A: Callable[[Array], Array],
        b: Array,
        tol: Array,
        start: Array | None,
        precondition: Callable[[Array], Array] | None,
        log: _Log,
    ) -> Solution:
        xp = array_namespace(b)
        x, r = (xp.zeros_like(b), b) if start is None else (start, b - A(start))
        p = z = r if precondition is None else precondition(r)
        rz, *asked = log.sums(x, r, z)
        worst = xp.where(xp.isnan(rz), rz, xp.zeros_like(rz))  # curvature so far, or NaN
        kept = _KeptDirections(self.n_kept)
        for k in range(self.max_iter + 1):
            if self._checks(k):
                is_full = log.add(k, worst, rz, asked, x, r)
                ended = log.read() if is_full or k == self.max_iter else None
                if ended is not None:
                    status, k_end, x, r = ended
                    if status is Status.CONVERGED and k_end > 0:
                        r = b - A(x)
                        below = _all_below(sample_norm(r), tol)
                        status = Status.CONVERGED if below else Status.STALLED
                    return Solution(x, status, k_end, r)
            if k == self.max_iter:
                break
            Ap = A(p)
            curvature = column_dots(p, Ap)
            kept.add(p, Ap, curvature)
            # Where all directions are used up, p is what rounding leaves of z
            along = column_dots(r, p) if kept.corrects else rz
            x, r, worst = conjugate_step(x, r, p, Ap, along, curvature, worst)
            z = r if precondition is None else precondition(r)
            rz_old = rz
            rz, *asked = log.sums(x, r, z) if self._checks(k + 1) else [column_dots(r, z)]
            p = kept.make_conjugate(conjugate_direction(z, p, rz, rz_old))
        return Solution(x, Status.MAX_ITER, self.max_iter, r)

    def _checks(self, k: int) -> bool:
        return k % self.check_every == 0 or k == self.max_iter


class _KeptDirections:
    """The previous directions, in growing blocks."""

    def __init__(self, at_most: int) -> None:
        self._room, self._count = at_most, 0  # _count in the last block
        self._blocks: list[tuple[Array, Array]] = []  # p and A p, of p'A p = 1: (t, directions, n)

    def add(self, p: Array, Ap: Array, curvature: Array) -> None:
        """Store a direction, while there is room."""
        if not self._room:
            return
        p, Ap = as_columns(p), as_columns(Ap)
        xp, (n, t) = array_namespace(p), p.shape
        if not self._blocks or self._count == self._blocks[-1][0].shape[1]:
            shape = (t, min(max(_BLOCK // (n * t), _FEWEST), self._room), n)
            self._blocks.append((xp.empty(shape, **like(p)), xp.empty(shape, **like(p))))
            self._count = 0
        # A direction whose length nothing holds is kept as 0
        held = curvature > float(xp.finfo(p.dtype).smallest_normal)
        size = xp.sqrt(xp.where(held, curvature, xp.full_like(curvature, math.inf)))
        size = xp.astype(size, p.dtype, copy=False)
        directions, products = self._blocks[-1]
        directions[:, self._count, :] = (p / size).T
        products[:, self._count, :] = (Ap / size).T
        self._room, self._count = self._room - 1, self._count + 1

    @property
    def corrects(self) -> bool:
        """Whether there are so many directions that their rounding errors matter."""
        return len(self._blocks) > 1 or self._count > _HARMLESS

    def make_conjugate(self, p: Array) -> Array:
        """Make `p` conjugate to the stored directions."""
        if not self.corrects:
            return p
        xp = array_namespace(p)
        moved = as_columns(p).T[:, :, None]  # (t, n, 1)
        for k, block in enumerate(self._blocks, start=1):
            count = self._count if k == len(self._blocks) else block[0].shape[1]
            directions, products = (x[:, :count, :] for x in block)
            moved = moved - xp.matrix_transpose(directions) @ (products @ moved)
        return xp.reshape(moved[:, :, 0].T, p.shape)


class _Log:
    """A log of checks, read in batches because each reading waits for the device."""

    def __init__(
        self,
        length: int,
        tol: Array,
        measure: Measure | None,
        enough: Callable[[Array], bool],
        stop: Stop | None,
    ) -> None:
        self.length, self.measure, self.enough, self.stop = length, measure, enough, stop
        shape = (length + 1, 3, math.prod(tol.shape))
        self._numbers = array_namespace(tol).empty(shape, **double_like(tol))
        record(self._numbers, length, tol, tol, tol)
        self._states: list[tuple[int, Array, Array]] = []
        self._best: tuple[int, Array, Array] | None = None  # of the smallest residual so far
        self._least = math.inf

    def sums(self, x: Array, r: Array, z: Array) -> list[Array]:
        """Return the inner products of a step: ``r z``, perhaps ``r r``, and the measure."""
        squares = [] if z is r else [(r, r, None)]
        measured = [] if self.measure is None else [self.measure(x, r)]
        return column_dots_in_one_pass((r, z, None), *squares, *measured)

    def add(
        self, k: int, worst: Array, rz: Array, others: Sequence[Array], x: Array, r: Array
    ) -> bool:
        """Record step `k` with its `sums`; return whether the log is full."""
        squares = rz if len(others) == (self.measure is not None) else others[0]
        asked = squares if self.measure is None else others[-1]
        record(self._numbers, len(self._states), worst, squares, asked)
        self._states.append((k, x, r))
        return len(self._states) == self.length

    def read(self) -> tuple[Status, int, Array, Array] | None:
        """Return status, number, x and r of the first step at which the iteration has ended."""
        host, states = to_host(self._numbers), self._states
        self._states = []
        for numbers, state in zip(host, states, strict=False):
            worst, squares, asked = numbers
            status = self._judge(worst, squares, asked, host[self.length, 0, :])
            total = float(squares.sum())
            if self._best is None or total < self._least:
                self._best, self._least = state, total
            if status is None and self.stop is not None:
                status = self.stop(*state)
            if status is not None:
                return status, *(self._best if status is Status.BREAKDOWN else state)
        return None

    def _judge(self, worst: Array, squares: Array, asked: Array, tol: Array) -> Status | None:
        xp = array_namespace(squares)
        if xp.any(~(worst >= 0) | xp.isnan(squares) | xp.isnan(tol)):
            return Status.BREAKDOWN
        if xp.all(xp.sqrt(squares) <= tol):
            return Status.CONVERGED
        decided = self.measure is not None and self.enough(asked)
        return Status.DECIDED if decided else None


def _all_below(norm: Array, tol: Array, /) -> bool:
    return bool(array_namespace(norm).all(norm <= tol))
