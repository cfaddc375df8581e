"""Folders of Parquet files, and several of them."""

import re

import numpy as np
import pandas as pd
import pytest

import gpukfl
from gpukfl.cli import main
from gpukfl.partitioned import _collections

pytest.importorskip("dask.dataframe")
pytest.importorskip("pyarrow")


@pytest.fixture
def folder(tmp_path):
    """Three files of a table with text in it."""
    rng = np.random.default_rng(0)
    for k in range(3):
        frame = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"])
        frame["kind"] = rng.choice(["up", "down"], 80)
        frame["y"] = 2.0 * frame["a"] + (frame["kind"] == "up")
        frame.to_parquet(tmp_path / f"part.{k}.parquet")
    (tmp_path / "notes.txt").write_text("of no interest")
    return tmp_path


QUICK = ("--effort", "quick", "--target", "y")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_folder_is_fitted_and_scored(folder, capsys):
    assert main(["fit", str(folder), *QUICK, "--out", str(folder / "model.gpukfl")]) == 0
    said = capsys.readouterr().out
    assert "held-out rows" in said
    model = gpukfl.load(folder / "model.gpukfl")
    assert model.feature_names == ["a", "b", "kind"]
    assert model.target_name == "y"
    assert 150 < model.n_samples < 230
    frame = pd.read_parquet(folder / "part.0.parquet")
    assert model.score(frame, frame["y"]) > 0.9


@pytest.mark.filterwarnings("default::UserWarning")
def test_rows_without_a_target_are_left_out_of_files(folder, capsys):
    frame = pd.read_parquet(folder / "part.0.parquet")
    frame.loc[::10, "y"] = np.nan
    frame.to_parquet(folder / "part.0.parquet")
    method = ("--method", "bkernn", "--ridge", "1e-3", "--particles", "10")
    assert main(["fit", str(folder), "--target", "y", *method]) == 0
    out, err = capsys.readouterr()
    assert "held-out rows" in out
    assert re.search(r"warning: y is missing in \d of \d+ rows, which are dropped", err)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_several_files_without_a_test(folder, capsys):
    files = sorted(map(str, folder.glob("*.parquet")))
    given = ["--test-fraction", "0", "--method", "bkernn", "--ridge", "1e-3", "--particles", "10"]
    assert main(["fit", *files, "--target", "y", "--drop", "b", *given]) == 0
    said = capsys.readouterr().out
    assert "240" in said
    assert "held-out rows" not in said


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_there_is_no_score_where_no_row_is_held_out(folder, capsys):
    few = ["--test-fraction", "1e-9", "--method", "bkernn", "--ridge", "1e-3", "--particles", "10"]
    assert main(["fit", str(folder), "--target", "y", *few]) == 0
    said = capsys.readouterr().out
    assert "240" in said
    assert "held-out rows" not in said


def test_rows_that_memory_does_not_hold_are_read_from_disk(monkeypatch, folder):
    import dask.dataframe as dd

    frame = dd.read_parquet(folder)[["a", "b", "y"]]
    monkeypatch.setattr("gpukfl.estimators._dask.SAMPLE", 0)
    monkeypatch.setattr("gpukfl.tables._training.SAMPLE", 0)
    moved, on_disk, found = [], _collections._move_to_disk, []
    monkeypatch.setattr(_collections, "_move_to_disk", lambda x: moved.append(x) or on_disk(x))
    for share in (0.25, 0.0):
        monkeypatch.setattr(_collections, "_MEMORY_SHARE", share)
        model = gpukfl.KernelRidgeRegressor(n_centers=20, ridge=1e-3, lengthscale=1.0)
        model.set_params(random_state=0).fit(frame[["a", "b"]], frame["y"])
        found.append(model.predict(pd.DataFrame({"a": [0.0], "b": [1.0]})))
    assert len(moved) > 1
    np.testing.assert_allclose(*found, rtol=1e-7)


SHARE = "expected --test-fraction of at least 0 and below 1, got "
BAD = {
    "no files": (lambda folder: [str(folder / "empty")], "expected Parquet files"),
    "other files": (
        lambda folder: [str(folder / "part.0.parquet"), str(folder / "notes.txt")],
        "notes.txt",
    ),
    "a target for a file": (
        lambda folder: [str(folder / "part.0.parquet"), "y"],
        "y was not found. Did you mean --target y?",
    ),
    "no file and a target": (
        lambda _: ["nope.csv", "mpg"],
        "mpg was not found. Did you mean --target mpg?",
    ),
    "no such column": (lambda folder: [str(folder), "--target", "z"], "--target"),
    "nothing to drop": (lambda folder: [str(folder), "--drop", "z"], "drop"),
    "more than all rows": (lambda folder: [str(folder), "--test-fraction", "1.5"], SHARE + "1.5"),
    "all rows": (lambda folder: [str(folder), "--test-fraction", "1"], SHARE + "1.0"),
    "less than no row": (lambda folder: [str(folder), "--test-fraction", "-0.1"], SHARE + "-0.1"),
    "no share": (lambda folder: [str(folder), "--test-fraction", "nan"], SHARE + "nan"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_said(name, folder, capsys):
    make, words = BAD[name]
    (folder / "empty").mkdir()
    assert main(["fit", *make(folder)]) != 0
    assert words in capsys.readouterr().err
