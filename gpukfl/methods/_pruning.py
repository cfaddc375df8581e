r"""Pruning of a weighting by the Lasso: Algorithm 5.

For :math:`\alpha = \sum_t a_t K(w_t, \cdot)`, find β with fewer parameters that is close:

.. math:: \min_b \frac1{2T} \|U a - U b\|^2 + \lambda \|b\|_1, \qquad G = U^\top U

(eq. (60) of Dubé and Marchand, "RKHS Weightings of Functions"), for growing λ until the result is
not accepted any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gpukfl._results import Status
from gpukfl.solvers import Lasso, largest_penalty

RULES = ("norm", "bound", "risk", "error")  # (63) to (66), from strict to lenient
_SMALLEST = 1e-8  # of the penalty that leaves nothing
_PENALTIES = 17  # from there on, two to a decade
_TOLERANCE = 1e-10  # relative duality gap


@dataclass(frozen=True, eq=False)
class Candidate:
    """A weighting with fewer parameters."""

    penalty: float  # relative to the one that leaves nothing
    B: np.ndarray  # coefficients (T, t)
    distance: np.ndarray  # norm of α - β, of each target (t,)

    @property
    def n_kept(self) -> int:
        """Parameters with a coefficient."""
        return int(np.any(self.B != 0, axis=1).sum())


def candidates(
    G: np.ndarray,
    A: np.ndarray,
    /,
    *,
    penalties: Sequence[float] | None = None,
    solver: Lasso | None = None,
) -> list[Candidate]:
    """Solve (60) along a path of penalties.

    The path begins at the largest, where few coefficients are left: sooner done than from b = a,
    where each coefficient that must go costs a step.

    Parameters
    ----------
    G : host array, shape (T, T)
        Kernel among the parameters.
    A : host array, shape (T, t)
        Coefficients of α, of each target.
    penalties : sequence of float, optional
        λ relative to the one that leaves nothing, ascending; by default two to a decade.
    solver : Lasso, optional
        Its settings; by default with a tolerance at which small penalties prune at all.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C: a path that was cut off says nothing of its last penalties.
    """
    T = G.shape[0]
    kept = np.flatnonzero(np.any(A != 0, axis=1))  # what α leaves out stays out
    kept = kept if len(kept) else np.arange(T)
    H = G[np.ix_(kept, kept)] / T
    moments = H @ A[kept]
    squares = np.sum(A[kept] * moments, axis=0)
    shares = np.geomspace(_SMALLEST, 1.0, _PENALTIES) if penalties is None else penalties
    solver = solver or Lasso(tol=_TOLERANCE)
    paths = []
    for j in range(A.shape[1]):
        c, s = moments[:, j], max(float(squares[j]), 0.0)
        top = largest_penalty(c)
        paths.append(solver.path(H, c, s, [float(share) * top for share in shares]))
        if any(fit.status is Status.INTERRUPTED for fit in paths[-1]):
            raise KeyboardInterrupt
    found = []
    for k, share in enumerate(shares):
        B = np.zeros_like(A)
        B[kept] = np.stack([path[k].coef for path in paths], axis=1)
        gap = A - B
        distance = np.sqrt(np.clip(np.sum(gap * (G @ gap), axis=0), 0.0, None))
        found.append(Candidate(float(share), B, distance))
    return found


def last_accepted(
    found: Sequence[Candidate], accept: Callable[[int, Candidate], bool], /
) -> Candidate | None:
    """Give the last candidate before the first that is not accepted (Algorithm 5), if any."""
    chosen = None
    for k, candidate in enumerate(found):
        if not accept(k, candidate):
            break
        chosen = candidate
    return chosen
