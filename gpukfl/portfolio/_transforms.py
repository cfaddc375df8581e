"""Which other scale targets are fitted on."""

from __future__ import annotations

from functools import cache

import numpy as np

from gpukfl._array import to_host
from gpukfl._warnings import collected
from gpukfl.estimators import KernelRidgeRegressor
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.portfolio._folds import hosted, split
from gpukfl.portfolio._judges import target_scale
from gpukfl.prediction import LogTransform, RankTransform, TargetTransform, skewness

TRANSFORMS = ("auto", "log", "rank", None)
_SKEWED = 1.0  # skewness from which another scale is tried
_QUANTILES = 51
_ROWS, _FEW_ROWS = 1_000, 250  # that a scale is chosen on, and where there is little time
_WORKS = 100  # first errors of few rows that there is time for: of more they take the cube of that
_TRIED_ON = 3  # folds
_GAIN = 0.02  # share of the error that another scale must save


KINDS: dict[str, type[TargetTransform]] = {"log": LogTransform, "rank": RankTransform}


def residual_quantiles(residuals: np.ndarray, weights: np.ndarray | None, /) -> np.ndarray:
    """Quantiles (q, t) of residuals (n, t) with weights (n,), in the middle of equal shares."""
    shares = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    if weights is None or not np.ptp(weights):
        return np.quantile(residuals, shares, axis=0)
    return np.quantile(residuals, shares, axis=0, weights=weights, method="inverted_cdf")


def transform_of(asked: str | None, samples: Samples, run: Run, /) -> TargetTransform | None:
    """Give the transform that is asked for; "auto" is the best of a quick fit, on rows held out."""
    if asked is None or samples.labels:
        return None
    kept = counted(samples)
    Y, w = to_host(samples.Y).astype(np.float64)[kept], samples.weights
    w = None if w is None else w[kept]
    if asked != "auto":
        return KINDS[asked].of(Y, w)
    if len(kept) < 2 * _TRIED_ON or np.abs(skewness(Y, w)).max() < _SKEWED:
        return None
    drawn = run.again().permutation(len(kept))

    def part_of(count: int) -> Samples:
        return hosted(samples.taken(kept[np.sort(drawn[:count])]))

    own_scale = cache(lambda n: _error(None, part_of(n)))
    wanted = min(_ROWS, len(kept))
    few = min(_FEW_ROWS, wanted)
    count = run.affordable(wanted, own_scale, times=_WORKS, few=few)
    part = part_of(count)
    best, lowest = None, (1.0 - _GAIN) * own_scale(count)
    for kind in KINDS.values():
        error = _error(kind.of(to_host(part.Y).astype(np.float64), part.weights), part)
        if error < lowest:
            best, lowest = kind.of(Y, w), error
    return best


def counted(samples: Samples, /) -> np.ndarray:
    """Rows that have a weight: of a memory map others stay among the samples."""
    w = samples.weights
    return np.arange(len(samples)) if w is None else np.flatnonzero(w)


def _error(transform: TargetTransform | None, samples: Samples) -> float:
    """Error of a plain kernel ridge regression on rows held out, in the targets' own units."""
    scale = target_scale(to_host(samples.Y), samples.weights)
    found, truth, weights, precedent = [], [], [], None
    for fold in split(samples, np.random.RandomState(0), _TRIED_ON):
        Y = to_host(fold.inside.Y)
        Y = Y if transform is None else transform.forward(Y)
        # Of the quick members it is the best: a weak one gains by ranks where the others lose
        model = KernelRidgeRegressor("manhattan_laplace", backend="numpy", random_state=0)
        with collected():  # what it warns of is not of a fit that stays
            precedent = model.fitted_as(fold.inside.X, Y, fold.inside.weights, precedent)
        found.append(to_host(model.predict(fold.outside.X)).reshape(len(fold.outside), -1))
        truth.append(to_host(fold.outside.Y))
        w = fold.outside.weights
        weights.append(np.ones(len(fold.outside)) if w is None else w)
    F, Y, w = np.concatenate(found), np.concatenate(truth), np.concatenate(weights)
    if transform is not None:
        F = to_host(transform.mean(F, residual_quantiles(transform.forward(Y) - F, w)))
    return float(w @ np.sum(((Y - F) / scale) ** 2, axis=1))
