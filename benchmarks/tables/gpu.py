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
    return "\n\n".join([table(head, rows), *_other_commits(r["rows"])])


def _other_commits(rows: list[dict[str, Any]]) -> list[str]:
    """Say which rows are of another commit than the record."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if "commit" in row:
            named = f"{row['task']} of {row['n']:,} on {row['backend']}"
            alike = [one.get("commit") for one in rows if one["backend"] == row["backend"]]
            named = f"all on {row['backend']}" if len({*alike}) == 1 else named
            found.setdefault(row["commit"], []).append(named)
    found = {commit: list(dict.fromkeys(named)) for commit, named in found.items()}
    return [f"At commit {commit}: {'; '.join(named)}." for commit, named in found.items()]


def _seconds(row: dict[str, Any]) -> str:
    if "failed" in row:
        return row["failed"]
    once = row.get("first_seconds") == row.get("seconds") is not None
    return number(row.get("seconds"), ".2f") + (" (first fit)" if once else "")


SECTIONS = {"bench_gpu": ("On an H100, and an H200", bench_gpu)}
