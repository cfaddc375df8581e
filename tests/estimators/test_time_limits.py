"""A limit that leaves time for all changes nothing; where time is short there are few centres."""

from types import SimpleNamespace

import numpy as np
import pytest
from brief import bkernn, hkrr

from gpukfl import (
    BKerNNRegressor,
    HKRRRegressor,
    KernelFeatureSelector,
    RegFeaLRegressor,
    RKHSWeightingRegressor,
)
from gpukfl.estimators._run import Run
from gpukfl.estimators.hkrr import _agop, _search
from gpukfl.estimators.selection import _problem

AMPLE = 1e4  # seconds, of which no fit here takes a hundredth
RNG = np.random.default_rng(3)
X = RNG.standard_normal((600, 4))  # more rows than centres while a map is learned
Y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * RNG.standard_normal(len(X))
FEW = {"max_iter": 3}
MODELS = {
    "hkrr": HKRRRegressor(**hkrr(**FEW)),
    "hkrr of a given setting": HKRRRegressor(**hkrr(n_components=2, ridge=1e-4, **FEW)),
    "hkrr by gradients": HKRRRegressor(optimizer="agop"),
    "hkrr by the evidence": HKRRRegressor(criterion="evidence"),
    "bkernn": BKerNNRegressor(**bkernn(**FEW)),
    "regfeal": RegFeaLRegressor(n_random_features=400, degrees=0.2, strength=0.1),
    "selection": KernelFeatureSelector(),
    "selection of a given setting": KernelFeatureSelector(ridge=0.1, sparsity=0.02),
    "rkhs_weighting": RKHSWeightingRegressor(100),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_limit_that_does_not_bind_changes_nothing(monkeypatch, name):
    monkeypatch.setattr(_agop, "_ALL_CENTERS", 50)  # of more rows some are drawn
    monkeypatch.setattr(_problem, "_TIMED_ROWS", 100)
    model = MODELS[name]
    free, limited = (
        model.set_params(max_time=limit, random_state=0).fit(X, Y).predict(X)
        for limit in (None, AMPLE)
    )
    np.testing.assert_array_equal(limited, free)


def test_what_is_drawn_to_find_out_the_pace_is_put_back():
    run, other = Run(AMPLE, 5, 0), Run(None, 5, 0)
    asked = []

    def work(count):
        asked.append(run.rng.permutation(1000)[:count])

    assert run.affordable(4000, work, times=1) == 4000
    assert asked
    np.testing.assert_array_equal(run.rng.permutation(9), other.rng.permutation(9))


def test_a_pace_may_hang_on_how_many_are_taken(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def work(count):
        now[0] += count**2 * 1e-6

    run = Run(5.53, 0, 0)  # of which 1.53 s are spent on finding out
    count = run.affordable(5000, work, times=lambda q: 1.0 if q <= 1500 else 100.0)
    assert count == 1500


@pytest.mark.parametrize(
    ("seconds", "low", "high"),
    [(1000.0, 6000, 6000), (30.0, 6000, 6000), (12.0, 900, 2000), (1.0, 100, 400)],
)
def test_all_rows_are_centres_or_few_are(monkeypatch, seconds, low, high):
    """Between them, sums of nearly as many centres as rows take longer than a solve with all."""
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    class Problem(SimpleNamespace):
        def system(self, *_):
            now[0] += self.q**2 * 1e-6

        def centers(self, q, _):
            self.q = q

    problem = Problem(n=6000, kernel=SimpleNamespace(stretched=lambda _: None))
    at = SimpleNamespace(lengthscale=1.0, B=None)
    found = _search.affordable_refit(problem, at, Run(seconds, 0, 0), 6000)
    assert low <= found <= high
