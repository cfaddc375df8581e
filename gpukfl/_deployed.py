"""How a fitted model leaves: as a file, as an ONNX graph, or as a smaller model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpukfl._checks import check_number
from gpukfl._compression import compressed, measured_again, own_score
from gpukfl._persistence import write
from gpukfl.tables._reader import Reader
from gpukfl.tables._target import order_targets
from gpukfl.tables._training import split_target, take_rows


class Deployed:
    """The part of a model that makes others of it, and files; the other part predicts."""

    estimator: Any
    method: str
    feature_names: list[str]
    target_name: str
    reader: Reader | None
    score: Callable[..., float]
    _rows: Callable[[Any], Any]

    @abstractmethod
    def _about(self) -> dict[str, Any]:
        """Give what is known beside the estimator."""

    def save(self, path: str | Path) -> None:
        """Write the model to one file that `gpukfl.load` reads anywhere.

        Parameters
        ----------
        path : str or Path
            The file; an older one is replaced when the new one is complete.

        Raises
        ------
        NotFittedError
            If the model is a copy that was not fitted.
        TypeError
            If the model holds something that is neither an array nor JSON.
        ValueError
            If it is not as `gpukfl.fit` made it.
        OSError
            If the file cannot be written; an older one stays as it was.
        """
        check_is_fitted(self.estimator)
        write(path, self.estimator, self._about())

    def to_onnx(self, path: str | Path) -> None:
        """Write what predicts to an ONNX file: see `BKerNNRegressor.to_onnx`.

        Parameters
        ----------
        path : str or Path
            The file; an older one is replaced when the new one is complete.

        Raises
        ------
        TypeError
            If predictions are not array operations alone, as of a table with text; says what to
            fit instead.
        ValueError
            If a column of a table has the name of an output.
        ImportError
            If ndonnx is missing: ``pip install 'gpukfl[onnx]'``.
        OSError
            If the file cannot be written; an older one stays as it was.
        """
        self.estimator._to_onnx(path, self.feature_names, self.target_name, self.reader)

    def compress(
        self, tolerance: float = 0.01, X: Any = None, y: Any = None, sample_weight: Any = None
    ) -> Self:
        """Give a smaller model whose score is about `tolerance` lower at most.

        Of knots, centres, features or members the fewest are kept, among sizes that grow, with
        which the score holds on one half of the rows. The other half says what the model lost.
        Learned directions and importances stay as they are.

        Parameters
        ----------
        tolerance : float, default=0.01
            Largest loss of the score that is taken: R², or the share of correct labels; at least 0.
        X, y : as for `score`, optional
            Rows that the fit has not seen, at least 4: a half that is drawn chooses, and the
            scores of `compression` are those of the other half. A blend of folds' models has such
            rows by itself; of one whose members were fitted to all rows these are also what
            intervals and sets are made of.
        sample_weight : array of shape (n_samples,), optional
            Of these rows.

        Returns
        -------
        Model
            A new one; its attribute `compression` has the scores and the loss on the rows that
            have not chosen, their numbers, and the sizes. There the loss may be more than
            `tolerance`, as the rows are a sample. With no smaller one that is as good it is equal
            to this one, and its loss is 0.

        Raises
        ------
        ValueError
            If `tolerance` is negative, or X and y are missing where they are needed, or too few.
        TypeError
            If predictions are those of another library's estimator.

        Notes
        -----
        Centres are chosen by pivoted Cholesky, O(q³) for the q ≤ 4000 of them with the largest
        coefficients, and coefficients by least squares on the old function at the centres. A model
        with standard deviations loses these.
        """
        check_number("tolerance", tolerance, low=0)
        if (X is None) != (y is None) or (X is None and self.method != "auto"):
            msg = (
                "expected rows X, and their y, that the fit has not seen, on which scores are "
                f"compared, got {'no X' if X is None else 'X'} and {'no y' if y is None else 'y'}"
            )
            raise ValueError(msg)

        if X is None:
            n_rows, score = len(self.estimator.out_of_fold_.truth), own_score
        else:
            X, y, _ = split_target(X, y)
            y = order_targets(y, self.target_name)
            n_rows = y.shape[0] if hasattr(y, "shape") else len(y)
            score = self._score_at(X, y, sample_weight)
        estimator, what = compressed(self.estimator, float(tolerance), n_rows, score)
        if what.unit == "members" and what.size < what.size_before:
            rows = None if X is None else self._rows(X)
            estimator = measured_again(estimator, rows, y, sample_weight)
        return self._with(estimator=estimator, compression=what)

    def _score_at(self, X: Any, y: Any, weights: Any) -> Callable[[Any, np.ndarray], float]:
        """Give what scores an estimator in place of the model's at some of the rows."""

        def score(estimator: Any, rows: np.ndarray) -> float:
            some = [None if one is None else take_rows(one, rows) for one in (X, y, weights)]
            return self._with(estimator=estimator).score(*some)

        return score

    @abstractmethod
    def _with(self, **changes: Any) -> Self:
        """Give a copy with other fields."""
