r"""Instantiations :math:`(\mathcal W, K, p, \varphi)` of RKHS weightings, as frozen values.

`GaussianSign` and `Stumps` are those of the paper's Table 1. `RandomKitchenSinks` is its peer.
"""

from gpukfl.instantiations._base import Features, Instantiation
from gpukfl.instantiations._gaussian_sign import GaussianSign
from gpukfl.instantiations._kitchen_sinks import RandomKitchenSinks
from gpukfl.instantiations._stumps import Stumps

INSTANTIATIONS: dict[str, type[Instantiation]] = {
    "gaussian_sign": GaussianSign,
    "stumps": Stumps,
}

__all__ = [
    "INSTANTIATIONS",
    "Features",
    "GaussianSign",
    "Instantiation",
    "RandomKitchenSinks",
    "Stumps",
]
