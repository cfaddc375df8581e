r"""Matrix-free linear operators.

`BrownianKernel` is the exact sum over particles of one-dimensional Brownian kernels, applied in
O(n m) after one sort per particle; `BinnedBrownianKernel` the same on equally spaced knots,
without a sort. Both are given up to the terms that vanish on centred vectors; `CenteredKernel`
centres them, with sample weights. `KernelOperator` is any kernel between samples and centres,
`KernelMatrix` among samples, and `FeatureOperator` the expected features of an instantiation at
samples, by blocks of rows. `apply_map` is what they see of rows through a linear map.
"""

from typing import TYPE_CHECKING

from gpukfl.core._lazy import deprecated_names
from gpukfl.operators._base import LinearOperator, ParticleKernel
from gpukfl.operators._binned import BinnedBrownianKernel
from gpukfl.operators._brownian import BrownianKernel
from gpukfl.operators._centered import CenteredKernel, center
from gpukfl.operators._coarse import CoarseGrid
from gpukfl.operators._features import FeatureOperator, common_scale
from gpukfl.operators._hermite import HermiteOperator
from gpukfl.operators._kernel import KernelMatrix, KernelOperator
from gpukfl.operators._knot_sums import KnotSums, coarse_factor
from gpukfl.operators._maps import (
    apply_map,
    diagonal_map,
    leading_rows,
    map_gradient,
    map_row_gradient,
)
from gpukfl.operators._rows import RowOperator

__all__ = [
    "BinnedBrownianKernel",
    "BrownianKernel",
    "CenteredKernel",
    "CoarseGrid",
    "FeatureOperator",
    "HermiteOperator",
    "KernelMatrix",
    "KernelOperator",
    "KnotSums",
    "LinearOperator",
    "ParticleKernel",
    "RowOperator",
    "apply_map",
    "center",
    "coarse_factor",
    "common_scale",
    "diagonal_map",
    "leading_rows",
    "map_gradient",
    "map_row_gradient",
]

if not TYPE_CHECKING:
    __getattr__ = deprecated_names(
        __name__,
        {"mapped": "apply_map", "mapped_back": "map_row_gradient", "unmapped": "map_gradient"},
    )
