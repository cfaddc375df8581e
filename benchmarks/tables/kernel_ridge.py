"""Tables of kernel ridge regression."""

from __future__ import annotations

from typing import Any

from tables.markdown import number, table


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


SECTIONS = {
    "bench_kernel_ridge": ("Solvers", bench_kernel_ridge),
}
