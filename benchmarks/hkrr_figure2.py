"""Figure 2 of Huang et al. (HKRR): R² against the number of components and of samples."""

from __future__ import annotations

import argparse
import itertools
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import (
    OURS,
    SECOND,
    THIRD,
    criterion,
    parser,
    pictures,
    save_picture,
    say,
    start_method,
    write_json,
)
from hkrr_figure1 import descend, problem, random_map
from sklearn.metrics import r2_score

from gpukfl import HKRRRegressor, KernelRidgeRegressor
from gpukfl.core._array import to_host
from gpukfl.core._places import Place, resolve_place
from gpukfl.datasets import make_multi_index
from gpukfl.kernels import median_distance

D, TRUE, N, N_TEST = 50, 3, 600, 4800
D_VALUES = (1, 2, 3, 5, 10, 20, 30, 50)
N_VALUES, D_OF_N = (1000, 4000, 8000, 12000, 16000), (3, 20, 50)
DATASETS = {"Dataset 1": "sines", "Dataset 2": "mixed"}
MAPS = 10  # random maps, of which the best on the validation set starts
STRETCHES = (0.25, 0.5, 1.0, 2.0)  # lengthscales of the last fit, in units of the median
EXACT, REFIT_CENTERS = 2000, 1000  # samples up to which the last fit takes all as centres
DEFAULTS = "HKRRRegressor"
COLOURS = {"VarPro": SECOND, "AGD": OURS, DEFAULTS: THIRD}
POOR = 0.05  # loss of R² that counts as poor
D_PAPER_TIME = (3, 10, 1, 50)  # components of Dataset 1 that are fitted for the paper's time


@dataclass(frozen=True)
class Setting:
    """How one panel is made."""

    n_centers: int
    ridge: float
    seconds: float
    repetitions: int
    full_seconds: float
    full_repetitions: int


TOP = Setting(5, 1e-7, 2.0, 2, 60.0, 5)
BOTTOM = Setting(25, 1e-8, 4.0, 1, 80.0, 10)


@dataclass(frozen=True)
class Cell:
    """One fit."""

    kind: str
    n: int
    d: int
    method: str
    repetition: int
    setting: Setting
    seconds: float
    backend: str


@dataclass(frozen=True)
class Parts:
    """Samples to fit, to choose by, and to test on."""

    train: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]


def draw_data(kind: str, n: int, repetition: int) -> Parts:
    """As many samples to choose by as to fit, both scaled by the targets' mean and spread."""
    X, y, _ = make_multi_index(2 * n + N_TEST, D, TRUE, kind=kind, random_state=repetition)
    y = (y - y[:n].mean()) / y[:n].std()
    return Parts((X[:n], y[:n]), (X[n : 2 * n], y[n : 2 * n]), (X[2 * n :], y[2 * n :]))


def best_start(
    place: Place, parts: Parts, Z: np.ndarray, cell: Cell, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Give the random map whose best coefficients do best on the validation set."""
    (X, y), (X_held, y_held) = parts.train, parts.validation
    objective = problem(place, X, y, Z, cell.setting.ridge)
    found = []
    for k in range(MAPS):
        B = random_map(cell.d, D, rng, entries="normal" if k % 2 else "uniform")
        lengthscale = median_distance(X[:500] @ B.T)
        C = B / lengthscale
        alpha = to_host(objective.minimize_alpha(place.put(C)))
        fitted = objective.kernel(X_held @ C.T, Z @ C.T) @ alpha
        found.append((float(np.mean((y_held - fitted[:, 0]) ** 2)), k, B, lengthscale))
    return min(found, key=lambda entry: entry[:2])[2:]


def refit(parts: Parts, B: np.ndarray, seed: int) -> tuple[KernelRidgeRegressor, float]:
    """Fit all samples seen through `B`: ridge by leave-one-out, lengthscale by the validation."""
    (X, y), (X_held, y_held) = parts.train, parts.validation
    U, typical = X @ B.T, median_distance(X[:500] @ B.T)
    more = {} if len(y) <= EXACT else {"n_centers": REFIT_CENTERS, "solver": "direct"}
    best: tuple[float, KernelRidgeRegressor] | None = None
    for stretch in STRETCHES:
        model = KernelRidgeRegressor(
            lengthscale=stretch * typical, scaling=None, random_state=seed, **more
        )
        score = model.fit(U, y).score(X_held @ B.T, y_held)
        if best is None or score > best[0]:
            best = score, model
    assert best is not None
    return best[1], best[0]


def run_cell(cell: Cell) -> dict[str, Any]:
    """Fit one cell, on the host or where it was asked for."""
    warnings.simplefilter("ignore")  # ridges at the edge of the grid, singular kernels
    parts = draw_data(cell.kind, cell.n, cell.repetition)
    rng = np.random.default_rng([cell.repetition, cell.d, cell.n])
    begun = time.perf_counter()
    if cell.method == DEFAULTS:
        both = [np.concatenate(pair) for pair in zip(parts.train, parts.validation, strict=True)]
        model = HKRRRegressor(
            cell.d, scaling=None, random_state=cell.repetition, backend=cell.backend
        )
        model.fit(*both)
        found = {"iterations": model.n_iter_, "r2": model.score(*parts.test)}
    else:
        place = resolve_place(cell.backend, parts.train[0], dtype="float64", work=cell.n)
        Z = parts.train[0][rng.choice(cell.n, cell.setting.n_centers, replace=False)]
        B, lengthscale = best_start(place, parts, Z, cell, rng)
        objective = problem(place, *parts.train, Z, cell.setting.ridge)
        start = place.put(B), lengthscale, cell.seconds
        fit = descend(cell.method, objective, *start, clock=time.process_time)
        model, held = refit(parts, to_host(fit.B), cell.repetition)
        fitted = model.predict(parts.test[0] @ to_host(fit.B).T)
        r2 = float(r2_score(parts.test[1], fitted))
        found = {"iterations": len(fit.history), "r2": r2, "validation_r2": held}
        found |= {"loss": fit.value, "status": fit.status.name, "ridge": model.ridge_}
    return {**found, "seconds": time.perf_counter() - begun}


def cells_of(args: argparse.Namespace) -> dict[str, list[Cell]]:
    """All fits: of the top panels by dataset, and of the bottom one."""
    panels: dict[str, list[Cell]] = {}
    for panel, kind, setting, n_values, d_values in (
        ("Dataset 1", "sines", TOP, (N,), D_VALUES),
        ("Dataset 2", "mixed", TOP, (N,), D_VALUES),
        ("samples", "sines", BOTTOM, N_VALUES, D_OF_N),
    ):
        seconds = args.seconds or (setting.full_seconds if args.full else setting.seconds)
        repetitions = args.repetitions or (
            setting.full_repetitions if args.full else setting.repetitions
        )
        methods = list(COLOURS) if panel in DATASETS else ["VarPro", "AGD"]
        grid = itertools.product(n_values, d_values, methods, range(repetitions))
        if args.smoke:
            seconds, grid = 0.1, itertools.product((200,), d_values[:1], methods[:2], (0,))
        panels[panel] = [
            Cell(kind, n, d, method, k, setting, seconds, args.backend) for n, d, method, k in grid
        ]
    return panels


def run_all(args: argparse.Namespace, cells: list[Cell]) -> list[dict[str, Any]]:
    """Run the fits of one panel, several at once, each in one thread."""
    if args.jobs == 1:
        return [_told(cell, run_cell(cell)) for cell in cells]
    # Inherited by the processes: the times of a descent are of one thread
    os.environ |= {"GPUKFL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with ProcessPoolExecutor(args.jobs, mp_context=start_method()) as pool:
        return [
            _told(cell, row) for cell, row in zip(cells, pool.map(run_cell, cells), strict=True)
        ]


def _told(cell: Cell, row: dict[str, Any]) -> dict[str, Any]:
    say(
        f"{cell.kind} n {cell.n:5d} d {cell.d:2d} {cell.method:13s} repetition {cell.repetition}: "
        f"R2 {row['r2']:.3f}, {row['iterations']} iterations, {row['seconds']:.1f} s"
    )
    return row


def summary(cells: list[Cell], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean and spread over the repetitions."""
    groups: dict[tuple[int, int, str], list[dict[str, Any]]] = {}
    for cell, row in zip(cells, rows, strict=True):
        groups.setdefault((cell.n, cell.d, cell.method), []).append(row)
    return [
        {
            "n": n,
            "d": d,
            "method": method,
            "r2_mean": float(np.mean([row["r2"] for row in runs])),
            "r2_std": float(np.std([row["r2"] for row in runs])),
            **{key: [row[key] for row in runs if key in row] for key in ("r2", "iterations")},
            "seconds_mean": float(np.mean([row["seconds"] for row in runs])),
        }
        for (n, d, method), runs in groups.items()
    ]


def r2_of(panel: list[dict[str, Any]], method: str) -> dict[tuple[int, int], float]:
    """Mean R² by (n, d)."""
    return {(row["n"], row["d"]): row["r2_mean"] for row in panel if row["method"] == method}


def judge(panels: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    found = []
    for panel, method in itertools.product(DATASETS, COLOURS):
        r2 = {d: value for (_, d), value in r2_of(panels[panel], method).items()}
        below, above = max(r2[1], r2[2]), max(r2[5], r2[10])
        best = max(r2.values())
        text = f"{panel}, {method}: d < d* = {TRUE} is poor, {POOR} of R² below the best d"
        found.append(criterion(text, below < best - POOR, below=below, best=best))
        text = f"{panel}, {method}: d = 5 or 10 is at least as good as d* = {TRUE}"
        found.append(criterion(text, above >= r2[TRUE] - 0.005, above=above, true=r2[TRUE]))
    for method in ("VarPro", "AGD"):
        r2, n = r2_of(panels["samples"], method), N_VALUES[-1]
        text = f"n = {n}, {method}: d = 20 is at least as good as d* = {TRUE}"
        passed = r2[n, 20] >= r2[n, TRUE] - 0.005
        found.append(criterion(text, passed, d20=r2[n, 20], true=r2[n, TRUE], d50=r2[n, 50]))
    return found


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    panels = result["panels"]
    plt = pictures()
    figure, axes = plt.subplots(2, 3, figsize=(10.2, 6.2), sharey=True)
    for ax, name in zip(axes[0], DATASETS, strict=False):
        _lines(ax, panels[name], "d")
        ax.axvline(TRUE, color="#999999", linewidth=0.8, linestyle=":")
        ax.set(xscale="log", xlabel="components d", title=f"{name}, {N} rows")
        ax.set_xticks(D_VALUES, [str(d) for d in D_VALUES])
        ax.minorticks_off()
    for ax, d in zip(axes[1], D_OF_N, strict=True):
        rows = [row for row in panels["samples"] if row["d"] == d]
        _lines(ax, rows, "n")
        ax.set(xlabel="rows (thousands)", title=f"Dataset 1, d = {d}")
        ax.set_xticks(N_VALUES, [f"{n / 1000:g}" for n in N_VALUES])
    for ax in axes[:, 0]:
        ax.set(ylabel="test R²", ylim=(-0.3, 1.02))
    axes[0, 2].axis("off")
    axes[0, 2].legend(*axes[0, 0].get_legend_handles_labels(), loc="center")
    save_picture(args, "hkrr_figure2", figure)


def _lines(ax: Any, rows: list[dict[str, Any]], along: str) -> None:
    for method, colour in COLOURS.items():
        if all(row["method"] != method for row in rows):
            continue
        mine = sorted((row for row in rows if row["method"] == method), key=lambda row: row[along])
        at = [row[along] for row in mine]
        mean, std = (np.array([row[f"r2_{part}"] for row in mine]) for part in ("mean", "std"))
        ax.plot(at, mean, "-o", color=colour, label=method)
        ax.fill_between(at, mean - std, mean + std, color=colour, alpha=0.12, linewidth=0)


def run_paper_time(args: argparse.Namespace) -> None:
    """Fit Dataset 1 once for the time of the panels and for the paper's, from the same start."""
    times = (0.1, 0.2) if args.smoke else (TOP.seconds, TOP.full_seconds)
    components = D_PAPER_TIME[:1] if args.smoke else D_PAPER_TIME
    rows: list[dict[str, Any]] = []
    for d, method in itertools.product(components, ("VarPro", "AGD")):
        row: dict[str, Any] = {"d": d, "method": method}
        for name, seconds in zip(("short", "paper"), times, strict=True):
            cell = Cell("sines", N, d, method, 0, TOP, seconds, args.backend)
            found = _told(cell, run_cell(cell))
            row[name] = {key: found[key] for key in ("r2", "loss", "iterations", "status")}
        rows.append(row)
        # Written after every row, so that a run that is cut off keeps what it has
        settings = (
            f"Dataset 1, n = {N}, 5 centres, ridge 1e-7, repetition 0 of Figure 2: descents of "
            f"{times[0]:g} s and of {times[1]:g} s of processor time from one start. The paper has "
            f"{times[1]:g} s, 8 numbers of components, 2 datasets and 5 repetitions"
        )
        write_json(args, "hkrr_figure2_paper_time", {"settings": settings, "rows": rows})


def main() -> None:
    line = parser(__doc__)
    line.add_argument("--full", action="store_true", help="the paper's times and repetitions")
    line.add_argument("--seconds", type=float, help="for each descent, in all panels")
    line.add_argument("--repetitions", type=int, help="of every fit, in all panels")
    line.add_argument("--jobs", type=int, default=2, help="fits at once, each in one thread")
    line.add_argument(
        "--paper-time", action="store_true", help="one repetition at the paper's 60 s"
    )
    args = line.parse_args()
    if args.paper_time:
        run_paper_time(args)
        return
    cells = cells_of(args)
    panels = {}
    for name, mine in cells.items():
        panels[name] = summary(mine, run_all(args, mine))
    top, bottom = (cells[name][0].seconds for name in ("Dataset 1", "samples"))
    counts = [len({c.repetition for c in cells[name]}) for name in ("Dataset 1", "samples")]
    result = {
        "settings": f"D = {D}, d* = {TRUE}, {N_TEST} test samples, Gaussian kernel, start: best of "
        f"{MAPS} random maps on a validation set as large as the training set. Against d: n = {N}, "
        f"5 centres, ridge 1e-7, stopped after {top:g} s of processor time (paper: 60 s), "
        f"{counts[0]} repetitions (paper: 5). Against n: 25 centres, ridge 1e-8, "
        f"{bottom:g} s (80 s), {counts[1]} repetition(s) (10). Last fit with all samples "
        f"as centres, beyond {EXACT} with {REFIT_CENTERS}. {DEFAULTS}: defaults with d "
        "components, on the training and validation samples together",
        "panels": panels,
        "criteria": [] if args.smoke else judge(panels),
    }
    draw(args, write_json(args, "hkrr_figure2", result))


if __name__ == "__main__":
    main()
