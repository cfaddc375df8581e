"""The processes that run the tests, whatever the shell that started them exports."""

import os
import pathlib
import subprocess
import sys

import pytest
from threadpoolctl import threadpool_info

from gpukfl._accel.threads import n_threads

ROOT = pathlib.Path(__file__).parents[1]


def test_this_process_has_one_thread_for_each_library():
    pools = threadpool_info()
    assert "blas" in {pool["user_api"] for pool in pools}
    assert {pool["num_threads"] for pool in pools} == {1}
    assert n_threads() == 1


@pytest.mark.slow
def test_the_shell_does_not_set_the_threads():
    exported = {"OMP_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "3", "GPUKFL_NUM_THREADS": "3"}
    this = "tests/test_surroundings.py::test_this_process_has_one_thread_for_each_library"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", this],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | exported,
    )
    assert done.returncode == 0, done.stdout
