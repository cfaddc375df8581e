"""Products and gradients of the Brownian kernel: time, accuracy and the memory's own floor.

The floor is one random gather and one random scatter-add for each of the n m projections, on the
operator's own order arrays: what any exact product has to do. It is measured with the value and
the sum in separate arrays and side by side; the faster of the two counts.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from common import (
    OURS,
    PUBLISHED,
    SECOND,
    THIRD,
    in_subprocess,
    parser,
    pictures,
    repeats_for,
    save_picture,
    say,
    synchronizer,
    timed,
    write_json,
)
from numba import njit

from gpukfl.operators import CenteredKernel

D, KNOTS = 20, 4096
SIZES, LARGE = (1_000, 4_000, 10_000, 100_000, 1_000_000), 10_000_000
PARTICLES = (16, 50)
DENSE_UP_TO = 4_000


@njit(nogil=True, cache=True)
def _separate(order, v, out, start, stop):
    for j in range(start, stop):
        for k in range(order.shape[1]):
            i = order[j, k]
            out[i] += v[i]


@njit(nogil=True, cache=True)
def _paired(order, buffer, start, stop):
    for j in range(start, stop):
        for k in range(order.shape[1]):
            i = order[j, k]
            buffer[i, 1] += buffer[i, 0]


def floor_seconds(order: np.ndarray, v: np.ndarray) -> dict[str, float]:
    """Seconds of the gather and scatter-add over all particles, in the library's threads."""
    from gpukfl._accel.cpu import run_in_chunks

    m, n = order.shape

    def separate(_: int, start: int, stop: int) -> None:
        _separate(order, v, np.zeros(n), start, stop)

    def paired(_: int, start: int, stop: int) -> None:
        buffer = np.zeros((n, 2))
        buffer[:, 0] = v
        _paired(order, buffer, start, stop)

    found = {
        "separate": timed(lambda: run_in_chunks(m, m * n, separate)),
        "side_by_side": timed(lambda: run_in_chunks(m, m * n, paired)),
    }
    best = min(found.values())
    return {**found, "best": best, "ns_per_element": 1e9 * best / order.size}


def copy_bandwidth(place: Any) -> float:
    """Bytes read and written in a second by one array copy of 256 MB."""
    source = place.put(np.zeros(2**25))
    target = place.xp.empty_like(source)

    def copy() -> None:
        target[...] = source

    return 2.0 * 2**25 * source.itemsize / timed(copy, synchronizer(place))


def dense_formula(X: np.ndarray, W: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Matrix and gradient written out from the formulas: O(n² m), no library code."""
    n, m = len(X), W.shape[1]
    K, gradient = np.zeros((n, n)), np.empty_like(W)
    for j in range(m):
        gaps = (X @ W[:, j])[:, None] - (X @ W[:, j])[None, :]
        K -= np.abs(gaps) / (2.0 * m)
        # sum_ii' alpha_i alpha_i' sign(gap) (x_i - x_i') = 2 sum_i alpha_i (sign alpha)_i x_i
        gradient[:, j] = -(X * (alpha * (np.sign(gaps) @ alpha))[:, None]).sum(axis=0) / m
    return K, gradient


def measure(n: int, m: int, backend: str) -> dict[str, Any]:
    """Everything at one size, in its own process."""
    from gpukfl.core._array import to_host
    from gpukfl.core._places import resolve_place
    from gpukfl.operators import BinnedBrownianKernel, BrownianKernel
    from gpukfl.partitioned._rows import Rows

    rng = np.random.default_rng(0)
    X_host, W_host = rng.uniform(-1.0, 1.0, (n, D)), rng.normal(0.0, D**-0.5, (D, m))
    noise, smooth = rng.normal(size=n), np.abs(np.sin(X_host[:, :3]).sum(axis=1))
    place = resolve_place(backend, X_host, dtype="float64", work=n * m)
    X, W = place.put(X_host), place.put(W_host)
    vectors = {"noise": noise - noise.mean(), "smooth": smooth - smooth.mean()}
    placed = {name: place.put(v[:, None]) for name, v in vectors.items()}
    made = {
        "exact": lambda: BrownianKernel.build(X, W),
        "binned": lambda: BinnedBrownianKernel.build(Rows(X, place.reference), W, n_knots=KNOTS),
    }
    row: dict[str, Any] = {"n": n, "m": m, "d": D, "dtype": "float64"}
    products, gradients = {}, {}
    for form, make in made.items():
        row[form] = _time_form(make, placed["noise"], synchronizer(place), n * m)
        kernel = make()
        for name, v in placed.items():
            products[form, name] = to_host(CenteredKernel(kernel) @ v)[:, 0]
            gradients[form, name] = to_host(kernel.quadratic_gradient(v))
        if form == "exact" and kernel.sorted.rank is None:
            row["floor"] = floor_seconds(kernel.sorted.order, vectors["noise"])
    row["binned_error"] = {
        f"{part}{name}": _relative(found["binned", name], found["exact", name])
        for part, found in (("", products), ("gradient_of_", gradients))
        for name in vectors
    }
    if "floor" in row:
        for form in made:
            row[form]["product_over_floor"] = row[form]["product_s"] / row["floor"]["best"]
    if n <= DENSE_UP_TO:
        found = products["exact", "noise"], gradients["exact", "noise"]
        row["dense"] = _against_dense(X_host, W_host, vectors["noise"], *found)
    row["copy_gb_per_s"] = copy_bandwidth(place) / 1e9
    return row


def _time_form(
    make: Callable[[], Any], v: Any, wait: Callable[[], None], elements: int
) -> dict[str, float]:
    """Seconds to set up one form of the kernel, and for its product and gradient."""
    operator = CenteredKernel(make())
    operator @ v  # the binned form computes its positions with the first product
    count = repeats_for(timed(lambda: operator @ v, wait, repeats=1))
    product = timed(lambda: operator @ v, wait, repeats=count)
    gradient = timed(lambda: operator.kernel.quadratic_gradient(v), wait, repeats=count)
    first = timed(lambda: CenteredKernel(make()) @ v, wait, repeats=min(count, 3))
    return {
        "setup_s": first - product,
        "product_s": product,
        "gradient_s": gradient,
        "product_ns_per_element": 1e9 * product / elements,
        "gradient_ns_per_element": 1e9 * gradient / elements,
    }


def _against_dense(
    X: np.ndarray, W: np.ndarray, v: np.ndarray, product: np.ndarray, slopes: np.ndarray
) -> dict[str, float]:
    """Time the written-out formulas, and compare with the exact operator."""
    seconds = timed(lambda: dense_formula(X, W, v), repeats=1)
    K, gradient = dense_formula(X, W, v)
    truth = K @ v
    truth = truth - truth.mean()
    return {
        "matrix_and_gradient_s": seconds,
        "product_s": timed(lambda: K @ v),
        "product_error": _relative(product, truth),
        "gradient_error": _relative(slopes, gradient),
    }


def _relative(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def summary(row: dict[str, Any]) -> str:
    """One line of nanoseconds for each projection."""
    exact, binned = row["exact"], row["binned"]
    floor = row.get("floor", {}).get("ns_per_element", math.nan)
    return (
        f"n {row['n']:9d} m {row['m']:3d}  ns/element: "
        f"product {exact['product_ns_per_element']:.2f} "
        f"(binned {binned['product_ns_per_element']:.2f}, floor {floor:.2f}), "
        f"gradient {exact['gradient_ns_per_element']:.2f} "
        f"(binned {binned['gradient_ns_per_element']:.2f})"
    )


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    rows = result["rows"]
    plt = pictures()
    counts = sorted({row["m"] for row in rows})
    figure, axes = plt.subplots(
        1, len(counts), figsize=(3.4 * len(counts) + 2.4, 3.8), sharey=True, squeeze=False
    )
    for ax, m in zip(axes[0], counts, strict=True):
        at = [row for row in rows if row["m"] == m]
        n = [row["n"] for row in at]
        for form, colour in (("exact", OURS), ("binned", SECOND)):
            for part, style in (("product", "-o"), ("gradient", ":s")):
                seconds = [row[form][f"{part}_s"] for row in at]
                ax.plot(n, seconds, style, color=colour, label=f"{form} {part}")
        if "floor" in at[0]:
            ax.plot(
                n, [row["floor"]["best"] for row in at], "--", color=PUBLISHED,
                label="random reads and writes alone",
            )  # fmt: skip
        dense = [row for row in at if "dense" in row]
        ax.plot(
            [row["n"] for row in dense],
            [row["dense"]["matrix_and_gradient_s"] for row in dense],
            "-^",
            color=THIRD,
            label="dense matrix + gradient",
        )
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(f"m = {m} particles")
        ax.set_xlabel("rows n")
    axes[0][0].set_ylabel("seconds")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside right upper")
    save_picture(args, "bench_operators", figure)


def main() -> None:
    line = parser(__doc__.splitlines()[0])
    line.add_argument("--large", action="store_true", help="also n = 10 million")
    args = line.parse_args()
    sizes = SIZES + ((LARGE,) if args.large else ())
    counts = PARTICLES
    if args.smoke:
        sizes, counts = (1_000, 20_000), (16,)
    rows = []
    for m in counts:
        for n in sizes:
            row = in_subprocess(measure, n, m, args.backend)
            rows.append(row)
            say(summary(row))
    result = {
        "settings": f"d = {D}, {KNOTS} knots, one right-hand side, float64, medians",
        "rows": rows,
    }
    draw(args, write_json(args, "bench_operators", result))


if __name__ == "__main__":
    main()
