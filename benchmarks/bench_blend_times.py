"""How long `gpukfl.fit` takes with all cores, by rows and effort, and how much memory.

Each fit in a process of its own, after a small fit has compiled, beside CatBoost with its defaults.
The seconds are those that a user waits, so run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil
from bench_classes import draw_classes
from bench_first_fit import Split, draw_data
from common import (
    OURS,
    SECOND,
    THIRD,
    in_subprocess,
    parser,
    pictures,
    save_picture,
    say,
    write_json,
)
from peers import peers
from sklearn.metrics import log_loss

import gpukfl

CASES = (  # classes (0: a regression), rows, columns
    (0, 400, 10),
    (0, 2_000, 20),
    (10, 2_000, 10),
    (0, 10_000, 20),
    (0, 100_000, 20),
    (0, 1_000_000, 20),
)
SMOKE = ((0, 100, 3), (3, 120, 4))
MODELS = {"gpukfl.fit": OURS, "gpukfl.fit, quick": THIRD, "CatBoost": SECOND}
SAMPLED = 0.02, 0.5  # seconds between two looks at the memory: at first, and after a while
SETTINGS = (
    "everything by default, n_jobs too; a fit in a process of its own, after a small fit has "
    "compiled; regressions: y = sin(1.5 x_1) + x_2 x_3 + noise of std 0.3, RMSE; classes: "
    "make_classification, a Gaussian cluster for each, log loss; errors on other rows; memory: "
    "the largest sum of all processes, without the imports"
)


def draw_rows(classes: int, n: int, d: int) -> Split:
    """Draw rows to fit, and others."""
    return draw_classes(classes, n, d) if classes else draw_data(n, d)


def fits(name: str, args: argparse.Namespace, classes: int) -> Callable[..., Any]:
    """Return a function that fits a model with a name."""
    if name == "CatBoost":
        make = peers(os.cpu_count() or 1)[name]
        return lambda X, y: make(*X.shape, classes > 0).fit(X, y)
    options = {"task": "classification" if classes else "regression", "backend": args.backend}
    effort = "quick" if name.endswith("quick") else "normal"
    return lambda X, y: gpukfl.fit(X, y, effort=effort, random_state=0, progress=False, **options)


def measure(args: argparse.Namespace, name: str, classes: int, n: int, d: int) -> dict[str, Any]:
    """Fit once and judge by other rows."""
    warnings.simplefilter("ignore")
    fit = fits(name, args, classes)
    fit(*draw_rows(min(classes, 2), 200, 5)[:2])
    X, y, X_test, y_test = draw_rows(classes, n, d)
    with watched_memory() as peak:
        begun = time.perf_counter()
        model = fit(X, y)
        seconds = time.perf_counter() - begun
    if classes:
        error = log_loss(y_test, model.predict_proba(X_test))
    else:
        error = float(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2)))
    about = {"model": name, "classes": classes, "n": n, "d": d}
    return {**about, "seconds": seconds, "error": error, "memory_mb": max(peak) / 1e6}


@contextlib.contextmanager
def watched_memory() -> Any:
    """Give a list to which the memory of this process and its children is added, in bytes."""
    process, stop = psutil.Process(), threading.Event()

    def used() -> int:
        total = 0
        for one in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                memory = one.memory_info()
                total += memory.rss - memory.shared
        return total

    before = used()
    peak = [0]

    def sample() -> None:
        pause, longest = SAMPLED
        while not stop.wait(pause):
            peak.append(used() - before)
            pause = min(1.1 * pause, longest)

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield peak
    finally:
        stop.set()
        sampler.join()


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    """Draw seconds by rows, for regressions."""
    figure, ax = pictures().subplots(figsize=(6.4, 3.6))
    for name, color in MODELS.items():
        rows = [one for one in result["rows"] if one["model"] == name and not one["classes"]]
        n, seconds = ([one[key] for one in rows] for key in ("n", "seconds"))
        ax.loglog(n, seconds, "-o", color=color, label=name)
    ax.set(xlabel="rows to fit", ylabel="seconds to wait, two cores")
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)
    save_picture(args, "bench_blend_times", figure)


def main() -> None:
    line = parser(__doc__)
    line.add_argument("--largest", type=int, default=CASES[-1][1], help="no more rows than this")
    args = line.parse_args()
    names = [name for name in MODELS if name.startswith("gpukfl") or name in peers(1)]
    rows = []
    for case in SMOKE if args.smoke else [one for one in CASES if one[1] <= args.largest]:
        for name in names:
            row = in_subprocess(measure, args, name, *case)
            rows.append(row)
            shown = f"{row['seconds']:.1f} s, {row['memory_mb']:.0f} MB, {row['error']:.4f}"
            say(f"{case}, {name}: {shown}")
    draw(args, write_json(args, "bench_blend_times", {"settings": SETTINGS, "rows": rows}))


if __name__ == "__main__":
    main()
