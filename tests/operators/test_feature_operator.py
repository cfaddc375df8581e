"""Expected features by blocks of rows have the products of their dense matrix, on every place."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.special import erf
from shifted import shifted

import gpukfl
from gpukfl.instantiations import GaussianSign, Instantiation, RandomKitchenSinks, Stumps
from gpukfl.operators import FeatureOperator, common_scale
from gpukfl.partitioned._rows import Rows

budgets = pytest.mark.parametrize("budget", [None, 1, 3000])
weighted = pytest.mark.parametrize("weighted", [False, True])
N, T, D = 23, 7, 4  # no block length divides 23
KINDS = [GaussianSign(1.5, 2.0), Stumps(0.7, 0.4), RandomKitchenSinks(GaussianSign(1.0, 1.0))]
kinds = pytest.mark.parametrize("instantiation", KINDS, ids=str)


def formula(instantiation, W, X):
    """Values of Table 1, all in one."""
    n = X.shape[1]
    if isinstance(instantiation, RandomKitchenSinks):
        return np.sign(X @ W.T)
    s2, g2 = instantiation.sigma**2, instantiation.gamma**2
    zeta = (1 / s2 + 1 / g2) ** -0.5
    if isinstance(instantiation, Stumps):
        u = W[:, 1]
        Z = (X[:, W[:, 0].astype(int)] - u / (1 + g2 / s2)) / (math.sqrt(2) * zeta)
        return zeta / math.sqrt(s2) / n * np.exp(-(u**2) / (2 * s2 + 2 * g2)) * erf(Z)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    Z = X @ W.T / (1 + g2 / s2) / (math.sqrt(2) * zeta * norms)
    return (1 + s2 / g2) ** (-n / 2) * np.exp(-np.sum(W**2, axis=1) / (2 * s2 + 2 * g2)) * erf(Z)


def kernel(instantiation, W):
    gaps = np.sum((W[:, None, :] - W[None, :, :]) ** 2, axis=2)
    if isinstance(instantiation, RandomKitchenSinks):
        return (gaps == 0).astype(float)
    if isinstance(instantiation, Stumps):
        same = W[:, :1] == W[:, :1].T
        gaps = (W[:, 1:] - W[:, 1:].T) ** 2
        return np.where(same, np.exp(-gaps / 2 / instantiation.gamma**2), 0.0)
    return np.exp(-gaps / 2 / instantiation.gamma**2)


class Case:
    """Host float64 data and the dense matrix, and the operator on its place."""

    def __init__(self, on, rng, instantiation, *, n=N, d=D, count=T, log_scale=0.0):
        self.on, self.instantiation = on, instantiation
        self.X = on.rounded(rng.standard_normal((n, d)))
        self.W = on.rounded(instantiation.draw(count, d, np.random.RandomState(3)))
        self.weights = on.rounded(rng.uniform(0.5, 2.0, (n, 1)))
        self.Phi = formula(instantiation, self.W, self.X) * math.exp(-log_scale)
        self.size = float(np.max(np.abs(self.Phi)))
        self.operator = self.of(Rows(on.put(self.X), on.reference), log_scale)

    def of(self, rows, log_scale=0.0):
        return FeatureOperator(self.instantiation, rows, self.on.put(self.W), log_scale)

    def draw(self, rng, *shape):
        return self.on.rounded(rng.standard_normal(shape))


@pytest.mark.pairs
@budgets
@kinds
@pytest.mark.parametrize("n", [1, N])
def test_products_are_those_of_the_formula(on, rng, instantiation, budget, n):
    case = Case(on, rng, instantiation, n=n)
    V, U = case.draw(rng, T, 3), case.draw(rng, n, 3)
    with gpukfl.memory_budget(budget):
        assert case.operator.shape == (n, T)
        on.assert_close(case.operator.dense(), case.Phi, ulps=300)
        for columns in (slice(None), 0):
            v, u = V[:, columns], U[:, columns]
            scale = 10.0 * case.size
            on.assert_close(case.operator @ on.put(v), case.Phi @ v, ulps=300, scale=scale)
            total = case.operator.adjoint(on.put(u))
            scale = case.size * np.sum(np.abs(u))
            on.assert_close(total, case.Phi.T @ u, ulps=300, scale=scale)


@pytest.mark.pairs
@budgets
@weighted
@kinds
def test_normal_products_and_moments(on, rng, instantiation, budget, weighted):
    case = Case(on, rng, instantiation)
    V, Y = case.draw(rng, T, 2), case.draw(rng, N, 2)
    D_Phi = (case.weights if weighted else 1.0) * case.Phi
    weights = on.put(case.weights) if weighted else None
    scale = 10.0 * N * case.size
    with gpukfl.memory_budget(budget):
        product = case.operator.normal(on.put(V), weights)
        gram, moment = case.operator.moments(on.put(Y), weights)
    on.assert_close(product, case.Phi.T @ (D_Phi @ V), ulps=300, scale=scale * case.size)
    # In float64, of terms with the precision of the place
    ulps = 300 * on.eps / np.finfo(np.float64).eps
    on.assert_close(gram, case.Phi.T @ D_Phi, ulps=ulps, dtype="float64")
    on.assert_close(moment, D_Phi.T @ Y, ulps=ulps, scale=scale, dtype="float64")


@kinds
def test_core_is_the_kernel_exact_to_float64(on, rng, instantiation):
    case = Case(on, rng, instantiation)
    expected = kernel(instantiation, case.W)
    on.assert_close(case.operator.core, expected, ulps=100, dtype="float64")


@kinds
def test_values_at_other_rows(on, rng, instantiation):
    case = Case(on, rng, instantiation)
    new = case.draw(rng, 5, D)
    expected = formula(instantiation, case.W, new)
    on.assert_close(case.operator.evaluate(on.put(new)), expected, ulps=300)
    on.assert_close(case.operator.values(3, 8), case.Phi[3:8], ulps=300)


@kinds
def test_a_log_scale_divides(on, rng, instantiation):
    case = Case(on, rng, instantiation, log_scale=-3.0)
    on.assert_close(case.operator.dense(), case.Phi, ulps=300)
    plain = Case(on, np.random.default_rng(20240501), instantiation)
    np.testing.assert_allclose(case.Phi, math.exp(3.0) * plain.Phi, rtol=1e-12)


@kinds
def test_the_common_scale_is_that_of_the_constants(on, rng, instantiation):
    case = Case(on, rng, instantiation)
    scale = common_scale(instantiation, on.put(case.W), D)
    logs = instantiation.features(case.W, D).log_constants
    assert scale == pytest.approx(0.5 * math.log(np.mean(np.exp(2 * logs))), abs=1e-5)
    if isinstance(instantiation, RandomKitchenSinks):
        assert scale == 0.0


@pytest.mark.pairs
@pytest.mark.parametrize("count", [1, 50])
@pytest.mark.parametrize("instantiation", [GaussianSign(1.0, 1.0), Stumps(1.0, 1.0)], ids=str)
def test_entries_are_moderate_in_high_dimension(on, rng, instantiation, count):
    X = on.rounded(rng.standard_normal((20, 784)))
    W = on.put(instantiation.draw(count, 784, np.random.RandomState(0)))
    scale = common_scale(instantiation, W, 784)
    if isinstance(instantiation, GaussianSign):
        assert scale < -400  # float32 ends at e^-104, and squares of float64 at e^-373
    operator = FeatureOperator(instantiation, Rows(on.put(X), on.reference), W, scale)
    factors = on.host(operator.factors).astype(np.float64)
    assert math.sqrt(np.mean(factors**2)) == pytest.approx(1.0, rel=1e-5)
    Phi = on.host(operator.dense())
    assert np.all(np.isfinite(Phi))
    assert 0.1 < np.max(np.abs(Phi)) <= math.sqrt(count) * (1 + 1e-5)
    gram, moment = operator.moments(on.put(X[:, :1]))
    assert np.all(np.isfinite(on.host(gram)))
    assert np.all(np.isfinite(on.host(moment)))


@kinds
def test_rows_may_be_scaled_and_begin_with_ones(on, rng, instantiation):
    shift, scale = np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 4.0])
    X = on.rounded(rng.standard_normal((N, 3)))
    W = on.rounded(instantiation.draw(T, D, np.random.RandomState(3)))
    rows = Rows(on.put(X * scale + shift), on.reference, shifted(shift, scale), leading_ones=True)
    operator = FeatureOperator(instantiation, rows, on.put(W))
    inside = np.column_stack([np.ones(N), X])
    expected = formula(instantiation, W, inside)
    on.assert_close(operator.dense(), expected, ulps=1000)
    with gpukfl.memory_budget(1):
        V = on.put(np.ones(T))
        on.assert_close(operator @ V, expected.sum(axis=1), ulps=1000, scale=10.0)
    index = np.array([20, 3, 3, 22])
    on.assert_close(operator.evaluate(rows.gather(index)), expected[index], ulps=1000)


@kinds
def test_rows_may_lie_elsewhere(on, rng, instantiation, tmp_path):
    case = Case(on, rng, instantiation)
    file = np.memmap(tmp_path / "X", dtype=on.dtype_name, mode="w+", shape=case.X.shape)
    file[:] = case.X
    file.flush()
    stored = np.memmap(tmp_path / "X", dtype=on.dtype_name, mode="r", shape=case.X.shape)
    for source in (stored, case.X):  # another library or precision
        operator = case.of(Rows(source, on.reference))
        with gpukfl.memory_budget(3000):
            on.assert_close(operator.dense(), case.Phi, ulps=300)


@pytest.mark.parametrize("threads", ["1", "3", "50"])
def test_threads_and_blocks_change_rounding_only(on, rng, threads, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", threads)
    case = Case(on, rng, KINDS[0])
    V = case.draw(rng, T, 2)
    for budget in (300, 3000, None):
        with gpukfl.memory_budget(budget):
            on.assert_close(case.operator @ on.put(V), case.Phi @ V, ulps=300, scale=1.0)


@kinds
def test_wrong_shapes_are_named(on, rng, instantiation):
    operator = Case(on, rng, instantiation).operator
    for shape in ((N,), (N, 2), (T, 2, 1), ()):
        with pytest.raises(ValueError, match=rf"expected \({T},\) or \({T}, t\), got"):
            operator @ on.put(np.ones(shape))
    with pytest.raises(ValueError, match=rf"expected \({N},\) or \({N}, t\), got"):
        operator.adjoint(on.put(np.ones((T, 2))))


@given(
    n=st.integers(1, 40),
    d=st.integers(1, 60),
    count=st.integers(1, 30),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**32 - 1),
    budget=st.sampled_from([None, 500, 2000]),
)
@settings(
    derandomize=True,
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_places_agree_whatever_the_shape(on, n, d, count, kind, seed, budget):
    rng = np.random.default_rng(seed)
    X = on.rounded(rng.standard_normal((n, d)))
    W = on.rounded(kind.draw(count, d, np.random.RandomState(seed)))
    if isinstance(kind, RandomKitchenSinks):  # signs of what rounding decides differ
        near = np.any(np.abs(X @ W.T) < 1e-4, axis=1)
        X = np.where(near[:, None], 0.0, X)
    scale = common_scale(kind, W, d)
    host = FeatureOperator(kind, Rows(X, X[:0, 0]), W, scale)
    here = FeatureOperator(kind, Rows(on.put(X), on.reference), on.put(W), scale)
    with gpukfl.memory_budget(budget):
        # The constants' logarithms are of the order of d
        on.assert_close(here.dense(), host.dense(), ulps=200 + 10 * d)
        on.assert_close(here.core, host.core, ulps=200 + 10 * d, dtype="float64")
        U = on.rounded(rng.standard_normal((n, 2)))
        scale = float(np.max(np.abs(host.dense()))) * np.abs(U).sum() + 1e-300
        ulps = 200 + 10 * d
        on.assert_close(here.adjoint(on.put(U)), host.adjoint(U), ulps=ulps, scale=scale)


class Wrong(Instantiation):
    """A user's instantiation whose expected features have one column too many."""

    kappa = 1.0

    def draw(self, count, n_features, rng):
        return rng.standard_normal((count, n_features))

    def kernel(self, U, W):
        return U @ W.T

    def base(self, W, X):
        return X @ W.T

    def expected(self, W, X):
        return (X @ W.T)[:, :-1]


def test_expected_features_of_another_shape_are_named(on, rng):
    W = on.put(rng.standard_normal((T, D)))
    operator = FeatureOperator(Wrong(), Rows(on.put(np.ones((5, D))), on.reference), W)
    match = r"expected Wrong.expected to give shape \(5, 7\), got \(5, 6\)"
    with pytest.raises(ValueError, match=match):
        operator.dense()
