"""RegFeaL: time of a fit and of its parts, growth with rows and dimension, peak memory."""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from common import (
    OURS,
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

TRUE, N_TEST, NOISE = 2, 5000, 0.1
N, D, M, N_ITER, SECONDS = 5_000, 10, 2_500, 5, 10.0
DECAY, STRENGTH = 0.4, 0.01
ROW_COUNTS, GROWTH_M = (10_000, 100_000, 1_000_000), 500
WIDE, WIDE_N, WIDE_M = (10, 50, 100, 200), 2_000, 2_000
MEGABYTES = 1_000.0  # beside the data, allowed at a million rows
PARTS = ("tuples", "features", "products", "solution", "derivatives")


def decay_at(d: int) -> float:
    """Give ρ: the kernel grows as (1 - ρ)^-d, and degrees as ρ d."""
    return DECAY * D / max(d, D)


def directions(d: int, target: str) -> np.ndarray:
    """Give the true directions (d, 2): rotated for the sines, axes for the square."""
    if target == "square":
        return np.eye(d, TRUE)
    return np.linalg.qr(np.random.default_rng(0).standard_normal((d, TRUE)))[0]


def draw_data(
    n: int, d: int, seed: int, dtype: str = "float64", target: str = "sines"
) -> tuple[np.ndarray, np.ndarray]:
    """Draw y = sin(2 z1) + sin(2 z2), or z1 + z2², + N(0, 0.01), of uniform X."""
    P = directions(d, target).astype(dtype)
    rng = np.random.default_rng(seed)
    X = rng.random((n, d), dtype=dtype)
    X -= 0.5
    X *= np.sqrt(12.0)
    Z = X @ P
    y = np.sin(2.0 * Z).sum(axis=1) if target == "sines" else Z[:, 0] + Z[:, 1] ** 2
    return X, (y + NOISE * rng.standard_normal(n, dtype=dtype)).astype(dtype)


# ---------------------------------------------------------------------- whole fits


def measure_fit(
    n: int,
    d: int,
    count: int,
    dtype: str,
    settings: dict[str, Any],
    backend: str,
    target: str = "sines",
) -> dict[str, Any]:
    """One fit of the estimator, in a process of its own."""
    from gpukfl import RegFeaLRegressor, feature_score
    from gpukfl.methods import Reweighting

    warnings.filterwarnings("ignore", category=UserWarning)
    optimizer = Reweighting(settings["n_iter"])
    settings = {name: value for name, value in settings.items() if name != "n_iter"}
    settings |= {"random_state": 0, "backend": backend, "optimizer": optimizer}
    X, y = draw_data(n, d, 1, dtype, target)
    RegFeaLRegressor(50, **settings).fit(X[:300], y[:300])  # compiles
    begun, spent = time.perf_counter(), time.process_time()
    model = RegFeaLRegressor(count, **settings).fit(X, y)
    seconds, processor = time.perf_counter() - begun, time.process_time() - spent
    X_test, y_test = draw_data(N_TEST, d, 2, dtype, target)
    begun = time.perf_counter()
    r2 = float(model.score(X_test, y_test))
    predicting = time.perf_counter() - begun
    P = directions(d, target)
    return {
        "n": n,
        "d": d,
        "m": count,
        "dtype": dtype,
        "seconds": seconds,
        "processor_seconds": processor,
        "iterations_seconds": model.history_.seconds[-1],
        "tried": len(model.tuning_),
        "distinct": len(model.multi_indices_),
        "test_r2": r2,
        "feature_score": feature_score(P, np.asarray(model.R_) * model.importances_),
        "predict_us_per_row": 1e6 * predicting / N_TEST,
        "data_mb": (X.nbytes + y.nbytes) / 1e6,
    }


FIXED = {"degrees": DECAY, "strength": STRENGTH, "n_iter": N_ITER}
FITS: dict[str, dict[str, Any]] = {
    "ρ and μ given, Hermite features": {**FIXED, "retrain": None},
    "ρ and μ given, then kernel ridge": FIXED,
    "ρ and μ chosen, then kernel ridge": {"n_iter": N_ITER},
}


def told(row: dict[str, Any]) -> None:
    say(
        f"n {row['n']:8d} d {row['d']:3d} m {row['m']} {row['dtype']}: {row['seconds']:.1f} s "
        f"({row['processor_seconds']:.1f} s of processor), R2 {row['test_r2']:.4f}, feature score "
        f"{row['feature_score']:.4f}, peak {row['peak_anonymous_mb']:.0f} MB "
        f"({row['anonymous_before_mb']:.0f} before, data {row['data_mb']:.0f})"
    )


def fits(args: argparse.Namespace) -> list[dict[str, Any]]:
    n, count = (200, 100) if args.smoke else (N, M)
    rows = []
    for name in list(FITS)[:1] if args.smoke else FITS:
        row = in_subprocess(measure_fit, n, D, count, "float64", FITS[name], args.backend)
        rows.append({"fit": name, **row})
        told(rows[-1])
    return rows


def growth(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Against rows, the directions used by the Hermite features themselves."""
    settings = {**FIXED, "retrain": None}
    rows = []
    for dtype, largest in (("float32", args.largest), ("float64", args.largest_double)):
        for n in (500, 1000) if args.smoke else [n for n in ROW_COUNTS if n <= largest]:
            rows.append(in_subprocess(measure_fit, n, D, GROWTH_M, dtype, settings, args.backend))
            told(rows[-1])
    return rows


def wide(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Against the dimension, ρ and μ chosen, beside kernel ridge regression."""
    n, count, dimensions = (200, 100, (5, 10)) if args.smoke else (WIDE_N, WIDE_M, WIDE)
    rows = []
    for d in dimensions:
        fit = (n, d, count, "float64", {"n_iter": N_ITER}, args.backend, "square")
        peer = in_subprocess(kernel_ridge_r2, n, d, args.backend)
        rows.append({**in_subprocess(measure_fit, *fit), "kernel_ridge_r2": peer["test_r2"]})
        told(rows[-1])
    return rows


def kernel_ridge_r2(n: int, d: int, backend: str) -> dict[str, Any]:
    """Score kernel ridge regression on all variables."""
    from gpukfl import KernelRidgeRegressor

    X, y = draw_data(n, d, 1, target="square")
    model = KernelRidgeRegressor(scaling="standard", random_state=0, backend=backend).fit(X, y)
    return {"test_r2": float(model.score(*draw_data(N_TEST, d, 2, target="square")))}


# ---------------------------------------------------------------------- parts


def measure_parts(n: int, d: int, count: int, backend: str) -> dict[str, Any]:
    """Seconds of the parts of each iteration, each called once more by itself."""
    from gpukfl.core._places import resolve_place
    from gpukfl.linalg import CholeskyFactor, add_to_diagonal
    from gpukfl.methods import DegreeLaw, RegFeaL, RegFeaLFit, draw_tuples
    from gpukfl.methods._multi_indices import DerivativePenalty
    from gpukfl.operators import HermiteOperator
    from gpukfl.partitioned._rows import Rows

    X, y = draw_data(n, d, 1)
    place = resolve_place(backend, X, dtype="float64", work=X.size)
    rows, Y = Rows(X, place.reference), place.put((y - y.mean())[:, None] / y.std())
    method = RegFeaL(count, DegreeLaw(decay_at(d)), STRENGTH, n_iter=N_ITER)
    unit = float(d) ** (-(2.0 - method.exponent) / method.exponent)
    penalty = DerivativePenalty(method.ridge * unit, method.strength * unit)
    found: list[dict[str, float]] = []

    def watch(k: int, fit: RegFeaLFit) -> None:
        assert fit.indices is not None
        seconds = {}
        begun = time.perf_counter()
        draw_tuples(count, fit.eta, method.law, penalty, method.exponent, np.random.RandomState(0))
        seconds["tuples"] = time.perf_counter() - begun
        operator = HermiteOperator(
            rows, fit.indices.tuples, fit.indices.scales, fit.placed_rotation()
        )
        begun = time.perf_counter()
        Phi = operator.dense()
        seconds["features"] = time.perf_counter() - begun
        begun = time.perf_counter()
        gram = Phi.T @ Phi if n > Phi.shape[1] else Phi @ Phi.T
        seconds["products"] = time.perf_counter() - begun
        begun = time.perf_counter()
        right = Phi.T @ Y if n > Phi.shape[1] else Y
        CholeskyFactor.factor(add_to_diagonal(gram, n)).solve(right)
        seconds["solution"] = time.perf_counter() - begun
        begun = time.perf_counter()
        method.directions(fit)
        seconds["derivatives"] = time.perf_counter() - begun
        found.append({"iteration": k + 1, "distinct": len(fit.indices.tuples), **seconds})

    method.run(rows, Y, None, np.random.RandomState(0), watch=watch)
    return {"n": n, "d": d, "m": count, "iterations": found}


def parts(args: argparse.Namespace) -> list[dict[str, Any]]:
    shapes = ((200, 5, 100),) if args.smoke else ((N, D, M), (WIDE_N, WIDE[-1], WIDE_M))
    found = []
    for n, d, count in shapes:
        row = in_subprocess(measure_parts, n, d, count, args.backend)
        row["totals"] = {key: sum(it[key] for it in row["iterations"]) for key in PARTS}
        found.append(row)
        shown = ", ".join(f"{key} {value:.2f}" for key, value in row["totals"].items())
        say(f"parts n {n} d {d} m {count}: {shown} s")
    return found


# ---------------------------------------------------------------------- criteria, picture


def judge(
    whole: list[dict[str, Any]], by_n: list[dict[str, Any]], by_d: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    found = []
    for row in whole[:2]:
        text = (
            f"n = {N}, d = {D}, {M} tuples, {N_ITER} iterations, {row['fit']}: at most "
            f"{SECONDS:g} s, of the clock or, where others keep the machine busy, of the processor"
        )
        numbers = {key: row[key] for key in ("seconds", "processor_seconds")}
        found.append(criterion(text, min(numbers.values()) <= SECONDS, **numbers))
    for row in by_n:
        if row["n"] != ROW_COUNTS[-1]:
            continue
        taken = row["peak_anonymous_mb"] - row["anonymous_before_mb"] - row["data_mb"]
        text = (
            f"{row['n']:,} rows in {row['dtype']}: at most {MEGABYTES / 1000:g} GB beside the data"
        )
        found.append(criterion(text, taken <= MEGABYTES, megabytes=taken, seconds=row["seconds"]))
    last = by_d[-1]
    text = f"d = {last['d']} works: R² is above that of kernel ridge regression"
    numbers = {key: last[key] for key in ("test_r2", "kernel_ridge_r2", "seconds")}
    found.append(criterion(text, last["test_r2"] > last["kernel_ridge_r2"], **numbers))
    return found


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    by_n, by_d, shares = result["by_n"], result["by_d"], result["parts"]
    plt = pictures()
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11.4, 3.7))
    for dtype, colour in (("float32", OURS), ("float64", SECOND)):
        mine = [row for row in by_n if row["dtype"] == dtype]
        left.plot([r["n"] for r in mine], [r["seconds"] for r in mine], "-o", color=colour,
                  label=dtype)  # fmt: skip
    left.set(xscale="log", yscale="log", xlabel="rows n", ylabel="seconds of a fit")
    left.set_title(f"{D} columns, {GROWTH_M} random features")
    left.legend()
    at = [row["d"] for row in by_d]
    middle.plot(at, [row["seconds"] for row in by_d], "-o", color=OURS)
    middle.set(xlabel="columns d", ylabel="seconds of a fit", ylim=(0, None))
    middle.set_title(f"{by_d[0]['n']} rows, {by_d[0]['m']} random features")
    place = np.arange(len(PARTS))
    for k, (row, colour) in enumerate(zip(shares, (OURS, THIRD), strict=False)):
        right.barh(
            place - 0.2 + 0.4 * k, [row["totals"][key] for key in PARTS], height=0.38,
            color=colour, label=f"{row['n']} rows, {row['d']} columns",
        )  # fmt: skip
    right.set_yticks(place, PARTS)
    right.invert_yaxis()
    right.set_axisbelow(True)
    right.set(xlabel="seconds", title=f"parts, all {N_ITER} iterations")
    right.legend(loc="upper center", bbox_to_anchor=(0.3, -0.16))
    save_picture(args, "bench_regfeal", figure)


def main() -> None:
    line = parser(__doc__)
    line.add_argument("--largest", type=int, default=ROW_COUNTS[-1], help="no more rows than this")
    line.add_argument(
        "--largest-double", type=int, default=ROW_COUNTS[-2], help="no more rows in float64"
    )
    args = line.parse_args()
    whole, by_n, by_d, shares = fits(args), growth(args), wide(args), parts(args)
    result = {
        "settings": f"sum of two sines of rotated uniform X, noise {NOISE}, ρ = {DECAY}, μ = "
        f"{STRENGTH}, r = 0.33, {N_ITER} iterations; against rows: prediction by the Hermite "
        "features; against the dimension: x1 + x2², ρ and μ chosen; parts: "
        f"ρ = {DECAY * D:g}/d; each fit once, in a process of its own, after a small one",
        "fits": whole,
        "by_n": by_n,
        "by_d": by_d,
        "parts": shares,
        "criteria": [] if args.smoke else judge(whole, by_n, by_d),
    }
    draw(args, write_json(args, "bench_regfeal", result))


if __name__ == "__main__":
    main()
