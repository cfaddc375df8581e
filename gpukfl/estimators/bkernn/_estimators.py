"""BKerNN as scikit-learn estimators."""

from __future__ import annotations

from gpukfl.estimators._base import OF_EVERY_FIT, ArrayRegressor
from gpukfl.estimators._classifier import CLASS_WEIGHT, OneHotClassifier
from gpukfl.estimators.bkernn._base import BKerNNBase

_PARAMETERS = """
    Parameters
    ----------
    n_particles : int or "auto", default="auto"
        Number of particles m, at least 1; "auto" is twice the features, between 50 and 200.
    penalty : str or Penalty, default="concave_feature"
        "basic" (few particles), "variable" and "concave_variable" (few variables), "feature" and
        "concave_feature" (few directions), or a value such as ``ConcaveFeature(concavity=2.0)``
        of `gpukfl.penalties`. "tune" is the one with the best hold-out score. Of one feature, or of
        samples on a line, concave ones do not bound what is learned: there "variable" and "feature"
        take their place.
    ridge : float, "auto" or "tune", default="auto"
        λ, positive, in units of the kernel (those of X); "auto" is the paper's
        max‖x‖/n for real data, with n the effective number of samples, (Σw)²/Σw². "tune" goes
        from there, by powers of 3, to where the hold-out score rises.
    penalty_strength : float, default=1.0
        Weight of the penalty relative to `ridge`; 1 is the paper. Targets are scaled to unit
        variance first, so that it has a meaning; predictions are in the units of y.
    optimizer : ProximalGradient, optional
        Steps, tolerance and step size; by default ``ProximalGradient("auto", max_iter=200,
        tol=3e-4)``. A number as step size begins the paper's line search, Algorithm 1.
    early_stopping : bool or float, default=False
        Hold out a share of the samples (True: a tenth), stop when their R² has not risen for 5
        steps, keep the best. Of a memory map the last rows are held out, else random ones.
    knots : int, "auto", None or Knots, default="auto"
        None computes exactly. An integer q bins projections on q knots a particle, which needs
        no sort and takes rows from a memory map by blocks. "auto" is exact while memory holds
        it and up to 200 million projections, else 4096. ``Knots(number, tolerance)`` also says
        how exactly shape functions are stored.
    warm_start : bool, default=False
        Start from the last fit's particles, if they have the same shape and are not zero.
    max_time : float or None, default=None
        Seconds for everything; the best iterate is kept.
    random_state : int, RandomState or None, default=None
        Draws the first particles, on the host, so that every backend starts alike.
    backend : {"auto", "numpy", "cupy", "torch"} or Backend, default="auto"
        Where to compute. "auto" follows X, and moves large NumPy data to a usable GPU. A `Backend`
        also says in which precision. Sums over samples are kept in float64, but for matrix
        products, which sum blocks of 65 536 samples in the data's precision.
    scaling : {"auto", "standard", "robust", "quantile", None}, default="auto"
        How features are scaled first, each by itself: "standard" to zero mean and unit variance,
        where values far beyond all others have no part in this, see `scaling_`; "robust" by the
        median and the interquartile range, bounded smoothly by 3; "quantile" to normal scores of
        their ranks; None not at all. "auto" is "robust" where a feature of more than two values has
        an excess kurtosis above 20, and "standard" elsewhere.
        Particles, directions and importances are those of scaled features.
    verbose : int, default=0
        1 prints a line per step.
"""

_ATTRIBUTES = """
    Attributes
    ----------
    W_ : array of shape (n_features, n_particles)
        Particles.
    penalty_, ridge_ : str, float
        As used.
    tuning_ : list of dict
        Penalties and ridges tried: scores on held-out samples with their standard errors, seconds,
        and which was chosen.
    scaling_ : ColumnScaling or None
        What features are scaled by: a function of rows, of host arrays. Of "standard" with `mean`
        and `scale`, which are subtracted and divided by, and `limits` (4, n_features): the lowest
        value that is taken as it is, the 1 % and the 99 % quantile, which take the place of values
        below and above, and the highest. Of "robust" with `median` and `factor`; of "quantile"
        with a table of `values` and their `scores`.
    dual_coef_ : array of shape (n_samples, n_targets)
        α at the final particles.
    intercept_ : array of shape (n_targets,)
        Constant beside the shape functions, each of which is 0 at its smallest knot. The paper's c
        goes with functions that are 0 where Wᵀx = 0: it is
        ``intercept_ + shape_functions_.mean(zeros)``, with zeros of shape (n_particles, 1).
    feature_matrix_ : array of shape (n_features, n_features)
        WWᵀ/m: which directions matter.
    feature_importances_ : array of shape (n_features,)
        Norms of the rows of W, summing to 1.
    n_effective_features_ : int
        Directions whose singular value is at least a fifth of the largest; 0 where W = 0.
    components_ : array of shape (n_effective_features_, n_features)
        Orthonormal learned directions.
    shape_functions_ : ShapeFunctions
        The functions g_j.
    history_ : History
        Objective, step, residual and seconds of every iteration. From 300 000 samples on, unless
        with early stopping, the first half of the iterations sees a tenth of them at most.
    n_iter_, status_ : int, str
        Steps taken, and how the fit ended.
    ridge_ : float
        λ used.
    n_knots_ : int or None
        Knots a particle, None where computed exactly.
    knots_error_ : float
        Estimated relative error of the binned product, 0 where exact.
    solve_residual_ : float
        Relative residual of the final linear solve.
"""

_REFERENCES = """
    Notes
    -----
    A step costs a sort of the n m projections and about ten products of O(n m); memory is about
    48 bytes for each projection.

    References
    ----------
    .. [1] Follain and Bach, "Enhanced Feature Learning via Regularisation: Integrating Neural
       Networks and Kernel Methods", arXiv:2407.17280.
"""


class BKerNNRegressor(ArrayRegressor, BKerNNBase):
    __doc__ = f"""Brownian kernel neural network for regression, exact and near-linear.

    Learns a few directions of the data and a smooth function along each:
    f(x) = c + (1/m) Σ_j g_j(w_jᵀx).
    {_PARAMETERS}{_ATTRIBUTES}{OF_EVERY_FIT}{_REFERENCES}
    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import BKerNNRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 5))
    >>> model = BKerNNRegressor(random_state=0).fit(X, np.abs(X[:, 0] + X[:, 1]))
    >>> bool(model.score(X, np.abs(X[:, 0] + X[:, 1])) > 0.95)
    True
    """


class BKerNNClassifier(OneHotClassifier, BKerNNBase):
    __doc__ = f"""Brownian kernel neural network for classification.

    Least squares on one-hot classes with shared particles: the functions estimate the classes'
    probabilities. Any number of classes, any labels.
    {_PARAMETERS}{CLASS_WEIGHT}{_ATTRIBUTES}{OF_EVERY_FIT}
    classes_ : array of shape (n_classes,)
        Labels.
    calibration_ : Calibration
        What makes probabilities of scores, chosen on held-out samples.
    {_REFERENCES}
    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpukfl import BKerNNClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(BKerNNClassifier(random_state=0).fit(X, y).score(X, y) > 0.95)
    True
    """
