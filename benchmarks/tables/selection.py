"""Tables of feature selection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tables.markdown import number, table

ALLOWED = "1%"  # false-positive rate at which selection is compared


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


def knockoffs(r: dict[str, Any]) -> str:
    names = ("kernel", "Lasso", "thresholds")
    head = [
        "columns",
        "signal",
        *(f"{name}, {key}" for name in names for key in ("false", "power")),
    ]
    rows = [
        [
            row["design"],
            row["signal"],
            *(_with_error(row, name, key) for name in names for key in ("false", "power")),
        ]
        for row in r["rows"]
    ]
    text = ["Share of false variables among the found, and of the true ones that were found.",
            table(head, rows)]  # fmt: skip
    rows = [
        [
            row["signal"],
            f"{row['n']:,}, {row['p']:,}",
            number(row["selection"], ".1f"),
            number(row["knockoffs"], ".1f"),
        ]
        for row in r["times"]
    ]
    return "\n\n".join(
        [*text, table(["signal", "n, p", "a selection (s)", "with knockoffs (s)"], rows)]
    )


def _with_error(row: dict[str, Any], name: str, key: str) -> str:
    cell = row[f"{name} {key}"]
    return f"{number(cell['mean'], '.3f')} ± {number(cell['standard_error'], '.3f')}"


SECTIONS = {
    "selection_main_effects": ("Section 6.1: main effects", selection_main_effects),
    "selection_hierarchy": ("Section 6.2: hierarchical interactions", selection_hierarchy),
    "selection_landscape": ("Section 3.1: landscape", selection_landscape),
    "bench_knockoffs": ("Knockoffs", knockoffs),
    "bench_selection": ("Time, memory and agreement", bench_selection),
}
