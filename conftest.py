"""Surroundings of every test process, set before it imports NumPy, whatever the shell exports.

The process that starts the workers reads this file too, and they inherit its environment.
"""

import importlib
import os
import sys
from pathlib import Path

import pytest

# One worker a core: threads of a library would spin against those of the other worker
_THREADS = (
    "GPUKFL_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
os.environ.update(dict.fromkeys(_THREADS, "1"))
os.environ["MPLBACKEND"] = "Agg"
os.environ["SCIPY_ARRAY_API"] = "1"  # read when SciPy is first imported
os.environ.pop("GPUKFL_BACKEND", None)
# Workers, and what tests start, keep what they compile of the package and of the tests
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let tests run on CuPy where there is none, and no GPU."""
    parser.addoption(
        "--cupy-standin",
        action="store_true",
        help="put the stand-in for CuPy (tests/cupy_standin) in its place",
    )
    parser.addoption(
        "--every-place",
        action="store_true",
        help="every library in every precision, also for code that cannot know where it runs, and"
        " every combination of parameters",
    )
    parser.addoption(
        "--cupy-device",
        type=int,
        default=0,
        help="device of the place of CuPy; the current one stays 0, as estimators must bear",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Name our own marker, and put the stand-in in CuPy's place before any test is collected."""
    pairs = "pairs: every two values of its parameters meet, in as few combinations as will do"
    config.addinivalue_line("markers", pairs)
    each = "each: every value of each of its parameters occurs, in as few combinations as will do"
    config.addinivalue_line("markers", each)
    if config.getoption("cupy_standin"):
        sys.path.insert(0, str(Path(__file__).parent / "tests" / "cupy_standin"))
        importlib.import_module("placing").put()
