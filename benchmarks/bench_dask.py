"""Fits on a Dask cluster of this machine against the same fits in one process.

Each method with fixed settings at n rows of 20 columns: two workers of one thread against one
process of two, passes over the rows, bytes that travel, and memory of client and workers. From
these a table of what a large cluster would take.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench_fits import D, Target
from cluster_extrapolation import assumed, extrapolated
from common import (
    OURS,
    SECOND,
    criterion,
    environment,
    in_subprocess,
    output_folder,
    parser,
    pictures,
    save_picture,
    say,
    stopped_by_count,
    write_json,
)

from gpukfl import (
    BKerNNRegressor,
    HKRRRegressor,
    KernelFeatureSelector,
    KernelRidgeRegressor,
    RegFeaLRegressor,
    RKHSWeightingRegressor,
)
from gpukfl.estimators.bkernn import Knots
from gpukfl.estimators.hkrr import Centers, HoldOut
from gpukfl.methods import Reweighting
from gpukfl.solvers import LBFGS, ProjectedGradient, ProximalGradient

ROWS, LARGE, PARTITIONS = 1_000_000, 10_000_000, 100
FEWER = 100_000
SIZES = {  # of those that are not measured with `ROWS` and `FEWER`
    "bkernn": (ROWS, 700_000),  # its preconditioner grows up to 600 000 rows
    "selection": (200_000, FEWER),  # 4 sqrt(n) centres of its last fit: a million rows take hours
}
MOST = 1.25  # times the time of one process
BUSY = 2.5  # load of the machine from which times of two threads say nothing
CLIENT_MB, WORKER_MB = 500.0, 2000.0
MANY_KB = 1000.0  # a pass that brings as much is drawn in another colour


def methods() -> dict[str, Callable[[], Any]]:
    """Each with its settings given and few steps, so that the fit to all rows is timed."""
    given = {"random_state": 0, "backend": "numpy"}
    ridge = {"n_centers": 500, "ridge": 1e-6, "lengthscale": 3.0} | given
    return {
        "kernel_ridge": lambda: KernelRidgeRegressor(solver="direct", **ridge),
        "falkon": lambda: KernelRidgeRegressor(solver="falkon", max_iter=5, **ridge),
        "bkernn": lambda: BKerNNRegressor(
            50, ridge=1e-4, optimizer=ProximalGradient("auto", 1, 0.0), knots=Knots(1024), **given
        ),
        "hkrr": lambda: HKRRRegressor(
            3,
            ridge=1e-5,
            lengthscale=1.0,
            n_centers=Centers(200, 500),
            criterion=HoldOut(n_starts=0),
            optimizer=LBFGS(max_iter=3),
            **given,
        ),
        "rkhs_weighting": lambda: RKHSWeightingRegressor(500, ridge=1e-4, **given),
        "regfeal": lambda: RegFeaLRegressor(
            300,
            degrees=0.3,
            strength=1e-3,
            optimizer=Reweighting(n_iter=3),
            retrain=None,
            **given,
        ),
        "selection": lambda: KernelFeatureSelector(
            sparsity=1e-3, anchor=0.3, optimizer=ProjectedGradient(max_iter=3), **given
        ),
    }


# ---------------------------------------------------------------------- one fit


def in_one_process(name: str, n: int) -> dict[str, Any]:
    """One fit on arrays, whose rows lie in one place."""
    X, y = Target().draw(n, 3)
    model = methods()[name]()
    begun, processor = time.perf_counter(), time.process_time()
    with stopped_by_count():
        model.fit(X, y)
    return {
        "seconds": time.perf_counter() - begun,
        "processor_seconds": time.process_time() - processor,
        "load": os.getloadavg()[0],
    }


class Noted:
    """Passes of some holders: when each began and ended, and what came of it."""

    def __init__(self, holders: Any) -> None:
        self.holders, self.run, self.begun = holders, holders.run, time.perf_counter()
        self.passes: list[tuple[float, float, float]] = []
        self.client = 0.0  # processor seconds within passes
        holders.run = self

    def __call__(self, *work: Any) -> Any:
        """Do a pass, and note it."""
        begun, bytes_before = time.perf_counter(), self.holders.bytes_received
        processor = time.process_time()
        found = self.run(*work)
        self.client += time.process_time() - processor
        received = (self.holders.bytes_received - bytes_before) / 1e3
        ended = time.perf_counter()
        self.passes.append((begun - self.begun, ended - self.begun, received))
        return found


@contextlib.contextmanager
def cluster_of(n_workers: int) -> Iterator[tuple[Any, list[Any]]]:
    """Start workers of one thread; the client, and their processes."""
    import psutil
    from distributed import Client, LocalCluster

    made: dict[str, Any] = {"n_workers": n_workers, "threads_per_worker": 1, "memory_limit": 0}
    _give_threads(1)
    with LocalCluster(**made, dashboard_address=":0") as cluster, Client(cluster) as client:
        processes = [psutil.Process(each) for each in client.run(os.getpid).values()]
        _give_threads(2)  # the client computes while they wait
        yield client, processes


def on_a_cluster(name: str, folder: str, n_workers: int) -> dict[str, Any]:
    """One fit on partitions of a folder, by workers of one thread each."""
    import dask.dataframe as dd

    from gpukfl.partitioned import Collections, read_partitions

    with cluster_of(n_workers) as (client, processes):
        frame = dd.read_parquet(folder)
        given = Collections.from_inputs(frame.drop(columns="y"), frame["y"])
        begun = time.perf_counter()
        with read_partitions(given, client, "numpy", labels=False) as parts:
            loaded = time.perf_counter()
            noted, before = Noted(parts.X.partitioning.holders), _processor(processes)
            own = time.process_time()
            with stopped_by_count():
                methods()[name]().fit(parts.X, parts.y)
            ended, own = time.perf_counter(), time.process_time() - own
            peak = max(_peak(each.pid) for each in processes)
            return {
                "n_workers": n_workers,
                "load": os.getloadavg()[0],
                "load_seconds": loaded - begun,
                "seconds": ended - loaded,
                "client_processor_seconds": own,
                "worker_processor_seconds": _processor(processes) - before,
                "client_alone_seconds": own - noted.client,
                "worker_mb": peak,
                **_counted(noted, len(parts.X.partitioning)),
            }


def _counted(noted: Noted, parts: int) -> dict[str, Any]:
    """Count passes and bytes, once for each of which there are."""
    passes, holders = len(noted.passes), noted.holders
    return {
        "parts": parts,
        "passes": passes,
        "sent_kb_a_pass": holders.bytes_sent / 1e3 / passes,
        "received_kb_a_pass": holders.bytes_received / 1e3 / passes,
        "largest_kb": max(kb for _, _, kb in noted.passes),
        "timeline": noted.passes,
    }


def latency(folder: str, n_workers: int) -> dict[str, Any]:
    """Time a pass that does nothing."""
    import dask.dataframe as dd

    from gpukfl.partitioned import Collections, read_partitions

    with cluster_of(n_workers) as (client, _):
        frame = dd.read_parquet(folder)
        given = Collections.from_inputs(frame.drop(columns="y"), frame["y"])
        with read_partitions(given, client, "numpy", labels=False) as parts:
            rows = parts.X.partitioning
            noted = Noted(rows.holders)
            for _ in range(50):
                rows.reduce(lambda start, stop: [float(stop - start)])
    return {"latency": statistics.median(end - begun for begun, end, _ in noted.passes)}


def _processor(processes: Sequence[Any]) -> float:
    return sum(sum(each.cpu_times()[:2]) for each in processes)


def _peak(process: int) -> float:
    """Largest resident memory of a process so far, MB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmHWM"))


# ---------------------------------------------------------------------- rows of the table


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
    """Say how many threads a process that is started next may use, and this one."""
    os.environ["OMP_NUM_THREADS"] = os.environ["GPUKFL_NUM_THREADS"] = str(count)


def measured(name: str, n: int, folder: str, *, alone: bool) -> dict[str, Any]:
    """Give a row of the table."""
    row = {"method": name, "n": n} | in_subprocess(on_a_cluster, name, folder, 2)
    if alone:
        _give_threads(2)
        one = in_subprocess(in_one_process, name, n)
        own = row["client_processor_seconds"] + row["worker_processor_seconds"]
        row["load"] = max(row["load"], one["load"])
        row["one_process_seconds"] = one["seconds"]
        row["one_process_processor_seconds"] = one["processor_seconds"]
        row["ratio"] = row["seconds"] / one["seconds"]
        row["processor_ratio"] = own / one["processor_seconds"]
    say(
        ", ".join(
            f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in row.items()
            if key != "timeline"
        )
    )
    return row


def of_size(n: int, names: Sequence[str], partitions: int, *, alone: bool) -> list[dict[str, Any]]:
    """Measure methods at n rows, which are written once."""
    if not names:
        return []
    with tempfile.TemporaryDirectory() as folder:
        write_parquet(folder, n, partitions)
        return [measured(name, n, folder, alone=alone) for name in names]


def measured_all(
    names: Sequence[str], which: int, partitions: int, *, smoke: bool, alone: bool
) -> list[dict[str, Any]]:
    """Measure methods with their rows, or with fewer."""
    groups: dict[int, list[str]] = {}
    for name in names:
        n = (3_000, 1_500)[which] if smoke else SIZES.get(name, (ROWS, FEWER))[which]
        groups.setdefault(n, []).append(name)
    return [row for n, some in groups.items() for row in of_size(n, some, partitions, alone=alone)]


# ---------------------------------------------------------------------- what was to hold


def criteria_of_time(row: dict[str, Any]) -> dict[str, Any]:
    """Judge the time of a fit, unless the machine had something else to do."""
    text = f"{row['method']}: at most {MOST} times one process of two threads"
    passed = row["ratio"] <= MOST
    numbers = {name: row[name] for name in ("ratio", "processor_ratio", "load")}
    return criterion(text, passed if row["load"] <= BUSY else None, **numbers)


def criteria_of_bytes(row: dict[str, Any], less: dict[str, Any]) -> dict[str, Any]:
    kept = row["largest_kb"], less["largest_kb"]
    text = f"{row['method']}, n = {row['n']:,}: bytes that travel do not depend on n"
    return criterion(text, kept[0] <= 1.2 * kept[1], kb=kept[0], kb_of_fewer=kept[1])


def criteria_of_memory(row: dict[str, Any]) -> dict[str, Any]:
    client, worker = row["peak_anonymous_mb"], row["worker_mb"]
    text = f"{row['method']}, n = {row['n']:,}: client below {CLIENT_MB:.0f} MB, workers below 2 GB"
    good = client < CLIENT_MB and worker < WORKER_MB
    return criterion(text, good, client_mb=client, worker_mb=worker)


# ---------------------------------------------------------------------- the picture


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    """Draw passes over the time of each fit."""
    rows = [row for row in result["rows"] if row["timeline"] is not None]
    plt = pictures()
    figure, ax = plt.subplots(figsize=(8.0, 0.9 + 0.5 * len(rows)))
    for place, row in enumerate(rows):
        ends = row["timeline"][-1][1]
        for heavy, colour in ((False, OURS), (True, SECOND)):
            bars = [
                (100 * a / ends, 100 * (b - a) / ends)
                for a, b, kb in row["timeline"]
                if (kb >= MANY_KB) == heavy
            ]
            ax.broken_barh(bars, (place - 0.35, 0.7), color=colour, linewidth=0)
    labels = [f"{row['method']}: {row['passes']} passes, {row['seconds']:.3g} s" for row in rows]
    ax.set_yticks(range(len(rows)), labels)
    ax.invert_yaxis()
    ax.set_xlabel("share of the fit's time (%); white: the client computes alone")
    ax.grid(visible=False, axis="y")
    for colour, text in ((OURS, "less than 1 MB"), (SECOND, "more")):
        ax.bar(0, 0, color=colour, label=f"a pass that returns {text}")
    figure.legend(loc="outside upper center", ncols=2)
    save_picture(args, "bench_dask", figure)


def known_rows(args: argparse.Namespace, names: Sequence[str]) -> list[dict[str, Any]]:
    """Give rows of other methods and sizes that an earlier run has written, with its commit."""
    path = output_folder(args) / "bench_dask.json"
    if not path.exists():
        return []
    known = json.loads(path.read_text())
    rows = [of_run(known["environment"]) | row for row in known["rows"]]
    return [row for row in rows if row["method"] not in names or row["n"] == LARGE]


def of_run(environment: dict[str, Any]) -> dict[str, Any]:
    """Say of which run a row is, for rows of several are written together."""
    return {name: environment[name] for name in ("commit", "uncommitted_changes", "date")}


def in_order(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort rows by method; of two with the same size the later one counts."""
    last = {(row["method"], row["n"]): row for row in rows}
    return sorted(last.values(), key=lambda row: list(methods()).index(row["method"]))


def waited(n: int, partitions: int) -> float:
    """Seconds of a pass that does nothing."""
    with tempfile.TemporaryDirectory() as folder:
        write_parquet(folder, n, partitions)
        return float(in_subprocess(latency, folder, 2)["latency"])


def main() -> None:
    line = parser(__doc__)
    line.add_argument("--methods", nargs="*", default=list(methods()), help="default: all")
    line.add_argument("--large", action="store_true", help=f"at n = {LARGE}: memory")
    args = line.parse_args()
    partitions = 4 if args.smoke else PARTITIONS
    names = ["kernel_ridge"] if args.smoke else args.methods
    known = known_rows(args, () if args.large else names)
    if args.large:
        made = of_size(LARGE, names, partitions, alone=False)
    else:
        made = measured_all(names, 0, partitions, smoke=args.smoke, alone=True)
        made += measured_all(names, 1, partitions, smoke=args.smoke, alone=False)
    made = [of_run(environment(args)) | row for row in made]
    rows = in_order(known + made)
    compared = [row for row in rows if "ratio" in row]
    fewer_of = {r["method"]: r for r in rows if "ratio" not in r and r["n"] != LARGE}
    criteria = [criteria_of_time(row) for row in compared]
    large = [row for row in rows if row["n"] == LARGE]
    pairs = [(row, fewer_of.get(row["method"])) for row in compared + large]
    criteria += [criteria_of_bytes(row, fewer) for row, fewer in pairs if fewer is not None]
    criteria += [criteria_of_memory(row) for row in large]
    seconds = waited(1_500 if args.smoke else FEWER, partitions)
    content = {
        "settings": f"d = {D}; 2 workers of 1 thread; {PARTITIONS} partitions of Parquet",
        "latency_seconds": seconds,
        "rows": [row if "ratio" in row else row | {"timeline": None} for row in rows],
        "assumed": assumed(),
        "extrapolation": [extrapolated(row, seconds, D) for row in compared],
        "criteria": criteria,
    }
    draw(args, write_json(args, "bench_dask", content))


if __name__ == "__main__":
    main()
