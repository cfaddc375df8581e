"""How long this device takes for what fits are made of, beside what the model predicts."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpukfl._accel import cuda, cuda_distances
from gpukfl._array import Namespace, to_host
from gpukfl.selftest._model import SECTOR, Card, Work

_ROWS_EACH = 4  # of projections
_KNOTS, _SHIFT = 2048, 20
_CENTERS, _FEATURES = 256, 20
_REPEATS = 3


@dataclass(frozen=True)
class Timed:
    """A computation, and what it asks for."""

    what: str
    run: Callable[[], Any]
    work: Work


def timings(xp: Namespace, device: Any, card: Card, n: int, /) -> list[dict[str, Any]]:
    """Time everything for `n` samples; seconds are medians, and predictions say so."""
    return [
        {
            "what": timed.what,
            "n": n,
            "seconds": _seconds(timed.run, xp, device),
            "predicted_seconds": card.seconds(timed.work),
        }
        for timed in (*_simple(xp, device, n), *_kernels(xp, device, n))
    ]


def _seconds(run: Callable[[], Any], xp: Namespace, device: Any) -> float:
    flag = xp.zeros(1, dtype=xp.float64, device=device)

    def wait() -> None:
        to_host(flag)  # the copy is behind all that was asked for before

    run()
    wait()
    found = []
    for _ in range(_REPEATS):
        begun = time.perf_counter()
        run()
        wait()
        found.append(time.perf_counter() - begun)
    return statistics.median(found)


def _simple(xp: Namespace, device: Any, n: int) -> list[Timed]:
    rng = np.random.RandomState(0)
    host = rng.standard_normal(n)
    x, little = (xp.asarray(a, device=device) for a in (host, host[:1]))
    side = math.isqrt(n)
    A = xp.reshape(x[: side * side], (side, side))

    def many() -> None:
        for _ in range(100):
            little + 1.0

    return [
        Timed("100 calls", many, Work(calls=100)),
        Timed("copy on the device", lambda: x + 0.0, Work(moved=16 * n, calls=1)),
        Timed("copy to the device", lambda: xp.asarray(host, device=device), Work(uploaded=8 * n)),
        Timed("copy to the host", lambda: to_host(x), Work(uploaded=8 * n, waits=1)),
        Timed("sum", lambda: xp.sum(x), Work(moved=8 * n, calls=1)),
        Timed("running sum", lambda: xp.cumulative_sum(x), Work(moved=16 * n, calls=2)),
        # Eight digits of a key, each read and written with its index
        Timed("argsort", lambda: xp.argsort(x), Work(moved=8 * 32 * n, calls=12)),
        Timed("product", lambda: A @ A, Work(moved=24 * side**2, flops64=2 * side**3, calls=1)),
    ]


def _kernels(xp: Namespace, device: Any, n: int) -> list[Timed]:
    rng, m = np.random.RandomState(0), _ROWS_EACH
    A, v, X = (
        xp.asarray(rng.standard_normal(shape), device=device)
        for shape in ((m, n), (n, 1), (n, _FEATURES))
    )
    rows = cuda.sort_rows(A)
    drawn = rng.randint(0, (_KNOTS - 1) << _SHIFT, (m, n)).astype(np.int32)
    codes = xp.asarray(drawn, device=device)
    U = xp.zeros((m, _KNOTS, 1), dtype=xp.float64, device=device)
    each = m * n
    # Two passes over values, order and gathered weights, levels out, and levels gathered by rank
    ridge = 2 * (12 + SECTOR) + 8 + 4 + SECTOR
    signs = 2 * (4 + SECTOR) + 8 + 8 + 4 + 3 * SECTOR + 8
    pairs = n * _CENTERS * _FEATURES
    return [
        Timed("ridge_sums", lambda: cuda.ridge_sums(*rows, v), Work(ridge * each, calls=6)),
        Timed("sign_products", lambda: cuda.sign_products(*rows, v), Work(signs * each, calls=5)),
        Timed(
            "bin_sums",
            lambda: cuda.bin_sums(codes, _SHIFT, _KNOTS, v),
            Work(12 * each, calls=8),
        ),
        Timed(
            "interpolate_bins",
            lambda: cuda.interpolate_bins(codes, _SHIFT, U),
            Work(4 * each + 8 * n, calls=2),
        ),
        Timed(
            "distances",
            lambda: cuda_distances.distances(X, X[:_CENTERS, :], "euclidean"),
            Work(8 * n * (_CENTERS + _FEATURES), flops64=3 * pairs, calls=2),
        ),
    ]
