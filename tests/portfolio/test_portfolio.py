"""Portfolios as estimators: laws, the blend, classes, importances, and what is said and drawn."""

import functools
import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from interruption import interrupt
from portfolio_cases import (
    THREE,
    TWO,
    Memory,
    N,
    Nearly,
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
from sklearn.linear_model import Ridge
from sklearn.metrics import brier_score_loss, log_loss, r2_score

import gpukfl
from gpukfl import HKRRRegressor
from gpukfl.inspection import Directions, Leaderboard
from gpukfl.portfolio import Member, _importances, _standings
from gpukfl.portfolio import _held_out_blend as _kept
from gpukfl.portfolio import _members as _candidates
from gpukfl.portfolio._folds import SquaredError
from gpukfl.portfolio._members import MemberCandidate
from gpukfl.portfolio._refit import choose_refit

CLASS_PANELS = ["reliability", "roc", "confusion"]

# ---------------------------------------------------------------------- the blend


def test_a_member_that_knows_the_function_gets_all_weight():
    model = regressor(members=[("truth", Truth()), "linear", "laplace"]).fit(X, Y)
    assert weights(model) == {"truth": 1.0}
    np.testing.assert_allclose(model.predict(X), Y, atol=1e-12)


def test_predictions_are_of_rows_that_were_not_seen():
    model = regressor(members=["linear", ("memory", Memory())]).fit(X, Y)
    assert weights(model) == {"linear": 1.0}


def test_a_member_is_left_by_many_rows_only(monkeypatch):
    rows = [row for row in _candidates.CANDIDATES if row.name == "linear"]
    rows.append(MemberCandidate("memory", lambda _: Memory(), lambda _: "quick"))
    monkeypatch.setattr(_candidates, "CANDIDATES", rows)
    assert notes(regressor(members=None).fit(X, Y))["memory"] == ""
    monkeypatch.setattr(_standings, "_MIN_ROWS_TO_DROP", 2 * N // 3)
    told = notes(regressor(members=None).fit(X, Y))
    assert told["memory"] == "dropped after 2 of 3 folds: clearly behind"


def test_of_many_judges_a_member_as_good_as_the_blend_is_left(monkeypatch):
    rows = [row for row in _candidates.CANDIDATES if row.name == "linear"]
    for name in ("first", "second"):
        rows.append(MemberCandidate(name, lambda _: Ridge(1e-9), lambda _: "quick"))
    monkeypatch.setattr(_candidates, "CANDIDATES", rows)
    monkeypatch.setattr(_standings, "_MIN_ROWS_TO_DROP", N // 3)
    assert notes(regressor(members=None).fit(X, Y))["second"] == ""
    monkeypatch.setattr(_standings, "_MANY_ROWS", N // 3)
    monkeypatch.setattr(_standings, "_MIN_GAIN", 0.05)
    told = notes(regressor(members=None).fit(X, Y))
    assert told["second"] == "dropped after 1 of 3 folds: clearly behind"


@pytest.mark.parametrize("behind", ["left", "in the end", ""])
def test_what_is_like_a_member_that_is_clearly_behind_is_not_begun(monkeypatch, behind):
    model = Memory if behind else Nearly
    rows = [row for row in _candidates.CANDIDATES if row.name == "linear"]
    rows.append(MemberCandidate("first", lambda _: model(), lambda _: "quick"))
    rows.append(MemberCandidate("second", lambda _: model(), lambda _: "quick", like="first"))
    monkeypatch.setattr(_candidates, "CANDIDATES", rows)
    monkeypatch.setattr(_standings, "_MIN_ROWS_TO_DROP", 2 * N // 3 if behind == "left" else N)
    told = notes(regressor(members=None).fit(X, Y))
    left = "dropped after 2 of 3 folds: clearly behind" if behind == "left" else ""
    assert told["first"] == left
    skipped = "skipped: first, which is similar, is clearly worse"
    assert told["second"] == (skipped if behind else "")


def test_a_member_that_is_named_is_tried_to_the_end(monkeypatch):
    monkeypatch.setattr(_standings, "_MIN_ROWS_TO_DROP", N // 3)
    model = regressor(members=["linear", ("memory", Memory())]).fit(X, Y)
    assert notes(model)["memory"] == ""
    board = model.leaderboard().set_index("member")
    assert board.loc["memory", "score"] < board.loc["linear", "score"]
    assert weights(model) == {"linear": 1.0}


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


def test_the_last_fit_begins_from_the_mean_of_the_folds(monkeypatch):
    starts, real = [], HKRRRegressor.fit_like

    def noted(self, rows, y, weights, like, **options):
        starts.append(like)
        return real(self, rows, y, weights, like, **options)

    monkeypatch.setattr(HKRRRegressor, "fit_like", noted)
    regressor(members=["scales_standard"], refit="both").fit(X, Y)
    assert [start is None for start in starts] == [True, False, False, False]
    assert [start.setting.n_fits for start in starts[1:]] == [1, 1, 3]


def test_what_was_held_out_once_is_fitted_in_the_end():
    auto, given = (regressor(n_folds=1, **o).fit(X, Y) for o in ({}, {"refit": True}))
    np.testing.assert_array_equal(auto.predict(X), given.predict(X))
    without = regressor(n_folds=1, refit=False).fit(X, Y)
    assert np.abs(without.predict(X) - auto.predict(X)).max() > 1e-6
    np.testing.assert_array_equal(without.out_of_fold_.predicted, auto.out_of_fold_.predicted)
    many = [regressor(n_folds=2, **o).fit(X, Y) for o in ({}, {"refit": False})]
    np.testing.assert_array_equal(many[0].predict(X), many[1].predict(X))


@pytest.mark.parametrize(("make", "y", "n_folds"), [(regressor, Y, 3), (classifier, THREE, 1)])
def test_a_whole_model_counts_as_much_as_those_of_the_folds(make, y, n_folds):
    options = {"members": ["laplace"], "n_folds": n_folds}
    folds, alone, both = (make(refit=how, **options).fit(X, y) for how in (False, True, "both"))
    assert [len(model.members_[0].models) for model in (folds, alone, both)] == [
        *(n_folds, 1),
        n_folds + 1,
    ]
    assert [model.whole_ for model in (folds, alone, both)] == [False, True, True]
    assert [model._has_fold_models for model in (folds, alone, both)] == [True, False, True]
    outputs = [np.asarray(model._outputs(X)) for model in (folds, alone, both)]
    if make is classifier:
        outputs = [np.exp(np.log(one) * both.temperature_) for one in outputs]
        outputs = [one / one.sum(axis=1, keepdims=True) for one in outputs]
    np.testing.assert_allclose(outputs[2], (outputs[0] + outputs[1]) / 2, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(both.out_of_fold_.predicted, folds.out_of_fold_.predicted)


@pytest.mark.parametrize(
    ("n", "n_folds", "whole"),
    [
        *((199, 2, False), (200, 2, True), (200, 9, True), (200, 10, False)),
        *(pytest.param(n, 11, n == 2_000, marks=pytest.mark.slow) for n in (1_999, 2_000)),
    ],
)
def test_of_many_rows_folds_lack_too_much(rng, n, n_folds, whole):
    rows = rng.standard_normal((n, 2))
    model = regressor(members=["linear"], n_folds=n_folds).fit(rows, rows[:, 0])
    assert model.whole_ is whole
    assert len(model.members_[0].models) == n_folds + whole


@pytest.mark.parametrize(("left", "how"), [(None, "both"), (2.6, "both"), (2.4, "")])
def test_a_whole_model_is_begun_where_there_is_time(left, how):
    fold = SimpleNamespace(outside=range(400))
    fold.source = SimpleNamespace(inside=SimpleNamespace(relations=None))
    entry = SimpleNamespace(seconds=10.0)
    trainer = SimpleNamespace(
        stopped=False,
        cut_short=False,
        fitter=SimpleNamespace(folds=[fold] * 5),
        standings=SimpleNamespace(weights=np.ones(1), finished=[entry]),
    )
    run = SimpleNamespace(remaining_seconds=lambda: left)
    assert choose_refit("auto", trainer, 2_000, run) == how  # 2 seconds a fold, of four fifths


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_models_of_folds_stay_where_the_last_fit_fails(monkeypatch, error):
    without = regressor(n_folds=1, refit=False).fit(X, Y)

    def fitted(member, samples, *given):
        if len(samples) == len(X):
            raise error
        return original(member, samples, *given)

    original = Member.fit_clone
    monkeypatch.setattr(Member, "fit_clone", fitted)
    with pytest.warns(UserWarning, match="interrupted|blend is not refitted to all rows"):
        model = regressor(n_folds=1).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), without.predict(X))
    assert model.status_ == ("INTERRUPTED" if error is KeyboardInterrupt else "CONVERGED")


def test_settings_are_searched_once(monkeypatch):
    found = []
    monkeypatch.setattr(
        gpukfl.estimators._learner,
        "choose_setting",
        lambda *given: found.append(given) or original(*given),
    )
    model = regressor(members=["bkernn"]).fit(X, Y)
    assert len(found) == 1
    assert len({member.ridge_ / 1.0 for member in model.members_[0].models}) >= 1


original = gpukfl.estimators._learner.choose_setting


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
    expected = brier_score_loss(kept.truth.argmax(axis=1), kept.predicted)
    assert board.loc["blend", "brier"] == pytest.approx(expected)


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


# ---------------------------------------------------------------------- importances


def test_features_that_matter_are_found():
    model = regressor().fit(X, Y)
    importances = model.feature_importances_
    assert importances.sum() == pytest.approx(1.0)
    assert importances[2] < 0.05
    assert importances[:2].min() > 0.1


@pytest.mark.parametrize("n_folds", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_what_matters_does_not_depend_on_the_order_of_rows(rng, n_folds):
    rows = rng.uniform(-1, 1, (2_500, 3))
    rows = rows[np.argsort(rows[:, 0])]
    y = 3 * rows[:, 0] + rows[:, 1] + 0.1 * rng.standard_normal(len(rows))
    model = regressor(members=["linear"], n_folds=n_folds).fit(rows, y)
    np.testing.assert_allclose(model.feature_importances_, [0.9, 0.1, 0.0], atol=0.03)


def test_correlated_features_share():
    twins = np.column_stack([X, X[:, 0] + 1e-3 * X[:, 2]])
    model = regressor().fit(twins, Y)
    assert [0, 3] in model.feature_groups_
    assert model.feature_importances_[0] == model.feature_importances_[3]
    assert "{x0, x3}" in str(model.describe().facts)


def test_importances_that_there_is_no_time_for_are_said_to_be_missing(monkeypatch):
    monkeypatch.setattr(_importances, "_MIN_SECONDS", 0.0)
    model = regressor(members=["linear"], max_time=100.0).fit(X, Y)
    model._pending_importances = replace(model._pending_importances, max_time=0.0)
    with pytest.warns(UserWarning, match="no time for importances"):
        shares = model.feature_importances_
    np.testing.assert_array_equal(shares, 0.0)


def test_importances_wait_for_their_first_look(tmp_path, monkeypatch):
    calls = []
    real = _kept.permutation_importances
    monkeypatch.setattr(
        _kept,
        "permutation_importances",
        lambda *given, **more: calls.append(1) or real(*given, **more),
    )
    model = regressor().fit(X, Y)
    copies = pickle.loads(pickle.dumps(model)), model.to_host(), clone(model).fit(X, Y)
    assert calls == []
    shares, errors = model.feature_importances_, model.feature_importances_error_
    assert len(calls) == 1
    model.describe()
    model.save(tmp_path / "m", record=False)
    assert len(calls) == 1  # and never again
    for copy in copies:
        np.testing.assert_array_equal(copy.feature_importances_, shares)
        np.testing.assert_array_equal(copy.feature_importances_error_, errors)
        assert copy.feature_groups_ == model.feature_groups_
    loaded = gpukfl.load(tmp_path / "m").estimator
    np.testing.assert_array_equal(loaded.feature_importances_, shares)


@pytest.mark.parametrize("record", [True, False])
def test_saving_computes_the_importances(tmp_path, record):
    model = regressor(members=["linear"]).fit(X, Y)
    model.save(tmp_path / "m", record=record)
    assert "feature_importances_" in vars(model)
    found = gpukfl.load(tmp_path / "m").estimator.feature_importances_
    np.testing.assert_array_equal(found, model.feature_importances_)


def test_a_second_fit_has_its_own_importances():
    model = regressor(members=["linear"]).fit(X, Y)
    before = model.feature_importances_
    with pytest.raises(AttributeError, match="feature_importances_"):
        _ = clone(model).feature_importances_
    model.fit(X[:, ::-1], Y)
    assert model.feature_importances_[0] == pytest.approx(before[2], abs=0.05)
    assert model.feature_importances_[2] == pytest.approx(before[0], abs=0.05)


def test_importances_of_replaced_models_are_those_of_the_folds():
    ways = [regressor(members=["linear"], refit=how) for how in (False, True, "both")]
    shares = [model.fit(X, Y).feature_importances_ for model in ways]
    np.testing.assert_array_equal(shares[0], shares[1])
    np.testing.assert_allclose(shares[0], shares[2], rtol=1e-12)


def test_importances_that_are_interrupted_are_of_fewer_rows(monkeypatch):
    model = regressor(members=["linear"]).fit(X, Y)
    later, full = model.to_host(), model.feature_importances_error_
    monkeypatch.setattr(_importances, "_BLOCK_ENTRIES", 5 * 40 * X.shape[1] ** 2)  # a fold at once
    interrupt(monkeypatch, _importances._FoldPart, "added_losses", 2)
    with pytest.warns(UserWarning, match="only 60 of 90 rows: they were interrupted"):
        shares = later.feature_importances_
    assert shares.sum() == pytest.approx(1.0)
    assert later.feature_importances_error_[0] > full[0]


def test_importances_that_are_interrupted_at_once_are_not_there(monkeypatch):
    model = regressor(members=["linear"]).fit(X, Y)
    with monkeypatch.context() as patch:
        interrupt(patch, _importances._FoldPart, "added_losses", 0)
        with pytest.raises(KeyboardInterrupt):
            _ = model.feature_importances_
    assert model.feature_importances_.sum() == pytest.approx(1.0)


# ---------------------------------------------------------------------- what is said and drawn


@pytest.mark.few
@pytest.mark.parametrize(
    ("make", "y", "refit"),
    [(regressor, Y, False), (regressor, Y, "both"), (classifier, THREE, True)],
)
@pytest.mark.filterwarnings("ignore:BKerNNClassifier after 200 iterations")  # of jumps in labels
def test_a_small_model_imitates_the_blend(make, y, refit):
    model = make(refit=refit).fit(X, y)
    small = model.distilled("bkernn")
    assert small.loss == small.score_of_blend - small.score
    assert small.loss < 0.5
    assert small.model.score(X, model.predict(X)) > 0.9
    assert small.predict(X).dtype == model.predict(X).dtype
    with pytest.raises(ValueError, match="expected method to be one of"):
        model.distilled("forest")


@pytest.mark.parametrize(("make", "y"), [(regressor, Y), (classifier, THREE)])
def test_a_small_model_is_judged_by_rows_that_its_teachers_have_not_seen(make, y):
    options = {"members": ["laplace", "matern52"], "n_folds": 1}
    models = [make(refit=refit, **options).fit(X, y) for refit in (False, True)]
    before, after = (model.distilled("laplace") for model in models)
    assert before.score == pytest.approx(after.score)
    assert before.score_of_blend == pytest.approx(after.score_of_blend)


def test_a_small_model_is_judged_by_rows_of_all_places(rng):
    rows = rng.uniform(-1, 1, (400, 2))
    rows = rows[np.argsort(rows[:, 0])]
    model = regressor(members=["laplace"], n_folds=1).fit(rows, 3 * rows[:, 0] ** 2 + rows[:, 1])
    assert model.distilled("laplace").score > 0.9


def test_a_small_model_of_one_class_says_it():
    rare = np.where(np.arange(N) % 15 == 0, "rare", "usual")
    small = classifier(members=["linear"]).fit(X, rare).distilled("linear")
    assert set(small.predict(X)) == {"usual"}
    assert abs(small.loss) < 0.5


def test_too_few_rows_for_a_small_model_are_told():
    model = regressor(members=["linear"], n_folds=1).fit(X[:12], Y[:12])
    with pytest.raises(ValueError, match="at least 4 held-out rows, got 3"):
        model.distilled("linear")


def test_models_of_one_method_have_no_members():
    model = gpukfl.fit(X, Y, method="bkernn", ridge=0.01, n_particles=4, progress=False)
    uncertain = (model.predict_interval, model.predict_quantiles, model.predict_set)
    asks = [model.leaderboard, model.distilled, *(functools.partial(ask, X) for ask in uncertain)]
    for ask in asks:
        with pytest.raises(TypeError, match=r"for blends, .*members=\['bkernn'\]"):
            ask()
    blend = gpukfl.fit(X, Y, members=["linear"], n_folds=2, progress=False)
    assert next(iter(blend.leaderboard()["member"])) in ("linear", "blend", "trees")
    with pytest.raises(TypeError, match="with learned directions, got method 'auto'"):
        blend.transform(X)


def test_what_is_of_one_member_says_so():
    model = regressor(members=["linear", "agop"]).fit(X, Y)
    described = model.describe()
    (share,) = (one.weight for one in model.members_ if one.name == "agop")
    directions = described.panel(Directions)
    words = f" of recursive feature machine (agop), {share:.0%} of the blend"
    assert directions.of == words.replace("%", " %")
    assert directions.of in directions.words
    seconds = sum(row["seconds"] for row in model.tuning_ if not row["chosen"])
    assert described.tuning.seconds == pytest.approx(seconds)


def test_a_blend_of_one_member_is_drawn_as_the_blend():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    board = regressor(members=["linear"]).fit(X, Y).describe().panel(Leaderboard)
    _, ax = pyplot.subplots()
    board.draw(ax)
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert sorted(labels) == ["boosted trees", "linear model (100 %)", "weighted blend"]


def test_numbers_of_one_held_out_part_are_said_to_be_of_it():
    told = [regressor(n_folds=k).fit(X, Y).describe().data.target for k in (1, 3)]
    assert ["of 18 held-out rows" in one for one in told] == [True, False]


def test_a_target_that_does_not_vary_leaves_nothing_to_explain():
    judge = SquaredError(np.full((9, 1), 0.1), np.ones(9), np.ones(1))
    assert judge.spread == 0.0
    assert judge.score(judge.losses(judge.truth)) == 0.0


@pytest.mark.parametrize(
    ("make", "y"), [(regressor, Y), pytest.param(classifier, THREE, marks=pytest.mark.slow)]
)
def test_it_is_drawn_and_reported(make, y, tmp_path):
    pytest.importorskip("matplotlib")
    from pictures import panels

    model = make(members=["linear", "bkernn"]).fit(X, y)
    assert "importances" in panels(model.plot())
    names = [panel.name for panel in model.describe().panels]
    held_out = ["predictions", "residuals"] if make is regressor else CLASS_PANELS
    assert names[-len(held_out) :] == held_out
    shown = [label.get_text() for label in model.plot("leaderboard").get_yticklabels()]
    names = {"linear model", "Brownian kernel neural network", "boosted trees", "weighted blend"}
    assert {label.split(" (")[0] for label in shown} == names
    model.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "share of Brownian kernel neural network (bkernn)" in page


@pytest.mark.parametrize(
    "options", [{"ridge": 0.1}, {"scaling": "robust"}, {"penalty": "variable"}]
)
def test_what_members_choose_is_not_asked_for(options):
    with pytest.raises(ValueError, match="with method 'auto'"):
        gpukfl.fit(X, Y, **options)
