"""The command for a day on a GPU names scripts that are there, and goes on where one fails."""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "gpu_day.sh"


def test_every_benchmark_it_names_exists():
    text = SCRIPT.read_text(encoding="utf-8")
    (named,) = re.findall(r"^for name in (.*); do$", text, re.MULTILINE)
    for name in named.split():
        script = ROOT / "benchmarks" / f"bench_{name}.py"
        assert "args.backend" in script.read_text(encoding="utf-8"), name


def test_a_step_that_fails_is_told_and_the_others_run(tmp_path):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "ran $*"\ncase "$*" in *selftest*) exit 1;; esac\n')
    python.chmod(0o755)
    surroundings = {**os.environ, "PYTHON": str(python), "SMOKE": "1"}
    out = tmp_path / "results"
    done = subprocess.run(
        ["bash", str(SCRIPT), str(out)],
        capture_output=True,
        text=True,
        check=False,
        env=surroundings,
    )
    assert done.returncode == 1
    assert done.stdout.endswith("FAILED: selftest\n")
    assert "ran -m gpukfl selftest --full --samples 2000 --out" in done.stdout
    assert "bench_gpu.py --smoke --backend cupy" in done.stdout
    assert "-k cupy tests" in done.stdout
    assert (out / "gpu_model.log").exists()
