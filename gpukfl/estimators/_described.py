"""What every estimator says of itself, and what it can do for that: pictures, texts and files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from gpukfl._array import Array
from gpukfl._inferring import infer
from gpukfl._results import Status
from gpukfl._saving import save
from gpukfl._source import imports_of
from gpukfl.inspection import Description, Names, Shown, Tuning
from gpukfl.tables._target import target_names

SCORES = {True: "explained Brier score", False: "R²"}  # of classifiers, and of regressors


class DescribedEstimator(Shown):
    """A fitted estimator with `describe`, `summary`, `plot`, `report` and `save`.

    Each method gives its own `_describe`, which reads the fitted attributes. Nothing of it is
    stored, so that it is the same after loading.
    """

    n_features_in_: int
    intercept_: Array
    warnings_: Sequence[str] = ()  # of the fit; nothing is known of those in older files
    to_host: Callable[[], Any]

    @abstractmethod
    def _describe(self, names: Names, /) -> Description:
        """Say what was learned; called on an estimator whose arrays are NumPy's."""

    def describe(self) -> Description:
        """Say what was learned, as one value.

        Returns
        -------
        Description
            Words, names and host arrays. Features have the names of the frame that was fitted, or
            are x0, x1, ...
        """
        return self._described_as(None, "y")

    def save(self, path: str | Path) -> None:
        """Write the estimator to one file, from which `gpukfl.load` makes a `gpukfl.Model`.

        Parameters
        ----------
        path : str or Path
            The file; an older one is replaced when the new one is complete.

        Raises
        ------
        TypeError
            If it is neither of a method of `gpukfl.fit` nor kernel ridge regression, or holds what
            is neither an array nor JSON.
        ValueError
            If it is not as `fit` made it.
        OSError
            If the file cannot be written; an older one stays as it was.
        """
        check_is_fitted(self)
        save(self, path)

    def to_onnx(self, path: str | Path) -> None:
        """Write what predicts to an ONNX file, which other programs run without this library.

        Its input "X" has the shape (n, n_features), for any n, and the precision of the fit. Of a
        table every column is an input of its name and of shape (n,): numbers are float64 with NaN
        for gaps, categories text with "" for gaps, and dates int64, microseconds since 1970. Its
        output is "prediction"; of classifiers "label" and "probabilities". Encoding of columns,
        scaling of features, clipping, units of targets and calibration are part of it.

        Parameters
        ----------
        path : str or Path
            The file; an older one is replaced when the new one is complete.

        Raises
        ------
        TypeError
            If predictions are not array operations alone: of tables with text, with kernels or
            instantiations that are not of this library, or with members of others than those of a
            portfolio; says what to fit instead.
        ValueError
            If a column of a table has the name of an output.
        ImportError
            If ndonnx is missing: ``pip install 'gpukfl[onnx]'``.
        OSError
            If the file cannot be written; an older one stays as it was.

        Notes
        -----
        Agrees with `predict` up to rounding: of the order of 1e-10 of the targets' spread in
        float64, and 1e-5 in float32. Finite rows are expected and not checked.
        """
        self._to_onnx(path, None, "y")

    def _to_onnx(
        self, path: str | Path, features: Sequence[str] | None, target: str, reader: Any = None
    ) -> None:
        """Write with the names of columns, and with what makes rows of a table."""
        from gpukfl.export import write_onnx

        check_is_fitted(self)
        write_onnx(self, path, feature_names(self, features), target, reader)

    def inference(self, X: Any, y: Any, **options: Any) -> Any:
        """Say what may be concluded, with its errors: see `gpukfl.inference.infer`.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Rows, at least 40: those of the fit, or new ones, then with ``held_out=True``.
        y : str, or array of shape (n_samples,) or (n_samples, n_targets)
            Their targets, or the name of the target's column in X.
        **options : object
            Of `gpukfl.inference.infer`.

        Returns
        -------
        gpukfl.inference.Inference
            A frozen result with `summary`, `frames`, `plot` and `report`.

        Raises
        ------
        TypeError, ValueError
            If the rows or an option are not as described.
        """
        check_is_fitted(self)
        return infer(self, X, y, **options)

    def _described_as(self, features: Sequence[str] | None, target: str) -> Description:
        """Describe with the names of columns."""
        check_is_fitted(self)
        host = self.to_host()
        one_unit = is_classifier(host)
        names = Names(feature_names(self, features), target, outputs(host, target), one_unit)
        told = host._describe(names)
        return replace(
            told.warned_of(host.warnings_),
            call=f"{imports_of([self])}model = {self!r}.fit(X, y)",
        )

    def _about(self, names: Names, /) -> dict[str, Any]:
        """Give those fields of a description that every estimator has."""
        return {
            "name": type(self).__name__,
            "target": names.target,
            "task": task_text(self),
            "n_features": len(names.features),
        }


class DescribedMethod(DescribedEstimator):
    """A method of `gpukfl.fit`, which is fitted in steps and tuned."""

    def _about_fit(self: Any, names: Names, /, *, along: str, beside: tuple[str, ...]) -> Any:
        """Give those fields of a description that every method has, and what was tuned.

        `along` is the setting that the scores are drawn along, and `beside` are the others.
        """
        count = self.n_effective_features_
        return {
            **self._about(names),
            "n_samples": self._n_samples,
            "place": self.place_,
            "n_steps": self.n_iter_,
            "ended": ended_text(self.status_),
            "dimension": (count, "effective direction"),
            "units": "" if self.scaling_ is None else self.scaling_.note,
            "tuning": Tuning(
                tuple(self.tuning_),
                SCORES[is_classifier(self)],
                along=along,
                beside=beside,
                cut_short=bool(getattr(self, "tuning_cut_short_", False)),
            ),
        }


def feature_names(estimator: Any, features: Sequence[str] | None = None, /) -> tuple[str, ...]:
    """Names of the features: those given, those of the fit, or x0, x1, ..."""
    if features is None and hasattr(estimator, "feature_names_in_"):
        features = estimator.feature_names_in_
    if features is None:
        return tuple(f"x{k}" for k in range(estimator.n_features_in_))
    return tuple(str(name) for name in features)


def outputs(host: Any, target: str, /) -> tuple[str, ...]:
    """Names of the fitted functions: the target, its columns, the classes, or the second of two."""
    if is_classifier(host):
        classes = host.classes_[-1:] if len(host.classes_) <= 2 else host.classes_
        return tuple(f"class {one}" for one in classes)
    return target_names(target, host.intercept_.shape[0])


def coordinate(host: Any, /) -> str:
    """Say what a function along a direction or a variable is drawn over."""
    return "coordinate along it" + in_unit(host)


def in_unit(host: Any, /) -> str:
    """Say what scaled features are measured in."""
    return "" if host.scaling_ is None else f", in {host.scaling_.unit}"


def task_text(estimator: Any, kind: str = "", /) -> str:
    """Say what was fitted: a regression, or a classification of so many classes."""
    task = "regression"
    if is_classifier(estimator):
        count = len(estimator.classes_)
        task = f"classification of {count} class{'es' if count > 1 else ''}"
    return task + (f" ({kind})" if kind else "")


def ended_text(status: str, /) -> str:
    """Say how a fit ended."""
    if status == Status.TIME_LIMIT.name:  # perhaps before all of it was spent
        return "shortened by max_time"
    return status.lower().replace("_", " ")
