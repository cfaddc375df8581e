"""Every picture of the benchmarks can be drawn again from the results beside it."""

import os
import pathlib
import subprocess
import sys

import pytest

BENCHMARKS = pathlib.Path(__file__).parents[1] / "benchmarks"


@pytest.mark.slow
def test_every_picture_is_drawn_from_its_results(tmp_path):
    for package in ("dask", "matplotlib", "pandas", "psutil", "threadpoolctl"):
        pytest.importorskip(package)
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "redraw.py"), "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MPLBACKEND": "Agg"},
    )
    assert done.returncode == 0, done.stderr
    committed = {path.name for path in (BENCHMARKS / "results").glob("*.png")}
    assert {path.name for path in tmp_path.iterdir()} == committed
