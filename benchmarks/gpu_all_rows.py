"""Predict how long all rows as centres take on a GPU, beside some of them, and what others report.

Launches and bytes of a product are counted on the stand-in for CuPy at two small sizes, and go on
with the squares of the rows; operations are counted by hand, and the data sheet does the rest.
Everything here is a prediction but the figures of others, which name their data.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from common import RESULTS, ROOT, parser, say, write_json
from gpu_model import TIMED, card

from gpukfl.selftest import Work

SIZES = (10_000, 100_000, 1_000_000)
D, CENTERS, MOST_PRODUCTS = 20, 2_000, 200
OPERATIONS = 60  # of a kernel value of 20 features: a dot product, a root and an exponential
COUNTED_AT, SMOKE_AT = (1_000, 2_000), (200, 400)
MEMORY = 80e9  # bytes of the card, of which half is planned for, and an eighth for kernel values
COPIES = 32.0  # bytes for an element of a block, by which blocks are cut
PUBLISHED = (
    {
        "what": "Falkon 0.8.4, 10 000 centres, a user's data of 70 features",
        "n": 10_000_000,
        "seconds": 600.0,
        "on": "an A6000 and an RTX 3090",
        "source": "github.com/FalkonML/falkon/issues/66",
    },
    {
        "what": "exact Gaussian process with its hyperparameters, more than a million rows",
        "n": 1_000_000,
        "seconds": 3 * 86_400.0,
        "on": "8 GPUs",
        "source": "Wang et al., Exact Gaussian Processes on a Million Data Points, 2019, abstract",
    },
)


def count(call: Callable[[], object]) -> Work:
    """Count bytes and launches of a call."""
    from cupy._counts import counted

    call()  # compiles
    with counted() as found:
        call()
    return Work(moved=found.moved, calls=found.launches, waits=found.waits)


def parts(sizes: tuple[int, int]) -> dict[str, tuple[float, float]]:
    """Bytes for a pair of rows and launches for a block: of products, and of the last residual."""
    sys.path.insert(0, str(ROOT / "tests" / "cupy_standin"))
    import placing

    placing.put()
    import cupy

    from gpukfl.kernels import Matern32
    from gpukfl.methods._all_rows import multiply_symmetric
    from gpukfl.operators import KernelOperator
    from gpukfl.partitioned._rows import Rows

    found: dict[str, list[Work]] = {"product": [], "residual": []}
    for n in sizes:
        X = cupy.asarray(np.random.default_rng(0).standard_normal((n, D)))
        few, V = X.astype(cupy.float32), X[:, :1].copy()
        operator = KernelOperator(Matern32(3.5), Rows(few, few[:0, 0]), few)
        v = V.astype(cupy.float32)
        found["product"].append(count(lambda operator=operator, v=v: operator @ v))
        found["residual"].append(count(lambda X=X, V=V: multiply_symmetric(Matern32(3.5), X, V)))
    of_pairs = {}
    for name, (small, large) in found.items():
        each = (large.moved - small.moved) / (sizes[1] ** 2 - sizes[0] ** 2)
        of_pairs[name] = each, large.calls
    return of_pairs


def predict(n: int, products: int, of_pairs: dict[str, tuple[float, float]]) -> dict[str, float]:
    """Predict seconds of some centres alone, and of all rows by so many products."""
    on, pairs = card(TIMED), float(n) * n
    blocks = max(1.0, COPIES * pairs / (0.5 * MEMORY))
    bytes_each, calls = of_pairs["product"]
    once = Work(moved=bytes_each * pairs, flops32=OPERATIONS * pairs, calls=calls * blocks)
    kept = 8.0 * pairs <= 0.125 * MEMORY
    again = Work(moved=4.0 * pairs, flops32=2.0 * pairs, calls=2.0 * blocks) if kept else once
    bytes_each, calls = of_pairs["residual"]
    last = Work(moved=bytes_each * pairs, flops64=OPERATIONS / 2 * pairs, calls=calls * blocks)
    q = float(CENTERS)
    values = Work(moved=2 * of_pairs["product"][0] * n * q, flops64=OPERATIONS * n * q, calls=20)
    centers = values + Work(flops64=2 * n * q**2 + q**3, calls=50)
    step = again + Work(moved=4 * 8.0 * n * q, flops64=4.0 * n * q, calls=60, waits=5)
    factor = last + Work(flops32=float(n) ** 3 / 3.0)
    return {
        "predicted_seconds_of_a_factor": on.seconds(factor),
        "predicted_seconds_of_centres": on.seconds(centers),
        "predicted_seconds_of_a_product": on.seconds(again),
        "predicted_seconds": on.seconds(centers)
        + on.seconds(once)
        + products * on.seconds(step)
        + on.seconds(last),
    }


def measured_products() -> tuple[int, int]:
    """Rows and products of the largest solve that `bench_all_rows.py` ran on the processor."""
    path = RESULTS / "bench_all_rows.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    ends = [row for row in rows if "until the error stops" in row["way"]]
    return (ends[-1]["n"], ends[-1]["products"]) if ends else (0, MOST_PRODUCTS)


def predictions(smoke: bool) -> list[dict[str, Any]]:
    """Predict all rows as centres at every size, with as many products as were needed, and most."""
    of_pairs = parts(SMOKE_AT if smoke else COUNTED_AT)
    at, products = measured_products()
    rows = []
    for n in SIZES:
        most = predict(n, MOST_PRODUCTS, of_pairs)["predicted_seconds"]
        rows.append(
            {
                "n": n,
                "card": TIMED,
                "products": products,
                "products_counted_at": at,
                **predict(n, products, of_pairs),
                "predicted_seconds_at_most": most,
                "bytes_of_a_pair": of_pairs["product"][0],
            }
        )
    return rows


def main() -> None:
    args = parser(__doc__).parse_args()
    rows = predictions(args.smoke)
    for row in rows:
        say(
            f"n {row['n']:9,d} on {row['card']} PREDICTED: {CENTERS} centres "
            f"{row['predicted_seconds_of_centres']:.3f} s, all rows by {row['products']} products "
            f"{row['predicted_seconds']:.2f} s, by {MOST_PRODUCTS} at most "
            f"{row['predicted_seconds_at_most']:.1f} s; a factor alone "
            f"{row['predicted_seconds_of_a_factor']:.2f} s"
        )
    for row in PUBLISHED:
        say(f"published: {row['what']}, n {row['n']:,}: {row['seconds']:,.0f} s on {row['on']}")
    settings = (
        f"{D} features, one target, Matérn 3/2, {CENTERS} centres in the preconditioner; launches "
        f"and bytes counted on the stand-in for CuPy at {COUNTED_AT[0]} and {COUNTED_AT[1]} rows, "
        "products as many as a processor needed. All is PREDICTED from data sheets and counts, "
        "nothing was timed on a GPU; figures of others are of their data and machines"
    )
    write_json(args, "gpu_all_rows", {"settings": settings, "rows": rows, "published": PUBLISHED})


if __name__ == "__main__":
    main()
