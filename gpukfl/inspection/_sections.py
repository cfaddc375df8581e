"""Sections of a report, each of what a description says; empty where it says nothing."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gpukfl._version import __version__
from gpukfl.inspection._blends import Leaderboard
from gpukfl.inspection._comparison import Compared
from gpukfl.inspection._description import Description
from gpukfl.inspection._markup import bar, escaped, lines, named, note, section, sentence, table
from gpukfl.inspection._panels import Directions, Importances
from gpukfl.inspection._summary import hold_out_text
from gpukfl.inspection._tuning import Tuning, error_of

_LISTED, _PARTS = 20, 5  # features, and what was made of each
_TRIALS = 100  # that are listed
_HEADS = {
    "multiple": "times the paper's",
    "n_components": "components",
    "n_selected": "selected",
    "log_loss": "log loss",
    "brier": "Brier score",
}


def leaderboard(d: Description, pictures: str, /) -> str:
    """List members of a blend, best first, with their shares drawn."""
    if d.tuning is None or not any(isinstance(panel, Leaderboard) for panel in d.panels):
        return ""
    trials = sorted(d.tuning.trials, key=lambda t: (t["score"] is None, -(t["score"] or 0.0)))
    more = [key for key in ("log_loss", "brier") if any(t.get(key) is not None for t in trials)]
    head = ["member", f"held-out {d.tuning.score}", "share of the blend"]
    rows = (
        (
            "chosen" if trial["chosen"] else "",
            [
                named(trial["member"]) + _remark(trial["note"]),
                "–" if trial["score"] is None else _score(trial),
                "" if trial["chosen"] else _share(trial["weight"]),
                *(_cell(trial[key]) for key in more),
                _cell(trial.get("seconds")),
            ],
        )
        for trial in trials
    )
    made = table([*head, *(_HEADS[key] for key in more), "seconds"], rows)
    return section("Members and their blend", made, pictures)


def _remark(text: str) -> str:
    return f'<br><small class="note" dir="auto">{escaped(text)}</small>' if text else ""


def _share(weight: float) -> str:
    if not weight:
        return "–"
    return f'<span class="bars">{bar(weight)}</span> {weight:.0%}'


def comparison(d: Description, /) -> str:
    """Say what others score on the same rows."""
    known = d.comparison
    if known is None:
        return ""
    more = list(dict.fromkeys(key for row in known.rows for key in row.more))
    rows = (("chosen" if row.own else "", _compared(row, more)) for row in known.rows)
    made = table(["model", f"held-out {known.score}", *more], rows)
    said = "".join(note(remark) for remark in known.remarks)
    return section("Compared with simple models", made, said)


def _compared(row: Compared, more: list[str]) -> list[str]:
    error = "" if row.error is None else f" ± {row.error:.4f}"
    return [
        named(row.name),
        f"{row.score:.4f}{error}",
        *(f"{row.more[key]:.4g}" if key in row.more else "–" for key in more),
    ]


def features(d: Description, /) -> str:
    """List importances in numbers, with their errors and what they are made of."""
    known = d.importances
    if known is None:
        return ""
    leading = known.leading(_LISTED)
    scale = max((value for _, value in leading), default=0.0) or 1.0
    errors = known.errors is not None
    rows = [row for name, value in leading for row in _feature(known, name, value / scale, value)]
    unit = [f"± {'error' if errors else ''}"] if errors else []
    made = table(["feature", "importance", *unit, ""], rows)
    said = "They mean nothing here: see above." if d.caveat else ""
    left = int(np.count_nonzero(known.values)) - len(leading)
    more = f"{left} more have an importance." if left > 0 else ""
    below = sentence(known.remark) if known.remark else ""
    return f"<h3>Most important features</h3>\n{note(said)}{made}{note(more)}{note(below)}"


def _feature(
    known: Importances, name: str, share: float, value: float
) -> Iterator[tuple[str, list[str]]]:
    """Rows of a feature and of its parts."""
    error = known.error_of(name)
    told = [] if known.errors is None else [f"{error:.3f}"]
    yield "", [named(name), f"{value:.3f}", *told, f'<span class="bars">{bar(share)}</span>']
    for part, size in known.leading_parts(name, _PARTS):
        yield "part", [named(part), f"{size:.3f}", *["" for _ in told], ""]


def directions(d: Description, /) -> str:
    """Write learned directions as sums of features."""
    known = next((p for p in d.panels if isinstance(p, Directions) and not p.empty), None)
    if known is None:
        return ""
    rows = (("", [str(k + 1), escaped(known.mix(k))]) for k in known.leading)
    left = len(known.loadings) - len(known.leading)
    more = note(f"{left} more directions are not listed.") if left else ""
    return "<h3>Learned directions</h3>\n" + table(["", "sum of features"], rows, words=True) + more


def data(d: Description, /) -> str:
    """Say what the columns are, their gaps, and the target."""
    counts = [f"{d.n_samples:,} rows" if d.n_samples else ""]
    counts += [f"{d.n_features:,} columns" if d.n_features else "", d.columns]
    said = [("rows and columns", ", ".join(filter(None, counts)))]
    said.append(
        (
            "target",
            ": ".join(filter(None, [d.target, d.task]))
            + (f"; {d.data.target}" if d.data and d.data.target else ""),
        )
    )
    rows = [("", [escaped(k), escaped(v)]) for k, v in said if v]
    made = table([], rows, words=True)
    if d.data is None or not d.data.columns:
        return section("The data", made)
    columns = (
        (
            "",
            [
                named(c.name),
                escaped(c.kind),
                f"{c.gaps:.1%}" if c.gaps else "none",
                escaped(c.said),
            ],
        )
        for c in d.data.columns
    )
    left = d.data.n_columns - len(d.data.columns)
    more = note(f"{left:,} more columns are not listed." if left else "")
    return section(
        "The data",
        made,
        table(["column", "taken for", "gaps", "values"], columns, words=True),
        more,
    )


def model(d: Description, pictures: str, /) -> str:
    """Say what was fitted, and how."""
    ended = f" ({d.ended})" if d.ended else ""
    how = {"fit": d.ended} if d.n_steps is None else {"steps": f"{d.n_steps}{ended}"}
    facts = {"model": d.text, **d.facts, "kernel products": d.products, **how}
    facts |= {"computed on": d.place}
    rows = [("", [escaped(k), escaped(v)]) for k, v in facts.items() if str(v) != ""]
    return section("The model", table([], rows, words=True) if rows else "", pictures)


def tuning(d: Description, pictures: str, /) -> str:
    """List settings that were tried, unless they are the members of a blend."""
    known = d.tuning
    if known is None or not known.trials or any(isinstance(p, Leaderboard) for p in d.panels):
        return ""
    keys = known.settings
    heads = [_HEADS.get(key, key) for key in keys] + [f"hold-out {known.score}"]
    timed = known.seconds is not None
    trials = sorted(known.trials, key=lambda trial: [_order(trial.get(key)) for key in keys])
    rows = (
        (
            "chosen" if trial["chosen"] else "",
            [
                *(_cell(trial.get(key)) for key in keys),
                "stopped" if trial["score"] is None else _score(trial),
                *([_cell(trial.get("seconds"))] if timed else []),
            ],
        )
        for trial in trials[:_TRIALS]
    )
    left = len(trials) - _TRIALS
    more = note(f"{left} more settings are not listed." if left > 0 else "")
    head = [*heads, "seconds"] if timed else heads
    said = _of_tuning(known, d.seconds)
    return section("Tuning", said, table(head, rows), more, pictures)


def _of_tuning(known: Tuning, seconds: float | None) -> str:
    said = [hold_out_text(known, seconds), "cut short by max_time" if known.cut_short else ""]
    said = [one for one in said if one]
    return note(sentence("; ".join(said))) if said else ""


def recipe(d: Description, /) -> str:
    """Say how to come to the same model again."""
    call = f"<pre>import gpukfl\n\n{lines(d.call)}</pre>\n" if d.call else ""
    versions = environment()
    rows = [("", [escaped(name), escaped(version)]) for name, version in versions.items()]
    return section("How to repeat it", call, table([], rows, words=True))


def environment() -> Mapping[str, str]:
    """Give versions of what a fit depends on, and the system."""
    from importlib.metadata import version

    known = {"gpukfl": __version__, "Python": platform.python_version()}
    known |= {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return known | {"system": f"{platform.system()} on {platform.machine()}"}


def _score(trial: Mapping[str, Any]) -> str:
    error = error_of(trial)
    return f"{trial['score']:.4f}" + ("" if error is None else f" ± {error:.4f}")


def _order(value: Any) -> tuple[bool, bool, Any]:
    """Key to sort settings by, of which some may not apply, and some are words."""
    text = isinstance(value, str)
    return (False, False, 0) if value is None else (True, text, value)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return format(value, ".3g") if isinstance(value, float) else escaped(value)
