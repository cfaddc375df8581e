"""Instantiations that a user adds: with a closed form, with draws only, and with mistakes."""

import dataclasses
import math
import pathlib

import numpy as np
import pytest
from instantiation_cases import (
    DEVIATIONS,
    DRAWS,
    drawn,
    exact,
    features_of,
    formula,
    mean_and_error,
    samples,
)
from test_docs import blocks

from gpukfl.instantiations import GaussianSign, Instantiation, Stumps


@dataclasses.dataclass(frozen=True)
class Sampled(Instantiation):
    """Another instantiation without its closed form."""

    of: Instantiation

    @property
    def kappa(self):
        return self.of.kappa

    def draw(self, count, n_features, rng, /):
        return self.of.draw(count, n_features, rng)

    def kernel(self, U, W, /):
        return self.of.kernel(U, W)

    def base(self, W, X, /):
        return self.of.base(W, X)


@dataclasses.dataclass(frozen=True)
class Given(Sampled):
    """Another instantiation with its closed form as a user gives it."""

    def expected(self, W, X, /):
        logs, shapes = formula(self.of, W, X)
        return np.exp(logs) * shapes


@dataclasses.dataclass(frozen=True)
class Broken(Sampled):
    """One of whose methods gives its transpose."""

    wrong: str = "base"

    def kernel(self, U, W, /):
        K = super().kernel(U, W)
        return K.T if self.wrong == "kernel" else K

    def base(self, W, X, /):
        P = super().base(W, X)
        return P.T if self.wrong == "base" else P


class BrokenForm(Broken):
    """One whose closed form gives its transpose."""

    def expected(self, W, X, /):
        return super().base(W, X).T


@exact
def test_draws_replace_a_closed_form_within_their_error(on, rng, instantiation, n):
    X, W = on.rounded(rng.standard_normal((40, n))), on.rounded(drawn(instantiation, n, 30))
    features = Sampled(instantiation).features(on.put(W), n)
    shapes, placed = features.shapes(on.put(X)), on.put(X)
    on.assert_lives_here(shapes)
    on.assert_close(features.log_constants, np.zeros(30), ulps=0, dtype="float64")
    expected = features_of(instantiation, W, X)
    error = np.linalg.norm(on.host(shapes) - expected) / np.linalg.norm(expected)
    reported = features.standard_error(placed)
    assert 0.0 < reported < 0.5
    assert reported / 3 <= error <= 3 * reported
    # The same numbers in any order and number of rows
    on.assert_close(features.shapes(placed[:3, :]), on.host(shapes)[:3], ulps=50)


def test_draws_that_are_all_zero_are_no_estimate(on):
    features = Sampled(GaussianSign()).features(on.put(drawn(GaussianSign(), 3)), 3)
    assert features.standard_error(on.put(np.zeros((2, 3)))) == math.inf


@exact
def test_a_closed_form_of_the_user_is_taken(rng, instantiation, n):
    X, W = samples(rng, 9, n), drawn(instantiation, n)
    features = Given(instantiation).features(W, n)
    np.testing.assert_allclose(features.shapes(X), features_of(instantiation, W, X), rtol=1e-12)
    assert np.array_equal(features.log_constants, np.zeros(len(W)))
    assert features.standard_error(X) == 0.0
    assert Given(instantiation).resolved(n) == Given(instantiation)
    assert Given(instantiation).log_theta(n) == 0.0  # that of kappa


@pytest.mark.parametrize(("kind", "tolerance"), [(Given, 0.05), (Sampled, 0.25)])
@pytest.mark.parametrize("instantiation", [GaussianSign(1.0, 1.0), Stumps()], ids=str)
def test_derivatives_need_no_formula(rng, kind, tolerance, instantiation):
    """Over a quarter of a standard deviation; a few draws change sign on the way."""
    X, W = 1.0 + rng.standard_normal((20, 3)), drawn(instantiation, 3, 30)
    P = rng.standard_normal((20, 30))
    features = instantiation.features(W, 3)
    expected = features.pullback(X, P * np.exp(features.log_constants))
    slopes = kind(instantiation).features(W, 3).pullback(X, P)
    assert slopes.shape == X.shape
    assert np.linalg.norm(slopes - expected) <= tolerance * np.linalg.norm(expected)


@pytest.mark.parametrize(
    ("broken", "name", "shape", "got"),
    [
        (Broken(Stumps(), "base"), "base", (3, 4096), (4096, 3)),
        (Broken(Stumps(), "kernel"), "kernel", (4096, 5), (5, 4096)),
        (BrokenForm(Stumps(), ""), "expected", (3, 5), (5, 3)),
    ],
)
def test_wrong_shapes_are_named(on, broken, name, shape, got):
    message = f"{type(broken).__name__}.{name} to give shape {shape}, got {got}"
    W, X = on.put(drawn(Stumps(), 2, 5)), on.put(np.ones((3, 2)))
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(")", r"\)")):
        broken.features(W, 2).shapes(X)


def test_example_of_the_documentation_runs(capsys):
    """And its closed form is the average over draws, within the error that it prints."""
    page = "docs/extend/instantiation.md"
    namespace = {"__name__": pathlib.Path(page).stem}
    for line, code in blocks(page, "python"):
        exec(compile("\n" * line + code, page, "exec"), namespace)
    printed = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()]
    assert 0.0 < printed[1] < 2 * printed[0] < 0.2
    cosines, n = namespace["ExactCosines"](gamma=2.0), 3
    u, w = (drawn(cosines, n, DRAWS, seed) for seed in (3, 4))
    mean, error = mean_and_error(np.exp(-np.sum((u - w) ** 2, axis=1) / 8))
    assert abs(mean - math.exp(2 * cosines.log_theta(n))) <= DEVIATIONS * error
