"""BKerNN fitted from a memory map that is larger than the memory it may use."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from bench_fits import N_TEST, D, Target, compile_first, fit_seconds
from common import in_subprocess, parser, say, write_json

from gpukfl.solvers import ProximalGradient

ROWS, PARTICLES, ITERATIONS, KNOTS = 20_000_000, 20, 10, 4096
BLOCK = 500_000  # rows written at a time


def measure_memmap(folder: str, n: int, backend: str) -> dict[str, Any]:
    """One fit of a float32 memory map of n rows, in its own process."""
    from gpukfl import BKerNNRegressor

    X = np.memmap(Path(folder) / "X.dat", np.float32, "r", shape=(n, D))
    y = np.load(Path(folder) / "y.npy")
    X_test, y_test = Target().draw(N_TEST, 4)
    compile_first(backend, knots=KNOTS, dtype="float32")
    model = BKerNNRegressor(
        PARTICLES,
        optimizer=ProximalGradient("auto", ITERATIONS, 0.0),
        knots=KNOTS,
        random_state=0,
        backend=backend,
        scaling=None,
    )
    seconds = fit_seconds(model, X, y)
    return {
        "n": n,
        "n_particles": PARTICLES,
        "iterations": model.n_iter_,
        "knots": model.n_knots_,
        "seconds": seconds,
        "test_r2": model.score(X_test.astype(np.float32), y_test),
        "knots_error": model.knots_error_,
        "solve_residual": model.solve_residual_,
        "file_mb": 4e-6 * n * D,
        "place": model.place_,
    }


def write_memmap(folder: str, n: int) -> None:
    """Write the rows in blocks; only one block and y are ever in memory."""
    target, y = Target(), np.empty(n, dtype=np.float32)
    X = np.memmap(Path(folder) / "X.dat", np.float32, "w+", shape=(n, D))
    for number, start in enumerate(range(0, n, BLOCK)):
        stop = min(start + BLOCK, n)
        X[start:stop], y[start:stop] = target.draw(stop - start, 1000 + number)
    X.flush()
    np.save(Path(folder) / "y.npy", y)


def main() -> None:
    line = parser(__doc__)
    line.add_argument("--rows", type=int, default=ROWS, help=f"default: {ROWS}")
    line.add_argument("--scratch", type=Path, help="folder for the memory map (default: temporary)")
    args = line.parse_args()
    rows = 5_000 if args.smoke else args.rows
    with tempfile.TemporaryDirectory(dir=args.scratch) as folder:
        write_memmap(folder, rows)
        row = in_subprocess(measure_memmap, folder, rows, args.backend)
    say(
        f"memory map of {row['n']} rows ({row['file_mb']:.0f} MB): {row['seconds']:.1f} s, "
        f"R2 {row['test_r2']:.4f}, peak {row['peak_anonymous_mb']:.0f} MB without mapped pages, "
        f"{row['peak_rss_mb']:.0f} MB with them"
    )
    settings = (
        f"d = {D}, m = {PARTICLES}, {ITERATIONS} steps, {KNOTS} knots, float32; data of bench_fits"
    )
    write_json(args, "bench_memmap", {"settings": settings, "row": row})


if __name__ == "__main__":
    main()
