"""RegFeaL as scikit-learn estimators."""

from __future__ import annotations

from gpukfl.estimators._base import OF_EVERY_FIT, ArrayRegressor
from gpukfl.estimators._classifier import CLASS_WEIGHT, OneHotClassifier
from gpukfl.estimators.regfeal._base import RegFeaLBase

_PARAMETERS = """
    Parameters
    ----------
    n_random_features : int, default=2000
        Tuples of Hermite degrees that each iteration draws, m.
    selection : {"features", "variables"}, default="features"
        Learn directions, with a rotation, or select variables.
    degrees : float, "auto" or DegreeLaw, default="auto"
        c_k of the degrees k. A number is ρ of c_k = ρ^k, at least 0 and below 1: the smaller, the
        lower the degrees; 0 leaves degree 1. ``DegreeLaw(largest=M)`` of `gpukfl.methods`, M up to
        40, is c_k = 1 up to this degree; all tuples are taken if they are no more than
        `n_random_features`. "auto" is a ρ, chosen together with the strength on held-out rows;
        where there are many variables for the number of random features, M = 2 is tried as well.
    strength : float or "auto", default="auto"
        μ, positive, in units of d^(-(2-r)/r).
    ridge : float or "auto", default="auto"
        λ, positive, in the same units: for numerical stability. "auto" is 1e-8.
    optimizer : Reweighting, optional
        How often directions are learned anew, and how few: ``Reweighting(n_iter=5, exponent=0.33,
        over_c=False)`` of `gpukfl.methods` by default.
    retrain : "kernel_ridge", None or a regressor, default="kernel_ridge"
        What predicts from the learned directions: `KernelRidgeRegressor`, or the Hermite features
        themselves where they do better on held-out rows; always these; or another scikit-learn
        regressor.
    clip : float, "auto" or None, default="auto"
        Largest absolute standardised coordinate: what lies beyond is moved there, in fits and
        predictions. Hermite polynomials are huge far outside. "auto" is 6, None leaves all.
    max_time : float or None, default=None
        Seconds; the fit of the last whole iteration is kept, and retrained on in haste.
    random_state : int, RandomState or None, default=None
        Draws tuples and splits, on the host.
    backend : {"auto", "numpy", "cupy", "torch"} or Backend, default="auto"
        Where to compute. "auto" follows X, and moves large NumPy data to a usable GPU. A `Backend`
        also says in which precision features are computed. The recursion, sums over samples and
        systems are float64.
    scaling : {"auto", "standard", "robust", "quantile", None}, default="auto"
        How features are scaled first, each by itself: "standard" to zero mean and unit variance,
        where values far beyond all others have no part in this, see `scaling_`; "robust" by the
        median and the interquartile range, bounded smoothly by 3; "quantile" to normal scores of
        their ranks; None not at all. "auto" is "robust" where a feature of more than two values has
        an excess kurtosis above 20, and "standard" elsewhere.
        The polynomials rely on it.
    verbose : int, default=0
        1 prints a line per iteration.
"""

_ATTRIBUTES = """
    Attributes
    ----------
    R_ : array of shape (n_features, n_features)
        Rotation; its columns are directions, most important first. The identity for variables. It
        is updated after the last regression: `coef_` belongs to `coef_rotation_`, not to it.
    eta_, importances_ : arrays of shape (n_features,)
        η of the columns of R, and their shares η^(r/(2-r)), which sum to 1. 1e-8 is added to the
        squared derivatives they are made of, so that a direction without any has not 0, but
        10^(-4r) of the share of one whose squared derivative is 1: 0.05 at the exponent r = 0.33,
        and 0.4 at 0.1.
    eta_path_ : array of shape (updates + 1, n_features)
        η of each iteration, and of the end.
    n_features_estimated_ : int
        Directions whose share is at least 1/d, the paper's rule.
    n_effective_features_ : int
        Directions along which the root of the mean squared derivative is at least a fifth of the
        largest.
    components_ : array of shape (n_effective_features_, n_features)
        These directions.
    feature_importances_ : array of shape (n_features,)
        Roots of the mean squared derivatives by the features, that is of the diagonal of
        `feature_matrix_`, summing to 1.
    feature_matrix_ : array of shape (n_features, n_features)
        Expected outer product of gradients, eq. (2.9).
    multi_indices_ : array of shape (n_distinct, n_features)
        Tuples α of the last iteration.
    coef_, intercept_ : arrays of shape (n_distinct, n_targets) and (n_targets,)
        Coefficients of their Hermite products, of rows turned by `coef_rotation_`: without
        retraining f(x) is ``intercept_`` plus the sum of ``coef_[k]`` times the product of
        ``h_α(z)`` over ``multi_indices_[k]``, with z the scaled and clipped row times
        ``coef_rotation_``, within `bounds_`.
    coef_rotation_ : array of shape (n_features, n_features)
        Rotation that the last regression was made with, before `R_`; in float64.
    retrain_components_ : array of shape (k, n_features), or None
        What the data are projected on for `retrain`: the leading directions, as many as kernel
        ridge regression asks for on held-out rows, or all with weights. None where the Hermite
        features predict.
    kernel_, centers_, dual_coef_ : Kernel and arrays, or None
        Of the kernel ridge regression on the directions.
    retrained_ : regressor or None
        As given in `retrain`, fitted on the directions.
    bounds_ : array of shape (2, n_targets)
        Least and largest value that is predicted: the mean of a target, less and plus twice its
        largest deviation. Polynomials rise steeply outside the data.
    degree_decay_, max_degree_ : float and int, or None
        ρ or M as used; the other is None.
    strength_, ridge_ : float
        μ and λ as used.
    scaling_ : ColumnScaling or None
        What features are scaled by: a function of rows, of host arrays. Of "standard" with `mean`
        and `scale`, which are subtracted and divided by, and `limits` (4, n_features): the lowest
        value that is taken as it is, the 1 % and the 99 % quantile, which take the place of values
        below and above, and the highest. Of "robust" with `median` and `factor`; of "quantile"
        with a table of `values` and their `scores`.
    tuning_ : list of dict
        Settings tried: scores (R²) on held-out rows with their standard errors, seconds, and which
        was chosen. First laws and strengths, with predictions by the Hermite features; then, for
        the best three, kernel ridge regressions on their directions.
    history_, n_iter_, status_ : History, int, str
        Objective and distinct tuples (as "step") of every iteration; how the fit ended.
"""

_NOTES = """
    Notes
    -----
    An iteration is O(n m' s) for features of s factors and O(n m' min(n, m')) for the ridge
    regression on the m' distinct tuples, in blocks of rows where n is above m'. Rows may be a
    NumPy memory map.

    References
    ----------
    .. [1] Follain and Bach, "Nonparametric Linear Feature Learning in Regression Through
       Regularisation", arXiv:2307.12754.
"""


class RegFeaLRegressor(ArrayRegressor, RegFeaLBase):
    __doc__ = f"""Regularised feature learning with Hermite polynomials.

    Ridge regression on random products of Hermite polynomials of rotated data, with a penalty on
    derivatives that leaves few directions; then a regression on these.
    {_PARAMETERS}{_ATTRIBUTES}{OF_EVERY_FIT}{_NOTES}
    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import RegFeaLRegressor
    >>> X = np.random.default_rng(0).standard_normal((300, 5))
    >>> z = (X[:, 0] + X[:, 1]) / np.sqrt(2)
    >>> y = z**3 - z
    >>> model = RegFeaLRegressor(500, degrees=0.4, strength=0.1, random_state=0).fit(X, y)
    >>> np.abs(model.components_[:, :2]).round(1)
    array([[0.7, 0.7]])
    """


class RegFeaLClassifier(OneHotClassifier, RegFeaLBase):
    __doc__ = f"""Regularised feature learning with Hermite polynomials for classes.

    Least squares on one-hot classes with shared directions; probabilities are calibrated on
    held-out rows. Any number of classes, any labels.
    {_PARAMETERS}{CLASS_WEIGHT}{_ATTRIBUTES}{OF_EVERY_FIT}
    classes_ : array of shape (n_classes,)
        Labels.
    calibration_ : Calibration
        What makes probabilities of scores, chosen on held-out rows.
    {_NOTES}
    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpukfl import RegFeaLClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RegFeaLClassifier(300, degrees=0.2, strength=0.1, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """
