"""Values so small that they say nothing, and cost much."""

from __future__ import annotations

from gpukfl._array import Array, array_namespace, epsilon, is_host, on_gpu


def without_traces(values: Array, /) -> Array:
    """Give values of a kernel, of at most about 1, with 0 for those below the squared epsilon.

    NumPy's in their place. Sums with others cannot tell them from 0; but products of them are below
    the smallest normal number, with which a processor takes up to fifty times as long. GPUs do not.
    """
    if on_gpu(values):
        return values
    least = epsilon(values) ** 2
    if is_host(values):
        values[values < least] = 0.0
        return values
    xp = array_namespace(values)
    return xp.where(values < least, xp.zeros_like(values), values)
