"""What a fitted estimator says of itself: the one thing that texts, pictures and reports read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar

from gpukfl.inspection._comparison import Comparison
from gpukfl.inspection._facts import DataFacts
from gpukfl.inspection._markup import sentence
from gpukfl.inspection._panels import Importances, Panel
from gpukfl.inspection._tuning import Tuning

Some = TypeVar("Some", bound=Panel)


@dataclass(frozen=True)
class Names:
    """How the columns of data and predictions are called.

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
    """What a fitted estimator has learned, in words, names and host arrays.

    Only `name` is needed: what is not given is left out of summaries, pictures and reports.

    Attributes
    ----------
    name : str
        Of the estimator.
    text : str
        The model in a line.
    target : str
        What it predicts.
    task : str
        "regression", "classification of 3 classes", or the like.
    n_samples, n_features : int
        Size of the data.
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
    data : DataFacts
        What the columns and the target are.
    warnings : tuple of str
        What else is to be known before the model is used, in sentences.
    call : str
        The line of Python that fits it again.
    """

    name: str
    text: str = ""
    target: str = "y"
    task: str = ""
    n_samples: int | None = None
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
    data: DataFacts | None = None
    warnings: tuple[str, ...] = ()
    call: str = ""

    @property
    def caveat(self) -> str:
        """What to say if held-out rows show that nothing was found; empty otherwise."""
        return "" if self.tuning is None else self.tuning.caveat

    @property
    def importances(self) -> Importances | None:
        """The importances, where there are any."""
        return next((panel for panel in self.panels if isinstance(panel, Importances)), None)

    def warned_of(self, messages: Sequence[str], /) -> Self:
        """Add what a fit warned of, as sentences, each once."""
        told = (*self.warnings, *map(_warning, messages))
        return replace(self, warnings=tuple(dict.fromkeys(told)))

    def panel(self, kind: type[Some], /) -> Some:
        """Give what there is of a class of panels.

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


def _warning(message: str) -> str:
    """Make a sentence of a warning, which may begin with the name of a parameter."""
    first = message.partition(" ")[0]
    is_word = first.isalpha() and len(first) > 1
    return sentence(message) if is_word else message + ("" if message.endswith(".") else ".")


class Described(Protocol):
    """A fitted estimator or a model that describes itself."""

    def describe(self) -> Description:
        """Give its description."""


def described(of: Described | Description, /) -> Description:
    """Give the description of a fitted estimator or model, or itself.

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


def counted(count: int, what: str, /) -> str:
    """Say how many: "1 step", "2 steps"."""
    return f"{count} {what}{'' if count == 1 else 's'}"
