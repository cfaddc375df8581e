"""Reports of fitted models in one HTML file."""

from __future__ import annotations

import colorsys
import io
import platform
import re
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from xml.etree import ElementTree

import numpy as np

from gpukfl._version import __version__
from gpukfl.core._files import atomic_write
from gpukfl.inspection._dependence import Dependence
from gpukfl.inspection._description import (
    Described,
    Description,
    count_text,
    get_description,
    hold_out_text,
    rows_text,
    warning_texts,
    without_effect_text,
)
from gpukfl.inspection._explanation import Waterfall
from gpukfl.inspection._figures import draw_detached_figure
from gpukfl.inspection._held_out import HELD_OUT
from gpukfl.inspection._importances import Shuffled, importance_question
from gpukfl.inspection._measures import TEST, Score, Scored, agreement_text, score_text
from gpukfl.inspection._panels import Directions, HeldOutImportances, Importances, Objective, Panel
from gpukfl.inspection._style import (
    PAGE,
    RULES,
    bar_html,
    clean_text,
    escape_html,
    escape_lines,
    name_html,
    note_html,
    number_text,
    section_html,
    share_text,
    table_html,
    to_sentence,
    whole_text,
)
from gpukfl.inspection._tuning import Compared, Leaderboard, Tuning, trial_error

# -------------------------------------------------------------------------------- sections

# Sections of a report, each of what a description says; empty where it says nothing.


_LISTED, _PARTS = 20, 5  # features, and what was made of each
_UNTESTED = (
    "A direction is a weighted sum of standardised columns. These are all that the model has. New "
    "rows may support fewer: model.inference tests this."
)
_TRIALS = 100  # that are listed
_LEAST_SHOWN = 0.01  # of the time of a fit
_SECONDS = (
    "Seconds are how long a model's fits to the folds took, with compiling, also those that ran "
    "while other models were fitted."
)
_LAPS = (
    "Each second of the fit is counted once. Fits that ran at the same time as those of other "
    "models add nothing here."
)
_HEADS = {
    "multiple": "times the paper's",
    "n_components": "components",
    "n_selected": "selected",
    "log_loss": "log loss",
    "brier": "Brier score",
}


def leaderboard_html(d: Description, pictures: str, /) -> str:
    """Return an HTML table of the members of a blend, best first, with their shares."""
    if d.tuning is None or not any(isinstance(panel, Leaderboard) for panel in d.panels):
        return ""
    trials = sorted(d.tuning.trials, key=lambda t: (t["score"] is None, -(t["score"] or 0.0)))
    more = [key for key in ("log_loss", "brier") if any(t.get(key) is not None for t in trials)]
    head = ["member", f"{d.tuning.judged} {d.tuning.score}", "share"]
    rows = (
        (
            "chosen" if trial["chosen"] else "",
            [
                _member_html(trial),
                _score_text(trial, "–"),
                "" if trial["chosen"] else _share_html(trial["weight"]),
                *(_cell_html(trial.get(key)) for key in (*more, "seconds")),
            ],
        )
        for trial in trials
    )
    made = table_html([*head, *(_HEADS[key] for key in more), "seconds"], rows)
    timed = note_html(_SECONDS) if any(trial.get("seconds") for trial in trials) else ""
    return section_html("Members and their blend", made, timed, pictures)


def _member_html(trial: Mapping[str, Any]) -> str:
    note = f'<br><small class="note" dir="auto">{escape_html(trial["note"])}</small>'
    name, model = trial["member"], trial.get("model", trial["member"])
    short = f" <code>{escape_html(name)}</code>" if model != name and not trial["chosen"] else ""
    return name_html(model) + short + (note if trial["note"] else "")


def _share_html(weight: float) -> str:
    if not weight:
        return "–"
    share = f"{weight:.0%}".replace("%", "\u00a0%")
    return f'<span class="bars">{bar_html(weight)}</span> {share}'


def comparison_html(d: Description, /) -> str:
    """Return an HTML table of the scores of other models on the same rows."""
    known = d.comparison
    if known is None:
        return ""
    more = list(dict.fromkeys(key for row in known.rows for key in row.more))
    rows = (("chosen" if row.own else "", _comparison_cells(row, more)) for row in known.rows)
    made = table_html(["model", f"{known.judged} {known.score}", *more], rows)
    said = "".join(note_html(remark) for remark in known.remarks)
    return section_html("Compared with simple models", made, said)


def _comparison_cells(row: Compared, more: list[str]) -> list[str]:
    return [
        name_html(row.name),
        _score_text({"score": row.score, "standard_error": row.error}),
        *(number_text(row.more[key]) if key in row.more else "–" for key in more),
    ]


def times_html(d: Description, /) -> str:
    """Return an HTML table of where the time of the fit went, the longest parts first."""
    longest = sorted(d.times, key=lambda one: -one["seconds"])
    scale = max((one["seconds"] for one in longest), default=0.0) or 1.0
    least = _LEAST_SHOWN * sum(one["seconds"] for one in longest)
    shown = [one for one in longest if one["seconds"] >= least]
    left = longest[len(shown) :]
    if left:
        seconds = sum(one["seconds"] for one in left)
        shown.append({"part": "other", "member": "", "fits": 0, "seconds": seconds})
    rows = [
        (
            "",
            [
                name_html(" of ".join(filter(None, [one["part"], one["member"]]))),
                str(one["fits"] or ""),
                f"{one['seconds']:.1f}",
                f'<span class="bars">{bar_html(one["seconds"] / scale)}</span>',
            ],
        )
        for one in shown
    ]
    made = table_html(["part of the fit", "fits", "seconds", ""], rows)
    return section_html("Where the time went", made, note_html(_LAPS)) if rows else ""


def features_html(d: Description, /) -> str:
    """Return an HTML table of importances, with their errors and parts."""
    if d.importances is None:
        return ""
    known = d.importances.joined()
    leading = known.leading(_LISTED)
    largest = max((value for _, value in leading), default=0.0) or 1.0
    rows = [
        row for name, value in leading for row in _feature_rows(known, name, value, value / largest)
    ]
    unit = [] if known.errors is None else ["± error"]
    lost = [] if known.shuffled is None else [_lost_text(known.shuffled), *unit]
    shares = ["share"] if known.shuffled is not None else ["importance", *unit]
    made = table_html(["column", *lost, *shares, ""], rows)
    said = "They mean nothing here: see above." if d.caveat else importance_question(known)
    left = int(np.count_nonzero(known.values)) - len(leading)
    more = f"{left} more have an importance." if left > 0 else ""
    below = " ".join(to_sentence(one) for one in (without_effect_text(d), known.remark) if one)
    return (
        "<h3>Most important columns</h3>"
        f"\n{note_html(said)}{made}{note_html(more)}{note_html(below)}"
    )


def _lost_text(shuffled: Shuffled) -> str:
    """Return the head of a column, which is as short as numbers are."""
    name = shuffled.score.partition(" ")[0]
    return f"{name} lost" if name in ("R²", "D²") else "lost"


def _feature_rows(
    known: Importances, name: str, value: float, length: float
) -> Iterator[tuple[str, list[str]]]:
    """Yield the table rows of a feature and of its parts."""
    error = known.error_of(name)
    bar = f'<span class="bars">{bar_html(length)}</span>'
    if known.shuffled is None:
        told = [] if error is None else [f"{error:.3f}"]
        yield "", [name_html(name), f"{value:.3f}", *told, bar]
    else:
        told = [] if error is None else [f"{known.scale * error:.4f}"]
        lost = f"{known.scale * value:.4f}"
        yield "", [name_html(name), lost, *told, f"{value:.1%}".replace("%", " %"), bar]
    blank = [""] * (len(told) + (known.shuffled is not None))
    for part, size in known.leading_parts(name, _PARTS):
        yield "part", [name_html(part), f"{size:.3f}", *blank, ""]


def directions_html(d: Description, /) -> str:
    """Return HTML with the learned directions as sums of features."""
    known = next((p for p in d.panels if isinstance(p, Directions) and not p.empty), None)
    if known is None:
        return ""
    rows = (("", [str(k + 1), escape_html(known.mix(k))]) for k in known.leading)
    left = len(known.loadings) - len(known.leading)
    said = [f"{left} more directions are not listed."] if left else []
    said += [_UNTESTED] if len(known.loadings) > 1 else []
    more = note_html(" ".join(said))
    return (
        "<h3>Learned directions</h3>\n"
        + table_html(["", "sum of columns"], rows, words=True)
        + more
    )


def data_html(d: Description, /) -> str:
    """Return HTML on the columns, their missing values, and the target."""
    counts = [rows_text(d) if d.n_samples else ""]
    counts += [f"{whole_text(d.n_features)} columns" if d.n_features else "", d.columns]
    target = ": ".join(filter(None, [d.target, d.task]))
    target += f"; {d.data.target}" if d.data and d.data.target else ""
    made = _facts_html({"rows and columns": ", ".join(filter(None, counts)), "target": target})
    if d.data is None or not d.data.columns:
        return section_html("The data", made)
    reasons = any(c.reason for c in d.data.columns)
    columns = (
        (
            "",
            [
                name_html(c.name),
                escape_html(c.kind),
                f"{c.gaps:.1%}".replace("%", "\u00a0%") if c.gaps else "none",
                escape_html(c.said),
                *([escape_html(c.reason)] if reasons else []),
            ],
        )
        for c in d.data.columns
    )
    head = ["column", "taken for", "missing", "values", *(["why"] if reasons else [])]
    left = d.data.n_columns - len(d.data.columns)
    more = note_html(f"{whole_text(left)} more columns are not listed." if left else "")
    return section_html(
        "The data",
        made,
        table_html(head, columns, words=True),
        more,
    )


def model_html(d: Description, pictures: str, /) -> str:
    """Return HTML on the model and its fit."""
    ended = f" ({d.ended})" if d.ended else ""
    how = {"fit": d.ended} if d.n_steps is None else {"steps": f"{d.n_steps}{ended}"}
    facts = {"model": d.text, **d.facts, "kernel products": d.products, **how}
    facts |= {"computed on": d.place}
    if any(facts.values()):
        facts["class"] = d.name
    return section_html("The model", _facts_html(facts), pictures)


def tuning_html(d: Description, pictures: str, /) -> str:
    """Return an HTML table of the trials, unless they are a blend's members."""
    known = d.tuning
    if known is None or not known.trials or any(isinstance(p, Leaderboard) for p in d.panels):
        return ""
    keys = known.settings
    heads = [_HEADS.get(key, key) for key in keys] + [f"{known.judged} {known.score}"]
    timed = known.seconds is not None
    trials = sorted(known.trials, key=lambda trial: [_sort_key(trial.get(key)) for key in keys])
    rows = (
        (
            "chosen" if trial["chosen"] else "",
            [
                *(_cell_html(trial.get(key)) for key in keys),
                _score_text(trial, "stopped"),
                *([_cell_html(trial.get("seconds"))] if timed else []),
            ],
        )
        for trial in trials[:_TRIALS]
    )
    left = len(trials) - _TRIALS
    more = note_html(f"{left} more settings are not listed." if left > 0 else "")
    head = [*heads, "seconds"] if timed else heads
    said = [hold_out_text(d), "cut short by max_time" if known.cut_short else ""]
    told = "; ".join(filter(None, said))
    note = note_html(to_sentence(told)) if told else ""
    return section_html("Tuning", note, table_html(head, rows), more, pictures)


def recipe_html(d: Description, /) -> str:
    """Return HTML with the call that fits the same model again."""
    from importlib.metadata import version

    lead = "" if d.call.startswith("gpukfl ") else "import gpukfl\n\n"  # a command of the shell
    call = f"<pre>{lead}{escape_lines(d.call)}</pre>\n" if d.call else ""
    versions = {"gpukfl": __version__, "Python": platform.python_version()}
    versions |= {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    versions |= {"system": f"{platform.system()} on {platform.machine()}"}
    return section_html("How to repeat it", call, _facts_html(versions))


def _facts_html(facts: Mapping[str, Any]) -> str:
    """Return an HTML table of what is known, by name; nothing where nothing is."""
    rows = [("", [escape_html(k), escape_html(v)]) for k, v in facts.items() if str(v) != ""]
    return table_html([], rows, words=True) if rows else ""


def _score_text(trial: Mapping[str, Any], without: str = "") -> str:
    """Return a score with its standard error, or what stands for one that is not there."""
    if trial["score"] is None:
        return without
    return share_text(trial["score"], trial_error(trial))


def _sort_key(value: Any) -> tuple[bool, bool, Any]:
    """Return a sort key for settings, which may be missing or text."""
    text = isinstance(value, str)
    return (False, False, 0) if value is None else (True, text, value)


def _cell_html(value: Any) -> str:
    if value is None:
        return "–"
    return format(value, ".3g") if isinstance(value, float) else escape_html(value)


# ------------------------------------------------------------------------------------- svg

# Pictures inside a page: vectors whose text is text, and whose colours follow the page's.


_SIZE = (4.8, 3.5)  # inches, of which a phone is about as wide
_SMALLEST = 8.5  # points of letters
_THOUSANDS, _HUGE = 1e4, 1e9  # numbers whose digits are written in groups of three
_TICKS = 6  # of numbers, that have room below a picture
_ON_IMAGE = "on-image"  # name of texts whose colour goes with an image's
_COLOR = re.compile(r"#[0-9a-f]{6}\b")
_LONG = re.compile(r"-?\d+\.\d{3,}")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # of a panel of one's own
_LOCK = threading.Lock()  # settings of matplotlib are those of all threads
# The random salt of names is fixed, so that a page is the same each time
_SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "gpukfl", "font.size": 9.5}
_LIGHTEST, _DARKEST = 0.93, 0.10  # of colours on dark pages


@dataclass(frozen=True)
class Picture:
    """A picture of a report."""

    markup: str  # HTML with the vectors inside
    colors: frozenset[str]  # that it has, as "#rrggbb"


def draw_pictures(d: Description, panels: Iterable[Panel], /, *, prefix: str) -> list[Picture]:
    """Draw the non-empty panels, with each small picture separate.

    `prefix` begins the names inside, which differ on a page.
    """
    found: list[Picture] = []
    for panel in panels:
        if not panel.empty:
            for of, part in panel.apart():
                found.append(_draw_picture(d, part, of, f"{prefix}{len(found)}-"))
    return found


def _draw_picture(d: Description, panel: Panel, of: str, prefix: str) -> Picture:
    title, text = _draw_svg(d, panel)
    root = ElementTree.fromstring(_CONTROL.sub(b" ", text))
    colors = _adapt_svg(root, prefix)
    root.set("role", "img")
    root.set("aria-label", clean_text(f"{of}: {panel.words}" if of else panel.words))
    vectors = ElementTree.tostring(root, encoding="unicode")
    said = f"{escape_html(title)}{f': {name_html(of)}' if of else ''}"
    caption = f"<figcaption>{said}</figcaption>" if said else ""
    return Picture(f"<figure>{caption}{vectors}</figure>\n", frozenset(colors))


def _draw_svg(d: Description, panel: Panel) -> tuple[str, bytes]:
    """Draw a panel to SVG; also return its title for the page."""
    from matplotlib import style

    buffer = io.BytesIO()
    # Not in the user's style: colours of dark ones would be turned round twice
    with _LOCK, style.context(["default", _SETTINGS]), warnings.catch_warnings():
        # The font that measures lacks letters that the reader's fonts have
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        warnings.filterwarnings("ignore", "Matplotlib currently does not support", UserWarning)
        figure = draw_detached_figure(d, panel, size=_SIZE)
        title = _take_title(figure)
        _make_legible(figure)
        options = {"metadata": {"Date": None}, "transparent": True}
        figure.savefig(buffer, format="svg", **options)
    return title, buffer.getvalue()


def _take_title(figure: Any) -> str:
    """Remove and return the title of a figure with one picture."""
    titled = [ax for ax in figure.axes if ax.get_title()]
    if len(titled) != 1:
        return ""
    title = str(titled[0].get_title()).replace(r"\$", "$")
    titled[0].set_title("")
    return title


def _make_legible(figure: Any) -> None:
    """Enlarge small letters, thin out ticks, and mark texts on images."""
    from matplotlib.text import Text
    from matplotlib.ticker import AutoLocator, ScalarFormatter

    for text in figure.findobj(Text):
        text.set_fontsize(max(text.get_fontsize(), _SMALLEST))
    for ax in figure.axes:
        if isinstance(ax.xaxis.get_major_locator(), AutoLocator):
            ax.xaxis.get_major_locator().set_params(nbins=_TICKS)
        for axis in (ax.xaxis, ax.yaxis):
            ends = max(map(abs, axis.get_view_interval()))
            if type(axis.get_major_formatter()) is ScalarFormatter and _THOUSANDS <= ends < _HUGE:
                axis.set_major_formatter(lambda value, _: f"{value:,.0f}".replace(",", "\u00a0"))
        for text in ax.texts if ax.images else []:
            text.set_gid(_ON_IMAGE)


def _adapt_svg(root: ElementTree.Element, prefix: str) -> set[str]:
    """Embed an SVG file in a page, with the page's colours; return these."""
    colors: set[str] = set()
    fixed = [text for group in root.iter() if group.get("id") == _ON_IMAGE for text in group.iter()]
    used = set(re.findall(r"#([\w.-]+)", " ".join(_references(root))))
    for parent in root.iter():
        parent.tag = _local_name(parent.tag)
        for child in list(parent):
            if _local_name(child.tag) in ("metadata", "style"):
                parent.remove(child)
        for key, value in list(parent.attrib.items()):
            del parent.attrib[key]
            if _local_name(key) == "id" and value not in used:
                continue
            parent.set(_local_name(key), _adapt_attribute(_local_name(key), value, prefix, colors))
    for text in fixed:
        _keep_own_color(text)
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    return colors


def _keep_own_color(text: ElementTree.Element) -> None:
    """Keep the colour of a text on an image, which is the same on dark pages."""
    if text.tag == "text":
        style = re.sub(r"var\(--c(\w+)\)", r"#\1", text.get("style", ""))
        text.set("style", style if "fill:" in style else f"{style}; fill: #000000")


def _references(root: ElementTree.Element) -> list[str]:
    return [v for one in root.iter() for v in one.attrib.values() if v.startswith(("#", "url(#"))]


def _local_name(name: str) -> str:
    """Return a name without its namespace."""
    return name.rpartition("}")[2]


def _adapt_attribute(key: str, value: str, prefix: str, colors: set[str]) -> str:
    if key == "id":
        return prefix + value
    if value.startswith(("#", "url(#")) and key not in ("fill", "stroke"):
        return value.replace("#", f"#{prefix}", 1)
    if key in ("d", "x", "y", "points"):
        return _LONG.sub(lambda found: f"{float(found[0]):.2f}", value)
    if key in ("style", "fill", "stroke"):
        value = re.sub(r"font: ([\d.]+px) [^;]*", r"font-size: \1", value)
        colors.update(_COLOR.findall(value))
        return _COLOR.sub(lambda found: f"var(--c{found[0][1:]})", value)
    return value


def color_sheet(colors: Iterable[str], /, *, dark: bool) -> str:
    """Return the style sheet of the pictures' colours, for light and dark pages."""
    return ";".join(f"--c{one[1:]}:{dark_color(one) if dark else one}" for one in sorted(colors))


def dark_color(color: str, /) -> str:
    """Return the colour "#rrggbb" for a dark page, with its lightness inverted."""
    red, green, blue = (int(color[k : k + 2], 16) / 255 for k in (1, 3, 5))
    hue, lightness, saturation = colorsys.rgb_to_hls(red, green, blue)
    lightness = _LIGHTEST - (_LIGHTEST - _DARKEST) * lightness
    shown = colorsys.hls_to_rgb(hue, lightness, saturation)
    return "#" + "".join(f"{round(255 * one):02x}" for one in shown)


_CURVES_ASK = (
    "Curves and importances answer different questions. A column whose curve is nearly flat "
    "matters if its effect depends on other columns. A curve may rise although shuffling the "
    "column costs little."
)
_INFERENCE_ASKS = (
    "This section asks for more than the importances above. Does the target depend on a column "
    "beyond all others (p-values)? Does its mean vary along the column (no flat line fits)? The "
    "two may differ. Other columns may replace it, its effects may cancel, or rows may be too few."
)
_ABSENT = "There are no pictures here: they need matplotlib, `pip install 'gpukfl[plot]'`."


class Inferred(Described, Protocol):
    """Conclusions about a model, in words, in numbers and in pictures."""

    def in_words(self) -> str:
        """Return the conclusions that the results allow, and their limits, in words."""

    def in_numbers(self) -> str:
        """Return the numbers in plain text."""


def write_report(
    of: Described | Description,
    path: str | Path,
    /,
    *,
    scores: Mapping[str, float],
    inference: Inferred | None = None,
) -> None:
    """Write one HTML page about what was learned, with embedded pictures.

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
    page = render_page(get_description(of), scores, inference)
    with atomic_write(path) as file:
        file.write(page.encode())


def render_page(d: Description, scores: Mapping[str, float], inference: Inferred | None) -> str:
    """Return the page as HTML."""
    drawn = _Drawn(d)
    learned = drawn.rest()
    body = [
        _matters_html(d, drawn),
        _curves_html(d, drawn),
        section_html("Predictions for held-out rows", drawn.draw(*HELD_OUT)),
        leaderboard_html(d, drawn.draw(Leaderboard)),
        comparison_html(d),
        section_html("Explained rows", drawn.draw(Waterfall), _explained_note(d)),
        section_html(
            "What was learned",
            learned,
            note_html(f"{d.units} {d.note}".strip()),
            directions_html(d),
        ),
        "" if inference is None else _inference_html(d, inference, drawn),
        data_html(d),
        model_html(d, drawn.draw(Objective)),
        tuning_html(d, drawn.draw(Tuning)),
        times_html(d),
        recipe_html(d),
    ]
    said = [*warning_texts(d, judged=bool(scores)), *([] if drawn.possible else [_ABSENT])]
    warned = [f'<p class="caveat" dir="auto">{escape_html(one)}</p>\n' for one in said]
    return PAGE.format(
        title=escape_html(f"{d.title} for {d.target}"),
        title_shown=f"{escape_html(d.title)} for {name_html(d.target)}",
        subtitle=escape_html(_subtitle(d)),
        colors=color_sheet(drawn.colors, dark=False),
        dark_colors=color_sheet(drawn.colors, dark=True),
        rules=RULES,
        body="".join([*warned, _scores_html(d, scores), *body]),
        date=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
        version=__version__,
    )


class _Drawn:
    """The pictures of a page that are not yet used."""

    def __init__(self, d: Description) -> None:
        self.possible, self.colors = True, set[str]()
        self._d, self._count = d, 0

    def draw(self, *kinds: type[Panel]) -> str:
        """Draw the panels of some classes."""
        return self.panels([p for p in self._d.panels if isinstance(p, kinds)])

    def rest(self) -> str:
        """Draw the panels that have no section of their own."""
        kinds = (*HELD_OUT, Importances, Dependence, Waterfall, Leaderboard, Objective, Tuning)
        return self.panels([p for p in self._d.panels if not isinstance(p, kinds)])

    def panels(self, some: Sequence[Panel], of: Description | None = None) -> str:
        """Draw panels side by side; return an empty string without matplotlib."""
        found: list[Picture] = []
        try:
            found = draw_pictures(of or self._d, some, prefix=f"p{self._count}-")
        except ImportError:
            self.possible = False
        self._count += 1
        self.colors |= {color for one in found for color in one.colors}
        inside = "".join(one.markup for one in found)
        return f'<div class="pictures">{inside}</div>\n' if inside else ""


def _explained_note(d: Description) -> str:
    """Return what pictures of explained rows show, or an empty string without any."""
    known = next((panel for panel in d.panels if isinstance(panel, Waterfall)), None)
    if known is None:
        return ""
    own = known.columns if d.importances is None else d.importances.features
    joined = [name for name in known.columns if name not in own]
    dates = f" With groups= it explains {joined[0]} together, as here." if joined else ""
    return note_html(
        "What each column adds to the prediction: from the mean of other rows at the bottom to the "
        "prediction at the top. These are Shapley values, as model.explain returns them by "
        f"default. Other background rows give other values.{dates}"
    )


def _matters_html(d: Description, drawn: _Drawn) -> str:
    """Return importances as a table, and beside it as a picture."""
    table, pictures = features_html(d), drawn.draw(Importances)
    beside = next((panel for panel in d.panels if isinstance(panel, HeldOutImportances)), None)
    if beside is not None:
        asked = f"“{beside.title}” answers another question. {importance_question(beside.joined())}"
        table += note_html(asked)
    if not pictures:
        return section_html("What matters", table)
    return section_html("What matters", f'<div class="beside"><div>{table}</div>{pictures}</div>\n')


def _curves_html(d: Description, drawn: _Drawn) -> str:
    """Return curves of mean predictions, and what they ask beside importances."""
    known = next((panel for panel in d.panels if isinstance(panel, Dependence)), None)
    if known is None:
        return ""
    said = note_html(known.remark) + note_html(_CURVES_ASK)
    return section_html("How predictions go with each column", said, drawn.draw(Dependence))


def _inference_html(model: Description, of: Inferred, drawn: _Drawn) -> str:
    d = of.describe()
    apart = "" if model.importances is None else note_html(_INFERENCE_ASKS)
    words = (
        f'{apart}<p dir="auto">{escape_html(of.in_words())}</p>\n<pre>'
        f"{escape_lines(of.in_numbers())}</pre>\n"
    )
    return section_html("What may be concluded", words, drawn.panels(d.panels, d))


def _subtitle(d: Description) -> str:
    d_text = "" if d.n_features is None else count_text(d.n_features, "column")
    size = " and ".join(filter(None, [rows_text(d), d_text]))
    time = "" if d.seconds is None else f"{d.seconds:.1f} s"
    said = ", ".join(filter(None, [" on ".join(filter(None, [d.task, size])), time]))
    return "; ".join([said, *(f"{topic}: {text}" for topic, text in d.asked.items())])


def _scores_html(d: Description, scores: Mapping[str, float]) -> str:
    """Return the scores at the top, and a sentence on whether two sets of rows agree."""
    own = [(name, _value_text(value), "") for name, value in scores.items()]
    if d.dimension is not None:
        count, what = d.dimension
        own.append((count_text(count, what).partition(" ")[2], str(count), ""))
    tuned = tuning_scores(d)
    sets = (*d.scored[::-1], *([tuned] if tuned else []))
    inside = "".join(
        _score_set_html(f"{one.of.capitalize()}: {one.rows}", map(_card, one.shown)) for one in sets
    )
    inside += _score_set_html("Besides" if sets else "", own) if own else ""
    return (f'<div class="scores">{inside}</div>\n' if inside else "") + note_html(agreement(d))


def _score_set_html(title: str, cards: Iterable[tuple[str, str, str]]) -> str:
    """Return scores of the same rows side by side, below a title."""
    inside = "".join(
        f'<div class="score"><b>{escape_html(text)}</b>'
        f"{f'<span>{escape_html(error)}</span>' if error else ''}"
        f"<small>{escape_html(label)}</small></div>"
        for label, text, error in cards
    )
    return f"<div>{note_html(title)}{inside}</div>"


def _card(score: Score) -> tuple[str, str, str]:
    """Return the name, value and error of a score in words."""
    value, _, error = score_text(score).partition(" ± ")
    return score.name, value, error and f"± {error}"


def _value_text(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def tuning_scores(d: Description, /) -> Scored | None:
    """Return the held-out score of a single method's chosen setting; None of blends."""
    if any(one.of != TEST for one in d.scored) or d.tuning is None or d.tuning.chosen is None:
        return None
    score = Score(d.tuning.score, d.tuning.chosen["score"], trial_error(d.tuning.chosen))
    return Scored(d.tuning.judged, "rows that tuning held out", (score,))


def agreement(d: Description, /) -> str:
    """Return a sentence: whether scores of a test differ from those of the fit; "" without both."""
    test = next((one for one in d.scored if one.of == TEST), None)
    fit = next((one for one in d.scored if one.of != TEST), None) or tuning_scores(d)
    return "" if test is None or fit is None else agreement_text(fit, test)
