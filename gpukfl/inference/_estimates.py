"""An estimated curve with its covariance, before it is a band."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Estimate:
    """One curve of one output: values (g,), covariance (g, g), and its degrees of freedom."""

    values: np.ndarray
    covariance: np.ndarray
    freedom: float
