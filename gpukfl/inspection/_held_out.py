"""Panels of rows that their models have not seen: predictions, residuals, probabilities."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from gpukfl.inspection._panels import Panel
from gpukfl.inspection._style import (
    BLUE,
    COLORS,
    ORANGE,
    PALE,
    add_legend,
    shorten_label,
    style_axes,
)

_OUTPUTS = 6  # targets or classes that are drawn
_ACROSS = 3  # of them in a row
_POINTS = 1_000  # that a picture holds
_BINS = 10
_FEWEST = 5  # rows in a bin
_ENDS = (0.05, 0.95)  # of residuals


class _OfTargets(Panel):
    """Panel of one picture, or of one for each of several targets."""

    truth: np.ndarray  # (n, t)
    outputs: tuple[str, ...]

    @property
    def empty(self) -> str:
        """Why there is nothing to draw."""
        return "" if len(self.truth) else "no rows were held out"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of small pictures."""
        count = min(len(self.outputs), _OUTPUTS)
        across = count if count <= _ACROSS else -(-count // 2)
        return -(-count // across), across

    def apart(self) -> list[tuple[str, Panel]]:
        """Return a panel for each of the first targets."""
        if len(self.outputs) == 1:
            return [("", self)]
        return [(self.outputs[k], self._only(k)) for k in range(min(len(self.outputs), _OUTPUTS))]

    def of(self, output: int | str, /) -> Self:
        """Return the panel of one target, by its number or its name.

        Raises
        ------
        ValueError
            If there is no such target.
        """
        names = self.outputs
        known = output in names if isinstance(output, str) else -len(names) <= output < len(names)
        if not known:
            msg = f"expected output to be one of {', '.join(names)}, or its number, got {output!r}"
            raise ValueError(msg)
        return self._only(names.index(output) if isinstance(output, str) else output % len(names))

    @abstractmethod
    def _only(self, k: int) -> Self:
        """Return the panel of target k."""

    @abstractmethod
    def _draw_target(self, ax: Any, k: int) -> None:
        """Draw target k."""

    def _draw_all(self, ax: Any, title: str) -> Any:
        if len(self.outputs) == 1:
            self._draw_target(ax, 0)
            ax.set_title(title)
            return ax
        place = ax.get_subplotspec()
        if place is None:
            msg = "expected an axes that plt.subplots made for several outputs, or output=..."
            raise ValueError(msg)
        figure = ax.figure.add_subfigure(place)
        ax.remove()
        left = max(len(self.outputs) - _OUTPUTS, 0)
        more = f" (the first {_OUTPUTS} of {len(self.outputs)})" if left else ""
        figure.suptitle(title + more, fontsize="large")
        cells = figure.subplots(*self.shape, squeeze=False).ravel()
        count = len(self.outputs) - left
        for k in range(count):
            self._draw_target(cells[k], k)
            cells[k].set_title(shorten_label(self.outputs[k]), fontsize="medium")
        for cell in cells[count:]:
            cell.remove()
        return cells[:count]


@dataclass(frozen=True, eq=False)
class Predictions(_OfTargets):
    """Predictions against what is true, on rows that their models have not seen.

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
    truth: np.ndarray
    predicted: np.ndarray
    outputs: tuple[str, ...]
    intervals: np.ndarray | None = None
    coverage: float | None = None

    def _only(self, k: int) -> Self:
        ends = None if self.intervals is None else self.intervals[:, [k]]
        one = (self.outputs[k],)
        return replace(
            self,
            truth=self.truth[:, [k]],
            predicted=self.predicted[:, [k]],
            outputs=one,
            intervals=ends,
        )

    @property
    def words(self) -> str:
        """Return in words how close they are, and how many intervals hold the truth."""
        off = np.median(np.abs(self.truth - self.predicted))
        said = f"predictions of {len(self.truth)} rows against what is true, off by {off:.3g}"
        held = "" if self.intervals is None else f"; {self._held(slice(None))}"
        return f"{said} in the median{held}"

    def _held(self, k: Any) -> str:
        """Return in words how many intervals of some targets hold the truth."""
        assert self.intervals is not None
        low, high = np.moveaxis(self.intervals[:, k], -1, 0)
        truth = self.truth[:, k]
        label = f"{np.mean((low <= truth) & (truth <= high)):.0%} of intervals hold the truth"
        return label if self.coverage is None else f"{label} ({self.coverage:.0%} shall)"

    def draw(self, ax: Any, /) -> Any:
        """Draw points, the diagonal, and intervals where there are any."""
        return self._draw_all(ax, "Predictions for rows that were held out")

    def _draw_target(self, ax: Any, k: int) -> None:
        truth, predicted = self.truth[:, k], self.predicted[:, k]
        rows = _thin_points(predicted)
        if self.intervals is not None:
            ends, label = self.intervals[rows, k], self._held(k)
            ax.vlines(predicted[rows], *ends.T, color=PALE, lw=0.6, alpha=0.7, label=label)
        ax.plot(predicted[rows], truth[rows], ".", color=BLUE, ms=3, alpha=0.7)
        both = [min(truth.min(), predicted.min()), max(truth.max(), predicted.max())]
        ax.plot(both, both, color=ORANGE, lw=1.2)
        ax.set(xlabel="predicted", ylabel=f"true {shorten_label(self.outputs[k])}")
        add_legend(ax, loc="upper left")
        style_axes(ax)


@dataclass(frozen=True, eq=False)
class ResidualPlot(_OfTargets):
    """Residuals against predictions, on rows that their models have not seen.

    Attributes
    ----------
    truth, predicted : arrays (n, t)
        Of all held-out rows.
    outputs : tuple of str
        Names of the targets.
    """

    name: ClassVar[str] = "residuals"
    truth: np.ndarray
    predicted: np.ndarray
    outputs: tuple[str, ...]

    def _only(self, k: int) -> Self:
        one = (self.outputs[k],)
        return replace(
            self, truth=self.truth[:, [k]], predicted=self.predicted[:, [k]], outputs=one
        )

    @property
    def words(self) -> str:
        """Return in words where nine tenths of them lie."""
        low, middle, high = np.quantile(self.truth - self.predicted, (_ENDS[0], 0.5, _ENDS[1]))
        return (
            f"residuals of {len(self.truth)} rows against predictions: median {middle:.3g}, nine "
            f"tenths between {low:.3g} and {high:.3g}"
        )

    def draw(self, ax: Any, /) -> Any:
        """Draw points, their median along the predictions, and where nine tenths of them lie."""
        return self._draw_all(ax, "Residuals of rows that were held out")

    def _draw_target(self, ax: Any, k: int) -> None:
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
    """Shares of a class among rows with about the same probability of it, which were held out.

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
        """Why there is nothing to draw."""
        return "" if len(self.codes) >= 2 * _FEWEST else "too few rows were held out"

    @property
    def words(self) -> str:
        """Return in words how far probabilities are off."""
        said = ", ".join(f"{self.outputs[k]} by {self._gap(k):.3f}" for k in self._shown)
        return f"calibration of probabilities on {len(self.codes)} rows; off on average: {said}"

    @property
    def _shown(self) -> list[int]:
        """Return the classes that are drawn: of two the second, of many six."""
        count = len(self.outputs)
        return [1] if count == 2 else list(range(min(count, _OUTPUTS)))

    def _gap(self, k: int) -> float:
        """Mean distance of probabilities of class k from shares."""
        means, shares, rows = self.curve(k)
        return float(np.average(np.abs(means - shares), weights=rows))

    def curve(self, k: int, /) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return mean probabilities of class k in bins of equally many rows, shares, and rows."""
        p, hit = self.probabilities[:, k], self.codes == k
        parts = split_by_value(p)
        means = np.array([p[part].mean() for part in parts])
        shares = np.array([hit[part].mean() for part in parts])
        return means, shares, np.array([len(part) for part in parts])

    def draw(self, ax: Any, /) -> Any:
        """Draw shares with their standard errors; of two classes the second, of many six."""
        ax.plot([0, 1], [0, 1], color="black", lw=0.8)
        count = len(self.outputs)
        for color, k in zip(COLORS, self._shown, strict=False):
            means, shares, rows = self.curve(k)
            # Agresti and Coull's, which is not 0 for shares of 0 and 1
            around = (shares * rows + 2.0) / (rows + 4.0)
            error = np.sqrt(around * (1.0 - around) / (rows + 4.0))
            label = f"{shorten_label(self.outputs[k])}, off by {self._gap(k):.3f} on average"
            ax.errorbar(means, shares, error, fmt="o-", ms=3, lw=1.2, color=color, label=label)
        more = f" (the first {_OUTPUTS} of {count})" if count > _OUTPUTS else ""
        ax.set(
            title=f"Calibration of probabilities{more}",
            xlabel="predicted probability",
            ylabel="share of rows that were held out",
        )
        add_legend(ax, loc="upper left")
        style_axes(ax)
        return ax


def split_by_value(values: np.ndarray, /) -> list[np.ndarray]:
    """Return indices of rows by value, in at most ten parts of about five rows or more.

    Rows with the same value stay together.
    """
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    count = int(np.clip(len(values) // _FEWEST, 1, _BINS))
    cuts = np.searchsorted(ranked, ranked[[len(values) * k // count for k in range(1, count)]])
    return [part for part in np.split(order, np.unique(cuts)) if len(part)]


def _thin_points(values: np.ndarray) -> np.ndarray:
    """Return the rows to draw: all, or so many evenly along their values."""
    order = np.argsort(values, kind="stable")
    if len(order) <= _POINTS:
        return order
    return order[np.linspace(0, len(order) - 1, _POINTS).astype(int)]
