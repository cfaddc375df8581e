"""Where time is short, the best of the first members goes on with more rows than the first few."""

import numpy as np
import pytest
from interruption import interrupt
from portfolio_cases import notes, weights
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge

from gpukfl.portfolio import AutoClassifier, AutoRegressor, Member
from gpukfl.portfolio._budget import Allowance, Budget
from gpukfl.portfolio._train import MemberTrainer

FEW, N = 100, 800
OURS = ["manhattan_laplace", "matern52"]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    """As where a probe says that there is time for so many."""
    monkeypatch.setattr(
        Budget, "measure_allowance", lambda _, __, clock, ___: Allowance(clock, FEW)
    )


@pytest.fixture
def data(rng):
    X = rng.uniform(-1.0, 1.0, (N, 3))
    return X, np.sin(3.0 * X[:, 0]) + X[:, 1] * X[:, 2]


def regressor(members=OURS, **options):
    given = {"n_folds": 1, "max_time": 60.0, "random_state": 0, **options}
    return AutoRegressor(members=members, **given)


def went_on(model):
    """Members of ours that were not fitted to few rows in the end."""
    return [name for name in OURS if "few" not in notes(model)[name].replace(str(FEW), "few")]


def scores(model):
    return {row["member"]: row["score"] for row in model.tuning_}


@pytest.mark.parametrize("n_folds", [1, 3])
def test_the_best_goes_on_with_all_rows_where_there_is_time(n_folds, data, monkeypatch):
    model = regressor(n_folds=n_folds).fit(*data)
    first, last = scores(model)[OURS[0]], scores(model)[OURS[1]]
    assert went_on(model) == [OURS[1] if last > first else OURS[0]]
    monkeypatch.setattr(MemberTrainer, "_continue_best", lambda *_: None)
    before = regressor(n_folds=n_folds).fit(*data)
    assert went_on(before) == []
    assert 1.0 - model.score(*data) < 0.5 * (1.0 - before.score(*data))
    assert sum(row["seconds"] for row in model.tuning_) > 0


def test_the_best_of_classes_goes_on(data):
    model = AutoClassifier(members=OURS, n_folds=1, max_time=60.0, random_state=0)
    assert len(went_on(model.fit(data[0], data[1] > 0))) == 1


def test_without_a_limit_nobody_goes_on(data, monkeypatch):
    monkeypatch.setattr(Budget, "affordable_rows", None)
    assert went_on(regressor(max_time=None).fit(*data)) == []


def test_nobody_goes_on_who_had_a_quarter_of_the_rows(data):
    assert went_on(regressor().fit(data[0][:450], data[1][:450])) == []


def test_nobody_goes_on_for_few_more_rows(data, monkeypatch):
    monkeypatch.setattr(Budget, "affordable_rows", lambda *_: FEW + FEW // 2)
    assert went_on(regressor().fit(*data)) == []


class Worsening(Ridge):
    """Knows the function after few rows, and nothing after more."""

    def fit(self, X, y, sample_weight=None):
        self.n_rows_ = len(X)
        return super().fit(X, y, sample_weight)

    def predict(self, X):
        known = np.sin(3.0 * X[:, 0]) + X[:, 1] * X[:, 2]
        return known if self.n_rows_ == FEW else np.zeros(len(X))


def test_the_best_may_be_of_others_and_the_better_fit_stays(data):
    model = regressor(members=[("mine", Worsening()), *OURS]).fit(*data)
    assert weights(model) == {"mine": 1.0}
    assert model.members_[0].models[0].n_rows_ == FEW
    assert went_on(model) == []


def test_a_member_that_fails_with_more_rows_stays_with_few(data, monkeypatch):
    fitted = Member.fit_clone

    def failing(self, samples, *rest):
        if self.name in OURS and len(samples) > FEW:
            msg = "no room"
            raise MemoryError(msg)
        return fitted(self, samples, *rest)

    monkeypatch.setattr(Member, "fit_clone", failing)
    with pytest.warns(UserWarning, match="fitted to fewer rows: MemoryError: no room"):
        model = regressor().fit(*data)
    assert went_on(model) == []
    assert set(weights(model)) <= set(OURS)


def test_an_interruption_while_the_best_goes_on_keeps_what_there_is(data, monkeypatch):
    interrupt(monkeypatch, Member, "fit_clone", 2)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = regressor().fit(*data)
    assert model.status_ == "INTERRUPTED"
    assert went_on(model) == []
    assert len(model.predict(data[0])) == N
