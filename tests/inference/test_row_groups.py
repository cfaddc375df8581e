"""What inference fits again leaves out whole groups."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression

import gpukfl
from gpukfl.estimators import HKRRRegressor
from gpukfl.estimators.selection import Knockoffs
from gpukfl.inference import bands, conditional_importance, infer, interactions, subspace
from gpukfl.portfolio import _distilled

GROUPS = np.repeat(np.arange(20), 6)
RNG = np.random.default_rng(0)
X = np.column_stack([np.arange(120.0), RNG.normal(size=20)[GROUPS], RNG.normal(size=120)])
Y = X[:, 1] + 0.5 * X[:, 2] + RNG.normal(size=20)[GROUPS] + 0.1 * RNG.normal(size=120)


class Recorder(LinearRegression):
    """A linear model that records the numbers of the rows that it fits."""

    fitted: list = []  # noqa: RUF012 - shared by clones

    def fit(self, X, y, sample_weight=None):
        Recorder.fitted.append(X[:, 0].astype(int))
        return super().fit(X, y, sample_weight)


def test_bands_leave_out_whole_groups_and_are_wider():
    model = Recorder().fit(X, Y)
    plain = bands(model, X, Y, features=[1])
    Recorder.fitted.clear()
    found = bands(model, X, Y, features=[1], row_groups=GROUPS)
    assert len(Recorder.fitted) == 10
    for rows in Recorder.fitted:
        left = set(range(120)) - set(rows.tolist())
        assert not set(GROUPS[list(left)]) & set(GROUPS[rows])
    assert found.curves[0].width.max() > 1.3 * plain.curves[0].width.max()


def test_directions_have_no_more_folds_than_groups():
    few = GROUPS // 5
    model = HKRRRegressor(n_components=1, random_state=0).fit(X[:, 1:], Y, groups=few)
    found = subspace(model, X[:, 1:], Y, row_groups=few)
    assert found.n_folds == 4


def test_bad_groups_are_one_error():
    with pytest.raises(ValueError, match="groups of 120 rows"):
        bands(Recorder().fit(X, Y), X, Y, row_groups=GROUPS[:-1])


class Product(RegressorMixin, BaseEstimator):
    """A model that makes something of a pair that says nothing."""

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return X[:, 0] + 0.5 * X[:, 0] * X[:, 1]


def draw_groups(seed, n_groups=20, size=20):
    """Draw groups of nearly equal rows, and targets whose errors their rows share."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), size)
    rows = rng.normal(size=(n_groups, 3))[groups] + 0.01 * rng.normal(size=(len(groups), 3))
    shared = rng.normal(size=n_groups)[groups]
    return rows, rows[:, 0] + shared + 0.3 * rng.normal(size=len(groups)), groups


def test_an_interaction_that_is_none_is_rarely_found_of_groups():
    below = {"rows": 0, "groups": 0}
    for seed in range(20):
        rows, y, groups = draw_groups(seed)
        model = Product().fit(rows, y)
        how = {"features": [0, 1], "n_permutations": 199, "n_background": 10}
        below["rows"] += interactions(model, rows, y, **how).p_values[0] <= 0.05
        found = interactions(model, rows, y, row_groups=groups, **how)
        below["groups"] += found.p_values[0] <= 0.05
        assert found.n_row_groups == 20
    assert below["groups"] <= 3
    assert below["rows"] >= 5


def test_importance_of_groups_finds_what_matters_and_keeps_groups_whole():
    rows, y, groups = draw_groups(1, size=6)
    model = LinearRegression().fit(rows, y)
    how = {"groups": {"a": [0], "b": [1]}, "n_permutations": 199}
    found = conditional_importance(model, rows, y, row_groups=groups, **how)
    assert found.p_values[0] <= 0.01 < found.p_values[1]
    assert "20 groups" in found.summary()
    # Errors of groups are those of fewer rows
    alike = conditional_importance(model, rows[::6], y[::6], row_groups=groups[::6], **how)
    assert found.standard_errors[0] > 0.5 * alike.standard_errors[0]
    # What groups are called, and which is named first, changes nothing
    renamed = np.array(list("tsrqponmlkjihgfedcba"))[groups]
    again = conditional_importance(model, rows, y, row_groups=renamed, **how)
    np.testing.assert_array_equal(found.p_values, again.p_values)


def test_errors_of_scores_are_those_of_groups():
    rows, y, groups = draw_groups(2)
    blend = gpukfl.AutoRegressor(members=["linear"], random_state=0)
    plain = blend.fit(rows, y, groups=groups).leaderboard()["standard_error"].max()
    kept = blend.out_of_fold_
    losses = (kept.truth - kept.predicted)[:, 0] ** 2
    as_rows = np.sqrt(len(y)) * losses.std() / np.sum((kept.truth - kept.truth.mean()) ** 2)
    assert plain > 2.0 * as_rows


def test_a_fit_with_groups_asks_for_those_of_new_rows():
    rows, y, groups = draw_groups(3, size=4)
    model = gpukfl.fit(rows, y, groups=groups, method="bkernn", random_state=0)
    with pytest.warns(UserWarning, match="Pass row_groups"):
        interactions(model, rows, y, n_permutations=9, n_background=5)


def test_rows_that_the_model_has_not_seen_are_tested_beside_those_of_the_fit():
    rows, y, _ = draw_groups(4, size=4)
    model = LinearRegression().fit(rows[:40], y[:40])
    found = infer(model, rows[:40], y[:40], unseen=(rows[40:], y[40:]), max_time=2.0)
    assert found.n_samples == 40
    assert found.importance.n_held_out == 40
    assert found.interactions.p_values is not None
    with pytest.raises(ValueError, match="held_out or unseen"):
        infer(model, rows, y, held_out=True, unseen=(rows, y))
    with pytest.raises(TypeError, match="expected unseen to be a pair"):
        infer(model, rows, y, unseen=rows)


def test_a_distilled_model_is_judged_by_whole_groups(monkeypatch):
    rows, y, groups = draw_groups(5, n_groups=12, size=6)
    blend = gpukfl.AutoRegressor(members=["linear"], n_folds=1, random_state=0)
    blend.fit(rows, y, groups=groups)
    judged, kept = [], blend.out_of_fold_

    def record(truth, weights, **how):
        judged.append(truth)
        return held_out_loss(truth, weights, **how)

    held_out_loss = _distilled.held_out_loss
    monkeypatch.setattr(_distilled, "held_out_loss", record)
    blend.distilled("linear")
    inside = np.isin(kept.truth, judged[0])[:, 0]
    assert 0 < inside.sum() < len(inside)
    assert not set(kept.groups[inside]) & set(kept.groups[~inside])


def test_knockoffs_say_that_they_take_rows_as_independent():
    rows, y, groups = draw_groups(6, n_groups=30, size=3)
    control = Knockoffs(level=0.5)
    model = gpukfl.KernelFeatureSelector(error_control=control, random_state=0)
    with pytest.warns(UserWarning, match="knockoffs need independent rows"):
        model.fit(rows, y, groups=groups)


def test_groups_of_folds_are_those_of_the_fit():
    rows, y, groups = draw_groups(7, size=3)
    blend = gpukfl.AutoRegressor(members=["linear"], n_folds=2, random_state=0)
    blend.fit(rows, y, groups=groups)
    found = conditional_importance(blend, groups={"a": [0]}, n_permutations=99)
    assert (found.n_folds, found.n_row_groups) == (2, 20)
    with pytest.raises(ValueError, match="groups of the fit are known"):
        conditional_importance(blend, row_groups=groups)
