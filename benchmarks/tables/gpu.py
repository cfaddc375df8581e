"""Table of fits and products on a GPU."""

from __future__ import annotations

from typing import Any

from tables.markdown import number, table


def bench_gpu(r: dict[str, Any]) -> str:
    of = {(row["task"], row["n"], row["backend"]): row for row in r["rows"]}
    backends = list(dict.fromkeys(row["backend"] for row in r["rows"]))
    rows = []
    for task, n in dict.fromkeys((row["task"], row["n"]) for row in r["rows"]):
        mine = [of.get((task, n, backend), {}) for backend in backends]
        first = mine[0]
        memory = first.get("peak_gpu_mb")
        rows.append(
            [
                task,
                f"{n:,}",
                *(_seconds(row) for row in mine),
                number(first.get("r2"), ".3f"),
                number(None if memory is None else memory / 1e3, ".1f"),
            ]
        )
    head = ["", "n", *(f"{backend} (s)" for backend in backends), "R²", "device (GB)"]
    return table(head, rows)


def _seconds(row: dict[str, Any]) -> str:
    return row["failed"] if "failed" in row else number(row.get("seconds"), ".2f")


SECTIONS = {"bench_gpu": ("On an H100", bench_gpu)}
