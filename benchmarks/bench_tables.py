"""Tables as they come, through `gpukfl.fit` and through boosters with their own categories.

Six tables of a folder, read from the file; no argument but the target. A fifth of the rows tests,
by the permutation of each seed. Boosters are given texts as categories, dates as days, and missing
categories as one of their own where they know none; HistGradientBoosting is not given categories
of more than 255 levels, which it refuses.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from common import OURS, SECOND, criterion, parser, pictures, save_picture, say, write_json
from peers import peers, versions
from samples import DATA
from sklearn.metrics import accuracy_score, log_loss, r2_score
from threadpoolctl import threadpool_limits

import gpukfl

PORTFOLIO, QUICK = "gpukfl.fit", "gpukfl.fit, quick"
BOOSTERS = ("LightGBM", "CatBoost", "HistGradientBoosting")
SEEDS = (0, 1, 2)
MOST_LEVELS = 255  # of HistGradientBoosting
REPEATS = 20  # predictions of one row
WANTED = {"LightGBM": (5, 3), "CatBoost": (3, 2)}  # tables to reach it on, and by log loss

Table = tuple[str, pd.DataFrame, str, bool]  # its name, its rows, the target, and whether classes


# ---------------------------------------------------------------------- tables


def tables(args: argparse.Namespace) -> Iterator[Table]:
    """Read the tables of the folder, less the columns that hold the target under another name."""
    if args.smoke:
        yield simulated()
        return
    folder = (args.data or DATA) / "tables"
    about = json.loads((folder / "tables.json").read_text())
    for name, one in about.items():
        if args.tables is None or name in args.tables:
            frame = pd.read_csv(folder / f"{name}.csv").drop(columns=one["drop"])
            yield name, frame, one["target"], one["task"] == "classification"


def simulated() -> Table:
    """Make a small table with a category and gaps."""
    rng = np.random.default_rng(0)
    size, kind = rng.normal(size=150), rng.choice(["a", "b", "c"], 150)
    price = size + (kind == "a") + 0.1 * rng.normal(size=150)
    frame = pd.DataFrame({"size": np.where(size > 1.5, np.nan, size), "kind": kind, "price": price})
    return "simulated", frame, "price", False


def split(frame: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Give rows to fit, and the fifth that tests."""
    order = np.random.default_rng(seed).permutation(len(frame))
    count = len(frame) // 5
    return frame.iloc[order[count:]], frame.iloc[order[:count]]


def for_boosters(frame: pd.DataFrame) -> pd.DataFrame:
    """Give texts as categories, and dates as days since the first."""
    columns = {}
    for name, column in frame.items():
        if column.dtype.kind in "iufb":
            columns[name] = column
        elif column.dropna().astype(str).str.fullmatch(r"\d{4}-\d\d-\d\d.*").all():
            dates = pd.to_datetime(column)
            columns[name] = (dates - dates.min()).dt.total_seconds() / 86_400
        else:
            columns[name] = column.astype(str).where(column.notna(), None).astype("category")
    return pd.DataFrame(columns)


# ---------------------------------------------------------------------- models


def booster(
    name: str, args: argparse.Namespace, X: pd.DataFrame, y: Any, classes: bool
) -> tuple[Any, list[str]]:
    """Fit one with its defaults and its own categories; give the columns that it takes too."""
    model = peers(args.threads)[name](*X.shape, classes)
    categories = [c for c in X if X[c].dtype == "category"]
    if name == "CatBoost":
        return model.fit(filled(X), y, cat_features=categories), list(X)
    if name == "HistGradientBoosting":
        kept = [c for c in X if c not in categories or X[c].nunique() <= MOST_LEVELS]
        return model.set_params(categorical_features="from_dtype").fit(X[kept], y), kept
    return model.fit(X, y), list(X)


def filled(X: pd.DataFrame) -> pd.DataFrame:
    """Give missing categories a name."""
    named = X.copy()
    for name in X:
        if X[name].dtype == "category":
            named[name] = X[name].astype(object).fillna("missing")
    return named


def fitted(
    name: str,
    args: argparse.Namespace,
    parts: tuple[pd.DataFrame, pd.DataFrame],
    target: str,
    classes: bool,
    whole: pd.DataFrame,
) -> tuple[Any, pd.DataFrame]:
    """Fit one model to the first part; return it, and the rows of the second as it takes them."""
    inside, outside = parts
    if name in (PORTFOLIO, QUICK):
        options = {"effort": "quick"} if args.smoke or name == QUICK else {}
        return gpukfl.fit(inside, target, **options), outside.drop(columns=target)
    model, columns = booster(name, args, whole.loc[inside.index], inside[target], classes)
    rows = whole.loc[outside.index, columns]
    return model, filled(rows) if name == "CatBoost" else rows


def measured(
    name: str, args: argparse.Namespace, table: Table, seed: int, whole: pd.DataFrame
) -> dict[str, Any]:
    """Fit one model to the rows of a seed, and score the others."""
    title, frame, target, classes = table
    inside, outside = split(frame, seed)
    begun, cpu = time.perf_counter(), time.process_time()
    with threadpool_limits(args.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, rows = fitted(name, args, (inside, outside), target, classes, whole)
        row = {
            "table": title,
            "model": name,
            "seed": seed,
            "n": len(inside),
            "seconds": time.perf_counter() - begun,
            "processor_seconds": time.process_time() - cpu,
            **scores(model, rows, outside[target], classes),
            "one_row_ms": one_row(model, rows),
        }
    shown = {k: round(v, 4) for k, v in row.items() if isinstance(v, float)}
    say(f"{title:20s} {name:22s} {seed} {shown}")
    return row


def scores(model: Any, rows: Any, y: Any, classes: bool) -> dict[str, float]:
    """R² of numbers; accuracy and log loss of classes."""
    predicted = np.ravel(model.predict(rows))
    if not classes:
        return {"score": float(r2_score(y, predicted))}
    labels = np.asarray(model.classes_).astype(str)
    order = np.argsort(labels)  # as log_loss has them; CatBoost puts texts of numbers otherwise
    known = np.asarray(y).astype(str)
    loss = log_loss(known, model.predict_proba(rows)[:, order], labels=labels[order])
    return {"score": float(accuracy_score(y, predicted)), "log_loss": float(loss)}


def one_row(model: Any, rows: Any) -> float:
    """Milliseconds of the processor for a single row: the median."""
    first, times = rows.head(1), []
    for _ in range(REPEATS):
        begun = time.process_time()
        model.predict(first)
        times.append(time.process_time() - begun)
    return 1e3 * float(np.median(times))


# ---------------------------------------------------------------------- what came of it


def means(rows: list[dict[str, Any]], key: str) -> dict[str, dict[str, float]]:
    """Mean over the seeds, for each table and model that has the key."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if key in row:
            found.setdefault(row["table"], {}).setdefault(row["model"], []).append(row[key])
    return {t: {m: float(np.mean(v)) for m, v in one.items()} for t, one in found.items()}


def judge(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Say on how many tables the boosters are reached, and how long a row takes."""
    found = []
    for name, (by_score, by_loss) in WANTED.items():
        for key, sign, wanted in (("score", 1.0, by_score), ("log_loss", -1.0, by_loss)):
            known = [one for one in means(rows, key).values() if {name, PORTFOLIO} <= set(one)]
            reached = sum(sign * one[PORTFOLIO] >= sign * one[name] for one in known)
            passed = reached >= wanted if known else None
            text = f"mean {key.replace('_', ' ')} at least as good as {name}'s on {wanted} tables"
            found.append(criterion(text, passed, reached=reached, of=len(known)))
    slowest = max(row["one_row_ms"] for row in rows if row["model"] == PORTFOLIO)
    found.append(criterion("a single row takes at most 20 ms", slowest <= 20.0, slowest=slowest))
    return found


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    """Draw one line a table: how much better or worse than ours the boosters are."""
    rows = result["rows"]
    plt = pictures()
    table = means(rows, "score")
    figure, ax = plt.subplots(figsize=(7.2, 0.4 * len(table) + 1.6))
    for k, one in enumerate(table.values()):
        for name, marker in zip(BOOSTERS, "|x+", strict=True):
            if name in one:
                label = name if k == 0 else None
                ax.plot(one[name], k, marker, color=SECOND, ms=9, label=label)
        ax.plot(one[PORTFOLIO], k, "o", color=OURS, ms=7, label=PORTFOLIO if k == 0 else None)
    ax.set_yticks(range(len(table)), [name.replace("_", " ") for name in table])
    ax.set(xlabel="R² or accuracy of the test rows, mean of three seeds")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    save_picture(args, "bench_tables", figure)


def main() -> None:
    line = parser(__doc__.splitlines()[0])
    line.add_argument("--tables", nargs="+", help="some of the tables (default: all)")
    line.add_argument("--threads", type=int, default=1, help="of every model (default: 1)")
    args = line.parse_args()
    installed = [name for name in BOOSTERS if name in peers(args.threads)]
    rows = []
    for table in tables(args):
        whole = for_boosters(table[1].drop(columns=table[2]))
        for seed in SEEDS[:1] if args.smoke else SEEDS:
            names = (PORTFOLIO, *installed)
            rows += [measured(name, args, table, seed, whole) for name in names]
    settings = "a fifth of the rows tests, by the permutation of each seed; defaults of every model"
    result = {"settings": settings, "threads": args.threads, "peers": versions(), "rows": rows}
    draw(args, write_json(args, "bench_tables", result | {"criteria": judge(rows)}))


if __name__ == "__main__":
    main()
