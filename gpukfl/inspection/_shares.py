"""Panels of a series of polynomials: shares of directions, and degrees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gpukfl.inspection._panels import Panel
from gpukfl.inspection._style import BLUE, legend, plain, viridis, whole_steps

_SHOWN = 8  # directions that can be told apart


@dataclass(frozen=True, eq=False)
class Eta(Panel):
    """Shares of directions, or of variables, over the iterations.

    Attributes
    ----------
    shares : array (k, d)
        After each update, summing to 1.
    features : tuple of str, optional
        Names of the variables; directions are numbered by their last share.
    """

    name: ClassVar[str] = "eta"
    shares: np.ndarray
    features: tuple[str, ...] | None = None

    def draw(self, ax: Any, /) -> Any:
        """Draw a curve each, those of the largest last shares named, and the threshold 1/d."""
        shares = self.shares
        order = np.argsort(-shares[-1], kind="stable")
        for place in range(len(order) - 1, -1, -1):
            k, shown = order[place], place < _SHOWN
            name = f"direction {place + 1}" if self.features is None else self.features[k]
            color = viridis(place, min(_SHOWN, len(order))) if shown else "#cccccc"
            label = name if shown else None
            ax.plot(np.arange(len(shares)), shares[:, k], "o-", ms=3, color=color, label=label)
        ax.axhline(1.0 / shares.shape[1], color="#999999", ls=":", lw=1.2)
        ax.set(
            title="Importances over the iterations (dotted: 1/d)",
            xlabel="updates of the directions",
            ylabel=r"$\eta^{r/(2-r)}$",
            ylim=(0.0, None),
        )
        whole_steps(ax.xaxis)
        legend(ax, ncol=2, reverse=True)
        plain(ax)
        return ax


@dataclass(frozen=True, eq=False)
class Degrees(Panel):
    """Total degrees of features, and of the variance that they carry.

    Attributes
    ----------
    tuples : array (k,)
        Share of the features with degree 0, 1, ...
    variance : array (k,)
        Share of the squared coefficients.
    """

    name: ClassVar[str] = "degrees"
    tuples: np.ndarray
    variance: np.ndarray

    def draw(self, ax: Any, /) -> Any:
        """Draw both."""
        steps = np.arange(len(self.tuples))
        ax.bar(steps, self.tuples, color="#c9d6e2", label="of the tuples")
        ax.plot(steps, self.variance, "o-", ms=4, color=BLUE, label="of the variance")
        ax.set(title="Degrees of the Hermite features", xlabel="total degree", ylabel="share")
        whole_steps(ax.xaxis)
        legend(ax, fontsize=8)
        plain(ax)
        return ax
