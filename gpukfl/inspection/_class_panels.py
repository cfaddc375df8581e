"""Panels of classes on held-out rows: ROC curves and the confusion matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gpukfl.inspection._panels import OUTPUTS, Panel
from gpukfl.inspection._style import COLORS, add_legend, shorten_label, style_axes

_POINTS = 1_000  # of a curve that a picture holds
_WRITTEN = 12  # classes up to which cells have numbers
_WHITE = 0.6  # share of a cell from which its number is white
_FEWEST = 2  # classes between which there are mistakes


@dataclass(frozen=True, eq=False)
class _ClassPanel(Panel):
    """Probabilities (n, k) of classes and the true ones, of rows that were held out."""

    probabilities: np.ndarray
    codes: np.ndarray
    outputs: tuple[str, ...]
    weights: np.ndarray | None = None

    @property
    def empty(self) -> str:
        """The reason why nothing can be drawn, or an empty string."""
        if not len(self.codes):
            return "no rows were held out"
        if len(np.unique(self.codes)) < _FEWEST:
            return "all rows that were held out are of one class"
        return ""

    @property
    def _row_weights(self) -> np.ndarray:
        return np.ones(len(self.codes)) if self.weights is None else self.weights


@dataclass(frozen=True, eq=False)
class RocCurves(_ClassPanel):
    """ROC curves on held-out rows: of the second of two classes, or of each versus the rest.

    Attributes
    ----------
    probabilities : array (n, k)
        By models that have not seen the rows.
    codes : array of int (n,)
        True classes.
    outputs : tuple of str
        Names of the classes.
    weights : array (n,), optional
        Of the rows.
    """

    name: ClassVar[str] = "roc"

    @property
    def classes(self) -> list[int]:
        """The classes that are told from the rest: those of some held-out rows, but not of all."""
        asked = [1] if len(self.outputs) == 2 else range(len(self.outputs))
        return [k for k in asked if 0 < np.count_nonzero(self.codes == k) < len(self.codes)]

    def curve(self, k: int, /) -> tuple[np.ndarray, np.ndarray]:
        """Return the shares of the others, and of class k, above each of its probabilities."""
        scores, w, own = self.probabilities[:, k], self._row_weights, self.codes == k
        _, rank = np.unique(-scores, return_inverse=True)
        rank = rank.reshape(-1)
        found = [np.r_[0.0, np.cumsum(np.bincount(rank, w * side))] for side in (~own, own)]
        false, true = (one / one[-1] for one in found)
        return false, true

    def area(self, k: int, /) -> float:
        """Return the area under the curve of class k."""
        return float(np.trapezoid(*self.curve(k)[::-1]))

    @property
    def words(self) -> str:
        """Return the areas in words."""
        known = [f"{self.outputs[k]} {self.area(k):.3f}" for k in self.classes[:OUTPUTS]]
        more = f" and {len(self.classes) - OUTPUTS} more" if len(self.classes) > OUTPUTS else ""
        return f"ROC curves of {len(self.codes)} rows; areas under them: {', '.join(known)}{more}"

    def draw(self, ax: Any, /) -> Any:
        """Draw the curves of at most six classes, and the diagonal of guesses."""
        ax.plot([0, 1], [0, 1], color="black", lw=0.8)
        shown = self.classes[:OUTPUTS]
        for color, k in zip(COLORS, shown, strict=False):
            false, true = self.curve(k)
            some = np.unique(np.linspace(0, len(false) - 1, _POINTS).astype(np.int64))
            label = f"{shorten_label(self.outputs[k])}, area {self.area(k):.3f}"
            ax.plot(false[some], true[some], lw=1.4, color=color, label=label)
        several = len(self.outputs) > 2
        mean = np.mean([self.area(k) for k in self.classes])
        of = f", mean area {mean:.3f}" if several else ""
        count = len(self.classes)
        more = f" (the first {OUTPUTS} of {count})" if count > OUTPUTS else ""
        ax.set(
            title=f"ROC curve{'s, one class versus the rest' if several else ''}{of}{more}",
            xlabel="share of other rows that are called so",
            ylabel="share of the class that is found",
        )
        add_legend(ax, loc="lower right")
        return style_axes(ax)


@dataclass(frozen=True, eq=False)
class Confusion(_ClassPanel):
    """The confusion matrix on held-out rows: what the rows of each class are taken for.

    Attributes
    ----------
    probabilities : array (n, k)
        By models that have not seen the rows; the largest is the class that is predicted.
    codes : array of int (n,)
        True classes.
    outputs : tuple of str
        Names of the classes.
    weights : array (n,), optional
        Of the rows.
    """

    name: ClassVar[str] = "confusion"

    @property
    def matrix(self) -> np.ndarray:
        """Weights (k, k) of rows, by their true class and by the one that is predicted."""
        count = len(self.outputs)
        cells = self.codes * count + np.argmax(self.probabilities, axis=1)
        return np.bincount(cells, self._row_weights, count**2).reshape(count, count)

    @property
    def words(self) -> str:
        """Return in words how many rows are right, and the most frequent mistake."""
        found, names = self.matrix, self.outputs
        said = f"{np.trace(found) / found.sum():.0%} of {len(self.codes)} rows are right"
        wrong = found - np.diag(np.diag(found))
        if not wrong.any():
            return said
        true, predicted = np.unravel_index(np.argmax(wrong), wrong.shape)
        share = wrong[true, predicted] / found[true].sum()
        taken = f"{share:.0%} of {names[true]} are taken for {names[predicted]}"
        return f"{said}; the most frequent mistake: {taken}"

    def draw(self, ax: Any, /) -> Any:
        """Draw the shares of each true class in its row, with the numbers of few classes."""
        found, count = self.matrix, len(self.outputs)
        totals = found.sum(axis=1, keepdims=True)
        shares = found / np.where(totals > 0, totals, 1.0)
        image = ax.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
        if count <= _WRITTEN:
            self._write_cells(ax, found, shares)
        step = max(1, -(-count // _WRITTEN))
        labels = [shorten_label(name, 12) for name in self.outputs][::step]
        ax.set_xticks(range(0, count, step), labels, rotation=45 if count > 4 else 0)
        ax.set_yticks(range(0, count, step), labels)
        ax.set(title="Confusion matrix", xlabel="predicted class", ylabel="true class")
        ax.spines[["top", "right"]].set_visible(False)
        ax.figure.colorbar(image, ax=ax, label="share of the true class", shrink=0.8)
        return ax

    def _write_cells(self, ax: Any, found: np.ndarray, shares: np.ndarray) -> None:
        """Write the numbers of rows, or their weights, and the shares."""
        for (row, column), value in np.ndenumerate(found):
            share = shares[row, column]
            ax.text(
                *(column, row, f"{value:.4g}\n{share:.0%}"),
                ha="center",
                va="center",
                color="white" if share > _WHITE else "black",
                fontsize=7,
            )
