"""A fitted model as `gpukfl.fit` returns it: predictions, a summary, pictures, a file."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from gpukfl._array import Array, to_host
from gpukfl._columns import numeric_frame
from gpukfl._persistence import read, write
from gpukfl._target import host_target


@dataclass(eq=False)
class Model:
    """A tuned and fitted estimator, and how it came about.

    Attributes
    ----------
    estimator : scikit-learn estimator
        What predicts; every fitted attribute is there.
    method, task : str
        What was fitted, and "regression" or "classification".
    n_samples : int
        Samples fitted on: without those of zero weight, copies of one counted once.
    feature_names : list of str
        One for each feature.
    target_name : str
        What is predicted.
    tuning : list of dict
        Setting, hold-out score and whether it was chosen, for each setting tried.
    seconds : float
        Time that tuning and fitting took.
    target_kind : str
        What the target's values were: floats, integers, booleans, categories or text.
    """

    estimator: Any
    method: str
    task: str
    n_samples: int
    feature_names: list[str]
    target_name: str
    tuning: list[dict[str, Any]]
    seconds: float
    target_kind: str = ""

    def __post_init__(self) -> None:
        self.tuning = [
            {key: value for key, value in trial.items() if key != "estimator"}
            for trial in self.tuning
        ]

    def predict(self, X: Any) -> Array:
        """Predict the target at `X`, of the library that was used in `fit`."""
        return self.estimator.predict(numeric_frame(X))

    def predict_proba(self, X: Any) -> Array:
        """Estimate the classes' probabilities at `X`.

        Raises
        ------
        TypeError
            If the model is a regression.
        """
        if not is_classifier(self.estimator):
            msg = "expected a classification model, got a regression: use predict"
            raise TypeError(msg)
        return self.estimator.predict_proba(numeric_frame(X))

    def transform(self, X: Any) -> Array:
        """Project `X` on the learned directions."""
        return self.estimator.transform(numeric_frame(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of a regression, share of correct labels of a classification."""
        return self.estimator.score(numeric_frame(X), host_target(y), sample_weight=sample_weight)

    @property
    def feature_importances_(self) -> np.ndarray:
        """Importance of each feature, summing to 1."""
        return to_host(self.estimator.feature_importances_)

    def most_important(self, count: int = 10) -> list[tuple[str, float]]:
        """Names and importances of the leading features that have any, or of the first."""
        importances = self.feature_importances_
        order = np.argsort(-importances, kind="stable")[:count]
        order = order[importances[order] > 0] if importances.any() else order
        return [(self.feature_names[k], float(importances[k])) for k in order]

    def summary(self) -> str:
        """Say in plain text what was fitted, how it went, and what matters."""
        e = self.estimator
        score_name = "R²" if self.task == "regression" else "explained Brier score"
        lines = [
            f"{type(e).__name__} for {self.target_name}",
            f"  data        {self.n_samples} samples, {len(self.feature_names)} features",
            f"  task        {self._task_text()}",
            f"  model       {e._model_text()}",
            f"  computed    on {e.place_}, {e._facts()['kernel products']}",
            f"  fit         {e.n_iter_} steps, {e.status_.lower().replace('_', ' ')}, "
            f"{self.seconds:.1f} s with tuning",
        ]
        chosen = [trial for trial in self.tuning if trial["chosen"]]
        if chosen:
            lines.append(
                f"  hold-out    {score_name} {chosen[0]['score']:.4f}, best of "
                f"{len(self.tuning)} settings"
            )
        plural = "" if e.n_effective_features_ == 1 else "s"
        lines.append(f"  dimension   {e.n_effective_features_} {e._dimension_name}{plural}")
        lines.append("  importance")
        lines += [f"    {name:<24} {value:6.3f}" for name, value in self.most_important()]
        return "\n".join(lines)

    def _task_text(self) -> str:
        count = len(self.estimator.classes_) if self.task == "classification" else 0
        classes = f" of {count} class{'es' if count > 1 else ''}" if count else ""
        return self.task + classes + (f" ({self.target_kind})" if self.target_kind else "")

    def plot(self) -> Any:
        """Draw importances, learned directions, shape functions or profiles, and the objective.

        Returns
        -------
        matplotlib.figure.Figure
            Four panels.

        Raises
        ------
        ImportError
            If matplotlib is not installed; says how to install it.
        """
        from gpukfl.inspection import plot_model

        return plot_model(self)

    def report(self, path: str | Path, *, scores: dict[str, float] | None = None) -> None:
        """Write one HTML file with the summary and the pictures inside.

        Parameters
        ----------
        path : str or Path
            Where to write.
        scores : dict, optional
            Named scores to show, for example on held-out rows.
        """
        from gpukfl.inspection import write_report

        write_report(self, path, scores=scores or {})

    def save(self, path: str | Path) -> None:
        """Write the model to one file that `gpukfl.load` reads anywhere.

        Parameters
        ----------
        path : str or Path
            The file; an older one is replaced when the new one is complete.

        Raises
        ------
        TypeError
            If the model holds something that is neither an array nor JSON.
        ValueError
            If it is not as `gpukfl.fit` made it.
        OSError
            If the file cannot be written; an older one stays as it was.
        """
        write(path, self.estimator, self._about())

    def _about(self) -> dict[str, Any]:
        """Give what is known beside the estimator."""
        names = [field.name for field in fields(self) if field.name != "estimator"]
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        return (
            f"Model({self.method}, {self.task}, {self.n_samples} samples, "
            f"{len(self.feature_names)} features)"
        )


def load(path: str | Path, /) -> Model:
    """Read a model that `Model.save` wrote; it predicts for NumPy arrays on any machine.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Model
        Ready to predict. Nothing in the file is executed.

    Raises
    ------
    ValueError
        If the file is truncated, damaged, not a gpukfl model, or of another version.
    OSError
        If it cannot be read.
    """
    estimator, about = read(path)
    return Model(estimator=estimator, **about)
