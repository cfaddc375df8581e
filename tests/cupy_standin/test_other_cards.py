"""Launches follow what a card has, and results do not: every sum that it cuts is exact."""

import cupy
import numpy as np
import pytest
from cupy.cuda import runtime

from gpukfl import memory_budget
from gpukfl._accel import cuda
from gpukfl.core._cuda import Attribute, device_attribute
from gpukfl.linalg import (
    Positions,
    SortedColumns,
    bin_sums,
    factored_difference_sums,
    pair_sums,
    ridge_sums,
    sort_rows,
)

SHIFT, M, N, KNOTS = 4, 3, 60_000, 20
CARDS = {
    "few multiprocessors": {Attribute.MULTIPROCESSORS: 1},
    "little shared memory": {Attribute.SHARED_BYTES: 128},
}


@pytest.fixture
def launched(monkeypatch):
    """Launches of ``brownian.cu``: name, grid and bytes of shared memory."""
    found, launch = [], cuda.KERNELS.launch

    def noted(name, grid, threads, args, shared_bytes=0):
        found.append((name, grid, shared_bytes))
        launch(name, grid, threads, args, shared_bytes)

    monkeypatch.setattr(cuda.KERNELS, "launch", noted)
    return found


@pytest.fixture
def card(monkeypatch):
    """Let the device be another; what was known of it is asked for anew."""

    def put(properties):
        device_attribute.cache_clear()
        for which, value in properties.items():
            monkeypatch.setitem(runtime._ATTRIBUTES, int(which), value)

    yield put
    monkeypatch.undo()
    device_attribute.cache_clear()


def sums(launched):
    """Bits of sums over bins and of pairs, and the launches that made them."""
    rng = np.random.default_rng(0)
    codes = cupy.asarray(rng.integers(0, (KNOTS - 1) << SHIFT, (M, N)).astype("int32"))
    at, V = Positions(codes, SHIFT, KNOTS), cupy.asarray(rng.standard_normal((N, 1)))
    launched.clear()
    return [bin_sums(at, V).get(), pair_sums(at, None).get()], list(launched)


@pytest.mark.parametrize("name", CARDS)
def test_grids_follow_the_card_and_bits_do_not(launched, card, name):
    card({})
    expected, before = sums(launched)
    card(CARDS[name])
    found, after = sums(launched)
    assert before != after
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert all(shared <= device_attribute(Attribute.SHARED_BYTES, 0) for *_, shared in after)
    if name == "few multiprocessors":
        blocks = [sum(np.prod(grid) for _, grid, _ in launches) for launches in (before, after)]
        assert blocks[1] < blocks[0] / 2


def test_a_device_is_asked_once(launched, card, monkeypatch):
    card({})
    asked, ask = [], runtime.deviceGetAttribute
    monkeypatch.setattr(
        runtime, "deviceGetAttribute", lambda *which: asked.append(which) or ask(*which)
    )
    for _ in range(2):
        sums(launched)
    assert len(asked) == len(set(asked)) > 0


def test_little_memory_gives_more_launches_and_the_same_bits(launched, rng):
    A, X, V = (cupy.asarray(rng.standard_normal(shape)) for shape in ((6, 500), (500, 4), (500, 2)))
    rows, columns = sort_rows(A), SortedColumns.sort(X)

    def run():
        launched.clear()
        return ridge_sums(rows, V).get(), factored_difference_sums(V, columns).get(), len(launched)

    *expected, few = run()
    with memory_budget(10_000):
        *found, many = run()
    assert many > few
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)
