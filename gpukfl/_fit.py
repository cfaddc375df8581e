"""The one-line door: data in, tuned and fitted model out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gpukfl._array import to_host
from gpukfl._checks import check_choice, check_kind, check_number
from gpukfl._columns import check_container
from gpukfl._given import complete, pair_rows, with_names, with_target
from gpukfl._leakage import warn_target_leakage
from gpukfl._model import Model
from gpukfl._outliers import Range, leave_out_of_target
from gpukfl._parts_reader import of_all_rows, table_of_all
from gpukfl._places import Backend
from gpukfl._progress import is_seen
from gpukfl._progress import progress as progress_to
from gpukfl._reader import Read, rows_for, table_of
from gpukfl._registry import METHODS, TASKS, check_options
from gpukfl._target import Target, read_target, target_name
from gpukfl._warnings import warnings_kept
from gpukfl.estimators._dask import SAMPLE, any_dask, sample_of
from gpukfl.estimators._described import feature_names
from gpukfl.estimators._run import reported_to
from gpukfl.estimators._threads import few_threads
from gpukfl.partitioned import Collections
from gpukfl.penalties import PENALTIES, Penalty
from gpukfl.tables import IMPUTE


@warnings_kept
def fit(
    X: Any,
    y: Any,
    *,
    method: str = "auto",
    backend: str | Backend = "auto",
    task: str = "auto",
    scaling: str | None = "auto",
    ridge: float | str = "tune",
    penalty: str | Penalty | None = None,
    max_time: float | None = None,
    random_state: int | None = 0,
    sample_weight: Any = None,
    columns: Mapping[str, str] | None = None,
    impute: str = "median",
    progress: bool | None = None,
    **options: Any,
) -> Model:
    """Scale features, tune by hold-out, and fit.

    Parameters
    ----------
    X : array or frame of shape (n_samples, n_features)
        Real data: NumPy, CuPy, torch, a NumPy memory map, or a frame of pandas, polars or pyarrow.
        Columns of frames may be numbers, categories, booleans, dates, durations or text, with gaps:
        see `gpukfl.tables`. So may those of NumPy arrays and of lists of rows, called x0, x1, ...
    y : str, or array, series or frame of shape (n_samples,) or (n_samples, n_targets)
        Numbers, or labels: text, categories, booleans or integers; or the name of the column of X
        that is the target, or a list of several. Rows without a target are left out, with a
        warning.
    method : {"auto", "bkernn", "hkrr", "selection", "rkhs_weighting", "regfeal"}, default="auto"
        What to fit: a blend of all methods that suit the data, with a linear model and
        gradient-boosted trees beside them (`AutoRegressor`, `AutoClassifier`), a Brownian kernel
        neural network, hyper-kernel ridge regression, kernel feature selection with kernel ridge
        regression on the selected variables, an RKHS weighting of simple predictors, or
        regularised feature learning with Hermite polynomials.
    backend : {"auto", "numpy", "cupy", "torch"} or Backend, default="auto"
        Where to compute, as a `Backend` also in which precision. "auto" follows X, and moves large
        NumPy data to a usable GPU.
    task : {"auto", "regression", "classification"}, default="auto"
        "auto" takes text, categories, booleans, integers of two values, and integers
        0, 1, ..., k - 1 of up to ten well-filled values for classes, and all other numbers for
        numbers. It warns where integers of few values may be classes after all, and refuses
        dates, and text that makes no classes. `Model.summary` says what was taken.
    scaling : {"auto", "standard", "robust", "quantile", None}, default="auto"
        How features are scaled first: "standard" to zero mean and unit variance; "robust" by median
        and interquartile range, and bounded; "quantile" to normal scores of their ranks; None not
        at all. "auto" is "robust" where a feature has heavy tails, and "standard" elsewhere and for
        "selection".
    ridge : float, "auto" or "tune", default="tune"
        "tune" goes where the hold-out score rises, each fit warm-started by its neighbour: among
        multiples of the paper's formula for "bkernn", together with the number of components for
        "hkrr", over three values for "selection", and over a grid on five folds for
        "rkhs_weighting". "auto" is the formula of "bkernn", and "tune" for the others; "regfeal"
        tunes its decay and strength instead. With "auto" every member tunes its own.
    penalty : str or Penalty, optional
        Of "bkernn": a penalty, by default "concave_feature", or "tune" for the one with the best
        hold-out score.
    max_time : float, optional
        Seconds for everything, checked between steps. Tuning takes at most half; a final fit
        that is cut off keeps its best step and gives a ConvergenceWarning. Members of a blend are
        timed on few rows, columns and steps before they are begun; what is too slow for all is
        given fewer rows or steps, or is left out.
    random_state : int, default=0
        Draws splits and first particles.
    sample_weight : array of shape (n_samples,), optional
        Weights, at least 0. A common factor changes nothing; copies of a row count as weight, and
        rows of weight 0 change nothing.
    columns : dict of str: str, optional
        What columns of a frame are to be taken for, by name, where the guess is wrong: for example
        ``{"zip": "category"}``. Kinds are those of `gpukfl.tables`.
    impute : {"median", "model"}, default="median"
        What stands for missing numbers of a table, beside a column that marks them: the median, or
        what kernel ridge regression tells from the other columns.
    progress : bool, optional
        Show a line that says how far the fit is; by default on a terminal, and in a notebook.
    **options
        Further parameters of the estimator, for example ``effort`` of "auto" or ``knots`` of
        "bkernn".

    Returns
    -------
    Model
        With `predict`, `score`, `transform`, `summary`, `plot`, `report` and `save`.

    Raises
    ------
    TypeError, ValueError
        If the data or an option is not as described.
    RuntimeError
        If the backend is not available.

    Notes
    -----
    Tunes on 5 folds of few samples, below 2000 for "bkernn" and below 1000 for the others, else on
    one held-out fifth, of at most 20 000 samples. For "bkernn" of at most 10 000, and on no more
    of the folds than hold out 600.
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
    begun = time.perf_counter()
    _check(method, task, ridge, scaling, penalty, max_time)
    _check_given(columns, impute, progress, sample_weight)
    X, y, y_name = with_target(X, y)
    lazy = any_dask(X, y, sample_weight)
    whole = Collections.of(X, y, sample_weight) if lazy else None
    if whole is not None:  # some rows say what the columns are
        X, y, sample_weight = sample_of(whole, random_state)
    else:
        _check_lengths(X, y, sample_weight)
        X, y, sample_weight = pair_rows(X, y, sample_weight)
        X, y, sample_weight = complete(with_names(X), y, sample_weight)
    X, sample_weight, target, whole = _target_of(X, y, sample_weight, task, whole)
    warn_target_leakage(X, target.y, classes=target.task == "classification")
    y_name = y_name or target_name(y) or "y"
    given = {"random_state": random_state, "backend": backend, "max_time": max_time, **options}
    row = METHODS[method]
    if row.single:
        tuned = ridge == "tune" and not row.penalised  # the others choose theirs by "auto"
        given |= {"ridge": "auto" if tuned else ridge, "scaling": scaling}
    if penalty is not None:
        given |= {"penalty": penalty}
    if not row.single:
        given |= {"columns": columns, "impute": impute}
    check_options(method, target.task, given)
    estimator = row.of(target.task)(**given)
    show = is_seen() if progress is None else progress
    where = Backend.of(backend).name
    with progress_to(show) as report, few_threads(X, _length_of(X), where), reported_to(report):
        many = whole if whole is not None and whole.n_rows > SAMPLE else None
        tables = partial(table_of_all, many) if many and row.single else table_of
        rows = rows_for(estimator, X, target, sample_weight, columns, impute, tables=tables)
        if whole is not None:
            rows, read = _of_whole(rows, many, target) if many else (rows, rows.reader)
            estimator.fit_collections(whole, read=read)
        else:
            estimator.fit(rows.X, target.y, sample_weight=sample_weight)
    estimator.set_params(max_time=None)
    return Model(
        estimator=estimator,
        method=method,
        task=target.task,
        n_samples=estimator._n_samples,
        feature_names=rows.names or list(feature_names(estimator)),
        target_name=y_name,
        target_kind=target.kind,
        tuning=estimator.tuning_,
        seconds=time.perf_counter() - begun,
        max_time=max_time,
        reader=rows.reader,
        columns=columns,
        impute=impute,
        weighted=sample_weight is not None,
    )


def _target_of(
    X: Any, y: Any, sample_weight: Any, task: str, whole: Collections | None
) -> tuple[Any, Any, Target, Collections | None]:
    """Read the target, and leave gross outliers out: of the rows here, and of all rows."""
    given = read_target(y, task)
    X, sample_weight, target = leave_out_of_target(X, y, sample_weight, given)
    if whole is not None and len(target.y) < len(given.y):
        whole = whole.only(Range.of(target.y))
    return X, sample_weight, target, whole


def _of_whole(rows: Read, whole: Collections, target: Target) -> tuple[Read, Any]:
    """Say what makes rows of new data, and what of each partition."""
    if rows.reader is None:
        return rows, None
    classes = np.unique(to_host(target.y)) if target.task == "classification" else None
    reader, read = of_all_rows(rows.reader, whole, classes)
    return replace(rows, reader=reader), read


def _check(method: str, task: str, ridge: Any, scaling: Any, penalty: Any, max_time: Any) -> None:
    if method not in METHODS:
        msg = f"expected method to be one of {', '.join(METHODS)}, got {method!r}"
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
            f"expected neither ridge nor scaling with method {method!r}, whose members choose, got "
            f"ridge={ridge!r} and scaling={scaling!r}"
        )
        raise ValueError(msg)
    if not isinstance(penalty, Penalty) and penalty not in (None, *PENALTIES, "tune"):
        msg = f"expected penalty to be one of {', '.join(PENALTIES)} or tune, got {penalty!r}"
        raise ValueError(msg)
    check_number("max_time", max_time, low=0, low_allowed=False, also=(None,))


def _check_given(columns: Any, impute: Any, progress: Any, sample_weight: Any) -> None:
    check_kind("columns", columns, (Mapping, type(None)))
    check_choice("impute", impute, IMPUTE)
    check_kind("progress", progress, (bool, type(None)))
    if isinstance(sample_weight, str):
        msg = f"expected weights of the rows as sample_weight, got the text {sample_weight!r}"
        raise TypeError(msg)


def _check_lengths(X: Any, y: Any, sample_weight: Any) -> None:
    """Refuse, before anything is split, what no estimator takes."""
    check_container("X", X)
    check_container("y", y, labels=True)
    if X is None or y is None:
        msg = f"expected X and y, got None for the {'data X' if X is None else 'target y'}"
        raise ValueError(msg)
    sizes = [_length_of(X), _length_of(y)]
    if sample_weight is not None and not np.isscalar(sample_weight):
        sizes.append(_length_of(sample_weight))
    if len(set(sizes)) > 1:
        msg = (
            "Found input variables with inconsistent numbers of samples: expected as many targets "
            f"and weights as rows, got {sizes}"
        )
        raise ValueError(msg)


def _length_of(x: Any, /) -> int:
    """Count the rows of an array, a frame or a list."""
    return int(x.shape[0]) if hasattr(x, "shape") and x.shape else len(x)
