"""Lines and files of each package, of the working tree or of commits beside each other.

python tools/count_lines.py                  # the files as they are
python tools/count_lines.py 3c712f8 HEAD     # two commits, and what changed between them
"""

from __future__ import annotations

import argparse
import ast
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = "gpukfl"


@dataclass
class Size:
    """Sums over the files of a package."""

    files: int = 0
    lines: int = 0
    code: int = 0
    docstrings: int = 0

    def add(self, text: str) -> None:
        """Count one more file."""
        documented = docstring_lines(text)
        written = {k for k, line in enumerate(text.splitlines(), 1) if is_code(line)}
        self.files += 1
        self.lines += len(text.splitlines())
        self.code += len(written - documented)
        self.docstrings += len(documented)


def is_code(line: str) -> bool:
    """Whether a line is neither blank nor only a comment."""
    bare = line.strip()
    return bool(bare) and not bare.startswith("#")


def docstring_lines(text: str) -> set[int]:
    """Return the numbers of the lines that docstrings take."""
    found: set[int] = set()
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, kinds) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            found |= set(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    return found


def read_files(commit: str | None) -> dict[str, str]:
    """Return the sources of the package by path, of a commit or of the working tree."""
    if commit is None:
        paths = sorted((ROOT / PACKAGE).rglob("*.py"))
        return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}
    listed = run_git("ls-tree", "-r", "--name-only", commit, PACKAGE).splitlines()
    return {name: run_git("show", f"{commit}:{name}") for name in listed if name.endswith(".py")}


def run_git(*arguments: str) -> str:
    """Return what a git command prints."""
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout


def count(commit: str | None) -> dict[str, Size]:
    """Return the size of each package; modules beside the packages are one."""
    found: dict[str, Size] = defaultdict(Size)
    for name, text in read_files(commit).items():
        parts = name.split("/")
        found[parts[1] if len(parts) > 2 else "(top)"].add(text)
        found["all"].add(text)
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commits", nargs="*", help="revisions; none for the working tree")
    commits = parser.parse_args().commits or [None]
    sizes = [count(commit) for commit in commits]
    names = sorted({name for size in sizes for name in size} - {"all"})
    heads = [f"{commit or 'working tree':>24}" for commit in commits]
    print(f"{'':<16}" + "".join(heads))
    print(f"{'package':<16}" + f"{'files':>6}{'lines':>8}{'code':>10}" * len(commits))
    for name in [*names, "all"]:
        row = "".join(
            f"{size[name].files:>6}{size[name].lines:>8}{size[name].code:>10}" for size in sizes
        )
        print(f"{name:<16}{row}")


if __name__ == "__main__":
    main()
