"""What a fitted model says of itself: summaries, reports, explanations, curves and drift."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from gpukfl._call import asked_words, call_text
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
            call=call_text(self) if self.method in METHODS else told.call,
            asked=told.asked | asked_words(self),
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
            Rows that the model has not seen, with their targets or the name of the target column.
            They add scores with errors, and a comparison with the held-out rows of the fit. They
            also add pictures of predictions, residuals or calibration, and what shuffling each
            feature costs. Errors are those of groups if the rows have the `groups` column of the
            fit.
        fitted_to : tuple (X, y), optional
            The training set. It adds ranges of the columns, and a comparison with a linear model
            and boosted trees on the rows of `held_out`. These are fitted to at most 20 000 rows.
            For a single method with a kernel, it also adds bands of curves. Up to 1000 rows, they
            take two fits to half of the rows; else they use at most 500 rows of `held_out`.

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
        r"""Return what each column adds to the prediction for each row.

        Contributions are Shapley values: with background rows b and v(S) the mean prediction where
        the columns in S are the row's, and others those of b, a column is paid the mean of what it
        adds to v over all orders of the columns. They sum to the prediction less the baseline, the
        mean prediction for the background rows.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Rows as for `predict`.
        background : array or frame, optional
            Rows to compare with, such as those of the fit. By default a blend takes those that its
            folds held out, with their weights.
        n_background : int, default=32
            How many of these are chosen, at most: together they are like all, in the means and
            variances of columns and in predictions.
        groups : mapping of str to list of str, optional
            Columns that change together, by the name of the group, such as
            ``{"place": ["latitude", "longitude"]}``; each other column is alone.
        output : {"auto", "log_odds", "probability"}, default="auto"
            What is explained of classes: by default log odds, in which effects add up. Of two
            classes it is that of the second, of more one for each. A regression has "auto" only.
        n_walks : int or "auto", default="auto"
            Pairs of orders for each row. More than there are background rows are divided among
            these. By default 64, or at least 8 where the evaluations would be more than 300 000.
        max_time : float, optional
            Seconds, after which the estimates so far are returned; at least one background row is
            taken.
        random_state : int, RandomState or None, default=0
            Draws background rows and orders.
        progress : bool, optional
            Whether progress is shown; by default on terminals and in notebooks.

        Returns
        -------
        gpukfl.inspection.Explanation
            Contributions with their standard errors and their spread over the models of the folds,
            the baseline and the predictions; with `to_frame`, `plot_row` and `plot_summary`. On the
            host in float64.

        Raises
        ------
        TypeError, ValueError
            If the rows, groups or an option are not as described; if a single method, or a model
            from a file without the rows of its fit, is asked without `background`.

        Notes
        -----
        Interventional Shapley values [1]_, by antithetic pairs of orders [2]_: 2 (p - 1)
        predictions for each pair of p columns, fewer where the row and b share values. With at most
        5 columns or groups they are exact. Each pair walks from one background row to the row; f at
        background rows that were not taken is a control variate. A sum of functions of at most two
        columns each is explained exactly by any pair, against each background row that is taken.

        Models explain new rows. Where a blend remembers a row of its fit, all columns share what it
        remembers equally. Columns that are left out, such as identifiers, contribute 0.

        References
        ----------
        .. [1] Lundberg and Lee, "A unified approach to interpreting model predictions", NeurIPS
           2017; Janzing, Minorics and Blöbaum, "Feature relevance quantification in explainable AI:
           a causal problem", AISTATS 2020.
        .. [2] Mitchell, Cooper, Frank and Holmes, "Sampling permutations for Shapley value
           estimation", JMLR 23, 2022, Section 4.
        """
        from gpukfl.inference import explain  # here, so that a fit does not wait for it

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
            default the six most important ones of these kinds.
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
            Largest number of rows to average over; more are sampled.
        max_time : float, optional
            Approximate time limit in seconds, by using fewer rows, at least 20.
        random_state : int, RandomState or None, default=0
            Seed of the sample of rows.

        Returns
        -------
        pandas.DataFrame
            A row for each value of a column, with columns column, value (as the table has it: a
            number, a level, a date), mean (the mean prediction; of classes their probability), low
            and high; and output, the target or class, where there are several. Its `attrs` have the
            number of "rows", "of_rows" that there are, and what the "band" is.

        Raises
        ------
        TypeError, ValueError
            If a column or an option is not as described, or X is missing where it is needed.

        Notes
        -----
        Bands of a blend are two standard errors to either side, by the jackknife over its folds:
        how far the curve moves when a fold of the rows is not fitted. As folds are few, each
        variance is averaged with the mean over the curve, of weight 4 to K - 1. Bands do not
        include the bias that all fits share. Models without folds' models have no bands: low and
        high are NaN. Costs a prediction for each row and value of each column, of all folds'
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
        from gpukfl.inference import infer  # here, so that a fit does not wait for it

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
        from gpukfl.inference._drift import measure_drift  # here, so that a fit does not wait

        check_is_fitted(self.estimator)
        return measure_drift(self, X)
