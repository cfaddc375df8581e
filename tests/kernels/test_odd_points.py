"""Kernels at points of other kinds, next to no lengthscale, and far from all others."""

import dataclasses

import numpy as np
import oracles
import pytest
from kernel_points import points
from registry import KERNEL_CASES

from gpukfl.kernels import Gaussian, PowerExponential, RationalQuadratic

kernels = pytest.mark.parametrize("case", KERNEL_CASES, ids=str)
DECAYING = [
    case for case in KERNEL_CASES if case.kernel.bounded and hasattr(case.kernel, "lengthscale")
]


def mixed(on, X, Z, kind):
    """The points of two precisions, or of none: as a user may have them."""
    if kind == "integers":
        return on.put(X, "int64"), on.put(Z, "int64")
    if kind == "small integers":  # whose squares their dtype does not hold
        return on.put(X, "int8"), on.put(Z, "int8")
    if kind == "integers and floats":
        return on.put(X, "int64"), on.put(Z)
    return on.put(X, "float32"), on.put(Z, "float64")


MIXED = ["integers", "small integers", "integers and floats", "two precisions"]


@pytest.mark.pairs
@pytest.mark.parametrize("kind", MIXED)
@kernels
def test_points_of_no_one_precision_are_taken_in_double(on, rng, case, kind):
    X, Z = (np.round(3.0 * V) for V in points(on, rng))
    placed = mixed(on, X, Z, kind)
    on.assert_close(case.kernel(*placed), case.formula(X, Z), ulps=1e3, dtype="float64")
    if kind.endswith("integers"):
        expected = np.diag(case.formula(X, X))
        on.assert_close(case.kernel.diagonal(placed[0]), expected, ulps=200, dtype="float64")
    P = on.rounded(rng.standard_normal((len(X), len(Z))))
    slopes = case.kernel.pullback(*placed, on.put(P))
    for slope, known in zip(slopes, case.kernel.pullback(X, Z, P), strict=True):
        on.assert_close(slope, known, ulps=1e4, dtype="float64")


def test_what_is_no_array_of_real_numbers_is_named():
    X = np.eye(3)
    for wrong, name in ((X.tolist(), "list"), (None, "NoneType")):
        for call in (lambda A: Gaussian()(A, X), lambda A: Gaussian()(X, A), Gaussian().diagonal):
            with pytest.raises(TypeError, match=f"expected arrays, got {name}"):
                call(wrong)
        with pytest.raises(TypeError, match=f"expected arrays, got {name}"):
            Gaussian().pullback(X, X, wrong)
    for wrong in (X + 1j, X.astype(object)):
        with pytest.raises(TypeError, match=f"expected arrays of real numbers, got {wrong.dtype}"):
            Gaussian()(X, wrong)


@pytest.mark.pairs
@pytest.mark.parametrize("power", [0.26, 0.5, 0.9, 1.04, None])
@pytest.mark.parametrize("case", DECAYING, ids=str)
def test_next_to_no_lengthscale_tells_points_apart(on, rng, case, power):
    smallest = float(np.finfo(on.dtype_name).smallest_normal)
    lengthscale = 1e-300 if power is None else smallest**power
    kernel = dataclasses.replace(case.kernel, lengthscale=lengthscale)
    X, Z = points(on, rng)
    same = np.all(X[:, None] == Z, axis=2)
    diagonal = on.host(kernel.diagonal(on.put(X)))[0]
    values = on.host(kernel(on.put(X), on.put(Z)))
    assert np.all(values[same] == diagonal)
    assert np.all(values[~same] <= 1e-4)  # of heavy tails
    slopes = kernel.pullback(on.put(X), on.put(Z), on.put(np.ones(same.shape)))
    assert all(np.all(np.abs(on.host(slope)) < 1.0) for slope in slopes)


def test_error_of_smooth_kernels_is_as_said(rng):
    X = np.concatenate([rng.standard_normal((100, 3)), [[1e5, 0.0, 0.0]]]).astype(np.float32)
    exact = X.astype(np.float64)
    far = np.sum((exact - exact.mean(axis=0)) ** 2, axis=1)
    rounding = (8 + 3**0.5) * np.finfo(np.float32).eps * np.maximum(far[:, None], far)
    for kernel, formula, steepest in (
        (Gaussian(), oracles.gaussian(exact, exact, 1.0), 0.5),
        (Gaussian(0.5), oracles.gaussian(exact, exact, 0.5), 2.0),
        (RationalQuadratic(), oracles.rational_quadratic(exact, exact, 1.0, 1.0), 0.5),
    ):
        off = np.abs(kernel(X, X) - formula)
        assert np.all(off <= steepest * rounding)
        assert np.max(off) > 0.01
    power = PowerExponential(2**0.5, exponent=2.0)  # of differences
    np.testing.assert_allclose(power(X, X), oracles.gaussian(exact, exact, 1.0), atol=1e-6)
