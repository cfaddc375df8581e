"""The share of new rows below blends of quantiles, and their pinball losses.

Each blend is asked with and without its shift, the level's quantile of its residuals on rows held
out. The shift is to bring the share nearer to the level, and not to raise the loss.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from common import criterion, parser, say, write_json

import gpukfl
from gpukfl.losses import Quantile

SIZES, LEVELS, NEW = (300, 1000), (0.1, 0.5, 0.9), 4000
KINDS = ("normal", "wide", "counts")
NEAR, WORSE = 0.02, 0.005  # of shares, and the share of a loss that a shift may add


def draw(kind: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of five columns, and targets with errors of one kind."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    middle = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]
    if kind == "counts":
        return X, rng.poisson(np.exp(0.5 + 0.7 * middle)).astype(float)
    size = 0.5 if kind == "normal" else 0.25 * np.exp(X[:, 3])
    return X, middle + size * rng.standard_normal(n)


def blend_row(kind: str, n: int, level: float, draws: int, members: Any) -> dict[str, Any]:
    """Return shares of new rows below predictions, and losses, without and with the shift."""
    below, losses, begun = [], [], time.perf_counter()
    loss = Quantile(level)
    for seed in range(draws):
        X, y = draw(kind, n, seed)
        new, truth = draw(kind, NEW, 10_000 + seed)
        model = gpukfl.fit(
            X, y, loss=loss, effort="quick", members=members, random_state=0, n_jobs=1
        )
        shifted = model.predict(new)
        both = np.stack([shifted - float(model.estimator.shift_[0]), shifted], axis=1)
        below.append(np.mean(truth[:, None] <= both, axis=0))
        Y = np.broadcast_to(truth[:, None], both.shape)
        losses.append(np.mean(loss.losses(Y, both, np.ones(2)), axis=0))
    share, mean = np.mean(below, axis=0), np.mean(losses, axis=0)
    added = np.asarray(losses)[:, 1] / np.asarray(losses)[:, 0] - 1.0
    seconds = time.perf_counter() - begun
    say(
        f"{kind}, {n} rows, level {level:g}: below {share[0]:.3f}, shifted {share[1]:.3f}; "
        f"loss {mean[0]:.4f}, shifted {mean[1]:.4f} in {seconds:.0f} s"
    )
    return {
        "kind": kind,
        "n": n,
        "level": level,
        "draws": draws,
        "below": float(share[0]),
        "below_shifted": float(share[1]),
        "error": float(np.std(below, axis=0)[1] / np.sqrt(max(draws - 1, 1))),
        "loss": float(mean[0]),
        "loss_shifted": float(mean[1]),
        "added": float(added.mean()),
        "added_error": float(added.std() / np.sqrt(max(draws - 1, 1))),
    }


def judged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for n in sorted({row["n"] for row in rows}):
        some = [row for row in rows if row["n"] == n]
        gap = float(np.mean([abs(row["below_shifted"] - row["level"]) for row in some]))
        before = float(np.mean([abs(row["below"] - row["level"]) for row in some]))
        text = f"{n} rows: shares of new rows below are within {NEAR} of levels, in the mean"
        found.append(criterion(text, gap <= NEAR, gap=gap, without=before))
        added = float(np.mean([row["added"] for row in some]))
        text = f"{n} rows: the shift adds at most {WORSE:.1%} to the pinball loss, in the mean"
        found.append(criterion(text, added <= WORSE, added=added))
    return found


def main() -> None:
    line = parser(__doc__)
    line.add_argument("--draws", type=int, default=10)
    line.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    line.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    line.add_argument("--levels", type=float, nargs="+", default=list(LEVELS))
    args = line.parse_args()
    warnings.simplefilter("ignore")
    if args.smoke:
        rows = [blend_row("wide", 60, 0.9, 1, ["linear", "shallow_trees"])]
    else:
        rows = [
            blend_row(kind, n, level, args.draws, None)
            for n in args.sizes
            for kind in args.kinds
            for level in args.levels
        ]
    result = {
        "settings": f"quick blends of five columns, judged by {NEW} new rows",
        "blends": rows,
        "criteria": [] if args.smoke else judged(rows),
    }
    write_json(args, "bench_quantiles", result)


if __name__ == "__main__":
    main()
