"""Tables of fits on a cluster, and of what a large one would take."""

from __future__ import annotations

from typing import Any

from tables.markdown import number, table


def bench_dask(r: dict[str, Any]) -> str:
    return f"{_fits(r)}\n\n{_large(r)}"


def _fits(r: dict[str, Any]) -> str:
    head = ["method", "n", "seconds", "one process (s)", "ratio", "ratio of processor time"]
    head += ["load", "passes", "kB come a pass", "client (MB)", "worker (MB)", "commit"]
    rows = [
        [
            row["method"],
            f"{row['n']:,}",
            number(row["seconds"], ".1f"),
            number(row.get("one_process_seconds"), ".1f"),
            number(row.get("ratio"), ".2f"),
            number(row.get("processor_ratio"), ".2f"),
            number(row["load"], ".1f"),
            str(row["passes"]),
            number(row["received_kb_a_pass"], ".0f"),
            number(row["peak_anonymous_mb"], ".0f"),
            number(row["worker_mb"], ".0f"),
            (row.get("commit") or r["environment"]["commit"])[:7],
        ]
        for row in r["rows"]
    ]
    return table(head, rows)


def _large(r: dict[str, Any]) -> str:
    given = r["assumed"]
    head = ["method", "workers (s)", "latency (s)", "network (s)", "client (s)", "limited by"]
    head += ["rows of a worker (GB)", "sums at the client (GB)"]
    rows = [
        [
            row["method"],
            *(number(row["seconds"][name], ".1f") for name in row["seconds"]),
            row["limit"],
            number(row["worker_gb_of_rows"], ".1f"),
            number(row["client_gb_of_a_pass"], ".2f"),
        ]
        for row in r["extrapolation"]
    ]
    return (
        f"Not measured but computed from these, {given['rows']:,} rows of {given['columns']} "
        f"columns on {given['workers']} workers, with the same settings. A pass takes "
        f"{1e3 * r['latency_seconds']:.1f} ms here beside its work, and "
        f"{1e3 * given['round_trip_seconds']:.0f} ms more over a network; the client's network "
        f"carries {given['network_gb_a_second']} GB a second; work grows with the columns.\n\n"
        f"{table(head, rows)}"
    )


SECTIONS = {"bench_dask": ("Fits on a cluster", bench_dask)}
