"""Gradient outer products are those of the fit, and maps made of them find what matters."""

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpukfl
from gpukfl.core._results import Status
from gpukfl.kernels import Gaussian, Laplace, ManhattanLaplace, Matern52, PowerExponential
from gpukfl.methods import (
    AverageGradientOuterProduct,
    MappedProblem,
    average_gradient_outer_product,
    fit_gradient_maps,
    principal_gradients,
)
from gpukfl.operators import KernelOperator, diagonal_map
from gpukfl.partitioned._rows import Rows

RIDGES = np.geomspace(1e-6, 1.0, 13).tolist()
KERNELS = [Laplace(), Matern52(), PowerExponential(order=1.5), ManhattanLaplace()]
kernels = pytest.mark.parametrize("kernel", KERNELS, ids=str)
structures = pytest.mark.parametrize("structure", ["diagonal", "full"])


def data(rng, n=120, d=5, t=1):
    """Targets of one direction, the difference of the first two features."""
    X = rng.standard_normal((n, d))
    along = (X[:, :1] - X[:, 1:2]) / 2**0.5
    Y = np.concatenate([np.sin((c + 1) * along) for c in range(t)], axis=1)
    return X, Y - Y.mean(axis=0)


def problem(on, X, Y, kernel, weights=None, **options):
    placed = None if weights is None else on.put(weights)
    sample = on.put(X), None if weights is None else weights[:, 0]
    given = {"ridges": RIDGES, "sample": sample, "stretch": 2.0, **options}
    rows = Rows(on.put(X), on.reference)
    return MappedProblem(kernel, rows, on.put(Y), placed, **given)


def fitted(on, X, Y, kernel, weights=None, n_components=None, *, how=None, **options):
    how = AverageGradientOuterProduct() if how is None else how
    placed = problem(on, X, Y, kernel, weights, **options)
    return fit_gradient_maps(placed, how, n_components=n_components)


def metric(on, fit):
    B = on.host(fit.best.B)
    return B.T @ B


def dense_outer_product(kernel, X, Z, alpha, D):
    """The definition for the Laplace kernel, one (n, q, d) array; 0 at coincident points."""
    gaps = X[:, None, :] - Z[None, :, :]
    r = np.linalg.norm(gaps, axis=2)
    safe = np.where(r == 0, 1.0, r)
    slopes = np.where(r == 0, 0.0, -np.exp(-r / kernel.lengthscale) / kernel.lengthscale / safe)
    F = np.einsum("ij,jc,ijl->icl", slopes, alpha, gaps)
    return np.einsum("i,icl,icm->lm", D[:, 0] / D.sum(), F, F)


@pytest.mark.pairs
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("budget", [None, 3000])
def test_outer_products_are_the_formula(on, rng, weighted, budget):
    X, D = on.rounded(rng.standard_normal((30, 4))), on.rounded(rng.uniform(0.5, 2.0, (30, 1)))
    alpha = on.rounded(rng.standard_normal((7, 2)))
    D = D if weighted else np.ones_like(D)
    with gpukfl.memory_budget(budget):
        operator = KernelOperator(Laplace(1.5), Rows(on.put(X), on.reference), on.put(X[:7]))
        G = average_gradient_outer_product(operator, on.put(alpha), on.put(D) if weighted else None)
        placed = operator, on.put(alpha), on.put(D) if weighted else None
        diagonal = average_gradient_outer_product(*placed, diagonal=True)
    expected = dense_outer_product(Laplace(1.5), X, X[:7], alpha, D)
    on.assert_close(G, expected, ulps=500 * on.eps / 2.0**-52, dtype="float64")
    on.assert_close(diagonal, np.diag(expected), ulps=500 * on.eps / 2.0**-52, dtype="float64")


@pytest.mark.pairs
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", [5, 40])
@pytest.mark.parametrize("budget", [None, 3000])
def test_principal_gradients_are_those_of_the_outer_product(on, rng, weighted, d, budget):
    """Also of more features than there are gradients, by their own singular values.

    They are sums of differences of twelve points, which span eleven directions.
    """
    X, D = on.rounded(rng.standard_normal((12, d))), on.rounded(rng.uniform(0.5, 2.0, (12, 1)))
    alpha = on.rounded(rng.standard_normal((7, 2)))
    with gpukfl.memory_budget(budget):
        operator = KernelOperator(Laplace(3.0), Rows(on.put(X), on.reference), on.put(X[:7]))
        placed = operator, on.put(alpha), on.put(D) if weighted else None
        values, rows = map(on.host, principal_gradients(*placed))
    expected = dense_outer_product(
        Laplace(3.0), X, X[:7], alpha, D if weighted else np.ones_like(D)
    )
    assert len(values) == min(11, d)
    assert np.all(np.diff(values) <= 0)
    np.testing.assert_allclose(rows @ rows.T, np.eye(len(rows)), atol=1e-6)
    np.testing.assert_allclose(
        (rows.T * values) @ rows, expected, atol=500 * on.eps * np.abs(expected).max()
    )


@pytest.mark.each
@kernels
def test_gradients_of_a_fit_are_its_difference_quotients(on_double, rng, kernel):
    on = on_double
    X, Y = data(rng, t=2)
    found = problem(on, X, Y, kernel, Z=on.put(X[:30])).fit(on.put(np.eye(5)))
    alpha, _ = found.solve()
    smooth, coefs = kernel.stretched(found.lengthscale), on.host(alpha)
    G, n = on.host(found.gradients(found.ridge, np.inf)), len(X)
    expected = np.zeros((5, 5))
    for c in range(2):
        # Central differences at a centre are 0 in the terms of that centre
        slopes = oracles.slopes(lambda V, c=c: np.sum(smooth(V, X[:30]) @ coefs[:, c]), X, 1e-6)
        expected += slopes.T @ slopes / n
    np.testing.assert_allclose(G, expected, rtol=0, atol=1e-6 * np.max(np.abs(expected)))


def test_gradients_are_of_a_fit_with_little_noise(on_double, rng):
    """A fit with the ridge that is best may be flat; the noise is in units of the variation."""
    on = on_double
    X, Y = data(rng)
    eye = on.put(np.eye(5))
    found = problem(on, X, Y, Laplace()).fit(eye)
    ridge = float(0.01 * (1.0 - on.host(found.operator.core).mean()) / len(X))
    sharp = on.host(found.gradients(ridge, np.inf))
    on.assert_close(found.gradients(1.0, 0.01), sharp, ulps=1e6)
    # No more noise than the ridge asks for
    on.assert_close(found.gradients(ridge, 1.0), sharp, ulps=0)


@structures
@given(
    seed=st.integers(0, 2**32 - 1),
    exponent=st.sampled_from([0.25, 0.5, 1.0]),
    shrinkage=st.sampled_from([0.0, 0.1, 1.0]),
)
@settings(derandomize=True, max_examples=20)
def test_maps_are_powers_of_the_outer_product(structure, seed, exponent, shrinkage):
    A = np.random.default_rng(seed).standard_normal((6, 4))
    G = A.T @ A if structure == "full" else np.sum(A**2, axis=0)
    how = AverageGradientOuterProduct(exponent=exponent, structure=structure, shrinkage=shrinkage)
    B = diagonal_map(how.make_map(G, 4))
    kept = G if structure == "full" else np.diag(G)
    shrunk = kept + shrinkage * np.trace(kept) / 4 * np.eye(4)
    values, Q = np.linalg.eigh(shrunk)
    expected = (Q * (values / values[-1]) ** (2 * exponent)) @ Q.T
    np.testing.assert_allclose(B.T @ B, expected, atol=1e-12)
    assert np.linalg.norm(B, 2) == pytest.approx(1.0)
    two = how.make_map(G, 2)
    largest = np.sort(np.linalg.svd(B, compute_uv=False))[::-1][:2]
    np.testing.assert_allclose(np.linalg.svd(two, compute_uv=False), largest, atol=1e-12)


@structures
def test_no_gradients_leave_the_features_as_they_are(on_double, structure):
    how = AverageGradientOuterProduct(structure=structure)
    nothing = np.zeros((3, 3) if structure == "full" else 3)
    B = diagonal_map(how.make_map(on_double.put(nothing), 3))
    on_double.assert_close(B, np.eye(3), ulps=0)


def test_a_full_map_finds_the_direction(on, rng):
    X, Y = data(rng, n=200)
    how = AverageGradientOuterProduct(structure="full")
    fit = fitted(on, on.rounded(X), on.rounded(Y), Matern52(), how=how)
    values, vectors = np.linalg.eigh(metric(on, fit))
    truth = np.array([1, -1, 0, 0, 0]) / 2**0.5
    assert abs(vectors[:, -1] @ truth) > 0.99
    assert values[-2] < 0.05 * values[-1]
    assert fit.best.score < 0.2 * fit.history.objective[0]
    on.assert_lives_here(fit.best.B, "float64")


@kernels
def test_a_diagonal_map_finds_the_features(on, rng, kernel):
    X, Y = data(rng, n=200)
    fit = fitted(on, on.rounded(X), on.rounded(Y), kernel)
    weights = on.host(fit.best.B)
    assert np.min(weights[:2]) > 5 * np.max(weights[2:])
    assert fit.n_steps > 0


@kernels
def test_features_without_a_gradient_get_no_weight(on, rng, kernel):
    X, Y = data(rng)
    X[:, 3] = 0.5
    fit = fitted(on, on.rounded(X), on.rounded(Y), kernel)
    assert fit.n_steps > 0
    assert on.host(fit.best.B)[3] <= on.eps


def test_rotated_features_turn_the_full_map_with_them(on_double, rng):
    on = on_double
    X, Y = data(rng)
    Q = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    how = AverageGradientOuterProduct(structure="full")
    plain, turned = (fitted(on, V, Y, Laplace(), how=how) for V in (X, X @ Q.T))
    assert plain.n_steps == turned.n_steps > 0
    np.testing.assert_allclose(metric(on, turned), Q @ metric(on, plain) @ Q.T, atol=1e-8)
    np.testing.assert_allclose(turned.history.objective, plain.history.objective, rtol=1e-8)


def test_swapped_features_swap_their_weights(on_double, rng):
    on = on_double
    X, Y = data(rng)
    order = rng.permutation(5)
    plain, swapped = (fitted(on, V, Y, KERNELS[2]) for V in (X, X[:, order]))
    expected = on.host(plain.best.B)[order]
    np.testing.assert_allclose(on.host(swapped.best.B), expected, atol=1e-8)


@pytest.mark.pairs
@structures
@pytest.mark.parametrize("noise", [1e-3, np.inf])
@pytest.mark.parametrize("centers", [20, None])
def test_weights_count_as_copies_of_the_gradients(on_double, rng, structure, noise, centers):
    """With the centres and the ridge held: a sample is left out with all of its weight."""
    on = on_double
    X, Y = data(rng, n=60)
    counts = rng.integers(1, 4, 60)
    how = AverageGradientOuterProduct(structure=structure, max_iter=2)
    Z = None if centers is None else on.put(X[:centers])
    held = {"Z": Z, "ridges": [1e-3], "lengthscale": 2.0}
    weighted = problem(on, X, Y, Laplace(), counts[:, None].astype(float), **held)
    more = [np.repeat(V, counts, axis=0) for V in (X, Y)]
    copied = problem(on, *more, Laplace(), **held)
    B = on.put(np.eye(5))
    for _ in range(3):
        alone = how.is_diagonal
        fits = [each.fit(B) for each in (weighted, copied)]
        one, other = (each.gradients(each.ridge, noise, diagonal=alone) for each in fits)
        on.assert_close(one, on.host(other), ulps=1e6)
        B = how.make_map(one, 5)


def test_left_out_predictions_have_the_score(on, rng):
    X, Y = (on.rounded(V) for V in data(rng, n=50, t=2))
    D = on.rounded(rng.uniform(0.5, 2.0, (50, 1)))
    for Z in (None, on.put(X[:15])):
        found = problem(on, X, Y, Laplace(), D, Z=Z, ridges=[1e-2]).fit(
            on.put(np.eye(5), "float64")
        )
        left = on.host(found.left_out()) - Y
        assert np.sum(D * left**2) / D.sum() == pytest.approx(found.score, rel=1e-6)


def test_every_place_finds_the_same_map(on, rng):
    X, Y = (on.rounded(V) for V in data(rng))
    for kernel in (Laplace(), PowerExponential(order=1.5)):
        expected = fitted_on_host(X, Y, kernel)
        fit = fitted(on, X, Y, kernel)
        slack = 1e-8 if on.dtype_name == "float64" else 1e-4
        np.testing.assert_allclose(metric(on, fit), expected, atol=slack)


def fitted_on_host(X, Y, kernel):
    rows = Rows(X, X[:0, 0])
    placed = MappedProblem(kernel, rows, Y, None, ridges=RIDGES, sample=(X, None), stretch=2.0)
    B = fit_gradient_maps(placed, AverageGradientOuterProduct()).best.B
    return B.T @ B


def test_fewer_components_lead(on_double, rng):
    on = on_double
    X, Y = data(rng)
    fit = fitted(on, X, Y, Laplace(), n_components=2)
    B = on.host(fit.best.B)
    assert B.shape == (2, 5)
    assert np.count_nonzero(B) == 2
    assert set(np.flatnonzero(B.any(axis=0))) == {0, 1}


def test_it_says_how_it_ended(on_double, rng):
    on = on_double
    X, Y = data(rng)
    noise = rng.standard_normal(Y.shape)
    assert fitted(on, X, Y, Laplace(), how=AverageGradientOuterProduct(1)).status is Status.MAX_ITER
    long = fitted(on, X, noise, Laplace(), how=AverageGradientOuterProduct(50))
    assert long.status is Status.EARLY_STOPPED
    assert len(long.history) == long.n_steps + 3
    assert min(long.history.objective) == long.best.score == long.history.objective[long.n_steps]
    placed, seen = problem(on, X, Y, Laplace()), []

    def watch(k, B, history):
        seen.append((k, B.shape, len(history)))
        return Status.TIME_LIMIT if k == 1 else None

    ended = fit_gradient_maps(placed, AverageGradientOuterProduct(), watch=watch)
    assert ended.status is Status.TIME_LIMIT
    assert seen == [(0, (5,), 1), (1, (5,), 2)]


@structures
def test_ridges_of_another_fit_give_as_many_maps_of_their_own(on_double, rng, structure):
    on = on_double
    X, Y = data(rng, n=160)
    how = AverageGradientOuterProduct(structure=structure)
    first = fitted(on, X, Y, Laplace(), how=how)
    assert first.n_steps > 0
    again = fit_gradient_maps(problem(on, X, Y, Laplace()), how, ridges=first.ridges)
    on.assert_close(again.best.B, on.host(first.best.B), ulps=0)
    assert again.ridges == first.ridges
    assert again.status is Status.MAX_ITER
    assert again.history.objective == [first.best.score]
    placed = problem(on, X[:100], Y[:100], Laplace())
    B = on.put(np.ones(5) if structure == "diagonal" else np.eye(5))
    for ridge in first.ridges:
        gradients = placed.fit(B).gradients(ridge, how.noise, diagonal=how.is_diagonal)
        B = how.make_map(gradients, 5)
    other = fit_gradient_maps(placed, how, ridges=first.ridges)
    on.assert_close(other.best.B, on.host(B), ulps=10)
    assert other.best.ridge == placed.fit(B).ridge
    none = fit_gradient_maps(placed, how, ridges=())
    assert none.n_steps == 0
    on.assert_close(diagonal_map(none.best.B), np.eye(5), ulps=10)


@pytest.mark.parametrize("at", [0, 2])
def test_an_interruption_keeps_the_best(on_double, rng, at):
    X, Y = data(rng)

    def watch(k, *_):
        if k == at:
            raise KeyboardInterrupt

    found = fit_gradient_maps(
        problem(on_double, X, Y, Laplace()), AverageGradientOuterProduct(), watch=watch
    )
    assert found.status is Status.INTERRUPTED
    assert len(found.history) == at + 1


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_that_overflow_are_an_error(on_double, rng):
    X, Y = data(rng)
    Y[3] = np.inf
    with pytest.raises((FloatingPointError, np.linalg.LinAlgError)):
        fitted(on_double, X, Y, Laplace())


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        ({"max_iter": -1}, ValueError, "max_iter to be an integer of at least 0, got -1"),
        ({"max_iter": 2.5}, TypeError, "max_iter to be an integer of at least 0, got 2.5"),
        ({"exponent": 0.0}, ValueError, "exponent to be a number greater than 0, got 0.0"),
        ({"noise": -0.1}, ValueError, "noise to be a number of at least 0, got -0.1"),
        ({"shrinkage": -1.0}, ValueError, "shrinkage to be a number of at least 0, got -1.0"),
        ({"structure": "round"}, ValueError, "one of 'diagonal', 'full', got 'round'"),
    ],
)
def test_bad_settings_are_named(make, error, message):
    with pytest.raises(error, match=message):
        AverageGradientOuterProduct(**make)


def test_kernels_of_other_norms_are_not_turned(on_double, rng):
    X, Y = data(rng)
    how = AverageGradientOuterProduct(structure="full")
    with pytest.raises(
        ValueError, match=r"'diagonal' for a kernel that does not use .* got 'full'"
    ):
        fitted(on_double, X, Y, ManhattanLaplace(), how=how)
    fitted(on_double, X, Y, PowerExponential(order=2.0), how=how)
    assert Gaussian().norm == "euclidean"
