"""Blends as scikit-learn estimators."""

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

_BLOCK = 50_000  # rows whose intervals are computed at once
_PARAMETERS = """
    Parameters
    ----------
    members : None, "kernels", or list, default=None
        Models of the blend. None tries all that suit the data. "kernels" does too, but only shows
        gradient-boosted trees and does not blend them. A list has names ("linear", "trees",
        "shallow_trees", "deep_trees", "manhattan_laplace", "agop", "agop_full", "scales_quantile",
        "scales_standard", "evidence_quantile", "evidence_levels", "logistic_levels",
        "logistic_robust", "evidence_robust", "loo_quantile", "matern52", "agop_quantile", "bkernn",
        "hkrr", "rkhs_weighting", "regfeal", "laplace", "evidence_matern52", "bkernn_robust",
        "hkrr_standard", "selection"), scikit-learn estimators, or pairs of a name and an estimator.
        All members of a list are fitted to the end, within `max_time`. With weights, an estimator
        whose `fit` takes no `sample_weight` is dropped, with a warning. Trees that are not blended
        are shown for comparison. Some members are tried only on some data: shallow trees on tables,
        "evidence_levels" on tables with categories of 9 to 32 levels, and "logistic" ones on at
        most three classes and 3000 rows. Deep trees are for regressions of many rows, and
        "agop_full" for regressions of few.
    effort : {"quick", "normal", "thorough"}, default="normal"
        How many members are tried, if `members` is not a list.
    n_folds : int or "auto", default="auto"
        Number of folds, the same for all members; 1 holds out a fifth of the rows once, at most
        20 000. "auto" is 8 below 200 rows, 5 below 20 000, and 1 beyond. With effort "quick" it is
        4 below 200 rows, 3 below 1000, and 2 below 20 000; with "thorough" 8 below 2000. If
        `max_time` is less than 5 ms a row, it is 1 from 2000 rows on. Below 2000 rows, it is 3 for
        less than 10 ms a row.
    refit : bool, "both" or "auto", default="auto"
        Whether each member is refitted to all rows. False uses the mean of the folds' models, True
        the new model, and "both" the mean of the new model and theirs. "auto" is "both" from 2000
        rows on, and from 200 rows on with fewer than ten folds. It is True if one part was held out
        that has more than a tenth of the rows. Both need time left. Two or three rows are always
        refitted.
    columns : dict of str: str, optional
        Kinds of columns of a frame, by name, that `Table.learn` does not detect.
    impute : {"median", "model"}, default="median"
        How missing numbers of a table are replaced: by medians, or by kernel ridge regression from
        the other columns, learned in each fold. Trees use the missing values themselves.
    metric : str, default="auto"
        The metric that weights the blend and leads the leaderboard. For a regression "r2", "rmse"
        or "mae"; for classes "log_loss", "roc_auc", "accuracy", "balanced_accuracy" or "brier". Or
        the name of a scikit-learn scorer, whose labels are 0, 1, ..., the second of two being
        positive. "auto" is the squared error of standardised targets, or the log loss. These always
        decide which members are dropped early, the temperature and the importances. A metric with
        plateaus is combined with a hundredth of these, each relative to the best constant
        prediction.
    max_time : float or None, default=None
        Time limit in seconds for the whole fit. Each member gets a share of the time left. With
        many rows, it is fitted to as many as fit into its share.
    random_state : int, RandomState or None, default=None
        Seed of the folds and the members.
    backend : {"auto", "numpy", "cupy", "torch"} or Backend, default="auto"
        Array library of the members of gpukfl. "auto" uses that of X, and moves large NumPy data to
        a usable GPU. Members of scikit-learn compute on the host.
    n_jobs : int or None, default=None
        Processes that fit members at the same time; None is 1, and -1 all cores. Results are the
        same to the last bit. Several are faster from a few hundred rows on. Beyond 20 000 rows, or
        on a GPU, one is used.
    verbose : int, default=0
        1 prints the score and time of each member.
"""

_TRANSFORM = """    target_transform : {"auto", "log", "rank", None}, default="auto"
        Transform of the targets that members are fitted to. "log" is their logarithm, after the
        smallest is subtracted; "rank" is the normal score of their rank. "auto" compares these if a
        target is skewed, by quick fits and their errors on held-out rows in the targets' units.
        Predictions are means, by the residuals of held-out rows (Duan's smearing). If `loss` is not
        "squared", "auto" is None.
"""

_ATTRIBUTES = """
    Attributes
    ----------
    members_ : list of Blended
        Name, weight and models of each member of the blend.
    out_of_fold_ : OutOfFold
        Held-out rows, with their predictions and targets.
    feature_importances_, feature_importances_error_ : arrays of shape (n_features,)
        Share of the loss that shuffling a column adds on held-out rows, and its standard error.
        Columns with a correlation of at least 0.9 are shuffled together, and share equally.
        Computed at first access, within `max_time`, or by `save`. Fewer rows, or Ctrl-C, make the
        errors larger.
    feature_groups_ : list of lists of int
        Columns that were shuffled together, by number.
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
        Whether members were skipped because time was short.
    predictor_ : Predictor
        The prediction function, as one frozen value of arrays.
    status_ : str
        How the fit ended.
    place_ : str
        Library and device of the members of gpukfl.
    target_transform_ : TargetTransform or None
        The transform of the targets.
    encodings_ : Encodings or None
        How columns of a frame are converted to numbers, if they are not numbers.
    floor_ : float
        Lower limit of the probabilities of a member of a classification.
    reach_ : array of shape (2, n_targets) or None
        Limits of the predictions of a member of a regression: a tenth beyond the range of the
        targets, in units of `target_transform_`.
    shift_ : array of shape (n_targets,) or None
        What a blend of a quantile adds to predictions: the quantile of out-of-fold residuals. Each
        fold of `out_of_fold_`, and so the blend's score, uses that of the other folds.
    whole_ : bool
        Whether the last model of each member was refitted to all rows. It counts as much as the
        models of the folds together. For Dask collections, members of other libraries are not
        refitted.
    seen_rows_ : SeenRows or None
        How rows of the fit are predicted when they come again. None if no row has copies in the
        fit, or if copies have hardly more in common than their predictions.
    temperature_ : float
        For a classification: the power 1 / `temperature_` of the blend's probabilities has the
        lowest log loss on held-out rows. 1 for a regression.
"""

_NOTES = """
    Notes
    -----
    All members are fitted on the same folds. Their settings are tuned within the first fold, and
    kept for the others. Weights are greedy, with replacement: the next member is the one that
    lowers the loss of the mean of out-of-fold predictions most [1]_. They are shrunk slightly
    towards equal weights. A member that you did not name is dropped if it is clearly behind after a
    fold, or after a fit to few of many rows, and no weight of it would help. It is skipped if the
    blend is already as good as it can be.

    Folds follow `groups`, `time` or `cv` of `fit`; given splits replace `n_folds`. If some rows are
    never held out, such as the earliest ones, "auto" of `refit` refits each member to all rows.
    Rows that come again are then predicted like new ones.

    Copies of a row are held out together: scores, weights and intervals are for new rows. If a row
    of the fit comes again, its prediction moves towards the mean of its targets. How far depends on
    the share that residuals of copies have in common, and on their number [2]_. Intervals are
    narrower there. Without copies in the fit, nothing moves.

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
        Residuals of held-out rows and their spread, for intervals and quantiles.
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
        encodings, n_folds = self.encodings_, self.out_of_fold_.n_folds
        n_columns = self.n_features_in_ if encodings is None else len(encodings.blind.names)
        yield "residuals of its folds", self.uncertainty_.is_sound(n_columns, n_folds)

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

    def _set_uncertainty(self, rng: np.random.RandomState, max_time: float | None, /) -> None:
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
        r"""Return intervals that cover the target with a probability of about `coverage`.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.
        coverage : float, default=0.9
            Probability that an interval covers its target, in (0, 1).

        Returns
        -------
        array of shape (n_samples, 2) or (n_samples, n_targets, 2)
            Lower and upper ends, of the library, device and dtype of X.

        Raises
        ------
        ValueError
            If `coverage` is outside (0, 1), or too high for the number of held-out rows; the
            message has the number needed. If the data are not as in the fit.

        Notes
        -----
        Intervals lie around the predictions. They are CV+ intervals [1]_ with the mean of the
        folds' models instead of each, which makes them wider where these differ. Residuals are
        divided by a local spread, so that intervals are wider where the data are noisier. In
        practice, `coverage` or a little more of new rows are covered. The bound of CV+,
        ``2 * coverage - 1`` for any models, holds as far as the folds' models agree. For
        exchangeable rows, ``n_folds=1`` and a spread of 1 it is `coverage`. Costs O(n K log m) for
        m held-out rows, and the predictions of all K folds.

        References
        ----------
        .. [1] Barber, Candès, Ramdas and Tibshirani, "Predictive inference with the jackknife+",
           Annals of Statistics 49, 2021, eq. (12).
        """

        def ends(rows: np.ndarray, blends: np.ndarray) -> np.ndarray:
            return self.uncertainty_.interval(rows, blends, coverage=coverage)

        return self._compute_by_blocks(X, ends, "predict_interval")

    @run_on_data_device
    def predict_quantiles(self, X: Any, levels: Sequence[float] = (0.05, 0.5, 0.95)) -> Array:
        """Return quantiles of the target.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.
        levels : sequence of float (q,), default=(0.05, 0.5, 0.95)
            Levels, each in (0, 1).

        Returns
        -------
        array of shape (n_samples, q) or (n_samples, n_targets, q)
            In the order of the levels, with the library, device and dtype of X.

        Raises
        ------
        TypeError, ValueError
            If `levels` is not a sequence of numbers in (0, 1), or one is too extreme for the number
            of held-out rows; the message has the number needed. If the data are not as in the fit.

        Notes
        -----
        Quantiles of the cross-conformal predictive distribution: see `Residuals.quantiles`. The
        middle one is a median. For skewed targets it differs from `predict`.
        """

        def quantiles(rows: np.ndarray, blends: np.ndarray) -> np.ndarray:
            return self.uncertainty_.quantiles(rows, blends, levels=levels)

        return self._compute_by_blocks(X, quantiles, "predict_quantiles")

    def _compute_by_blocks(
        self, X: Any, compute: Callable[[np.ndarray, np.ndarray], np.ndarray], method: str
    ) -> Array:
        """Compute values at rows in blocks on the host; return them on the device of X."""
        X = self._new_rows(X, method)
        n, found = X.shape[0], []
        if self.predictor_.monotone is not None:
            values = self._compute_monotone(X, compute)
        else:
            for start in range(0, n, _BLOCK):
                rows = X[start : min(start + _BLOCK, n), :]
                host = to_host(self._finite(rows)).astype(np.float64)
                blends, seen = self._fold_blends(rows), self.seen_rows_
                ends = compute(host, blends)
                found.append(ends if seen is None else seen.narrow(rows, ends, blends.mean(axis=0)))
            values = np.concatenate(found)
        loss = read_loss(self)
        if loss is not None:  # values of counts and amounts are at least 0
            values = np.maximum(values, loss.lowest)
        with np.errstate(over="ignore"):  # checked below
            flat = asarray_like(values.reshape(n, -1), X)
        check_finite_prediction(flat, method.removeprefix("predict_"), X.dtype)
        shape = (n, *values.shape[2:]) if self._one_target else values.shape
        return array_namespace(X).reshape(flat, shape)

    def _compute_monotone(
        self, X: Array, compute: Callable[[np.ndarray, np.ndarray], np.ndarray], /
    ) -> np.ndarray:
        """Compute monotone values (n, t, k) at rows from the monotone blends of the folds.

        Blends and values are projected at the same knots.
        """

        def compute_at_knots(rows: Array, at_knots: AtKnots) -> Array:
            host = to_host(self._finite(rows)).astype(np.float64)
            blends = np.stack([at_knots(one) for one in self._fold_blends(rows)])
            return compute(host, blends)

        return to_host(self.predictor_.project_at_knots(compute_at_knots, X))


class AutoClassifier(LabelClassifier, AutoBase):
    __doc__ = f"""Blend of all methods for a classification: kernels, a linear model, trees.

    Any number of classes, any labels. Probabilities are averaged as log odds, with weights for a
    low log loss, and calibrated by one temperature on out-of-fold predictions.
    {_PARAMETERS}{MONOTONE}{CLASS_WEIGHT}{_ATTRIBUTES}
    classes_ : array of shape (n_classes,)
        Labels.
    class_scores_ : ClassScores
        How unlikely the true classes of held-out rows were, for `predict_set`.
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
        """Return the classes' probabilities.

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
        """Return the logarithms of the classes' probabilities.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Finite, at most 0.
        """
        proba = predict_finite(self, X, "predict_log_proba")
        return array_namespace(proba).log(proba)

    def _set_uncertainty(self, rng: np.random.RandomState, max_time: float | None, /) -> None:  # noqa: ARG002
        kept = self.out_of_fold_
        codes = np.argmax(kept.truth, axis=1)
        self.class_scores_ = ClassScores.from_probabilities(kept.predicted, codes, kept.weights)

    @run_on_data_device
    def predict_set(self, X: Any, coverage: float = 0.9) -> Array:
        """Return sets of classes that contain the true one with a probability of about `coverage`.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.
        coverage : float, default=0.9
            Probability that a set contains the true class, in (0, 1).

        Returns
        -------
        bool array of shape (n_samples, n_classes)
            Whether the set contains each of `classes_`, with the library and device of X. No set is
            empty.

        Raises
        ------
        ValueError
            If `coverage` is outside (0, 1), or too high for the number of held-out rows; the
            message has the number needed. If the data are not as in the fit.

        Notes
        -----
        Adaptive sets [1]_ by the probabilities of held-out rows: larger where rows are harder. They
        are not random, see `ClassScores`. If the accuracy is above `coverage`, sets have one class,
        and cover more.

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
            Labels, in X's library if they are numbers that it supports, else NumPy.
        """
        proba = predict_finite(self, X, "predict")
        return self._decode_labels(array_namespace(proba).argmax(proba, axis=1))
