"""The one-line door: data in, tuned and fitted model out."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit

from gpukfl._array import Array, array_namespace, is_array, is_host, like, to_host
from gpukfl._model import Model
from gpukfl._results import History
from gpukfl.estimators import BKerNNClassifier, BKerNNRegressor
from gpukfl.estimators._validation import check_number
from gpukfl.penalties import PENALTIES

METHODS = {"bkernn": {"regression": BKerNNRegressor, "classification": BKerNNClassifier}}
TASKS = ("auto", "regression", "classification")

_TUNE_ROWS = 20_000  # rows that hyperparameters are tuned on, at most
_CROSS_VALIDATE_BELOW = 2_000  # rows below which one hold-out set is too small to choose by
_FOLDS = 5
_FACTOR = 3.0  # between neighbouring ridges
_REACH = 5  # neighbours to each side of the paper's ridge
_MANY_LABELS = 20  # more distinct integers than this are taken for measurements
_TUNE_SHARE = 0.5  # of max_time


def fit(
    X: Any,
    y: Any,
    *,
    method: str = "bkernn",
    backend: str = "auto",
    task: str = "auto",
    ridge: float | str = "tune",
    penalty: str = "concave_feature",
    max_time: float | None = None,
    random_state: int | None = 0,
    sample_weight: Any = None,
    progress: bool | None = None,
    **options: Any,
) -> Model:
    """Standardise, tune by hold-out, and fit.

    Parameters
    ----------
    X : array or frame of shape (n_samples, n_features)
        Finite real data: NumPy, CuPy, torch, a pandas frame of numbers, or a NumPy memory map.
    y : array of shape (n_samples,) or (n_samples, n_targets)
        Numbers, or labels of any kind.
    method : {"bkernn"}, default="bkernn"
        What to fit.
    backend : {"auto", "numpy", "cupy", "torch"}, default="auto"
        Where to compute. "auto" follows X, and moves large NumPy data to a usable GPU.
    task : {"auto", "regression", "classification"}, default="auto"
        "auto" takes text, booleans and integers of at most 20 values for labels.
    ridge : float, "auto" or "tune", default="tune"
        "tune" chooses among multiples of the paper's formula, starting there and going where
        the hold-out score rises, each fit warm-started by its neighbour. "auto" is the formula.
    penalty : str, default="concave_feature"
        A penalty of the method, or "tune" for the one with the best hold-out score.
    max_time : float, optional
        Seconds for everything, checked between steps. Tuning takes at most half; a final fit
        that is cut off keeps its best step and gives a ConvergenceWarning.
    random_state : int, default=0
        Draws splits and first particles.
    sample_weight : array of shape (n_samples,), optional
        Weights, at least 0.
    progress : bool, optional
        Show a progress bar on standard error; by default on a terminal only.
    **options
        Further parameters of the estimator, for example ``n_particles`` or ``knots``.

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
    Tunes on 5 folds below 2000 samples, else on one held-out fifth, of at most 20 000 samples.
    Ctrl-C ends the fit with the best model so far and a warning.

    Examples
    --------
    >>> import gpukfl
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = gpukfl.fit(X, y, ridge="auto")
    >>> bool(model.score(X, y) > 0.5)
    True
    """
    begun = time.perf_counter()
    _check(method, task, ridge, penalty, max_time)
    _explain_bad_columns(X)
    _check_lengths(X, y, sample_weight)
    task = _task_of(y) if task == "auto" else task
    given = {"standardize": True, "random_state": random_state, "backend": backend, **options}
    estimator = METHODS[method][task](**given)
    show = sys.stderr.isatty() if progress is None else progress
    with _progress(show) as report:
        tuning = _Tuning(estimator, X, y, sample_weight, begun, max_time, report)
        chosen, stopped = tuning.run([penalty] if penalty != "tune" else list(PENALTIES), ridge)
        if stopped:
            warnings.warn(
                "interrupted while tuning: the model is the best so far, fitted on the rows that "
                "were not held out",
                ConvergenceWarning,
                stacklevel=2,
            )
        else:
            left = None if max_time is None else max(max_time + begun - time.perf_counter(), 1e-3)
            chosen = tuning.final(chosen, left)
    names = [str(c) for c in X.columns] if hasattr(X, "columns") else None
    target = str(y.name) if getattr(y, "name", None) is not None else None
    return Model(
        estimator=chosen,
        method=method,
        task=task,
        n_samples=int(chosen.dual_coef_.shape[0]),
        feature_names=names or [f"x{k}" for k in range(chosen.n_features_in_)],
        target_name=target or "y",
        tuning=tuning.trials,
        seconds=time.perf_counter() - begun,
    )


def _check(method: str, task: str, ridge: Any, penalty: str, max_time: Any) -> None:
    if method not in METHODS:
        msg = f"expected method to be one of {', '.join(METHODS)}, got {method!r}"
        raise ValueError(msg)
    if task not in TASKS:
        msg = f"expected task to be one of {', '.join(TASKS)}, got {task!r}"
        raise ValueError(msg)
    if isinstance(ridge, str) and ridge not in ("auto", "tune"):
        msg = f"expected ridge to be a positive number, 'auto' or 'tune', got {ridge!r}"
        raise ValueError(msg)
    if penalty not in (*PENALTIES, "tune"):
        msg = f"expected penalty to be one of {', '.join(PENALTIES)} or tune, got {penalty!r}"
        raise ValueError(msg)
    check_number("max_time", max_time, low=0, low_allowed=False, also=(None,))


def _check_lengths(X: Any, y: Any, sample_weight: Any) -> None:
    """Refuse, before anything is split, what no estimator takes."""
    if sparse.issparse(X):
        msg = f"Sparse data was passed: expected a dense array or frame, got {type(X).__name__}"
        raise TypeError(msg)
    if X is None or y is None:
        msg = f"expected X and y, got None for the {'data X' if X is None else 'target y'}"
        raise ValueError(msg)
    sizes = [_length(X), _length(y)]
    if sample_weight is not None and not np.isscalar(sample_weight):
        sizes.append(_length(sample_weight))
    if len(set(sizes)) > 1:
        msg = (
            "Found input variables with inconsistent numbers of samples: expected as many targets "
            f"and weights as rows, got {sizes}"
        )
        raise ValueError(msg)


def _length(x: Any) -> int:
    return int(x.shape[0]) if hasattr(x, "shape") and x.shape else len(x)


def _explain_bad_columns(X: Any) -> None:
    """Name the columns of a frame that hold text or missing values."""
    if not hasattr(X, "dtypes") or not hasattr(X, "columns"):
        return
    kinds = zip(X.columns, X.dtypes, strict=True)
    text = [str(name) for name, dtype in kinds if getattr(dtype, "kind", "O") not in "iufb"]
    if text:
        msg = (
            f"expected columns of numbers, got others in {', '.join(text[:10])}: encode them "
            "(pandas.get_dummies makes one column a category) or leave them out"
        )
        raise ValueError(msg)
    missing = [str(name) for name, gap in X.isna().any().items() if gap]
    if missing:
        msg = (
            f"expected no missing values, got NaN in {', '.join(missing[:10])}: fill them "
            "(sklearn.impute.SimpleImputer) or leave out the rows"
        )
        raise ValueError(msg)


def _task_of(y: Any) -> str:
    host = _host(y)
    if host.dtype.kind in "OUSb":
        return "classification"
    few = host.ndim == 1 and host.dtype.kind in "iu" and len(np.unique(host)) <= _MANY_LABELS
    return "classification" if few else "regression"


@dataclass
class _Tuning:
    """Search over penalties and ridges by hold-out."""

    estimator: Any
    X: Any
    y: Any
    weights: Any
    begun: float
    max_time: float | None
    report: Callable[[str, int, float], None]
    trials: list[dict[str, Any]] = field(default_factory=list)

    def run(self, penalties: list[str], ridge: float | str) -> tuple[Any, bool]:
        """Choose; returns an estimator to refit, and whether the user stopped the search."""
        tuned = ridge == "tune"
        if not tuned and len(penalties) == 1:
            return clone(self.estimator).set_params(ridge=ridge, penalty=penalties[0]), False
        rows = self._rows_to_tune()
        splits = list(self._splits(rows))
        for penalty in penalties:
            score = _Ridges(self, penalty, splits)
            stopped = score.climb() if tuned else score.at(ridge) is None
            if stopped or self.late():
                break
        finished = [trial for trial in self.trials if trial["score"] is not None]
        if not finished:  # stopped within the first fit, whose best iterate is there
            return _settled(self.trials[-1]["estimator"]), True
        best = max(finished, key=lambda trial: trial["score"])
        for trial in self.trials:
            trial["chosen"] = trial is best
        if stopped:
            return _settled(best["estimator"]), True
        self._warn_at_edge(best)
        settings = {"ridge": "auto", "penalty": best["penalty"]}
        chosen = clone(self.estimator).set_params(**settings)
        chosen._multiple, chosen.W_ = best["multiple"], best["estimator"].W_
        if not tuned:
            chosen.set_params(ridge=ridge)
        return chosen, False

    def final(self, estimator: Any, max_time: float | None) -> Any:
        """Fit on everything, from the particles that tuning found."""
        warm = hasattr(estimator, "W_")
        estimator.set_params(max_time=max_time, warm_start=warm or estimator.warm_start)
        self.fit_one(estimator, self.X, self.y, self.weights, "fit")
        return _settled(estimator)

    def fit_one(self, estimator: Any, X: Any, y: Any, weights: Any, stage: str) -> Any:
        """Fit with progress."""
        estimator._watch = lambda k, history: self._step(stage, k, history)
        try:
            return estimator.fit(X, y, sample_weight=weights)
        finally:
            del estimator._watch

    def _step(self, stage: str, k: int, history: History) -> None:
        self.report(stage, k, history.objective[-1])

    def late(self) -> bool:
        """Whether the share of the time that tuning may take is spent."""
        spent = time.perf_counter() - self.begun
        return self.max_time is not None and spent > _TUNE_SHARE * self.max_time

    def time_left(self) -> float | None:
        """Seconds that tuning may still take."""
        if self.max_time is None:
            return None
        return max(self.begun + _TUNE_SHARE * self.max_time - time.perf_counter(), 1e-3)

    def _rows_to_tune(self) -> np.ndarray:
        n = _length(self.y)
        if n < _FOLDS:
            msg = (
                f"expected at least {_FOLDS} samples to tune on, got {n}: give ridge='auto' or a "
                "number, and a penalty"
            )
            raise ValueError(msg)
        if n <= _TUNE_ROWS:
            return np.arange(n)
        rng = np.random.RandomState(self.estimator.random_state)
        return np.sort(rng.choice(n, _TUNE_ROWS, replace=False))

    def _splits(self, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        seed = self.estimator.random_state
        labels = _host(_rows_of(self.y, rows)) if is_classifier(self.estimator) else None
        counts = np.unique(labels, return_counts=True)[1] if labels is not None else None
        stratify = counts is not None and counts.min() >= _FOLDS
        if len(rows) < _CROSS_VALIDATE_BELOW:
            kind = StratifiedKFold if stratify else KFold
            splitter = kind(_FOLDS, shuffle=True, random_state=seed)
        else:
            kind = StratifiedShuffleSplit if stratify else ShuffleSplit
            splitter = kind(1, test_size=0.2, random_state=seed)
        for inside, outside in splitter.split(rows, labels if stratify else None):
            yield rows[inside], rows[outside]

    def _warn_at_edge(self, best: dict[str, Any]) -> None:
        if best["multiple"] in (_FACTOR**_REACH, _FACTOR**-_REACH):
            warnings.warn(
                f"the best ridge is at the edge of those tried, {best['multiple']:.3g} times the "
                "paper's: give a ridge of your own to go further",
                UserWarning,
                stacklevel=4,
            )


@dataclass
class _Ridges:
    """Hold-out scores of one penalty along the ridges, each fit started by its neighbour's."""

    tuning: _Tuning
    penalty: str
    splits: list[tuple[np.ndarray, np.ndarray]]
    _starts: dict[int, Array] = field(default_factory=dict)

    def climb(self) -> bool:
        """Go from the paper's ridge to where the score rises; True if the user stopped it."""
        scores: dict[int, float] = {}
        for direction in (-1, 1):
            k = 0
            while abs(k) <= _REACH:
                if k not in scores:
                    score = self.at("auto", _FACTOR**k)
                    if score is None:
                        return True
                    scores[k] = score
                if self.tuning.late():
                    return False
                if k != 0 and scores[k] <= scores[k - direction]:
                    break
                k += direction
            if max(scores, key=scores.__getitem__) < 0:
                break  # a smaller ridge is better, so larger ones are not
        return False

    def at(self, ridge: float | str, multiple: float = 1.0) -> float | None:
        """Mean hold-out score; None if the user stopped the fit."""
        tuning = self.tuning
        held_out = _HeldOut()
        last = clone(tuning.estimator)
        for number, (inside, outside) in enumerate(self.splits):
            last = clone(tuning.estimator)
            last.set_params(penalty=self.penalty, ridge=ridge, max_time=tuning.time_left())
            last._multiple = multiple
            if number in self._starts:
                last.set_params(warm_start=True)
                last.W_ = self._starts[number]
            X, y = _rows_of(tuning.X, inside), _rows_of(tuning.y, inside)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                stage = f"tune {self.penalty} x{multiple:.3g}"
                tuning.fit_one(last, X, y, _weights_of(tuning.weights, inside), stage)
            if last.status_ == "INTERRUPTED":
                break
            self._starts[number] = last.W_
            held_out.add(
                last,
                _rows_of(tuning.X, outside),
                _rows_of(tuning.y, outside),
                _weights_of(tuning.weights, outside),
            )
            if tuning.late():
                break
        stopped = last.status_ == "INTERRUPTED"
        score = None if stopped else held_out.score()
        tuning.trials.append(
            {
                "penalty": self.penalty,
                "ridge": float(last.ridge_),
                "multiple": multiple,
                "score": score,
                "estimator": last,
                "chosen": False,
            }
        )
        return score


@dataclass
class _HeldOut:
    """Held-out predictions of all folds together, so that small folds do no harm."""

    truths: list[np.ndarray] = field(default_factory=list)
    predictions: list[np.ndarray] = field(default_factory=list)
    weights: list[np.ndarray] = field(default_factory=list)

    def add(self, estimator: Any, X: Any, y: Any, weights: Any) -> None:
        """Predict one fold."""
        truth = _host(y)
        if is_classifier(estimator):
            truth = (truth[:, None] == estimator.classes_).astype(np.float64)
            predicted = to_host(estimator.predict_proba(X))
        else:
            predicted = to_host(estimator.predict(X))
        n = len(truth)
        self.truths.append(truth.reshape(n, -1).astype(np.float64))
        self.predictions.append(predicted.reshape(n, -1).astype(np.float64))
        self.weights.append(np.ones(n) if weights is None else _host(weights).astype(np.float64))

    def score(self) -> float:
        """R², averaged over targets; for classes the share of the Brier score explained."""
        width = max(truth.shape[1] for truth in self.truths)
        same = [k for k, truth in enumerate(self.truths) if truth.shape[1] == width]
        truth = np.concatenate([self.truths[k] for k in same])
        predicted = np.concatenate([self.predictions[k] for k in same])
        w = np.concatenate([self.weights[k] for k in same])[:, None]
        total = max(float(w.sum()), 1e-300)
        error = np.sum(w * (predicted - truth) ** 2, axis=0)
        spread = np.sum(w * (truth - np.sum(w * truth, axis=0) / total) ** 2, axis=0)
        explained = spread > 0  # a target that does not vary says nothing
        if not explained.any():
            return 0.0
        return float(np.mean(1.0 - error[explained] / spread[explained]))


def _settled(estimator: Any) -> Any:
    """Give parameters the values that were found, so that a clone fits the same model."""
    estimator.set_params(ridge=estimator.ridge_, max_time=None, warm_start=False)
    vars(estimator).pop("_multiple", None)
    return estimator


def _host(x: Any) -> np.ndarray:
    return to_host(x) if is_array(x) else np.asarray(x)


def _weights_of(weights: Any, rows: np.ndarray) -> Any:
    return weights if weights is None or np.isscalar(weights) else _rows_of(weights, rows)


def _rows_of(x: Any, rows: np.ndarray) -> Any:
    if hasattr(x, "iloc"):
        return x.iloc[rows]
    if is_array(x) and not is_host(x):
        xp = array_namespace(x)
        return xp.take(x, xp.asarray(rows, dtype=xp.int64, device=like(x)["device"]), axis=0)
    return np.asarray(x)[rows]


@contextlib.contextmanager
def _progress(show: bool) -> Iterator[Callable[[str, int, float], None]]:
    """Report of (stage, step, objective): a live line on a terminal, else nothing."""
    if not show:
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        line = bar.add_task("starting", total=None)
        yield lambda stage, k, objective: bar.update(
            line, description=f"{stage}: step {k + 1}, objective {objective:.5g}"
        )
