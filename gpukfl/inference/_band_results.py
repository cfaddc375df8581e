"""What `bands` gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gpukfl.inspection import Description, Panel, Told, plot_panel
from gpukfl.inspection._figures import Size
from gpukfl.inspection._style import (
    BLUE,
    GREY,
    add_legend,
    clean_text,
    shorten_label,
    shorten_text,
    style_axes,
)

if TYPE_CHECKING:
    import pandas as pd

TITLES = {
    "partial_dependence": "Partial dependence",
    "accumulated_effects": "Accumulated local effects",
    "profiles": "Profiles along the learned directions",
}
_ACROSS = 3  # pictures in a row
_SHOWN = 12
_LEVEL = 15  # letters of a level that are shown, and of all of them beside each other


@dataclass(frozen=True, eq=False)
class Band:
    """One curve, and a band that holds the whole of it with a stated probability.

    Attributes
    ----------
    name, output : str
        Of the feature or direction, and of the target or class.
    steps : array, shape (g,)
        Where the curve is: values of the feature, or coordinates along the direction.
    center : array, shape (g,)
        The estimate: of a learned kernel the mean of smoothers of two halves of the rows, which
        smooth less than the model, or one of rows that were held out; otherwise the model's own.
    width : array, shape (g,)
        Half the height of the band.
    model : array, shape (g,)
        The curve of the fitted model; of a blend that of the member that was asked, by its model
        of one fold.
    labels : tuple of str
        The levels, of a category, whose steps are 0, 1 and so on; otherwise empty.
    """

    name: str
    output: str
    steps: np.ndarray
    center: np.ndarray
    width: np.ndarray
    model: np.ndarray
    labels: tuple[str, ...] = ()

    @property
    def lower(self) -> np.ndarray:
        """The lower end of the band."""
        return self.center - self.width

    @property
    def upper(self) -> np.ndarray:
        """The upper end."""
        return self.center + self.width

    @property
    def may_be_flat(self) -> bool:
        """Whether some constant lies in the band everywhere."""
        return bool(self.lower.max() <= self.upper.min())

    def holds(self, curve: Any) -> bool:
        """Whether a curve (g,) at the steps lies in the band everywhere."""
        return bool(np.all(np.abs(np.asarray(curve) - self.center) <= self.width))


@dataclass(frozen=True, eq=False)
class Bands(Told):
    """Curves with simultaneous bands: each holds its whole curve with probability `coverage`.

    Attributes
    ----------
    curves : tuple of Band
        One for each feature or direction, and output.
    kind : str
        "partial_dependence", "accumulated_effects" or "profiles".
    coverage : float
        Of each band by itself.
    basis : str
        What the bands were made by.
    remarks : tuple of str
        What is to be known of them.
    asked : str
        Whose own curves lie beside: "model", or "member of the blend".
    unfinished : tuple of str
        Features or directions that were left out, as it was interrupted before.
    """

    curves: tuple[Band, ...]
    kind: str
    coverage: float
    basis: str
    remarks: tuple[str, ...] = ()
    asked: str = "model"
    unfinished: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.curves)

    def __iter__(self) -> Iterator[Band]:
        return iter(self.curves)

    def __getitem__(self, name: str | int) -> Band:
        """Return the first curve of a name, or one by its number."""
        if not isinstance(name, str):
            return self.curves[name]
        found = [one for one in self.curves if one.name == name]
        if not found:
            names = ", ".join(dict.fromkeys(one.name for one in self.curves))
            msg = f"expected the name of a curve, one of {names}, got {name!r}"
            raise KeyError(msg)
        return found[0]

    def summary(self) -> str:
        """Return in plain text what varies, and what the bands do not show."""
        head = f"{TITLES[self.kind]}, bands of {self.coverage:.0%} by {self.basis}"
        rows = [f"  {'':<28}{'from':>10}{'to':>10}{'± on average':>14}"]
        rows += [
            f"  {shorten_text(_curve_label(one, self), 28):<28}"
            f"{one.center.min():>10.3g}{one.center.max():>10.3g}"
            f"{one.width.mean():>14.3g}  {'may be flat' if one.may_be_flat else 'is not flat'}"
            for one in self.curves
        ]
        cut = [f"interrupted before {', '.join(self.unfinished)}"] if self.unfinished else []
        return "\n".join([head, *rows, *(f"  {remark}" for remark in (*self.remarks, *cut))])

    def in_words(self) -> str:
        """Return a paragraph on what may be concluded of the curves, and what not."""
        varied = [clean_text(_curve_label(one, self)) for one in self.curves if not one.may_be_flat]
        flat = [clean_text(_curve_label(one, self)) for one in self.curves if one.may_be_flat]
        said = []
        if varied:
            said.append(f"The {_CURVES[self.kind]} of {_join_names(varied)} is not constant.")
        if flat:
            said.append(
                f"Of {_join_names(flat)} a constant lies within the band: no effect was "
                "shown, which "
                "does not show that there is none."
            )
        said.append(
            f"Each band misses its curve somewhere in {1 - self.coverage:.0%} of samples; that all "
            "of several hold is less likely. A curve says how the mean of the target goes with a "
            "feature in these rows, not what would happen if the feature were changed."
        )
        return " ".join(said)

    def frame(self) -> pd.DataFrame:
        """Return a frame with a row for each step of each curve.

        Returns
        -------
        DataFrame
            Columns name, output, at (a number, or the level of a category), center, lower, upper
            and model.
        """
        import pandas as pd

        rows = [
            pd.DataFrame(
                {
                    "name": one.name,
                    "output": one.output,
                    "at": list(one.labels) or one.steps,
                    "center": one.center,
                    "lower": one.lower,
                    "upper": one.upper,
                    "model": one.model,
                }
            )
            for one in self.curves
        ]
        return pd.concat(rows, ignore_index=True)

    def panel(self) -> Panel:
        """Return what draws the curves."""
        return BandPictures(self)

    def plot(self, curve: str | None = None, *, ax: Any = None, figsize: Size = None) -> Any:
        """Draw the curves, or one of them.

        Parameters
        ----------
        curve : str, optional
            Name of one.
        ax : matplotlib.axes.Axes, optional
            Where to draw; several curves are drawn in its place.
        figsize : tuple of float, optional
            Width and height in inches of a new figure.

        Returns
        -------
        matplotlib.axes.Axes or array of these
            What was drawn on.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        KeyError
            If there is no such curve.
        """
        shown = self
        if curve is not None:
            name = self[curve].name
            kept = tuple(one for one in self.curves if one.name == name)
            shown = replace(self, curves=kept)
        d = Description(name="Bands", panels=(shown.panel(),))
        return plot_panel(d, BandPictures.name, ax=ax, figsize=figsize)


_CURVES = {
    "partial_dependence": "partial dependence",
    "accumulated_effects": "accumulated effect",
    "profiles": "profile",
}


@dataclass(frozen=True, eq=False)
class BandPictures(Panel):
    """Curves with their bands, a small picture each."""

    name: ClassVar[str] = "bands"
    bands: Bands

    @property
    def empty(self) -> str:
        """Why there is nothing to draw."""
        return "" if len(self.bands) else "no feature varies"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of small pictures."""
        count = min(len(self.bands), _SHOWN)
        across = min(count, _ACROSS)
        return -(-count // max(across, 1)), max(across, 1)

    @property
    def words(self) -> str:
        """Return in words what the curves are of, and which of them vary."""
        return f"curves with bands: {self.bands.in_words()}"

    def apart(self) -> list[tuple[str, Panel]]:
        """Return a panel for each of the curves that are shown."""
        some = self.bands.curves[:_SHOWN]
        return [
            (_curve_label(one, self.bands), BandPictures(replace(self.bands, curves=(one,))))
            for one in some
        ]

    def draw(self, ax: Any, /) -> Any:
        """Draw one picture, or several in the place of the axes."""
        curves = self.bands.curves[:_SHOWN]
        if len(curves) == 1:
            self._draw_one(ax, curves[0], title=TITLES[self.bands.kind])
            add_legend(ax)
            return ax
        place = ax.get_subplotspec()
        if place is None:
            msg = "expected an axes that plt.subplots made for several curves, or one of them"
            raise ValueError(msg)
        figure = ax.figure.add_subfigure(place)
        ax.remove()
        left = len(self.bands) - len(curves)
        more = f" ({left} left out)" if left else ""
        figure.suptitle(TITLES[self.bands.kind] + more, fontsize="large")
        cells = figure.subplots(*self.shape, sharey=True, squeeze=False).ravel()
        for cell, one in zip(cells, curves, strict=False):
            self._draw_one(cell, one, title="")
        add_legend(cells[0])
        for cell in cells[len(curves) :]:
            cell.remove()
        return cells[: len(curves)]

    def _draw_one(self, ax: Any, one: Band, *, title: str) -> None:
        label = f"centre of the {self.bands.coverage:.0%} band"
        beside = f"the {self.bands.asked}'s own curve"
        if one.labels:
            ax.errorbar(one.steps, one.center, one.width, fmt="o", color=BLUE, ms=4, label=label)
            ax.plot(one.steps, one.model, "x", color=GREY, label=beside)
            turned = {"rotation": 30, "ha": "right"} if len("".join(one.labels)) > _LEVEL else {}
            ax.margins(x=0.2, y=0.3)  # room for the legend above the bars
            ax.set_xticks(
                one.steps, [shorten_label(level, _LEVEL) for level in one.labels], **turned
            )
        else:
            ax.fill_between(one.steps, one.lower, one.upper, color=BLUE, alpha=0.25, lw=0)
            ax.plot(one.steps, one.center, color=BLUE, lw=1.6, label=label)
            ax.plot(one.steps, one.model, color=GREY, lw=1.0, ls="--", label=beside)
        less = "" if self.bands.kind == "profiles" else ", less its mean"
        ax.set(xlabel=shorten_label(one.name), ylabel=shorten_label(one.output) + less, title=title)
        style_axes(ax)


def _curve_label(one: Band, bands: Bands) -> str:
    several = len({each.output for each in bands.curves}) > 1
    return f"{one.name}, {one.output}" if several else one.name


def _join_names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
