"""Members that ask for the scaling that another has chosen are not fitted again."""

import numpy as np
import pytest
from portfolio_cases import X, Y
from sklearn.neighbors import KNeighborsRegressor

from gpukfl import AutoRegressor, KernelRidgeRegressor
from gpukfl.portfolio import _members as _candidates
from gpukfl.portfolio._members import MemberCandidate

TAILS = X**61
RIDGES = {
    "own": KernelRidgeRegressor(ridge=0.01, scaling="auto"),
    "standard": KernelRidgeRegressor(ridge=0.01, scaling="standard"),
    "robust": KernelRidgeRegressor(ridge=0.01, scaling="robust"),
    "smooth": KernelRidgeRegressor(ridge=0.1, scaling="standard"),
}


def notes_of(model, rows):
    return model.fit(rows, Y).leaderboard().set_index("member")["note"]


@pytest.mark.parametrize(("rows", "twin"), [(X, "standard"), (TAILS, "robust")])
def test_what_another_has_chosen_is_not_fitted_again(monkeypatch, rows, twin):
    mine = [row for row in _candidates.CANDIDATES if row.name == "linear"]
    mine += [
        MemberCandidate(name, lambda _, one=one: one, lambda _: "quick")
        for name, one in RIDGES.items()
    ]
    monkeypatch.setattr(_candidates, "CANDIDATES", mine)
    notes = notes_of(AutoRegressor(n_folds=3, random_state=0), rows)
    begun = {name for name, note in notes.items() if "the same" not in note}
    assert notes[twin] == "skipped: same settings as own"
    assert begun >= {"standard", "robust", "smooth", "own"} - {twin}


def test_what_is_asked_for_is_fitted():
    notes = notes_of(AutoRegressor(members=list(RIDGES.items()), n_folds=3), X)
    assert not any("the same" in note for note in notes)


@pytest.mark.filterwarnings("ignore:the blend")
def test_only_members_that_failed_are_named():
    model = AutoRegressor(members=[KNeighborsRegressor()], n_folds=3)
    weights = np.random.default_rng(0).uniform(size=len(X))
    with pytest.raises(RuntimeError, match=r"got none \(KNeighborsRegressor[^;]*\)$"):
        model.fit(X, Y, sample_weight=weights)
