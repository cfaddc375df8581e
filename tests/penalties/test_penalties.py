"""Penalties: values by their formulas, proximal operators by what they minimise."""

import math

import numpy as np
import pytest
from registry import PENALTIES

from gpukfl.penalties import (
    PENALTIES as BY_NAME,
)
from gpukfl.penalties import (
    Basic,
    ConcaveFeature,
    ConcaveVariable,
    Feature,
    Variable,
)

penalties = pytest.mark.parametrize("penalty", PENALTIES, ids=str)
SHAPES = [(3, 7), (7, 3), (4, 4), (2, 20), (20, 2), (1, 1), (1, 5), (5, 1)]
STRENGTHS = [0.0, 0.1, 2.0, 30.0]


def magnitudes(penalty, W):
    """The non-negative numbers that a penalty shrinks."""
    if isinstance(penalty, Basic):
        return np.linalg.norm(W, ord={"l2": 2, "l1": 1}[penalty.sphere], axis=0)
    if isinstance(penalty, (Variable, ConcaveVariable)):
        return np.linalg.norm(W, axis=1)
    return np.linalg.svd(W, compute_uv=False)


def dense_value(penalty, W):
    r, m = magnitudes(penalty, W), W.shape[1]
    if isinstance(penalty, Basic):
        return np.sum(r) / (2 * m)
    if penalty.is_convex:
        return np.sum(r) / (2 * math.sqrt(m))
    s = penalty.concavity
    return np.sum(np.log1p(s * r / math.sqrt(m))) / (2 * s)


def cost(penalty, U, W, strength):
    return 0.5 * np.sum((U - W) ** 2) + strength * dense_value(penalty, U)


def matrices(on, rng):
    """Matrices of every shape: full, small, of rank one, with a row of zeros."""
    for shape in SHAPES:
        W = rng.standard_normal(shape)
        cut = W.copy()
        cut[0, :] = 0.0
        for given in (W, 1e-3 * W, W[:, :1] @ W[:1, :], cut):
            yield on.rounded(given)


def prox(on, penalty, W, strength):
    U = penalty.prox(on.put(W), strength)
    on.assert_lives_here(U)
    return on.host(U).astype(np.float64)


@pytest.mark.each
@penalties
def test_value_is_that_of_the_formula(on, rng, penalty):
    for W in matrices(on, rng):
        value = penalty.value(on.put(W))
        assert value.ndim == 0
        # Small singular values may come from a float64 Gram matrix
        ulps = max(100.0, np.finfo(np.float64).eps ** 0.5 / on.eps)
        scale = np.sum(np.abs(W))
        on.assert_close(value, dense_value(penalty, W), ulps=ulps, scale=scale)


@pytest.mark.each
@penalties
def test_prox_minimises(on, rng, penalty):
    for W in matrices(on, rng):
        for strength in STRENGTHS[1:]:  # with 0 it is the identity
            U = prox(on, penalty, W, strength)
            least = cost(penalty, U, W, strength)
            slack = 100 * on.eps * (np.sum(W**2) + strength * dense_value(penalty, W)) + 1e-30
            others = [np.zeros_like(W), W, 0.5 * W]
            for size in (1e-3, 0.03, 1.0):
                step = size * np.max(np.abs(W)) * rng.standard_normal((4, *W.shape))
                others += [*(U + step), U * (1 + size), U * (1 - size)]
            assert least <= min(cost(penalty, V, W, strength) for V in others) + slack


@pytest.mark.each
@penalties
def test_strength_zero_is_the_identity(on, rng, penalty):
    for W in matrices(on, rng):
        on.assert_close(penalty.prox(on.put(W), 0.0), W, ulps=100)


@pytest.mark.each
@penalties
def test_large_strength_gives_exactly_zero(on, rng, penalty):
    for W in matrices(on, rng):
        on.assert_close(penalty.prox(on.put(W), 1e6), np.zeros_like(W), ulps=0)


@pytest.mark.pairs
@penalties
@pytest.mark.parametrize("strength", STRENGTHS)
def test_zero_stays_exactly_zero(on, penalty, strength):
    for shape in SHAPES:
        zero = on.put(np.zeros(shape))
        on.assert_close(penalty.prox(zero, strength), np.zeros(shape), ulps=0)
        on.assert_close(penalty.value(zero), 0.0, ulps=0)


@pytest.mark.parametrize("penalty", [p for p in PENALTIES if "Variable" in str(p)], ids=str)
def test_rows_are_cut_off_exactly_and_apart(on, rng, penalty):
    W = on.rounded(rng.standard_normal((4, 6)))
    W[1] = 0.0
    W[2] *= 1e-3
    U = prox(on, penalty, W, 1.0)
    assert np.all(U[1:3] == 0.0)
    assert np.all(U[[0, 3]] != 0.0)
    alone = prox(on, penalty, W[:1], 1.0)
    assert np.max(np.abs(U[:1] - alone)) <= 4 * on.eps * np.max(np.abs(W))


def test_columns_are_cut_off_exactly(on, rng):
    W = on.rounded(rng.standard_normal((4, 6)))
    W[:, 1] = 0.0
    W[:, 2] *= 1e-3
    U = prox(on, Basic(), W, 1.0)
    assert np.all(U[:, 1:3] == 0.0)
    assert np.all(U[:, [0, 3, 4, 5]] != 0.0)


def test_l1_sphere_cuts_off_entries(on, rng):
    W = on.rounded(np.array([[1.0, -0.3], [-0.1, 0.0], [0.02, 2.0]]))
    U = prox(on, Basic(sphere="l1"), W, 0.4)  # entries by 0.4 / 2m = 0.1
    on.assert_close(on.put(U), np.sign(W) * np.maximum(np.abs(W) - 0.1, 0.0), ulps=4)
    assert np.all(U[1:, 0] == 0.0)
    assert U[1, 1] == 0.0


@pytest.mark.parametrize("c", [1e-3, 7.0])
def test_norms_are_homogeneous(on, rng, c):
    W = on.rounded(rng.standard_normal((3, 5)))
    for sphere in ("l2", "l1"):
        penalty = Basic(sphere=sphere)
        on.assert_close(penalty.value(on.put(c * W)), c * dense_value(penalty, W), ulps=100)
        on.assert_close(
            penalty.prox(on.put(c * W), c), c * prox(on, penalty, W, 1.0), ulps=100, scale=c
        )


def test_sphere_is_known():
    with pytest.raises(ValueError, match="expected sphere to be one of 'l2', 'l1', got 'linf'"):
        Basic(sphere="linf")


@pytest.mark.parametrize("penalty", [p for p in PENALTIES if p.is_convex], ids=str)
def test_convex_prox_is_firmly_nonexpansive(on, rng, penalty):
    for shape in SHAPES:
        for strength in STRENGTHS:
            V, W = on.rounded(rng.standard_normal((2, *shape)))
            U = prox(on, penalty, V, strength) - prox(on, penalty, W, strength)
            slack = 100 * on.eps * np.sum((V - W) ** 2)
            assert np.sum(U**2) <= np.sum(U * (V - W)) + slack


def least_by_grid(r, m, s, strength):
    """Minimise ½(u - r)² + strength/(2s) log(1 + su/√m) over u in [0, r], by brute force."""
    low, high = np.zeros_like(r), r
    for _ in range(4):
        u = low + (high - low) * np.linspace(0.0, 1.0, 1001)[:, None]
        costs = 0.5 * (u - r) ** 2 + strength / (2 * s) * np.log1p(s * u / math.sqrt(m))
        best = u[np.argmin(costs, axis=0), np.arange(len(r))]
        gap = (high - low) / 1000
        low, high = np.maximum(0.0, best - gap), np.minimum(r, best + gap)
    return np.min(costs, axis=0)


@pytest.mark.pairs
@pytest.mark.parametrize("m", [1, 9])
@pytest.mark.parametrize("s", [1e-3, 1.0, 50.0])
def test_concave_prox_is_the_global_minimum_of_each_magnitude(on, s, m):
    negative = 0
    b = s / math.sqrt(m)
    for strength in (1e-3, 0.3, 2.0, 40.0):
        kappa = strength / (2 * math.sqrt(m))
        # All along the range where the minimum jumps from zero to a stationary point
        r = on.rounded(np.append(np.linspace(0.0, 3 * kappa, 301), [1e-6, 1.0, 3.0, 100.0]))
        W = np.zeros((len(r), m))
        W[:, -1] = r
        u = np.linalg.norm(prox(on, ConcaveVariable(concavity=s), W, strength), axis=1)
        negative += np.sum((1 + b * r) ** 2 < 4 * b * kappa)
        here = 0.5 * (u - r) ** 2 + strength / (2 * s) * np.log1p(b * u)
        slack = 20 * on.eps * (r**2 + strength / (2 * s) * np.log1p(b * r))
        assert np.all(here <= least_by_grid(r, m, s, strength) + slack)
    assert negative > 0 or s < 1  # cases without a stationary point are among them


def test_feature_penalties_act_on_singular_values(on, rng):
    for shape in SHAPES:
        W = on.rounded(rng.standard_normal(shape))
        U, r, Vt = np.linalg.svd(W, full_matrices=False)
        for feature, variable in ((Feature(), Variable()), (ConcaveFeature(), ConcaveVariable())):
            # Diagonal, with as many columns: the rows' norms are the singular values
            diagonal = np.zeros((len(r), shape[1]))
            np.fill_diagonal(diagonal, r)
            shrunk = np.diag(prox(on, variable, on.rounded(diagonal), 0.7))
            expected = (U * shrunk) @ Vt
            on.assert_close(feature.prox(on.put(W), 0.7), expected, ulps=100, scale=r[0])


@pytest.mark.each
@penalties
def test_prox_leaves_its_argument_alone(on, rng, penalty):
    W = on.rounded(rng.standard_normal((3, 5)))
    placed = on.put(W)
    penalty.prox(placed, 0.5)
    penalty.value(placed)
    on.assert_close(placed, W, ulps=0)


@pytest.mark.parametrize("kind", [ConcaveVariable, ConcaveFeature])
@pytest.mark.parametrize("wrong", [0.0, -1.0, math.inf, math.nan])
def test_concavity_must_be_positive_and_finite(kind, wrong):
    with pytest.raises(ValueError, match=f"positive, finite concavity, got {wrong}"):
        kind(concavity=wrong)


def test_every_penalty_has_a_name_and_says_whether_it_is_convex():
    assert {type(penalty) for penalty in PENALTIES} == set(BY_NAME.values())
    assert {n for n, kind in BY_NAME.items() if not kind.is_convex} == {
        "concave_variable",
        "concave_feature",
    }
