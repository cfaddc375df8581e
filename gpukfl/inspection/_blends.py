"""Panels of a blend: what its members came to, and what it predicts of rows it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gpukfl.inspection._description import Described, Description, described
from gpukfl.inspection._figures import Size, draw_one
from gpukfl.inspection._panels import Panel
from gpukfl.inspection._style import BLUE, GREY, ORANGE, plain, short

_POINTS = 2_000  # that a picture shows


@dataclass(frozen=True, eq=False)
class Leaderboard(Panel):
    """Held-out scores of members, and their weights in the blend.

    Attributes
    ----------
    members : tuple of str
        Names, best first.
    scores, errors : array (k,)
        Held-out scores and their standard errors.
    weights : array (k,)
        In the blend; that of the blend itself is 1.
    score : str
        What the score is.
    """

    name: ClassVar[str] = "leaderboard"
    members: tuple[str, ...]
    scores: np.ndarray
    errors: np.ndarray
    weights: np.ndarray
    score: str = "R²"

    @property
    def empty(self) -> str:
        """Why there is nothing to draw."""
        return "" if self.members else "no member has a score"

    def draw(self, ax: Any, /) -> Any:
        """Draw scores with their errors, and say the weights."""
        places = np.arange(len(self.members))[::-1]
        for k, place in enumerate(places):
            color = ORANGE if self.weights[k] == 1.0 else BLUE if self.weights[k] else GREY
            ax.errorbar(self.scores[k], place, xerr=self.errors[k], fmt="o", color=color, ms=5)
        labels = [
            short(name) + (f" ({weight:.0%})".replace("%", " %") if 0 < weight < 1 else "")
            for name, weight in zip(self.members, self.weights, strict=True)
        ]
        ax.set_yticks(places, labels)
        ax.set(title="Members and their blend", xlabel=f"{self.score} on held-out rows")
        plain(ax)
        return ax


@dataclass(frozen=True, eq=False)
class Predicted(Panel):
    """Predictions of rows that the models have not seen, against the truth.

    Attributes
    ----------
    truth, values : array (m, t)
        Targets and their predictions.
    outputs : tuple of str
        Names of the targets.
    """

    name: ClassVar[str] = "predicted"
    truth: np.ndarray
    values: np.ndarray
    outputs: tuple[str, ...]

    @property
    def empty(self) -> str:
        """Why there is nothing to draw."""
        return "" if len(self.truth) else "no row was held out"

    def draw(self, ax: Any, /) -> Any:
        """Draw points of the first target, and the line on which they should be."""
        step = -(-len(self.truth) // _POINTS)
        x, y = self.truth[::step, 0], self.values[::step, 0]
        ends = [float(min(x.min(), y.min())), float(max(x.max(), y.max()))]
        ax.plot(ends, ends, color=GREY, lw=1)
        ax.plot(x, y, ".", ms=4, alpha=0.6, color=BLUE)
        name = short(self.outputs[0])
        ax.set(title="Rows the models have not seen", xlabel=name, ylabel=f"{name}, predicted")
        plain(ax)
        return ax


def plot_leaderboard(
    of: Described | Description, /, *, ax: Any = None, figsize: Size = None
) -> Any:
    """Draw what the members of a blend came to.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted: a portfolio.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure of pyplot.
    figsize : tuple of float, optional
        Width and height in inches of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        What was drawn on.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If the model has no members.
    """
    d = described(of)
    return draw_one(d, d.panel(Leaderboard), ax, figsize)


def plot_predicted(of: Described | Description, /, *, ax: Any = None, figsize: Size = None) -> Any:
    """Draw predictions of rows that the models have not seen, against the truth.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted: a portfolio, of a regression.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure of pyplot.
    figsize : tuple of float, optional
        Width and height in inches of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        What was drawn on.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    ValueError
        If the model has no such predictions.
    """
    d = described(of)
    return draw_one(d, d.panel(Predicted), ax, figsize)
