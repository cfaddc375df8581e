"""How well blends keep `max_time`: 400 to a million rows, to 10 000 columns, numbers and classes.

Each fit has a process of its own. With `--beside FOLDER` another checkout fits the same in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from common import OURS, ROOT, SECOND, criterion, parser, pictures, save_picture, say, write_json

# Rows, columns, classes (0 of numbers), seconds
CASES = (
    (400, 8_000, 0, 3.0),
    (1_500, 5, 3, 1.0),
    (400, 10_000, 30, 3.0),
    (100_000, 50, 30, 3.0),
    (1_000_000, 20, 0, 3.0),
    (2_000, 2_000, 30, 3.0),
    (5_000, 100, 10, 10.0),
    (20_000, 1_000, 0, 10.0),
    (1_000_000, 20, 2, 30.0),
)
SMOKE = ((300, 5, 0, 0.5),)
TOLD = 1_000  # rows that score
WAITING = 6.0  # times as long by the clock, where others have the processor
GIVEN_UP = 8.0  # times the limit, at which pictures of what was given up end
WAITED = Path("/proc/self/schedstat")  # nanoseconds on a processor, and in wait for one


def draw_data(n: int, d: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw y = sin(1.5 x_1) + x_2 x_3 + noise, or classes of as many rows by it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(n)
    if not classes:
        return X, y
    labels = np.array([f"class {k:02d}" for k in range(classes)])
    return X, labels[np.searchsorted(np.quantile(y, np.arange(1, classes) / classes), y)]


def fit_once(n: int, d: int, classes: int, limit: float, *, own_time: bool) -> dict[str, Any]:
    """Fit in this process, after a small fit that compiles; by its own time, if asked."""
    wall = time.perf_counter
    if own_time:  # seconds in which others have the processor do not count
        time.perf_counter = time.process_time
    import gpukfl

    warnings.simplefilter("ignore")  # that time was reached
    X, y = draw_data(300, 3, min(classes, 3))
    gpukfl.fit(X, y, max_time=2.0, progress=False)
    X, y = draw_data(n + TOLD, d, classes)
    begun, waited = (wall(), time.process_time()), waited_so_far()
    model = gpukfl.fit(X[:n], y[:n], max_time=limit, progress=False)
    found = {
        "wall": wall() - begun[0],
        "own": time.process_time() - begun[1],
        "waited": waited_so_far() - waited,
    }
    board = model.estimator.leaderboard()
    members = board[(board["weight"] > 0) & (board["member"] != "blend")]
    return found | {
        "score": model.score(X[n:], y[n:]),
        "members": dict(zip(members["member"], members["weight"], strict=True)),
        "given_up": False,
    }


def waited_so_far() -> float:
    """Seconds in which this thread was ready and had no processor; 0 where nothing counts them."""
    return int(WAITED.read_text().split()[1]) * 1e-9 if WAITED.exists() else 0.0


def measure(args: argparse.Namespace, where: Path, case: tuple[int, int, int, float]) -> Any:
    """Fit in a process of one checkout."""
    n, d, classes, limit = case
    words = [sys.executable, __file__, "--case", json.dumps(case)]
    words += ["--own-time"] if args.own_time else []
    threads = {"OMP_NUM_THREADS": "1", "GPUKFL_NUM_THREADS": "1"} if args.own_time else {}
    known = os.environ | threads | {"PYTHONPATH": str(where)}
    patience = (40.0 + 10.0 * limit) * (WAITING if args.own_time else 1.0)
    row = {"n": n, "d": d, "classes": classes, "limit": limit}
    begun = time.perf_counter()
    try:
        done = subprocess.run(
            words, env=known, capture_output=True, text=True, check=True, timeout=patience
        )
        row |= json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        row |= {"wall": time.perf_counter() - begun, "own": None, "score": None, "given_up": True}
    say(f"{where.name} {case}: {json.dumps(row)}")
    return row


def is_kept(row: dict[str, Any]) -> bool:
    """Whether a limit is exceeded by at most three tenths, or one second, of its clock."""
    allowed = max(1.3 * row["limit"], row["limit"] + 1.0)
    return not row["given_up"] and row["own"] <= allowed


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    sides = {side: result[side] for side in ("now", "before") if side in result}
    plt = pictures()
    figure, ax = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    for k, (side, rows) in enumerate(sides.items()):
        at = np.arange(len(rows)) + 0.38 * k
        ratios = [
            GIVEN_UP if row["given_up"] else min(row["own"] / row["limit"], GIVEN_UP)
            for row in rows
        ]
        ax.barh(at, ratios, height=0.36, color=(OURS, SECOND)[k], label=side)
        for place, ratio, row in zip(at, ratios, rows, strict=True):
            said = "given up" if row["given_up"] else f"{row['own']:.1f} s, {row['score']:.2f}"
            ax.text(ratio + 0.05, place, said, va="center", fontsize=7)
    rows = next(iter(sides.values()))
    allowed = [max(1.3, 1.0 + 1.0 / row["limit"]) for row in rows]
    ax.vlines(
        allowed,
        np.arange(len(rows)) - 0.25,
        np.arange(len(rows)) + 0.63,
        color="black",
        lw=1.2,
        label="allowed",
    )
    names = [
        f"{row['n']:,} × {row['d']:,}, "
        + (f"{row['classes']} classes" if row["classes"] else "numbers")
        + f", {row['limit']:g} s"
        for row in rows
    ]
    ax.set_yticks(np.arange(len(rows)) + 0.19 * (len(sides) - 1), names)
    ax.invert_yaxis()
    ax.set(xlabel="seconds of the process over max_time (seconds, and score)", xlim=(0, 9.5))
    ax.legend(loc="lower right", frameon=False, fontsize=8)
    save_picture(args, "bench_max_time_blends", figure)


def main() -> None:
    line = parser(__doc__)
    line.add_argument("--beside", type=Path, help="another checkout, which fits the same")
    line.add_argument("--own-time", action="store_true", help="one thread, by the process's time")
    line.add_argument("--case", type=json.loads, help="one fit in this process")
    args = line.parse_args()
    if args.case:
        n, d, classes, limit = args.case
        print(json.dumps(fit_once(n, d, classes, limit, own_time=args.own_time)))
        return
    places = {"now": ROOT} | ({"before": args.beside} if args.beside else {})
    sides: dict[str, list[dict[str, Any]]] = {side: [] for side in places}
    for case in SMOKE if args.smoke else CASES:
        for side, where in places.items():
            sides[side].append(measure(args, where, case))
        kept = [is_kept(row) for row in sides["now"]]
        result = {
            "settings": "gpukfl.fit by default, with max_time; y = sin(1.5 x_1) + x_2 x_3 + noise "
            "of std 0.3, or classes of as many rows by it; float64; after a small fit that "
            "compiles; score of 1000 other rows, R² or accuracy; "
            + ("one thread, by the process's own time" if args.own_time else "by the clock")
            + "; waited: seconds ready without a processor; given up: more than "
            "ten times the limit and 40 s of the clock",
            **sides,
            "criteria": []
            if args.smoke
            else [
                criterion(
                    "limits are exceeded by at most three tenths, or one second",
                    all(kept),
                    kept=sum(kept),
                    fits=len(kept),
                )
            ],
        }
        draw(args, write_json(args, "bench_max_time_blends", result))


if __name__ == "__main__":
    main()
