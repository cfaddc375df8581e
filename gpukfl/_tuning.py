"""Choice of penalty and ridge by hold-out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit

from gpukfl._array import Array, array_namespace, is_array, is_host, like, to_host
from gpukfl._results import Status
from gpukfl._warnings import warn
from gpukfl.estimators._copies import copies_of, is_numeric, total_weights, without_copies
from gpukfl.estimators._run import reported_to
from gpukfl.estimators._validation import one_at_a_time

_TUNE_ROWS = 20_000  # rows that hyperparameters are tuned on, at most
_CROSS_VALIDATE_BELOW = 2_000  # rows below which one hold-out set is too small to choose by
_FOLDS = 5
_FACTOR = 3.0  # between neighbouring ridges
_REACH = 5  # neighbours to each side of the paper's ridge
_TUNE_SHARE = 0.5  # of max_time


@dataclass
class Tuning:
    """Search over penalties and ridges by hold-out."""

    estimator: Any
    X: Any
    y: Any
    weights: Any
    begun: float
    max_time: float | None
    report: Callable[[str, int, float], None]
    trials: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Let copies of a row be one, so that no fold holds out what stays in the others."""
        X, y = (x if is_array(x) else np.asarray(x) for x in (self.X, self.y))
        found = copies_of(X, host_array(y)) if is_numeric(X) else None
        if found is None:
            return
        firsts, group = found
        if self.weights is not None and not np.isscalar(self.weights):
            self.weights = total_weights(group, host_array(self.weights))
        else:
            self.weights = total_weights(group, None)
        self.X, self.y = _rows_of(self.X, firsts), _rows_of(self.y, firsts)

    def run(self, penalties: list[str], ridge: float | str) -> tuple[Any, bool]:
        """Choose; returns an estimator to refit, and whether the user stopped the search."""
        tuned = ridge == "tune"
        if not tuned and len(penalties) == 1:
            return clone(self.estimator).set_params(ridge=ridge, penalty=penalties[0]), False
        rows = self._rows_to_tune()
        stopped = self._search(penalties, self._splits(rows), None if tuned else ridge)
        finished = [trial for trial in self.trials if trial["score"] is not None]
        if not finished:  # stopped within the first fit, whose best iterate is there
            return _settled(self.trials[-1]["estimator"]), True
        best = max(finished, key=lambda trial: trial["score"])
        for trial in self.trials:
            trial["chosen"] = trial is best
        if stopped:
            best["estimator"].status_ = Status.INTERRUPTED.name  # it stands in for the last fit
            return _settled(best["estimator"]), True
        self._warn_at_edge(best)
        settings = {"ridge": "auto", "penalty": best["penalty"]}
        chosen = clone(self.estimator).set_params(**settings)
        chosen._multiple, chosen.W_ = best["multiple"], best["estimator"].W_
        if not tuned:
            chosen.set_params(ridge=ridge)
        return chosen, False

    def _search(
        self,
        penalties: list[str],
        splits: list[tuple[np.ndarray, np.ndarray]],
        ridge: float | str | None,
    ) -> bool:
        """Score the penalties, at a ridge or where it is best; True if the user stopped it."""
        try:
            for penalty in penalties:
                score = Ridges(self, penalty, splits)
                stopped = score.climb() if ridge is None else score.at(ridge) is None
                if stopped or self.late():
                    return stopped
        except KeyboardInterrupt:  # between the fits
            if not any(trial["score"] is not None for trial in self.trials):
                raise
            return True
        return False

    def final(self, estimator: Any, max_time: float | None) -> Any:
        """Fit on everything, from the particles that tuning found."""
        warm = hasattr(estimator, "W_")
        estimator.set_params(max_time=max_time, warm_start=warm or estimator.warm_start)
        self.fit_one(estimator, self.X, self.y, self.weights, "fit")
        return _settled(estimator)

    def fit_one(self, estimator: Any, X: Any, y: Any, weights: Any, stage: str) -> Any:
        """Fit with progress."""
        with reported_to(lambda _, k, history: self.report(stage, k, history.objective[-1])):
            return estimator.fit(X, y, sample_weight=weights)

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
        n = length_of(self.y)
        if n < _FOLDS:
            msg = (
                f"expected at least {_FOLDS} samples to tune on, got {n}: give ridge='auto' or a "
                "number, and a penalty"
            )
            raise ValueError(msg)
        rows = np.arange(n)
        if n > _TUNE_ROWS:
            rng = np.random.RandomState(self.estimator.random_state)
            rows = np.sort(rng.choice(n, _TUNE_ROWS, replace=False))
        return without_copies(self.X, host_array(_rows_of(self.y, rows)), rows)

    def _splits(self, rows: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        seed = self.estimator.random_state
        labels = host_array(_rows_of(self.y, rows)) if is_classifier(self.estimator) else None
        counts = np.unique(labels, return_counts=True)[1] if labels is not None else None
        stratify = counts is not None and counts.min() >= _FOLDS
        if len(rows) < _CROSS_VALIDATE_BELOW:
            kind = StratifiedKFold if stratify else KFold
            splitter = kind(_FOLDS, shuffle=True, random_state=seed)
        else:
            kind = StratifiedShuffleSplit if stratify else ShuffleSplit
            splitter = kind(1, test_size=0.2, random_state=seed)
        with one_at_a_time():
            splits = list(splitter.split(rows, labels if stratify else None))
        return [(rows[inside], rows[outside]) for inside, outside in splits]

    def _warn_at_edge(self, best: dict[str, Any]) -> None:
        if best["multiple"] in (_FACTOR**_REACH, _FACTOR**-_REACH):
            warn(
                f"the best ridge is at the edge of those tried, {best['multiple']:.3g} times the "
                "paper's: give a ridge of your own to go further",
                UserWarning,
            )


@dataclass
class Ridges:
    """Hold-out scores of one penalty along the ridges, each fit started by its neighbour's."""

    tuning: Tuning
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
        held_out = HeldOut()
        last = clone(tuning.estimator)
        for number, (inside, outside) in enumerate(self.splits):
            last = clone(tuning.estimator)
            last.set_params(penalty=self.penalty, ridge=ridge, max_time=tuning.time_left())
            last._multiple, last._warns = multiple, False
            if number in self._starts:
                last.set_params(warm_start=True)
                last.W_ = self._starts[number]
            X, y = _rows_of(tuning.X, inside), _rows_of(tuning.y, inside)
            stage = f"tune {self.penalty} x{multiple:.3g}"
            tuning.fit_one(last, X, y, _weights_of(tuning.weights, inside), stage)
            if last.status_ == Status.INTERRUPTED.name:
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
        stopped = last.status_ == Status.INTERRUPTED.name
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
class HeldOut:
    """Held-out predictions of all folds together, so that small folds do no harm."""

    truths: list[np.ndarray] = field(default_factory=list)
    predictions: list[np.ndarray] = field(default_factory=list)
    weights: list[np.ndarray] = field(default_factory=list)

    def add(self, estimator: Any, X: Any, y: Any, weights: Any) -> None:
        """Predict one fold."""
        truth = host_array(y)
        if is_classifier(estimator):
            truth = (truth[:, None] == estimator.classes_).astype(np.float64)
            predicted = to_host(estimator.predict_proba(X))
        else:
            predicted = to_host(estimator.predict(X))
        n = len(truth)
        self.truths.append(truth.reshape(n, -1).astype(np.float64))
        self.predictions.append(predicted.reshape(n, -1).astype(np.float64))
        self.weights.append(
            np.ones(n) if weights is None else host_array(weights).astype(np.float64)
        )

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
    for name in ("_multiple", "_warns"):
        vars(estimator).pop(name, None)
    return estimator


def host_array(x: Any, /) -> np.ndarray:
    """Copy anything like an array to NumPy."""
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


def length_of(x: Any, /) -> int:
    """Count the rows of an array, a frame or a list."""
    return int(x.shape[0]) if hasattr(x, "shape") and x.shape else len(x)
