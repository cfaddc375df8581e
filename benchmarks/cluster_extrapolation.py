"""What a large cluster would take, from the times, latencies and bytes of a small one."""

from __future__ import annotations

from typing import Any

ROWS, COLUMNS, WORKERS = 1_000_000_000, 50, 64
GB_A_SECOND = 1.25  # of the client's network: ten gigabits
ROUND_TRIP = 0.001  # seconds of a network, beside what a pass takes within one machine


def extrapolated(row: dict[str, Any], latency: float, d: int) -> dict[str, Any]:
    """Say what `ROWS` rows would take with the same settings, and what limits it.

    Parameters
    ----------
    row : dict
        Of the table: a fit of a cluster.
    latency : float
        Seconds of a pass that does nothing.
    d : int
        Columns of the rows that it was measured with.

    Notes
    -----
    Workers' time goes with the rows, and at most with the columns, each worker as fast as one
    here. Each pass waits once. Sums of every worker go through the client's network, and are held
    by the client at once. The client's own work is that of its samples, which do not grow.
    """
    passes, here = row["passes"], row["n_workers"]
    work = row["worker_processor_seconds"] / row["n"] * ROWS / WORKERS * COLUMNS / d
    sent, received = (passes * row[f"{way}_kb_a_pass"] / here for way in ("sent", "received"))
    parts = {
        "workers": work,
        "latency": passes * (latency + ROUND_TRIP),
        "network": WORKERS * (sent + received) * 1e3 / (GB_A_SECOND * 1e9),
        "client": row["client_alone_seconds"] * COLUMNS / d,
    }
    rows_gb = 8e-9 * ROWS * COLUMNS / WORKERS
    return {
        "method": row["method"],
        "seconds": parts,
        "all_seconds": sum(parts.values()),
        "limit": max(parts, key=lambda name: parts[name]),
        "worker_gb_of_rows": rows_gb,
        "client_gb_of_a_pass": 1e-6 * WORKERS * row["largest_kb"] / here,
    }


def assumed() -> dict[str, Any]:
    """Give what the extrapolation takes for granted."""
    return {
        "rows": ROWS,
        "columns": COLUMNS,
        "workers": WORKERS,
        "network_gb_a_second": GB_A_SECOND,
        "round_trip_seconds": ROUND_TRIP,
    }
