"""The same fits and products on a GPU and on the processor: time, R² and device memory.

Last fits with all rows as centres are also predicted by `gpu_all_rows.py`, from counts: what is
named so has not been timed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from common import (
    output_folder,
    parser,
    say,
    write_json,
)
from gpu_fits import ITERATIONS, MAX_TIME, N_TEST, TWICE_BELOW, D, M, Row, tasks
from gpu_worker import Worker


def measure(args: argparse.Namespace) -> list[Row]:
    """Run every task on every backend, until the time is over."""
    begun, rows = time.perf_counter(), []
    every = tasks(args.smoke)
    for backend in (args.backend, *args.beside):
        worker = Worker(backend, args.smoke)
        for number, task in enumerate(every):
            if args.only not in task.name.lower():
                continue
            left = 60.0 * args.minutes - (time.perf_counter() - begun)
            limit = min(task.limit, args.limit, left)
            found = worker.run(number, limit) if left > 1 else {"failed": "no time was left"}
            rows.append({"task": task.name, "n": task.n, "backend": backend, **found})
            say(f"{backend:<6} {task}: {_told(rows[-1])}")
        worker.end()
    return rows


def _told(row: Row) -> str:
    if "failed" in row:
        return row["failed"]
    parts = [f"{row['seconds']:8.3f} s"]
    if "r2" in row:
        parts += [f"R² {row['r2']:.4f}", f"{row.get('status') or ''} {row.get('iterations') or ''}"]
    if "product" in row:
        names = ("make", "product", "gradient", "inverse", "precondition")
        parts.append(", ".join(f"{name} {1e3 * row[name]:.1f} ms" for name in names if name in row))
    if "peak_gpu_mb" in row:
        parts.append(f"{row['peak_gpu_mb']:.0f} MB of the device")
    return ", ".join(part for part in parts if part)


def table(rows: list[Row], backends: tuple[str, ...]) -> str:
    """One line a task: seconds on every backend, how much faster the first is, R², memory."""
    of = {(row["task"], row["n"], row["backend"]): row for row in rows}
    lines = [f"{'':<24}{'n':>11}" + "".join(f"{b + ', s':>12}" for b in backends)]
    lines[0] += f"{'ratio':>8}{'R²':>16}{'device MB':>11}"
    for name, n in dict.fromkeys((row["task"], row["n"]) for row in rows):
        mine = [of.get((name, n, backend), {}) for backend in backends]
        seconds = [row.get("seconds") for row in mine]
        shown = "".join(f"{'-' if s is None else format(s, '.3f'):>12}" for s in seconds)
        both = len(seconds) > 1 and all(s is not None for s in seconds[:2])
        ratio = f"{seconds[1] / seconds[0]:.1f}" if both else ""
        r2 = " ".join(f"{row['r2']:.4f}" for row in mine if "r2" in row)
        memory = f"{mine[0]['peak_gpu_mb']:.0f}" if "peak_gpu_mb" in mine[0] else ""
        lines.append(f"{name:<24}{n:>11,}{shown}{ratio:>8}{r2:>16}{memory:>11}")
    return "\n".join(lines)


def predict_all_rows(args: argparse.Namespace) -> dict[str, Any]:
    """Predict all rows as centres in another process, where a stand-in takes the place of CuPy."""
    script, out = Path(__file__).with_name("gpu_all_rows.py"), output_folder(args)
    smoke = ["--smoke"] if args.smoke else []
    subprocess.run([sys.executable, str(script), *smoke, "--out", str(out)], check=True)
    found = json.loads((out / "gpu_all_rows.json").read_text())
    return {name: found[name] for name in ("settings", "rows", "published")}


def main() -> None:
    line = parser(__doc__)
    line.add_argument(
        "--beside", nargs="*", default=[], help="other backends for the same rows, afterwards"
    )
    line.add_argument("--minutes", type=float, default=4.8, help="for everything (default: 4.8)")
    line.add_argument("--limit", type=float, default=100.0, help="seconds for a row at most")
    line.add_argument("--only", default="", help="rows whose name contains this word")
    args = line.parse_args()
    backends = (args.backend, *args.beside)
    rows = measure(args)
    fits = [row["seconds"] for row in rows if "r2" in row]
    result = {
        "settings": f"d = {D}, float64, y = |sum of 3 sines of rotated uniform features| + noise; "
        f"R² on {N_TEST} other rows; BKerNN with {M} particles, {ITERATIONS} iterations; a fit "
        f"that took less than {TWICE_BELOW:.0f} s is made and timed again, as the first may have "
        f"compiled; gpukfl.fit searches for settings, in at most {MAX_TIME:.0f} s, and is made "
        "once; device memory is what CuPy's pool has taken",
        "rows": rows,
        "predicted_all_rows": predict_all_rows(args),
        "median_fit_seconds": statistics.median(fits) if fits else None,
    }
    write_json(args, "bench_gpu", result)
    say(table(rows, backends))


if __name__ == "__main__":
    main()
