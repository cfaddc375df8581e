"""Whole fits of BKerNN: time, growth, accuracy and memory against the number of samples."""

from __future__ import annotations

import argparse
import itertools
import time
from typing import Any

import numpy as np
from common import (
    OURS,
    PUBLISHED,
    in_subprocess,
    parser,
    pictures,
    published_steps,
    save_picture,
    say,
    stopped_by_count,
    timed,
    write_json,
)
from samples import largest_norm, openml_sample, standardized_split
from scipy.stats import ortho_group

from gpukfl.solvers import ProximalGradient

D, K, M, ITERATIONS, NOISE, N_TEST = 20, 3, 50, 20, 0.1, 10_000
SIZES = (1_000, 10_000, 100_000, 1_000_000)


class Target:
    """y = |sum_{a<3} sin((XP)_a)| + noise, scaled to mean 0 and variance 1 on a first draw."""

    def __init__(self) -> None:
        self.P = ortho_group.rvs(D, random_state=0)[:, :K]
        sample = np.random.default_rng(1).uniform(-1.0, 1.0, (100_000, D))
        y = self._raw(sample, np.random.default_rng(2))
        self.mean, self.scale = y.mean(), y.std()

    def _raw(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.abs(np.sin(X @ self.P).sum(axis=1)) + rng.normal(0.0, NOISE, len(X))

    def draw(self, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw samples and targets, float64."""
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1.0, 1.0, (n, D))
        return X, (self._raw(X, rng) - self.mean) / self.scale


def fit_seconds(model: Any, X: Any, y: Any) -> float:
    """Wall clock of one fit; results are on the library of `X`, the host, at the end."""
    begun = time.perf_counter()
    with stopped_by_count():
        model.fit(X, y)
    return time.perf_counter() - begun


def compile_first(backend: str, dtype: str = "float64", **options: Any) -> None:
    """Fit a small problem, so that compilation is not timed."""
    from gpukfl import BKerNNRegressor

    X, y = Target().draw(700, 9)
    few = ProximalGradient(max_iter=2)
    fit_seconds(BKerNNRegressor(8, optimizer=few, backend=backend, **options), X.astype(dtype), y)


def measure_fit(n: int, backend: str) -> dict[str, Any]:
    """One fit of n samples, in its own process."""
    from gpukfl import BKerNNRegressor

    X, y = Target().draw(n, 3)
    X_test, y_test = Target().draw(N_TEST, 4)
    compile_first(backend)
    model = BKerNNRegressor(
        M,
        optimizer=ProximalGradient("auto", ITERATIONS, 0.0),
        random_state=0,
        backend=backend,
        scaling=None,
    )
    seconds = fit_seconds(model, X, y)
    begun = time.perf_counter()
    test_r2 = model.score(X_test, y_test)
    return {
        "n": n,
        "seconds": seconds,
        "test_r2": test_r2,
        "predict_us_per_row": 1e6 * (time.perf_counter() - begun) / N_TEST,
        "ridge": model.ridge_,
        "iterations": model.n_iter_,
        "knots": model.n_knots_,
        "solve_residual": model.solve_residual_,
        "data_mb": (X.nbytes + y.nbytes) / 1e6,
        "place": model.place_,
    }


def small_fit(args: argparse.Namespace) -> dict[str, Any]:
    """Time one warm fit at the settings of Experiment 6: superconduct, 400 rows."""
    from gpukfl import BKerNNRegressor

    X, y, source = openml_sample(args, "superconduct")
    X, y, X_test, y_test = standardized_split(X, y)
    model = BKerNNRegressor(
        2 * X.shape[1],
        ridge=largest_norm(X) / len(y),
        random_state=0,
        scaling=None,
        backend=args.backend,
        **published_steps(y, step_size=50, max_iter=2 if args.smoke else 40),
    )
    with stopped_by_count():
        seconds = timed(lambda: model.fit(X, y), repeats=1 if args.smoke else 3)
    row = {
        "data": "superconduct",
        "source": source,
        "n": len(y),
        "d": X.shape[1],
        "n_particles": model.n_particles,
        "iterations": model.n_iter_,
        "seconds": seconds,
        "test_r2": model.score(X_test, y_test),
    }
    say(f"superconduct, {row['iterations']} iterations: {seconds:.2f} s, R2 {row['test_r2']:.4f}")
    return row


def growth(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Ratios of neighbours, and the exponent of a power law through all times."""
    n, seconds = ([row[key] for row in rows] for key in ("n", "seconds"))

    def exponent(first: int) -> float | None:
        if len(rows) - first < 2:
            return None
        return float(np.polyfit(np.log(n[first:]), np.log(seconds[first:]), 1)[0])

    return {
        "time_ratios": [b / a for a, b in itertools.pairwise(seconds)],
        "size_ratios": [b / a for a, b in itertools.pairwise(n)],
        "exponent": exponent(0),
        "exponent_without_smallest": exponent(1),
    }


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    rows = result["rows"]
    plt = pictures()
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.6))
    n = np.asarray([row["n"] for row in rows], dtype=float)
    seconds = [row["seconds"] for row in rows]
    left.plot(n, seconds, "-o", color=OURS, label=f"{M} particles, {ITERATIONS} steps")
    left.plot(n, seconds[-1] * n / n[-1], "--", color=PUBLISHED, label="proportional to the rows")
    left.set_ylabel("seconds for the fit")
    used = [row["peak_anonymous_mb"] - row["anonymous_before_mb"] for row in rows]
    right.plot(n, used, "-o", color=OURS, label="peak, without the imports")
    right.plot(n, [row["data_mb"] for row in rows], "--", color=PUBLISHED, label="the data")
    right.set_ylabel("memory (MB)")
    for ax in (left, right):
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("rows n")
        ax.legend(loc="upper left")
    save_picture(args, "bench_fits", figure)


def main() -> None:
    args = parser(__doc__).parse_args()
    rows = []
    for n in (700, 2_000) if args.smoke else SIZES:
        rows.append(in_subprocess(measure_fit, n, args.backend))
        row = rows[-1]
        say(
            f"n {n:8d}: {row['seconds']:8.2f} s, R2 {row['test_r2']:.4f}, "
            f"peak {row['peak_anonymous_mb']:.0f} MB ({row['anonymous_before_mb']:.0f} MB imports)"
        )
    small = small_fit(args)
    result = {
        "settings": f"d = {D}, m = {M}, {ITERATIONS} steps, tol 0, ridge auto, concave feature "
        f"penalty, float64; y = |sum of {K} sines of rotated coordinates| + noise of std {NOISE}, "
        f"standardised; R2 on {N_TEST} noisy samples; each fit once, in a process of its own, "
        "after a small one has compiled",
        "rows": rows,
        "growth": growth(rows),
        "small_fit": small,
    }
    say(f"growth: {result['growth']}")
    draw(args, write_json(args, "bench_fits", result))


if __name__ == "__main__":
    main()
