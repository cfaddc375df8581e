"""What `conditional_importance` gives."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import false_discovery_control

from gpukfl._checks import check_choice, check_number
from gpukfl.inspection import Told
from gpukfl.inspection._figures import Size, axes_of
from gpukfl.inspection._style import BLUE, PALE, legend, plain, short, short_text

if TYPE_CHECKING:
    import pandas as pd

CORRECTIONS = ("bh", "by")
_LISTED = 15
_KNOWN = 0.999  # share of a column that others explain, from which nothing is left to redraw


class Tested(Told):
    """P-values of hypotheses with names, and those that are rejected."""

    p_values: np.ndarray
    n_permutations: int

    @property
    @abstractmethod
    def _names(self) -> tuple[str, ...]:
        """What is tested, in the order of the p-values."""

    def adjusted(self, method: str = "bh") -> np.ndarray:
        """Adjust the p-values for their number.

        Parameters
        ----------
        method : {"bh", "by"}, default="bh"
            Benjamini and Hochberg (1995), for p-values that are independent or depend on each
            other positively, or Benjamini and Yekutieli (2001), for any.

        Returns
        -------
        array
            Rejecting those up to a level bounds the false discovery rate by it.

        Raises
        ------
        ValueError
            If the method is unknown.
        """
        check_choice("method", method, CORRECTIONS)
        return false_discovery_control(self.p_values, method=method)

    def smallest_level(self, method: str = "bh") -> float:
        """Give the level below which one alone cannot be found, for want of permutations."""
        check_choice("method", method, CORRECTIONS)
        count = len(self.p_values)
        series = float(np.sum(1.0 / np.arange(1, count + 1))) if method == "by" else 1.0
        return min(1.0, count * series / (1 + self.n_permutations))

    def selected_at(self, level: float = 0.1, method: str = "bh") -> list[str]:
        """Name what is found at a false discovery rate of at most `level`.

        Parameters
        ----------
        level : float, default=0.1
            In (0, 1).
        method : {"bh", "by"}, default="bh"
            As for `adjusted`.

        Returns
        -------
        list of str
            In their order.

        Raises
        ------
        ValueError
            If one alone could not be found at this level, whatever its effect: names the smallest
            level that can be reached, and the permutations that this one needs.
        """
        check_number("level", level, low=0, low_allowed=False, high=1)
        smallest = self.smallest_level(method)
        if level < smallest:
            needed = int(np.ceil(smallest * (1 + self.n_permutations) / level))
            msg = (
                f"expected level to be at least {smallest:.2g}, the smallest with "
                f"{self.n_permutations} permutations and {len(self.p_values)} p-values, got "
                f"{level:g}: give n_permutations={needed}"
            )
            raise ValueError(msg)
        found = self.adjusted(method) <= level
        return [name for name, one in zip(self._names, found, strict=True) if one]


@dataclass(frozen=True, eq=False)
class ConditionalImportance(Tested):
    """What a model loses where groups of features are redrawn given all others.

    Attributes
    ----------
    groups : tuple of str
        Names of the groups.
    features : tuple of tuples of str
        Features of each.
    importances : array, shape (g,)
        Mean rise of the loss, in units of the loss of saying the same of every row: what is lost of
        `unit`. May be below 0 by chance, and above 1.
    standard_errors : array, shape (g,)
        Of the importances, as the rows are a sample; the model is fixed.
    p_values : array, shape (g,)
        Of the hypotheses that targets depend on a group through the other features only.
    explained : array, shape (g,)
        Share of each group that the others explain, on the rows that this was learned on.
    n_rows, n_held_out : int
        Rows used, and rows there were.
    n_folds : int
        Parts of the rows, each with a model of its own.
    n_permutations : int
        Behind every p-value.
    unit : str
        What is lost.
    unfinished : tuple of str
        Groups that were left out, as it was interrupted before. They are not among the p-values
        that are adjusted.
    """

    groups: tuple[str, ...]
    features: tuple[tuple[str, ...], ...]
    importances: np.ndarray
    standard_errors: np.ndarray
    p_values: np.ndarray
    explained: np.ndarray
    n_rows: int
    n_held_out: int
    n_folds: int
    n_permutations: int
    unit: str
    unfinished: tuple[str, ...] = ()

    @property
    def _names(self) -> tuple[str, ...]:
        return self.groups

    def frame(self) -> pd.DataFrame:
        """Give a row for each group, the most important first.

        Returns
        -------
        pandas.DataFrame
            With columns group, features, importance, standard_error, p_value, adjusted
            (Benjamini-Hochberg), adjusted_by (Benjamini-Yekutieli) and explained.
        """
        import pandas as pd

        found = pd.DataFrame(
            {
                "group": self.groups,
                "features": [", ".join(names) for names in self.features],
                "importance": self.importances,
                "standard_error": self.standard_errors,
                "p_value": self.p_values,
                "adjusted": self.adjusted("bh"),
                "adjusted_by": self.adjusted("by"),
                "explained": self.explained,
            }
        )
        return found.sort_values("importance", ascending=False, kind="stable", ignore_index=True)

    def summary(self) -> str:
        """Say in words what was found, and what it means."""
        how = f"{self.n_rows} of {self.n_held_out} held-out rows"
        how += f" in {self.n_folds} folds" if self.n_folds > 1 else ""
        lines = [
            f"Conditional importance: what is lost of the {self.unit} without what a group says",
            f"beyond all others; {how}, {self.n_permutations} permutations",
            f"  {'group':<28} {'importance':>10} {'± error':>9} {'p-value':>9} {'adjusted':>9}",
        ]
        table = self.frame()
        lines += [
            f"  {short_text(row.group, 28):<28} {row.importance:10.4f} {row.standard_error:9.4f} "
            f"{row.p_value:9.2g} {row.adjusted:9.2g}"
            for row in table.head(_LISTED).itertuples()
        ]
        if len(table) > _LISTED:
            lines.append(f"  and {len(table) - _LISTED} more")
        return "\n".join([*lines, *self._remarks()])

    def _remarks(self) -> list[str]:
        """Say which features were joined, and of which nothing can be said."""
        pairs = list(zip(self.groups, self.features, strict=True))
        joined = [", ".join(names) for _, names in pairs if len(names) > 1]
        known = [
            name for name, share in zip(self.groups, self.explained, strict=True) if share >= _KNOWN
        ]
        found = [f"  together: {names}" for names in joined]
        if self.unfinished:
            found.append(f"  interrupted before {', '.join(self.unfinished)}")
        if known:
            found.append(
                f"  nothing can be said of {', '.join(known)}: constant, or known from the others"
            )
        return found

    def plot(
        self, ax: Any = None, *, level: float = 0.1, method: str = "bh", figsize: Size = None
    ) -> Any:
        """Draw the leading importances with two standard errors; pale what is not found.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure of pyplot.
        level : float, default=0.1
            False discovery rate of what is found.
        method : {"bh", "by"}, default="bh"
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
        order = np.argsort(-self.importances, kind="stable")[:_LISTED][::-1]
        found = (self.adjusted(method) <= level)[order]
        at = np.arange(len(order))
        kinds = ((found, BLUE, f"found at {level:g}"), (~found, PALE, "not found"))
        for kind, color, name in kinds:
            if kind.any():
                ax.barh(at[kind], self.importances[order][kind], color=color, label=name)
        ax.errorbar(
            self.importances[order],
            at,
            xerr=2 * self.standard_errors[order],
            fmt="none",
            ecolor="#444444",
            elinewidth=1,
            capsize=2,
        )
        ax.set_yticks(at, [short(self.groups[k]) for k in order])
        ax.set(title="Conditional importances", xlabel=f"loss of {self.unit}")
        legend(ax, loc="lower right")
        plain(ax)
        return ax
