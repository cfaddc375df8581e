"""Names of members in words, beside the short ones."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import gpukfl
from gpukfl.inspection import Leaderboard
from gpukfl.portfolio._members import NAMES
from gpukfl.portfolio._names import MODELS

PAGE = Path(__file__).parents[2] / "docs" / "methods" / "portfolio.md"
ROWS = np.random.default_rng(0).normal(size=(60, 2))
TARGET = ROWS[:, 0] + np.sin(2 * ROWS[:, 1])


def test_every_member_has_words_of_its_own():
    assert set(NAMES) <= set(MODELS)
    assert len(set(MODELS.values())) == len(MODELS)
    assert all(1 <= len(words.split()) <= 5 for words in MODELS.values())
    assert all(len(words) <= 36 for words in MODELS.values())  # pictures cut what is longer


def test_the_page_of_blends_has_the_same_words():
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    shown = dict(row for row in rows if row[0] in NAMES)
    assert shown == {name: MODELS[name] for name in NAMES}


@pytest.fixture(scope="module")
def named():
    ridge = Ridge()
    members = ["linear", ("kernels", "laplace"), ("matern52", ridge), ridge]
    return gpukfl.fit(ROWS, TARGET, members=members, n_folds=2, progress=False, random_state=0)


def test_words_are_beside_the_names_of_members(named, tmp_path):
    named.save(tmp_path / "m")
    for model in (named, gpukfl.load(tmp_path / "m")):
        board = model.leaderboard()
        assert list(board.columns[:3]) == ["member", "model", "score"]
        expected = {
            "linear": "linear model",
            "trees": "boosted trees",
            "kernels": "kernel ridge, Laplace",
            # Not the words of the member of this name: the user's has it
            "matern52": "Ridge",
            "Ridge, number 4": "Ridge",
            "blend": "weighted blend",
        }
        assert dict(zip(board["member"], board["model"], strict=True)) == expected
        other = model.leaderboard(ROWS, TARGET)
        assert {name: expected[name] for name in other["member"]} == dict(
            zip(other["member"], other["model"], strict=True)
        )


def test_texts_and_pictures_say_both(named, tmp_path):
    told = named.summary()
    blended = [one.name for one in named.estimator.members_]
    words = {"linear": "linear model (linear)", "matern52": "Ridge (matern52)"}
    assert blended
    assert all(words[name] in " ".join(told.split()) for name in words if name in blended)
    board = named.describe().panel(Leaderboard)
    assert {"linear model", "kernels", "matern52"} <= set(board.models)
    named.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "linear model</bdi> <code>linear</code>" in page
    assert "Ridge</bdi> <code>matern52</code>" in page


def test_words_are_of_the_table_where_no_user_chose_names():
    model = gpukfl.fit(ROWS, TARGET, members=["linear", "laplace"], n_folds=2, progress=False)
    assert not hasattr(model.estimator, "model_names_")
    assert "kernel ridge, Laplace" in set(model.leaderboard()["model"])
    single = gpukfl.fit(ROWS, TARGET, method="bkernn", ridge=0.1, progress=False)
    assert list(single.leaderboard(ROWS, TARGET)["model"]) == ["Brownian kernel neural network"]
