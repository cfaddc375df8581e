"""A fitted model in plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from gpukfl.inspection._description import Described, Description, counted, described
from gpukfl.inspection._markup import clean
from gpukfl.inspection._panels import Importances
from gpukfl.inspection._terminal import padded, width, wrapped
from gpukfl.inspection._tuning import Tuning

_LISTED = 10  # features
_PARTS = 3  # of a feature: levels of a category
_WARNED = 160  # characters of a warning
_NAME, _LONGEST = 28, 52  # cells of a name with its lead


def summarize(of: Described | Description, /) -> str:
    """Say in plain text what was fitted, how it went, and what matters.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted.

    Returns
    -------
    str
        Lines of at most 80 cells; what is not known is left out.
    """
    d = described(of)
    lines = wrapped("", f"{d.name} for {d.target}")
    for name, text in entries(d).items():
        lines += wrapped(f"  {name:<11} ", text) if text else []
    if d.importances is not None:
        lines.append("  importance" + (" (means nothing)" if d.caveat else ""))
        lines += _features(d.importances)
    return "\n".join(lines)


def _features(known: Importances) -> list[str]:
    """Lines of the leading features, and of the leading parts of each."""
    rows = []
    for feature, total in known.leading(_LISTED):
        rows.append(("    ", feature, total))
        rows += [("      ", *part) for part in known.leading_parts(feature, _PARTS)]
    longest = max((len(lead) + width(clean(name)) for lead, name, _ in rows), default=0)
    cells = min(max(longest, _NAME), _LONGEST)
    return [f"{lead}{padded(name, cells - len(lead))} {v:6.3f}" for lead, name, v in rows]


def entries(d: Description, /) -> dict[str, str]:
    """Give what is said of a model, by what it is; empty where nothing is known."""
    return {
        "data": _joined(
            _size(d.n_samples, "sample"),
            _size(d.n_features, "feature"),
        ),
        "columns": d.columns,
        "task": d.task,
        "model": d.text,
        "computed": _joined(f"on {d.place}" if d.place else "", d.products),
        "fit": _joined(steps_text(d), time_text(d)),
        "hold-out": hold_out_text(d.tuning, d.seconds) if d.tuning else "",
        "found": d.caveat,
        "tuning": "cut short by max_time" if d.tuning and d.tuning.cut_short else "",
        "warnings": _in_short(d.warnings),
        "dimension": "" if d.dimension is None else counted(*d.dimension),
    }


def _in_short(warnings: Sequence[str]) -> str:
    """Say the first of some warnings, and how many more there are."""
    if not warnings:
        return ""
    left = len(warnings) - 1
    more = f" ({counted(left, 'more warning')})" if left else ""
    return textwrap.shorten(clean(warnings[0]), _WARNED, placeholder=" …") + more


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _size(count: int | None, what: str) -> str:
    return "" if count is None else counted(count, what)


def steps_text(d: Description, /) -> str:
    """Say how many steps a fit took, and how it ended."""
    return _joined(_size(d.n_steps, "step"), d.ended)


def time_text(d: Description, /) -> str:
    """Say how long everything took."""
    if d.seconds is None:
        return ""
    return f"{d.seconds:.1f} s" + (" with tuning" if d.tuning and d.tuning.trials else "")


def hold_out_text(tuning: Tuning, seconds: float | None, /) -> str:
    """Say what was chosen, of how many, and what part of the time that took."""
    chosen = tuning.chosen
    if chosen is None:
        return ""
    best = max(t["score"] for t in tuning.trials if t["score"] is not None)
    one = "best" if chosen["score"] == best and tuning.of == "setting" else "chosen"
    text = f"{tuning.score} {tuning.shown_score}, {one} of {counted(tuning.count, tuning.of)}"
    if tuning.seconds is not None and seconds:
        text += f", {min(tuning.seconds / seconds, 1.0):.0%} of the time".replace("%", " %")
    return text
