"""Table of all rows as centres on a GPU, by predictions, and of what others report."""

from __future__ import annotations

from typing import Any

from tables.markdown import number, table


def gpu_all_rows(r: dict[str, Any]) -> str:
    head = ["rows", "2000 centres, PREDICTED (s)", "a product, PREDICTED (s)", "products"]
    head += ["all rows, PREDICTED (s)", "by 200 products, PREDICTED (s)"]
    head += ["a float32 factor alone, PREDICTED (s)"]
    cells = [
        [
            f"{row['n']:,}",
            number(row["predicted_seconds_of_centres"], ".3f"),
            number(row["predicted_seconds_of_a_product"], ".4f"),
            str(row["products"]),
            number(row["predicted_seconds"], ".2f"),
            number(row["predicted_seconds_at_most"], ".1f"),
            # More rows do not fit
            number(row["predicted_seconds_of_a_factor"], ".2f") if row["n"] <= 100_000 else "",
        ]
        for row in r["rows"]
    ]
    others = [
        [row["what"], f"{row['n']:,}", f"{row['seconds']:,.0f}", row["on"], row["source"]]
        for row in r["published"]
    ]
    return "\n\n".join(
        [
            table(head, cells),
            "What others report, of their own data and machines:",
            table(["", "rows", "seconds", "on", "source"], others),
        ]
    )


SECTIONS = {"gpu_all_rows": ("All rows as centres on an H100", gpu_all_rows)}
