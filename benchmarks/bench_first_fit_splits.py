"""First fits where another engine reached more on one split: both on other splits of the rows.

Rows held out are few, so one split tells little. Each engine writes a shard, the other one with its
tree on PYTHONPATH, and ``--merge NOW --before THEN`` compares them split by split.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from bench_first_fit import DATA, LOST, METHODS, SETTINGS, Split, ours, real_data, smallest
from common import (
    RESULTS,
    criterion,
    draws_of,
    merged,
    parser,
    say,
    shard_options,
    write_json,
    write_shard,
)

DRAWS = 8
ABOUT = {"splits": "of the rows of one set"}
Runs = dict[str, list[dict[str, Any]]]


def doubtful() -> list[str]:
    """Name sets and methods that reached less than the other engine on the recorded split."""
    recorded = json.loads((RESULTS / "bench_first_fit_sets.json").read_text())
    return [
        f"{name}/{judged['criterion'].partition(':')[0]}"
        for judged in recorded["criteria"]
        for name in judged["lost"]
    ]


def redrawn(split: Split, seed: int) -> Split:
    """Split the same rows again, into as many to fit and to hold out."""
    X, y, X_test, y_test = split
    X, t, n = np.concatenate([X, X_test]), np.concatenate([y, y_test]), len(y)
    order = np.random.default_rng(seed).permutation(len(t))
    return X[order[:n]], t[order[:n]], X[order[n:]], t[order[n:]]


def run(args: argparse.Namespace, cells: list[str]) -> Runs:
    sets = dict(smallest() if args.smoke else real_data(args.data or DATA))
    runs: Runs = {cell: [] for cell in cells}
    for seed in draws_of(args.draws):
        for cell in cells:
            name, method = cell.split("/")
            X, y, X_test, y_test = redrawn(sets[name], seed)
            begun = time.process_time()
            score = float(ours(args, method)(X, y).score(X_test, y_test))
            seconds = time.process_time() - begun
            about = {"processor_seconds": seconds, "cores": os.cpu_count()}
            runs[cell].append({"seed": seed, "score": score, **about})
            say(f"split {seed}, {cell}: {score:.4f}, {seconds:.1f} s")
            if args.shard:
                write_shard(args, ABOUT, runs)
    return runs


def compare(now: Runs, before: Runs) -> list[dict[str, Any]]:
    """Give of each cell the gains of its splits: their mean, and its standard error."""
    rows = []
    for cell, runs in now.items():
        known = {run["seed"]: run["score"] for run in before.get(cell, [])}
        pairs = np.array(
            [(run["score"], known[run["seed"]]) for run in runs if run["seed"] in known]
        )
        if len(pairs) < 2:
            say(f"{cell}: fewer than two splits by both engines, left out")
            continue
        name, method = cell.split("/")
        gains = pairs[:, 0] - pairs[:, 1]
        error = float(gains.std(ddof=1) / len(gains) ** 0.5)
        row = {"set": name, "method": method, "splits": len(gains)}
        row |= {"score": float(pairs[:, 0].mean()), "before": float(pairs[:, 1].mean())}
        rows.append({**row, "gain": float(gains.mean()), "standard_error": error})
    return rows


def machines(runs: Runs) -> dict[str, int]:
    """Count the splits that machines of so many cores did."""
    found = Counter(f"{run['cores']} cores" for mine in runs.values() for run in mine)
    return dict(sorted(found.items()))


def judge(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    judged = []
    for method in (one for one in METHODS if any(row["method"] == one for row in rows)):
        mine = [row for row in rows if row["method"] == method]
        lost = {
            row["set"]: row["gain"]
            for row in mine
            if row["gain"] < -LOST and row["gain"] < -2.0 * row["standard_error"]
        }
        text = f"{method}: no mean score is lower by {LOST} and by two standard errors"
        mean = float(np.mean([row["gain"] for row in mine]))
        judged.append(criterion(text, not lost, mean_gain=mean, lost=lost))
    return judged


def main() -> None:
    line = parser(__doc__)
    shard_options(line, DRAWS, doubtful())
    line.add_argument("--before", type=Path, nargs="+", help="shards of the other engine")
    args = line.parse_args()
    warnings.simplefilter("ignore")
    if args.smoke:
        args.draws, args.only = "2", ["iris/bkernn"]
    now = merged(args.merge, ABOUT) if args.merge else run(args, args.only or doubtful())
    if args.shard:
        return
    before = merged(args.before, ABOUT) if args.before else now
    rows = compare(now, before)
    result = {
        "settings": "sets and methods that were lower than the older engine by more than "
        f"{LOST} on the recorded split of bench_first_fit_sets; the same rows split again; "
        f"{SETTINGS}",
        "machines": machines(now),
        "rows": rows,
        "criteria": judge(rows) if args.before else [],
    }
    write_json(args, "bench_first_fit_splits", result)


if __name__ == "__main__":
    main()
