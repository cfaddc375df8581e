"""Tables of what serving costs."""

from __future__ import annotations

from typing import Any

from tables.markdown import number, table

WAYS = {"package": "the package", "runtime": "`gpukfl.runtime`", "onnx": "onnxruntime"}


def bench_serving(r: dict[str, Any]) -> str:
    rows = []
    for row in r["rows"]:
        for way, words in WAYS.items():
            if way not in row:
                continue
            found = row[way]
            rows.append(
                [
                    row["model"],
                    "itself" if row["model"] == "LightGBM" else words,
                    number(row["score"], ".3f"),
                    f"{found['rows_per_second']:,.0f}",
                    number(found["row_ms"], ".3f"),
                    f"{found['bytes'] / 1000:,.0f}",
                    number(found["load_ms"], ".1f"),
                ]
            )
    heads = ["model", "served by", "R²", "rows/s", "one row, ms", "file, kB", "load, ms"]
    taken = ", ".join(f"`import {name}` {s:.3f} s" for name, s in r["imports"].items())
    return f"{table(heads, rows)}\n\nBeyond NumPy's own import: {taken}."


SECTIONS = {"bench_serving": ("Serving a model", bench_serving)}
