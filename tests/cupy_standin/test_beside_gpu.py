"""Members of other libraries are fitted in other processes while ours compute on a GPU.

What is found is what one process finds, whichever fits were made before their turn.
"""

import threading
import time

import cupy
import numpy as np
import pandas as pd
import pytest
from interruption import interrupt
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from gpukfl.estimators import _workers
from gpukfl.estimators._run import use_report
from gpukfl.estimators._workers import Workers, end_processes
from gpukfl.portfolio import AutoClassifier, AutoRegressor
from gpukfl.portfolio import _members as _candidates
from gpukfl.portfolio._fold_fits import FoldFitter

N = 260
RNG = np.random.default_rng(3)
X = RNG.uniform(-1.0, 1.0, (N, 3))
Y = np.sin(3.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * RNG.standard_normal(N)
MEMBERS = ["linear", "trees", "manhattan_laplace", "matern52"]


@pytest.fixture(scope="module", autouse=True)
def _few_steps():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_candidates, "_STEPS_TIMES_FEATURES", 0)
        yield
    end_processes()


class _Busy(_workers._Pool):
    """Calls are made in threads of this process, from when they are let go."""

    begins = threading.Event()

    def __init__(self, count):
        self.count, self.is_broken = count, False

    n_free, is_busy = 0, False

    def greet(self, modules):
        pass

    def offer(self, job):
        def serve():
            self.begins.wait()
            while (number := job.take()) is not None:
                job.done.put((number, _workers._call(job.fit, job.given[number], 1)))

        threading.Thread(target=serve, daemon=True).start()


@pytest.fixture
def processes(monkeypatch):
    """Other processes that begin when a test says so."""
    monkeypatch.setattr(_Busy, "begins", threading.Event())
    monkeypatch.setattr(_workers, "_get_pool", _Busy)
    monkeypatch.setattr("gpukfl.portfolio._fold_fits.affordable_processes", lambda count, *_: count)
    return _Busy


@pytest.fixture
def fits(monkeypatch):
    """The fits of members of ours, in the order in which they are made."""
    made, fit = [], FoldFitter.fit

    def note(self, member, k, *rest):
        made.append((member.name, k, threading.current_thread() is threading.main_thread()))
        return fit(self, member, k, *rest)

    monkeypatch.setattr(FoldFitter, "fit", note)
    return made


def fitted(n_jobs, rows=X, y=Y, make=AutoRegressor, **options):
    given = {"members": MEMBERS, "n_folds": 3, "random_state": 0, "backend": "cupy"} | options
    return make(n_jobs=n_jobs, **given).fit(rows, y)


def host(found):
    return found.get() if isinstance(found, cupy.ndarray) else found


def assert_same(one, other, rows=X):
    ask = "predict_proba" if hasattr(one, "predict_proba") else "predict"
    assert_array_equal(*(host(getattr(model, ask)(rows)) for model in (one, other)))
    assert_array_equal(one.out_of_fold_.predicted, other.out_of_fold_.predicted)
    frames = [model.leaderboard().drop(columns="seconds") for model in (one, other)]
    pd.testing.assert_frame_equal(*frames)
    assert one.warnings_ == other.warnings_


def let_go_after(monkeypatch, processes, count):
    """Let other processes begin when so many fits ahead are made."""
    from gpukfl.portfolio._early_fits import EarlyFits

    inner, done = EarlyFits._fit_next, []

    def next_(self, current):
        found = inner(self, current)
        done.append(found)
        if len(done) >= count or not found:
            processes.begins.set()
        return found

    monkeypatch.setattr(EarlyFits, "_fit_next", next_)


@pytest.mark.parametrize("count", [1, 4, 99])
def test_what_is_found_does_not_hang_on_what_is_fitted_ahead(count, processes, fits, monkeypatch):
    alone = fitted(1)
    order = [name for name, _, _ in fits]
    assert order == [name for name in MEMBERS for _ in range(3)]
    fits.clear()
    let_go_after(monkeypatch, processes, count)
    assert_same(alone, fitted(2))
    here = [(name, k) for name, k, is_here in fits if is_here]
    assert len(fits) == len(order)  # each once
    if count > 1:
        assert here.index(("manhattan_laplace", 0)) < here.index(("matern52", 0))


def test_times_are_those_of_the_fit_and_of_each_member(processes, monkeypatch):
    let_go_after(monkeypatch, processes, 4)
    model = fitted(2)
    times, board = model.fit_times(), model.leaderboard().set_index("member")
    of_folds = times[times["part"] == "folds"].set_index("member")
    assert of_folds.loc["manhattan_laplace", "fits"] == 3
    assert (of_folds["seconds"] > 0).all()
    names = [name for name in MEMBERS if board.loc[name, "seconds"] > 0]
    assert "manhattan_laplace" in names
    spent = board.loc[MEMBERS, "seconds"].sum()
    np.testing.assert_allclose(spent, of_folds["seconds"].sum(), rtol=0.2)


def test_fits_ahead_say_what_they_are(processes, monkeypatch):
    let_go_after(monkeypatch, processes, 2)
    seen = []
    with use_report(lambda stage, *_: seen.append(stage)):
        fitted(2, members=["linear", "trees", "agop"])
    assert any("(agop), fold 1 of 3" in stage for stage in seen)


def test_ctrl_c_in_a_fit_ahead_keeps_what_has_finished(processes, monkeypatch):
    interrupt(monkeypatch, FoldFitter, "fit", 4)  # the second of a member of ours
    with pytest.warns(ConvergenceWarning, match="blended of linear"):
        model = fitted(2)
    processes.begins.set()
    assert model.status_ == "INTERRUPTED"
    notes = model.leaderboard().set_index("member")["note"]
    assert notes["trees"] == "interrupted"


def test_a_member_that_fails_ahead_is_left_out_in_its_turn(processes, monkeypatch):
    fit = FoldFitter.fit

    def failing(self, member, k, *rest):
        if member.name == "manhattan_laplace" and k == 1:
            msg = "no such kernel"
            raise ValueError(msg)
        return fit(self, member, k, *rest)

    monkeypatch.setattr(FoldFitter, "fit", failing)
    let_go_after(monkeypatch, processes, 99)
    models = []
    for n_jobs in (1, 2):
        with pytest.warns(
            UserWarning, match="the blend drops manhattan_laplace: .* no such kernel"
        ):
            models.append(fitted(n_jobs))
    assert_same(*models)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_fits_of_ours_are_one_after_the_other(n_jobs, fits, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "4")
    rows = RNG.uniform(-1.0, 1.0, (500, 3))
    fitted(n_jobs, rows, rows[:, 0] ** 2, members=["matern52"], n_folds=4)
    assert len([k for name, k, _ in fits if name == "matern52"]) == 4
    assert all(is_here for name, _, is_here in fits if name == "matern52")


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["classes", "on the GPU", "table", "two targets", "refit", "limit"]
)
def test_processes_find_what_one_finds(kind, monkeypatch):
    begin = Workers.begin

    def wait_and_begin(self, *given):
        begun = time.monotonic()
        while self.count > self.n_at_once(limited=True):
            assert time.monotonic() - begun < 120.0
            time.sleep(0.01)
        return begin(self, *given)

    monkeypatch.setattr(Workers, "begin", wait_and_begin)
    rows, y, options = X, Y, {}
    if kind == "classes":
        y, options = np.digitize(Y, [-0.4, 0.5]), {"make": AutoClassifier}
    elif kind == "on the GPU":
        rows, y = cupy.asarray(X), cupy.asarray(Y)
    elif kind == "table":
        rows = pd.DataFrame(X, columns=list("abc")).assign(level=RNG.choice([*"uvw"], N))
    elif kind == "two targets":
        y = np.stack([Y, Y**2], axis=1)
    elif kind == "refit":
        options = {"refit": "both"}
    elif kind == "limit":
        options = {"max_time": 500.0}
    assert_same(*(fitted(n_jobs, rows, y, **options) for n_jobs in (1, 2)), rows)
