"""The function `gpukfl.fit`."""

from __future__ import annotations

import time as clock
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpukfl.core._warnings import keep_warnings

# Imports are inside functions: they take seconds, which count in `max_time`
if TYPE_CHECKING:
    from gpukfl._model import Model
    from gpukfl._multilabel import Indicators
    from gpukfl.core._places import Backend
    from gpukfl.losses import Loss
    from gpukfl.penalties import Penalty
    from gpukfl.tables._reader import EncodedRows
    from gpukfl.tables._training import Dataset

_DEFAULTS: dict[str, Any] = {
    "effort": "normal",
    "n_folds": "auto",
    "refit": "auto",
    "target_transform": "auto",
    "metric": "auto",
    "monotone": None,
    "loss": "squared",
}


@keep_warnings
def fit(
    X: Any,
    y: Any,
    *,
    method: str = "auto",
    effort: str = "normal",
    members: Any = None,
    n_folds: int | str = "auto",
    refit: bool | str = "auto",
    class_weight: Any = None,
    target_transform: str | None = "auto",
    loss: str | Loss = "squared",
    backend: str | Backend = "auto",
    task: str = "auto",
    scaling: str | Sequence[str] | None = "auto",
    ridge: float | str = "tune",
    penalty: str | Penalty | None = None,
    max_time: float | None = None,
    random_state: int | None = 0,
    sample_weight: Any = None,
    groups: Any = None,
    time: Any = None,
    gap: Any = None,
    cv: Any = None,
    validation: Any = None,
    metric: str = "auto",
    columns: Mapping[str, str] | None = None,
    impute: str = "median",
    monotone: Any = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Model:
    """Fit a blend of models to a table, or one method, and return a `Model`.

    Parameters
    ----------
    X : array or frame of shape (n_samples, n_features)
        Real data: NumPy, CuPy, torch, a NumPy memory map, or a frame of pandas, polars or pyarrow.
        Columns may be numbers, categories, booleans, dates, durations or text, with missing values:
        see `gpukfl.tables`. Columns of arrays and of lists of rows are called x0, x1, ...
    y : str, or array, series or frame of shape (n_samples,) or (n_samples, n_targets)
        Numbers, or labels: text, categories, booleans or integers. Or the name of the target column
        of X, or a list of several. Rows without a target are dropped, with a warning. Ordered
        categories of pandas keep their order in `classes_`. With ``task="classification"``, columns
        of 0 and 1, or booleans, are several labels a row: a row may have any number of them.
    method : {"auto", "bkernn", "hkrr", "selection", "rkhs_weighting", "regfeal"}, default="auto"
        "auto" fits a blend of all methods that suit the data, of a linear model and of boosted
        trees (`AutoRegressor`, `AutoClassifier`). "bkernn" is a Brownian kernel neural network,
        "hkrr" hyper-kernel ridge regression, "selection" kernel feature selection,
        "rkhs_weighting" an RKHS weighting of simple predictors, and "regfeal" regularised feature
        learning with Hermite polynomials.
    effort : {"quick", "normal", "thorough"}, default="normal"
        For a blend: how many models it tries.
    members : None, "kernels", or list, default=None
        For a blend: the models that it tries. None is all that suit the data, and "kernels" leaves
        out trees. A list has names of `AutoRegressor`, such as "trees" or "bkernn", scikit-learn
        estimators, or pairs of a name and an estimator.
    n_folds : int or "auto", default="auto"
        For a blend: number of folds of the cross-validation; 1 holds out one part.
    refit : bool, "both" or "auto", default="auto"
        For a blend: whether its models are fitted to all rows at the end, instead of those of the
        folds (True) or in addition to them ("both").
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply `sample_weight`.
    target_transform : {"auto", "log", "rank", None}, default="auto"
        For a blend that predicts numbers: the scale on which models are fitted. "auto" tries
        logarithms and ranks where the target is skewed.
    loss : str or Loss, default="squared"
        For a regression: the loss, which determines what is predicted. "squared" predicts the mean,
        "absolute" the median, "quantile:0.9" a quantile, and "huber" a mean that is robust to
        outliers. "poisson" (counts), "gamma" (positive amounts) and "tweedie:1.5" (amounts with
        many zeros) predict the mean on a log scale. It may be a value of `gpukfl.losses`. The loss
        also weights a blend. Losses other than "squared" take several times as long.
    backend : {"auto", "numpy", "cupy", "torch"} or Backend, default="auto"
        Where to compute; a `Backend` also sets the precision. "auto" follows X, and moves large
        NumPy data to a usable GPU.
    task : {"auto", "regression", "classification"}, default="auto"
        "auto" is a classification for text, categories, booleans, integers of two values, and
        integers 0, 1, ..., k - 1 of up to ten frequent values. All other numbers are a regression,
        with a warning if integers of few values may be classes. Dates are an error, and so is text
        that makes no classes. A `loss` other than "squared" is a regression. `Model.summary` shows
        the task.
    scaling : {"auto", "standard", "robust", "quantile", None}, default="auto"
        How columns are scaled first. "standard" gives zero mean and unit variance. "robust" uses
        median and interquartile range, and bounds values. "quantile" uses normal scores of ranks.
        None does nothing. "auto" is "robust" where a column has heavy tails, else "standard"; it is
        "standard" for "selection". For a sum of kernels, "hkrr" by evidence also takes a tuple of
        names, one for each term.
    ridge : float, "auto" or "tune", default="tune"
        Strength of the regularisation of a single method. "tune" chooses it by the score of
        held-out rows: for "bkernn" among multiples of the paper's formula, for "hkrr" together with
        the number of components, for "selection" among three values, and for "rkhs_weighting" on a
        grid. "auto" is the formula for "bkernn", and "tune" for the others. "regfeal" tunes its
        decay and strength instead. Models of a blend always tune their own.
    penalty : str or Penalty, optional
        For "bkernn": a penalty, by default "concave_feature". "tune" is the one with the best score
        on held-out rows.
    max_time : float, optional
        Time limit in seconds from the call on, checked between steps. The first fit of a process
        also spends one to three seconds on imports. Tuning takes at most half. A last fit that is
        cut off keeps its best step, with a ConvergenceWarning. Models of a blend that are too slow
        get fewer rows or steps, or are dropped. A single method takes as many rows as there is time
        for, with a warning. Folds of more than 100 000 numbers for each second of the limit are
        tuned on one fold.
    random_state : int, default=0
        Seed of all random numbers.
    sample_weight : array of shape (n_samples,), optional
        Weights, at least 0. A common factor changes nothing, and rows of weight 0 change nothing.
        Copies of a row are merged, with the sum of their weights.
    groups : array of shape (n_samples,), or str, optional
        Groups of rows, such as patients or stations, at least two; or the name of their column in
        X, which is then not used to predict. All rows of a group are held out together. Scores,
        probabilities and intervals are therefore those of new groups. For groups of columns see
        `Model.explain`.
    time : array of shape (n_samples,), or str, optional
        Numbers or dates; or the name of their column in X, which is then not used to predict. Pass
        the array to use the column too. Held-out rows are later than the rows that are fitted, and
        rows of equal times are on one side. The first half is never held out, and with many rows
        only the last fifth is. With `groups`, both hold.
    gap : float or timedelta, optional
        Time before each held-out part in which no row is fitted, in units of `time`. For dates it
        is a timedelta, or text such as "7 days".
    cv : splitter of scikit-learn, or pairs of indices, optional
        Rows to fit and to hold out, instead of random folds. Searches inside a fold use what
        remains of these splits there. Not with `time`.
    validation : tuple (X, y) or (X, y, sample_weight), or frame, optional
        For a blend: other rows, which score its models instead of folds. A frame has the column
        that y names. Weights of the blend, probabilities, intervals and importances come from these
        rows. No model is fitted to them, unless `refit` is given. All rows determine the kinds of
        columns. Not with `groups`, `time` or `cv`.
    metric : str, default="auto"
        For a blend: the metric that weights it and leads the leaderboard. For a regression "r2",
        "rmse" or "mae"; for classes "log_loss", "roc_auc", "accuracy", "balanced_accuracy" or
        "brier"; or the name of a scikit-learn scorer. "auto" is the squared error, or the log loss.
        See `AutoRegressor`.
    columns : dict of str: str, optional
        Kinds of columns that are not detected, by name: for example ``{"zip": "category"}``. Kinds
        are those of `gpukfl.tables`.
    impute : {"median", "model"}, default="median"
        How missing numbers of a table are replaced: by the median, or by kernel ridge regression
        from the other columns. A second column marks them.
    monotone : dict of str or int to int, or sequence of int, optional
        Numeric columns in which predictions never fall (1) or never rise (-1), at most eight, by
        name or number: for example ``{"age": 1, "price": -1}``. Or a sign of -1, 0 or 1 for each
        column, as in scikit-learn's `monotonic_cst`. It holds exactly, for all values of the other
        columns, also for intervals and quantiles. For two classes, the probability of the second
        rises or falls. A missing value is outside the order. Predictions take as long as those of
        about 30 rows with one such column, and of 200 to 300 with more.
    n_jobs : int, optional
        Processes that fit the models of a blend at the same time; -1 is all cores. The default is
        all cores for 300 to 20 000 rows, where NumPy computes. Results are the same to the last
        bit.
    progress : bool, optional
        Whether to show the progress; by default on a terminal and in a notebook.
    **options
        Further parameters of the estimator of a single method, for example ``knots`` for "bkernn".

    Returns
    -------
    Model
        It has `predict`, `score`, `transform`, `summary`, `plot`, `report` and `save`. For several
        labels a row it is a `MultiLabelModel`, with a model of two classes for each label.

    Raises
    ------
    TypeError, ValueError
        If the data or an option is not as described.
    RuntimeError
        If the backend is not available.

    Notes
    -----
    A single method is tuned on five folds of few rows: below 2000 for "bkernn", where folds that
    hold out 600 rows together are enough, and below 1000 for the others. With more rows, it is
    tuned on one held-out fifth of at most 20 000 rows, or 10 000 for "bkernn".

    With `groups` or `time`, choices in closed form leave out whole groups or blocks of time. The
    evidence of a Gaussian process leaves out nothing. All rows must be in memory, on one device.

    Ctrl-C ends the fit with the best model so far and a warning.

    Examples
    --------
    >>> import gpukfl
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = gpukfl.fit(X, y, effort="quick")
    >>> bool(model.score(X, y) > 0.5)
    True
    """
    begun, arguments = clock.perf_counter(), dict(locals())
    from gpukfl._model import Model
    from gpukfl._multilabel import read_indicators
    from gpukfl.estimators._base import feature_names
    from gpukfl.portfolio._fold_fits import default_jobs
    from gpukfl.tables._monotone import check_monotone
    from gpukfl.tables._reference import Reference
    from gpukfl.tables._relations import GivenRelations
    from gpukfl.tables._target_checks import warn_target_leakage
    from gpukfl.tables._training import read_training_data
    from gpukfl.tables._validation import join_validation

    _check_options(method, task, ridge, scaling, penalty, max_time)
    _check_arguments(columns, impute, progress, sample_weight)
    _check_blend_options(method, validation=validation, metric=None if metric == "auto" else metric)
    check_monotone(monotone)
    if task == "classification":
        several = read_indicators(X, y)
        if several is not None:
            return _fit_labels(several, arguments)
    related = GivenRelations(groups, time, gap, cv)
    if validation is not None:
        X, y, sample_weight, related = join_validation(X, y, sample_weight, related, validation)
    task = _infer_task(loss) if task == "auto" else task
    data = read_training_data(X, y, sample_weight, related, task=task, random_state=random_state)
    warn_target_leakage(data.X, data.y, classes=data.task == "classification")
    if data.task == "regression" and loss == "squared":
        _record_counts(data.y)
    given = {"random_state": random_state, "backend": backend, "max_time": max_time, **options}
    given |= _drop_defaults(
        effort=effort,
        members=members,
        n_folds=n_folds,
        refit=refit,
        class_weight=class_weight,
        target_transform=target_transform,
        metric=metric,
        monotone=monotone,
        penalty=penalty,
        n_jobs=n_jobs,
        loss=loss,
    )
    table = {"columns": columns, "impute": impute}
    estimator = _make_estimator(method, data.task, given, ridge, scaling, table)
    usual = default_jobs(estimator, len(data))
    estimator.set_params(**usual)
    rows = _fit_estimator(estimator, data, columns, impute, progress, begun)
    estimator.set_params(max_time=None, **dict.fromkeys(usual))
    found = Model(
        estimator=estimator,
        method=method,
        task=data.task,
        n_samples=estimator._n_samples,
        feature_names=rows.names or list(feature_names(estimator)),
        target_name=data.target_name or "y",
        target_kind=data.kind,
        tuning=estimator.tuning_,
        seconds=clock.perf_counter() - begun,
        max_time=max_time,
        reader=rows.reader,
        columns=columns,
        impute=impute,
        weighted=sample_weight is not None,
        related=related.words,
    )
    found.reference = Reference.draw(data.X, found.table, found.feature_names)
    return found


def _fit_labels(given: Indicators, arguments: dict[str, Any]) -> Any:
    """Fit a model to each of several labels a row; they share `max_time`."""
    from gpukfl._multilabel import MultiLabelModel
    from gpukfl.tables._training import split_target

    asked = {name: value for name, value in arguments.items() if name not in ("X", "y", "options")}
    asked |= arguments["options"]
    if asked["max_time"] is not None:
        asked["max_time"] /= len(given.labels)
    validation, y = asked.pop("validation"), arguments["y"]
    named = None if split_target(arguments["X"], y)[1] is y else y
    return MultiLabelModel.from_fits(
        given, lambda X, y, **own: fit(X, y, **asked, **own), validation, named
    )


def _record_counts(y: Any) -> None:
    """Add to the model's warnings, without warning, that a target looks like counts."""
    from gpukfl.core._warnings import record_warning
    from gpukfl.losses import looks_like_counts

    shape = getattr(y, "shape", ())
    if type(y).__module__ == "numpy" and len(shape) == 1 and looks_like_counts(y):
        record_warning("y looks like counts: loss='poisson' models their mean on a log scale")


def _infer_task(loss: Any) -> str:
    """Return "regression" for a loss other than "squared", else "auto"."""
    from gpukfl.losses import LOSSES, Loss, Squared

    name = loss.partition(":")[0] if isinstance(loss, str) else loss
    known = isinstance(loss, Loss) or (isinstance(name, str) and name in LOSSES)
    return "regression" if known and not (loss == "squared" or loss == Squared()) else "auto"


def _drop_defaults(**named: Any) -> dict[str, Any]:
    """Return the options that are not the default; not all methods have each."""
    return {
        name: value
        for name, value in named.items()
        if not (value is _DEFAULTS.get(name) or repr(value) == repr(_DEFAULTS.get(name)))
    }


def _make_estimator(
    method: str, task: str, given: dict[str, Any], ridge: Any, scaling: Any, table: dict[str, Any]
) -> Any:
    """Return the estimator: a single method with ridge and scaling, or a blend with `table`."""
    from gpukfl._registry import METHODS, check_options

    row = METHODS[method]
    if row.single:
        tuned = ridge == "tune" and not row.penalised  # without a formula, "auto" tunes it
        given |= {"ridge": "auto" if tuned else ridge, "scaling": scaling}
    else:
        given |= table
    check_options(method, task, given)
    return row.estimator_class(task)(**given)


def _fit_estimator(
    estimator: Any, data: Dataset, columns: Any, impute: str, progress: bool | None, begun: float
) -> EncodedRows:
    """Fit an estimator, whose time counts from `begun`; return the encoded rows."""
    from gpukfl.core._interruption import restore_interruptions
    from gpukfl.core._places import Backend
    from gpukfl.estimators._learner import limit_threads
    from gpukfl.estimators._progress import is_interactive, report_progress
    from gpukfl.estimators._run import count_time_from, use_report
    from gpukfl.tables._reader import encode_training_data

    show = is_interactive() if progress is None else progress
    threads = limit_threads(data.X, len(data), Backend.parse(estimator.backend).name)
    with report_progress(show) as report, threads, use_report(report):
        rows = encode_training_data(estimator, data, columns, impute)
        with restore_interruptions(), count_time_from(begun):
            if data.everything is None:
                estimator._fit_read(rows.X, data)
            else:
                estimator.fit_collections(data.everything, read=rows.of_partition)
    return rows


def _check_options(
    method: str, task: str, ridge: Any, scaling: Any, penalty: Any, max_time: Any
) -> None:
    from gpukfl._registry import METHODS, TASKS
    from gpukfl.core._checks import check_number, suggest
    from gpukfl.penalties import PENALTIES, Penalty

    if method not in METHODS:
        known = ", ".join(METHODS)
        msg = f"expected method to be one of {known}, got {method!r}{suggest(method, METHODS)}"
        raise ValueError(msg)
    if task not in ("auto", *TASKS):
        msg = f"expected task to be one of auto, {', '.join(TASKS)}, got {task!r}"
        raise ValueError(msg)
    if isinstance(ridge, str) and ridge not in ("auto", "tune"):
        msg = f"expected ridge to be a positive number, 'auto' or 'tune', got {ridge!r}"
        raise ValueError(msg)
    if penalty is not None and not METHODS[method].penalised:
        msg = f"expected no penalty with method {method!r}, got {penalty!r}"
        raise ValueError(msg)
    if not METHODS[method].single and (ridge, scaling) != ("tune", "auto"):
        msg = (
            f"expected no ridge and no scaling with method {method!r}, which chooses them, got "
            f"ridge={ridge!r} and scaling={scaling!r}"
        )
        raise ValueError(msg)
    if not isinstance(penalty, Penalty) and penalty not in (None, *PENALTIES, "tune"):
        msg = f"expected penalty to be one of {', '.join(PENALTIES)} or tune, got {penalty!r}"
        raise ValueError(msg)
    check_number("max_time", max_time, low=0, low_allowed=False, also=(None,))


def _check_blend_options(method: str, **given: Any) -> None:
    """Raise TypeError if a single method is given options of blends."""
    if method == "auto":
        return
    for name, value in given.items():
        if value is not None:
            shown = repr(value) if isinstance(value, str) else "rows"
            msg = (
                f"expected {name} with method 'auto' only, got {name}={shown} with {method!r}: "
                f"for a blend of it, pass members=[{method!r}] instead of method={method!r}"
            )
            raise TypeError(msg)


def _check_arguments(columns: Any, impute: Any, progress: Any, sample_weight: Any) -> None:
    from gpukfl.core._checks import check_choice, check_kind
    from gpukfl.tables import IMPUTE

    check_kind("columns", columns, (Mapping, type(None)))
    check_choice("impute", impute, IMPUTE)
    check_kind("progress", progress, (bool, type(None)))
    if isinstance(sample_weight, str):
        msg = f"expected sample_weight to be an array of weights, got the text {sample_weight!r}"
        raise TypeError(msg)
