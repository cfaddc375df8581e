"""Tables of conditional importance and interactions."""

from __future__ import annotations

from typing import Any

from tables.markdown import number, table

_ORDERS = {2: "pairs", 3: "triples"}


def bench_inference_importance(r: dict[str, Any]) -> str:
    nulls = [
        [
            f"{row['design']}, {row['model']}",
            number(row["ks_p_value"], ".3f"),
            number(row["at_most_0.05"], ".3f"),
            number(row["at_most_0.1"], ".3f"),
            number(row["processor_seconds"] / len(row["p_values"]), ".2f"),
        ]
        for row in r["nulls"]
    ]
    found = [
        [
            f"{row['data']}, {_ORDERS[row['order']]}, {row['model']}",
            f"{row['n']}, {row['p']}",
            f"{row['right']} of {row['draws']}",
            "closed form" if row["exact"] else "predictions",
            number(row["processor_seconds"], ".1f"),
        ]
        for row in r["interactions"]
    ]
    head = ["columns, model", "Kolmogorov-Smirnov p", "p ≤ 0.05", "p ≤ 0.1", "seconds a draw"]
    also = ["data, model", "n, p", "those of the data, no others", "averages by", "seconds a draw"]
    return "\n\n".join(
        [table(head, nulls), "Interactions; seconds of one core, the fit included:",
         table(also, found)]
    )  # fmt: skip


SECTIONS = {
    "bench_inference_importance": (
        "Conditional importance and interactions",
        bench_inference_importance,
    ),
}
