"""Experiment 1 of Follain and Bach: learning curves with three one-dimensional kernels."""

from __future__ import annotations

import argparse
import math
import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import (
    OURS,
    PUBLISHED,
    SECOND,
    THIRD,
    PublishedSearch,
    criterion,
    parser,
    pictures,
    published,
    save_picture,
    say,
    write_json,
)
from samples import largest_norm, uniform
from scipy.stats import ortho_group

from gpukfl.methods import BKerNNFit, RidgeSystem, ShapeFunctions, fit_bkernn
from gpukfl.operators import BrownianKernel, LinearOperator
from gpukfl.penalties import Basic
from gpukfl.solvers import ProximalGradient

N, N_TEST, D, K, M, NOISE = 214, 1024, 45, 5, 100, 0.5
MULTIPLES = (0.05, 0.1, 1.0, 0.5, 1.0, 1.5)  # of 2 max||x|| / n, in the published order
ITERATIONS, ITERATIONS_CV, FOLDS = 200, 20, 5
ALLOWED = 0.02  # share by which a final test error may exceed the published one


@dataclass(frozen=True, eq=False)
class DenseRidgeKernel(LinearOperator):
    """Sum over particles of a one-dimensional kernel of the difference, as a dense matrix."""

    X: np.ndarray  # (n, d)
    W: np.ndarray  # (d, m)
    K: np.ndarray  # (n, n)

    @classmethod
    def of(cls, X: np.ndarray, W: np.ndarray, /) -> DenseRidgeKernel:
        """Form the matrix; O(n² m)."""
        A = W.T @ X.T
        return cls(X, W, cls._between(A, A))

    @staticmethod
    @abstractmethod
    def profile(u: np.ndarray) -> np.ndarray:
        """Kernel at the differences u."""

    @staticmethod
    @abstractmethod
    def slope(u: np.ndarray) -> np.ndarray:
        """Its derivative, 0 at 0."""

    @classmethod
    def _between(cls, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        total = np.zeros((A.shape[1], B.shape[1]))
        for a, b in zip(A, B, strict=True):
            total += cls.profile(a[:, None] - b[None, :])
        return total / len(A)

    @property
    def n_samples(self) -> int:
        """Number of rows and columns."""
        return self.X.shape[0]

    def release(self) -> None:
        """Keep the matrix, which every product takes."""

    def _matmat(self, V: np.ndarray, /) -> np.ndarray:
        return self.K @ V

    def dense(self, reference: np.ndarray, /) -> np.ndarray:  # noqa: ARG002
        """Give the matrix."""
        return self.K

    def quadratic_gradient(self, alpha: np.ndarray, /) -> np.ndarray:
        """Differentiate the sum of alpha' K alpha with respect to W: (d, m)."""
        signed = np.empty((self.W.shape[1], self.n_samples))
        for j, a in enumerate(self.W.T @ self.X.T):
            slopes = self.slope(a[:, None] - a[None, :])
            signed[j] = np.sum(alpha * (slopes @ alpha), axis=1)
        return 2.0 * (signed @ self.X).T / self.W.shape[1]

    def at(self, X: np.ndarray, alpha: np.ndarray) -> np.ndarray:
        """Functions of the coefficients `alpha` at other samples."""
        return self._between(self.W.T @ X.T, self.W.T @ self.X.T) @ alpha


class ExponentialKernel(DenseRidgeKernel):
    """exp(-|u| / 2)."""

    @staticmethod
    def profile(u: np.ndarray) -> np.ndarray:
        """Kernel at the differences u."""
        return np.exp(-0.5 * np.abs(u))

    @staticmethod
    def slope(u: np.ndarray) -> np.ndarray:
        """Its derivative, 0 at 0."""
        return -0.5 * np.sign(u) * np.exp(-0.5 * np.abs(u))


class GaussianKernel(DenseRidgeKernel):
    """exp(-u² / 2)."""

    @staticmethod
    def profile(u: np.ndarray) -> np.ndarray:
        """Kernel at the differences u."""
        return np.exp(-0.5 * u * u)

    @staticmethod
    def slope(u: np.ndarray) -> np.ndarray:
        """Its derivative, 0 at 0."""
        return -u * np.exp(-0.5 * u * u)


class LibraryKernel(BrownianKernel):
    """The library's Brownian kernel, with predictions by its shape functions."""

    def at(self, X: np.ndarray, alpha: np.ndarray) -> np.ndarray:
        """Functions of the coefficients `alpha` at other samples."""
        return ShapeFunctions(*self.curves(alpha)).mean(self.W.T @ X.T)


KERNELS: dict[str, tuple[str, type, str]] = {
    "Brownian": ("BKerNN", LibraryKernel, OURS),
    "exponential": ("ExpKerNN", ExponentialKernel, SECOND),
    "Gaussian": ("GaussianKerNN", GaussianKernel, THIRD),
}
# The published search gives up after 8 halvings; the library's never takes a step that fails
SEARCHES: dict[str, tuple[type, float | str]] = {
    "published": (PublishedSearch, 500.0),
    "library": (ProximalGradient, 500.0),
    "library, auto step": (ProximalGradient, "auto"),
}


def draw_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Y = |2 pi sum_{a<5} (XP)_a| + noise, in the published order of draws."""
    np.random.seed(0)
    P = ortho_group.rvs(D)[:, :K]
    X = uniform(N, D)
    y = _target(X, P) + np.random.normal(0.0, NOISE, N)
    X_test = uniform(N_TEST, D)
    return X, y, X_test, _target(X_test, P) + np.random.normal(0.0, NOISE, N_TEST)


def _target(X: np.ndarray, P: np.ndarray) -> np.ndarray:
    return np.abs(2.0 * np.pi * (X @ P).sum(axis=1))


def fit(
    kernel: type,
    X: np.ndarray,
    y: np.ndarray,
    ridge: float,
    iterations: int,
    watch: Callable[..., None] = lambda *_: None,
    *,
    search: str = "published",
) -> BKerNNFit:
    """Fit with the basic penalty, from the published first particles."""
    kind, step = SEARCHES[search]
    W = np.random.RandomState(0).normal(0.0, math.sqrt(1.0 / X.shape[1]), (X.shape[1], M))
    return fit_bkernn(
        lambda V: kernel.of(X, V),
        RidgeSystem(y[:, None], ridge),
        W,
        penalty=Basic(),
        optimizer=kind(step_size=step, max_iter=iterations, tol=0.0),
        watch=watch,
    )


def error(found: BKerNNFit, X: np.ndarray, y: np.ndarray) -> float:
    """Mean squared error."""
    return float(np.mean((y - (found.intercept + found.kernel.at(X, found.alpha))[:, 0]) ** 2))


def cross_validate(
    kernel: type, X: np.ndarray, y: np.ndarray, ridges: list[float], iterations: int
) -> list[float]:
    """Mean squared error of every ridge over unshuffled folds."""
    folds = np.array_split(np.arange(len(y)), FOLDS)
    known: dict[float, float] = {}
    for ridge in ridges:
        if ridge in known:
            continue
        errors = []
        for fold in folds:
            rest = np.setdiff1d(np.arange(len(y)), fold)
            found = fit(kernel, X[rest], y[rest], ridge, iterations)
            errors.append(error(found, X[fold], y[fold]))
        known[ridge] = float(np.mean(errors))
    return [known[ridge] for ridge in ridges]


def learn(
    kernel: type, data: tuple[np.ndarray, ...], ridge: float, iterations: int, search: str
) -> dict[str, list[float]]:
    """Train and test error before the first step and after every one; objective after each."""
    X, y, X_test, y_test = data
    curves: dict[str, list[float]] = {"train_mse": [], "test_mse": []}

    def record(found: BKerNNFit) -> None:
        curves["train_mse"].append(error(found, X, y))
        curves["test_mse"].append(error(found, X_test, y_test))

    def watch(_k: int, _W: np.ndarray, finish: Callable[[], BKerNNFit], _history: Any) -> None:
        record(finish())

    record(fit(kernel, X, y, ridge, 0))
    last = fit(kernel, X, y, ridge, iterations, watch, search=search)
    return {**curves, "objective": last.history.objective}


def run_one(kernel: type, data: tuple[np.ndarray, ...], smoke: bool) -> dict[str, Any]:
    """Choose the ridge, then learn."""
    X, y, _, _ = data
    unit = 2.0 * largest_norm(X) / len(y)
    ridges = [multiple * unit for multiple in (MULTIPLES[:1] if smoke else MULTIPLES)]
    begun = time.perf_counter()
    errors = cross_validate(kernel, X, y, ridges, 1 if smoke else ITERATIONS_CV)
    best = int(np.argmin(errors))
    chosen = time.perf_counter()
    steps = 2 if smoke else ITERATIONS
    curves = learn(kernel, data, ridges[best], steps, "published")
    return {
        "multiples": MULTIPLES[: len(ridges)],
        "cv_mse": errors,
        "best_multiple": MULTIPLES[best],
        "seconds_cv": chosen - begun,
        "seconds_learning_curve": time.perf_counter() - chosen,
        **curves,
        "other_searches": {
            search: learn(kernel, data, ridges[best], steps, search)
            for search in SEARCHES
            if kernel is LibraryKernel and search != "published"
        },
    }


def add_published(row: dict[str, Any], known: dict[str, Any]) -> None:
    """Put the published curves beside ours: entry t is after t steps, t < 200."""
    count = min(len(row["test_mse"]), len(known["test_mse_curve"]))
    row["published_best_multiple"] = known["best_lambda_multiple_of_2max_norm_over_n"]
    row["published_cv_mse"] = [-v for v in known["cv_mean_neg_mse_per_candidate"]]
    for part in ("train", "test"):
        curve = known[f"{part}_mse_curve"][:count]
        ours = np.asarray(row[f"{part}_mse"][:count])
        row[f"published_{part}_mse"] = curve
        row[f"largest_relative_difference_{part}"] = float(np.abs(ours / curve - 1.0).max())
    row["compared_at"] = count - 1


def judge(rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Judge each kernel with the published search, and the Brownian one with the library's."""
    found = []
    for name, row in rows.items():
        at = row["compared_at"]
        known = row["published_test_mse"][at]
        text = f"{name}: test error at most {1 + ALLOWED} times the published"
        found.append(
            criterion(
                text,
                row["test_mse"][at] <= (1.0 + ALLOWED) * known,
                ours=row["test_mse"][at],
                published=known,
                steps=at,
                largest_relative_difference=row["largest_relative_difference_test"],
            )
        )
        for search, curves in row["other_searches"].items():
            ours = curves["test_mse"][at]
            text = f"{name}, search {search}: test error at most {1 + ALLOWED} times the published"
            passed = ours <= (1.0 + ALLOWED) * known
            found.append(criterion(text, passed, ours=ours, published=known))
        text = f"{name}: cross-validation chooses the published ridge"
        chosen, theirs = row["best_multiple"], row["published_best_multiple"]
        found.append(criterion(text, chosen == theirs, ours=chosen, published=theirs))
    last = {name: row["test_mse"][row["compared_at"]] for name, row in rows.items()}
    text = "the Brownian kernel has the lowest test error"
    found.append(criterion(text, min(last, key=last.__getitem__) == "Brownian", **last))
    return found


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    rows = result["rows"]
    plt = pictures()
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.6))
    for ax, part in zip(axes, ("train", "test"), strict=True):
        for name, row in rows.items():
            ax.plot(row[f"{part}_mse"], color=KERNELS[name][2], label=f"{name}, published search")
            if f"published_{part}_mse" in row:
                curve = row[f"published_{part}_mse"]
                at = np.unique(np.linspace(0, len(curve) - 1, 21).astype(int))
                label = "published" if name == "Gaussian" else None
                ax.plot(at, np.asarray(curve)[at], "x", color=PUBLISHED, label=label)
            for (search, curves), style in zip(
                row["other_searches"].items(), ("--", ":"), strict=False
            ):
                label = f"{name}, {search} search".replace(", auto step search", ", auto step")
                ax.plot(curves[f"{part}_mse"], style, color=OURS, label=label)
        ax.set_yscale("log" if part == "train" else "linear")
        ax.set_xlabel("steps")
        ax.set_ylabel(f"{part} mean squared error")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    save_picture(args, "experiment1", figure)


def main() -> None:
    args = parser(__doc__).parse_args()
    reference = published(args, "experiment1")
    data = draw_data()
    rows = {}
    for name, (theirs, kernel, _) in KERNELS.items():
        rows[name] = run_one(kernel, data, args.smoke)
        if reference is not None:
            add_published(rows[name], reference["methods"][theirs])
        say(f"{name:12s} test error {rows[name]['test_mse'][-1]:.5f}")
    result = {
        "settings": "n = 214, d = 45, m = 100, basic penalty, first step 500, 200 steps; ridge by "
        "5 unshuffled folds of 20 steps; computed on the host",
        "searches": "the published code takes a step that fails its test after 8 halvings; the "
        "library never does, which in this problem leads to another local minimum",
        "rows": rows,
        "criteria": judge(rows) if reference is not None and not args.smoke else [],
    }
    draw(args, write_json(args, "experiment1", result))


if __name__ == "__main__":
    main()
