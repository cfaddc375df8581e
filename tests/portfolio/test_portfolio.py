"""Portfolios as estimators: laws, members that fail, time, and data of every kind."""

import functools
import time

import numpy as np
import pandas as pd
import pytest
from interruption import interrupt
from portfolio_cases import (
    QUICK,
    THREE,
    TWO,
    Failing,
    Infinite,
    Memory,
    N,
    Truth,
    Unsure,
    X,
    Y,
    classifier,
    notes,
    regressor,
    weights,
)
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import log_loss, r2_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import gpukfl
from gpukfl.portfolio import _contest

EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": (
        "folds are drawn among the rows, in their order; below for one order"
    )
}


@parametrize_with_checks(
    [
        gpukfl.AutoRegressor(members=["linear", "laplace"], n_folds=3),
        gpukfl.AutoClassifier(members=["linear", "laplace"], n_folds=3),
    ],
    expected_failed_checks=lambda _: EXPECTED,
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_agrees(estimator, check):
    check(estimator)


# ---------------------------------------------------------------------- the blend


def test_a_member_that_knows_the_function_gets_all_weight():
    model = regressor(members=[("truth", Truth()), "linear", "laplace"]).fit(X, Y)
    assert weights(model) == {"truth": 1.0}
    np.testing.assert_allclose(model.predict(X), Y, atol=1e-12)


def test_predictions_are_of_rows_that_were_not_seen():
    model = regressor(members=["linear", ("memory", Memory())]).fit(X, Y)
    assert weights(model) == {"linear": 1.0}


def test_a_member_is_left_by_many_rows_only(monkeypatch):
    members = ["linear", ("memory", Memory())]
    assert notes(regressor(members=members).fit(X, Y))["memory"] == ""
    monkeypatch.setattr(_contest, "_JUDGES", 2 * N // 3)
    told = notes(regressor(members=members).fit(X, Y))
    assert told["memory"] == "left after 2 of 3 folds: clearly behind"


def test_trees_are_shown_even_where_they_are_clearly_behind():
    rng = np.random.default_rng(5)
    A = rng.standard_normal((90, 3))
    model = regressor(members=["linear", "trees"]).fit(A, A @ [1.0, -2.0, 0.5])
    assert notes(model)["trees"] == ""
    board = model.leaderboard().set_index("member")
    assert board.loc["trees", "score"] < board.loc["linear", "score"] == pytest.approx(1.0)
    assert weights(model) == {"linear": 1.0}


def test_copies_are_on_one_side():
    rows = np.tile(np.arange(N), 3)
    model = regressor(members=[("memory", Memory()), "linear"]).fit(X[rows], Y[rows])
    assert weights(model) == {"linear": 1.0}
    assert model._n_samples == N


def test_the_blend_is_the_weighted_mean_of_the_means_of_folds():
    model = regressor(members=["laplace", "linear", ("forest", RandomForestRegressor(10))])
    model.fit(X, Y + 0.3 * np.random.default_rng(0).standard_normal(N))
    expected = sum(
        member.weight * np.mean([one.predict(X) for one in member.models], axis=0)
        for member in model.members_
    )
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-12)
    assert sum(weights(model).values()) == pytest.approx(1.0)
    assert {len(member.models) for member in model.members_} == {3}


def test_out_of_fold_predictions_are_those_of_the_folds_models():
    model = regressor().fit(X, Y)
    kept = model.out_of_fold_
    for k in range(3):
        rows = kept.fold == k
        found = [np.flatnonzero(y == Y)[0] for y in kept.truth[rows, 0]]
        expected = sum(m.weight * m.models[k].predict(X[found]) for m in model.members_)
        np.testing.assert_allclose(kept.predicted[rows, 0], expected, rtol=1e-10)
    board = model.leaderboard().set_index("member")
    score = r2_score(kept.truth, kept.predicted)
    assert board.loc["blend", "score"] == pytest.approx(score, abs=0.01)


def test_trees_are_shown_and_not_blended_where_they_are_not_asked_for():
    model = regressor(members=["linear"]).fit(X, Y)
    assert weights(model) == {"linear": 1.0}
    assert np.isfinite(model.leaderboard().set_index("member").loc["trees", "score"])


@pytest.mark.parametrize("members", [None, "kernels"])
def test_kernels_are_blended_without_trees(members):
    steps = np.sign(X[:, 0]) * 3 + np.sign(X[:, 1])
    model = regressor(members=members, effort="quick").fit(X, steps)
    assert ("trees" in weights(model)) == (members is None)


def test_refitted_members_have_one_model_each():
    model = regressor(refit=True).fit(X, Y)
    assert {len(member.models) for member in model.members_} == {1}
    assert model.score(X, Y) > 0.9


def test_settings_are_searched_once(monkeypatch):
    found = []
    monkeypatch.setattr(
        gpukfl.estimators._learner,
        "choose",
        lambda *given: found.append(given) or original(*given),
    )
    model = regressor(members=["bkernn"]).fit(X, Y)
    assert len(found) == 1
    assert len({member.ridge_ / 1.0 for member in model.members_[0].models}) >= 1


original = gpukfl.estimators._learner.choose


# ---------------------------------------------------------------------- members that fail


@pytest.mark.parametrize("bad", [Failing(), Infinite()])
def test_a_member_that_fails_is_left_out_and_named(bad):
    with pytest.warns(UserWarning, match="the member broken is left out: "):
        model = regressor(members=["linear", ("broken", bad)]).fit(X, Y)
    assert weights(model) == {"linear": 1.0}
    assert notes(model)["broken"].startswith(("MemoryError: no room", "FloatingPointError"))


def test_no_member_is_an_error_that_says_why():
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(RuntimeError, match=r"got none .*broken: MemoryError: no room"),
    ):
        regressor(members=[("broken", Failing())]).fit(X, Y)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ("forest", "got 'forest'"),
        (["forest"], "got 'forest'"),
        ([], r"got \[\]"),
        ([3], "got 3"),
        ([Unsure()], "expected members to be regressors, got Unsure"),
        (["linear", "linear"], "different names, got linear, linear"),
    ],
)
def test_members_that_are_none_are_named(members, expected):
    with pytest.raises(ValueError, match=expected):
        regressor(members=members).fit(X, Y)


@pytest.mark.parametrize(
    "option", [{"effort": "much"}, {"n_folds": 0}, {"refit": 2}, {"max_time": -1}]
)
def test_bad_parameters_are_named(option):
    with pytest.raises((TypeError, ValueError), match=f"expected {next(iter(option))} to be"):
        regressor(**option).fit(X, Y)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("n_folds", ["auto", 1])
def test_few_rows_are_fitted_whole(n, n_folds):
    line = regressor(members=["linear"], n_folds=n_folds).fit(X[:n], X[:n, 0])
    np.testing.assert_allclose(line.predict(X[:n]), X[:n, 0], atol=0.3)
    assert len(line.members_[0].models) == 1
    sides = classifier(members=["laplace"], n_folds=n_folds).fit(X[:n], np.arange(n) % 2)
    np.testing.assert_allclose(sides.predict_proba(X[:n]).sum(axis=1), 1.0)
    for ask in (line.predict_interval, sides.predict_set):
        with pytest.raises(ValueError, match="expected at least 9 rows that were held out"):
            ask(X)


def test_two_rows_are_fitted_by_default():
    model = gpukfl.fit([[0.0], [1.0]], [0.0, 1.0], progress=False, random_state=0)
    low, high = model.predict([[0.0], [1.0]])
    assert 0.0 <= low < 0.5 < high <= 1.0


def test_copies_of_one_row_are_refused():
    with pytest.raises(ValueError, match=r"expected at least 2 different samples, .* got 1"):
        regressor().fit(np.ones((3, 2)), np.ones(3))


def test_classes_of_one_row_are_held_out_once():
    labels = np.where(np.arange(30) == 0, "once", np.where(TWO[:30], "yes", "no"))
    model = classifier(members=["laplace"], n_folds=1).fit(X[:30], labels)
    assert model.predict_proba(X).shape == (N, 3)


def test_fewer_rows_than_folds_leave_one_out():
    model = regressor(members=["linear"], n_folds="auto").fit(X[:6], X[:6, 0])
    assert len(model.members_[0].models) == 6


# ---------------------------------------------------------------------- classes


def test_probabilities_are_mixed():
    model = classifier(members=["linear", "laplace"]).fit(X, THREE)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X), model.classes_[proba.argmax(axis=1)])
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), proba)
    kept, board = model.out_of_fold_, model.leaderboard().set_index("member")
    expected = log_loss(kept.truth.argmax(axis=1), kept.predicted)
    assert board.loc["blend", "log_loss"] == pytest.approx(expected)
    assert board.loc["blend", "brier"] == pytest.approx(
        np.mean(np.sum((kept.truth - kept.predicted) ** 2, axis=1))
    )


def test_a_class_that_a_fold_has_not_seen_is_likely_to_nobody():
    labels = np.where(TWO, "yes", "no").astype(object)
    labels[0] = "once"
    model = classifier(members=["linear"], n_folds=5).fit(X, labels)
    seen = [len(one.classes_) for one in model.members_[0].models]
    assert sorted(set(seen)) == [2, 3]
    proba = model.predict_proba(X)
    assert proba.shape == (N, 3)
    assert (proba > 0).all()


def test_a_member_that_knows_nothing_has_no_score():
    board = classifier(members=[("unsure", Unsure())]).fit(X, TWO).leaderboard()
    score = board.set_index("member").loc["unsure", "score"]
    assert score == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize("make", [regressor, classifier])
def test_a_constant_is_predicted(make):
    with pytest.warns(UserWarning, match="y is constant"):
        model = make().fit(X, np.ones(N, dtype=int))
    np.testing.assert_array_equal(model.predict(X), np.ones(N))


# ---------------------------------------------------------------------- data of every kind


@pytest.mark.parametrize(("make", "y"), [(regressor, Y), (classifier, THREE)])
def test_weights_count_as_copies(make, y):
    counts = np.random.default_rng(0).integers(0, 3, N)
    weighted = make().fit(X, y, sample_weight=counts.astype(float))
    copied = make().fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_array_equal(weighted.predict(X), copied.predict(X))


def test_several_targets_share_their_weights():
    both = np.stack([Y, 100.0 * X[:, 2]], axis=1)
    model = regressor().fit(X, both)
    assert model.predict(X).shape == both.shape
    assert r2_score(both, model.predict(X)) > 0.9
    alone = regressor(members=["trees"]).fit(X, both)
    assert alone.predict(X).shape == both.shape


def test_a_frame_gives_names():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = gpukfl.fit(frame, Y, progress=False, members=["linear", "laplace"])
    assert model.method == "auto"
    assert model.feature_names == ["a", "b", "c"]
    assert "blend of" in model.summary()
    again = gpukfl.fit(X, Y, progress=False, members=["linear", "laplace"])
    np.testing.assert_array_equal(model.predict(frame), again.predict(X))


@pytest.mark.parametrize(("make", "y"), [(regressor, Y), (classifier, TWO.astype(int))])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tensors_are_taken_and_given(torch, make, y, dtype):
    there = torch.asarray(X.astype(dtype))
    model = make().fit(there, torch.asarray(y))
    found = model.predict(there)
    assert isinstance(found, torch.Tensor)
    expected = make().fit(X, y).predict(X)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-2)
    np.testing.assert_allclose(model.to_host().predict(X.astype(dtype)), found, atol=1e-4)


def test_a_memory_map_is_taken(tmp_path):
    X.tofile(tmp_path / "X")
    rows = np.memmap(tmp_path / "X", dtype=np.float64, mode="r", shape=X.shape)
    np.testing.assert_allclose(
        regressor().fit(rows, Y).predict(X), regressor().fit(X, Y).predict(X)
    )


def test_a_fit_says_the_same_again():
    model = gpukfl.AutoRegressor(effort="quick", random_state=0)
    np.testing.assert_array_equal(model.fit(X, Y).predict(X), clone(model).fit(X, Y).predict(X))


# ---------------------------------------------------------------------- importances


def test_features_that_matter_are_found():
    model = regressor().fit(X, Y)
    importances = model.feature_importances_
    assert importances.sum() == pytest.approx(1.0)
    assert importances[2] < 0.05
    assert importances[:2].min() > 0.1


def test_correlated_features_share():
    twins = np.column_stack([X, X[:, 0] + 1e-3 * X[:, 2]])
    model = regressor().fit(twins, Y)
    assert [0, 3] in model.feature_groups_
    assert model.feature_importances_[0] == model.feature_importances_[3]
    assert "{x0, x3}" in str(model.describe().facts)


def test_importances_that_there_is_no_time_for_are_said_to_be_missing(monkeypatch):
    from gpukfl.portfolio import _importances

    monkeypatch.setattr(_importances, "_MOMENT", 0.0)
    monkeypatch.setattr(_contest.Run, "is_over", lambda *_: True)
    with pytest.warns(UserWarning, match="no time is left for importances"):
        model = regressor(members=["linear"]).fit(X, Y)
    np.testing.assert_array_equal(model.feature_importances_, 0.0)


# ---------------------------------------------------------------------- time


def test_what_is_too_slow_is_not_begun():
    class Slow(Ridge):
        def fit(self, X, y, sample_weight=None):
            time.sleep(0.5)
            return super().fit(X, y)

    begun = time.perf_counter()
    with pytest.warns(ConvergenceWarning, match="time limit|max_time|stopped"):
        model = regressor(members=["linear", ("slow", Slow())], max_time=0.2).fit(X, Y)
    assert weights(model) == {"linear": 1.0}
    assert "too slow" in notes(model)["slow"]
    assert model.status_ == "TIME_LIMIT"
    assert time.perf_counter() - begun < 30


def test_of_many_rows_some_are_fitted_where_time_is_short(monkeypatch):
    class Slow(Ridge):
        def fit(self, X, y, sample_weight=None):
            self.n_rows_ = len(X)
            time.sleep(2e-3 * len(X))
            return super().fit(X, y)

    monkeypatch.setattr(_contest, "_PROBED", 10)
    with pytest.warns(ConvergenceWarning):
        model = regressor(members=[("slow", Slow())], n_folds=3, max_time=1.0).fit(X, Y)
    board = model.leaderboard().set_index("member")
    fitted = {one.n_rows_ for one in model.members_[0].models}
    assert max(fitted) < 60
    assert board.loc["slow", "note"] == f"fitted to {max(fitted)} rows for want of time"
    assert model.status_ == "TIME_LIMIT"


def test_an_interruption_keeps_the_members_that_are_done(monkeypatch):
    interrupt(monkeypatch, _contest.Contest, "_compete", 1)
    with pytest.warns(ConvergenceWarning, match="blended of linear"):
        model = regressor(members=["linear", "laplace"]).fit(X, Y)
    assert weights(model) == {"linear": 1.0}
    assert model.status_ == "INTERRUPTED"
    assert notes(model)["laplace"] == "interrupted"


def test_an_interruption_before_any_member_is_one(monkeypatch):
    interrupt(monkeypatch, _contest.Contest, "_compete", 0)
    with pytest.raises(KeyboardInterrupt):
        regressor().fit(X, Y)


def test_an_interruption_within_our_members_is_heard(monkeypatch):
    from gpukfl.estimators.bkernn._problem import Problem

    interrupt(monkeypatch, Problem, "fit", 2)
    with pytest.warns(ConvergenceWarning, match="blended of linear"):
        model = regressor(members=["linear", "bkernn"]).fit(X, Y)
    assert weights(model) == {"linear": 1.0}


def test_progress_tells_of_members_and_folds():
    from gpukfl.estimators._run import reported_to

    said = []
    with reported_to(lambda stage, *_: said.append(stage)):
        regressor(members=["linear", "bkernn"], n_folds=3).fit(X, Y)
    assert any("blend" in stage and "bkernn, fold 3 of 3: " in stage for stage in said)


def test_members_of_others_are_cloned():
    mine = LinearRegression()
    regressor(members=[("mine", mine)]).fit(X, Y)
    assert not hasattr(mine, "coef_")
    assert QUICK["members"] == ["linear", "laplace"]


# ---------------------------------------------------------------------- what is said and drawn


@pytest.mark.parametrize(("make", "y"), [(regressor, Y), (classifier, THREE)])
@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.filterwarnings("ignore:BKerNNClassifier after 200 iterations")  # of jumps in labels
def test_a_small_model_imitates_the_blend(make, y, refit):
    model = make(refit=refit).fit(X, y)
    small = model.distilled("bkernn")
    assert small.loss == small.score_of_blend - small.score
    assert small.loss < 0.5
    labels = model.predict(X) if make is regressor else model.predict_proba(X).argmax(axis=1)
    assert small.model.score(X, labels) > 0.9
    with pytest.raises(ValueError, match="expected method to be one of"):
        model.distilled("forest")


def test_models_of_one_method_have_no_members():
    model = gpukfl.fit(X, Y, method="bkernn", ridge=0.01, n_particles=4, progress=False)
    uncertain = (model.predict_interval, model.predict_quantiles, model.predict_set)
    asks = [model.leaderboard, model.distilled, *(functools.partial(ask, X) for ask in uncertain)]
    for ask in asks:
        with pytest.raises(TypeError, match="expected a model of method 'auto'"):
            ask()
    blend = gpukfl.fit(X, Y, members=["linear"], n_folds=2, progress=False)
    assert next(iter(blend.leaderboard()["member"])) in ("linear", "blend", "trees")
    with pytest.raises(TypeError, match="with learned directions, got method 'auto'"):
        blend.transform(X)


@pytest.mark.parametrize(("make", "y"), [(regressor, Y), (classifier, THREE)])
def test_it_is_drawn_and_reported(make, y, tmp_path):
    pytest.importorskip("matplotlib")
    model = make(members=["linear", "bkernn"]).fit(X, y)
    model.plot().draw_without_rendering()
    names = [panel.name for panel in model.describe().panels]
    held_out = ["predictions", "residuals"] if make is regressor else ["reliability"]
    assert names[-len(held_out) :] == held_out
    shown = [label.get_text() for label in model.plot("leaderboard").get_yticklabels()]
    assert {label.split(" (")[0] for label in shown} == {"linear", "bkernn", "trees", "blend"}
    model.report(tmp_path / "r.html")
    assert "share of bkernn" in (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "options", [{"ridge": 0.1}, {"scaling": "robust"}, {"penalty": "variable"}]
)
def test_what_members_choose_is_not_asked_for(options):
    with pytest.raises(ValueError, match="with method 'auto'"):
        gpukfl.fit(X, Y, **options)
