"""Where the time of a fit went: all of it, in files and reports too."""

import time

import numpy as np
import pytest
from interruption import interrupt
from portfolio_cases import X, Y, classifier, regressor
from sklearn.exceptions import ConvergenceWarning

import gpukfl
from gpukfl.portfolio import _standings, _train

MEMBERS = ["linear", "laplace"]


@pytest.mark.parametrize("refit", [False, True, "both"])
def test_parts_add_up_to_the_time_of_the_fit(refit):
    begun = time.perf_counter()
    model = regressor(members=MEMBERS, refit=refit).fit(X, Y)
    took = time.perf_counter() - begun
    times = model.fit_times()
    assert times["seconds"].sum() == pytest.approx(took, rel=0.05, abs=0.05)
    assert times["share"].sum() == pytest.approx(1.0)
    assert (times["seconds"] >= 0).all()
    folds = times[times["part"] == "folds"].set_index("member")
    assert folds["fits"].to_dict() == dict.fromkeys([*MEMBERS, "trees"], 3)
    last = set(times["member"][times["part"] == "last fit"])
    assert last == ({one.name for one in model.members_} if refit else set())
    assert ("importances" in set(times["part"])) == (refit is True)


def test_parts_of_a_model_begin_with_its_call():
    begun = time.perf_counter()
    model = gpukfl.fit(X, Y, members=["linear"], n_folds=2)
    took = time.perf_counter() - begun
    assert model.fit_times()["seconds"].sum() == pytest.approx(took, rel=0.05, abs=0.05)
    model.fit(X, Y)
    assert model.fit_times()["seconds"].sum() == pytest.approx(model.seconds, rel=0.05, abs=0.05)
    with pytest.raises(TypeError, match="fit_times is for blends"):
        gpukfl.fit(X, Y, method="bkernn", ridge=0.1, n_particles=2).fit_times()


def test_members_that_are_left_count(monkeypatch):
    monkeypatch.setattr(_standings.Standings, "is_behind", lambda *_: True)
    model = classifier(members=None, effort="quick").fit(X, Y > 0)
    times = model.fit_times()
    folds = times[times["part"] == "folds"].set_index("member")["fits"]
    left = [trial for trial in model.tuning_ if trial["note"].startswith("dropped after")]
    assert left
    assert all(1 <= folds[trial["member"]] <= 3 for trial in left)


def test_parts_of_an_interrupted_fit_add_up(monkeypatch):
    interrupt(monkeypatch, _train.MemberTrainer, "_fit_within_budget", 1)
    begun = time.perf_counter()
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = regressor(members=MEMBERS).fit(X, Y)
    took = time.perf_counter() - begun
    assert model.fit_times()["seconds"].sum() == pytest.approx(took, rel=0.05, abs=0.05)


@pytest.mark.usefixtures("no_pictures")
def test_files_and_reports_have_the_parts(tmp_path):
    model = regressor(members=MEMBERS).fit(X, Y)
    model.save(tmp_path / "m", record=False)
    loaded = gpukfl.load(tmp_path / "m")
    times = model.fit_times()
    assert loaded.fit_times().equals(times)
    assert times["part"].iloc[-1] == "importances, after the fit"
    assert np.isnan(times["share"].iloc[-1])
    loaded.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Where the time went" in page
    assert "folds of kernel ridge, Laplace" in page


def test_a_model_of_an_older_file_has_no_parts():
    model = regressor(members=["linear"]).fit(X, Y)
    del model.fit_times_
    assert len(model.fit_times()) == 0
    assert list(model.fit_times()) == ["part", "member", "fits", "seconds", "share"]
