"""Values so small that they say nothing, and cost much."""

from __future__ import annotations

from gpukfl._array import Array, array_namespace, epsilon, is_host, on_gpu


def without_traces(K: Array, /) -> Array:
    """Give `K`, values of a kernel of at most about 1, with 0 for those below the squared epsilon.

    NumPy's in its place. Sums with others cannot tell them from 0; but products of them are below
    the smallest normal number, with which a processor takes up to fifty times as long. GPUs do not.
    """
    if on_gpu(K):
        return K
    traces = epsilon(K) ** 2 > K
    if is_host(K):
        K[traces] = 0.0
        return K
    xp = array_namespace(K)
    return xp.where(traces, xp.zeros_like(K), K)
