"""Tables of BKerNN."""

from __future__ import annotations

from typing import Any

from tables.markdown import number, table


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


def experiment4(r: dict[str, Any]) -> str:
    first = next(iter(r["rows"].values()))
    columns = [(method, m) for method, cells in first.items() for m in cells]
    names = {"bkernn": "BKerNN, m = {}", "relu_network": "ReLU network, m = {}"}
    head = ["function", *(names[method].format(m) for method, m in columns)]
    rows = [
        [kind, *(number(row[method][m]["r2"]) for method, m in columns)]
        for kind, row in r["rows"].items()
    ]
    return "Test R².\n\n" + table(head, rows)


def experiment5(r: dict[str, Any]) -> str:
    head = [
        "", "R²", "published", "feature score", "filled as published", "published",
        "arbitrary of 10", "ridge R²", "published", "ReLU network R²", "published",
        "its feature score", "published",
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
                    number(c.get("relu_network_r2_mean")),
                    number(c.get("published_relu_network_r2_mean")),
                    number(c.get("relu_network_feature_mean")),
                    number(c.get("published_relu_network_feature_mean")),
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
        "relu_network": "ReLU network",
    }
    head = ["data"]
    for label in shown.values():
        head += [label, "published"]
    head += ["concave feature, auto step", "library defaults"]
    rows = []
    for name, row in r["rows"].items():
        line = [name]
        for key in shown:
            ours = row["ours"].get(key, {}).get("r2")
            line += [number(ours), number(row.get("published", {}).get(key))]
        for key in ("concave_feature_auto_step", "library_defaults"):
            line.append(number(row["ours"][key]["r2"]))
        rows.append(line)
    means = r["means"]
    line = ["**mean**"]
    for key in shown:
        line += [number(means["ours"].get(key)), number(means.get("published", {}).get(key))]
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


SECTIONS = {
    "experiment1": ("Experiment 1: three one-dimensional kernels", experiment1),
    "experiment2": ("Experiment 2: particles and ridge", experiment2),
    "experiment3": ("Experiment 3: penalties", experiment3),
    "experiment4": ("Experiment 4: functions of one variable", experiment4),
    "experiment5": ("Experiment 5: samples and dimension", experiment5),
    "experiment6": ("Experiment 6: real data", experiment6),
    "bench_operators": ("Operators", bench_operators),
    "bench_fits": ("Whole fits", bench_fits),
    "bench_memmap": ("Rows from disk", bench_memmap),
}
