"""Expected features of an instantiation at the rows of data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from gpukfl.core._array import Array, array_namespace
from gpukfl.core._lazy import OldName
from gpukfl.instantiations import Features, Instantiation
from gpukfl.operators._rows import RowOperator
from gpukfl.partitioned._rows import Rows


@dataclass(frozen=True, eq=False)
class FeatureOperator(RowOperator):
    r"""The matrix :math:`\Phi_{it} = e^{-c} \bar\varphi_t(x_i)` between n rows and T parameters.

    Values are computed anew in every pass.

    Parameters
    ----------
    instantiation : Instantiation
        With what depends on the dimension settled.
    rows : Rows
        Data (n, d); may be longer than memory.
    W : array, shape (T, e)
        Parameters, beside ``rows.reference``.
    log_scale : float
        c: `common_scale` makes the entries of moderate size, where the features themselves vanish
        in high dimension.
    """

    instantiation: Instantiation
    rows: Rows
    W: Array
    log_scale: float = 0.0

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of parameters."""
        return self.rows.shape[0], self.W.shape[0]

    @cached_property
    def features(self) -> Features:
        """Features of the parameters, as functions of x."""
        return self.instantiation.features(self.W, self.rows.shape[1])

    @cached_property
    def factors(self) -> Array:
        """The factors of the shapes (T,)."""
        xp = array_namespace(self.W)
        return xp.astype(xp.exp(self.features.log_constants - self.log_scale), self.W.dtype)

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        return max(self.shape[1], self.rows.shape[1], self.features.width)

    def _prepare(self) -> None:
        self.factors  # noqa: B018

    def evaluate(self, X: Array, /) -> Array:
        """Values at the rows of `X` (n, d): (n, T)."""
        return self.features.shapes(X) * self.factors[None, :]

    def values(self, start: int, stop: int, /) -> Array:
        """Block (stop - start, T) of the matrix."""
        return self.evaluate(self.rows.block(start, stop))

    @cached_property
    def core(self) -> Array:
        """Kernel among the parameters (T, T), in float64."""
        W = array_namespace(self.W).astype(self.W, array_namespace(self.W).float64)
        return self.instantiation.kernel(W, W)

    at = OldName("evaluate")


def common_scale(instantiation: Instantiation, W: Array, n_features: int, /) -> float:
    """Logarithm of the root mean square of the features' constants."""
    logs = instantiation.features(W, n_features).log_constants
    xp = array_namespace(logs)
    top = float(xp.max(logs))
    return top + 0.5 * math.log(float(xp.mean(xp.exp(2.0 * (logs - top)))))
