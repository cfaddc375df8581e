"""Least squares and the Lasso on sums over the rows, and how their last solves ended."""

from __future__ import annotations

from collections.abc import Sequence

from gpukfl._array import Array
from gpukfl._results import Status
from gpukfl.methods import FoldSums, LassoFits, Sums, least_squares
from gpukfl.solvers import Lasso

_HARMLESS = 1e-10  # jitter that only rounding asks for: nearby parameters have nearly one feature


class LeastSquares:
    """Algorithm 3 on sums, and how the last solve ended."""

    status, gap = Status.CONVERGED, 0.0

    def __init__(self, sums: FoldSums) -> None:
        self.sums, self.jitter, self.raised = sums, 0.0, False

    def __call__(self, some: Sums, ridges: Sequence[float]) -> list[Array]:
        """Coefficients for each ridge."""
        solved, factor = least_squares(self.sums, some, ridges)
        self.jitter, self.raised = factor.jitter, factor.jitter > _HARMLESS
        return solved

    def last(self, whole: Sums, ridges: Sequence[float], chosen: float) -> Array:  # noqa: ARG002
        """Coefficients for the ridge that was chosen."""
        return self(whole, [chosen])[0]


class LassoOnSums:
    """Algorithm 4 on sums, and how the last solve ended."""

    jitter, raised = 0.0, False

    def __init__(self) -> None:
        self.fits, self.gap, self.status = LassoFits(Lasso()), 0.0, Status.CONVERGED

    def __call__(self, some: Sums, ridges: Sequence[float]) -> list[Array]:
        """Coefficients for each ridge, along one path, or KeyboardInterrupt."""
        solved = self.fits(some, ridges)
        if self.fits.interrupted:
            raise KeyboardInterrupt
        return solved

    def last(self, whole: Sums, ridges: Sequence[float], chosen: float) -> Array:
        """Coefficients for the ridge that was chosen: a path from above is as quick.

        Ctrl-C keeps what was found.
        """
        path = [ridge for ridge in ridges if ridge >= chosen]
        k = path.index(chosen)
        A = self.fits(whole, path)[k]
        ends = [fits[k] for fits in self.fits.fits]
        self.gap = max(end.gap for end in ends)
        failed = [end.status for end in ends if end.status is not Status.CONVERGED]
        self.status = failed[0] if failed else Status.CONVERGED
        if self.fits.interrupted:
            self.status = Status.INTERRUPTED
        return A


LearnerOnSums = LeastSquares | LassoOnSums
