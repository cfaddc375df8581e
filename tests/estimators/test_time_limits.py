"""A limit that leaves time for all changes nothing; where time is short there are few centres."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from brief import bkernn, hkrr
from fit_cases import Clock
from hypothesis import given, settings
from hypothesis import strategies as st

from gpukfl import (
    BKerNNClassifier,
    BKerNNRegressor,
    HKRRRegressor,
    KernelFeatureSelector,
    RegFeaLRegressor,
    RKHSWeightingRegressor,
)
from gpukfl.estimators import _learner, _pace, _run
from gpukfl.estimators._run import Run
from gpukfl.estimators.bkernn._fit import BKerNN
from gpukfl.estimators.hkrr import _fit as _search
from gpukfl.estimators.selection import _data as _problem

AMPLE = 1e4  # seconds, of which no fit here takes a hundredth
RNG = np.random.default_rng(3)
X = RNG.standard_normal((240, 4))  # more rows than centres while a map is learned
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


@pytest.mark.few
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_limit_that_does_not_bind_changes_nothing(monkeypatch, name):
    monkeypatch.setattr(_search, "_ALL_GRADIENT_CENTERS", 50)  # of more rows some are drawn
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
    found = _search.affordable_refit_centers(problem, at, Run(seconds, 0, 0), 6000)
    assert low <= found <= high


# ---------------------------------------------------------------------- as many rows as fit


class Dear:
    """Placing takes so long, and for each element of X, on a clock of its own."""

    def __init__(self, patched, each):
        self.clock, place = Clock(1e-6), BKerNN.problem

        def problem(method, samples, on, run):
            self.clock.now += 0.01 + each * samples.X.shape[0] * samples.X.shape[1]
            return place(method, samples, on, run)

        patched.setattr(BKerNN, "problem", problem)
        patched.setattr("time.perf_counter", self.clock)
        patched.setattr(_learner, "_QUICK_ELEMENTS", 0)
        patched.setattr(_run, "_ELEMENTS_PER_SECOND", 0.02 / each)
        patched.setattr(_pace, "_LEAST_ROWS", 10)
        patched.setattr(_pace, "_ROWS", 20)


@settings(max_examples=8, deadline=None)
@given(
    n=st.integers(600, 1500),
    d=st.integers(2, 5),
    classes=st.sampled_from([0, 2, 4]),
    limit=st.floats(1.0, 20.0),
    wanted=st.floats(0.01, 3.0),
)
def test_a_fit_takes_as_many_rows_as_there_is_time_for(n, d, classes, limit, wanted):
    rng = np.random.default_rng(n)
    A = rng.standard_normal((n, d))
    y = np.arange(n) % classes if classes else np.sin(A[:, 0])
    kind = BKerNNClassifier if classes else BKerNNRegressor
    model = kind(**bkernn(max_iter=1, ridge=0.01, n_particles=4), random_state=0, max_time=limit)
    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        dear = Dear(patched, wanted * limit / (n * d))  # all rows take so many limits
        model.fit(A, y)
    assert dear.clock.now <= max(1.3 * limit, limit + 1.0)
    fewer = [str(one.message) for one in warned if "max_time is too short for" in str(one.message)]
    assert len(fewer) == (model._n_samples < n)
    if fewer:
        assert wanted > 0.3
        assert f"fitted to {model._n_samples} random rows" in fewer[0]
        assert model.status_ == "TIME_LIMIT"
    else:
        assert wanted < 1.0
    assert np.isfinite(model.predict(A)).all()


@pytest.mark.few
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", MODELS)
def test_small_fits_that_say_how_long_all_take_change_nothing(monkeypatch, name):
    monkeypatch.setattr(_learner, "_QUICK_ELEMENTS", 0)
    free, limited = (
        MODELS[name].set_params(max_time=limit, random_state=0).fit(X[:80], Y[:80]).predict(X)
        for limit in (None, AMPLE)
    )
    np.testing.assert_array_equal(limited, free)
