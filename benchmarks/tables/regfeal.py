"""Tables of RegFeaL."""

from __future__ import annotations

from typing import Any

from tables.markdown import number, table


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
        "Against rows, prediction by the Hermite features.",
        table(
            head,
            [line(f"n = {row['n']:,}, m = {row['m']}, {row['dtype']}", row) for row in r["by_n"]],
        ),
        "Against the dimension, x1 + x2², ρ and μ chosen.",
    ]
    rows = [
        [*line(f"d = {row['d']}, n = {row['n']:,}, m = {row['m']}", row),
         number(row["kernel_ridge_r2"])]
        for row in r["by_d"]
    ]  # fmt: skip
    parts.append(table([*head, "R² of kernel ridge"], rows))
    names = list(r["parts"][0]["totals"])
    rows = [
        [f"n = {row['n']:,}, d = {row['d']}, m = {row['m']}",
         *(number(row["totals"][key], ".2f") for key in names)]
        for row in r["parts"]
    ]  # fmt: skip
    return "\n\n".join([*parts, "Seconds of the parts, all iterations.", table(["", *names], rows)])


SECTIONS = {
    "regfeal_experiment1": ("Experiment 1: samples and dimension", regfeal_experiment1),
    "regfeal_experiment2": ("Experiment 2: random features", regfeal_experiment2),
    "regfeal_experiment3": ("Experiment 3: over the iterations", regfeal_experiment3),
    "bench_regfeal": ("Time and memory", bench_regfeal),
}
