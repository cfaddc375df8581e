"""Ctrl-C at any time of a fit or a prediction, by real signals, and what it leaves behind."""

import functools
import gc
import random
import signal
import sys
import time
import warnings

import numpy as np
import pytest
from brief import bkernn
from interruption import interrupt
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from small_fits import CASES, X, Y
from threadpoolctl import threadpool_info

import gpukfl
from gpukfl._accel import threads
from gpukfl._accel.cpu_lasso import WorkingSet
from gpukfl.estimators._data import HeldOut
from gpukfl.estimators._samples import Samples
from gpukfl.inference import conditional_importance
from gpukfl.methods import LassoFits, Sums
from gpukfl.operators import BrownianKernel
from gpukfl.solvers import Lasso

pytestmark = [
    pytest.mark.skipif(
        not hasattr(signal, "setitimer"), reason="this system has no timers that send signals"
    ),
    # psutil reads the free memory, and an interruption may come before it closes the file
    pytest.mark.filterwarnings("ignore:unclosed file .*meminfo:ResourceWarning"),
]
FEW, MANY = 5, 25  # interruptions of a fit of many milliseconds, and of a quick one
PROMPT = 1.0  # seconds of processor time from the signal to the end
cases = pytest.mark.parametrize("name", CASES)


class CtrlC:
    """A signal that raises KeyboardInterrupt in the main thread, as the keys do."""

    def __enter__(self):
        self.before = signal.signal(signal.SIGALRM, self._strike)
        self.hook, sys.unraisablehook = sys.unraisablehook, self._drop
        return self

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.before)
        sys.unraisablehook = self.hook

    def _drop(self, ignored):
        """Forget a signal that came in a finalizer or a weak reference: Python ignores it there."""
        if issubclass(ignored.exc_type, KeyboardInterrupt):
            self.struck = None
        else:
            self.hook(ignored)

    def _strike(self, *_):
        self.struck = None if self.ended else time.process_time()
        raise KeyboardInterrupt

    def during(self, work, after):
        """Do the work and send the signal after some seconds: what it gives, or None."""
        self.struck, self.ended, result = None, False, None
        try:
            signal.setitimer(signal.ITIMER_REAL, after)
            result = work()
            self.ended = True
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            if self.struck is not None and not self.ended:
                result = None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if self.came:
            assert time.process_time() - self.struck < PROMPT
        return result

    @property
    def came(self):
        """Whether the signal came before the work had ended."""
        return self.struck is not None


@pytest.fixture
def ctrl_c():
    # Python ignores what is raised in a callback of its collector, and hypothesis has one
    callbacks, gc.callbacks[:] = list(gc.callbacks), []
    try:
        with CtrlC() as one:
            yield one
    finally:
        gc.callbacks[:] = callbacks


def at_random_times(work, count):
    """Times from the beginning to the end of the work, one in each of `count` equal parts."""
    begun = time.perf_counter()
    work()
    took, draw = time.perf_counter() - begun, random.Random(0)
    return [(k + draw.random()) / count * took for k in range(count)]


@functools.cache
def fitted(name):
    """Model of a case, to compare with."""
    case = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return case.fit(case.new())


def process_state():
    """What belongs to the whole process, and is ours to put back.

    Not the filters of warnings: scikit-learn changes them while it checks an array, and leaves
    them so where its way out is interrupted.
    """
    blas = [(pool["filepath"], pool["num_threads"]) for pool in threadpool_info()]
    return np.geterr(), blas


def test_a_signal_that_python_ignores_did_not_come(ctrl_c):
    class Slow:
        def __del__(self):
            time.sleep(0.1)

    def work():
        Slow()
        return 1

    assert ctrl_c.during(work, 0.05) == 1
    assert not ctrl_c.came


@pytest.mark.slow
@cases
def test_an_interrupted_fit_says_so_or_leaves_the_estimator_as_it_was(name, ctrl_c):
    case = CASES[name]
    expected = case.predict(fitted(name))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        times = at_random_times(lambda: case.fit(case.new()), MANY if case.quick else FEW)
        before, came = process_state(), 0
        for after in times:
            seen.clear()
            estimator = case.new()
            untouched = None if estimator is None else dict(vars(estimator))
            model = ctrl_c.during(lambda one=estimator: case.fit(one), after)
            came += ctrl_c.came
            if model is None:
                assert estimator is None or vars(estimator) == untouched
            elif ctrl_c.came:
                assert model.status_ == "INTERRUPTED"
                assert any(issubclass(one.category, ConvergenceWarning) for one in seen)
                assert np.isfinite(case.predict(model)).all()
        assert process_state() == before
        assert came
        np.testing.assert_array_equal(case.predict(case.fit(case.new())), expected)


@pytest.mark.slow
@cases
def test_an_interrupted_prediction_raises_and_changes_nothing(name, ctrl_c):
    case, model = CASES[name], fitted(name)
    expected, before = case.predict(model), dict(vars(model))
    for after in at_random_times(lambda: case.predict(model), 5):
        predicted = ctrl_c.during(lambda: case.predict(model), after)
        assert predicted is None or not ctrl_c.came
        assert vars(model) == before
    np.testing.assert_array_equal(case.predict(model), expected)


def test_an_interrupted_inference_keeps_what_is_done_or_raises(ctrl_c):
    model = gpukfl.KernelRidgeRegressor(ridge=0.01, lengthscale=2.0, random_state=0).fit(X, Y)

    def ask():
        return conditional_importance(model, X, Y, n_permutations=19)

    whole, before = ask(), process_state()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for after in at_random_times(ask, FEW):
            seen.clear()
            found = ctrl_c.during(ask, after)
            if found is None:
                continue
            assert found.groups + found.unfinished == whole.groups
            np.testing.assert_array_equal(found.p_values, whole.p_values[: len(found.groups)])
            warned = any(issubclass(one.category, ConvergenceWarning) for one in seen)
            assert warned == bool(found.unfinished)
    assert process_state() == before


# ---------------------------------------------------------------------- threads of our own


def test_threads_work_on_after_any_number_of_interruptions(ctrl_c):
    draw = random.Random(0)

    def without_end():
        while True:
            threads.map_in_pool(lambda k: k, range(2))

    until = time.perf_counter() + 2.0
    while time.perf_counter() < until:
        ctrl_c.during(without_end, draw.uniform(1e-5, 1e-3))
        assert threads.map_in_pool(lambda k: k * k, range(4)) == [0, 1, 4, 9]


def test_an_interruption_leaves_out_what_has_not_begun(ctrl_c, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "2")
    begun = []

    def slow(k):
        begun.append(k)
        time.sleep(0.1)

    assert ctrl_c.during(lambda: threads.map_in_pool(slow, range(50)), 0.15) is None
    assert ctrl_c.came
    threads.map_in_pool(lambda k: k, range(2))  # waits for those that had begun
    assert len(begun) < 40  # a busy machine is slow to hear of it


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "estimator",
    [
        gpukfl.BKerNNRegressor(**bkernn(n_particles=100, max_iter=5, random_state=0)),
        gpukfl.BrownianKernelRidge(random_state=0),
    ],
    ids=lambda one: type(one).__name__,
)
def test_fits_that_use_several_threads_can_be_interrupted_and_repeated(
    estimator, ctrl_c, monkeypatch
):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "2")
    Z = np.random.default_rng(0).standard_normal((700, 5))

    def fit():
        return clone(estimator).fit(Z, Z[:, 0])

    expected, came = fit().predict(Z), 0
    for after in at_random_times(fit, FEW):
        model = ctrl_c.during(fit, after)
        came += ctrl_c.came
        assert model is None or not ctrl_c.came or model.status_ == "INTERRUPTED"
    assert came
    np.testing.assert_array_equal(fit().predict(Z), expected)


# ---------------------------------------------------------------------- at a call of one's choice


@pytest.mark.parametrize("targets", [Y, np.stack([Y, Y**2], axis=1)], ids=["one", "two"])
def test_no_path_of_the_lasso_hides_an_interruption(monkeypatch, targets):
    def make():
        return gpukfl.RKHSWeightingRegressor(
            6, learner="lasso", instantiation="stumps", random_state=0
        )

    with monkeypatch.context() as patched:
        calls = interrupt(patched, WorkingSet, "descend", 10**9)
        make().fit(X, targets)
    for after in range(0, calls[0], max(calls[0] // 7, 1)):
        with monkeypatch.context() as patched:
            interrupt(patched, WorkingSet, "descend", after)
            model = make()
            try:
                with pytest.warns(ConvergenceWarning, match="interrupted"):
                    model.fit(X, targets)
            except KeyboardInterrupt:  # within the choice of a stump, before any was learned
                assert not hasattr(model, "coef_")
                continue
        assert model.status_ == "INTERRUPTED"
        assert np.isfinite(model.predict(X)).all()


def test_the_targets_after_an_interrupted_one_are_left_out(monkeypatch, rng):
    Phi, targets = rng.standard_normal((50, 8)), rng.standard_normal((50, 3))
    sums = Sums(Phi.T @ Phi, Phi.T @ targets, np.sum(targets**2, axis=0), targets.sum(0), 50.0, 50)
    fits = LassoFits(Lasso())
    interrupt(monkeypatch, WorkingSet, "descend", 0)
    (A,) = fits(sums, [1e-3])
    assert fits.is_interrupted
    assert [path[0].status.name for path in fits.fits] == ["INTERRUPTED", "MAX_ITER", "MAX_ITER"]
    np.testing.assert_array_equal(A, np.zeros((8, 3)))


@pytest.mark.parametrize("after", [0, 5])
def test_an_interrupted_pruning_keeps_the_whole_model(monkeypatch, after):
    options = {"instantiation": "gaussian_sign", "ridge": 1e-3, "random_state": 0}
    whole = gpukfl.RKHSWeightingRegressor(30, **options).fit(X, Y)
    interrupt(monkeypatch, WorkingSet, "descend", after)  # least squares take no such steps
    model = gpukfl.RKHSWeightingRegressor(30, prune="risk", **options)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(X, Y)
    assert (model.status_, model.pruning_) == ("INTERRUPTED", None)
    np.testing.assert_array_equal(model.coef_, whole.coef_)


def test_tuning_that_is_interrupted_between_its_fits_gives_the_best_so_far(monkeypatch):
    interrupt(monkeypatch, HeldOut, "losses", 7)  # within the second ridge of five folds each
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = gpukfl.fit(X[:50], Y[:50], method="bkernn", **bkernn(n_particles=4, max_iter=2))
    assert model.estimator.status_ == "INTERRUPTED"
    assert [trial["chosen"] for trial in model.tuning] == [True]
    assert "interrupted" in model.summary()


def test_tuning_that_is_interrupted_before_any_score_goes_on_from_what_was_learned(monkeypatch):
    interrupt(monkeypatch, HeldOut, "losses", 2)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = gpukfl.fit(X[:50], Y[:50], method="bkernn", **bkernn(n_particles=4, max_iter=2))
    assert (model.estimator.status_, model.tuning) == ("INTERRUPTED", [])
    assert model.score(X[:50], Y[:50]) > 0


def test_tuning_that_is_interrupted_before_anything_is_learned_leaves_a_model(monkeypatch):
    interrupt(monkeypatch, Samples, "splits", 0)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = gpukfl.fit(X[:50], Y[:50], method="bkernn", **bkernn(n_particles=4, max_iter=2))
    assert (model.estimator.status_, model.tuning) == ("INTERRUPTED", [])
    assert model.score(X[:50], Y[:50]) > 0


def test_an_interrupted_fit_of_a_constant_says_so(monkeypatch):
    interrupt(monkeypatch, BrownianKernel, "quadratic_gradient", 0)
    model = gpukfl.BKerNNRegressor(n_particles=4, random_state=0)
    with (
        pytest.warns(UserWarning, match="y is constant"),
        pytest.warns(ConvergenceWarning, match="interrupted"),
    ):
        model.fit(X, np.ones(len(X)))
    assert model.status_ == "INTERRUPTED"
    np.testing.assert_array_equal(model.predict(X), 1.0)
