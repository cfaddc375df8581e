"""Rows of a data matrix: scaled, placed, and never more of them than fit."""

import numpy as np
import pytest
from shifted import shifted

import gpukfl
from gpukfl.core._array import is_host
from gpukfl.partitioned import _rows
from gpukfl.partitioned._rows import Rows, move_if_fits


@pytest.fixture(params=["float32", "float64"])
def stored(request, tmp_path, rng):
    """A read-only memory map (1000, 3)."""
    data = rng.standard_normal((1000, 3)).astype(request.param)
    data.tofile(tmp_path / "rows.bin")
    return np.memmap(tmp_path / "rows.bin", dtype=request.param, mode="r", shape=(1000, 3))


def test_rows_of_a_file_come_to_the_place(on, stored):
    rows = Rows(stored, on.reference)
    assert rows.shape == (1000, 3)
    on.assert_close(rows.whole(), stored, ulps=1)
    on.assert_close(rows.block(990, 1000), stored[990:], ulps=1)
    assert not isinstance(rows.whole(), np.memmap)


def test_reading_a_file_warns_of_nothing(on, stored, warning_again):
    assert Rows(stored, on.reference).block(0, 2).shape == (2, 3)


def test_rows_are_shifted_and_scaled_in_place(on, stored):
    shift, scale = np.array([1.0, -2.0, 0.5]), np.array([2.0, 1.0, 4.0])
    expected = (stored.astype(np.float64) - shift) / scale
    on.assert_close(Rows(stored, on.reference, shifted(shift, scale)).whole(), expected, ulps=4)


def test_values_beyond_the_clip_are_moved_there_after_scaling(on, stored):
    shift, scale = np.array([1.0, -2.0, 0.5]), np.array([2.0, 1.0, 4.0])
    expected = np.clip((stored.astype(np.float64) - shift) / scale, -0.5, 0.5)
    assert np.any(expected == 0.5)
    on.assert_close(
        Rows(stored, on.reference, shifted(shift, scale), clip=0.5).whole(), expected, ulps=4
    )


def test_rows_of_any_library_come_to_the_place(on, rng):
    host = on.rounded(rng.standard_normal((5, 2)))
    on.assert_close(Rows(host, on.reference).whole(), host, ulps=0)
    on.assert_close(Rows(on.put(host), on.reference).whole(), host, ulps=0)
    from_there = Rows(on.put(host), np.empty(0)).whole()
    assert type(from_there) is np.ndarray
    assert np.array_equal(from_there, host)


def test_rows_in_place_are_not_copied():
    X = np.ones((5, 2))
    assert np.shares_memory(Rows(X, np.empty(0)).block(1, 3), X)


def test_blocks_respect_the_budget_and_cover_all_rows(on, stored):
    width, budget = 5, 10_000
    rows = Rows(stored, on.reference)
    with gpukfl.memory_budget(budget):
        blocks = list(rows.blocks(width))
    assert len(blocks) > 1
    assert all(8 * (stop - start) * (3 * 3 + width) <= budget for start, stop, _ in blocks)
    on.assert_close(on.xp.concat([X for *_, X in blocks], axis=0), stored, ulps=1)
    assert [start for start, *_ in blocks[1:]] == [stop for _, stop, _ in blocks[:-1]]


def test_a_budget_too_small_for_one_row_still_gives_rows(on):
    with gpukfl.memory_budget(1):
        sizes = [stop - start for start, stop, _ in Rows(np.ones((3, 2)), on.reference).blocks()]
    assert sizes == [1, 1, 1]


@pytest.fixture
def every_place_is_a_gpu(monkeypatch):
    """Let all places but NumPy's pass for GPUs."""
    monkeypatch.setattr(_rows, "is_on_gpu", lambda x: not is_host(x))


def test_data_are_copied_to_a_gpu_once(on, stored, every_place_is_a_gpu):
    copy = move_if_fits(stored, on.reference)
    if on.package == "numpy":
        assert copy is stored
        return
    on.assert_close(copy, stored, ulps=0, dtype=stored.dtype.name)  # in its own precision
    rows = Rows(copy, on.reference)
    on.assert_close(rows.block(3, 7), stored[3:7], ulps=1)
    on.assert_close(rows.gather(np.array([7, 2])), stored[[7, 2]], ulps=1)
    assert move_if_fits(copy, on.reference) is copy


def test_data_that_do_not_fit_a_gpu_stay_where_they_are(on, stored, every_place_is_a_gpu):
    with gpukfl.memory_budget(stored.nbytes):
        assert move_if_fits(stored, on.reference) is stored
    assert move_if_fits(stored, np.empty(0)) is stored
