"""What is to be known before a model is used, in sentences."""

from __future__ import annotations

from gpukfl.inspection._description import Description
from gpukfl.inspection._held_out import Predictions, Reliability
from gpukfl.inspection._markup import sentence

_WELL = ("", "converged", "decided", "early stopped")  # ends that nobody has to be told of
_UNJUDGED = "No rows were held out: nothing here says how well the model predicts new rows."


def cautions(d: Description, /, *, judged: bool = False) -> list[str]:
    """Give the warnings of a description.

    Parameters
    ----------
    d : Description
        Of a fitted model.
    judged : bool
        Whether scores are known beside those of the description.

    Returns
    -------
    list of str
        Sentences, the gravest first; empty where there is nothing to be told.
    """
    found = [sentence(d.caveat)] if d.caveat else []
    if not (judged or _is_judged(d)):
        found.append(_UNJUDGED)
    if d.ended not in _WELL:
        found.append(f"The fit did not end by itself: {d.ended}.")
    if d.tuning is not None and d.tuning.cut_short:
        found.append("The search was cut short by max_time: more time may find a better model.")
    if d.importances is not None and not d.importances.values.any():
        found.append("Every importance is 0.")
    return [*found, *d.warnings]


def _is_judged(d: Description) -> bool:
    """Whether some rows that the model has not seen say how good it is."""
    held_out = any(isinstance(p, (Predictions, Reliability)) and not p.empty for p in d.panels)
    return (
        held_out
        or d.comparison is not None
        or (d.tuning is not None and d.tuning.chosen is not None)
    )
