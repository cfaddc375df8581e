"""Tables of RKHS weightings."""

from __future__ import annotations

import re
from typing import Any

from tables.markdown import number, table


def weighting_table3(r: dict[str, Any]) -> str:
    columns = {
        "train_mse": ("train MSE", ".3f"),
        "test_mse": ("test MSE", ".3f"),
        "bound_Rm": ("bound (71)", ".3g"),
        "train_01": ("train error", ".4f"),
        "test_01": ("test error", ".4f"),
        "training_time_s": ("seconds", ".2f"),
    }
    head = ["model", *(title for title, _ in columns.values()), "bound, exact θ", "coefficients",
            "by accuracy", "search (s)", "chosen most often", "seeds"]  # fmt: skip
    text = 'Published numbers in brackets; "by accuracy": test error where the cell is chosen so.'
    parts = [text]
    for data in dict.fromkeys(row["data"] for row in r["rows"]):
        mine = [row for row in r["rows"] if row["data"] == data]
        rows = []
        for row in mine:
            known = row["published"] or {}
            cells = [_beside(row.get(k), known.get(k), form) for k, (_, form) in columns.items()]
            chosen = max(row["chosen"], key=row["chosen"].get, default="–")
            chosen = re.sub(r"\((\S+), gamma=([\d.]{,6}).*?\)", r" \1, gamma=\2", chosen)
            more = [
                number(row.get("bound_exact_theta"), ".3g"),
                number(row.get("nonzero"), ".0f"),
                number(row.get("accuracy_test_01")),
                number(row.get("search_s"), ".1f"),
            ]
            rows.append([row["model"], *cells, *more, chosen, str(row["seeds"])])
        train, test = mine[0]["rows"]
        parts.append(f"{data}, {train:,} and {test:,} rows ({mine[0]['source']})")
        parts.append(table(head, rows))
    return "\n\n".join(parts)


def _beside(ours: float | None, known: Any, form: str) -> str:
    """Our number, the published one in brackets."""
    if isinstance(known, dict):
        known = f"> {known['greater_than']:g}"
    elif known is not None:
        known = f"{known:g}"
    return number(ours, form) + ("" if known is None else f" ({known})")


def weighting_pruning(r: dict[str, Any]) -> str:
    head = ["learner", "train error", "test error", "pruned (%)", "train error after",
            "test error after", "norm after", "seconds"]  # fmt: skip
    keys = {
        "pruning_percent": ".1f", "pruned_train_01": ".4f", "pruned_test_01": ".4f",
        "norm_beta": ".4g",
    }  # fmt: skip
    rows = []
    for name, row in r["rows"].items():
        before = [number(row["train_01"]), number(row["test_01"])]
        known = row["published"]
        if "library" not in row:
            after = [
                number(row["pruning_percent"], ".1f"),
                *before,
                number(row["norm"], ".4g"),
                "–",
            ]
            rows.append([name, *before, *after])
        for schedule, label in (
            ("library", "our penalties"),
            ("as_published", "published penalties"),
        ):
            if schedule in row:
                cells = [number(row[schedule][key], form) for key, form in keys.items()]
                seconds = number(row[schedule]["seconds"], ".2f")
                rows.append([f"{name}, {label}", *before, *cells, seconds])
        if known:
            cells = [f"{known[key]:g}" for key in ("train_01", "test_01", *keys)]
            rows.append([f"{name}, as published", *cells, "–"])
    text = [table(head, rows), "The four rules of acceptance after least squares, our penalties."]
    names = {"norm": "(63) norm", "bound": "(64) bound", "risk": "(65) risk", "error": "(66) error"}
    rules = r["rows"]["Least squares fit"]["rules"]
    rows = [[label, *(number(rules[rule][key], form) for key, form in keys.items())]
            for rule, label in names.items()]  # fmt: skip
    return "\n\n".join([*text, table(["rule", *head[3:7]], rows)])


def weighting_figure1(r: dict[str, Any]) -> str:
    curves = r["curves"]
    parts = []
    for key, title, form in (("test_01", "Test error.", ".4f"), ("seconds", "Seconds.", ".3f")):
        counts = next(iter(curves.values()))["T"]
        rows = [[f"{T}", *(number(curve[key][k], form) for curve in curves.values())]
                for k, T in enumerate(counts)]  # fmt: skip
        parts += [title, table(["T", *curves], rows)]
    return "\n\n".join(parts)


def bench_weighting(r: dict[str, Any]) -> str:
    head = ["fit", "precision", "seconds", "core seconds", "pass (s)", "floor (s)", "products",
            "erf", "Gram", "peak memory (MB)", "test error", "coefficients",
            "µs per prediction"]  # fmt: skip
    rows = [
        [
            row["fit"],
            row["dtype"],
            number(row["seconds"], ".2f"),
            number(row["core_seconds"], ".2f"),
            number(row["pass_seconds"], ".2f"),
            number(row["floor_s"], ".2f"),
            *(number(row[f"floor_{key}_s"], ".2f") for key in ("product", "erf", "gram")),
            number(row["peak_anonymous_mb"], ".0f"),
            number(row["test_01"]),
            number(row["nonzero"], "d"),
            number(row["predict_us_per_row"], ".1f"),
        ]
        for row in r["skin"]
    ]
    published = r["published_seconds"]
    text = [
        "Skin segmentation. The published fits took "
        f"{published['least_squares']:.1f} s (least squares) and {published['lasso']:.0f} s "
        "(Lasso), on another machine.",
        table(head, rows),
    ]
    head = ["rows", "T", "seconds", "core seconds", "test R²", "peak memory (MB)",
            "rows and targets (MB)"]  # fmt: skip
    for key, title in (("by_n", "Against rows."), ("by_T", "Against parameters."),
                       ("memory_map", "From a memory map.")):  # fmt: skip
        rows = [
            [f"{row['n']:,}", str(row["T"]), number(row["seconds"], ".2f"),
             number(row["core_seconds"], ".2f"), number(row["test_r2"]),
             number(row["peak_anonymous_mb"], ".0f"), number(row["x_mb"] + row["y_mb"], ".0f")]
            for row in r[key]
        ]  # fmt: skip
        if rows:
            text += [title, table(head, rows)]
    return "\n\n".join(text)


SECTIONS = {
    "weighting_table3": ("Table 3: four data sets", weighting_table3),
    "weighting_pruning": ("Table 2: pruning", weighting_pruning),
    "weighting_figure1": ("Figure 1: four learners against T", weighting_figure1),
    "bench_weighting": ("Time and memory", bench_weighting),
}
