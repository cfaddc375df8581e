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
    limits : tuple of float, optional
        Ends of the scale, where pictures of several outputs share it.
    one_unit : bool
        Whether these may share it.
    """

    name: ClassVar[str] = "curves"
    centered: ClassVar[bool] = True  # whether each is drawn less its mean
    labels: tuple[str, ...]
    steps: tuple[np.ndarray, ...]
    values: tuple[np.ndarray, ...]
    outputs: tuple[str, ...]
    title: str = "Learned functions"
    xlabel: str = ""
    ylabel: str = "contribution to"
    remark: str = ""
    limits: tuple[float, float] | None = None
    one_unit: bool = True

    @property
    def empty(self) -> str:
        """Why there is nothing to draw."""
        if not self.labels:
            return "no function was learned"
        return "" if any(np.ptp(v, axis=0).any() for v in self.values) else "every function is flat"

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

    @property
    def words(self) -> str:
        """Say what the curves are of, and how far the first one reaches."""
        drawn = self._drawn(0)
        ends = drawn.min(), drawn.max()
        of = ", ".join(self.labels)
        first = f"the first from {ends[0]:.3g} to {ends[1]:.3g}"
        return f"functions of {', '.join(self.outputs[:_OUTPUTS])} along {of}{self._less}; {first}"

    @property
    def _less(self) -> str:
        return ", less its mean" if self.centered else ""

    def _drawn(self, rank: int) -> np.ndarray:
        """Values (points, t) of a curve as they are drawn."""
        values = self.values[rank]
        return values - values.mean(axis=0) if self.centered else values

    def apart(self) -> list[tuple[str, Panel]]:
        """Give a panel for each of the leading outputs."""
        if len(self.outputs) == 1:
            return [("", self)]
        shown = self._leading()
        if not self.one_unit:
            return [(self.outputs[k], self.of(k)) for k in shown]
        spans = [self._drawn(rank)[:, shown] for rank in range(len(self.values))]
        ends = min(v.min() for v in spans), max(v.max() for v in spans)
        room = 0.05 * (ends[1] - ends[0])
        limits = float(ends[0] - room), float(ends[1] + room)
        return [(self.outputs[k], replace(self.of(k), limits=limits)) for k in shown]

    def draw(self, ax: Any, /) -> Any:
        """Draw one picture, or one for each of several outputs in the place of the axes."""
        if len(self.outputs) == 1:
            self._draw_output(ax, 0)
            label = f"{self.ylabel} {short(self.outputs[0])}{self._less}"
            ax.set(title=self.title, xlabel=self.xlabel, ylabel=label)
            if self.limits is not None:
                ax.set_ylim(self.limits)
            self._finish(ax, ax)
            return ax
        place = ax.get_subplotspec()
        if place is None:
            msg = "expected an axes that plt.subplots made for several outputs, or output=..."
            raise ValueError(msg)
        figure = ax.figure
        ax.remove()
        return self._draw_several(figure.add_subfigure(place))

    def _draw_several(self, figure: Any) -> np.ndarray:
        shown = self._leading()
        left = len(self.outputs) - len(shown)
        more = f" ({left} of {len(self.outputs)} left out, which vary less)" if left else ""
        figure.suptitle(self.title + more, fontsize="large")
        figure.supylabel(f"{self.ylabel} it{self._less}", fontsize="medium")
        shared = {"sharex": True, "sharey": self.one_unit, "squeeze": False}
        cells = figure.subplots(*self.shape, **shared).ravel()
        for cell, k in zip(cells, shown, strict=False):
            self._draw_output(cell, k)
            cell.set_title(short(self.outputs[k]), fontsize="medium")
        for cell in cells[len(shown) :]:
            cell.remove()
        lowest = cells[: len(shown)][-self.shape[1] :]
        for cell in lowest:
            cell.tick_params(labelbottom=True)
        for cell in lowest[1:2] if len(lowest) == _ACROSS else lowest:
            cell.set_xlabel(self.xlabel, fontsize="small")
        self._finish(cells[0], figure, loc="outside lower center", ncol=min(len(self.labels), 4))
        return cells[: len(shown)]

    def _leading(self) -> list[int]:
        spans = sum(np.ptp(values, axis=0) for values in self.values)
        return sorted(np.argsort(-spans, kind="stable")[:_OUTPUTS].tolist())

    def _draw_output(self, ax: Any, k: int) -> None:
        for rank, (label, t) in enumerate(zip(self.labels, self.steps, strict=True)):
            color = viridis(rank, len(self.labels))
            ax.plot(t, self._drawn(rank)[:, k], color=color, lw=1.6, label=label)
        plain(ax)

    def _finish(self, ax: Any, where: Any, **options: Any) -> None:
        """Name the curves of an axes there, or in a figure of several."""
        legend(ax, where, title=self.remark or None, title_fontsize=7, **options)


@dataclass(frozen=True, eq=False)
class StumpCurves(Curves):
    """Sums of decision stumps, one curve a feature, as they are, with ticks at the thresholds.

    Attributes
    ----------
    thresholds : tuple of arrays
        Of each curve.
    """

    name: ClassVar[str] = "stumps"
    centered: ClassVar[bool] = False
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
        plain(ax)

    def _finish(self, ax: Any, where: Any, **options: Any) -> None:
        low, high = ax.get_ylim()  # room for the ticks, and for names inside
        above = 0.4 if where is ax else 0.0
        ax.set_ylim(low - 0.25 * (high - low), high + above * (high - low))
        super()._finish(ax, where, **{"ncol": 2, "loc": "upper center", **options})
