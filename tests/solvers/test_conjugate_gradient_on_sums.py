"""Conjugate gradients by sums over the rows do what those of long vectors do."""

import numpy as np
import oracles
import pytest
from partitioned.rows import in_parts, whole

from gpukfl.core._results import Status
from gpukfl.linalg import CholeskyFactor
from gpukfl.operators import BinnedBrownianKernel, CoarseGrid, KnotSums, _coarse, coarse_factor
from gpukfl.partitioned._rows import Rows
from gpukfl.solvers import ConjugateGradient, ConjugateGradientOnSums

SIZES = [90, 7, 130, 73]
N, M, Q = sum(SIZES), 3, 33
CASES = ["alone", "weighted", "two targets"]


class System:
    """One system, dense and by sums."""

    def __init__(self, case, shift, *, preconditioned=False):
        rng = np.random.default_rng(0)
        X, W = rng.normal(size=(N, 4)), rng.normal(size=(4, M))
        y = np.stack([np.sin(2.0 * X[:, 0]) + X[:, 1], X[:, 2] ** 2], axis=1)
        y = y if case == "two targets" else y[:, :1]
        self.s = rng.uniform(0.5, 1.5, (N, 1)) if case == "weighted" else np.ones((N, 1))
        self.b = y - self.s * (self.s.T @ y) / np.sum(self.s**2)
        whole_kernel = BinnedBrownianKernel.build(Rows(X, np.empty(0)), W, n_knots=Q)
        K = self.s * (whole_kernel @ np.diag(self.s[:, 0]))
        K = oracles.centered(K) if case != "weighted" else self._project(K)
        self.A = (K if case == "weighted" else oracles.centered(K.T).T) + shift * np.eye(N)
        parts = in_parts([X, self.b, self.s if case == "weighted" else None], SIZES)
        self.passes = parts[0].partitioning
        kernel = BinnedBrownianKernel.build(Rows(parts[0], np.empty(0)), W, n_knots=Q)
        grid = CoarseGrid.build(N, kernel.ends) if preconditioned else None
        factor = coarse_factor(kernel, grid, parts[2], shift) if preconditioned else None
        self.sums = KnotSums(kernel, parts[1], parts[2], shift, grid, factor)

    def _project(self, K):
        P = np.eye(N) - self.s @ self.s.T / np.sum(self.s**2)
        return P @ K @ P


@pytest.fixture
def cells(monkeypatch):
    """Few cells, whatever would pay."""
    monkeypatch.setattr(_coarse, "_RANKS", ())
    monkeypatch.setattr(_coarse, "_MAX_RANK", 30)


@pytest.mark.parametrize("preconditioned", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_solution_is_that_of_the_dense_system(case, preconditioned, cells):
    system = System(case, 0.5, preconditioned=preconditioned)
    before = system.passes.n_passes
    solution = ConjugateGradientOnSums(1e-11, 500).solve(system.sums)
    passes = system.passes.n_passes - before
    assert solution.status is Status.CONVERGED
    np.testing.assert_allclose(
        whole(solution.x), np.linalg.solve(system.A, system.b), atol=1e-9, rtol=0
    )
    np.testing.assert_allclose(
        whole(solution.residual), system.b - system.A @ whole(solution.x), atol=1e-10
    )
    # One or two an iteration, one to begin, three of the last residual, and sums made anew twice
    assert passes == (1 + preconditioned) * solution.n_iter + 1 + 3 + 2


@pytest.mark.parametrize("case", CASES)
def test_iterates_are_those_of_long_vectors(case):
    system = System(case, 0.05)
    for count in (1, 4):
        expected = ConjugateGradient(1e-15, 0.0, count, 1).solve(lambda V: system.A @ V, system.b)
        found = ConjugateGradientOnSums(1e-15, count).solve(system.sums)
        assert found.status is Status.MAX_ITER
        assert found.n_iter == count
        np.testing.assert_allclose(whole(found.x), expected.x, rtol=1e-9, atol=1e-11)


def test_a_preconditioner_does_what_it_does_with_long_vectors(cells):
    system = System("weighted", 0.02, preconditioned=True)
    kernel = system.sums.kernel
    X, s = whole(kernel.rows.source), system.s
    alike = BinnedBrownianKernel.build(Rows(X, np.empty(0)), kernel.W, n_knots=Q)
    long = ConjugateGradient(1e-3, check_every=1).solve(
        lambda V: system.A @ V, system.b, precondition=alike.approximate_inverse(s, 0.02)
    )
    found = ConjugateGradientOnSums(1e-3, 500).solve(system.sums)
    plain = ConjugateGradientOnSums(1e-3, 500).solve(System("weighted", 0.02).sums)
    # 43 steps, 43 and about 77; rounding moves each by a few
    assert abs(found.n_iter - long.n_iter) <= 0.15 * long.n_iter
    assert found.n_iter <= 0.75 * plain.n_iter


@pytest.mark.parametrize("case", CASES)
def test_a_first_guess_is_gone_on_from(case):
    system = System(case, 0.5)
    rough = ConjugateGradientOnSums(1e-3, 500).solve(system.sums)
    again = ConjugateGradientOnSums(1e-3, 500).solve(system.sums, start=rough.x)
    assert (again.status, again.n_iter) == (Status.CONVERGED, 0)
    exact = ConjugateGradientOnSums(1e-11, 500).solve(system.sums, start=rough.x)
    expected = np.linalg.solve(system.A, system.b)
    np.testing.assert_allclose(whole(exact.x), expected, atol=1e-9, rtol=0)


def test_who_has_seen_enough_is_asked_with_what_bounds_the_solution():
    system, asked = System("two targets", 0.5), []

    def enough(measured):
        asked.append(measured)
        return len(asked) == 4

    solution = ConjugateGradientOnSums(1e-12, 500).solve(system.sums, enough=enough)
    assert (solution.status, solution.n_iter) == (Status.DECIDED, 3)
    x, r = whole(solution.x), whole(solution.residual)
    np.testing.assert_allclose(asked[-1], np.sum((system.b + r) * x, axis=0), rtol=1e-10)


def test_what_is_not_positive_definite_breaks_down():
    system = System("alone", -3.0)
    assert ConjugateGradientOnSums(1e-6, 500).solve(system.sums).status is Status.BREAKDOWN


def test_more_than_rounding_allows_stalls():
    system = System("alone", 5.0)
    assert ConjugateGradientOnSums(1e-16, 80).solve(system.sums).status is Status.STALLED


@pytest.mark.parametrize("weighted", [False, True])
def test_half_of_the_pair_sums_gives_the_factor_of_all(weighted, cells):
    system = System("weighted" if weighted else "alone", 0.5)
    kernel, s = system.sums.kernel, system.sums.root_weights
    grid = CoarseGrid.build(N, kernel.ends)
    found = coarse_factor(kernel, grid, s, 0.5)
    X = whole(kernel.rows.source)
    own = BinnedBrownianKernel.build(Rows(X, np.empty(0)), kernel.W, n_knots=Q)
    ((_, _, at),) = own.positions(0, N)
    coarse = grid.coarsen(at)
    B = oracles.interpolation(coarse.codes, coarse.shift, coarse.n_knots)  # (m, n, q + 1)
    B = np.concatenate(list(system.s * B), axis=1)
    expected = grid.factor(B.T @ B, float(np.sum(system.s**2)), 0.5)
    assert isinstance(found, CholeskyFactor)
    np.testing.assert_allclose(found.L, expected.L, rtol=1e-9, atol=1e-9)
