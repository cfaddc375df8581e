"""HKRR by evidence: time against the number of samples, and structures and kernels on real data.

Kernels and criteria are compared by cross-validation on the first 400 rows; the rest of the rows is
scored once, by those.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from bench_first_fit import draw_data, real_data
from common import ROOT, criterion, parser, say, write_json
from sklearn.model_selection import KFold

# Samples and features, centres, and seconds of all cores
SIZES = (
    (400, 10, "auto", 1.0),
    (2_000, 10, "auto", 40.0),
    (100_000, 10, 1_000, 360.0),
)
MODELS = {
    "hold-out": {},
    "evidence, Gaussian": {"criterion": "evidence"},
    "evidence, Matérn 3/2": {"criterion": "evidence", "kernel": "matern32"},
    "evidence, Matérn 3/2, low rank": {
        "criterion": "evidence",
        "kernel": "matern32",
        "structure": "low_rank",
    },
    "leave-one-out, Matérn 3/2": {"criterion": "loo", "kernel": "matern32"},
}
FOLDS = 5


def fitted(X: np.ndarray, y: np.ndarray, **options: Any) -> tuple[Any, float]:
    """Fit, and give the processor time that it takes."""
    from gpukfl import HKRRRegressor

    begun = time.process_time()
    model = HKRRRegressor(random_state=0, **options).fit(X, y)
    return model, time.process_time() - begun


def measure_size(n: int, d: int, n_centers: int | str) -> dict[str, Any]:
    X, y, X_test, y_test = draw_data(n, d)
    options = {"criterion": "evidence", "kernel": "matern52", "n_centers": n_centers}
    model, seconds = fitted(X, y, **options)
    row = {"n": n, "d": d, "n_centers": len(model.centers_), "processor_seconds": seconds}
    row |= {"score": model.score(X_test, y_test), "noise": float(model.noise_[0])}
    row |= {"status": model.status_, "steps": model.n_iter_}
    say(f"n = {n:,}, d = {d}: {seconds:.2f} s, R² {row['score']:.4f}, noise {row['noise']:.3f}")
    return row


def measure_set(name: str, split: Any, n_folds: int) -> list[dict[str, Any]]:
    """Cross-validate on the rows to fit, then score the others."""
    X, y, X_test, y_test = split
    rows = []
    for label, options in MODELS.items():
        predicted = np.zeros(len(y))
        for inside, outside in KFold(n_folds, shuffle=True, random_state=0).split(X):
            predicted[outside] = fitted(X[inside], y[inside], **options)[0].predict(X[outside])
        validated = 1.0 - np.sum((y - predicted) ** 2) / np.sum((y - y.mean()) ** 2)
        model, seconds = fitted(X, y, **options)
        row = {"set": name, "model": label, "validated": float(validated)}
        row |= {"score": model.score(X_test, y_test), "processor_seconds": seconds}
        say(f"{name}, {label}: validated {validated:.4f}, R² {row['score']:.4f}, {seconds:.2f} s")
        rows.append(row)
    return rows


def main() -> None:
    args = parser(__doc__).parse_args()
    warnings.simplefilter("ignore")
    run(args)


def run(args: argparse.Namespace) -> None:
    sizes = ((60, 3, "auto", 60.0),) if args.smoke else SIZES
    measure_size(60, 3, "auto")  # compiles
    times = [measure_size(n, d, q) for n, d, q, _ in sizes]
    rows = []
    if args.smoke:
        X, y, X_test, y_test = draw_data(60, 3)
        rows = measure_set("drawn", (X, y, X_test[:50], y_test[:50]), 2)
    else:
        for name, split in real_data(args.data or ROOT.parent / "shared" / "data"):
            if split[0].shape[0] == 400 and split[1].dtype.kind == "f":
                rows += measure_set(name, split, FOLDS)
    judged = [
        criterion(
            f"n = {n:,}, d = {d}: at most {limit:g} processor seconds",
            row["processor_seconds"] <= limit,
            processor_seconds=row["processor_seconds"],
        )
        for (n, d, _, limit), row in zip(sizes, times, strict=True)
    ]
    result = {
        "settings": "sizes: Matérn 5/2, y = sin(1.5 x_1) + x_2 x_3 + noise of std 0.3; sets: the "
        f"first 400 rows, {FOLDS} folds of them to validate, R² of the others",
        "times": times,
        "rows": rows,
        "criteria": [] if args.smoke else judged,
    }
    write_json(args, "bench_evidence", result)


if __name__ == "__main__":
    main()
