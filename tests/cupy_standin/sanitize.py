"""Repeat recorded launches under sanitizers.

    CUPY_STANDIN_RECORD=folder python -m pytest -n 0 --cupy-standin tests/cupy_standin/test_bits.py
    python tests/cupy_standin/sanitize.py folder

Of each kernel a few launches are repeated, with a thread of the CPU for each of CUDA's: under the
sanitizers of addresses and of undefined behaviour, and under that of threads. The exit status is 1
where one of them complains.
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
SANITIZERS = ("address,undefined", "thread")
BYTES = 2**20  # of a launch, at most: a thread for each of CUDA's is slow


def chosen(folder: pathlib.Path) -> list[pathlib.Path]:
    """Give the smallest and the largest launches of each kernel that are not too large."""
    by_kernel = collections.defaultdict(list)
    for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_size):
        if path.stat().st_size <= BYTES:
            by_kernel[path.name.split("-", 2)[2]].append(path)
    return [path for paths in by_kernel.values() for path in {paths[0], paths[-1]}]


def built(source: pathlib.Path, sanitizer: str) -> pathlib.Path:
    """Compile a source with what repeats its launches."""
    target = source.with_suffix("." + sanitizer.replace(",", "-"))
    options = source.with_suffix(".options").read_text("ascii").split()
    command = ["g++", "-x", "c++", "-std=c++20", "-g", "-O1", "-pthread", "-rdynamic", "-DREPLAYED"]
    command += [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", *options]
    command += ["-include", str(HERE / "cuda_on_fibers.h"), "-include", str(source)]
    subprocess.run([*command, "-o", str(target), str(HERE / "replay.cpp"), "-ldl"], check=True)
    return target


def main() -> int:
    """Repeat what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder.resolve()
    failed = 0
    for source in sorted((folder / "sources").glob("*.cu")):
        launches = chosen(folder / source.stem)
        for sanitizer in SANITIZERS:
            done = subprocess.run([built(source, sanitizer), *launches], check=False)
            print(f"{source.name}: {sanitizer}: exit status {done.returncode}", flush=True)
            failed += done.returncode != 0
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
