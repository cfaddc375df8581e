"""The Lasso on a Gram matrix, by a working set."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpukfl.core._results import Status

_EPS = float(np.finfo(np.float64).eps)
_STEPS = 64  # Newton steps in a round: an interruption waits for so many at most
_FLAT = 2  # rounds in a row that must bring nothing


@dataclass(frozen=True, eq=False)
class LassoFit:
    """A minimiser of the Lasso, and the record of the solver.

    Attributes
    ----------
    coef : host array (T,)
        b, exactly 0 outside its support.
    penalty : float
        λ.
    objective : float
        F(b).
    gap : float
        Bound on what F(b) exceeds the minimum by, as a share of the mean square of y: the duality
        gap, and what rounding may hide.
    n_iter : int
        Rounds.
    status : Status
        How it ended.
    """

    coef: np.ndarray
    penalty: float
    objective: float
    gap: float
    n_iter: int
    status: Status


@dataclass(frozen=True)
class Lasso:
    r"""Least squares with an l1 penalty, from sums over the samples.

    .. math:: F(b) = \tfrac12 b^T H b - c^T b + \tfrac12 s + \lambda \|b\|_1,
        \qquad H = \Phi^T \Phi / m, \quad c = \Phi^T y / m, \quad s = y^T y / m

    This is :math:`\|y - \Phi b\|^2 / 2m + \lambda \|b\|_1`. The coordinate along which F falls
    most enters a working set; Newton steps on the set follow, each to the first change of sign,
    which takes that coordinate out again [1]_. Columns of Φ that depend on one another, as
    kernels' nearly do, make the minimiser sparse instead of the descent slow: coordinate descent
    would need tens of thousands of sweeps.

    Parameters
    ----------
    tol : float
        Ends when F is known to be this close to its minimum, as a share of s.
    max_iter : int
        Rounds of at most 64 Newton steps, at least 0. Every round computes c - H b anew.

    Raises
    ------
    ValueError
        If `tol` is not a number of at least 0, or `max_iter` is less than 0.

    Notes
    -----
    O(n (n + T)) a step for n coordinates in the set, about one step for each that enters or
    leaves; O(T²) a round. Memory for a second matrix of n rows and T columns.

    Rounding hides about :math:`\epsilon\, (\sum_j |b_j| \sqrt{H_{jj}})^2` of F. Where penalties
    are so small that this exceeds ``tol``, the status is `Status.STALLED`. It also is where the
    penalty is 0 and the residual is not, since least squares leave no duality gap to measure.

    References
    ----------
    .. [1] Lee, Battle, Raina and Ng, "Efficient sparse coding algorithms", NIPS, 2006, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> fit = Lasso().solve(np.eye(2), np.array([3.0, 0.5]), 10.0, 1.0)
    >>> fit.coef.tolist(), fit.status.name
    ([2.0, 0.0], 'CONVERGED')
    """

    tol: float = 1e-6
    max_iter: int = 1000

    def __post_init__(self) -> None:
        if not self.tol >= 0:
            msg = f"expected tol of at least 0, got {self.tol}"
            raise ValueError(msg)
        if self.max_iter < 0:
            msg = f"expected max_iter of at least 0, got {self.max_iter}"
            raise ValueError(msg)

    def solve(
        self,
        H: np.ndarray,
        c: np.ndarray,
        square: float,
        penalty: float,
        /,
        start: np.ndarray | None = None,
    ) -> LassoFit:
        """Minimise F for one penalty.

        Parameters
        ----------
        H : host array (T, T)
            :math:`Φ^T Φ / m`, symmetric and positive semidefinite; neither is checked. It may be
            singular. Coordinates with zero on the diagonal stay 0.
        c : host array (T,)
            :math:`Φ^T y / m`.
        square : float
            s, the mean square of y, at least 0.
        penalty : float
            λ, at least 0.
        start : host array (T,), optional
            First guess; zero without one, or where zero is better. Each coefficient that has to go
            takes a step: where most have to, beginning at zero is faster.

        Returns
        -------
        LassoFit
            F never exceeds its value at `start` and at 0 by more than rounding. An interruption
            from the keyboard keeps the last round.

        Raises
        ------
        ValueError
            If shapes disagree, a value is not finite, or `square` or `penalty` is negative.
        """
        return self._solve(_Sums.from_arrays(H, c, square), _penalty(penalty), start)

    def path(
        self,
        H: np.ndarray,
        c: np.ndarray,
        square: float,
        penalties: Iterable[float],
        /,
        start: np.ndarray | None = None,
    ) -> list[LassoFit]:
        """Minimise F for several penalties, each from the minimiser of the next larger one.

        Parameters
        ----------
        H, c, square
            As in `solve`.
        penalties : iterable of float
            In any order.
        start : host array (T,), optional
            First guess for the largest.

        Returns
        -------
        list of LassoFit
            One for each penalty, in the order given. After an interruption the rest have the
            coefficients of the last, and its status.

        Raises
        ------
        ValueError
            As in `solve`.
        """
        sums = _Sums.from_arrays(H, c, square)
        wanted = [_penalty(penalty) for penalty in penalties]
        fits: dict[float, LassoFit] = {}
        last = None
        for penalty in sorted(set(wanted), reverse=True):
            if last is not None and last.status is Status.INTERRUPTED:
                last = sums.point(last.coef, penalty).fit(0, Status.INTERRUPTED)
            else:
                last = self._solve(sums, penalty, start if last is None else last.coef)
            fits[penalty] = last
        return [fits[penalty] for penalty in wanted]

    def _solve(self, sums: _Sums, penalty: float, start: np.ndarray | None) -> LassoFit:
        from gpukfl._accel.cpu_lasso import WorkingSet

        here = sums.first(penalty, start)
        status, k, flat, least = Status.MAX_ITER, 0, 0, here.gap
        try:
            working = WorkingSet(sums.H, here.b)
            for k in range(self.max_iter + 1):
                if here.gap + here.rounding <= self.tol * sums.square:
                    status = Status.CONVERGED
                    break
                if flat == _FLAT or here.gap <= here.rounding:
                    status = Status.STALLED
                    break
                if k == self.max_iter:
                    break
                b, g = here.b.copy(), here.g.copy()
                gain = working.descend(b, g, penalty, _STEPS)
                new = sums.point(b, penalty)
                if new.highest > here.highest + _EPS * sums.square:
                    status = Status.STALLED  # a step along what H does not see in this precision
                    break
                # Gains too small to be seen in F may still close the gap
                useful = gain > _EPS * sums.square or new.gap < least
                here, flat, least = new, 0 if useful else flat + 1, min(least, new.gap)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        return here.fit(k, status)


def largest_penalty(c: np.ndarray, /) -> float:
    """Return the smallest penalty with minimiser 0: the largest absolute entry of `c` (T,)."""
    return float(np.abs(c).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class _Sums:
    """The checked sums of a Lasso."""

    H: np.ndarray  # (T, T)
    c: np.ndarray  # (T,)
    square: float

    @classmethod
    def from_arrays(cls, H: np.ndarray, c: np.ndarray, square: float, /) -> _Sums:
        H = np.ascontiguousarray(H, dtype=np.float64)
        c = np.ascontiguousarray(c, dtype=np.float64)
        if c.ndim != 1 or H.shape != 2 * c.shape:
            msg = f"expected H (T, T) and c (T,), got {H.shape} and {c.shape}"
            raise ValueError(msg)
        if not (np.isfinite(H).all() and np.isfinite(c).all()):
            msg = "expected finite H and c, got NaN or infinity"
            raise ValueError(msg)
        if not (math.isfinite(square) and square >= 0):
            msg = f"expected a mean square of at least 0, got {square}"
            raise ValueError(msg)
        return cls(H, c, float(square))

    def first(self, penalty: float, start: np.ndarray | None) -> _Point:
        """Return the better of `start` and 0."""
        zero = self.point(np.zeros(len(self.c)), penalty)
        if start is None:
            return zero
        b = np.asarray(start, dtype=np.float64)
        if b.shape != self.c.shape or not np.isfinite(b).all():
            msg = f"expected a finite start {self.c.shape}, got {b.shape} or NaN or infinity"
            raise ValueError(msg)
        given = self.point(np.where(self.H.diagonal() > 0, b, 0.0), penalty)
        return given if given.objective < zero.objective else zero

    def point(self, b: np.ndarray, penalty: float) -> _Point:
        r"""Evaluate F and its gap at `b`; O(T²).

        With :math:`θ = \min(1, λ / \|g\|_\infty)`, the dual point is θ times the residual and the
        gap :math:`(1 - θ)^2 \|r\|^2 / 2m + \sum_j (λ |b_j| - θ b_j g_j)`, where no term is
        negative: nothing cancels.
        """
        g = self.c - self.H @ b
        residual = max(self.square - float(self.c @ b) - float(b @ g), 0.0)  # mean square
        largest = float(np.abs(g).max(initial=0.0))
        theta = 1.0 if largest <= penalty else penalty / largest
        slack = np.maximum(penalty * np.abs(b) - theta * b * g, 0.0)
        size = float(np.abs(b) @ np.sqrt(np.maximum(self.H.diagonal(), 0.0)))
        return _Point(
            b=b,
            g=g,
            penalty=penalty,
            square=self.square,
            objective=0.5 * residual + penalty * float(np.abs(b).sum()),
            gap=0.5 * (1.0 - theta) ** 2 * residual + float(slack.sum()),
            rounding=_EPS * (size + math.sqrt(self.square)) ** 2,
        )


@dataclass(frozen=True, eq=False)
class _Point:
    """Coefficients, with objective and gradient."""

    b: np.ndarray  # (T,)
    g: np.ndarray  # (T,), c - H b
    penalty: float
    square: float
    objective: float
    gap: float
    rounding: float  # what F and its gap may be wrong by

    @property
    def highest(self) -> float:
        """An upper bound on F."""
        return self.objective + self.rounding

    def fit(self, n_iter: int, status: Status) -> LassoFit:
        """Return the point as a result."""
        share = (self.gap + self.rounding) / (self.square or 1.0)
        return LassoFit(self.b, self.penalty, self.objective, share, n_iter, status)


def _penalty(value: float, /) -> float:
    if not (math.isfinite(value) and value >= 0):
        msg = f"expected a penalty of at least 0, got {value}"
        raise ValueError(msg)
    return float(value)
