"""What everything can do that describes itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from gpukfl.inspection._card import card
from gpukfl.inspection._description import Description
from gpukfl.inspection._figures import plot_model, plot_panel
from gpukfl.inspection._report import Inferred, write_report
from gpukfl.inspection._summary import summarize


class Shown(ABC):
    """Something fitted that says, draws and reports what it has learned, by its description.

    An estimator of one's own inherits from this and has a `describe`.
    """

    @abstractmethod
    def describe(self) -> Description:
        """Say what was learned, as one value.

        Returns
        -------
        Description
            Words, names and host arrays, made when it is asked for.
        """

    def _repr_html_(self) -> str:
        """Give what was learned in short, as notebooks show it."""
        return card(self.describe())

    def summary(self) -> str:
        """Say in plain text what was fitted, how it went, and what matters."""
        return summarize(self)

    def plot(
        self,
        panel: str | None = None,
        *,
        ax: Any = None,
        figsize: tuple[float, float] | None = None,
    ) -> Any:
        """Draw what was learned, by matplotlib's pyplot.

        Parameters
        ----------
        panel : str, optional
            One panel only: "importances", "directions", "curves", "objective", or another of the
            method's; an unknown one gives an error that lists them.
        ax : matplotlib.axes.Axes, optional
            Where to draw the panel.
        figsize : tuple of float, optional
            Width and height in inches of a new figure.

        Returns
        -------
        matplotlib.figure.Figure or matplotlib.axes.Axes
            All panels that have something to draw in a figure, or the panel's axes: an array of
            them where each class or target has its own.

        Raises
        ------
        ImportError
            If matplotlib is not installed; says how to install it.
        ValueError
            If there is nothing to draw.
        """
        if panel is not None:
            return plot_panel(self, panel, ax=ax, figsize=figsize)
        if ax is not None:
            msg = "expected the name of a panel to draw into an axes, got none: plot('importances')"
            raise ValueError(msg)
        return plot_model(self, figsize=figsize)

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
        write_report(self, path, scores=scores or {}, inference=inference)
