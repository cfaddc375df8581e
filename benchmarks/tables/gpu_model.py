"""Table of predicted times on GPUs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tables.markdown import number, table

TIMED = "NVIDIA H100 80GB"


def measured(folder: Path, name: str, backend: str) -> dict[tuple[str, int], dict[str, Any]]:
    """Rows of a benchmark on a backend, by what was done and its size."""
    path = folder / f"{name}.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    return {
        (row.get("task", "BKerNN"), row["n"]): row
        for row in rows
        if row.get("backend", "numpy") == backend and row.get("seconds")
    }


def fits(rows: list[dict[str, Any]], folder: Path) -> str:
    gpu = measured(folder, "bench_gpu", "cupy")
    many, two = (measured(folder, name, "numpy") for name in ("bench_gpu", "bench_fits"))
    head = ["card", "n", "PREDICTED before steps were fused (s)", "PREDICTED (s)"]
    head += ["measured (s)", "16 cores, measured (s)", "2 cores, measured (s)"]
    least = min(row["calls_of_cg"] for row in rows)
    fused = {(row["card"], row["n"]): row for row in rows if row["calls_of_cg"] == least}
    cells = []
    for row in rows:
        if row["calls_of_cg"] == least:
            continue
        task = "BKerNN", row["n"]
        seen = [gpu if row["card"] == TIMED else {}, many, two]
        predicted = row["predicted_seconds"], fused[row["card"], row["n"]]["predicted_seconds"]
        numbers = [*predicted, *(found.get(task, {}).get("seconds") for found in seen)]
        cells.append([row["card"], f"{row['n']:,}", *(number(s, ".2f") for s in numbers)])
    return table(head, cells)


def operators(rows: list[dict[str, Any]], folder: Path) -> str:
    gpu, cells = measured(folder, "bench_gpu", "cupy"), []
    for row in rows:
        seen = gpu.get((f"operator, {row['form']}", 1_000_000), {}).get(row["part"])
        numbers = number(1e3 * row["predicted_seconds"], ".2f"), number(seen and 1e3 * seen, ".2f")
        cells.append([row["form"], row["part"], *numbers])
    return table(["form", "part", "PREDICTED (ms)", "measured (ms)"], cells)


def doubles(rows: list[dict[str, Any]]) -> str:
    head = ["primitive", "PREDICTED arithmetic / memory", "PREDICTED (ms)"]
    cells = [
        [
            row["primitive"],
            number(row["float64_share"], ".1f"),
            number(row["predicted_ms"], ".2f"),
            number(row["predicted_ms_in_pairs"], ".2f"),
        ]
        for row in rows
        if row["card"].startswith("24 GB")
    ]
    return table([*head, "PREDICTED in pairs of floats (ms)"], cells)


def when(folder: Path) -> str:
    """Say where measured times are from: not from the record that predicts."""
    path = folder / "bench_gpu.json"
    if not path.exists():
        return "Nothing has been measured on a GPU."
    on = json.loads(path.read_text())["environment"]
    return f"Measured on the {on['gpu']}, commit {on['commit'][:10]}, {on['date']}."


def gpu_model(r: dict[str, Any]) -> str:
    return "\n\n".join(
        [
            fits(r["rows"], r["results"]),
            when(r["results"]),
            "Parts of an operator on an H100, a million samples:",
            operators(r["operators"], r["results"]),
            "Sums of float32 data on the 24 GB consumer card, n = 10 000 with 50 particles, or all "
            "pairs of so many points. Where arithmetic in float64 takes more time than memory, it "
            "decides:",
            doubles(r["float64"]),
        ]
    )


SECTIONS = {"gpu_model": ("Predictions for GPUs", gpu_model)}
