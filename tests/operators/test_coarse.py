"""The preconditioner is the inverse it claims to be."""

from dataclasses import replace

import numpy as np
import oracles
import pytest
from registry import Problem

from gpukfl.operators import BinnedBrownianKernel, BrownianKernel, _brownian, _coarse
from gpukfl.partitioned._rows import Rows

SHIFT = 0.7


@pytest.fixture
def cells(monkeypatch):
    """Forty cells on the whole range of each of two particles, whatever would pay."""
    monkeypatch.setattr(_coarse, "_RANKS", ())
    monkeypatch.setattr(_coarse, "_MAX_RANK", 80)
    monkeypatch.setattr(_coarse, "_MAX_CELLS", 64)
    monkeypatch.setattr(_brownian, "_OUTSIDE", 0)


def build(on, p, *, weighted=False, binned=False, shift=SHIFT):
    X, W = on.put(p.X), on.put(p.W)
    kernel = BrownianKernel.build(X, W)
    if binned:
        kernel = BinnedBrownianKernel.build(Rows(X, on.reference), W, n_knots=65)
    return kernel.approximate_inverse(on.put(p.s) if weighted else None, shift)


def dense_inverse(on, inverse, p, *, weighted=False, shift=SHIFT, outside=0):
    """Inverse of the centred, weighted kernel between the knots, plus the shift."""
    s = p.s if weighted else np.ones_like(p.s)
    A = np.sort(p.W.T @ p.X.T, axis=1)
    q = inverse.at[0].n_knots - 1
    low, high = A[:, outside], A[:, -1 - outside]
    width = (_coarse._round_to_bits(high, high - low) - _coarse._round_to_bits(low, high - low)) / q
    codes = np.concatenate([on.host(part.codes) for part in inverse.at], axis=1)
    B = oracles.interpolation(codes, inverse.at[0].shift, q + 1)
    knots = np.abs(oracles.gaps(np.arange(q + 1.0)[None, :]))
    K = -0.5 * np.mean(width[:, None, None] * (B @ knots @ B.swapaxes(1, 2)), axis=0)
    K = oracles.centered(oracles.centered(s * K * s.T, s).T, s)
    return np.linalg.inv(K + shift * np.eye(len(K)))


@pytest.mark.pairs
@pytest.mark.parametrize("binned", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_inverse_is_that_of_the_kernel_between_knots(on, rng, cells, weighted, binned):
    p = Problem.draw(on, rng, n=300, m=2)
    inverse = build(on, p, weighted=weighted, binned=binned)
    r = on.rounded(rng.standard_normal((300, 2)))
    expected = dense_inverse(on, inverse, p, weighted=weighted) @ r
    on.assert_close(inverse(on.put(r)), expected, ulps=1000)


@pytest.mark.parametrize("weighted", [False, True])
def test_one_right_hand_side_is_as_a_column(on, rng, cells, weighted):
    p = Problem.draw(on, rng, n=300, m=2)
    inverse = build(on, p, weighted=weighted)
    r = on.rounded(rng.standard_normal(300))
    expected = on.host(inverse(on.put(r[:, None])))[:, 0]
    one = inverse(on.put(r))
    assert tuple(one.shape) == (300,)
    on.assert_close(one, expected, ulps=100)


@pytest.mark.parametrize("weighted", [False, True])
def test_parts_that_a_library_can_hold_do_as_one(on, rng, cells, monkeypatch, weighted):
    p = Problem.draw(on, rng, n=300, m=2)
    r = on.put(rng.standard_normal((300, 2)))
    whole = on.host(build(on, p, weighted=weighted)(r))
    monkeypatch.setattr(_coarse, "MAX_ELEMENTS", 240)
    monkeypatch.setattr(Rows, "blocks", in_blocks_of(40))
    inverse = build(on, p, weighted=weighted)
    assert [tuple(part.codes.shape) for part in inverse.at] == [(2, 120), (2, 120), (2, 60)]
    on.assert_close(inverse(r), whole, ulps=1000)


def in_blocks_of(size):
    """Give rows by blocks of so many, however much memory there is."""

    def blocks(self, _width=0, /, *, start=0, stop=None):
        last = self.shape[0] if stop is None else stop
        for first in range(start, last, size):
            end = min(first + size, last)
            yield first, end, self.block(first, end)

    return blocks


def test_positions_are_projections_in_parts_of_a_cell(on, rng, cells):
    p = Problem.draw(on, rng, n=300, m=2)
    (at,) = build(on, p).at
    assert at.n_knots == 41
    A = p.W.T @ p.X.T
    low, high = np.min(A, axis=1, keepdims=True), np.max(A, axis=1, keepdims=True)
    exact = np.floor((A - low) / (high - low) * 40 * 16)
    wrong = np.abs(on.host(at.codes) - exact)
    # Particles are rounded first: a projection near the edge of a part may go to either side
    assert np.max(wrong) <= 1.0
    assert np.mean(wrong) <= 0.2


def test_particles_that_differ_by_rounding_have_the_same_inverse(on, rng, cells):
    p = Problem.draw(on, rng, n=300, m=2)
    codes = on.host(build(on, p).at[0].codes)
    moved = replace(p, W=(1.0 + 2.0 * on.eps) * p.W)
    np.testing.assert_array_equal(on.host(build(on, moved).at[0].codes), codes)


def test_knots_leave_out_the_farthest_projections(on_double, rng, cells, monkeypatch):
    on = on_double
    monkeypatch.setattr(_brownian, "_OUTSIDE", 3)
    p = Problem.draw(on, rng, n=1000, m=2)
    p.X[0] *= 1e6
    inverse = build(on, p)
    assert np.mean(on.host(inverse.at[0].codes) % (40 * 16) == 0) < 0.01
    r = on.rounded(rng.standard_normal((1000, 1)))
    expected = dense_inverse(on, inverse, p, outside=3) @ r
    on.assert_close(inverse(on.put(r)), expected, ulps=1e5)


@pytest.mark.parametrize("weighted", [False, True])
def test_inverse_is_symmetric_positive_definite(on_double, rng, cells, weighted):
    on = on_double
    p = Problem.draw(on, rng, n=200, m=2, tied=True)
    inverse = build(on, p, weighted=weighted)
    P = on.host(inverse(on.put(np.eye(200))))
    assert np.max(np.abs(P - P.T)) <= 100 * on.eps * np.max(np.abs(P))
    assert np.min(np.linalg.eigvalsh(P + P.T)) > 0


def test_particles_at_zero_do_no_harm(on, rng, cells):
    p = Problem.draw(on, rng, n=300, m=2)
    p.W[:, 1] = 0.0
    inverse = build(on, p)
    r = on.rounded(rng.standard_normal((300, 1)))
    on.assert_close(inverse(on.put(r)), dense_inverse(on, inverse, p) @ r, ulps=1000)


@pytest.mark.parametrize(("n", "m"), [(7, 2), (700, 200)])
def test_there_is_none_where_it_would_not_pay(on, rng, n, m):
    assert build(on, Problem.draw(on, rng, n=n, d=2, m=m)) is None


def test_inverse_is_close_to_that_of_the_kernel(on_double, rng, cells):
    on = on_double
    p = Problem.draw(on, rng, n=300, m=2)
    inverse = build(on, p, shift=4.0)
    K = oracles.centered(oracles.centered(oracles.brownian(p.X, p.W)).T)
    preconditioned = on.host(inverse(on.put(K + 4.0 * np.eye(300))))
    eigenvalues = np.linalg.eigvals(preconditioned).real
    condition = np.linalg.cond(K + 4.0 * np.eye(300))
    assert np.max(eigenvalues) / np.min(eigenvalues) <= 3.0 < condition / 5
