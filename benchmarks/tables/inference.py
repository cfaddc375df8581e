"""Tables of what is inferred."""

from __future__ import annotations

from typing import Any

from tables.markdown import number, table


def bench_bands(r: dict[str, Any]) -> str:
    rows = [
        [
            f"`{row['model']}`",
            row["method"],
            f"{number(row['coverage'], '.3f')} ± {number(row['standard_error'], '.3f')}",
            ", ".join(f"{name} {number(held, '.3f')}" for name, held in row["by_curve"].items()),
            str(row["draws"]),
            number(row["processor_seconds"], ".2f"),
        ]
        for row in r["rows"]
    ]
    head = ["function", "method", "coverage", "by curve", "samples", "processor seconds"]
    return table(head, rows)


SECTIONS = {"bench_bands": ("Coverage of bands", bench_bands)}
