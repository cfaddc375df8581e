"""Kernel feature selection as scikit-learn estimators."""

from __future__ import annotations

from gpukfl.estimators._base import OF_EVERY_FIT, ArrayRegressor
from gpukfl.estimators._classifier import CLASS_WEIGHT, OneHotClassifier
from gpukfl.estimators.selection._base import SelectionBase

_PARAMETERS = """
    Parameters
    ----------
    kernel : {"laplace", "gaussian", "inverse"} or Kernel, default="laplace"
        What weighs the variables: h of the weighted sum of absolute differences (exp(-u), or
        1 / (1 + u)) or of squares (exp(-u)), or a kernel value such as ``ManhattanMixture()``.
        Only the kernels of absolute differences find variables without a linear effect from β = 0.
    ridge : float or "auto", default=0.01
        λ while variables are selected, positive, for targets of variance 1. "auto" is chosen by
        hold-out, on at most 1250 samples. The last fit tunes its own.
    sparsity : float, "auto", "tune", Permutations or Path, default="auto"
        γ: a variable gets weight while its score exceeds this, so that larger values select fewer.
        A number goes with one λ: scores grow about as 1/λ.
        "auto" is the largest score of any variable over 19 random orders of the samples, anew in
        every round: the chance of any false variable in a round is about 1/20.
        ``Permutations(number)`` of `gpukfl.estimators.selection` takes another number of orders.
        "tune" follows a path over 10 values of γ, from what selects nothing to a thousandth, and
        takes the sparsest model whose hold-out loss is within a standard error of the best;
        ``Path(number)`` is of another length.
    hierarchical : bool, default=True
        Algorithm 2': rounds with the variables found so far held at τ, until no more are found,
        which finds interactions whose variables have no effect of their own. False is
        Algorithm 1', one round.
    anchor : float, "auto" or Weights, default="auto"
        τ. "auto" is the reciprocal of the mean difference of two samples (or of its square).
        ``Weights(anchor, radius)`` also gives M, the bound on the sum of the weights that are
        free, by default 10.
    n_centers : int, "auto" or "all", default="auto"
        "all" computes with the kernel matrix of all samples; a number with its pivoted Cholesky
        factor of that rank. "auto" is "all" up to 3000 samples, and 256 beyond, where variables
        are selected on 100 000 samples at most; the prediction is fitted to all. A fit warns where
        the gradient through so few centres is off by more than a quarter.
    error_control : "fdr", Knockoffs or Stability, optional
        "fdr" keeps variables that outweigh copies of themselves (model-X knockoffs), so that of
        those selected a tenth at most is false, on average;
        ``Knockoffs(level=0.1, draws=2, copies="auto", sampler="ranks")`` says how many and
        how. Where `ridge` is "auto", λ is 0.01 in this.
        ``Stability(n_subsamples, max_false=1.0)`` keeps variables that are selected on enough
        halves of the samples, in complementary pairs, so that no more than `max_false` false ones
        are expected. What ends before the halves are compared has no bound, as a warning says.
    optimizer : ProjectedGradient, optional
        Steps in a working set, and the share of the objective that is worth another one; by
        default ``ProjectedGradient(max_iter=100, tol=1e-4)``.
    max_time : float or None, default=None
        Seconds. Variables are selected on as many samples as there is time for, and what was found
        by then is kept. So it is after Ctrl-C; where all variables, at τ, predict clearly better
        than those that the search had found by then, these are kept.
    random_state : int, RandomState or None, default=None
        Draws permutations, centres and splits, on the host.
    backend : {"auto", "numpy", "cupy", "torch"} or Backend, default="auto"
        Where to compute, as a `Backend` also in which precision distances are. "auto" follows X,
        and moves large NumPy data to a usable GPU. Systems and sums over samples are float64.
    scaling : {"auto", "standard", "robust", "quantile", None}, default="auto"
        How features are scaled first, each by itself: "standard" to zero mean and unit variance,
        where values far beyond all others have no part in this, see `scaling_`; "robust" by the
        median and the interquartile range, bounded smoothly by 3; "quantile" to normal scores of
        their ranks; None not at all. "auto" is "standard".
        γ and τ rely on it.
    verbose : int, default=0
        1 prints a line per iteration.
"""

_ATTRIBUTES = """
    Attributes
    ----------
    scores_ : array of shape (n_features,)
        The rate at which the objective falls when weight is given to a variable, at the start of
        the round where it entered, or of the last round for one that never did. A round with none
        above γ finds nothing. In one that finds some, scores fall as others take weight: one that
        was above γ at its start may be left out.
    scaling_ : ColumnScaling or None
        What features are scaled by: a function of rows, of host arrays. Of "standard" with `mean`
        and `scale`, which are subtracted and divided by, and `limits` (4, n_features): the lowest
        value that is taken as it is, the 1 % and the 99 % quantile, which take the place of values
        below and above, and the highest. Of "robust" with `median` and `factor`; of "quantile"
        with a table of `values` and their `scores`.
    levels_ : array of shape (n_features,)
        Round in which each selected variable entered, from 1; one more than there were rounds for
        those that no round found, as `error_control` may select; 0 for those not selected.
    rounds_ : list of dict
        Of every round, before `error_control`: "level", "sparsity" (γ), "entered" (indices),
        "scores" (theirs) and "highest_left" (the largest score among the others), where it began.
    beta_ : array of shape (n_features,)
        Weights of the selected variables in the last fit, relearned without the penalty or all
        equal, whichever predicts better; 0 for the others.
    feature_importances_ : array of shape (n_features,)
        Shares in the error that permuting a variable's values among some samples adds.
    components_ : array of shape (n_used, n_features)
        A row for each variable that the last fit uses, most important first: 1 there, 0 elsewhere.
    n_effective_features_ : int
        Number of selected variables.
    path_ : dict or None
        "sparsity" (k,), "beta" (k, n_features) and hold-out "score" (k,), for `sparsity="tune"`.
    selection_frequencies_, stability_threshold_ : array of shape (n_features,), float, or None
        Of stability selection: share of the halves that selected a variable, and what it took.
    e_values_, fdr_, knockoffs_ : array of shape (n_features,), float, dict, or None
        Of knockoffs: evidence for each variable, to be compared with p over the level and the
        number of variables selected; the lowest level at which the same variables would be
        selected, 0 of none; and "level", "draws", "copies", "shrinkage" of the correlations and
        "n_samples" that were used.
    sparsity_, ridge_, anchor_ : float
        γ of the last round, λ and τ as used.
    kernel_, centers_, dual_coef_, intercept_ : Kernel and arrays
        Kernel ridge regression on the selected variables, with a kernel (that of the selection or
        a Gaussian), lengthscale and ridge chosen by leave-one-out. `dual_coef_` is None where
        nothing was selected.
    bounds_ : array of shape (2, n_targets)
        Least and largest value that is predicted: the mean of a target, less and plus twice its
        largest deviation. With a small ridge functions may be wild just outside the data.
    tuning_ : list of dict
        Settings tried: "ridge", "sparsity", "n_selected", hold-out "score" of the f of the
        selection's objective and its "standard_error", "seconds", and which was "chosen".
    history_, n_iter_, status_ : History, int, str
        Objective of every step, their number, and how the selection ended.
"""

_NOTES = """
    Notes
    -----
    With the kernel matrix O(n³ + n² p) a step and O(n²) memory; with centres O(n m² + n m p) and
    O(n (m + p)), the columns sorted once. A constant column is never selected. Of two equal
    columns both are selected, with equal weights.

    References
    ----------
    .. [1] Ruan, Liu and Jordan, "Taming Nonconvexity in Kernel Feature Selection: Favorable
       Properties of the Laplace Kernel", Section 5.
"""


class KernelFeatureSelector(ArrayRegressor, SelectionBase):
    __doc__ = f"""Kernel feature selection, and kernel ridge regression on what was selected.
    {_PARAMETERS}{_ATTRIBUTES}{OF_EVERY_FIT}{_NOTES}
    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import KernelFeatureSelector
    >>> X = np.random.default_rng(0).standard_normal((300, 8))
    >>> y = X[:, 2] + X[:, 2] * X[:, 5]
    >>> selector = KernelFeatureSelector(random_state=0).fit(X, y)
    >>> selector.get_support(indices=True), selector.levels_
    (array([2, 5]), array([0, 0, 1, 0, 0, 2, 0, 0]))
    """


class KernelFeatureSelectorClassifier(OneHotClassifier, SelectionBase):
    __doc__ = f"""Kernel feature selection for classes, and least squares on what was selected.

    Any number of classes, any labels.
    {_PARAMETERS}{CLASS_WEIGHT}{_ATTRIBUTES}{OF_EVERY_FIT}
    classes_ : array of shape (n_classes,)
        Labels.
    calibration_ : Calibration
        What makes probabilities of scores, chosen by the held-out samples of the search; without
        one by a fifth of at most 5000 samples, and another selection on the others.
    {_NOTES}
    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import KernelFeatureSelectorClassifier
    >>> X = np.random.default_rng(0).standard_normal((300, 8))
    >>> y = np.where(np.abs(X[:, 3]) > 0.7, "far", "near")
    >>> selector = KernelFeatureSelectorClassifier(random_state=0).fit(X, y)
    >>> selector.get_support(indices=True)
    array([3])
    """
