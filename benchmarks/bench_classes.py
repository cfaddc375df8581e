"""How long `gpukfl.fit` and single methods take with many classes, and what they reach.

Beside scikit-learn's HistGradientBoosting and LightGBM with their defaults, in the same process.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from bench_first_fit import Split, boosters, measure
from common import criterion, parser, write_json
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

# Classes, rows and columns, with the processor's seconds that the portfolio may take
LIMITS = {(10, 2_000, 10): 60.0, (50, 2_000, 10): 120.0, (100, 5_000, 20): 300.0}
SINGLE_AT, SINGLE_LIMIT = (50, 2_000, 10), 60.0
SINGLE = ("bkernn", "hkrr", "selection", "rkhs_weighting", "regfeal", "kernel_ridge")
SMOKE = (11, 66, 4)
BESIDE = 2  # one in so many of the rows to fit are held out besides
SETTINGS = (
    "scikit-learn's make_classification, a Gaussian cluster for each class in 0.7 of the columns; "
    "everything by default; times are of the processor; score is the share of right labels, on "
    "half as many other rows"
)


def draw_classes(classes: int, n: int, d: int) -> Split:
    """Draw a cluster for each class."""
    X, y = make_classification(
        n + n // BESIDE,
        d,
        n_informative=max(int(0.7 * d), min(7, d)),
        n_redundant=0,
        n_classes=classes,
        n_clusters_per_class=1,
        class_sep=1.5,
        random_state=0,
    )
    return X[:n], y[:n], X[n:], y[n:]


def ours(args: argparse.Namespace, method: str) -> Callable[..., Any]:
    import gpukfl

    if method == "kernel_ridge":
        return lambda X, y: gpukfl.KernelRidgeClassifier(backend=args.backend).fit(X, y)
    options = {"task": "classification", "backend": args.backend, "progress": False}
    return lambda X, y: gpukfl.fit(X, y, method=method, **options)


def linear(X: np.ndarray, y: np.ndarray) -> Any:
    return LogisticRegression(max_iter=1_000).fit(X, y)


def judged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare times with what is to be reached, and log losses with the peers'."""
    found = []
    for row in rows:
        size = row["classes"], row["n"], row["d"]
        limit = LIMITS.get(size) if row["method"] == "portfolio" else None
        if row["method"] in SINGLE and size == SINGLE_AT:
            limit = SINGLE_LIMIT
        if limit is not None:
            text = f"{row['method']}, {size[0]} classes of {size[1]:,} x {size[2]}"
            seconds = row["processor_seconds"]
            found.append(
                criterion(f"{text}: at most {limit:.0f} s", seconds <= limit, seconds=seconds)
            )
        if row["method"] == "portfolio":
            peers = {
                one["method"]: one["log_loss"]
                for one in rows
                if one["method"] not in (*SINGLE, "portfolio")
                and (one["classes"], one["n"], one["d"]) == size
            }
            lowest = row["log_loss"] <= min(peers.values())
            found.append(
                criterion(f"{text}: the lowest log loss", lowest, own=row["log_loss"], **peers)
            )
    return found


def main() -> None:
    line = parser(__doc__)
    args: argparse.Namespace = line.parse_args()
    warnings.simplefilter("ignore")
    # LightGBM asks joblib for cores, and its threads wait for each other where others work
    os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")
    peers = {**boosters(), "logistic regression": linear}
    single = {name: ours(args, name) for name in (SINGLE[-1:] if args.smoke else SINGLE)}
    all_at_once = {"portfolio": ours(args, "auto")}
    rows = []
    for size in [SMOKE] if args.smoke else LIMITS:
        fits = all_at_once | peers
        if args.smoke or size == SINGLE_AT:
            fits |= single
        split = draw_classes(*size)
        rows += [measure(m, fit, split, classes=size[0]) for m, fit in fits.items()]
        # After each size, for the last one takes longer than the others together
        checks = [] if args.smoke else judged(rows)
        write_json(args, "bench_classes", {"settings": SETTINGS, "rows": rows, "criteria": checks})


if __name__ == "__main__":
    main()
