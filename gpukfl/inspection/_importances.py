"""What importances are: the question that they answer, and their numbers as a frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpukfl.inspection._style import whole_text

if TYPE_CHECKING:
    import pandas as pd

SHUFFLED = (
    "How much of the {score} is lost when the column's values are shuffled among held-out rows?"
)
_EXPLAINED = (
    "The explained log loss is the share of the log loss of constant probabilities that the model "
    "removes."
)
_SAVED = "D² is the share of the loss of the best constant that the model removes."
_TOGETHER = "Columns of one group are shuffled together, and share in equal parts what that costs."
_QUESTIONS = {
    "row norms of W": "How much does the column weigh in the learned directions?",
    "root mean squares of the derivatives": "How fast does the prediction change with the column?",
    "error that permuting adds": (
        "How much does the error on rows of the fit grow when the column's values are permuted?"
    ),
}  # of single methods, by the unit of their importances


@dataclass(frozen=True)
class Shuffled:
    """What shuffling columns of held-out rows takes from a score.

    Attributes
    ----------
    score : str
        Which score: "R²", the D² of a loss, or "explained log loss".
    total : float
        The sum of what is lost, of which importances are shares.
    n_rows, n_held_out : int
        Rows that were shuffled, and rows that were held out.
    groups : tuple of tuples of str
        Names of columns that were shuffled together.
    by_groups : bool
        Whether errors are those of groups of rows.
    kind : str
        Which rows they are, in words: "held-out rows", or "cross-validated rows".
    """

    score: str
    total: float
    n_rows: int
    n_held_out: int
    groups: tuple[tuple[str, ...], ...] = ()
    by_groups: bool = False
    kind: str = "held-out rows"

    @property
    def rows_text(self) -> str:
        """Return in words which rows importances are of."""
        some = f"{whole_text(self.n_rows)} of " if self.n_rows < self.n_held_out else ""
        return f"{some}{whole_text(self.n_held_out)} {self.kind}"

    @property
    def remark(self) -> str:
        """Return in words what errors are of."""
        by = ", by their groups" if self.by_groups else ""
        return f"± one standard error of {self.rows_text}{by}"


def importance_question(panel: Any, /) -> str:
    """Return the question that the importances of a panel answer."""
    if panel.shuffled is None:
        own = _QUESTIONS.get(panel.unit, "")
        return f"{own} As a share of all columns.".strip()
    said = [SHUFFLED.format(score=panel.shuffled.score)]
    score = panel.shuffled.score
    said += [_SAVED] if score.startswith("D²") else [_EXPLAINED] if score != "R²" else []
    return " ".join([*said, *([_TOGETHER] if panel.shuffled.groups else [])])


def refuse_rows(rows: tuple[Any, ...], /) -> None:
    """Raise TypeError if rows are given to `importances`, which is of the held-out rows."""
    if rows:
        msg = (
            "importances() takes no rows: a blend has shuffled the held-out rows of its fit. For "
            "other rows use sklearn.inspection.permutation_importance(model, X, y), or "
            "gpukfl.inference.conditional_importance(model, X, y)"
        )
        raise TypeError(msg)


def importances_frame(panel: Any, n_samples: int | None, /) -> pd.DataFrame:
    """Return the importances of a panel as a frame, the largest first."""
    import pandas as pd

    known, d = panel.shuffled, len(panel.features)
    total, n_rows = (1.0, n_samples) if known is None else (known.total, known.n_rows)
    groups = {} if known is None else {one: group for group in known.groups for one in group}
    errors = np.full(d, np.nan) if panel.errors is None else panel.errors * total
    frame = pd.DataFrame(
        {
            "column": list(panel.features),
            "importance": np.asarray(panel.values, dtype=np.float64) * total,
            "standard_error": np.asarray(errors, dtype=np.float64),
            "share": np.asarray(panel.values, dtype=np.float64),
            "group": [", ".join(groups.get(name, ())) for name in panel.features],
            "rows": pd.array([n_rows] * d, dtype="Int64"),
        }
    )
    unit = frame["group"].where(frame["group"] != "", frame["column"])  # shuffled as one
    totals = frame.groupby(unit, sort=False)["importance"].transform("sum")
    frame = frame.iloc[np.lexsort((np.arange(d), -frame["importance"], unit, -totals))]
    frame = frame.reset_index(drop=True)
    frame.attrs["question"] = importance_question(panel)
    if known is not None:
        frame.attrs |= {"score": known.score, "rows": known.rows_text}
    return frame
