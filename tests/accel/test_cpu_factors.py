"""Factorisations over threads: those of LAPACK, by halves, in the place of what they are given."""

import itertools
from unittest import mock

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from gpukfl._accel import blas, cpu_factors
from gpukfl.linalg import CholeskyFactor

LARGE = 1100  # rows that are split over threads
SIDES = list(itertools.product([True, False], repeat=2))


@pytest.fixture(autouse=True)
def _threads(monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "3")


def drawn(rng, dtype, n):
    B = rng.standard_normal((n, n))
    return (B @ B.T + n * np.eye(n)).astype(dtype)


def within(found, expected, ulps):
    unit = np.finfo(found.dtype).eps * np.abs(expected).max(initial=1.0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=ulps * unit)


def factored(A):
    L = A.copy()
    cpu_factors.factor(L)
    return L


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("turned", ["", "A", "B", "AB"])
def test_products_of_parts_are_added(rng, dtype, turned):
    whole = rng.standard_normal((3, 9, 9)).astype(dtype)
    A, B, C = whole[0, 2:6, 1:4], whole[1, :3, 3:8], whole[2, 4:8, 2:7].copy()
    expected = 2.0 * A @ B - 0.5 * C
    here, rest = whole[2, 4:8, 2:7], whole[2].copy()
    A = np.ascontiguousarray(A.T) if "A" in turned else A
    B = np.ascontiguousarray(B.T) if "B" in turned else B
    blas.add_product(here, A, B, times=2.0, keep=-0.5, turned=turned)
    within(here, expected, 20)
    rest[4:8, 2:7] = here
    np.testing.assert_array_equal(whole[2], rest)


def test_what_is_not_kept_may_be_nan(rng):
    A, C = rng.standard_normal((4, 4)), np.full((4, 4), np.nan)
    blas.add_product(C, A, A, keep=0.0)
    within(C, A @ A, 10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("left", "turned"), SIDES)
def test_parts_are_divided_by_a_triangle(rng, dtype, left, turned):
    whole = np.tril(rng.uniform(1, 2, (9, 9))).astype(dtype)
    L = whole[3:8, 3:8]
    B = rng.standard_normal((9, 9)).astype(dtype)
    part = B[1:6, 2:5] if left else B[2:5, 1:6]
    given, T = part.copy(), L.T if turned else L
    blas.divide(part, L, left=left, turned=turned)
    within(T @ part if left else part @ T, given, 200)


@hypothesis.given(
    n=st.integers(1, 40), leaf=st.integers(1, 12), seed=st.integers(0, 99), single=st.booleans()
)
@hypothesis.settings(max_examples=60)
def test_halves_are_the_whole(n, leaf, seed, single):
    rng = np.random.default_rng(seed)
    A, S = (drawn(rng, np.float32 if single else np.float64, n) for _ in range(2))
    ulps = 100 * n
    with mock.patch.object(cpu_factors, "_LEAF", leaf):
        L, white = factored(A), S.copy()
        within(L @ L.T, A, ulps)
        np.testing.assert_array_equal(np.triu(L, 1), 0.0)
        cpu_factors.whiten(white, L)
        inverse = cpu_factors.inverse(L)
    wide = L.astype(np.float64)
    within(np.tril(white), np.tril(np.linalg.solve(wide, np.linalg.solve(wide, S).T)), ulps)
    within(np.tril(inverse), np.tril(np.linalg.inv(wide @ wide.T)), ulps)


@pytest.mark.parametrize("turned", [True, False])
def test_columns_are_solved_for(rng, turned):
    L, B = np.linalg.cholesky(drawn(rng, np.float64, 30)), rng.standard_normal((30, 7))
    X = B.copy()
    cpu_factors.solve(L, X, turned=turned)
    within(X, np.linalg.solve(L.T if turned else L, B), 1000)


@pytest.mark.parametrize("at", [0, 600, LARGE - 1])
@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_what_has_no_factor_is_an_error(at, value):
    A = np.eye(LARGE)
    A[at, at] = value
    with pytest.raises(np.linalg.LinAlgError):
        CholeskyFactor.factor(A)
    assert np.isnan(A[at, at]) == np.isnan(value)  # as it was given


def test_what_may_not_be_written_to_is_not():
    A = np.eye(LARGE)
    A.flags.writeable = False
    factor = CholeskyFactor.factor(A)
    np.testing.assert_array_equal(factor.L, A)
    factor.L.flags.writeable = False
    for found in (factor.inverse(), factor.whiten(A), factor.unwhiten(A), factor.solve_upper(A)):
        np.testing.assert_array_equal(found, A)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_change_rounding_alone(rng, monkeypatch, dtype):
    A, S = drawn(rng, dtype, LARGE), drawn(rng, dtype, LARGE)
    b = S[:, :200]

    def everything():
        factor = CholeskyFactor.factor(A)
        made = [factor.inverse(), factor.whiten(S), factor.unwhiten(S)]
        return [factor.L, *made, factor.solve_lower(b), factor.solve_upper(b)]

    with mock.patch.object(cpu_factors, "factor", wraps=cpu_factors.factor) as ours:
        found = everything()
        assert ours.called
        for one, again in zip(found, everything(), strict=True):
            np.testing.assert_array_equal(one, again)
        monkeypatch.setenv("GPUKFL_NUM_THREADS", "1")
        ours.reset_mock()
        for one, alone in zip(found, everything(), strict=True):
            assert one.dtype == dtype
            within(one, alone, 2000)
        assert not ours.called
