"""Table of predicted times on GPUs."""

from __future__ import annotations

from typing import Any

from tables.markdown import number, table


def fits(rows: list[dict[str, Any]]) -> str:
    head = ["card", "n", "PREDICTED (s)", "measured (s)", "2 cores, measured (s)"]
    head += ["PREDICTED with 12 calls an iteration of conjugate gradients (s)"]
    least = min(row["calls_of_cg"] for row in rows)
    fused = {(row["card"], row["n"]): row for row in rows if row["calls_of_cg"] == least}
    cells = [
        [
            row["card"],
            f"{row['n']:,}",
            number(row["predicted_seconds"], ".2f"),
            number(row["measured_seconds"], ".2f"),
            number(row["measured_2_cores"], ".2f"),
            number(fused[row["card"], row["n"]]["predicted_seconds"], ".2f"),
        ]
        for row in rows
        if row["calls_of_cg"] != least
    ]
    return table(head, cells)


def operators(rows: list[dict[str, Any]]) -> str:
    cells = [
        [
            row["form"],
            row["part"],
            number(1e3 * row["predicted_seconds"], ".2f"),
            number(row["measured_seconds"] and 1e3 * row["measured_seconds"], ".2f"),
        ]
        for row in rows
    ]
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


def gpu_model(r: dict[str, Any]) -> str:
    return "\n\n".join(
        [
            fits(r["rows"]),
            "Parts of an operator on an H100, a million samples:",
            operators(r["operators"]),
            "Sums of float32 data on the 24 GB consumer card, n = 10 000 with 50 particles, or all "
            "pairs of so many points. Where arithmetic in float64 takes more time than memory, it "
            "decides:",
            doubles(r["float64"]),
        ]
    )


SECTIONS = {"gpu_model": ("Predictions for GPUs", gpu_model)}
