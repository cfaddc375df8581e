"""Fits in threads at once, after a fork, and in processes that are started in odd ways."""

import os
import pathlib
import shutil
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
from brief import bkernn
from sklearn.exceptions import ConvergenceWarning
from small_fits import CASES, X, Y

import gpukfl

TESTS = pathlib.Path(__file__).parent
DEAR = ["weighting, sfgd, classes", "hkrr, classes", "selection"]
AT_ONCE = [
    "weighting, lasso",
    "bkernn, early stopping",
    "regfeal",
    "kernel ridge, cg",
    "brownian kernel ridge",
    *DEAR,
]


def in_four_threads(work):
    """Results of the same work, begun by four threads together."""
    results, begin = [None] * 4, threading.Barrier(4)

    def body(k):
        begin.wait()
        results[k] = work()

    threads = [threading.Thread(target=body, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.few
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.slow if one in DEAR else ()) for one in AT_ONCE]
)
def test_four_fits_at_once_are_four_fits_one_after_another(name):
    case = CASES[name]
    expected, before = case.predict(case.fit(case.new())), list(warnings.filters)
    for predicted in in_four_threads(lambda: case.predict(case.fit(case.new()))):
        np.testing.assert_array_equal(predicted, expected)
    assert list(warnings.filters) == before


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_four_fits_at_once_share_the_threads_of_the_package(monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "2")
    Z = np.random.default_rng(0).standard_normal((700, 5))

    def fit():
        model = gpukfl.BKerNNRegressor(**bkernn(n_particles=100, max_iter=3, random_state=0))
        return model.fit(Z, Z[:, 0]).predict(Z)

    expected = fit()
    for predicted in in_four_threads(fit):
        np.testing.assert_array_equal(predicted, expected)


def test_no_fit_of_ours_changes_the_warnings_filters(monkeypatch):
    """They belong to the process: with threads, what one sets back another may have changed."""
    entered = []
    enter = warnings.catch_warnings.__enter__

    def watched(self):
        entered.append(sys._getframe(1).f_globals["__name__"])
        return enter(self)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        monkeypatch.setattr(warnings.catch_warnings, "__enter__", watched)
        for name in AT_ONCE:
            CASES[name].fit(CASES[name].new())
    assert not [name for name in entered if name.startswith("gpukfl")]


# ---------------------------------------------------------------------- other processes


def run(code, *options, path=TESTS.parent, **environment):
    """Run a program with the package of `path`: what it printed."""
    keep = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    found = os.pathsep.join([str(path), str(TESTS), *filter(None, [keep.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        env={**keep, "PYTHONPATH": found, **environment},
        cwd=path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


EVERY = """
import importlib, pkgutil, warnings
import gpukfl
for module in pkgutil.walk_packages(gpukfl.__path__, "gpukfl."):
    if "cuda" not in module.name:
        importlib.import_module(module.name)
from sklearn.exceptions import ConvergenceWarning
from small_fits import CASES, LABELS, X, Y
warnings.simplefilter("ignore", ConvergenceWarning)
for case in list(CASES.values())[::3]:
    case.predict(case.fit(case.new()))
for y in Y, LABELS:
    print(gpukfl.fit(X[:40], y[:40], method="rkhs_weighting", n_parameters=5).summary())
from gpukfl.cli import main
for arguments in ["--help"], ["fit", "--help"], ["predict", "--help"]:
    try:
        main(arguments)
    except SystemExit as end:
        assert not end.code
"""


@pytest.mark.slow
def test_everything_works_without_docstrings_and_raises_no_warning():
    printed = run(EVERY, "-OO", "-W", "error")
    assert "RKHSWeightingRegressor for y" in printed
    assert "RKHSWeightingClassifier for y" in printed
    assert "usage: gpukfl predict" in printed


FORKED = """
import os, sys, warnings
import numpy as np
import gpukfl
from brief import bkernn
from small_fits import CASES
warnings.simplefilter("ignore")
Z = np.random.default_rng(0).standard_normal((700, 5))
def fit():
    model = gpukfl.BKerNNRegressor(**bkernn(n_particles=100, max_iter=3, random_state=0))
    return model.fit(Z, Z[:, 0]).predict(Z)
for work in [fit, *(lambda c=CASES[n]: c.predict(c.fit(c.new())) for n in sys.argv[1:])]:
    expected = work()
    child = os.fork()
    if not child:
        os._exit(0 if np.array_equal(work(), expected) else 1)
    _, status = os.waitpid(child, 0)
    print(status)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_fits_and_predicts_as_its_parent_did():
    code = FORKED.replace("sys.argv[1:]", repr(AT_ONCE))
    printed = run(code, GPUKFL_NUM_THREADS="2")
    assert printed.split() == ["0"] * (1 + len(AT_ONCE))


@pytest.mark.slow
def test_a_spawned_process_fits_as_its_parent_does():
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    estimator = gpukfl.RKHSWeightingRegressor(
        10, learner="lasso", instantiation="stumps", random_state=0
    )
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        there = processes.submit(estimator.fit, X, Y).result(timeout=300)
    np.testing.assert_array_equal(there.predict(X), estimator.fit(X, Y).predict(X))


@pytest.mark.slow
def test_it_works_where_nothing_can_be_written(tmp_path):
    shutil.copytree(
        pathlib.Path(gpukfl.__file__).parent,
        tmp_path / "gpukfl",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for folder in [tmp_path / "gpukfl", *(tmp_path / "gpukfl").rglob("*")]:
        if folder.is_dir():
            (folder / "__pycache__").touch()  # no folder can be made there, not even by root
    nowhere = {name: os.path.join(os.devnull, "home") for name in ("HOME", "XDG_CACHE_HOME")}
    printed = run(
        """
import gpukfl
from gpukfl._accel import cpu, cpu_bins, cpu_decay, cpu_differences, cpu_distances, cpu_lasso
from small_fits import X, Y
print(gpukfl.__file__)
print(gpukfl.BrownianKernelRidge(ridge=0.01).fit(X, Y).score(X, Y) > 0.5)
""",
        path=tmp_path,
        **nowhere,
    )
    assert printed.split() == [str(tmp_path / "gpukfl" / "__init__.py"), "True"]
