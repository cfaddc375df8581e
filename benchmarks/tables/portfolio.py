"""Tables of the portfolio and the models that are compared with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tables.markdown import number, table
from tables.multiples import cells

Rows = list[dict[str, Any]]


def _versions(r: dict[str, Any]) -> str:
    shown = ", ".join(f"{name} {version}" for name, version in r["peers"].items())
    threads = f"{r['threads']} thread{'' if r['threads'] == 1 else 's'}"
    return f"Compared with: {shown}; {threads} each.\n\n"


def _cell(rows: Rows, keys: Sequence[str], forms: Sequence[str]) -> str:
    """Means of some numbers, the second and further ones in brackets."""
    if not rows:
        return "–"
    first, *more = (
        number(float(np.mean([row[key] for row in rows])), form)
        for key, form in zip(keys, forms, strict=True)
    )
    return f"{first} ({', '.join(more)})" if more else first


def _by_set(r: dict[str, Any], keys: Sequence[str], forms: Sequence[str]) -> list[list[str]]:
    models, sets = _names(r, "model"), _names(r, "set")
    return [
        [
            one,
            *(
                _cell([x for x in r["rows"] if (x["set"], x["model"]) == (one, m)], keys, forms)
                for m in models
            ),
        ]
        for one in sets
    ]


def _names(r: dict[str, Any], key: str) -> list[str]:
    return list(dict.fromkeys(row[key] for row in r["rows"]))


def _mean(r: dict[str, Any], title: str, keys: Sequence[str], forms: Sequence[str]) -> list[str]:
    of = {m: [row for row in r["rows"] if row["model"] == m] for m in _names(r, "model")}
    return [title, *(_cell(rows, keys, forms) for rows in of.values())]


def sets(r: dict[str, Any]) -> str:
    both = ["r2", "r2_of_all"], [".3f", ".3f"]
    rows = _by_set(r, *both)
    rows.append(_mean(r, "mean", *both))
    rows.append(_mean(r, "processor seconds a set", ["processor_seconds"], [".2f"]))
    shown = _versions(r) + table(["R² (of all other rows)", *_names(r, "model")], rows)
    return shown + _of_draws(r["held_in_draws"])


def _of_draws(r: dict[str, Any] | None) -> str:
    if r is None:
        return ""
    return (
        f"\nOf {r['draws']} draws of {r['rows']} of all other rows of each set, the portfolio is "
        f"on no set more than {r['below']} below the best of our single methods in "
        f"{r['portfolio']:.1%}. What is best on all these rows, the portfolio or one of them, "
        f"which is known only afterwards, is so in {r['best_of_all_rows']:.1%}.\n"
    )


def uci(r: dict[str, Any]) -> str:
    rows = _by_set(r, ["rmse", "processor_seconds"], [".4f", ".1f"])
    return _versions(r) + table(["RMSE (processor seconds)", *_names(r, "model")], rows)


def classes(r: dict[str, Any]) -> str:
    rows = _by_set(r, ["accuracy", "log_loss"], [".4f", ".3f"])
    return _versions(r) + table(["accuracy (log loss)", *_names(r, "model")], rows)


def intervals(r: dict[str, Any]) -> str:
    rows = _by_set(r, ["coverage", "width"], [".2f", ".2f"])
    rows.append(_mean(r, "mean", ["coverage", "width"], [".3f", ".3f"]))
    return _versions(r) + table(["coverage (width)", *_names(r, "model")], rows)


def tables(r: dict[str, Any]) -> str:
    return _versions(r) + table(*_of_tables(r))


def other_tables(r: dict[str, Any]) -> str:
    head, body = _of_tables(r)
    for classes, title in ((False, "root mean squared errors"), (True, "log losses")):
        found = cells(r["rows"], head[1:], classes=classes)
        if found:  # a small run has no classes
            body.insert(-2, [f"{title} as multiples of ours: geometric mean (median)", *found])
    return _versions(r) + table(head, body)


def _of_tables(r: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    models, names = _names(r, "model"), _names(r, "table")
    body = []
    for one in names:
        rows = [[x for x in r["rows"] if (x["table"], x["model"]) == (one, m)] for m in models]
        keys = ["score", "log_loss"] if "log_loss" in rows[0][0] else ["score"]
        body.append([one, *(_cell(x, keys, [".3f"] * len(keys)) for x in rows)])
    body.append(_mean(r, "ms for one row", ["one_row_ms"], [".1f"]))
    body.append(_mean(r, "processor seconds a fit", ["processor_seconds"], [".1f"]))
    return ["R² or accuracy (log loss)", *models], body


SECTIONS = {
    "bench_portfolio_sets": ("17 small sets", sets),
    "bench_portfolio_uci": ("Two UCI sets", uci),
    "bench_portfolio_classes": ("Classes", classes),
    "bench_tables": ("Tables as they come", tables),
    "bench_other_tables": ("Tables that had next to no part in any choice", other_tables),
    "bench_drawn_tables": ("Tables that were drawn", other_tables),
    "bench_drawn_large": ("Tables of many rows that were drawn", other_tables),
    "bench_portfolio_intervals": ("Prediction intervals", intervals),
}
