"""Notebooks of the documentation run from top to bottom, and keep no outputs."""

import json
import pathlib

import pytest

FOLDER = pathlib.Path(__file__).parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))


def cells_of(name, kind):
    found = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    return [cell for cell in found["cells"] if cell["cell_type"] == kind]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_keep_no_outputs(name):
    cells = cells_of(name, "code")
    assert cells
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    identifiers = [cell["id"] for kind in ("code", "markdown") for cell in cells_of(name, kind)]
    assert len(set(identifiers)) == len(identifiers)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_run(name, tmp_path, monkeypatch, capsys):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for k, cell in enumerate(cells_of(name, "code"), start=1):
        code = "".join(cell["source"])
        exec(compile(code, f"{name}, code cell {k}", "exec"), namespace)
    pyplot.close("all")
    assert 0.2 < namespace["scores"]["r2"] < 0.7
    assert 0.75 < namespace["inside"].mean() <= 1.0
    assert "R² 0." in capsys.readouterr().out
