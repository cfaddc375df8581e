"""Kernel ridge regression in whole: every solver gives the solution of the dense system."""

import numpy as np
import pytest
from sklearn import kernel_ridge

from gpukfl.kernels import Gaussian
from gpukfl.methods import KernelRidge
from gpukfl.partitioned._rows import Rows
from gpukfl.solvers import ConjugateGradient

N, D, RIDGE = 120, 3, 1e-3
TIGHT = ConjugateGradient(1e-10, max_iter=500)


class Data:
    """Targets of weighted mean 0 for rows on a place."""

    def __init__(self, on, rng, weighted):
        self.X = on.rounded(rng.standard_normal((N, D)))
        self.w = on.rounded(rng.uniform(0.5, 2.0, N)) if weighted else np.ones(N)
        Y = np.stack([np.sin(self.X[:, 0]), self.X[:, 1] * self.X[:, 2]], axis=1)
        self.Y = on.rounded(Y - np.average(Y, axis=0, weights=self.w))
        self.new = on.rounded(rng.standard_normal((20, D)))
        weights = on.put(self.w[:, None]) if weighted else None
        self.given = Rows(on.put(self.X), on.reference), on.put(self.Y), weights

    def expected(self, ridge):
        """Predictions of scikit-learn."""
        model = kernel_ridge.KernelRidge(
            alpha=self.w.sum() * ridge, kernel="rbf", gamma=0.5 / 1.5**2
        )
        return model.fit(self.X, self.Y, sample_weight=self.w).predict(self.new)


@pytest.mark.pairs
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("solver", "n_centers"), [("auto", None), ("direct", N), ("cg", None), ("falkon", N)]
)
def test_every_solver_gives_what_scikit_learn_gives(on, rng, solver, n_centers, weighted):
    data = Data(on, rng, weighted)
    method = KernelRidge(Gaussian(1.5), RIDGE, solver, n_centers, conjugate_gradient=TIGHT)
    fit = method.fit(*data.given, np.random.RandomState(0))
    found = on.host(fit.predict(Rows(on.put(data.new), on.reference)))
    tolerance = 1e-4 if on.dtype_name == "float32" else 1e-6
    np.testing.assert_allclose(found, data.expected(RIDGE), atol=tolerance)
    assert (fit.ridge, fit.path) == (RIDGE, None)


def test_a_cautious_ridge_is_the_largest_that_is_about_as_good(rng):
    X = rng.standard_normal((N, D))
    Y = (X[:, :1] > 0) + 0.3 * rng.standard_normal((N, 1))
    given = Rows(X, X[:0, 0]), Y - Y.mean(), None
    best, cautious = (
        KernelRidge(Gaussian(1.5), cautious=cautious).fit(*given, np.random.RandomState(0))
        for cautious in (False, True)
    )
    assert best.ridge == best.path.best < cautious.ridge
    scores = dict(zip(cautious.path.ridges, cautious.path.scores, strict=True))
    assert scores[cautious.ridge] <= (1.0 + N**-0.5) * min(scores.values())
    larger = [score for ridge, score in scores.items() if ridge > cautious.ridge]
    assert min(larger) > (1.0 + N**-0.5) * min(scores.values())
