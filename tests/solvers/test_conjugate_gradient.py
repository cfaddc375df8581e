"""Conjugate gradients solve, say how they ended, and never turn a solved column into NaN."""

import numpy as np
import pytest

from gpukfl.core._results import Status
from gpukfl.solvers import ConjugateGradient, _cg

N = 30


def positive_definite(on, rng, n=N, condition=100.0):
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    A = on.rounded((Q * np.geomspace(1.0, 1.0 / condition, n)) @ Q.T)
    return on.rounded((A + A.T) / 2)


def multiply(on, A):
    placed = on.put(A)
    return lambda V: placed @ V


@pytest.mark.parametrize("shape", [(N,), (N, 1), (N, 3)], ids=str)
def test_solution_is_that_of_the_dense_solve(on, rng, shape):
    A, b = positive_definite(on, rng), on.rounded(rng.standard_normal(shape))
    rtol = 100 * on.eps
    solution = ConjugateGradient(rtol=rtol).solve(multiply(on, A), on.put(b))
    assert solution.status is Status.CONVERGED
    assert 0 < solution.n_iter <= 3 * N
    on.assert_close(solution.x, np.linalg.solve(A, b), ulps=100 * 100)
    missing = b - A @ on.host(solution.x).astype(np.float64)
    allowed = 2 * rtol * np.linalg.norm(b, axis=0)
    assert np.all(np.linalg.norm(missing, axis=0) <= allowed)
    on.assert_close(solution.residual, missing, ulps=100, scale=np.max(np.abs(b)) * 100)


def test_residual_is_the_true_one_however_it_ended(on, rng):
    A, b = positive_definite(on, rng), on.rounded(rng.standard_normal((N, 2)))
    start = on.rounded(rng.standard_normal((N, 2)))
    for k in (1, 4, 9):
        solver = ConjugateGradient(rtol=0.0, max_iter=k)
        solution = solver.solve(multiply(on, A), on.put(b), start=on.put(start))
        assert (solution.status, solution.n_iter) == (Status.MAX_ITER, k)
        missing = b - A @ on.host(solution.x).astype(np.float64)
        on.assert_close(solution.residual, missing, ulps=100, scale=np.max(np.abs(b)))
        assert np.linalg.norm(missing) > 0.0


@pytest.mark.parametrize("rtol", [1e-8, 1e-2])
def test_the_last_residual_is_computed_anew(on_double, rng, rtol):
    on = on_double
    A, b = positive_definite(on, rng), rng.standard_normal((N, 2))
    product = multiply(on, A)
    products = []

    def counted(V):
        products.append(V)
        return product(V)

    solution = ConjugateGradient(rtol=rtol, check_every=1).solve(counted, on.put(b))
    assert solution.status is Status.CONVERGED
    assert len(products) == solution.n_iter + 1


def test_drift_of_the_recursion_is_no_convergence(rng):
    """Though the tolerance is loose: the recursion's residual is below 0.01, the true one 0.5."""
    Q = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    A = ((Q * np.geomspace(1.0, 1e-7, 60)) @ Q.T).astype(np.float32)
    b = rng.standard_normal((60, 3)).astype(np.float32)
    solution = ConjugateGradient(rtol=1e-2, max_iter=20_000).solve(lambda V: A @ V, b)
    missing = b.astype(np.float64) - A.astype(np.float64) @ solution.x.astype(np.float64)
    assert solution.status is Status.STALLED
    assert np.any(np.linalg.norm(missing, axis=0) > 1e-2 * np.linalg.norm(b, axis=0))


@pytest.mark.parametrize("size", [1e200, 1e-170, np.inf])
def test_right_hand_sides_that_cannot_be_measured_break_down(size):
    b = np.stack([np.ones(3), np.array([size, 1e-3 * min(size, 1e300), 0.0])], axis=1)
    with np.errstate(all="ignore"):
        assert ConjugateGradient().solve(lambda V: V, b).status is Status.BREAKDOWN
    assert ConjugateGradient().solve(lambda V: V, np.zeros((3, 2))).status is Status.CONVERGED


def test_a_good_start_saves_iterations_and_is_left_alone(on, rng):
    A, b = positive_definite(on, rng), on.rounded(rng.standard_normal((N, 2)))
    exact = on.rounded(np.linalg.solve(A, b))
    solver = ConjugateGradient(rtol=1e-4, check_every=1)
    cold = solver.solve(multiply(on, A), on.put(b))
    near = on.put(exact + 1e-3 * rng.standard_normal((N, 2)))
    kept = on.host(near).copy()
    warm = solver.solve(multiply(on, A), on.put(b), start=near)
    assert warm.status is Status.CONVERGED
    assert warm.n_iter < cold.n_iter
    on.assert_close(near, kept, ulps=0)
    done = solver.solve(multiply(on, A), on.put(b), start=on.put(exact))
    assert (done.status, done.n_iter) == (Status.CONVERGED, 0)
    on.assert_close(done.x, exact, ulps=0)


def test_the_inverse_as_preconditioner_solves_in_one_step(on, rng):
    A, b = positive_definite(on, rng), on.rounded(rng.standard_normal((N, 2)))
    solution = ConjugateGradient(rtol=1e-3, check_every=1).solve(
        multiply(on, A), on.put(b), precondition=multiply(on, np.linalg.inv(A))
    )
    assert (solution.status, solution.n_iter) == (Status.CONVERGED, 1)


def test_a_preconditioner_changes_the_way_and_not_the_solution(on, rng):
    A, b = positive_definite(on, rng), on.rounded(rng.standard_normal((N, 2)))
    scale = np.geomspace(1.0, 10.0, N)  # badly scaled, and the preconditioner knows
    scaled = on.rounded(scale[:, None] * A * scale)
    solver = ConjugateGradient(rtol=1e-2, check_every=1)
    plain = solver.solve(multiply(on, scaled), on.put(b))
    helped = solver.solve(
        multiply(on, scaled), on.put(b), precondition=multiply(on, np.diag(scale**-2))
    )
    assert helped.status is Status.CONVERGED
    assert helped.n_iter < plain.n_iter
    missing = b - scaled @ on.host(helped.x).astype(np.float64)
    rounding = 100 * on.eps * np.linalg.norm(scaled) * np.linalg.norm(on.host(helped.x))
    assert np.linalg.norm(missing) <= 2e-2 * np.linalg.norm(b) + rounding


def test_zero_right_hand_side_is_solved_at_once(on, rng):
    A = multiply(on, positive_definite(on, rng))
    for shape in ((N,), (N, 2)):
        solution = ConjugateGradient().solve(A, on.put(np.zeros(shape)))
        assert (solution.status, solution.n_iter) == (Status.CONVERGED, 0)
        on.assert_close(solution.x, np.zeros(shape), ulps=0)


def test_solved_columns_stay_solved_between_checks(on, rng):
    A, b = positive_definite(on, rng), on.rounded(rng.standard_normal((N, 3)))
    b[:, 0] = 0.0
    exact = on.rounded(np.linalg.solve(A, b))
    start = on.rounded(np.zeros((N, 3)))
    start[:, 1] = exact[:, 1]
    b[:, 1] = on.rounded(A @ start[:, 1])
    solver = ConjugateGradient(rtol=1e-4, check_every=100, max_iter=100)
    solution = solver.solve(multiply(on, A), on.put(b), start=on.put(start))
    assert solution.status is Status.CONVERGED
    on.assert_close(solution.x, np.linalg.solve(A, b), ulps=100 * 1000)
    assert np.all(on.host(solution.x)[:, 0] == 0.0)


def test_a_solution_found_between_checks_stays_finite(on, rng):
    b = on.rounded(rng.standard_normal(N))
    for A in (np.eye(N), np.diag(np.repeat([1.0, 2.0], N // 2))):
        solution = ConjugateGradient(rtol=1e-4, check_every=50).solve(multiply(on, A), on.put(b))
        assert solution.status is Status.CONVERGED
        on.assert_close(solution.x, np.linalg.solve(A, b), ulps=10)


def test_consistent_singular_systems_are_solved(on, rng):
    b = on.rounded(rng.standard_normal((N, 1)))
    b[: N // 2] = 0.0
    A = np.diag(np.concatenate([np.zeros(N // 2), np.linspace(1.0, 2.0, N // 2)]))
    solution = ConjugateGradient(rtol=1e-4).solve(multiply(on, A), on.put(b))
    assert solution.status is Status.CONVERGED
    expected = np.zeros_like(b)
    expected[N // 2 :] = b[N // 2 :] / np.linspace(1.0, 2.0, N // 2)[:, None]
    assert np.max(np.abs(on.host(solution.x) - expected)) <= 1e-4 * np.linalg.norm(b)


def test_residuals_below_atol_are_enough(on, rng):
    A, b = positive_definite(on, rng), on.rounded(rng.standard_normal(N))
    solver = ConjugateGradient(rtol=0.0, atol=float(2.0 * np.linalg.norm(b)))
    solution = solver.solve(multiply(on, A), on.put(b))
    assert (solution.status, solution.n_iter) == (Status.CONVERGED, 0)


def test_rounding_that_keeps_the_residual_above_the_tolerance_is_told(on, rng):
    A, b = positive_definite(on, rng, condition=1e4), on.rounded(rng.standard_normal((N, 2)))
    solution = ConjugateGradient(rtol=on.eps).solve(multiply(on, A), on.put(b))
    assert solution.status is Status.STALLED
    missing = b - A @ on.host(solution.x).astype(np.float64)
    assert np.max(np.linalg.norm(missing, axis=0) / np.linalg.norm(b, axis=0)) > on.eps


@pytest.mark.parametrize("where", ["indefinite", "nan product", "nan right-hand side", "nan start"])
def test_breakdown_is_noticed(on, rng, where):
    A, b = positive_definite(on, rng), on.rounded(rng.standard_normal((N, 2)))
    start = None
    if where == "indefinite":
        A[0, 0] = -1e3
    elif where == "nan product":
        A[3, 3] = np.nan
    elif where == "nan right-hand side":
        b[3, 1] = np.nan
    else:
        start = on.put(np.full((N, 2), np.nan))
    solution = ConjugateGradient().solve(multiply(on, A), on.put(b), start=start)
    assert solution.status is Status.BREAKDOWN
    assert solution.n_iter <= 50


@pytest.mark.parametrize(("check_every", "read_every"), [(1, 1), (5, 1), (3, 4)])
def test_breakdown_gives_the_iterate_that_left_least(on, rng, check_every, read_every):
    """Right-hand sides outside the range of the matrix, along which iterates grow to infinity."""
    b = on.rounded(rng.standard_normal((60, 2)))
    there = on.put(np.repeat([0.0, 1.0], 30)[:, None])
    solver = ConjugateGradient(check_every=check_every, read_every=read_every)
    with np.errstate(all="ignore"):
        solution = solver.solve(lambda V: there * V, on.put(b))
    assert solution.status is Status.BREAKDOWN
    x, residual = on.host(solution.x), on.host(solution.residual)
    assert np.all(np.isfinite(x))
    assert np.linalg.norm(residual) <= np.linalg.norm(b) * (1 + 10 * on.eps)
    on.assert_close(solution.residual, b - on.host(there) * x)


def test_the_caller_decides_when_it_is_enough(on, rng):
    A, b = positive_definite(on, rng), on.rounded(rng.standard_normal((N, 2)))
    asked = []

    def measure(x, r):
        missing = b - A @ on.host(x).astype(np.float64)
        on.assert_close(r, missing, ulps=100, scale=np.max(np.abs(b)))
        asked.append(np.sum(missing * b, axis=0))
        return on.put(missing - b), on.put(b), on.put(b)

    def enough(measured):
        np.testing.assert_allclose(measured, asked[-1], atol=500 * on.eps * np.sum(b**2))
        return len(asked) == 4

    solver = ConjugateGradient(rtol=0.0, check_every=2)
    solution = solver.solve(multiply(on, A), on.put(b), measure=measure, enough=enough)
    assert (solution.status, solution.n_iter) == (Status.DECIDED, 6)
    assert len(asked) == 4


@pytest.mark.pairs
@pytest.mark.parametrize("read_every", [2, 5, 1000])
@pytest.mark.parametrize("settings", [{}, {"rtol": 0.0, "max_iter": 7}, {"rtol": 0.05}])
def test_reading_several_checks_together_changes_nothing(on, rng, settings, read_every):
    A, b = positive_definite(on, rng), on.rounded(rng.standard_normal((N, 2)))

    def solved(read_every):
        solver = ConjugateGradient(check_every=2, read_every=read_every, **settings)
        return solver.solve(
            multiply(on, A),
            on.put(b),
            measure=lambda x, r: (x, r, None),
            enough=lambda measured: bool(measured.sum() > 1e3),
        )

    at_once, later = solved(1), solved(read_every)
    assert (at_once.status, at_once.n_iter) == (later.status, later.n_iter)
    for name in ("x", "residual"):
        np.testing.assert_array_equal(*(on.host(getattr(s, name)) for s in (at_once, later)))


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"max_iter": 0}, "max_iter and check_every of at least 1, got 0 and 5"),
        ({"check_every": 0}, "max_iter and check_every of at least 1, got 1000 and 0"),
        ({"read_every": 0}, "read_every of at least 1, got 0"),
        ({"rtol": -1.0}, "tolerances of at least 0, got -1.0 and 0.0"),
        ({"atol": float("nan")}, "tolerances of at least 0, got 1e-06 and nan"),
    ],
)
def test_wrong_settings_are_named(wrong, text):
    with pytest.raises(ValueError, match=text):
        ConjugateGradient(**wrong)


@pytest.mark.parametrize("t", [None, 2])
@pytest.mark.parametrize("n_kept", [3, 30, 300])
def test_kept_directions_give_the_same_solution(on_double, rng, t, n_kept, monkeypatch):
    on = on_double
    monkeypatch.setattr(_cg, "_FEWEST", 2)
    monkeypatch.setattr(_cg, "_BLOCK", 1)
    A, b = positive_definite(on, rng), rng.standard_normal(N if t is None else (N, t))
    solution = ConjugateGradient(rtol=1e-10, n_kept=n_kept).solve(multiply(on, A), on.put(b))
    assert solution.status is Status.CONVERGED
    on.assert_close(solution.x, np.linalg.solve(A, b), ulps=1e6)


def test_rounding_does_not_grow_where_directions_are_kept(on_double, rng):
    """A loose solve of a problem that differs in its last digits ends at nearly the same point."""
    on = on_double
    Q, _ = np.linalg.qr(rng.standard_normal((300, 300)))
    values = np.concatenate([np.geomspace(1e3, 10.0, 8), rng.uniform(0.3, 1.0, 292)])
    A, b = (Q * values) @ Q.T, rng.standard_normal(300)
    solver = ConjugateGradient(rtol=1e-3, check_every=1, n_kept=64)
    x, moved = (
        on.host(solver.solve(multiply(on, change * A), on.put(b)).x)
        for change in (1.0, 1.0 + 1e-13)
    )
    assert np.linalg.norm(x - moved) <= 1e-11 * np.linalg.norm(x)  # without them 1e-6
