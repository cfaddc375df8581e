"""Scores along ridges, their choice, and mixtures of many targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

import numpy as np

from gpukfl.core._annotations import AnyValue
from gpukfl.core._array import Array, array_namespace, asarray_like, small_reference
from gpukfl.core._lazy import OldName
from gpukfl.core._random import draw_orthonormal

# ------------------------------------------------------------------------------ ridge path

# Scores along the ridges, and which of them to trust.


Candidate = TypeVar("Candidate")
Fold = np.ndarray  # host indices of the samples that are held out
_FLAT = 1e-4  # share of a score below which two of them are the same
_FINALISTS = 4  # candidates that are worth a finer judge


@dataclass(frozen=True, eq=False)
class RidgePath:
    """Scores along the ridges, smaller is better."""

    ridges: Annotated[list[float], AnyValue()]
    scores: Annotated[list[float], AnyValue()]

    @property
    def _finite(self) -> list[float]:
        return [score if math.isfinite(score) else math.inf for score in self.scores]

    @property
    def lowest(self) -> float:
        """Lowest score; infinity where none is finite."""
        return min(self._finite)

    @property
    def best(self) -> float:
        """Ridge of the lowest score; the largest such ridge."""
        lowest = self.lowest
        pairs = zip(self.ridges, self._finite, strict=True)
        return max(ridge for ridge, score in pairs if score == lowest)

    def largest_good(self, tolerance: float = 0.01, /) -> float:
        """Largest ridge whose score is above the lowest by at most this share of it."""
        enough = (1.0 + tolerance) * self.lowest
        pairs = zip(self.ridges, self._finite, strict=True)
        return max(ridge for ridge, score in pairs if score <= enough)

    def best_inside(self, tolerance: float, /) -> float:
        """Return the best ridge, or the largest about as good one if the best is at the edge.

        A path that is flat towards its edge has its lowest point there by rounding alone.
        """
        is_inside = min(self.ridges) < self.best < max(self.ridges)
        return self.best if is_inside else self.largest_good(tolerance)

    @property
    def is_at_edge(self) -> bool:
        """Whether the smallest or the largest ridge is as good as the best.

        On a path that is flat towards an edge rounding alone decides where its lowest point is.
        """
        scores = dict(zip(self.ridges, self._finite, strict=True))
        at_edges = min(scores[min(self.ridges)], scores[max(self.ridges)])
        return at_edges <= (1.0 + _FLAT) * self.lowest

    @property
    def brackets(self) -> bool:
        """Whether the grid is wide enough for a gain below 1 % beyond it."""
        order = sorted(range(len(self.ridges)), key=lambda k: self.ridges[k])
        scores = [self.scores[k] for k in order]
        best = min(scores)
        inner = scores[1:-1]
        return bool(inner) and min(inner) <= 1.01 * best

    at_edge = OldName("is_at_edge")


def best_path(
    candidates: Sequence[Candidate],
    left_out: Callable[[Candidate], RidgePath],
    /,
    *held_out: Callable[[Candidate], RidgePath],
    alike: float = 0.0,
) -> tuple[Candidate, RidgePath]:
    """Return the candidate whose path has the lowest score, the first of such, and its path.

    Scores that are above the lowest by at most the share `alike` of it count as the lowest.
    By leaving out samples one by one; but the first or the last ridge of a grid is not taken on
    the word of that, which near-copies of samples corrupt: then by held-out samples. Where these
    are held out in several ways, each judges only the few that were best by the one before.
    """
    left, paths = list(candidates), [left_out(candidate) for candidate in candidates]
    best = _first_lowest(paths, alike)
    if not paths[best].is_at_edge:
        return left[best], paths[best]
    few = list(range(len(left)))
    for judge in held_out:
        left = [left[k] for k in sorted(few)]
        paths = [judge(candidate) for candidate in left]
        few = sorted(range(len(left)), key=[path.lowest for path in paths].__getitem__)[:_FINALISTS]
    best = _first_lowest(paths, alike)
    return left[best], paths[best]


def _first_lowest(paths: Sequence[RidgePath], alike: float) -> int:
    enough = (1.0 + alike) * min(path.lowest for path in paths)
    return next(k for k, path in enumerate(paths) if path.lowest <= enough)


# -------------------------------------------------------------------------------- mixtures

# Few mixtures of many targets, which stand for all of them in sums over targets.


MOST = 10  # targets up to which all are taken; with more, as many mixtures
JUDGING = 20  # the same where numbers are chosen by errors, which are cheaper than gradients


def mix_targets(Y: Array, /, at_most: int = MOST) -> Array:
    r"""Mix many targets: :math:`Y \Omega` with :math:`E[\Omega \Omega^\top] = I`.

    What adds up over targets a form that is quadratic in each, as errors, ridge objectives and
    average gradient outer products do, has of the mixtures the value of all targets on average.

    Parameters
    ----------
    Y : array, shape (n, t)
        Targets, or coefficients of functions that predict them.
    at_most : int
        s, at least 1.

    Returns
    -------
    array, shape (n, min(t, s))
        `Y` itself where t is at most s. The mixtures are the same at every call.

    Notes
    -----
    Columns of Ω are orthogonal, :math:`t / s` is their squared length, and their directions are
    uniform: a form of one target in t varies by about :math:`\sqrt{2 / s}` of itself, and the sum
    over many alike by :math:`\sqrt{2 / s t}`.

    References
    ----------
    .. [1] Johnson and Lindenstrauss, "Extensions of Lipschitz mappings into a Hilbert space",
       1984, Lemma 1.
    """
    t = Y.shape[1]
    if t <= at_most:
        return Y
    omega = math.sqrt(t / at_most) * draw_orthonormal(t, at_most, 0)
    placed = asarray_like(omega, small_reference(Y))
    return array_namespace(Y).astype(Y @ placed, Y.dtype, copy=False)
