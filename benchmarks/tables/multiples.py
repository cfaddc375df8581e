"""Errors of other libraries as multiples of ours, over many tables together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tables.markdown import number

OURS = "gpukfl.fit"
_LEAST = 0.01  # a log loss, or an error in deviations: smaller ones are as good as it


def errors(rows: list[dict[str, Any]], *, classes: bool) -> pd.DataFrame:
    """Root mean squared errors, or log losses of classes: models (columns) on tables (rows)."""
    frame = pd.DataFrame(rows).reindex(columns=["table", "model", "score", "log_loss"])
    frame = frame[frame["log_loss"].notna() == classes]
    # In units of the targets' deviation
    found = frame["log_loss"] if classes else np.sqrt(1.0 - frame["score"])
    frame = frame.assign(error=found.clip(lower=_LEAST))
    return frame.pivot_table(index="table", columns="model", values="error", sort=False)


def multiples(rows: list[dict[str, Any]], *, classes: bool) -> dict[str, float]:
    """Geometric means over tables; nothing where there are none."""
    found = _logs(rows, classes=classes)
    return {name: float(np.exp(logs.mean())) for name, logs in found.items() if name != OURS}


def cells(rows: list[dict[str, Any]], models: Sequence[str], *, classes: bool) -> list[str]:
    """Geometric means over tables, and medians in brackets; nothing where there are none."""
    found = _logs(rows, classes=classes)
    if found.empty:
        return []
    pairs = [(np.exp(found[m].mean()), np.exp(found[m].median())) for m in models]
    return [f"{number(mean, '.3f')} ({number(median, '.3f')})" for mean, median in pairs]


def _logs(rows: list[dict[str, Any]], *, classes: bool) -> pd.DataFrame:
    found = np.log(errors(rows, classes=classes))
    return found if found.empty else found.sub(found[OURS], axis=0)
