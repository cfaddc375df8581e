"""Representations of fitted models in notebooks, and base classes of what describes itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpukfl.core._files import check_can_write
from gpukfl.inspection._description import Description, summarize, summary_entries, warning_texts
from gpukfl.inspection._figures import plot_model, plot_panel
from gpukfl.inspection._importances import importances_frame, refuse_rows
from gpukfl.inspection._report import Inferred, write_report
from gpukfl.inspection._style import bar_html, escape_html, escape_lines, name_html

if TYPE_CHECKING:
    import pandas as pd

# ------------------------------------------------------------------------------------ card

# What notebooks show: short HTML that takes the colours of the page around it.


_LISTED = 6  # features
_STYLE = """<style>
.gpukfl { line-height: 1.4; max-width: 52rem; overflow-x: auto; }
.gpukfl table { border-collapse: collapse; margin: .3em 0; }
.gpukfl td { text-align: start !important; vertical-align: top; border: 0;
  padding: .1em 1em .1em 0; }
.gpukfl .bars { display: inline-block; width: 7em; }
.gpukfl .bar { display: block; height: .7em; min-width: 1px; background: #4a8fc0; }
.gpukfl .warned { border-left: 3px solid #c25555; padding-left: .6em; margin: .3em 0; }
.gpukfl pre { font: .9em monospace !important; margin: .3em 0; }
</style>"""


def card(d: Description, /) -> str:
    """Return a short HTML card of a fitted model: name, warnings and importances."""
    warned = "".join(f'<div class="warned">{escape_html(one)}</div>' for one in warning_texts(d))
    told = {"found", "warnings"}  # above, in full
    said = {name: text for name, text in summary_entries(d).items() if text and name not in told}
    body = (
        f"<div><b>{escape_html(d.title)}</b> for {name_html(d.target)}</div>"
        f"{warned}{_entries_html(said)}"
    )
    if d.importances is not None:
        body += _importances_html(d.importances.joined().leading(_LISTED))
    facts = _entries_html({name: str(text) for name, text in d.facts.items()})
    more = f"<details><summary>more of the model</summary>{facts}</details>" if d.facts else ""
    return _wrap_html(body + more)


def _entries_html(said: dict[str, str]) -> str:
    rows = (
        f'<tr><td>{escape_html(name)}</td><td dir="auto">{escape_html(text)}</td></tr>'
        for name, text in said.items()
    )
    return f"<table>{''.join(rows)}</table>"


def _importances_html(leading: list[tuple[str, float]]) -> str:
    scale = max((value for _, value in leading), default=0.0) or 1.0
    rows = (
        f'<tr><td>{name_html(name)}</td><td>{value:.3f}</td><td><span class="bars">'
        f"{bar_html(value / scale)}</span></td></tr>"
        for name, value in leading
    )
    return f"<table>{''.join(rows)}</table>"


def _wrap_html(body: str) -> str:
    return f'<div class="gpukfl">{_STYLE}{body}</div>'


def text_card(title: str, words: str, numbers: str, /) -> str:
    """Return a short HTML card of a result: title, paragraph and numbers."""
    said = f'<p dir="auto">{escape_html(words)}</p>' if words else ""
    return _wrap_html(
        f"<div><b>{escape_html(title)}</b></div>{said}<pre>{escape_lines(numbers)}</pre>"
    )


class Told(ABC):
    """A result with a summary, whose first line is its title."""

    @abstractmethod
    def summary(self) -> str:
        """Return a plain-text summary."""

    def _repr_html_(self) -> str:
        """Return the summary, as notebooks show it."""
        title, _, rest = self.summary().partition("\n")
        return text_card(title, "", rest)


# ----------------------------------------------------------------------------------- shown

# What everything can do that describes itself.


class Shown(ABC):
    """A fitted object that summarises, draws and reports its description.

    An estimator of one's own inherits from this and has a `describe`.
    """

    @abstractmethod
    def describe(self) -> Description:
        """Return a description of what was learned.

        Returns
        -------
        Description
            Words, names and host arrays, made when it is asked for.
        """

    def _repr_html_(self) -> str:
        """Return a short HTML card, as notebooks show it."""
        return card(self.describe())

    def summary(self) -> str:
        """Return a plain-text summary of the fit and of the importances."""
        return summarize(self)

    def plot(
        self,
        panel: str | None = None,
        *,
        ax: Any = None,
        figsize: tuple[float, float] | None = None,
    ) -> Any:
        """Draw what was learned with matplotlib.

        Parameters
        ----------
        panel : str, optional
            One panel only: "importances", "directions", "curves", "objective", or another of the
            method's; an unknown one gives an error that lists them.
        ax : matplotlib.axes.Axes, optional
            Where to draw the panel. All panels, or several classes or targets, take its place.
        figsize : tuple of float, optional
            Width and height in inches of a new figure.

        Returns
        -------
        matplotlib.axes.Axes or array of these
            What was drawn on: an array for all panels that have something to draw, and where each
            class or target has its own axes.

        Raises
        ------
        ImportError
            If matplotlib is not installed; says how to install it.
        ValueError
            If there is nothing to draw.
        """
        if panel is not None:
            return plot_panel(self, panel, ax=ax, figsize=figsize)
        return plot_model(self, ax=ax, figsize=figsize)

    def importances(self, *rows: Any) -> pd.DataFrame:
        """Return how much each column matters, with errors and the rows that tell it.

        The question of a blend: how much of the score is lost when the column's values are shuffled
        among held-out rows? Single methods answer questions of their own: how fast predictions
        change with the column (HKRR, RegFeaL, RKHS weightings), how much it weighs in the learned
        directions (BKerNN), or how much permuting adds to the error (selection).

        Parameters
        ----------
        *rows
            None: a blend has shuffled the held-out rows of its fit. For other rows use
            `sklearn.inspection.permutation_importance` or
            `gpukfl.inference.conditional_importance`.

        Returns
        -------
        pandas.DataFrame
            A row for each column of the data, the largest importance first, with columns

            - column: its name;
            - importance: of a blend what is lost of R², or of the explained log loss of classes,
              at least 0; of a single method the share of all columns;
            - standard_error: as the rows are a sample, or their groups where the fit was given
              `groups`, with the models fixed; NaN of single methods, which have none;
            - share: importance as a share of the sum over columns, as `feature_importances_`;
            - group: names of the columns that were shuffled together, as their correlation is at
              least .9, with this one; "" where it was alone. Those of a group share its importance
              in equal parts;
            - rows: how many rows were shuffled, or how many a single method was fitted to.

            Its `attrs` have the "question", and of a blend the "score" and the "rows" in words.

        Notes
        -----
        A blend shuffles all rows that its folds held out, or as many as three seconds suffice for,
        and at least some 500. Each row costs a prediction by its fold's models for every column or
        group. The first look computes them, and the model and its file keep them.
        """
        refuse_rows(rows)
        d = self.describe()
        if d.importances is None:
            msg = f"expected a model with importances, got {d.name}, which has none"
            raise TypeError(msg)
        return importances_frame(d.importances, d.n_samples)

    def report(
        self,
        path: str | Path,
        *,
        scores: dict[str, float] | None = None,
        inference: Inferred | None = None,
    ) -> None:
        """Write one HTML file with the summary and the pictures inside.

        Parameters
        ----------
        path : str or Path
            Where to write.
        scores : dict, optional
            Named scores to show, for example on held-out rows.
        inference : gpukfl.inference.Inference, optional
            What may be concluded, for a section of its own.
        """
        check_can_write(path)
        write_report(self, path, scores=scores or {}, inference=inference)
