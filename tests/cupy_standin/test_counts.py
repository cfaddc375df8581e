"""Launches, bytes, waits and uploads are counted."""

import cupy
import numpy as np
import pytest
from cupy._counts import counted


def counts_of(run, *args):
    with counted() as counts:
        run(*args)
    return counts


@pytest.fixture
def x():
    return cupy.asarray(np.arange(12.0).reshape(3, 4))


@pytest.mark.parametrize(
    ("run", "launches", "waits"),
    [
        (lambda x: x + x, 1, 0),
        (lambda x: 2.0 * x - 1.0, 2, 0),
        (lambda x: x.T, 0, 0),
        (lambda x: x[1:, :], 0, 0),
        (lambda x: cupy.reshape(x, (4, 3)), 0, 0),
        (lambda x: cupy.reshape(x.T, (12,)), 1, 0),  # no view of a transpose
        (lambda x: cupy.sum(x, axis=0), 1, 0),
        (lambda x: x @ x.T, 1, 0),
        (lambda x: x.astype("float32"), 1, 0),
        (lambda x: x.astype("float64", copy=False), 0, 0),
        (lambda x: float(x[0, 0]), 0, 1),
        (lambda x: bool(x[0, 0]), 0, 1),
        (lambda x: x.get(), 0, 1),
        (lambda x: x[x > 3.0], 6, 1),  # counted before it can be allocated
        (cupy.empty_like, 0, 0),
        (cupy.zeros_like, 1, 0),
    ],
)
def test_each_step_costs_what_it_costs_on_a_gpu(x, run, launches, waits):
    counts = counts_of(run, x)
    assert (counts.launches, counts.waits) == (launches, waits)


def test_bytes_are_those_of_operands_and_results(x):
    assert counts_of(lambda: x + x[:1, :]).moved == 96 + 32 + 96


def test_uploads_are_counted_with_their_bytes(x):
    counts = counts_of(lambda: (cupy.asarray(np.zeros(5)), x[np.array([0, 2])]))
    assert (counts.uploads, counts.uploaded) == (2, 40 + 16)


def test_sites_name_the_lines_of_the_library():
    from gpukfl.core._array import sample_dot

    x = cupy.ones((5, 1))
    with counted(sites=True) as counts:
        sample_dot(x, x)
    assert any(site.startswith("core/_array.py") for _, _, site in counts.sites)


def test_nothing_is_counted_outside(x):
    with counted() as counts:
        pass
    x + x
    assert counts.launches == 0
