"""What the members of a blend came to: a panel, and its picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gpukfl.inspection._description import Described, Description, described
from gpukfl.inspection._figures import Size, draw_one
from gpukfl.inspection._panels import Panel
from gpukfl.inspection._style import BLUE, GREY, ORANGE, shorten_label, style_axes

BLEND = "blend"  # the name that it has among its members
_SAID = 5  # members that words name


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

    @property
    def words(self) -> str:
        """Return the best scores in words."""
        known = list(zip(self.members, self.scores, strict=True))[:_SAID]
        return f"held-out {self.score}: " + ", ".join(f"{name} {one:.3f}" for name, one in known)

    def draw(self, ax: Any, /) -> Any:
        """Draw scores with their errors, and say the weights."""
        places = np.arange(len(self.members))[::-1]
        for k, place in enumerate(places):
            own = self.members[k] == BLEND
            color = ORANGE if own else BLUE if self.weights[k] else GREY
            ax.errorbar(self.scores[k], place, xerr=self.errors[k], fmt="o", color=color, ms=5)
        shares = [f" ({w:.0%})".replace("%", " %") if w else "" for w in self.weights]
        labels = [
            shorten_label(name) + ("" if name == BLEND else share)
            for name, share in zip(self.members, shares, strict=True)
        ]
        ax.set_yticks(places, labels)
        ax.set(title="Members and their blend", xlabel=f"{self.score} on held-out rows")
        style_axes(ax)
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
