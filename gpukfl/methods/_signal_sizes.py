r"""Effective signal sizes of kernel feature selection: what Algorithms 1 and 2 can find.

The signal is a functional ANOVA model :math:`f^*(X) = \sum_A f_A(X_A)`. Its effects are given by
their values at n rows, and every expectation is over two independent draws of these rows. Equation
and definition numbers are those of Ruan, Liu and Jordan, "Taming Nonconvexity in Kernel Feature
Selection".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping

from gpukfl.core._array import Array, array_namespace, double_like, sample_dot, to_double
from gpukfl.kernels import Manhattan, ManhattanLaplace
from gpukfl.linalg import SortedColumns, factored_difference_sums
from gpukfl.operators import KernelOperator
from gpukfl.partitioned._rows import Rows

_MOST = 16  # columns of one signal: each set of them takes a pass over n² pairs


def additive_effect_sizes(X: Array, effects: Array, /) -> Array:
    r"""Return the effective sizes of the effects of an additive model, Example 3.

    .. math:: \mathcal{E}_l = \big| \mathbb{E}[f_l(X_l)\, f_l(X_l')\, |X_l - X_l'|] \big|

    Parameters
    ----------
    X : array, shape (n, p)
        Rows of the variables, without NaN.
    effects : array, shape (n, p)
        :math:`f_l(X_l)` of each variable at these rows, of mean 0.

    Returns
    -------
    array, shape (p,)
        Sizes in float64: they scale as the square of the effect and as the variable.

    Raises
    ------
    ValueError
        If the shapes disagree.

    Notes
    -----
    O(n log n) for each variable.
    """
    if X.ndim != 2 or X.shape != effects.shape or 0 in X.shape:
        msg = f"expected X and effects (n, p) alike, got {tuple(X.shape)}, {tuple(effects.shape)}"
        raise ValueError(msg)
    n, p = X.shape
    xp, X, effects = array_namespace(X, effects), to_double(X), to_double(effects)
    sums = [
        factored_difference_sums(effects[:, k : k + 1], SortedColumns.sort(X[:, k : k + 1]))
        for k in range(p)
    ]
    return xp.abs(xp.concat(sums)) / (n * n)


def main_effect_size(
    X: Array,
    effects: Mapping[tuple[int, ...], Array],
    column: int,
    /,
    *,
    kernel: Manhattan | None = None,
) -> float:
    r"""Return the effective size of the main effect of a variable, Definition 4.2.

    .. math:: \mathcal{E}_l = \min_{\{l\} = T_1 \subset \dots \subset T_{|S|} = S}
              \prod_k \min\big( \mathcal{E}_l(X_{T_k}), 1 \big), \quad
              \mathcal{E}_l(X_T) = \mathbb{E}\big[ F_l(X_T)\, F_l(X_T')\,
              h(\|X_T - X_T'\|_1) \big]

    with :math:`F_l(X_T)` the sum of the effects of the sets within T that hold l, and S all
    variables with an effect. `detectable_size` is what it is compared with.

    Parameters
    ----------
    X : array, shape (n, p)
        Rows of the variables.
    effects : mapping from tuples of columns to arrays (n,)
        :math:`f_A(X_A)` at these rows, such as ``{(0,): X[:, 0], (0, 1): X[:, 0] * X[:, 1]}``.
    column : int
        l.
    kernel : Manhattan, optional
        h, by default :math:`e^{-t}`.

    Returns
    -------
    float
        The size, from 0 to 1: 0 for a variable without a main effect.

    Raises
    ------
    ValueError
        If the effects are not (n,), name columns that X lacks, or have more than 16 in all.

    Notes
    -----
    O(:math:`2^{|S|}` n²) by blocks: each set is visited once, not each order of the variables.
    """
    by_set = _check_effects(X, effects)
    signal = frozenset().union(*by_set)
    if column not in signal:
        return 0.0
    others = sorted(signal - {column})
    smallest: dict[frozenset[int], float] = {}
    for count in range(len(others) + 1):
        for chosen in itertools.combinations(others, count):
            T = frozenset(chosen) | {column}
            inside = [f for A, f in by_set.items() if column in A and A <= T]
            before = min((smallest[T - {k}] for k in chosen), default=1.0)
            smallest[T] = before * min(_effect_size(X, T, inside, kernel), 1.0)
    return smallest[signal]


def hierarchical_effect_sizes(
    X: Array, effects: Array, /, *, kernel: Manhattan | None = None
) -> list[float]:
    r"""Return the effective sizes along one hierarchy of interactions, Definition 4.3.

    .. math:: \mathcal{E}_l = \min_{m \le l} \prod_{m \le j \le N}
              \min\big( \mathcal{E}_m(X_{S_j}), 1 \big), \quad
              \mathcal{E}_m(X_{S_j}) = \mathbb{E}\big[ F_m(X_{S_j})\, F_m(X_{S_j}')\,
              h(\|X_{S_j} - X_{S_j}'\|_1) \big]

    with :math:`S_j` the first j variables and :math:`F_m(X_{S_j}) = \sum_{m \le w \le j} f_{S_w}`.

    Parameters
    ----------
    X : array, shape (n, N)
        Rows of the variables of one component, that of the main effect first.
    effects : array, shape (n, N)
        :math:`f_{S_j}` at these rows: an effect of the first j variables in column j.
    kernel : Manhattan, optional
        h, by default :math:`e^{-t}`.

    Returns
    -------
    list of N floats
        Sizes from 0 to 1, none larger than the one before.

    Raises
    ------
    ValueError
        If the shapes disagree.

    Notes
    -----
    O(N² n²) by blocks.
    """
    if X.ndim != 2 or X.shape != effects.shape or 0 in X.shape:
        msg = f"expected X and effects (n, N) alike, got {tuple(X.shape)}, {tuple(effects.shape)}"
        raise ValueError(msg)
    N = X.shape[1]
    products = [
        math.prod(
            min(
                _effect_size(X, range(j + 1), [effects[:, w] for w in range(m, j + 1)], kernel), 1.0
            )
            for j in range(m, N)
        )
        for m in range(N)
    ]
    return list(itertools.accumulate(products, min))


def detectable_size(ridge: float, sparsity: float) -> float:
    r"""Return the size above which an effect is found, eqs. (4.3), (4.4) and (4.7).

    .. math:: \lambda^{1/2} (1 + \lambda^{1/2}) + \lambda\gamma

    up to a constant factor C̄ that the paper does not compute: it depends on moments of the data.

    Parameters
    ----------
    ridge : float
        λ, at least 0.
    sparsity : float
        γ, at least 0.

    Returns
    -------
    float
        The size.

    Raises
    ------
    ValueError
        If a number is negative or not finite.
    """
    for name, value in (("ridge", ridge), ("sparsity", sparsity)):
        if not 0.0 <= value < math.inf:
            msg = f"expected {name} of at least 0 and finite, got {value}"
            raise ValueError(msg)
    return math.sqrt(ridge) * (1.0 + math.sqrt(ridge)) + ridge * sparsity


def _check_effects(
    X: Array, effects: Mapping[tuple[int, ...], Array], /
) -> dict[frozenset[int], Array]:
    """Return the effects by sets of columns, each of which X has."""
    n, p = X.shape
    by_set = {frozenset(columns): f for columns, f in effects.items()}
    for columns, f in by_set.items():
        if not columns or not columns <= set(range(p)):
            msg = f"expected sets of columns from 0 to {p - 1}, got {sorted(columns)}"
            raise ValueError(msg)
        if f.shape != (n,):
            msg = f"expected effects ({n},), got {tuple(f.shape)} for columns {sorted(columns)}"
            raise ValueError(msg)
    total = len(frozenset().union(*by_set))
    if total > _MOST:
        msg = f"expected effects of at most {_MOST} columns in all, got {total}"
        raise ValueError(msg)
    return by_set


def _effect_size(
    X: Array, T: Iterable[int], effects: list[Array], kernel: Manhattan | None
) -> float:
    """Return the mean of F F' h(|X_T - X_T'|_1) over pairs of rows, with F the sum of effects."""
    if not effects:
        return 0.0
    xp = array_namespace(X, *effects)
    X_T = xp.stack([X[:, column] for column in sorted(T)], axis=1)
    F = xp.zeros(X.shape[0], **double_like(X))
    for effect in effects:
        F = F + xp.astype(effect, F.dtype)
    operator = KernelOperator(kernel or ManhattanLaplace(), Rows(X_T, X_T[:0, 0]), X_T)
    return max(float(sample_dot(F, operator @ F)), 0.0) / X.shape[0] ** 2
