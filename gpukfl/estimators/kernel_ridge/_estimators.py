"""Kernel ridge regression as scikit-learn estimators."""

from __future__ import annotations

from gpukfl.estimators._base import OF_EVERY_FIT, ArrayRegressor
from gpukfl.estimators._classifier import CLASS_WEIGHT, OneHotClassifier
from gpukfl.estimators.kernel_ridge._base import KernelRidgeBase

_PARAMETERS = """
    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        A name ("brownian", "gaussian", "gaussian_mixture", "inverse_manhattan",
        "inverse_multiquadric", "laplace", "linear", "manhattan_laplace", "manhattan_mixture",
        "matern32", "matern52", "polynomial", "power_exponential", "rational_quadratic") or a
        value, such as ``Gaussian() + 0.1 * Linear()``.
    ridge : float or "auto", default="auto"
        λ, at least 0, in units of the kernel; it is multiplied by the number of samples. "auto"
        takes the best of a grid by leave-one-out (the kernel matrix of up to 2000 samples) or
        generalised cross-validation (up to 1000 centres), in closed form.
    lengthscale : float, "auto" or "median", default="auto"
        What distances are divided by. For a kernel given by name "median" is the median distance,
        and "auto" a power of two times it, from a quarter to eight, chosen by leave-one-out; of
        at most 1000 samples. For a kernel given as a value both are 1.
    solver : {"auto", "direct", "cg", "falkon"}, default="auto"
        "direct" factors: the kernel matrix, or with `n_centers` the normal equations of the
        centres. "cg" solves with all samples without storing their matrix; `n_centers` are those
        of its preconditioner. "falkon" solves for the centres without normal equations. "auto" is
        exact up to 20 000 samples, and takes centres beyond.
    n_centers : int or "auto", default="auto"
        Nyström centres; "auto" is 4√n between 1000 and 4000 where not all samples are taken.
    center_selection : {"uniform", "leverage", "pivoted"}, default="uniform"
        Uniform draws, approximate ridge leverage scores, or randomly pivoted Cholesky.
    max_iter : int, default=100
        Iterations of conjugate gradients.
    tol : float, default=1e-6
        Their relative residual.
    random_state : int, RandomState or None, default=None
        Draws centres, on the host.
    backend : {"auto", "numpy", "cupy", "torch"} or Backend, default="auto"
        Where to compute, as a `Backend` also in which precision. "auto" follows X, and moves large
        NumPy data to a usable GPU. Systems are solved in float64 either way, and only "falkon"
        takes kernel values in the precision of the data.
    scaling : {"auto", "standard", "robust", "quantile", None}, default="auto"
        How features are scaled first, each by itself: "standard" to zero mean and unit variance,
        where values far beyond all others have no part in this, see `scaling_`; "robust" by the
        median and the interquartile range, bounded smoothly by 3; "quantile" to normal scores of
        their ranks; None not at all. "auto" is "robust" where a feature of more than two values has
        an excess kurtosis above 20, and "standard" elsewhere.
"""

_ATTRIBUTES = """
    Attributes
    ----------
    centers_ : array of shape (n_centers, n_features)
        Centres, as the kernel sees them.
    dual_coef_ : array of shape (n_centers, n_targets)
        α.
    intercept_ : array of shape (n_targets,)
        Mean of the targets.
    bounds_ : array of shape (2, n_targets)
        Least and largest value that is predicted: the mean of a target, less and plus twice its
        largest deviation. With a small ridge functions may be wild just outside the data.
    scaling_ : ColumnScaling or None
        What features are scaled by: a function of rows, of host arrays. Of "standard" with `mean`
        and `scale`, which are subtracted and divided by, and `limits` (4, n_features): the lowest
        value that is taken as it is, the 1 % and the 99 % quantile, which take the place of values
        below and above, and the highest. Of "robust" with `median` and `factor`; of "quantile"
        with a table of `values` and their `scores`.
    kernel_, lengthscale_, ridge_, solver_ : Kernel, float, float, str
        As used.
    ridge_path_ : RidgePath or None
        Ridges tried and their scores.
    tuning_ : list
        Empty: lengthscale and ridge are chosen in closed form, and no settings are fitted for it.
    status_, n_iter_, solve_residual_ : str, int, float
        How the solver ended; 1 iteration where it factored, and residual 0 for centres. "STALLED"
        where rounding leaves more than `tol` of the targets, or a factor a thousandth: without a
        ridge, of a kernel that cannot take all values.
    jitter_ : float
        What was added to the diagonal of the factored kernel matrix, relative to its mean.
    condition_ : float or None
        Lower bound on the condition number of the kernel matrix of the centres, if it was factored.
"""

_NOTES = """
    Notes
    -----
    "direct": O(n² d + n³) time and O(n²) memory, with q centres O(n q²) and a block of rows. "cg":
    O(n² d) for each iteration; "falkon": O(n q d). Rows may be a NumPy memory map; only a block of
    them is in memory unless all samples are centres.
"""


class KernelRidgeRegressor(ArrayRegressor, KernelRidgeBase):
    __doc__ = f"""Kernel ridge regression: exact, by conjugate gradients, or with Nyström centres.
    {_PARAMETERS}{_ATTRIBUTES}{OF_EVERY_FIT}{_NOTES}
    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import KernelRidgeRegressor
    >>> X = np.linspace(-1, 1, 100)[:, None]
    >>> y = np.sin(5 * X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(100)
    >>> bool(KernelRidgeRegressor(random_state=0).fit(X, y).score(X, y) > 0.95)
    True
    """


class KernelRidgeClassifier(OneHotClassifier, KernelRidgeBase):
    __doc__ = f"""Kernel ridge classification: least squares on one-hot classes.

    Any number of classes, any labels.
    {_PARAMETERS}{CLASS_WEIGHT}{_ATTRIBUTES}{OF_EVERY_FIT}
    classes_ : array of shape (n_classes,)
        Labels.
    calibration_ : Calibration
        What makes probabilities of scores, chosen on held-out samples.
    {_NOTES}
    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpukfl import KernelRidgeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(KernelRidgeClassifier().fit(X, y).score(X, y) > 0.95)
    True
    """
