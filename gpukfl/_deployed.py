"""How a fitted model leaves: as a file, as an ONNX graph, or as a smaller model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from gpukfl._checks import check_number
from gpukfl._compression import compressed, own_score
from gpukfl._persistence import write
from gpukfl._reader import Reader


class Deployed:
    """The part of a model that makes others of it, and files; the other part predicts."""

    estimator: Any
    method: str
    feature_names: list[str]
    target_name: str
    reader: Reader | None
    score: Callable[..., float]

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
        TypeError
            If the model holds something that is neither an array nor JSON.
        ValueError
            If it is not as `gpukfl.fit` made it.
        OSError
            If the file cannot be written; an older one stays as it was.
        """
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
        """Give a smaller model whose score is at most `tolerance` lower.

        Of knots, centres, features or members the fewest are kept, among sizes that grow, with
        which the score holds. Learned directions and importances stay as they are.

        Parameters
        ----------
        tolerance : float, default=0.01
            Largest loss of the score that is taken: R², or the share of correct labels; at least 0.
        X, y : as for `score`, optional
            Rows that the fit has not seen, which scores are of. A blend of folds' models has such
            by itself.
        sample_weight : array of shape (n_samples,), optional
            Of these rows.

        Returns
        -------
        Model
            A new one; its attribute `compression` has the scores, the loss, and the sizes. With
            no smaller one that is as good it is equal to this one, and its loss is 0.

        Raises
        ------
        ValueError
            If `tolerance` is negative, or X and y are missing where they are needed.
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

        def score(estimator: Any) -> float:
            if X is None:
                return own_score(estimator)
            return self._with(estimator=estimator).score(X, y, sample_weight)

        estimator, what = compressed(self.estimator, float(tolerance), score)
        return self._with(estimator=estimator, compression=what)

    @abstractmethod
    def _with(self, **changes: Any) -> Self:
        """Give a copy with other fields."""
