"""Styles of pictures and pages, and pieces of HTML with escaped text."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

# ---------------------------------------------------------------------------------- markup

# Pieces of HTML: text that is escaped, whatever it says, and tables.


def escape_html(text: Any, /) -> str:
    """Escape a text for HTML; control characters become spaces."""
    return html.escape(clean_text(str(text)))


def escape_lines(text: str, /) -> str:
    """Escape a text of several lines."""
    return "\n".join(escape_html(line) for line in text.split("\n"))


def clean_text(text: str, /) -> str:
    """Replace control characters and broken surrogates by spaces."""
    return "".join(" " if unicodedata.category(c) in ("Cc", "Cs") else c for c in text)


def name_html(name: Any, /) -> str:
    """Return the HTML of a user's name, isolated for right-to-left scripts."""
    return f'<bdi dir="auto">{escape_html(name)}</bdi>'


def table_html(
    head: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]], /, *, words: bool = False
) -> str:
    """Return a scrollable HTML table of cells, with a class for each row.

    Cells of words may have several lines, those of numbers have one.
    """
    top = "".join(f'<th scope="col">{escape_html(one)}</th>' for one in head)
    body = "".join(
        (f'<tr class="{kind}">' if kind else "<tr>")
        + "".join(f"<td>{cell}</td>" for cell in cells)
        + "</tr>"
        for kind, cells in rows
    )
    top = f"<thead><tr>{top}</tr></thead>" if head else ""
    kind = "wide words" if words else "wide"
    return f'<div class="{kind}"><table>{top}<tbody>{body}</tbody></table></div>\n'


def bar_html(share: float, /) -> str:
    """Return the HTML of a bar for a share."""
    return f'<span class="bar" style="width:{100 * min(max(share, 0.0), 1.0):.1f}%"></span>'


def section_html(title: str, *parts: str) -> str:
    """Return parts under a title, or an empty string without parts."""
    inside = "".join(parts)
    return f"<section><h2>{escape_html(title)}</h2>\n{inside}</section>\n" if inside else ""


def note_html(text: str, /) -> str:
    """Return a sentence in small letters, or an empty string."""
    return f'<p class="note" dir="auto">{escape_html(text)}</p>\n' if text else ""


def to_sentence(text: str, /) -> str:
    """Return a text with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")


_PLACES = 3, 6  # after the point of a share, at least and at most


def number_text(value: float, digits: int = 4, /) -> str:
    """Write a number with some digits, as people do: 26 110, 0.0312, 24."""
    if not np.isfinite(value) or value == 0:
        return f"{value:g}"
    if abs(value) >= 1e7 or abs(value) < 1e-4:
        text = f"{value:.{digits - 1}g}"
    else:
        places = max(0, digits - 1 - int(np.floor(np.log10(abs(value)))))
        text = f"{value:,.{places}f}".replace(",", " ")
    return text.replace("-", "−")


def share_text(value: float, error: float | None = None, /) -> str:
    """Write a share and its standard error with two digits of the error: "0.326 ± 0.111"."""
    if error is None or not np.isfinite(error) or error <= 0:
        return f"{value:.3f}"
    places = int(np.clip(1 - np.floor(np.log10(error)), *_PLACES))
    return f"{value:.{places}f} ± {error:.{places}f}"


def measured_text(value: float, error: float | None = None, /) -> str:
    """Write a value with a unit and its standard error with as many places: "54.1 ± 2.3"."""
    if error is None or not np.isfinite(error) or error <= 0:
        return number_text(value)
    known = number_text(error, 2)
    digits = 2 + int(np.floor(np.log10(abs(value) or error)) - np.floor(np.log10(error)))
    return f"{number_text(value, max(digits, 1))} ± {known}"


def whole_text(count: int, /) -> str:
    """Write a count as people do: 26 110."""
    return f"{count:,}".replace(",", "\u00a0")


# ----------------------------------------------------------------------------------- style

# How all pictures look.


BLUE, ORANGE, GREEN, PURPLE, RED, GREY = (
    "#31688e",
    "#b5651d",
    "#3c8d5a",
    "#7a4f9e",
    "#a33b3b",
    "#777777",
)
COLORS = (BLUE, ORANGE, GREEN, PURPLE, RED, GREY)
PALE = "#bbbbbb"  # of what does not count
BAR = 0.65  # opacity of bars, on which errors are read, light or dark
BARS_TEXT = "\n± one standard error"  # below what bars of errors are of
_LONGEST = 24  # letters of a name
_TIMES = (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0), ("seconds", 1.0))


def style_axes(ax: Any, /) -> Any:
    """Take away the frame, draw a light grid, and return the axes."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="both", lw=0.4, alpha=0.5)
    ax.set_axisbelow(True)
    return ax


def add_twin(ax: Any, label: str, /, **text: Any) -> Any:
    """Return an axes of the same place, whose values are labelled on the right."""
    twin = ax.twinx()
    twin.set_ylabel(label, **text)
    twin.spines[["top"]].set_visible(False)
    return twin


def name_rows(ax: Any, names: Iterable[str], longest: int = _LONGEST, /) -> None:
    """Write names beside the rows 0, 1, ... of a picture."""
    labels = [shorten_label(name, longest) for name in names]
    ax.set_yticks(range(len(labels)), labels)


def add_legend(ax: Any, where: Any = None, /, **options: Any) -> None:
    """Add a legend to an axes, inside or outside, if curves have names."""
    handles, names = ax.get_legend_handles_labels()
    if handles:
        options = {"fontsize": 7, "frameon": False, **options}
        (where or ax).legend(
            handles, [shorten_label(name, 2 * _LONGEST) for name in names], **options
        )


def name_values(ax: Any, text: str, /) -> None:
    """Write what the values of x are; a long text ends where the axes does, or it would be cut."""
    longest = max(map(len, text.split("\n")))
    ax.set_xlabel(text, loc="center" if longest <= _LONGEST else "right")


def time_unit(longest: float, /) -> tuple[str, float]:
    """Return the unit in which people say times up to so many seconds, and its seconds."""
    return next((one for one in _TIMES if longest >= 2.0 * one[1]), _TIMES[-1])


def use_integer_ticks(axis: Any, /) -> None:
    """Set ticks at whole numbers only."""
    axis.get_major_locator().set_params(integer=True)


def shorten_label(name: str, longest: int = _LONGEST, /) -> str:
    """Cut the middle of a long name, and escape it for matplotlib."""
    return shorten_text(name, longest).replace("$", r"\$")


def shorten_text(name: str, longest: int = _LONGEST, /) -> str:
    """Cut the middle of a long name, and remove line breaks, for plain text."""
    name, half = clean_text(name), (longest - 1) // 2
    return name if len(name) <= longest else f"{name[:half]}…{name[-half:]}"


def viridis_color(rank: int, count: int, /) -> Any:
    """Return the colour of one of several curves, the first the darkest."""
    from matplotlib import colormaps

    return colormaps["viridis"](0.12 + 0.75 * rank / max(count - 1, 1))


def level_color(level: int, /) -> str:
    """Return the colour of the variables of a round, grey for round 0."""
    return COLORS[min(level, len(COLORS) - 1) - 1] if level else PALE


# ----------------------------------------------------------------------------------- sheet

# The frame of a page, and how it looks: on phones, on paper, light and dark.


# Of a report; the colours of pictures are put in.
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title><style>
:root {{ --ink:#1d2329; --soft:#5b6570; --paper:#ffffff; --pale:#eef3f7; --line:#d5dbe1;
  --main:#2b6390; --bad:#9c3030; --bad-pale:#fbf0f0; {colors} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ --ink:#e4e8ec; --soft:#9aa5b0;
  --paper:#14181c; --pale:#1f262d; --line:#39424b; --main:#7fb6e0; --bad:#ef9a9a;
  --bad-pale:#2d1c1e; {dark_colors} }} }}
{rules}</style></head><body>
<header><h1>{title_shown}</h1>
<p class="note" dir="auto">{subtitle}</p></header>
{body}
<footer class="note">Written {date} by gpukfl {version}.</footer>
</body></html>
"""
RULES = """* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; max-width: 64rem;
  margin: 1.5rem auto; padding: 0 1rem; color: var(--ink); background: var(--paper);
  overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
.note { color: var(--soft); font-size: .9rem; margin: .3rem 0; }
.scores { display: flex; flex-wrap: wrap; gap: .8rem 1.8rem; margin: 1.2rem 0 .6rem; }
.score { background: var(--pale); border-radius: 8px; padding: .6rem 1.1rem; font-size: .9rem;
  display: inline-block; vertical-align: top; margin: .2rem .6rem .2rem 0; }
.score b { font-size: 1.5rem; line-height: 1.3; color: var(--main); }
.score span { color: var(--soft); margin-left: .4rem; }
.score small { display: block; font-size: inherit; }
.beside { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr));
  gap: 0 1.6rem; align-items: start; } .beside .pictures { display: block; }
.beside th { white-space: nowrap; } .beside td:last-child, .beside th:last-child { display: none; }
.caveat { border-left: 4px solid var(--bad); padding: .4rem .8rem; background: var(--bad-pale);
  margin: .6rem 0; }
.wide { overflow-x: auto; background:
    linear-gradient(90deg, var(--paper) 1rem, transparent) left / 2rem 100% no-repeat local,
    linear-gradient(270deg, var(--paper) 1rem, transparent) right / 2rem 100% no-repeat local,
    linear-gradient(90deg, var(--line), transparent) left / .6rem 100% no-repeat,
    linear-gradient(270deg, var(--line), transparent) right / .6rem 100% no-repeat; }
td, p { unicode-bidi: plaintext; }
table { border-collapse: collapse; margin: .4rem 0; }
td, th { padding: .3rem 1rem .3rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums; }
th { font-weight: 600; font-size: .9rem; color: var(--soft); vertical-align: bottom; }
td:last-child, th:last-child { padding-right: 0; }
.chosen td { font-weight: 600; color: var(--main); }
td + td { white-space: nowrap; } .words td + td { white-space: normal; }
td bdi { display: inline-block; max-width: min(26rem, 45vw);
  overflow-wrap: break-word; }
.part td:first-child { padding-left: 1.2rem; }
td code { color: var(--soft); background: var(--pale); border-radius: 4px; padding: .1rem .3rem;
  font: .85em ui-monospace, "SFMono-Regular", Consolas, monospace; }
.bars { display: inline-block; width: 6rem; vertical-align: middle; }
.bar { display: block; height: .7rem; min-width: 1px; background: var(--main); opacity: .75;
  border-radius: 2px; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr));
  gap: 1rem 1.6rem; }
figure { margin: .4rem 0; max-width: 34rem; }
figcaption { font-weight: 600; font-size: .95rem; margin-bottom: .2rem; }
svg { display: block; width: 100%; height: auto; font-family: system-ui, -apple-system,
  "Segoe UI", sans-serif; stroke-linejoin: round; stroke-linecap: butt; }
svg text { fill: var(--ink); }
pre { background: var(--pale); padding: .8rem; border-radius: 6px; overflow-x: auto;
  font-size: .85rem; line-height: 1.4; }
@media (max-width: 40rem) { body { margin: .8rem auto; }
  td, th { padding-right: .6rem; font-size: .9rem; } th { font-size: .8rem; }
  td bdi { max-width: 34vw; } .words td + td bdi { overflow-wrap: anywhere; }
  .bars { display: none; }
  .score { padding: .5rem .7rem; margin-right: .3rem; } .score b { font-size: 1.25rem; } }
@media print { body { max-width: none; margin: 0; font-size: 10.5pt; }
  .pictures { grid-template-columns: 1fr 1fr; }
  figure, tr, .score, .caveat { break-inside: avoid; } h2, h3 { break-after: avoid; }
  .wide, pre { overflow: visible; } .wide { background: none; } pre { white-space: pre-wrap; }
  .bar, .score, pre, .caveat { -webkit-print-color-adjust: exact; print-color-adjust: exact; } }
"""
