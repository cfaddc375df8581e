"""Panels of functions of one coordinate: a picture for each class or target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gpukfl.inspection._panels import Panel
from gpukfl.inspection._style import COLORS, legend, plain, short, viridis

_OUTPUTS = 6  # classes or targets that are drawn
_ACROSS = 3  # of them in a row


@dataclass(frozen=True, eq=False)
class Curves(Panel):
    """Functions of one coordinate each: what the model does along what it has learned.

    Each is drawn less its mean. Several classes or targets are small pictures beside each other
    with one scale: the six that vary most, in their order, and a word on how many there are.

    Attributes
    ----------
    labels : tuple of str
        Names of the curves.
    steps : tuple of arrays (points,)
        Coordinates of each curve.
    values : tuple of arrays (points, t)
        What each curve is at them, for every output.
    outputs : tuple of str
        Names of the classes or targets.
    title, xlabel, ylabel : str
        What is drawn; `ylabel` is followed by the output's name where there is one only.
    remark : str
        What is to be known about the curves beside, such as those that are not there.
    """

    name: ClassVar[str] = "curves"
    labels: tuple[str, ...]
    steps: tuple[np.ndarray, ...]
    values: tuple[np.ndarray, ...]
    outputs: tuple[str, ...]
    title: str = "Learned functions"
    xlabel: str = ""
    ylabel: str = "contribution to"
    remark: str = ""

    @property
    def empty(self) -> str:
        """Why there is nothing to draw."""
        return "" if self.labels else "no function was learned"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of small pictures."""
        count = min(len(self.outputs), _OUTPUTS)
        across = count if count <= _ACROSS else -(-count // 2)
        return -(-count // across), across

    def of(self, output: int | str, /) -> Curves:
        """Give the curves of one class or target, by its number or its name.

        Raises
        ------
        ValueError
            If there is no such output.
        """
        names = self.outputs
        known = output in names if isinstance(output, str) else -len(names) <= output < len(names)
        if not known:
            msg = f"expected output to be one of {', '.join(names)}, or its number, got {output!r}"
            raise ValueError(msg)
        k = names.index(output) if isinstance(output, str) else output % len(names)
        return replace(self, values=tuple(v[:, [k]] for v in self.values), outputs=(names[k],))

    def draw(self, ax: Any, /) -> Any:
        """Draw one picture, or one for each of several outputs in the place of the axes."""
        if len(self.outputs) == 1:
            self._draw_output(ax, 0)
            ax.set(title=self.title, ylabel=f"{self.ylabel} {short(self.outputs[0])}")
            self._finish(ax)
            return ax
        place = ax.get_subplotspec()
        if place is None:
            msg = "expected an axes that plt.subplots made for several outputs, or output=..."
            raise ValueError(msg)
        ax.set_axis_off()
        shown = self._leading()
        left = len(self.outputs) - len(shown)
        more = f": {len(shown)} of {len(self.outputs)}, {left} left out vary less" if left else ""
        ax.set_title(self.title + more, pad=22)
        return self._draw_several(ax.figure, place.subgridspec(*self.shape), shown)

    def _draw_several(self, figure: Any, grid: Any, shown: list[int]) -> np.ndarray:
        drawn: list[Any] = []
        across = self.shape[1]
        for place, k in enumerate(shown):
            first = drawn[0] if drawn else None
            cell = figure.add_subplot(grid[divmod(place, across)], sharey=first)
            self._draw_output(cell, k)
            cell.set_title(short(self.outputs[k]), fontsize=9)
            if place % across:
                cell.tick_params(labelleft=False)
            else:
                cell.set_ylabel(f"{self.ylabel} it", fontsize=8)
            cell.xaxis.label.set_fontsize(8)
            drawn.append(cell)
        self._finish(drawn[0])
        return np.array(drawn, dtype=object)

    def _leading(self) -> list[int]:
        spans = sum(np.ptp(values, axis=0) for values in self.values)
        return sorted(np.argsort(-spans, kind="stable")[:_OUTPUTS].tolist())

    def _draw_output(self, ax: Any, k: int) -> None:
        for rank, (label, t, values) in enumerate(
            zip(self.labels, self.steps, self.values, strict=True)
        ):
            curve = values[:, k] - values[:, k].mean()
            color = viridis(rank, len(self.labels))
            ax.plot(t, curve, color=color, lw=1.6, label=label)
        ax.set_xlabel(self.xlabel)
        plain(ax)

    def _finish(self, ax: Any) -> None:
        legend(ax, title=self.remark or None, title_fontsize=7)


@dataclass(frozen=True, eq=False)
class Stumps(Curves):
    """Sums of decision stumps, one curve a feature, as they are, with ticks at the thresholds.

    Attributes
    ----------
    thresholds : tuple of arrays
        Of each curve.
    """

    name: ClassVar[str] = "stumps"
    thresholds: tuple[np.ndarray, ...] = ()

    def _draw_output(self, ax: Any, k: int) -> None:
        for rank, (label, t, values, ticks) in enumerate(
            zip(self.labels, self.steps, self.values, self.thresholds, strict=True)
        ):
            color = COLORS[rank % len(COLORS)]
            ax.plot(t, values[:, k], color=color, lw=1.6, label=label)
            height = np.full(len(ticks), 0.025 * (rank + 1))
            ax.plot(ticks, height, "|", color=color, ms=5, transform=ax.get_xaxis_transform())
        ax.set_xlim(self.steps[0][0], self.steps[0][-1])
        ax.set_xlabel(self.xlabel)
        plain(ax)

    def _finish(self, ax: Any) -> None:
        low, high = ax.get_ylim()  # room for the ticks and the names
        ax.set_ylim(low - 0.25 * (high - low), high + 0.4 * (high - low))
        legend(ax, ncol=2, loc="upper center")
