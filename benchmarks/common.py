"""What the benchmark scripts share: command line, records, timing, memory, pictures."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import math
import multiprocessing
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from sklearn.exceptions import ConvergenceWarning

from gpukfl.solvers import ProximalGradient

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
REFERENCES = ROOT.parent / "shared" / "reference"

OURS, SECOND, THIRD = "#1f5fa8", "#c2571a", "#2ca58d"  # told apart without red or green
PUBLISHED = "#555555"

HALVINGS = 8  # of the published search, which then takes the step though it fails the test

# ---------------------------------------------------------------------- command line


def parser(description: str) -> argparse.ArgumentParser:
    """Command line of every script; a script may add to it."""
    line = argparse.ArgumentParser(description=description)
    line.add_argument("--smoke", action="store_true", help="tiny sizes: does the script run?")
    line.add_argument(
        "--data",
        type=Path,
        help="folder that holds openml17/*.npz and uci/*.npz (default: ../shared/data beside the "
        "repository, else $GPUKFL_DATA, else OpenML)",
    )
    line.add_argument(
        "--reference",
        type=Path,
        help="published numbers, a file or the folder of such files (default: ../shared/reference "
        "beside the repository; without it the published columns stay empty)",
    )
    line.add_argument(
        "--out",
        type=Path,
        help="folder for the results (default: benchmarks/results; with --smoke a temporary one)",
    )
    line.add_argument(
        "--backend",
        default="numpy",
        choices=("auto", "numpy", "cupy", "torch"),
        help="where to compute (default: numpy)",
    )
    return line


def output_folder(args: argparse.Namespace) -> Path:
    """Where results go; smoke results never overwrite others unless asked to."""
    if args.out is None:
        args.out = Path(tempfile.mkdtemp(prefix="gpukfl-smoke-")) if args.smoke else RESULTS
    args.out.mkdir(parents=True, exist_ok=True)
    return args.out


def published(
    args: argparse.Namespace, experiment: str, file: str = "bkernn.json"
) -> dict[str, Any] | None:
    """One experiment of a reference file, None without the file."""
    path = args.reference or REFERENCES
    if path.suffix != ".json":
        path = path / file
    if not path.exists():
        if args.reference is not None:
            msg = f"expected a file of published numbers at {path}, found none"
            raise FileNotFoundError(msg)
        say("no reference file: the published numbers are left out")
        return None
    return json.loads(path.read_text())[experiment]


def say(message: str) -> None:
    """Print at once."""
    print(message, flush=True)


# ---------------------------------------------------------------------- the published search


@contextlib.contextmanager
def stopped_by_count() -> Iterator[None]:
    """Accept fits that end at max_iter, as the published ones do."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        yield


class PublishedSearch(ProximalGradient):
    """The line search as the published code has it: given up after 8 halvings."""

    def _search(
        self,
        smooth: Any,
        prox: Any,
        penalty: Any,
        state: Any,
        gradient: Any,
        step: float,
        *_: Any,
    ) -> Any:
        for halving in range(HALVINGS + 1):
            W = prox(state.W - step * gradient, step)
            moved = state.W - W
            allowed = -np.sum(gradient * moved) + np.sum(moved**2) / (2.0 * step)
            new = smooth.evaluate(W, state.evaluation, math.inf)
            if new.lower <= state.evaluation.lower + allowed or halving == HALVINGS:
                break
            step *= 0.5
        return type(state)(W, new, new.lower + penalty(W)), step


def published_steps(
    y: np.ndarray, *, step_size: float, max_iter: int, penalty_strength: float = 1.0
) -> dict[str, Any]:
    """Options of BKerNN that take the published steps.

    Published steps and strengths are for targets as they are. Here targets are scaled to unit
    variance, which divides G by their variance: steps are longer and strengths smaller by it.
    """
    variance = float(np.var(y))
    return {
        "penalty_strength": penalty_strength / variance,
        "optimizer": ProximalGradient(step_size * variance, max_iter, 0.0),
    }


# ---------------------------------------------------------------------- the record


def environment(args: argparse.Namespace) -> dict[str, Any]:
    """Record what the numbers depend on."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(
            _git("status", "--porcelain", "--", ".", ":!benchmarks/results", ":!docs/_generated")
        ),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "gpu": _gpu(),
        "backend": args.backend,
        "platform": platform.platform(terse=True),
        "python": platform.python_version(),
        "versions": {
            name: found
            for name in ("numpy", "scipy", "scikit-learn", "numba", "cupy", "torch")
            if (found := _version(name)) is not None
        },
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
        "GPUKFL_NUM_THREADS": os.environ.get("GPUKFL_NUM_THREADS"),
        "smoke": args.smoke,
    }


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True, timeout=20
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _gpu() -> str | None:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        question = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
        done = subprocess.run(question, capture_output=True, text=True, check=True, timeout=20)
        return done.stdout.strip().splitlines()[0]
    return None


def _version(name: str) -> str | None:
    for package in (name, f"{name}-cuda12x", f"{name}-cuda13x"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(package)
    return None


def criterion(text: str, passed: bool | None, **numbers: Any) -> dict[str, Any]:
    """Say whether a stated criterion holds (None: cannot be judged), and print it."""
    verdict = {True: "pass", False: "FAIL", None: "not judged"}[passed]
    shown = ", ".join(f"{key} {_short(value)}" for key, value in numbers.items())
    say(f"[{verdict}] {text}" + (f": {shown}" if shown else ""))
    return {"criterion": text, "passed": passed, **numbers}


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def write_json(args: argparse.Namespace, name: str, content: dict[str, Any]) -> dict[str, Any]:
    """Write a result with its environment, in 8 significant digits; return what the file holds."""
    path = output_folder(args) / f"{name}.json"
    record = {"name": name, "environment": environment(args), **content}
    path.write_text(json.dumps(_rounded(record), indent=1) + "\n")
    say(f"wrote {path.name} ({path.stat().st_size / 1000:.0f} kB)")
    return json.loads(path.read_text())


def _rounded(x: Any) -> Any:
    if isinstance(x, dict):
        return {str(key): _rounded(value) for key, value in x.items()}
    if isinstance(x, (list, tuple, np.ndarray)):
        return [_rounded(value) for value in x]
    if isinstance(x, (bool, np.bool_)):
        return bool(x)
    if isinstance(x, np.integer):
        return int(x)
    if isinstance(x, (float, np.floating)):
        return float(f"{x:.8g}") if math.isfinite(x) else None
    return x


# ---------------------------------------------------------------------- shards


def shard_options(line: argparse.ArgumentParser, draws: int, parts: list[str]) -> None:
    """Let a script run some of its draws, of some of its parts, and put such runs together."""
    line.add_argument("--draws", default=str(draws), help="how many of each kind, or A:B of them")
    line.add_argument("--only", action="append", choices=parts, help="some of the kinds")
    line.add_argument("--shard", type=Path, help="write runs to this file one by one, no result")
    line.add_argument("--merge", type=Path, nargs="+", help="files of shards, instead of runs")


def draws_of(text: str) -> range:
    """Numbers of the draws: so many, or from A up to B."""
    first, _, last = text.rpartition(":")
    return range(int(first or 0), int(last))


def write_shard(
    args: argparse.Namespace, settings: dict[str, Any], runs: dict[str, list[dict[str, Any]]]
) -> None:
    """Write runs, of each part a list, where `merged` finds them."""
    args.shard.parent.mkdir(parents=True, exist_ok=True)
    args.shard.write_text(json.dumps(_rounded({"settings": settings, "runs": runs})) + "\n")


def merged(files: list[Path], settings: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Put shards of the same settings together: of each kind the runs by their seeds."""
    runs: dict[str, dict[int, dict[str, Any]]] = {}
    for file in files:
        shard = json.loads(file.read_text())
        if shard["settings"] != settings:
            msg = f"expected runs with {settings} in {file}, got {shard['settings']}"
            raise ValueError(msg)
        for part, found in shard["runs"].items():
            known = runs.setdefault(part, {})
            twice = sorted(known.keys() & {run["seed"] for run in found})
            if twice:
                msg = f"expected each seed of {part} once, got {twice} again in {file}"
                raise ValueError(msg)
            known.update({run["seed"]: run for run in found})
    return {part: [found[seed] for seed in sorted(found)] for part, found in runs.items()}


# ---------------------------------------------------------------------- time and memory


def synchronizer(place: Any) -> Callable[[], None]:
    """Give a function that waits for the device of a place."""
    library = place.xp.__name__
    if "cupy" in library:
        import cupy

        return cupy.cuda.Device().synchronize
    if "torch" in library and "cuda" in str(place.device):
        import torch

        return torch.cuda.synchronize
    return lambda: None


def timed(
    call: Callable[[], Any], synchronize: Callable[[], None] = lambda: None, *, repeats: int = 5
) -> float:
    """Median seconds of a call, the device waited for inside; one call more warms up."""
    call()
    synchronize()
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        call()
        synchronize()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def repeats_for(seconds: float, *, budget: float = 3.0, most: int = 9) -> int:
    """How often to repeat a call that takes so long."""
    return int(min(max(budget // max(seconds, 1e-9), 3), most))


def start_method() -> Any:
    """Give the way in which processes are started: anew, or where nothing is timed from a fork."""
    method = os.environ.get("BENCHMARK_START", "spawn")
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload([Path(sys.argv[0]).stem])
    return context


def in_subprocess(function: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    """Run ``function(*args)`` in a fresh process; add what memory it took, in MB.

    `peak_rss_mb` is all that was resident, memory-mapped pages included;
    `peak_anonymous_mb` leaves those out (sampled every 20 ms) and `anonymous_before_mb` is what
    Python and the imports had taken of it before the call; `peak_gpu_mb` is CuPy's pool.
    """
    context = start_method()
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(there, function, args))
    process.start()
    there.close()
    try:
        result = here.recv()
    except EOFError:
        process.join()
        msg = f"{function.__name__} ended without a result (exit code {process.exitcode})"
        raise RuntimeError(msg) from None
    process.join()
    return result


def _measure(there: Any, function: Callable[..., dict[str, Any]], args: tuple[Any, ...]) -> None:
    stop = threading.Event()
    before = _anonymous(psutil.Process())
    peak = [before]
    sampler = threading.Thread(target=_sample, args=(peak, stop), daemon=True)
    sampler.start()
    result = function(*args)
    stop.set()
    sampler.join()
    memory = {
        "anonymous_before_mb": before / 1e6,
        "peak_rss_mb": _peak_rss() / 1e6,
        "peak_anonymous_mb": peak[0] / 1e6,
    }
    if "cupy" in sys.modules:
        memory["peak_gpu_mb"] = sys.modules["cupy"].get_default_memory_pool().total_bytes() / 1e6
    there.send({**result, **memory})
    there.close()


def _sample(peak: list[int], stop: threading.Event) -> None:
    process = psutil.Process()
    while not stop.wait(0.02):
        peak[0] = max(peak[0], _anonymous(process))


def _anonymous(process: psutil.Process) -> int:
    memory = process.memory_info()
    return memory.rss - getattr(memory, "shared", 0)


def _peak_rss() -> int:
    # ru_maxrss of a spawned process starts at its parent's peak, so the kernel's own is better
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return 1024 * int(line.split()[1])
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


# ---------------------------------------------------------------------- pictures


def pictures() -> Any:
    """Matplotlib's pyplot, drawing to files, in one plain style."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "figure.dpi": 110,
            "figure.constrained_layout.use": True,
            "font.size": 10,
            "axes.titlesize": 10.5,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": "#dddddd",
            "grid.linewidth": 0.6,
            "legend.frameon": False,
            "legend.fontsize": 9,
            "lines.linewidth": 1.6,
            "lines.markersize": 5,
        }
    )
    return plt


def save_picture(args: argparse.Namespace, name: str, figure: Any) -> None:
    """Write a picture beside its numbers."""
    path = output_folder(args) / f"{name}.png"
    figure.savefig(path, dpi=110)
    pictures().close(figure)
    say(f"wrote {path.name} ({path.stat().st_size / 1000:.0f} kB)")
