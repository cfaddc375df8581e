"""Kernel ridge regression with all rows as centres: by products, by a factor, beside some centres.

Each at the same kernel and noise: processor time, residual, and the error on other rows. What the
same solves take of a GPU is predicted by `bench_gpu.py`, from counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from bench_fits import Target
from common import criterion, parser, say, write_json

from gpukfl.core._array import to_host
from gpukfl.kernels import Matern32
from gpukfl.linalg import CholeskyFactor, add_to_diagonal
from gpukfl.methods import (
    NystromSystem,
    centers_preconditioner,
    solve_by_early_stopping,
    solve_by_factor,
    solve_by_products,
)
from gpukfl.operators import KernelOperator
from gpukfl.partitioned._rows import Rows

CENTERS, N_TEST = 2_000, 5_000
LENGTHSCALE, SHIFT = 3.5, 0.02
SIZES = (3_000, 10_000, 30_000)
FACTORED = 10_000  # rows up to which a factor is made, in minutes of a core beyond
SHARE = 0.02  # of what the fit leaves, as the estimators ask for
HELD_OUT = 2_000, 0.05  # rows at most, and their share

Solve = Callable[[], tuple[np.ndarray, np.ndarray, dict[str, Any]]]


def ways(n: int, n_centers: int) -> dict[str, Solve]:
    """Return solvers on n rows, which give centres, coefficients and how they ended."""
    X, y = Target().draw(n, 3)
    kernel, Y = Matern32(LENGTHSCALE), (y - y.mean())[:, None]
    index = np.sort(np.random.default_rng(0).choice(n, min(n_centers, n), replace=False))

    def make_system() -> NystromSystem:
        operator = KernelOperator(kernel, Rows(X, X[:0, 0]), X[index], keep=True)
        return NystromSystem.from_rows(operator, Y, None)

    def by_centers() -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
        alpha, _ = make_system().solve(SHIFT / n)
        return X[index], to_host(alpha), {}

    def by_products() -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
        system = make_system()
        factors = system.factors(SHIFT / n)
        inverse = centers_preconditioner(system.operator, *factors, None, shift=SHIFT)
        found = solve_by_products(
            kernel, X, Y, None, shift=SHIFT, precondition=inverse, share=SHARE
        )
        return X, to_host(found.alpha), told(found)

    def by_early_stopping() -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
        system = make_system()
        order = np.concatenate([index, np.setdiff1d(np.arange(n), index)])
        centers = KernelOperator(kernel, Rows(X[order], X[:0, 0]), X[index], keep=True)
        found = solve_by_early_stopping(
            kernel,
            X[order],
            Y[order],
            None,
            shift=SHIFT,
            centers=centers,
            factors=system.factors(SHIFT / n),
            n_held=min(HELD_OUT[0], int(HELD_OUT[1] * n)),
        )
        return X[order], to_host(found.alpha), told(found)

    def by_factor() -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
        found = solve_by_factor(kernel, X, Y, None, shift=SHIFT)
        return X, to_host(found.alpha), told(found)

    def by_wide_factor() -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
        K = KernelOperator(kernel, Rows(X, X[:0, 0]), X).dense()
        alpha = CholeskyFactor.factor(add_to_diagonal(K, SHIFT), overwrite=True).solve(Y)
        return X, to_host(alpha), {}

    found: dict[str, Solve] = {
        f"{min(n_centers, n)} centres": by_centers,
        "all rows, products in float32": by_products,
        "all rows, until the error stops": by_early_stopping,
    }
    if n > FACTORED:
        return found
    return {
        **found,
        "all rows, factor in float32": by_factor,
        "all rows, factor in float64": by_wide_factor,
    }


def told(found: Any) -> dict[str, Any]:
    ended = {"status": found.status.name, "products": found.n_iter, "residual": found.residual}
    if not found.errors:
        return ended
    return {
        **ended,
        "held_out_errors": found.errors,
        "held_out_error_of_centres": found.centers_error,
    }


def measure(n: int, n_centers: int) -> list[dict[str, Any]]:
    """Solve n rows in every way."""
    X, y = Target().draw(N_TEST, 4)
    mean, rows = Target().draw(n, 3)[1].mean(), []
    for name, solve in ways(n, n_centers).items():
        begun = time.process_time()
        Z, alpha, ended = solve()
        seconds = time.process_time() - begun
        operator = KernelOperator(Matern32(LENGTHSCALE), Rows(X, X[:0, 0]), Z)
        error = float(np.sqrt(np.mean((to_host(operator @ alpha)[:, 0] + mean - y) ** 2)))
        rows.append({"n": n, "way": name, "processor_seconds": seconds, "rmse": error, **ended})
        more = f", residual {ended['residual']:.1e}, {ended['products']} products" if ended else ""
        say(f"n {n:6d}, {name:30s} {seconds:7.2f} s, error {error:.4f}{more}")
    return rows


def judge(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for n in sorted({row["n"] for row in rows}):
        some, products, early, *factors = (row for row in rows if row["n"] == n)
        near = max(abs(row["rmse"] / products["rmse"] - 1.0) for row in (early, *factors))
        text = f"n = {n:,}: with all rows every way has the same error within .5 %"
        found.append(criterion(text, near <= 5e-3, largest=near))
        text = f"n = {n:,}: all rows err by less than centres"
        gain = 1.0 - early["rmse"] / some["rmse"]
        found.append(criterion(text, gain > 0, gain=gain))
    return found


def main() -> None:
    line = parser(__doc__)
    line.add_argument("--largest", type=int, default=SIZES[-1], help="no more rows than this")
    args: argparse.Namespace = line.parse_args()
    sizes = (300,) if args.smoke else tuple(n for n in SIZES if n <= args.largest)
    rows = [row for n in sizes for row in measure(n, 100 if args.smoke else CENTERS)]
    result = {
        "settings": f"Matérn 3/2 of lengthscale {LENGTHSCALE}, noise of {SHIFT:g} of the "
        f"function's variance, {CENTERS} uniform centres; 20 features of which 3 rotated ones "
        f"matter; error on {N_TEST} noisy samples; processor time",
        "rows": rows,
        "criteria": [] if args.smoke else judge(rows),
    }
    write_json(args, "bench_all_rows", result)


if __name__ == "__main__":
    main()
