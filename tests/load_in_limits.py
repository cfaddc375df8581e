"""Read files in a process of its own, with as much memory and time as a file may take.

Its argument is a folder. Files without a word behind the semicolon are whole: they are read once
before, without limits, so that libraries and compiled code are there. The name of a file is printed
before it is read: if the process ends, the last one is to blame. The name begins with the case of
`model_files` whose rows the file predicts.
"""

import contextlib
import pathlib
import resource
import signal
import sys
import warnings

import numpy as np
from model_files import data_of

import gpukfl
import gpukfl.runtime

SPARE = 100 * 2**20  # bytes that any file may take beside four times its size
SECONDS = 60  # for a file; most take less than a tenth


def read(load, path, rows):
    """Read a file within its limits, and predict; return what is wrong."""
    before = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = before + 4 * path.stat().st_size + SPARE
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    try:
        model = load(path)
    except ValueError as error:
        expected = f"expected a gpukfl model file, got {path}, "
        return "" if str(error).startswith(expected) else f"another error: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    with contextlib.suppress(ValueError):  # of numbers that are not finite
        model.predict(rows)
    return ""


def main(folder):
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    wrong, paths = 0, sorted(pathlib.Path(folder).iterdir())
    for path in paths:
        if path.name.endswith(";"):
            rows = data_of(path.name[:-1])
            gpukfl.load(path).predict(rows)
            with contextlib.suppress(ValueError):  # of members that need scikit-learn
                gpukfl.runtime.load(path).predict(rows)
    for path in paths:
        rows = data_of(path.name.split(";")[0])
        for load in (gpukfl.load, gpukfl.runtime.load):
            print(path.name, load.__module__, end=" ", flush=True)
            signal.alarm(SECONDS)
            found = read(load, path, rows)
            signal.alarm(0)
            wrong += bool(found)
            print(found or "right", flush=True)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
