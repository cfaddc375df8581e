"""Panels of a selection of variables: its rounds, and its path over thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gpukfl.inspection._panels import BARS, Panel
from gpukfl.inspection._style import PALE, legend, level_color, plain, short

_CURVES = 8  # paths that can be told apart


@dataclass(frozen=True, eq=False)
class Rounds(Panel):
    """Scores of variables, and the rounds in which they entered.

    Attributes
    ----------
    features : tuple of str
        Names.
    scores : array (p,)
        At the start of the round where they entered, or of the last round.
    levels : array of int (p,)
        Rounds that selected them, one more than there were where that was no round, 0 for none.
    thresholds : tuple of (int, float)
        Level and threshold γ of each round.
    """

    name: ClassVar[str] = "rounds"
    features: tuple[str, ...]
    scores: np.ndarray
    levels: np.ndarray
    thresholds: tuple[tuple[int, float], ...]

    @property
    def empty(self) -> str:
        """Why there is nothing to draw."""
        return "" if np.any(self.scores > 0) else "no variable has a score"

    def draw(self, ax: Any, /) -> Any:
        """Draw the leading scores, and the threshold of each round."""
        last = np.where(self.levels > 0, self.levels, len(self.thresholds) + 2)
        order = np.lexsort((-self.scores, last))
        order = order[self.scores[order] > 0][:BARS][::-1]
        colors = [level_color(int(self.levels[k])) for k in order]
        ax.scatter(self.scores[order], range(len(order)), c=colors, zorder=3)
        ax.set_yticks(range(len(order)), [short(self.features[k]) for k in order])
        for level, sparsity in self.thresholds:
            if sparsity > 0:
                color, label = level_color(level), f"γ of round {level}"
                ax.axvline(sparsity, color=color, ls="--", lw=1.2, label=label)
        ax.set_xscale("log")
        ax.set(title="Scores where variables entered", xlabel="score (grey: not selected)")
        legend(ax, loc="lower right")
        plain(ax)
        return ax


@dataclass(frozen=True, eq=False)
class Path(Panel):
    """Weights of variables along thresholds γ, and the hold-out score.

    Attributes
    ----------
    features : tuple of str
        Names.
    sparsity : array (k,)
        Thresholds.
    weights : array (k, p)
        Of every variable.
    scores : array (k,)
        On held-out rows.
    chosen : float
        The threshold that was taken.
    score : str
        What the score is.
    """

    name: ClassVar[str] = "path"
    features: tuple[str, ...]
    sparsity: np.ndarray
    weights: np.ndarray
    scores: np.ndarray
    chosen: float
    score: str = "R²"

    def draw(self, ax: Any, /) -> Any:
        """Draw the weights of the leading variables with their names, and the score."""
        leading = np.argsort(-self.weights.max(axis=0), kind="stable")[:_CURVES]
        rest = np.setdiff1d(np.flatnonzero(self.weights.any(axis=0)), leading)
        ax.plot(self.sparsity, self.weights[:, rest], color=PALE, lw=0.8)
        for k in leading[self.weights[:, leading].any(axis=0)]:
            ax.plot(self.sparsity, self.weights[:, k], "o-", ms=3, label=self.features[k])
        twin = ax.twinx()
        twin.plot(self.sparsity, self.scores, "k--", lw=1.2)
        twin.set_ylabel(f"hold-out {self.score} (dashed)")
        twin.spines[["top"]].set_visible(False)
        ax.axvline(self.chosen, color="#555555", lw=0.8)
        ax.set(title="Path over γ", xlabel="γ", ylabel="weight β", xscale="log")
        legend(ax)
        plain(ax)
        return ax
