"""Experiment 1 of RegFeaL (Follain and Bach, arXiv:2307.12754): R² and features against n and d."""

from __future__ import annotations

import argparse
import math
import os
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import (
    OURS,
    PUBLISHED,
    SECOND,
    THIRD,
    criterion,
    parser,
    pictures,
    published,
    save_picture,
    say,
    start_method,
    write_json,
)
from dimension_reduction import PEERS
from regfeal import (
    EXPONENT,
    REFERENCE,
    TRUE,
    Sample,
    dimension_score,
    draw_sample,
    hermite_r2,
    regression_on,
    score_of,
)
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold

from gpukfl import KernelRidgeRegressor, RegFeaLRegressor, feature_score
from gpukfl.methods import Reweighting

# Variables or features, target, noise, tuples
SETTINGS = {
    "variable_sinus": ("variables", "sinus", 0.5, 5_000),
    "feature_sinus": ("features", "sinus", 0.5, 10_000),
    "variable_polynomial": ("variables", "polynomial", 2.5, 5_000),
    "feature_polynomial": ("features", "polynomial", 2.5, 5_000),
}
DIMENSIONS = (10, 40)
SIZES = (100, 300, 1000)
ALL_SIZES = (50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000)
SEEDS = (36, 37, 38, 39, 40)
N_ITER = 5
DECAYS = (0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)  # published grid of ρ
RIDGES = tuple(10.0 ** np.arange(-8.0, 5.0))  # of the kernel ridge regression, times n, unscaled

METHOD = "RegFeaL"
HERMITE = "RegFeaL, Hermite features"
TWO = "RegFeaL, told the dimension"
FIXED, OWN = "Hermite kernel ridge", "KernelRidgeRegressor"
METHODS = (METHOD, HERMITE, TWO, FIXED, OWN, *PEERS)
R2, FEATURE = "test_r2", "feature_score"
PUBLISHED_KEYS = {METHOD: "", FIXED: "_ridge", "MAVE": "_mave"}


@dataclass(frozen=True)
class Cell:
    """One data set."""

    setting: str
    d: int
    n: int
    seed: int
    backend: str = "numpy"
    tuples: int | None = None  # instead of the published number

    @property
    def sample(self) -> Sample:
        """Rows and true directions."""
        selection, target, noise, _ = SETTINGS[self.setting]
        drawn = draw_sample(target, self.d, self.seed, rotated=selection == "features", noise=noise)
        return drawn.first(self.n)

    def model(self, **settings: Any) -> RegFeaLRegressor:
        """Make the estimator; X has unit variance in expectation, and is taken as it is."""
        selection, _, _, tuples = SETTINGS[self.setting]
        return RegFeaLRegressor(
            self.tuples or tuples,
            selection=selection,
            optimizer=Reweighting(N_ITER, EXPONENT),
            scaling=None,
            random_state=0,
            backend=self.backend,
            **settings,
        )


# ---------------------------------------------------------------------- one data set


def run_cell(cell: Cell) -> dict[str, dict[str, Any]]:
    """Fit every method to one data set."""
    warnings.filterwarnings("ignore", category=UserWarning)
    sample = cell.sample
    X, y, P = sample.X, sample.y, sample.P
    begun = time.perf_counter()
    model = cell.model().fit(X, y)
    seconds = time.perf_counter() - begun
    found = model.n_features_estimated_
    feature = score_of(model, P)
    leading = np.asarray(model.R_)[:, np.argsort(-model.importances_, kind="stable")[:TRUE]]
    rows: dict[str, dict[str, Any]] = {
        METHOD: {
            R2: float(model.score(sample.X_test, sample.y_test)),
            FEATURE: feature,
            "dimension": found,
            "dimension_score": dimension_score(found, cell.d),
            "seconds": seconds,
            "degree_decay": model.degree_decay_,
            "strength": model.strength_,
            "tried": len(model.tuning_),
        },
        HERMITE: {R2: hermite_r2(model, sample), FEATURE: feature},
        TWO: {R2: regression_on(leading, sample), FEATURE: feature},
    }
    for name, peer in ((FIXED, hermite_kernel_ridge), (OWN, kernel_ridge)):
        begun = time.perf_counter()
        r2 = peer(sample)
        rows[name] = {R2: r2, "seconds": time.perf_counter() - begun}
    for name, directions in PEERS.items():
        begun = time.perf_counter()
        B = directions(X, y, TRUE)
        r2 = regression_on(B, sample)
        seconds = time.perf_counter() - begun
        rows[name] = {R2: r2, FEATURE: feature_score(P, B), "seconds": seconds}
    return rows


def kernel_ridge(sample: Sample) -> float:
    model = KernelRidgeRegressor(scaling=None, random_state=0, backend="numpy")
    model.fit(sample.X, sample.y)
    return float(model.score(sample.X_test, sample.y_test))


def hermite_kernel(X: np.ndarray, Z: np.ndarray, decay: float) -> np.ndarray:
    """Sum ρ^|α| H_α(x) H_α(z) over all α but 0, by Mehler's formula."""
    left, right = (np.sum(A**2, axis=1) for A in (X, Z))
    spread = 1.0 - decay**2
    exponent = decay * (X @ Z.T) - 0.5 * decay**2 * (left[:, None] + right[None, :])
    return np.exp(exponent / spread - 0.5 * X.shape[1] * math.log(spread)) - 1.0


def hermite_kernel_ridge(sample: Sample) -> float:
    """Test R² with the kernel before any feature is learned; ρ and the ridge by 5 folds."""
    X, y = sample.X, sample.y
    errors: dict[tuple[float, float], float] = {}
    folds = list(KFold(5).split(X))
    for decay in DECAYS:
        K = hermite_kernel(X, X, decay)
        for inside, outside in folds:
            predict = _ridge_path(K[np.ix_(inside, inside)], y[inside])
            for ridge in RIDGES:
                left = y[outside] - predict(K[np.ix_(outside, inside)], ridge)
                errors[decay, ridge] = errors.get((decay, ridge), 0.0) + float(left @ left)
    decay, ridge = min(errors, key=errors.__getitem__)
    predict = _ridge_path(hermite_kernel(X, X, decay), y)
    f = predict(hermite_kernel(sample.X_test, X, decay), ridge)
    return float(r2_score(sample.y_test, f))


def _ridge_path(K: np.ndarray, y: np.ndarray) -> Any:
    """Predictor for any ridge, by one eigendecomposition of the centred kernel."""
    mean = K.mean(axis=0)
    centred = K - mean[None, :] - mean[:, None] + mean.mean()
    values, axes = np.linalg.eigh(centred)
    along = axes.T @ (y - y.mean())

    def predict(K_new: np.ndarray, ridge: float) -> np.ndarray:
        dual = axes @ (along / (np.maximum(values, 0.0) + len(y) * ridge))
        dual -= dual.mean()
        return y.mean() + (K_new - mean[None, :]) @ dual

    return predict


# ---------------------------------------------------------------------- all of them


def cells_of(args: argparse.Namespace) -> list[Cell]:
    """Cells of the first repetition first."""
    if args.smoke:
        return [Cell(s, 5, 60, 36, args.backend, 100) for s in ("variable_sinus", "feature_sinus")]
    sizes = ALL_SIZES if args.full else SIZES
    seeds = SEEDS if args.full else SEEDS[: args.repetitions]
    return [
        Cell(setting, d, n, seed, args.backend)
        for seed in seeds
        for n in sizes
        for d in DIMENSIONS
        for setting in SETTINGS
    ]


def _within(job: tuple[Cell, float]) -> dict[str, dict[str, Any]] | None:
    cell, end = job
    return run_cell(cell) if time.time() < end else None


def run_all(args: argparse.Namespace, cells: list[Cell]) -> list[tuple[Cell, dict[str, Any]]]:
    """Run cells, several at once, each in one thread; those that are late are left out."""
    end = time.time() + 60.0 * args.minutes
    jobs = [(cell, end) for cell in cells]
    if args.jobs == 1 or args.smoke:
        return list(_told(cells, map(_within, jobs)))
    os.environ |= {"GPUKFL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with ProcessPoolExecutor(args.jobs, mp_context=start_method()) as pool:
        return list(_told(cells, pool.map(_within, jobs)))


def _told(cells: list[Cell], found: Any) -> Iterator[tuple[Cell, dict[str, Any]]]:
    for cell, rows in zip(cells, found, strict=True):
        if rows is None:
            continue
        ours = rows[METHOD]
        say(
            f"{cell.setting:19s} d {cell.d:2d} n {cell.n:4d} seed {cell.seed}: R2 {ours[R2]:.3f} "
            f"(Hermite {rows[HERMITE][R2]:.3f}), feature {ours[FEATURE]:.3f}, "
            f"dimension {ours['dimension']}, {ours['seconds']:.1f} s; "
            + ", ".join(f"{name} {rows[name][R2]:.3f}" for name in (FIXED, OWN, *PEERS))
        )
        yield cell, rows


def summary(
    runs: list[tuple[Cell, dict[str, Any]]], reference: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """Means over the repetitions, beside the published of the same repetitions."""
    groups: dict[tuple[str, int, int], list[tuple[int, dict[str, Any]]]] = {}
    for cell, rows in runs:
        groups.setdefault((cell.setting, cell.d, cell.n), []).append((cell.seed, rows))
    found = []
    for (setting, d, n), mine in groups.items():
        methods: dict[str, Any] = {}
        for name in METHODS:
            each = [rows[name] for _, rows in mine]
            methods[name] = {key: [row[key] for row in each] for key in each[0]}
            for key in (R2, FEATURE, "dimension_score", "seconds"):
                if key in each[0]:
                    methods[name][f"{key}_mean"] = float(np.mean(methods[name][key]))
                    methods[name][f"{key}_std"] = float(np.std(methods[name][key]))
        row = {"setting": setting, "d": d, "n": n, "seeds": [seed for seed, _ in mine]}
        known = {} if reference is None else reference["results"].get(setting, {}).get(f"d{d}", {})
        if n in known.get("range_n", ()):
            row["published"] = _published(known, n, row["seeds"])
        found.append({**row, "methods": methods})
    return found


def _published(known: dict[str, Any], n: int, seeds: list[int]) -> dict[str, Any]:
    """Give the published means of these repetitions, and spreads of all."""
    at, which = known["range_n"].index(n), [SEEDS.index(seed) for seed in seeds]
    found: dict[str, Any] = {"ceiling": float(known["scores_noise"]["mean"][at])}
    parts = {R2: "scores", FEATURE: "scores_feature_space", "dimension_score": "scores_dim"}
    for method, suffix in PUBLISHED_KEYS.items():
        cell = {}
        for key, part in parts.items():
            if part + suffix not in known:
                continue
            scores = np.asarray(known[part + suffix]["all"][at])
            cell[f"{key}_mean"] = float(scores[which].mean())
            cell[f"{key}_std"] = float(scores.std())
            cell[f"{key}_mean_of_all"] = float(scores.mean())
            cell[f"{key}_median"] = float(np.median(scores[which]))
        found[method] = cell
    return found


def judge(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean R² and feature score within the published error bar, or above."""
    found = []
    for row in rows:
        if "published" not in row:
            continue
        ours, theirs = row["methods"][METHOD], row["published"][METHOD]
        for key, title in ((R2, "R²"), (FEATURE, "feature score")):
            bar = theirs[f"{key}_std"] / math.sqrt(len(SEEDS))
            gap = ours[f"{key}_mean"] - theirs[f"{key}_mean"]
            text = (
                f"{row['setting'].replace('_', ' ')}, d = {row['d']}, n = {row['n']}: mean {title} "
                "within the published error bar, or above"
            )
            found.append(
                criterion(
                    text, gap >= -bar - 1e-9, ours=ours[f"{key}_mean"],
                    published=theirs[f"{key}_mean"], error_bar=bar,
                )
            )  # fmt: skip
    return found


# ---------------------------------------------------------------------- picture


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    rows = result["rows"]
    plt = pictures()
    dimensions = sorted({row["d"] for row in rows})
    settings = [s for s in SETTINGS if any(row["setting"] == s for row in rows)]
    size = (2.6 * len(settings) + 0.6, 2.3 * 2 * len(dimensions) + 0.7)
    figure, axes = plt.subplots(
        2 * len(dimensions), len(settings), figsize=size, sharex=True, squeeze=False
    )
    for i, d in enumerate(dimensions):
        for j, setting in enumerate(settings):
            mine = sorted(
                (row for row in rows if (row["d"], row["setting"]) == (d, setting)),
                key=lambda row: row["n"],
            )
            for key, ax in ((R2, axes[2 * i, j]), (FEATURE, axes[2 * i + 1, j])):
                _lines(ax, mine, key)
            axes[2 * i, j].set_title(f"{setting.replace('_', ' ')}, d = {d}")
        axes[2 * i, 0].set_ylabel("test R²")
        axes[2 * i + 1, 0].set_ylabel("feature score")
    sizes = sorted({row["n"] for row in rows})
    for ax in axes[-1]:
        ax.set(xscale="log", xlabel="rows n")
        ax.set_xticks(sizes, [str(n) for n in sizes])
        ax.minorticks_off()
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=5)
    save_picture(args, "regfeal_experiment1", figure)


def _lines(ax: Any, rows: list[dict[str, Any]], key: str) -> None:
    at = [row["n"] for row in rows]
    styles = {METHOD: (OURS, "-o"), FIXED: (THIRD, "-s"), "MAVE": (SECOND, "-^")}
    names = {METHOD: "gpukfl", FIXED: "Hermite kernel ridge", "MAVE": "MAVE, then kernel ridge"}
    for name, (colour, style) in styles.items():
        if f"{key}_mean" not in rows[0]["methods"][name]:
            continue
        mean, std = (
            np.array([row["methods"][name][f"{key}_{part}"] for row in rows])
            for part in ("mean", "std")
        )
        ax.plot(at, mean, style, color=colour, label=names[name])
        if name == METHOD:
            ax.fill_between(at, mean - std, mean + std, color=colour, alpha=0.12, linewidth=0)
    known = [row for row in rows if "published" in row]
    if known:
        cells = [row["published"][METHOD] for row in known]
        bars = [cell[f"{key}_std"] / math.sqrt(len(SEEDS)) for cell in cells]
        ax.errorbar(
            [row["n"] for row in known], [cell[f"{key}_mean"] for cell in cells], yerr=bars,
            fmt="--x", color=PUBLISHED, capsize=3, label="published",
        )  # fmt: skip
        if key == R2:
            level = float(np.mean([row["published"]["ceiling"] for row in known]))
            ax.axhline(level, color="#999999", linewidth=0.8, linestyle=":", label="noise ceiling")
    ax.set_ylim((-0.4, 1.0) if key == R2 else (-0.03, 1.05))


def main() -> None:
    line = parser(__doc__)
    line.add_argument("--full", action="store_true", help="all 11 sizes and 5 repetitions")
    line.add_argument("--repetitions", type=int, default=5, help="of every data set, at most 5")
    line.add_argument("--minutes", type=float, default=math.inf, help="cells after these are left")
    line.add_argument("--jobs", type=int, default=2, help="data sets at once, in one thread each")
    args = line.parse_args()
    reference = published(args, "experiment1", REFERENCE)
    rows = summary(run_all(args, cells_of(args)), reference)
    result = {
        "settings": "5000 tuples (feature sinus: 10 000), r = 0.33, 5 iterations, X as drawn, "
        "noise 0.5 (sinus) and 2.5 (polynomial), 5000 test points. ρ and μ by gpukfl's climb on a "
        "5 x 7 grid with the R² of the Hermite features (5 folds, from n = 1000 one hold-out set; "
        "at most 5000 tuples, 4 iterations), and of the best three the one with the best R² of "
        "kernel ridge regression on some leading directions; published: the whole 7 x 7 grid, 5 "
        "folds, R² after MARS. Then kernel ridge regression on that number of directions, or the "
        "Hermite features; published: MARS on the estimated dimension. SIR, pHd, OPG, "
        "MAVE: told the dimension 2, then the same kernel ridge regression; Hermite kernel ridge: "
        "the exact kernel with R = I, ρ and an unscaled ridge by 5 folds; error bars: published "
        "std / sqrt(5); published means are of the same repetitions",
        "rows": rows,
        "criteria": [] if args.smoke else judge(rows),
    }
    draw(args, write_json(args, "regfeal_experiment1", result))


if __name__ == "__main__":
    main()
