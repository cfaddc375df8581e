"""Kernels as frozen values with derivatives in the points, sums and products.

A kernel is called with two sets of points, and `Kernel.pullback` gives derivatives for learning
where points should lie. Each new kernel is one short class.

Points are arrays of one library. Values have their precision; integers, truth values, and float32
beside float64 are taken in float64.

Kernels of the squared distance, as `Gaussian`, the Matérn kernels and `RationalQuadratic`, have an
absolute error, of about the precision times the square of the points' extent over the lengthscale.
Where one point lies very far from the others, or the lengthscale is below a thousandth of the
extent in float32, or a 10⁻⁷ of it in float64, values between ordinary points are wrong: `Radial`
says by how much, and what helps.
"""

from gpukfl.kernels._bandwidth import median_distance
from gpukfl.kernels._base import Kernel, Product, Scaled, Sum
from gpukfl.kernels._brownian import Brownian
from gpukfl.kernels._dot import Linear, Polynomial
from gpukfl.kernels._manhattan import InverseManhattan, Manhattan, ManhattanLaplace
from gpukfl.kernels._mixture import GaussianMixture, ManhattanMixture
from gpukfl.kernels._power import PowerExponential
from gpukfl.kernels._radial import (
    Gaussian,
    InverseMultiquadric,
    Laplace,
    Matern32,
    Matern52,
    Radial,
    RationalQuadratic,
)
from gpukfl.kernels._terms import ColumnBlock, KernelTerms, sum_terms

KERNELS: dict[str, type[Kernel]] = {
    "brownian": Brownian,
    "gaussian": Gaussian,
    "gaussian_mixture": GaussianMixture,
    "inverse_manhattan": InverseManhattan,
    "inverse_multiquadric": InverseMultiquadric,
    "laplace": Laplace,
    "linear": Linear,
    "manhattan_laplace": ManhattanLaplace,
    "manhattan_mixture": ManhattanMixture,
    "matern32": Matern32,
    "matern52": Matern52,
    "polynomial": Polynomial,
    "power_exponential": PowerExponential,
    "rational_quadratic": RationalQuadratic,
}


def make_kernel(kernel: str | Kernel, /) -> Kernel:
    """Return a kernel by its name, with lengthscale 1, or the given kernel.

    Raises
    ------
    ValueError
        If the name is unknown.
    TypeError
        If it is neither a name nor a kernel.
    """
    if isinstance(kernel, Kernel):
        return kernel
    if not isinstance(kernel, str):
        msg = f"expected a kernel or the name of one, got {kernel!r}"
        raise TypeError(msg)
    if kernel not in KERNELS:
        msg = f"expected kernel to be one of {', '.join(KERNELS)}, got {kernel!r}"
        raise ValueError(msg)
    return KERNELS[kernel]()


__all__ = [
    "KERNELS",
    "Brownian",
    "ColumnBlock",
    "Gaussian",
    "GaussianMixture",
    "InverseManhattan",
    "InverseMultiquadric",
    "Kernel",
    "KernelTerms",
    "Laplace",
    "Linear",
    "Manhattan",
    "ManhattanLaplace",
    "ManhattanMixture",
    "Matern32",
    "Matern52",
    "Polynomial",
    "PowerExponential",
    "Product",
    "Radial",
    "RationalQuadratic",
    "Scaled",
    "Sum",
    "make_kernel",
    "median_distance",
    "sum_terms",
]
