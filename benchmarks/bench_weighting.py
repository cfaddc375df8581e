"""RKHS weightings: time and memory of fits against rows and parameters, beside the floor."""

from __future__ import annotations

import argparse
import itertools
import math
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    OURS,
    PUBLISHED,
    SECOND,
    THIRD,
    criterion,
    in_subprocess,
    parser,
    pictures,
    save_picture,
    say,
    write_json,
)
from samples import classification_split
from scipy.special import erf
from sklearn.exceptions import ConvergenceWarning
from weightings import (
    LAMBDAS,
    Cell,
    T,
    operator_of,
    predictions,
    problem_of,
    published_folds,
    wrong,
)

from gpukfl.instantiations import GaussianSign
from gpukfl.linalg import each_block

CONSTANT = 0.1
# Fits of the skin data: learner, λ (None: 5 λ x 5 folds), seconds that are wanted
FITS: dict[str, tuple[str, float | None, float]] = {
    "least squares, λ 1e-7": ("least_squares", 1e-7, 8.0),
    "least squares, 5 λ x 5 folds": ("least_squares", None, 16.0),
    "Lasso, λ 1e-5": ("lasso", 1e-5, 14.0),
    "Lasso, λ 1e-7": ("lasso", 1e-7, 14.0),
}
PUBLISHED_SECONDS = {"least_squares": 5.561, "lasso": 411.723}
DTYPES = ("float32", "float64")

D, GROWTH_T, RIDGE, NOISE = 10, 500, 1e-9, 0.1
SIZES, MAPPED = (10_000, 100_000, 1_000_000), (1_000_000, 10_000_000)
BLOCK, N_TEST = 500_000, 10_000
COUNTS, COUNT_ROWS = (250, 500, 1000, 2000, 4000), 50_000
PER_ROW = 32  # bytes: targets, in the precisions that they pass through, and folds

Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]

# ---------------------------------------------------------------------- skin segmentation


def measure_skin(name: str, dtype: str, parts: Parts, count: int, backend: str) -> dict[str, Any]:
    """Fit from raw rows to coefficients, and predict, in a process of its own."""
    learner, value, _ = FITS[name]
    X, y, X_test, y_test = parts
    _fit(X[:500], y[:500], dtype, 20, backend, learner, value)  # compiles
    found = _fit(X, y, dtype, count, backend, learner, value)
    operator, A = found.pop("operator"), found.pop("A")
    rows = replace(operator.rows, source=X_test.astype(dtype))
    test = type(operator)(operator.instantiation, rows, operator.W, operator.log_scale)
    begun = time.perf_counter()
    f = predictions(test, A)[:, 0]
    seconds = time.perf_counter() - begun
    return {
        "fit": name,
        "dtype": dtype,
        "n": len(y),
        "T": count,
        **found,
        "nonzero": int(np.count_nonzero(A)),
        "test_01": wrong(f, y_test),
        "predict_us_per_row": 1e6 * seconds / len(f),
        "data_mb": X.astype(dtype).nbytes / 1e6,
        **floor(operator.rows.reference, len(y), count, operator.rows.shape[1]),
    }


def _fit(
    X: np.ndarray, y: np.ndarray, dtype: str, count: int, backend: str, learner: str,
    value: float | None,
) -> dict[str, Any]:  # fmt: skip
    X = X.astype(dtype)
    begun, busy = time.perf_counter(), time.process_time()
    problem = problem_of(backend, X, y, 0, dtype)
    operator = operator_of(problem, GaussianSign(constant=CONSTANT), count)
    folds = np.zeros(len(y), dtype=np.int64) if value is not None else published_folds(len(y))
    cell = Cell.of(problem, operator, folds)
    if value is None:
        cell = cell.validated(learner, LAMBDAS)
    else:
        unit = operator.log_scale * (1.0 if learner == "lasso" else 2.0)
        cell.ridge, cell.value = math.exp(math.log(value) - unit), value
    A, _ = cell.fit(learner)
    seconds = time.perf_counter() - begun
    busy = time.process_time() - busy
    return {"seconds": seconds, "core_seconds": busy, "pass_seconds": cell.pass_seconds,
            "lambda": cell.value, "operator": operator, "A": A}  # fmt: skip


def floor(reference: Any, n: int, count: int, d: int) -> dict[str, float]:
    """Seconds that the products, error functions and Gram sums take by themselves."""
    rng = np.random.default_rng(0)
    rows = 2 * count  # a block of the library's
    X = rng.standard_normal((rows, d)).astype(reference.dtype)
    V = rng.standard_normal((d, count)).astype(reference.dtype) / math.sqrt(d)
    Z = X @ V
    wide = np.asarray(Z, dtype=np.float64)
    seconds = {}
    for key, body in {
        "product": lambda k: X[:k] @ V,
        "erf": lambda k: erf(Z[:k]),
        "gram": lambda k: wide[:k].T @ wide[:k],
    }.items():
        begun = time.perf_counter()
        each_block(reference, (0, n), count, lambda a, b, f=body: f(min(b - a, rows)) is None,
                   lambda *_: None, fewest=rows)  # fmt: skip
        seconds[f"floor_{key}_s"] = time.perf_counter() - begun
    return seconds


def skin(args: argparse.Namespace) -> list[dict[str, Any]]:
    try:
        *parts, _ = classification_split(args, "skin segmentation")
    except FileNotFoundError as error:
        say(f"left out: {error}")
        return []
    count = T
    if args.smoke:
        count = 50
        parts = [part[::200] for part in parts]
    rows = []
    for dtype in DTYPES[:1] if args.smoke else DTYPES:
        for name in list(FITS)[1:3] if args.smoke else FITS:
            row = in_subprocess(measure_skin, name, dtype, tuple(parts), count, args.backend)
            row["floor_s"] = sum(row[f"floor_{key}_s"] for key in ("product", "erf", "gram"))
            row["pass_over_floor"] = row["pass_seconds"] / row["floor_s"]
            rows.append(row)
            say(
                f"skin {dtype} {name}: {row['seconds']:.1f} s (pass {row['pass_seconds']:.1f}, "
                f"floor {row['floor_s']:.1f}, all cores {row['core_seconds']:.1f}), error "
                f"{row['test_01']:.4f}, {row['nonzero']} coefficients, "
                f"{row['predict_us_per_row']:.1f} us a prediction, peak "
                f"{row['peak_anonymous_mb']:.0f} MB ({row['anonymous_before_mb']:.0f} before)"
            )
    return rows


# ---------------------------------------------------------------------- growth with n and T


def draw_data(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw y = sin(2 x1) + |x2 + x3| + x4 x5 + N(0, 0.01) from N(0, 1), float32."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D), dtype=np.float32)
    y = np.sin(2.0 * X[:, 0]) + np.abs(X[:, 1] + X[:, 2]) + X[:, 3] * X[:, 4]
    return X, (y + NOISE * rng.standard_normal(n, dtype=np.float32)).astype(np.float32)


def measure_growth(n: int, count: int, folder: str | None, backend: str) -> dict[str, Any]:
    """One fit of the estimator at fixed settings; with a folder, of its memory map."""
    from gpukfl import RKHSWeightingRegressor

    if folder is None:
        X, y = draw_data(n, 3)
    else:
        X = np.memmap(Path(folder) / "X.dat", np.float32, "r", shape=(n, D))
        y = np.load(Path(folder) / "y.npy", mmap_mode="r")[:n]
    settings: dict[str, Any] = {
        "instantiation": GaussianSign(constant=CONSTANT),
        "ridge": RIDGE,
        "random_state": 0,
        "backend": backend,
    }
    small, target = draw_data(500, 5)
    RKHSWeightingRegressor(20, **settings).fit(small, target)  # compiles
    begun, busy = time.perf_counter(), time.process_time()
    model = RKHSWeightingRegressor(count, **settings).fit(X, y)
    seconds, busy = time.perf_counter() - begun, time.process_time() - busy
    X_test, y_test = draw_data(N_TEST, 4)
    return {
        "n": n,
        "T": count,
        "memory_map": folder is not None,
        "seconds": seconds,
        "core_seconds": busy,
        "test_r2": float(model.score(X_test, y_test)),
        "jitter": model.jitter_,
        "x_mb": 4 * n * D / 1e6,
        "y_mb": 4 * n / 1e6,
    }


def write_memmap(folder: str, n: int) -> None:
    """Write the rows in blocks; only one block and y are ever in memory."""
    y = np.empty(n, dtype=np.float32)
    X = np.memmap(Path(folder) / "X.dat", np.float32, "w+", shape=(n, D))
    for number, start in enumerate(range(0, n, BLOCK)):
        stop = min(start + BLOCK, n)
        X[start:stop], y[start:stop] = draw_data(stop - start, 1000 + number)
    X.flush()
    np.save(Path(folder) / "y.npy", y)


def grown(label: str, *measurement: Any) -> dict[str, Any]:
    row = in_subprocess(measure_growth, *measurement)
    say(
        f"{label} n {row['n']}, T {row['T']}: {row['seconds']:.1f} s, R2 {row['test_r2']:.4f}, "
        f"peak {row['peak_anonymous_mb']:.0f} MB ({row['anonymous_before_mb']:.0f} before)"
    )
    return row


def mapped(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Memory maps of a million and ten million rows."""
    sizes = (2_000, 4_000) if args.smoke else MAPPED
    count = 30 if args.smoke else GROWTH_T
    with tempfile.TemporaryDirectory(dir=args.scratch) as folder:
        write_memmap(folder, max(sizes))
        return [grown("memory map", n, count, folder, args.backend) for n in sizes]


def exponent(rows: list[dict[str, Any]], key: str, last: int = 2) -> float | None:
    """Growth over the last rows, as a power."""
    if len(rows) < last:
        return None
    a, b = rows[-last], rows[-1]
    return math.log(b["seconds"] / a["seconds"]) / math.log(b[key] / a[key])


# ---------------------------------------------------------------------- criteria, picture


def judge(result: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for dtype in DTYPES:
        for name, (_, _, limit) in FITS.items():
            text = f"skin, {name}, {dtype}: at most {limit:g} s"
            at = [r for r in result["skin"] if (r["fit"], r["dtype"]) == (name, dtype)]
            if not at:
                found.append(criterion(text, None))
                continue
            numbers = {key: at[0][key] for key in ("seconds", "core_seconds", "floor_s")}
            found.append(criterion(text, at[0]["seconds"] <= limit, **numbers))
    rows = result["by_n"]
    ratios = [b["seconds"] / a["seconds"] for a, b in itertools.pairwise(rows)]
    found.append(criterion("ten times the rows take at most 12 times as long", max(ratios) <= 12.0,
                           ratios=[round(r, 1) for r in ratios]))  # fmt: skip
    text = f"memory map of ten times the rows: at most {PER_ROW} bytes more for each row"
    few = result["memory_map"]
    if not few:
        return [*found, criterion(text, None)]
    peaks = [row["peak_anonymous_mb"] for row in few]
    each = 1e6 * (peaks[1] - peaks[0]) / (few[1]["n"] - few[0]["n"])
    numbers = {"bytes_per_row": round(each, 1), "peaks_mb": [round(peak) for peak in peaks]}
    found.append(criterion(text, each <= PER_ROW, **numbers, seconds=few[1]["seconds"]))
    return found


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    plt = pictures()
    figure, axes = plt.subplots(1, 3, figsize=(11.0, 3.9), width_ratios=(1.4, 1, 1))
    _draw_skin(axes[0], result["skin"])
    if result["skin"]:
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower left", ncols=5)
    for rows, colour, marker, label in (
        (result["by_n"], OURS, "o", "in memory"),
        (result["memory_map"], SECOND, "s", "memory map"),
    ):
        if rows:
            axes[1].plot([r["n"] for r in rows], [r["seconds"] for r in rows], "-" + marker,
                         color=colour, label=label)  # fmt: skip
    axes[1].set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds")
    axes[1].set_title(f"{D} columns, T = {result['by_n'][0]['T']},\nfloat32")
    axes[1].legend()
    rows = result["by_T"]
    axes[2].plot([r["T"] for r in rows], [r["seconds"] for r in rows], "-o", color=OURS)
    axes[2].set(xscale="log", yscale="log", xlabel="parameters T")
    axes[2].set_xticks([r["T"] for r in rows], [str(r["T"]) for r in rows])
    axes[2].minorticks_off()
    axes[2].set_title(f"{D} columns, {rows[0]['n']:,} rows,\nfloat32")
    save_picture(args, "bench_weighting", figure)


def _draw_skin(ax: Any, rows: list[dict[str, Any]]) -> None:
    """Bars for each fit and precision, the floor inside them, the limits beside them."""
    parts = (
        ("product", "matrix product", "#c9d6e4"), ("erf", "error function", "#8fa9c4"),
        ("gram", "Gram matrix", "#4f749c"),
    )  # fmt: skip
    for at, row in enumerate(rows):
        ax.barh(at, row["seconds"], height=0.75, color=THIRD, alpha=0.35,
                label=None if at else "fit")  # fmt: skip
        left = 0.0
        for key, name, colour in parts:
            ax.barh(at, row[f"floor_{key}_s"], left=left, height=0.4, color=colour,
                    label=None if at else f"{name} alone")  # fmt: skip
            left += row[f"floor_{key}_s"]
        limit = FITS[row["fit"]][2]
        ax.plot([limit, limit], [at - 0.42, at + 0.42], color=PUBLISHED, linewidth=1.4,
                label=None if at else "limit")  # fmt: skip
    names = [f"{row['fit']}, {row['dtype']}" for row in rows]
    ax.set_yticks(range(len(rows)), names, fontsize=8)
    ax.set(ylim=(len(rows) - 0.4, -0.6), xlabel="seconds")
    ax.grid(axis="y", visible=False)
    ax.set_axisbelow(True)
    if rows:
        ax.set_title(f"skin segmentation, {rows[0]['n']:,} rows, T = {rows[0]['T']}")


def main() -> None:
    line = parser(__doc__)
    line.add_argument("--memmap", action="store_true", help="also ten million rows from disk")
    line.add_argument("--scratch", type=Path, help="folder for the memory map (default: temporary)")
    args = line.parse_args()
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    sizes, counts, rows, count = SIZES, COUNTS, COUNT_ROWS, GROWTH_T
    if args.smoke:
        sizes, counts, rows, count = (1_000, 2_000), (20,), 1_000, 30
    result: dict[str, Any] = {
        "settings": f"skin: I1, c = {CONSTANT}, T = {T}, from raw rows to coefficients; the floor: "
        "the products with the parameters, the error functions and the Gram sums by themselves in "
        "the same blocks and threads, in the same process. Growth: RKHSWeightingRegressor, I1, "
        f"c = {CONSTANT}, λ = {RIDGE:g}, {D} normal columns, float32. Each fit in a process of its "
        "own, after a small one; one run each; core seconds are the processor time of all threads, "
        "which other load on the machine changes less",
        "published_seconds": PUBLISHED_SECONDS,
        "skin": skin(args),
    }
    result["by_n"] = [grown("growth", n, count, None, args.backend) for n in sizes]
    result["by_T"] = [grown("growth", rows, k, None, args.backend) for k in counts]
    result["memory_map"] = mapped(args) if args.memmap or args.smoke else []
    result["exponents"] = {"n": exponent(result["by_n"], "n"), "T": exponent(result["by_T"], "T")}
    result["criteria"] = [] if args.smoke else judge(result)
    draw(args, write_json(args, "bench_weighting", result))


if __name__ == "__main__":
    main()
