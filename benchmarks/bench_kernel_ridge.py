"""Kernel ridge regression: time, memory and accuracy of the solvers against the samples."""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from typing import Any

import numpy as np
from bench_fits import Target
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
from sklearn.exceptions import ConvergenceWarning

CENTERS, N_TEST = 1_000, 5_000
LENGTHSCALE, RIDGE = 3.5, 1e-5
EXACT, LARGE = (1_000, 3_000, 10_000), 1_000_000
MEMORY_BOUND = 100_000  # rows whose features scikit-learn holds at once
NYSTROM = (1_000, 10_000, 100_000, LARGE)
AGREE_ON, AGREE = 3_000, 1e-4
# solver, whether exact, sizes
METHODS: dict[str, tuple[bool, tuple[int, ...]]] = {
    "direct": (True, EXACT),
    "cg": (True, EXACT),
    "direct, centres": (False, NYSTROM),
    "falkon": (False, NYSTROM),
    "sklearn KernelRidge": (True, EXACT),
    "sklearn Nystroem + Ridge": (False, tuple(n for n in NYSTROM if n <= MEMORY_BOUND)),
}
STYLES = {
    "direct": (OURS, "-o"),
    "direct, centres": (OURS, "--s"),
    "cg": (THIRD, "-o"),
    "falkon": (THIRD, "--s"),
    "sklearn KernelRidge": (SECOND, "-o"),
    "sklearn Nystroem + Ridge": (SECOND, "--s"),
}


def model_of(method: str, n: int, backend: str, n_centers: int) -> Any:
    """Estimator with the same kernel and ridge as all others."""
    if method.startswith("sklearn"):
        return _peer(method, n, n_centers)
    from gpukfl import KernelRidgeRegressor

    solver, _, centres = method.partition(", ")
    taken = min(n_centers, n) if centres or solver == "falkon" else "auto"
    return KernelRidgeRegressor(
        ridge=RIDGE,
        lengthscale=LENGTHSCALE,
        solver=solver,
        n_centers=taken,
        random_state=0,
        backend=backend,
        scaling=None,
    )


def _peer(method: str, n: int, n_centers: int) -> Any:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    gamma = 0.5 / LENGTHSCALE**2
    if method == "sklearn KernelRidge":
        return KernelRidge(alpha=RIDGE * n, kernel="rbf", gamma=gamma)
    centres = min(n_centers, n)
    features = Nystroem(kernel="rbf", gamma=gamma, n_components=centres, random_state=0)
    return make_pipeline(features, Ridge(alpha=RIDGE * n))


def measure(method: str, n: int, backend: str, n_centers: int) -> dict[str, Any]:
    """One fit of n samples, in its own process; the targets have mean 0."""
    target = Target()
    (X, y), (X_test, y_test) = target.draw(n, 3), target.draw(N_TEST, 4)
    y_test, y = y_test - y.mean(), y - y.mean()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        model_of(method, 300, backend, 100).fit(X[:300], y[:300])  # compiles
        begun = time.perf_counter()
        model = model_of(method, n, backend, n_centers).fit(X, y)
        seconds = time.perf_counter() - begun
    begun = time.perf_counter()
    fitted = model.predict(X_test)
    return {
        "method": method,
        "n": n,
        "seconds": seconds,
        "predict_us_per_row": 1e6 * (time.perf_counter() - begun) / N_TEST,
        "test_r2": float(1.0 - np.mean((fitted - y_test) ** 2) / np.var(y_test)),
        "iterations": getattr(model, "n_iter_", None),
        "residual": getattr(model, "solve_residual_", None),
        "status": getattr(model, "status_", None),
        "data_mb": (X.nbytes + y.nbytes) / 1e6,
    }


def agreement(n: int, backend: str, n_centers: int) -> dict[str, float]:
    """Relative differences of predictions at test samples, in its own process."""
    target = Target()
    (X, y), (X_test, _) = target.draw(n, 3), target.draw(N_TEST, 4)
    y = y - y.mean()
    fitted = {}
    for method in METHODS:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=ConvergenceWarning)
            fitted[method] = model_of(method, n, backend, n_centers).fit(X, y).predict(X_test)

    def gap(one: str, other: str) -> float:
        return float(np.linalg.norm(fitted[one] - fitted[other]) / np.linalg.norm(fitted[other]))

    return {
        "cg and direct": gap("cg", "direct"),
        "falkon and direct with the same centres": gap("falkon", "direct, centres"),
        "direct and sklearn KernelRidge": gap("direct", "sklearn KernelRidge"),
    }


def growth(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Ratios of neighbouring sizes and times for each method."""
    found = {}
    for method in METHODS:
        mine = [row for row in rows if row["method"] == method]
        pairs = list(itertools.pairwise(mine))
        found[method] = {
            "size_ratios": [b["n"] / a["n"] for a, b in pairs],
            "time_ratios": [b["seconds"] / a["seconds"] for a, b in pairs],
        }
    return found


def judge(rows: list[dict[str, Any]], gaps: dict[str, float]) -> list[dict[str, Any]]:
    found = [
        criterion(f"{pair}: predictions agree within {AGREE:g}", value <= AGREE, relative=value)
        for pair, value in gaps.items()
        if " and " in pair  # memory is recorded beside
    ]
    at = {(row["method"], row["n"]): row for row in rows}
    for ours, theirs in (
        ("direct", "sklearn KernelRidge"),
        ("direct, centres", "sklearn Nystroem + Ridge"),
    ):
        n = max(n for method, n in at if method == theirs)
        a, b = at[ours, n], at[theirs, n]
        text = f"n = {n:,}: {ours} takes no more time than {theirs}, at the same R²"
        passed = a["seconds"] <= b["seconds"] and a["test_r2"] >= b["test_r2"] - 0.005
        found.append(criterion(text, passed, ours=a["seconds"], theirs=b["seconds"]))
    return found


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    rows = result["rows"]
    plt = pictures()
    figure, axes = plt.subplots(1, 3, figsize=(11.0, 3.9))
    for method, (colour, style) in STYLES.items():
        mine = [row for row in rows if row["method"] == method]
        n = [row["n"] for row in mine]
        axes[0].plot(n, [row["seconds"] for row in mine], style, color=colour, label=method)
        axes[1].plot(n, [row["test_r2"] for row in mine], style, color=colour)
        used = [row["peak_anonymous_mb"] - row["anonymous_before_mb"] for row in mine]
        axes[2].plot(n, used, style, color=colour)
    data = {row["n"]: row["data_mb"] for row in rows}
    axes[2].plot(sorted(data), [data[n] for n in sorted(data)], ":", color=PUBLISHED, label="data")
    labels = "seconds of a fit", "test R²", "memory, without the imports (MB)"
    for ax, label in zip(axes, labels, strict=True):
        ax.set(xscale="log", yscale="log", xlabel="rows n", title=label)
    axes[1].set_yscale("linear")
    axes[2].legend(loc="upper left")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncol=3)
    save_picture(args, "bench_kernel_ridge", figure)


def main() -> None:
    line = parser(__doc__)
    line.add_argument("--largest", type=int, default=LARGE, help="no more samples than this")
    args = line.parse_args()
    largest, n_centers, agree_on = args.largest, CENTERS, AGREE_ON
    if args.smoke:
        largest, n_centers, agree_on = 1_000, 100, 500
    rows = []
    for method, (_, sizes) in METHODS.items():
        for n in (n for n in sizes if n <= largest):
            row = in_subprocess(measure, method, n, args.backend, n_centers)
            rows.append(row)
            say(
                f"{method:24s} n {n:8d}: {row['seconds']:8.2f} s, R2 {row['test_r2']:.4f}, "
                f"peak {row['peak_anonymous_mb']:.0f} MB"
            )
    gaps = in_subprocess(agreement, agree_on, args.backend, n_centers)
    result = {
        "settings": f"Gaussian kernel of lengthscale {LENGTHSCALE}, ridge {RIDGE:g} times n, "
        f"{n_centers} uniform centres for the Nyström ones; 20 features of which 3 rotated ones "
        f"matter, noise of std 0.1, float64; R2 on {N_TEST} noisy samples; each fit once, in a "
        "process of its own, after a small one",
        "rows": rows,
        "agreement": {"n": agree_on, **{key: v for key, v in gaps.items() if " and " in key}},
        "growth": growth(rows),
        "criteria": [] if args.smoke else judge(rows, gaps),
    }
    draw(args, write_json(args, "bench_kernel_ridge", result))


if __name__ == "__main__":
    main()
