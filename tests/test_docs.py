"""The code of the README and the quickstart works as it stands, and so do the commands."""

import ast
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
GUIDES = (
    "one_method",
    "groups_and_time",
    "monotone",
    "uncertainty",
    "inference",
    "report",
    "scores",
    "probabilities",
    "explain",
    "tables",
    "coming_from",
    "cluster",
    "losses",
    "deploy",
    "later_rows",
)
PAGES = (
    "README.md",
    pytest.param("docs/quickstart.md", marks=pytest.mark.slow),
    "docs/extend/kernel.md",
    "docs/extend/penalty.md",
    "docs/extend/description.md",
    *(pytest.param(f"docs/guide/{name}.md", marks=pytest.mark.slow) for name in GUIDES),
)
MAIN_JOB = 'python -m pip install ".[plot]" && gpukfl fit diabetes --report report.html'
TESTS = 'python -m pip install ".[test]" && python -m pytest'


# What an expression gives
STATED = re.compile(r"^(\w.*)  # (\d+|\[.*\]|\(.*\)|'.*')$", re.MULTILINE)


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name, language):
    """Line number and text of each code block of a language."""
    text = text_of(name)
    for found in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield text.count("\n", 0, found.start(1)), found[1]


@pytest.mark.parametrize("name", PAGES)
def test_code_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = list(blocks(name, "python"))
    assert found
    assert len(found) == text_of(name).count("```python")
    namespace = {"__name__": "__main__"}
    for line, code in found:
        # Empty lines in front, so that a traceback shows the line of the document
        exec(compile("\n" * line + code, str(ROOT / name), "exec"), namespace)
        for expression, value in STATED.findall(code):
            assert eval(expression, namespace) == ast.literal_eval(value), expression


def test_readme_gives_two_commands():
    commands = [block.strip() for _, block in blocks("README.md", "bash")]
    assert commands[:2] == [MAIN_JOB, TESTS]
    assert not any("pytest" in command for command in commands[2:])
    assert text_of("README.md").count(f"<!-- test command -->\n```bash\n{TESTS}\n```\n") == 1


@pytest.mark.slow
def test_readme_has_the_table_of_the_benchmarks():
    marked = r"<!-- comparison -->\n(.*)<!-- end of comparison -->"
    code = """
import pathlib, sys
from tables import site
sys.stdout.write(site.page("first_look.md", pathlib.Path("results")))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT / "benchmarks",
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    found = re.search(marked, text_of("README.md"), re.DOTALL)
    assert found[1] == done.stdout, "put docs/_generated/first_look.md of make_tables.py there"


def test_main_job_is_a_command():
    from gpukfl.cli._options import make_parser

    options = make_parser().parse_args(MAIN_JOB.split("&& gpukfl ")[1].split())
    assert (options.data, options.report) == ("diabetes", "report.html")
