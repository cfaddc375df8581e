"""Tables of threads and other processes."""

from __future__ import annotations

from typing import Any

from tables.markdown import number, table


def bench_threads(r: dict[str, Any]) -> str:
    seconds = {
        (row["method"], row["n"], row["beside"], row["exported"]): row["seconds"]
        for row in r["rows"]
    }
    loads = sorted({row["beside"] for row in r["rows"]})
    exported = list(dict.fromkeys(row["exported"] for row in r["rows"]))
    head = ["method", "n"]
    head += [f"beside {beside}: {' / '.join(exported)} (s)" for beside in loads]
    rows = []
    for method, n in dict.fromkeys((row["method"], row["n"]) for row in r["rows"]):
        times = [
            " / ".join(number(seconds[method, n, beside, threads], ".2f") for threads in exported)
            for beside in loads
        ]
        rows.append([method, f"{n:,}", *times])
    return table(head, rows)


SECTIONS = {
    "bench_threads": ("Threads", bench_threads),
}
