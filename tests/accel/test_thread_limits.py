"""A fit takes no more threads than it can use, and leaves every limit as it found it."""

import os
import subprocess
import sys
import threading
from dataclasses import replace

import joblib
import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor
from threadpoolctl import ThreadpoolController

import gpukfl
from gpukfl import KernelRidgeClassifier, KernelRidgeRegressor
from gpukfl._accel import threads as pool
from gpukfl._accel.limits import one_blas_thread
from gpukfl._registry import METHODS
from gpukfl.estimators import _learner as _threads

SEVERAL = 2
VARIABLES = ("GPUKFL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")


def libraries():
    import scipy.linalg  # noqa: F401 - has a BLAS of its own

    return ThreadpoolController().select(user_api="blas").lib_controllers


def blas_threads():
    return {library.num_threads for library in libraries()}


def set_blas(numbers):
    """As if they had always been so: threadpoolctl remembers which living thread sets them."""

    def body():
        for library, n in zip(libraries(), numbers, strict=True):
            library.set_num_threads(n)

    in_thread(body).join()


def in_thread(body):
    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    return thread


@pytest.fixture
def several():
    """A BLAS with several threads, whatever the shell exports."""
    before = [library.num_threads for library in libraries()]
    set_blas([SEVERAL] * len(before))
    if blas_threads() != {SEVERAL}:
        pytest.skip("threadpoolctl does not set the threads of this BLAS")
    yield
    set_blas(before)


@pytest.fixture
def nothing_exported(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def spying(base, seen, error=None):
    """An estimator that looks at the threads while it is fitted."""

    class Spy(base):
        def _read_targets(self, *args, **kwargs):
            seen.append(blas_threads())
            if error is not None:
                raise error
            return super()._read_targets(*args, **kwargs)

    return Spy(ridge=0.1)


@pytest.fixture
def data(rng):
    X = rng.standard_normal((40, 3))
    return X, X[:, 0]


@pytest.mark.parametrize("estimator", [KernelRidgeRegressor, KernelRidgeClassifier])
def test_a_fit_has_one_blas_thread_and_sets_the_others_back(estimator, several, data):
    seen = []
    spying(estimator, seen).fit(data[0], data[1] > 0)
    assert seen == [{1}]
    assert blas_threads() == {SEVERAL}


@pytest.mark.parametrize("estimator", [KernelRidgeRegressor, KernelRidgeClassifier])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_fit_that_fails_sets_the_threads_back(estimator, error, several, data):
    seen = []
    with pytest.raises(error):
        spying(estimator, seen, error()).fit(data[0], data[1] > 0)
    assert seen == [{1}]
    assert blas_threads() == {SEVERAL}


def test_the_whole_of_a_tuned_fit_is_limited(several, data, monkeypatch):
    seen = []

    class Spy(gpukfl.RKHSWeightingRegressor):
        def _read_targets(self, *args):
            seen.append(blas_threads())
            return super()._read_targets(*args)

    method = replace(METHODS["rkhs_weighting"], regression=Spy)
    monkeypatch.setitem(METHODS, "rkhs_weighting", method)
    gpukfl.fit(*data, method="rkhs_weighting", n_parameters=5)
    assert seen == [{1}]
    assert blas_threads() == {SEVERAL}


def test_a_limit_that_was_there_is_not_raised(several, data):
    set_blas([1] * len(libraries()))
    seen = []
    spying(KernelRidgeRegressor, seen).fit(*data)
    assert seen == [{1}]
    assert blas_threads() == {1}


@pytest.mark.parametrize("first_leaves_first", [True, False])
def test_of_overlapping_fits_the_last_to_end_sets_the_threads_back(first_leaves_first, several):
    inside = [threading.Event(), threading.Event()]
    may_end = [threading.Event(), threading.Event()]
    ended = [threading.Event(), threading.Event()]
    may_die = threading.Event()  # a limit must not hang on a thread's death

    def body(k):
        with one_blas_thread():
            inside[k].set()
            may_end[k].wait(30)
        ended[k].set()
        may_die.wait(30)

    workers = []
    for k in (0, 1):
        workers.append(in_thread(lambda k=k: body(k)))
        assert inside[k].wait(30)
    order = (0, 1) if first_leaves_first else (1, 0)
    may_end[order[0]].set()
    assert ended[order[0]].wait(30)
    assert blas_threads() == {1}
    may_end[order[1]].set()
    assert ended[order[1]].wait(30)
    assert blas_threads() == {SEVERAL}
    may_die.set()
    for worker in workers:
        worker.join(30)


def test_many_fits_in_threads_leave_the_threads_as_they_were(several, rng):
    X = rng.standard_normal((60, 3))
    counts = []

    def body(k):
        seen = []
        for _ in range(5):
            spying(KernelRidgeRegressor, seen).fit(X[k:], X[k:, 0])
        counts.extend(seen)

    workers = [in_thread(lambda k=k: body(k)) for k in range(6)]
    for worker in workers:
        worker.join(60)
    assert counts == [{1}] * 30
    assert blas_threads() == {SEVERAL}


def test_limits_inside_limits_hold_to_the_end_of_the_outer(several, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "2")
    with one_blas_thread():
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
        assert pool.map_in_pool(lambda _: blas_threads(), range(4)) == [{1}] * 4
        assert blas_threads() == {1}
    assert blas_threads() == {SEVERAL}


def test_work_in_the_pool_has_one_blas_thread_each(several, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "2")
    assert pool.map_in_pool(lambda _: blas_threads(), range(4)) == [{1}] * 4
    assert blas_threads() == {SEVERAL}


def test_a_forked_process_waits_for_no_thread_of_its_parent():
    code = """if True:
        import os, threading
        from gpukfl._accel.limits import _limit, one_blas_thread
        held, done = threading.Event(), threading.Event()
        def hold():
            with one_blas_thread(), _limit._lock:
                held.set()
                done.wait(30)
        threading.Thread(target=hold).start()
        held.wait(30)
        child = os.fork()
        if child == 0:
            with one_blas_thread():
                os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        done.set()
    """
    if not hasattr(os, "fork"):
        pytest.skip("processes are not forked here")
    assert run(code) == "7"


def run(code, **environment):
    environment = {k: v for k, v in os.environ.items() if k not in VARIABLES} | environment
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


# ---------------------------------------------------------------------- how many


def test_with_nothing_exported_every_core_is_used(nothing_exported):
    assert pool.n_threads() == joblib.cpu_count()


@pytest.mark.parametrize("name", VARIABLES)
def test_each_variable_limits_the_pool(name, nothing_exported, monkeypatch):
    monkeypatch.setenv(name, "1")
    assert pool.n_threads() == 1


def test_only_our_own_variable_asks_for_more_threads_than_cores(nothing_exported, monkeypatch):
    many = joblib.cpu_count() + 5
    monkeypatch.setenv("OMP_NUM_THREADS", str(many))
    assert pool.n_threads() == joblib.cpu_count()
    monkeypatch.setenv("GPUKFL_NUM_THREADS", str(many))
    assert pool.n_threads() == many


def test_our_own_variable_stands_above_the_others(nothing_exported, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "3")
    assert pool.n_threads() == 3


def test_of_nested_numbers_of_openmp_the_outermost_counts(nothing_exported, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1,4")
    assert pool.n_threads() == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_cores_that_the_process_may_not_run_on_do_not_count():
    code = (
        "import os; os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1]);"
        "from gpukfl._accel.threads import n_threads; print(n_threads())"
    )
    assert run(code) == "1"


def test_workers_of_joblib_share_the_cores(nothing_exported):
    n_jobs = joblib.cpu_count()
    with joblib.parallel_config("loky", n_jobs=n_jobs):
        found = joblib.Parallel()(joblib.delayed(pool.n_threads)() for _ in range(n_jobs))
    get_reusable_executor().shutdown()
    assert found == [1] * n_jobs


# ---------------------------------------------------------------------- torch


@pytest.fixture
def several_threads(torch):
    """Torch with several threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(SEVERAL)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("given", ["torch", "numpy"])
@pytest.mark.usefixtures("several_threads")
def test_torch_has_one_thread_for_few_samples(given, torch, data, monkeypatch):
    seen = []

    class Spy(KernelRidgeRegressor):
        def _read_targets(self, *args, **kwargs):
            seen.append(torch.get_num_threads())
            return super()._read_targets(*args, **kwargs)

    X, y = map(torch.asarray, data) if given == "torch" else data
    Spy(ridge=0.1, backend="torch").fit(X, y)
    assert torch.get_num_threads() == SEVERAL
    monkeypatch.setattr(_threads, "_FEW_ROWS", len(X))
    Spy(ridge=0.1, backend="torch").fit(X, y)
    assert seen == [1, SEVERAL]


@pytest.mark.usefixtures("torch")
def test_torch_has_one_thread_though_it_is_imported_later():
    code = (
        "from gpukfl._accel.limits import one_openmp_thread, one_sklearn_openmp_thread\n"
        "with one_sklearn_openmp_thread(): pass\n"
        "import torch; torch.set_num_threads(2)\n"
        "with one_openmp_thread(): print(torch.get_num_threads())"
    )
    assert run(code) == "1"


@pytest.mark.usefixtures("several_threads")
def test_torch_is_left_alone_where_it_does_not_compute(torch, data):
    with _threads.limit_threads(data[0], len(data[0]), "numpy"):
        assert torch.get_num_threads() == SEVERAL


@pytest.mark.usefixtures("several_threads")
def test_the_limit_does_not_change_what_torch_finds(torch, data, monkeypatch):
    X, y = map(torch.asarray, data)
    found = []
    for few in (0, len(X) + 1):
        monkeypatch.setattr(_threads, "_FEW_ROWS", few)
        found.append(KernelRidgeRegressor(ridge=1e-6, random_state=0).fit(X, y).predict(X).numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)
