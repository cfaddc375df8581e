"""How a model tells of itself: as one value, and as a page with rows that it has not seen."""

from __future__ import annotations

import html
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpukfl._call import call_of
from gpukfl._judged import judged, scores_of
from gpukfl._registry import METHODS
from gpukfl.estimators._described import task_text
from gpukfl.inspection import Description, Inferred, Shown, write_report
from gpukfl.tables import Table
from gpukfl.tables._facts import data_facts
from gpukfl.tables._reader import Reader


class Reported(Shown):
    """The part of a model that describes and reports it; the other part predicts."""

    estimator: Any
    method: str
    n_samples: int
    feature_names: list[str]
    target_name: str
    target_kind: str
    seconds: float
    warnings_: list[str]
    reader: Reader | None
    __sklearn_is_fitted__: Callable[[], bool]

    @property
    @abstractmethod
    def table(self) -> Table | None:
        """What the columns of the frame are that the model reads."""

    def describe(self) -> Description:
        """Say what was learned, as one value.

        Returns
        -------
        Description
            Words, names and host arrays, made when it is asked for.
        """
        names: Sequence[str] = self.feature_names
        names = names if self.reader is None else self.reader.encoding.names
        told = self.estimator._described_as(names, self.target_name)
        if self.reader is not None:
            told = self.reader.told(told)
        return replace(
            told.warned_of(self.warnings_),
            task=task_text(self.estimator, self.target_kind),
            n_samples=self.n_samples,
            seconds=self.seconds or None,
            data=told.data or data_facts(self.table, self.feature_names, None),
            call=call_of(self) if self.method in METHODS else told.call,
        )

    def _repr_html_(self) -> str:
        """Give what was learned in short, as notebooks show it."""
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
        """Write one HTML file that says and shows what was learned, for phones and paper too.

        Parameters
        ----------
        path : str or Path
            Where to write; an older file is replaced when the new one is complete.
        scores : dict, optional
            Named scores to show, for example on held-out rows.
        inference : gpukfl.inference.Inference, optional
            What may be concluded, for a section of its own: curves with bands, importances with
            errors, how sure directions are.
        held_out : tuple (X, y), optional
            Rows that the model has not seen, with their targets, or the name of the target's
            column: for scores, pictures of predictions, residuals or calibration, and what
            shuffling each feature costs, with errors.
        fitted_to : tuple (X, y), optional
            The rows of the fit. They tell the ranges of the columns; and a linear model and boosted
            trees are fitted to them, at most 20 000, to be compared on the rows of `held_out`. Of a
            single method with a kernel they give curves bands: at most 1000 rows by two fits to
            half of them; of more the bands are made of at most 500 rows of `held_out`.

        Raises
        ------
        TypeError, ValueError
            If rows or targets are not such as the model knows; says what was expected.
        OSError
            If the page cannot be written; an older one stays as it was.

        Notes
        -----
        Without matplotlib the page has no pictures, and says so. A blend has kept the rows that its
        members were judged by: it shows these where none are given.
        """
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
        """Make all of a report but the inference, and return what writes it with one or without."""
        told = judged(self, self.describe(), held_out, fitted_to, with_bands=with_bands)
        known = scores_of(told, held_out) | (scores or {})
        return lambda path, inference: write_report(told, path, scores=known, inference=inference)
