"""Partial dependence of kernel expansions in closed form, where the kernel is a product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpukfl.core._array import Array, array_namespace, like
from gpukfl.kernels import (
    Gaussian,
    GaussianMixture,
    Kernel,
    ManhattanLaplace,
    ManhattanMixture,
    PowerExponential,
    Scaled,
    Sum,
)


@dataclass(frozen=True)
class ProductTerm:
    r"""The product of one-dimensional kernels :math:`w e^{-t \sum_l |x_l - z_l|^p}`."""

    weight: float
    rate: float
    power: float


def product_terms(kernel: Kernel, /) -> tuple[ProductTerm, ...] | None:
    """Return the products of one-dimensional kernels that a kernel is the sum of.

    Parameters
    ----------
    kernel : Kernel
        Gaussian, ℓ1 Laplace, mixtures, powers of p-norms with exponent p, and positive multiples
        and sums of these have such terms.

    Returns
    -------
    tuple of ProductTerm, or None
        None for other kernels.
    """
    if isinstance(kernel, Scaled):
        inner = product_terms(kernel.kernel)
        return inner and tuple(replace(one, weight=kernel.factor * one.weight) for one in inner)
    if isinstance(kernel, Sum):
        first, second = product_terms(kernel.first), product_terms(kernel.second)
        return first + second if first and second else None
    return _simple_kernel_terms(kernel)


def _simple_kernel_terms(kernel: Kernel) -> tuple[ProductTerm, ...] | None:
    """Return the products of one-dimensional kernels that a kernel without parts is the sum of."""
    weights: tuple[float, ...] = (1.0,)
    rates: tuple[float, ...] = (1.0,)
    if isinstance(kernel, (GaussianMixture, ManhattanMixture)):
        power, weights, rates = float(kernel.power), kernel.weights, kernel.rates
    elif isinstance(kernel, Gaussian):
        power, rates = 2.0, (0.5,)
    elif isinstance(kernel, ManhattanLaplace):
        power = 1.0
    elif isinstance(kernel, PowerExponential) and kernel.order == kernel.exponent:
        power = kernel.order
    else:
        return None
    scale = kernel.lengthscale**-power
    pairs = zip(weights, rates, strict=True)
    return tuple(ProductTerm(w, rate * scale, power) for w, rate in pairs)


@dataclass(frozen=True, eq=False)
class ProductExpansion:
    r"""A function :math:`f(x) = c + \sum_j \alpha_j \sum_k w_k \prod_l e^{-t_k |x_l - z_{jl}|^p}`.

    Attributes
    ----------
    centers : array, shape (m, d)
        z.
    coefficients : array, shape (m, t)
        α.
    intercept : array, shape (t,)
        c.
    terms : tuple of ProductTerm
        Of the kernel.
    """

    centers: Array
    coefficients: Array
    intercept: Array
    terms: tuple[ProductTerm, ...]

    def partial_dependence(self, X: Array, background: Array, columns: Sequence[int], /) -> Array:
        r"""Average f over the background in all but some columns, exactly.

        .. math:: \bar f_S(x) = \frac1b \sum_i f(x_S, b_{i, -S})
                  = c + \sum_{jk} \alpha_j w_k \prod_{l \in S} e^{-t_k |x_l - z_{jl}|^p}
                    \cdot \frac1b \sum_i \prod_{l \notin S} e^{-t_k |b_{il} - z_{jl}|^p}

        Parameters
        ----------
        X : array, shape (n, d)
            Where to evaluate; only the columns in S matter.
        background : array, shape (b, d)
            Rows to average over.
        columns : sequence of int
            S.

        Returns
        -------
        array, shape (n, t)
            O((n + b) m) times the number of columns, in place of the O(n b m d) of averaging
            predictions.

        Raises
        ------
        ValueError
            If the shapes disagree.

        Notes
        -----
        The formula is that of Friedman, "Greedy function approximation", Annals of Statistics 29,
        2001, Section 8.2, with the sum over the background inside that over the centres.
        """
        d = self.centers.shape[1]
        if X.shape[1] != d or background.shape[1] != d:
            found = f"{tuple(X.shape)} and {tuple(background.shape)}"
            msg = f"expected X and background of {d} columns, got {found}"
            raise ValueError(msg)
        xp = array_namespace(X, background, self.centers)
        rest = [k for k in range(d) if k not in set(columns)]
        total = self.intercept + xp.zeros((X.shape[0], self.intercept.shape[0]), **like(X))
        for power in sorted({term.power for term in self.terms}):
            inside = _power_sums(X, self.centers, list(columns), power)
            outside = _power_sums(background, self.centers, rest, power)
            for term in self.terms:
                if term.power == power:
                    mean = xp.mean(xp.exp(-term.rate * outside), axis=0)[None, :]
                    part = xp.exp(-term.rate * inside) * mean
                    total = total + term.weight * (part @ self.coefficients)
        return total


def _power_sums(X: Array, Z: Array, columns: Sequence[int], power: float) -> Array:
    """Add up powers of differences in some columns: (n, m)."""
    xp = array_namespace(X, Z)
    total = xp.zeros((X.shape[0], Z.shape[0]), **like(X))
    for k in columns:
        gap = xp.abs(X[:, k][:, None] - Z[:, k][None, :])
        total = total + (gap if power == 1 else gap**power)
    return total
