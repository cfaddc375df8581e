"""Factorisations: Cholesky raises everywhere, singular values of any shape."""

import functools

import numpy as np
import pytest
from array_api_compat import array_namespace

from gpukfl.linalg import (
    BlockCholeskyFactor,
    CholeskyFactor,
    _factor,
    add_to_diagonal,
    eigh,
    eigh_and_measure,
    eigvalsh,
    map_singular_values,
    orthonormal_range,
    solve_and_measure,
    svd,
)


def positive_definite(rng, n):
    B = rng.standard_normal((n, n))
    return B @ B.T + n * np.eye(n)


@pytest.mark.parametrize("turned", [False, True])
def test_a_value_is_added_to_the_diagonal_of_a_copy(on, rng, turned):
    A = on.rounded(rng.standard_normal((4, 4)))
    given = on.put(A.T).T if turned else on.put(A)
    found = add_to_diagonal(given, 2.0)
    on.assert_close(found, A + 2.0 * np.eye(4), ulps=2)
    on.assert_close(given, A, ulps=0)


@pytest.mark.parametrize("n", [1, 2, 30])
def test_cholesky_solves(on, rng, n):
    A, b = on.rounded(positive_definite(rng, n)), on.rounded(rng.standard_normal((n, 3)))
    factor = CholeskyFactor.factor(on.put(A))
    on.assert_close(factor.L, np.linalg.cholesky(A), ulps=10 * n)
    L = on.host(factor.L).astype(np.float64)
    on.assert_close(factor.solve_lower(on.put(b)), np.linalg.solve(L, b), ulps=10 * n)
    on.assert_close(factor.solve_upper(on.put(b)), np.linalg.solve(L.T, b), ulps=10 * n)
    on.assert_close(factor.solve(on.put(b)), np.linalg.solve(A, b), ulps=100 * n)


@pytest.mark.parametrize("n", [1, 2, 30, 64, 130])  # within, at and beyond a block
def test_inverse_and_whitened_matrix(on, rng, n):
    A, S = on.rounded(positive_definite(rng, n)), on.rounded(positive_definite(rng, n))
    factor, given = CholeskyFactor.factor(on.put(A)), on.put(S)
    on.assert_close(factor.inverse(), np.linalg.inv(A), ulps=100 * n)
    L = on.host(factor.L).astype(np.float64)
    found = factor.whiten(given)
    on.assert_close(found, np.linalg.solve(L, np.linalg.solve(L, S).T), ulps=100 * n)
    np.testing.assert_array_equal(on.host(found), on.host(found).T)
    found = factor.unwhiten(given)
    on.assert_close(found, np.linalg.solve(L.T, np.linalg.solve(L.T, S).T), ulps=100 * n)
    np.testing.assert_array_equal(on.host(found), on.host(found).T)
    on.assert_close(given, S, ulps=0)


@pytest.mark.parametrize(
    "A",
    [[[1.0, 2.0], [2.0, 1.0]], [[-1.0, 0.0], [0.0, 1.0]], [[np.nan, 0.0], [0.0, 1.0]]],
    ids=["indefinite", "negative", "nan"],
)
def test_cholesky_raises_linalgerror_everywhere(on, A):
    with pytest.raises(np.linalg.LinAlgError):
        CholeskyFactor.factor(on.put(A))


@pytest.mark.parametrize("n", [1, 2, 30])
def test_what_is_solved_is_read(on, rng, n):
    A, b = on.rounded(positive_definite(rng, n)), on.rounded(rng.standard_normal((n, 3)))
    x, numbers = solve_and_measure(on.put(A), on.put(b), lambda x: x[:, 0])
    on.assert_close(x, np.linalg.solve(A, b), ulps=100 * n)
    assert isinstance(numbers, np.ndarray)
    np.testing.assert_array_equal(numbers, on.host(x)[:, 0])


def bordered(rng, n, at, pivot):
    """Positive definite up to row `at`, where the factor's squared pivot is to be `pivot`."""
    L = np.tril(rng.standard_normal((n, n)), -1) + np.diag(rng.uniform(1.0, 2.0, n))
    squares = np.diag(L) ** 2
    squares[at] = pivot
    unit = L / np.diag(L)
    return (unit * squares) @ unit.T


NOT_FACTORED = {
    "the first pivot": lambda rng: bordered(rng, 9, 0, -1.0),
    "one in the middle": lambda rng: bordered(rng, 9, 4, -1e-3),
    "the last": lambda rng: bordered(rng, 9, 8, -1e-3),
    "a block, and the identity": lambda _: np.diag([-1e-3, 1.0, 1.0]),
    "nan": lambda _: np.diag([1.0, np.nan, 1.0]),
    "infinity": lambda _: np.diag([1.0, 1.0, np.inf]),
    "zeros": lambda _: np.zeros((3, 3)),
}


@pytest.mark.parametrize("name", NOT_FACTORED)
def test_what_is_not_solved_is_noticed_everywhere(on, rng, name):
    A = NOT_FACTORED[name](rng)
    b = on.put(np.ones((len(A), 1)))
    with pytest.raises(np.linalg.LinAlgError):
        solve_and_measure(on.put(A), b, lambda x: x[:, 0])


def test_nearly_singular_matrices_are_solved_with_where_they_have_a_factor(on, rng):
    B = rng.standard_normal((40, 10))
    A = on.rounded(B @ B.T + 1e3 * on.eps * np.eye(40))
    x, numbers = solve_and_measure(on.put(A), on.put(np.ones((40, 1))), lambda x: x[:, 0])
    np.testing.assert_array_equal(numbers, on.host(x)[:, 0])


FACTORISATIONS = [
    pytest.param(CholeskyFactor.factor, "cholesky", id="cholesky"),
    pytest.param(eigh, "eigh", id="eigh"),
    pytest.param(eigvalsh, "eigvalsh", id="eigvalsh"),
    pytest.param(svd, "svd", id="svd"),
    pytest.param(orthonormal_range, "qr", id="qr"),
]
factorisations = pytest.mark.parametrize(("factor", "name"), FACTORISATIONS)


@pytest.mark.pairs
@factorisations
@pytest.mark.parametrize("bad", [np.nan, np.inf], ids=str)
@pytest.mark.parametrize("where", [0, 2])
def test_what_is_not_finite_raises_linalgerror_everywhere(on, factor, name, bad, where):
    A = np.diag([3.0, 2.0, 1.0])
    A[where, where] = bad
    with pytest.raises(np.linalg.LinAlgError):
        factor(on.put(A))


@factorisations
@pytest.mark.parametrize("error", ["OutOfMemoryError", "RuntimeError"])
def test_errors_of_a_device_are_not_taken_for_those_of_a_matrix(
    monkeypatch, torch, factor, name, error
):
    error = {"OutOfMemoryError": torch.OutOfMemoryError, "RuntimeError": RuntimeError}[error]

    def fails(*_args, **_options):
        raise error(msg)

    msg = "an illegal memory access was encountered"

    monkeypatch.setattr(array_namespace(torch.eye(2)).linalg, name, fails)
    with pytest.raises(error, match="illegal memory access"):
        factor(torch.eye(2))


def test_eigenvalues_and_singular_values(on, rng):
    A = on.rounded(positive_definite(rng, 6))
    s, Q = eigh(on.put(A))
    expected = np.linalg.eigvalsh(A)
    on.assert_close(s, expected, ulps=100)
    on.assert_close(eigvalsh(on.put(A)), expected, ulps=100)
    on.assert_close((Q * s[None, :]) @ Q.T, A, ulps=100)
    W = on.rounded(rng.standard_normal((5, 3)))
    U, s, Vt = svd(on.put(W))
    on.assert_close(s, np.linalg.svd(W, compute_uv=False), ulps=100)
    on.assert_close((U * s[None, :]) @ Vt, W, ulps=100)


SHAPES = [(1, 1), (3, 7), (7, 3), (5, 5), (1, 6), (6, 1), (3, 12), (12, 3), (2, 40)]


def matrices(on, rng):
    """Matrices of every shape: full, small, of rank one, zero."""
    for d, m in SHAPES:
        W = rng.standard_normal((d, m))
        for given in (W, 1e-6 * W, W[:, :1] @ W[:1, :], np.zeros((d, m))):
            yield on.rounded(given)


def soft_threshold(by, r):
    return array_namespace(r).clip(r - by, min=0.0)


def test_singular_values_are_mapped(on, rng):
    for W in matrices(on, rng):
        U, s, Vt = np.linalg.svd(W, full_matrices=False)
        threshold = float(0.3 * s[0])
        expected = (U * np.maximum(s - threshold, 0.0)) @ Vt
        soft = functools.partial(soft_threshold, threshold)
        mapped, values = map_singular_values(on.put(W), soft)
        on.assert_close(mapped, expected, ulps=100, scale=s[0])
        assert np.all(np.diff(on.host(values)) <= 0)
        # A float64 Gram matrix, of sums as long as the rows, knows the squares of its singular
        # values to so many digits of the largest: the small ones to half of them
        by_gram = max(W.shape) >= 2 * min(W.shape)
        rounding = max(W.shape) * np.finfo(np.float64).eps
        ulps = max(100, rounding**0.5 / on.eps if by_gram else 0)
        on.assert_close(values, s, ulps=ulps, scale=s[0])


def test_small_matrices_of_a_gpu_are_factored_on_the_host(on, rng, monkeypatch):
    monkeypatch.setattr(_factor, "is_on_gpu", lambda x: not isinstance(x, np.ndarray))
    hosts = []

    def same(s):
        hosts.append(isinstance(s, np.ndarray))
        return s

    W = on.rounded(rng.standard_normal((3, 12)))
    mapped, values = map_singular_values(on.put(W), same)
    on.assert_close(mapped, W, ulps=100)
    on.assert_close(values, np.linalg.svd(W, compute_uv=False), ulps=100)
    monkeypatch.setattr(_factor, "_SMALL", 35)
    map_singular_values(on.put(W), same)
    assert hosts == [True, on.package == "numpy"]


def test_what_is_mapped_to_zero_is_exactly_zero(on, rng):
    for W in matrices(on, rng):
        mapped, _ = map_singular_values(on.put(W), lambda s: array_namespace(s).zeros_like(s))
        on.assert_close(mapped, np.zeros_like(W), ulps=0)


def test_identity_map_gives_the_matrix_back(on, rng):
    for W in matrices(on, rng):
        on.assert_close(map_singular_values(on.put(W), lambda s: s)[0], W, ulps=100)


def test_range_has_an_orthonormal_basis(on, rng):
    Y = on.rounded(rng.standard_normal((50, 4)))
    Q = orthonormal_range(on.put(Y))
    on.assert_close(Q.T @ Q, np.eye(4), ulps=100)
    on.assert_close(Q @ (Q.T @ on.put(Y)), Y, ulps=100)


def test_a_factor_may_take_the_place_of_its_matrix(on, rng):
    B = rng.standard_normal((7, 9))
    A, b = on.rounded(B @ B.T), on.rounded(rng.standard_normal((7, 2)))
    expected = np.linalg.solve(A, b)
    once = CholeskyFactor.factor(on.put(A))
    again = CholeskyFactor.factor(on.xp.asarray(on.put(A), copy=True), overwrite=True)
    on.assert_close(again.L, on.host(once.L), ulps=100)
    on.assert_close(again.solve(on.put(b)), expected, ulps=100 * np.linalg.cond(A))
    with pytest.raises(np.linalg.LinAlgError):
        CholeskyFactor.factor(on.xp.asarray(on.put(-A), copy=True), overwrite=True)


def test_what_is_decomposed_is_read(on, rng):
    A = on.rounded(positive_definite(rng, 150))  # more than the host takes from a GPU
    s, Q, numbers = eigh_and_measure(on.put(A), lambda s, Q: s + Q[0, :])
    on.assert_close(s, np.linalg.eigvalsh(A), ulps=150, scale=np.linalg.norm(A))
    assert isinstance(numbers, np.ndarray)
    np.testing.assert_array_equal(numbers, on.host(s + Q[0, :]))


def test_other_eigenvalues_and_other_vectors_are_told_from_those_of_a_matrix(rng):
    A = positive_definite(rng, 40)
    s, Q = np.linalg.eigh(A)
    turned = Q.copy()
    turned[:, :2] = Q[:, :2] @ np.array([[1.0, -1e-6], [1e-6, 1.0]])

    def is_one(s, Q):
        return _factor._is_spectrum(s, np.sum(Q * Q * s, axis=1), np.diag(A), rounding=1e-13)

    assert is_one(s, Q)
    assert not is_one(s * (1 + 1e-9), Q)
    assert not is_one(s, turned)
    assert not is_one(s, np.eye(40))
    assert not is_one(np.full(40, np.nan), Q)


def test_eigenvalues_that_divide_and_conquer_does_not_find_are_found(monkeypatch, rng):
    def fails(_):
        msg = "Eigenvalues did not converge"
        raise np.linalg.LinAlgError(msg)

    A = rng.standard_normal((30, 30))
    A = A + A.T
    expected = np.linalg.eigvalsh(A)
    monkeypatch.setattr(np.linalg, "eigh", fails)
    s, Q = eigh(A)
    np.testing.assert_allclose(s, expected, rtol=0, atol=1e-13)
    np.testing.assert_allclose(Q * s @ Q.T, A, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("n", "width"), [(1, 1), (7, 3), (30, 8), (30, 30), (30, 64)])
def test_a_factor_by_block_columns_is_the_whole_one(on, rng, n, width):
    A, b = on.rounded(positive_definite(rng, n)), on.rounded(rng.standard_normal((n, 3)))
    formed = []

    def form(start, stop):
        formed.append((start, stop))
        rest = A.copy()
        rest[np.triu_indices(n, 1)] = 7.0  # which is not read
        return on.xp.asarray(on.put(rest[start:, start:stop]), copy=True)

    factor = BlockCholeskyFactor.factor(n, width, form)
    assert [stop for _, stop in formed[:-1]] == [start for start, _ in formed[1:]]
    expected = np.linalg.cholesky(A)
    for (start, stop), column in zip(formed, factor.columns, strict=True):
        on.assert_close(column, expected[start:, start:stop], ulps=10 * n)
    elements = sum(column.shape[0] * column.shape[1] for column in factor.columns)
    assert elements <= n * (n + min(width, n)) / 2  # of n²
    given = on.put(b)
    whole = CholeskyFactor.factor(on.put(A))
    on.assert_close(factor.solve_lower(given), on.host(whole.solve_lower(given)), ulps=10 * n)
    on.assert_close(factor.solve_upper(given), on.host(whole.solve_upper(given)), ulps=10 * n)
    on.assert_close(factor.solve(given), np.linalg.solve(A, b), ulps=100 * n)
    on.assert_close(given, b, ulps=0)


@pytest.mark.parametrize("at", [0, 5, 9])  # in the first block, between, and the last
@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_block_columns_that_cannot_be_factored_raise(on, rng, at, value):
    A = on.rounded(positive_definite(rng, 10))
    A[at, at] = value

    def form(start, stop):
        return on.xp.asarray(on.put(A[start:, start:stop]), copy=True)

    with pytest.raises(np.linalg.LinAlgError):
        BlockCholeskyFactor.factor(10, 4, form)
