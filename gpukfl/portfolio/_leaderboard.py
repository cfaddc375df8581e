"""What every member came to, as plain values and as a frame."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from gpukfl.inspection._blends import BLEND
from gpukfl.portfolio._contest import Contest
from gpukfl.portfolio._judges import LogLoss

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


def rows_of(contest: Contest, /) -> tuple[list[dict[str, Any]], float]:
    """Give a row for each member and for the blend, and the seconds of all."""
    weights = dict(
        zip((one.member.name for one in contest.finished), contest.weights.tolist(), strict=True)
    )
    rows = []
    for entry in contest.entries:
        known = entry.outputs if entry.predicted and not entry.note else None
        rows.append(
            {
                "member": entry.member.name,
                "weight": weights.get(entry.member.name, 0.0),
                **_judged(contest, known),
                "note": entry.note or entry.remark,
                "seconds": entry.seconds,
                "chosen": False,
            }
        )
    seconds = sum(row["seconds"] for row in rows)
    blend = {"member": BLEND, "weight": 1.0, **_judged(contest, contest.calibrated), "note": ""}
    return [*rows, blend | {"seconds": seconds, "chosen": True}], seconds


def _judged(contest: Contest, predicted: np.ndarray | None) -> dict[str, Any]:
    """Scores of predictions of all rows that are held out."""
    judge = contest.judge
    found: dict[str, Any] = {"log_loss": None, "brier": None}
    if predicted is None:
        return {"score": None, "standard_error": math.inf, **found}
    losses = judge.losses(predicted)
    if isinstance(judge, LogLoss):
        log_loss = float(losses.sum() / judge.weights.sum())
        found = {"log_loss": log_loss, "brier": judge.brier(predicted)}
    scores = {"score": judge.score(losses), "standard_error": judge.standard_error(losses)}
    return scores | found


def frame_of(rows: list[dict[str, Any]], /, *, classes: bool) -> pd.DataFrame:
    """Make a frame of rows, best first."""
    import pandas as pd

    more = ["log_loss", "brier"] if classes else []
    columns = ["member", "score", "standard_error", *more, "weight", "seconds", "note"]
    frame = pd.DataFrame(rows)[columns].astype({"score": float})
    frame["standard_error"] = frame["standard_error"].where(frame["score"].notna())
    return frame.sort_values("score", ascending=False, kind="stable", ignore_index=True)
