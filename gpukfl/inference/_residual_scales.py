"""How large residuals are, given other columns, so that those of two rows may be exchanged."""

from __future__ import annotations

import numpy as np
from sklearn.covariance import LedoitWolf
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import mean_poisson_deviance
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpukfl._warnings import collected

_FEWEST = 50  # rows of which it is asked
_FOLDS = 10
_PENALTY = 0.05  # of squared coefficients, beside the mean deviance
_STEPS = 300
_WIDEST = 10.0  # times the mean size, and as far below
_NEAR = 0.2  # of squared distances from the middle: rows nearer than that are alike


def residual_scales(others: np.ndarray, residuals: np.ndarray, seed: int, /) -> np.ndarray:
    r"""Estimate scales (n, g) of residuals (n, g), NaN where unknown, given others (n, q).

    The mean of :math:`|r|` is the exponential of a linear function of the others, of their absolute
    values, and of how far out a row is, estimated by quasi-likelihood. Each row's is predicted by a
    fit that has not seen it; all are 1 where this says no more of the sizes than their mean.
    """
    return np.stack([_scales(others, column, seed) for column in residuals.T], axis=1)


def _scales(others: np.ndarray, residuals: np.ndarray, seed: int) -> np.ndarray:
    """Scales (n,) of one column; 1 for all where there is too little to learn from."""
    found = np.ones(len(residuals))
    there = np.flatnonzero(~np.isnan(residuals))
    size = np.abs(residuals[there])
    if others.shape[1] == 0 or len(there) < _FEWEST or size.mean() <= 0:
        return found
    size = size / size.mean()
    model = make_pipeline(StandardScaler(), PoissonRegressor(alpha=_PENALTY, max_iter=_STEPS))
    folds = KFold(_FOLDS, shuffle=True, random_state=seed)
    with collected():
        means = cross_val_predict(model, _signs(others[there]), size, cv=folds)
    means = np.clip(means, 1.0 / _WIDEST, _WIDEST)
    # Scales that are noise would make residuals of other rows larger than a row's own
    if mean_poisson_deviance(size, means) < mean_poisson_deviance(size, np.ones(len(size))):
        found[there] = means
    return found


def _signs(others: np.ndarray) -> np.ndarray:
    """Give what scales may depend on: columns (n, q), their sizes, the distance from the middle."""
    Z = StandardScaler().set_output(transform="default").fit_transform(others)
    far = LedoitWolf().fit(Z).mahalanobis(Z) / Z.shape[1]
    return np.column_stack([Z, np.abs(Z), np.log(_NEAR + far)])
