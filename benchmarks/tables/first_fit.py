"""Tables of first fits."""

from __future__ import annotations

from typing import Any

from tables.markdown import number, table


def bench_first_fit(r: dict[str, Any]) -> str:
    names = list(dict.fromkeys(row["method"] for row in r["rows"]))
    found = {(row["n"], row["d"], row["method"]): row for row in r["rows"]}
    rows = []
    for n, d in dict.fromkeys((row["n"], row["d"]) for row in r["rows"]):
        mine = [found[n, d, name] for name in names]
        cells = [f"{number(x['seconds'], '.2f')} ({number(x['score'], '.3f')})" for x in mine]
        rows.append([f"{n:,}", str(d), *cells])
    return table(["n", "d", *(f"{name}, s (R²)" for name in names)], rows)


def bench_first_fit_sets(r: dict[str, Any]) -> str:
    names = list(dict.fromkeys(row["method"] for row in r["rows"]))
    found = {(row["set"], row["method"]): row for row in r["rows"]}
    before = {(row["set"], row["method"]): row["score"] for row in r["before"]}
    rows = []
    for one in dict.fromkeys(row["set"] for row in r["rows"]):
        cells = []
        for name in names:
            text, old = number(found[one, name]["score"], ".3f"), before.get((one, name))
            cells.append(
                text if old is None else f"{text} ({found[one, name]['score'] - old:+.3f})"
            )
        rows.append([one, *cells])
    seconds = [
        number(sum(row["seconds"] for row in r["rows"] if row["method"] == name), ".0f")
        for name in names
    ]
    rows.append(["seconds, all together", *seconds])
    note = (
        "In brackets: what is gained on the search that saw all rows and folds.\n\n"
        if before
        else ""
    )
    return note + table(["set", *names], rows)


def bench_first_fit_splits(r: dict[str, Any]) -> str:
    rows = [
        [
            row["set"],
            row["method"],
            str(row["splits"]),
            number(row["before"], ".3f"),
            number(row["score"], ".3f"),
            f"{row['gain']:+.3f} ({number(row['standard_error'], '.3f')})",
        ]
        for row in r["rows"]
    ]
    return table(["set", "method", "splits", "before", "now", "gain (standard error)"], rows)


def bench_classes(r: dict[str, Any]) -> str:
    rows = [
        [
            f"{row['classes']} of {row['n']:,} x {row['d']}",
            row["method"],
            number(row["processor_seconds"], ".1f"),
            number(row["log_loss"], ".3f"),
            number(row["score"], ".3f"),
        ]
        for row in r["rows"]
    ]
    return table(["classes, rows, columns", "method", "s", "log loss", "right"], rows)


SECTIONS = {
    "bench_first_fit": ("Time of a first fit", bench_first_fit),
    "bench_first_fit_sets": ("What a first fit reaches", bench_first_fit_sets),
    "bench_first_fit_splits": ("What a first fit reaches, on other splits", bench_first_fit_splits),
    "bench_classes": ("Many classes", bench_classes),
}
