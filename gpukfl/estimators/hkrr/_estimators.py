"""HKRR as scikit-learn estimators."""

from __future__ import annotations

from typing import Any

from gpukfl._array import Array
from gpukfl.estimators._base import OF_EVERY_FIT, ArrayRegressor
from gpukfl.estimators._classifier import CLASS_WEIGHT, OneHotClassifier
from gpukfl.estimators._device import on_its_device
from gpukfl.estimators.hkrr._base import HKRRBase

_PARAMETERS = """
    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Rows k of the linear map B, at most the features. "auto" is chosen together with the
        ridge by hold-out: too few cost much, some more than needed cost little.
    kernel : str or Kernel, default="auto"
        The mother kernel; "auto" is "gaussian", and with "agop" ``PowerExponential(order=1.5)``.
        Others are "brownian", "gaussian_mixture", "inverse_manhattan", "inverse_multiquadric",
        "laplace", "linear", "manhattan_laplace", "manhattan_mixture", "matern32", "matern52",
        "polynomial", "power_exponential", "rational_quadratic", or a value, such as
        ``Gaussian() + 0.1 * Linear()``.
    ridge : float or "auto", default="auto"
        λ while the map is learned, positive, in units of the kernel. "auto" is chosen by hold-out
        on a geometric grid. The last fit tunes it anew, on the same held-out samples.
    lengthscale : float or "auto", default="auto"
        Of the kernel of Bx. "auto" starts at the median distance of the mapped samples and is
        learned with the map; the bound on B's norm then only fixes its unit. A number is kept as it
        is. "varpro" and "agd" hold it while the map is learned, as the paper does.
    n_centers : int, "auto" or Centers, default="auto"
        Nyström centres while the map is learned; "auto" is 500, and none by evidence.
        ``Centers(fit, refit, selection)`` of `gpukfl.estimators.hkrr` also says how many the last
        fit has, by default all of at most 6000 samples, else 2000 or what memory allows, and
        how they are drawn.
    criterion : {"hold_out", "evidence", "loo"} or HoldOut, default="hold_out"
        What the map, its lengthscale and the ridge are chosen by. "hold_out": the paper's, the
        training error with held-out rows to choose components, ridge and steps;
        ``HoldOut(n_starts, warm_start)`` of `gpukfl.estimators.hkrr` also says where to start.
        "evidence": the marginal likelihood of a Gaussian process, of all pairs of at most 2500
        rows, or, where `n_centers` is a number, of more Titsias' bound of it by so many centres;
        nothing is held out, and there are variances. "loo": the leave-one-out error, in closed
        form, of at most 2500 rows. The last two go by L-BFGS whatever `optimizer` is.
    structure : {"auto", "full", "low_rank", "diagonal"}, default="auto"
        Of the map: any (d, d), of `n_components` rows, or a lengthscale for each feature, which
        goes with "evidence" and "loo". "auto" is "low_rank" with "hold_out" or a given number of
        components, else "diagonal".
    optimizer : {"lbfgs", "varpro", "agd", "agop"}, or a solver, optional
        L-BFGS on the reduced objective (7), the default; variable projection (Algorithm 3);
        alternating gradient descent (Algorithm 4). "agop" descends nothing: the map is the root of
        the average gradient outer product of a fit, three times, and the best for samples that are
        left out is kept. A value such as ``LBFGS(max_iter=100,
        tol=1e-4)``, the default, also says when it ends: when the objective falls by a smaller
        share, or after so many steps. Where the number of components or the ridge is chosen,
        held-out samples say how many steps are best. `LBFGS`, `VariableProjection` and
        `AlternatingGradient` are in `gpukfl.solvers`, `AverageGradientOuterProduct`, which also
        says whether the map may turn the features, in `gpukfl.methods`. "agop" begins at the
        identity.
    max_time : float or None, default=None
        Seconds for tuning and optimisation; the best iterate is kept.
    random_state : int, RandomState or None, default=None
        Draws maps, centres and splits, on the host.
    backend : {"auto", "numpy", "cupy", "torch"} or Backend, default="auto"
        Where to compute. "auto" follows X, and moves large NumPy data to a usable GPU. A `Backend`
        also says in which precision kernel values are computed while the map is learned. Sums over
        samples, systems of the centres, and the last fit are float64.
    scaling : {"auto", "standard", "robust", "quantile", None}, default="auto"
        How features are scaled first, each by itself: "standard" to zero mean and unit variance,
        where values far beyond all others have no part in this, see `scaling_`; "robust" by the
        median and the interquartile range, bounded smoothly by 3; "quantile" to normal scores of
        their ranks; None not at all. "auto" is "robust" where a feature of more than two values has
        an excess kurtosis above 20, and "standard" elsewhere.
    verbose : int, default=0
        1 prints a line per iteration.
"""

_ATTRIBUTES = """
    Attributes
    ----------
    B_ : array of shape (n_components, n_features)
        The learned map, of operator norm at most 1.
    map_ : array of shape (n_components, n_features), or (n_features,)
        The same as it is kept: of ``structure="diagonal"`` the diagonal alone.
    centers_ : array of shape (n_centers, n_features)
        Centres, on the scale of the standardised features.
    dual_coef_ : array of shape (n_centers, n_targets)
        α.
    intercept_ : array of shape (n_targets,)
        Mean of the targets.
    bound_ : array of shape (n_targets,)
        Largest deviation of a target from its mean: predictions are truncated to it.
    kernel_, lengthscale_, ridge_ : Kernel, float, float
        Of the last fit.
    feature_matrix_ : array of shape (n_features, n_features)
        BᵀB: which directions of two samples tell them apart.
    feature_importances_ : array of shape (n_features,)
        Root mean squares of the derivatives of the function by scaled features at some samples,
        summing to 1.
    components_, n_effective_features_ : array of shape (n_effective_features_, n_features), int
        Orthonormal directions in which the function varies, eigenvectors of its average gradient
        outer product, most first; and the estimated dimension, the number of those whose root of
        an eigenvalue is at least a fifth of the largest.
    scaling_ : ColumnScaling or None
        What features are scaled by: a function of rows, of host arrays. Of "standard" with `mean`
        and `scale`, which are subtracted and divided by, and `limits` (4, n_features): the lowest
        value that is taken as it is, the 1 % and the 99 % quantile, which take the place of values
        below and above, and the highest. Of "robust" with `median` and `factor`; of "quantile"
        with a table of `values` and their `scores`.
    learned_ : bool
        Whether the map was optimised. Where the search for components or a ridge finds, on held-out
        samples, no gain over the best start of more than its standard error, that is kept.
    tuning_ : list of dict
        Settings tried: scores on held-out samples with their standard errors, seconds, and which
        was chosen.
    history_ : History
        Objective, step, norm of the gradient and seconds of every iteration.
    n_iter_, status_ : int, str
        Iterations of the final optimisation, and how it ended.
    evidence_ : float or None
        Log marginal likelihood of the targets less their mean, or the bound of it, in nats; None
        with "hold_out".
    amplitude_, noise_ : arrays of shape (n_targets,) or None
        Standard deviations of the function and of the noise of a sample of weight 1, in units of
        the targets, of the Gaussian process.
    factor_, inner_factor_ : arrays of shape (n_centers, n_centers) or None
        Lower triangular L and N, by which the variance of the function at x is
        ``amplitude_**2 * (k(x, x) - h @ h)`` where all samples are centres, with
        ``h = solve(L, k_x)``, and ``amplitude_**2 * (k(x, x) - h @ h + g @ g)``, with
        ``g = solve(N, h)``, where some are; None also of members of a blend.
    jitter_, smallest_eigenvalue_ : float, float
        What was added to the diagonal of the centres' kernel matrix, relative to its mean, and
        that matrix's smallest eigenvalue: Theorem 4 asks that it stays away from 0.
"""

_REFERENCES = """
    Notes
    -----
    An iteration takes two passes over the samples, of which at most 20,000 are drawn for it:
    O(n q (q + k + t)) for q centres, a block of rows in memory. Rows may be a NumPy memory map.

    References
    ----------
    .. [1] Huang, Labarrière, De Vito, Poggio and Rosasco, "Learning Multi-Index Models with
       Hyper-Kernel Ridge Regression".
    .. [2] Radhakrishnan, Beaglehole, Pandit and Belkin, "Mechanism of feature learning in deep
       fully connected networks and kernel machines that recursively learn features", 2022.
"""


class HKRRRegressor(ArrayRegressor, HKRRBase):
    __doc__ = f"""Hyper-kernel ridge regression: kernel ridge regression of a learned linear map.

    f(x) = Σ_j α_j k(Bx, Bz_j), with B, α and the lengthscale learned together.
    {_PARAMETERS}{_ATTRIBUTES}{OF_EVERY_FIT}{_REFERENCES}
    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import HKRRRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (300, 5))
    >>> y = np.sin(3 * (X[:, 0] + X[:, 1]))
    >>> model = HKRRRegressor(1, ridge=1e-6, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.99)
    True
    """

    @on_its_device
    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:  # type: ignore[override]
        """Predict the targets.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.
        return_std : bool, default=False
            Also give the standard deviation of a new target, of the mean weight of those of the
            fit: of the function and the noise together, in units of the targets. It is that of the
            Gaussian process whose map and noise are taken for known, which only "evidence" and
            "loo" have. Where predictions are cut off at the largest deviation of the targets of the
            fit, as beyond their range, it is the root of the mean squared error that this makes. A
            model that was read from a file has it as its `estimator`.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_targets), or a tuple of two
            Predictions, of the library, device and dtype of X.

        Raises
        ------
        ValueError
            If standard deviations are asked of a model without.
        """
        predicted = super().predict(X)
        if not return_std:
            return predicted
        deviations = self._deviations(X)
        return predicted, deviations[:, 0] if self._one_target else deviations


class HKRRClassifier(OneHotClassifier, HKRRBase):
    __doc__ = f"""Hyper-kernel ridge regression for classification.

    Least squares on one-hot classes with a shared map; probabilities are calibrated on held-out
    samples. Any number of classes, any labels.
    {_PARAMETERS}{CLASS_WEIGHT}{_ATTRIBUTES}{OF_EVERY_FIT}
    classes_ : array of shape (n_classes,)
        Labels.
    calibration_ : Calibration
        What makes probabilities of scores, chosen on held-out samples.
    {_REFERENCES}
    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpukfl import HKRRClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(HKRRClassifier(2, ridge=1e-3, random_state=0).fit(X, y).score(X, y) > 0.95)
    True
    """
