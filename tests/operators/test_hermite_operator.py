"""Products of Hermite polynomials at rows of data, against NumPy's polynomials, on every place."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.polynomial import hermite_e
from shifted import shifted

import gpukfl
from gpukfl.operators import HermiteOperator
from gpukfl.partitioned._rows import Rows

budgets = pytest.mark.parametrize("budget", [None, 1, 3000])
N, D = 23, 4  # no block length divides 23
TUPLES = np.array(
    [
        [0, 0, 0, 0],
        [1, 0, 0, 0],
        [0, 0, 0, 12],
        [3, 0, 2, 0],
        [1, 1, 1, 1],
        [0, 5, 0, 1],
        [2, 0, 0, 0],
    ]
)


def hermite(k, x):
    return hermite_e.hermeval(x, [0.0] * k + [1.0]) / math.sqrt(math.factorial(k))


def formula(X, tuples, scales, R=None):
    """Column by column, factor by factor."""
    Z = X if R is None else X @ R
    columns = [
        w * np.prod([hermite(k, Z[:, a]) for a, k in enumerate(alpha)], axis=0)
        for alpha, w in zip(tuples, scales, strict=True)
    ]
    return np.stack(columns, axis=1)


def rotation(rng, d):
    return np.linalg.qr(rng.standard_normal((d, d)))[0]


class Case:
    """Host float64 data and the dense matrix, and the operator on its place."""

    def __init__(self, on, rng, *, n=N, d=D, tuples=TUPLES, rotated=False):
        self.on, self.tuples = on, tuples
        self.X = on.rounded(rng.standard_normal((n, d)))
        self.scales = rng.uniform(0.1, 2.0, len(tuples))
        R = rotation(rng, d) if rotated else None
        self.Phi = formula(self.X, tuples, self.scales, R)
        placed = None if R is None else on.put(R, "float64")
        self.R = placed
        self.operator = self.of(Rows(on.put(self.X), on.reference))

    def of(self, rows):
        return HermiteOperator(rows, self.tuples, self.scales, self.R)


options = pytest.mark.parametrize("options", [{}, {"rotated": True}], ids=str)


@pytest.mark.pairs
@budgets
@options
@pytest.mark.parametrize("n", [1, N])
def test_values_and_products_are_those_of_the_formula(on, rng, budget, options, n):
    case = Case(on, rng, n=n, **options)
    V, U = (on.rounded(rng.standard_normal((k, 2))) for k in (len(TUPLES), n))
    size = np.abs(case.Phi).max()
    with gpukfl.memory_budget(budget):
        assert case.operator.shape == (n, len(TUPLES))
        on.assert_close(case.operator.dense(), case.Phi, ulps=300)
        on.assert_close(case.operator @ on.put(V), case.Phi @ V, ulps=300, scale=20 * size)
        total = case.operator.adjoint(on.put(U))
        on.assert_close(total, case.Phi.T @ U, ulps=300, scale=size * np.abs(U).sum())


@pytest.mark.pairs
@budgets
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_are_sums_in_float64(on, rng, budget, weighted):
    case = Case(on, rng, rotated=True)
    Y = on.rounded(rng.standard_normal((N, 2)))
    w = on.rounded(rng.uniform(0.5, 2.0, (N, 1)))
    weights = on.put(w) if weighted else None
    D_Phi = (w if weighted else 1.0) * case.Phi
    with gpukfl.memory_budget(budget):
        gram, moment = case.operator.moments(on.put(Y), weights)
    ulps = 300 * on.eps / np.finfo(np.float64).eps
    on.assert_close(gram, case.Phi.T @ D_Phi, ulps=ulps, dtype="float64")
    scale = N * np.abs(case.Phi).max()
    on.assert_close(moment, D_Phi.T @ Y, ulps=ulps, scale=scale, dtype="float64")


@pytest.mark.each
@pytest.mark.parametrize("degree", range(13))
def test_a_tuple_of_one_coordinate_is_a_polynomial(on, rng, degree):
    X = on.rounded(rng.standard_normal((9, 1)))
    operator = HermiteOperator(Rows(on.put(X), on.reference), np.array([[degree]]), np.ones(1))
    assert operator.degree == degree
    on.assert_close(operator.dense(), hermite(degree, X), ulps=300)


def test_the_zero_tuple_is_its_scale(on, rng):
    X = on.put(rng.standard_normal((5, 3)))
    operator = HermiteOperator(Rows(X, on.reference), np.zeros((2, 3), dtype=int), [2.0, 0.5])
    on.assert_close(operator.dense(), np.tile([2.0, 0.5], (5, 1)), ulps=1)


def test_degrees_of_single_coordinates_are_counted(on, rng):
    case = Case(on, rng)
    assert case.operator.degree == 12
    assert case.operator.width == 13 * D
    assert case.operator._factors[0].shape == (4, len(TUPLES))  # the fullest tuple's factors
    many = Case(on, rng, tuples=np.tile(TUPLES, (30, 1)))
    assert many.operator.width == 30 * len(TUPLES)


def test_signs_of_columns_change_nothing_that_is_even(on, rng):
    # Opposite signs of two columns: tuples even in both have the same values
    X = on.rounded(rng.standard_normal((N, 2)))
    tuples, rows = np.array([[2, 4], [0, 2]]), Rows(on.put(X), on.reference)
    plain = HermiteOperator(rows, tuples, np.ones(2))
    turned = HermiteOperator(rows, tuples, np.ones(2), on.put(-np.eye(2), "float64"))
    on.assert_close(turned.dense(), on.host(plain.dense()).astype(np.float64), ulps=4)


def test_values_at_other_rows(on, rng):
    case = Case(on, rng)
    new = on.rounded(rng.standard_normal((5, D)))
    expected = formula(new, TUPLES, case.scales)
    on.assert_close(case.operator.evaluate(on.put(new)), expected, ulps=300)
    on.assert_close(case.operator.values(3, 8), case.Phi[3:8], ulps=300)


def test_rows_may_be_scaled_and_lie_elsewhere(on, rng, tmp_path):
    case = Case(on, rng, rotated=True)
    shift, scale = np.arange(D) + 0.0, 2.0 ** np.arange(D)
    stored = case.X * scale + shift
    rows = Rows(on.put(stored), on.reference, shifted(shift, scale))
    on.assert_close(case.of(rows).dense(), case.Phi, ulps=2e4)
    file = np.memmap(tmp_path / "X", dtype=on.dtype_name, mode="w+", shape=case.X.shape)
    file[:] = case.X
    file.flush()
    on_disk = np.memmap(tmp_path / "X", dtype=on.dtype_name, mode="r", shape=case.X.shape)
    for source in (on_disk, case.X):
        with gpukfl.memory_budget(3000):
            on.assert_close(case.of(Rows(source, on.reference)).dense(), case.Phi, ulps=300)


@pytest.mark.parametrize("threads", ["1", "3", "50"])
def test_threads_change_rounding_only(on, rng, threads, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", threads)
    case = Case(on, rng, rotated=True)
    for budget in (300, 3000, None):
        with gpukfl.memory_budget(budget):
            on.assert_close(case.operator.dense(), case.Phi, ulps=300)


@given(
    n=st.integers(1, 30),
    d=st.integers(1, 12),
    count=st.integers(1, 20),
    degree=st.integers(0, 12),
    seed=st.integers(0, 2**32 - 1),
    budget=st.sampled_from([None, 500, 2000]),
)
@settings(
    derandomize=True,
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_tuples_are_the_formula_everywhere(on, n, d, count, degree, seed, budget):
    rng = np.random.default_rng(seed)
    tuples = np.where(
        rng.uniform(size=(count, d)) < 0.4, rng.integers(0, degree + 1, (count, d)), 0
    )
    case = Case(on, rng, n=n, d=d, tuples=tuples, rotated=bool(seed % 2))
    with gpukfl.memory_budget(budget):
        # Cancellation in a factor shows in the others' size
        size = np.abs(case.Phi).max() + 1.0
        on.assert_close(case.operator.dense(), case.Phi, ulps=1000, scale=size)


def test_wrong_shapes_are_named(on, rng):
    operator = Case(on, rng).operator
    m = len(TUPLES)
    for shape in ((N,), (N, 2), (m, 2, 1), ()):
        with pytest.raises(ValueError, match=rf"expected \({m},\) or \({m}, t\), got"):
            operator @ on.put(np.ones(shape))
    with pytest.raises(ValueError, match=rf"expected \({N},\) or \({N}, t\), got"):
        operator.adjoint(on.put(np.ones((m, 2))))


@pytest.mark.parametrize("sorted_before", [False, True])
def test_many_tuples_are_multiplied_in_parts_and_stay_in_their_places(on, rng, sorted_before):
    tuples = rng.integers(0, 3, (700, D)) * (rng.random((700, D)) < 0.5)
    if sorted_before:
        tuples = tuples[np.argsort(-(tuples > 0).sum(axis=1), kind="stable")]
    case = Case(on, rng, n=211, tuples=tuples, rotated=True)  # more than a core's cache holds
    on.assert_close(case.operator.dense(), case.Phi, ulps=300)
    U = on.rounded(rng.standard_normal((211, 1)))
    size = np.abs(case.Phi).max() * np.abs(U).sum()
    on.assert_close(case.operator.adjoint(on.put(U)), case.Phi.T @ U, ulps=300, scale=size)


def test_rows_of_none_are_a_matrix_of_none(on, rng):
    case = Case(on, rng, n=0)
    assert tuple(case.operator.dense().shape) == (0, len(TUPLES))
