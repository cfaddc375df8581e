r"""Shapley values in closed form: of linear functions, sums of products, and trees.

A function :math:`f(x) = \sum_k \alpha_k \prod_j \varphi_{jk}(x_j)` of one row x against another b
is a polynomial along the way from b to x, of which every player is paid

.. math::
    \varphi_j = \sum_k \alpha_k \int_0^1 (\varphi_{jk}(x_j) - \varphi_{jk}(b_j))
    \prod_{i \ne j} \bigl(t\,\varphi_{ik}(x_i) + (1 - t)\,\varphi_{ik}(b_i)\bigr)\,dt

(Owen, "Multilinear extensions of games", Management Science 18, 1972). The degree in t is p - 1, so
a Gauss rule of :math:`\lceil p / 2 \rceil` nodes is exact.
"""

from __future__ import annotations

import math

import numpy as np

from gpukfl.core._array import Array, array_namespace, is_host

_NEAR = 2**17  # elements of the factors of one block on a processor
_AT_ONCE = 2**24  # on a GPU


def linear_contributions(rows: Array, background: Array, coef: Array, member: Array, /) -> Array:
    """Return what players add to a linear function: (n, G, p, t).

    Parameters
    ----------
    rows, background : arrays, shapes (n, d) and (G, d)
        x and b.
    coef : array, shape (d, t)
        Of the function.
    member : array, shape (p, d)
        1 where a column belongs to a player, else 0.
    """
    parts = (rows[:, None, :] - background[None, :, :])[:, :, None, :] * member
    return parts @ coef


def product_contributions(at_rows: Array, at_background: Array, coef: Array, /) -> Array:
    r"""Return what players add to sums of products: (n, G, p, t).

    Parameters
    ----------
    at_rows, at_background : arrays, shapes (p, n, q) and (p, G, q)
        The factors :math:`\varphi_{jk}` of each player at x and at b.
    coef : array, shape (q, t)
        α.

    Notes
    -----
    O(n G q p²) operations. Products of all factors but one are made from both ends, without a
    division.
    """
    xp, (p, n, q), count = array_namespace(at_rows), at_rows.shape, at_background.shape[1]
    step = max((_NEAR if is_host(at_rows) else _AT_ONCE) // max(p * count * q, 1), 1)
    parts = []
    for start in range(0, n, step):
        a, b = at_rows[:, start : min(start + step, n), None, :], at_background[:, None, :, :]
        products = _other_products(a, b)
        added = [one * (a[j, ...] - b[j, ...]) for j, one in enumerate(products)]
        parts.append(xp.stack(added, axis=2) @ coef)
    return xp.concat(parts, axis=0)


def _other_products(a: Array, b: Array) -> list[Array]:
    """Return for each player the mean (n, G, q) of the other factors' products along the way."""
    xp, p = array_namespace(a), a.shape[0]
    nodes, weights = np.polynomial.legendre.leggauss(max((p + 1) // 2, 1))
    ones = xp.ones_like(a[0, ...] + b[0, ...])
    means = [xp.zeros_like(ones)] * p
    for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
        share = 0.5 + 0.5 * node
        factors = [share * a[j, ...] + (1.0 - share) * b[j, ...] for j in range(p)]
        before = [0.5 * weight * ones]
        for one in factors[:-1]:
            before.append(before[-1] * one)
        after = ones
        for j in reversed(range(p)):
            means[j] = means[j] + before[j] * after
            after = after * factors[j]
    return means


def leaf_shares(p: int, /) -> tuple[np.ndarray, np.ndarray]:
    r"""Return what a player gains and loses at a leaf: two tables (p + 1, p + 1).

    A leaf is reached where a players are of x and c are of b. The game that pays its value then
    pays each of the first :math:`(a-1)!\,c!/(a+c)!`, and takes :math:`a!\,(c-1)!/(a+c)!` from each
    of the others (Lundberg et al., "From local explanations to global understanding with
    explainable AI for trees", Nature Machine Intelligence 2, 2020).
    """
    gained, lost = np.zeros((p + 1, p + 1)), np.zeros((p + 1, p + 1))
    for a in range(p + 1):
        for c in range(p + 1 - a):
            if a:
                gained[a, c] = 1.0 / (a * math.comb(a + c, a))
            if c:
                lost[a, c] = 1.0 / (c * math.comb(a + c, c))
    return gained, lost
