"""Contributions of columns to predictions: in closed form, and by orders of the columns.

Both explain the same rows by the same background. Orders have errors, which closed forms tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import criterion, parser, say, write_json

import gpukfl

COLUMNS, BACKGROUND = 20, 32
ORDERS = BACKGROUND - 1  # pairs, one less than closed forms ask for
ADDS_UP = 1e-9


def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows, and targets with interactions of up to three columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, COLUMNS))
    y = np.sin(X[:, 0]) * X[:, 1] + X[:, 2] + X[:, 3] * X[:, 4] * (X[:, 5] > 0)
    return X, y + 0.1 * rng.standard_normal(n)


def timed(explain: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call returns, and the processor seconds of its second run."""
    explain()
    begun = time.process_time()
    return explain(), time.process_time() - begun


def row(name: str, model: Any, X: np.ndarray, background: np.ndarray) -> dict[str, Any]:
    """Compare both ways for some rows."""
    closed, seconds = timed(lambda: model.explain(X, background=background))
    orders, by_orders = timed(lambda: model.explain(X, background=background, n_walks=ORDERS))
    gap = orders.contributions - closed.contributions
    off = closed.baseline + closed.contributions.sum(axis=1) - closed.prediction
    found = {
        "model": name,
        "rows": len(X),
        "closed_seconds": seconds,
        "orders_seconds": by_orders,
        "orders_error": float(np.sqrt(np.mean(gap**2))),
        "size": float(np.sqrt(np.mean(closed.contributions**2))),
        "closed_standard_error": float(closed.standard_error.max()),
        "adds_up": float(np.abs(off).max()),
    }
    say(
        f"{name}, {len(X)} rows: {seconds:.2f} s in closed form, {by_orders:.2f} s by {ORDERS} "
        f"pairs of orders, whose error is {found['orders_error']:.4f} of {found['size']:.3f}"
    )
    return found


def measure(n: int, n_centers: int, counts: list[int], *, blends: bool) -> list[dict[str, Any]]:
    """Return a row for each model and number of rows."""
    X, y = draw(n)
    models: dict[str, Any] = {
        f"gaussian kernel, {n_centers} centres": gpukfl.KernelRidgeRegressor(
            ridge=1e-3, n_centers=n_centers, random_state=0
        ).fit(X, y)
    }
    if blends:
        models["blend of trees and a kernel"] = gpukfl.fit(
            X, y, members=["trees", "manhattan_laplace"], effort="quick", random_state=0
        )
    new = np.random.default_rng(1).standard_normal((max(counts), COLUMNS))
    return [
        row(name, model, new[:count], X[:BACKGROUND])
        for name, model in models.items()
        for count in counts
    ]


def judged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        criterion(
            f"{one['model']}, {one['rows']} rows: contributions add up to the prediction",
            one["adds_up"] <= ADDS_UP,
            adds_up=one["adds_up"],
        )
        for one in rows
    ]


def main() -> None:
    args = parser(__doc__).parse_args()
    if args.smoke:
        rows = measure(200, 60, [2], blends=False)
    else:
        rows = measure(2_000, 1_000, [1, 10, 100], blends=True)
    result = {
        "settings": f"{COLUMNS} columns, {BACKGROUND} background rows, {ORDERS} pairs of orders",
        "rows": rows,
        "criteria": [] if args.smoke else judged(rows),
    }
    write_json(args, "bench_explained", result)


if __name__ == "__main__":
    main()
