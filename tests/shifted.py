"""Rows less a shift, over a scale."""

from dataclasses import replace

from gpukfl.estimators.scaling import StandardScaling


def shifted(shift, scale):
    """The scaling ``(x - shift) / scale``."""
    return replace(StandardScaling.none(len(shift)), mean=shift, scale=scale)
