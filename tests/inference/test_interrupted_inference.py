"""Inference that is interrupted keeps what is done, and says what is not."""

from types import SimpleNamespace

import numpy as np
import pytest
from fit_cases import Clock
from hypothesis import given, settings
from hypothesis import strategies as st
from interruption import interrupt
from sklearn.exceptions import ConvergenceWarning

from gpukfl import AutoRegressor, KernelRidgeRegressor
from gpukfl.estimators._run import use_report
from gpukfl.inference import (
    Imputer,
    _conditional,
    _infer,
    _interactions,
    bands,
    conditional_importance,
    infer,
    interactions,
)
from gpukfl.inference._stepwise import TimeLimit, map_all_or_nothing, map_with_progress

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
    assert f"stopped before {whole.groups[after]}" in found.summary()
    assert len(found.frame()) == after


def test_a_group_is_left_in_its_middle_when_time_is_over(monkeypatch):
    clock, imputed = Clock(0.0), Imputer.means

    def means(*given):  # of a column, and of what is left of the target
        clock.now += 4.0
        return imputed(*given)

    monkeypatch.setattr(Imputer, "means", means)
    monkeypatch.setattr("time.perf_counter", clock)
    with pytest.warns(ConvergenceWarning, match="time limit was reached .*, 1 of 4"):
        conditional_importance(MODEL, *NEW, max_time=10.0, **SMALL)
    assert clock.now == 12.0


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
    assert "stopped: 2 of 6 pairs are done" in found.summary()


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
    assert f"stopped before {found.unfinished[0]}" in found.summary()


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


# ---------------------------------------------------------------------- time limits


def test_a_limit_keeps_the_items_that_there_was_time_for(monkeypatch):
    clock = Clock(0.0)
    monkeypatch.setattr("time.perf_counter", clock)

    def work(k):
        clock.now += 1.0
        return k

    with pytest.warns(ConvergenceWarning, match="numbers: the time limit .*, 3 of 5"):
        assert map_with_progress("numbers", range(5), work, TimeLimit(2.5)) == [0, 1, 2]
    assert map_with_progress("numbers", range(5), work, TimeLimit(9.0)) == [0, 1, 2, 3, 4]


@given(st.floats(0.01, 1e4), st.sampled_from([1, 2, 3]))
def test_items_that_there_is_time_for_grow_with_the_limit(seconds, power):
    count = TimeLimit(seconds).affordable(7.0, 500, least=5, power=power)
    assert 5 <= count <= 500
    assert count == 500 or 7.0 * seconds < (count + 1) ** power
    assert count == 5 or count**power <= 7.0 * seconds * (1 + 1e-12)
    assert TimeLimit(None).affordable(7.0, 500, least=5, power=power) == 500


def test_parts_that_there_is_no_time_for_are_left_out(monkeypatch):
    clock = Clock(0.0)
    monkeypatch.setattr("time.perf_counter", clock)

    def slow(*_, max_time, **__):
        limits.append(max_time)
        clock.now += 20.0
        return SimpleNamespace(name="bands", unfinished=(), in_words=lambda: "")

    limits = []
    monkeypatch.setattr(_infer, "bands", slow)
    with pytest.warns(ConvergenceWarning, match="reached .* before importance, interactions"):
        found = infer(MODEL, *NEW, held_out=True, max_time=18.0)
    assert limits == [pytest.approx(8.0)]  # 4 of 9 shares
    assert found.unfinished == ("importance", "interactions")
    assert not found.is_interrupted
    assert "reached max_time, before importance, interactions" in found.in_words()


def test_a_limit_that_is_enough_asks_all():
    found = infer(MODEL, *NEW, held_out=True, max_time=1e4)
    whole = infer(MODEL, *NEW, held_out=True)
    assert found.is_complete
    np.testing.assert_array_equal(
        [one.center for one in found.bands], [one.center for one in whole.bands]
    )
    assert set(found.importance.groups) == set(whole.importance.groups)


def test_a_short_limit_takes_the_most_important_groups_first(monkeypatch):
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((300, 5))
    y = rows[:, 3] + 0.3 * rows[:, 1] + 0.1 * rng.standard_normal(300)
    model = AutoRegressor(["linear"], n_folds=2, random_state=0).fit(rows[:150], y[:150])
    with pytest.warns(ConvergenceWarning, match="time limit was reached .*, 1 of 5"):
        found = conditional_importance(model, rows[150:], y[150:], max_time=1e-3, **SMALL)
    assert found.groups == ("x3",)
    assert len(found.unfinished) == 4
    assert found.n_rows < 150
    few = interactions(model, rows[150:], max_time=0.5)
    assert few.n_rows + few.n_background <= 150


def test_bands_of_a_short_limit_are_there():
    few = bands(MODEL, X, Y, max_time=0.5)
    assert len(few) >= 1
    assert all(np.isfinite(one.width).all() for one in few)


@pytest.mark.parametrize("ask", [bands, infer, interactions, conditional_importance])
def test_a_limit_is_a_positive_number(ask):
    with pytest.raises(ValueError, match="max_time"):
        ask(MODEL, *NEW, max_time=0)


# ---------------------------------------------------------------------- progress


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
