"""``gpukfl explain``: what it prints and writes, and what it refuses."""

from io import StringIO

import numpy as np
import pandas as pd
import pytest
from command_line import run

import gpukfl

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(RNG.normal(size=(90, 2)), columns=["a", "b"])
TABLE["kind"] = RNG.choice(["up", "down"], 90)
TABLE["y"] = 2.0 * TABLE["a"] + (TABLE["kind"] == "up") + 0.1 * RNG.normal(size=90)
TABLE["class"] = np.array(["low", "mid", "top"])[np.digitize(TABLE["y"], [-0.5, 1.0])]
INPUTS = ["a", "b", "kind"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Models of numbers and of classes, one of a single method, and rows in two files."""
    where = tmp_path_factory.mktemp("explained")
    options = {"members": ["linear"], "random_state": 0, "n_folds": 3, "progress": False}
    for name in ("y", "class"):
        gpukfl.fit(TABLE[[*INPUTS, name]], name, method="auto", **options).save(where / name)
    alone = {"method": "hkrr", "n_components": 1, "ridge": 1e-2, "progress": False}
    gpukfl.fit(TABLE[["a", "b"]], TABLE["y"], **alone).save(where / "single")
    TABLE[INPUTS][:4].to_csv(where / "one.csv", index=False)
    TABLE[INPUTS][4:6].to_csv(where / "two.csv", index=False)
    TABLE[["a", "b"]].to_csv(where / "all.csv", index=False)
    return where


def read(out):
    return pd.read_csv(StringIO(out))


def test_lines_sum_to_the_prediction(capsys, files):
    status, out, err = run(capsys, "explain", files / "y", files / "one.csv", files / "two.csv")
    assert (status, err) == (0, "")
    table = read(out)
    names = [f"contribution_{name}" for name in INPUTS]
    assert list(table.columns) == ["row", "prediction", "baseline", *names]
    assert list(table["row"]) == list(range(6))
    np.testing.assert_allclose(table["baseline"] + table[names].sum(axis=1), table["prediction"])
    model = gpukfl.load(files / "y")
    np.testing.assert_allclose(table["prediction"], model.predict(TABLE[INPUTS][:6]))
    found = model.explain(TABLE[INPUTS][:6])
    np.testing.assert_allclose(table[names], found.contributions, atol=1e-12)


def test_classes_have_a_line_each(capsys, files):
    out = run(capsys, "explain", files / "class", files / "one.csv", "--output", "probability")[1]
    table = read(out)
    assert list(table["output"][:4]) == ["low", "mid", "top", "low"]
    p = gpukfl.load(files / "class").predict_proba(TABLE[INPUTS][:4])
    np.testing.assert_allclose(table["prediction"], p.ravel())


def test_groups_and_files(capsys, files, tmp_path):
    out = tmp_path / "parts.csv"
    more = ["--group", "both=a,kind", "--out", out]
    assert run(capsys, "explain", files / "y", files / "one.csv", *more) == (0, "", "")
    assert list(pd.read_csv(out).columns[3:]) == ["contribution_both", "contribution_b"]


def test_a_single_method_is_given_a_background(capsys, files):
    asked = ["explain", files / "single", files / "all.csv"]
    status, out, err = run(capsys, *asked)
    assert (status, out) == (2, "")
    assert "expected background=" in err
    status, out, _ = run(capsys, *asked, "--background", files / "all.csv")
    assert status == 0
    assert len(read(out)) == 90


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--group", "a"], "expected --group NAME=COLUMN,COLUMN, got 'a'"),
        (["--group", "g=a", "--group", "g=b"], "different names in --group, got 'g' twice"),
        (["--group", "g=q"], "expected groups= to name columns of the table, got 'q'"),
        (["--max-time", "0"], "expected max_time to be a number greater than 0"),
    ],
)
def test_bad_options(capsys, files, more, text):
    status, out, err = run(capsys, "explain", files / "y", files / "one.csv", *more)
    assert (status, out) == (2, "")
    assert text in err
