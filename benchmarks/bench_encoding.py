"""How long it takes to encode a table of mixed columns, and how much memory; and one row of it."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import itertools
import statistics
import sys
import time
from typing import Any

import numpy as np
import pandas as pd
import psutil
from common import criterion, in_subprocess, parser, say, write_json

ROWS, SMOKE_ROWS = 1_000_000, 5_000
SECONDS, TIMES_MEMORY, ROW_SECONDS = 20.0, 2.0, 0.02  # limits that it is held to
REPEATS = 50
DTYPES = ("float64", "float32")
FORMS = ("pandas, object", "pandas, str", "polars", "pyarrow")
SETTINGS = (
    "20 columns: 6 of floats, 2 of them with gaps, 2 of integers, 2 of few integers, a boolean, "
    "4 of 2 to 12 words, 2 of 1000 and 50 000 words, 2 of dates, and one of 5 words a row; targets "
    "are numbers. Times are of the processor; memory is what a process has beside its frame."
)


def mixed_table(n: int, text: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Draw a table, whose text is of a dtype of pandas, and targets.

    Column by column, so that little memory is used beside it.
    """
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"float {k}": rng.standard_normal(n) for k in range(6)})
    for k in range(2):
        frame.loc[rng.random(n) < 0.1, f"float {k}"] = np.nan
        frame[f"integer {k}"] = rng.integers(10**6, size=n)
        frame[f"few {k}"] = rng.integers(5, size=n)
        frame[f"date {k}"] = np.datetime64("2020-01-01", "s") + rng.integers(10**8, size=n)
    frame["boolean"] = rng.random(n) < 0.3
    for levels in (2, 4, 8, 12, 1000, 50_000):
        words = np.array([f"level {k}" for k in range(levels)], dtype=object)
        frame[f"category {levels}"] = pd.Series(words[rng.integers(levels, size=n)], dtype=text)
    words = np.array([f"w{k}" for k in range(2000)], dtype=object)
    drawn = words[rng.integers(2000, size=(n, 5))]
    frame["text"] = pd.Series([" ".join(row) for row in drawn], dtype=text)
    return frame, frame["float 5"].to_numpy() + 0.1 * rng.standard_normal(n)


def frame_of(form: str, n: int) -> tuple[Any, np.ndarray, int]:
    """Draw a table of a library, and targets; say how much memory it takes."""
    if form.startswith("pandas"):
        frame, y = mixed_table(n, form.rsplit(maxsplit=1)[-1])
        return frame, y, int(frame.memory_usage(deep=True).sum())
    drawn, y = mixed_table(n, "str")
    if form == "polars":
        import polars as pl

        table = pl.from_pandas(drawn)
        # Of text `estimated_size` leaves out what points to it: 16 bytes a row
        return table, y, int(table.to_arrow(compat_level=pl.CompatLevel.newest()).nbytes)
    import pyarrow as pa

    table = pa.Table.from_pandas(drawn, preserve_index=False)
    return table, y, int(table.nbytes)


def give_back() -> None:
    """Let go what drawing the table took, which would be counted as held and used again."""
    gc.collect()
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    with contextlib.suppress(AttributeError, OSError):  # of glibc alone
        ctypes.CDLL(None).malloc_trim(0)


def encode(n: int, form: str, dtype: str) -> dict[str, Any]:
    """Learn the table and an encoding, encode the rows, and then one row again and again."""
    from gpukfl.tables import TableEncoder

    frame, y, size = frame_of(form, n)
    # What is compiled or imported is there
    TableEncoder(dtype=dtype).fit_transform(frame[:1000], y[:1000])
    give_back()
    held, begun = psutil.Process().memory_info(), time.process_time()
    encoder = TableEncoder(dtype=dtype)
    encoded = encoder.fit_transform(frame, y)
    taken = time.process_time() - begun
    row = frame[:1]
    seconds = []
    for _ in range(REPEATS):
        start = time.process_time()
        encoder.transform(row)
        seconds.append(time.process_time() - start)
    return {
        "frame": form,
        "dtype": dtype,
        "kinds": [column.kind for column in encoder.table_.columns],
        "seconds": taken,
        "row_seconds": statistics.median(seconds),
        "columns_out": encoded.shape[1],
        "frame_mb": size / 1e6,
        "encoded_mb": encoded.nbytes / 1e6,
        "held_mb": (held.rss - getattr(held, "shared", 0)) / 1e6,
    }


def measure(n: int, form: str, dtype: str) -> dict[str, Any]:
    """Encode in a process of its own, and say what it had beside the frame."""
    found = in_subprocess(encode, n, form, dtype)
    beside = found["peak_anonymous_mb"] - found["held_mb"]
    found |= {"beside_mb": beside, "times_frame": beside / found["frame_mb"]}
    numbers = {key: value for key, value in found.items() if isinstance(value, float)}
    say(
        f"{form}, numbers as {dtype}: "
        + ", ".join(f"{key} {value:.4g}" for key, value in numbers.items())
    )
    return found


def judged(found: dict[str, Any], full: bool) -> list[dict[str, Any]]:
    """Compare with what is to be reached."""
    where = f"{found['frame']}, numbers of {found['dtype']}"
    return [
        criterion(
            f"{ROWS:,} rows of 20 mixed columns, {where}: at most {SECONDS:.0f} s",
            found["seconds"] <= SECONDS if full else None,
            seconds=found["seconds"],
        ),
        criterion(
            f"the same: at most {TIMES_MEMORY:.0f} times the memory of the frame, result included",
            found["times_frame"] <= TIMES_MEMORY if full else None,
            times=found["times_frame"],
        ),
        criterion(
            f"one row, {where}: at most {1e3 * ROW_SECONDS:.0f} ms",
            found["row_seconds"] <= ROW_SECONDS if full else None,
            seconds=found["row_seconds"],
        ),
    ]


def main() -> None:
    args: argparse.Namespace = parser(__doc__).parse_args()
    n = SMOKE_ROWS if args.smoke else ROWS
    runs = [measure(n, *one) for one in itertools.product(FORMS, DTYPES)]
    checks = [one for found in runs for one in judged(found, not args.smoke)]
    content = {"settings": SETTINGS, "n": n, "runs": runs, "criteria": checks}
    write_json(args, "bench_encoding", content)


if __name__ == "__main__":
    main()
