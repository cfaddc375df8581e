"""Panels of a sum of many terms: how few carry it, and a bound on its risk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gpukfl.inspection._panels import Panel
from gpukfl.inspection._style import BLUE, GREY, ORANGE, plain


@dataclass(frozen=True, eq=False)
class Sparsity(Panel):
    """How few parameters carry a model, and what pruning cost.

    Attributes
    ----------
    sizes : array (k,)
        Absolute coefficients of the parameters that are left.
    drawn : int
        Parameters before.
    pruned : tuple of (int, float)
        Parameters left, and degradation, of each pruned model.
    tolerance : float
        Degradation that was allowed.
    rule : str
        What the degradation is of.
    """

    name: ClassVar[str] = "sparsity"
    sizes: np.ndarray
    drawn: int
    pruned: tuple[tuple[int, float], ...] = ()
    tolerance: float = 0.01
    rule: str = ""

    @property
    def empty(self) -> str:
        """Why there is nothing to draw."""
        return "" if self.sizes.any() else "no parameter is left"

    def draw(self, ax: Any, /) -> Any:
        """Draw the share of the largest coefficients, and the degradation of pruned models."""
        sizes, left = np.sort(self.sizes)[::-1], len(self.sizes)
        ax.plot(np.arange(1, left + 1), np.cumsum(sizes) / sizes.sum(), color=BLUE, lw=1.8)
        ax.axvline(self.drawn, color="#999999", ls=":", lw=1.2)
        ax.text(self.drawn, 0.02, "drawn ", ha="right", va="bottom", fontsize=8, color=GREY)
        ax.axvline(left, color=BLUE, ls="--", lw=1.2)
        ax.set(
            title=f"Sparsity: {left} of {self.drawn} parameters",
            xlabel="parameters, largest coefficients first",
            ylabel="share of the absolute coefficients",
            ylim=(0.0, 1.02),
        )
        if self.pruned:
            twin = ax.twinx()
            twin.plot(*zip(*self.pruned, strict=True), "s", ms=4, color=ORANGE)
            twin.axhline(self.tolerance, color=ORANGE, ls=":", lw=1.2)
            twin.set_ylabel(f"degradation when pruned, by “{self.rule}”", color=ORANGE)
            twin.set_yscale("symlog", linthresh=self.tolerance)
            twin.spines[["top"]].set_visible(False)
        plain(ax)
        return ax


@dataclass(frozen=True, eq=False)
class Bound(Panel):
    """Risks that were measured, and bounds on the risk.

    Attributes
    ----------
    held_out, training, bounds : dict of str: float
        Names and risks: the last are bounds.
    """

    name: ClassVar[str] = "bound"
    held_out: dict[str, float]
    training: dict[str, float]
    bounds: dict[str, float]

    def draw(self, ax: Any, /) -> Any:
        """Draw a bar each, on a logarithmic scale."""
        groups = ((self.held_out, BLUE), (self.training, GREY), (self.bounds, ORANGE))
        bars = [(*bar, color) for group, color in groups for bar in group.items()][::-1]
        names, values, colors = zip(*bars, strict=True)
        floor = 0.5 * min((value for value in values if value > 0), default=1.0)
        ax.barh(names, np.maximum(values, floor), left=0.0, color=colors)
        for row, value in enumerate(values):
            ax.text(max(value, floor), row, f" {value:.3g}", va="center", fontsize=8)
        ax.set_xscale("log")
        ax.set_xlim(0.5 * floor, 8.0 * max(*values, 1.0))
        ax.axvline(1.0, color="#999999", ls=":", lw=1.2)
        ax.set(title="Bound (71) against the truth", xlabel="risk (1: says nothing about labels)")
        plain(ax)
        return ax
