"""Table of what kernels save, by predictions."""

from __future__ import annotations

from typing import Any

from tables.markdown import number, table


def gpu_shares(r: dict[str, Any]) -> str:
    head = [
        "of",
        "card",
        "all else, PREDICTED (ms)",
        "in it",
        "by array operations, PREDICTED (ms)",
    ]
    head += ["share", "by a kernel, PREDICTED (ms)", "share"]
    cells = [
        [
            row["computation"],
            row["card"],
            number(row["rest_ms"], ".1f"),
            row["primitive"],
            number(row["arrays_ms"], ".1f"),
            number(row["share"], ".0%"),
            number(row["kernel_ms"], ".1f"),
            number(row["share_with_kernel"], ".0%"),
        ]
        for row in r["rows"]
    ]
    return table(head, cells)


SECTIONS = {"gpu_shares": ("What kernels save", gpu_shares)}
