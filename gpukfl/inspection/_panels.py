"""Panels: frozen values that describe and draw what was learned."""

from __future__ import annotations

import textwrap
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from gpukfl.inspection._importances import Shuffled
from gpukfl.inspection._style import (
    BAR,
    BLUE,
    COLORS,
    GREY,
    ORANGE,
    PALE,
    RED,
    add_legend,
    add_twin,
    level_color,
    name_rows,
    name_values,
    shorten_label,
    style_axes,
    use_integer_ticks,
    viridis_color,
)

BARS = 15  # features that fit in a picture
_FEWEST_BARS = 4  # for which there is room
_DIRECTIONS = 5
_LEAST = 0.005  # loading that is said
_LINE = 36  # letters of a caveat that fit in a picture
_BELOW, _REMARK = 46, 240  # letters of a line below it, and of all
_SAID = 5  # features, or loadings of a direction, that words name
_JOINED, _NAMED = " (shuffled together)", 4  # after the names of so many columns of a group
_LONG = 40  # letters of the names of a group in a picture
_FEWEST_STEPS = 2  # that make a curve


def _joined_name(names: tuple[str, ...]) -> str:
    """Return one name for columns that were shuffled together."""
    if len(names) == 1:
        return names[0]
    left = len(names) - _NAMED
    more = f" + {left} more" if left > 0 else ""
    return " + ".join(names[:_NAMED]) + more + _JOINED


class Panel(ABC):
    """A picture of what was learned: names, host arrays, and how to draw them.

    A panel of one's own is a frozen dataclass with a `name` and a `draw`.
    """

    name: ClassVar[str]  # by which `plot` is asked for it

    @property
    def empty(self) -> str:
        """The reason why nothing can be drawn, or an empty string."""
        return ""

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and columns of small pictures."""
        return 1, 1

    @property
    def words(self) -> str:
        """Return the picture in words, as an alternative text."""
        return self.name.replace("_", " ")

    def apart(self) -> list[tuple[str, Panel]]:
        """Return the panels of the small pictures with their subjects, or the panel itself."""
        return [("", self)]

    @abstractmethod
    def draw(self, ax: Any, /) -> Any:
        """Draw into an axes; return it, or an array of axes in its place."""


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
    shuffled : Shuffled, optional
        Of permutation importances: what is lost of which score, and on which rows.
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
    shuffled: Shuffled | None = None

    @property
    def scale(self) -> float:
        """What a share of 1 is on the scale that pictures and tables have."""
        return 1.0 if self.shuffled is None else self.shuffled.total

    @property
    def words(self) -> str:
        """Return the leading features in words."""
        units = self.joined()
        said = ", ".join(f"{name} {value:.2f}" for name, value in units.leading(_SAID))
        left = np.count_nonzero(units.values) - _SAID
        more = f", and {left} smaller ones" if left > 0 else ""
        below = f"; {self.remark}" if self.remark else ""
        return f"{self.name.replace('_', ' ')}: {said}{more}{below}"

    def joined(self) -> Self:
        """Return the importances with columns that were shuffled together as one."""
        if self.shuffled is None or not self.shuffled.groups:
            return self
        groups = self.shuffled.groups
        inside = {name for group in groups for name in group}
        units = [*groups, *((name,) for name in self.features if name not in inside)]
        rows = [[self.features.index(name) for name in unit] for unit in units]

        def total(values: np.ndarray) -> np.ndarray:
            return np.array([values[some].sum() for some in rows])

        return replace(
            self,
            features=tuple(map(_joined_name, units)),
            values=total(self.values),
            errors=None if self.errors is None else total(self.errors),
            shuffled=replace(self.shuffled, groups=()),
        )

    def leading(self, count: int, /) -> list[tuple[str, float]]:
        """Names and values of the leading features that have any, or of the first."""
        return [(self.features[k], float(self.values[k])) for k in self._order(count)]

    def error_of(self, feature: str, /) -> float | None:
        """Return the standard error of a feature's importance, or None."""
        return None if self.errors is None else float(self.errors[self.features.index(feature)])

    def leading_parts(self, feature: str, count: int, /) -> list[tuple[str, float]]:
        """Return names and shares of the leading parts of a feature, if it has several."""
        found = {} if self.parts is None else self.parts[self.features.index(feature)]
        leading = sorted(found.items(), key=lambda part: -part[1])[:count]
        return [part for part in leading if part[1] > 0] if len(found) > 1 else []

    def _order(self, count: int) -> np.ndarray:
        order = np.argsort(-self.values, kind="stable")[:count]
        return order[self.values[order] > 0] if self.values.any() else order

    def draw(self, ax: Any, /, *, caveat: str = "") -> Any:
        """Draw bars of the leading features; pale, with a note, if the model found nothing."""
        if self.shuffled is not None and self.shuffled.groups:
            return self.joined().draw(ax, caveat=caveat)
        order = self._order(BARS)[::-1]
        levels = np.ones(len(self.values), dtype=int) if self.levels is None else self.levels
        colors = [PALE if caveat else level_color(int(levels[k])) for k in order]
        bars: dict[str, Any] = {"color": colors}
        if self.errors is not None:
            bars |= {"xerr": self.scale * self.errors[order], "capsize": 2, "alpha": BAR}
            bars["error_kw"] = {"ecolor": "black", "elinewidth": 1}
        ax.barh(np.arange(len(order)), self.scale * self.values[order], **bars)
        names = [self.features[k] for k in order]
        joined = any(name.endswith(_JOINED) for name in names)
        names = [name.removesuffix(_JOINED) for name in names]
        name_rows(ax, names, *([_LONG] if joined else []))
        ax.set_ylim(min(len(order) - _FEWEST_BARS, 0) - 0.5, len(order) - 0.5)
        if levels.max(initial=0) > 1:
            for level in range(1, int(levels.max()) + 1):
                ax.plot([], [], "s", color=level_color(level), label=f"found in round {level}")
            add_legend(ax, loc="lower right")
        unit = [f"share of the {self.unit}"] if self.unit else []
        if self.shuffled is not None:
            lost = f"{self.shuffled.score} lost when held-out values are shuffled"
            unit = textwrap.wrap(lost, _BELOW)
        below = [*unit, *(textwrap.wrap(shorten_label(self.remark, _REMARK), _BELOW))]
        ax.set_title(self.title)
        name_values(ax, "\n".join(below))
        ax.locator_params(axis="x", nbins=6)
        if not self.values.any():
            ax.set_xlim(0.0, 1.0)
            caveat = caveat or "every importance is 0"
        if caveat:
            said = {"ha": "center", "va": "center", "transform": ax.transAxes}
            box = {"fc": "white", "ec": RED, "alpha": 0.9, "boxstyle": "round"}
            ax.text(0.5, 0.5, textwrap.fill(caveat, _LINE), color=RED, fontsize=9, bbox=box, **said)
        return style_axes(ax)


@dataclass(frozen=True, eq=False)
class HeldOutImportances(Importances):
    """Permutation importances on held-out rows."""

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
        """The reason why nothing can be drawn, or an empty string."""
        if not len(self.loadings):
            return "no direction was learned"
        return (
            "" if len(self._shown_features) else "no feature stands out in the learned directions"
        )

    @property
    def _shown_features(self) -> np.ndarray:
        """The numbers of the drawn features, most important first."""
        weighs = (np.abs(self.loadings[:_DIRECTIONS]) >= _LEAST).any(axis=0)
        order = np.argsort(-self.importances, kind="stable")
        return order[(weighs & (self.importances > 0))[order]][:BARS]

    @property
    def words(self) -> str:
        """Return the leading direction in words."""
        many = f"{len(self.loadings)} learned direction{'' if len(self.loadings) == 1 else 's'}"
        return f"{many}{self.of}; the first is {self.mix(0)}"

    @property
    def leading(self) -> range:
        """The numbers of the drawn directions."""
        return range(min(len(self.loadings), _DIRECTIONS))

    def mix(self, rank: int, /) -> str:
        """Write a direction as a sum of features, largest loadings first: "+0.8 a − 0.6 b"."""
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
        """Draw the loadings of the leading directions."""
        loadings, order = self.loadings[:_DIRECTIONS], self._shown_features
        image = ax.imshow(loadings[:, order].T, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
        name_rows(ax, [self.features[k] for k in order])
        ax.set_xticks(range(len(loadings)), [f"{k + 1}" for k in range(len(loadings))])
        left = len(self.loadings) - len(loadings)
        more = f" ({left} more)" if left else ""
        title = f"Learned directions{self.of}"
        ax.set(title=title, xlabel=f"direction, most important first{more}")
        ax.figure.colorbar(image, ax=ax, label="loading")
        return ax

    def named(self, rank: int, /) -> str:
        """Return the name of a direction, by its main features."""
        return direction_name(self.features, self.loadings, rank)


def direction_name(features: tuple[str, ...], loadings: np.ndarray, rank: int, /) -> str:
    """Return the name of row `rank` of `loadings` (k, d), by its main features."""
    sizes = np.abs(loadings[rank])
    main = int(np.argmax(sizes))
    if sizes.sum() == sizes[main]:
        return features[main]
    mostly = f", mostly {features[main]}" if sizes[main] ** 2 > 0.5 * np.sum(sizes**2) else ""
    return f"direction {rank + 1}{mostly}"


@dataclass(frozen=True, eq=False)
class Objective(Panel):
    """The objective at the steps of a fit, with the validation score if there is one."""

    name: ClassVar[str] = "objective"
    objective: tuple[float, ...]
    validation_score: tuple[float, ...] = ()

    @property
    def empty(self) -> str:
        """The reason why nothing can be drawn, or an empty string."""
        few = len(self.objective) < _FEWEST_STEPS
        return f"the fit took {len(self.objective) or 'no'} step" if few else ""

    @property
    def words(self) -> str:
        """Return the first and last objective in words."""
        first, last = self.objective[0], self.objective[-1]
        return f"objective from {first:.4g} to {last:.4g} in {len(self.objective)} steps"

    def draw(self, ax: Any, /) -> Any:
        """Draw objective and validation score against the step."""
        steps = np.arange(1, len(self.objective) + 1)
        ax.plot(steps, self.objective, "o-", ms=3, color=BLUE, label="objective")
        ax.set(title="Optimisation of the final fit", xlabel="step", ylabel="objective")
        use_integer_ticks(ax.xaxis)
        if self.validation_score:
            twin = add_twin(ax, "validation R²", color=ORANGE)
            twin.plot(steps, self.validation_score, "s--", ms=3, color=ORANGE)
        return style_axes(ax)


# --------------------------------------------------------------------------------- outputs

# Panels of several small pictures, one for each class or target.


OUTPUTS = 6  # classes or targets that are drawn
_ACROSS = 3  # of them in a row


class OutputsPanel(Panel):
    """A panel with a small picture for each class or target, of which six are drawn at most."""

    outputs: tuple[str, ...]
    title: str

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and columns of small pictures."""
        count = min(len(self.outputs), OUTPUTS)
        across = count if count <= _ACROSS else -(-count // 2)
        return -(-count // across), across

    def of(self, output: int | str, /) -> Self:
        """Return the panel of one class or target, by its name or else its number.

        Raises
        ------
        ValueError
            If there is no such output.
        """
        names = self.outputs
        if str(output) in names:  # labels may be numbers, too
            return self._only(names.index(str(output)))
        if isinstance(output, str) or not -len(names) <= output < len(names):
            msg = f"expected output to be one of {', '.join(names)}, or its number, got {output!r}"
            raise ValueError(msg)
        return self._only(output % len(names))

    def apart(self) -> list[tuple[str, Panel]]:
        """Return a panel for each of the outputs that are drawn."""
        if len(self.outputs) == 1:
            return [("", self)]
        return [(self.outputs[k], self._only(k)) for k in self._shown_outputs]

    def draw(self, ax: Any, /) -> Any:
        """Draw one picture, or one per output in place of the axes."""
        if len(self.outputs) == 1:
            self._draw_output(ax, 0)
            ax.set_title(self.title)
            return ax
        return self._draw_several(ax)

    @property
    def _shown_outputs(self) -> list[int]:
        """Numbers of the outputs that are drawn."""
        return list(range(min(len(self.outputs), OUTPUTS)))

    @abstractmethod
    def _only(self, k: int) -> Self:
        """Return the panel of output k."""

    @abstractmethod
    def _draw_output(self, ax: Any, k: int) -> None:
        """Draw output k."""

    def _draw_several(self, ax: Any) -> np.ndarray:
        count = len(self.outputs)
        more = f" (the first {OUTPUTS} of {count})" if count > OUTPUTS else ""
        _, cells = split_axes(ax, self.title + more, self.shape, len(self._shown_outputs))
        self._draw_cells(cells)
        return cells

    def _draw_cells(self, cells: np.ndarray) -> None:
        for cell, k in zip(cells, self._shown_outputs, strict=True):
            self._draw_output(cell, k)
            cell.set_title(shorten_label(self.outputs[k]), fontsize="medium")


def take_place(ax: Any, instead: str, /) -> Any:
    """Remove an axes, and return the part of its figure where it was.

    ValueError names what may be drawn `instead` where the axes has no place of its own.
    """
    place = ax.get_subplotspec()
    if place is None:
        msg = f"expected an axes that plt.subplots made for {instead}"
        raise ValueError(msg)
    figure = ax.figure.add_subfigure(place)
    ax.remove()
    return figure


def split_axes(
    ax: Any, title: str, shape: tuple[int, int], count: int, /, *, instead: str = "", **shared: Any
) -> tuple[Any, np.ndarray]:
    """Put so many small pictures in the place of an axes: their figure, and their axes.

    ValueError names what may be drawn `instead` where the axes has no place of its own.
    """
    figure = take_place(ax, instead or "several outputs, or output=...")
    figure.suptitle(title, fontsize="large")
    cells = figure.subplots(*shape, squeeze=False, **shared).ravel()
    for cell in cells[count:]:
        cell.remove()
    return figure, cells[:count]


@dataclass(frozen=True, eq=False)
class Curves(OutputsPanel):
    """Functions of one coordinate each: the model along learned directions or variables.

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
        """The reason why nothing can be drawn, or an empty string."""
        if not self.labels:
            return "no function was learned"
        return "" if any(np.ptp(v, axis=0).any() for v in self.values) else "every function is flat"

    @property
    def words(self) -> str:
        """Return in words what the curves show, and the range of the first one."""
        drawn = self._curve_values(0)
        ends = drawn.min(), drawn.max()
        of = ", ".join(self.labels)
        first = f"the first from {ends[0]:.3g} to {ends[1]:.3g}"
        return f"functions of {', '.join(self.outputs[:OUTPUTS])} along {of}{self._less}; {first}"

    @property
    def _less(self) -> str:
        return ", less its mean" if self.centered else ""

    def _curve_values(self, rank: int) -> np.ndarray:
        """Return the drawn values (points, t) of a curve."""
        values = self.values[rank]
        return values - values.mean(axis=0) if self.centered else values

    def apart(self) -> list[tuple[str, Panel]]:
        """Return a panel for each of the leading outputs, all on one scale where units are one."""
        if len(self.outputs) == 1 or not self.one_unit:
            return super().apart()
        shown = self._shown_outputs
        spans = [self._curve_values(rank)[:, shown] for rank in range(len(self.values))]
        ends = min(v.min() for v in spans), max(v.max() for v in spans)
        room = 0.05 * (ends[1] - ends[0])
        limits = float(ends[0] - room), float(ends[1] + room)
        return [(self.outputs[k], replace(self._only(k), limits=limits)) for k in shown]

    def _only(self, k: int) -> Self:
        some = tuple(values[:, [k]] for values in self.values)
        return replace(self, values=some, outputs=(self.outputs[k],))

    @property
    def _shown_outputs(self) -> list[int]:
        """Numbers of the outputs that vary most, in their order."""
        spans = sum(np.ptp(values, axis=0) for values in self.values)
        return sorted(np.argsort(-spans, kind="stable")[:OUTPUTS].tolist())

    def draw(self, ax: Any, /) -> Any:
        """Draw one picture, or one per output in place of the axes."""
        if len(self.outputs) > 1:
            return self._draw_several(ax)
        super().draw(ax)
        label = f"{self.ylabel} {shorten_label(self.outputs[0])}{self._less}"
        ax.set(xlabel=self.xlabel, ylabel=label)
        if self.limits is not None:
            ax.set_ylim(self.limits)
        self._finish(ax, ax)
        return ax

    def _draw_several(self, ax: Any) -> np.ndarray:
        count = len(self._shown_outputs)
        left = len(self.outputs) - count
        more = f" ({left} of {len(self.outputs)} left out, which vary less)" if left else ""
        title = self.title + more
        figure, cells = split_axes(ax, title, self.shape, count, sharex=True, sharey=self.one_unit)
        figure.supylabel(f"{self.ylabel} it{self._less}", fontsize="medium")
        self._draw_cells(cells)
        lowest = cells[-self.shape[1] :]
        for cell in lowest:
            cell.tick_params(labelbottom=True)
        for cell in lowest[1:2] if len(lowest) == _ACROSS else lowest:
            cell.set_xlabel(self.xlabel, fontsize="small")
        self._finish(cells[0], figure, loc="outside lower center", ncol=min(len(self.labels), 4))
        return cells

    def _draw_output(self, ax: Any, k: int) -> None:
        for rank, (label, t) in enumerate(zip(self.labels, self.steps, strict=True)):
            color = viridis_color(rank, len(self.labels))
            ax.plot(t, self._curve_values(rank)[:, k], color=color, lw=1.6, label=label)
        style_axes(ax)

    def _finish(self, ax: Any, where: Any, **options: Any) -> None:
        """Add the legend of an axes or of its figure."""
        add_legend(ax, where, title=self.remark or None, title_fontsize=7, **options)


@dataclass(frozen=True, eq=False)
class StumpCurves(Curves):
    """Sums of decision stumps, one curve per feature, with ticks at the thresholds.

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
        style_axes(ax)

    def _finish(self, ax: Any, where: Any, **options: Any) -> None:
        low, high = ax.get_ylim()  # room for the ticks, and for names inside
        above = 0.4 if where is ax else 0.0
        ax.set_ylim(low - 0.25 * (high - low), high + above * (high - low))
        super()._finish(ax, where, **{"ncol": 2, "loc": "upper center", **options})


# ------------------------------------------------------------------------------ parameters

# Panels of a sum of many terms: how few carry it, and a bound on its risk.


@dataclass(frozen=True, eq=False)
class Sparsity(Panel):
    """Concentration of the coefficients, and the cost of pruning.

    Attributes
    ----------
    sizes : array (k,)
        Absolute coefficients of the parameters that are left.
    drawn : int
        Parameters before.
    pruned : tuple of (int, float)
        Parameters left, and degradation, of each pruned model.
    tolerance : float
        Degradation that was allowed.
    rule : str
        What the degradation is of.
    """

    name: ClassVar[str] = "sparsity"
    sizes: np.ndarray
    drawn: int
    pruned: tuple[tuple[int, float], ...] = ()
    tolerance: float = 0.01
    rule: str = ""

    @property
    def empty(self) -> str:
        """The reason why nothing can be drawn, or an empty string."""
        return "" if self.sizes.any() else "no parameter is left"

    def draw(self, ax: Any, /) -> Any:
        """Draw the share of the largest coefficients, and the degradation of pruned models."""
        sizes, left = np.sort(self.sizes)[::-1], len(self.sizes)
        ax.plot(np.arange(1, left + 1), np.cumsum(sizes) / sizes.sum(), color=BLUE, lw=1.8)
        ax.axvline(self.drawn, color="#999999", ls=":", lw=1.2)
        ax.text(self.drawn, 0.02, "drawn ", ha="right", va="bottom", fontsize=8, color=GREY)
        ax.axvline(left, color=BLUE, ls="--", lw=1.2)
        ax.set(
            title=f"Sparsity: {left} of {self.drawn} parameters",
            xlabel="parameters, largest coefficients first",
            ylabel="share of the absolute coefficients",
            ylim=(0.0, 1.02),
        )
        if self.pruned:
            label = f"degradation when pruned, by “{self.rule}”"
            twin = add_twin(ax, label, color=ORANGE)
            twin.plot(*zip(*self.pruned, strict=True), "s", ms=4, color=ORANGE)
            twin.axhline(self.tolerance, color=ORANGE, ls=":", lw=1.2)
            twin.set_yscale("symlog", linthresh=self.tolerance)
        return style_axes(ax)


@dataclass(frozen=True, eq=False)
class Bound(Panel):
    """Measured risks, and bounds on the risk.

    Attributes
    ----------
    held_out, training, bounds : dict of str: float
        Names and risks: the last are bounds.
    """

    name: ClassVar[str] = "bound"
    held_out: dict[str, float]
    training: dict[str, float]
    bounds: dict[str, float]

    def draw(self, ax: Any, /) -> Any:
        """Draw one bar each, on a logarithmic scale."""
        groups = ((self.held_out, BLUE), (self.training, GREY), (self.bounds, ORANGE))
        bars = [(*bar, color) for group, color in groups for bar in group.items()][::-1]
        names, values, colors = zip(*bars, strict=True)
        floor = 0.5 * min((value for value in values if value > 0), default=1.0)
        ax.barh(names, np.maximum(values, floor), left=0.0, color=colors)
        for row, value in enumerate(values):
            ax.text(max(value, floor), row, f" {value:.3g}", va="center", fontsize=8)
        ax.set_xscale("log")
        ax.set_xlim(0.5 * floor, 8.0 * max(*values, 1.0))
        ax.axvline(1.0, color="#999999", ls=":", lw=1.2)
        ax.set(title="Bound (71) against the truth", xlabel="risk (1: says nothing about labels)")
        return style_axes(ax)


# ---------------------------------------------------------------------------------- rounds

# Panels of a selection of variables: its rounds, and its path over thresholds.


_CURVES = 8  # paths that can be told apart


@dataclass(frozen=True, eq=False)
class Rounds(Panel):
    """Scores of variables, and the rounds in which they were selected.

    Attributes
    ----------
    features : tuple of str
        Names.
    scores : array (p,)
        At the start of the round where they entered, or of the last round.
    levels : array of int (p,)
        Rounds that selected them, one more than there were where that was no round, 0 for none.
    thresholds : tuple of (int, float)
        Level and threshold γ of each round.
    """

    name: ClassVar[str] = "rounds"
    features: tuple[str, ...]
    scores: np.ndarray
    levels: np.ndarray
    thresholds: tuple[tuple[int, float], ...]

    @property
    def empty(self) -> str:
        """The reason why nothing can be drawn, or an empty string."""
        return "" if np.any(self.scores > 0) else "no variable has a score"

    def draw(self, ax: Any, /) -> Any:
        """Draw the leading scores, and the threshold of each round."""
        last = np.where(self.levels > 0, self.levels, len(self.thresholds) + 2)
        order = np.lexsort((-self.scores, last))
        order = order[self.scores[order] > 0][:BARS][::-1]
        colors = [level_color(int(self.levels[k])) for k in order]
        ax.scatter(self.scores[order], range(len(order)), c=colors, zorder=3)
        name_rows(ax, [self.features[k] for k in order])
        for level, sparsity in self.thresholds:
            if sparsity > 0:
                color, label = level_color(level), f"γ of round {level}"
                ax.axvline(sparsity, color=color, ls="--", lw=1.2, label=label)
        ax.set_xscale("log")
        ax.set(title="Scores where variables entered", xlabel="score (grey: not selected)")
        add_legend(ax, loc="lower right")
        return style_axes(ax)


@dataclass(frozen=True, eq=False)
class Path(Panel):
    """Weights of variables along thresholds γ, and the hold-out score.

    Attributes
    ----------
    features : tuple of str
        Names.
    sparsity : array (k,)
        Thresholds.
    weights : array (k, p)
        Of every variable.
    scores : array (k,)
        On held-out rows.
    chosen : float
        The threshold that was taken.
    score : str
        What the score is.
    """

    name: ClassVar[str] = "path"
    features: tuple[str, ...]
    sparsity: np.ndarray
    weights: np.ndarray
    scores: np.ndarray
    chosen: float
    score: str = "R²"

    def draw(self, ax: Any, /) -> Any:
        """Draw the weights of the leading variables with their names, and the score."""
        leading = np.argsort(-self.weights.max(axis=0), kind="stable")[:_CURVES]
        rest = np.setdiff1d(np.flatnonzero(self.weights.any(axis=0)), leading)
        ax.plot(self.sparsity, self.weights[:, rest], color=PALE, lw=0.8)
        for k in leading[self.weights[:, leading].any(axis=0)]:
            ax.plot(self.sparsity, self.weights[:, k], "o-", ms=3, label=self.features[k])
        twin = add_twin(ax, f"hold-out {self.score} (dashed)")
        twin.plot(self.sparsity, self.scores, "k--", lw=1.2)
        ax.axvline(self.chosen, color="#555555", lw=0.8)
        ax.set(title="Path over γ", xlabel="γ", ylabel="weight β", xscale="log")
        add_legend(ax)
        return style_axes(ax)


# ---------------------------------------------------------------------------------- shares

# Panels of a series of polynomials: shares of directions, and degrees.


_SHOWN = 8  # directions that can be told apart


@dataclass(frozen=True, eq=False)
class Eta(Panel):
    """Shares of directions or variables over the iterations.

    Attributes
    ----------
    shares : array (k, d)
        After each update, summing to 1.
    features : tuple of str, optional
        Names of the variables; directions are numbered by their last share.
    """

    name: ClassVar[str] = "eta"
    shares: np.ndarray
    features: tuple[str, ...] | None = None

    def draw(self, ax: Any, /) -> Any:
        """Draw the curves, with the largest ones named, and the threshold 1/d."""
        shares = self.shares
        order = np.argsort(-shares[-1], kind="stable")
        for place in range(len(order) - 1, -1, -1):
            k, shown = order[place], place < _SHOWN
            name = f"direction {place + 1}" if self.features is None else self.features[k]
            color = viridis_color(place, min(_SHOWN, len(order))) if shown else "#cccccc"
            label = name if shown else None
            ax.plot(np.arange(len(shares)), shares[:, k], "o-", ms=3, color=color, label=label)
        ax.axhline(1.0 / shares.shape[1], color="#999999", ls=":", lw=1.2)
        ax.set(
            title="Importances over the iterations (dotted: 1/d)",
            xlabel="updates of the directions",
            ylabel=r"$\eta^{r/(2-r)}$",
            ylim=(0.0, None),
        )
        use_integer_ticks(ax.xaxis)
        add_legend(ax, ncol=2, reverse=True)
        return style_axes(ax)


@dataclass(frozen=True, eq=False)
class Degrees(Panel):
    """Total degrees of features, and of their variance.

    Attributes
    ----------
    tuples : array (k,)
        Share of the features with degree 0, 1, ...
    variance : array (k,)
        Share of the squared coefficients.
    """

    name: ClassVar[str] = "degrees"
    tuples: np.ndarray
    variance: np.ndarray

    def draw(self, ax: Any, /) -> Any:
        """Draw both."""
        steps = np.arange(len(self.tuples))
        ax.bar(steps, self.tuples, color="#c9d6e2", label="of the tuples")
        ax.plot(steps, self.variance, "o-", ms=4, color=BLUE, label="of the variance")
        ax.set(title="Degrees of the Hermite features", xlabel="total degree", ylabel="share")
        use_integer_ticks(ax.xaxis)
        add_legend(ax, fontsize=8)
        return style_axes(ax)
