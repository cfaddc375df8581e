"""Conjugate gradients for several right-hand sides at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gpukfl._array import (
    Array,
    array_namespace,
    clipped,
    epsilon,
    sample_norm,
    to_host,
)
from gpukfl._results import Solution, Status
from gpukfl.linalg import column_dots, conjugate_direction, conjugate_step

# The recursion drifts from the true residual by about epsilon times the condition number, which
# stays a small part of a tolerance above this many cube roots of epsilon
_LOOSE = 10.0


@dataclass(frozen=True)
class ConjugateGradient:
    r"""Preconditioned conjugate gradients for symmetric positive definite systems.

    Stops when every residual is at most ``max(rtol ‖b‖, atol)``. Inner products are accumulated
    in float64. Residuals are read every `check_every` steps only: each reading waits for the
    device. The last residual is computed anew, except where `rtol` is so loose that rounding
    does not count; where rounding keeps it above the tolerance the status is `Status.STALLED`.

    Raises
    ------
    ValueError
        If `max_iter` or `check_every` is less than 1, or a tolerance is negative.

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

    def __post_init__(self) -> None:
        if self.max_iter < 1 or self.check_every < 1:
            msg = (
                "expected max_iter and check_every of at least 1, "
                f"got {self.max_iter} and {self.check_every}"
            )
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
        measure: Callable[[Array, Array], Array] | None = None,
        enough: Callable[[np.ndarray], bool] = lambda measured: False,  # noqa: ARG005
    ) -> Solution:
        """Solve ``A x = b``.

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
            ``measure(x, r)``, float64 (k,) beside `b`, is computed at every check and read in the
            same wait.
        enough : callable
            ``enough(measured)`` is asked at every check, with a host array, empty without
            `measure`; True stops with `Status.DECIDED`.

        Returns
        -------
        Solution
            ``x`` and ``residual`` like `b`.

        Notes
        -----
        Waits for the device at every check. Budget on a GPU, an iteration: 20 launches, 0.1 waits,
        0 uploads, with a product by an exact centred kernel (11 of them) and a check every 10.
        """
        size = sample_norm(b)
        tol = clipped(self.rtol * size, low=self.atol)
        look = _Look(tol, measure, enough)
        return replace(self._iterate(A, b, tol, start, precondition, look), size=size)

    def _iterate(
        self,
        A: Callable[[Array], Array],
        b: Array,
        tol: Array,
        start: Array | None,
        precondition: Callable[[Array], Array] | None,
        look: _Look,
    ) -> Solution:
        xp = array_namespace(b)
        loose = self.rtol > _LOOSE * epsilon(b) ** (1 / 3)
        x, r = (xp.zeros_like(b), b) if start is None else (start, b - A(start))
        p = z = r if precondition is None else precondition(r)
        rz = column_dots(r, z)
        worst = xp.where(xp.isnan(rz), rz, xp.zeros_like(rz))  # curvature so far, or NaN
        for k in range(self.max_iter + 1):
            if k % self.check_every == 0 or k == self.max_iter:
                squares = rz if precondition is None else column_dots(r, r)
                seen = look(worst, squares, x, r)
                if seen is Status.CONVERGED and not (k == 0 or loose):
                    r = b - A(x)
                    seen = Status.CONVERGED if _all_below(sample_norm(r), tol) else Status.STALLED
                if seen is not None:
                    return Solution(x, seen, k, r)
            if k == self.max_iter:
                break
            Ap = A(p)
            curvature = column_dots(p, Ap)
            x, r, worst = conjugate_step(x, r, p, Ap, rz, curvature, worst)
            z = r if precondition is None else precondition(r)
            rz, rz_old = column_dots(r, z), rz
            p = conjugate_direction(z, p, rz, rz_old)
        return Solution(x, Status.MAX_ITER, self.max_iter, r)


class _Look:
    """Looks at how an iteration goes: each is the only wait for the device."""

    def __init__(
        self,
        tol: Array,
        measure: Callable[[Array, Array], Array] | None,
        enough: Callable[[np.ndarray], bool],
    ) -> None:
        self.tol, self.measure, self.enough = tol, measure, enough
        self._known: np.ndarray | None = None  # the tolerance, read with the first look

    def __call__(self, worst: Array, squares: Array, x: Array, r: Array) -> Status | None:
        """Give how it has ended, None if it has not."""
        asked = [] if self.measure is None else [self.measure(x, r)]
        xp, t = array_namespace(squares), math.prod(squares.shape)
        parts = [worst, squares, *asked, *([self.tol] if self._known is None else [])]
        host = to_host(xp.concat([xp.reshape(part, (-1,)) for part in parts]))
        if self._known is None:
            host, self._known = host[:-t], host[-t:]
        return self._judge(host[:t], host[t : 2 * t], host[2 * t :])

    def _judge(self, worst: np.ndarray, squares: np.ndarray, asked: np.ndarray) -> Status | None:
        xp = array_namespace(squares)
        if xp.any(~(worst >= 0) | xp.isnan(squares)):
            return Status.BREAKDOWN
        if xp.all(xp.sqrt(squares) <= self._known):
            return Status.CONVERGED
        return Status.DECIDED if self.enough(asked) else None


def _all_below(norm: Array, tol: Array, /) -> bool:
    return bool(array_namespace(norm).all(norm <= tol))
