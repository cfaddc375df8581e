"""Run every benchmark script at its smallest size, two at a time, and fail if one does."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
AT_ONCE = 2
FROM_ONE = multiprocessing.get_context("forkserver")
SCRIPTS = (
    "bench_operators.py",
    "bench_fits.py",
    "bench_memmap.py",
    "bench_dask.py",
    "experiment1.py",
    "experiment2.py",
    "experiment3.py",
    "experiment4.py",
    "experiment5.py",
    "experiment6.py",
    "bench_kernel_ridge.py",
    "bench_all_rows.py",
    "bench_hkrr.py",
    "bench_evidence.py",
    "bench_inference_importance.py",
    "bench_row_groups.py",
    "bench_quantiles.py",
    "bench_explained.py",
    "hkrr_figure1.py",
    "hkrr_figure2.py",
    "hkrr_figure2.py --paper-time",
    "hkrr_toy.py",
    "selection_main_effects.py",
    "selection_hierarchy.py",
    "selection_landscape.py",
    "bench_selection.py",
    "bench_knockoffs.py",
    "weighting_table3.py",
    "weighting_pruning.py",
    "weighting_figure1.py",
    "bench_weighting.py",
    "regfeal_experiment1.py",
    "regfeal_experiment2.py",
    "regfeal_experiment3.py",
    "bench_regfeal.py",
    "bench_threads.py",
    "bench_factors.py",
    "bench_max_time.py",
    "bench_max_time_blends.py",
    "bench_first_fit.py",
    "bench_first_fit_splits.py",
    "bench_classes.py",
    "bench_blend_times.py",
    "bench_gpu.py",
    "gpu_model.py",
    "gpu_all_rows.py",
    "gpu_shares.py",
    "bench_portfolio.py",
    "bench_encoding.py",
    "bench_tables.py",
    "bench_tabarena.py",
    "bench_other_tables.py",
    "bench_drawn_tables.py",
    "bench_drawn_tables.py --large",
    "bench_serving.py",
    "bench_bands.py",
    "bench_monotone.py",
)


def run(*words: str) -> None:
    """Run one script in a process of its own, and say what it said; leave if it fails."""
    begun = time.perf_counter()
    with tempfile.NamedTemporaryFile(mode="r", suffix=".log") as log:
        process = FROM_ONE.Process(target=_script, args=(log.name, words))
        process.start()
        process.join()
        print(f"{log.read()}--- {words[0]}: {time.perf_counter() - begun:.1f} s", flush=True)
    if process.exitcode:
        msg = f"{words[0]} failed with exit code {process.exitcode}"
        raise RuntimeError(msg)


def _script(log: str, words: tuple[str, ...]) -> None:
    """Run a script as Python would, all that it says to a file."""
    with Path(log).open("w") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    os.chdir(HERE)
    path = str(HERE / words[0])
    sys.argv, sys.path[:0] = [path, *words[1:]], [str(HERE)]
    runpy.run_path(path, run_name="__main__")


def main() -> None:
    options = sys.argv[1:]  # passed on, for example --data FOLDER
    begun = time.perf_counter()
    # Nothing is timed in earnest: what a script imports is imported once, for all processes
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "BENCHMARK_START": "forkserver", **os.environ}
    FROM_ONE.set_forkserver_preload(["gpukfl.portfolio", "matplotlib.pyplot", "pandas"])
    with tempfile.TemporaryDirectory() as out:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            runs = [
                pool.submit(run, *script.split(), "--smoke", "--out", out, *options)
                for script in SCRIPTS
            ]
            for one in runs:
                one.result()  # raises what a script did
        run("make_tables.py", "--results", out, "--target", str(Path(out) / "tables"))
    print(f"all {len(SCRIPTS) + 1} scripts ran: {time.perf_counter() - begun:.1f} s")


if __name__ == "__main__":
    main()
