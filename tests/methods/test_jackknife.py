"""Jackknife+ in closed form is what n fits without one sample each give."""

import numpy as np
import oracles
import pytest
from sklearn.kernel_ridge import KernelRidge

from gpukfl.methods import Jackknife

weighted = pytest.mark.parametrize("weighted", [False, True])


class Data:
    def __init__(self, on, rng, *, n=40, m=9, t=2, weighted=False):
        X, new = on.rounded(rng.uniform(-2, 2, (n, 2))), on.rounded(rng.uniform(-2, 2, (m, 2)))
        self.Y = on.rounded(np.sin(2 * X[:, :1]) + 0.3 * rng.standard_normal((n, t)))
        self.K = on.rounded(oracles.gaussian(X, X, 1.0))
        self.new = on.rounded(oracles.gaussian(new, X, 1.0))
        self.w = on.rounded(rng.uniform(0.2, 3.0, (n, 1))) if weighted else None
        self.on = on

    def fit(self, shift=0.3):
        w = None if self.w is None else self.on.put(self.w)
        return Jackknife.from_kernel(self.on.put(self.K), self.on.put(self.Y), w, shift=shift)

    def refits(self, shift=0.3):
        """Residuals (n, t), and predictions for the new rows (n, m, t), of n fits."""
        n = len(self.K)
        left, centers = np.empty_like(self.Y), np.empty((n, len(self.new), self.Y.shape[1]))
        for i in range(n):
            rest = np.arange(n) != i
            w = None if self.w is None else self.w[rest, 0]
            model = KernelRidge(alpha=shift, kernel="precomputed")
            model.fit(self.K[np.ix_(rest, rest)], self.Y[rest], sample_weight=w)
            left[i] = self.Y[i] - model.predict(self.K[[i]][:, rest])[0]
            centers[i] = model.predict(self.new[:, rest])
        return left, centers

    def interval(self, coverage, shift=0.3):
        left, centers = self.refits(shift)
        size = np.abs(left)[:, None, :]
        w = (
            np.ones(len(left))
            if self.w is None
            else self.w[:, 0] / (self.w**2).sum() * self.w.sum()
        )
        wanted = coverage * (w.sum() + 1)
        ends = np.empty((*centers.shape[1:], 2))
        for side, sign in enumerate((-1, 1)):
            values = sign * centers + size
            for j, c in np.ndindex(ends.shape[:2]):
                order = np.argsort(values[:, j, c])
                rank = np.searchsorted(np.cumsum(w[order]), wanted - 1e-9)
                ends[j, c, side] = sign * values[order[rank], j, c]
        return ends


@weighted
def test_residuals_are_those_of_refitting(on, rng, weighted):
    data = Data(on, rng, weighted=weighted)
    on.assert_close(data.fit().residuals, data.refits()[0], ulps=2000)


@pytest.mark.pairs
@weighted
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_are_those_of_refitting(on, rng, weighted, coverage):
    data = Data(on, rng, weighted=weighted)
    found = data.fit().interval(on.put(data.new), coverage=coverage)
    on.assert_close(found, data.interval(coverage), ulps=4000)


def test_order_of_samples_does_not_matter(on_double, rng):
    data = Data(on_double, rng)
    expected = on_double.host(data.fit().interval(on_double.put(data.new), coverage=0.8))
    order = rng.permutation(len(data.K))
    data.K, data.Y, data.new = data.K[np.ix_(order, order)], data.Y[order], data.new[:, order]
    on_double.assert_close(
        data.fit().interval(on_double.put(data.new), coverage=0.8), expected, ulps=1e4
    )


def test_many_new_rows_are_taken_in_blocks(on_double, rng):
    data = Data(on_double, rng, n=20, m=1, t=1)
    many = on_double.put(np.repeat(data.new, 30_000, axis=0))
    found = data.fit().interval(many, coverage=0.8)
    one = on_double.host(data.fit().interval(on_double.put(data.new), coverage=0.8))
    on_double.assert_close(found, np.repeat(one, 30_000, axis=0), ulps=1e3)
    assert data.fit().interval(many[:0, :], coverage=0.8).shape == (0, 1, 2)


def test_mapie_gives_the_same(rng):
    mapie = pytest.importorskip("mapie.regression")
    from sklearn.model_selection import LeaveOneOut

    X, new = rng.uniform(-2, 2, (40, 2)), rng.uniform(-2, 2, (15, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(40)
    peer = mapie.CrossConformalRegressor(
        KernelRidge(alpha=0.3, kernel="rbf", gamma=0.5),
        confidence_level=0.8,
        method="plus",
        cv=LeaveOneOut(),
    )
    _, expected = peer.fit_conformalize(X, y).predict_interval(new)
    ours = Jackknife.from_kernel(oracles.gaussian(X, X, 1.0), y[:, None], shift=0.3)
    found = ours.interval(oracles.gaussian(new, X, 1.0), coverage=0.8)
    np.testing.assert_allclose(found[:, 0], expected[:, :, 0], rtol=1e-8)


@pytest.mark.parametrize(
    ("K", "Y", "w", "shift", "match"),
    [
        (np.eye(3)[:2], np.ones((2, 1)), None, 1.0, r"K \(n, n\)"),
        (np.eye(3), np.ones((2, 1)), None, 1.0, r"got \(3, 3\), \(2, 1\)"),
        (np.eye(3), np.ones((3, 1)), None, 0.0, "positive shift"),
        (np.eye(3), np.ones((3, 1)), np.array([[1.0], [0.0], [1.0]]), 1.0, "positive weights"),
        (np.eye(3), np.ones((3, 1)), np.ones(3), 1.0, r"positive weights \(3, 1\)"),
    ],
)
def test_wrong_problems_are_named(K, Y, w, shift, match):
    with pytest.raises(ValueError, match=match):
        Jackknife.from_kernel(K, Y, w, shift=shift)


def test_wrong_questions_are_named():
    fit = Jackknife.from_kernel(np.eye(8), np.ones((8, 1)), shift=1.0)
    with pytest.raises(ValueError, match="at least 9 held-out rows"):
        fit.interval(np.ones((2, 8)), coverage=0.9)
    with pytest.raises(ValueError, match=r"expected K \(m, 8\), got \(2, 7\)"):
        fit.interval(np.ones((2, 7)), coverage=0.5)
    with pytest.raises(ValueError, match="less than 1"):
        fit.interval(np.ones((2, 8)), coverage=1.0)
