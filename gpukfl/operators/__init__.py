r"""Matrix-free linear operators, symmetric positive semidefinite on centred vectors.

`BrownianKernel` is the exact sum over particles of one-dimensional Brownian kernels, applied in
O(n m) after one sort per particle; `BinnedBrownianKernel` the same on equally spaced knots,
without a sort; `EuclideanBrownianKernel` the multi-dimensional Brownian kernel. All are given up
to the terms that vanish on centred vectors; `CenteredKernel` centres them, with sample weights.
"""

from gpukfl.operators._base import LinearOperator, ParticleKernel
from gpukfl.operators._binned import BinnedBrownianKernel
from gpukfl.operators._brownian import BrownianKernel
from gpukfl.operators._centered import CenteredKernel, center
from gpukfl.operators._euclidean import EuclideanBrownianKernel
from gpukfl.operators._kernel import KernelMatrix, KernelOperator

__all__ = [
    "BinnedBrownianKernel",
    "BrownianKernel",
    "CenteredKernel",
    "EuclideanBrownianKernel",
    "KernelMatrix",
    "KernelOperator",
    "LinearOperator",
    "ParticleKernel",
    "center",
]
