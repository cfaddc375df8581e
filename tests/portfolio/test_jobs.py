"""Blends that several processes fit are those that one fits, to the last bit."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings

import joblib
import numpy as np
import pandas as pd
import psutil
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge

import gpukfl
from gpukfl.estimators._workers import Workers, end_processes
from gpukfl.portfolio import AutoClassifier, AutoRegressor, _base
from gpukfl.portfolio._fold_fits import default_jobs, start_workers

N = 120
RNG = np.random.default_rng(8)
X = RNG.uniform(-1.0, 1.0, (N, 4))
Y = np.sin(3.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * RNG.standard_normal(N)
MEMBERS = ["linear", "agop"]


@pytest.fixture(scope="module", autouse=True)
def _ended():
    yield
    end_processes()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where temporary files are, of which none may stay."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert not list(tmp_path.iterdir())


class Patient(Workers):
    """Processes that a fit waits for, so that they take part however slow they begin."""

    def __enter__(self):
        super().__enter__()
        begun = time.monotonic()
        while self.count > self.n_at_once(limited=True):
            assert time.monotonic() - begun < 120.0
            time.sleep(0.01)
        return self


@pytest.fixture
def taking_part(monkeypatch):
    """Processes that take part: how often each was asked."""
    asked = []

    def start(*given):
        workers = start_workers(*given)
        patient = Patient(workers.count, workers._modules)
        asked.append(patient.count)
        return patient

    monkeypatch.setattr(_base, "start_workers", start)
    return asked


class Elsewhere(Ridge):
    """Notes the process of its fit, which its predictions do not depend on."""

    def fit(self, X, y, sample_weight=None):
        time.sleep(0.05)
        self.process_ = os.getpid()
        return super().fit(X, y, sample_weight)


class Locked(Ridge):
    """Cannot be sent to another process."""

    def __init__(self, lock=None, alpha=1.0):
        super().__init__(alpha=alpha)
        self.lock = lock

    def __deepcopy__(self, memo):
        return self

    def __sklearn_clone__(self):
        return Locked(self.lock, self.alpha)

    def fit(self, X, y, sample_weight=None):
        self.process_ = os.getpid()
        return super().fit(X, y, sample_weight)


def frame():
    found = pd.DataFrame(X, columns=list("abcd"))
    found.loc[::9, "b"] = np.nan
    return found.assign(level=RNG.choice([*"uvwxyzABCDEF"], N), few=RNG.choice([*"xy"], N))


def processes(model):
    return {one.process_ for member in model.members_ for one in member.models}


def assert_same(one, other, rows):
    """Whatever is learned; but for seconds."""
    ask = "predict_proba" if hasattr(one, "predict_proba") else "predict"
    np.testing.assert_array_equal(getattr(one, ask)(rows), getattr(other, ask)(rows))
    np.testing.assert_array_equal(one.out_of_fold_.predicted, other.out_of_fold_.predicted)
    np.testing.assert_array_equal(one.feature_importances_, other.feature_importances_)
    assert [(m.name, m.weight) for m in one.members_] == [
        (m.name, m.weight) for m in other.members_
    ]
    for member, twin in zip(one.members_, other.members_, strict=True):
        np.testing.assert_array_equal(member.residuals, twin.residuals)
    assert one.warnings_ == other.warnings_


@pytest.mark.few
@pytest.mark.parametrize(
    "kind",
    [
        "regression",
        *(
            pytest.param(kind, marks=pytest.mark.slow)
            for kind in ("classes", "table", "weights", "float32", "two targets", "kernels")
        ),
    ],
)
def test_several_processes_find_what_one_finds(kind, taking_part, folder):
    rows, y, options, weights = X, Y, {"members": MEMBERS}, None
    if kind == "classes":
        y = np.array(["a", "b", "c"])[np.digitize(Y, [-0.4, 0.5])]
    elif kind == "table":
        rows, options = frame(), {"effort": "quick"}
    elif kind == "weights":
        weights = RNG.uniform(0.5, 2.0, N)
    elif kind == "float32":
        rows = X.astype(np.float32)
    elif kind == "two targets":
        y = np.stack([Y, Y**2], axis=1)
    elif kind == "kernels":
        options = {"members": "kernels", "effort": "thorough"}
    make = AutoClassifier if kind == "classes" else AutoRegressor
    found = []
    for n_jobs in (1, 2):
        model = make(n_folds=3, refit="both", random_state=0, n_jobs=n_jobs, **options)
        found.append(model.fit(rows, y, sample_weight=weights))
    assert taking_part == [1, 2]
    assert_same(*found, rows)


@pytest.mark.slow
@pytest.mark.parametrize("refit", [False, True, "both"])
def test_other_processes_fit_folds_and_members(refit, taking_part, folder):
    members = [("one", Elsewhere()), ("two", Elsewhere(alpha=30.0))]
    model = AutoRegressor(members=members, n_folds=5, refit=refit, random_state=0, n_jobs=2)
    model.fit(X, Y)
    assert os.getpid() in processes(model)
    assert len(processes(model)) == 2


@pytest.mark.slow
def test_a_member_that_cannot_be_pickled_is_fitted_here(taking_part, folder):
    def fitted(n_jobs):
        members = [("mine", Locked(threading.Lock())), ("other", Elsewhere(alpha=50.0))]
        model = AutoRegressor(members=members, n_folds=4, random_state=0, n_jobs=n_jobs)
        return model.fit(X, Y)

    one, two = fitted(1), fitted(2)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    mine = [member for member in two.members_ if member.name == "mine"]
    assert {model.process_ for member in mine for model in member.models} == {os.getpid()}
    assert not [note for note in two.leaderboard()["note"] if "left out" in note]


@pytest.mark.slow
def test_a_fit_within_workers_of_joblib_is_one_process(folder):
    def fitted():
        AutoRegressor(members=["linear"], n_folds=4, random_state=0, n_jobs=2).fit(X, Y)
        return len(psutil.Process().children())

    found = joblib.Parallel(2, backend="loky")(joblib.delayed(fitted)() for _ in range(2))
    assert found == [0, 0]
    joblib.externals.loky.get_reusable_executor().shutdown()


@pytest.mark.slow
def test_a_time_limit_is_kept(taking_part, folder):
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = AutoRegressor(max_time=4.0, random_state=0, n_jobs=2).fit(X, Y)
    assert model.members_
    assert time.perf_counter() - begun < 60.0  # on a busy machine, with the begin of a process


SCRIPT = """
import os, sys, time, warnings
import numpy as np
from sklearn.linear_model import Ridge
from gpukfl.portfolio import AutoRegressor

class Endless(Ridge):
    def fit(self, X, y, sample_weight=None):
        calls = [int(name) for name in os.listdir(sys.argv[1])]
        open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
        time.sleep(600.0 if len(calls) >= 1 or os.getpid() != HERE else 0.0)
        return super().fit(X, y, sample_weight)

HERE = os.getpid()
X = np.random.default_rng(0).standard_normal((100, 3))
model = AutoRegressor(members=["linear", ("slow", Endless())], n_folds=6, n_jobs=2, random_state=0)
warnings.simplefilter("always")
model.fit(X, X[:, 0])
print(model.status_, *(member.name for member in model.members_), flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("how", ["once", "group", "killed"])
def test_ctrl_c_keeps_the_best_so_far_and_leaves_nothing(how, tmp_path):
    """As the keys send it, to all processes of a terminal, or to the first alone."""
    fits, folder = tmp_path / "fits", tmp_path / "files"
    fits.mkdir()
    folder.mkdir()
    environment = os.environ | {"TMPDIR": str(folder)}
    command = [sys.executable, "-c", SCRIPT, str(fits)]
    run = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
        cwd=os.path.dirname(os.path.dirname(gpukfl.__file__)),
    )
    begun = time.monotonic()
    while len(list(fits.iterdir())) < 2:  # the first fold is fitted, and others have begun
        assert run.poll() is None
        assert time.monotonic() - begun < 240.0
        time.sleep(0.05)
    children = psutil.Process(run.pid).children(recursive=True)
    assert children
    if how == "killed":
        run.kill()
        run.communicate()
    else:
        send = os.killpg if how == "group" else os.kill
        send(run.pid, signal.SIGINT)
        said, heard = run.communicate(timeout=120.0)
        assert said.split() == ["INTERRUPTED", "linear"], heard
        assert "Traceback" not in heard
    _, alive = psutil.wait_procs(children, timeout=60.0)
    assert not alive
    assert not list(folder.glob("gpukfl_*"))


# ------------------------------------------------------------------------------ how many


def test_n_jobs_is_a_parameter():
    model = AutoRegressor(n_jobs=3)
    assert model.get_params()["n_jobs"] == 3
    assert clone(model).n_jobs == 3
    assert AutoClassifier().n_jobs is None


@pytest.mark.parametrize("wrong", [0, 1.5, "all"])
def test_what_is_no_number_of_processes_is_refused_before_a_fit(wrong):
    with pytest.raises((TypeError, ValueError), match="expected n_jobs to be"):
        AutoRegressor(n_jobs=wrong).fit(X, Y)


@pytest.mark.parametrize(
    ("shape", "several"), [((400, 3), True), ((20_001, 3), False), ((20_000, 501), False)]
)
def test_rows_that_fill_memory_are_fitted_by_one_process(shape, several):
    rows = np.broadcast_to(0.0, shape)
    assert (start_workers(2, rows, np.empty(0)).count > 1) == several
    assert start_workers(None, rows, np.empty(0)).count == 1


def test_rows_elsewhere_than_on_the_host_have_processes_beside_a_gpu_alone(on):
    rows = on.put(np.zeros((400, 3)))
    expected = 2 if on.package in ("numpy", "cupy") else 1
    assert start_workers(2, rows, rows[:0, ...]).count == expected


def test_a_blend_of_enough_rows_has_all_threads_unless_it_is_told(monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "3")
    assert default_jobs(AutoRegressor(), 5_000) == {"n_jobs": 3}
    assert default_jobs(AutoRegressor(), 50) == {"n_jobs": 1}
    assert default_jobs(AutoRegressor(n_jobs=2), 5_000) == {}
    assert default_jobs(gpukfl.BKerNNRegressor(), 5_000) == {}


def test_a_fitted_model_keeps_what_it_was_told():
    usual = gpukfl.fit(X, Y, members=["linear"])
    told = gpukfl.fit(X, Y, members=["linear"], n_jobs=1)
    assert (usual.estimator.n_jobs, told.estimator.n_jobs) == (None, 1)
    assert usual.fit(X, Y).estimator.n_jobs is None
    with pytest.raises(TypeError, match="n_jobs"):
        gpukfl.fit(X, Y, method="hkrr", n_jobs=2)
