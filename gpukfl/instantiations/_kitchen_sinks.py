"""Random kitchen sinks: the base predictors themselves, as the paper's peer has them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpukfl._array import Array, array_namespace, double_like
from gpukfl.instantiations._base import Differences, Features, Instantiation
from gpukfl.instantiations._stumps import Stumps


@dataclass(frozen=True)
class RandomKitchenSinks(Instantiation):
    r"""Base predictors of another instantiation instead of their expectations.

    With the kernel 1 on equal parameters and else 0, so that the ridge is that of the
    coefficients: the peer that Section 7.3 compares with (Rahimi and Recht, 2009), with the same
    draws. That kernel has no θ: there are no bounds.

    Parameters
    ----------
    of : Instantiation
        What draws the parameters.
    """

    of: Instantiation = Stumps()  # noqa: RUF009  # a frozen value

    @property
    def kappa(self) -> float:
        """There is none.

        Raises
        ------
        ValueError
            Always.
        """
        msg = "random kitchen sinks have no bound: expected an instantiation with a kernel"
        raise ValueError(msg)

    def resolved(self, n_features: int, /) -> RandomKitchenSinks:
        """Settle what depends on the number of features."""
        return RandomKitchenSinks(self.of.resolved(n_features))

    def draw(self, count: int, n_features: int, rng: np.random.RandomState, /) -> np.ndarray:
        """Draw the parameters that `of` draws."""
        return self.of.draw(count, n_features, rng)

    def kernel(self, U: Array, W: Array, /) -> Array:
        """1 where the parameters are equal, else 0."""
        xp = array_namespace(U, W)
        rows = [xp.all(U[k, :][None, :] == W, axis=1) for k in range(U.shape[0])]
        return xp.astype(xp.stack(rows), U.dtype)

    def base(self, W: Array, X: Array, /) -> Array:
        """Evaluate the base predictors of `of`."""
        return self.of.base(W, X)

    def features(self, W: Array, n_features: int, /) -> Features:  # noqa: ARG002
        """Give the base predictors."""
        return _BaseFeatures(self.of, W)


class _BaseFeatures(Differences):
    def __init__(self, of: Instantiation, W: Array, /) -> None:
        self.of, self.W = of, W
        self.log_constants = array_namespace(W).zeros(W.shape[0], **double_like(W))

    def shapes(self, X: Array, /) -> Array:
        """Values at the rows of `X`."""
        return self.of.base(self.W, X)
