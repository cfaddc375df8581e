"""The test at the first use of a GPU, with cached results."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpukfl._accel.trust import distrust
from gpukfl.core._array import Array, array_namespace, device_context, get_device, is_cupy
from gpukfl.core._files import atomic_write
from gpukfl.core._places import Place, resolve_place
from gpukfl.core._warnings import warn
from gpukfl.selftest._checks import CUPY, Outcome, Put, quick_checks, run
from gpukfl.selftest._timings import environment_facts

# ------------------------------------------------------------------------------ remembered

# What a self-test has found, kept in the user's cache folder: one file, a row for each set-up.


_MOST = 20  # set-ups that are kept
_VERSION = 1  # of what is kept


def results_file() -> Path | None:
    """Return the cache file, or None; ``GPUKFL_CACHE_DIR`` chooses the folder."""
    given = os.environ.get("GPUKFL_CACHE_DIR")
    if given:
        return Path(given) / "selftest.json"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        folder = os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"
    else:
        folder = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    return Path(folder) / "gpukfl" / "selftest.json"


def look_up(facts: dict[str, Any], /) -> dict[str, str] | None:
    """Return the cached faults of this set-up by part, or None if it was not tested."""
    for row in _read_results():
        if row["facts"] == facts:
            return row["wrong"]
    return None


def store_results(facts: dict[str, Any], wrong: dict[str, str], /) -> None:
    """Store the faults; ignore errors, after which the next process tests again."""
    path = results_file()
    if path is None:
        return
    others = [row for row in _read_results() if row["facts"] != facts]
    text = json.dumps(
        {"version": _VERSION, "rows": [{"facts": facts, "wrong": wrong}, *others][:_MOST]}
    )
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # At once, because several processes may test at the same time
        with atomic_write(path) as file:
            file.write(text.encode())


def _read_results() -> list[dict[str, Any]]:
    """Return the stored results, empty if the file is missing or damaged."""
    path = results_file()
    try:
        kept = {} if path is None else json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    if not isinstance(kept, dict) or kept.get("version") != _VERSION:
        return []
    rows = kept.get("rows", [])
    return [row for row in rows if isinstance(row, dict) and {"facts", "wrong"} <= row.keys()]


# --------------------------------------------------------------------------------- trusted

# The test at the first use of a GPU, and what is computed otherwise where it fails.


AT_MOST = 20.0  # seconds


def trusted_place(place: Place, X: Array, /) -> Place:
    """Return `place`, or NumPy if CuPy is faulty there.

    Parameters
    ----------
    place : Place
        Where a fit is about to be computed. Only CuPy is tested.
    X : array
        Its data.

    Returns
    -------
    Place
        Where its kernels are found wrong, array operations take their place in this process.

    Raises
    ------
    RuntimeError
        If CuPy computes wrong results, and `X` is one of its arrays.

    Notes
    -----
    The test takes at most 20 s, and is made once for each device, driver and version of CuPy and
    gpukfl: what it finds is kept in the user's cache folder.
    """
    if not is_cupy(place.reference):
        return place
    with device_context(place.reference):
        wrong = _wrong_parts(os.getpid(), int(getattr(place.reference.device, "id", 0)))
    if CUPY not in wrong:
        return place
    if is_cupy(X):
        msg = f"expected CuPy to compute correctly on this GPU, got {wrong[CUPY]}: use NumPy arrays"
        raise RuntimeError(msg)
    return resolve_place("numpy", np.empty(0), dtype=place.dtype, work=0)


def make_put(reference: Array, /) -> Put:
    """Return a function that copies host arrays, of whatever dtype, beside `reference`."""
    xp, device = array_namespace(reference), get_device(reference)
    return lambda x: xp.asarray(x, device=device)


def faulty_parts(outcomes: Sequence[Outcome], /) -> dict[str, str]:
    """Return the faults of each part in words."""
    wrong: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.problem:
            told = f"{outcome.what} in {outcome.dtype}: {outcome.problem}"
            wrong.setdefault(outcome.part, []).append(told)
    return {
        part: told[0] + (f" (and {len(told) - 1} more)" if told[1:] else "")
        for part, told in wrong.items()
    }


@functools.lru_cache(maxsize=64)
def _wrong_parts(process: int, device: int) -> dict[str, str]:  # noqa: ARG001
    """Return the faults of this device, cached or tested; warn of them and distrust the parts."""
    here = environment_facts()
    wrong = look_up(here)
    if wrong is None:
        wrong = _test(here)
    for part in wrong:
        distrust(part)
    if wrong:
        told = "; ".join(f"{part}: {what}" for part, what in wrong.items())
        instead = "NumPy computes" if CUPY in wrong else "array operations compute"
        warn(
            f"the self-test of this GPU found wrong results, and {instead} instead: {told}. "
            "Please report the output of `gpukfl selftest`",
            RuntimeWarning,
        )
    return wrong


def _test(here: dict[str, object]) -> dict[str, str]:
    import cupy

    try:
        outcomes, all_run = run(quick_checks(make_put(cupy.empty(0))), seconds=AT_MOST)
    except MemoryError:  # no room to test in: the fit itself will say so
        return {}
    wrong = faulty_parts(outcomes)
    if all_run:
        store_results(here, wrong)
    return wrong
