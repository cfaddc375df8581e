"""Predictions from a model file with NumPy alone: no scikit-learn, SciPy, Numba or pandas.

Numba is used if it is installed and a call would take NumPy a second or more.

>>> import gpukfl.runtime
>>> model = gpukfl.runtime.load("prices.gpukfl")  # doctest: +SKIP
>>> model.predict([[3.0, 120.0]])  # doctest: +SKIP
"""

from gpukfl.core._lazy import deprecated_names
from gpukfl.runtime._labels import RuntimeLabels
from gpukfl.runtime._predictor import RuntimeModel, load

__all__ = ["RuntimeLabels", "RuntimeModel", "load"]

__getattr__ = deprecated_names(__name__, {"Predictor": "RuntimeModel"})
