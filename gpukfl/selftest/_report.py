"""The report of a GPU for bug reports, as one record."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

from gpukfl.core._array import array_namespace, get_device
from gpukfl.core._cuda import cuda_devices, cupy_problem, is_installed
from gpukfl.selftest._checks import quick_checks, recorded_checks, run
from gpukfl.selftest._timings import card, device_memory, environment_facts, timings
from gpukfl.selftest._trust import make_put

PREDICTED = (
    "predicted_seconds are predictions of a model from bytes, operations and calls, with the "
    "device's data sheet; they are not measurements"
)


def missing_reason() -> str:
    """Return why nothing can be tested, or an empty string."""
    if not is_installed("cupy"):
        return "CuPy is not installed: `pip install 'gpukfl[cuda13]'` (or cuda12)"
    return cupy_problem()


def report(*, full: bool, n_timed: int) -> dict[str, Any]:
    """Test the current device.

    Parameters
    ----------
    full : bool
        Whether to compare with recorded bits too.
    n_timed : int
        Samples of the timings; 0 leaves them out, and so does a wrong result.

    Returns
    -------
    dict
        What can be written as JSON. ``right`` says whether everything was as expected.

    Raises
    ------
    MemoryError
        If the device has no room for the checks.

    Notes
    -----
    Without CuPy or a GPU it holds the ``reason`` alone, and ``right`` is None.
    """
    reason = missing_reason()
    if reason:
        return {"right": None, "reason": reason, "devices": cuda_devices()}
    import cupy

    begun, reference = time.perf_counter(), cupy.empty(0)
    put = make_put(reference)
    outcomes, _ = run(quick_checks(put), seconds=math.inf)
    bits, _ = run(recorded_checks(put) if full else (), seconds=math.inf)
    found: dict[str, Any] = {
        "right": not any(outcome.problem for outcome in (*outcomes, *bits)),
        "devices": cuda_devices(),
        **environment_facts(),
        "memory": device_memory(),
        "card": dataclasses.asdict(card()),
        "checks": [dataclasses.asdict(outcome) for outcome in outcomes],
        "recorded": [dataclasses.asdict(outcome) for outcome in bits],
    }
    if n_timed and found["right"]:
        xp = array_namespace(reference)
        found["note"] = PREDICTED
        found["timings"] = timings(xp, get_device(reference), card(), n_timed)
    found["seconds"] = time.perf_counter() - begun
    return found
