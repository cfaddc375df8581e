"""A kernel by blocks of rows has the products of its dense matrix, however it is cut."""

import threading

import numpy as np
import oracles
import pytest
from registry import Counting
from shifted import shifted

import gpukfl
from gpukfl.kernels import Gaussian, ManhattanLaplace
from gpukfl.linalg import _blocks
from gpukfl.operators import KernelMatrix, KernelOperator
from gpukfl.partitioned._rows import Rows

budgets = pytest.mark.parametrize("budget", [None, 1, 30_000])
mapped = pytest.mark.parametrize("mapped", [False, True])
weighted = pytest.mark.parametrize("weighted", [False, True])
N, Q, D = 101, 7, 4  # no block length divides 101


class Case:
    """Host float64 data and the dense matrix, and the operator on its place."""

    def __init__(self, on, rng, *, n=N, mapped=False, keep=False, kernel=None):
        self.on = on
        self.X = on.rounded(rng.standard_normal((n, D)))
        self.Z = on.rounded(rng.standard_normal((Q, D)))
        self.B = on.rounded(rng.standard_normal((3, D))) if mapped else np.eye(D)
        self.weights = on.rounded(rng.uniform(0.5, 2.0, (n, 1)))
        self.K = oracles.gaussian(self.X @ self.B.T, self.Z @ self.B.T, 2.0)
        self.kernel = kernel or Gaussian(2.0)
        self.operator = self.of(Rows(on.put(self.X), on.reference), mapped, keep)

    def of(self, rows, mapped=False, keep=False):
        B = self.on.put(self.B) if mapped else None
        return KernelOperator(self.kernel, rows, self.on.put(self.Z), B, keep)

    def draw(self, rng, *shape):
        return self.on.rounded(rng.standard_normal(shape))


@pytest.mark.pairs
@budgets
@mapped
@pytest.mark.parametrize("n", [1, N])
def test_products_are_those_of_the_formula(on, rng, budget, mapped, n):
    case = Case(on, rng, n=n, mapped=mapped)
    V, U = case.draw(rng, Q, 3), case.draw(rng, n, 3)
    with gpukfl.memory_budget(budget):
        assert case.operator.shape == (n, Q)
        on.assert_close(case.operator.dense(), case.K, ulps=200)
        for columns in (slice(None), 0):
            v, u = V[:, columns], U[:, columns]
            on.assert_close(case.operator @ on.put(v), case.K @ v, ulps=200, scale=10.0)
            total = case.operator.adjoint(on.put(u))
            on.assert_close(total, case.K.T @ u, ulps=200, scale=np.sum(np.abs(u)))


@pytest.mark.pairs
@budgets
@mapped
@weighted
def test_normal_products_and_moments(on, rng, budget, mapped, weighted):
    case = Case(on, rng, mapped=mapped)
    V, Y = case.draw(rng, Q, 2), case.draw(rng, N, 2)
    D_K = (case.weights if weighted else 1.0) * case.K
    weights = on.put(case.weights) if weighted else None
    with gpukfl.memory_budget(budget):
        product = case.operator.normal(on.put(V), weights)
        on.assert_close(product, case.K.T @ (D_K @ V), ulps=200, scale=N * 10.0)
        gram, moment = case.operator.moments(on.put(Y), weights)
    # In float64, of terms with the precision of the place
    ulps = 200 * on.eps / np.finfo(np.float64).eps
    on.assert_close(gram, case.K.T @ D_K, ulps=ulps, dtype="float64")
    on.assert_close(moment, D_K.T @ Y, ulps=ulps, scale=10.0 * N, dtype="float64")


@mapped
def test_core_is_exact_to_float64(on, rng, mapped):
    case = Case(on, rng, mapped=mapped)
    V = case.Z @ case.B.T
    expected = oracles.gaussian(V, V, 2.0)
    on.assert_close(case.operator.core, expected, ulps=100, dtype="float64")
    on.assert_close(case.operator.centers, V, ulps=100)


@budgets
def test_rows_may_lie_elsewhere(on, rng, budget, tmp_path):
    case = Case(on, rng)
    V = case.draw(rng, Q, 2)
    file = np.memmap(tmp_path / "X", dtype=on.dtype_name, mode="w+", shape=case.X.shape)
    file[:] = case.X
    file.flush()
    stored = np.memmap(tmp_path / "X", dtype=on.dtype_name, mode="r", shape=case.X.shape)
    for source in (stored, case.X):  # another library or precision
        operator = case.of(Rows(source, on.reference))
        with gpukfl.memory_budget(budget):
            on.assert_close(operator @ on.put(V), case.K @ V, ulps=200, scale=10.0)


def test_rows_are_scaled_as_asked(on, rng):
    case = Case(on, rng)
    shift, scale = np.arange(4.0), np.array([1.0, 2.0, 4.0, 8.0])
    rows = Rows(on.put(case.X * scale + shift), on.reference, shifted(shift, scale))
    on.assert_close(case.of(rows).dense(), case.K, ulps=500)


@pytest.mark.parametrize("threads", ["1", "3", "50"])
def test_threads_and_blocks_change_rounding_only(on, rng, threads, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", threads)
    case = Case(on, rng)
    V, U = case.draw(rng, Q, 2), case.draw(rng, N, 2)
    for budget in (1, 3000, 40_000, None):
        with gpukfl.memory_budget(budget):
            on.assert_close(case.operator @ on.put(V), case.K @ V, ulps=200, scale=10.0)
            total = case.operator.adjoint(on.put(U))
            on.assert_close(total, case.K.T @ U, ulps=200, scale=np.sum(np.abs(U)))


def test_little_memory_means_many_blocks(on, rng, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "2")
    monkeypatch.setattr(_blocks, "_WORTH_A_THREAD", 1)
    case = Case(on, rng, kernel=Counting(Gaussian(2.0)))
    seen = case.kernel.seen
    V = on.put(case.draw(rng, Q))
    case.operator @ V
    assert sum(seen) == N
    assert len(seen) <= 2
    seen.clear()
    with gpukfl.memory_budget(1):
        case.operator @ V
    assert seen == [1] * N
    seen.clear()
    with gpukfl.memory_budget(8 * 4 * Q * 2 * 10):  # ten rows for each of two threads
        case.operator @ V
    assert sum(seen) == N
    assert max(seen) <= (10 if on.package == "numpy" else 20)


def test_kept_values_are_used_again(on, rng):
    case = Case(on, rng, kernel=Counting(Gaussian(2.0)), keep=True)
    V, U = case.draw(rng, Q, 2), case.draw(rng, N, 2)
    seen, operator = case.kernel.seen, case.operator
    first = on.host(operator @ on.put(V))
    evaluated = len(seen)
    on.assert_close(operator @ on.put(V), first, ulps=0)
    operator.adjoint(on.put(U))
    operator.moments(on.put(U))
    operator.normal(on.put(V))
    assert len(seen) == evaluated
    assert sum(seen) == N


@pytest.mark.parametrize("keep", [False, True])
def test_values_are_not_kept_unasked_or_where_they_do_not_fit(on, rng, keep):
    case = Case(on, rng, kernel=Counting(Gaussian(2.0)), keep=keep)
    V = on.put(case.draw(rng, Q, 2))
    with gpukfl.memory_budget(4 * 8 * N * Q - 1 if keep else None):
        case.operator @ V
        once = sum(case.kernel.seen)
        case.operator @ V
    assert sum(case.kernel.seen) == 2 * once


def test_values_just_fitting_a_quarter_are_kept(on, rng):
    case = Case(on, rng, kernel=Counting(Gaussian(2.0)), keep=True)
    V = on.put(case.draw(rng, Q, 2))
    with gpukfl.memory_budget(4 * 8 * N * Q):
        case.operator @ V
        case.operator @ V
    assert sum(case.kernel.seen) == N


def test_wrong_shapes_are_named(on, rng):
    operator = Case(on, rng).operator
    for shape in ((N,), (N, 2), (Q, 2, 1), ()):
        with pytest.raises(ValueError, match=rf"expected \({Q},\) or \({Q}, t\), got") as caught:
            operator @ on.put(np.ones(shape))
        assert str(shape) in str(caught.value)
    for shape in ((Q,), (Q, 2), (N, 2, 1), ()):
        with pytest.raises(ValueError, match=rf"expected \({N},\) or \({N}, t\), got"):
            operator.adjoint(on.put(np.ones(shape)))


def test_matrix_between_new_points_and_its_own(on, rng):
    case = Case(on, rng)
    matrix = KernelMatrix(Gaussian(2.0), on.put(case.Z))
    on.assert_close(matrix.cross_operator(on.put(case.X)).dense(), case.K, ulps=200)


@pytest.mark.parametrize("threads", ["2", "5"])
def test_kernels_that_use_threads_themselves_neither_hang_nor_differ(rng, threads, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", threads)
    X, Z = rng.standard_normal((3000, 5)), rng.standard_normal((200, 5))
    operator = KernelOperator(ManhattanLaplace(3.0), Rows(X, X[:0, 0]), Z)
    V = rng.standard_normal((200, 2))
    products = []
    worker = threading.Thread(target=lambda: products.append(operator @ V), daemon=True)
    worker.start()
    worker.join(60)
    assert not worker.is_alive(), "threads wait for each other"
    expected = oracles.manhattan_laplace(X, Z, 3.0) @ V
    np.testing.assert_allclose(products[0], expected, rtol=0, atol=1e-12)
