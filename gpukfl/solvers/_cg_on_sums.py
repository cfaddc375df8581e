"""Conjugate gradients in one pass per iteration over rows in parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gpukfl.core._array import Array, array_namespace, clip, epsilon, like, to_host
from gpukfl.core._results import Solution, Status

# Long vectors with known inner products: solution, residual, direction, what the last pass gave,
# root weights, and right-hand side
X, R, P, U, S, B = range(6)
# A residual made anew takes three passes. That of the recursion drifts by about epsilon times the
# condition number, which of these matrices is a small part of tolerances above so many cube roots
# of epsilon
_LOOSE = 10.0
_WORN = 1e-5  # share of its size when its sums were made, at which a residual's are made anew


class OnSums(Protocol):
    r"""A matrix :math:`\Pi E G E^\top \Pi + \mu I`, given by few sums over the rows.

    E is as long as the data, G small, and :math:`\Pi` projects on the complement of root weights s.
    The sums of a vector v are :math:`E^\top v`, beside those that a preconditioner takes.
    """

    @property
    def shift(self) -> float:
        """Return mu."""

    def begin(self, start: Array | None, /) -> tuple[Any, list[Array], Array]:
        """Take x = p = `start`, r = b, u = 0: vectors, sums of s, b and x, inner products.

        Without `start`, x = p = 0, whose sums are left out.
        """

    def advance(
        self, vectors: Any, coordinates: Array, levels: Any, of: Sequence[int], /
    ) -> tuple[Any, list[Array], Array]:
        """Combine vectors, multiply by E, and sum: one pass.

        `coordinates` (3, 6, t) give the new x, r and p; u = E `levels`, or 0 for None. Gives the
        vectors, the sums of those that `of` names, and the inner products (6, 6, t) of all.
        """

    def levels(self, sums: Array, /) -> Any:
        """Return G times the sums of a vector."""

    def coarse(self, sums: Array, /) -> Any:
        r"""Return the knot values of w, where the preconditioned r is :math:`(r - \Pi w) / \mu`."""

    def vector(self, vectors: Any, coordinates: Array, /) -> Array:
        """Return a long vector by its coordinates (6, t)."""


@dataclass(frozen=True)
class ConjugateGradientOnSums:
    """Preconditioned conjugate gradients on sums, as `ConjugateGradient`.

    The same iterates as those of long vectors, up to rounding. An iteration needs inner products,
    and the sums of its direction. Both are linear in vectors whose own are known, so that a pass
    has to find a product and the sums of that; with a preconditioner there is a second pass.

    Parameters
    ----------
    rtol : float
        Relative residual to reach.
    max_iter : int
        Iterations, at least 1.
    """

    rtol: float
    max_iter: int

    def solve(
        self,
        A: OnSums,
        /,
        *,
        start: Array | None = None,
        enough: Callable[[Array], bool] = lambda measured: False,  # noqa: ARG005
    ) -> Solution:
        """Solve.

        Parameters
        ----------
        A : OnSums
            The matrix, with its right-hand side.
        start : array like the right-hand side, optional
            First guess.
        enough : callable
            Asked at every step with the inner products of x and b + r, a host array (t,); True
            stops with `Status.DECIDED`.
        """
        walk = _Walk(A, start)
        status = self._iterate(walk, enough)
        if status is Status.CONVERGED and walk.k and not self._is_loose(walk.size):
            walk.take_residual_anew()
            # Rounding has kept it above where it is not below
            status = status if walk.is_below(self.rtol) else Status.STALLED
        x, residual = (A.vector(walk.vectors, v) for v in (walk.x, walk.r))
        return Solution(x, status, walk.k, residual, walk.size)

    def _is_loose(self, like: Array) -> bool:
        return self.rtol > _LOOSE * epsilon(like) ** (1 / 3)

    def _iterate(self, walk: _Walk, enough: Callable[[Array], bool]) -> Status:
        while True:
            if walk.is_broken():
                return Status.BREAKDOWN
            if walk.is_below(self.rtol):
                return Status.CONVERGED
            if enough(to_host(walk.measure())):
                return Status.DECIDED
            if walk.k == self.max_iter:
                return Status.MAX_ITER
            walk.step()


class _Walk:
    """The state of an iteration: coordinates (6, t) of its vectors, and their sums."""

    def __init__(self, A: OnSums, start: Array | None) -> None:
        self.A, self.k = A, 0
        self.vectors, (self.sums_s, self.sums_r, *of_start), self.gram = A.begin(start)
        xp, t = array_namespace(self.gram), self.gram.shape[2]
        on = like(self.gram)
        self.unit = xp.eye(6, **on)[:, :, None] * xp.ones((t,), **on)
        self.x, self.r, self.p = self.unit[X, ...], self.unit[R, ...], xp.zeros((6, t), **on)
        self.sums_p = xp.zeros_like(self.sums_r)
        self.rz_old = xp.full((t,), math.inf, **on)
        self.worst = xp.zeros((t,), **on)  # curvature so far, or NaN
        self.size = xp.sqrt(self.gram[B, B, :])
        for sums_x in of_start:
            product, sums = self._product(sums_x, self.unit[P, ...])
            self.r, self.sums_r = self.unit[R, ...] - product, self.sums_r - sums
            self._advance(self.p, None, ())  # inner products of what is left, without cancellation
        self.made_at = self.norm()  # size of the residual when its sums were made

    # ------------------------------------------------------------------ what is known of it

    def dot(self, u: Array, v: Array) -> Array:
        """Return the inner products (t,) of two vectors."""
        xp = array_namespace(u)
        return xp.sum(u[:, None, :] * self.gram * v[None, :, :], axis=(0, 1))

    def norm(self) -> Array:
        """Return the norm of the residual (t,)."""
        return array_namespace(self.r).sqrt(clip(self.dot(self.r, self.r), low=0.0))

    def measure(self) -> Array:
        """Return the inner products of x and b + r (t,)."""
        return self.dot(self.unit[B, ...] + self.r, self.x)

    def is_below(self, rtol: float) -> bool:
        """Whether every residual is small."""
        return bool(array_namespace(self.r).all(self.norm() <= rtol * self.size))

    def is_broken(self) -> bool:
        """Whether the matrix is not positive definite, or values are NaN."""
        xp = array_namespace(self.r)
        return bool(xp.any(~(self.worst >= 0) | xp.isnan(self.norm())))

    # ------------------------------------------------------------------ where it goes

    def step(self) -> None:
        """Make one iteration."""
        xp = array_namespace(self.r)
        z, sums_z, rz = self._precondition()
        share = _ratio(rz, self.rz_old)
        self.p, self.sums_p = z + share * self.p, sums_z + share * self.sums_p
        product, sums = self._product(self.sums_p, self.p)
        curvature = self.dot(self.p, product)
        length = _ratio(rz, curvature)
        self.x, self.r = self.x + length * self.p, self.r - length * product
        self.sums_r = self.sums_r - length * sums
        self.rz_old, self.worst = rz, xp.minimum(self.worst, curvature)  # NaN stays
        self.k += 1
        now = self.norm()
        if bool(xp.any((now > 0) & (now <= _WORN * self.made_at))):
            self.sums_r, self.sums_p = self._advance(self.p, None, (R, P))
            self.made_at = now

    def take_residual_anew(self) -> None:
        """Compute the residual from x in three passes."""
        (sums_x,) = self._advance(self.x, None, (X,))
        product, _ = self._product(sums_x, self.unit[P, ...])
        self.r = self.unit[B, ...] - product
        self._advance(self.p, None, ())  # inner products of what is left, without cancellation

    def _product(self, sums_p: Array, p: Array) -> tuple[Array, Array]:
        """Return coordinates and sums of the matrix times p."""
        (sums_u,) = self._advance(p, self.A.levels(sums_p), (U,))
        inside, sums = self._center(sums_u)
        shift = self.A.shift
        return inside + shift * self.unit[P, ...], sums + shift * sums_p

    def _precondition(self) -> tuple[Array, Array, Array]:
        """Return coordinates, sums and inner products of the preconditioned r."""
        levels = self.A.coarse(self.sums_r)
        if levels is None:
            return self.r, self.sums_r, self.dot(self.r, self.r)
        (sums_u,) = self._advance(self.p, levels, (U,))
        inside, sums = self._center(sums_u)
        z = (self.r - inside) / self.A.shift
        return z, (self.sums_r - sums) / self.A.shift, self.dot(self.r, z)

    def _center(self, sums_u: Array) -> tuple[Array, Array]:
        r"""Return coordinates and sums of :math:`\Pi u`."""
        share = self.gram[S, U, :] / self.gram[S, S, :]
        return self.unit[U, ...] - share * self.unit[S, ...], sums_u - share * self.sums_s

    def _advance(self, p: Array, levels: Any, of: Sequence[int]) -> list[Array]:
        xp = array_namespace(p)
        coordinates = xp.stack([self.x, self.r, p], axis=0)
        self.vectors, sums, self.gram = self.A.advance(self.vectors, coordinates, levels, of)
        self.x, self.r, self.p = (self.unit[k, ...] for k in (X, R, P))
        return sums


def _ratio(num: Array, den: Array, /) -> Array:
    """``num / den``, and 0 where `den` is 0."""
    xp = array_namespace(num, den)
    return num / xp.where(den == 0, xp.full_like(den, math.inf), den)
