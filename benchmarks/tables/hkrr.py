"""Tables of HKRR."""

from __future__ import annotations

from typing import Any

from tables.markdown import number, table


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


def hkrr_figure2_paper_time(r: dict[str, Any]) -> str:
    head = ["d", "method", "R², short", "steps", "loss", "R², the paper's time", "steps", "loss"]
    rows = []
    for row in sorted(r["rows"], key=lambda row: row["d"]):
        line = [str(row["d"]), row["method"]]
        for part in ("short", "paper"):
            found = row[part]
            line += [number(found["r2"], ".3f"), f"{found['iterations']:,}"]
            line.append(number(found["loss"], ".2e"))
        rows.append(line)
    return table(head, rows)


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


SECTIONS = {
    "hkrr_figure1": ("Figure 1: loss against time", hkrr_figure1),
    "hkrr_figure2": ("Figure 2: components and samples", hkrr_figure2),
    "hkrr_figure2_paper_time": ("Figure 2: the paper's time, once", hkrr_figure2_paper_time),
    "hkrr_toy": ("Appendix D.2: functions of two variables", hkrr_toy),
    "bench_hkrr": ("Objective and whole fits", bench_hkrr),
}
