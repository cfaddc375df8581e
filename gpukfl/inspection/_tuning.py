"""What was tried and what it scored: settings, members of a blend, and other models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from gpukfl.inspection._panels import Panel
from gpukfl.inspection._style import (
    BARS_TEXT,
    BLUE,
    COLORS,
    GREY,
    ORANGE,
    PALE,
    add_legend,
    name_values,
    share_text,
    shorten_label,
    style_axes,
)

# ---------------------------------------------------------------------------------- tuning

# The settings that were tried, what they scored on held-out rows, and what that says.


_RESULTS = ("score", "standard_error", "seconds", "chosen")  # of a trial, beside its setting
_TICKS = 8  # with numbers of their own
_FEWEST = 2  # settings among which there is a choice
_GROUPS = 4  # of other trials that are told apart
_SPREAD = 1.0  # below the chosen score, down to which others are of interest


@dataclass(frozen=True, eq=False)
class Tuning(Panel):
    """The trials of a search with their scores.

    Attributes
    ----------
    trials : tuple of dict
        A setting each, with its "score" on held-out rows (None where it was not seen), whether it
        was "chosen", and where they are known the score's "standard_error" and the "seconds".
    score : str
        What the score is; 0 is a model that says the same of every row.
    along : str
        Key of the settings that is drawn against.
    beside : tuple of str
        Other keys that tell settings apart.
    cut_short : bool
        Whether there was no time for more.
    untried : tuple of str
        Names of what there was no time to try.
    of : str
        What there was a choice of: a "setting", or a "member" of a blend, which is the chosen trial
        and none of them.
    judged : str
        An adjective for the scores: "cross-validated" or "held-out".
    """

    name: ClassVar[str] = "tuning"
    trials: tuple[Mapping[str, Any], ...]
    score: str = "R²"
    along: str = "ridge"
    beside: tuple[str, ...] = ()
    cut_short: bool = False
    untried: tuple[str, ...] = ()
    of: str = "setting"
    judged: str = "held-out"

    @property
    def chosen(self) -> Mapping[str, Any] | None:
        """The chosen trial, if it has a score."""
        return next((t for t in self._scored_trials if t["chosen"]), None)

    @property
    def found_nothing(self) -> bool:
        """Whether the chosen setting scores no better than 0, or than its standard error."""
        return self.chosen is not None and not self.chosen["score"] > (
            trial_error(self.chosen) or 0.0
        )

    @property
    def caveat(self) -> str:
        """A warning if the model found nothing, or an empty string."""
        if not self.found_nothing:
            return ""
        least = "the mean" if self.score == "R²" else "the shares of the classes"
        least = "the best constant" if self.score.startswith("D²") else least
        short = ""
        if self.untried:
            short = f"max_time was too short to try {', '.join(self.untried)}; "
        elif self.cut_short:
            short = "max_time was too short for a complete search; "
        return (
            f"nothing was found that predicts{' in this time' if short else ''}: the "
            f"{self.judged} {self.score} is {self.shown_score}, no better than {least}; {short}"
            "importances mean nothing"
        )

    @property
    def shown_score(self) -> str:
        """The chosen score, with its standard error if it is known."""
        assert self.chosen is not None
        return share_text(self.chosen["score"], trial_error(self.chosen))

    @property
    def seconds(self) -> float | None:
        """The time of all trials, if it is known."""
        known = [t["seconds"] for t in self.trials if t.get("seconds") is not None]
        return float(sum(known)) if known else None

    @property
    def settings(self) -> list[str]:
        """The keys of settings for which some trial has a value."""
        first = dict.fromkeys(key for trial in self.trials for key in trial)
        return [
            key
            for key in first
            if key not in _RESULTS and any(t.get(key) is not None for t in self.trials)
        ]

    @property
    def empty(self) -> str:
        """The reason why nothing can be drawn, or an empty string."""
        chosen = any(trial["chosen"] for trial in self._drawable)
        known = chosen and len(self._drawable) >= _FEWEST
        return "" if known else f"{self.along} was not tuned"

    @property
    def _scored_trials(self) -> list[Mapping[str, Any]]:
        return [t for t in self.trials if t["score"] is not None and math.isfinite(t["score"])]

    @property
    def _drawable(self) -> list[Mapping[str, Any]]:
        return [t for t in self._scored_trials if isinstance(t.get(self.along), (int, float))]

    @property
    def words(self) -> str:
        """Return the chosen setting and the number of trials in words."""
        assert self.chosen is not None
        value = self.chosen.get(self.along)
        shown = f"{value:.3g}" if isinstance(value, float) else value
        among = f"{len(self.trials)} settings by held-out rows: {self.along.replace('_', ' ')}"
        return f"choice among {among} {shown}, {self.score} {self.shown_score}"

    def draw(self, ax: Any, /) -> Any:
        """Draw the scores of trials that are like the chosen one, and of the others."""
        chosen = next(t for t in self._drawable if t["chosen"])
        least = chosen["score"] - _SPREAD
        trials = [trial for trial in self._drawable if trial["score"] >= least]
        own = [t for t in trials if all(t.get(k) == chosen.get(k) for k in self.beside)]
        own.sort(key=lambda trial: trial[self.along])
        self._draw_others(ax, [t for t in trials if t not in own])
        errors = [trial_error(trial) for trial in own]
        known = [0.0 if error is None else error for error in errors]
        ax.errorbar(
            *self._points(own),
            yerr=known if any(known) else None,
            fmt="o-",
            ms=4,
            color=BLUE,
            capsize=2,
            label="as chosen" if len(own) < len(trials) else None,
        )
        ax.plot(*self._points([chosen]), "o", ms=10, mfc="none", mew=1.6, color=ORANGE)
        self._scale(ax, [trial[self.along] for trial in trials])
        scores = [trial["score"] for trial in trials]
        room = 0.02 + max(known)
        ax.set_ylim(min(scores) - room, max(scores) + room)
        ax.set(
            title=f"Choice of the {self.along.replace('_', ' ')} by held-out rows",
            xlabel=self.along.replace("_", " "),
            ylabel=f"{self.judged} {self.score}{BARS_TEXT if any(known) else ''}",
        )
        add_legend(ax)
        return style_axes(ax)

    def _scale(self, ax: Any, values: list[float]) -> None:
        """Make the scale logarithmic, with ticks at the values within two decades."""
        if min(values) <= 0:
            return
        ax.set_xscale("log")
        shown = sorted(set(values))
        if len(shown) <= _TICKS and shown[-1] < 100 * shown[0]:
            ax.set_xticks(shown, [f"{value:.2g}" for value in shown])
            ax.set_xticks([], minor=True)

    def _draw_others(self, ax: Any, others: list[Mapping[str, Any]]) -> None:
        groups: dict[str, list[Mapping[str, Any]]] = {}
        for trial in others:
            groups.setdefault(self._kind(trial), []).append(trial)
        for rank, (kind, some) in enumerate(groups.items()):
            told = rank < _GROUPS
            color = COLORS[rank + 2] if told else PALE
            ax.plot(*self._points(some), "x", color=color, label=kind if told else None)

    def _kind(self, trial: Mapping[str, Any]) -> str:
        value = trial.get(self.beside[0])
        if isinstance(value, str):
            return f"{value.split(' ')[0]}, others"
        shown = f"{value:.3g}" if isinstance(value, float) else value
        return f"{self.beside[0].replace('_', ' ')} {shown}"

    def _points(self, trials: list[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
        return [t[self.along] for t in trials], [t["score"] for t in trials]


def trial_error(trial: Mapping[str, Any], /) -> float | None:
    """Return the standard error of a trial's score, or None."""
    error = trial.get("standard_error")
    return None if error is None or not math.isfinite(error) else float(error)


@dataclass(frozen=True, eq=False)
class Ridges(Panel):
    """Errors along ridges in closed form, and the chosen ridge.

    Attributes
    ----------
    ridges, errors : tuple of float
        What was tried, and its leave-one-out or generalised cross-validation error.
    chosen : float
        What was taken.
    """

    name: ClassVar[str] = "ridges"
    ridges: tuple[float, ...]
    errors: tuple[float, ...]
    chosen: float

    def draw(self, ax: Any, /) -> Any:
        """Draw the errors and the chosen ridge."""
        ax.plot(self.ridges, self.errors, "o-", ms=4, color=BLUE)
        ax.axvline(self.chosen, color=ORANGE, ls="--", lw=1.2, label="taken")
        ax.set(title="Error by ridge, in closed form", xlabel="ridge λ", ylabel="error")
        ax.set_xscale("log")
        if min(self.errors) > 0:
            ax.set_yscale("log")
        add_legend(ax)
        return style_axes(ax)


# --------------------------------------------------------------------------------- members

# What the members of a blend came to.


BLEND = "blend"  # the name that it has among its members
_NAMED = 5  # members that words name
_LABEL = 36  # letters of what a member is


@dataclass(frozen=True, eq=False)
class Leaderboard(Panel):
    """Held-out scores of members, and their weights in the blend.

    Attributes
    ----------
    members : tuple of str
        Names, best first.
    scores, errors : array (k,)
        Held-out scores and their standard errors.
    weights : array (k,)
        In the blend; that of the blend itself is 1.
    score : str
        What the score is.
    judged : str
        An adjective for the scores: "cross-validated" or "held-out".
    models : tuple of str, optional
        What the members are in words, which the picture writes; their names by default.
    """

    name: ClassVar[str] = "leaderboard"
    members: tuple[str, ...]
    scores: np.ndarray
    errors: np.ndarray
    weights: np.ndarray
    score: str = "R²"
    judged: str = "held-out"
    models: tuple[str, ...] = ()

    @property
    def empty(self) -> str:
        """The reason why nothing can be drawn, or an empty string."""
        return "" if self.members else "no member has a score"

    @property
    def words(self) -> str:
        """Return the best scores in words."""
        known = list(zip(self.models or self.members, self.scores, strict=True))[:_NAMED]
        return f"{self.judged} {self.score}: " + "; ".join(
            f"{name} {one:.3f}" for name, one in known
        )

    def draw(self, ax: Any, /) -> Any:
        """Draw scores with errors, and write the weights."""
        places = np.arange(len(self.members))[::-1]
        for k, place in enumerate(places):
            own = self.members[k] == BLEND
            color = ORANGE if own else BLUE if self.weights[k] else GREY
            ax.errorbar(self.scores[k], place, xerr=self.errors[k], fmt="o", color=color, ms=5)
        shares = [f" ({w:.0%})".replace("%", " %") if w else "" for w in self.weights]
        labels = [
            shorten_label(model, _LABEL) + ("" if name == BLEND else share)
            for name, model, share in zip(
                self.members, self.models or self.members, shares, strict=True
            )
        ]
        ax.set_yticks(places, labels)
        from matplotlib.ticker import MaxNLocator

        ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))  # names leave little room
        name_values(ax, f"{self.judged} {self.score}{BARS_TEXT}")
        ax.set_title("Members and their blend")
        return style_axes(ax)


# ------------------------------------------------------------------------------ comparison

# How a model does beside others on the same rows.


@dataclass(frozen=True)
class Compared:
    """The score of one model.

    Attributes
    ----------
    name : str
        Which model.
    score : float
        On rows that it has not seen.
    error : float, optional
        Standard error of the score, as the rows are a sample.
    more : dict of str: float
        Further measures, by name.
    own : bool
        Whether it is the model that is described.
    """

    name: str
    score: float
    error: float | None = None
    more: dict[str, float] = field(default_factory=dict)
    own: bool = False


@dataclass(frozen=True)
class Comparison:
    """Scores of several models on the same rows.

    Attributes
    ----------
    rows : tuple of Compared
        A model each.
    score : str
        What the score is; 0 is a model that says the same of every row.
    remarks : tuple of str
        What is to be known of it, in sentences.
    n_rows : int, optional
        On how many rows.
    judged : str
        An adjective for the scores: "cross-validated" or "held-out".
    """

    rows: tuple[Compared, ...]
    score: str
    remarks: tuple[str, ...] = ()
    n_rows: int | None = None
    judged: str = "held-out"
