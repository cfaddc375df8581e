"""Groups and times on the command line: the score is of new groups, or of later rows."""

import numpy as np
import pandas as pd
import pytest
from command_line import run

import gpukfl
from gpukfl.inference import _held_out

N = 100
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "a": RNG.normal(size=N),
        "who": [f"p{k // 5}" for k in range(N)],
        "day": pd.date_range("2024-01-01", periods=N).strftime("%Y-%m-%d"),
    }
)
FRAME["y"] = FRAME["a"] + 0.1 * RNG.normal(size=N)


@pytest.fixture
def table(tmp_path):
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


@pytest.fixture
def parts(monkeypatch):
    """Return the rows that were fitted, and those that were scored."""
    found, score = {}, _held_out.score_held_out

    def watched(model, X, y):
        found["held out"] = X
        found["fitted"] = FRAME.drop(index=X.index)
        return score(model, X, y)

    monkeypatch.setattr(_held_out, "score_held_out", watched)
    return found


def fit(capsys, table, *options):
    return run(
        capsys, "fit", table, "--method", "bkernn", "--particles", "10", "--ridge", "0.01", *options
    )


def test_new_groups_are_scored(capsys, table, parts, tmp_path):
    out = tmp_path / "m.gpukfl"
    status, said, _ = fit(capsys, table, "--groups", "who", "--drop", "day", "--out", out)
    assert (status, "20 held-out rows" in said) == (0, True)
    assert not set(parts["held out"]["who"]) & set(parts["fitted"]["who"])
    assert gpukfl.load(out).feature_names == ["a"]


def test_later_rows_are_scored(capsys, table, parts):
    status, _, _ = fit(capsys, table, "--time", "day", "--gap", "7 days", "--drop", "who")
    assert status == 0
    assert list(parts["held out"].index) == list(range(80, 100))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--groups", "nobody"], "expected --groups to be one of a, who, day"),
        (["--time", "day", "--gap", "7"], "gap to be a timedelta"),
        (["--gap", "7"], "time= with gap="),
        (["--time", "day", "--gap", "90 days"], "a gap that leaves"),
    ],
)
def test_bad_options_are_one_error(capsys, table, options, said):
    status, _, err = fit(capsys, table, *options)
    assert status != 0
    assert said in err
