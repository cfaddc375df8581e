"""Curves of models without a kernel, by how far the fits of folds vary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpukfl.inference._curves import Curve
from gpukfl.inference._estimates import Estimate
from gpukfl.inference._stepwise import all_of, each_of
from gpukfl.inference._subject import Subject

_FOLDS = 10


def estimates_by_folds(
    subject: Subject, curves: Sequence[Curve], rng: Any, /
) -> list[list[Estimate]]:
    r"""Give the model's curves, with the jackknife's covariance over folds that are left out.

    .. math:: \frac{K - 1}{K} \sum_k (c_k - \bar c)(c_k - \bar c)^\top

    of K - 1 degrees of freedom.
    """
    # Rows of one class after the other, so that each fold takes its share of every class
    order = rng.permutation(len(subject))
    if subject.classes:
        order = order[np.argsort(subject.y[order], kind="stable")]

    def without_fold(k: int) -> Any:
        return subject.refitted(np.sort(np.delete(order, np.s_[k::_FOLDS])))

    models = all_of("fits for bands", range(_FOLDS), without_fold)

    def estimated(curve: Curve) -> list[Estimate]:
        own = curve.weights @ subject.functions(curve.points)
        by_fold = np.stack(
            [curve.weights @ subject.functions(curve.points, one) for one in models]
        )  # (K, g, t)
        away = by_fold - by_fold.mean(axis=0)
        share = (_FOLDS - 1.0) / _FOLDS
        return [
            Estimate(own[:, c], share * away[..., c].T @ away[..., c], _FOLDS - 1.0)
            for c in range(own.shape[1])
        ]

    return each_of("curves of bands", curves, estimated)
