"""Folds respect how rows hang together: groups on one side, training before test, given splits."""

import warnings
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    PredefinedSplit,
    TimeSeriesSplit,
    cross_validate,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import gpukfl
from gpukfl import AutoClassifier, AutoRegressor
from gpukfl.core._array import to_host
from gpukfl.estimators import (
    BKerNNRegressor,
    HKRRRegressor,
    KernelFeatureSelector,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    RegFeaLRegressor,
    RKHSWeightingRegressor,
)
from gpukfl.estimators._samples import Samples
from gpukfl.portfolio._uncertainty import Uncertainty
from gpukfl.tables._relations import deal_groups

N, SIZE = 80, 8
GROUPS = np.repeat(np.arange(N // SIZE), SIZE)
TIMES = np.random.default_rng(3).permutation(np.repeat(np.arange(N // 2), 2))


def rng_of(seed):
    return np.random.RandomState(seed)


def draw(n=N, seed=0):
    """Return rows whose first column is their number, and targets."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.arange(n), rng.normal(size=(n, 2))])
    return X, X[:, 1] + 0.3 * rng.normal(size=n)


X, Y = draw()
LABELS = np.where(Y > 0, "b", "a")


class Recorder(RegressorMixin, BaseEstimator):
    """A member that records the numbers of the rows that it fits and predicts."""

    fitted: list = []  # noqa: RUF012 - shared by clones
    predicted: list = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None):
        self.mean_ = float(np.mean(y))
        Recorder.fitted.append(np.sort(X[:, 0].astype(int)))
        return self

    def predict(self, X):
        Recorder.predicted.append(np.sort(X[:, 0].astype(int)))
        return np.full(len(X), self.mean_)


@pytest.fixture
def recorded():
    """Return pairs of rows that a member was fitted to, and first asked about."""
    Recorder.fitted, Recorder.predicted = [], []
    return lambda: list(zip(Recorder.fitted, Recorder.predicted, strict=False))


@pytest.fixture
def searched(monkeypatch):
    """Return pairs of rows of all splits that searches have made."""
    pairs, own = [], Samples.splits

    def splits(self, rng, how):
        found = own(self, rng, how)
        for parts in found:
            numbers = (to_host(part.X)[:, 0].astype(int) for part in parts)
            pairs.append(tuple(map(np.sort, numbers)))
        return found

    monkeypatch.setattr(Samples, "splits", splits)
    return pairs


def blend(kind=AutoRegressor, **options):
    given = {"members": [("recorder", Recorder()), "linear"], "random_state": 0, "refit": False}
    return kind(**{**given, **options})


def assert_apart(pairs, groups=GROUPS):
    assert pairs
    for inside, outside in pairs:
        assert not set(groups[inside]) & set(groups[outside])


def assert_before(pairs, gap=0.0, times=TIMES):
    assert pairs
    for inside, outside in pairs:
        assert times[inside].max() < times[outside].min() - gap


# ------------------------------------------------------------------------------------ laws


@pytest.mark.parametrize("n_folds", [1, 3, 8])
def test_no_group_is_on_both_sides_of_a_blend(recorded, n_folds):
    model = blend(n_folds=n_folds).fit(X, Y, groups=GROUPS)
    assert_apart(recorded()[:n_folds])
    assert model.out_of_fold_.n_folds == n_folds
    held_out = np.sort(model.out_of_fold_.rows[:, 0])
    assert n_folds == 1 or np.array_equal(held_out, np.arange(N))  # each row once


def test_there_are_never_more_folds_than_groups():
    groups = np.arange(N) % 3
    assert blend().fit(X, Y, groups=groups).out_of_fold_.n_folds == 3


@pytest.mark.parametrize("gap", [0, 4])
@pytest.mark.parametrize("n_folds", [1, "auto"])
def test_training_comes_before_test(recorded, gap, n_folds):
    model = blend(n_folds=n_folds).fit(X, Y, time=TIMES, gap=gap)
    assert_before(recorded()[: model.out_of_fold_.n_folds], gap)
    assert model.out_of_fold_.rows[:, 0].size < N  # the first ones are never held out


def test_a_blend_of_times_ends_with_one_model_of_all_rows(recorded):
    model = blend(members=[Recorder()], refit="auto").fit(X, Y, time=TIMES)
    assert model.whole_
    assert len(Recorder.fitted[-1]) == N
    assert all(len(member.models) == 1 for member in model.members_)


def test_groups_and_times_hold_together(recorded):
    groups = TIMES // 10
    model = blend().fit(X, Y, groups=groups, time=TIMES)
    pairs = recorded()[: model.out_of_fold_.n_folds]
    assert_before(pairs)
    assert_apart(pairs, groups)


SEARCHING = [
    BKerNNRegressor(ridge="tune", random_state=0),
    HKRRRegressor(random_state=0),
    KernelFeatureSelector(ridge="auto", random_state=0),
    RegFeaLRegressor(random_state=0),
]


@pytest.mark.parametrize("estimator", SEARCHING, ids=lambda one: type(one).__name__)
def test_searches_of_single_methods_keep_groups_and_times(searched, estimator):
    clone(estimator).fit(X, Y, groups=GROUPS)
    assert_apart(searched)
    searched.clear()
    clone(estimator).fit(X, Y, time=TIMES, gap=1)
    assert_before(searched, 1)


def test_searches_inside_the_folds_of_a_blend_keep_them_too(searched):
    members = [BKerNNRegressor(ridge="tune", random_state=0)]
    blend(members=members, n_folds=3).fit(X, Y, groups=GROUPS)
    assert len(searched) > 3  # the folds, and those of the search
    assert_apart(searched)
    searched.clear()
    blend(members=members).fit(X, Y, time=TIMES)
    assert_before(searched)


def test_calibration_holds_groups_out(searched):
    KernelRidgeClassifier(random_state=0).fit(X, LABELS, groups=GROUPS)
    assert_apart(searched)


def test_with_one_group_left_a_search_takes_ordinary_folds(searched):
    members = [BKerNNRegressor(ridge="tune", random_state=0)]
    blend(members=members, n_folds=2).fit(X, Y, groups=np.arange(N) % 2)
    assert len(searched) > 2


@pytest.mark.parametrize("seed", range(3))
def test_folds_of_classes_have_each_its_share(seed):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 30, 400)
    classes = (groups % 3 == 0) & (rng.uniform(size=400) < 0.9)
    rows, _ = draw(400)
    model = blend(AutoClassifier, members=["linear"], n_folds=5).fit(rows, classes, groups=groups)
    kept = model.out_of_fold_
    shares = [kept.truth[kept.fold == k, 1].mean() for k in range(5)]
    assert max(shares) - min(shares) < 0.12


def test_members_of_scikit_learn_choose_by_the_same_groups():
    seen = []

    class Watched(RidgeCV):
        def fit(self, X, y, sample_weight=None):
            seen.extend(
                (X[inside, 0].astype(int), X[outside, 0].astype(int)) for inside, outside in self.cv
            )
            return super().fit(X, y, sample_weight)

    model = blend(members=[Watched()]).fit(X, Y, groups=GROUPS)
    assert_apart(seen)
    assert model.members_[0].models[0].cv is None  # as it was given


def test_ridges_are_chosen_by_whole_groups():
    """Near-copies make leaving out one row pointless, and groups do not."""
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.normal(size=(20, 4)), 10, axis=0) + 1e-3 * rng.normal(size=(200, 4))
    groups = np.repeat(np.arange(20), 10)
    y = rng.normal(size=20)[groups] + 0.05 * rng.normal(size=200)
    with pytest.warns(UserWarning, match="rows are nearly equal"):
        plain = KernelRidgeRegressor("laplace", random_state=0).fit(rows, y)
    related = KernelRidgeRegressor("laplace", random_state=0).fit(rows, y, groups=groups)
    assert related.ridge_ > 100 * plain.ridge_
    weighting = RKHSWeightingRegressor(random_state=0).fit(rows, y, groups=groups)
    assert max(one["score"] for one in weighting.tuning_) < 0.2


# ------------------------------------------------------------------------------ given splits


def test_splits_of_a_splitter_are_those_of_the_blend(recorded):
    cv = KFold(4)
    blend().fit(X, Y, cv=cv)
    wanted = list(cv.split(X))
    for (inside, outside), (fitted, held_out) in zip(recorded(), wanted, strict=False):
        assert np.array_equal(inside, fitted)
        assert np.array_equal(outside, held_out)


@pytest.mark.parametrize(
    "cv",
    [
        TimeSeriesSplit(4),
        PredefinedSplit(np.arange(N) % 3),
        [(np.arange(40), np.arange(40, N))],
        GroupKFold(4),
    ],
    ids=["times", "predefined", "pairs", "groups"],
)
def test_every_splitter_of_scikit_learn_will_do(cv):
    for estimator in (blend(refit="auto"), BKerNNRegressor(random_state=0)):
        found = estimator.fit(X, Y, groups=GROUPS if isinstance(cv, GroupKFold) else None, cv=cv)
        assert np.isfinite(found.predict(X)).all()


# ----------------------------------------------------------------------------------- frames


def frame():
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(TIMES, unit="D")
    return pd.DataFrame(X, columns=["number", "a", "b"]).assign(
        subject=[f"s{g}" for g in GROUPS], day=days, y=Y
    )


def test_named_columns_are_no_features(recorded):
    members = [("recorder", Recorder()), "linear"]
    kinds = {"number": "numeric"}
    model = gpukfl.fit(frame(), "y", groups="subject", members=members, refit=False, columns=kinds)
    assert model.feature_names == ["number", "a", "b", "day"]
    assert_apart(recorded()[: model.estimator.out_of_fold_.n_folds])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(model.predict(frame())) == N


@pytest.mark.parametrize("text", [False, True])
def test_dates_are_times_and_gaps_are_timedeltas(recorded, text):
    table = frame().drop(columns=["subject", "y"])
    if text:
        table["day"] = table["day"].dt.strftime("%d.%m.%Y")
    model = blend().fit(table, Y, time="day", gap=timedelta(days=3))
    assert_before(recorded()[: model.out_of_fold_.n_folds], 3)
    assert model.n_features_in_ == 3
    assert len(model.predict(table)) == N


def test_single_methods_take_names_and_new_frames_with_them():
    table = frame()[["a", "b", "subject"]]
    model = HKRRRegressor(random_state=0).fit(table, Y, groups="subject")
    assert list(model.feature_names_in_) == ["a", "b"]
    assert np.array_equal(model.predict(table), model.predict(table[["a", "b"]]))


def test_names_of_groups_change_nothing():
    fits = [blend().fit(X, Y, groups=g) for g in (GROUPS, [f"g{9 - g}" for g in GROUPS])]
    assert np.array_equal(*(one.predict(X) for one in fits))


def test_rows_without_a_target_or_weight_take_their_group_along(recorded):
    y, w, members = Y.copy(), np.ones(N), [("recorder", Recorder()), "linear"]
    y[::7], w[::5] = np.nan, 0.0
    with pytest.warns(UserWarning, match="y is missing"):
        gpukfl.fit(X, y, groups=GROUPS, sample_weight=w, members=members, refit=False)
    assert_apart(recorded()[:8])
    assert not set(Recorder.fitted[0]) & {*range(0, N, 7), *range(0, N, 5)}


def test_copies_are_merged_within_a_group_only():
    rows, y = np.concatenate([X, X]), np.concatenate([Y, Y])
    same = BKerNNRegressor(random_state=0, ridge="auto").fit(rows, y, groups=np.tile(GROUPS, 2))
    other = BKerNNRegressor(random_state=0, ridge="auto").fit(rows, y, groups=np.arange(2 * N) // 8)
    assert (same._n_samples, other._n_samples) == (N, 2 * N)


# -------------------------------------------------------------------------------- bad input


BAD = [
    ({"groups": GROUPS[:-1]}, "groups of 80 rows"),
    ({"groups": np.zeros(N)}, "at least 2 groups"),
    ({"groups": np.where(GROUPS == 2, np.nan, GROUPS)}, "groups without missing values, got"),
    ({"groups": "subject"}, "frame with a column 'subject' for groups"),
    ({"groups": np.zeros((N, 2))}, "groups of 80 rows"),
    ({"time": np.where(TIMES > 30, np.nan, TIMES)}, "time without missing values, got 18"),
    ({"time": np.zeros(N)}, "at least 2 different times"),
    ({"time": ["now"] * N}, "numbers or dates"),
    ({"time": TIMES, "gap": 39}, "a gap that leaves 2 training rows"),
    ({"time": TIMES, "gap": -1}, "gap"),
    ({"time": TIMES, "gap": timedelta(days=1)}, "gap"),
    ({"gap": 1}, "time= with gap="),
    ({"time": TIMES, "cv": KFold(3)}, "time or cv"),
    ({"cv": 5}, "splitter"),
    ({"cv": [([0, 1, N], [3])]}, "indices from 0 to 79"),
    ({"cv": [([0, 1, 2], [2])]}, "no row in both parts"),
    ({"cv": [([0, 1, 2], [])]}, "1 test row in each split"),
    ({"cv": []}, "at least one split"),
]


@pytest.mark.parametrize(("given", "said"), BAD, ids=[said for _, said in BAD])
@pytest.mark.parametrize(
    "fit",
    [
        lambda **given: gpukfl.fit(X, Y, members=[Recorder()], **given),
        lambda **given: blend(members=[Recorder()]).fit(X, Y, **given),
        lambda **given: BKerNNRegressor().fit(X, Y, **given),
    ],
    ids=["fit", "blend", "single"],
)
def test_bad_input_is_one_error_before_anything_is_fitted(recorded, fit, given, said):
    with pytest.raises((TypeError, ValueError), match=said):
        fit(**given)
    assert not Recorder.fitted


def test_a_missing_column_is_named():
    with pytest.raises(ValueError, match="X has no column 'nobody' for groups"):
        blend().fit(frame().drop(columns="y"), Y, groups="nobody")


def test_dates_take_no_number_for_a_gap():
    with pytest.raises(TypeError, match="gap to be a timedelta"):
        blend().fit(frame().drop(columns="y"), Y, time="day", gap=3)


# ------------------------------------------------------------------------------- surroundings


def test_metadata_is_routed_through_pipelines_and_searches(recorded):
    with config_context(enable_metadata_routing=True):
        model = blend(n_folds=2).set_fit_request(groups=True)
        steps = Pipeline([("same", FunctionTransformer()), ("blend", model)])
        steps.fit(X, Y, groups=GROUPS)
        assert_apart(recorded()[:2])
        Recorder.fitted, Recorder.predicted = [], []
        cross_validate(steps, X, Y, cv=GroupKFold(2), params={"groups": GROUPS})
        assert_apart([pair for pair in recorded() if set(pair[0]) != set(pair[1])][:2])
        search = GridSearchCV(steps, {"blend__n_folds": [2, 3]}, cv=GroupKFold(2))
        assert search.fit(X, Y, groups=GROUPS).best_score_ <= 1.0


def test_fits_in_float32_keep_groups(searched):
    rows, y = X.astype(np.float32), Y.astype(np.float32)
    HKRRRegressor(random_state=0).fit(rows, y, groups=GROUPS)
    assert_apart(searched)


def test_fits_on_every_library_keep_groups(searched, on_double):
    rows, y = on_double.put(X), on_double.put(Y)
    HKRRRegressor(random_state=0).fit(rows, y, groups=on_double.put(GROUPS))
    assert_apart(searched)
    searched.clear()
    KernelRidgeRegressor("laplace", random_state=0).fit(rows, y, time=on_double.put(TIMES))


def test_a_model_fits_again_and_tells_its_call(tmp_path):
    table = frame()[["a", "b", "subject", "y"]]
    model = gpukfl.fit(table, "y", groups="subject", members=["linear"])
    assert "groups='subject'" in model.summary() + gpukfl._call.call_text(model)
    again = clone(model).fit(table, "y", groups="subject")
    assert np.array_equal(again.predict(table), model.predict(table))
    model.save(tmp_path / "m.gpukfl")
    loaded = gpukfl.load(tmp_path / "m.gpukfl")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(loaded.predict(table), model.predict(table))
    assert np.array_equal(loaded.estimator.out_of_fold_.groups, model.estimator.out_of_fold_.groups)


def test_a_model_fits_again_with_the_columns_that_it_was_given():
    table = frame()[["a", "b", "subject", "y"]]
    model = gpukfl.fit(table, "y", groups="subject", members=["linear"])
    again = clone(model).fit(table, "y")
    assert np.array_equal(again.predict(table), model.predict(table))
    by_array = gpukfl.fit(table, "y", groups=table["subject"].to_numpy(), members=["linear"])
    with pytest.warns(UserWarning, match="fitted with groups. Without them"):
        by_array.fit(table, "y")


def test_rows_of_dask_are_refused():
    dask = pytest.importorskip("dask.array")
    rows, y = dask.from_array(X), dask.from_array(Y)
    for fit in (
        lambda **given: gpukfl.fit(rows, y, **given),
        lambda **given: blend().fit(rows, y, **given),
        lambda **given: BKerNNRegressor().fit(rows, y, **given),
    ):
        with pytest.raises(TypeError, match="no groups, time or cv with data in Dask"):
            fit(groups=GROUPS)


# ---------------------------------------------------------------------------------- intervals


@pytest.mark.parametrize(("count", "size", "effect"), [(20, 20, 3.0), (40, 5, 1.0), (30, 10, 0.0)])
def test_intervals_hold_new_groups(count, size, effect):
    """As `AutoRegressor` makes them: out-of-fold residuals of a linear model."""
    held = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(count), size)
        rows = np.column_stack([np.ones(count * size), rng.normal(size=count * size)])
        y = rows[:, 1] + effect * rng.normal(size=count)[groups] + rng.normal(size=len(rows))
        folds, predicted, fits = deal_groups(groups, 5, rng_of(seed)), np.empty(len(rows)), []
        for k in range(5):
            inside = folds != k
            fits.append(np.linalg.lstsq(rows[inside], y[inside])[0])
            predicted[~inside] = rows[~inside] @ fits[-1]
        known = Uncertainty.fit(
            rows, y, predicted, folds, rng=rng_of(seed), max_time=0.0, together=groups
        )
        new = np.column_stack([np.ones(100), rng.normal(size=100)])
        truth = new[:, 1] + np.hypot(effect, 1.0) * rng.normal(size=100)
        ends = known.interval(new, np.stack([new @ fit for fit in fits]), coverage=0.9)
        held.append(np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])))
    assert 0.88 < np.mean(held) < 0.93


def test_scores_of_near_copies_are_honest_with_groups():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 20)
    rows = rng.normal(size=(20, 5))[groups] + 0.01 * rng.normal(size=(400, 5))
    y = rng.normal(size=20)[groups] + 0.1 * rng.normal(size=400)
    members = ["linear", "laplace"]
    fit = blend(members=members, n_folds=4).fit(rows, y, groups=groups)
    assert fit.leaderboard()["score"].max() < 0.2
    with pytest.warns(UserWarning, match="rows are nearly equal"):
        plain = blend(members=members, n_folds=4).fit(rows, y)
    assert plain.leaderboard()["score"].max() > 0.9


def test_levels_are_told_by_targets_of_other_groups():
    """A level of one group alone says as much of its rows as a level that nobody has seen."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 5)
    y = 3.0 * rng.normal(size=40)[groups] + 0.1 * rng.normal(size=200)
    table = pd.DataFrame({"city": [f"c{g}" for g in groups], "x": rng.normal(size=200)})
    single = gpukfl.fit(table, y, method="hkrr", groups=groups)
    assert max(one["score"] for one in single.tuning) < 0.2
    blended = gpukfl.fit(table, y, members=["linear", "laplace"], groups=groups, n_folds=4)
    assert blended.leaderboard()["score"].max() < 0.2
