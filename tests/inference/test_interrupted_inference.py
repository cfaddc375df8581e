"""Inference that is interrupted keeps what is done, and says what is not."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interruption import interrupt
from sklearn.exceptions import ConvergenceWarning

from gpukfl import KernelRidgeRegressor
from gpukfl.estimators._run import use_report
from gpukfl.inference import (
    _conditional,
    _infer,
    _interactions,
    bands,
    conditional_importance,
    infer,
    interactions,
)
from gpukfl.inference._stepwise import map_all_or_nothing, map_with_progress

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 4))
Y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * RNG.standard_normal(len(X))
MODEL = KernelRidgeRegressor(ridge=0.01, lengthscale=2.0, random_state=0).fit(X[:60], Y[:60])
NEW = X[60:], Y[60:]
SMALL = {"n_permutations": 99}


@settings(max_examples=30, deadline=None)
@given(count=st.integers(1, 8), stop=st.integers(0, 10))
def test_items_before_an_interruption_are_kept(count, stop):
    seen = []

    def work(k):
        if k == stop:
            raise KeyboardInterrupt
        return k * k

    def run():
        with use_report(lambda stage, *_: seen.append(stage)):
            return map_with_progress("squares", range(count), work)

    if stop == 0:
        with pytest.raises(KeyboardInterrupt):
            run()
    elif stop < count:
        with pytest.warns(ConvergenceWarning, match=f"squares: interrupted, {stop} of {count}"):
            assert run() == [k * k for k in range(stop)]
    else:
        assert run() == [k * k for k in range(count)]
    done = min(stop + 1, count)
    assert seen == [f"squares, {k + 1} of {count}" for k in range(done)]


def test_items_that_are_of_no_use_alone_are_all_done_or_none():
    assert map_all_or_nothing("doubles", range(3), lambda k: 2 * k) == [0, 2, 4]
    with pytest.raises(KeyboardInterrupt):
        map_all_or_nothing("doubles", range(3), lambda k: [][k] if k < 0 else _stop(k))


def _stop(k):
    if k:
        raise KeyboardInterrupt
    return k


@pytest.mark.parametrize("after", [1, 3])
def test_groups_before_an_interruption_are_those_of_the_whole(monkeypatch, after):
    whole = conditional_importance(MODEL, *NEW, **SMALL)
    interrupt(monkeypatch, _conditional._Copies, "redraw", after)
    with pytest.warns(ConvergenceWarning, match=f"interrupted, {after} of 4"):
        found = conditional_importance(MODEL, *NEW, **SMALL)
    assert (found.groups, found.unfinished) == (whole.groups[:after], whole.groups[after:])
    for name in ("importances", "standard_errors", "p_values", "explained"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name)[:after])
    assert f"interrupted before {whole.groups[after]}" in found.summary()
    assert len(found.frame()) == after


def test_an_interruption_before_the_first_group_raises(monkeypatch):
    interrupt(monkeypatch, _conditional._Copies, "redraw", 0)
    with pytest.raises(KeyboardInterrupt):
        conditional_importance(MODEL, *NEW, **SMALL)


def test_pairs_before_an_interruption_are_those_of_the_whole(monkeypatch):
    whole = interactions(MODEL, *NEW, **SMALL)
    make = _interactions.make_dependence

    def dependence_of(*given):
        found = make(*given)
        one = SimpleNamespace(
            exact=found.exact, evaluate=found.evaluate, may_interact=found.may_interact
        )
        interrupt(monkeypatch, one, "evaluate", 1 + 4 + 2)  # the mean, single features, two pairs
        return one

    monkeypatch.setattr(_interactions, "make_dependence", dependence_of)
    with pytest.warns(ConvergenceWarning, match="interrupted, 2 of 6"):
        found = interactions(MODEL, *NEW, **SMALL)
    assert (found.sets, found.unfinished) == (whole.sets[:2], whole.sets[2:])
    np.testing.assert_array_equal(found.h, whole.h[:2])
    assert len(found.p_values) == 2
    assert "interrupted: 2 of 6 pairs are done" in found.summary()


def test_bands_before_an_interruption_are_kept(monkeypatch):
    def struck(*given):
        calls.append(given)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return 2.0

    calls = []
    monkeypatch.setattr("gpukfl.inference._bands.largest_deviation", struck)
    with pytest.warns(ConvergenceWarning, match="bands: interrupted, 2 of 4"):
        found = bands(MODEL, *NEW, held_out=True)
    assert len(found) == 2
    assert len(found.unfinished) == 2
    assert f"interrupted before {found.unfinished[0]}" in found.summary()


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize(
    ("name", "kept"),
    [("conditional_importance", ["bands"]), ("interactions", ["importance", "bands"])],
)
def test_parts_before_an_interruption_are_kept(monkeypatch, tmp_path, name, kept):
    def struck(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(_infer, name, struck)
    with pytest.warns(ConvergenceWarning, match="inference: interrupted before"):
        found = infer(MODEL, *NEW, held_out=True)
    assert list(found.parts) == kept
    assert found.unfinished[-1] == "interactions"
    assert not found.is_complete
    assert "was interrupted" in found.in_words()
    found.report(tmp_path / "page.html")


def test_a_part_that_is_cut_off_ends_the_inference(monkeypatch):
    interrupt(monkeypatch, _conditional._Copies, "redraw", 2)
    with pytest.warns(ConvergenceWarning, match="interrupted, 2 of 4"):
        found = infer(MODEL, *NEW, held_out=True)
    assert (list(found.parts), found.unfinished) == (["importance", "bands"], ("interactions",))
    assert not found.is_complete


def test_steps_are_shown_when_asked(capfd):
    conditional_importance(MODEL, *NEW, **SMALL, progress=True)
    interactions(MODEL, *NEW, **SMALL)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") <= 2  # a live line, which is gone in the end
    stages = []
    with use_report(lambda stage, *_: stages.append(stage)):
        infer(MODEL, *NEW, held_out=True)
    assert "conditional importance, 4 of 4" in stages
    assert "interactions, 6 of 6" in stages
