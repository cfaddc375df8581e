"""Rows divided into parts that threads of this process hold."""

import numpy as np

from gpukfl.partitioned import Holder, PartitionedArray, Partitioning, ThreadHolders


def in_parts(arrays, sizes, *, n_holders=2):
    """Divide host arrays (n, ...) alike; None stays None."""
    holders = ThreadHolders([Holder(np.empty(0)) for _ in range(n_holders)], sizes)
    rows = Partitioning(holders, np.empty(0))
    return [x if x is None else _divided(rows, x) for x in arrays]


def _divided(rows, x):
    whole = PartitionedArray(rows, None, x.shape[1:], x.dtype)
    for part, (start, stop) in enumerate(zip(rows.edges, rows.edges[1:], strict=False)):
        rows.holders.put(part, whole.key, x[start:stop])
    return whole


def whole(x):
    """Bring all rows here."""
    return x.partitioning.gather(x, np.arange(len(x)))
