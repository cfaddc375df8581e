"""What `conditional_importance` and `interactions` give: tests, their tables and pictures."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.stats import false_discovery_control

from gpukfl.core._checks import check_choice, check_number
from gpukfl.inference._results import Result
from gpukfl.inspection._figures import Size, get_axes
from gpukfl.inspection._style import (
    BAR,
    BARS_TEXT,
    BLUE,
    PALE,
    add_legend,
    clean_text,
    name_rows,
    shorten_label,
    shorten_text,
    style_axes,
)

if TYPE_CHECKING:
    import pandas as pd

CORRECTIONS = ("bh", "by")
_LISTED = 15
_RATE = 0.1  # false discovery rate of the words
_KNOWN = 0.999  # share of a column that others explain, from which nothing is left to redraw


class Tested(Result):
    """P-values of named hypotheses, and those that are rejected."""

    subject: ClassVar[str]  # of the words
    p_values: np.ndarray
    n_permutations: int

    @property
    def words(self) -> str:
        """Return the first line of the summary."""
        return self.summary().partition("\n")[0]

    def in_words(self) -> str:
        """Return the discoveries at a false discovery rate of 10 %, and the limits of the tests."""
        if getattr(self, "p_values", None) is None:
            return f"Not tested: {self.subject}. The model has seen the rows."
        found = self.selected_at(_RATE)
        said = ", ".join(map(clean_text, found)) if found else "none"
        return (
            f"{self.subject.capitalize()}, at a false discovery rate of {_RATE:.0%}: {said}. "
            f"{self._tested_text} tested. Others may matter too."
        )

    @property
    @abstractmethod
    def _tested_text(self) -> str:
        """How many hypotheses there are p-values of, and how many there might be."""

    @property
    @abstractmethod
    def _names(self) -> tuple[str, ...]:
        """The names of the hypotheses, in the order of the p-values."""

    def adjusted(self, method: str = "bh") -> np.ndarray:
        """Adjust the p-values for multiplicity.

        Parameters
        ----------
        method : {"bh", "by"}, default="bh"
            Benjamini and Hochberg (1995), for p-values that are independent or depend positively on
            each other. Benjamini and Yekutieli (2001), for any p-values.

        Returns
        -------
        array
            Adjusted p-values. Rejecting those up to a level bounds the false discovery rate by the
            level.

        Raises
        ------
        ValueError
            If the method is unknown.
        """
        check_choice("method", method, CORRECTIONS)
        return false_discovery_control(self.p_values, method=method)

    def smallest_level(self, method: str = "bh") -> float:
        """Return the smallest level at which one discovery is possible with the permutations."""
        check_choice("method", method, CORRECTIONS)
        count = len(self.p_values)
        series = float(np.sum(1.0 / np.arange(1, count + 1))) if method == "by" else 1.0
        return min(1.0, count * series / (1 + self.n_permutations))

    def selected_at(self, level: float = 0.1, method: str = "bh") -> list[str]:
        """Return the names of discoveries at a false discovery rate of at most `level`.

        Parameters
        ----------
        level : float, default=0.1
            Level in (0, 1).
        method : {"bh", "by"}, default="bh"
            As for `adjusted`.

        Returns
        -------
        list of str
            Names in the order of the hypotheses.

        Raises
        ------
        ValueError
            If no single discovery is possible at this level, whatever its effect. The message gives
            the smallest possible level, and the permutations that this level needs.
        """
        check_number("level", level, low=0, low_allowed=False, high=1)
        smallest = self.smallest_level(method)
        if level < smallest:
            needed = int(np.ceil(smallest * (1 + self.n_permutations) / level))
            msg = (
                f"expected level to be at least {smallest:.2g}, the smallest with "
                f"{self.n_permutations} permutations and {len(self.p_values)} p-values, got "
                f"{level:g}: use n_permutations={needed}"
            )
            raise ValueError(msg)
        found = self.adjusted(method) <= level
        return [name for name, one in zip(self._names, found, strict=True) if one]

    def _draw_bars(
        self, ax: Any, values: np.ndarray, found: np.ndarray, level: float, longest: int
    ) -> np.ndarray:
        """Draw the largest values as bars, pale what is not found, and return their numbers."""
        order = np.argsort(-values, kind="stable")[:longest][::-1]
        at, real = np.arange(len(order)), found[order]
        kinds = ((real, BLUE, f"found at {level:g}"), (~real, PALE, "not found"))
        for kind, color, name in kinds:
            if kind.any():
                ax.barh(at[kind], values[order][kind], color=color, alpha=BAR, label=name)
        return order


@dataclass(frozen=True, eq=False)
class ConditionalImportance(Tested):
    """The loss of a model when groups of features are redrawn given all others.

    Attributes
    ----------
    groups : tuple of str
        Names of the groups.
    features : tuple of tuples of str
        Features of each group.
    importances : array, shape (g,)
        Mean rise of the loss, in units of the loss of one constant prediction for all rows. It is
        the decrease of `unit`. Importances may be below 0 by chance, and above 1.
    standard_errors : array, shape (g,)
        Standard errors of the importances, as the rows are a sample; the model is fixed.
    p_values : array, shape (g,)
        P-values of the hypothesis that targets depend on a group through the other features only.
    explained : array, shape (g,)
        Share of each group that the other features explain, on the rows that learned this.
    n_rows, n_held_out : int
        Numbers of rows used, and of all held-out rows.
    n_folds : int
        Number of parts of the rows, each with its own model.
    n_permutations : int
        Number of permutations behind every p-value.
    unit : str
        Name of the score that decreases.
    unfinished : tuple of str
        Groups without results, because the computation was stopped early. The adjusted p-values do
        not count them.
    n_row_groups : int
        Number of groups of rows. Groups are exchanged as a whole, and have independent errors. 0 if
        single rows have independent errors.
    """

    name: ClassVar[str] = "importance"
    subject: ClassVar[str] = "features that matter beyond all others"
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
    n_row_groups: int = 0

    @property
    def _names(self) -> tuple[str, ...]:
        return self.groups

    @property
    def _tested_text(self) -> str:
        done = len(self.groups)
        return _count_text(done, done + len(self.unfinished), "columns or groups of columns")

    def frame(self) -> pd.DataFrame:
        """Return a frame with a row for each group, the most important first.

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
        """Return a plain-text summary of the findings and their meaning."""
        how = f"{self.n_rows} of {self.n_held_out} held-out rows"
        how += f" in {self.n_folds} folds" if self.n_folds > 1 else ""
        how += f" of {self.n_row_groups} groups" if self.n_row_groups else ""
        lines = [
            f"Conditional importance: the {self.unit} that is lost without what a group adds to",
            f"all others; {how}, {self.n_permutations} permutations",
            "p-value: could the target depend on the group through the others alone?",
            f"  {'group':<28} {'lost':>10} {'± error':>9} {'p-value':>9} {'adjusted':>9}",
        ]
        table = self.frame()
        lines += [
            f"  {shorten_text(row.group, 28):<28} {row.importance:10.4f} {row.standard_error:9.4f} "
            f"{row.p_value:9.2g} {row.adjusted:9.2g}"
            for row in table.head(_LISTED).itertuples()
        ]
        if len(table) > _LISTED:
            lines.append(f"  and {len(table) - _LISTED} more")
        return "\n".join([*lines, *self._remarks()])

    def _remarks(self) -> list[str]:
        """Return remarks on joined features, and on those that cannot be tested."""
        pairs = list(zip(self.groups, self.features, strict=True))
        joined = [", ".join(names) for _, names in pairs if len(names) > 1]
        known = [
            name for name, share in zip(self.groups, self.explained, strict=True) if share >= _KNOWN
        ]
        found = [f"  together: {names}" for names in joined]
        if self.unfinished:
            found.append(f"  stopped before {', '.join(self.unfinished)}")
        if known:
            found.append(
                f"  not testable: {', '.join(known)} (constant, or a function of the others)"
            )
        return found

    def plot(
        self, ax: Any = None, *, level: float = 0.1, method: str = "bh", figsize: Size = None
    ) -> Any:
        """Draw the leading importances with standard errors; pale if not significant.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes for the picture; by default a new figure of pyplot.
        level : float, default=0.1
            False discovery rate of the discoveries.
        method : {"bh", "by"}, default="bh"
            As for `adjusted`.
        figsize : tuple of float, optional
            Width and height in inches of a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            Axes with the picture.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        check_number("level", level, low=0, low_allowed=False, high=1)
        return self.draw(get_axes(ax, figsize), level=level, method=method)

    def draw(self, ax: Any, /, *, level: float = 0.1, method: str = "bh") -> Any:
        """Draw the bars into an axes."""
        found = self.adjusted(method) <= level
        order = self._draw_bars(ax, self.importances, found, level, _LISTED)
        at = np.arange(len(order))
        errors = self.standard_errors[order]
        style: dict[str, Any] = {"ecolor": "black", "elinewidth": 1, "capsize": 2}
        ax.errorbar(self.importances[order], at, xerr=errors, fmt="none", **style)
        name_rows(ax, [self.groups[k] for k in order])
        ax.set(title="Conditional importances", xlabel=f"loss of {self.unit}{BARS_TEXT}")
        add_legend(ax, loc="lower right")
        return style_axes(ax)


def _count_text(done: int, every: int, what: str) -> str:
    """Return in words how many hypotheses were tested: "1 of 45 pairs of columns was"."""
    return f"{done} of {every} {what} {'was' if done == 1 else 'were'}"


_LISTED_SETS = 12
_WHITE = 0.6  # of the largest H, from which numbers in a cell are white


@dataclass(frozen=True, eq=False)
class Interactions(Tested):
    """Interactions of pairs or triples of features.

    Attributes
    ----------
    order : int
        2 or 3.
    n_features : int
        Number of features of the model.
    features : tuple of str
        Features that were measured.
    sets : tuple of tuples of str
        The pairs or triples.
    h : array, shape (s,)
        Friedman's H of each set. H is 0 if the model is a sum of functions of fewer features of the
        set. H is 1 if the model has no such part. H may exceed 1 if features depend on each other.
    shares : array, shape (s,)
        Variance of each effect, as a share of the variance of all effects together. H may be large
        for features that hardly matter.
    p_values : array, shape (s,), or None
        P-values of the hypothesis that an effect is unrelated to the targets of new rows.
    n_rows, n_background : int
        Numbers of rows at which effects were evaluated, and over which they were averaged.
    n_permutations : int
        Number of permutations behind every p-value.
    exact : bool
        Whether averages are in closed form, and not by predictions. Both use the same rows.
    unfinished : tuple of tuples of str
        Sets without results, because the computation was interrupted.
    n_row_groups : int
        Number of groups of rows with independent errors; 0 if single rows have independent errors.
    """

    name: ClassVar[str] = "interactions"
    subject: ClassVar[str] = "interactions"
    order: int
    n_features: int
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
    n_row_groups: int = 0

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(" × ".join(one) for one in self.sets)

    @property
    def _tested_text(self) -> str:
        what = "pairs of columns" if self.order == 2 else "triples of columns"
        return _count_text(len(self.sets), math.comb(self.n_features, self.order), what)

    def adjusted(self, method: str = "by") -> np.ndarray:
        """Adjust the p-values for multiplicity, as `ConditionalImportance` does.

        The default is Benjamini and Yekutieli. It is valid for p-values with any dependence. Pairs
        with a common feature have dependent p-values.

        Raises
        ------
        ValueError
            If the method is unknown, or there are no p-values because y is missing.
        """
        if self.p_values is None:
            msg = "expected a result with p-values: pass y, as in interactions(model, X, y)"
            raise ValueError(msg)
        return super().adjusted(method)

    def selected_at(self, level: float = 0.05, method: str = "by") -> list[str]:
        """Return the names of significant pairs or triples at a false discovery rate.

        It works as in `ConditionalImportance`, with Benjamini and Yekutieli as the default.
        """
        self.adjusted(method)
        return super().selected_at(level, method)

    def frame(self) -> pd.DataFrame:
        """Return a frame with a row for each pair or triple, the largest share first.

        Returns
        -------
        pandas.DataFrame
            Columns features, h and share. With y also p_value and adjusted (Benjamini-Yekutieli).
        """
        import pandas as pd

        columns: dict[str, Any] = {"features": self._names, "h": self.h, "share": self.shares}
        if self.p_values is not None:
            columns |= {"p_value": self.p_values, "adjusted": self.adjusted()}
        found = pd.DataFrame(columns)
        return found.sort_values("share", ascending=False, kind="stable", ignore_index=True)

    def summary(self) -> str:
        """Return a plain-text summary of the findings."""
        how = "in closed form" if self.exact else "by predictions"
        what = "pairs" if self.order == 2 else "triples"
        of_groups = f" of {self.n_row_groups} groups" if self.n_row_groups else ""
        lines = [
            f"Interactions of {what}: Friedman's H at {self.n_rows} rows{of_groups}, averaged "
            f"{how} over "
            f"{self.n_background} others",
            f"  {'':<28} {'H':>7} {'share':>8} {'p-value':>9} {'adjusted':>9}",
        ]
        table = self.frame()
        for row in table.head(_LISTED_SETS).itertuples():
            line = f"  {shorten_text(row.features, 28):<28} {row.h:7.3f} {row.share:8.4f}"
            if self.p_values is not None:
                line += f" {row.p_value:9.2g} {row.adjusted:9.2g}"
            lines.append(line)
        if len(table) > _LISTED_SETS:
            lines.append(f"  and {len(table) - _LISTED_SETS} more")
        if self.unfinished:
            every = len(self.sets) + len(self.unfinished)
            lines.append(f"  stopped: {len(self.sets)} of {every} {what} are done")
        if self.p_values is None:
            lines.append("  no p-values: any of these may be due to chance")
        return "\n".join(lines)

    def plot(
        self, ax: Any = None, *, level: float = 0.05, method: str = "by", figsize: Size = None
    ) -> Any:
        """Draw H: pairs as a heat map with significant ones framed, triples as bars.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes for the picture; by default a new figure of pyplot.
        level : float, default=0.05
            False discovery rate of the discoveries, if there are p-values.
        method : {"bh", "by"}, default="by"
            As for `adjusted`.
        figsize : tuple of float, optional
            Width and height in inches of a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            Axes with the picture.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        check_number("level", level, low=0, low_allowed=False, high=1)
        return self.draw(get_axes(ax, figsize), level=level, method=method)

    def draw(self, ax: Any, /, *, level: float = 0.05, method: str = "by") -> Any:
        """Draw the heat map or the bars into an axes."""
        found = np.zeros(len(self.sets), dtype=bool)
        if self.p_values is not None:
            found = self.adjusted(method) <= level
        if self.order == 2:
            self._draw_map(ax, found)
        else:
            order = self._draw_bars(ax, self.h, found, level, _LISTED_SETS)
            name_rows(ax, [self._names[k] for k in order], 36)
            ax.set_xlabel("H")
            add_legend(ax, loc="lower right")
            style_axes(ax)
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
        labels = [shorten_label(name, 12) for name in self.features]
        ax.set_xticks(range(d - 1), labels[:-1], rotation=45, ha="right")
        ax.set_yticks(range(1, d), labels[1:])
        ax.set(xlim=(-0.5, d - 1.5), ylim=(d - 0.5, 0.5))
        ax.spines[["top", "right"]].set_visible(False)
        ax.figure.colorbar(image, ax=ax, label="H", shrink=0.8)
