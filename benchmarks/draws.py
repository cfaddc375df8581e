"""How often what is asked of a hundred test rows holds of other hundreds of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from portfolio_criteria import BELOW, PORTFOLIO, SINGLE

DRAWS = 5_000

Predictions = dict[str, dict[str, np.ndarray]]  # by set and model, each (rows,)


def held_in_draws(
    truth: dict[str, np.ndarray], predicted: Predictions, rows: int
) -> dict[str, Any] | None:
    """Share of draws of some `rows` of each set where no set is below the best single method.

    Of the blend, and of what nobody can know before: on each set the model that is best on all
    the rows from which they are drawn. None where models are missing.
    """
    if not all({PORTFOLIO, *SINGLE} <= set(models) for models in predicted.values()):
        return None
    rng = np.random.default_rng(0)
    held = np.ones((2, DRAWS), dtype=bool)
    for name, models in predicted.items():
        y = truth[name]
        drawn = np.argsort(rng.random((DRAWS, len(y))), axis=1)[:, :rows]
        variance = np.var(y[drawn], axis=1)
        squares = {m: (models[m] - y) ** 2 for m in (PORTFOLIO, *SINGLE)}
        unexplained = {m: np.mean(e[drawn], axis=1) / variance for m, e in squares.items()}
        best = min(squares, key=lambda m: float(np.mean(squares[m])))
        single = np.min([unexplained[m] for m in SINGLE], axis=0)
        held &= np.stack([unexplained[m] - single <= BELOW for m in (PORTFOLIO, best)])
    blend, known = (float(np.mean(one)) for one in held)
    about = {"draws": DRAWS, "rows": rows, "below": BELOW}
    return {**about, "portfolio": blend, "best_of_all_rows": known}
