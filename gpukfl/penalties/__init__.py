"""Penalties on the particles W (d, m): values and exact proximal operators.

`PENALTIES` maps the names that estimators take to the classes here.
"""

from gpukfl.penalties._particles import (
    PENALTIES,
    Basic,
    ConcaveFeature,
    ConcaveVariable,
    Feature,
    Penalty,
    Variable,
)

__all__ = [
    "PENALTIES",
    "Basic",
    "ConcaveFeature",
    "ConcaveVariable",
    "Feature",
    "Penalty",
    "Variable",
]
