"""Instantiations: expectations by draws, and the constants of the paper."""

import dataclasses
import math
import pickle

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instantiation_cases import (
    DEVIATIONS,
    DRAWS,
    SMALL,
    cases,
    drawn,
    exact,
    features_of,
    formula,
    mean_and_error,
    samples,
    small,
)

from gpukfl.instantiations import (
    INSTANTIATIONS,
    GaussianSign,
    RandomKitchenSinks,
    Stumps,
)


@cases
def test_features_are_the_average_over_draws(rng, instantiation, n):
    X, W = samples(rng, 8, n), drawn(instantiation, n)
    w = drawn(instantiation, n, DRAWS, seed=2)
    K, P = instantiation.kernel(w, W), instantiation.base(w, X)
    for signs, features in zip(P, features_of(instantiation, W, X), strict=True):
        mean, error = mean_and_error(K * signs[:, None])
        assert np.all(np.abs(features - mean) <= DEVIATIONS * error + 1e-15)
    assert instantiation.features(W, n).standard_error(X) == 0.0


@exact
def test_features_are_those_of_table_1_everywhere(on, rng, instantiation, n):
    X, W = on.rounded(samples(rng, 9, n)), on.rounded(drawn(instantiation, n))
    features = instantiation.features(on.put(W), n)
    logs, shapes = formula(instantiation, W, X)
    on.assert_close(features.shapes(on.put(X)), shapes, ulps=50)
    on.assert_close(features.log_constants, logs, ulps=50, dtype="float64")


def test_sign_features_of_zero_are_zero_and_lengths_do_not_matter(on, rng):
    instantiation = GaussianSign(1.0, 2.0)
    features = instantiation.features(on.put(drawn(instantiation, 4)), 4)
    x = on.rounded(rng.standard_normal((1, 4)))
    on.assert_close(features.shapes(on.put(0.0 * x)), np.zeros((1, 6)), ulps=0)
    on.assert_close(
        features.pullback(on.put(0.0 * x), on.put(np.zeros((1, 6)))), np.zeros((1, 4)), ulps=0
    )
    expected = on.host(features.shapes(on.put(x)))
    for size in (2.0**-90, 2.0**-20, 2.0**30, 2.0**90):
        on.assert_close(features.shapes(on.put(size * x)), expected, ulps=10)


@pytest.mark.pairs
@pytest.mark.parametrize("n", [784, 3000])
@pytest.mark.parametrize("kind", [GaussianSign, Stumps])
def test_nothing_vanishes_in_high_dimension(on, rng, kind, n):
    instantiation = kind(sigma=1.0, gamma=1.0)
    features = instantiation.features(on.put(drawn(instantiation, n, 20)), n)
    logs = on.host(features.log_constants)
    assert np.all(np.isfinite(logs))
    assert kind is Stumps or np.max(logs) < -400
    X = rng.standard_normal((10, n))
    shapes = on.host(features.shapes(on.put(X)))
    assert 0.1 < np.std(shapes) < 1.0
    slopes = on.host(features.pullback(on.put(X), on.put(np.ones((10, 20)))))
    assert 0.0 < np.max(np.abs(slopes)) < 100.0
    assert math.isfinite(instantiation.log_theta(n))


@exact
def test_pullback_is_the_derivative(on_double, rng, instantiation, n):
    on = on_double
    X, W = on.rounded(rng.standard_normal((7, n))), on.rounded(drawn(instantiation, n))
    P = on.rounded(rng.standard_normal((7, len(W))))
    slopes = instantiation.features(on.put(W), n).pullback(on.put(X), on.put(P))
    expected = oracles.slopes(lambda V: np.sum(P * formula(instantiation, W, V)[1]), X)
    on.assert_close(slopes, expected, ulps=1e-7 / on.eps)


@exact
def test_pullback_is_as_exact_as_its_precision(on, rng, instantiation, n):
    X, W = on.rounded(rng.standard_normal((7, n))), on.rounded(drawn(instantiation, n))
    P = on.rounded(rng.standard_normal((7, len(W))))
    wide = instantiation.features(W, n).pullback(X, P)
    slopes = instantiation.features(on.put(W), n).pullback(on.put(X), on.put(P))
    on.assert_close(slopes, wide, ulps=200)


@small
def test_draws_have_their_distribution_and_follow_the_generator(instantiation, n):
    W = drawn(instantiation, n, DRAWS)
    assert W.dtype == np.float64
    assert np.array_equal(W, drawn(instantiation, n, DRAWS))
    assert not np.array_equal(W, drawn(instantiation, n, DRAWS, seed=2))
    source = instantiation.of if isinstance(instantiation, RandomKitchenSinks) else instantiation
    numbers = W[:, 1:] if isinstance(source, Stumps) else W
    assert np.all(np.abs(numbers.mean(axis=0)) <= 4 * source.sigma / math.sqrt(DRAWS))
    np.testing.assert_allclose(numbers.std(axis=0), source.sigma, rtol=0.03)
    if isinstance(source, Stumps):
        counts = np.bincount(W[:, 0].astype(int), minlength=n)
        assert np.array_equal(np.unique(W[:, 0]), np.arange(n))
        np.testing.assert_allclose(counts / DRAWS, 1 / n, rtol=0.05)


@small
def test_kernel_and_base_predictors_are_those_of_table_1(on, rng, instantiation, n):
    W = on.rounded(np.concatenate([drawn(instantiation, n), drawn(instantiation, n, 1)]))
    U, X = W[2:5], on.rounded(rng.standard_normal((5, n)))
    of = instantiation.of if isinstance(instantiation, RandomKitchenSinks) else instantiation
    if isinstance(of, GaussianSign):
        K = oracles.gaussian(U, W, of.resolved(n).gamma)
        signs = np.sign(X @ W.T)
    else:
        K = oracles.gaussian(U[:, 1:], W[:, 1:], of.gamma) * (U[:, :1] == W[:, 0])
        signs = np.sign(X[:, W[:, 0].astype(int)] - W[:, 1])
    if of is not instantiation:
        K = np.all(U[:, None, :] == W[None, :, :], axis=2).astype(float)
    on.assert_close(instantiation.kernel(on.put(U), on.put(W)), K, ulps=200)
    on.assert_close(instantiation.base(on.put(W), on.put(X)), signs, ulps=0)


@pytest.mark.parametrize("instantiation", [instantiation for instantiation, _ in SMALL], ids=str)
@given(count=st.integers(1, 30), n=st.integers(1, 9), repeated=st.integers(0, 3))
def test_kernel_is_symmetric_and_positive_semidefinite(instantiation, count, n, repeated):
    W = drawn(instantiation, n, count)
    W = np.concatenate([W, W[:repeated]])
    K = instantiation.kernel(W, W)
    assert K.shape == (len(W), len(W))
    np.testing.assert_allclose(K, K.T, atol=1e-14)
    np.testing.assert_allclose(np.diag(K), 1.0, atol=1e-12)
    assert np.linalg.eigvalsh(K)[0] >= -1e-12


@pytest.mark.each
@pytest.mark.parametrize("n", [1, 2, 5, 30])
@pytest.mark.parametrize("widths", [(1.0, 1.0), (1.0, None), (0.5, 2.0), (2.0, 1.5)])
def test_theta_of_signs_is_the_average_over_draws(rng, n, widths):
    """Eq. (26) for several x, of which it does not depend."""
    instantiation = GaussianSign(*widths)
    u, w = (drawn(instantiation, n, 200_000, seed) for seed in (3, 4))
    gaps = np.sum((u - w) ** 2, axis=1)
    K = np.exp(-gaps / (2 * instantiation.resolved(n).gamma ** 2))
    theta = math.exp(instantiation.log_theta(n))
    for x in [rng.standard_normal(n), 100.0 * np.eye(n)[0]]:
        mean, error = mean_and_error(K * np.sign(u @ x) * np.sign(w @ x))
        assert abs(mean - theta**2) <= DEVIATIONS * error
    mean, error = mean_and_error(K)
    bound = math.exp(instantiation.log_theta_bound(n))
    assert abs(mean - bound**2) <= DEVIATIONS * error
    assert theta < bound < instantiation.kappa


@pytest.mark.parametrize("n", [1, 3, 20])
@pytest.mark.parametrize("widths", [(1.0, 1.0), (0.1, 1.0), (2.0, 0.3)])
def test_theta_of_stumps_is_approached_from_below(n, widths):
    instantiation = Stumps(*widths)
    u, w = (drawn(instantiation, n, 200_000, seed)[:, 1] for seed in (3, 4))
    K = np.exp(-((u - w) ** 2) / (2 * instantiation.gamma**2)) / n  # of equal indices, one in n
    sizes = instantiation.sigma * np.asarray([0.0, 1.0, 2.0, 3.0, 10.0])
    squares = [mean_and_error(K * np.sign(x - u) * np.sign(x - w)) for x in sizes]
    theta = math.exp(instantiation.log_theta(n))
    assert all(mean <= theta**2 + DEVIATIONS * error for mean, error in squares)
    means = [mean for mean, _ in squares]
    assert means == sorted(means)
    assert abs(means[-1] - theta**2) <= DEVIATIONS * squares[-1][1]
    assert theta <= instantiation.kappa


@exact
def test_theta_bounds_every_prediction(rng, instantiation, n):
    """Eq. (31), for random weightings."""
    W, X = drawn(instantiation, n, 30), samples(rng, 50, n)
    K, Phi = instantiation.kernel(W, W), features_of(instantiation, W, X)
    for a in rng.standard_normal((20, 30)):
        norm = math.sqrt(a @ K @ a)
        assert np.max(np.abs(Phi @ a)) <= math.exp(instantiation.log_theta(n)) * norm


@pytest.mark.parametrize(
    ("n", "constant", "of_theta", "of_feature"),
    [
        (4, 0.1, 0.4714, 0.6801),
        (31, 0.1, 2.4044, 2.4988),
        (109, 0.5, 8.8109, 8.8390),
        (785, 0.5, 23.7752, 23.7857),
    ],
)
def test_gamma_of_the_published_experiments(n, constant, of_theta, of_feature):
    by_theta = GaussianSign(constant=constant).resolved(n)
    by_feature = GaussianSign(constant=constant, constant_of="feature").resolved(n)
    assert round(by_theta.gamma, 4) == of_theta
    assert round(by_feature.gamma, 4) == of_feature
    assert by_theta.log_theta_bound(n) == pytest.approx(math.log(constant), rel=1e-12)
    zero = by_feature.features(np.zeros((1, n)), n)
    assert zero.log_constants[0] == pytest.approx(math.log(constant), rel=1e-12)
    wide = dataclasses.replace(GaussianSign(constant=constant), sigma=3.0).resolved(n)
    assert wide.gamma == pytest.approx(3 * by_theta.gamma, rel=1e-12)
    assert by_theta.resolved(2 * n) is by_theta
    assert GaussianSign(gamma=0.7, constant=constant).resolved(n).gamma == 0.7


def test_random_kitchen_sinks_are_the_base_predictors(on, rng):
    for of in (GaussianSign(), Stumps()):
        sinks = RandomKitchenSinks(of)
        W, X = on.rounded(drawn(sinks, 4)), on.rounded(samples(rng, 9, 4))
        assert np.array_equal(drawn(sinks, 4), drawn(of, 4))
        features = sinks.features(on.put(W), 4)
        signs = on.host(of.base(on.put(W), on.put(X)))
        on.assert_close(features.shapes(on.put(X)), signs, ulps=0)
        on.assert_close(features.log_constants, np.zeros(6), ulps=0, dtype="float64")
        on.assert_close(sinks.kernel(on.put(W), on.put(W)), np.eye(6), ulps=0)
        assert features.standard_error(on.put(X)) == 0.0
        assert sinks.resolved(4) == RandomKitchenSinks(of.resolved(4))
        for bound in (lambda sinks=sinks: sinks.kappa, lambda sinks=sinks: sinks.log_theta(4)):
            with pytest.raises(ValueError, match="random kitchen sinks have no bound"):
                bound()


@small
def test_inputs_are_left_alone(on, rng, instantiation, n):
    hosts = [on.rounded(drawn(instantiation, n)), on.rounded(samples(rng, 5, n))]
    hosts.append(on.rounded(rng.standard_normal((5, 6))))
    W, X, P = [on.put(host) for host in hosts]
    features = instantiation.features(W, n)
    features.shapes(X)
    features.pullback(X, P)
    instantiation.kernel(W, W)
    instantiation.base(W, X)
    for a, host in zip((W, X, P), hosts, strict=True):
        on.assert_close(a, host, ulps=0)


@small
def test_no_samples(on, instantiation, n):
    features = instantiation.features(on.put(drawn(instantiation, n)), n)
    empty = on.put(np.empty((0, n)))
    assert features.shapes(empty).shape == (0, 6)
    assert features.pullback(empty, on.put(np.empty((0, 6)))).shape == (0, n)


@small
def test_they_are_frozen_values(instantiation, n):
    again = pickle.loads(pickle.dumps(instantiation))
    assert again == instantiation
    assert hash(again) == hash(instantiation)
    assert type(instantiation).__name__ in repr(instantiation)
    assert instantiation.resolved(n).resolved(n) == instantiation.resolved(n)
    name = dataclasses.fields(instantiation)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(instantiation, name, 3.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *[
            (
                lambda w=w: GaussianSign(sigma=w),
                f"sigma to be a (finite )?number greater than 0, got {w}",
            )
            for w in (0.0, -1.0)
        ],
        *[
            (
                lambda w=w: GaussianSign(gamma=w),
                f"gamma to be a (finite )?number greater than 0, got {w}",
            )
            for w in (0.0, math.inf)
        ],
        *[
            (lambda w=w: GaussianSign(constant=w), f"constant between 0 and 1, got {w}")
            for w in (0.0, 1.0, -0.5, math.nan)
        ],
        (lambda: GaussianSign(constant_of="kappa"), "one of theta, feature, got 'kappa'"),
        *[
            (lambda w=w: Stumps(sigma=w), f"sigma to be a (finite )?number greater than 0, got {w}")
            for w in (0.0, math.nan)
        ],
        *[
            (lambda w=w: Stumps(gamma=w), f"gamma to be a (finite )?number greater than 0, got {w}")
            for w in (-1.0, math.inf)
        ],
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_instantiations_have_names():
    assert {"gaussian_sign": GaussianSign, "stumps": Stumps} == INSTANTIATIONS
    for kind in INSTANTIATIONS.values():
        assert kind().kappa == 1.0
