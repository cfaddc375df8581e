"""Knockoffs: false discoveries and power on columns of four kinds, three signals; time of a fit."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from common import (
    OURS,
    PUBLISHED,
    SECOND,
    criterion,
    draws_of,
    merged,
    parser,
    pictures,
    save_picture,
    say,
    shard_options,
    write_json,
    write_shard,
)

from gpukfl import KernelFeatureSelector
from gpukfl.kernels import ManhattanLaplace
from gpukfl.knockoffs import RankKnockoffs, combine_weights, contest, e_values, select_by_e_values
from gpukfl.methods import DenseSelection, FeatureSelection, competing_fits
from gpukfl.methods._selection_contest import StandardColumns, fit_lasso

N = P = 1000
DRAWS, LEVEL, COPIES, TIMES, RIDGE = 50, 0.1, 10, 2, 0.01
PENALTIES, FOLDS = 20, 3  # of the Lasso alone
BESIDE = 5  # one in so many data sets is given to methods that no criterion is about
LINEAR, EFFECT = 10, 0.2  # variables with a linear effect, and how large it is
ANCHOR = np.pi**0.5 / 2.0  # 1 / E|x - x'| of a standard normal variable
DESIGNS = ("independent", "equicorrelated 0.5", "autoregressive 0.8", "heavy tails")
SIGNALS = ("linear", "quadratic", "hierarchical")
METHODS = ("kernel", "Lasso", "thresholds")
COLOURS = dict(zip(METHODS, (OURS, SECOND, PUBLISHED), strict=True))
LABELS = {
    "kernel": "kernel selection with knockoffs",
    "Lasso": "Lasso with the same knockoffs",
    "thresholds": "kernel selection, thresholds by permutation",
}


def draw_columns(design: str, n: int, p: int, rng: np.random.Generator) -> np.ndarray:
    Z = rng.standard_normal((n, p))
    if design == "equicorrelated 0.5":
        return 0.5**0.5 * (Z + rng.standard_normal((n, 1)))
    if design == "autoregressive 0.8":
        for j in range(1, p):
            Z[:, j] = 0.8 * Z[:, j - 1] + 0.6 * Z[:, j]
    if design == "heavy tails":
        Z = rng.standard_t(4, (n, p)) / 2.0**0.5
    return Z


def draw_data(
    design: str, signal: str, n: int, p: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw columns, a target, and which variables matter: spread evenly over the columns."""
    rng = np.random.default_rng([seed, DESIGNS.index(design), SIGNALS.index(signal)])
    X = draw_columns(design, n, p, rng)
    count = {"linear": LINEAR, "quadratic": 2, "hierarchical": 3}[signal]
    true = ((np.arange(count) + 0.5) * p / count).astype(int)
    S, noise = X[:, true].T, rng.standard_normal(n)
    if signal == "linear":
        y = EFFECT * (-1.0) ** np.arange(count) @ S + noise
    elif signal == "quadratic":
        y = S[0] + S[1] ** 2 - 1.0 + 2.0 * noise
    else:
        y = S[0] + S[0] * S[1] + S[0] * S[1] * S[2] + noise
    return X, y, true


def kernel_weights(columns: np.ndarray, y: np.ndarray, p: int, seed: int) -> np.ndarray:
    objective = DenseSelection(ManhattanLaplace(), columns, y[:, None], RIDGE)
    algorithm, rng = FeatureSelection(anchor=ANCHOR), np.random.RandomState(seed)
    return combine_weights(*competing_fits(algorithm, objective, p, rng=rng)[0])


def lasso_weights(columns: np.ndarray, y: np.ndarray, p: int, _: int) -> np.ndarray:
    """Coefficients of a Lasso whose penalty, one of twenty, three folds chose."""
    n = len(y)
    whole = StandardColumns.standardize(columns, np.full((n, 1), 1.0 / n))
    penalties = np.abs(whole.products(y)).max() * np.geomspace(1.0, 0.02, PENALTIES)
    errors = np.zeros(PENALTIES)
    for held in np.array_split(np.arange(n), FOLDS):
        X, t = np.delete(columns, held, axis=0), np.delete(y, held)
        fold = StandardColumns.standardize(X, np.full((len(t), 1), 1.0 / len(t)))
        for k, coef in enumerate(lasso_path(fold, t - t.mean(), penalties)):
            some = np.flatnonzero(coef)
            Z = (columns[np.ix_(held, some)] - fold.mean[some]) * fold.scale[some]
            errors[k] += np.sum((y[held] - t.mean() - Z @ coef[some]) ** 2)
    chosen = penalties[: int(np.argmin(errors)) + 1]
    return np.abs(lasso_path(whole, y, chosen)[-1]).reshape(-1, p)


def lasso_path(columns: StandardColumns, y: np.ndarray, penalties: np.ndarray) -> list[np.ndarray]:
    coef, left, found = np.zeros(len(columns)), y, []
    for penalty in penalties:
        coef, left = fit_lasso(columns, y, penalty, coef, left)
        found.append(coef)
    return found


WEIGHTS: dict[str, Callable[..., np.ndarray]] = {"kernel": kernel_weights, "Lasso": lasso_weights}


def judged(found: np.ndarray, true: np.ndarray) -> dict[str, Any]:
    """Share of false ones among the found, and share of the true ones that were found."""
    hits = int(np.isin(np.flatnonzero(found), true).sum())
    count = int(found.sum())
    return {"false": (count - hits) / max(count, 1), "power": hits / len(true), "found": count}


def repetition(design: str, signal: str, n: int, p: int, seed: int) -> dict[str, Any]:
    """One data set: every method, with the same copies."""
    X, y, true = draw_data(design, signal, n, p, seed)
    Z, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    copies = RankKnockoffs().of(Z, COPIES)
    rng, beside = np.random.RandomState(seed + 1), seed % BESIDE == 0
    names = [name for name in WEIGHTS if name == "kernel" or signal == "linear" or beside]
    values: dict[str, list[np.ndarray]] = {name: [] for name in names}
    seconds = dict.fromkeys(names, 0.0)
    for _ in range(TIMES):
        columns = np.concatenate([Z, copies.draw(rng)], axis=1)
        for name in names:
            begun = time.process_time()
            W = contest(WEIGHTS[name](columns, y, p, seed))
            seconds[name] += time.process_time() - begun
            values[name].append(e_values(W, level=LEVEL / 2, copies=COPIES))
    found = {name: select_by_e_values(np.mean(values[name], axis=0), LEVEL) for name in names}
    if beside:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where nothing is selected
            plain = KernelFeatureSelector(random_state=seed).fit(X, y)
        found["thresholds"] = plain.get_support()
    return {**{name: judged(found[name], true) for name in found}, "seconds": seconds}


def summary(design: str, signal: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {"design": design, "signal": signal, "draws": len(runs), "seconds": {}}
    for name in METHODS:
        mine = [run for run in runs if name in run]
        if not mine:
            continue
        row[f"{name} draws"] = len(mine)
        for key in ("false", "power"):
            values = np.array([run[name][key] for run in mine])
            error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0.0
            row[f"{name} {key}"] = {"mean": float(values.mean()), "standard_error": float(error)}
        if name in WEIGHTS:
            row["seconds"][name] = float(np.mean([run["seconds"][name] for run in mine]))
    return row


def told(row: dict[str, Any]) -> str:
    parts = [
        f"{name} {row[f'{name} false']['mean']:.3f} / {row[f'{name} power']['mean']:.2f}"
        for name in METHODS
        if f"{name} false" in row
    ]
    return f"{row['design']}, {row['signal']}: false / power: " + ", ".join(parts)


def measure_time(signal: str, n: int, p: int) -> dict[str, Any]:
    """Processor seconds of a selection, and of one with knockoffs."""
    X, y, _ = draw_data("independent", signal, n, p, 0)
    seconds = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small sizes: few rows, nothing found
        for control in (None, "fdr"):
            begun = time.process_time()
            KernelFeatureSelector(error_control=control, random_state=0).fit(X, y)
            seconds.append(time.process_time() - begun)
    row = {"signal": signal, "n": n, "p": p, "selection": seconds[0], "knockoffs": seconds[1]}
    say(f"{signal}: a selection {seconds[0]:.1f} s, with knockoffs {seconds[1]:.1f} s")
    return row


def judge(rows: list[dict[str, Any]], times: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for row in rows:
        false, power = row["kernel false"], row["kernel power"]
        where = f"{row['design']}, {row['signal']}"
        most = LEVEL + 2.0 * false["standard_error"]
        text = f"{where}: false discoveries at most {LEVEL:g} and two standard errors"
        found.append(criterion(text, false["mean"] <= most, mean=false["mean"]))
        if row["signal"] == "linear":
            least, text = row["Lasso power"]["mean"] - 0.05, "the Lasso's less 0.05"
        else:
            least, text = 0.9, "0.9 where thresholds by permutation find as much"
        asked = row["signal"] == "linear" or row["thresholds power"]["mean"] >= least
        passed = power["mean"] >= least if asked else None
        found.append(criterion(f"{where}: power at least {text}", passed, mean=power["mean"]))
    for row in times:
        text = f"n = {row['n']}, p = {row['p']}, {row['signal']}: at most 5 times a selection"
        ratio = row["knockoffs"] / row["selection"]
        found.append(criterion(text, ratio <= 5.0, ratio=ratio))
    return found


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    rows = result["rows"]
    plt = pictures()
    figure, axes = plt.subplots(2, len(SIGNALS), figsize=(10.5, 6.0), sharex=True, sharey="row")
    for column, signal in enumerate(SIGNALS):
        mine = [row for row in rows if row["signal"] == signal]
        for axis, key in zip(axes[:, column], ("power", "false"), strict=True):
            for k, name in enumerate(METHODS):
                there = [i for i, row in enumerate(mine) if f"{name} {key}" in row]
                cells = [mine[i][f"{name} {key}"] for i in there]
                axis.errorbar(
                    np.array(there) + 0.15 * (k - 1),
                    [cell["mean"] for cell in cells],
                    [2.0 * cell["standard_error"] for cell in cells],
                    fmt="o", color=COLOURS[name], label=LABELS[name],
                )  # fmt: skip
        axes[0, column].set(title=signal, ylim=(-0.05, 1.05))
        axes[1, column].axhline(LEVEL, color=PUBLISHED, linestyle=":")
        names = [row["design"] for row in mine]
        axes[1, column].set_xticks(range(len(mine)), names, rotation=20, ha="right")
    axes[0, 0].set_ylabel("share of true columns found")
    axes[1, 0].set_ylabel("share of false columns\namong those found")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    save_picture(args, "bench_knockoffs", figure)


def runs_of(args: argparse.Namespace, cells: list[str], n: int, p: int) -> dict[str, Any]:
    """Run draws of cells, which are called DESIGN/SIGNAL; a shard is written after each of them."""
    runs: dict[str, Any] = {cell: [] for cell in cells}
    for seed in draws_of(args.draws):
        for cell in cells:
            design, signal = cell.split("/")
            runs[cell].append({"seed": seed, **repetition(design, signal, n, p, seed)})
            say(f"draw {seed}, " + told(summary(design, signal, runs[cell])))
            if args.shard:
                write_shard(args, {"n": n, "p": p}, runs)
    return runs


def main() -> None:
    cells = [f"{design}/{signal}" for design in DESIGNS for signal in SIGNALS]
    line = parser(__doc__)
    shard_options(line, DRAWS, cells)
    line.add_argument("--rows", type=int, default=N, help="n of the data sets")
    line.add_argument("--variables", type=int, default=P, help="p of the data sets")
    args = line.parse_args()
    n, p, timed = args.rows, args.variables, P
    if args.smoke:
        n, p, timed, args.draws = 80, 20, 20, "1"
    if args.merge:
        runs = merged(args.merge, {"n": n, "p": p})
    else:
        runs = runs_of(args, args.only or cells, n, p)
    if args.shard:
        return
    rows = [summary(*cell.split("/"), runs[cell]) for cell in cells if cell in runs]
    fewest = min(row["draws"] for row in rows)
    times = [measure_time(signal, timed, timed) for signal in SIGNALS[1:]]
    result = {
        "settings": f"n = {n}, p = {p}, {fewest} data sets of each kind or more, level "
        f"{LEVEL:g}; {TIMES} draws of {COPIES} copies by ranks, λ = {RIDGE:g}, a Lasso joined "
        f"or alone; linear: {LINEAR} effects of ±{EFFECT:g} and N(0, 1); quadratic: "
        "x1 + (x2² - 1) + N(0, 4); hierarchical: x1 + x1 x2 + x1 x2 x3 + N(0, 1), with variables "
        "spread over the columns; heavy tails: Student's t of 4 degrees of freedom; the Lasso "
        "alone with a penalty by three folds; thresholds by permutation, as without error "
        f"control; one in {BESIDE} data sets for the Lasso on other than linear signals, and for "
        f"thresholds; time at n = p = {timed}, of the processor",
        "rows": rows,
        "times": times,
        "criteria": [] if args.smoke else judge(rows, times),
    }
    draw(args, write_json(args, "bench_knockoffs", result))


if __name__ == "__main__":
    main()
