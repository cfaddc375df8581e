"""Write the benchmark tables of the documentation from the results."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from common import RESULTS, ROOT, say

TARGET = ROOT / "docs" / "_generated"
ALLOWED = "1%"  # false-positive rate at which selection is compared


def number(x: Any, form: str = ".4f") -> str:
    """Format a number, or show that there is none."""
    return "–" if x is None else format(x, form)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Give a markdown table, its first column to the left."""
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "|:---" + "|---:" * (len(head) - 1) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def where(record: dict[str, Any]) -> str:
    """Say on what the numbers were made."""
    on = record["environment"]
    commit = (on["commit"] or "unknown")[:10] + (
        " with changes" if on["uncommitted_changes"] else ""
    )
    versions = ", ".join(f"{name} {v}" for name, v in on["versions"].items())
    device = f", {on['gpu']}" if on["gpu"] else ""
    threads = f"OMP_NUM_THREADS={on['OMP_NUM_THREADS'] or 'unset'}"
    return (
        f"*{on['cpu']}, {on['cores']} cores, {on['memory_gb']} GB{device}; backend "
        f"{on['backend']}; Python {on['python']}, {versions}; {threads}; commit {commit}; "
        f"{on['date']}.*"
    )


def criteria(record: dict[str, Any]) -> str:
    """List what was to hold, and whether it does."""
    words = {True: "holds", False: "**does not hold**", None: "not judged"}
    return "\n".join(f"- {c['criterion']}: {words[c['passed']]}" for c in record["criteria"])


def experiment1(r: dict[str, Any]) -> str:
    head = ["kernel, line search", "test error", "published", "largest relative difference"]
    rows = []
    for name, row in r["rows"].items():
        at = row.get("compared_at", len(row["test_mse"]) - 1)
        known = row.get("published_test_mse")
        gap = row.get("largest_relative_difference_test")
        last = None if known is None else known[at]
        rows.append(
            [f"{name}, published", number(row["test_mse"][at]), number(last), number(gap, ".1e")]
        )
        for search, curves in row["other_searches"].items():
            rows.append([f"{name}, {search}", number(curves["test_mse"][at]), number(last), "–"])
    return table(head, rows)


def experiment2(r: dict[str, Any]) -> str:
    parts = []
    for kind, symbol in (("by_m", "m"), ("by_lambda", "λ")):
        row = r[kind]
        none = [None] * len(row["values"])
        columns = [
            row["train_r2"],
            row.get("published_train_r2", none),
            row["test_r2"],
            row.get("published_test_r2", none),
            row["as_coded_test_r2"],
        ]
        head = [
            symbol,
            "train R²",
            "published",
            "test R²",
            "published",
            "with the published search",
        ]
        lines = zip(row["values"], *columns, strict=True)
        parts.append(table(head, ([f"{v:g}", *map(number, rest)] for v, *rest in lines)))
    return "\n\n".join(parts)


def experiment3(r: dict[str, Any]) -> str:
    head = ["data", "penalty", "test R²", "published", "recomputed with the final α"]
    rows = []
    for kind, row in r["rows"].items():
        for penalty, cell in row.items():
            known = None
            if "published_mean" in cell:
                known = f"{cell['published_mean']:.4f} ± {cell['published_std_ddof1']:.4f}"
            ours = f"{cell['mean']:.4f} ± {cell['std_ddof1']:.4f}"
            resolved = number(cell.get("resolved_mean"))
            rows.append([kind, penalty.replace("_", " "), ours, known or "–", resolved])
    return table(head, rows)


def experiment5(r: dict[str, Any]) -> str:
    head = [
        "", "R²", "published", "feature score", "filled as published", "published",
        "arbitrary of 10", "ridge R²", "published",
    ]  # fmt: skip
    rows = []
    for along in ("n", "d"):
        for value, c in r[f"by_{along}"].items():
            arbitrary = c.get("published_arbitrary_of_10")
            rows.append(
                [
                    f"{along} = {value}",
                    number(c["bkernn_r2_mean"]),
                    _spread(c, "published_bkernn_r2"),
                    number(c["feature_mean"]),
                    number(c["feature_as_published_mean"]),
                    _spread(c, "published_feature"),
                    number(arbitrary, "d"),
                    number(c["brownian_ridge_r2_mean"]),
                    _spread(c, "published_brownian_ridge_r2"),
                ]
            )
    return table(head, rows)


def _spread(cell: dict[str, Any], key: str) -> str:
    if f"{key}_mean" not in cell:
        return "–"
    return f"{cell[f'{key}_mean']:.3f} ± {cell[f'{key}_std']:.3f}"


def experiment6(r: dict[str, Any]) -> str:
    shown = {
        "concave_feature": "concave feature",
        "concave_variable": "concave variable",
        "brownian_ridge": "Brownian ridge",
    }
    head = ["data"]
    for label in shown.values():
        head += [label, "published"]
    head += ["concave feature, auto step", "library defaults"]
    rows = []
    for name, row in r["rows"].items():
        line = [name]
        for key in shown:
            line += [number(row["ours"][key]["r2"]), number(row.get("published", {}).get(key))]
        for key in ("concave_feature_auto_step", "library_defaults"):
            line.append(number(row["ours"][key]["r2"]))
        rows.append(line)
    means = r["means"]
    line = ["**mean**"]
    for key in shown:
        line += [number(means["ours"][key]), number(means.get("published", {}).get(key))]
    for key in ("concave_feature_auto_step", "library_defaults"):
        line.append(number(means["ours"][key]))
    return table(head, [*rows, line])


def bench_operators(r: dict[str, Any]) -> str:
    head = [
        "n, m", "product (ns)", "floor (ns)", "ratio", "gradient (ns)", "binned product (ns)",
        "binned gradient (ns)", "error", "binned error: noise", "smooth", "peak (MB)",
    ]  # fmt: skip
    rows = []
    for row in r["rows"]:
        exact, binned = row["exact"], row["binned"]
        rows.append(
            [
                f"{row['n']:,}, {row['m']}",
                number(exact["product_ns_per_element"], ".2f"),
                number(row.get("floor", {}).get("ns_per_element"), ".2f"),
                number(exact.get("product_over_floor"), ".2f"),
                number(exact["gradient_ns_per_element"], ".2f"),
                number(binned["product_ns_per_element"], ".2f"),
                number(binned["gradient_ns_per_element"], ".2f"),
                number(row.get("dense", {}).get("product_error"), ".0e"),
                number(row["binned_error"]["noise"], ".0e"),
                number(row["binned_error"]["smooth"], ".0e"),
                number(row["peak_rss_mb"], ".0f"),
            ]
        )
    bandwidth = max(row["copy_gb_per_s"] for row in r["rows"])
    note = (
        "Nanoseconds for each of the n m projections. The floor is one random gather and one "
        "scatter-add on the same order arrays, in the same run. Copy bandwidth (read + write): "
        f"{bandwidth:.1f} GB/s. Errors are relative, the first against the dense formula."
    )
    return note + "\n\n" + table(head, rows)


def bench_fits(r: dict[str, Any]) -> str:
    head = ["n", "seconds", "ratio", "test R²", "peak memory (MB)", "data (MB)"]
    rows = []
    for row, ratio in zip(r["rows"], [None, *r["growth"]["time_ratios"]], strict=True):
        rows.append(
            [
                f"{row['n']:,}",
                number(row["seconds"], ".2f"),
                number(ratio, ".1f"),
                number(row["test_r2"]),
                number(row["peak_anonymous_mb"], ".0f"),
                number(row["data_mb"], ".0f"),
            ]
        )
    text = [table(head, rows), f"Time grows as n to the {number(r['growth']['exponent'], '.2f')}."]
    small = r["small_fit"]
    text.append(
        f"A warm fit of {small['data']} (n = {small['n']}, d = {small['d']}, m = "
        f"{small['n_particles']}, {small['iterations']} steps) takes {small['seconds']:.2f} s, "
        f"test R² {small['test_r2']:.4f}."
    )
    return "\n\n".join(text)


def bench_memmap(r: dict[str, Any]) -> str:
    row = r["row"]
    return (
        f"A float32 memory map of {row['n']:,} rows ({row['file_mb']:.0f} MB; m = "
        f"{row['n_particles']}, {row['iterations']} steps, {row['knots']} knots) "
        f"takes {row['seconds']:.0f} s, test R² {row['test_r2']:.4f}; peak memory "
        f"{row['peak_anonymous_mb']:.0f} MB without the mapped pages, "
        f"{row['peak_rss_mb']:.0f} MB with those that were resident."
    )


def hkrr_figure1(r: dict[str, Any]) -> str:
    methods = ("VarPro", "AGD", "L-BFGS")
    head = ["start", *methods, "outcome"]
    rows = []
    for row in r["rows"]:
        losses = [number(row[m]["loss"], ".2e") for m in methods]
        rows.append([f"{row['entries']} {row['start']}", *losses, row["outcome"]])
    return "Training loss at the end of the time.\n\n" + table(head, rows)


def hkrr_figure2(r: dict[str, Any]) -> str:
    parts = []
    for name, panel in r["panels"].items():
        methods = list(dict.fromkeys(row["method"] for row in panel))
        cells = {(row["n"], row["d"], row["method"]): row for row in panel}
        rows = []
        for n, d in dict.fromkeys((n, d) for n, d, _ in cells):
            shown = [cells[n, d, method] for method in methods]
            rows.append([f"{n:,}, {d}", *(_mean_std(cell) for cell in shown)])
        title = "R² against n, Dataset 1" if name == "samples" else f"R² against d, {name}"
        parts.append(f"{title}\n\n" + table(["n, d", *methods], rows))
    return "\n\n".join(parts)


def _mean_std(cell: dict[str, Any]) -> str:
    spread = f" ± {cell['r2_std']:.3f}" if len(cell["r2"]) > 1 else ""
    return f"{cell['r2_mean']:.3f}{spread}"


def hkrr_toy(r: dict[str, Any]) -> str:
    head = ["function", "first step", "steps in x", "VarPro", "AGD", "start of the figure"]
    rows = []
    for name, toy in r["toys"].items():
        ends = {method: toy["starts"][0][method]["global"] for method in ("VarPro", "AGD")}
        chosen = {"first_step": "as in the figure", "inner_steps": None}
        chosen |= {"share": toy["map"]["share"], "global": ends}
        for row in [chosen, *toy["other_steps"]]:
            reached = [method for method, hit in row["global"].items() if hit]
            rows.append(
                [
                    name,
                    str(row["first_step"]),
                    number(row["inner_steps"], "d"),
                    number(row["share"]["VarPro"], ".0%"),
                    number(row["share"]["AGD"], ".0%"),
                    " and ".join(reached) or "neither",
                ]
            )
    text = "Share of starts, and who from the figure's start, that reach the global minimum."
    return text + "\n\n" + table(head, rows)


def bench_hkrr(r: dict[str, Any]) -> str:
    rows = [
        [
            f"{row['n']:,}",
            row["dtype"],
            number(row["seconds"], ".2f"),
            number(row["peak_anonymous_mb"], ".0f"),
            number(row["data_mb"], ".0f"),
            number(row.get("gradient_error"), ".0e"),
        ]
        for row in r["objective"]
    ]
    head = ["n", "precision", "seconds", "peak memory (MB)", "data (MB)", "gradient error"]
    text = ["Value and gradient of the reduced objective.", table(head, rows)]
    rows = [
        [f"{row['data']}, {row['model']}", number(row["seconds"], ".1f"), number(row["test_r2"]),
         str(row["splits"])]
        for row in r["means"]
    ]  # fmt: skip
    text += ["Means over the splits.", table(["fit", "seconds", "test R²", "splits"], rows)]
    return "\n\n".join(text)


def bench_kernel_ridge(r: dict[str, Any]) -> str:
    head = ["method", "n", "seconds", "ratio", "test R²", "µs per prediction", "peak memory (MB)",
            "iterations"]  # fmt: skip
    rows = []
    for method, growth in r["growth"].items():
        mine = [row for row in r["rows"] if row["method"] == method]
        for row, ratio in zip(mine, [None, *growth["time_ratios"]], strict=True):
            rows.append(
                [
                    method,
                    f"{row['n']:,}",
                    number(row["seconds"], ".2f"),
                    number(ratio, ".1f"),
                    number(row["test_r2"]),
                    number(row["predict_us_per_row"], ".0f"),
                    number(row["peak_anonymous_mb"], ".0f"),
                    number(row["iterations"], "d"),
                ]
            )
    return table(head, rows)


def selection_main_effects(r: dict[str, Any]) -> str:
    names = ("x1", "x2")
    text = [f"Share of draws in which a variable is found, false positives at most {ALLOWED}."]
    cells = {
        f"{name}, Algorithm 1'": (row["allowed"], row["path_seconds_mean"])
        for name, row in r["kernels"].items()
    }
    cells |= {name: (row["recovery"], row["seconds_mean"]) for name, row in r["rankings"].items()}
    rows = [
        [name, *(number(found[k], ".1%") for k in names), number(seconds, ".1f")]
        for name, (found, seconds) in cells.items()
    ]
    text.append(table(["method", *names, "seconds"], rows))
    text.append("Against γ: along the path, with both kernels.")
    curves = {name: row["curve"] for name, row in r["kernels"].items()}
    head = ["γ", *(f"{name}, {what}" for name in curves for what in (*names, "false"))]
    text.append(table(head, _along_sparsity(curves.values(), names)))
    text.append("The first draws again, once along the path and once from β = 0 for every γ.")
    for name, row in r["kernels"].items():
        both = [row["path_on_the_same_draws"], row["from_zero"]]
        head = [
            "γ",
            *(f"{how}, {what}" for how in ("path", "from 0") for what in (*names, "false")),
        ]
        text += [f"{name}:", table(head, _along_sparsity(both, names))]
    return "\n\n".join(text)


def _along_sparsity(
    curves: Iterable[list[dict[str, Any]]], names: Iterable[str]
) -> list[list[str]]:
    """Recovery and false-positive rates of several curves, a line for each γ."""
    names = list(names)
    lines = []
    for rows in zip(*curves, strict=True):
        cells = [f"{rows[0]['gamma']:g}"]
        for row in rows:
            cells += [number(row["recovery"][name], ".1%") for name in names]
            cells.append(number(row["false_rate"], ".2%"))
        lines.append(cells)
    return lines


def selection_hierarchy(r: dict[str, Any]) -> str:
    names = ("x1", "x2", "x3")
    found = r["thresholds"]
    head = ["", *names, "false", "seconds"]
    text = [f"Share of draws in which a variable is found, false positives at most {ALLOWED}."]
    rows = [
        [title, *(number(row["allowed"][name], ".1%") for name in names), f"at most {ALLOWED}",
         number(row["seconds_mean"], ".1f")]
        for title, row in (("Algorithm 1', best γ", r["path"]),
                           ("Algorithm 2', best γ for all rounds", r["fixed"]))
    ]  # fmt: skip
    shares = [number(found["recovery"][name], ".1%") for name in names]
    last = number(found["false_rate"], ".3%"), number(found["seconds_mean"], ".1f")
    rows.append(["Algorithm 2', thresholds by permutation", *shares, *last])
    text.append(table(head, rows))
    text.append("Rounds in which the levels entered, with thresholds by permutation.")
    text.append(table(["round", *names], _rounds(found["entered"])))
    text.append("Against γ.")
    kinds = {"Algorithm 1'": r["path"]["curve"], "Algorithm 2'": r["fixed"]["curve"]}
    head = ["γ", *(f"{kind}, {what}" for kind in kinds for what in (*names, "false"))]
    text.append(table(head, _along_sparsity(kinds.values(), names)))
    text.append(
        "The weight τ, on a few draws: ranks of the scores of x2 and x3, of all variables, where "
        "the levels before are held at τ; recovery with thresholds by permutation."
    )
    head = ["τ", "ranks of x2", "ranks of x3", *names, "false"]
    text.append(table(head, (_anchor(row, names) for row in r["anchors"])))
    return "\n\n".join(text)


def _rounds(entered: list[list[int]]) -> list[list[str]]:
    """How many draws each level entered in each round, or not at all."""
    levels = list(zip(*entered, strict=True))
    last = max(max(level) for level in levels)
    lines = [[str(k), *(str(level.count(k)) for level in levels)] for k in range(1, last + 1)]
    return [*lines, ["never", *(str(level.count(0)) for level in levels)]]


def _anchor(row: dict[str, Any], names: Iterable[str]) -> list[str]:
    ranks = [", ".join(str(r[level]) for r in row["ranks"]) for level in (1, 2)]
    shares = [number(row["recovery"][name], ".0%") for name in names]
    return [number(row["anchor"], ".3f"), *ranks, *shares, number(row["false_rate"], ".2%")]


def selection_landscape(r: dict[str, Any]) -> str:
    head = ["kernel", "J(0)", "derivatives at 0", "difference quotients", "sum of absolute terms",
            "descent from 0 ends at", "lowest J of the grid at"]  # fmt: skip

    def pair(values: list[float], form: str) -> str:
        return ", ".join(number(v, form) for v in values)

    rows = [
        [
            name,
            number(row["value"]),
            pair(row["derivatives"], ".3g"),
            pair(row["quotients"], ".3g"),
            pair(row["absolute_terms"], ".3g"),
            pair(row["descent"]["end"], ".3f"),
            pair(row["lowest"]["beta"], ".3f"),
        ]
        for name, row in r["first"].items()
    ]
    return "In the first draw, by β1 and β2.\n\n" + table(head, rows)


def bench_selection(r: dict[str, Any]) -> str:
    text = ["J, and its derivatives by all variables."]
    rows = [
        [
            _form(row),
            f"{row['n']:,}, {row['p']:,}",
            row["dtype"],
            *(number(row.get(f"{key}_seconds"), ".3f") for key in ("sort", "focus", "value")),
            number(row["gradient_seconds"], ".3f"),
            number(row["peak_anonymous_mb"], ".0f"),
            number(row["data_mb"], ".0f"),
        ]
        for row in r["rows"]
    ]
    head = ["form", "n, p", "precision", "sorting", "centres", "J", "derivatives",
            "peak memory (MB)", "data (MB)"]  # fmt: skip
    text.append(table(head, rows))
    if r["exponents"]:
        grows = "; ".join(f"{name}: {number(v, '.2f')}" for name, v in r["exponents"].items())
        text.append(f"Growth of the derivatives' time, as a power: {grows}.")
    rows = [[row["kernel"], number(row["seconds"], ".1f"), str(row["steps"])] for row in r["paths"]]
    text += ["The path over the paper's γ of Section 6.1, n = p = 1000.",
             table(["kernel", "seconds", "steps"], rows)]  # fmt: skip
    text.append("Relative differences of the factored form from the dense one, p = 1000.")
    rows = [
        [f"{row['n']:,}, {row['weights']}", str(row["n_centers"]), row["dtype"],
         number(row["value"], ".0e"), number(row["gradient"], ".0e")]
        for row in r["agreement"]
    ]  # fmt: skip
    head = ["n, weights", "centres", "precision", "J", "gradient"]
    return "\n\n".join([*text, table(head, rows)])


def _form(row: dict[str, Any]) -> str:
    form = "dense" if row["n_centers"] is None else f"{row['n_centers']} centres"
    return form if row["kernel"] == "Laplace" else f"{form}, {row['kernel']}"


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


def regfeal_experiment1(r: dict[str, Any]) -> str:
    names = {"RegFeaL": "ours", "RegFeaL, Hermite features": "Hermite features",
             "RegFeaL, told the dimension": "told the dimension", "SIR": "SIR", "pHd": "pHd",
             "OPG": "OPG", "MAVE": "MAVE", "Hermite kernel ridge": "Hermite kernel ridge",
             "KernelRidgeRegressor": "kernel ridge"}  # fmt: skip
    parts = []
    for key, title in (("test_r2", "Test R²."), ("feature_score", "Feature score.")):
        shown = {
            name: label
            for name, label in names.items()
            if key in r["rows"][0]["methods"][name]
            and not (key == "feature_score" and name.startswith("RegFeaL,"))
        }
        head = ["data", "repetitions", "published", *shown.values()]
        head += ["published MAVE"] + (["noise ceiling"] if key == "test_r2" else [])
        rows = []
        for row in r["rows"]:
            theirs = row.get("published")
            line = [f"{row['setting'].replace('_', ' ')}, d = {row['d']}, n = {row['n']}"]
            line += [str(len(row["seeds"])), _published(theirs, "RegFeaL", key)]
            line += [
                f"{cell[f'{key}_mean']:.3f} ± {cell[f'{key}_std']:.3f}"
                if name == "RegFeaL"
                else number(cell[f"{key}_mean"], ".3f")
                for name in shown
                if (cell := row["methods"][name])
            ]
            median = None if theirs is None else theirs["MAVE"][f"{key}_median"]
            line.append(number(median, ".3f"))
            if key == "test_r2":
                line.append(number(None if theirs is None else theirs["ceiling"], ".3f"))
            rows.append(line)
        parts += [title, table(head, rows)]
    rows = [
        [f"{row['setting'].replace('_', ' ')}, d = {row['d']}, n = {row['n']}",
         number(row["methods"]["RegFeaL"]["dimension_score_mean"], ".3f"),
         _published(row.get("published"), "RegFeaL", "dimension_score"),
         *(number(row["methods"][name]["seconds_mean"], ".1f")
           for name in ("RegFeaL", "Hermite kernel ridge", "KernelRidgeRegressor", "OPG", "MAVE"))]
        for row in r["rows"]
    ]  # fmt: skip
    head = ["data", "dimension score", "published", "seconds, search included",
            "Hermite kernel ridge", "kernel ridge", "OPG", "MAVE"]  # fmt: skip
    parts += ["Estimated dimension, and seconds.", table(head, rows)]
    parts.insert(0, "The published MAVE is a median over the repetitions.")
    return "\n\n".join(parts)


def _published(cell: dict[str, Any] | None, method: str, key: str) -> str:
    if cell is None:
        return "–"
    return f"{cell[method][f'{key}_mean']:.3f} ± {cell[method][f'{key}_std']:.3f}"


def regfeal_experiment2(r: dict[str, Any]) -> str:
    head = ["n, m", "R²", "published", "feature score", "published", "of the next directions",
            "distinct tuples", "seconds"]  # fmt: skip
    rows = []
    for row in [*r["rows"], *r["with_1_over_c"]]:
        line = [f"{row['n']}, {row['m']}" + (", with 1/c" if row["over_c"] else "")]
        for key in ("test_r2", "feature_score"):
            line.append(f"{row[f'{key}_mean']:.3f} ± {row[f'{key}_std']:.3f}")
            known = f"published_{key}_mean" in row
            line.append(
                f"{row[f'published_{key}_mean']:.3f} ± {row[f'published_{key}_std']:.3f}"
                if known
                else "–"
            )
        line += [number(row["feature_score_updated_mean"], ".3f")]
        line += [number(row["distinct_mean"], ".0f"), number(row["seconds_mean"], ".2f")]
        rows.append(line)
    return table(head, rows)


def regfeal_experiment3(r: dict[str, Any]) -> str:
    head = ["iteration", "R²", "published", "feature score", "published", "two largest shares",
            "published", "distinct tuples", "published", "mean degree", "published"]  # fmt: skip
    rows = []
    for k, row in enumerate(r["draws"][0]):
        known = r["published"][k] if k < len(r["published"]) else {}
        line = [str(row["iteration"])]
        for key, form in (("test_r2", ".4f"), ("feature_score", ".4f"), ("shares", ".3f"),
                          ("distinct", "d"), ("mean_degree", ".2f")):  # fmt: skip
            for cell in (row, known):
                value = cell.get(key)
                if key == "shares" and value is not None:
                    value = sum(value[:2])
                line.append(number(value, form))
        rows.append(line)
    parts = ["The first draw of the tuples.", table(head, rows)]
    head = ["n, m, polynomial", "defaults", "ρ, μ", "max_degree=4", "μ"]
    rows = [
        [f"{row['n']}, {row['m']}, {row['seed']}",
         number(row["degree_decay"]["feature_score"], ".5f"),
         f"{row['degree_decay']['degree_decay']:g}, {row['degree_decay']['strength']:g}",
         number(row["max_degree"]["feature_score"], ".5f"), f"{row['max_degree']['strength']:g}"]
        for row in r["polynomials"]
    ]  # fmt: skip
    return "\n\n".join([*parts, "Feature scores on noiseless polynomials.", table(head, rows)])


def bench_regfeal(r: dict[str, Any]) -> str:
    head = ["fit", "seconds", "of processor", "test R²", "feature score", "µs per prediction",
            "peak memory (MB)", "before (MB)", "data (MB)"]  # fmt: skip

    def line(name: str, row: dict[str, Any]) -> list[str]:
        return [name, number(row["seconds"], ".2f"), number(row["processor_seconds"], ".2f"),
                number(row["test_r2"]), number(row["feature_score"]),
                number(row["predict_us_per_row"], ".1f"), number(row["peak_anonymous_mb"], ".0f"),
                number(row["anonymous_before_mb"], ".0f"), number(row["data_mb"], ".0f")
                ]  # fmt: skip

    first = r["fits"][0]
    parts = [
        f"n = {first['n']:,}, d = {first['d']}, {first['m']} tuples.",
        table(head, [line(row["fit"], row) for row in r["fits"]]),
        "Against rows and dimension, prediction by the Hermite features.",
    ]
    rows = [
        line(f"n = {row['n']:,}, d = {row['d']}, m = {row['m']}, {row['dtype']}", row)
        for row in [*r["by_n"], *r["by_d"]]
    ]
    parts.append(table(head, rows))
    names = list(r["parts"][0]["totals"])
    rows = [
        [f"n = {row['n']:,}, d = {row['d']}, m = {row['m']}",
         *(number(row["totals"][key], ".2f") for key in names)]
        for row in r["parts"]
    ]  # fmt: skip
    return "\n\n".join([*parts, "Seconds of the parts, all iterations.", table(["", *names], rows)])


Section = tuple[str, Callable[[dict[str, Any]], str]]
# One file for each method
FILES: dict[str, dict[str, Section]] = {
    "bkernn_results.md": {
        "experiment1": ("Experiment 1: three one-dimensional kernels", experiment1),
        "experiment2": ("Experiment 2: particles and ridge", experiment2),
        "experiment3": ("Experiment 3: penalties", experiment3),
        "experiment5": ("Experiment 5: samples and dimension", experiment5),
        "experiment6": ("Experiment 6: real data", experiment6),
        "bench_operators": ("Operators", bench_operators),
        "bench_fits": ("Whole fits", bench_fits),
        "bench_memmap": ("Rows from disk", bench_memmap),
    },
    "hkrr_results.md": {
        "hkrr_figure1": ("Figure 1: loss against time", hkrr_figure1),
        "hkrr_figure2": ("Figure 2: components and samples", hkrr_figure2),
        "hkrr_toy": ("Appendix D.2: functions of two variables", hkrr_toy),
        "bench_hkrr": ("Objective and whole fits", bench_hkrr),
    },
    "kernel_ridge_results.md": {
        "bench_kernel_ridge": ("Solvers", bench_kernel_ridge),
    },
    "selection_results.md": {
        "selection_main_effects": ("Section 6.1: main effects", selection_main_effects),
        "selection_hierarchy": ("Section 6.2: hierarchical interactions", selection_hierarchy),
        "selection_landscape": ("Section 3.1: landscape", selection_landscape),
        "bench_selection": ("Time, memory and agreement", bench_selection),
    },
    "weighting_results.md": {
        "weighting_table3": ("Table 3: four data sets", weighting_table3),
        "weighting_pruning": ("Table 2: pruning", weighting_pruning),
        "weighting_figure1": ("Figure 1: four learners against T", weighting_figure1),
        "bench_weighting": ("Time and memory", bench_weighting),
    },
    "regfeal_results.md": {
        "regfeal_experiment1": ("Experiment 1: samples and dimension", regfeal_experiment1),
        "regfeal_experiment2": ("Experiment 2: random features", regfeal_experiment2),
        "regfeal_experiment3": ("Experiment 3: over the iterations", regfeal_experiment3),
        "bench_regfeal": ("Time and memory", bench_regfeal),
    },
}


def section(folder: Path, name: str, title: str, body: Callable[[dict[str, Any]], str]) -> str:
    """One section: title, settings, table, criteria, and where it was made."""
    record = json.loads((folder / f"{name}.json").read_text())
    parts = [f"## {title}", f"Settings: {record['settings']}."]
    parts.append(body(record))
    if record.get("criteria"):
        parts.append(criteria(record))
    return "\n\n".join([*parts, where(record)])


def main() -> None:
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON files")
    line.add_argument("--target", type=Path, default=TARGET, help="folder of the markdown files")
    line.add_argument("--allow-missing", action="store_true", help="leave out what is not there")
    args = line.parse_args()
    names = [name for sections in FILES.values() for name in sections]
    missing = [name for name in names if not (args.results / f"{name}.json").exists()]
    if missing and not args.allow_missing:
        files = ", ".join(f"{name}.json" for name in missing)
        sys.exit(f"no {files} in the results folder: run those scripts, or use --allow-missing")
    args.target.mkdir(parents=True, exist_ok=True)
    for file, sections in FILES.items():
        there = {name: entry for name, entry in sections.items() if name not in missing}
        text = [section(args.results, name, *entry) for name, entry in there.items()]
        (args.target / file).write_text("\n\n".join(text) + "\n")
        say(f"wrote {file} with {len(text)} of {len(sections)} tables")


if __name__ == "__main__":
    main()
