"""Kernels have the values of their formulas, and derivatives that are those of their values."""

import dataclasses
import pickle

import numpy as np
import oracles
import pytest
from kernel_points import points
from registry import KERNEL_CASES

from gpukfl.kernels import (
    KERNELS,
    Brownian,
    ColumnBlock,
    Gaussian,
    GaussianMixture,
    InverseManhattan,
    Kernel,
    Laplace,
    Linear,
    Manhattan,
    ManhattanLaplace,
    ManhattanMixture,
    Polynomial,
    PowerExponential,
    Product,
    Radial,
    RationalQuadratic,
    Scaled,
    Sum,
    make_kernel,
)

kernels = pytest.mark.parametrize("case", KERNEL_CASES, ids=str)
PROFILED = [case for case in KERNEL_CASES if isinstance(case.kernel, (Radial, Manhattan))]
profiles = pytest.mark.parametrize("case", PROFILED, ids=str)
ALONE = [case.kernel for case in KERNEL_CASES if type(case.kernel) in KERNELS.values()]
scale_by = pytest.mark.parametrize("lengthscaled", ALONE, ids=str)


def test_every_kernel_is_in_the_registry():
    tested = {type(part) for case in KERNEL_CASES for part in parts(case.kernel)}
    assert tested == {*KERNELS.values(), Sum, Product, Scaled, ColumnBlock}


def parts(kernel):
    """A kernel and those it is made of."""
    inner = [value for value in vars(kernel).values() if isinstance(value, Kernel)]
    return [kernel, *[part for value in inner for part in parts(value)]]


@pytest.mark.pairs
@kernels
@pytest.mark.parametrize("shape", [(13, 7, 3), (1, 1, 1), (2, 30, 1), (30, 1, 8)])
def test_values_are_those_of_the_formula(on, rng, case, shape):
    X, Z = points(on, rng, *shape, tied=shape == (13, 7, 3))
    on.assert_close(case.kernel(on.put(X), on.put(Z)), case.formula(X, Z), ulps=200)


@pytest.mark.each
@kernels
def test_no_points(on, case):
    empty, one = on.put(np.empty((0, 2))), on.put(np.ones((1, 2)))
    assert case.kernel(empty, one).shape == (0, 1)
    assert case.kernel.diagonal(empty).shape == (0,)


@pytest.mark.each
@kernels
def test_matrix_is_positive_semidefinite_with_its_diagonal(on, rng, case):
    X, _ = points(on, rng, n=40)
    K = on.host(case.kernel(on.put(X), on.put(X))).astype(np.float64)
    size = np.max(np.diag(case.formula(X, X)))
    assert np.linalg.eigvalsh(K + K.T)[0] >= -200 * on.eps * size
    diagonal = case.kernel.diagonal(on.put(X))
    on.assert_close(diagonal, np.diag(case.formula(X, X)), ulps=200, scale=size)


@pytest.mark.each
@kernels
def test_bounded_kernels_are_those_whose_diagonal_has_a_bound(on, rng, case):
    X, _ = points(on, rng)
    near, far = (float(np.max(on.host(case.kernel.diagonal(on.put(s * X))))) for s in (1.0, 1e3))
    assert case.kernel.bounded == (far <= 2 * near)


@pytest.mark.each
@kernels
def test_pullback_is_the_derivative(on_double, rng, case):
    on = on_double
    X, Z = points(on, rng)
    P = on.rounded(rng.standard_normal((len(X), len(Z))))
    dX, dZ = case.kernel.pullback(on.put(X), on.put(Z), on.put(P))
    # Central differences at a kink are 0 too, up to the order of the step
    by_X = oracles.slopes(lambda V: np.sum(P * case.formula(V, Z)), X, 1e-7)
    by_Z = oracles.slopes(lambda V: np.sum(P * case.formula(X, V)), Z, 1e-7)
    on.assert_close(dX, by_X, ulps=1e-6 / on.eps)
    on.assert_close(dZ, by_Z, ulps=1e-6 / on.eps)


@pytest.mark.each
@kernels
def test_gradients_of_functions_are_pullbacks(on_double, rng, case):
    on = on_double
    X, Z, A = (on.put(rng.standard_normal(size)) for size in ((5, 3), (4, 3), (4, 2)))
    K, ones = case.kernel(X, Z), on.put(np.ones((5, 1)))
    for known in (None, K):
        found = list(case.kernel._gradients(X, Z, A, known))
        assert len(found) == 2
        for c, gradient in enumerate(found):
            expected, _ = case.kernel.pullback(X, Z, ones @ A[:, c : c + 1].T)
            on.assert_close(gradient, on.host(expected), ulps=1e3)


@pytest.mark.each
@kernels
def test_pullback_is_as_exact_as_its_precision(on, rng, case):
    X, Z = points(on, rng)
    P = on.rounded(rng.standard_normal((len(X), len(Z))))
    wide = case.kernel.pullback(X, Z, P)
    for actual, expected in zip(
        case.kernel.pullback(on.put(X), on.put(Z), on.put(P)), wide, strict=True
    ):
        on.assert_close(actual, expected, ulps=500)


@pytest.mark.each
@kernels
def test_known_values_change_no_derivative(on, rng, case):
    X, Z = (on.put(V) for V in points(on, rng))
    P = on.put(rng.standard_normal((13, 7)))
    plain = case.kernel.pullback(X, Z, P)
    known = case.kernel.pullback(X, Z, P, case.kernel(X, Z))
    for a, b in zip(known, plain, strict=True):
        on.assert_close(a, on.host(b), ulps=50)


@pytest.mark.parametrize(
    "kernel",
    [
        Laplace(0.7),
        ManhattanLaplace(),
        InverseManhattan(),
        ManhattanMixture(),
        Brownian(),
        PowerExponential(),
        PowerExponential(order=1.3, exponent=0.6),
        PowerExponential(order=0.8, exponent=0.8),
    ],
    ids=str,
)
def test_kinks_count_nothing(on, kernel):
    x = on.put([[0.3, -0.2]])
    slopes = kernel.pullback(x, x, on.put([[1.0]]))
    # Brownian: what is left is the derivative of |x| / 2
    expected = 0.5 * np.array([[3, -2]]) / 13**0.5 if isinstance(kernel, Brownian) else 0.0
    for slope in slopes:
        on.assert_close(slope, np.broadcast_to(expected, (1, 2)), ulps=10)
    zero = on.put([[0.0, 0.0]])
    for slope in kernel.pullback(zero, zero, on.put([[1.0]])):
        on.assert_close(slope, np.zeros((1, 2)), ulps=0)


@pytest.mark.each
@kernels
def test_stretched_points_under_a_stretched_kernel_are_the_original(on, rng, case):
    X, Z = points(on, rng)
    stretched = case.kernel.stretched(2.5)
    assert type(stretched) is type(case.kernel)
    expected = case.formula(X, Z)
    if type(case.kernel) is Brownian:  # 2.5 times the points are 2.5 times the values
        assert stretched == Brownian(5.0)
    stretch = on.rounded(2.5 * X), on.rounded(2.5 * Z)
    on.assert_close(stretched(on.put(stretch[0]), on.put(stretch[1])), expected, ulps=300)


@pytest.mark.each
@profiles
def test_derivative_is_that_of_the_profile(on_double, case):
    on, kernel = on_double, case.kernel
    s = np.geomspace(1e-2, 30.0, 40)
    step = 1e-6 * s
    up, down = (on.host(kernel.profile(on.put(s + side * step))) for side in (1, -1))
    actual = on.host(kernel.derivative(on.put(s)))
    np.testing.assert_allclose(actual, (up - down) / (2 * step), rtol=1e-6, atol=1e-9)


@pytest.mark.each
@profiles
def test_profile_is_of_differences_to_the_power(on_double, case):
    on, kernel = on_double, case.kernel
    X, Z = np.zeros((1, 2)), np.array([[0.3, -1.2], [2.0, 0.5]])
    sums = np.sum(np.abs(Z / kernel.lengthscale) ** kernel.power, axis=1)
    on.assert_close(kernel.profile(on.put(sums)), case.formula(X, Z)[0], ulps=20)


@pytest.mark.each
@profiles
def test_profile_is_completely_monotone(on_double, case):
    on, kernel = on_double, case.kernel
    s = np.geomspace(1e-3, 20.0, 200)
    values, slopes = (on.host(h(on.put(s))) for h in (kernel.profile, kernel.derivative))
    assert np.all(values > 0)
    assert np.all(slopes < 0)
    assert np.all(np.diff(slopes) > 0)


@pytest.mark.each
@profiles
def test_ends_of_the_profile(on, case):
    kernel, origin = case.kernel, np.zeros((1, 1))
    s = on.put([0.0, 1e30])
    on.assert_close(kernel.profile(s)[:1], case.formula(origin, origin)[0], ulps=2)
    assert np.all(np.isfinite(on.host(kernel.derivative(s))))
    slope = on.host(kernel.derivative(on.put([0.0])))[0]
    assert slope < 0 if getattr(kernel, "smooth", True) else slope == 0


@pytest.mark.parametrize(
    ("power", "known"),
    [
        (PowerExponential(1.7), Laplace(1.7)),
        (PowerExponential(1.7, order=1.0), ManhattanLaplace(1.7)),
        (PowerExponential(1.7, exponent=2.0), Gaussian(1.7 / 2**0.5)),
    ],
    ids=str,
)
def test_powers_of_norms_are_the_kernels_of_other_names(on, rng, power, known):
    X, Z = points(on, rng)
    P = on.put(rng.standard_normal((13, 7)))
    placed = on.put(X), on.put(Z)
    on.assert_close(power(*placed), on.host(known(*placed)), ulps=200)
    for actual, slope in zip(power.pullback(*placed, P), known.pullback(*placed, P), strict=True):
        on.assert_close(actual, on.host(slope), ulps=500)
    assert power.norm == known.norm


@pytest.mark.each
@kernels
def test_inputs_are_left_alone(on, rng, case):
    hosts = [*points(on, rng), on.rounded(rng.standard_normal((13, 7)))]
    placed = [on.put(host) for host in hosts]
    case.kernel(*placed[:2])
    case.kernel.pullback(*placed)
    case.kernel.diagonal(placed[0])
    for a, host in zip(placed, hosts, strict=True):
        on.assert_close(a, host, ulps=0)


@kernels
def test_kernels_are_frozen_values(case):
    kernel = case.kernel
    again = pickle.loads(pickle.dumps(kernel))
    assert again == kernel
    assert hash(again) == hash(kernel)
    assert kernel.stretched(2.0) != kernel
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(kernel, dataclasses.fields(kernel)[0].name, 3.0)


def test_kernels_are_made_by_name():
    for name, kind in KERNELS.items():
        assert make_kernel(name) == kind()
    kernel = Gaussian(3.0)
    assert make_kernel(kernel) is kernel
    with pytest.raises(ValueError, match=r"one of brownian, gaussian, .*, got 'rbf'"):
        make_kernel("rbf")
    with pytest.raises(TypeError, match="a kernel or the name of one, got 3"):
        make_kernel(3)
    with pytest.raises(TypeError, match="a kernel or the name of one"):
        make_kernel(Gaussian)


@scale_by
def test_lengthscales_are_positive_numbers(lengthscaled):
    message = r"expected lengthscale to be a (finite )?number greater than 0, got"
    for wrong in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=message):
            type(lengthscaled)(wrong)
        with pytest.raises(ValueError, match=message):
            lengthscaled.stretched(wrong)
    for odd in (None, "a", True, [1.0], np.array([1.0, 2.0])):
        with pytest.raises(TypeError, match=r"expected lengthscale to be a number .*, got"):
            type(lengthscaled)(odd)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RationalQuadratic(mixture=0.0), "mixture to be a number greater than 0, got 0.0"),
        (
            lambda: InverseManhattan(exponent=-1.0),
            "exponent to be a number greater than 0, got -1.0",
        ),
        (
            lambda: InverseManhattan(exponent=np.nan),
            "exponent to be a number greater than 0, got nan",
        ),
        (lambda: Polynomial(degree=0), "degree to be an integer of at least 1, got 0"),
        (lambda: PowerExponential(order=2.1), "order to be a number .* at most 2, got 2.1"),
        (lambda: PowerExponential(order=0.0), "order .* greater than 0 .*, got 0.0"),
        (lambda: PowerExponential(order=1.0, exponent=1.2), "exponent .* at most 1, got 1.2"),
        (lambda: PowerExponential(exponent=np.nan), "exponent .*, got nan"),
        (lambda: Linear(offset=-1.0), "offset to be a number of at least 0, got -1.0"),
        (lambda: Polynomial(offset=np.nan), "offset to be a number of at least 0, got nan"),
        (lambda: Polynomial(1.0, 2, np.inf), "offset to be a finite number of at least 0, got inf"),
        (lambda: -1.0 * Gaussian(), "factor to be a number greater than 0, got -1.0"),
        (lambda: Gaussian() * 0, "factor to be a number greater than 0, got 0.0"),
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Polynomial(degree=1.5), "degree to be an integer of at least 1, got 1.5"),
        (lambda: Polynomial(degree=True), "degree to be an integer of at least 1, got True"),
        (lambda: Polynomial(offset="a"), "offset to be a number of at least 0, got 'a'"),
        (lambda: RationalQuadratic(mixture=None), "mixture to be a number .*, got None"),
        (lambda: Gaussian() * True, "unsupported operand"),
        (lambda: True * Gaussian(), "unsupported operand"),
        (lambda: Gaussian() * np.array([1.0, 2.0]), "operand .*Gaussian"),
        (lambda: GaussianMixture(weights=1.0), "weights to be numbers, got 1.0"),
        (lambda: ManhattanMixture(rates=None), "rates to be numbers, got None"),
        (lambda: GaussianMixture(weights=("a", 1.0)), "a number in weights to be .*, got 'a'"),
    ],
)
def test_settings_of_a_wrong_kind_are_named(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_whole_numbers_of_any_kind_are_taken():
    assert Polynomial(degree=2.0) == Polynomial(degree=np.int64(2)) == Polynomial(degree=2)
    assert np.float32(0.5) * Gaussian() == Gaussian() * np.float32(0.5) == 0.5 * Gaussian()


@pytest.mark.parametrize("mixture", [GaussianMixture, ManhattanMixture])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights": (1.0,)}, "as many weights as rates, at least one, got 1 and 2"),
        ({"rates": (1.0, 2.0, 3.0)}, "as many weights as rates, at least one, got 2 and 3"),
        ({"weights": (), "rates": ()}, "at least one, got 0 and 0"),
        ({"weights": (1.0, 0.0)}, "a number in weights to be .* greater than 0, got 0.0"),
        ({"rates": (-1.0, 1.0)}, "a number in rates to be .* greater than 0, got -1.0"),
        ({"weights": (np.nan, 1.0)}, "a number in weights to be .* greater than 0, got nan"),
        ({"rates": (1.0, np.inf)}, "a number in rates to be a finite .*, got inf"),
    ],
)
def test_bad_mixtures_are_named(mixture, settings, message):
    with pytest.raises(ValueError, match=message):
        mixture(**settings)


@pytest.mark.parametrize("mixture", [GaussianMixture, ManhattanMixture])
def test_mixtures_take_any_sequence_of_numbers(mixture):
    expected = mixture(weights=(1.0, 2.0), rates=(3.0, 0.5))
    for numbers in (list, np.asarray, iter, lambda pair: tuple(map(np.float32, pair))):
        kernel = mixture(weights=numbers((1, 2)), rates=numbers((3, 0.5)))
        assert kernel == expected
        assert hash(kernel) == hash(expected)
        assert {type(number) for number in kernel.weights + kernel.rates} == {float}


@pytest.mark.parametrize("combine", [lambda k: k + 1.0, lambda k: k * "a", lambda k: "a" * k])
def test_kernels_combine_with_kernels_and_numbers_only(combine):
    with pytest.raises(TypeError):
        combine(Gaussian())


@pytest.mark.each
@kernels
def test_wrong_shapes_are_named(on, case):
    X, Z = on.put(np.ones((4, 2))), on.put(np.ones((3, 2)))
    for bad in (on.put(np.ones((3, 5))), on.put(np.ones(2)), on.put(np.ones((3, 2, 1)))):
        with pytest.raises(ValueError, match=r"expected X \(n, d\) and Z \(q, d\), got \(4, 2\)"):
            case.kernel(X, bad)
        with pytest.raises(ValueError, match=r"expected X \(n, d\) and Z \(q, d\), got"):
            case.kernel.pullback(bad, X, on.put(np.ones((3, 4))))
    with pytest.raises(ValueError, match=r"expected weights P \(4, 3\), got \(3, 4\)"):
        case.kernel.pullback(X, Z, on.put(np.ones((3, 4))))


@pytest.mark.each
@kernels
def test_points_that_differ_by_rounding_count_as_equal(on, rng, case):
    """A sample among the centres, both mapped in blocks that round differently."""
    X, Z = points(on, rng)
    X[5, 1] = 0.5  # equal in one coordinate is a kink of the l1 distance that rounding may break
    P = on.rounded(rng.standard_normal((13, 7)))
    near = on.rounded(Z * (1 + 4 * on.eps * rng.choice([-1, 0, 1], Z.shape)))
    expected = case.kernel.pullback(X, Z, P)
    for actual, slope in zip(
        case.kernel.pullback(on.put(X), on.put(near), on.put(P)), expected, strict=True
    ):
        on.assert_close(actual, slope, ulps=2000)
