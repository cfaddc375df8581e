"""One HTML file that shows a fitted model."""

from __future__ import annotations

import base64
import html
import io
import platform
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from gpukfl._version import __version__
from gpukfl.inspection._description import Described, Description, counted, described
from gpukfl.inspection._figures import draw_apart
from gpukfl.inspection._panels import Importances
from gpukfl.inspection._summary import hold_out_text
from gpukfl.inspection._tuning import Tuning, error_of

_LISTED, _PARTS = 20, 5  # features, and what was made of each
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; background: #fff; }}
h1 {{ font-size: 1.6rem; margin-bottom: 0; }} h2 {{ font-size: 1.15rem; margin-top: 2rem; }}
.scores {{ display: flex; flex-wrap: wrap; gap: 1rem; margin: 1.2rem 0; }}
.score {{ background: #eef3f7; border-radius: 8px; padding: .6rem 1.2rem; }}
.score b {{ display: block; font-size: 1.5rem; color: #31688e; }}
table {{ border-collapse: collapse; }} td, th {{ padding: .25rem .9rem .25rem 0; text-align: left;
  border-bottom: 1px solid #ddd; font-variant-numeric: tabular-nums; }}
tr.chosen {{ font-weight: 600; color: #31688e; }} img {{ width: 100%; }}
.caveat {{ border-left: 4px solid #a33b3b; padding: .4rem .8rem; background: #faf0f0; }}
.note {{ color: #666; font-size: .9rem; }} pre {{ background: #f6f6f6; padding: .8rem; }}
</style></head><body>
<h1>{title}</h1><p class="note">{subtitle}</p>
{caveat}<div class="scores">{scores}</div>
{picture}<h2>The model</h2><table>{facts}</table>
{tuning}{features}{inference}
<p class="note">Written {date} by gpukfl {version}, Python {python}.</p>
</body></html>
"""
_PICTURE = """<h2>What was learned</h2><img alt="{alt}" src="data:image/png;base64,{data}">
<p class="note">{note}</p>
"""
_INFERENCE = """<h2>What may be concluded</h2><p>{words}</p>
<pre>{summary}</pre>
<img alt="{alt}" src="data:image/png;base64,{data}">
"""
_FEATURES = """<h2>Most important features</h2>
{caveat}<table><tr><th>feature</th><th>importance</th></tr>{rows}</table>
"""


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
        Where to write.
    scores : dict
        Named scores for the top of the page.
    inference : Inference, optional
        What may be concluded: a section of its own.

    Raises
    ------
    ImportError
        If there are pictures to draw, and matplotlib is not installed.
    OSError
        If the page cannot be written.
    """
    d = described(of)
    caveat = f'<p class="caveat">{html.escape(_sentence(d.caveat))}</p>' if d.caveat else ""
    page = _PAGE.format(
        title=html.escape(f"{d.target}: {d.name}"),
        subtitle=html.escape(_subtitle(d)),
        caveat=caveat,
        scores="".join(_score(label, value) for label, value in _scores(d, scores).items()),
        picture=_picture(d),
        facts=_facts(d),
        tuning="" if d.tuning is None else _tuning(d.tuning, d.seconds),
        features=_features(d),
        inference="" if inference is None else _inference(inference),
        date=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
        version=__version__,
        python=platform.python_version(),
    )
    Path(path).write_text(page, encoding="utf-8")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _subtitle(d: Description) -> str:
    sizes = [
        "" if count is None else counted(count, what).replace(str(count), f"{count:,}", 1)
        for count, what in ((d.n_samples, "sample"), (d.n_features, "feature"))
    ]
    size = " and ".join(filter(None, sizes))
    time = "" if d.seconds is None else f"{d.seconds:.1f} s"
    return ", ".join(filter(None, [" on ".join(filter(None, [d.task, size])), time]))


def _scores(d: Description, scores: Mapping[str, float]) -> dict[str, Any]:
    shown: dict[str, Any] = dict(scores)
    if d.tuning is not None and d.tuning.chosen is not None:
        shown[f"hold-out {d.tuning.score} in tuning"] = d.tuning.shown_score
    if d.dimension is not None:
        count, what = d.dimension
        shown[counted(count, what).partition(" ")[2]] = count
    return shown


def _score(label: str, value: Any) -> str:
    shown = f"{value:.4f}" if isinstance(value, float) else str(value)
    return f'<div class="score"><b>{shown}</b>{html.escape(label)}</div>'


def _picture(d: Description) -> str:
    panels = [panel.name for panel in d.panels if not panel.empty]
    if not panels:
        return ""
    note = html.escape(f"{d.units} {d.note}".strip())
    return _PICTURE.format(alt=", ".join(panels), data=_drawn(d), note=note)


def _drawn(d: Description) -> str:
    """Draw into a picture that a page holds."""
    buffer = io.BytesIO()
    draw_apart(d).savefig(buffer, format="png", dpi=120)
    return base64.b64encode(buffer.getvalue()).decode()


def _inference(of: Inferred) -> str:
    d = of.describe()
    return _INFERENCE.format(
        words=html.escape(of.in_words()),
        summary=html.escape(of.in_numbers()),
        alt=", ".join(panel.name for panel in d.panels),
        data=_drawn(d),
    )


def _facts(d: Description) -> str:
    ended = f" ({d.ended})" if d.ended else ""
    steps = "" if d.n_steps is None else f"{d.n_steps}{ended}"
    last = {"kernel products": d.products, "steps": steps, "computed on": d.place}
    facts = {"columns": d.columns, **d.facts, **last}
    rows = (
        f"<tr><td>{html.escape(k)}</td><td>{html.escape(str(v))}</td></tr>"
        for k, v in facts.items()
        if v != ""
    )
    return "".join(rows)


def _features(d: Description) -> str:
    if d.importances is None:
        return ""
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{value:.3f}</td></tr>"
        for feature, total in d.importances.leading(_LISTED)
        for name, value in [(feature, total), *_parts(d.importances, feature)]
    )
    caveat = '<p class="note">They mean nothing here: see above.</p>\n' if d.caveat else ""
    return _FEATURES.format(rows=rows, caveat=caveat)


def _parts(importances: Importances, feature: str) -> list[tuple[str, float]]:
    """Names and shares of the parts of a feature, set in."""
    found = importances.leading_parts(feature, _PARTS)
    return [(f"\u2003{name}", value) for name, value in found]


def _tuning(tuning: Tuning, seconds: float | None) -> str:
    if not tuning.trials:
        return ""
    keys = tuning.settings
    results = {f"hold-out {tuning.score}": _score_cell}
    if tuning.seconds is not None:
        results["seconds"] = lambda trial: _cell(trial.get("seconds"))
    trials = sorted(tuning.trials, key=lambda trial: [_order(trial.get(key)) for key in keys])
    head = "".join(f"<th>{html.escape(_HEADS.get(key, key))}</th>" for key in [*keys, *results])
    rows = "".join(
        f'<tr class="{"chosen" if trial["chosen"] else ""}">'
        + "".join(f"<td>{_cell(trial.get(key))}</td>" for key in keys)
        + "".join(f"<td>{show(trial)}</td>" for show in results.values())
        + "</tr>"
        for trial in trials
    )
    said = [hold_out_text(tuning, seconds), "cut short by max_time" if tuning.cut_short else ""]
    note = "; ".join(filter(None, said))
    said_of_it = f'<p class="note">{html.escape(_sentence(note))}</p>' if note else ""
    return f"<h2>Tuning</h2>{said_of_it}<table><tr>{head}</tr>{rows}</table>\n"


def _score_cell(trial: Mapping[str, Any]) -> str:
    if trial["score"] is None:
        return "stopped"
    error = error_of(trial)
    return f"{trial['score']:.4f}" + ("" if error is None else f" ± {error:.4f}")


def _order(value: Any) -> tuple[bool, bool, Any]:
    """Key to sort settings by, of which some may not apply, and some are words."""
    text = isinstance(value, str)
    return (False, False, 0) if value is None else (True, text, value)


_HEADS = {
    "multiple": "times the paper's",
    "n_components": "components",
    "n_selected": "selected",
}


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return format(value, ".3g") if isinstance(value, float) else html.escape(str(value))
