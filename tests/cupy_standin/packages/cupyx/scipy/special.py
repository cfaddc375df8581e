"""Ufuncs of SciPy."""

import scipy.special
from cupy._ufuncs import Ufunc

__all__ = ["erf"]
erf = Ufunc("cupyx.scipy.special", "erf", scipy.special.erf)
