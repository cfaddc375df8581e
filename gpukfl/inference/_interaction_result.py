"""What `interactions` gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpukfl._checks import check_number
from gpukfl.inference._importances import Tested
from gpukfl.inspection._figures import Size, axes_of
from gpukfl.inspection._style import BLUE, PALE, legend, plain, short, short_text

if TYPE_CHECKING:
    import pandas as pd

_LISTED = 12
_WHITE = 0.6  # of the largest H, from which numbers in a cell are white


@dataclass(frozen=True, eq=False)
class Interactions(Tested):
    """Interactions of pairs or triples of features.

    Attributes
    ----------
    order : int
        2 or 3.
    features : tuple of str
        That were looked at.
    sets : tuple of tuples of str
        The pairs or triples.
    h : array, shape (s,)
        Friedman's H of each: 0 where the model is a sum of functions of fewer of its features, 1
        where it is nothing of the kind; above 1 where features depend on each other.
    shares : array, shape (s,)
        Variance of each effect, as a share of that of all effects together. H of features
        that hardly matter may be large.
    p_values : array, shape (s,), or None
        Of the hypotheses that the effects say nothing of targets of new rows.
    n_rows, n_background : int
        Rows that effects were evaluated at, and averaged over.
    n_permutations : int
        Behind every p-value.
    exact : bool
        Whether averages are in closed form, and not by predictions; both are of the same rows.
    unfinished : tuple of tuples of str
        Sets that were left out, as it was interrupted before.
    """

    order: int
    features: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]
    h: np.ndarray
    shares: np.ndarray
    p_values: np.ndarray | None  # type: ignore[assignment]
    n_rows: int
    n_background: int
    n_permutations: int
    exact: bool
    unfinished: tuple[tuple[str, ...], ...] = ()

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(" × ".join(one) for one in self.sets)

    def adjusted(self, method: str = "by") -> np.ndarray:
        """Adjust the p-values for their number: as of `ConditionalImportance`.

        The default, Benjamini and Yekutieli, holds however p-values depend on each other: those of
        pairs with a common feature do.

        Raises
        ------
        ValueError
            If the method is unknown, or there are no p-values for want of y.
        """
        if self.p_values is None:
            msg = "expected p-values, which need y: give interactions(model, X, y)"
            raise ValueError(msg)
        return super().adjusted(method)

    def selected_at(self, level: float = 0.05, method: str = "by") -> list[str]:
        """Name the pairs or triples that are found at a false discovery rate.

        As of `ConditionalImportance`, with Benjamini and Yekutieli for the default.
        """
        self.adjusted(method)
        return super().selected_at(level, method)

    def frame(self) -> pd.DataFrame:
        """Give a row for each pair or triple, the largest share first.

        Returns
        -------
        pandas.DataFrame
            With columns features, h, share, and with y p_value and adjusted
            (Benjamini-Yekutieli).
        """
        import pandas as pd

        columns: dict[str, Any] = {"features": self._names, "h": self.h, "share": self.shares}
        if self.p_values is not None:
            columns |= {"p_value": self.p_values, "adjusted": self.adjusted()}
        found = pd.DataFrame(columns)
        return found.sort_values("share", ascending=False, kind="stable", ignore_index=True)

    def summary(self) -> str:
        """Say in words what was found."""
        how = "in closed form" if self.exact else "by predictions"
        what = "pairs" if self.order == 2 else "triples"
        lines = [
            f"Interactions of {what}: Friedman's H at {self.n_rows} rows, averaged {how} over "
            f"{self.n_background} others",
            f"  {'':<28} {'H':>7} {'share':>8} {'p-value':>9} {'adjusted':>9}",
        ]
        table = self.frame()
        for row in table.head(_LISTED).itertuples():
            line = f"  {short_text(row.features, 28):<28} {row.h:7.3f} {row.share:8.4f}"
            if self.p_values is not None:
                line += f" {row.p_value:9.2g} {row.adjusted:9.2g}"
            lines.append(line)
        if len(table) > _LISTED:
            lines.append(f"  and {len(table) - _LISTED} more")
        if self.unfinished:
            every = len(self.sets) + len(self.unfinished)
            lines.append(f"  interrupted: {len(self.sets)} of {every} {what} are done")
        if self.p_values is None:
            lines.append("  without p-values: nothing says which of these are more than chance")
        return "\n".join(lines)

    def plot(
        self, ax: Any = None, *, level: float = 0.05, method: str = "by", figsize: Size = None
    ) -> Any:
        """Draw H: of pairs as a heat map, with a frame around what is found; of triples as bars.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure of pyplot.
        level : float, default=0.05
            False discovery rate of what is found, where there are p-values.
        method : {"bh", "by"}, default="by"
            As for `adjusted`.
        figsize : tuple of float, optional
            Width and height in inches of a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            What was drawn on.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        check_number("level", level, low=0, low_allowed=False, high=1)
        ax = axes_of(ax, figsize)
        found = np.zeros(len(self.sets), dtype=bool)
        if self.p_values is not None:
            found = self.adjusted(method) <= level
        if self.order == 2:
            self._draw_map(ax, found)
        else:
            self._draw_bars(ax, found, level)
        remark = f" (framed: found at {level:g})" if self.order == 2 and found.any() else ""
        ax.set_title("Friedman's H" + remark)
        return ax

    def _draw_map(self, ax: Any, found: np.ndarray) -> None:
        from matplotlib.patches import Rectangle

        d = len(self.features)
        grid, at = np.full((d, d), np.nan), {name: k for k, name in enumerate(self.features)}
        top = max(float(self.h.max()), 1e-12)
        for (first, second), value, real in zip(self.sets, self.h, found, strict=True):
            row, column = at[second], at[first]
            grid[row, column] = value
            color = "white" if value > _WHITE * top else "black"
            if value > 0:
                ax.text(
                    column, row, f"{value:.2f}", ha="center", va="center", color=color, fontsize=7
                )
            if real:
                place = (column - 0.5, row - 0.5)
                ax.add_patch(Rectangle(place, 1, 1, fill=False, ec="#a33b3b", lw=2))
        image = ax.imshow(grid, cmap="Blues", vmin=0.0, vmax=top)
        labels = [short(name, 12) for name in self.features]
        ax.set_xticks(range(d - 1), labels[:-1], rotation=45, ha="right")
        ax.set_yticks(range(1, d), labels[1:])
        ax.set(xlim=(-0.5, d - 1.5), ylim=(d - 0.5, 0.5))
        ax.spines[["top", "right"]].set_visible(False)
        ax.figure.colorbar(image, ax=ax, label="H", shrink=0.8)

    def _draw_bars(self, ax: Any, found: np.ndarray, level: float) -> None:
        order = np.argsort(-self.h, kind="stable")[:_LISTED][::-1]
        at, real = np.arange(len(order)), found[order]
        kinds = ((real, BLUE, f"found at {level:g}"), (~real, PALE, "not found"))
        for kind, color, name in kinds:
            if kind.any():
                ax.barh(at[kind], self.h[order][kind], color=color, label=name)
        ax.set_yticks(at, [short(self._names[k], 36) for k in order])
        ax.set_xlabel("H")
        legend(ax, loc="lower right")
        plain(ax)
