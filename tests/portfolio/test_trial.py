"""Of very many rows a member is fitted to few first, and no further where it has no hope."""

import dataclasses

import pytest
from portfolio_cases import Memory, N, Nearly, X, Y, notes, regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge

from gpukfl.core._warnings import warn
from gpukfl.portfolio import _members as _candidates
from gpukfl.portfolio import _race, _standings
from gpukfl.portfolio._members import MemberCandidate

INSIDE, FEW = 2 * N // 3, 20


def sizes_of_fits(monkeypatch, kind, named=False):
    """Fit a member of this kind beside a linear one: rows of its fits, and what is noted of it."""
    sizes, model = fitted(monkeypatch, kind, named)
    return sizes, notes(model)["other"]


def fitted(monkeypatch, kind, named=False):
    """Fit a member of this kind beside a linear one: rows of its fits, and the blend."""
    sizes = []

    class Counting(kind):
        def fit(self, X, y):
            sizes.append(len(X))
            return super().fit(X, y)

    rows = [row for row in _candidates.CANDIDATES if row.name == "linear"]
    rows.append(MemberCandidate("other", lambda _: Counting(), lambda _: "quick"))
    monkeypatch.setattr(_candidates, "CANDIDATES", rows)
    monkeypatch.setattr(_standings, "_MIN_ROWS_TO_DROP", 10)
    monkeypatch.setattr(_race, "_MAX_SAMPLE", FEW)
    members = ["linear", ("other", Counting())] if named else None
    return sizes, regressor(members=members).fit(X, Y)


def test_what_has_no_hope_is_fitted_to_few_rows_alone(monkeypatch):
    monkeypatch.setattr(_race, "_RACE_FROM", INSIDE)
    sizes, note = sizes_of_fits(monkeypatch, Memory)
    assert (sizes, note) == ([FEW], f"dropped after a fit to {FEW} rows: clearly behind")


def test_of_fewer_rows_there_is_no_trial(monkeypatch):
    monkeypatch.setattr(_race, "_RACE_FROM", INSIDE + 1)
    sizes, note = sizes_of_fits(monkeypatch, Memory)
    assert (sizes, note) == ([INSIDE], "dropped after 1 of 3 folds: clearly behind")


@pytest.mark.parametrize("kind", [Nearly, Ridge, Memory], ids=["better", "alike", "behind a bit"])
def test_what_may_be_of_use_is_fitted_to_all_rows(monkeypatch, kind):
    monkeypatch.setattr(_race, "_RACE_FROM", INSIDE)
    if kind is Memory:
        monkeypatch.setattr(_race, "_HOPELESS_RATIO", 1e9)
    sizes, _ = sizes_of_fits(monkeypatch, kind)
    assert sizes[:2] == [FEW, INSIDE]


def notes_of_a_race(monkeypatch, **kinds):
    """Fit members of these kinds beside a linear one, few rows first: what is noted of each."""
    rows = [row for row in _candidates.CANDIDATES if row.name == "linear"]
    for name, kind in kinds.items():
        rows.append(MemberCandidate(name, lambda _, kind=kind: kind(), lambda _: "quick"))
    monkeypatch.setattr(_candidates, "CANDIDATES", rows)
    monkeypatch.setattr(_standings, "_MIN_ROWS_TO_DROP", 10)
    monkeypatch.setattr(_race, "_MAX_SAMPLE", FEW)
    monkeypatch.setattr(_race, "_RACE_FROM", INSIDE)
    monkeypatch.setattr(_race, "_HOPELESS_RATIO", 1e9)
    return notes(regressor(members=None).fit(X, Y))


def test_what_another_member_beats_on_as_few_rows_goes_no_further(monkeypatch):
    told = notes_of_a_race(monkeypatch, first=Nearly, second=Memory)
    assert told["first"] == ""
    assert told["second"] == f"dropped after a fit to {FEW} rows: clearly behind"


@pytest.mark.parametrize("least", [0.005, -1.0])
def test_what_adds_too_little_to_others_on_few_rows_goes_no_further(monkeypatch, least):
    monkeypatch.setattr(_race, "_BEATEN_RATIO", 1e9)
    monkeypatch.setattr(_race, "_MIN_GAIN", least)
    told = notes_of_a_race(monkeypatch, second=Memory, first=Nearly)
    assert told["first"] == ""  # it has lost least with few rows, and goes first
    few = f"dropped after a fit to {FEW} rows: adds too little to the others"
    assert told["second"] == few if least > 0 else told["second"].startswith("dropped after 1 of")


def test_what_a_trial_warns_of_is_not_said(monkeypatch):
    class Outspoken(Nearly):
        def fit(self, X, y):
            warn(f"{len(X)} rows")
            return super().fit(X, y)

    monkeypatch.setattr(_race, "_RACE_FROM", INSIDE)
    sizes, model = fitted(monkeypatch, Outspoken)
    assert sizes[:2] == [FEW, INSIDE]
    assert model.warnings_ == [f"the blend's member other: {INSIDE} rows"]


def test_what_is_named_is_fitted_to_all_rows_at_once(monkeypatch):
    monkeypatch.setattr(_race, "_RACE_FROM", INSIDE)
    sizes, note = sizes_of_fits(monkeypatch, Memory, named=True)
    assert set(sizes) == {INSIDE}
    assert "dropped" not in note


def test_what_is_interrupted_in_a_trial_leaves_the_blend_before(monkeypatch):
    class Interrupted(Memory):
        def fit(self, X, y):
            raise KeyboardInterrupt

    monkeypatch.setattr(_race, "_RACE_FROM", INSIDE)
    with pytest.warns(ConvergenceWarning, match="blended of linear"):
        sizes, note = sizes_of_fits(monkeypatch, Interrupted)
    assert (sizes, note) == ([FEW], "interrupted")


@pytest.mark.parametrize(("name", "goes_on"), [("scales_quantile", True), ("hkrr", False)])
def test_fits_to_all_rows_start_from_the_lengthscales_of_few_but_not_from_directions(
    monkeypatch, name, goes_on
):
    starts = []

    def fit_clone(member, samples, *given):
        if member.name == name:
            starts.append((len(samples), member.start))
        return own(member, samples, *given)

    own = _candidates.Member.fit_clone
    rows = [row for row in _candidates.CANDIDATES if row.name in ("linear", name)]
    rows = [dataclasses.replace(row, like="") for row in rows]
    monkeypatch.setattr(_candidates, "CANDIDATES", rows)
    monkeypatch.setattr(_candidates.Member, "fit_clone", fit_clone)
    monkeypatch.setattr(_race, "_MAX_SAMPLE", FEW)
    monkeypatch.setattr(_race, "_RACE_FROM", INSIDE)
    monkeypatch.setattr(_race, "_HOPELESS_RATIO", 1e9)
    regressor(members=None, effort="normal").fit(X, Y)
    (first, none), (second, found) = starts[:2]
    assert (first, none, second) == (FEW, None, INSIDE)
    assert (found is not None) == goes_on
