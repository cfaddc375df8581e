"""Contributions of columns to the predictions of rows: numbers and pictures."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from gpukfl.core._checks import check_bool
from gpukfl.inspection._figures import Size, get_axes
from gpukfl.inspection._panels import BARS, OutputsPanel
from gpukfl.inspection._style import (
    BARS_TEXT,
    BLUE,
    GREY,
    ORANGE,
    PALE,
    name_rows,
    name_values,
    number_text,
    shorten_label,
    style_axes,
)

if TYPE_CHECKING:
    import pandas as pd

_ROWS = 10  # columns in a picture; others are joined
_POINTS = 1_000  # rows of a summary that are drawn
_LAYERS = 24  # points beside each other in a summary
_WIDTH = 6.4  # inches
_FEWEST = 4  # columns for which there is room
_LETTERS = 36  # of a column with its value
_BELOW, _BELOW_SEVERAL = 80, 48  # letters of a line of a remark


@dataclass(frozen=True, eq=False)
class Explanation:
    """The contributions of columns to the predictions of rows.

    Of one output arrays have no last axis t. ``prediction`` is the sum of ``baseline`` and the
    contributions of a row.

    Attributes
    ----------
    columns : tuple of str (p,)
        Columns of the table, or names of groups.
    outputs : tuple of str (t,)
        Targets or classes; of two classes the second.
    unit : str
        What contributions are parts of: the target's name, "log odds" or "probability".
    contributions : array (n, p) or (n, p, t)
        Shapley values.
    standard_error : array, like `contributions`
        What they are off by, as not all orders of columns were taken; 0 where they are exact, NaN
        where nothing is known.
    spread : array, like `contributions`, or None
        Standard deviation over the models of the folds; None of a model without these.
    baseline : float, or array (t,)
        Mean prediction for the background rows.
    prediction : array (n,) or (n, t)
        In the same unit.
    values : array of object (n, p)
        The rows' values: numbers, labels, or None where missing or not to be shown.
    n_background, n_taken : int
        Background rows, and how many of them the rows were compared with.
    index : sequence, optional
        The index of the rows, if they were a pandas frame.
    remembered : array, like `prediction`, or None
        What predictions have of copies of these rows in the fit, which columns share equally; None
        where nothing is remembered.
    """

    columns: tuple[str, ...]
    outputs: tuple[str, ...]
    unit: str
    contributions: np.ndarray
    standard_error: np.ndarray
    spread: np.ndarray | None
    baseline: Any
    prediction: np.ndarray
    values: np.ndarray
    n_background: int
    n_taken: int
    index: Any = None
    remembered: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.contributions)

    def __repr__(self) -> str:
        of = f", {len(self.outputs)} outputs" if len(self.outputs) > 1 else ""
        said = f"Explanation({len(self)} rows, {len(self.columns)} columns{of})"
        return "\n".join([said, *self.remarks])

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be known of contributions: how much is of copies of the rows in the fit."""
        said = _remembered_text(self._remembered, self.unit)
        return (said,) if said else ()

    @property
    def _remembered(self) -> np.ndarray:
        """What is remembered of rows (n, t)."""
        known = np.zeros(()) if self.remembered is None else self.remembered
        return np.broadcast_to(known, self.prediction.shape).reshape(len(self), -1)

    def to_frame(self, *, totals: bool = False) -> pd.DataFrame:
        """Return the contributions as a frame.

        Parameters
        ----------
        totals : bool, default=False
            Add two columns: "baseline", and "prediction", which is the sum of all others.

        Returns
        -------
        DataFrame
            Contributions, indexed like the explained rows. Its columns are those of the data, or
            pairs of an output and a column.
        """
        import pandas as pd

        check_bool("totals", totals)
        n, p = self.contributions.shape[:2]
        parts, names = self.contributions.reshape(n, p, -1), self.columns
        if totals:
            baseline = np.broadcast_to(self.baseline, self.prediction.shape).reshape(n, 1, -1)
            parts = np.concatenate([parts, baseline, self.prediction.reshape(n, 1, -1)], axis=1)
            names = (*names, "baseline", "prediction")
        if self.contributions.ndim == 2:
            return pd.DataFrame(parts[:, :, 0], columns=list(names), index=self.index)
        pairs = pd.MultiIndex.from_product([self.outputs, names], names=["output", "column"])
        flat = np.moveaxis(parts, 2, 1).reshape(n, -1)
        return pd.DataFrame(flat, columns=pairs, index=self.index)

    def row(self, i: int, /) -> Waterfall:
        """Return the panel of row `i`, counted from 0.

        Raises
        ------
        IndexError
            If there is no such row.
        """
        if not -len(self) <= i < len(self):
            msg = f"expected i to be the number of one of {len(self)} rows, got {i!r}"
            raise IndexError(msg)
        here = [i % len(self)]
        first, errors, baseline, prediction = self._arrays()
        return Waterfall(
            self.columns,
            first[here],
            errors[here],
            baseline,
            prediction[here],
            self.outputs,
            self.unit,
            self.values[here],
            _remembered_text(self._remembered[here], self.unit),
        )

    def summary(self) -> Beeswarm:
        """Return the panel of all rows, which prints the leading columns in words."""
        said = "; ".join(self.remarks)
        return Beeswarm(self.columns, *self._arrays(), self.outputs, self.unit, self.values, said)

    def plot_row(
        self,
        i: int = 0,
        *,
        output: int | str | None = None,
        ax: Any = None,
        figsize: Size = None,
    ) -> Any:
        """Draw how contributions lead from the baseline to the prediction for row `i`.

        Parameters
        ----------
        i : int, default=0
            Number of the row.
        output : int or str, optional
            One class or target only. By default all up to six, in small pictures.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure of pyplot. Several outputs take its place.
        figsize : tuple of float, optional
            Width and height in inches of a new figure.

        Returns
        -------
        matplotlib.axes.Axes or array of these
            What was drawn on: an array where there are several outputs.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        IndexError, ValueError
            If there is no such row or output.
        """
        return _draw(self.row(i), output, ax, figsize)

    def plot_summary(
        self, *, output: int | str | None = None, ax: Any = None, figsize: Size = None
    ) -> Any:
        """Draw the contributions to all rows, a line of points for each leading column.

        Parameters
        ----------
        output : int or str, optional
            One class or target only. By default all up to six, in small pictures.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure of pyplot. Several outputs take its place.
        figsize : tuple of float, optional
            Width and height in inches of a new figure.

        Returns
        -------
        matplotlib.axes.Axes or array of these
            What was drawn on: an array where there are several outputs.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If there is no such output.
        """
        return _draw(self.summary(), output, ax, figsize)

    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return contributions and errors (n, p, t), the baseline (t,) and predictions (n, t)."""
        n, p = self.contributions.shape[:2]
        both = (one.reshape(n, p, -1) for one in (self.contributions, self.standard_error))
        first, second = both
        return first, second, np.atleast_1d(self.baseline), self.prediction.reshape(n, -1)


def stack_outputs(parts: Sequence[Explanation], outputs: tuple[str, ...], /) -> Explanation:
    """Return explanations of one output each, of the same rows and columns, as one of several."""
    known = [one.spread for one in parts if one.spread is not None]
    return replace(
        parts[0],
        outputs=outputs,
        contributions=np.stack([one.contributions for one in parts], axis=2),
        standard_error=np.stack([one.standard_error for one in parts], axis=2),
        spread=None if len(known) < len(parts) else np.stack(known, axis=2),
        baseline=np.array([one.baseline for one in parts]),
        prediction=np.stack([one.prediction for one in parts], axis=1),
        n_background=min(one.n_background for one in parts),
        n_taken=min(one.n_taken for one in parts),
    )


@dataclass(frozen=True, eq=False, repr=False)
class _Contributions(OutputsPanel):
    """Contributions and their errors (n, p, t), with what they sum to."""

    columns: tuple[str, ...]
    contributions: np.ndarray
    standard_error: np.ndarray
    baseline: np.ndarray
    prediction: np.ndarray
    outputs: tuple[str, ...]
    unit: str
    values: np.ndarray
    remark: str = ""  # on what is remembered of the rows

    def _only(self, k: int) -> Self:
        return replace(
            self,
            contributions=self.contributions[:, :, [k]],
            standard_error=self.standard_error[:, :, [k]],
            baseline=self.baseline[[k]],
            prediction=self.prediction[:, [k]],
            outputs=(self.outputs[k],),
        )

    def __repr__(self) -> str:
        """Return in words what each output's leading columns add."""
        parts = [(one, self._only(k)) for k, one in enumerate(self.outputs)]
        several = len(parts) > 1
        return "\n".join(
            f"{one}: {panel.words}" if several else panel.words for one, panel in parts
        )

    @property
    def _label(self) -> str:
        """The label of the axis of contributions."""
        of = f" of {self.outputs[0]}" if self.unit != self.outputs[0] else ""
        return shorten_label(f"{self.unit}{of}", _LETTERS)

    @property
    def _remark_in_words(self) -> str:
        return f"; {self.remark}" if self.remark else ""

    @property
    def _remark_below(self) -> str:
        """The remark in lines, as it stands below an axis."""
        width = _BELOW if len(self.outputs) == 1 else _BELOW_SEVERAL
        return "".join(f"\n{line}" for line in textwrap.wrap(self.remark, width))

    @property
    def _unit_of_several(self) -> str:
        return f", {self.unit}" if len(self.outputs) > 1 else ""

    def _order(self, k: int) -> np.ndarray:
        """Return the columns, those with the largest mean absolute contributions first."""
        return np.argsort(-np.abs(self.contributions[:, :, k]).mean(axis=0), kind="stable")


@dataclass(frozen=True, eq=False, repr=False)
class Waterfall(_Contributions):
    """The contributions to the prediction for one row."""

    name: ClassVar[str] = "explained_row"
    subject: str = "Contributions to one prediction"

    @property
    def title(self) -> str:  # type: ignore[override]
        """What is drawn, with its unit where outputs do not name it."""
        return self.subject + self._unit_of_several

    @property
    def words(self) -> str:
        """Return the prediction and the leading contributions in words."""
        first, order = self.contributions[0, :, 0], self._order(0)[:5]
        said = ", ".join(f"{self._column(j)} {_signed(first[j])}" for j in order)
        of = number_text(self.prediction[0, 0]), number_text(self.baseline[0])
        said = f"{self.subject}: {self._label} {of[0]} from a mean of {of[1]}: {said}"
        return said + self._remark_in_words

    def _column(self, j: int) -> str:
        value = self.values[0, j]
        return self.columns[j] if value is None else f"{self.columns[j]} = {_value_text(value)}"

    def _draw_output(self, ax: Any, k: int) -> None:
        """Draw bars from the baseline at the bottom to the prediction at the top."""
        names, steps, errors = self._bars(k)
        ends = self.baseline[k] + np.cumsum(steps)
        starts, y = ends - steps, np.arange(len(steps))
        colors = [ORANGE if step >= 0 else BLUE for step in steps]
        ax.axvline(self.baseline[k], color=PALE, lw=1.0, zorder=0)
        ax.axvline(self.prediction[0, k], color=GREY, lw=0.8, ls="--", zorder=0)
        ax.barh(y, steps, left=starts, color=colors, height=0.66)
        ax.vlines(ends[:-1], y[:-1], y[1:], color=GREY, lw=0.8)
        known = errors > 0
        bars = {"fmt": "none", "ecolor": GREY, "capsize": 2, "lw": 0.8}
        ax.errorbar(ends[known], y[known], xerr=errors[known], **bars)
        # Numbers in a column on the right, as those beside bars would cover names
        text = {"ha": "left", "va": "center", "fontsize": 8, "xycoords": ("axes fraction", "data")}
        for at, step, color in zip(y, steps, colors, strict=True):
            ax.annotate(_signed(step), (1.0, at), color=color, **text)
        ax.use_sticky_edges = False  # room before the first bar, too
        ax.margins(x=0.05)
        ax.set_ylim(-0.6, max(len(steps), _FEWEST) - 0.4)
        name_rows(ax, names, _LETTERS)
        ends_said = f"{number_text(self.baseline[k])} on average, "
        ends_said += f"{number_text(self.prediction[0, k])} here"
        said = ends_said if len(self.outputs) > 1 else f"{self._label}: {ends_said}"
        name_values(ax, said + (BARS_TEXT if known.any() else "") + self._remark_below)
        style_axes(ax)
        ax.grid(axis="y", visible=False)

    def _bars(self, k: int) -> tuple[list[str], np.ndarray, np.ndarray]:
        """Return names, contributions and errors of the bars, the smallest first."""
        order, first = self._order(k), self.contributions[0, :, k]
        order = order[(first[order] != 0.0) | (np.arange(len(order)) < _FEWEST)]
        shown = order[: _ROWS if len(order) <= _ROWS else _ROWS - 1]
        rest, names = order[len(shown) :], [self._column(j) for j in shown]
        steps, errors = first[shown], self.standard_error[0, shown, k]
        if len(rest):
            names.append(f"{len(rest)} other columns")
            steps, errors = np.append(steps, first[rest].sum()), np.append(errors, 0.0)
        return names[::-1], steps[::-1], errors[::-1]


@dataclass(frozen=True, eq=False, repr=False)
class Beeswarm(_Contributions):
    """The contributions to the predictions of many rows."""

    name: ClassVar[str] = "explained_rows"

    @property
    def title(self) -> str:  # type: ignore[override]
        """What is drawn, with its unit where outputs do not name it."""
        return f"Contributions to predictions{self._unit_of_several}"

    @property
    def words(self) -> str:
        """Return the leading columns in words."""
        size = np.abs(self.contributions[:, :, 0]).mean(axis=0)
        said = ", ".join(f"{self.columns[j]} {number_text(size[j])}" for j in self._order(0)[:5])
        count = f"{len(self.values)} prediction{'' if len(self.values) == 1 else 's'}"
        return f"mean absolute contributions to {count}: {said}{self._remark_in_words}"

    def _draw_output(self, ax: Any, k: int) -> None:
        """Draw a line of points for each leading column, coloured by its value."""
        from matplotlib import colormaps

        order = self._order(k)[:BARS][::-1]
        rows = np.arange(len(self.values))
        if len(rows) > _POINTS:
            rows = np.linspace(0, len(rows) - 1, _POINTS).astype(int)
        for y, j in enumerate(order):
            x = self.contributions[rows, j, k]
            shade = _ranks(self.values[rows, j])
            colors = np.where(np.isnan(shade), 0.5, shade)
            painted = colormaps["viridis"](0.9 * colors)
            painted[np.isnan(shade)] = (0.6, 0.6, 0.6, 1.0)
            ax.scatter(x, y + _beside(x), c=painted, s=6, lw=0, alpha=0.8)
        ax.axvline(0.0, color="black", lw=0.8)
        name_rows(ax, [self.columns[j] for j in order])
        ax.set_ylim(-0.6, max(len(order), _FEWEST) - 0.4)
        what = "contribution" if len(self.outputs) > 1 else f"contribution to {self._label}"
        said = f"{what}\ncolour: low (dark) to high (light) values"
        ax.set_xlabel(said + self._remark_below)
        style_axes(ax)
        ax.grid(axis="y", visible=False)


def _draw(panel: _Contributions, output: int | str | None, ax: Any, figsize: Size) -> Any:
    """Draw a panel, of which every output has its own scale."""
    shown = panel if output is None else panel.of(output)
    rows = min(len(panel.columns), BARS if isinstance(panel, Beeswarm) else _ROWS)
    down, across = shown.shape
    size = (
        _WIDTH * (1.0 if across == 1 else 0.8 * across),
        down * (1.4 + 0.3 * max(rows, _FEWEST)),
    )
    return shown.draw(get_axes(ax, figsize, size))


def _remembered_text(remembered: np.ndarray, unit: str) -> str:
    """Return in words what is remembered of rows (n, t), or nothing where it is zero."""
    sizes = np.abs(remembered).max(axis=1)
    count = int(np.count_nonzero(sizes))
    if not count:
        return ""
    rows = (
        "this row"
        if len(sizes) == 1
        else f"{count} of {len(sizes)} rows ({count / len(sizes):.0%})"
    )
    most = f"{number_text(float(sizes.max()), 3)} of {unit}"
    return (
        f"the fit has seen copies of {rows}: what it remembers of their targets, at most {most}, "
        "is shared equally among the columns"
    )


def _beside(x: np.ndarray) -> np.ndarray:
    """Return offsets in (-0.4, 0.4) that keep points at equal places apart."""
    span = float(np.ptp(x)) or 1.0
    bins = np.floor((x - x.min()) / span * 60).astype(np.int64)
    offset = np.zeros(len(x))
    for one in np.unique(bins):
        here = np.flatnonzero(bins == one)
        at = np.arange(len(here)) % _LAYERS
        offset[here] = np.where(at % 2 == 0, at, -at - 1) // 2
    most = max(np.abs(offset).max(), 6.0)
    return 0.38 * offset / most


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return ranks from 0 to 1 of numbers; NaN of anything else."""
    numbers = np.array(
        [float(one) if isinstance(one, (int, float)) else np.nan for one in values], dtype=float
    )
    known = np.unique(numbers[np.isfinite(numbers)])
    if len(known) < 2:
        return np.full(len(numbers), np.nan if not len(known) else 0.5)
    return np.where(
        np.isfinite(numbers), np.searchsorted(known, numbers) / (len(known) - 1), np.nan
    )


def _signed(value: float) -> str:
    return f"{'' if value < 0 else '+'}{number_text(value, 3)}"


def _value_text(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    text = number_text(value)
    return text.rstrip("0").rstrip(".") if "." in text else text
