"""A warning of features in awkward units, where nothing scales them."""

from __future__ import annotations

import numpy as np

from gpukfl._array import Array, double_reference, to_host
from gpukfl._rows import Rows
from gpukfl._warnings import warn
from gpukfl.estimators.scaling._sample import sampled

_FAR = 1e4  # standard deviations from 0, or units, from which features are awkward
_GLANCE = 500  # rows that are looked at


def warn_of_units(X: Array, /, *, unit_free: bool) -> None:
    """Warn of features so far from 0, so large or so small that methods may not see them.

    Of those that are large or small not where a unit of all features changes nothing.
    """
    rows = Rows(X, double_reference(X))
    sample = to_host(rows.at(sampled(*rows.shape, at_most=_GLANCE))).astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread = np.abs(sample.mean(axis=0)), sample.std(axis=0)
    varies = spread > 1e-12 * mean
    awkward = varies & (mean > _FAR * spread)
    if not unit_free and varies.any() and not 1.0 / _FAR < spread.max() < _FAR:
        awkward |= varies & (spread == spread.max())
    if awkward.any():
        k = np.argmax(awkward)
        msg = (
            f"expected features around 0 of about unit variance, got feature {k} of mean "
            f"{sample[:, k].mean():.1e} and standard deviation {spread[k]:.1e}: scaling='standard' "
            "scales them"
        )
        warn(msg, UserWarning)
