"""What inference found: frozen results with a table, words and a picture, which are panels."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.stats import t as student

from gpukfl.inspection import Description, Panel, Told, direction_name, plot_panel
from gpukfl.inspection._figures import Size
from gpukfl.inspection._panels import split_axes
from gpukfl.inspection._style import (
    BARS_TEXT,
    BLUE,
    GREY,
    ORANGE,
    add_legend,
    add_twin,
    clean_text,
    number_text,
    shorten_label,
    shorten_text,
    style_axes,
    time_unit,
    use_integer_ticks,
)
from gpukfl.tables._clusters import group_sums

if TYPE_CHECKING:
    import pandas as pd


class Result(Told, Panel):
    """What one function of inference found; a report draws it as it stands."""

    @abstractmethod
    def frame(self) -> pd.DataFrame:
        """Return all numbers as a frame."""

    @abstractmethod
    def in_words(self) -> str:
        """Return a paragraph on what may be concluded, and what not."""

    def panel(self) -> Panel:
        """Return what draws it, which is the result itself."""
        return self

    def _plot(self, ax: Any, figsize: Size) -> Any:
        d = Description(name=type(self).__name__, panels=(self,))
        return plot_panel(d, self.name, ax=ax, figsize=figsize)


# ----------------------------------------------------------------------------------- bands

# What `bands` gives.


_ACROSS = 3  # pictures in a row
_SHOWN = 12
_LETTERS = 15  # of a level that are shown, and of all of them beside each other
_TITLES = {
    "partial_dependence": "Partial dependence",
    "accumulated_effects": "Accumulated local effects",
    "profiles": "Profiles along the learned directions",
}
_CURVES = {
    "partial_dependence": "partial dependence",
    "accumulated_effects": "accumulated effect",
    "profiles": "profile",
}


@dataclass(frozen=True, eq=False)
class Band:
    """A curve with a band that holds the whole curve with a stated probability.

    Attributes
    ----------
    name, output : str
        Name of the feature or direction, and of the target or class.
    steps : array, shape (g,)
        Positions of the curve: values of the feature, or coordinates along the direction.
    center : array, shape (g,)
        The estimate. For a learned kernel it is the mean of smoothers of two halves of the rows, or
        one smoother of held-out rows. Smoothers smooth less than the model. Otherwise it is the
        model's own curve.
    width : array, shape (g,)
        Half the height of the band.
    model : array, shape (g,)
        The curve of the fitted model. For a blend it is that of the analysed member, by its model
        of one fold.
    labels : tuple of str
        The levels of a category, whose steps are 0, 1 and so on; empty for other features.
    seconds : float
        Length of a step of 1 in seconds: 1 for durations, 86 400 for times between dates, 0 for
        other features.
    """

    name: str
    output: str
    steps: np.ndarray
    center: np.ndarray
    width: np.ndarray
    model: np.ndarray
    labels: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def lower(self) -> np.ndarray:
        """The lower limit of the band."""
        return self.center - self.width

    @property
    def upper(self) -> np.ndarray:
        """The upper limit of the band."""
        return self.center + self.width

    @property
    def may_be_flat(self) -> bool:
        """Whether the band holds a constant function."""
        return bool(self.lower.max() <= self.upper.min())

    def holds(self, curve: Any) -> bool:
        """Whether the band holds a curve (g,) at all steps."""
        return bool(np.all(np.abs(np.asarray(curve) - self.center) <= self.width))


@dataclass(frozen=True, eq=False)
class Bands(Result):
    """Curves with simultaneous bands: each band holds its whole curve with probability `coverage`.

    Attributes
    ----------
    curves : tuple of Band
        One curve for each feature or direction, and output.
    kind : str
        "partial_dependence", "accumulated_effects" or "profiles".
    coverage : float
        Coverage of each band by itself.
    basis : str
        Method that made the bands, such as the learned kernel or several fits.
    remarks : tuple of str
        Remarks on the bands.
    asked : str
        Owner of the curves shown beside the bands: "model", or "member of the blend".
    unfinished : tuple of str
        Features or directions without curves, because the computation was stopped early.
    """

    name: ClassVar[str] = "bands"
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
        """Return the first curve with a name, or one by its number."""
        if not isinstance(name, str):
            return self.curves[name]
        found = [one for one in self.curves if one.name == name]
        if not found:
            names = ", ".join(dict.fromkeys(one.name for one in self.curves))
            msg = f"expected the name of a curve, one of {names}, got {name!r}"
            raise KeyError(msg)
        return found[0]

    def summary(self) -> str:
        """Return a plain-text summary of the curves that vary, and of the limits of the bands."""
        head = f"{_TITLES[self.kind]}, bands of {self.coverage:.0%} by {self.basis}"
        rows = [f"  {'curve':<28}{'lowest':>10}{'highest':>10}{'± on average':>14}"]
        rows += [
            f"  {shorten_text(self._label(one), 28):<28}{_band_text(one)}" for one in self.curves
        ]
        cut = [f"stopped before {', '.join(self.unfinished)}"] if self.unfinished else []
        return "\n".join([head, *rows, *(f"  {remark}" for remark in (*self.remarks, *cut))])

    def in_words(self) -> str:
        """Return a paragraph on the conclusions that the curves allow, and on their limits."""
        varied = [clean_text(self._label(one)) for one in self.curves if not one.may_be_flat]
        flat = [clean_text(self._label(one)) for one in self.curves if one.may_be_flat]
        said = []
        if varied:
            said.append(f"The {_CURVES[self.kind]} of {_join_names(varied)} is not constant.")
        if flat:
            said.append(
                f"A constant fits into the band of {_join_names(flat)}: no effect was shown, "
                "which does not show that there is none."
            )
        apart = [clean_text(self._label(one)) for one in self.curves if not one.holds(one.model)]
        if apart:
            said.append(
                f"The {self.asked}'s own curve leaves the band of {_join_names(apart)}: what is "
                "tested there is another function, smoothed from the targets themselves."
            )
        said.append(
            f"Each band misses its curve somewhere in {1 - self.coverage:.0%} of samples. One of "
            "several bands does so more often. Bands also miss more often if errors are much "
            "larger in some rows. A curve shows how the target's mean goes with a feature in these "
            "rows. It does not show what would happen if the feature were changed."
        )
        return " ".join(said)

    def frame(self) -> pd.DataFrame:
        """Return a frame with a row for each step of each curve.

        Returns
        -------
        DataFrame
            Columns name, output, at, center, lower, upper and model. "at" is a number, or the level
            of a category. Times between dates are in days.
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

    def plot(self, curve: str | None = None, *, ax: Any = None, figsize: Size = None) -> Any:
        """Draw the curves, or one of them.

        Parameters
        ----------
        curve : str, optional
            Name of one curve.
        ax : matplotlib.axes.Axes, optional
            Axes for the picture. Several curves are drawn in its place.
        figsize : tuple of float, optional
            Width and height in inches of a new figure.

        Returns
        -------
        matplotlib.axes.Axes or array of these
            Axes with the picture.

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
        return shown._plot(ax, figsize)

    @property
    def empty(self) -> str:
        """The reason why nothing can be drawn, or an empty string."""
        return "" if len(self) else "no feature varies"

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and columns of small pictures."""
        count = min(len(self), _SHOWN)
        across = min(count, _ACROSS)
        return -(-count // max(across, 1)), max(across, 1)

    @property
    def words(self) -> str:
        """Return the meaning of the curves, and the names of the curves that vary."""
        return f"curves with bands: {self.in_words()}"

    def apart(self) -> list[tuple[str, Panel]]:
        """Return a panel for each of the shown curves."""
        return [(self._label(one), replace(self, curves=(one,))) for one in self.curves[:_SHOWN]]

    def draw(self, ax: Any, /) -> Any:
        """Draw one picture, or several in place of the axes."""
        curves = self.curves[:_SHOWN]
        if len(curves) == 1:
            self._draw_one(ax, curves[0], title=_TITLES[self.kind])
            add_legend(ax)
            return ax
        left = len(self) - len(curves)
        title = _TITLES[self.kind] + (f" ({left} left out)" if left else "")
        several = "several curves, or one of them"
        _, cells = split_axes(ax, title, self.shape, len(curves), instead=several, sharey=True)
        for cell, one in zip(cells, curves, strict=True):
            self._draw_one(cell, one, title="")
        add_legend(cells[0])
        return cells

    def _draw_one(self, ax: Any, one: Band, *, title: str) -> None:
        label = f"{self.coverage:.0%} band and its centre".replace("%", " %")
        beside = f"the {self.asked}'s own curve"
        longest = one.seconds * float(np.abs(one.steps).max())
        unit, size = time_unit(longest) if one.seconds else ("", 1.0)
        steps = one.steps * (one.seconds or 1.0) / size
        if one.labels:
            ax.errorbar(one.steps, one.center, one.width, fmt="o", color=BLUE, ms=4, label=label)
            ax.plot(one.steps, one.model, "x", color=GREY, label=beside)
            turned = {"rotation": 30, "ha": "right"} if len("".join(one.labels)) > _LETTERS else {}
            ax.margins(x=0.2, y=0.3)  # room for the legend above the bars
            ax.set_xticks(
                one.steps, [shorten_label(level, _LETTERS) for level in one.labels], **turned
            )
        else:
            ax.fill_between(steps, one.lower, one.upper, color=BLUE, alpha=0.25, lw=0)
            ax.plot(steps, one.center, color=BLUE, lw=1.6, label=label)
            ax.plot(steps, one.model, color=GREY, lw=1.0, ls="--", label=beside)
        less = "" if self.kind == "profiles" else ", less its mean"
        name = shorten_label(one.name) + (f", {unit}" if unit else "")
        name += "" if one.holds(one.model) else f"\n{beside} leaves the band"
        ax.set(xlabel=name, ylabel=shorten_label(one.output) + less, title=title)
        style_axes(ax)

    def _label(self, one: Band) -> str:
        """Name a curve, with its output where there are several."""
        several = len({each.output for each in self.curves}) > 1
        return f"{one.name}, {one.output}" if several else one.name


def _band_text(one: Band) -> str:
    """Return the range of a curve, the width of its band, and whether a flat line fits in it."""
    ends = one.center.min(), one.center.max()
    low, high, width = (number_text(float(value), 3) for value in (*ends, one.width.mean()))
    fits = "a" if one.may_be_flat else "no"
    return f"{low:>10}{high:>10}{width:>14}{fits:>4} flat line fits"


def _join_names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


# ------------------------------------------------------------------------------- subspace

# What `subspace` gives.


_LEVEL = 0.05  # of the words


@dataclass(frozen=True, eq=False)
class Subspace(Result):
    """Learned directions, their agreement between fits, and their number by held-out rows.

    Attributes
    ----------
    directions : array, shape (m, d)
        Leading directions of the model, in scaled features. Its `components_` come first. The
        others are orthogonal to these, in decreasing order of the model's variation along them.
    features : tuple of str
        Names of the features.
    angles : array, shape (k, pairs)
        Largest principal angles, in degrees, between the first 1, ..., k directions of two fits,
        for every pair of fits.
    row_losses : array, shape (n, q + 1)
        Squared error of each held-out row, by the first 0, ..., q directions, in variances of the
        target.
    weights : array, shape (n,)
        Weights of the rows.
    n_folds : int
        Number of fits.
    n_learned : int
        Number of directions that the model has learned.
    remarks : tuple of str
        Remarks on the directions.
    groups : array, shape (n,), or None
        Groups of dependent rows. Errors are those of whole groups.
    """

    name: ClassVar[str] = "subspace"
    directions: np.ndarray
    features: tuple[str, ...]
    angles: np.ndarray
    row_losses: np.ndarray
    weights: np.ndarray
    n_folds: int
    n_learned: int
    remarks: tuple[str, ...] = ()
    groups: np.ndarray | None = None

    @property
    def losses(self) -> np.ndarray:
        """Mean held-out losses (q + 1,)."""
        return np.average(self.row_losses, axis=0, weights=self.weights)

    @property
    def standard_errors(self) -> np.ndarray:
        """Standard errors of the losses (q + 1,), as if fits shared no rows."""
        return self._errors(self.row_losses)

    @property
    def gains(self) -> np.ndarray:
        """The decrease of the loss by the 1st, ..., q-th direction: (q,)."""
        return -np.diff(self.losses)

    @property
    def gain_errors(self) -> np.ndarray:
        """Standard errors of the gains, enlarged because fits share rows."""
        return self._enlargement * self._errors(np.diff(self.row_losses, axis=1))

    @property
    def p_values(self) -> np.ndarray:
        """P-values that the 1st, ..., q-th direction does not lower the loss: (q,)."""
        errors = self.gain_errors
        ratio = np.divide(self.gains, errors, out=np.zeros_like(errors), where=errors > 0)
        return np.where(errors > 0, student.sf(ratio, max(self._effective - 1.0, 1.0)), 1.0)

    @property
    def n_directions(self) -> int:
        """Fewest directions whose loss is within a standard error of the lowest.

        The standard error is the larger of two: that of the lowest loss, and the enlarged one of
        the difference. The error of the lowest loss ignores single rows that fewer directions miss
        by far.
        """
        losses, best = self.losses, int(np.argmin(self.losses))
        apart = self._enlargement * self._errors(self.row_losses - self.row_losses[:, [best]])
        within = losses <= losses[best] + np.maximum(self.standard_errors[best], apart)
        return int(np.flatnonzero(within)[0])

    @property
    def is_cut_off(self) -> bool:
        """Whether more directions than the tried ones might matter."""
        tried = len(self.gains)
        matters = self.p_values[-1] <= _LEVEL or self.n_directions == tried
        return bool(matters and tried < self.directions.shape[1])

    @property
    def _enlargement(self) -> float:
        """The factor of the errors of differences, because fits share rows."""
        return math.sqrt(1.0 + self.n_folds / (self.n_folds - 1.0))

    @property
    def _effective(self) -> float:
        if self.groups is not None:
            return float(len(np.unique(self.groups)))
        return float(self.weights.sum() ** 2 / (self.weights @ self.weights))

    def _errors(self, losses: np.ndarray) -> np.ndarray:
        away = losses - np.average(losses, axis=0, weights=self.weights)
        if self.groups is not None:
            sums = group_sums(self.weights[:, None] * away, self.groups) / self.weights.sum()
            count = len(sums)
            return np.sqrt(count / max(count - 1.0, 1.0) * np.sum(sums**2, axis=0))
        variance = np.average(away**2, axis=0, weights=self.weights)
        return np.sqrt(variance / max(self._effective - 1.0, 1.0))

    def summary(self) -> str:
        """Return a plain-text summary of the number of directions that the rows support."""
        found = f"Directions: {self.n_directions} by held-out rows, {self.n_learned} in the model"
        head = f"  {'first':>5}{'loss':>9}{'±':>8}{'p of the last':>15}{'angle between fits':>20}"
        rows = [found, head]
        for k, (loss, error) in enumerate(zip(self.losses, self.standard_errors, strict=True)):
            p = f"{self.p_values[k - 1]:.3g}" if k else ""
            known = 0 < k <= len(self.angles)
            angle = f"{np.median(self.angles[k - 1]):.1f}°" if known else ""
            rows.append(f"  {k:>5}{loss:>9.4f}{error:>8.4f}{p:>15}{angle:>20}")
        remarks = [*self.remarks, self._limit_text] if self.is_cut_off else self.remarks
        return "\n".join([*rows, *(f"  {remark}" for remark in remarks)])

    def in_words(self) -> str:
        """Return a paragraph on the conclusions that the directions allow, and on their limits."""
        sure = int(np.cumprod(np.append(self.p_values <= _LEVEL, False)).sum())
        count = self.n_directions
        said = [
            f"Held-out rows support {_directions_text(count)}: with fewer, the loss rises by more "
            "than a standard error."
        ]
        if self.n_learned > count:
            said.append(
                f"The model has {self.n_learned}, which pictures of it show: those beyond may be "
                "noise."
            )
        if sure:
            which = "it" if sure == 1 else "each of them beyond those before"
            said.append(
                f"{_directions_text(sure).capitalize()} passed the test that {which} matters."
            )
        else:
            said.append("No direction passed the test that it matters.")
        if count and count <= len(self.angles):
            angle = float(np.median(self.angles[count - 1]))
            said.append(
                f"The subspaces of fits to different folds are {angle:.0f}° apart (median over "
                "pairs)."
            )
        if self.is_cut_off:
            said.append(f"{self._limit_text[0].upper()}{self._limit_text[1:]}.")
        said.append(
            "The sign of a direction is arbitrary. If there are several, only their subspace is "
            "determined. There may be more directions than were found."
        )
        return " ".join(said)

    @property
    def _limit_text(self) -> str:
        tried = _directions_text(len(self.gains))
        return f"the search ended at {tried}, and the last one matters: raise max_directions"

    def frame(self) -> pd.DataFrame:
        """Return a frame with a row for each number of directions.

        Returns
        -------
        DataFrame
            Columns directions, loss, standard_error, gain, gain_error, p_value and angle. The angle
            is the median over pairs of fits, in degrees. Absent values are NaN.
        """
        import pandas as pd

        count = len(self.losses)
        angles = np.full(count, np.nan)
        angles[1 : len(self.angles) + 1] = np.median(self.angles, axis=1)[: count - 1]
        return pd.DataFrame(
            {
                "directions": np.arange(count),
                "loss": self.losses,
                "standard_error": self.standard_errors,
                "gain": np.append(np.nan, self.gains),
                "gain_error": np.append(np.nan, self.gain_errors),
                "p_value": np.append(np.nan, self.p_values),
                "angle": angles,
            }
        )

    def named(self) -> list[str]:
        """Return the names of the leading directions, by their main features."""
        return [
            direction_name(self.features, self.directions, k) for k in range(len(self.directions))
        ]

    def plot(self, *, ax: Any = None, figsize: Size = None) -> Any:
        """Draw held-out loss and angles against the number of directions.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes for the picture.
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
        return self._plot(ax, figsize)

    def draw(self, ax: Any, /) -> Any:
        """Draw both against the number of directions."""
        count = np.arange(len(self.losses))
        ax.errorbar(count, self.losses, self.standard_errors, fmt="o-", ms=4, capsize=3, color=BLUE)
        ax.axvline(self.n_directions, color=BLUE, lw=0.8, ls=":")
        rule = "directions\ndotted: the fewest within one standard error"
        ax.set(title="How many directions", xlabel=rule)
        ax.set_ylabel(f"loss of held-out rows{BARS_TEXT}")
        use_integer_ticks(ax.xaxis)
        style_axes(ax)
        if len(self.angles):
            twin = add_twin(ax, "angle between fits, degrees\nmedian and range", color=ORANGE)
            numbers = np.arange(1, len(self.angles) + 1)
            low, middle, high = np.quantile(self.angles, [0.0, 0.5, 1.0], axis=1)
            reach = np.stack([middle - low, high - middle])
            twin.errorbar(numbers, middle, reach, fmt="s", ms=4, capsize=3, color=ORANGE)
            twin.set_ylim(0.0, 90.0)
        return ax


def _directions_text(count: int) -> str:
    return {0: "no direction", 1: "one direction"}.get(count, f"{count} directions")
