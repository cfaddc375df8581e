"""Sums over groups of rows, and the errors of sums where rows of a group depend on each other."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def join_groups(parts: Sequence[np.ndarray | None], /) -> np.ndarray | None:
    """Return the groups of all rows of several parts; None unless all parts have groups."""
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if known and len(known) == len(parts) else None


def number_groups(groups: np.ndarray, /) -> tuple[np.ndarray, int]:
    """Return groups (n,) as the numbers 0, ..., G - 1, and G."""
    codes = np.unique(groups, return_inverse=True)[1].reshape(-1)
    return codes, int(codes.max(initial=-1)) + 1


def group_sums(values: np.ndarray, groups: np.ndarray, /) -> np.ndarray:
    """Return sums (G, ...) of values (n, ...) over groups (n,), in the order of their codes."""
    codes, count = number_groups(groups)
    found = np.zeros((count, *values.shape[1:]))
    np.add.at(found, codes, values)
    return found


def deviation_of_sum(values: np.ndarray, groups: np.ndarray | None = None, /) -> float:
    r"""Return the sampling standard deviation of a sum of values (n,).

    Rows are independent, or groups (n,) of rows (Liang and Zeger, "Longitudinal data
    analysis using generalized linear models", Biometrika, 1986):

    .. math:: \frac{G}{G - 1} \sum_g \Big(\sum_{i \in g} (v_i - \bar v)\Big)^2 .
    """
    if groups is None:
        return math.sqrt(len(values)) * float(values.std())
    sums = group_sums(values - values.mean(), groups)
    return math.sqrt(len(sums) / max(len(sums) - 1, 1)) * float(np.linalg.norm(sums))
