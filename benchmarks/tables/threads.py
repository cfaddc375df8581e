"""Tables of threads, other processes, and limits of time."""

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


def bench_factors(r: dict[str, Any]) -> str:
    head = ["task", "n", "beside", *(f"{how} (ms)" for how in r["rows"][0]["seconds"])]
    rows = [
        [
            row["task"],
            f"{row['n']:,}",
            f"{row['beside']} busy" if row["beside"] else "",
            *(number(1e3 * seconds, ".1f") for seconds in row["seconds"].values()),
        ]
        for row in r["rows"]
    ]
    return f"With {r['threads']} threads.\n\n" + table(head, rows)


def bench_max_time(r: dict[str, Any]) -> str:
    rows = [
        [
            row["method"],
            f"{row['n']:,}",
            str(row["d"]),
            number(row["seconds"], ".1f"),
            number(row["r2"], ".3f"),
            str(row["settings_tried"]),
        ]
        for row in r["rows"]
    ]
    return table(["method", "n", "d", "seconds", "R²", "settings tried"], rows)


SECTIONS = {
    "bench_threads": ("Threads", bench_threads),
    "bench_factors": ("Factorisations over threads", bench_factors),
    "bench_max_time": ("Limits of time", bench_max_time),
}
