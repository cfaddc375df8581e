"""Arrays whose rows lie in parts do as NumPy's do."""

# ruff: noqa: ARG005 - each case is given the same, and takes what it needs

import gc
import sys
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from partitioned.rows import in_parts, whole

from gpukfl.core._array import array_namespace, asarray_like, sample_dot, take_rows, to_host
from gpukfl.partitioned import Holder, ThreadHolders, _program
from gpukfl.partitioned._rows import map_rows, recompute

SIZES = [7, 1, 30, 12]
N = sum(SIZES)

ROWWISE = {
    "sum": lambda xp, a, b, c: a + 2.0 * b - c,
    "product": lambda xp, a, b, c: (a * b / (1.0 + c * c)) ** 2,
    "reflected": lambda xp, a, b, c: 1.0 - a + (2.0 / (3.0 + abs(b))),
    "where": lambda xp, a, b, c: xp.where(a > b, a, xp.zeros_like(b)),
    "limits": lambda xp, a, b, c: xp.minimum(xp.maximum(a, -0.5), c),
    "roots": lambda xp, a, b, c: xp.sqrt(xp.abs(a)) + xp.exp(b),
    "matmul": lambda xp, a, b, c: a @ np.arange(6.0).reshape(3, 2),
    "columns": lambda xp, a, b, c: a[:, :2] + b[:, 1:],
    "new axis": lambda xp, a, b, c: a[:, 0][:, None] * b,
    "concat": lambda xp, a, b, c: xp.concat([a, b[:, :1]], axis=1),
    "stack": lambda xp, a, b, c: xp.stack([a[:, 0], b[:, 1]], axis=1),
    "reshape": lambda xp, a, b, c: xp.reshape(a[:, 0], (N, 1)),
    "narrow": lambda xp, a, b, c: xp.astype(a, xp.float32) * xp.astype(b, xp.float32),
    "row sums": lambda xp, a, b, c: xp.sum(a * b, axis=1),
    "row norms": lambda xp, a, b, c: xp.linalg.vector_norm(a, axis=1),
    "logic": lambda xp, a, b, c: ~((a > 0) & (b < 0)) | xp.isfinite(a),
}
OVER_ROWS = {
    "sum": lambda xp, a: xp.sum(a, axis=0),
    "wide sum": lambda xp, a: xp.sum(xp.astype(a, xp.float32), axis=0, dtype=xp.float64),
    "total": lambda xp, a: xp.sum(a),
    "max": lambda xp, a: xp.max(a, axis=0),
    "min": lambda xp, a: xp.min(a),
    "mean": lambda xp, a: xp.mean(a, axis=0),
    "any": lambda xp, a: xp.any(a > 2.0),
    "all": lambda xp, a: xp.all(a > -9.0, axis=0),
    "norm": lambda xp, a: xp.linalg.vector_norm(a),
}


@pytest.fixture
def drawn():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(N, 3)) for _ in range(2)] + [rng.normal(size=3)]


@pytest.mark.parametrize("name", ROWWISE)
def test_what_is_done_to_each_row(name, drawn):
    a, b, small = drawn
    expected = ROWWISE[name](array_namespace(a), a, b, small)
    P, Q = in_parts([a, b], SIZES)
    found = ROWWISE[name](array_namespace(P), P, Q, small)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(whole(found), expected)


@pytest.mark.parametrize("name", OVER_ROWS)
def test_what_is_done_over_rows_is_small_and_here(name, drawn):
    a = drawn[0]
    expected = OVER_ROWS[name](array_namespace(a), a)
    (P,) = in_parts([a], SIZES)
    found = OVER_ROWS[name](array_namespace(P), P)
    assert isinstance(found, np.ndarray | np.generic)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_one_description_computes_what_is_asked_for_in_one_pass(drawn):
    P, Q = in_parts(drawn[:2], SIZES)
    R = P * 2.0 + Q
    sample_dot(R - Q, Q + 1.0)
    assert P.partitioning.n_passes == 1


def test_values_that_nobody_holds_are_not_kept(drawn):
    P, Q = in_parts(drawn[:2], SIZES, n_holders=1)
    (holder,) = P.partitioning.holders.holders
    R = (P + Q) * (P - Q)
    P.partitioning.reduce(lambda *_: [0.0])
    assert set(holder.values[0]) == {P.key, Q.key, R.key}
    del R
    sample_dot(P, Q)
    assert set(holder.values[0]) <= {P.key, Q.key, max(holder.values[0])}


def test_a_chain_of_updates_stays_short(drawn):
    P, Q = in_parts(drawn[:2], SIZES, n_holders=1)
    (holder,) = P.partitioning.holders.holders
    x = P
    for _ in range(50):
        x = x + 0.5 * Q
        sample_dot(x, Q)
    assert len(holder.values[0]) <= 5
    np.testing.assert_allclose(whole(x), drawn[0] + 25.0 * drawn[1], rtol=1e-12)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.integers(1, 4))
def test_sums_have_the_same_bits_whoever_holds_the_parts(sizes, n_holders):
    x = np.random.default_rng(0).normal(size=(sum(sizes), 2)) * 1e3
    totals = []
    for count in (1, min(n_holders, len(sizes))):
        (P,) = in_parts([x], sizes, n_holders=count)
        totals.append(array_namespace(P).sum(P, axis=0))
    np.testing.assert_array_equal(*totals)


@given(st.lists(st.integers(0, N - 1), max_size=20))
def test_rows_at_indices_come_here_in_their_order(index):
    x = np.arange(2.0 * N).reshape(N, 2)
    (P,) = in_parts([x], SIZES)
    np.testing.assert_array_equal(take_rows(P, np.array(index, dtype=np.int64)), x[index])


def test_what_is_here_is_not_made_partitioned(drawn):
    (P,) = in_parts(drawn[:1], SIZES)
    xp = array_namespace(P)
    assert isinstance(xp.zeros((2, 2)), np.ndarray)
    assert isinstance(xp.sqrt(drawn[2] ** 2), np.ndarray)
    assert asarray_like(P, np.empty(0, dtype=np.float32)).dtype == np.float32


BAD = {
    "rows": (lambda P, a: P[3:5, :], TypeError, "columns of all rows"),
    "host": (lambda P, a: to_host(P), TypeError, "partitioned rows"),
    "truth": (lambda P, a: bool(P > 0), TypeError, "one number"),
    "as many small rows": (lambda P, a: P + a, ValueError, "got one of as many rows"),
    "other parts": (lambda P, a: P + in_parts([a], SIZES)[0], ValueError, "same partitions"),
    "sort": (lambda P, a: array_namespace(P).sort(P, axis=0), TypeError, "not defined"),
    "argmax": (lambda P, a: array_namespace(P).argmax(P, axis=0), TypeError, "not defined"),
    "rows joined": (
        lambda P, a: array_namespace(P).concat([P, P], axis=0),
        TypeError,
        "by columns",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_needs_all_rows_in_one_place_is_refused(name, drawn):
    call, error, words = BAD[name]
    (P,) = in_parts(drawn[:1], SIZES)
    with pytest.raises(error, match=words):
        call(P, drawn[0])


def test_a_pass_that_fails_leaves_what_there_was(drawn):
    (P,) = in_parts(drawn[:1], SIZES, n_holders=1)
    (holder,) = P.partitioning.holders.holders
    before = {part: dict(values) for part, values in holder.values.items()}

    def fails(start, _):
        if start > 0:
            msg = "in the second part"
            raise ZeroDivisionError(msg)
        return [0.0]

    with pytest.raises(ZeroDivisionError, match="second part"):
        P.partitioning.reduce(fails)
    assert holder.values == before


def test_several_threads_of_a_holder_do_as_one(drawn):
    holders = ThreadHolders([Holder(np.empty(0), 3)], SIZES)
    rows = type(in_parts(drawn[:1], SIZES)[0].partitioning)(holders, np.empty(0))
    for part, (start, stop) in enumerate(zip(rows.edges, rows.edges[1:], strict=False)):
        holders.put(part, 0, drawn[0][start:stop])
    P = type(in_parts(drawn[:1], SIZES)[0])(rows, None, (3,), np.float64)
    (Q,) = in_parts(drawn[:1], SIZES)
    np.testing.assert_array_equal(sample_dot(P, P), sample_dot(Q, Q))


def test_what_is_missing_is_said(drawn, monkeypatch):
    (P,) = in_parts(drawn[:1], SIZES)
    _program._pickler.cache_clear()
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(ImportError, match=r"gpukfl\[dask\]"):
        sample_dot(P, P)
    _program._pickler.cache_clear()


def test_what_is_kept_instead_of_another_takes_its_place_part_by_part(monkeypatch):
    (x,) = in_parts([np.arange(10.0)], [4, 3, 3], n_holders=1)
    rows, run_on, there = x.partitioning, Holder._run_pass, []
    first = rows.keep(lambda start, stop: [x[start:stop]])
    rows.reduce(lambda *_: [first[0][0]])

    def noted(self, work, part, edges):
        there.append([first.key in values for values in self.values.values()])
        return run_on(self, work, part, edges)

    monkeypatch.setattr(Holder, "_run_pass", noted)
    second = rows.keep(lambda *_: [2.0 * first[0]], instead_of=first)
    (total,) = rows.reduce(lambda *_: [second[0].sum()])
    assert there == [[True, True, True], [False, True, True], [False, False, True]]
    (again,) = rows.reduce(lambda *_: [second[0].sum()])
    assert there[3:] == [[False] * 3] * 3
    assert total == again == 90.0


def test_a_program_that_ran_holds_no_rows(drawn):
    a, _, small = drawn
    (P,) = in_parts([a], [N])
    program, _ = _program.dumps(lambda start, stop: P[start:stop] * small)
    block = a.copy()
    held, values = weakref.ref(block), {P.key: block}
    gc.disable()  # it would take a while, and memory be full by then
    try:
        found = _program.loads(program, values, np.empty(0), (0, N, N))(0, N)
        del block, values
        assert held() is None
    finally:
        gc.enable()
    np.testing.assert_array_equal(found, a * small)


def kept(x):
    """Keys that the parts of an array have."""
    parts = [values for one in x.partitioning.holders.holders for values in one.values.values()]
    return set().union(*parts)


def test_what_is_made_anew_is_not_kept(drawn):
    a, b, small = drawn
    P, Q = in_parts([a, b], SIZES)
    xp = array_namespace(P)
    centered = recompute((P - small) / 2.0 + Q)
    expected = (a - small) / 2.0 + b
    for _ in range(2):
        np.testing.assert_allclose(xp.sum(centered, axis=0), expected.sum(axis=0))
        assert kept(P) == {P.key, Q.key}
    other = centered * centered
    np.testing.assert_allclose(xp.max(other, axis=0), (expected**2).max(axis=0))
    assert kept(P) == {P.key, Q.key, other.key}
    del other
    np.testing.assert_array_equal(whole(centered), expected)
    assert kept(P) == {P.key, Q.key}


def test_what_is_made_anew_for_others_alone_is_there_for_them(drawn):
    a, b, _ = drawn
    P, Q = in_parts([a, b], SIZES)
    other = recompute(P + 1.0) * Q
    np.testing.assert_array_equal(whole(other), (a + 1.0) * b)
    assert kept(P) == {P.key, Q.key, other.key}


def test_what_is_kept_or_in_one_place_stays_so(drawn):
    a, _, _ = drawn
    assert recompute(a) is a
    (P,) = in_parts([a], SIZES)
    double = 2.0 * P
    np.testing.assert_array_equal(whole(double), 2.0 * a)
    recompute(double)
    assert kept(P) == {P.key, double.key}
    np.testing.assert_array_equal(whole(double), 2.0 * a)


def test_a_mapped_array_takes_the_place_of_what_it_was_made_of(drawn):
    a, _, _ = drawn
    (P,) = in_parts([a], SIZES)
    rows = P.partitioning
    double = rows.keep(lambda start, stop: [2.0 * P[start:stop]])
    rows.reduce(lambda *_: [double[0].sum()])
    form = {"columns": (3,), "dtype": np.float64, "instead_of": double}
    one, other = (map_rows(P, lambda *_, k=k: k * double[0], **form) for k in (1.0, 3.0))
    np.testing.assert_array_equal(whole(one), 2.0 * a)
    assert kept(P) == {P.key, one.key, other.key}
    np.testing.assert_array_equal(whole(other), 6.0 * a)
