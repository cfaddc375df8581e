"""Portfolios as scikit-learn estimators."""

from __future__ import annotations

from typing import Any

from gpukfl._array import Array, array_namespace
from gpukfl._places import Backend
from gpukfl.estimators._base import ArrayRegressor, finite_prediction
from gpukfl.estimators._classifier import CLASS_WEIGHT, LabelClassifier
from gpukfl.portfolio._base import AutoBase

_PARAMETERS = """
    Parameters
    ----------
    members : None, "kernels", or list, default=None
        What takes part: None is everything that suits the size of the data, "kernels" the same
        with gradient-boosted trees only shown and not blended, and a list has names ("linear",
        "trees", "manhattan_laplace", "agop", "evidence_matern32", "laplace", "matern52",
        "agop_quantile", "evidence_matern52", "evidence_quantile", "bkernn", "hkrr",
        "rkhs_weighting", "regfeal", "bkernn_standard", "hkrr_standard", "selection"), scikit-learn
        estimators, or pairs of a name and an estimator. Trees that are not asked for are shown
        beside the others.
    effort : {"quick", "normal", "thorough"}, default="normal"
        How many members are tried, where they are not given.
    n_folds : int or "auto", default="auto"
        Folds that all members share; 1 holds out a fifth of the samples once, at most 20 000.
        "auto" is 8 below 2000 samples, 5 below 20 000, and 1 beyond; at most 5 where it is quick.
    refit : bool, default=False
        Fit one model a member to all samples, in place of the mean of the folds' models.
    max_time : float or None, default=None
        Seconds for everything. Each member has its share of what is left; of many rows it is fitted
        to as many as that is enough for.
    random_state : int, RandomState or None, default=None
        Draws folds, and what members draw.
    backend : {"auto", "numpy", "cupy", "torch"} or Backend, default="auto"
        Where our members compute. "auto" follows X, and moves large NumPy data to a usable GPU.
        Members of scikit-learn compute on the host.
    verbose : int, default=0
        Say what each member came to.
"""

_TRANSFORM = """    target_transform : {"auto", "log", "rank", None}, default="auto"
        What members are fitted to: logarithms of the targets, less the smallest one, normal scores
        of their ranks, or the targets themselves. "auto" tries these where a target is skewed, by
        a quick fit and its error on held-out samples in the targets' own units. What is predicted
        is the mean, by the residuals of samples that were held out (Duan's smearing).
"""

_ATTRIBUTES = """
    Attributes
    ----------
    members_ : list of Blended
        The blend: name, weight and models of each member in it.
    out_of_fold_ : OutOfFold
        Samples, and predictions of them by models that have not seen them, with the truth.
    feature_importances_ : array of shape (n_features,)
        Share of the loss that shuffling a feature adds, on samples that models have not seen;
        features that are correlated by 0.9 or more are shuffled together, and share equally.
    feature_groups_ : list of lists of int
        Features that were shuffled together.
    intercept_ : array of shape (n_targets,)
        Mean of the targets.
    tuning_ : list of dict
        The leaderboard as plain values.
    tuning_seconds_ : float
        That the members took.
    tuning_cut_short_ : bool
        Whether members were left out for want of time.
    status_ : str
        How the fit ended.
    place_ : str
        Library and device that our members computed on.
    target_transform_ : TargetTransform or None
        As used.
    floor_ : float
        Lowest probability that a member of a classification is believed.
"""

_NOTES = """
    Notes
    -----
    Every member is fitted on the same folds. What is to be chosen of it is chosen within the first
    one, and kept for the others. Weights are greedy: with replacement, the member next that lowers
    the loss of the mean of out-of-fold predictions most [1]_. A member is left where it is clearly
    behind the best after a fold and no share of it would help.

    References
    ----------
    .. [1] Caruana, Niculescu-Mizil, Crew and Ksikes, "Ensemble selection from libraries of
       models", ICML 2004.
"""


class AutoRegressor(ArrayRegressor, AutoBase):
    __doc__ = f"""Blend of all methods for a regression: kernels, a linear model, trees.
    {_PARAMETERS}{_TRANSFORM}{_ATTRIBUTES}{_NOTES}
    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import AutoRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    >>> model = AutoRegressor(effort="quick", random_state=0).fit(X, X[:, 0] ** 2)
    >>> bool(model.score(X, X[:, 0] ** 2) > 0.9)
    True
    """

    def __init__(
        self,
        members: Any = None,
        *,
        effort: str = "normal",
        n_folds: int | str = "auto",
        refit: bool = False,
        target_transform: str | None = "auto",
        max_time: float | None = None,
        random_state: Any = None,
        backend: str | Backend = "auto",
        verbose: int = 0,
    ) -> None:
        super().__init__(
            members,
            effort=effort,
            n_folds=n_folds,
            refit=refit,
            max_time=max_time,
            random_state=random_state,
            backend=backend,
            verbose=verbose,
        )
        self.target_transform = target_transform


class AutoClassifier(LabelClassifier, AutoBase):
    __doc__ = f"""Blend of all methods for a classification: kernels, a linear model, trees.

    Any number of classes, any labels. Probabilities are blended, to a low log loss.
    {_PARAMETERS}{CLASS_WEIGHT}{_ATTRIBUTES}
    classes_ : array of shape (n_classes,)
        Labels.
    {_NOTES}
    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpukfl import AutoClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AutoClassifier(effort="quick", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def predict_proba(self, X: Any) -> Array:
        """Estimate the classes' probabilities.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Rows sum to 1. The largest is that of the predicted class.
        """
        return finite_prediction(self, X, "predict_proba")

    def predict_log_proba(self, X: Any) -> Array:
        """Estimate the logarithms of the classes' probabilities.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array of shape (n_samples, n_classes)
            At most 0; finite.
        """
        proba = finite_prediction(self, X, "predict_log_proba")
        return array_namespace(proba).log(proba)

    def predict(self, X: Any) -> Array:
        """Predict the labels.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array of shape (n_samples,)
            Labels; of X's library where they are numbers it can hold, else NumPy.
        """
        proba = finite_prediction(self, X, "predict")
        return self._labels_of(array_namespace(proba).argmax(proba, axis=1))
