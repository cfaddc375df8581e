"""Portfolios as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gpukfl.core._array import Array, array_namespace, asarray_like, get_device, to_host
from gpukfl.core._places import Backend
from gpukfl.estimators._base import ArrayRegressor, predict_finite
from gpukfl.estimators._classifier import CLASS_WEIGHT, LabelClassifier
from gpukfl.estimators._dask import run_on_data_device
from gpukfl.estimators._reweighting import LOSS, read_loss
from gpukfl.losses import Loss
from gpukfl.portfolio._base import AutoBase
from gpukfl.portfolio._sets import ClassScores
from gpukfl.portfolio._uncertainty import Uncertainty
from gpukfl.predictor import AtKnots, check_finite_prediction
from gpukfl.tables._monotone import MONOTONE

_BLOCK = 50_000  # rows for which intervals are made at once
_PARAMETERS = """
    Parameters
    ----------
    members : None, "kernels", or list, default=None
        What takes part: None is everything that suits the size of the data, "kernels" the same with
        gradient-boosted trees only shown and not blended, and a list has names ("linear", "trees",
        "shallow_trees", "deep_trees", "manhattan_laplace", "agop", "agop_full", "scales_quantile",
        "scales_standard", "evidence_quantile", "evidence_levels", "logistic_levels",
        "logistic_robust", "evidence_robust", "loo_quantile", "matern52", "agop_quantile", "bkernn",
        "hkrr", "rkhs_weighting", "regfeal", "laplace", "evidence_matern52", "bkernn_robust",
        "hkrr_standard", "selection"), scikit-learn estimators, or pairs of a name and an estimator,
        each of which is tried to the end, as far as `max_time` is enough. An estimator whose `fit`
        takes no `sample_weight` is left out, with a warning, where weights are given, whatever
        these are. Trees that are not asked for are shown beside the others; shallow ones are tried
        of tables, "evidence_levels" of tables with categories of 9 to 32 levels, those by log odds
        of at most three classes and 3000 samples, deep ones of regressions of many samples,
        "agop_full" of regressions of few.
    effort : {"quick", "normal", "thorough"}, default="normal"
        How many members are tried, where they are not given.
    n_folds : int or "auto", default="auto"
        Folds that all members share; 1 holds out a fifth of the samples once, at most 20 000.
        "auto" is 8 below 200 samples, 5 below 20 000, and 1 beyond; where it is quick 4 below 200,
        3 below 1000, and 2 below 20 000; where it is thorough 8 below 2000; where `max_time` is
        less than 5 ms a sample 1 from 2000 samples on, or less than 10 ms 3 below.
    refit : bool, "both" or "auto", default="auto"
        Fit one model a member to all samples, in place of the mean of the folds' models; "both" is
        the mean of that model and of theirs. "auto" is "both" for folds of 2000 samples and more,
        for less than ten folds of 200, and True where one part was held out that has more than
        a tenth of the samples, if time is left. Two and three samples are fitted so in any case.
    columns : dict of str: str, optional
        What columns of a frame are to be taken for, by name, where `Table.learn` shall not guess.
    impute : {"median", "model"}, default="median"
        What stands for missing numbers of a table: medians, or what kernel ridge regression tells
        from the other columns, learned in each fold; trees see the gaps themselves.
    metric : str, default="auto"
        What weighs the blend and heads the leaderboard: "r2", "rmse" or "mae" of a regression;
        "log_loss", "roc_auc", "accuracy", "balanced_accuracy" or "brier" of classes; or the name of
        a scorer of scikit-learn, of which labels are 0, 1, ... and the second of two the positive
        one. "auto" is the squared error of targets in units of their deviations, or the log loss.
        Which members are left early, the temperature and importances go by these in any case. A
        metric with plateaus is joined by a hundredth of them, each in units of what it is for the
        best constant predictions.
    max_time : float or None, default=None
        Seconds for everything. Each member has its share of what is left; of many rows it is fitted
        to as many as that is enough for.
    random_state : int, RandomState or None, default=None
        Draws folds, and what members draw.
    backend : {"auto", "numpy", "cupy", "torch"} or Backend, default="auto"
        Where our members compute. "auto" follows X, and moves large NumPy data to a usable GPU.
        Members of scikit-learn compute on the host.
    n_jobs : int or None, default=None
        Processes that fit members to folds, and to all samples, at the same time: None is 1, -1 all
        cores. Results are the same to the last bit. More than one are of use from some hundred
        samples on; beyond 20 000, or on a GPU, there is one.
    verbose : int, default=0
        Say what each member came to.
"""

_TRANSFORM = """    target_transform : {"auto", "log", "rank", None}, default="auto"
        What members are fitted to: logarithms of the targets, less the smallest one, normal scores
        of their ranks, or the targets themselves. "auto" tries these where a target is skewed, by
        a quick fit and its error on held-out samples in the targets' own units. What is predicted
        is the mean, by the residuals of samples that were held out (Duan's smearing). With another
        `loss` than "squared" "auto" is None.
"""

_ATTRIBUTES = """
    Attributes
    ----------
    members_ : list of Blended
        The blend: name, weight and models of each member in it.
    out_of_fold_ : OutOfFold
        Samples, and predictions of them by models that have not seen them, with the truth.
    feature_importances_, feature_importances_error_ : arrays of shape (n_features,)
        Share of the loss that shuffling a feature adds, on samples that models have not seen, with
        the standard error of these samples; features that are correlated by 0.9 or more are
        shuffled together, and share equally. Computed at their first look, which takes at most
        `max_time`: fewer samples, or Ctrl-C, make the errors larger. `save` computes them too.
    feature_groups_ : list of lists of int
        Features that were shuffled together.
    intercept_ : array of shape (n_targets,)
        Mean of the targets.
    tuning_ : list of dict
        The leaderboard as plain values.
    metric_scores_ : list of dict
        The metric of every member and its standard error, where `metric` was given.
    model_names_ : dict
        What members are whose names the user chose, by their names; absent without any.
    tuning_seconds_ : float
        That the members took.
    fit_times_ : list of dict
        Where the time of the fit went: see `fit_times`.
    tuning_cut_short_ : bool
        Whether members were left out for want of time.
    predictor_ : Predictor
        What predicts, as one frozen value of arrays.
    status_ : str
        How the fit ended.
    place_ : str
        Library and device that our members computed on.
    target_transform_ : TargetTransform or None
        As used.
    encodings_ : Encodings or None
        How columns of a frame become numbers, where they are not numbers already.
    floor_ : float
        Lowest probability that a member of a classification is believed.
    reach_ : array of shape (2, n_targets) or None
        Lowest and highest prediction that a member of a regression is believed: a tenth beyond
        what was seen, in units of `target_transform_`.
    shift_ : array of shape (n_targets,) or None
        What a blend of a quantile adds to predictions: the quantile of out-of-fold residuals. Each
        fold of `out_of_fold_`, and so of the blend's scores, has that of the other folds.
    whole_ : bool
        Whether the last model of each member was fitted to all samples (of Dask collections those
        of other libraries were not); beside models of the folds it counts as much as these
        together.
    seen_rows_ : SeenRows or None
        What is predicted where rows of the fit come again; None where no row has copies in the fit,
        or copies have hardly more in common than what new rows are predicted to be.
    temperature_ : float
        Of a classification the power 1 / `temperature_` of the blend's probabilities has the lowest
        log loss on samples that models have not seen; 1 of a regression.
"""

_NOTES = """
    Notes
    -----
    Every member is fitted on the same folds. What is to be chosen of it is chosen within the first
    one, and kept for the others. Weights are greedy: with replacement, the member next that lowers
    the loss of the mean of out-of-fold predictions most [1]_; drawn a little to equal ones. A
    member that was not named is left where it is clearly behind the best after a fold, or of very
    many samples after a fit to few, and no share of it would help; and not begun where those before
    leave nothing to explain.

    With `groups`, `time` or `cv` of `fit` folds keep to these; splits that are given take the place
    of `n_folds`. Where some rows are never held out, as the first ones of all times, "auto" of
    `refit` fits one model a member to all samples in the end, and rows that come again are
    predicted like new ones.

    Copies of a row are held out together: scores, weights and intervals are those of new rows.
    Where a row of the fit comes again, its prediction moves from what models say that have not seen
    it to its targets' mean, by the share that residuals of copies have in common, shrunk by their
    number [2]_; intervals are narrower there. Nothing moves without copies in the fit.

    References
    ----------
    .. [1] Caruana, Niculescu-Mizil, Crew and Ksikes, "Ensemble selection from libraries of
       models", ICML 2004.
    .. [2] Searle, Casella and McCulloch, "Variance Components", 1992, Sections 3.4 and 7.2.
"""


class AutoRegressor(ArrayRegressor, AutoBase):
    __doc__ = f"""Blend of all methods for a regression: kernels, a linear model, trees.
    {_PARAMETERS}{MONOTONE}{_TRANSFORM}{LOSS}{_ATTRIBUTES}
    uncertainty_ : Uncertainty
        Residuals of samples that models have not seen, and their spread: what intervals and
        quantiles are made of.
    {_NOTES}
    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import AutoRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    >>> model = AutoRegressor(effort="quick", random_state=0).fit(X, X[:, 0] ** 2)
    >>> bool(model.score(X, X[:, 0] ** 2) > 0.9)
    True
    >>> model.predict_interval(X, coverage=0.8).shape
    (100, 2)
    """

    uncertainty_: Uncertainty

    def _rules(self) -> Iterator[tuple[str, bool]]:
        yield from super()._rules()
        sizes = self._n_spread_columns, self.out_of_fold_.n_folds
        yield "residuals of its folds", self.uncertainty_.is_sound(*sizes)

    def __init__(
        self,
        members: Any = None,
        *,
        effort: str = "normal",
        n_folds: int | str = "auto",
        refit: bool | str = "auto",
        columns: Mapping[str, str] | None = None,
        impute: str = "median",
        metric: str = "auto",
        target_transform: str | None = "auto",
        loss: str | Loss = "squared",
        max_time: float | None = None,
        random_state: Any = None,
        backend: str | Backend = "auto",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            members,
            effort=effort,
            n_folds=n_folds,
            refit=refit,
            columns=columns,
            impute=impute,
            metric=metric,
            max_time=max_time,
            random_state=random_state,
            backend=backend,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.target_transform = target_transform
        self.loss = loss

    fit = AutoBase.fit

    def _keep_uncertainty(self, rng: np.random.RandomState, max_time: float | None, /) -> None:
        kept = self.out_of_fold_
        X = to_host(self._finite(kept.rows)).astype(np.float64)
        self.uncertainty_ = Uncertainty.fit(
            *(X, kept.truth, kept.predicted, kept.fold, kept.weights),
            rng=rng,
            max_time=max_time,
            together=kept.groups,
        )

    @run_on_data_device
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:
        r"""Return intervals that hold the target with a probability of about `coverage`.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.
        coverage : float, default=0.9
            Share of intervals that shall hold their target, in (0, 1).

        Returns
        -------
        array of shape (n_samples, 2) or (n_samples, n_targets, 2)
            Lower and upper ends, of the library, device and dtype of X.

        Raises
        ------
        ValueError
            If `coverage` is outside (0, 1), or there are too few samples for it: says how many are
            needed. If the data are not as in the fit.

        Notes
        -----
        About what `predict` says: CV+ intervals [1]_ with the mean of the folds' models in place of
        each, which are wider by how much these differ. Residuals are divided by a spread that
        follows the samples: wide where the data are rough. In practice `coverage` or a little more
        of new samples are covered. The bound of CV+, ``2 * coverage - 1`` whatever the models are,
        holds as far as the folds' models agree; with ``n_folds=1`` and for samples that are
        exchangeable it is `coverage`, for a spread of 1. O(n K log m) for m samples held out,
        beside the predictions of all K folds.

        References
        ----------
        .. [1] Barber, Candès, Ramdas and Tibshirani, "Predictive inference with the jackknife+",
           Annals of Statistics 49, 2021, eq. (12).
        """

        def ends(rows: np.ndarray, blends: np.ndarray) -> np.ndarray:
            return self.uncertainty_.interval(rows, blends, coverage=coverage)

        return self._ask_by_rows(X, ends, "predict_interval")

    @run_on_data_device
    def predict_quantiles(self, X: Any, levels: Sequence[float] = (0.05, 0.5, 0.95)) -> Array:
        """Estimate quantiles of the target.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.
        levels : sequence of float (q,), default=(0.05, 0.5, 0.95)
            In (0, 1).

        Returns
        -------
        array of shape (n_samples, q) or (n_samples, n_targets, q)
            Ascending where the levels are; of the library, device and dtype of X.

        Raises
        ------
        TypeError, ValueError
            If `levels` is not a sequence of numbers in (0, 1), or there are too few samples for one
            of them: says how many are needed. If the data are not as in the fit.

        Notes
        -----
        Of the cross-conformal predictive distribution, see `Residuals.quantiles`. The middle one
        is a median, which of skewed targets is not what `predict` says.
        """

        def quantiles(rows: np.ndarray, blends: np.ndarray) -> np.ndarray:
            return self.uncertainty_.quantiles(rows, blends, levels=levels)

        return self._ask_by_rows(X, quantiles, "predict_quantiles")

    @property
    def _n_spread_columns(self) -> int:
        known = self.encodings_
        return self.n_features_in_ if known is None else len(known.blind.names)

    def _ask_by_rows(
        self, X: Any, ask: Callable[[np.ndarray, np.ndarray], np.ndarray], method: str
    ) -> Array:
        """Compute values at rows by blocks on the host, and place them beside X."""
        X = self._new_rows(X, method)
        n, found = X.shape[0], []
        if self.predictor_.monotone is not None:
            values = self._ask_monotone(X, ask)
        else:
            for start in range(0, n, _BLOCK):
                rows = X[start : min(start + _BLOCK, n), :]
                host = to_host(self._finite(rows)).astype(np.float64)
                blends, seen = self._fold_blends(rows), self.seen_rows_
                ends = ask(host, blends)
                found.append(ends if seen is None else seen.narrow(rows, ends, blends.mean(axis=0)))
            values = np.concatenate(found)
        loss = read_loss(self)
        if loss is not None:  # counts and amounts are at least 0, and so are the ends
            values = np.maximum(values, loss.lowest)
        with np.errstate(over="ignore"):  # reported just below
            flat = asarray_like(values.reshape(n, -1), X)
        check_finite_prediction(flat, method.removeprefix("predict_"), X.dtype)
        shape = (n, *values.shape[2:]) if self._one_target else values.shape
        return array_namespace(X).reshape(flat, shape)

    def _ask_monotone(
        self, X: Array, ask: Callable[[np.ndarray, np.ndarray], np.ndarray], /
    ) -> np.ndarray:
        """Compute monotone values (n, t, k) at rows, about the monotone blends of the folds.

        Both are projected at the same knots, so that what is asked about the blends is asked there.
        """

        def ask_at_knots(rows: Array, at_knots: AtKnots) -> Array:
            host = to_host(self._finite(rows)).astype(np.float64)
            blends = np.stack([at_knots(one) for one in self._fold_blends(rows)])
            return ask(host, blends)

        return to_host(self.predictor_.project_at_knots(ask_at_knots, X))


class AutoClassifier(LabelClassifier, AutoBase):
    __doc__ = f"""Blend of all methods for a classification: kernels, a linear model, trees.

    Any number of classes, any labels. Probabilities are joined by their log-odds, to a low log
    loss, and calibrated by one temperature, on out-of-fold predictions.
    {_PARAMETERS}{MONOTONE}{CLASS_WEIGHT}{_ATTRIBUTES}
    classes_ : array of shape (n_classes,)
        Labels.
    class_scores_ : ClassScores
        How unlikely the true classes were on samples that models have not seen: what sets are
        made of.
    {_NOTES}
    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpukfl import AutoClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AutoClassifier(effort="quick", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> model.predict_set(X).shape
    (150, 3)
    """

    class_scores_: ClassScores

    def _rules(self) -> Iterator[tuple[str, bool]]:
        yield from super()._rules()
        yield "scores of classes", self.class_scores_.is_sound
        yield "a positive temperature", self.temperature_ > 0

    fit = AutoBase.fit

    @run_on_data_device
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
        return predict_finite(self, X, "predict_proba")

    @run_on_data_device
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
        proba = predict_finite(self, X, "predict_log_proba")
        return array_namespace(proba).log(proba)

    def _keep_uncertainty(self, rng: np.random.RandomState, max_time: float | None, /) -> None:  # noqa: ARG002
        kept = self.out_of_fold_
        codes = np.argmax(kept.truth, axis=1)
        self.class_scores_ = ClassScores.from_probabilities(kept.predicted, codes, kept.weights)

    @run_on_data_device
    def predict_set(self, X: Any, coverage: float = 0.9) -> Array:
        """Return the classes that hold the true one with a probability of about `coverage`.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.
        coverage : float, default=0.9
            Share of sets that shall hold the true class, in (0, 1).

        Returns
        -------
        bool array of shape (n_samples, n_classes)
            Whether each of `classes_` is in; of the library and device of X. No set is empty.

        Raises
        ------
        ValueError
            If `coverage` is outside (0, 1), or there are too few samples for it: says how many are
            needed. If the data are not as in the fit.

        Notes
        -----
        Adaptive sets [1]_, larger where samples are harder, by probabilities of samples that were
        held out. Nothing is drawn, see `ClassScores`. Where more samples are classified correctly
        than `coverage` asks for, sets have one class, and cover as many.

        References
        ----------
        .. [1] Romano, Sesia and Candès, "Classification with valid and adaptive coverage",
           NeurIPS 2020, eq. (7).
        """
        proba = predict_finite(self, X, "predict_set")
        sets = self.class_scores_.sets(to_host(proba), coverage=coverage)
        return array_namespace(proba).asarray(sets, device=get_device(proba))

    @run_on_data_device
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
        proba = predict_finite(self, X, "predict")
        return self._decode_labels(array_namespace(proba).argmax(proba, axis=1))
