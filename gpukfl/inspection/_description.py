"""The description of a fitted estimator, which texts, pictures and reports show."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar

from gpukfl.core._frames import listed
from gpukfl.inspection._held_out import HELD_OUT
from gpukfl.inspection._measures import Scored
from gpukfl.inspection._panels import Importances, Panel
from gpukfl.inspection._style import clean_text, to_sentence, whole_text
from gpukfl.inspection._tuning import Comparison, Tuning

# ----------------------------------------------------------------------------------- facts

# What the data of a fit were: columns, missing values and the target.


@dataclass(frozen=True)
class ColumnFacts:
    """Facts about a column.

    Attributes
    ----------
    name : str
        As in the data.
    kind : str
        What it was taken for.
    gaps : float
        Share of the rows that have no value.
    said : str
        Its values, in a few words.
    reason : str
        Why it was taken for that, where somebody may disagree.
    is_used : bool
        Whether the column is used.
    """

    name: str
    kind: str
    gaps: float = 0.0
    said: str = ""
    reason: str = ""
    is_used: bool = True


@dataclass(frozen=True)
class DataFacts:
    """Facts about the data of a fit.

    Attributes
    ----------
    columns : tuple of ColumnFacts
        The first columns; more are only counted.
    n_columns : int
        Of all.
    target : str
        What the target's values are, in words.
    """

    columns: tuple[ColumnFacts, ...]
    n_columns: int
    target: str = ""


# ----------------------------------------------------------------------------- description

# What a fitted estimator says of itself: the one thing that texts, pictures and reports read.


Some = TypeVar("Some", bound=Panel)


@dataclass(frozen=True)
class Names:
    """Names of the columns of data and predictions.

    Attributes
    ----------
    features : tuple of str
        Columns of X.
    target : str
        What is predicted.
    outputs : tuple of str
        Columns of the fitted functions: the target, several targets, or classes.
    one_unit : bool
        Whether these are in one unit, as those of classes are.
    """

    features: tuple[str, ...]
    target: str
    outputs: tuple[str, ...]
    one_unit: bool = True


@dataclass(frozen=True, eq=False, kw_only=True)
class Description:
    """The description of a fitted estimator in words, names and host arrays.

    Only `name` is needed: what is not given is left out of summaries, pictures and reports.

    Attributes
    ----------
    name : str
        Of the estimator.
    kind : str
        What the model is, for titles; empty where only the name says it.
    text : str
        The model in a line.
    target : str
        What it predicts.
    task : str
        "regression", "classification of 3 classes", or the like.
    n_samples, n_features : int
        Size of the data.
    n_rows : int
        Rows with their copies, which are one sample.
    columns : str
        What the columns of a table were taken for.
    place, products : str
        Where it was computed, and how.
    n_steps, ended : int, str
        Steps of the fit, and how it ended.
    seconds : float
        That everything took.
    facts : dict of str: object
        Further lines of a report's table.
    units, note : str
        What the pictures are in units of, and what they mean, for a report.
    dimension : tuple of (int, str)
        How many of what was found: ``(2, "effective direction")``.
    panels : tuple of Panel
        What is drawn, in this order; of a class of panels there is one at most.
    tuning : Tuning
        Settings that were tried. It is drawn where it is among the panels too.
    comparison : Comparison
        How others do on the same rows.
    scored : tuple of Scored
        Scores with errors on rows that the model has not seen: of the fit's folds, and of a test.
    data : DataFacts
        What the columns and the target are.
    times : tuple of dict
        Parts of the fit: "part", "member" where it is of one, number of "fits", and "seconds".
    warnings : tuple of str
        What else is to be known before the model is used, in sentences.
    call : str
        The line of Python that fits it again.
    asked : dict of str: str
        What the fit was asked for beside the defaults, in words, by topics of at most 11 letters.
    """

    name: str
    kind: str = ""
    text: str = ""
    target: str = "y"
    task: str = ""
    n_samples: int | None = None
    n_rows: int | None = None
    n_features: int | None = None
    columns: str = ""
    place: str = ""
    products: str = ""
    n_steps: int | None = None
    ended: str = ""
    seconds: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    units: str = ""
    note: str = ""
    dimension: tuple[int, str] | None = None
    panels: tuple[Panel, ...] = ()
    tuning: Tuning | None = None
    comparison: Comparison | None = None
    scored: tuple[Scored, ...] = ()
    data: DataFacts | None = None
    times: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    call: str = ""
    asked: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """What the model is: its kind, or the name of the estimator."""
        return to_sentence(self.kind).rstrip(".") if self.kind else self.name

    @property
    def caveat(self) -> str:
        """A warning if held-out rows show that nothing was found, or an empty string."""
        return "" if self.tuning is None else self.tuning.caveat

    @property
    def importances(self) -> Importances | None:
        """The importances, if there are any."""
        return next((panel for panel in self.panels if isinstance(panel, Importances)), None)

    def add_warnings(self, messages: Sequence[str], /) -> Self:
        """Return the description with a fit's warnings as distinct sentences."""
        told = (*self.warnings, *map(_warning_sentence, messages))
        return replace(self, warnings=tuple(dict.fromkeys(told)))

    def panel(self, kind: type[Some], /) -> Some:
        """Return the panel of a class, or None.

        Raises
        ------
        ValueError
            If there is nothing of it to draw; says why.
        """
        known: list[Panel] = [*self.panels, *([] if self.tuning is None else [self.tuning])]
        found = next((panel for panel in known if isinstance(panel, kind)), None)
        names = list(dict.fromkeys(panel.name for panel in known if not panel.empty))
        if found is None or found.empty:
            why = ", which has none" if found is None else f": {found.empty}"
            has = f"it has {', '.join(names)}" if names else "it has nothing to draw"
            msg = f"expected a model with {kind.name} to draw, got {self.name}{why}; {has}"
            raise ValueError(msg)
        return found


def _warning_sentence(message: str) -> str:
    """Return a warning as a sentence."""
    first = message.partition(" ")[0]
    is_word = first.isalpha() and len(first) > 1
    return to_sentence(message) if is_word else message + ("" if message.endswith(".") else ".")


class Described(Protocol):
    """A fitted estimator or a model that describes itself."""

    def describe(self) -> Description:
        """Return the description."""


def get_description(of: Described | Description, /) -> Description:
    """Return the description of a fitted estimator or model, or itself.

    Raises
    ------
    TypeError
        If it gives none.
    """
    if isinstance(of, Description):
        return of
    if not callable(getattr(of, "describe", None)):
        msg = (
            f"expected a fitted estimator or Model with a method describe, got {type(of).__name__}"
        )
        raise TypeError(msg)
    return of.describe()


def count_text(count: int, what: str, /) -> str:
    """Return a count with a noun: "1 step", "2 steps"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


# -------------------------------------------------------------------------------- cautions

# What is to be known before a model is used, in sentences.


# Ends of a fit without a warning
_WELL = ("", "complete", "converged", "decided", "early stopped")
_UNJUDGED = "No rows were held out: nothing here says how well the model predicts new rows."


def warning_texts(d: Description, /, *, judged: bool = False) -> list[str]:
    """Return what is to be known, in sentences, the gravest first.

    `judged` says whether scores are known beside those of the description.
    """
    found = [to_sentence(d.caveat)] if d.caveat else []
    judged = judged or any(isinstance(p, HELD_OUT) and not p.empty for p in d.panels)
    judged = judged or d.comparison is not None
    if not judged and (d.tuning is None or d.tuning.chosen is None):
        found.append(_UNJUDGED)
    if d.ended not in _WELL:
        found.append(f"The fit stopped early: {d.ended}.")
    if d.tuning is not None and d.tuning.cut_short:
        found.append("The search was cut short by max_time: more time may find a better model.")
    if d.importances is not None and not d.importances.values.any():
        found.append("Every importance is 0.")
    return [*found, *d.warnings]


# --------------------------------------------------------------------------------- summary

# A fitted model in plain text, as wide as a terminal, whatever letters names have.


_WIDE = 80  # cells of a line
_LISTED = 10  # features
_LONG_COMPILING = 1.0  # seconds
_PARTS = 3  # of a feature: levels of a category
_WARNED = 160  # characters of a warning
_NAME, _LONGEST = 28, 72  # cells of a name with its lead


def summarize(of: Described | Description, /) -> str:
    """Return a plain-text summary of the fit and of the importances.

    Parameters
    ----------
    of : estimator, Model or Description
        Fitted.

    Returns
    -------
    str
        Lines of at most 80 cells; what is not known is left out.
    """
    d = get_description(of)
    lines = wrap_text("", f"{d.title} for {d.target}")
    for name, text in summary_entries(d).items():
        lines += wrap_text(f"  {name:<11} ", text) if text else []
    if d.importances is not None:
        known = d.importances.shuffled
        what = "" if known is None else f": {known.score} lost by shuffling, as shares of the sum"
        lines.append("  importance" + (" (means nothing)" if d.caveat else what))
        lines += _importance_lines(d.importances.joined())
        without = without_effect_text(d)
        lines += wrap_text("    ", without) if without else []
    return "\n".join(lines)


def wrap_text(lead: str, text: str, /) -> list[str]:
    """Put a text behind a lead into lines, of which later ones are indented as far."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.text import Text

    words = Text(" ".join(clean_text(text).split()))
    rows = words.wrap(Console(), _WIDE - cell_len(lead))
    indent = " " * cell_len(lead)
    return [f"{indent if k else lead}{row.plain.rstrip()}" for k, row in enumerate(rows)]


def pad_text(text: str, cells: int, /) -> str:
    """Pad a text with spaces, or cut the middle of a longer one."""
    from rich.cells import cell_len, chop_cells

    if cell_len(text) > cells:
        half = (cells - 1) // 2
        end = chop_cells(text[::-1], half)[0][::-1]
        text = f"{chop_cells(text, cells - 1 - half)[0]}…{end}"
    return text + " " * (cells - cell_len(text))


def without_effect_text(d: Description, /) -> str:
    """Return the used columns whose importance is 0 beside others, in words, or ""."""
    known = d.importances
    if known is None or known.shuffled is None or not known.values.any():
        return ""
    unused = () if d.data is None else [one.name for one in d.data.columns if not one.is_used]
    pairs = zip(known.features, known.values, strict=True)
    names = [name for name, value in pairs if not value and name not in unused]
    return f"importance 0: {listed(names)}" if names else ""


def _importance_lines(known: Importances) -> list[str]:
    """Return lines on the leading features and their parts."""
    from rich.cells import cell_len

    rows = []
    for feature, total in known.leading(_LISTED):
        rows.append(("    ", clean_text(feature), total))
        parts = known.leading_parts(feature, _PARTS)
        rows += [("      ", clean_text(name), share) for name, share in parts]
    longest = max((len(lead) + cell_len(name) for lead, name, _ in rows), default=0)
    cells = min(max(longest, _NAME), _LONGEST)
    return [f"{lead}{pad_text(name, cells - len(lead))} {v:6.3f}" for lead, name, v in rows]


def summary_entries(d: Description, /) -> dict[str, str]:
    """Return the entries of a summary by topic."""
    steps = "" if d.n_steps is None else count_text(d.n_steps, "step")
    time = "" if d.seconds is None else f"{d.seconds:.1f} s"
    time += " with tuning" if time and d.tuning and d.tuning.trials else ""
    return {
        "data": ", ".join(size_texts(d)),
        "columns": d.columns,
        "task": d.task,
        **d.asked,
        "model": d.text,
        "computed": _join_parts(f"on {d.place}" if d.place else "", d.products),
        "fit": _join_parts(steps, d.ended, time, _compiling_text(d)),
        "score": hold_out_text(d),
        "found": d.caveat,
        "tuning": "cut short by max_time" if d.tuning and d.tuning.cut_short else "",
        "warnings": _shorten_warnings(d.warnings),
        "dimension": "" if d.dimension is None else count_text(*d.dimension),
    }


def _compiling_text(d: Description) -> str:
    """Return how long the fit compiled code, if that was long."""
    seconds = sum(one["seconds"] for one in d.times if one["part"] == "compiled code")
    return f"{seconds:.1f} s of it compiling code, once" if seconds >= _LONG_COMPILING else ""


def _shorten_warnings(warnings: Sequence[str]) -> str:
    """Return the first warning, and how many more there are."""
    if not warnings:
        return ""
    left = len(warnings) - 1
    more = f" ({count_text(left, 'more warning')})" if left else ""
    return textwrap.shorten(clean_text(warnings[0]), _WARNED, placeholder=" …") + more


def _join_parts(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def size_texts(d: Description, /) -> list[str]:
    """Return in words how many rows and columns there were, as far as that is known."""
    columns = None if d.n_features is None else count_text(d.n_features, "column")
    return [text.replace("\u00a0", "") for text in (rows_text(d), columns) if text]


def rows_text(d: Description, /) -> str:
    """Return in words how many rows there were, and how many different ones."""
    if d.n_samples is None:
        return ""
    if d.n_rows is None or d.n_rows <= d.n_samples:
        return f"{whole_text(d.n_samples)} row{'' if d.n_samples == 1 else 's'}"
    return f"{whole_text(d.n_rows)} rows, {whole_text(d.n_samples)} of them different"


def hold_out_text(d: Description, /) -> str:
    """Return the score in words: on which rows, and of how many settings or models."""
    tuning = d.tuning
    if tuning is None or tuning.chosen is None:
        return ""
    text = f"{tuning.judged} {tuning.score} {tuning.shown_score}"
    if tuning.of == "member":
        of_fit = (f"{one.of} {one.text}" for one in d.scored if one.of == tuning.judged)
        return next(of_fit, text)
    best = max(t["score"] for t in tuning.trials if t["score"] is not None)
    one = "best" if tuning.chosen["score"] == best else "chosen"
    return f"{text}, {one} of {count_text(len(tuning.trials), 'setting')}"
