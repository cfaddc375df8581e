"""The randomised preconditioner approximates the inverse where the spectrum decays."""

import numpy as np
import pytest

from gpukfl.core._results import Status
from gpukfl.solvers import ConjugateGradient, NystromPreconditioner

N, RANK = 60, 20


def decaying(rng, on, ratio=0.6):
    Q, _ = np.linalg.qr(rng.standard_normal((N, N)))
    A = (Q * ratio ** np.arange(N)) @ Q.T
    return (A + A.T) / 2


def build(on, A, *, shift, rank=RANK, seed=0):
    placed = on.put(A)
    return NystromPreconditioner.from_operator(
        lambda V: placed @ V,
        on.put(np.zeros((len(A), 1))),
        shift=shift,
        rank=rank,
        rng=np.random.RandomState(seed),
    )


def test_preconditioned_matrix_is_close_to_a_multiple_of_the_identity(on, rng):
    A, shift = decaying(rng, on), 1e-3
    P = on.host(build(on, A, shift=shift)(on.put(np.eye(N)))).astype(np.float64)
    root = np.linalg.cholesky(A + shift * np.eye(N))
    inside = root.T @ P @ root
    assert np.linalg.cond(inside) <= 2.0
    assert np.linalg.cond(A + shift * np.eye(N)) >= 500


def test_preconditioner_is_symmetric_positive_definite(on, rng):
    shift = 1e-3
    P = on.host(build(on, decaying(rng, on), shift=shift)(on.put(np.eye(N)))).astype(np.float64)
    assert np.max(np.abs(P - P.T)) <= 100 * on.eps * np.max(np.abs(P))
    assert np.min(np.linalg.eigvalsh(P + P.T)) > 0.0


def test_preconditioner_saves_iterations(on, rng):
    A, shift = decaying(rng, on), 1e-3
    full = on.put(A + shift * np.eye(N))
    b = on.put(rng.standard_normal((N, 2)))
    solver = ConjugateGradient(rtol=1e-4, check_every=1)
    plain = solver.solve(lambda V: full @ V, b)
    helped = solver.solve(lambda V: full @ V, b, precondition=build(on, A, shift=shift))
    assert helped.status is Status.CONVERGED
    assert helped.n_iter <= plain.n_iter / 2


def test_one_right_hand_side_is_as_a_column(on, rng):
    A, shift = decaying(rng, on), 1e-3
    P = build(on, A, shift=shift)
    b = on.rounded(rng.standard_normal(N))
    one = P(on.put(b))
    assert tuple(one.shape) == (N,)
    on.assert_close(one, on.host(P(on.put(b[:, None])))[:, 0], ulps=100)
    full = on.put(A + shift * np.eye(N))
    solution = ConjugateGradient(rtol=1e-4).solve(lambda V: full @ V, on.put(b), precondition=P)
    assert solution.status is Status.CONVERGED
    assert tuple(solution.x.shape) == (N,)


@pytest.mark.parametrize("rank", [5, 60, 100])
def test_a_matrix_of_lower_rank_is_inverted_exactly(on, rng, rank):
    B = rng.standard_normal((N, 3))
    A, shift = B @ B.T, 10.0
    P = build(on, A, shift=shift, rank=rank)
    assert P.U.shape == (N, min(rank, N))
    expected = shift * np.linalg.inv(A + shift * np.eye(N))  # up to a factor
    r = on.rounded(rng.standard_normal((N, 2)))
    on.assert_close(P(on.put(r)), expected @ r, ulps=1000)


def test_the_zero_matrix_needs_no_preconditioner(on, rng):
    r = on.rounded(rng.standard_normal((N, 2)))
    on.assert_close(build(on, np.zeros((N, N)), shift=1.0)(on.put(r)), r, ulps=10)


def test_every_place_draws_the_same(on, rng):
    A, shift = on.rounded(decaying(rng, on)), 0.1
    r = on.rounded(rng.standard_normal((N, 1)))
    Q, _ = np.linalg.qr(np.random.RandomState(5).standard_normal((N, RANK)))
    nystrom = A @ Q @ np.linalg.solve(Q.T @ A @ Q, Q.T @ A)
    values, U = np.linalg.eigh(nystrom)
    values, U = values[-RANK:], U[:, -RANK:]
    gains = (values[0] + shift) / (values + shift) - 1.0
    expected = r + U @ (gains[:, None] * (U.T @ r))
    on.assert_close(build(on, A, shift=shift, seed=5)(on.put(r)), expected, ulps=1e5)


def test_an_indefinite_matrix_raises(on):
    with pytest.raises(np.linalg.LinAlgError):
        build(on, -np.eye(N), shift=1.0)
