"""Errors of other libraries as multiples of ours, over many tables together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

OURS = "gpukfl.fit"
_LEAST = 1e-12  # an error, that others are multiples of


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
    found = np.log(errors(rows, classes=classes))
    if found.empty:
        return {}
    mean = np.exp(found.sub(found[OURS], axis=0).mean())
    return {str(name): float(value) for name, value in mean.items() if name != OURS}
