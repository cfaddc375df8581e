"""Write the benchmark tables of the documentation from the results."""

from __future__ import annotations

import argparse
import json
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
