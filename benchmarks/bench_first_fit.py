"""How long a first `gpukfl.fit` takes, with its search, and what it reaches on held-out rows.

Beside scikit-learn's HistGradientBoosting and LightGBM with their defaults, in the same process.
With ``--sets`` on real data instead, to be compared with an older run by ``--before FILE``.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import OURS, ROOT, SECOND, criterion, parser, pictures, save_picture, say, write_json
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

DATA = ROOT.parent / "shared" / "data"
METHODS = ("bkernn", "hkrr", "selection", "rkhs_weighting", "regfeal")
SIZES = ((300, 10), (300, 50), (400, 10), (1_300, 64), (10_000, 20), (100_000, 10), (100_000, 50))
LIMITS = {(400, 10): 1.5, (1_300, 64): 5.0, (10_000, 20): 20.0, (100_000, 50): 60.0}  # seconds
LOST = 0.003  # of a held-out score, at most
N_TEST = 2_000

SETTINGS = (
    "everything by default, with its search, after a small fit has compiled; float64; R², or share "
    "of right labels, on other rows"
)

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # X, y, and those held out


def draw_data(n: int, d: int) -> Split:
    """Draw y = sin(1.5 x_1) + x_2 x_3 + noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n + N_TEST, d))
    y = np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(len(X))
    return X[:n], y[:n], X[n:], y[n:]


def real_data(folder: Path) -> Iterator[tuple[str, Split]]:
    """Give every set: at most 400 rows of the small ones to fit, 2000 of the larger."""
    for path in sorted((folder / "openml17").glob("*.npz")):
        found = np.load(path)
        n = 400 if len(found["y"]) == 1_000 else int(0.8 * len(found["y"]))
        yield path.stem, _first(found["X"], found["y"].ravel(), n)
    for path in sorted((folder / "uci").glob("*.npz")):
        found = np.load(path)
        yield path.stem, _shuffled(found["X"], found["y"].ravel(), 2_000)
    for load in (load_diabetes, load_breast_cancer, load_iris, load_wine, load_digits):
        X, y = load(return_X_y=True)
        yield load.__name__.removeprefix("load_"), _shuffled(X, y, int(0.7 * len(y)))
    for name, n in (("adults", 2_000), ("skin", 2_000), ("mnist17_t10k", 1_000)):
        found = np.load(folder / "classification" / f"{name}.npz")
        X, y = (
            (found["X_train"], found["y_train"]) if name == "adults" else (found["X"], found["y"])
        )
        yield name, _shuffled(X.astype(np.float64), y, n)


def smallest() -> Iterator[tuple[str, Split]]:
    """Give one small set that needs no file."""
    yield "iris", _shuffled(*load_iris(return_X_y=True), 105)


def _first(X: np.ndarray, y: np.ndarray, n: int) -> Split:
    return X[:n], y[:n], X[n:], y[n:]


def _shuffled(X: np.ndarray, y: np.ndarray, n: int) -> Split:
    order = np.random.default_rng(0).permutation(len(y))[: n + N_TEST]
    return _first(X[order], y[order], n)


def ours(args: argparse.Namespace, method: str) -> Callable[..., Any]:
    import gpukfl

    def fit(X: np.ndarray, y: np.ndarray) -> Any:
        return gpukfl.fit(X, y, method=method, backend=args.backend, progress=False)

    return fit


def boosters() -> dict[str, Callable[..., Any]]:
    """Give HistGradientBoosting, and LightGBM where it is installed."""

    def histogram(X: np.ndarray, y: np.ndarray) -> Any:
        regression = HistGradientBoostingRegressor, HistGradientBoostingClassifier
        return regression[_is_classes(y)](random_state=0).fit(X, y)

    found = {"HistGradientBoosting": histogram}
    try:
        from lightgbm import LGBMClassifier, LGBMRegressor
    except ImportError:
        say("LightGBM is not installed: left out")
        return found

    def light(X: np.ndarray, y: np.ndarray) -> Any:
        kind = (LGBMRegressor, LGBMClassifier)[_is_classes(y)]
        return kind(random_state=0, verbose=-1).fit(X, y)

    return {**found, "LightGBM": light}


def _is_classes(y: np.ndarray) -> bool:
    return y.dtype.kind in "iu"


def measure(name: str, fit: Callable[..., Any], split: Split, **about: Any) -> dict[str, Any]:
    """Fit, in wall clock and processor time, and score the rows held out."""
    X, y, X_test, y_test = split
    begun, cpu = time.perf_counter(), time.process_time()
    model = fit(X, y)
    wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    row = {"method": name, **about, "n": len(y), "d": X.shape[1], "seconds": wall}
    row |= {"processor_seconds": cpu, "score": float(model.score(X_test, y_test))}
    if _is_classes(y):
        row["log_loss"] = _log_loss(model, X_test, y_test, np.unique(y))
    shown = " ".join(f"{key} {row[key]:.4g}" for key in ("seconds", "processor_seconds", "score"))
    say(f"{about.get('set', f'n = {len(y):,}, d = {X.shape[1]}')}, {name}: {shown}")
    return row


def _log_loss(model: Any, X: np.ndarray, y: np.ndarray, classes: np.ndarray) -> float:
    shares = np.asarray(model.predict_proba(X), dtype=np.float64)
    shares = np.clip(shares[np.arange(len(y)), np.searchsorted(classes, y)], 1e-15, 1.0)
    return float(-np.mean(np.log(shares)))


def judge(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        criterion(
            f"{row['method']}: at most {LIMITS[row['n'], row['d']]:g} s at n = {row['n']:,}, "
            f"d = {row['d']}",
            row["seconds"] <= LIMITS[row["n"], row["d"]],
            seconds=row["seconds"],
        )
        for row in rows
        if (row["n"], row["d"]) in LIMITS and row["method"] in METHODS
    ]


def compare(rows: list[dict[str, Any]], before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Hold scores against those of an older run."""
    known = {(row["set"], row["method"]): row["score"] for row in before}
    judged = []
    for method in dict.fromkeys(row["method"] for row in rows if row["method"] in METHODS):
        gains = {
            row["set"]: row["score"] - known[row["set"], method]
            for row in rows
            if row["method"] == method and (row["set"], method) in known
        }
        lost = {name: gain for name, gain in gains.items() if gain < -LOST}
        text = f"{method}: no held-out score is lower by more than {LOST}"
        mean = float(np.mean(list(gains.values())))
        judged.append(criterion(text, not lost, mean_gain=mean, lost=lost))
    return judged


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    rows = result["rows"]
    plt = pictures()
    sizes = sorted({(row["n"], row["d"]) for row in rows})
    figure, ax = plt.subplots(figsize=(9.0, 4.2))
    names = list(dict.fromkeys(row["method"] for row in rows))
    for name, marker in zip(names, "os^Dvxp+*", strict=False):
        mine = {(row["n"], row["d"]): row["seconds"] for row in rows if row["method"] == name}
        colour = OURS if name in METHODS else SECOND
        ax.plot([mine[size] for size in sizes], marker, color=colour, alpha=0.8, ms=7, label=name)
    ax.set_xticks(range(len(sizes)), [f"{n:,}\n× {d}" for n, d in sizes])
    ax.set(yscale="log", xlabel="rows × columns", ylabel="seconds, search included")
    figure.legend(loc="outside right center", title="gpukfl (blue), others")
    save_picture(args, "bench_first_fit", figure)


def run_sizes(args: argparse.Namespace, fits: dict[str, Callable[..., Any]]) -> None:
    sizes = ((120, 3),) if args.smoke else SIZES
    rows = [measure(m, fit, draw_data(*size)) for size in sizes for m, fit in fits.items()]
    result = {
        "settings": f"y = sin(1.5 x_1) + x_2 x_3 + noise of std 0.3; {SETTINGS}",
        "rows": rows,
        "criteria": [] if args.smoke else judge(rows),
    }
    draw(args, write_json(args, "bench_first_fit", result))


def run_sets(args: argparse.Namespace, fits: dict[str, Callable[..., Any]]) -> None:
    sets = smallest() if args.smoke else real_data(args.data or DATA)
    rows = [measure(m, fit, one, set=name) for name, one in sets for m, fit in fits.items()]
    before = [] if args.before is None else json.loads(args.before.read_text())["rows"]
    result = {
        "settings": f"real data, at most 2000 rows to fit; {SETTINGS}",
        "rows": rows,
        "before": [row for row in before if row["method"] in METHODS],
        "criteria": compare(rows, before) if before else [],
    }
    write_json(args, "bench_first_fit_sets", result)


def main() -> None:
    line = parser(__doc__)
    line.add_argument("--sets", action="store_true", help="real data instead of sizes")
    line.add_argument("--before", type=Path, help="JSON of an older run with --sets")
    line.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    args = line.parse_args()
    warnings.simplefilter("ignore")
    fits = {name: ours(args, name) for name in args.methods} | boosters()
    for fit in fits.values():  # compiles
        fit(*draw_data(200, 3)[:2])
    if args.smoke or not args.sets:
        run_sizes(args, fits)
    if args.smoke or args.sets:
        run_sets(args, fits)


if __name__ == "__main__":
    main()
