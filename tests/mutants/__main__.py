"""Plant mistakes in a copy of the package, one at a time, and see which of them the tests catch.

    python tests/mutants                    # all, with the tests of this checkout
    python tests/mutants --only cache axis  # those whose description has one of the words
    python tests/mutants --kernels          # those in CUDA sources, on the stand-in for CuPy
    python tests/mutants --suite ../older   # with the tests of another checkout

Only the tests that could see a mistake are run, up to the first that does. A mistake is missed
where they pass, and the exit status then is 1.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from kernels import EQUIVALENT, KERNELS
from planted import ARRAYS, MUTANTS, Mutant

ROOT = pathlib.Path(__file__).parents[2]
SECONDS = 900  # a mistake may make a loop endless; that is caught too
FAILED, PASSED, INTERRUPTED = 1, 0, 2  # exit statuses of pytest; the last for failing imports


def copied(suite: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Copy this checkout's package, and the tests of `suite`, to `folder`."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "gpukfl", folder / "gpukfl", ignore=ignored)
    shutil.copytree(suite / "tests", folder / "tests", ignore=ignored)
    for name in ("pyproject.toml", "conftest.py"):
        if (suite / name).exists():
            shutil.copy(suite / name, folder)
    return folder


def planted(mutant: Mutant) -> str:
    """Source of the file with the mistake.

    Raises
    ------
    ValueError
        If the text to replace is not there exactly once.
    """
    source = (ROOT / "gpukfl" / mutant.path).read_text(encoding="utf-8")
    if source.count(mutant.old) != 1:
        msg = (
            f"{mutant.what}: expected the text once in gpukfl/{mutant.path}, "
            f"got it {source.count(mutant.old)} times: {mutant.old!r}"
        )
        raise ValueError(msg)
    return source.replace(mutant.old, mutant.new)


def _is_there(word: str, folder: pathlib.Path) -> bool:
    """Whether an argument of pytest is an option, or tests of a file that the suite has."""
    return word[:2] == "--" or (folder / word.split("::", maxsplit=1)[0]).exists()


def verdict(mutant: Mutant, folder: pathlib.Path) -> str:
    """Run the tests on the mistake: "caught", "missed" or "timed out"."""
    target = folder / "gpukfl" / mutant.path
    right = target.read_text(encoding="utf-8")
    target.write_text(planted(mutant), encoding="utf-8")
    # Compiled code does not know that a function it calls has changed
    compiled = "compiled-wrong" if mutant.layer == "_accel" else "compiled"
    command = [sys.executable, "-m", "pytest", "-x", "-n", "0", "-p", "no:cacheprovider"]
    command += [word for word in mutant.tests.split() if _is_there(word, folder)]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=os.environ | {"NUMBA_CACHE_DIR": str(folder / compiled), "TMPDIR": str(folder)},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return "timed out"
    finally:
        target.write_text(right, encoding="utf-8")
        shutil.rmtree(folder / "compiled-wrong", ignore_errors=True)
    if done.returncode < 0:  # a kernel that touched a guard page
        return "caught"
    if done.returncode not in (PASSED, FAILED, INTERRUPTED):
        msg = f"{mutant.what}: pytest ended with {done.returncode}\n{done.stdout}{done.stderr}"
        raise RuntimeError(msg)
    return "missed" if done.returncode == PASSED else "caught"


def chosen(words: list[str], mutants: list[Mutant]) -> list[Mutant]:
    """Mistakes whose description has one of the words; all without words."""
    return [m for m in mutants if not words or any(word in m.what for word in words)]


def verdicts(mutants: list[Mutant], suite: pathlib.Path) -> Iterator[str]:
    """Plant them one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(suite, pathlib.Path(folder))
        for mutant in mutants:
            begun = time.perf_counter()
            found = verdict(mutant, copy)
            seconds = time.perf_counter() - begun
            print(f"{found:9s} {seconds:6.1f} s  {mutant.layer:14s} {mutant.what}", flush=True)
            yield found


def told(mutants: list[Mutant], found: list[str]) -> int:
    """Say which mistakes in kernels were missed, and why those that nothing can see."""
    missed = [m.what for m, verdict in zip(mutants, found, strict=True) if verdict == "missed"]
    print(f"{len(found) - len(missed)} of {len(found)} caught")
    for what in missed:
        print(f"missed: {what}: {EQUIVALENT.get(what, 'no reason is known')}")
    return int(any(what not in EQUIVALENT for what in missed))


def main() -> int:
    """Plant what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--suite", type=pathlib.Path, default=ROOT, metavar="CHECKOUT")
    options = parser.parse_args()
    mutants = chosen(options.only, KERNELS if options.kernels else MUTANTS)
    for mutant in mutants:
        planted(mutant)  # that the texts are there is known before the first takes its time
    found = list(verdicts(mutants, options.suite.resolve()))
    if options.kernels:
        return told(mutants, found)
    arrays = sum(mutant in ARRAYS for mutant in mutants)
    print(
        f"{len(found) - found.count('missed')} of {len(found)} caught: "
        f"{arrays - found[:arrays].count('missed')} of {arrays} with arrays, "
        f"{len(found) - arrays - found[arrays:].count('missed')} of {len(found) - arrays} others"
    )
    return int("missed" in found)


if __name__ == "__main__":
    sys.exit(main())
