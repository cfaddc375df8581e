"""Panels of held-out rows: predictions, residuals and probabilities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from gpukfl.inspection._class_panels import Confusion, RocCurves
from gpukfl.inspection._panels import OUTPUTS, OutputsPanel, Panel
from gpukfl.inspection._style import (
    BARS_TEXT,
    BLUE,
    COLORS,
    GREY,
    ORANGE,
    add_legend,
    shorten_label,
    style_axes,
)

_POINTS = 1_000  # that a picture holds
_BINS = 10
_FEWEST = 5  # rows in a bin
_ENDS = (0.05, 0.95)  # of residuals


@dataclass(frozen=True, eq=False)
class _TargetsPanel(OutputsPanel):
    """Predictions (n, t) and what is true, of rows that were held out."""

    truth: np.ndarray
    predicted: np.ndarray
    outputs: tuple[str, ...]

    @property
    def empty(self) -> str:
        """The reason why nothing can be drawn, or an empty string."""
        return "" if len(self.truth) else "no rows were held out"

    def _only(self, k: int) -> Self:
        truth, predicted = self.truth[:, [k]], self.predicted[:, [k]]
        return replace(self, truth=truth, predicted=predicted, outputs=(self.outputs[k],))


@dataclass(frozen=True, eq=False)
class Predictions(_TargetsPanel):
    """Predictions against targets on held-out rows.

    Attributes
    ----------
    truth, predicted : arrays (n, t)
        Of all held-out rows; a picture shows some 1000 of them, evenly along the predictions.
    outputs : tuple of str
        Names of the targets.
    intervals : array (n, t, 2), optional
        Lower and upper ends, drawn as bars.
    coverage : float, optional
        Share of the intervals that shall hold the truth.
    """

    name: ClassVar[str] = "predictions"
    title: ClassVar[str] = "Predicted and true values"  # type: ignore[misc]
    intervals: np.ndarray | None = None
    coverage: float | None = None

    def _only(self, k: int) -> Self:
        ends = None if self.intervals is None else self.intervals[:, [k]]
        return replace(super()._only(k), intervals=ends)

    @property
    def words(self) -> str:
        """Return in words how close predictions are, and how many intervals cover the targets."""
        off = np.median(np.abs(self.truth - self.predicted))
        said = f"predictions of {len(self.truth)} rows against what is true, off by {off:.3g}"
        held = "" if self.intervals is None else f"; {self._coverage_text(slice(None))}"
        return f"{said} in the median{held}"

    def _coverage_text(self, k: Any) -> str:
        """Return in words how many intervals cover the targets."""
        assert self.intervals is not None
        low, high = np.moveaxis(self.intervals[:, k], -1, 0)
        truth = self.truth[:, k]
        label = f"the intervals cover {np.mean((low <= truth) & (truth <= high)):.0%}"
        target = "" if self.coverage is None else f" (target {self.coverage:.0%})"
        return f"{label}{target}".replace("%", " %")

    def _draw_output(self, ax: Any, k: int) -> None:
        """Draw points, the diagonal, and intervals if there are any."""
        truth, predicted = self.truth[:, k], self.predicted[:, k]
        rows = _thin_points(predicted)
        if self.intervals is not None:
            ends = self.intervals[rows, k]
            ax.vlines(predicted[rows], *ends.T, color=GREY, lw=0.7, alpha=0.45)
        ax.plot(predicted[rows], truth[rows], ".", color=BLUE, ms=3, alpha=0.7)
        both = [min(truth.min(), predicted.min()), max(truth.max(), predicted.max())]
        ax.plot(both, both, color=ORANGE, lw=1.2)
        held = "" if self.intervals is None else f"\n{self._coverage_text(k)}"
        ax.set(xlabel=f"predicted{held}", ylabel=f"true {shorten_label(self.outputs[k])}")
        style_axes(ax)


@dataclass(frozen=True, eq=False)
class ResidualPlot(_TargetsPanel):
    """Residuals against predictions on held-out rows.

    Attributes
    ----------
    truth, predicted : arrays (n, t)
        Of all held-out rows.
    outputs : tuple of str
        Names of the targets.
    """

    name: ClassVar[str] = "residuals"
    title: ClassVar[str] = "Residuals: true less predicted"  # type: ignore[misc]

    @property
    def words(self) -> str:
        """Return in words where nine tenths of the residuals lie."""
        low, middle, high = np.quantile(self.truth - self.predicted, (_ENDS[0], 0.5, _ENDS[1]))
        return (
            f"residuals of {len(self.truth)} rows against predictions: median {middle:.3g}, nine "
            f"tenths between {low:.3g} and {high:.3g}"
        )

    def _draw_output(self, ax: Any, k: int) -> None:
        """Draw points, and their running median and 90 % range."""
        predicted = self.predicted[:, k]
        left = self.truth[:, k] - predicted
        rows = _thin_points(predicted)
        ax.plot(predicted[rows], left[rows], ".", color=BLUE, ms=3, alpha=0.5)
        ax.axhline(0.0, color="black", lw=0.8)
        parts = split_by_value(predicted)
        if len(parts) > 1:
            x = [np.median(predicted[part]) for part in parts]
            levels = (_ENDS[0], 0.5, _ENDS[1])
            low, middle, high = np.transpose([np.quantile(left[part], levels) for part in parts])
            ax.plot(x, middle, color=ORANGE, lw=1.4, label="median")
            ax.fill_between(x, low, high, color=ORANGE, alpha=0.15, lw=0, label="nine tenths")
        ax.set(xlabel="predicted", ylabel=f"true less predicted {shorten_label(self.outputs[k])}")
        add_legend(ax)
        style_axes(ax)


@dataclass(frozen=True, eq=False)
class Reliability(Panel):
    """Observed shares of classes against predicted probabilities on held-out rows.

    Attributes
    ----------
    probabilities : array (n, k)
        By models that have not seen the rows.
    codes : array of int (n,)
        True classes.
    outputs : tuple of str
        Names of the classes.
    """

    name: ClassVar[str] = "reliability"
    probabilities: np.ndarray
    codes: np.ndarray
    outputs: tuple[str, ...]

    @property
    def empty(self) -> str:
        """The reason why nothing can be drawn, or an empty string."""
        return "" if len(self.codes) >= 2 * _FEWEST else "too few rows were held out"

    @property
    def words(self) -> str:
        """Return the calibration errors in words."""
        said = ", ".join(f"{self.outputs[k]} by {self._gap(k):.3f}" for k in self._shown_classes)
        return f"calibration of probabilities on {len(self.codes)} rows; off on average: {said}"

    @property
    def _shown_classes(self) -> list[int]:
        """Return the drawn classes: the second of two, or at most six."""
        count = len(self.outputs)
        return [1] if count == 2 else list(range(min(count, OUTPUTS)))

    def _gap(self, k: int) -> float:
        """Return the mean distance of the probabilities of class k from the shares."""
        means, shares, rows = self.curve(k)
        return float(np.average(np.abs(means - shares), weights=rows))

    def curve(self, k: int, /) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return mean probabilities of class k in bins of equal counts, shares, and counts."""
        p, hit = self.probabilities[:, k], self.codes == k
        parts = split_by_value(p)
        means = np.array([p[part].mean() for part in parts])
        shares = np.array([hit[part].mean() for part in parts])
        return means, shares, np.array([len(part) for part in parts])

    def draw(self, ax: Any, /) -> Any:
        """Draw shares with standard errors, of the second of two classes, or of at most six."""
        ax.plot([0, 1], [0, 1], color="black", lw=0.8)
        count = len(self.outputs)
        for color, k in zip(COLORS, self._shown_classes, strict=False):
            means, shares, rows = self.curve(k)
            # Agresti and Coull's, which is not 0 for shares of 0 and 1
            around = (shares * rows + 2.0) / (rows + 4.0)
            error = np.sqrt(around * (1.0 - around) / (rows + 4.0))
            label = f"{shorten_label(self.outputs[k])}, off by {self._gap(k):.3f} on average"
            ax.errorbar(means, shares, error, fmt="o-", ms=3, lw=1.2, color=color, label=label)
        more = f" (the first {OUTPUTS} of {count})" if count > OUTPUTS else ""
        ax.set(
            title=f"Calibration of probabilities{more}",
            xlabel="predicted probability",
            ylabel=f"share of held-out rows{BARS_TEXT}",
            ylim=(-0.03, 1.03),
        )
        add_legend(ax, loc="upper left")
        return style_axes(ax)


HELD_OUT = (Predictions, ResidualPlot, Reliability, RocCurves, Confusion)


def split_by_value(values: np.ndarray, /) -> list[np.ndarray]:
    """Return row indices in at most ten quantile bins of at least about five rows.

    Rows with the same value stay together.
    """
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    count = int(np.clip(len(values) // _FEWEST, 1, _BINS))
    cuts = np.searchsorted(ranked, ranked[[len(values) * k // count for k in range(1, count)]])
    return [part for part in np.split(order, np.unique(cuts)) if len(part)]


def _thin_points(values: np.ndarray) -> np.ndarray:
    """Return the rows to draw: all, or a sample spread evenly over their values."""
    order = np.argsort(values, kind="stable")
    if len(order) <= _POINTS:
        return order
    return order[np.linspace(0, len(order) - 1, _POINTS).astype(int)]
