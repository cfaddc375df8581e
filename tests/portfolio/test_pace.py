"""Members that nothing stops are begun by an estimate, and keep to the time."""

import warnings

import numpy as np
import pytest
from fit_cases import Clock
from hypothesis import given, settings
from hypothesis import strategies as st
from portfolio_cases import classifier, notes, regressor, weights
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from gpukfl import BKerNNRegressor
from gpukfl.estimators._pace import Pace, Size
from gpukfl.portfolio import Member
from gpukfl.portfolio._folds import SquaredError
from gpukfl.portfolio._importances import permutation_importances
from gpukfl.portfolio._members import clone_with_steps, member_work, n_steps, takes_any_columns

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:max_time leaves:UserWarning"
)
BOOSTED = HistGradientBoostingRegressor(max_iter=500, learning_rate=0.02, early_stopping=True)
LOGISTIC = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))


def work(size):
    return float(size.rows) * size.columns * size.steps


sizes = st.builds(
    Size, st.integers(2, 1_000_000), st.integers(1, 10_000), st.sampled_from([1, 50, 300, 1000])
)


@settings(max_examples=60, deadline=None)
@given(
    full=sizes, limit=st.floats(1.0, 30.0), each=st.floats(1e-11, 1e-7), start=st.floats(0, 0.01)
)
def test_what_is_affordable_takes_no_longer_than_it_may(full, limit, each, start):
    spent = []

    def timed(size):
        spent.append(start + each * work(size))
        return spent[-1]

    pace = Pace.measure(full, work, timed, lambda: limit - sum(spent))
    first = 2.0 * sum(start + each * work(one) for one in (Size(50, 2), Size(200, 50, 4)))
    assert sum(spent) <= first + 0.5 * limit  # a few fits, each of a tenth at most
    found = pace.affordable(limit)
    if found is None:
        assert pace.seconds(Size(full.rows >> 1, full.columns)) > 0
        return
    assert start + each * work(found) <= limit
    assert (found.columns, found.rows <= full.rows) == (full.columns, True)
    if start + each * work(full) < 0.05 * limit:
        assert found == full


@pytest.mark.parametrize(
    ("estimator", "steps"),
    [(BOOSTED, 500), (MultiOutputRegressor(BOOSTED), 500), (LOGISTIC, 300), (RidgeCV(), 1)],
)
def test_fewer_steps_are_longer_ones(estimator, steps):
    assert takes_any_columns(estimator)
    assert n_steps(estimator) == steps
    assert str(clone_with_steps(estimator, steps)) == str(estimator)
    few = clone_with_steps(estimator, 1)
    assert n_steps(few) == 1
    assert n_steps(estimator) == steps  # which stays as it was


def test_few_steps_of_boosting_have_a_bounded_rate():
    assert clone_with_steps(BOOSTED, 250).learning_rate == pytest.approx(0.04)
    assert clone_with_steps(BOOSTED, 5).learning_rate == 0.3
    assert not clone_with_steps(BOOSTED, 5).early_stopping


def test_estimators_that_may_know_their_columns_are_not_cut():
    assert not takes_any_columns(SVR())
    assert not takes_any_columns(make_pipeline(StandardScaler(), SVR()))
    assert takes_any_columns(BKerNNRegressor())


def test_a_ridge_regression_solves_for_the_fewer_of_rows_and_columns():
    wide, tall = Size(10, 1000), Size(1000, 10)
    assert member_work(RidgeCV(), 1.0, wide) == member_work(RidgeCV(), 1.0, tall) == 1e5


# ---------------------------------------------------------------------- in a trainer


class Dear:
    """Fits that take so long for each row, column and step, on a clock of their own."""

    def __init__(self, monkeypatch, each):
        self.clock, fitted = Clock(1e-6), Member.fit_clone

        def dear(member, samples, warm_start, max_time, /):
            n, d = samples.X.shape
            takes = 0.0 if member.keeps_time else each * n * d * n_steps(member.estimator)
            self.clock.now += takes
            return fitted(member, samples, warm_start, max_time)

        monkeypatch.setattr(Member, "fit_clone", dear)
        monkeypatch.setattr("time.perf_counter", self.clock)


@settings(max_examples=4, deadline=None)
@given(
    n=st.integers(60, 200),
    d=st.integers(2, 12),
    classes=st.sampled_from([0, 2, 5]),
    limit=st.floats(1.0, 20.0),
    each=st.floats(1e-7, 1e-4),
)
def test_a_limit_is_kept_whatever_a_step_takes(n, d, classes, limit, each):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, d))
    y, make = np.sin(X[:, 0]), regressor
    if classes:
        y, make = np.arange(n) % classes, classifier
    with pytest.MonkeyPatch.context() as patched:
        dear = Dear(patched, each)
        model = make(members=["linear", "trees"], max_time=limit, n_folds=2).fit(X, y)
    assert dear.clock.now <= max(1.3 * limit, limit + 1.0)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.usefixtures("all_steps")
def test_trees_have_as_many_steps_as_there_is_time_for(monkeypatch, rng):
    X = rng.standard_normal((240, 4))
    y = np.where(np.abs(X[:, 0]) > 0.7, 3.0, 0.0) + 0.1 * rng.standard_normal(240)
    Dear(monkeypatch, 3e-4)  # all 100 steps of a fold take 14 s
    model = regressor(members=["linear", "trees"], max_time=20.0, n_folds=2).fit(X, y)
    assert "steps, as time was short" in notes(model)["trees"]
    assert weights(model)["trees"] > 0.9
    assert model.status_ == "TIME_LIMIT"
    assert all(one.n_iter_ < 100 for one in model.members_[0].models if hasattr(one, "n_iter_"))


def test_a_limit_that_leaves_time_for_all_changes_nothing(rng):
    X = rng.standard_normal((300, 5))
    y = np.sin(X[:, 0]) + X[:, 1] ** 2
    options = {"members": ["linear", "trees", "manhattan_laplace"], "n_folds": 2}
    free, limited = (regressor(max_time=limit, **options).fit(X, y) for limit in (None, 1e4))
    np.testing.assert_array_equal(free.predict(X), limited.predict(X))
    np.testing.assert_array_equal(free.feature_importances_, limited.feature_importances_)


# A row takes 20 ms with one column shuffled; 20 rows are the fewest
@pytest.mark.parametrize(
    ("seconds", "count", "n_rows"),
    [(1e3, 6, 50), (3.6, 6, 30), (1.3, 3, 20), (0.0, 0, 0)],
)
def test_importances_are_of_as_many_rows_or_columns_as_there_is_time_for(
    monkeypatch, rng, seconds, count, n_rows
):
    clock = Clock(0.0)
    monkeypatch.setattr("time.perf_counter", clock)
    X = rng.standard_normal((50, 6))
    X = np.linalg.qr(X - X.mean(axis=0))[0]
    truth = X @ 3.0 ** np.arange(6)[:, None]
    asked = []

    def predict(k, rows):
        clock.now += len(rows) / 50
        asked.append(len(rows))
        return rows @ 3.0 ** np.arange(6)[:, None]

    def left():  # seconds from the first shuffle on, as two predictions come before it
        return seconds - max(clock.now - 2.0, 0.0)

    judge = SquaredError(truth, np.ones(50), np.ones(1))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = permutation_importances(
            [X], range(6), 6, predict, judge, np.random.RandomState(0), left
        )
    assert np.count_nonzero(found.shares) == count
    assert not found.shares[: 6 - count].any()
    assert len(found.groups) == 6
    assert sum(asked[2:]) == pytest.approx(count * n_rows, abs=6)
    assert len(said) == (n_rows < 50) + (count == 3)
