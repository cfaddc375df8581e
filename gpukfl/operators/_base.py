"""The base class of linear operators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from gpukfl.core._array import Array, array_namespace, as_columns, like


class LinearOperator(ABC):
    """A symmetric n x n matrix, given by its products."""

    @property
    @abstractmethod
    def n_samples(self) -> int:
        """Number of rows and columns."""

    @abstractmethod
    def _matmat(self, V: Array, /) -> Array:
        """Return the product with (n, t) without checks."""

    def approximate_inverse(
        self,
        root_weights: Array | None,  # noqa: ARG002
        shift: float,  # noqa: ARG002
    ) -> Callable[[Array], Array] | None:
        """Return a preconditioner of the centred, weighted operator plus a shift, or None."""
        return None

    @property
    def shape(self) -> tuple[int, int]:
        """``(n_samples, n_samples)``."""
        return self.n_samples, self.n_samples

    def __matmul__(self, V: Array, /) -> Array:
        """Multiply with one vector (n,) or several (n, t).

        Raises
        ------
        ValueError
            If `V` has another number of rows or more than two axes.
        """
        if V.ndim not in (1, 2) or V.shape[0] != self.n_samples:
            msg = f"expected ({self.n_samples},) or ({self.n_samples}, t), got {tuple(V.shape)}"
            raise ValueError(msg)
        product = self._matmat(as_columns(V))
        return array_namespace(V).reshape(product, V.shape)

    def dense(self, reference: Array, /) -> Array:
        """Form the matrix beside `reference`, by products with unit vectors."""
        xp = array_namespace(reference)
        product = self._matmat(xp.eye(self.n_samples, **like(reference)))
        return xp.astype(product, reference.dtype, copy=False)


class ParticleKernel(LinearOperator):
    """A kernel that depends on particles W (d, m), as the sum of one function of each."""

    @abstractmethod
    def quadratic_gradient(self, alpha: Array, /) -> Array:
        r"""Differentiate :math:`\sum_c \alpha_c^\top K \alpha_c` with respect to W: (d, m)."""

    def release(self) -> None:
        """Release large arrays that can be computed again."""

    @abstractmethod
    def curves(self, alpha: Array, /) -> tuple[Array, Array]:
        """Positions (m, q) and values (m, q, t), float64, of the shape functions of `alpha`."""
