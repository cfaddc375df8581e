"""The panel of mean predictions along columns, with bands, and its numbers as a frame."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gpukfl.inspection._panels import OUTPUTS, Panel, split_axes
from gpukfl.inspection._style import (
    BLUE,
    COLORS,
    add_legend,
    number_text,
    shorten_label,
    style_axes,
    whole_text,
)

if TYPE_CHECKING:
    import pandas as pd

_ACROSS = 3  # pictures in a row
_LETTERS = 15  # of a level that are shown, and of all of them beside each other
_ROOM = 0.06  # above and below, as a share of what curves span
_SLANTED = 8  # levels whose names have room at a slant
_TURNED = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}


@dataclass(frozen=True, eq=False)
class DependenceCurve:
    """Mean predictions at values of a column, with bands.

    Attributes
    ----------
    column : str
        Its name, or those of dates that move together.
    values : tuple
        Values as the table has them: numbers, levels, dates.
    places : array (g,)
        Where they are drawn.
    is_ordered : bool
        Whether a line connects them: not of levels.
    mean, lower, upper : arrays (g, t)
        Mean predictions with the ends of their bands, NaN where there are none.
    along : str
        The column whose values they are.
    """

    column: str
    values: tuple[Any, ...]
    places: np.ndarray
    is_ordered: bool
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    along: str


@dataclass(frozen=True, eq=False)
class Dependence(Panel):
    """Mean predictions along columns: partial dependence, with bands.

    Attributes
    ----------
    curves : tuple of DependenceCurve
        One for each column.
    outputs : tuple of str
        Targets, or classes, whose probabilities are predicted.
    unit : str
        The name of the target, or "probability".
    n_rows, n_known : int
        Rows that means are over, and rows that there are.
    said : str
        What bands are, in sentences.
    limits : tuple of float, optional
        Ends of the scale that curves share.
    predicts : str
        What is predicted: "median", "0.9 quantile"; empty of means and probabilities.
    """

    name: ClassVar[str] = "partial_dependence"
    title: ClassVar[str] = "Mean prediction along"  # the column, whose name follows
    curves: tuple[DependenceCurve, ...]
    outputs: tuple[str, ...]
    unit: str
    n_rows: int
    said: str
    n_known: int = 0
    limits: tuple[float, float] | None = None
    predicts: str = ""

    @property
    def _of(self) -> str:
        """What is predicted, where it is no mean of the target."""
        return f" of the {self.predicts}" if self.predicts else ""

    @property
    def empty(self) -> str:
        """The reason why nothing can be drawn, or an empty string."""
        return "" if self.curves else "no column has values that the model reads"

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and columns of small pictures."""
        across = max(min(len(self.curves), _ACROSS), 1)
        return max(-(-len(self.curves) // across), 1), across

    @property
    def words(self) -> str:
        """Return in words from where to where each curve goes."""
        said = [
            f"{one.column} between {number_text(one.mean[:, k].min())} and "
            f"{number_text(one.mean[:, k].max())}"
            for one in self.curves
            for k in self._shown[:1]
        ]
        what = f"the {self.predicts} of {self.unit}" if self.predicts else self.unit
        return f"mean predictions of {what} along {', '.join(said)}"

    @property
    def remark(self) -> str:
        """What is to be known of the curves, in sentences."""
        rows = f"{whole_text(self.n_known)} rows"
        if self.n_rows < self.n_known:
            rows = f"{whole_text(self.n_rows)} of {rows}, taken evenly along the predictions"
        dates = [one.column for one in self.curves if one.column != one.along]
        moved = f" Dates move together ({dates[0]}): the times between them stay." if dates else ""
        return (
            "A curve is the mean prediction if every row had this value of the column."
            f"{moved} It is of {rows}. {self.said}"
        )

    @property
    def _shown(self) -> list[int]:
        """The outputs that are drawn: those whose curves vary most."""
        spans = sum(np.ptp(one.mean, axis=0) for one in self.curves)
        return sorted(np.argsort(-np.asarray(spans), kind="stable")[:OUTPUTS].tolist())

    def apart(self) -> list[tuple[str, Panel]]:
        """Return a panel for each curve, all on one scale."""
        limits = self._common_limits()
        return [(one.column, replace(self, curves=(one,), limits=limits)) for one in self.curves]

    def _common_limits(self) -> tuple[float, float]:
        parts = [part for one in self.curves for part in (one.mean, one.lower, one.upper)]
        ends = np.concatenate([part[:, self._shown].ravel() for part in parts])
        low, high = float(np.nanmin(ends)), float(np.nanmax(ends))
        room = _ROOM * (high - low or 1.0)
        return low - room, high + room

    def frame(self) -> pd.DataFrame:
        """Return the curves as a frame, a row for each value of a column and output."""
        import pandas as pd

        rows = [
            {
                "column": one.column,
                "output": output,
                "value": _pandas_value(value),
                "mean": one.mean[g, k],
                "lower": one.lower[g, k],
                "upper": one.upper[g, k],
            }
            for one in self.curves
            for k, output in enumerate(self.outputs)
            for g, value in enumerate(one.values)
        ]
        several = ["output"] if self.outputs != (self.unit,) else []
        names = ["column", *several, "value", "mean", "lower", "upper"]
        frame = pd.DataFrame(rows, columns=names)
        frame.attrs |= {"rows": self.n_rows, "of_rows": self.n_known, "band": self.said}
        return frame

    def draw(self, ax: Any, /) -> Any:
        """Draw one picture, or several in place of the axes."""
        if len(self.curves) == 1:
            self._draw_curve(ax, self.curves[0])
            ax.set_title(f"Mean prediction{self._of} along")
            return ax
        several, title = "several curves, or one of them", f"Mean prediction{self._of}"
        _, cells = split_axes(ax, title, self.shape, len(self.curves), instead=several, sharey=True)
        limits = self._common_limits()
        for cell, one in zip(cells, self.curves, strict=True):
            replace(self, limits=limits)._draw_curve(cell, one)
        return cells

    def _draw_curve(self, ax: Any, one: DependenceCurve) -> None:
        shown = self._shown
        for color, k in zip(COLORS if len(shown) > 1 else (BLUE,), shown, strict=False):
            label = self.outputs[k] if len(shown) > 1 else None
            lower, mean, upper = one.lower[:, k], one.mean[:, k], one.upper[:, k]
            if one.is_ordered:
                ax.fill_between(one.places, lower, upper, color=color, alpha=0.22, lw=0)
                ax.plot(one.places, mean, "-", color=color, lw=1.6, label=label)
            else:
                bars = np.nan_to_num(np.stack([mean - lower, upper - mean]))
                ax.errorbar(one.places, mean, bars, fmt="o", ms=4, color=color, label=label)
        self._name_ticks(ax, one)
        alone = self.outputs != (self.unit,) and len(shown) == 1
        of = f" of {self.outputs[0]}" if alone else ""
        ax.set(xlabel=shorten_label(one.along), ylabel=shorten_label(f"{self.unit}{of}"))
        if self.limits is not None:
            ax.set_ylim(self.limits)
        add_legend(ax)
        style_axes(ax)

    def _name_ticks(self, ax: Any, one: DependenceCurve) -> None:
        """Write levels or dates below the picture."""
        if not one.is_ordered:
            names = [shorten_label(str(value), _LETTERS) for value in one.values]
            ax.margins(x=0.15)
            turned = _TURNED if len("".join(names)) > 2 * _LETTERS else {}
            turned = {"rotation": 90} if len(names) > _SLANTED else turned
            ax.set_xticks(one.places, names, **turned)
        elif isinstance(one.values[0], (np.datetime64, np.timedelta64)):
            some = np.unique(np.linspace(0, len(one.places) - 1, 4).round().astype(int))
            is_date = isinstance(one.values[0], np.datetime64)
            unit = "datetime64[D]" if is_date else "timedelta64[s]"
            names = [str(one.values[k].astype(unit)) for k in some]
            ax.set_xticks(one.places[some], names, **_TURNED)


def _pandas_value(value: Any) -> Any:
    """Return a date or duration as pandas has it, and anything else as it is."""
    import pandas as pd

    if isinstance(value, np.datetime64):
        return pd.Timestamp(value)
    return pd.Timedelta(value) if isinstance(value, np.timedelta64) else value
