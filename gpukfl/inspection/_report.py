"""One HTML file that shows a fitted model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from gpukfl._replacing import replacing
from gpukfl._version import __version__
from gpukfl.inspection import _sections as sections
from gpukfl.inspection._blends import Leaderboard
from gpukfl.inspection._cautions import cautions
from gpukfl.inspection._description import Described, Description, counted, described
from gpukfl.inspection._held_out import Predictions, Reliability, ResidualPlot
from gpukfl.inspection._markup import escaped, lines, named, note, section
from gpukfl.inspection._panels import Objective, Panel
from gpukfl.inspection._sheet import PAGE, RULES
from gpukfl.inspection._svg import Picture, pictures, sheet
from gpukfl.inspection._tuning import Tuning

_HELD_OUT = (Predictions, ResidualPlot, Reliability)
_ABSENT = "There are no pictures here: they need matplotlib, `pip install 'gpukfl[plot]'`."


class Inferred(Described, Protocol):
    """What may be concluded of a model, in words, in numbers and in pictures."""

    def in_words(self) -> str:
        """Say what may be concluded, and what not."""

    def in_numbers(self) -> str:
        """Give the numbers in plain text."""


def write_report(
    of: Described | Description,
    path: str | Path,
    /,
    *,
    scores: Mapping[str, float],
    inference: Inferred | None = None,
) -> None:
    """Write one HTML page that says and shows what was learned, with the pictures inside.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted.
    path : str or Path
        Where to write; an older file is replaced when the new one is complete.
    scores : dict
        Named scores for the top of the page.
    inference : Inference, optional
        What may be concluded: a section of its own.

    Raises
    ------
    OSError
        If the page cannot be written; an older one stays as it was.

    Notes
    -----
    The page needs no script and nothing from elsewhere. It is light or dark as the reader's system
    is, and light on paper. Without matplotlib it has no pictures, and says so.
    """
    page = page_of(described(of), scores, inference)
    with replacing(path) as file:
        file.write(page.encode())


def page_of(d: Description, scores: Mapping[str, float], inference: Inferred | None) -> str:
    """Give the page as text."""
    drawn = _Drawn(d)
    body = [
        sections.leaderboard(d, drawn.of(Leaderboard)),
        sections.comparison(d),
        section("Predictions of rows that were held out", drawn.of(*_HELD_OUT)),
        section(
            "What was learned",
            drawn.rest(),
            _notes(d),
            sections.features(d),
            sections.directions(d),
        ),
        "" if inference is None else _inference(inference, drawn),
        sections.data(d),
        sections.model(d, drawn.of(Objective)),
        sections.tuning(d, drawn.of(Tuning)),
        sections.recipe(d),
    ]
    said = [*cautions(d, judged=bool(scores)), *([] if drawn.possible else [_ABSENT])]
    warned = [f'<p class="caveat" dir="auto">{escaped(one)}</p>\n' for one in said]
    return PAGE.format(
        title=escaped(f"{d.target}: {d.name}"),
        title_shown=f"{named(d.target)}: {escaped(d.name)}",
        subtitle=escaped(_subtitle(d)),
        colors=sheet(drawn.colors, dark=False),
        dark_colors=sheet(drawn.colors, dark=True),
        rules=RULES,
        body="".join([*warned, _scores(d, scores), *body]),
        date=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
        version=__version__,
    )


class _Drawn:
    """Pictures of a page, as long as they can be drawn."""

    def __init__(self, d: Description) -> None:
        self.possible, self.colors = True, set[str]()
        self._d, self._count = d, 0

    def of(self, *kinds: type[Panel]) -> str:
        """Draw the panels of some classes."""
        return self.panels([p for p in self._d.panels if isinstance(p, kinds)])

    def rest(self) -> str:
        """Draw the panels that are of no section of their own."""
        kinds = (*_HELD_OUT, Leaderboard, Objective, Tuning)
        return self.panels([p for p in self._d.panels if not isinstance(p, kinds)])

    def panels(self, some: Sequence[Panel], of: Description | None = None) -> str:
        """Draw panels beside each other; nothing where matplotlib is not installed."""
        found: list[Picture] = []
        try:
            found = pictures(of or self._d, some, prefix=f"p{self._count}-")
        except ImportError:
            self.possible = False
        self._count += 1
        self.colors |= {color for one in found for color in one.colors}
        inside = "".join(one.markup for one in found)
        return f'<div class="pictures">{inside}</div>\n' if inside else ""


def _inference(of: Inferred, drawn: _Drawn) -> str:
    d = of.describe()
    words = f'<p dir="auto">{escaped(of.in_words())}</p>\n<pre>{lines(of.in_numbers())}</pre>\n'
    return section("What may be concluded", words, drawn.panels(d.panels, d))


def _notes(d: Description) -> str:
    return note(f"{d.units} {d.note}".strip())


def _subtitle(d: Description) -> str:
    sizes = [
        "" if count is None else counted(count, what).replace(str(count), f"{count:,}", 1)
        for count, what in ((d.n_samples, "sample"), (d.n_features, "feature"))
    ]
    size = " and ".join(filter(None, sizes))
    time = "" if d.seconds is None else f"{d.seconds:.1f} s"
    return ", ".join(filter(None, [" on ".join(filter(None, [d.task, size])), time]))


def _scores(d: Description, scores: Mapping[str, float]) -> str:
    shown: dict[str, Any] = dict(scores)
    if d.tuning is not None and d.tuning.chosen is not None:
        shown[f"hold-out {d.tuning.score} in tuning"] = d.tuning.shown_score
    if d.dimension is not None:
        count, what = d.dimension
        shown[counted(count, what).partition(" ")[2]] = count
    inside = "".join(_score(label, value) for label, value in shown.items())
    return f'<div class="scores">{inside}</div>\n' if inside else ""


def _score(label: str, value: Any) -> str:
    shown = f"{value:.4f}" if isinstance(value, float) else str(value)
    return f'<div class="score"><b>{escaped(shown)}</b>{escaped(label)}</div>'
