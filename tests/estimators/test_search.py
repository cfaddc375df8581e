"""The loop over settings and folds, with folds that say what they were asked."""

from dataclasses import dataclass

import numpy as np
import pytest
from fit_cases import Clock
from sklearn.base import clone

from gpukfl import BKerNNRegressor, KernelRidgeRegressor
from gpukfl.core._places import Place
from gpukfl.estimators._data import HeldOut
from gpukfl.estimators._learner import make_folds
from gpukfl.estimators._run import Run, use_report
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._search import (
    Fold,
    Search,
    Trial,
    Tuner,
    explained_share,
    first_untried_setting,
    hill_climb,
    is_clearly_worse,
)

RNG = np.random.default_rng(0)


class Shrinking:
    """A method whose fit is the share of the truth that its setting names; folds note it."""

    def fit_fold(self, fold, setting, start, _):
        fold.reached.append((setting, start))
        if setting == "overflow":
            raise FloatingPointError
        if setting == "interrupt":
            raise KeyboardInterrupt
        return float(setting)

    def predict_fold(self, fold, learned):
        return learned * fold.held_out.Y


@dataclass
class Listed(Tuner):
    """Settings one after another, each begun from the last."""

    settings: list
    first: bool = False  # whether the first is the choice, whatever the scores

    def propose(self, trials):
        return first_untried_setting(self.settings, trials)

    def starts(self, _, trials):
        return trials[-1].learned if trials else ()

    def choose(self, trials):
        return trials[0] if self.first else super().choose(trials)

    def describe_trial(self, trial):
        return {"setting": trial.setting}


def folds():
    return [
        Fold(None, HeldOut(Y, Y, np.ones((len(Y), 1))), [])
        for Y in (RNG.standard_normal((10, 2)), RNG.standard_normal((15, 2)))
    ]


def search(settings, share=1.0, run=None, first=False):
    tuner = Listed(settings, first)
    return Search(Shrinking(), folds(), tuner, run or Run(None, 0, 0), share)


def test_every_setting_is_tried_on_every_fold_and_starts_where_the_last_ended():
    one = search([0.5, 1.0, 0.0])
    one.go()
    assert [trial.setting for trial in one.trials] == [0.5, 1.0, 0.0]
    for fold in one.folds:
        assert fold.reached == [(0.5, None), (1.0, 0.5), (0.0, 1.0)]
    assert one.trials[1].score == 1.0
    errors = sum(np.sum(0.25 * fold.held_out.Y**2) for fold in one.folds)
    spread = sum(np.sum((f.held_out.Y - f.held_out.Y.mean(axis=0)) ** 2) for f in one.folds)
    assert one.trials[0].score == pytest.approx(1.0 - errors / spread)


def test_what_overflows_is_the_worst_and_starts_nothing():
    one = search([0.5, "overflow", 1.0])
    one.go()
    assert [trial.score for trial in one.trials][1] == -np.inf
    assert one.trials[1].learned == []
    assert one.folds[0].reached[-1] == (1.0, None)


def test_a_setting_that_falls_behind_is_not_tried_on_the_other_folds():
    one = search([0.9, 0.0, 0.95])
    one.racing = True
    one.go()
    first, second = ([setting for setting, _ in fold.reached] for fold in one.folds)
    assert (first, second) == ([0.9, 0.0, 0.95], [0.9, 0.95])
    behind = one.trials[1]
    assert behind.learned == []
    error = np.sum(one.folds[0].held_out.Y ** 2)
    spread = one.folds[0].held_out.spread
    assert behind.score == pytest.approx(one.trials[0].score - 0.99 * error / spread)


def test_a_setting_runs_against_the_choice_and_not_against_a_higher_score():
    one = search([0.5, 1.0, 0.6, 0.0], first=True)
    one.racing = True
    one.go()
    assert [setting for setting, _ in one.folds[1].reached] == [0.5, 1.0, 0.6]
    behind = one.trials[3]
    assert behind.learned == []
    assert behind.score < one.trials[0].score


def test_nothing_runs_against_what_has_overflowed():
    one = search(["overflow", 0.5], first=True)
    one.racing = True
    one.go()
    assert [setting for setting, _ in one.folds[1].reached] == [0.5]


def test_behind_is_by_more_than_the_standard_error_of_the_difference():
    best = np.zeros(100)
    even = np.tile([1.0, -1.0], 50)
    assert not is_clearly_worse(even + 0.09, best)
    assert is_clearly_worse(even + 0.11, best)
    assert not is_clearly_worse(best, best)
    assert is_clearly_worse(np.full(100, np.nan), best)


def test_behind_by_rows_of_groups_is_as_by_the_sums_of_groups():
    more, best = np.random.default_rng(0).standard_normal((2, 20))
    more = more + 0.5
    assert is_clearly_worse(more, best)
    # Ten copies of each row say no more than one, and are not a hundred more judges
    copies, groups = (np.repeat(one, 10) for one in (more, np.arange(20)))
    few = np.repeat(best, 10)
    for shift in np.linspace(-0.5, 0.5, 21):
        apart = is_clearly_worse(copies + shift, few, groups)
        assert apart == is_clearly_worse(more + shift, best)


def test_an_interruption_keeps_the_trials_that_are_whole():
    one = search([0.5, "interrupt", 1.0])
    with pytest.raises(KeyboardInterrupt):
        one.go()
    assert [trial.setting for trial in one.trials] == [0.5]


def test_one_setting_is_tried_however_late_it_is(monkeypatch):
    monkeypatch.setattr("time.perf_counter", Clock(1.0))
    one = search([0.5, 1.0], share=0.5, run=Run(1.0, 0, 0))
    one.go()
    assert len(one.trials) == 1


def test_targets_that_do_not_vary_are_judged_by_their_errors():
    Y = np.ones((4, 1))
    spread = HeldOut(Y, Y, Y).spread
    assert explained_share(0.5, spread) == -0.5
    assert explained_share(np.nan, spread) == -np.inf


def test_a_climb_goes_up_by_more_than_the_gain_only():
    trials = [Trial(k, score) for k, score in enumerate([0.2, 0.5, 0.505, 0.52, 0.1])]
    assert hill_climb(trials, lambda _: 0.01).setting == 3
    assert hill_climb(trials, lambda _: 0.1).setting == 1
    assert hill_climb(trials, lambda score: 0.5 * (1.0 - score)).setting == 0
    assert hill_climb(trials, lambda _: 0.01, first=3).setting == 3
    assert hill_climb(trials, lambda _: 0.1, first=3).setting == 2
    assert first_untried_setting([1, 7], trials) == 7
    assert first_untried_setting([1], trials) is None


def test_reports_go_to_those_who_asked_last_and_only_while_they_ask(capfd):
    seen = []
    history = type("Steps", (), {"objective": [2.0], "seconds": [0.5]})()
    with use_report(lambda *_: seen.append("outer")), use_report(lambda *a: seen.append(a)):
        inside = Run(None, 0, 1)
    inside.tell("fit", 2, history)
    Run(None, 0, 0).tell("fit", 2, history)
    assert seen == [("fit", 2, history)]
    assert capfd.readouterr().err == "fit: iteration    3  objective 2  0.5 s\n"


def test_a_run_begins_with_the_settings_of_an_estimator():
    run = Run.from_settings(clone(KernelRidgeRegressor(random_state=7)))
    assert run.remaining_seconds() is None
    assert not run.is_over()
    assert run.rng.randint(100) == np.random.RandomState(7).randint(100)


def test_as_many_centres_as_there_is_time_for(monkeypatch):
    now, asked = [0.0], []
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def work(count):
        asked.append(count)
        now[0] += count**2 * 1e-6

    assert Run(None, 0, 0).affordable(5000, work, times=1) == 5000
    assert Run(9.0, 0, 0).affordable(300, work, times=1) == 300
    assert asked == []  # nothing is measured where nothing is to be decided
    run = Run(5.53, 0, 0)  # of which 1.53 s are spent on finding out
    count = run.affordable(5000, work, times=1)
    assert asked == [300, 1200]
    assert count == pytest.approx(2000, abs=1)
    assert run.affordable(1000, work, times=1) == 1000
    now[0] = 100.0
    assert run.affordable(5000, work, times=1) == 300


@pytest.mark.parametrize(("limit", "expected"), [(None, 5), (1.0, 5), (1e-3, 1)])
def test_a_large_fold_is_the_only_one_whatever_the_clock_says(limit, expected):
    method = BKerNNRegressor(random_state=0)._method()
    samples = Samples(RNG.standard_normal((60, 3)), RNG.standard_normal((60, 1)), None)
    place, run = Place(np, "cpu", "float64"), Run(limit, 0, 0)

    assert len(make_folds(method, samples, place, run, method.splits)) == expected
