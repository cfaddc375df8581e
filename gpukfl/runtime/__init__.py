"""Predictions from a model file with NumPy alone: no scikit-learn, SciPy, Numba or pandas.

Where Numba is installed and a call would take NumPy a second or more, it is used.

>>> import gpukfl.runtime
>>> model = gpukfl.runtime.load("prices.gpukfl")  # doctest: +SKIP
>>> model.predict([[3.0, 120.0]])  # doctest: +SKIP
"""

from gpukfl.runtime._predictor import Predictor, load

__all__ = ["Predictor", "load"]
