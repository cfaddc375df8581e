"""Summaries, reports, explanations, curves and drift of a fitted model."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from gpukfl._call import call_text, describe_request
from gpukfl._predictions import ModelPredictions
from gpukfl._registry import METHODS
from gpukfl.core._files import check_can_write
from gpukfl.estimators._base import task_text
from gpukfl.inspection import (
    Description,
    Explanation,
    Inferred,
    Shown,
    write_report,
)
from gpukfl.tables._schema import data_facts

if TYPE_CHECKING:
    import pandas as pd


class ModelExplanations(ModelPredictions, Shown):
    """What a fitted model has learned, in words, tables and pictures."""

    n_samples: int
    feature_names: list[str]
    seconds: float
    target_kind: str
    warnings_: list[str]
    command: str

    def describe(self) -> Description:
        """Return a description of what was learned.

        Returns
        -------
        Description
            Text, names and host arrays.
        """
        names: Sequence[str] = self.feature_names
        names = names if self.reader is None else self.reader.encoding.names
        told = self.estimator._describe_columns(names, self.target_name)
        if self.reader is not None:
            told = self.reader.translate(told)
        return replace(
            told.add_warnings(self.warnings_),
            task=task_text(self.estimator, self.target_kind),
            n_samples=self.n_samples,
            seconds=self.seconds or None,
            data=told.data or data_facts(self.table, self.feature_names, None),
            call=self.command or (call_text(self) if self.method in METHODS else told.call),
            asked=told.asked | describe_request(self),
        )

    def _repr_html_(self) -> str:
        """Return a short HTML description, as notebooks show it."""
        if not self.__sklearn_is_fitted__():
            return f"<pre>{html.escape(repr(self))}</pre>"
        return super()._repr_html_()

    def report(
        self,
        path: str | Path,
        *,
        scores: dict[str, float] | None = None,
        inference: Inferred | None = None,
        held_out: tuple[Any, Any] | None = None,
        fitted_to: tuple[Any, Any] | None = None,
    ) -> None:
        """Write one HTML file that reports what was learned, for screens, phones and paper.

        Parameters
        ----------
        path : str or Path
            Path of the file. An existing file is replaced when the new one is complete.
        scores : dict, optional
            Named scores to show, for example on held-out rows.
        inference : gpukfl.inference.Inference, optional
            A result of `inference`, for a section with bands of curves, importances with errors and
            tests.
        held_out : tuple (X, y), optional
            Test rows: the model has not seen them. y has their targets, or is the name of the
            target column in X. They add scores with errors, and a comparison with the held-out rows
            of the fit. They also add pictures of predictions, residuals or calibration, and what
            shuffling each column costs. Errors are those of groups if the rows have the `groups`
            column of the fit.
        fitted_to : tuple (X, y), optional
            Training rows: those that the model was fitted to. They add ranges of the columns, and a
            comparison with a linear model and boosted trees on the rows of `held_out`. These are
            fitted to at most 20 000 rows. For a single method with a kernel, they also add bands of
            curves. Up to 1000 rows, bands take two fits to half of the rows; else they use at most
            500 rows of `held_out`.

        Raises
        ------
        TypeError, ValueError
            If rows or targets do not match the fit.
        OSError
            If the file cannot be written; an existing file does not change. A missing folder raises
            before any work.

        Notes
        -----
        The page begins with scores, importances and curves of the most important columns. Curves of
        a blend take at most about three seconds, and so do its importances at first access. Without
        matplotlib, the page has no pictures. A blend keeps its held-out rows, and shows these if
        you pass none.
        """
        check_can_write(path)
        rows = {"held_out": held_out, "fitted_to": fitted_to}
        write = self._page(scores, with_bands=inference is None, **rows)
        write(path, inference)

    def _page(
        self,
        scores: dict[str, float] | None,
        /,
        *,
        with_bands: bool,
        held_out: tuple[Any, Any] | None = None,
        fitted_to: tuple[Any, Any] | None = None,
    ) -> Callable[[str | Path, Inferred | None], None]:
        """Prepare a report; return a function that writes it with or without inference."""
        from gpukfl.inference._held_out import evaluate_held_out

        told = evaluate_held_out(self, self.describe(), held_out, fitted_to, with_bands=with_bands)
        known = scores or {}
        return lambda path, inference: write_report(told, path, scores=known, inference=inference)

    def explain(
        self,
        X: Any,
        *,
        background: Any = None,
        n_background: int = 32,
        groups: Mapping[str, Sequence[str]] | None = None,
        output: str = "auto",
        n_walks: int | str = "auto",
        max_time: float | None = None,
        random_state: Any = 0,
        progress: bool | None = None,
    ) -> Explanation:
        """Return what each column adds to the prediction for each row.

        These additions are Shapley values. For each row they sum to the prediction minus the
        baseline, which is the mean prediction for the background rows.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Rows to explain, as for `predict`.
        background : array or frame of shape (n_background_rows, n_features), optional
            Rows to compare with, such as the training set. By default the held-out rows of a blend,
            with their weights. Single methods keep no rows, and need it.
        n_background : int, default=32
            Largest number of background rows. More are reduced to this number, with about the same
            means and variances of columns and predictions.
        groups : mapping of str to list of str, optional
            Groups of columns that are explained together, for example
            ``{"place": ["latitude", "longitude"]}``. For groups of rows see `gpukfl.fit`.
        output : {"auto", "log_odds", "probability"}, default="auto"
            What is explained for classes. "auto" is "log_odds": those of the second of two classes,
            or of each of more classes. A regression takes "auto" only.
        n_walks : int or "auto", default="auto"
            Pairs of orders of the columns that are drawn for each row; more make errors smaller.
            "auto" is 64, or fewer, at least 8, if there would be more than 300 000 predictions.
        max_time : float, optional
            Time limit in seconds, after which the estimates so far are returned. At least one
            background row is used.
        random_state : int, RandomState or None, default=0
            Seed of the background rows and the orders.
        progress : bool, optional
            Whether to show the progress; by default on a terminal and in a notebook.

        Returns
        -------
        gpukfl.inspection.Explanation
            `contributions` of shape (n_samples, n_columns), with a third axis for several targets
            or classes; also `standard_error`, `spread`, `baseline` and `prediction`. All are NumPy
            arrays in float64. It has `to_frame`, `summary`, `plot_row` and `plot_summary`.

        Raises
        ------
        TypeError, ValueError
            If the rows, the groups or an option are not as described, or `background` is missing
            where the model keeps no rows.

        Notes
        -----
        The value of a set of columns is the mean prediction if they come from the row, and all
        others from a background row. The contribution of a column is what it adds to this value,
        averaged over all orders of the columns [1]_. It explains the model, and need not be a
        cause.

        Any model with at most five columns or groups is explained exactly. So are predictions of
        numbers by linear models, trees and product kernels, if all background rows are affordable.
        Otherwise, orders are drawn in pairs, each with its reverse [2]_. `standard_error` is the
        error of this.

        A pair of orders costs 2 (p - 1) predictions for p columns, or fewer if the row and the
        background row share values.

        If a blend remembers copies of a row from its fit, all columns share this part equally.
        Columns that the model drops, such as identifiers, contribute 0.

        References
        ----------
        .. [1] Lundberg and Lee, "A unified approach to interpreting model predictions", NeurIPS
           2017; Janzing, Minorics and Blöbaum, "Feature relevance quantification in explainable AI:
           a causal problem", AISTATS 2020.
        .. [2] Mitchell, Cooper, Frank and Holmes, "Sampling permutations for Shapley value
           estimation", JMLR 23, 2022, Section 4.

        Examples
        --------
        >>> import gpukfl
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> model = gpukfl.fit(X, y, members=["linear"], n_folds=2)
        >>> model.explain(X[:3]).to_frame().shape
        (3, 10)
        """
        from gpukfl.inference import explain  # imported late: a fit does not need it

        return explain(
            self,
            X,
            background=background,
            n_background=n_background,
            groups=groups,
            output=output,
            n_walks=n_walks,
            max_time=max_time,
            random_state=random_state,
            progress=progress,
        )

    def partial_dependence(
        self,
        columns: str | int | Sequence[str | int] | None = None,
        *,
        X: Any = None,
        y: Any = None,
        points: int = 20,
        max_rows: int = 500,
        max_time: float | None = 5.0,
        random_state: Any = 0,
    ) -> pd.DataFrame:
        """Return how the mean prediction varies with each column, with bands.

        A curve is the mean prediction if every row has a value of the column, and all else is
        unchanged. It shows what the model has learned, which need not be a cause.

        Parameters
        ----------
        columns : str, int, or sequence of these, optional
            Names or numbers of columns with numbers, categories, booleans, dates or durations. By
            default the six most important ones of these kinds. Dates then move together, named
            "pickup + dropoff", if the model uses the times between them, which stay. Values are
            those of the first date.
        X : array or frame of shape (n_samples, n_features), optional
            Rows to average over. By default the held-out rows of a blend, with their weights.
            Single methods keep no rows, and need X.
        y : str, or array of shape (n_samples,) or (n_samples, n_targets), optional
            Targets of these rows, at least 40, for bands of a single method. They take fits to
            halves of the rows: see `gpukfl.inference.bands`. Blends need no targets.
        points : int, default=20
            Largest number of values of a column, at least 2. They exclude 2 % of the rows at either
            end. Categories have their 20 most frequent levels.
        max_rows : int, default=500
            Largest number of rows to average over. Of more rows, some are taken evenly along the
            predictions.
        max_time : float, optional
            Approximate time limit in seconds, by using fewer rows, at least 20.
        random_state : int, RandomState or None, default=0
            Seed of the sample of rows.

        Returns
        -------
        pandas.DataFrame
            A row for each value of a column, with columns column, value (as the table has it: a
            number, a level, a date), mean (the mean prediction; for classes their probability),
            lower and upper; and output, the target or class, if there are several. Its `attrs` have
            the number of "rows", of "of_rows" in all, and what the "band" is.

        Raises
        ------
        TypeError, ValueError
            If a column or an option is not as described, or X is missing where it is needed.

        Notes
        -----
        Bands of a blend are two standard errors to either side, by the jackknife over its folds:
        how far the curve moves when a fold of the rows is not fitted. As folds are few, each
        variance is averaged with the mean over the curve, of weight 4 to K - 1. Bands do not
        include the bias that all fits share. Models without folds' models have no bands: lower
        and upper are NaN. Costs a prediction for each row and value of each column, of all folds'
        models.
        """
        from gpukfl.inference._dependence import partial_dependence

        return partial_dependence(
            self,
            columns,
            X=X,
            y=y,
            points=points,
            max_rows=max_rows,
            max_time=max_time,
            random_state=random_state,
        )

    def inference(self, X: Any, y: Any, **options: Any) -> Any:
        """Return confidence bands, tests and errors: see `gpukfl.inference.infer`.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            At least 40 rows: the training set, or new rows with ``held_out=True``.
        y : str, or array of shape (n_samples,) or (n_samples, n_targets)
            Targets of the rows, or the name of the target column in X.
        **options : object
            Options of `gpukfl.inference.infer`.

        Returns
        -------
        gpukfl.inference.Inference
            A frozen result with `summary`, `frames`, `plot` and `report`.

        Raises
        ------
        TypeError, ValueError
            If the rows or an option are not as described.
        """
        from gpukfl.inference import infer  # imported late: a fit does not need it

        return infer(self, X, y, **options)

    def drift(self, X: Any) -> pd.DataFrame:
        r"""Return how much each column of new rows differs from the training set.

        The model keeps a sample of at most 1000 training rows. It compares at most 2000 random new
        rows with it, column by column.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Rows as for `predict`.

        Returns
        -------
        DataFrame
            A row for each column, the smallest p-value first: column; statistic, in [0, 1];
            missing_then and missing_now, shares of rows without a value; change, in words: medians,
            the level whose share changed most, new levels; p_value, adjusted by Holm's method for
            the number of columns; and p_alone, of the column alone.

        Raises
        ------
        TypeError, ValueError
            If the rows are not as described, or a column is missing. If the model has no sample:
            files saved with ``record=False``, older files, and estimators without `gpukfl.fit` have
            none.

        Notes
        -----
        The statistic is the largest difference between the shares of rows up to a value, of numbers
        and dates (Kolmogorov-Smirnov), and half the sum of the differences between the shares of
        levels, of others (total variation). A missing value counts as a value of its own. p is
        exact where values are continuous and complete. Of others it comes from permutations of the
        rows, at most 9999, with which no p is below 1e-4. Rows are treated as independent. With
        groups or times, p is too small.

        Examples
        --------
        >>> import gpukfl
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> model = gpukfl.fit(X[:300], y[:300], members=["linear"])
        >>> found = model.drift(X[300:].assign(bmi=X["bmi"] + 0.1))
        >>> found["column"][0]
        'bmi'
        """
        from gpukfl.inference._drift import measure_drift  # imported late: a fit does not need it

        check_is_fitted(self.estimator)
        return measure_drift(self, X)
