"""Fits on a Dask cluster of this machine against the same fits in one process.

Each method with fixed settings at n rows of 20 columns: two workers of one thread against one
process of two, passes over the rows, bytes that travel, and memory of client and workers.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bench_fits import D, Target
from common import criterion, in_subprocess, parser, say, stopped_by_count, write_json

from gpukfl import (
    BKerNNRegressor,
    HKRRRegressor,
    KernelFeatureSelector,
    KernelRidgeRegressor,
    RegFeaLRegressor,
    RKHSWeightingRegressor,
)
from gpukfl.estimators.bkernn import Knots
from gpukfl.solvers import ProximalGradient

ROWS, FEWER, LARGE, PARTITIONS = 1_000_000, 100_000, 10_000_000, 100
MOST = 1.25  # times the time of one process
CLIENT_MB, WORKER_MB = 500.0, 2000.0


def methods() -> dict[str, Callable[[], Any]]:
    """Each with its settings given, so that only the fit to all rows is timed."""
    given = {"random_state": 0, "backend": "numpy"}
    steps = ProximalGradient("auto", 3, 0.0)
    return {
        "bkernn": lambda: BKerNNRegressor(
            50, ridge=1e-4, optimizer=steps, knots=Knots(1024), **given
        ),
        "kernel_ridge": lambda: KernelRidgeRegressor(
            n_centers=500, ridge=1e-6, lengthscale=3.0, solver="direct", **given
        ),
        "falkon": lambda: KernelRidgeRegressor(
            n_centers=500, ridge=1e-6, lengthscale=3.0, solver="falkon", max_iter=5, **given
        ),
        "hkrr": lambda: HKRRRegressor(n_components=3, ridge=1e-5, n_centers=200, **given),
        "rkhs_weighting": lambda: RKHSWeightingRegressor(**given),
        "regfeal": lambda: RegFeaLRegressor(**given),
        "selection": lambda: KernelFeatureSelector(**given),
    }


def in_one_process(name: str, n: int) -> dict[str, Any]:
    """One fit on arrays, whose rows lie in one place."""
    X, y = Target().draw(n, 3)
    model = methods()[name]()
    begun = time.perf_counter()
    with stopped_by_count():
        model.fit(X, y)
    return {"seconds": time.perf_counter() - begun}


def on_a_cluster(name: str, folder: str, n_workers: int) -> dict[str, Any]:
    """One fit on partitions of a folder, by workers of one thread each."""
    import dask.dataframe as dd
    import psutil
    from distributed import Client, LocalCluster

    from gpukfl.partitioned import Collections, in_parts

    made: dict[str, Any] = {"n_workers": n_workers, "threads_per_worker": 1}
    with (
        LocalCluster(**made, dashboard_address=":0", memory_limit=0) as cluster,
        Client(cluster) as client,
    ):
        frame = dd.read_parquet(folder)
        given = Collections.of(frame.drop(columns="y"), frame["y"])
        begun = time.perf_counter()
        with in_parts(given, client, "numpy", labels=False) as parts:
            loaded = time.perf_counter()
            model = methods()[name]()
            with stopped_by_count():
                model.fit(parts.X, parts.y)
            ended = time.perf_counter()
            rows = parts.X.partitioning
            workers = client.run(lambda: psutil.Process().memory_info().rss / 1e6)
            passes = rows.n_passes
            found = {
                "load_seconds": loaded - begun,
                "seconds": ended - loaded,
                "parts": len(rows),
                "passes": passes,
                "sent_kb_a_pass": rows.holders.bytes_sent / 1e3 / passes,
                "received_kb_a_pass": rows.holders.bytes_received / 1e3 / passes,
                "worker_mb": max(workers.values()),
            }
    return found


def write_parquet(folder: str, n: int, partitions: int) -> None:
    """Write rows, a file a partition."""
    import pandas as pd

    target = Target()
    edges = np.linspace(0, n, partitions + 1).astype(int)
    for k, (start, stop) in enumerate(itertools.pairwise(edges)):
        X, y = target.draw(stop - start, 1000 + k)
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(D)])
        frame.assign(y=y).to_parquet(Path(folder) / f"part.{k:04d}.parquet")


def _give_threads(count: int) -> None:
    """Say how many threads a process that is started next may use."""
    os.environ["OMP_NUM_THREADS"] = os.environ["GPUKFL_NUM_THREADS"] = str(count)


def measured(name: str, n: int, partitions: int, *, alone: bool) -> dict[str, Any]:
    """Give a row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        write_parquet(folder, n, partitions)
        _give_threads(1)
        row = {"method": name, "n": n} | in_subprocess(on_a_cluster, name, folder, 2)
    if alone:
        _give_threads(2)
        row["one_process_seconds"] = in_subprocess(in_one_process, name, n)["seconds"]
        row["ratio"] = row["seconds"] / row["one_process_seconds"]
    say(
        ", ".join(
            f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in row.items()
        )
    )
    return row


def main() -> None:
    line = parser(__doc__)
    line.add_argument("--methods", nargs="*", default=list(methods()), help="default: all")
    line.add_argument("--large", action="store_true", help=f"also BKerNN at n = {LARGE}: memory")
    args = line.parse_args()
    n, fewer, partitions = (3_000, 1_500, 4) if args.smoke else (ROWS, FEWER, PARTITIONS)
    names = ["kernel_ridge"] if args.smoke else args.methods
    rows = [measured(name, n, partitions, alone=True) for name in names]
    small = [measured(name, fewer, partitions, alone=False) for name in names]
    criteria = []
    for row, less in zip(rows, small, strict=True):
        text = f"{row['method']}: at most {MOST} times one process of two threads"
        criteria.append(criterion(text, row["ratio"] <= MOST, ratio=row["ratio"]))
        kept = row["received_kb_a_pass"], less["received_kb_a_pass"]
        text = f"{row['method']}: bytes that travel do not depend on n"
        criteria.append(criterion(text, kept[0] <= 1.5 * kept[1], kb=kept[0], kb_of_fewer=kept[1]))
    if args.large:
        large = measured("bkernn", LARGE, PARTITIONS, alone=False)
        small.append(large)
        client, worker = large["peak_anonymous_mb"], large["worker_mb"]
        text = f"n = {LARGE}: client below {CLIENT_MB} MB, workers below {WORKER_MB} MB"
        good = client < CLIENT_MB and worker < WORKER_MB
        criteria.append(criterion(text, good, client_mb=client, worker_mb=worker))
    settings = f"d = {D}; 2 workers of 1 thread; {PARTITIONS} partitions of Parquet"
    write_json(
        args, "bench_dask", {"settings": settings, "rows": rows + small, "criteria": criteria}
    )


if __name__ == "__main__":
    main()
