"""Fits of folds in threads at the same time: they are those that come one after the other."""

import re
import threading
import time

import numpy as np
import pytest
import sklearn
from interruption import interrupt
from numpy.testing import assert_allclose, assert_array_equal
from portfolio_cases import X, Y, notes, weights
from portfolio_cases import regressor as of_few
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge

import gpukfl
from gpukfl import HKRRRegressor
from gpukfl._accel.threads import map_in_shared_threads
from gpukfl.core._memory import available_memory
from gpukfl.core._results import History
from gpukfl.estimators._run import current_report, use_report
from gpukfl.estimators._samples import Samples
from gpukfl.portfolio import AutoClassifier, AutoRegressor, Member, _fold_fits, _refit
from gpukfl.portfolio import _members as _candidates
from gpukfl.portfolio._fold_fits import fit_in_parallel, n_parallel_fits
from gpukfl.portfolio._members import Task, make_members
from gpukfl.portfolio._standings import Standings

OURS = ["manhattan_laplace", "agop", "matern52"]  # of which all fits are at once
N = 480


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(5).uniform(-1.0, 1.0, (N, 3))


@pytest.fixture
def target(rows):
    return np.sin(3.0 * rows[:, 0]) + rows[:, 1] * rows[:, 2]


@pytest.fixture
def widths(monkeypatch):
    """How many fits were asked for at once, each time."""
    found = []

    def seen(fit, given, *more):
        found.append(len(given))
        return fit_in_parallel(fit, given, *more)

    for module in (_fold_fits, _refit):
        monkeypatch.setattr(module, "fit_in_parallel", seen)
    return found


@pytest.fixture
def threads(monkeypatch):
    return lambda count: monkeypatch.setenv("GPUKFL_NUM_THREADS", str(count))


def regressor(**options):
    return AutoRegressor(members=OURS, random_state=0, **options)


def member_of(name, n):
    task = Task.from_samples(Samples(np.zeros((n, 3)), np.zeros((n, 1)), None), 3, "numpy", 0)
    return make_members([name], "normal", task)[0]


@pytest.mark.few
@pytest.mark.parametrize(
    ("kind", "dtype", "member"),
    [
        ("one", "float32", "manhattan_laplace"),
        pytest.param("two", "float64", "agop", marks=pytest.mark.slow),
        pytest.param("classes", "float64", "manhattan_laplace", marks=pytest.mark.slow),
    ],
)
def test_fits_at_once_are_those_that_come_one_after_the_other(
    kind, dtype, member, rows, target, threads, widths
):
    data = rows.astype(dtype)
    y = {"one": target, "two": np.stack([target, -(target**2)], axis=1), "classes": target > 0}[
        kind
    ]
    make = AutoClassifier if kind == "classes" else AutoRegressor
    found = []
    for count in (1, 3, 3):
        threads(count)
        model = make(members=[member], n_folds=3, refit="both", random_state=0).fit(data, y)
        found.append(model.predict_proba(data) if kind == "classes" else model.predict(data))
    assert max(widths) == 2
    assert_array_equal(found[1], found[2])
    # Rounding differs, as sums are split over other threads
    assert_allclose(found[0], found[1], rtol=1e-3 if dtype == "float32" else 1e-6, atol=1e-5)


def test_all_folds_go_on_from_the_first_however_many_are_fitted_at_once(rows, target, threads):
    noise = np.random.default_rng(0).normal(0.0, 0.3, N)
    found = []
    for count in (1, 3):
        threads(count)
        model = AutoRegressor(members=["evidence_quantile"], n_folds=4, random_state=0)
        found.append(model.fit(rows, target + noise).predict(rows))
    assert_allclose(found[0], found[1], rtol=1e-9)


def test_the_first_fold_is_alone_and_the_others_are_at_once(rows, target, threads, widths):
    threads(3)
    model = regressor(n_folds=6, refit=False).fit(rows, target)
    assert widths[:3] == [1, 3, 2]  # 6 = 1 + 3 + 2
    assert all(len(member.models) == 6 for member in model.members_)


@pytest.mark.slow
def test_members_are_refitted_at_once_in_their_order(rows, target, threads, widths):
    def seen(count):
        threads(count)
        widths.clear()
        model = regressor(n_folds=2, refit=True).fit(rows, target)
        names = [member.name for member in model.members_]
        return names, [member.models[0].predict(rows) for member in model.members_]

    names, alone = seen(1)
    again, together = seen(3)
    assert names == again
    assert len(names) > 1
    assert widths[-1] == len(names)
    assert_allclose(together, alone, rtol=1e-6, atol=1e-8)


def test_members_of_others_are_fitted_in_the_callers_thread(rows, target, threads):
    threads(4)
    inside = []

    class Noting(Ridge):
        def fit(self, X, y, sample_weight=None):
            inside.append(threading.get_ident())
            return super().fit(X, y, sample_weight)

    AutoRegressor(members=[("mine", Noting())], refit=True, random_state=0).fit(rows, target)
    assert set(inside) == {threading.get_ident()}


@pytest.mark.parametrize(
    ("name", "n", "d", "several"),
    [
        ("agop", 350, 3, True),
        ("agop", 250, 3, False),  # a step takes less than threads wait for each other
        ("bkernn", 350, 3, False),
        ("bkernn", 4_000, 3, True),
        ("agop", 30_000, 3, False),  # which memory should hold
        ("agop", 20_000, 501, False),
        ("agop", 20_000, 500, True),
        ("linear", 4_000, 3, False),
    ],
)
def test_how_many_fits_are_at_once(name, n, d, several, threads):
    threads(6)
    samples = Samples(np.broadcast_to(0.0, (n, d)), np.zeros((n, 1)), None)
    member = member_of(name, n)
    assert n_parallel_fits(member, samples) == (4 if several else 1)
    assert n_parallel_fits(member, samples, 200) == 1  # of so many, where time is short


def test_fits_are_one_after_the_other_elsewhere_than_on_the_host(on, threads):
    threads(4)
    samples = Samples(on.put(np.zeros((400, 3))), np.zeros((400, 1)), None)
    assert n_parallel_fits(member_of("agop", 400), samples) == (4 if on.package == "numpy" else 1)


def test_an_estimator_of_ones_own_is_never_at_once(threads):
    threads(4)
    samples = Samples(np.zeros((400, 3)), np.zeros((400, 1)), None)
    assert n_parallel_fits(Member("mine", HKRRRegressor()), samples) == 1


def test_fits_at_once_share_the_memory(threads):
    threads(2)
    with gpukfl.memory_budget(1_001):
        assert fit_in_parallel(lambda _: available_memory(X), [0, 1]) == [500, 500]
        assert fit_in_parallel(lambda _: available_memory(X), [0]) == [1_001]
        assert available_memory(X) == 1_001


def test_settings_of_scikit_learn_are_those_of_the_caller(threads):
    threads(2)
    with sklearn.config_context(assume_finite=True):
        found = fit_in_parallel(lambda _: sklearn.get_config()["assume_finite"], [0, 1])
    assert found == [True, True]
    assert fit_in_parallel(lambda _: sklearn.get_config()["assume_finite"], [0, 1]) == [
        False,
        False,
    ]


def test_what_fits_at_once_warn_of_is_kept(rows, target, threads):
    threads(2)
    with pytest.warns(ConvergenceWarning, match="max_time"):  # of each fit, and heard once
        model = AutoRegressor(
            members=["hkrr"], n_folds=3, max_time=0.05, refit=False, random_state=0
        ).fit(rows, target)
    assert model.status_ == "TIME_LIMIT"
    assert all(isinstance(message, str) for message in model.warnings_)


# ---------------------------------------------------------------------- Ctrl-C and failures


def test_an_interruption_of_fits_at_once_keeps_the_members_that_are_done(
    rows, target, threads, monkeypatch
):
    threads(2)
    calls = interrupt(monkeypatch, Member, "fit_clone", 12)  # of the second of three, 8 folds each
    with pytest.warns(ConvergenceWarning, match="blended of manhattan_laplace"):
        model = regressor(n_folds=8).fit(rows, target)
    assert model.status_ == "INTERRUPTED"
    assert notes(model)["agop"] == "interrupted"
    assert calls[0] > 12


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_fits_that_nobody_waits_for_end_at_their_next_step(error, threads, monkeypatch):
    """As where Ctrl-C comes while they are waited for."""
    threads(2)
    begun, ended, left = threading.Event(), threading.Event(), threading.Event()

    def endless(_):
        history = History(objective=[1.0])
        try:
            while not left.wait(1e-3):
                begun.set()
                current_report()("fit", 0, history)
        except KeyboardInterrupt:
            ended.set()

    def waited(*given):
        worker = threading.Thread(target=lambda: map_in_shared_threads(*given), daemon=True)
        worker.start()
        assert begun.wait(10.0)
        assert not ended.is_set()
        raise error

    monkeypatch.setattr(_fold_fits, "map_in_shared_threads", waited)
    with pytest.raises(error):
        fit_in_parallel(endless, [0, 1])
    assert ended.wait(10.0)
    left.set()


def test_a_fit_that_fails_among_others_leaves_the_member_out(rows, target, threads, monkeypatch):
    threads(2)
    fitted, lock, count = Member.fit_clone, threading.Lock(), [0]

    def failing(self, samples, *rest):
        if self.name == "agop":
            with lock:
                count[0] += 1
                number = count[0]
            if number == 3:
                msg = "no room"
                raise MemoryError(msg)
            time.sleep(0.01)
        return fitted(self, samples, *rest)

    monkeypatch.setattr(Member, "fit_clone", failing)
    with pytest.warns(UserWarning, match="the blend drops agop: MemoryError: no room"):
        model = regressor().fit(rows, target)
    assert "agop" not in weights(model)
    assert weights(model)


def test_a_member_is_left_by_the_folds_in_their_order(rows, target, threads, monkeypatch):
    """Whoever ends first: folds beyond that which says that a member is behind do not count."""
    monkeypatch.setattr(_candidates, "CANDIDATES", _candidates.CANDIDATES[:4])
    monkeypatch.setattr(Standings, "is_behind", lambda _, entry: len(entry.models) == 2)
    found = []
    for count in (1, 4):
        threads(count)
        model = AutoRegressor(n_folds=8, random_state=0).fit(rows, target)
        found.append(notes(model)["manhattan_laplace"])
    assert found == ["dropped after 2 of 8 folds: clearly behind"] * 2


def test_progress_tells_which_folds_are_at_once(rows, target, threads):
    threads(2)
    said = []
    with use_report(lambda stage, *_: said.append(stage)):
        AutoRegressor(members=["agop"], n_folds=8, random_state=0).fit(rows, target)
    for folds in ("fold 1", "folds 2 to 3", "folds 4 to 5", "folds 6 to 7", "fold 8"):
        assert any(re.search(rf"\(agop\), {folds} of 8\b", stage) for stage in said)


def test_fits_to_few_rows_come_one_after_the_other(threads, widths):
    threads(4)
    assert weights(of_few().fit(X, Y))
    assert set(widths) == {1}
