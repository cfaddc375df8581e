"""Files of the package that one call enters, and how the way down to its deepest call goes.

python tools/trace_files.py                  # the files as they are
python tools/trace_files.py 3c712f8 HEAD     # two commits beside each other
python tools/trace_files.py --way            # also each file on the way down

A stay is a run of calls inside one file. A return is a stay in a file that the way down has left.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parent.parent


class Trace:
    """The files and functions of a package that calls enter, and the way to the deepest one."""

    def __init__(self, package: str) -> None:
        self.prefix = package + os.sep
        self.functions: set[tuple[str, int]] = set()
        self.way: list[str] = []

    def note_call(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call, as `sys.setprofile` reports it."""
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(self.prefix):
            return
        self.functions.add((name, frame.f_code.co_firstlineno))
        way = self.stays(frame)
        if len(way) > len(self.way):
            self.way = way

    def stays(self, frame: FrameType | None) -> list[str]:
        """Return the files from the first call to this one; one that stays in a file adds none."""
        names = []
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith(self.prefix):
                names.append(name.removeprefix(self.prefix))
            frame = frame.f_back
        return [name for name, _ in itertools.groupby(reversed(names))]

    def run(self, call: Callable[[], Any]) -> Any:
        """Make a call and note what it enters, also in threads that it starts."""
        threading.setprofile(self.note_call)
        sys.setprofile(self.note_call)
        try:
            return call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def summary(self) -> dict[str, Any]:
        """Return the counts, and the way down."""
        return {
            "files": len({name for name, _ in self.functions}),
            "functions": len(self.functions),
            "stays": len(self.way),
            "returns": len(self.way) - len(set(self.way)),
            "way": self.way,
        }


def trace_calls() -> dict[str, dict[str, Any]]:
    """Trace fits and predictions of a small frame by the package that is imported."""
    import numpy as np
    import pandas as pd

    import gpukfl

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 4)), columns=["rooms", "area", "age", "distance"])
    frame["price"] = np.sin(frame["rooms"]) + frame["area"] + 0.1 * rng.normal(size=120)
    new = frame.drop(columns="price").head(20)
    package, found = str(Path(gpukfl.__file__).parent), {}
    for name, asked in {"hkrr": {"method": "hkrr"}, "blend": {"effort": "quick"}}.items():
        options = asked | {"random_state": 0, "backend": "numpy", "progress": False}
        gpukfl.fit(frame, "price", **options).predict(new)  # what is imported late is there now
        fit, predict = Trace(package), Trace(package)
        model = fit.run(lambda given=options: gpukfl.fit(frame, "price", **given))
        predict.run(lambda fitted=model: fitted.predict(new))
        found[f"fit, {name}"], found[f"predict, {name}"] = fit.summary(), predict.summary()
    return found


def trace_tree(tree: Path) -> dict[str, dict[str, Any]]:
    """Trace the package of a tree in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    environment |= {"GPUKFL_NUM_THREADS": "1"}  # one thread has the whole way
    command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--json"]
    done = subprocess.run(command, capture_output=True, check=True, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def trace_commit(commit: str) -> dict[str, dict[str, Any]]:
    """Trace the package as a commit has it."""
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(
            ["git", "archive", commit, "gpukfl"], cwd=ROOT, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
        return trace_tree(Path(folder))


def main() -> None:
    """Print a table, or as JSON what the package that is imported does."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commits", nargs="*", help="revisions; none for the working tree")
    parser.add_argument("--way", action="store_true", help="print the files on the way down")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.json:
        print(json.dumps(trace_calls()))
        return
    found = {commit: trace_commit(commit) for commit in options.commits}
    found = found or {"working tree": trace_tree(ROOT)}
    counts = ("files", "functions", "stays", "returns")
    for commit, calls in found.items():
        print(f"{commit:<18}" + "".join(f"{name:>11}" for name in counts))
        for call, counted in calls.items():
            print(f"  {call:<16}" + "".join(f"{counted[name]:>11}" for name in counts))
            if options.way:
                print("".join(f"    {name}\n" for name in counted["way"]), end="")


if __name__ == "__main__":
    main()
