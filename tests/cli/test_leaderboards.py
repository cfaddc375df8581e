"""``gpukfl leaderboard``, and ``gpukfl fit`` with a metric and rows of validation."""

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
PARTS = {"y": ["a", "b", "y"], "class": ["a", "b", "kind", "class"]}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Models of numbers and of classes, and tables with their targets."""
    where = tmp_path_factory.mktemp("scored")
    options = {"members": ["linear"], "random_state": 0, "n_folds": 3, "progress": False}
    for name, columns in PARTS.items():
        gpukfl.fit(TABLE[columns], name, **options).save(where / name)
        TABLE[columns][:60].to_csv(where / f"{name}.csv", index=False)
        TABLE[columns][60:].to_csv(where / f"{name}-new.csv", index=False)
    return where


@pytest.mark.parametrize("name", PARTS)
def test_models_are_scored_on_a_table(capsys, files, name):
    status, out, err = run(capsys, "leaderboard", files / name, files / f"{name}-new.csv")
    assert (status, err) == (0, "")
    expected = gpukfl.load(files / name).leaderboard(TABLE[PARTS[name]][60:], name)
    for words in expected["model"]:
        out = out.replace(words, words.replace(" ", "_"))
    found = pd.read_csv(StringIO(out), sep=r"\s+")
    found["model"] = found["model"].str.replace("_", " ")
    pd.testing.assert_frame_equal(found, expected, rtol=1e-4)


def test_without_a_table_the_scores_are_those_of_the_fit(capsys, files, tmp_path):
    status, out, _ = run(capsys, "leaderboard", files / "y")
    assert status == 0
    assert "for comparison alone" in out
    status, out, _ = run(capsys, "leaderboard", files / "y", "--out", tmp_path / "board.csv")
    assert (status, out) == (0, "")
    found = pd.read_csv(tmp_path / "board.csv", keep_default_na=False)
    assert list(found["member"]) == list(gpukfl.load(files / "y").leaderboard()["member"])


@pytest.mark.filterwarnings("ignore:columns that were not in the fit:UserWarning")
def test_a_table_without_the_target_is_an_error(capsys, files):
    given = "leaderboard", files / "y", files / "class.csv"
    status, _, err = run(capsys, *given)
    assert status == 2
    assert "expected the target to be one of a, b, kind, class, got 'y'" in err


def test_a_fit_takes_a_metric_and_validation(capsys, files, tmp_path):
    given = "fit", files / "class.csv", "--validation", files / "class-new.csv"
    asked = "--effort", "quick", "--metric", "balanced_accuracy", "--test-fraction", "0"
    status, _, _ = run(capsys, *given, *asked, "--out", tmp_path / "model")
    assert status == 0
    model = gpukfl.load(tmp_path / "model")
    assert model.leaderboard().columns[2] == "balanced_accuracy"
    assert len(model.estimator.out_of_fold_.truth) == 30


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        (("--metric", "mae", "--method", "bkernn"), "expected --metric only with --method auto"),
        (
            ("--validation", "x.csv", "--method", "bkernn"),
            "expected --validation only with --method",
        ),
        (
            (
                "--metric",
                "mea",
            ),
            "Did you mean 'mae'",
        ),
        (("--validation", "nowhere.csv"), "nowhere.csv"),
    ],
)
def test_what_a_fit_cannot_take_is_an_error(capsys, files, asked, match):
    status, _, err = run(capsys, "fit", files / "y.csv", *asked)
    assert status == 2
    assert match in err
