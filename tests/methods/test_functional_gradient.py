"""Algorithms 1 and 2 take the steps of their pseudocode, on every place."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interruption import interrupt
from scipy.optimize import brentq, minimize_scalar

from gpukfl.core._results import Status
from gpukfl.instantiations import GaussianSign, Stumps
from gpukfl.methods import LOSSES, FunctionalDescent, Hinge, Logistic, Squared, _functional_gradient
from gpukfl.operators import FeatureOperator, common_scale
from gpukfl.partitioned._rows import Rows

N, D = 40, 3
KINDS = [GaussianSign(1.0, 1.5), Stumps(1.0, 0.7)]
kinds = pytest.mark.parametrize("kind", KINDS, ids=["signs", "stumps"])
losses = pytest.mark.parametrize("loss", LOSSES)
ridges = pytest.mark.parametrize("ridge", [1e-2, 0.3])
optimal = pytest.mark.parametrize("optimal", [False, True])


class Case:
    """Host float64 data, true features, and the operator on its place."""

    def __init__(self, on, rng, *, kind=KINDS[0], steps=25, batch=6, scaled=True):
        self.on, self.kind = on, kind
        self.X = on.rounded(rng.standard_normal((N, D)))
        self.Y = np.sign(self.X[:, :1] + 0.3 * rng.standard_normal((N, 1)))
        self.W = on.rounded(kind.draw(steps, D, np.random.RandomState(1)))
        self.batches = rng.integers(0, N, (steps, batch))
        scale = common_scale(kind, self.W, D) if scaled else 0.0
        rows = Rows(on.put(self.X), on.reference)
        self.operator = FeatureOperator(kind, rows, on.put(self.W), scale)
        features = kind.features(self.W, D)
        self.Phi = features.shapes(self.X) * np.exp(features.log_constants)
        self.base = kind.base(self.W, self.X)
        self.G = kind.kernel(self.W, self.W)

    def run(self, descent, ridges, Y=None, **options):
        """Coefficients of the true features, and the fit."""
        logs = self.on.put(np.log(ridges), "float64")
        Y = self.Y if Y is None else Y
        fit = descent.run(self.operator, self.on.put(Y), self.batches, logs, **options)
        self.on.assert_lives_here(fit.A, "float64")
        return self.on.host(fit.A) * math.exp(-self.operator.log_scale), fit


# ---------------------------------------------------------------------- pseudocode


def algorithm_1(case, loss, ridge, radius, steps=None):
    """Weight functions as lists of coefficients; every norm from the Gram matrix."""
    T = len(case.W)
    alphas, norms = [np.zeros(T)], []
    for t in range(1, (steps or T) + 1):
        batch, alpha = case.batches[t - 1], alphas[-1]
        y = case.Y[batch, 0]
        f = case.Phi[batch] @ alpha
        b = np.mean(loss.derivative(f, y) * case.base[batch, t - 1])
        half = (1 - 1 / t) * alpha
        half[t - 1] -= b / (ridge * t)
        norms.append(math.sqrt(half @ case.G @ half))
        alphas.append(half * min(1.0, radius / norms[-1]) if norms[-1] else half)
    return np.mean(alphas, axis=0), norms


def algorithm_2(case, loss, ridge):
    """The step is the root of (49)."""
    alpha = np.zeros(len(case.W))
    for t, batch in enumerate(case.batches):
        y, g = case.Y[batch, 0], case.Phi[batch, t]
        kept = (1 - ridge) * alpha
        f, at_u, own = case.Phi[batch] @ kept, case.G[t] @ kept, case.G[t, t]
        if isinstance(loss, Squared):
            eta = -(np.mean((f - y) * g) + ridge * at_u) / (np.mean(g * g) + ridge * own)
        else:
            eta = brentq(
                lambda e, f=f, g=g, y=y, at_u=at_u, own=own: (
                    np.mean(loss.derivative(f + e * g, y) * g) + ridge * at_u + ridge * e * own
                ),
                -1e4,
                1e4,
                xtol=1e-14,
                rtol=1e-14,
            )
        alpha = kept
        alpha[t] = eta
    return alpha


def close(on, case, A, expected, *, digits=1e-9):
    """Coefficients, and predictions, to float64 or to what float32 features leave."""
    tolerance = digits if on.dtype_name == "float64" else 3e-4
    scale = np.max(np.abs(expected)) or 1.0
    np.testing.assert_allclose(A, expected, rtol=0, atol=tolerance * scale)
    size = np.sum(np.abs(case.Phi @ expected)) / len(case.X) or 1.0
    np.testing.assert_allclose(case.Phi @ A, case.Phi @ expected, rtol=0, atol=tolerance * size)


@pytest.mark.pairs
@kinds
@losses
@ridges
@pytest.mark.parametrize("radius", [math.inf, 0.5])
def test_gradient_steps_are_those_of_algorithm_1(on, rng, kind, loss, ridge, radius):
    case = Case(on, rng, kind=kind)
    expected, norms = algorithm_1(case, LOSSES[loss], ridge, radius)
    assert (max(norms) > radius) == (radius == 0.5)  # whether a projection is active
    A, fit = case.run(FunctionalDescent(LOSSES[loss], False, radius), [ridge])
    assert (fit.status, fit.n_steps) == (Status.CONVERGED, 25)
    close(on, case, A[:, 0], expected)


@pytest.mark.pairs
@kinds
@losses
@ridges
def test_optimal_steps_are_those_of_algorithm_2(on, rng, kind, loss, ridge):
    case = Case(on, rng, kind=kind)
    expected = algorithm_2(case, LOSSES[loss], ridge)
    A, fit = case.run(FunctionalDescent(LOSSES[loss], True), [ridge])
    assert (fit.status, fit.n_steps) == (Status.CONVERGED, 25)
    close(on, case, A[:, 0], expected)


@pytest.mark.pairs
@kinds
@pytest.mark.parametrize("radius", [1e3, 1.0])
def test_the_norm_recursion_is_the_direct_norm(on_double, rng, monkeypatch, kind, radius):
    case, seen = Case(on_double, rng, kind=kind), []
    step = _functional_gradient._GradientSteps.step

    def watched(walk, new):
        step(walk, new)
        A = on_double.host(walk.A)[:, 0] * math.exp(-case.operator.log_scale)
        norm = math.sqrt(float(walk.square[0])) * math.exp(-case.operator.log_scale)
        seen.append((norm, math.sqrt(A @ case.G @ A)))

    monkeypatch.setattr(_functional_gradient._GradientSteps, "step", watched)
    case.run(FunctionalDescent(Logistic(), False, radius), [1e-2])
    recursive, direct = np.array(seen).T
    assert len(direct) == 25
    np.testing.assert_allclose(recursive, direct, rtol=1e-10)
    assert direct.max() <= radius * (1 + 1e-12)
    assert (direct.max() > 0.999) or radius > 1.0


@given(
    loss=st.sampled_from([Logistic(), Hinge(), Hinge(1e-3), Squared()]),
    size=st.floats(-3.0, 3.0),
    log_curvature=st.floats(-14.0, 6.0),
    seed=st.integers(0, 2**32 - 1),
)
@settings(derandomize=True, max_examples=150)
def test_roots_minimise_the_regularised_risk(loss, size, log_curvature, seed):
    rng = np.random.default_rng(seed)
    f, g = 10.0**size * rng.standard_normal((2, 5, 1))
    y = np.sign(rng.standard_normal((5, 1)))
    curvature, pull = np.array([10.0**log_curvature]), 0.1 * rng.standard_normal(1)
    pull = pull * curvature

    def risk(eta):
        value = np.mean(loss.value(f + eta * g, y)) + pull[0] * eta
        return value + 0.5 * curvature[0] * eta**2

    eta = float(_functional_gradient._root(loss, f, y, g, pull, curvature)[0])
    slope = np.mean(loss.derivative(f + eta * g, y) * g) + pull[0] + eta * curvature[0]
    terms = np.mean(np.abs(loss.derivative(f + eta * g, y) * g)) + abs(eta * curvature[0])
    assert abs(slope) <= 1e-8 * (terms + np.mean(np.abs(g)))
    reach = 10.0 * abs(eta) + 1.0
    found = minimize_scalar(risk, bounds=(-reach, reach), method="bounded")
    assert risk(eta) <= found.fun + 1e-7 * (abs(found.fun) + abs(risk(0.0)) + 1.0)


@pytest.mark.parametrize(("kind", "most"), [(Hinge, 1), (Logistic, 6)])
def test_few_looks_at_a_batch_find_the_root(rng, monkeypatch, kind, most):
    looks, second = [], kind.second
    monkeypatch.setattr(kind, "second", lambda *given: looks.append(0) or second(*given))
    for curvature in (1e-6, 1e-3, 1.0):
        f, g = rng.standard_normal((2, 50, 4))
        y, pull = np.sign(rng.standard_normal((50, 4))), curvature * rng.standard_normal(4)
        eta = _functional_gradient._root(kind(), f, y, g, pull, np.full(4, curvature))
        slope = np.mean(kind().derivative(f + eta * g, y) * g, axis=0) + pull + eta * curvature
        np.testing.assert_allclose(slope, 0.0, rtol=0, atol=1e-12)
        assert len(looks) <= most
        looks.clear()


# ---------------------------------------------------------------------- columns and chunks


@pytest.mark.pairs
@optimal
@losses
def test_columns_descend_side_by_side(on, rng, optimal, loss):
    case = Case(on, rng, steps=12)
    descent = FunctionalDescent(LOSSES[loss], optimal, radius=2.0)
    several = [1e-3, 1e-2, 0.5]
    other = -case.Y * np.where(case.X[:, 1:2] > 0, 1.0, -1.0)
    Y = np.concatenate([case.Y, other, case.Y], axis=1)
    A, fit = case.run(descent, several, Y=Y)
    assert A.shape == (12, 3)
    risks = []
    for j, ridge in enumerate(several):
        alone, single = case.run(descent, [ridge], Y=Y[:, j : j + 1])
        np.testing.assert_allclose(
            A[:, j], alone[:, 0], rtol=0, atol=1e-8 * np.abs(alone).max() + 1e-30
        )
        risks.append(single.history.objective)
    np.testing.assert_allclose(fit.history.objective, np.mean(risks, axis=0), rtol=1e-6)


@pytest.mark.pairs
@optimal
@pytest.mark.parametrize("rows", [1, 14, 40])
def test_chunks_do_not_matter(on, rng, monkeypatch, optimal, rows):
    case = Case(on, rng, steps=13)
    descent = FunctionalDescent(Logistic(), optimal, radius=3.0)
    whole, one = case.run(descent, [1e-2])
    monkeypatch.setattr(_functional_gradient, "_CHUNK", rows)
    pieces, many = case.run(descent, [1e-2])
    scale = np.abs(whole).max()
    np.testing.assert_allclose(pieces, whole, rtol=0, atol=1e3 * on.eps * scale)
    assert len(one.history) == 1
    assert len(many.history) == -(-13 // max(1, rows // 6))
    assert sum(many.history.step) == 13
    np.testing.assert_allclose(
        np.average(many.history.objective, weights=many.history.step),
        one.history.objective[0],
        rtol=1e4 * on.eps,
    )


@optimal
def test_the_scale_of_the_features_does_not_matter(on_double, rng, optimal):
    descent = FunctionalDescent(Logistic(), optimal, radius=1.0)
    fits = []
    for scaled in (False, True):
        case = Case(on_double, np.random.default_rng(3), scaled=scaled)
        fits.append(case.run(descent, [1e-2])[0])
    np.testing.assert_allclose(fits[0], fits[1], rtol=0, atol=1e-9 * np.abs(fits[0]).max())


@optimal
def test_one_row_and_one_step(on, rng, optimal):
    case = Case(on, rng, steps=1, batch=1)
    A, fit = case.run(FunctionalDescent(Squared(), optimal), [0.5])
    loss = Squared()
    expected = algorithm_2(case, loss, 0.5) if optimal else algorithm_1(case, loss, 0.5, 1e9)[0]
    close(on, case, A[:, 0], expected)
    assert fit.history.objective == [0.5]  # of y = 1 or -1 at f = 0


@pytest.mark.pairs
@optimal
@losses
def test_the_risk_falls(on_double, rng, optimal, loss):
    case = Case(on_double, rng, kind=KINDS[1], steps=80, batch=20)
    A, _ = case.run(FunctionalDescent(LOSSES[loss], optimal), [1e-4 if optimal else 0.1])
    fitted, y = case.Phi @ A, case.Y
    at_zero = np.mean(LOSSES[loss].value(np.zeros_like(y), y))
    assert np.mean(LOSSES[loss].value(fitted, y)) < 0.95 * at_zero
    assert np.mean(np.sign(fitted) == y) > 0.85


# ---------------------------------------------------------------------- high dimension


@pytest.mark.pairs
@optimal
@losses
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_below_all_numbers_gives_finite_coefficients(rng, optimal, loss, dtype):
    kind = GaussianSign(1.0, 1.0)
    X = rng.standard_normal((20, 784)).astype(dtype)
    W = kind.draw(10, 784, np.random.RandomState(0)).astype(dtype)
    scale = common_scale(kind, W, 784)
    assert scale < -400
    operator = FeatureOperator(kind, Rows(X, X[:0, 0]), W, scale)
    Y = np.sign(X[:, :1])
    batches = rng.integers(0, 20, (10, 5))
    descent = FunctionalDescent(LOSSES[loss], optimal, radius=1000.0)
    for log_ridge in (math.log(1e-3) + 2 * scale, math.log(1e-3), -1e5, math.log(0.5)):
        fit = descent.run(operator, Y, batches, np.array([log_ridge]))
        assert np.all(np.isfinite(fit.A))
        if optimal and log_ridge == math.log(1e-3) + 2 * scale:
            assert np.sum(np.abs(fit.A)) > 0.1


# ---------------------------------------------------------------------- runs that end early


@optimal
def test_an_interruption_in_watch_keeps_the_steps_so_far(on, rng, monkeypatch, optimal):
    monkeypatch.setattr(_functional_gradient, "_CHUNK", 30)  # five steps
    case = Case(on, rng, steps=23)

    def watch(step, history):
        assert sum(history.step) == step
        if step == 15:
            raise KeyboardInterrupt

    descent = FunctionalDescent(Squared(), optimal, radius=5.0)
    A, fit = case.run(descent, [0.05], watch=watch)
    assert (fit.status, fit.n_steps, len(fit.history)) == (Status.INTERRUPTED, 15, 3)
    assert_first_steps(on, case, A, optimal, 15)


@pytest.mark.pairs
@optimal
@pytest.mark.parametrize("after", [3, 5, 13, 22])
def test_an_interruption_between_two_steps(on, rng, monkeypatch, optimal, after):
    monkeypatch.setattr(_functional_gradient, "_CHUNK", 30)
    case = Case(on, rng, steps=23)
    walk = getattr(_functional_gradient, "_OptimalSteps" if optimal else "_GradientSteps")
    interrupt(monkeypatch, walk, "step", after)
    descent = FunctionalDescent(Squared(), optimal, radius=5.0)
    if after < 5:
        with pytest.raises(KeyboardInterrupt):
            case.run(descent, [0.05])
        return
    A, fit = case.run(descent, [0.05])
    assert (fit.status, fit.n_steps) == (Status.INTERRUPTED, after // 5 * 5)
    assert_first_steps(on, case, A, optimal, fit.n_steps)


def assert_first_steps(on, case, A, optimal, steps):
    """As if there had been no more parameters."""
    assert not np.any(A[steps:])
    case.W, case.batches = case.W[:steps], case.batches[:steps]
    case.Phi, case.G = case.Phi[:, :steps], case.G[:steps, :steps]
    loss = Squared()
    expected = algorithm_2(case, loss, 0.05)
    if not optimal:
        expected, _ = algorithm_1(case, loss, 0.05, 5.0)
    close(on, case, A[:steps, 0], expected)


@optimal
def test_time_that_is_up_keeps_the_steps_so_far(on_double, rng, monkeypatch, optimal):
    monkeypatch.setattr(_functional_gradient, "_CHUNK", 30)
    case = Case(on_double, rng, steps=23)
    descent = FunctionalDescent(Squared(), optimal, radius=5.0, max_time=1e-9)
    A, fit = case.run(descent, [0.05])
    assert (fit.status, fit.n_steps) == (Status.TIME_LIMIT, 5)
    assert_first_steps(on_double, case, A, optimal, 5)
    monkeypatch.setattr(_functional_gradient, "_CHUNK", 1000)
    case = Case(on_double, rng, steps=23)
    assert case.run(descent, [0.05])[1].status is Status.CONVERGED  # it had ended anyway


def test_radius_bounds_the_norm(on, rng):
    for radius in (1e-6, 0.1, 2.0):
        case = Case(on, rng)
        A, _ = case.run(FunctionalDescent(Squared(), False, radius), [1e-2])
        assert math.sqrt(A[:, 0] @ case.G @ A[:, 0]) <= radius * (1 + 1e-5)
