"""Panels: frozen values that say what was learned, each of which draws itself."""

from __future__ import annotations

import textwrap
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gpukfl.inspection._style import (
    BLUE,
    GREY,
    ORANGE,
    PALE,
    RED,
    legend,
    level_color,
    plain,
    short,
    whole_steps,
)

BARS = 15  # features that fit in a picture
_FEWEST_BARS = 4  # for which there is room
_DIRECTIONS = 5
_LEAST = 0.005  # loading that is said
_LINE = 36  # letters of a caveat that fit in a picture
_BELOW, _REMARK = 46, 240  # letters of a line below it, and of all
_SAID = 5  # features, or loadings of a direction, that words name
_FEWEST_STEPS = 2  # that make a curve


class Panel(ABC):
    """Something learned that a picture shows: names and host arrays, and how they are drawn.

    A panel of one's own is a frozen dataclass with a `name` and a `draw`.
    """

    name: ClassVar[str]  # by which `plot` is asked for it

    @property
    def empty(self) -> str:
        """Why there is nothing to draw; empty itself where there is."""
        return ""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of small pictures that it draws."""
        return 1, 1

    @property
    def words(self) -> str:
        """Say what is drawn, to those who do not see it."""
        return self.name.replace("_", " ")

    def apart(self) -> list[tuple[str, Panel]]:
        """Give a panel for each small picture, with what it is of; itself where it is one."""
        return [("", self)]

    @abstractmethod
    def draw(self, ax: Any, /) -> Any:
        """Draw into an axes; give what was drawn on: it, or an array of others in its place."""


@dataclass(frozen=True, eq=False)
class Importances(Panel):
    """How much each feature matters.

    Attributes
    ----------
    features : tuple of str
        Names.
    values : array (d,)
        Importances, at least 0.
    unit : str
        What they are shares of.
    levels : array of int (d,), optional
        Rounds that found the features, 0 for none.
    parts : tuple of dict, optional
        Names and shares of what was made of each feature, such as levels of a category.
    errors : array (d,), optional
        Standard errors of the importances, where they are known.
    remark : str
        What the errors are, and which features are judged together.
    """

    name: ClassVar[str] = "importances"
    title: ClassVar[str] = "Feature importances"
    features: tuple[str, ...]
    values: np.ndarray
    unit: str = ""
    levels: np.ndarray | None = None
    parts: tuple[dict[str, float], ...] | None = None
    errors: np.ndarray | None = None
    remark: str = ""

    @property
    def words(self) -> str:
        """Say the leading ones."""
        said = ", ".join(f"{name} {value:.2f}" for name, value in self.leading(_SAID))
        left = np.count_nonzero(self.values) - _SAID
        more = f", and {left} smaller ones" if left > 0 else ""
        below = f"; {self.remark}" if self.remark else ""
        return f"{self.name.replace('_', ' ')}: {said}{more}{below}"

    def leading(self, count: int, /) -> list[tuple[str, float]]:
        """Names and values of the leading features that have any, or of the first."""
        return [(self.features[k], float(self.values[k])) for k in self._order(count)]

    def error_of(self, feature: str, /) -> float | None:
        """Give the standard error of a feature's importance, where it is known."""
        return None if self.errors is None else float(self.errors[self.features.index(feature)])

    def leading_parts(self, feature: str, count: int, /) -> list[tuple[str, float]]:
        """Names and shares of the leading parts of a feature, if it has more than one."""
        found = {} if self.parts is None else self.parts[self.features.index(feature)]
        leading = sorted(found.items(), key=lambda part: -part[1])[:count]
        return [part for part in leading if part[1] > 0] if len(found) > 1 else []

    def _order(self, count: int) -> np.ndarray:
        order = np.argsort(-self.values, kind="stable")[:count]
        return order[self.values[order] > 0] if self.values.any() else order

    def draw(self, ax: Any, /, *, caveat: str = "") -> Any:
        """Draw bars of the leading features; pale, with words, if they mean nothing."""
        order = self._order(BARS)[::-1]
        levels = np.ones(len(self.values), dtype=int) if self.levels is None else self.levels
        colors = [PALE if caveat else level_color(int(levels[k])) for k in order]
        bars: dict[str, Any] = {"color": colors}
        if self.errors is not None:
            bars |= {"xerr": self.errors[order], "ecolor": GREY, "capsize": 2}
        ax.barh(np.arange(len(order)), self.values[order], **bars)
        ax.set_yticks(np.arange(len(order)), [short(self.features[k]) for k in order])
        ax.set_ylim(min(len(order) - _FEWEST_BARS, 0) - 0.5, len(order) - 0.5)
        if levels.max(initial=0) > 1:
            for level in range(1, int(levels.max()) + 1):
                ax.plot([], [], "s", color=level_color(level), label=f"found in round {level}")
            legend(ax, loc="lower right")
        unit = [f"share of the {self.unit}"] if self.unit else []
        below = [*unit, *(textwrap.wrap(short(self.remark, _REMARK), _BELOW))]
        ax.set(title=self.title, xlabel="\n".join(below))
        ax.locator_params(axis="x", nbins=6)
        if not self.values.any():
            ax.set_xlim(0.0, 1.0)
            caveat = caveat or "every importance is 0"
        if caveat:
            said = {"ha": "center", "va": "center", "transform": ax.transAxes}
            box = {"fc": "white", "ec": RED, "alpha": 0.9, "boxstyle": "round"}
            ax.text(0.5, 0.5, textwrap.fill(caveat, _LINE), color=RED, fontsize=9, bbox=box, **said)
        plain(ax)
        return ax


@dataclass(frozen=True, eq=False)
class HeldOutImportances(Importances):
    """How much shuffling each feature costs on rows that the model has not seen."""

    name: ClassVar[str] = "held_out_importances"
    title: ClassVar[str] = "What shuffling costs"


@dataclass(frozen=True, eq=False)
class Directions(Panel):
    """Learned directions.

    Attributes
    ----------
    features : tuple of str
        Names.
    loadings : array (k, d)
        One direction a row, most important first.
    importances : array (d,)
        By which the features are chosen that are shown.
    of : str
        Whose they are, where that is a part of the model: " of agop, 20 % of the blend".
    """

    name: ClassVar[str] = "directions"
    features: tuple[str, ...]
    loadings: np.ndarray
    importances: np.ndarray
    of: str = ""

    @property
    def empty(self) -> str:
        """Why there is nothing to draw."""
        if not len(self.loadings):
            return "no direction was learned"
        return "" if len(self._shown) else "no feature stands out in the learned directions"

    @property
    def _shown(self) -> np.ndarray:
        """Numbers of the features that are drawn, most important first."""
        weighs = (np.abs(self.loadings[:_DIRECTIONS]) >= _LEAST).any(axis=0)
        order = np.argsort(-self.importances, kind="stable")
        return order[(weighs & (self.importances > 0))[order]][:BARS]

    @property
    def words(self) -> str:
        """Say what the leading direction is made of."""
        many = f"{len(self.loadings)} learned direction{'' if len(self.loadings) == 1 else 's'}"
        return f"{many}{self.of}; the first is {self.mix(0)}"

    @property
    def leading(self) -> range:
        """Numbers of the directions that are shown."""
        return range(min(len(self.loadings), _DIRECTIONS))

    def mix(self, rank: int, /) -> str:
        """Say a direction as a sum of features, largest loadings first: "+0.8 a − 0.6 b"."""
        row = self.loadings[rank]
        order = np.argsort(-np.abs(row), kind="stable")[:_SAID]
        terms = [
            f"{'+' if row[k] > 0 else '−'}{abs(row[k]):.2f} {self.features[k]}"
            for k in order
            if abs(row[k]) >= _LEAST
        ]
        left = int(np.count_nonzero(np.abs(row) >= _LEAST)) - len(terms)
        return "  ".join(terms) + (f"  and {left} smaller" if left else "")

    def draw(self, ax: Any, /) -> Any:
        """Draw the loadings of the leading directions on the leading features."""
        loadings, order = self.loadings[:_DIRECTIONS], self._shown
        image = ax.imshow(loadings[:, order].T, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
        ax.set_yticks(range(len(order)), [short(self.features[k]) for k in order])
        ax.set_xticks(range(len(loadings)), [f"{k + 1}" for k in range(len(loadings))])
        left = len(self.loadings) - len(loadings)
        more = f" ({left} more)" if left else ""
        title = f"Learned directions{self.of}"
        ax.set(title=title, xlabel=f"direction, most important first{more}")
        ax.figure.colorbar(image, ax=ax, label="loading")
        return ax

    def named(self, rank: int, /) -> str:
        """Name of a direction: of the feature, where it is one, or of what it mostly is."""
        return direction_name(self.features, self.loadings, rank)


def direction_name(features: tuple[str, ...], loadings: np.ndarray, rank: int, /) -> str:
    """Name of row `rank` of `loadings` (k, d): of the feature, where it is one."""
    sizes = np.abs(loadings[rank])
    main = int(np.argmax(sizes))
    if sizes.sum() == sizes[main]:
        return features[main]
    mostly = f", mostly {features[main]}" if sizes[main] ** 2 > 0.5 * np.sum(sizes**2) else ""
    return f"direction {rank + 1}{mostly}"


@dataclass(frozen=True, eq=False)
class Objective(Panel):
    """The objective of a fit at its steps, and the validation score where there is one."""

    name: ClassVar[str] = "objective"
    objective: tuple[float, ...]
    validation_score: tuple[float, ...] = ()

    @property
    def empty(self) -> str:
        """Why there is nothing to draw."""
        few = len(self.objective) < _FEWEST_STEPS
        return f"the fit took {len(self.objective) or 'no'} step" if few else ""

    @property
    def words(self) -> str:
        """Say where it began and ended."""
        first, last = self.objective[0], self.objective[-1]
        return f"objective from {first:.4g} to {last:.4g} in {len(self.objective)} steps"

    def draw(self, ax: Any, /) -> Any:
        """Draw both against the step."""
        steps = np.arange(1, len(self.objective) + 1)
        ax.plot(steps, self.objective, "o-", ms=3, color=BLUE, label="objective")
        ax.set(title="Optimisation of the final fit", xlabel="step", ylabel="objective")
        whole_steps(ax.xaxis)
        if self.validation_score:
            twin = ax.twinx()
            twin.plot(steps, self.validation_score, "s--", ms=3, color=ORANGE)
            twin.set_ylabel("validation R²", color=ORANGE)
            twin.spines[["top"]].set_visible(False)
        plain(ax)
        return ax
