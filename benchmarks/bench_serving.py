"""What a fitted model costs to serve: rows a second, one row, file sizes, loading and importing.

Every method by the package, by `gpukfl.runtime` and by onnxruntime, beside LightGBM; of numbers,
and of a table with categories, dates and gaps. With OMP_NUM_THREADS=1 GPUKFL_NUM_THREADS=1 all of
them have one thread.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import criterion, parser, say, write_json
from sklearn.exceptions import ConvergenceWarning

METHODS = ("bkernn", "hkrr", "selection", "rkhs_weighting", "regfeal")
BLEND = ("laplace", "hkrr", "bkernn")
EFFORTS = ("quick", "normal")  # of blends of whatever is best
TABLE_METHODS = ("bkernn", "hkrr")
TOLERANCE = 0.01  # of R², that compressed models may lose
ROW_MS, IMPORT_SECONDS = 1.0, 0.15
REPEATS = 3


def draw_data(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw y = sin(1.5 x_1) + x_2 x_3 + noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(n)


def draw_table(n: int, seed: int) -> tuple[Any, np.ndarray]:
    """Draw a frame of numbers with gaps, categories of few and many levels, and dates."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    age, fare = rng.normal(30.0, 12.0, n), rng.lognormal(3.0, 1.0, n)
    kind, place = rng.integers(0, 3, n), rng.integers(0, 60, n)
    days = rng.integers(0, 700, n)
    y = 0.05 * age + (kind == 1) + np.sin(place) + 0.002 * days + 0.3 * rng.standard_normal(n)
    frame = pd.DataFrame(
        {
            "age": np.where(rng.uniform(size=n) < 0.2, np.nan, age),
            "fare": fare,
            "kind": np.array(["first", "second", "third"])[kind],
            "deck": np.where(rng.uniform(size=n) < 0.7, None, "deck " + (place % 7).astype(str)),
            "place": "place " + place.astype(str).astype(object),
            "rooms": rng.integers(1, 5, n),
            "alone": rng.uniform(size=n) < 0.5,
            "sold": np.datetime64("2021-01-01", "us") + days.astype("m8[D]"),
        }
    )
    return frame, y


def seconds(work: Callable[[], Any], calls: int = 1) -> float:
    """Processor time of a call: the least of some rounds, after one that warms up."""
    work()
    found = []
    for _ in range(REPEATS):
        begun = time.process_time()
        for _ in range(calls):
            work()
        found.append((time.process_time() - begun) / calls)
    return min(found)


def served(predict: Callable[[Any], Any], rows: Any, one: Any = None) -> dict[str, float]:
    """Rows a second of many, and milliseconds of one."""
    one = rows[:1] if one is None else one
    return {
        "rows_per_second": len(rows) / seconds(lambda: predict(rows)),
        "row_ms": 1e3 * seconds(lambda: predict(one), 50),
    }


def fed(rows: Any) -> dict[str, np.ndarray]:
    """Give inputs of an ONNX file: the array, or the columns of a frame."""
    if isinstance(rows, np.ndarray):
        return {"X": rows}
    columns = {name: rows[name].to_numpy() for name in rows.columns}
    text = {k: rows[k].fillna("").to_numpy(object) for k in ("kind", "deck", "place")}
    dates = {"sold": columns["sold"].astype("M8[us]").astype(np.int64)}
    return {k: v.astype(np.float64) for k, v in columns.items() if k not in text} | dates | text


def by_onnx(model: Any, path: Path, rows: Any) -> dict[str, float]:
    import onnxruntime

    model.to_onnx(path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1

    def load() -> Any:
        return onnxruntime.InferenceSession(str(path), options)

    session = load()
    many, one = fed(rows), fed(rows[:1])
    found = {
        "rows_per_second": len(rows) / seconds(lambda: session.run(None, many)),
        "row_ms": 1e3 * seconds(lambda: session.run(None, one), 50),
    }
    return {**found, "bytes": path.stat().st_size, "load_ms": 1e3 * seconds(load)}


def ours(name: str, model: Any, test: tuple[Any, np.ndarray], *, onnx: bool = True) -> Any:
    import gpukfl
    from gpukfl import runtime

    rows = test[0]
    is_table = not isinstance(rows, np.ndarray)  # of which a service has a row as a dict
    one = rows[:1].to_dict("records") if is_table else rows[:1]
    row: dict[str, Any] = {"model": name, "score": model.score(*test)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gpukfl"
        model.save(path)
        row["package"] = {
            **served(model.predict, rows),
            "bytes": path.stat().st_size,
            "load_ms": 1e3 * seconds(lambda: gpukfl.load(path)),
        }
        light = runtime.load(path)
        row["runtime"] = {
            **served(light.predict, rows, one),
            "bytes": path.stat().st_size,
            "load_ms": 1e3 * seconds(lambda: runtime.load(path)),
        }
        if onnx:
            row["onnx"] = by_onnx(model, path.with_suffix(".onnx"), rows)
    say(f"{name}: R² {row['score']:.4f}, a row by the runtime {row['runtime']['row_ms']:.3f} ms")
    return row


def boosted(train: Any, test: tuple[np.ndarray, np.ndarray]) -> dict[str, Any] | None:
    try:
        import lightgbm
    except ImportError:
        say("LightGBM is not installed: left out")
        return None
    model = lightgbm.LGBMRegressor(random_state=0, n_jobs=1, verbose=-1).fit(*train)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.txt")
        model.booster_.save_model(path)
        found = {
            **served(lambda X: model.booster_.predict(X, num_threads=1), test[0]),
            "bytes": Path(path).stat().st_size,
            "load_ms": 1e3 * seconds(lambda: lightgbm.Booster(model_file=path)),
        }
    return {"model": "LightGBM", "score": model.score(*test), "package": found}


def import_seconds(module: str) -> float:
    """Processor time of an import beyond NumPy's: the least of some processes."""
    clock = "time.process_time()"
    code = f"import numpy, time; t = {clock}; import {module}; print({clock} - t)"
    command = [sys.executable, "-c", code]
    times = [
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(REPEATS)
    ]
    return min(times)


def models(args: argparse.Namespace, train: Any, held_out: Any) -> dict[str, Any]:
    """Fit every method, and blends, and make smaller ones of some."""
    import gpukfl

    options = {"progress": False, "backend": args.backend}
    found = {m: gpukfl.fit(*train, method=m, **options) for m in METHODS}
    if not args.smoke:
        found["blend of kernel methods"] = gpukfl.fit(*train, members=list(BLEND), **options)
        for effort in EFFORTS:
            found[f"blend, {effort}"] = gpukfl.fit(*train, effort=effort, **options)
    for name in ("bkernn", "hkrr", "rkhs_weighting"):
        found[f"{name}, compressed"] = found[name].compress(TOLERANCE, *held_out)
    return found


def tables(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Serve methods, and the default blend, that are fitted to a table."""
    import gpukfl

    n, n_test = (100, 50) if args.smoke else (900, 2_000)
    train, test = draw_table(n, 3), draw_table(n_test, 4)
    options = {"progress": False, "backend": args.backend}
    found = {m: gpukfl.fit(*train, method=m, **options) for m in TABLE_METHODS[args.smoke :]}
    rows = [ours(f"{name}, of a table", model, test) for name, model in found.items()]
    if args.smoke:
        return rows
    blend = gpukfl.fit(*train, effort="quick", **options)
    return [*rows, ours("blend of a table", blend, test, onnx=False)]


def judge(rows: list[dict[str, Any]], imports: dict[str, float]) -> list[dict[str, Any]]:
    judged = [
        criterion(
            f"{row['model']}: a row by NumPy alone in at most {ROW_MS:g} ms",
            row["runtime"]["row_ms"] <= ROW_MS,
            row_ms=row["runtime"]["row_ms"],
        )
        for row in rows
    ]
    text = f"importing gpukfl takes at most {IMPORT_SECONDS:g} s beyond NumPy"
    taken = imports["gpukfl"]
    return [*judged, criterion(text, taken <= IMPORT_SECONDS, seconds=taken)]


def main() -> None:
    args = parser(__doc__ or "").parse_args()
    n, d, n_test = (100, 4, 200) if args.smoke else (2_000, 10, 5_000)
    train, held_out, test = (draw_data(k, d, s) for s, k in enumerate((n, n, n_test)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        rows = [ours(name, model, test) for name, model in models(args, train, held_out).items()]
        rows += tables(args)
    peer = boosted(train, test)
    imports = {name: import_seconds(name) for name in ("gpukfl", "gpukfl.runtime")}
    result = {
        "settings": (
            f"y = sin(1.5 x_1) + x_2 x_3 + noise of std 0.3, {n:,} rows of {d} features to fit by "
            f"default, {n_test:,} to predict; one thread; processor time, the least of {REPEATS} "
            f"rounds; compressed models may lose {TOLERANCE} of R² on {n:,} other rows. "
            "Tables: 900 rows of 8 columns, numbers with gaps, categories of 3, 7 and 60 levels, "
            "and dates, 2,000 to predict; one row is a dict for the runtime; the blend is of "
            "effort='quick'"
        ),
        "rows": rows if peer is None else [*rows, peer],
        "imports": imports,
        "criteria": [] if args.smoke else judge(rows, imports),
    }
    write_json(args, "bench_serving", result)


if __name__ == "__main__":
    main()
